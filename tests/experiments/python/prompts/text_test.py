"""Lines laid out in a haystack: where they begin, what spans say, and lengths under tokenizers that count oddly."""

import pytest

from prompt_tokenizers import HAYSTACK
from attest.prompts.episode import Episode, Line, line_with
from attest.prompts.text import filled_to, lay_out


def episode(*places):
    lines = [line_with(f"code {i} is ", f"<{i}>", ".\n") for i in range(len(places))]
    return Episode(lines, list(places), "\nWhich?", "<0>")


def marked(text):
    return [text.text[begin:end] for begin, end in text.evidence]


def test_lines_begin_at_starts_of_lines():
    text = lay_out(episode(0.0, 0.4, 0.4, 0.99), "one\ntwo two\nthree\n")
    assert text.text == ("code 0 is <0>.\none\ncode 1 is <1>.\ncode 2 is <2>.\ntwo two\ncode 3 is <3>.\nthree\n"
                         "\nWhich?")
    assert marked(text) == ["<0>", "<1>", "<2>", "<3>"] and text.text[slice(*text.question)] == "Which?"


def test_long_lines_are_broken_between_words():
    text = lay_out(episode(0.5), "word " * 400)
    assert text.text == "word " * 200 + "\ncode 0 is <0>.\n" + "word " * 200 + "\nWhich?"
    assert marked(text) == ["<0>"]


def test_a_place_of_one_is_the_end():
    text = lay_out(Episode([Line("\nlist", [(1, 5)])], [1.0], "\nWhich?", "x"), "one\ntwo")
    assert text.text == "one\ntwo\nlist\nWhich?" and marked(text) == ["list"]


def test_no_haystack():
    assert lay_out(episode(0.2, 0.7), "").text == "code 0 is <0>.\ncode 1 is <1>.\n\nWhich?"


@pytest.mark.parametrize("count", [
    len,
    lambda text: len(text) // 5 + 1,
    lambda text: len(text.split()),
    lambda text: len(text) + 3 * text.count("\ncode"),  # depends on what stands before a line
    lambda text: 2 * (len(text) // 2) + (text[0] in "aeiou"),  # odd only with some first characters
])
def test_lengths(count):
    for wanted in range(200, 240):
        text = filled_to(wanted, episode(0.3, 0.8), HAYSTACK, HAYSTACK.line_start(0.5), count)
        assert count(text.text) == wanted
        assert marked(text) == ["<0>", "<1>"] and text.text[slice(*text.question)] == "Which?"


def test_what_no_text_reaches_is_at_most_missed_by_little():
    text = filled_to(301, episode(0.5), HAYSTACK, 0, lambda text: 4 * (len(text) // 4))
    assert len(text.text) // 4 * 4 == 300
    assert filled_to(20, episode(0.5), HAYSTACK, 0, len) is None
