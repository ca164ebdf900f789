"""Prompts in tokens, with their evidence spans."""
import json
from dataclasses import dataclass

from ..base.errors import InputError, UsageError


@dataclass
class TokenizedPrompt:
    ids: list
    answer: list
    spans: list  # of (begin, end), in tokens
    span_labels: list | None
    question: tuple | None = None  # (begin, end), in tokens


class ByteTokenizer:
    """Token ids are the UTF-8 bytes of the text, preceded by the model's beginning-of-text token if it has one."""
    is_fast = True
    chat_template = None

    def __init__(self, first_token=None):
        self.first = [] if first_token is None else [first_token]

    def __call__(self, text, add_special_tokens=True, return_offsets_mapping=False, **_):
        first = self.first if add_special_tokens else []
        encoded = {"input_ids": first + list(text.encode())}
        if return_offsets_mapping:
            characters = [(i, i + 1) for i, character in enumerate(text) for _ in character.encode()]
            encoded["offset_mapping"] = [(0, 0)] * len(first) + characters
        return encoded

    @staticmethod
    def decode(ids, **_):
        """Tokens that are no bytes are special ones, and no text."""
        return bytes(token for token in ids if token < 256).decode(errors="replace")


def tokenize(prompt, tokenizer=None, chat=False, max_tokens=None):
    """The tokenizer may be None if the prompt consists of token ids."""
    located = [(span, "span") for span in prompt.spans]
    if prompt.question is not None:
        located.append((prompt.question, "question"))
    if prompt.tokens is not None:
        ids = prompt.tokens[:max_tokens]
        placed = [_bounds(prompt, span, what, None, len(ids)) for span, what in located]
        return _tokenized(prompt, ids, prompt.answer or [], placed)
    text = kept = prompt.text
    if chat:
        if not tokenizer.chat_template:
            raise UsageError("--chat: this tokenizer has no chat template")
        message = [{"role": "user", "content": text}]
        text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        if kept not in text:  # templates may trim a message
            kept = kept.strip()
        if kept not in text and located:
            raise InputError(f"{prompt.where}: the chat template changes the text, so that its {located[0][1]} cannot "
                             "be placed")
    first = text.find(kept)
    shift = first - prompt.text.find(kept)
    if located and not tokenizer.is_fast:
        raise InputError(f"{prompt.where}: a {located[0][1]} of a text needs a fast tokenizer, which this model lacks")
    # A chat template adds its own special tokens.
    encoded = tokenizer(text, add_special_tokens=not chat, return_offsets_mapping=bool(located))
    ids, placed = list(encoded["input_ids"])[:max_tokens], []
    for span, what in located:
        begin, end = _bounds(prompt, span, what, prompt.text, len(prompt.text))
        low, high = max(begin + shift, first), min(end + shift, first + len(kept))
        covering = [i for i, (b, e) in enumerate(encoded["offset_mapping"]) if b < e and b < high and e > low]
        if not covering:
            raise InputError(f"{prompt.where}: no token covers the {what} [{begin}, {end})")
        if covering[-1] >= len(ids):
            raise InputError(f"{prompt.where}: expected the {what} [{begin}, {end}) within the first {max_tokens} "
                             f"tokens (--max-tokens), found its last token at {covering[-1]}")
        placed.append((covering[0], covering[-1] + 1))
    answer = tokenizer(prompt.answer, add_special_tokens=False)["input_ids"] if prompt.answer else []
    return _tokenized(prompt, ids, list(answer), placed)


def _tokenized(prompt, ids, answer, placed):
    """`placed`: the ranges of tokens of the spans, and of the question if there is one."""
    labels = prompt.span_labels
    if labels is None and prompt.tokens is None and any(isinstance(span, str) for span in prompt.spans):
        labels = [span if isinstance(span, str) else "" for span in prompt.spans]
    if not ids:
        raise InputError(f"{prompt.where}: the tokenizer makes no token of the prompt")
    count = len(prompt.spans)
    return TokenizedPrompt(ids, answer, placed[:count], labels, placed[count] if placed[count:] else None)


def _bounds(prompt, span, what, text, limit):
    """A span is [begin, end), or a string, which means its first occurrence in the text. `what`: span, or question."""
    if isinstance(span, str) and span and text is not None:
        begin = text.find(span)
        if begin < 0:
            raise InputError(f"{prompt.where}: the {what} {span!r} does not occur in the text")
        return begin, begin + len(span)
    if not (isinstance(span, list) and len(span) == 2 and all(type(bound) is int for bound in span)):
        raise InputError(f"{prompt.where}: a {what} is [begin, end), or a string of the text, found {json.dumps(span)}")
    if not 0 <= span[0] < span[1] <= limit:
        raise InputError(f"{prompt.where}: the {what} {span} is empty or reaches outside of 0..{limit}")
    return tuple(span)
