"""A dump appears under its name complete and at once, and replaces a file only if asked to."""
import contextlib
import errno
import os

import h5py
import numpy as np
import pytest

from attest.base.errors import OutputError
from attest.base.dump_writer import DumpWriter


def write(path, force=False, gzip_level=0, model="m"):
    with DumpWriter(path, force, gzip_level) as writer:
        writer.write_header(model=model, rope=None)
        sample = writer.create_sample("s", "task", 9, [3, 7], [[1, 3], [4, 5]], ["a", "ü"], prompt_length=8)
        layer = writer.create_layer(sample, 3, 4)
        k = writer.create_values(layer, "k", (2, 9, 5), "float16")
        bits = np.arange(90, dtype="<u2").reshape(2, 9, 5)
        for begin in (0, 4):
            writer.write_values(k, (0, begin, 0), bits[:, begin:begin + 5])
        np.testing.assert_array_equal(writer.read_values(k), bits)
        return writer.commit()


def refusal(path, **options):
    with pytest.raises(OutputError) as caught:
        write(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("gzip_level", [0, 4])
def test_what_is_written_is_read_back(gzip_level, tmp_path):
    path = tmp_path / "dump.h5"
    assert write(path, gzip_level=gzip_level) == path.stat().st_size
    with h5py.File(path) as dump:
        assert dict(dump.attrs) == {"format": "attention-dump", "format_version": 1, "model": "m"}
        sample = dump["samples/s"]
        assert dict(sample.attrs) == {"task": "task", "num_tokens": 9, "prompt_length": 8}
        assert sample["spans"][:].tolist() == [[1, 3], [4, 5]]
        assert sample["span_labels"].asstr()[:].tolist() == ["a", "ü"]
        k = sample["layers/3/k"]
        assert (k[:].view("<u2") == np.arange(90).reshape(2, 9, 5)).all()
        assert (k.compression == "gzip") == (gzip_level > 0)
    assert [p.name for p in tmp_path.iterdir()] == ["dump.h5"]


def test_text_that_hdf5_cannot_hold_is_replaced(tmp_path):
    """Command lines need not be UTF-8, and texts of prompts may have NULs."""
    with DumpWriter(tmp_path / "dump.h5") as writer:
        writer.write_header(model="m\udcff", source="a\0b")
        writer.create_sample("s", "\udcff", 9, [3], [[1, 3]], ["\0w"])
        writer.commit()
    with h5py.File(tmp_path / "dump.h5") as dump:
        assert dump.attrs["model"] == "m?" and dump.attrs["source"] == "a\ufffdb"
        assert dump["samples/s"].attrs["task"] == "?"
        assert dump["samples/s/span_labels"].asstr()[:].tolist() == ["\ufffdw"]


def test_the_same_content_makes_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_permissions_are_those_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "dump.h5")
    finally:
        os.umask(before)
    assert (tmp_path / "dump.h5").stat().st_mode & 0o777 == 0o640


def test_an_existing_file_is_replaced_only_by_force(tmp_path):
    path = tmp_path / "dump.h5"
    path.write_text("mine")
    assert refusal(path) == f"{path}: exists already, expected a new file (or --force)"
    assert path.read_text() == "mine"
    write(path, force=True)
    assert h5py.is_hdf5(path)
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    assert refusal(link) == f"{link}: exists already, expected a new file (or --force)"


def test_a_file_that_comes_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "dump.h5"
    with pytest.raises(OutputError), DumpWriter(path) as writer:
        writer._refuse_existing = lambda: path.write_text("theirs")  # as if the file appeared after the last check
        writer.commit()
    assert path.read_text() == "theirs" and [p.name for p in tmp_path.iterdir()] == ["dump.h5"]


def test_a_file_system_without_links_takes_a_rename(tmp_path, monkeypatch):
    def no_links(*_):
        raise PermissionError(1, "Operation not permitted")
    monkeypatch.setattr(os, "link", no_links)
    write(tmp_path / "dump.h5")
    assert [p.name for p in tmp_path.iterdir()] == ["dump.h5"]


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_file_is_never_replaced(force, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        assert str(tmp_path / name) in refusal(tmp_path / name, force=force)
    assert (tmp_path / "pipe").is_fifo() and not any((tmp_path / "folder").iterdir())
    path = tmp_path / "absent/dump.h5"
    assert refusal(path, force=force) == f"{path}: cannot be written (No such file or directory)"


def test_what_the_file_system_has_no_room_for_is_refused(tmp_path):
    path = tmp_path / "dump.h5"
    with DumpWriter(path) as writer:
        writer.require_space(1)
    with pytest.raises(OutputError) as caught, DumpWriter(path) as writer:
        writer.require_space(82.1e15)
    assert str(caught.value).startswith(f"{path}: needs 82100000.0 GB, its file system has ")
    assert not any(tmp_path.iterdir())


def test_the_longest_name_has_room(tmp_path):
    write(tmp_path / ("x" * 255))


def test_the_folder_is_on_the_disk_after_the_rename(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync",
                        lambda d: (synced.append((os.readlink(f"/proc/self/fd/{d}"), (tmp_path / "dump.h5").exists())),
                                   fsync(d)))
    write(tmp_path / "dump.h5")
    assert synced[-1] == (str(tmp_path), True)


@pytest.mark.parametrize("number, sentence", [
    (errno.EIO, "is written, but its folder cannot be synced (Input/output error)"), (errno.EINVAL, None)])
def test_a_folder_that_cannot_be_synced(number, sentence, tmp_path, monkeypatch):
    path, fsync = tmp_path / "dump.h5", os.fsync

    def failing(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)
    monkeypatch.setattr(os, "fsync", failing)
    if sentence:
        assert refusal(path) == f"{path}: {sentence}"
    else:
        write(path)
    assert h5py.is_hdf5(path)


def test_a_file_put_into_the_place_of_the_temporary_one_is_not_written(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    create = DumpWriter._create_file

    def swapped(writer):
        os.unlink(writer.temporary)
        os.symlink(victim, writer.temporary)
        return create(writer)
    monkeypatch.setattr(DumpWriter, "_create_file", swapped)
    with contextlib.suppress(OutputError), DumpWriter(tmp_path / "dump.h5"):
        pass
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_fails_leaves_nothing(error, tmp_path):
    with pytest.raises(error), DumpWriter(tmp_path / "dump.h5"):
        assert len(list(tmp_path.iterdir())) == 1
        raise error
    assert not any(tmp_path.iterdir())


def test_a_name_that_is_too_long_is_refused_before_the_work(tmp_path):
    with pytest.raises(OutputError, match=r"cannot be written \(File name too long\)"):
        DumpWriter(tmp_path / ("x" * 300))
    assert not list(tmp_path.iterdir())
