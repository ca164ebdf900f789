"""Members of an npz archive. zipfile reads the directory and numpy the array headers. Values are inflated here, so that
no member can hold more or less than it declares."""
import functools
import io
import zipfile
import zlib
from dataclasses import dataclass

import numpy as np

from ..base.errors import InputError, first_line
from ..base.files import FileBytes, in_quotes
from .source_array import SourceArray, element_count, shape_text

MAX_DIRECTORY_BYTES = 16 << 20  # enough for 300,000 members; zipfile needs up to 20 times this much memory
LOCAL_HEADER_BYTES = 30
LONGEST_ARRAY_HEADER = 12 + 10_000  # numpy's own limit, after magic, version and length
MAX_EXPANSION = 1032  # deflate cannot shrink data more (https://zlib.net/zlib_tech.html)
INFLATE_STEP = 1 << 16  # compressed bytes

NUMPY_TYPES = {"<f4": "float32", "<f2": "float16"}
# Version 3 differs from 2 only in the encoding of field names, and the types of a dump have no fields.
ARRAY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0,
                 (3, 0): np.lib.format.read_array_header_2_0}
BFLOAT16_CARRIERS = ("<u2", "<i2", "|V2")  # ml_dtypes stores bfloat16 as two bytes without type


@dataclass(slots=True)
class Member:
    path: str
    name: str
    begin: int  # offset of the data in the file
    stored: int  # bytes in the file
    size: int  # bytes once inflated
    deflated: bool
    crc: int

    def fail(self, expected, found):
        """An InputError that names the archive and the member."""
        raise InputError(f"{self.path}: zip archive: member {in_quotes(self.name)}: expected {expected}, found {found}")


class MemberBytes:
    """Reads the bytes of a member in order. Size and checksum are compared after the last byte."""

    def __init__(self, member, skip=0):
        self.member, self.position, self.crc = member, 0, 0
        self.stored = FileBytes(member.path, member.begin)
        self.stored_left = member.stored
        self.inflater = zlib.decompressobj(-zlib.MAX_WBITS) if member.deflated else None
        try:
            self.read(skip)
        except BaseException:
            self.close()
            raise

    def read(self, size):
        """The next bytes, inflated; the checksum is compared at the end."""
        data = self._inflate(size) if self.inflater else self.stored.read(size)
        self.position += size
        self.crc = zlib.crc32(data, self.crc)
        if size and self.position == self.member.size:
            if self.inflater and self._inflate_step(1):
                self._damaged("more")
            if self.crc != self.member.crc:
                self._damaged("a checksum that differs")
        return data

    def close(self):
        """Gives the descriptor of the archive back."""
        self.stored.close()

    def _inflate(self, size):
        parts = []
        while size:
            part = self._inflate_step(size)
            if not part:
                self._damaged("fewer")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _inflate_step(self, max_bytes):
        """Returns at most `max_bytes` bytes; none only at the end of the stream or of the stored data."""
        while not self.inflater.eof:
            compressed = self.inflater.unconsumed_tail
            if not compressed:
                compressed = self.stored.read(min(INFLATE_STEP, self.stored_left))
                self.stored_left -= len(compressed)
            try:
                part = self.inflater.decompress(compressed, max_bytes)
            except zlib.error:
                self._damaged("damaged ones")
            if part or not compressed:
                return part
        return b""

    def _damaged(self, found):
        self.member.fail(f"{self.member.size} bytes of data", found)


def npz_arrays(file):
    """The arrays of an open InputFile, in the order of the archive's directory."""
    arrays = [_array(member) for member in _members(file) if member.name.endswith(".npy")]
    seen = set()
    for array in arrays:
        if array.name in seen:
            raise InputError(f"{file.path}: expected each member once, found {in_quotes(array.name + '.npy')} twice")
        seen.add(array.name)
    return arrays


class _BoundedReader(io.FileIO):
    """zipfile reads the whole directory at once, as long as the file claims it is. This bounds it."""

    def read(self, size=-1):
        if size > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"a directory of {size} bytes, expected at most {MAX_DIRECTORY_BYTES}")
        return super().read(size)


