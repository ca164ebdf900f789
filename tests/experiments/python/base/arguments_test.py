"""Options of Python programs take the numbers that the program's own options take."""
import argparse

import pytest
from attest.base.arguments import count, whole_number
from attest.prompts.arguments import length_list, prompts_of, token_id


@pytest.mark.parametrize("text", ["1", "10", "007"])
def test_counts(text):
    assert count(text) == int(text)


@pytest.mark.parametrize("text", ["", "0", "-1", "1_0", " 7", "7 ", "+7", "1.0", "\u0667", "x"])
def test_what_is_no_count(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number above 0"):
        count(text)


@pytest.mark.parametrize("read", [whole_number, token_id, prompts_of, length_list,
                                  lambda text: length_list(f"{text}K")])
@pytest.mark.parametrize("text", ["1_0", " 7", "7 ", "+7", "\u0667", ""])
def test_numbers_are_digits_alone(read, text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a"):
        read(text)


def test_numbers():
    assert (whole_number("-7"), token_id("0"), prompts_of("12"), length_list("4K,16000")) == (-7, 0, 12, [4096, 16000])
