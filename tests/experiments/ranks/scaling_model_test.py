"""The model of experiments/CLUSTERS.md: limits of each part, what bounds the whole, and the numbers that the page quotes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "experiments/ranks/scaling_model.py"


def model(*arguments):
    return subprocess.run([sys.executable, MODEL, *arguments], capture_output=True, text=True)


def limits(*arguments):
    return json.loads(model("--json", *arguments).stdout)


def test_each_part_is_a_division():
    found = limits("--nodes", "2", "--gpus-per-node", "4", "--gpu-ms", "10", "--layer-mb", "100", "--node-read", "5", "--file-read", "8",
                   "--file-write", "4", "--node-write", "1", "--result-mb", "2", "--assembly-ms", "2", "--assembly-threads", "3",
                   "--store-calls", "6176", "--terabytes", "0.1")
    parts = found["layers_per_second"]
    assert parts["GPUs"] == 800 and parts["reading, machines"] == 100 and parts["reading, file system"] == 80
    assert parts["writing finished layers"] == 2000 and parts["rank 0: writing results"] == 500 and parts["rank 0: assembly"] == 1500
    assert parts["store"] == 1000  # 8 ranks poll 22 times per second, a layer takes 6 round trips
    assert found["bound_by"] == "reading, file system" and found["layers"] == 1000
    assert found["seconds"] == pytest.approx(1000 / 80) and found["gpus_that_each_keeps_busy"]["reading, file system"] == pytest.approx(0.8)


@pytest.mark.parametrize("text", ["0", "-1", "x", "nan", "inf"])
def test_what_is_no_number_is_refused(text):
    result = model("--nodes", text)
    assert result.returncode == 2 and "is not a number above 0" in result.stderr or "invalid" in result.stderr


def test_the_page_has_the_numbers_of_the_command():
    page = (ROOT / "experiments/CLUSTERS.md").read_text()
    for line in model().stdout.splitlines():
        assert line.strip() in page, line
