"""FfdCache and ffd_decode without a GPU: results on the meta device and of fake tensors, bad input."""

import pytest

from attend_cases import torch
from torch._subclasses.fake_tensor import FakeTensorMode

BATCH, HEADS, KV_HEADS, DIM, VALUE_DIM = 2, 32, 8, 128, 64
RESULTS = [(BATCH, HEADS, 1, VALUE_DIM), (BATCH, HEADS, 1), (BATCH, KV_HEADS, 1)]


def meta(*sizes, dtype=torch.bfloat16):
    return torch.empty(*sizes, dtype=dtype, device="meta")


def cache(tokens=1000, most=1002, dtype=torch.bfloat16):
    k, v = (meta(BATCH, KV_HEADS, tokens, dim, dtype=dtype) for dim in (DIM, VALUE_DIM))
    return torch.classes.attest.FfdCache(k, v, HEADS, most)


def step(made, device="meta", heads=HEADS, dtype=torch.bfloat16, scale=0.1, **options):
    q = torch.empty(BATCH, heads, 1, DIM, dtype=dtype, device=device)
    return torch.ops.attest.ffd_decode(made, q, torch.empty(KV_HEADS, device=device), scale, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_results_have_sizes_and_types(dtype):
    results = step(cache(dtype=dtype), dtype=dtype)
    assert [tuple(r.shape) for r in results] == RESULTS
    assert [r.dtype for r in results] == [dtype, torch.float32, torch.int32]
    assert all(r.is_meta and r.is_contiguous() for r in results)


def test_fake_tensors_stay_on_their_device():
    made = cache()
    with FakeTensorMode():
        results = step(made, "cuda")
    assert [tuple(r.shape) for r in results] == RESULTS and all(r.device.type == "cuda" for r in results)


def test_tokens_are_counted_up_to_the_most():
    made = cache()
    k, v = meta(BATCH, KV_HEADS, 1, DIM), meta(BATCH, KV_HEADS, 1, VALUE_DIM)
    for tokens in (1001, 1002):
        made.append(k, v)
        assert made.tokens() == tokens and made.bytes() == 0
    with pytest.raises(ValueError, match="it is full, with max_tokens = 1002 tokens"):
        made.append(k, v)


def test_a_cache_without_memory_takes_a_deal():
    made = cache()
    made.deal(torch.zeros(BATCH, KV_HEADS))
    assert [tuple(r.shape) for r in step(made)] == RESULTS


REFUSALS = {
    "shares of another size": (
        lambda: cache().deal(torch.zeros(BATCH, KV_HEADS, 1)),
        r"kept_share is Float \[2, 8, 1\], expected floating point \[2, 8\]",
    ),
    "counts for shares": (
        lambda: cache().deal(torch.zeros(BATCH, KV_HEADS, dtype=torch.int32)),
        r"kept_share is Int \[2, 8\], expected floating point \[2, 8\]",
    ),
    "another number of heads": (lambda: step(cache(), heads=16), r"q is BFloat16 \[2, 16, 1, 128\] on meta, expected"),
    "another type": (
        lambda: step(cache(), dtype=torch.float16),
        r"q is Half \[2, 32, 1, 128\] on meta, expected BFloat16",
    ),
    "a sub-block of 7": (
        lambda: step(cache(), sub_block=7),
        "expected sub-blocks of 16, 32, 64 or 128 tokens, found 7",
    ),
    "a small scale": (lambda: step(cache(), scale=1e-46), "scale is 1e-46, expected a number that float32 holds"),
    "no such maximum": (
        lambda: step(cache(), pseudo_max="best"),
        "pseudo_max is 'best', expected thumbnail, exact or global",
    ),
    "room for less": (lambda: cache(most=999), "max_tokens is 999, expected at least the 1000 tokens of k"),
    "float32": (
        lambda: cache(dtype=torch.float32),
        "k is Float on meta, v Float on meta, expected float16 or bfloat16",
    ),
    "the processor": (
        lambda: torch.classes.attest.FfdCache(torch.zeros(1, 1, 4, 8).half(), torch.zeros(1, 1, 4, 8).half(), 1, 9),
        "k is Half on cpu, v Half on cpu, expected float16 or bfloat16, both on one GPU",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_bad_input_is_one_sentence(name):
    call, sentence = REFUSALS[name]
    with pytest.raises(ValueError, match=sentence) as refused:
        call()
    assert str(refused.value).count("\n") == 0
