"""A short run of every reader written in C++ on made inputs."""
import os
import re
import subprocess

import pytest

FUZZ = os.environ["ATTEST_FUZZ"]
READERS = subprocess.run([FUZZ, "--list"], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("reader", READERS)
def test_whatever_the_input_it_is_read_or_refused(reader, tmp_path):
    done = subprocess.run([FUZZ, "--reader", reader, "--short", "--failures", tmp_path], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    inputs, accepted, refused = map(int, re.search(
        r"(\d+) inputs .* (\d+) accepted, (\d+) refused", done.stdout).groups())
    assert inputs == accepted + refused
    # Else the changes are too many, so that nothing lies behind the first check, or too few.
    assert min(accepted, refused) > inputs / 50, done.stdout
