"""Files and folders as sources of arrays."""
import json
import os

import pytest

from array_files import archive, entry, message_of, npy, npy_header, read_all, safetensors, tensor, write
from attest.importing.sources import open_source


def one_tensor(name, four_bytes):
    return safetensors({name: tensor("F32", [1], 0, 4)}, four_bytes)


def content(path):
    return {array.name: read_all(array) for array in open_source(str(path))}


def test_a_folder_is_its_files_together(tmp_path):
    write(tmp_path / "b.safetensors", one_tensor("y", b"yyyy"))
    write(tmp_path / "a.safetensors", one_tensor("x", b"xxxx"))
    write(tmp_path / "c.npz", archive(entry("z.npy", npy(npy_header("<f4", "(1,)"), b"zzzz"))))
    write(tmp_path / "notes.txt", b"no arrays")
    assert list(content(tmp_path).items()) == [("x", b"xxxx"), ("y", b"yyyy"), ("z", b"zzzz")]


def test_names_that_collide_are_told_apart_by_their_files(tmp_path):
    write(tmp_path / "layer_0.safetensors", one_tensor("q", b"aaaa"))
    write(tmp_path / "layer_1.5.safetensors", one_tensor("q", b"bbbb"))
    assert content(tmp_path) == {"layer_0/q": b"aaaa", "layer_1.5/q": b"bbbb"}


def test_a_folder_of_more_files_than_a_process_may_open_is_read(tmp_path):
    for number in range(1100):
        write(tmp_path / f"{number}.safetensors", one_tensor(f"x{number}", b"xxxx"))
    assert len(content(tmp_path)) == 1100


def test_an_index_says_which_files_count(tmp_path):
    write(tmp_path / "model-1.safetensors", one_tensor("x", b"xxxx"))
    write(tmp_path / "model-2.safetensors", one_tensor("y", b"yyyy"))
    write(tmp_path / "old.safetensors", one_tensor("x", b"oooo"))
    index = {"metadata": {}, "weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}}
    write(tmp_path / "model.safetensors.index.json", json.dumps(index).encode())
    assert content(tmp_path) == {"x": b"xxxx", "y": b"yyyy"}
    write(tmp_path / "other.safetensors.index.json", b"{}")
    assert message_of(open_source, str(tmp_path)) == f"{tmp_path}: expected one *.safetensors.index.json, found 2"


def weights(name):
    return json.dumps({"weight_map": {"x": name}}).encode()


@pytest.mark.parametrize("index, sentence", [
    (b"{", "expected JSON, found 'Expecting property name"),
    (b"[]", "expected a JSON object with an object 'weight_map', found none"),
    (b'{"weight_map":[]}', "expected a JSON object with an object 'weight_map', found none"),
    (b'{"weight_map":{"x":1}}', "expected file names in 'weight_map', found another type"),
    (weights("../x.safetensors"), "expected a file name in 'weight_map', found '../x.safetensors'"),
    (weights("/etc/passwd"), "expected a file name in 'weight_map', found '/etc/passwd'"),
    (weights(".."), "expected a file name in 'weight_map', found '..'"),
    (weights(""), "expected a file name in 'weight_map', found ''"),
    (weights("a\0b"), "expected a file name in 'weight_map', found 'a\\x00b'"),
    (weights("x" * 5000), "expected a file name in 'weight_map', found 'xxxx"),
    (b"[" * 1_000_000, "expected JSON of a few levels, found more"),
    (b'{"weight_map":' * 100_000, "expected JSON of a few levels, found more"),
])
def test_an_index_must_be_sound_and_stay_in_its_folder(index, sentence, tmp_path):
    path = write(tmp_path / "model.safetensors.index.json", index)
    assert message_of(open_source, str(tmp_path)).startswith(f"{path}: {sentence}")


def test_an_index_that_is_too_long_is_refused_by_its_size(tmp_path):
    path = write(tmp_path / "model.safetensors.index.json", b"{")
    os.truncate(path, 1 << 30)  # sparse: takes no space on the disk
    assert message_of(open_source, str(tmp_path)) == \
        f"{path}: expected an index of at most 16777216 bytes, found 1073741824"


@pytest.mark.parametrize("name", ["absent.safetensors", "\ud800"])
def test_an_index_that_names_no_file_is_refused(name, tmp_path):
    write(tmp_path / "model.safetensors.index.json", weights(name))
    assert "cannot be opened (" in message_of(open_source, str(tmp_path))


@pytest.mark.parametrize("start, sentence", [
    (b"", "expected safetensors or npz, found neither"),
    (b"1234567", "expected safetensors or npz, found neither"),
    (b"hello, world", "expected safetensors or npz, found neither"),
    (b"\x89HDF\r\n\x1a\n", "expected safetensors or npz, found HDF5 (a dump needs no import)"),
    (npy(npy_header("<f4", "(1,)"), b"1234"),
     "expected safetensors or npz, found a single NumPy array (numpy.savez holds several)"),
])
def test_what_is_no_array_file_is_refused_with_a_hint(start, sentence, tmp_path):
    path = write(tmp_path / "x", start)
    assert message_of(open_source, path) == f"{path}: {sentence}"


def test_what_cannot_be_read_is_refused_and_never_waited_for(tmp_path):
    absent, pipe, link = (str(tmp_path / name) for name in ("absent", "pipe", "a.npz"))
    assert message_of(open_source, absent) == f"{absent}: cannot be opened (No such file or directory)"
    os.mkfifo(pipe)
    assert message_of(open_source, pipe) == f"{pipe}: expected a file, found a pipe"
    assert message_of(open_source, "/dev/zero") == "/dev/zero: expected a file, found a device"
    assert message_of(open_source, str(tmp_path)) == f"{tmp_path}: expected *.safetensors or *.npz files, found none"
    os.symlink(pipe, link)
    assert message_of(open_source, str(tmp_path)) == f"{link}: expected a file, found a pipe"
    os.unlink(link)
    os.mkdir(link)
    assert message_of(open_source, str(tmp_path)) == f"{link}: expected a file, found a folder"
