"""Prompts of a capture, read from text and .jsonl files."""
import difflib
import json
import pathlib
from dataclasses import dataclass, field

from ..base.arguments import chosen_layers, refuse_missing_layer
from ..base.errors import InputError
from ..base.files import in_quotes, kind_of, parse_json
from ..base.stored_text import SAMPLE_NAME, is_sample_name

MAX_PROMPT_BYTES = 32 << 20  # of a text file, or of a line of a .jsonl file
# Of a line of a .jsonl file.
FIELDS = ("text", "tokens", "task", "document", "name", "answer", "spans", "span_labels", "layers", "question")


@dataclass
class Prompt:
    name: str
    task: str
    where: str  # file and line, for messages
    text: str | None = None
    tokens: list | None = None  # given instead of text
    answer: str | list | None = None  # text, or token ids where the prompt is token ids
    spans: list = field(default_factory=list)
    span_labels: list | None = None
    layers: set | None = None  # None: those of the command line
    question: list | str | None = None  # where it stands in the prompt, like a span
    document: str | None = None  # the text that it was made of, where several prompts share one


def refuse_same_names(prompts):
    """A sample's name is that of its group in the dump."""
    names = set()
    for prompt in prompts:
        if prompt.name in names:
            raise InputError(f"{prompt.where}: a second sample is named {prompt.name!r}")
        names.add(prompt.name)


def layers_of(prompt, ranges, num_layers):
    """The prompt's own layers, else those of --layers (`ranges`), else all."""
    if prompt.layers:
        refuse_missing_layer(max(prompt.layers), num_layers, f"{prompt.where}: ", InputError)
    return prompt.layers or chosen_layers(ranges or [(0, None)], num_layers)


def read_prompts(path, task=None, spans_field=None):
    """A .jsonl file holds one prompt per line; any other file is one prompt."""
    path = pathlib.Path(path)
    if path.exists() and not path.is_file():  # a pipe would block for ever
        raise InputError(f"{path}: expected a file, found {kind_of(path.stat().st_mode)}")
    try:
        with open(path, "rb") as file:
            if path.suffix == ".jsonl":
                return _read_lines(file, path, task, spans_field)
            content = _read_text(file.read(MAX_PROMPT_BYTES + 1), path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if not content:
        raise InputError(f"{path}: the prompt is empty")
    if spans_field:
        raise InputError(f"{path}: --spans needs a .jsonl file")
    if not is_sample_name(path.stem):
        raise InputError(f"{path}: the sample would be named {in_quotes(path.stem)}, expected {SAMPLE_NAME}")
    return [Prompt(path.stem, task or "text", str(path), text=content)]


def _read_lines(file, path, task, spans_field):
    prompts = []
    for number, line in enumerate(iter(lambda: file.readline(MAX_PROMPT_BYTES + 1), b""), 1):
        if line.strip():
            where = f"{path}:{number}"
            _refuse_long(line, where)
            prompts.append(_read_line(line, where, len(prompts), task, spans_field))
    if not prompts:
        raise InputError(f"{path}: no prompt in it")
    return prompts


def _refuse_long(content, where):
    if len(content) > MAX_PROMPT_BYTES:
        raise InputError(f"{where}: expected a prompt of at most {MAX_PROMPT_BYTES >> 20} MiB, found a longer one")


def _read_text(content, where):
    _refuse_long(content, where)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: is not UTF-8 text ({error})") from error


def _is_numbers(value):
    return isinstance(value, list) and bool(value) and all(type(t) is int and t >= 0 for t in value)


def _refuse_unknown_fields(entry, where, known):
    """A misspelt field would otherwise be a field left out: spans would be lost without a word."""
    for name in entry:
        if name not in known:
            # Scored by hand, as get_close_matches gives nothing when no name comes near.
            nearest = max(known, key=lambda field: difflib.SequenceMatcher(None, name.lower(), field).ratio())
            raise InputError(f'{where}: unknown field "{name}", the nearest is "{nearest}" (known: {", ".join(known)})')


def _read_line(line, where, index, task, spans_field):
    entry = parse_json(line, where)
    try:
        json.dumps(entry, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: expected Unicode text, found half of a surrogate pair") from error
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected a JSON object, found a {type(entry).__name__}")
    _refuse_unknown_fields(entry, where, [*FIELDS, spans_field] if spans_field else FIELDS)
    if spans_field and spans_field not in entry:
        raise InputError(f'{where}: no field "{spans_field}", which --spans asks for')
    text, tokens, answer = entry.get("text"), entry.get("tokens"), entry.get("answer")
    if (text is None) == (tokens is None):
        raise InputError(f'{where}: expected either "text" or "tokens"')
    if tokens is None:
        valid = isinstance(text, str) and text and (answer is None or isinstance(answer, str))
    else:
        valid = _is_numbers(tokens) and (answer is None or _is_numbers(answer))
    if not valid:
        raise InputError(f'{where}: "text" and its "answer" are strings, "tokens" and their "answer" lists of token '
                         "ids, none of them empty")
    task = task or entry.get("task", "text")
    name = entry.get("name", f"{str(task).rsplit('/', 1)[-1]}_{index}")
    if not isinstance(name, str) or not is_sample_name(name):
        raise InputError(f'{where}: "name" must be {SAMPLE_NAME}, found {in_quotes(json.dumps(name))}')
    if not isinstance(task, str) or "\0" in task:
        raise InputError(f'{where}: "task" must be a string without NUL, found {in_quotes(json.dumps(task))}')
    document = entry.get("document")
    if document is not None and (not isinstance(document, str) or not document or "\0" in document):
        raise InputError(f'{where}: "document" must be a string')
    spans, labels, layers = entry.get(spans_field or "spans", []), entry.get("span_labels"), entry.get("layers")
    if layers is not None and not _is_numbers(layers):
        raise InputError(f'{where}: "layers" must be a list of layer numbers')
    if not isinstance(spans, list):
        raise InputError(f"{where}: spans must be a list")
    if labels is not None and (not isinstance(labels, list) or len(labels) != len(spans)
                               or not all(isinstance(label, str) for label in labels)):
        raise InputError(f'{where}: "span_labels" must be {len(spans)} strings, one per span')
    return Prompt(name, task, where, text, tokens, answer, spans, labels, set(layers) if layers else None,
                  entry.get("question"), document)
