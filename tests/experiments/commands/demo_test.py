"""`attest demo` on the real executable and the real embedded dumps."""

import os
import re
from pathlib import Path

import pytest

from attest_program import attest

FIGURES = ("quality_vs_io", "layer_sparsity", "pseudo_max_gap", "head_weights")


def demo(folder, *more, expect=0):
    return attest("demo", "-o", folder, *more, expect=expect)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    return folder, demo(folder).stdout


def test_it_shows_each_command_and_what_the_pictures_say(made):
    folder, said = made
    for command in ("inspect", "run", "figures", "claims", "report"):
        assert f"$ attest {command} " in said
    for name in FIGURES:
        assert (folder / f"{name}.csv").stat().st_size > 0
        assert f"{folder}/{name}." in said
    for sentence in ("At io ", "ffd at delta 5 keeps ", "At delta 7 ffd ", "From exact scores the pseudo-max of ffd "):
        assert sentence in said
    assert said.endswith(f"\nOpen the report in a browser: {folder}/report.html\n")
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert "nan" not in said.lower()
    assert "left out" not in said, "the embedded files support every figure"


def test_the_page_of_claims_in_the_documents_is_that_of_the_demo(made):
    """experiments/claims/DEMO.md: made by the demo; the hash of results changes with the time in their manifest."""
    kept = (Path(os.environ["ATTEST_SOURCE_DIR"]) / "experiments/claims/DEMO.md").read_text()
    pages = [re.sub(r"\([0-9a-f]{16}\)", "", page) for page in (kept, (made[0] / "claims.md").read_text())]
    number = r"-?\d+(?:\.\d+)?"
    words, others = (re.split(number, page) for page in pages)
    assert words == others
    for ours, theirs in zip(*(re.findall(number, page) for page in pages), strict=True):
        assert float(ours) == pytest.approx(float(theirs), rel=2e-3, abs=2e-3), (
            "another machine rounds otherwise, no more")


def test_a_folder_of_someone_else_is_left_alone(tmp_path):
    (tmp_path / "results.h5").write_text("precious")
    refused = demo(tmp_path, expect=5)
    assert "is not a demo's folder: choose another with -o" in refused.stderr
    assert (tmp_path / "results.h5").read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["results.h5"]
