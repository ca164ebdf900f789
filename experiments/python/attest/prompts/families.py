"""The retrieval tasks by name."""
from collections.abc import Callable
from dataclasses import dataclass

from .key_values import key_value
from .needles import multi_key, multi_query, multi_value, single
from .variables import variable_tracking
from .words import common_words, frequent_words


@dataclass
class Task:
    meaning: str
    make: Callable  # (size, words, random numbers) -> Episode
    fills: bool = False  # grows with its size until the prompt is full


TASKS = {
    "niah": Task("one needle", single),
    "mk": Task("one of as many needles as fit", multi_key, fills=True),
    "mv": Task("all four numbers of one key", multi_value),
    "mq": Task("the numbers of four keys", multi_query),
    "vt": Task("all variables of one value, through assignments", variable_tracking),
    "kv": Task("one of as many hexadecimal keys as fit", key_value, fills=True),
    "cwe": Task("the three most common words of a list", common_words, fills=True),
    "fwe": Task("the three most frequent made-up words of a list", frequent_words, fills=True),
}
