"""Helpers for the tests of attest.prompts: a haystack, and a tokenizer of bytes and two trained ones."""
import functools
import pathlib

import pytest

from attest.capture.prompt_tokens import ByteTokenizer
from attest.prompts.haystack import Haystack, haystack_text

REPOSITORY = pathlib.Path(__file__).parents[4]
TEXT = haystack_text(REPOSITORY / "LICENSE")
HAYSTACK = Haystack(TEXT)
BOS = 256
BYTES = ByteTokenizer(BOS)
TOKENIZERS = ("bytes", "byte_level", "prefix_space")


@functools.cache
def tokenizer_of(name):
    """One of TOKENIZERS. The trained ones take transformers, without which the test is skipped."""
    if name == "bytes":
        return BYTES
    reason = "transformers is not installed (cmake/setup.sh --tokenizers)"
    transformers = pytest.importorskip("transformers", reason=reason)
    made = _byte_level() if name == "byte_level" else _with_prefix_space()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", unk_token="<unk>")


def _byte_level():
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _trained(tokenizer, tokenizers.pre_tokenizers.ByteLevel.alphabet())


def _with_prefix_space():
    """As in Llama 2: words begin with a space, and one is put before every text."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    normalizers = tokenizers.normalizers
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split("\u2581", "merged_with_next")
    return _trained(tokenizer, sorted(set(TEXT)))


def _trained(tokenizer, alphabet):
    """600 pieces of the haystack and of numbers, and a beginning-of-text token in front."""
    from tokenizers import processors, trainers

    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<s>", "<unk>"], initial_alphabet=alphabet,
                                  show_progress=False)
    tokenizer.train_from_iterator(TEXT.splitlines() + [f"the {n}" for n in range(100)], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return tokenizer