def _members(file):
    try:
        with zipfile.ZipFile(_BoundedReader(file.descriptor, closefd=False), metadata_encoding="utf-8") as archive:
            infos, directory = archive.infolist(), archive.start_dir
    except Exception as error:  # zipfile raises exceptions of many types on damaged bytes
        sentence = f"cannot be read ({first_line(error)})"
        if str(error) == "File is not a zip file":
            sentence = "expected its end record, found none (a truncated file?)"
        raise InputError(f"{file.path}: zip archive: {sentence}") from error
    members, ranges = [], []
    for info in infos:
        member = Member(file.path, info.filename, 0, info.compress_size, info.file_size,
                        info.compress_type == zipfile.ZIP_DEFLATED, info.CRC)
        _locate(file, info, member, directory)
        members.append(member)
        ranges.append((info.header_offset, member.begin + member.stored, member.name))
    ranges.sort()
    for (_, end, name), (begin, _, other) in zip(ranges, ranges[1:]):
        if begin < end:  # otherwise a small file could claim huge arrays
            raise InputError(f"{file.path}: zip archive: expected members that do not overlap, found {in_quotes(name)} "
                             f"and {in_quotes(other)} in the same bytes")
    return members


def _locate(file, info, member, directory):
    """Finds the data of a member, and checks that it can be what the directory says."""
    if info.flag_bits & 1:
        member.fail("plain data", "an encrypted member")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        member.fail("a stored or deflated member", f"compression method {info.compress_type}")
    if not 0 <= info.header_offset <= directory - LOCAL_HEADER_BYTES:
        member.fail(f"a header before the directory at byte {directory}", f"one at {info.header_offset}")
    header = file.read(info.header_offset, LOCAL_HEADER_BYTES)
    if not header.startswith(b"PK\3\4"):
        member.fail(f"a header at byte {info.header_offset}", "other bytes")
    name_and_extra = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    member.begin = info.header_offset + LOCAL_HEADER_BYTES + name_and_extra
    if member.stored < 0 or member.begin + member.stored > directory:
        member.fail(f"data before the directory at byte {directory}", f"{member.stored} bytes at {member.begin}")
    if not member.deflated and member.size != member.stored:
        member.fail(f"exactly {member.stored} bytes for {member.stored} stored ones", member.size)
    max_bytes = (member.stored + 1) * MAX_EXPANSION
    if member.size > max_bytes:
        member.fail(f"at most {max_bytes} bytes for {member.stored} stored ones", member.size)


def _array(member):
    name = member.name.removesuffix(".npy")
    place = f"{member.path}: tensor {in_quotes(name)}"
    (shape, column_major, dtype), header_bytes = _read_header(member, place)
    type_name = "[...]" if dtype.names or dtype.subdtype else dtype.str
    elements, data = element_count(shape), member.size - header_bytes
    if not dtype.hasobject and (elements is None or elements * dtype.itemsize != data):
        raise InputError(f"{place}: expected data for shape {shape_text(shape)} of {in_quotes(type_name)}, "
                         f"found {data} bytes")
    return SourceArray(member.path, name, type_name, shape, functools.partial(MemberBytes, member, header_bytes),
                       NUMPY_TYPES.get(type_name), type_name in BFLOAT16_CARRIERS, column_major)


def _read_header(member, place):
    """Returns (shape, column_major, dtype), and the offset of the values."""
    reader = MemberBytes(member)
    try:
        start = io.BytesIO(reader.read(min(member.size, LONGEST_ARRAY_HEADER)))
    finally:
        reader.close()
    try:
        return ARRAY_HEADERS[np.lib.format.read_magic(start)](start), start.tell()
    except Exception as error:  # numpy evaluates a Python literal, which can fail in many ways
        found = f"version {error}" if isinstance(error, KeyError) else first_line(error)
        raise InputError(f"{place}: array header: expected that of a NumPy array, found {in_quotes(found)}") from error
