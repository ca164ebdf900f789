"""Runs `attest figures`."""

import os
import shutil
import subprocess

import pytest

ATTEST = os.environ["ATTEST_BIN"]
HAS_GNUPLOT = shutil.which("gnuplot") is not None
needs_gnuplot = pytest.mark.skipif(not HAS_GNUPLOT, reason="gnuplot is not installed")


def figures(*arguments, expect=0, env=None):
    done = subprocess.run([ATTEST, "figures", *map(str, arguments)], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == expect, done.stderr + done.stdout
    return done
