"""What has been captured of one request."""
import dataclasses

import torch

from ..base.errors import InputError

TORCH_TYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32"}


@dataclasses.dataclass
class CapturedLayer:
    """q [N, Hq, D], k [Hkv, T, D], v [Hkv, T, Dv], output [N, Hq, Dv], in the processor's memory."""
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    output: torch.Tensor


def bytes_of(wish, layers):
    """The bytes of tokens, q, k, v and output, if all have the largest element type."""
    return 4 * wish.num_tokens + sum(4 * (layer.head_dim + layer.value_dim) * (
        layer.kv_heads * wish.num_tokens + layer.query_heads * len(wish.positions)) for layer in layers.values())


class CapturedRequest:
    """Tokens come in the order of their positions. A pass may begin before the end of the last one, as a preempted
    request is computed again: what it brings replaces what was there, queries and outputs, too."""

    def __init__(self, wish, layers):
        self.wish, self.layers = wish, layers  # layers: number -> Layer
        self.captured = {}  # number -> CapturedLayer
        self.tokens = torch.zeros(wish.num_tokens, dtype=torch.int32)
        self.length = 0  # tokens that the layers have seen

    def is_complete(self):
        """Whether the last position that was asked for has passed the layers."""
        return self.length == self.wish.num_tokens

    def num_rows(self):
        """How many of the queries are there."""
        return sum(position < self.length for position in self.wish.positions)

    def begin_pass(self, start, tokens):
        """The tokens of a pass, from position `start` on."""
        if start > self.length:
            raise InputError(f"goes on at token {start}, and {self.length} have reached the attention layers; "
                             "the others come from a cache")
        count = self._count(start, len(tokens))
        self.tokens[start:start + count] = tokens[:count].cpu()

    def end_pass(self, length):
        """`length` tokens have passed all layers."""
        self.length = min(length, self.wish.num_tokens)

    def place(self, number, start, query, key, value, causal):
        """What arrives at a layer, of the tokens from position `start` on: query [n, Hq, D], key [n, Hkv, D], value
        [n, Hkv, Dv]."""
        if not causal:
            raise InputError(f"layer {number}: its attention is not causal")
        layer = self.captured.get(number)
        if layer is None:
            layer = self.captured[number] = self._allocate(number, query, key, value)
        count = self._count(start, len(key))
        layer.k[:, start:start + count] = key[:count].transpose(0, 1).cpu()
        layer.v[:, start:start + count] = value[:count].transpose(0, 1).cpu()
        rows, indices = self._chosen(start, count)
        if rows:
            layer.q[rows] = query[indices].cpu()

    def place_output(self, number, start, output):
        """What a layer gives, [n, Hq, Dv]."""
        rows, indices = self._chosen(start, self._count(start, len(output)))
        if rows:
            chosen, target = output[indices].cpu(), self.captured[number].output
            if chosen.dtype != target.dtype:
                raise InputError(f"layer {number}: its output is {chosen.dtype}, its keys are {target.dtype}")
            target[rows] = chosen

    def _count(self, start, count):
        """How many of `count` tokens from position `start` on are wanted."""
        return max(0, min(count, self.wish.num_tokens - start))

    def _chosen(self, start, count):
        """Which of `count` tokens from position `start` on are queries: (rows of the dump, indices of the tokens)."""
        pairs = [(row, position - start) for row, position in enumerate(self.wish.positions)
                 if start <= position < start + count]
        return [row for row, _ in pairs], [index for _, index in pairs]

    def _allocate(self, number, query, key, value):
        layer, tokens, rows = self.layers[number], self.wish.num_tokens, len(self.wish.positions)
        kinds = {query.dtype, key.dtype, value.dtype}
        if len(kinds) > 1 or not kinds <= set(TORCH_TYPES):
            raise InputError(f"layer {number}: q, k and v are {', '.join(sorted(map(str, kinds)))}; a dump holds one "
                             "of float16, bfloat16 and float32")
        return CapturedLayer(torch.empty(rows, layer.query_heads, layer.head_dim, dtype=query.dtype),
                             torch.empty(layer.kv_heads, tokens, layer.head_dim, dtype=key.dtype),
                             torch.empty(layer.kv_heads, tokens, layer.value_dim, dtype=value.dtype),
                             torch.empty(rows, layer.query_heads, layer.value_dim, dtype=query.dtype))
