"""Types of options about tasks and prompts."""
from ..base.arguments import ABOVE_0, argument, digits
from .families import TASKS


@argument(f"a list of tasks such as kv,mk (of {', '.join(TASKS)})")
def task_list(text):
    """Parses names of tasks, each once."""
    names = text.split(",")
    if not set(names) <= set(TASKS) or len(set(names)) < len(names):
        raise ValueError
    return names


@argument("a list of lengths in tokens such as 4K,16000")
def length_list(text):
    """Parses numbers of tokens, "4K,8192", each once."""
    lengths = [digits("[0-9]+", item.removesuffix("K")) * (1024 if item.endswith("K") else 1)
               for item in text.split(",")]
    if min(lengths) < 1 or len(set(lengths)) < len(lengths):
        raise ValueError
    return lengths


@argument("a token id")
def token_id(text):
    """Parses the number of a token."""
    return digits("[0-9]+", text)


@argument("a number of prompts above 0, or a .jsonl file")
def prompts_of(text):
    """An int, or the name of a file."""
    return text if text.endswith(".jsonl") else digits(ABOVE_0, text)
