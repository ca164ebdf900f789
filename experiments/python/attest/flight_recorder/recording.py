"""Reads what FlashInfer's flight recorder (FLASHINFER_LOGLEVEL=10, FLASHINFER_DUMP_SAFETENSORS=1) wrote: a folder per
call.

    FOLDER/session.jsonl                 every record, in order
    FOLDER/TIME_pidN_FUNCTION_callN/     metadata.jsonl    records of the call; the last one is the latest
                                         inputs.safetensors, outputs.safetensors
"""
import dataclasses
import math
import os
import re

from ..base.errors import InputError
from ..base.files import InputFile, MAX_JSON_BYTES, in_quotes, parse_json
from ..importing.safetensors import safetensors_arrays

MOST_CALLS = 100_000


@dataclasses.dataclass
class Call:
    """`given`: name of an argument -> a number, text, list, or SourceArray; those left out are not there. `results`:
    SourceArrays in the order in which the function returned them."""
    folder: str
    function: str  # "BatchDecodeWithPagedKVCacheWrapper.run"
    owner: tuple | None  # the object whose method it is: (process, number)
    order: tuple  # ascending in time
    version: str  # of FlashInfer
    given: dict
    results: list

    def get(self, name, default=None):
        """An argument; one that was given as None has the default."""
        value = self.given.get(name)
        return default if value is None else value

    def fail(self, expected, found):
        """An InputError that names the call's folder and function."""
        raise InputError(f"{self.folder}: {self.function}: expected {expected}, found {found}")


def is_recording(folder):
    """Whether a folder has calls of the recorder."""
    return os.path.isdir(folder) and (
        os.path.isfile(os.path.join(folder, "session.jsonl")) or bool(_call_folders(folder)))


def recorded_files(folder):
    """All files of a recording, without a look at what is in them."""
    found = []
    for path in (folder, *_call_folders(folder)):
        try:
            found += [os.path.join(path, name) for name in os.listdir(path)]
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return found


def read_recording(folder, functions):
    """The calls of the named functions (without their class) of one process, in the order in which they began."""
    calls, places = [], _order(folder)
    for path in _call_folders(folder):
        record = _last_record(os.path.join(path, "metadata.jsonl"))
        name = record.get("function_name")
        if not isinstance(name, str) or name.rpartition(".")[2] not in functions:
            continue
        calls.append(_call(path, name, record, places.get(os.path.basename(path), math.inf)))
    processes = {call.owner[0] for call in calls if call.owner}
    if len(processes) > 1:
        raise InputError(f"{folder}: expected the calls of one process, found those of {len(processes)}; with %i in "
                         "FLASHINFER_DUMP_DIR each has a folder of its own")
    return sorted(calls, key=lambda call: call.order)


def _order(folder):
    """{name of a call's folder: its place}, as the recorder began them; {} without its list."""
    path, places = os.path.join(folder, "session.jsonl"), {}
    if not os.path.exists(path):
        return places
    with InputFile(path):  # a regular file
        pass
    with open(path, "rb") as file:
        for line in iter(lambda: file.readline(MAX_JSON_BYTES), b""):
            if not line.endswith(b"\n") and len(line) < MAX_JSON_BYTES:
                break  # cut where the program was killed: a call that is not listed comes last, as this one did
            record = parse_json(line, path) if line.strip() else {}
            name = record.get("dump_dir") if isinstance(record, dict) else None
            if isinstance(name, str):
                places.setdefault(os.path.basename(name), len(places))
    return places


def _call_folders(folder):
    try:
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)
                     and os.path.isfile(os.path.join(entry.path, "metadata.jsonl"))]
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from error
    if len(found) > MOST_CALLS:
        raise InputError(f"{folder}: expected at most {MOST_CALLS} calls, found {len(found)}")
    return sorted(found)


