"""Makes bytes of safetensors files and npz archives, also damaged or forged, and imports the modules under test."""
import io
import json
import os
import struct
import zlib

import pytest

from attest.base.errors import AttestError
from attest.importing.source_array import SourceArray


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def npy(header, data=b"", version=1):
    """An .npy file with this header, a Python literal."""
    text = (header + "\n").encode("latin-1")
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def npy_header(descr, shape, column_major=False):
    return f"{{'descr': '{descr}', 'fortran_order': {column_major}, 'shape': {shape}, }}"


def deflate(data):
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def entry(name, content, deflated=False, **claimed):
    """A member for archive(). `claimed` may name flags, method, size, stored, crc, offset, and zip64 for 64-bit fields;
    all others are correct."""
    return dict(name=name.encode(), content=content, data=deflate(content) if deflated else content,
                method=8 if deflated else 0) | claimed


def archive(*entries, zip64_end=False, members=None, directory_bytes=None):
    """Bytes of a zip file."""
    file, directory = b"", b""
    for e in entries:
        size, stored = e.get("size", len(e["content"])), e.get("stored", len(e["data"]))
        offset = e.get("offset", len(file))
        fields = struct.pack("<HHII", e.get("flags", 0), e["method"], 0, e.get("crc", zlib.crc32(e["content"])))
        extra, far_extra, sizes, far = b"", b"", struct.pack("<II", stored & 0xFFFFFFFF, size & 0xFFFFFFFF), offset
        if e.get("zip64"):
            extra = struct.pack("<HHQQ", 1, 16, size, stored)
            far_extra = struct.pack("<HHQQQ", 1, 24, size, stored, offset)
            sizes, far = b"\xff" * 8, 0xFFFFFFFF
        directory += (b"PK\1\2" + struct.pack("<HH", 45, 45) + fields + sizes
                      + struct.pack("<HHHHHII", len(e["name"]), len(far_extra), 0, 0, 0, 0, far)
                      + e["name"] + far_extra)
        file += (b"PK\3\4" + struct.pack("<H", 45) + fields + sizes + struct.pack("<HH", len(e["name"]), len(extra))
                 + e["name"] + extra + e["data"])
    begin, count = len(file), len(entries) if members is None else members
    length = len(directory) if directory_bytes is None else directory_bytes
    file += directory
    if zip64_end:
        end64 = len(file)
        file += b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, length, begin)
        file += b"PK\6\7" + struct.pack("<IQI", 0, end64, 1)
        return file + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return file + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, length, begin, 0)


def write(path, content):
    path.write_bytes(content)
    return str(path)


def read_all(array, step=1 << 30):
    """The bytes of a SourceArray of float16, bfloat16 or float32, in parts of `step`."""
    left = {"float16": 2, "bfloat16": 2, "float32": 4}[array.element_type]
    for axis in array.shape:
        left *= axis
    reader, parts = array.open(), []
    while left:
        parts.append(reader.read(min(step, left)))
        left -= len(parts[-1])
    reader.close()
    return b"".join(parts)


def message_of(call, *arguments):
    """The message of the typed error that a call raises."""
    with pytest.raises(AttestError) as caught:
        call(*arguments)
    return str(caught.value)


def memory_array(name, values, **fields):
    """A SourceArray of a NumPy array in memory; column-major arrays stay so."""
    column_major = values.ndim > 1 and values.flags.f_contiguous and not values.flags.c_contiguous
    content = values.tobytes(order="F" if column_major else "C")
    return SourceArray("memory", name, "F32", values.shape, lambda: io.BytesIO(content),
                       **{"element_type": str(values.dtype), "column_major": column_major} | fields)


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))
