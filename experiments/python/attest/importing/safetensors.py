"""Reads the header of a safetensors file: 8 bytes of length, JSON, then the data without gaps.
https://github.com/huggingface/safetensors#format"""
import functools
import json

from ..base.errors import InputError
from ..base.files import FileBytes, MAX_JSON_BYTES, in_quotes, parse_json
from .source_array import MOST_ELEMENTS, SourceArray, element_count, shape_text

SAFETENSORS_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2,
                     "U16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}
SAFETENSORS_TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def safetensors_arrays(file):
    """The arrays of an open InputFile, in the order of the header."""
    length = int.from_bytes(file.read(0, 8), "little")
    max_bytes = min(MAX_JSON_BYTES, file.size - 8)
    if length > max_bytes:
        raise InputError(
            f"{file.path}: safetensors header: expected at most {max_bytes} bytes, found a length of {length}"
        )
    header = parse_json(file.read(8, length), f"{file.path}: safetensors header")
    if not isinstance(header, dict):
        raise InputError(f"{file.path}: safetensors header: expected a JSON object, found another value")
    header.pop("__metadata__", None)
    data_begin = 8 + length
    data_bytes = file.size - data_begin
    arrays, ranges = [], []
    for name, description in header.items():
        try:
            type_name, shape, begin, end = _check(description, data_bytes)
        except ValueError as error:
            raise InputError(f"{file.path}: tensor {in_quotes(name)}: {error}") from error
        arrays.append(SourceArray(file.path, name, type_name, shape,
                                  functools.partial(FileBytes, file.path, data_begin + begin),
                                  SAFETENSORS_TYPES.get(type_name), type_name in ("U16", "I16"),
                                  begin=data_begin + begin))
        ranges.append((begin, end, name))
    _check_no_holes(file.path, sorted(ranges), data_bytes)
    return arrays


def _check(description, data_bytes):
    """Checks type, shape and byte range. Raises a ValueError that says what was expected and found. Headers of 80,000
    tensors are checked in a moment: a sentence is made only of what is wrong."""
    if not isinstance(description, dict):
        raise ValueError("expected a JSON object, found another value")
    for key in ("dtype", "shape", "data_offsets"):
        if key not in description:
            raise ValueError(f"expected {key}, found none")
    type_name, shape, offsets = description["dtype"], description["shape"], description["data_offsets"]
    if not isinstance(type_name, str):
        raise ValueError("expected a string 'dtype', found another value")
    if not isinstance(shape, list):
        raise ValueError("expected an array 'shape', found another value")
    for axis in shape:
        if type(axis) is not int or not 0 <= axis <= MOST_ELEMENTS:
            raise ValueError(f"expected axes that are whole numbers, found {in_quotes(json.dumps(axis))}")
    if not (isinstance(offsets, list) and len(offsets) == 2 and type(offsets[0]) is type(offsets[1]) is int
            and offsets[0] >= 0 <= offsets[1]):
        raise ValueError(f"expected two whole numbers 'data_offsets', found {in_quotes(json.dumps(offsets))}")
    begin, end = offsets
    if not begin <= end <= data_bytes:
        raise ValueError(f"expected data_offsets within the {data_bytes} bytes of data, found [{begin}, {end}]")
    item = SAFETENSORS_BYTES.get(type_name)
    if item:
        elements = element_count(shape)
        if elements is None or elements * item != end - begin:
            raise ValueError(f"expected data_offsets that span shape {shape_text(shape)} of {type_name}, found "
                             f"{end - begin} bytes")
    return type_name, tuple(shape), begin, end


def _check_no_holes(path, ranges, data_bytes):
    """Refuses bytes that belong to no tensor, which could hide data, or to two, which could claim more than the file
    has."""
    covered = 0
    for begin, end, name in ranges:
        if begin != covered:
            raise InputError(f"{path}: tensor {in_quotes(name)}: expected data_offsets that begin at byte {covered}, "
                             f"where the tensors before it end, found {begin}")
        covered = end
    if covered != data_bytes:
        raise InputError(f"{path}: safetensors header: expected tensors of all {data_bytes} bytes of data, "
                         f"found {covered}")
