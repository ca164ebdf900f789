"""Options of Python programs take the numbers that the program's own options take."""
import argparse

import pytest
from attest.base.arguments import count


@pytest.mark.parametrize("text", ["1", "10", "007"])
def test_counts(text):
    assert count(text) == int(text)


@pytest.mark.parametrize("text", ["", "0", "-1", "1_0", " 7", "7 ", "+7", "1.0", "\u0667", "x"])
def test_what_is_no_count(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number above 0"):
        count(text)
