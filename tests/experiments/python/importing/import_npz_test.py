"""Reads npz archives: valid, forged and damaged ones."""
import io
import random
import struct

import numpy as np
import pytest

from array_files import archive, entry, message_of, npy, npy_header, open_descriptors, read_all, write
from attest.importing.sources import open_source


def noise(size):
    """Bytes that deflate cannot shrink to nothing."""
    return bytes(random.Random(7).choices(range(17), k=size))


@pytest.mark.filterwarnings("ignore:Reading `.npy`")
def test_types_shapes_orders_and_versions_are_those_of_the_file(tmp_path):
    path = write(tmp_path / "a.npz", archive(
        entry("f4.npy", npy(npy_header("<f4", "(2, 3)"), b"a" * 24)),
        entry("f2.npy", npy(npy_header("<f2", "(5,)", True), b"0123456789", 2), deflated=True),
        entry("u2.npy", npy(npy_header("<u2", "()"), b"xy", 3), zip64=True),
        entry("v2.npy", npy(npy_header("|V2", "(1L, 1L)"), b"xy")),  # as Python 2 wrote them
        entry("f8.npy", npy(npy_header("<f8", "(1,)"), b"12345678")),
        entry("big.npy", npy(npy_header(">f4", "(1,)"), b"1234")),
        entry("record.npy", npy("{'descr': [('a', '<f4'), ('b', '<f4', (2,))], 'fortran_order': False, 'shape': (1,)}",
                                b"123456789012")),
        entry("two_bytes.npy", npy("{'descr': [('a', '|u1'), ('b', '|u1')], 'fortran_order': False, 'shape': (1,)}",
                                   b"xy")),
        entry("object.npy", npy(npy_header("|O", "(1,)"), b"pickle")),
        entry("readme.txt", b"not an array"),
        entry("Größe.npy", npy(npy_header("<f4", "(1,)"), b"1234"))))
    arrays = {array.name: array for array in open_source(path)}
    assert list(arrays) == ["f4", "f2", "u2", "v2", "f8", "big", "record", "two_bytes", "object", "Größe"]
    assert arrays["f4"].element_type == "float32" and arrays["f4"].shape == (2, 3) and not arrays["f4"].column_major
    assert arrays["f2"].element_type == "float16" and arrays["f2"].column_major
    assert arrays["u2"].shape == () and arrays["v2"].shape == (1, 1)
    assert [name for name, array in arrays.items() if array.may_hold_bfloat16] == ["u2", "v2"]
    assert [name for name, array in arrays.items() if array.element_type] == ["f4", "f2", "Größe"]
    assert arrays["record"].type_name == arrays["two_bytes"].type_name == "[...]" and arrays["object"].type_name == "|O"
    assert read_all(arrays["f4"]) == b"a" * 24 and read_all(arrays["f2"], 3) == b"0123456789"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("step", [999, 1 << 30])
def test_values_are_those_that_numpy_wrote(save, step, tmp_path):
    values = np.frombuffer(noise(300_000), "<f4")
    save(tmp_path / "a.npz", x=values, y=values[:7].astype("<f2"))
    x, y = open_source(str(tmp_path / "a.npz"))
    for _ in range(2):
        assert read_all(x, step) == values.tobytes() and read_all(y, step) == values[:7].astype("<f2").tobytes()


@pytest.mark.parametrize("deflated", [False, True])
def test_a_checksum_that_differs_is_found_when_all_was_read(deflated, tmp_path):
    content = npy(npy_header("<f4", "(20000,)"), noise(80_000))
    path = write(tmp_path / "a.npz", archive(entry("x.npy", content, deflated, crc=12345)))
    [x] = open_source(path)
    reader = x.open()
    assert reader.read(79_000) == noise(80_000)[:79_000]
    assert message_of(reader.read, 1000) == \
        f"{path}: zip archive: member 'x.npy': expected {len(content)} bytes of data, found a checksum that differs"


CONTENT = npy(npy_header("<f4", "(1,)"), b"1234")  # 72 bytes
ENTRY = entry("x.npy", CONTENT)
MEMBER = "zip archive: member 'x.npy': "


def changed(**claimed):
    return archive(ENTRY | claimed)