def _last_record(path):
    with InputFile(path) as file:
        if file.size > MAX_JSON_BYTES:
            raise InputError(f"{path}: expected at most {MAX_JSON_BYTES} bytes, found {file.size}")
        lines = file.read(0, file.size).splitlines()
    lines = [line for line in lines if line.strip()]
    record = parse_json(lines[-1], path) if lines else None
    if not isinstance(record, dict):
        raise InputError(f"{path}: expected a JSON object in the last line, found "
                         f"{'another value' if lines else 'no line'}")
    return record


def _call(path, name, record, place):
    def field(key, kind, default=None):
        value = record.get(key, default)
        if not isinstance(value, kind) or isinstance(value, bool) and kind is int:
            raise InputError(f"{path}/metadata.jsonl: expected {key} of another type, found {in_quotes(value)}")
        return value

    if record.get("graph_capture"):
        raise InputError(f"{path}: was recorded inside a CUDA graph, whose snapshots attest does not read; run the "
                         "program without CUDA graphs")
    process, sequence = field("process_id", int, 0), field("call_sequence", int, 0)
    owner = None if record.get("self_id") is None else (process, field("self_id", int))
    versions = field("versions", dict, {})
    names = parameter_names(field("function_signature", str, ""))
    inputs = _tensors(path, "inputs")
    described = field("input_metadata", dict, {})
    given = {}
    for key in [*inputs, *described]:
        if re.fullmatch(r"arg_[0-9]{1,6}|kwarg_\w+", key):
            value = inputs[key] if key in inputs else _value(described[key], inputs, path)
            given[_argument(key, names)] = value
    order = (place, field("timestamp", str, ""), sequence)  # times have milliseconds
    return Call(path, name, owner, order, str(versions.get("flashinfer", "unknown")), given,
                _results(path))


def parameter_names(signature):
    """The names of positional parameters in the text of a signature, "(self, q: torch.Tensor, *args, out=None)"."""
    names, depth, piece = [], 0, ""
    for character in signature.partition("(")[2] + ",":
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            if not depth:
                character = ","
            depth -= 1
        if character == "," and depth <= 0:
            name = re.match(r"\s*(\*{0,2}\w*)", piece)[1]
            if name.startswith("*") or depth < 0:
                return names + ([name] if name and not name.startswith("*") else [])
            names += [name] if name else []
            piece = ""
        else:
            piece += character
    return names


def _argument(key, names):
    """"arg_1" as the parameter's name; those beyond the named ones are "*N"."""
    kind, _, rest = key.partition("_")
    if kind == "kwarg":
        return rest
    return names[int(rest)] if int(rest) < len(names) else f"*{rest}"


def _tensors(path, kind):
    """{key: SourceArray} of the inputs or outputs; {} where there is none."""
    file = os.path.join(path, f"{kind}.safetensors")
    if not os.path.exists(file):
        if os.path.exists(os.path.join(path, f"{kind}.pt")):
            raise InputError(f"{path}/{kind}.pt: expected safetensors, found pickled objects, which can run code; "
                             "record with FLASHINFER_DUMP_SAFETENSORS=1")
        return {}
    with InputFile(file) as opened:
        return {array.name: array for array in safetensors_arrays(opened)}


def _value(described, tensors, path):
    """What the recorder's description of a value means; of kinds that do not matter here the description."""
    if not isinstance(described, dict):
        return described
    if "tensor_key" in described:
        key = described["tensor_key"]
        if not isinstance(key, str) or key not in tensors:
            raise InputError(f"{path}: expected a tensor {in_quotes(key)}, found none")
        return tensors[key]
    if described.get("type") in ("tuple", "list") and isinstance(described.get("items"), list):
        return [_value(item, tensors, path) for item in described["items"]]
    return described


def _results(path):
    """Results come as "result", or "result_0", "result_1" of a tuple."""
    tensors = _tensors(path, "outputs")
    if "result" in tensors:
        return [tensors["result"]]
    return [tensors[key] for key in sorted(tensors) if re.fullmatch(r"result_\d", key)]
