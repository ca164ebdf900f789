"""Types of options about tasks and prompts."""
from ..base.arguments import argument
from .families import TASKS


@argument(f"a list of tasks such as kv,mk (of {', '.join(TASKS)})")
def task_list(text):
    names = text.split(",")
    if not set(names) <= set(TASKS) or len(set(names)) < len(names):
        raise ValueError
    return names


@argument("a list of lengths in tokens such as 4K,16000")
def length_list(text):
    lengths = [int(item[:-1]) * 1024 if item.endswith("K") else int(item) for item in text.split(",")]
    if min(lengths) < 1 or len(set(lengths)) < len(lengths):
        raise ValueError
    return lengths


@argument("a token id")
def token_id(text):
    if int(text) < 0:
        raise ValueError
    return int(text)


@argument("a number of prompts above 0, or a .jsonl file")
def prompts_of(text):
    """An int, or the name of a file."""
    if text.endswith(".jsonl"):
        return text
    value = int(text)
    if value < 1:
        raise ValueError
    return value