@pytest.mark.parametrize("content, sentence", [
    (archive(ENTRY)[:100], "zip archive: expected its end record, found none (a truncated file?)"),
    (changed(flags=1), MEMBER + "expected plain data, found an encrypted member"),
    (changed(method=12), MEMBER + "expected a stored or deflated member, found compression method 12"),
    (changed(size=1000), MEMBER + "expected exactly 72 bytes for 72 stored ones, found 1000"),
    (changed(stored=1000, size=1000),
     MEMBER + "expected data before the directory at byte 107, found 1000 bytes at 35"),
    (changed(zip64=True, stored=(1 << 63) - 1, size=(1 << 63) - 1),
     MEMBER + "expected data before the directory at byte 127, found 9223372036854775807 bytes at 55"),
    (archive(entry("x.npy", CONTENT, True, size=10**9)),
     MEMBER + "expected at most 72240 bytes for 69 stored ones, found 1000000000"),
    (changed(offset=1), MEMBER + "expected a header at byte 1, found other bytes"),
    (changed(offset=1 << 30), MEMBER + "expected a header before the directory at byte 107, found one at 1073741824"),
    (archive(ENTRY, zip64_end=True, directory_bytes=1 << 62),
     "zip archive: cannot be read (Bad offset for central directory)"),
    (archive(ENTRY, ENTRY), "expected each member once, found 'x.npy' twice"),
])
def test_forged_archives_are_refused_in_one_sentence(content, sentence, tmp_path):
    path = write(tmp_path / "bad.npz", content)
    found = message_of(open_source, path)
    # Python's releases differ in what they say of a central directory.
    found = found.replace("(Corrupt zip64 end of central directory record)", "(Bad offset for central directory)")
    assert found == f"{path}: {sentence}"


def test_a_directory_that_is_too_long_to_parse_is_refused_by_its_length(tmp_path):
    path = write(tmp_path / "a.npz", b"PK")
    with open(path, "r+b") as file:
        file.seek(1 << 30)  # sparse: takes no space on the disk
        file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, 1 << 29, 1 << 29, 0))
    assert message_of(open_source, path) == \
        f"{path}: zip archive: cannot be read (a directory of 536870912 bytes, expected at most 16777216)"


@pytest.mark.parametrize("other", ["in_it", "from_it_on"])
def test_members_that_share_bytes_are_refused(other, tmp_path):
    """Otherwise a file of some KB could expand to GB, with the same deflated megabytes in every member."""
    inner = archive(entry("y.npy", CONTENT))[:len(CONTENT) + 35]  # a local header and its data
    outer = entry("x.npy", npy(npy_header("|u1", f"({len(inner)},)"), inner))
    at = 0 if other == "from_it_on" else len(outer["content"]) - len(inner) + 35
    path = write(tmp_path / "a.npz", archive(outer, entry("y.npy", CONTENT, offset=at) | {"data": b""}
                                             | {"stored": len(CONTENT)}))
    complaint = message_of(open_source, path)
    assert "expected members that do not overlap, found '" in complaint and complaint.endswith("' in the same bytes")


def array(header, data=b"1234", version=1):
    return archive(entry("x.npy", npy(header, data, version)))


