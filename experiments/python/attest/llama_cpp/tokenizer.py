"""The tokenizer in a GGUF file, as prompts.tokenize takes one."""
import ctypes

from ..base.errors import InputError, UsageError


class GgufTokenizer:
    is_fast = True  # it tells where tokens stand
    chat_template = None

    def __init__(self, model):
        self.model, self.api, self.vocabulary = model, model.api, model.vocabulary

    def __call__(self, text, add_special_tokens=True, return_offsets_mapping=False, **_):
        ids = self._ids(text.encode(), add_special_tokens)
        encoded = {"input_ids": ids}
        if return_offsets_mapping:
            encoded["offset_mapping"] = self._offsets(text, ids)
        return encoded

    def _ids(self, text, special):
        room = len(text) + 16
        tokens = (ctypes.c_int32 * room)()
        count = self.api.llama_tokenize(self.vocabulary, text, len(text), tokens, room, special, False)
        if count < 0:
            raise InputError("the model's tokenizer cannot read the text")
        return list(tokens[:count])

    def _piece(self, token):
        piece = ctypes.create_string_buffer(1024)
        size = self.api.llama_token_to_piece(self.vocabulary, token, piece, len(piece), 0, False)
        return piece.raw[:max(0, size)]

    def _offsets(self, text, ids):
        """Ranges of characters: tokens are pieces of the text's bytes, one behind the other. Some tokenizers put a
        blank in front of a text."""
        content = text.encode()
        pieces = [self._piece(token) for token in ids]
        joined = b"".join(pieces)
        ahead = len(joined) - len(content)
        if ahead not in (0, 1) or joined[ahead:] != content:
            raise UsageError("spans of a text need tokens that are pieces of it, which those of this model are not; "
                             "write the prompt as token ids")
        character = [i for i, c in enumerate(text) for _ in c.encode()] + [len(text)]  # of each byte
        offsets, end = [], -ahead
        for piece in pieces:
            begin, end = max(0, end), end + len(piece)
            offsets.append((character[begin], character[max(begin, end) - 1] + 1) if end > begin else (0, 0))
        return offsets
