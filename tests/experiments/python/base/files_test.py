"""Untrusted files: what is no file, ends early or is no JSON is one sentence."""
import os

import pytest

from attest.base import files
from attest.base.errors import InputError
from attest.base.files import FileBytes, InputFile, in_quotes, parse_json


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, sentence in {"pipe": "expected a file, found a pipe", "": "expected a file, found a folder",
                           "none": r"cannot be opened \(No such file or directory\)",
                           "a\0b": "cannot be opened"}.items():
        with pytest.raises(InputError, match=sentence):
            InputFile(str(tmp_path / name))


def test_bytes_come_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_READ_BYTES", 3)  # several calls
    (tmp_path / "f").write_bytes(b"0123456789")
    with InputFile(tmp_path / "f") as file:
        assert file.size == 10 and file.read(2, 8) == b"23456789" and file.read(10, 0) == b""
        with pytest.raises(InputError, match="f: ends at byte 10, expected 1 more$"):
            file.read(2, 9)
    stream = FileBytes(tmp_path / "f", 4)
    assert (stream.read(2), stream.read(4)) == (b"45", b"6789")
    stream.close()


def test_names_are_quoted_on_one_short_line():
    assert in_quotes("a\nb") == r"'a\x0ab'" and in_quotes(5) == "'5'"
    assert in_quotes("x" * 120) == f"'{'x' * 120}'" and in_quotes("x" * 121) == f"'{'x' * 120}...'"


@pytest.mark.parametrize("text, sentence", [
    (b'{"a": 1, "a": 2}', "p: expected each name once, found 'a' twice"),
    (b'{"a": NaN}', "p: expected JSON, found 'the number NaN'"),
    (b"{", "p: expected JSON, found 'Expecting property"), (b"\xff", "p: expected JSON, found"),
    (b"[" * 100_000, "p: expected JSON of a few levels, found more")])
def test_json_that_is_refused(text, sentence):
    with pytest.raises(InputError) as refusal:
        parse_json(text, "p")
    assert str(refusal.value).startswith(sentence) and "\n" not in str(refusal.value)


def test_json():
    assert parse_json('{"é": [1, {"a": null}]}'.encode(), "p") == {"é": [1, {"a": None}]}
