"""Runs `attest figures`, also on a study whose cells tests pool by themselves."""

import shutil

import pytest

from attest_program import attest
from results_maker import EXACT, ffd, quest, selector, write_results

HAS_GNUPLOT = shutil.which("gnuplot") is not None
needs_gnuplot = pytest.mark.skipif(not HAS_GNUPLOT, reason="gnuplot is not installed")


def figures(*arguments, expect=0, env=None):
    return attest("figures", *arguments, env=env, expect=expect)


def number(row, column):
    return float(row[column])


@pytest.fixture
def study(tmp_path):
    """Four selectors; quest is dense in layers 0 and 1; sample c has fewer layers; layer 5 of sample b was left out."""
    selectors = [EXACT, ffd(), ffd("ffd:gqa=per_head", "per_head"), quest(), selector("best,k", "topk", "budget")]
    path = write_results(tmp_path / "r.h5", selectors, skipped={("b", 5)})
    out = tmp_path / "out"
    report = figures(path, "-o", out, "--format", "svg")
    return path, out, report.stdout
