"""Reads headers of safetensors files: valid, malformed and damaged ones."""
import json
import time

import pytest

from array_files import message_of, open_descriptors, read_all, safetensors, tensor, write
from attest.importing.sources import open_source

HEADER = {"__metadata__": {"format": "pt"}, "x": tensor("BF16", [2, 3], 4, 16), "h": tensor("F16", [2], 0, 4),
          "f": tensor("F32", [], 16, 20), "u": tensor("U16", [1], 20, 22), "d": tensor("F64", [0, 7], 22, 22),
          "q": tensor("F8_E4M3", [2, 2], 22, 26)}


def test_types_shapes_and_values_are_those_of_the_file(tmp_path):
    header = json.dumps(HEADER).encode() + b"   "  # writers pad the header to align the data
    path = write(tmp_path / "a.safetensors", safetensors(header, b"hhHHabcdefghijklFFFFuuqqqq"))
    arrays = {array.name: array for array in open_source(path)}
    assert list(arrays) == ["x", "h", "f", "u", "d", "q"]
    assert {name: array.element_type for name, array in arrays.items()} == \
        {"x": "bfloat16", "h": "float16", "f": "float32", "u": None, "d": None, "q": None}
    assert arrays["x"].shape == (2, 3) and not arrays["x"].column_major and arrays["f"].shape == ()
    assert arrays["u"].may_hold_bfloat16 and not arrays["x"].may_hold_bfloat16 and arrays["q"].type_name == "F8_E4M3"
    assert arrays["x"].place() == f"{path}: tensor 'x'"
    assert read_all(arrays["x"]) == b"abcdefghijkl" and read_all(arrays["x"], 5) == b"abcdefghijkl"
    assert read_all(arrays["f"]) == b"FFFF"


def one(description, data=b"12345678"):
    text = description if isinstance(description, bytes) else json.dumps(description).encode()
    return safetensors(b'{"x":' + text + b"}", data)


@pytest.mark.parametrize("content, sentence", [
    (b"\x64" + bytes(7) + b"{}", "safetensors header: expected at most 2 bytes, found a length of 100"),
    (b"\xff" * 8 + b"{}", "safetensors header: expected at most 2 bytes, found a length of 18446744073709551615"),
    (safetensors(b'{"x":'), "safetensors header: expected JSON, found 'Expecting value: line 1 column 6 (char 5)'"),
    (bytes(8) + b"{", "safetensors header: expected JSON, found 'Expecting value: line 1 column 1 (char 0)'"),
    (safetensors(b'{"\xff":1}'),
     "safetensors header: expected JSON, found ''utf-8' codec can't decode byte 0xff in position 2: "
     "invalid start byte'"),
    (safetensors(b'{"x":NaN}'), "safetensors header: expected JSON, found 'the number NaN'"),
    (safetensors(b'{"x":' + b"[" * 100_000), "safetensors header: expected JSON of a few levels, found more"),
    (safetensors(b'{"x":' * 100_000), "safetensors header: expected JSON of a few levels, found more"),
    (safetensors(b'{"x":{},"y":1,"x":{}}'), "safetensors header: expected each name once, found 'x' twice"),
    (one(b'{"dtype":"F32","shape":[1],"shape":[2],"data_offsets":[0,8]}'),
     "safetensors header: expected each name once, found 'shape' twice"),
    (one(7), "tensor 'x': expected a JSON object, found another value"),
    (one({"shape": [1], "data_offsets": [0, 4]}), "tensor 'x': expected dtype, found none"),
    (one({"dtype": 4, "shape": [1], "data_offsets": [0, 4]}),
     "tensor 'x': expected a string 'dtype', found another value"),
    (one(tensor("F32", {}, 0, 4)), "tensor 'x': expected an array 'shape', found another value"),
    (one(tensor("F32", [-1], 0, 4)), "tensor 'x': expected axes that are whole numbers, found '-1'"),
    (one(tensor("F32", [1.0], 0, 4)), "tensor 'x': expected axes that are whole numbers, found '1.0'"),
    (one(tensor("F32", [True], 0, 4)), "tensor 'x': expected axes that are whole numbers, found 'true'"),
    (one(tensor("F32", [1 << 32, 1 << 32], 0, 0)),
     "tensor 'x': expected data_offsets that span shape [4294967296, 4294967296] of F32, found 0 bytes"),
    (one(tensor("F32", [1 << 62], 0, 0)),
     "tensor 'x': expected data_offsets that span shape [4611686018427387904] of F32, found 0 bytes"),
    (one({"dtype": "F32", "shape": [1], "data_offsets": [0]}),
     "tensor 'x': expected two whole numbers 'data_offsets', found '[0]'"),
    (one(tensor("F32", [1], -4, 0)), "tensor 'x': expected two whole numbers 'data_offsets', found '[-4, 0]'"),
    (one(tensor("F32", [1], 4, 0)), "tensor 'x': expected data_offsets within the 8 bytes of data, found [4, 0]"),
    (one(tensor("F32", [3], 0, 12)), "tensor 'x': expected data_offsets within the 8 bytes of data, found [0, 12]"),
    (one(tensor("F32", [1], (1 << 64) - 4, (1 << 64) - 1)),
     "tensor 'x': expected data_offsets within the 8 bytes of data, found [18446744073709551612, "
     "18446744073709551615]"),
    (one(tensor("BF16", [3], 0, 8)), "tensor 'x': expected data_offsets that span shape [3] of BF16, found 8 bytes"),
    (safetensors({"a\n\x1b[2J": 7}), "tensor 'a\\x0a\\x1b[2J': expected a JSON object, found another value"),
    # Every byte of the data belongs to one tensor.
    (one(tensor("F32", [1], 4, 8)),
     "tensor 'x': expected data_offsets that begin at byte 0, where the tensors before it end, found 4"),
    (one(tensor("F32", [1], 0, 4)), "safetensors header: expected tensors of all 8 bytes of data, found 4"),
    (safetensors({"x": tensor("F32", [1], 0, 4), "y": tensor("F32", [1], 8, 12)}, b"123456789abc"),
     "tensor 'y': expected data_offsets that begin at byte 4, where the tensors before it end, found 8"),
    (safetensors({"x": tensor("F32", [2], 0, 8), "y": tensor("F32", [2], 4, 12)}, b"123456789abc"),
     "tensor 'y': expected data_offsets that begin at byte 8, where the tensors before it end, found 4"),
    (safetensors({"x": tensor("F32", [2], 0, 8), "y": tensor("F32", [2], 0, 8)}, b"12345678"),
     "tensor 'y': expected data_offsets that begin at byte 8, where the tensors before it end, found 0"),
    (safetensors({}, b"1"), "safetensors header: expected tensors of all 1 bytes of data, found 0"),
])
def test_malformed_headers_are_refused_in_one_sentence(content, sentence, tmp_path):
    path = write(tmp_path / "bad.safetensors", content)
    assert message_of(open_source, path) == f"{path}: {sentence}"