@pytest.mark.parametrize("content, sentence", [
    (archive(entry("x.npy", b"hello, no array")),
     "expected that of a NumPy array, found 'the magic string is not correct"),
    (archive(entry("x.npy", b"\x93NUM")), "expected that of a NumPy array, found 'EOF: reading magic string"),
    (array(npy_header("<f4", "(1,)"), version=4), "expected that of a NumPy array, found 'version (4, 0)'"),
    (archive(entry("x.npy", b"\x93NUMPY\2\0\xff\xff\xff\xff{}")),
     "found 'EOF: reading array header, expected 4294967295 bytes got 2'"),
    (array("42"), "found 'Header is not a dictionary: 42'"),
    (array("{'descr': '<f4"), "array header: expected that of a NumPy array, found '"),
    (array("{'descr': '<f4', 'fortran_order': False}"),
     "found 'Header does not contain the correct keys: ['descr', 'fortran_order']'"),
    (array("{'fortran_order': 1, 'descr': '<f4', 'shape': (1,)}"), "found 'fortran_order is not a valid bool: 1'"),
    (array(npy_header("no_type", "(1,)")), "found 'descr is not a valid dtype descriptor: 'no_type''"),
    (array(npy_header("<f4", "[1]")), "found 'shape is not valid: [1]'"),
    (array(npy_header("<f4", "(1,)") + "os.system"), "array header: expected that of a NumPy array, found '"),
    (array("__import__('os').abort()"), "found 'malformed node or string on line 1"),
    (array("-" * 9000 + "1"), "array header: expected that of a NumPy array, found '"),
    (array("[" * 9000), "array header: expected that of a NumPy array, found '"),
    (array("1" + "+1" * 4500), "array header: expected that of a NumPy array, found '"),
    (array("9**9**9**9"), "found 'malformed node or string on line 1"),
    (array(" " * 20_000, version=2), "array header: expected that of a NumPy array, found '"),
    (array(npy_header("<f4", "(-1,)")), "expected data for shape [-1] of '<f4', found 4 bytes"),
    (array(npy_header("<f4", "(0, -1)")), "expected data for shape [0, -1] of '<f4', found 4 bytes"),
    (array(npy_header("<f4", "(99999999999999999999,)")),
     "expected data for shape [99999999999999999999] of '<f4', found 4 bytes"),
    (array(npy_header("<f4", "(2,)")), "expected data for shape [2] of '<f4', found 4 bytes"),
    (array(npy_header("<f4", "(1,)"), b"12345"), "expected data for shape [1] of '<f4', found 5 bytes"),
    (array(npy_header("<f4", "(4294967296, 4294967296)")),
     "expected data for shape [4294967296, 4294967296] of '<f4', found 4 bytes"),
    (array(npy_header("|V2147483647", "(1,)")), "expected data for shape [1] of '|V2147483647', found 4 bytes"),
])
def test_array_headers_that_are_none_are_refused(content, sentence, tmp_path):
    path = write(tmp_path / "bad.npz", content)
    complaint = message_of(open_source, path)
    assert complaint.startswith(f"{path}: tensor 'x': ") and sentence in complaint and len(complaint) < len(path) + 250


@pytest.mark.parametrize("inflates_to, found", [(29_000, "fewer"), (31_000, "more")])
def test_a_member_that_inflates_to_another_size_is_refused(inflates_to, found, tmp_path):
    header = npy_header("<f4", "(7500,)")
    forged = entry("x.npy", npy(header, noise(inflates_to)), deflated=True)
    declared = npy(header, noise(30_000))
    # Name, size and checksum are those of what is declared.
    forged |= entry("x.npy", declared, deflated=True) | {"data": forged["data"]}
    [x] = open_source(write(tmp_path / "a.npz", archive(forged)))
    assert message_of(read_all, x).endswith(f"member 'x.npy': expected {len(declared)} bytes of data, found {found}")


def test_damaged_deflate_data_is_refused(tmp_path):
    good = archive(entry("x.npy", npy(npy_header("<f4", "(7500,)"), noise(30_000)), deflated=True))
    refused = 0
    for at in range(10_000, 12_000, 100):  # after the bytes that are read for the header
        [x] = open_source(write(tmp_path / "x.npz", good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1:]))
        refused += "bytes of data, found" in message_of(read_all, x)
    assert refused == 20


def test_whatever_the_bytes_it_reads_or_refuses(tmp_path):
    good = archive(entry("a.npy", npy(npy_header("<f4", "(3,)"), b"abcdefghijkl"), deflated=True),
                   entry("b.npy", npy(npy_header("<f2", "(2, 1)"), b"abcd"), zip64=True), zip64_end=True)
    path = tmp_path / "x.npz"

    def reads(content):
        path.write_bytes(content)
        try:
            arrays = [read_all(array) for array in open_source(str(path)) if array.element_type]
        except Exception as error:
            assert getattr(error, "exit_code", None) == 4, error
            return False
        assert sum(map(len, arrays)) < 2000 * len(content)
        return True

    descriptors = open_descriptors()
    assert reads(good)
    assert not any(reads(good[:length]) for length in range(len(good)))
    flipped = [good[:i] + bytes([good[i] ^ flip]) + good[i + 1:] for i in range(len(good)) for flip in (0x01, 0xff)]
    assert any([reads(content) for content in flipped])
    assert open_descriptors() == descriptors


def test_pickles_are_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return open, (str(tmp_path / "pwned"), "w")

    saved = io.BytesIO()
    np.savez(saved, q=np.array([Bomb()], object))
    [q] = open_source(write(tmp_path / "a.npz", saved.getvalue()))
    assert q.element_type is None and q.type_name == "|O"
    assert not (tmp_path / "pwned").exists()
