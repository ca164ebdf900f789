"""A text file gets its name when it is whole, or not at all."""
import pytest

from attest.base.atomic_text import atomic_text
from attest.base.errors import OutputError


def test_a_file_replaces_what_had_its_name(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("before")
    with atomic_text(path) as file:
        file.write("é\n")
        assert path.read_text() == "before"
    assert path.read_bytes() == "é\n".encode() and list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("before")
    with pytest.raises(KeyError), atomic_text(path) as file:
        file.write("half")
        raise KeyError
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_said(tmp_path):
    with pytest.raises(OutputError, match=r"none/a.json: cannot be written \(No such file or directory\)$"):
        with atomic_text(tmp_path / "none/a.json"):
            pass
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=r"folder: cannot be written \(Is a directory\)$"):
        with atomic_text(tmp_path / "folder"):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