def test_a_number_of_5000_digits_is_refused(tmp_path):
    path = write(tmp_path / "a.safetensors", safetensors(b'{"x":' + b"9" * 5000 + b"}"))
    assert message_of(open_source, path).startswith(f"{path}: safetensors header: expected JSON, found '")


def test_a_header_that_is_too_long_to_parse_is_refused_by_its_length(tmp_path):
    path = write(tmp_path / "a.safetensors", (1 << 30).to_bytes(8, "little") + b"{")
    with open(path, "r+b") as file:
        file.truncate(1 << 31)  # sparse: takes no space on the disk
    assert message_of(open_source, path) == \
        f"{path}: safetensors header: expected at most 16777216 bytes, found a length of 1073741824"


def test_many_empty_tensors_are_no_work(tmp_path):
    path = write(tmp_path / "a.safetensors", safetensors({f"t{i}": tensor("F32", [0], 0, 0) for i in range(80_000)}))
    began = time.process_time()
    assert len(open_source(path)) == 80_000
    assert time.process_time() - began < 5  # quadratic time would be minutes


def test_whatever_the_bytes_it_reads_or_refuses(tmp_path):
    good = safetensors({"a": tensor("F32", [2, 1], 0, 8), "b": tensor("BF16", [2], 8, 12)}, b"abcdefghijkl")
    path = tmp_path / "x.safetensors"

    def reads(content):
        path.write_bytes(content)
        try:
            arrays = open_source(str(path))
        except Exception as error:
            assert getattr(error, "exit_code", None) == 4, error
            return False
        assert sum(len(read_all(array)) for array in arrays if array.element_type) <= len(content)
        return True

    descriptors = open_descriptors()
    assert reads(good)
    assert not any(reads(good[:length]) for length in range(len(good)))
    flipped = [good[:i] + bytes([good[i] ^ flip]) + good[i + 1:] for i in range(len(good)) for flip in (0x01, 0xff)]
    assert any([reads(content) for content in flipped])
    assert open_descriptors() == descriptors


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path):
    path = write(tmp_path / "a.safetensors", one(tensor("F32", [2], 0, 8)))
    [array] = open_source(path)
    with open(path, "r+b") as file:
        file.truncate(72)
    assert message_of(read_all, array) == f"{path}: ends at byte 72, expected 4 more"
