"""Runs `attest figures`."""

import shutil

import pytest

from attest_program import attest

HAS_GNUPLOT = shutil.which("gnuplot") is not None
needs_gnuplot = pytest.mark.skipif(not HAS_GNUPLOT, reason="gnuplot is not installed")


def figures(*arguments, expect=0, env=None):
    return attest("figures", *arguments, env=env, expect=expect)
