"""The KV caches of the timed model: what stands in them, and attention over them."""
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {"sdpa_flash": SDPBackend.FLASH_ATTENTION, "sdpa_cudnn": SDPBackend.CUDNN_ATTENTION}
BLOCK = 128  # tokens that share a scale of FFD's thumbnails
LARGEST_KEY = 6.0


def key_exponents(queries):
    """The power of two that each layer's keys are multiplied by, so that scores of its [q, ...] vary by some nats."""
    sizes = [q.float().square().mean().sqrt().item() for q in queries]
    return [max(-5, min(4, round(-math.log2(size)))) if size > 0 else 0 for size in sizes]


def made_keys_and_values(decoder, layer, batch, tokens, seed, exponent=0):
    """k and v [B, Hkv, T, D] of a layer. But for 2^exponent, keys are multiples of 1/8 up to 6, which every block's
    channels reach: FFD's thumbnails and 8-bit residuals hold such keys exactly, so that with everything kept FFD
    differs from dense attention by rounding."""
    generator = torch.Generator(decoder.device).manual_seed(seed * 1000 + layer)
    size = (batch, decoder.kv_heads, tokens, decoder.head_dim)
    steps = int(8 * LARGEST_KEY)
    drawn = torch.randint(-steps, steps + 1, size, generator=generator, device=decoder.device, dtype=torch.int8)
    channel = torch.arange(decoder.head_dim, device=decoder.device)
    largest = torch.arange(tokens, device=decoder.device)[:, None] % BLOCK == channel % BLOCK
    k = drawn.masked_fill_(largest, steps).to(decoder.dtype).mul_(2.0**exponent / 8)
    return k, torch.randn(size, generator=generator, device=decoder.device, dtype=decoder.dtype)


class NoAttention:
    """Leaves attention out of a step: what the check's difference is measured against."""

    def attend(self, layer, q, k, v):
        """Zeros of the shape of the output, [B, Hq, 1, D]."""
        return torch.zeros_like(q)


class DenseCache:
    """Keys and values in 16 bits. The new token has the last of T places, again at each step, so that every step
    attends to T tokens."""

    def __init__(self, decoder, batch, context, seed, exponents):
        made = [made_keys_and_values(decoder, n, batch, context, seed, e) for n, e in enumerate(exponents)]
        self.keys, self.values = zip(*made)
        self.scale, self.last = decoder.scale, torch.tensor([context - 1], device=decoder.device)
        self.backend = None

    def bytes(self):
        """The bytes of keys and values of all layers."""
        return sum(x.numel() * x.element_size() for x in (*self.keys, *self.values))

    def append(self, layer, k, v):
        """Over the last place, so that the length stays."""
        self.keys[layer].index_copy_(2, self.last, k)
        self.values[layer].index_copy_(2, self.last, v)

    def attend(self, layer, q, k, v):
        """Output [B, Hq, 1, D] of the chosen back end; without one, of attention in float32."""
        self.append(layer, k, v)
        if self.backend is None:
            return self._plain(layer, q)
        with sdpa_kernel([BACKENDS[self.backend]]):
            return F.scaled_dot_product_attention(
                q, self.keys[layer], self.values[layer], scale=self.scale, enable_gqa=True)

    def _plain(self, layer, q):
        """Softmax attention in float32, one sequence and KV head at a time: what both methods are checked against."""
        out = torch.empty_like(q)
        group = q.shape[1] // self.keys[layer].shape[1]
        for sequence, (keys, values) in enumerate(zip(self.keys[layer], self.values[layer])):
            for head, (k, v) in enumerate(zip(keys, values)):
                rows = slice(head * group, (head + 1) * group)
                scores = self.scale * q[sequence, rows, 0].float() @ k.float().T
                out[sequence, rows, 0] = (scores.softmax(-1) @ v.float()).to(q.dtype)
        return out


class FfdCaches:
    """FFD's quantised caches, one per layer, with T - 1 tokens. A step appends one, so that the first attends to T.
    `deltas` [L, Hkv] are read by each step, a graph's too."""

    def __init__(self, decoder, batch, context, most_tokens, seed, exponents, operators):
        self.operators, self.scale, self.caches = operators, decoder.scale, []
        for layer, exponent in enumerate(exponents):
            k, v = made_keys_and_values(decoder, layer, batch, context, seed, exponent)
            self.caches.append(operators.cache(k[:, :, :-1], v[:, :, :-1], decoder.heads, most_tokens))
            if layer == 0:  # loads the kernel that appends: the first call of a kernel cannot be captured
                operators.cache(k[:, :, :1], v[:, :, :1], decoder.heads, 2).append(k[:, :, 1:2], v[:, :, 1:2])
            del k, v
        self.deltas = torch.full((decoder.num_layers, decoder.kv_heads), torch.inf, device=decoder.device)
        self.kept = {}  # layer: sub-blocks kept [B, Hkv, 1] by the latest step or replay

    def bytes(self):
        """The bytes of all layers, as the operators count them."""
        return sum(cache.bytes() for cache in self.caches)

    def attend(self, layer, q, k, v):
        """Output [B, Hq, 1, D] of a step, whose token is appended first."""
        self.caches[layer].append(k, v)
        return self.decode(layer, q)

    def decode(self, layer, q):
        """The output alone: nothing is appended."""
        out, _, self.kept[layer] = self.operators.decode(self.caches[layer], q, self.deltas[layer], self.scale)
        return out


def kept_share(kept, tokens):
    """Share of `tokens` tokens that {layer: sub-blocks [B, Hkv, 1]} are: mean over layers, KV heads and sequences.
    Tokens behind the last full block are kept, too."""
    blocks = torch.stack(list(kept.values())).double().mean().item()
    return (blocks * BLOCK + tokens % BLOCK) / tokens


class Operators:
    """FFD of the operator library."""

    def cache(self, k, v, heads, most_tokens):
        """A cache of one layer with room for `most_tokens`; k and v [B, Hkv, T, D]."""
        return torch.classes.attest.FfdCache(k, v, heads, most_tokens)

    def decode(self, cache, q, delta, scale):
        """One step: (output, log-sum-exp, sub-blocks kept [B, Hkv, 1]); delta [Hkv] in nats."""
        return torch.ops.attest.ffd_decode(cache, q, delta, scale)


HALVINGS, LARGEST_DELTA = 24, 100.0  # nats


def calibrate(caches, shares, tokens, seen):
    """Sets each KV head's delta to where it keeps its share of `shares` [L, Hkv] of `tokens` tokens, one block at
    least, on average over sequences and steps. seen: [[q [B, Hq, 1, D] of each step] of each layer]."""
    shares = shares.to(caches.deltas.device)
    blocks = ((shares * tokens - tokens % BLOCK) / BLOCK).clamp(min=1)
    for layer, queries in enumerate(seen):
        delta = caches.deltas[layer]
        low, high = torch.full_like(delta, -LARGEST_DELTA), torch.full_like(delta, LARGEST_DELTA)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            delta.copy_(middle)
            kept = torch.zeros_like(delta)
            for q in queries:
                caches.decode(layer, q)
                kept += caches.kept[layer].float().mean(0)[:, 0]
            few = kept < len(queries) * blocks[layer]
            low, high = torch.where(few, middle, low), torch.where(few, high, middle)
        delta.copy_(torch.where(shares[layer] >= 1, torch.inf, low))
