"""Helpers for the tests of attest.prompts: a haystack, and a byte and a trained tokenizer."""
import pathlib

import tokenizers
import transformers

REPOSITORY = pathlib.Path(__file__).parents[4]
from attest.capture.prompts import ByteTokenizer
from attest.prompts.haystack import Haystack, haystack_text

TEXT = haystack_text(REPOSITORY / "LICENSE")
HAYSTACK = Haystack(TEXT)
BOS = 256


def _byte_level():
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return _trained(tokenizer, tokenizers.pre_tokenizers.ByteLevel.alphabet())


def _with_prefix_space():
    """As in Llama 2: words begin with a space, and one is put before every text."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    normalizers = tokenizers.normalizers
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split("\u2581", "merged_with_next")
    return _trained(tokenizer, sorted(set(TEXT)))


def _trained(tokenizer, alphabet):
    """600 pieces of the haystack and of numbers, and a beginning-of-text token in front."""
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=600, special_tokens=["<s>", "<unk>"], initial_alphabet=alphabet,
                                             show_progress=False)
    tokenizer.train_from_iterator(TEXT.splitlines() + [f"the {n}" for n in range(100)], trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>")


TOKENIZERS = {"bytes": ByteTokenizer(BOS), "byte_level": _byte_level(), "prefix_space": _with_prefix_space()}
