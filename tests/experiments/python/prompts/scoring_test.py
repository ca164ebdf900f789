"""Scores of replies: each kind where it holds and where it does not."""

import pytest

from attest.prompts.scoring import Score, score


@pytest.mark.parametrize("reply, answer, exact, contains, prefix", [
    ("1234567", "1234567", True, True, True),
    (" 1234567.\nQuestion: another", "1234567", True, True, True),
    ("1234567\r\nmore", " 1234567", True, True, True),
    ("1234567 and so on", "1234567", False, True, True),
    ("12345678", "1234567", False, True, True),  # a token may hold more than the answer
    ("It is 1234567.", "1234567", False, True, False),
    ("1234568", "1234567", False, False, False),
    ("123456", "1234567", False, False, False),
    ("", "1234567", False, False, False),
    ("\n\n1, 2\n", "1, 2", True, True, True),
    ("2, 1", "1, 2", False, False, False),
    ("ABC", "abc", False, False, False),
    ("one\ntwo\nthree", "one\ntwo", True, True, True),
    ("St. John.", "St. John.", True, True, True),
    ("St. John", "St. John.", True, False, False),
])
def test_scores(reply, answer, exact, contains, prefix):
    assert score(reply, answer) == Score(exact, contains, prefix)


def test_an_empty_answer_is_refused():
    for answer in ("", " \n"):
        with pytest.raises(ValueError, match="empty answer"):
            score("anything", answer)
