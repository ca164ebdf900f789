"""No text of a figure leaves its page."""

import html
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from attest_program import run_attest
import outcomes_maker

DUMPS = Path(os.environ["ATTEST_SOURCE_DIR"]) / "dumps"
CACHES = ["a_format_of_the_cache_with_a_long_label=kv_cache:k=nvfp4,v=nvfp4", "kv_cache:k=fp8_e4m3,v=fp8_e4m3"]
SELECTORS = [*CACHES, "ffd", "ffd:gqa=per_head", "ffd:rule=topk", "quest:dense_layers=0", "streaming_llm", "topk",
             "topp", "topdelta"]
MEAN_WIDTH = 0.55  # of a character of DejaVu Sans, in ems
pytestmark = pytest.mark.skipif(shutil.which("gnuplot") is None, reason="gnuplot is not installed")


def attest(*arguments):
    done = run_attest("--quiet", *arguments)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """The figures of the demo."""
    folder = tmp_path_factory.mktemp("edges")
    selectors = [word for selector in SELECTORS for word in ("--selector", selector)]
    attest("--device", "cpu", "run", DUMPS / "demo.h5", DUMPS / "demo-long.h5", "-o", folder / "r.h5", *selectors,
           "--delta", "1,2,3,5,7,9",
           "--budget", "12.5%,25%,50%,100%", "--p", "0.5,0.85,0.99")
    attest("figures", folder / "r.h5", "-o", folder / "f", "--format", "svg")
    for name, options in (("narrow", ["--width", "60mm"]), ("slides", ["--style", "slides"])):
        attest("figures", folder / "r.h5", "-o", folder / name, "--format", "svg", *options)
        for path in (folder / name).glob("*.svg"):
            path.rename(folder / "f" / f"{name}_{path.name}")
    rng = np.random.default_rng(2)  # predictors of failures have long labels at the end of an axis
    bad = 10 ** rng.uniform(-3.6, -0.2, (60, len(outcomes_maker.every_run())))
    bad[:20] = 0  # nothing is lost: the label is that of the axis' floor
    answered = (outcomes_maker.write_results(folder / "j.h5", bad),
                outcomes_maker.write_tasks(folder / "t.h5", rng.uniform(size=bad.shape) < bad**0.3))
    attest("figures", *answered, "-o", folder / "g", "--only", "failure_prediction", "--format", "svg")
    for path in (folder / "g").glob("*.svg"):
        path.rename(folder / "f" / path.name)
    return folder / "f"


def test_no_text_is_wider_than_its_page(figures):
    texts = re.compile(
        r'<g transform="translate\(([\d.-]+),([\d.-]+)\)(?: rotate\(([-\d.]+)\))?"[^>]*font-size="([\d.]+)"[^>]*'
                       r'text-anchor="(\w+)"[^>]*>\s*<text>(.*?)</text>', re.S)
    count, pictures = 0, sorted(figures.glob("*.svg"))
    assert len(pictures) >= 45 and any(path.name == "kv_range.svg" for path in pictures)
    for path in pictures:
        svg = path.read_text()
        width, height = (int(size) for size in re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups())
        for x, y, turned, size, anchor, text in texts.findall(svg):
            text = html.unescape(re.sub("<[^>]*>", "", text)).strip()
            length = len(text) * float(size) * MEAN_WIDTH
            before = {"start": 0, "middle": length / 2, "end": length}[anchor]
            first = float(y) - length + before if turned and float(turned) else float(x) - before
            assert -1 <= first and first + length <= (height if turned and float(turned) else width) + 1, \
                f"{path.name}: {text}"
            count += 1
    assert count > 900
