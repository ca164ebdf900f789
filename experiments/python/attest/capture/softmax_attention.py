"""softmax(scale q k) v as the dump format defines it, in float32."""
import functools
import math

import torch

MAX_SCORES_PER_STEP = 2**26  # scores at a time: 256 MiB of float32


class SoftmaxAttention:
    """query [Hq, N, D] of the given positions (ascending), key [Hkv, T, D] and value [Hkv, T, Dv] of the tokens 0..T-1.
    `expansion` [Dv, Hq, Dv'], where the one value head holds latents, makes outputs of the query heads of them."""

    def __init__(self, query, key, value, positions, scale, softcap=None, window=None, sinks=None, expansion=None):
        self.query, self.key, self.value, self.expansion = query, key.float(), value, expansion
        self.scale, self.softcap, self.window = scale, softcap, window
        self.sinks = sinks  # [Hq] logits that join the softmax and have no value, or None
        self.positions = torch.as_tensor(positions, device=query.device)
        self.step = max(1, MAX_SCORES_PER_STEP // (query.shape[0] * key.shape[1]))  # queries at a time

    def blocks(self, count):
        """Slices of the first `count` queries."""
        return [slice(begin, min(begin + self.step, count)) for begin in range(0, count, self.step)]

    def visible(self, rows):
        """[rows, T]: which keys a slice of queries sees."""
        token, position = torch.arange(self.key.shape[1], device=self.key.device), self.positions[rows, None]
        visible = token <= position
        if self.window is not None:
            visible &= token > position - self.window
        return visible

    def scores(self, rows):
        """Scores [Hkv, G, rows, T] of a slice of queries; -inf where a key is not visible."""
        num_kv_heads, _, head_dim = self.key.shape
        query = self.query[:, rows].float().reshape(num_kv_heads, -1, head_dim)
        scores = torch.matmul(query, self.key.transpose(1, 2)) * self.scale
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        visible = self.visible(rows)
        return scores.view(num_kv_heads, -1, *visible.shape).masked_fill(~visible, -math.inf)

    def outputs(self, rows):
        """What attention gives for a slice of queries: the outputs [rows, Hq, Dv]; their noise [rows, Hq], the norm of
        what independent relative errors of 1 in every probability add up to; and the largest |score| [rows, Hq]."""
        scores = self.scores(rows)
        peak = scores.masked_fill(scores.isinf(), 0).abs().amax(-1)
        probabilities = scores.softmax(-1)
        if self.sinks is not None:
            sinks = self.sinks.float().view(*scores.shape[:2], 1)
            probabilities = probabilities * (scores.logsumexp(-1) - sinks).sigmoid()[..., None]
        exact = torch.matmul(probabilities, self.value.float()[:, None]).flatten(0, 1).transpose(0, 1)
        if self.expansion is not None:
            exact = torch.einsum("nhr,rhv->nhv", exact, self.expansion)
        noise = (probabilities.square() * self.value_powers[:, :, None]).sum(-1).sqrt()
        return exact, noise.flatten(0, 1).transpose(0, 1), peak.flatten(0, 1).transpose(0, 1)

    @functools.cached_property
    def value_powers(self):
        """|v|^2 as [Hkv, 1, T], or [1, Hq, T] of expanded values."""
        if self.expansion is None:
            return self.value.float().square().sum(-1)[:, None]
        return torch.stack([torch.matmul(self.value[0].float(), self.expansion[:, head]).square().sum(-1)
                            for head in range(self.expansion.shape[1])])[None]

    def score_noise(self, rows):
        """[rows, Hq]: what independent relative errors of 1 in every product q_i k_i add up to, in the score of the
        query that it is largest for."""
        num_kv_heads, tokens, head_dim = self.key.shape
        query = self.query[:, rows].float().reshape(num_kv_heads, -1, head_dim)
        variance = torch.matmul(query.square(), self.key.square().transpose(1, 2)).view(self.query.shape[0], -1, tokens)
        variance = variance.masked_fill(~self.visible(rows), 0)
        return self.scale * variance.amax(-1).sqrt().transpose(0, 1)

    def column_sums(self, num_queries):
        """[Hq, T]: attention that each token gets from the first `num_queries` queries. The softmax is over the tokens
        alone, without sinks."""
        sums = torch.zeros(self.query.shape[0], self.key.shape[1], device=self.query.device)
        for rows in self.blocks(num_queries):
            sums += self.scores(rows).softmax(-1).sum(2).flatten(0, 1)
        return sums
