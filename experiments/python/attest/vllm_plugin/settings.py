"""What to capture: from environment variables for the whole engine, from arguments of a request for that request."""
import dataclasses
import json
import os
import re

from ..base.arguments import layer_list
from ..base.errors import UsageError
from ..base.stored_text import SAMPLE_NAME, is_sample_name

PREFIX = "ATTEST_VLLM_"
# Begins the names of a request's own arguments: extra_args of SamplingParams, "vllm_xargs" of HTTP.
ARGUMENT = "attest_"
ARGUMENTS = ("name", "task", "layers", "last", "decode", "positions", "sample")


@dataclasses.dataclass
class Settings:
    """What ATTEST_VLLM_X says is field x."""
    folder: str
    layers: list | None = None  # as layer_list gives it; None: all that a dump can describe
    last: int = 4  # queries of the prompt
    decode: int = 4  # queries of decoded tokens
    requests: int = 16  # the first ones; 0: those that have arguments of their own
    memory: float = 4.0  # GiB for the requests that are under way


def read_settings(environment):
    """None without ATTEST_VLLM_FOLDER. A name that is not known is refused: it would be a setting left out."""
    given = {name.removeprefix(PREFIX).lower(): text for name, text in environment.items() if name.startswith(PREFIX)}
    readers = {"folder": str, "layers": layer_list, "last": _whole, "decode": _whole, "requests": _whole,
               "memory": _positive}
    for name in given:
        if name not in readers:
            known = ", ".join(PREFIX + known.upper() for known in readers)
            raise UsageError(f"{PREFIX}{name.upper()}: no such setting of attest (known: {known})")
    if not given.get("folder"):
        return None
    values = {name: _read(readers[name], text, PREFIX + name.upper()) for name, text in given.items() if text}
    return Settings(**{**values, "folder": os.path.abspath(given["folder"])})


def _whole(text):
    if not re.fullmatch(r"\d{1,9}", str(text), re.ASCII):
        raise ValueError("a whole number")
    return int(text)


def _positive(text):
    if not re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII) or float(text) == 0:
        raise ValueError("a number above 0")
    return float(text)


def _read(reader, text, name):
    try:
        return reader(text)
    except Exception as error:  # layer_list raises a type of argparse
        expected = error if type(error) is ValueError else "a list of layers such as 0,4,8-"
        raise UsageError(f"{name}: expected {expected}, found {str(text)!r}") from error


def _ascend(positions):
    return (isinstance(positions, list) and all(type(p) is int and p >= 0 for p in positions)
            and sorted(set(positions)) == positions)


@dataclasses.dataclass
class Wish:
    """What to capture of one request. Its prompt has `prompt_length` tokens."""
    name: str
    task: str
    layers: list | None
    prompt_length: int
    positions: list | range  # of the queries, ascending
    own: bool  # it has arguments of its own
    sample: dict  # spans, span_labels, document, prompt_length as attest capture knows them

    @property
    def num_tokens(self):
        """Up to the last query: later ones are not kept."""
        return self.positions[-1] + 1


def read_wish(settings, request_id, prompt_length, extra_args):
    """The Wish of a request, from its arguments attest_* over the settings; None if it has none and none is wanted of
    such."""
    given = {name.removeprefix(ARGUMENT): value for name, value in (extra_args or {}).items()
             if name.startswith(ARGUMENT)}
    for name in given:
        if name not in ARGUMENTS:
            raise UsageError(f"{ARGUMENT}{name}: no such argument of attest (known: "
                             f"{', '.join(ARGUMENT + known for known in ARGUMENTS)})")
    if not given and not settings.requests:
        return None

    def number(name):
        return _read(_whole, given[name], ARGUMENT + name) if name in given else getattr(settings, name)

    positions = given.get("positions")
    if positions is None:
        positions = range(max(0, prompt_length - number("last")), prompt_length + number("decode"))
    elif isinstance(positions, str):
        positions = _read(json.loads, positions, f"{ARGUMENT}positions")
    if not positions or not isinstance(positions, range) and not _ascend(positions):
        raise UsageError(f"request {request_id}: expected ascending positions of queries, found {positions}")
    name = str(given.get("name", request_id))
    if not is_sample_name(name):
        raise UsageError(f"{ARGUMENT}name: expected {SAMPLE_NAME}, found {name!r}")
    layers = _read(layer_list, given["layers"], f"{ARGUMENT}layers") if "layers" in given else settings.layers
    return Wish(name, str(given.get("task", "vllm")), layers, prompt_length, positions, bool(given),
                json.loads(given.get("sample", "{}")))
