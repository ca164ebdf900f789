"""Prompts that cannot be read get one sentence; needs no torch."""
import json
import os

import pytest

from attest.base.errors import InputError
from attest.capture import prompt_files
from attest.capture.prompt_files import read_prompts


def refusal(path):
    with pytest.raises(InputError) as caught:
        read_prompts(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("entry", [
    {"text": "a\ud800b"}, {"text": "ab", "answer": "\udfff"}, {"text": "ab", "spans": ["\ud800"]},
    {"text": "ab", "\ud800": 1},
    {"text": "ab", "name": "\udc00\ud800"}])
def test_half_of_a_surrogate_pair_is_refused(entry, tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"text": "\U0001f600"}) + "\n" + json.dumps(entry) + "\n")
    assert refusal(path) == f"{path}:2: expected Unicode text, found half of a surrogate pair"


def test_json_of_many_levels_is_refused(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"text": "a", "spans": ' + "[" * 100_000 + "]" * 100_000 + "}")
    assert refusal(path) == f"{path}:1: expected JSON of a few levels, found more"


def test_a_field_that_is_there_twice_is_refused(tmp_path):
    """Its first value would be lost without a word."""
    path = tmp_path / "p.jsonl"
    path.write_text('{"text": "abc"}\n{"text": "abc", "spans": ["b"], "spans": []}\n')
    assert refusal(path) == f"{path}:2: expected each name once, found 'spans' twice"


@pytest.mark.parametrize("name, place", [("p.jsonl", ":2"), ("p.txt", "")])
def test_a_prompt_of_tens_of_megabytes_is_refused(name, place, tmp_path):
    path = tmp_path / name
    path.write_text(json.dumps({"text": "short"}) + "\n" + json.dumps({"text": "x" * 50_000_000}) + "\n")
    assert refusal(path) == f"{path}{place}: expected a prompt of at most 32 MiB, found a longer one"


def test_a_prompt_as_long_as_may_be_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(prompt_files, "MAX_PROMPT_BYTES", 100)
    line = json.dumps({"text": "x" * 80})
    assert len(line) < 100
    (tmp_path / "p.jsonl").write_text((line.ljust(99) + "\n") * 2 + line)
    assert [len(p.text) for p in read_prompts(tmp_path / "p.jsonl")] == [80] * 3
    (tmp_path / "p.txt").write_text("y" * 100)
    assert read_prompts(tmp_path / "p.txt")[0].text == "y" * 100


@pytest.mark.parametrize("name", [b"\xff.txt", b"..txt"])
def test_a_text_file_whose_name_no_sample_can_have_is_refused(name, tmp_path):
    path = tmp_path / os.fsdecode(name)
    path.write_text("some text")
    assert refusal(path).startswith(f"{path}: the sample would be named '")
