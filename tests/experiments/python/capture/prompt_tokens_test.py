"""Where spans and questions are in tokens, and what is refused of them."""
import json

import pytest

from attest.base.errors import InputError
from attest.capture.prompt_files import read_prompts
from attest.capture.prompt_tokens import ByteTokenizer, tokenize


def test_offsets_of_bytes_are_made_where_they_are_needed(tmp_path):
    assert "offset_mapping" not in ByteTokenizer()("ab")
    (tmp_path / "p.jsonl").write_text(json.dumps({"text": "aé7", "spans": ["7"]}))
    assert tokenize(read_prompts(tmp_path / "p.jsonl")[0], ByteTokenizer(256)).spans == [(4, 5)]


class Chat(ByteTokenizer):
    """Its template changes the message before it quotes it."""
    chat_template = "is there"

    def __init__(self, change):
        super().__init__()
        self.change = change

    def apply_chat_template(self, messages, **_):
        return f"<u>{self.change(messages[0]['content'])}</u>"


@pytest.mark.parametrize("change, expected", [(str, ["ab", "\n a", "cd? "]), (str.strip, ["ab", "a", "cd?"])])
def test_a_chat_template_may_trim_its_message(change, expected, tmp_path):
    text = "\n ab cd? "  # made prompts may end in a space
    (tmp_path / "p.jsonl").write_text(json.dumps({"text": text, "spans": ["ab", [0, 3]], "question": [5, len(text)]}))
    found = tokenize(read_prompts(tmp_path / "p.jsonl")[0], Chat(change), chat=True)
    assert [bytes(found.ids[begin:end]).decode() for begin, end in [*found.spans, found.question]] == expected


def test_a_chat_template_that_changes_its_message_otherwise_is_refused(tmp_path):
    (tmp_path / "p.jsonl").write_text(json.dumps({"text": "ab", "question": "b"}))
    with pytest.raises(InputError, match="p.jsonl:1: the chat template changes the text, so that its question cannot"):
        tokenize(read_prompts(tmp_path / "p.jsonl")[0], Chat(str.upper), chat=True)


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
