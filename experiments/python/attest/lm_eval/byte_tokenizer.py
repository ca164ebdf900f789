"""A tokenizer of transformers whose token ids are the UTF-8 bytes of the text, as capture's --tokenizer bytes."""
import tokenizers
import transformers

FIRST, LAST = "<|first-token|>", "<|last-token|>"


def byte_tokenizer(config):
    """Texts begin with the model's beginning-of-text token, if it has one."""
    characters = _byte_level_characters()
    vocabulary = {character: byte for byte, character in enumerate(characters)}
    end = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
    special = {FIRST: config.bos_token_id, LAST: end if end != config.bos_token_id else None}
    special = {text: token for text, token in special.items() if token is not None}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({**vocabulary, **special}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    if FIRST in special:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{FIRST} $A", special_tokens=[(FIRST, special[FIRST])])
    end_text = LAST if LAST in special else FIRST if end is not None else None
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=FIRST if FIRST in special else None, eos_token=end_text,
        pad_token=end_text, clean_up_tokenization_spaces=False)


def _byte_level_characters():
    """The character that the ByteLevel pre-tokenizer writes for each byte: printable ones stand for themselves."""
    own = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return [chr(byte if byte in own else next(others)) for byte in range(256)]
