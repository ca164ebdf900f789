"""Values of tensors in safetensors files: whole, or rows of the slowest axis."""
import math

import numpy as np

from ..base.errors import InputError
from ..base.files import FileBytes
from ..importing.source_array import shape_text

INTEGERS = {"I64": np.int64, "I32": np.int32, "U32": np.uint32, "I16": np.int16, "U8": np.uint8}
FLOATS = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "F8_E4M3": np.uint8, "F8_E5M2": np.uint8}
MOST_INTEGERS = 1 << 26  # of an index


def decode_e4m3(code):
    """1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinities."""
    sign, exponent, mantissa = code >> 7, code >> 3 & 15, code & 7
    if exponent == 15 and mantissa == 7:
        return math.nan
    return (-1) ** sign * (mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))


TABLES = {"F8_E4M3": np.array([decode_e4m3(code) for code in range(256)], np.float32),
          # e5m2 is the upper half of float16
          "F8_E5M2": (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float32)}


def integers(array, axes):
    """A small tensor of whole numbers as int64, with the given number of axes."""
    kind = INTEGERS.get(array.type_name)
    if kind is None or len(array.shape) != axes:
        raise InputError(f"{array.place()}: expected {axes} axes of whole numbers, found {array.type_name} "
                         f"{shape_text(array.shape)}")
    if math.prod(array.shape) > MOST_INTEGERS:
        raise InputError(f"{array.place()}: expected at most {MOST_INTEGERS} numbers, found {shape_text(array.shape)}")
    return _read(array, kind, 0, array.shape).astype(np.int64)


def rows(array, begin, count):
    """`count` rows of the slowest axis as float32, exactly."""
    kind = FLOATS.get(array.type_name)
    if kind is None:
        raise InputError(f"{array.place()}: expected float32, float16, bfloat16 or 8-bit floats, found "
                         f"{array.type_name}")
    if not 0 <= begin <= begin + count <= array.shape[0]:
        raise InputError(f"{array.place()}: expected rows {begin} to {begin + count}, found {array.shape[0]}")
    found = _read(array, kind, begin, (count, *array.shape[1:]))
    if array.type_name == "BF16":
        return (found.astype(np.uint32) << 16).view(np.float32)
    return TABLES[array.type_name][found] if array.type_name in TABLES else found.astype(np.float32)


def _read(array, kind, begin, shape):
    row = math.prod(array.shape[1:]) * np.dtype(kind).itemsize
    reader = FileBytes(array.file, array.begin + begin * row)
    try:
        return np.frombuffer(reader.read(shape[0] * row if shape else np.dtype(kind).itemsize), kind).reshape(shape)
    except MemoryError as error:
        raise InputError(f"{array.place()}: {shape_text(shape)} does not fit in memory") from error
    finally:
        reader.close()
