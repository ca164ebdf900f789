"""Scores of a greedy answer: exact, contains, prefix. Case counts, white space around a text does not."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    exact: bool  # the reply's first lines, as many as the answer has, are it, a full stop at the end aside
    contains: bool  # the answer stands anywhere in the reply
    prefix: bool  # the reply begins with the answer, which is what teacher forcing scores


def _without_full_stop(text):
    return text.strip().removesuffix(".").rstrip()


def score(reply, answer):
    """The reply's first lines against the answer; spaces around both, and a full stop at the end, do not count."""
    answer = answer.strip()
    if not answer:
        raise ValueError("an empty answer cannot be scored")
    reply = reply.strip()
    # An answer of several lines is compared with as many.
    lines = "\n".join(reply.splitlines()[:len(answer.splitlines())])
    return Score(_without_full_stop(lines) == _without_full_stop(answer), answer in reply, reply.startswith(answer))
