"""FFD's cache and decode for a test without a GPU: top-delta over blocks of 128 tokens on 16-bit keys."""

import torch

BLOCK = 128


class Cache:
    def __init__(self, k, v, heads, most):
        self.k, self.v, self.heads, self.most = k.clone(), v.clone(), heads, most

    def append(self, k, v):
        if self.k.shape[2] >= self.most:
            raise ValueError("FfdCache: it is full")
        self.k, self.v = torch.cat([self.k, k], 2), torch.cat([self.v, v], 2)

    def bytes(self):
        return 2 * (self.k.numel() + self.v.numel())


class Operators:
    def cache(self, k, v, heads, most):
        return Cache(k, v, heads, most)

    def decode(self, cache, q, delta, scale):
        batch, heads, _, dim = q.shape
        kv_heads, tokens = cache.k.shape[1:3]
        grouped = q.float().reshape(batch, kv_heads, -1, dim)
        scores = scale * grouped @ cache.k.float().transpose(2, 3)  # [B, Hkv, G, T]
        full = tokens // BLOCK
        largest = scores[..., : full * BLOCK].reshape(*scores.shape[:3], full, BLOCK).amax(-1)
        reference = torch.maximum(largest[..., :1], largest[..., -1:])
        keeps = (largest >= reference - delta[None, :, None, None]).any(2)  # [B, Hkv, blocks]: the union of the group
        seen = torch.cat(
            [keeps.repeat_interleave(BLOCK, 2), torch.ones(batch, kv_heads, tokens - full * BLOCK, dtype=torch.bool)], 2
        )
        scores = scores.masked_fill(~seen[:, :, None], -torch.inf)
        out = (scores.softmax(-1) @ cache.v.float()).reshape(batch, heads, 1, -1).to(q.dtype)
        return out, scores.logsumexp(-1).reshape(batch, heads, 1), keeps.sum(-1, keepdim=True).int()
