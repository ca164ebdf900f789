"""Runs the program under test."""
import os
import subprocess

ATTEST = os.environ["ATTEST_BIN"]
MOST_SECONDS = 600  # of one that does not end


def run_attest(*arguments, timeout=MOST_SECONDS, **options):
    """The process, which has ended in any way."""
    return subprocess.run([ATTEST, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, **options)


def attest(*arguments, expect=0, **options):
    """The same, whose exit code must be `expect`; None: any."""
    done = run_attest(*arguments, **options)
    assert expect in (None, done.returncode), (done.returncode, done.stdout, done.stderr)
    return done


def attest_without_gpu(folder, *arguments):
    """The process in a folder, as on a machine without a GPU."""
    return run_attest(*arguments, cwd=folder, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
