"""SoftmaxAttention against the formula of the dump format, one query and one key at a time."""
import math

import pytest
import torch

from attest.capture import softmax_attention
from attest.capture.softmax_attention import SoftmaxAttention
from near import CELL, FLOAT32


def formula(call, n, h):
    """Output, noise and largest |score| of query n of head h, in double."""
    group = call.query.shape[0] // call.key.shape[0]
    q, k = call.query[h, n].double(), call.key[h // group].double()
    seen = range(max(0, call.positions[n] - (call.window or 10**9) + 1), call.positions[n] + 1)
    scores = {t: (q @ k[t]).item() * call.scale for t in seen}
    if call.softcap:
        scores = {t: call.softcap * math.tanh(s / call.softcap) for t, s in scores.items()}
    weight = sum(math.exp(s) for s in scores.values()) + (math.exp(call.sinks[h]) if call.sinks is not None else 0)
    values = call.value[h // group].double()
    if call.expansion is not None:
        values = values @ call.expansion[:, h].double()
    p = {t: math.exp(s) / weight for t, s in scores.items()}
    return (sum(p[t] * values[t] for t in seen), math.sqrt(sum((p[t] * values[t].norm().item())**2 for t in seen)),
            max(map(abs, scores.values())))


@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}, {"window": 5}, {"sinks": torch.tensor([1.0, -2, 3, 0])},
                                     {"expansion": torch.randn(6, 4, 3, generator=torch.manual_seed(3))}], ids=str)
@pytest.mark.parametrize("step", [2**26, 130])
def test_outputs(options, step, monkeypatch):
    monkeypatch.setattr(softmax_attention, "MAX_SCORES_PER_STEP", step)
    torch.manual_seed(1)
    heads = 1 if "expansion" in options else 2
    call = SoftmaxAttention(torch.randn(4, 6, 8), torch.randn(heads, 16, 8), torch.randn(heads, 16, 6),
                            [0, 2, 7, 8, 9, 15], 0.5, **options)
    blocks = call.blocks(6)
    assert len(blocks) == (1 if step > 1000 else 3)
    output, noise, peak = (torch.cat(parts) for parts in zip(*(call.outputs(rows) for rows in blocks)))
    for n in range(6):
        for h in range(4):
            expected = formula(call, n, h)
            torch.testing.assert_close(output[n, h].double(), expected[0], rtol=FLOAT32, atol=CELL)
            assert noise[n, h].item() == pytest.approx(expected[1], rel=FLOAT32)
            assert peak[n, h].item() == pytest.approx(expected[2], rel=FLOAT32)


def test_score_noise():
    torch.manual_seed(2)
    call = SoftmaxAttention(torch.randn(4, 2, 8), torch.randn(2, 10, 8), torch.randn(2, 10, 8), [3, 9], 0.5, window=3)
    noise = call.score_noise(slice(0, 2))
    for n, seen in enumerate((range(1, 4), range(7, 10))):
        for h in range(4):
            largest = max((call.query[h, n] * call.key[h // 2, t]).norm().item() for t in seen)
            assert noise[n, h].item() == pytest.approx(0.5 * largest, rel=FLOAT32)
