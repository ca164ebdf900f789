"""Prompts that cannot be read get one sentence; needs no torch."""
import json
import os

import pytest

from attest.base.errors import InputError
from attest.capture import prompts
from attest.capture.__main__ import PartialCapture
from attest.capture.prompts import ByteTokenizer, read_prompts, tokenize
from attest.capture.record import provenance


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
    monkeypatch.setattr(prompts, "MAX_PROMPT_BYTES", 100)
    line = json.dumps({"text": "x" * 80})
    assert len(line) < 100
    (tmp_path / "p.jsonl").write_text((line.ljust(99) + "\n") * 2 + line)
    assert [len(p.text) for p in read_prompts(tmp_path / "p.jsonl")] == [80] * 3
    (tmp_path / "p.txt").write_text("y" * 100)
    assert read_prompts(tmp_path / "p.txt")[0].text == "y" * 100


def test_offsets_of_bytes_are_made_where_they_are_needed(tmp_path):
    assert "offset_mapping" not in ByteTokenizer()("ab")
    (tmp_path / "p.jsonl").write_text(json.dumps({"text": "aé7", "spans": ["7"]}))
    assert tokenize(read_prompts(tmp_path / "p.jsonl")[0], ByteTokenizer(256)).spans == [(4, 5)]


@pytest.mark.parametrize("name", [b"\xff.txt", b"..txt"])
def test_a_text_file_whose_name_no_sample_can_have_is_refused(name, tmp_path):
    path = tmp_path / os.fsdecode(name)
    path.write_text("some text")
    assert refusal(path).startswith(f"{path}: the sample would be named '")


def test_a_capture_whose_command_is_no_utf8_goes_on(tmp_path):
    record = {"source": provenance("attest capture", ["m", "-o", "\udcff.h5"], "torch")}
    with PartialCapture(tmp_path / "\udcff.h5", True, False) as partial:
        assert partial.begin({}, record) == partial.begin({}, record) == \
            {"source": "attest capture m -o '?.h5' (torch)"}


def test_a_text_without_a_token_is_refused(tmp_path):
    class NoTokens(ByteTokenizer):
        def __call__(self, text, **options):
            return {"input_ids": [], "offset_mapping": []}

    (tmp_path / "p.txt").write_text(" ")
    with pytest.raises(InputError, match=f"^{tmp_path}/p.txt: the tokenizer makes no token of the prompt$"):
        tokenize(read_prompts(tmp_path / "p.txt")[0], NoTokens())


@pytest.mark.parametrize("where", [{"spans": ["cdef"]}, {"spans": [[7, 9]]}, {"question": "cdef"}])
def test_what_is_cut_by_max_tokens_is_refused(where, tmp_path):
    """A part of the evidence would stand for the whole, whose words are the span's label."""
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"text": "ab cdef gh", **where}))
    prompt, = read_prompts(path)
    tokenized = tokenize(prompt, ByteTokenizer(256), max_tokens=10)
    assert (tokenized.spans or [tokenized.question])[0][1] in (8, 10)
    with pytest.raises(InputError, match=f"^{path}:1: expected the (span|question) .* within the first 6 tokens"):
        tokenize(prompt, ByteTokenizer(256), max_tokens=6)
