"""measure_runs.py runs what it says, in turn, and compares what came out."""

import json
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/experiments/commands"), str(ROOT / "experiments/ranks")]

import measure_runs  # noqa: E402
import rank_runs  # noqa: E402

rank_runs.needs_torch()


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    return rank_runs.write_dump(tmp_path_factory.mktemp("measure") / "dump.h5", tokens=200, layers=3)


def measure(*arguments):
    return subprocess.run([sys.executable, ROOT / "experiments/ranks/measure_runs.py", *map(str, arguments)], env=rank_runs.CLEAN,
                          capture_output=True, text=True)


def test_ways_are_timed_and_compared(dump, tmp_path):
    done = measure(dump, "cpu", "torchrun:2", "--repeats", "1", "--folder", tmp_path, "--json", "--", "--selector", "ffd", "--threads", "1")
    assert done.returncode == 0, done.stderr
    one, ranks = json.loads(done.stdout)
    assert one["way"] == "cpu" and one["ratio"] == 1 and one["seconds"] == one["ranks"] and len(one["seconds"]) == 1
    assert 0 < ranks["median_of_ranks"] < ranks["median"], "torchrun itself takes some time"
    assert ranks["ratio"] == one["median"] / ranks["median_of_ranks"]
    assert one["same_bits"] and ranks["same_bits"]
    assert not list(tmp_path.iterdir()), "the results are removed"


def test_a_run_that_fails_is_said(dump):
    done = measure(dump, "cpu", "--repeats", "1", "--", "--selector", "nobody")
    assert done.returncode == 1 and "cpu: exit status 2" in done.stderr and "nobody" in done.stderr
    assert measure(dump, "--repeats", "0").returncode == 2


def test_other_bits_are_seen(tmp_path):
    for name, value in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        with h5py.File(tmp_path / name, "w") as file:
            file["x/y"] = value
    (tmp_path / "d").write_bytes((tmp_path / "a").read_bytes())
    with h5py.File(tmp_path / "d", "a") as file:
        file["x/z"] = 1.0
    assert measure_runs.same_bits(tmp_path / "a", tmp_path / "b")
    assert not measure_runs.same_bits(tmp_path / "a", tmp_path / "c")
    assert not measure_runs.same_bits(tmp_path / "d", tmp_path / "a"), "a data set is missing"
    assert not measure_runs.same_bits(tmp_path / "a", tmp_path / "d"), "there is one more"
