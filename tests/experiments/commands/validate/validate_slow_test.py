"""`attest validate` on as many prompts as a real verdict has: little memory, few seconds."""

import os
import subprocess
import sys

import numpy as np
import pytest
from attest_program import ATTEST
from planted_results import write_planted

MOST_MEMORY = 128 << 10  # KiB, of a process and the one that reads for it
MOST_SECONDS = 20  # of a processor, of which a run takes about one

MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_maxrss, used.ru_utime + used.ru_stime)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """30 and 300 prompts of 32 layers, 32 heads and 61 settings."""
    folder, grid = tmp_path_factory.mktemp("large"), np.arange(61) * 0.25 + 1
    paths = []
    for prompts in (30, 300):
        base = np.random.default_rng(0).exponential(size=(prompts, 32, 1, 32, 1)).astype(np.float32)
        deficit = base * (np.exp(-grid) * 0.1).astype(np.float32)
        paths.append(write_planted(folder / f"{prompts}.h5", {"recall": 1 - deficit, "io_ratio": 0 * deficit + 0.5},
                                   settings=grid, kv_heads=8))
    return paths


@pytest.mark.parametrize("options", [["--target", "recall>=0.999"], ["--target", "recall.p1>=0.99"],
                                     ["--target", "recall.min>=0.99", "--per", "kv_head"],
                                     ["--target", "recall>=0.999", "--per", "kv_head", "--io-budget", "60%", "--claim",
                                      "mean"]])
def test_memory_does_not_grow_with_the_prompts(files, options):
    peaks = []
    for path in files:
        done = subprocess.run([sys.executable, "-c", MEASURED, ATTEST, "validate", path, *options, "--threads", "2"],
                              capture_output=True,
                              text=True, timeout=600, check=True)
        code, peak, seconds = map(float, done.stdout.split())
        print(os.path.basename(path), *options, f"exit {code:.0f}, {peak / 1024:.0f} MiB, {seconds:.1f} s")
        assert code in (0, 3) and peak <= MOST_MEMORY and seconds <= MOST_SECONDS
        peaks.append(peak)
    assert peaks[1] <= 1.25 * peaks[0] + 8192, peaks
