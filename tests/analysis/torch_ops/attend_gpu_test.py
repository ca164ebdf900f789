"""torch.ops.attest.attend on a GPU, beside the CPU: every selector, types, shapes, strides, streams, and bad input."""
import pytest

from attend_cases import all_equal, attend, refuses_options_of_other_layers, tensors, torch

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

SELECTORS = [("exact", 0), ("ffd", 3), ("ffd:block=32,sub_block=16,gqa=per_head", 2), ("ffd:residual=none", 4),
             ("quest", 64),
             ("kivi", 0), ("twilight", 0.9), ("streaming_llm", 100), ("topk", 50), ("topp", 0.8), ("topdelta", 3),
             ("kv_cache:k=fp8_e4m3,v=turboquant4", 0),
             ("kv_cache:k=fp8_e4m3,v=fp8_e5m2,k_scale=amax,v_scale=amax_head", 0)]
SHAPES = {
    "one query": dict(),
    "one token": dict(tokens=1),
    "group of 8, batch": dict(heads=8, kv_heads=1, batch=3, queries=2),
    "a chunk of queries": dict(queries=70, tokens=200),
    "value_dim of its own": dict(dim=40, value_dim=24),
    "long": dict(tokens=9001, dim=128, value_dim=128, heads=8, kv_heads=2),
    "absorbed latents": dict(tokens=500, dim=320, value_dim=256, heads=8, kv_heads=1),
}
MODELS = [dict(), dict(window=37, softcap=2.0)]
# Outputs are rounded to the element type on both devices; sums differ by float32 rounding.
OUT_TOLERANCE = {torch.bfloat16: 1e-2, torch.float16: 1.5e-3, torch.float32: 3e-5}
LSE_TOLERANCE = 1e-5
MOST_OTHER_ROWS = 0.02  # share of rows in which a score at the threshold is kept on one device alone


def on_gpu(arguments):
    return [x.cuda() for x in arguments]


def assert_alike(gpu, cpu, dtype):
    out, lse, kept = (x.cpu() for x in gpu)
    assert [x.shape for x in gpu] == [x.shape for x in cpu] and [x.dtype for x in gpu] == [x.dtype for x in cpu]
    group = lse.shape[1] // kept.shape[1]
    same = (kept == cpu[2]).repeat_interleave(group, 1)
    assert (~same).float().mean() <= MOST_OTHER_ROWS
    torch.testing.assert_close(lse[same], cpu[1][same], rtol=LSE_TOLERANCE, atol=LSE_TOLERANCE)
    torch.testing.assert_close(out[same], cpu[0][same], rtol=OUT_TOLERANCE[dtype], atol=OUT_TOLERANCE[dtype])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("selector, setting", SELECTORS)
def test_the_gpu_is_as_the_cpu(selector, setting, shape, model):
    if selector == "kivi" and SHAPES[shape].get("value_dim", 32) % 32:
        selector = "kivi:group=8"
    for dtype in OUT_TOLERANCE:
        inputs = tensors(**SHAPES[shape], dtype=dtype)
        sinks = torch.linspace(-2, 4, inputs[0].shape[1]) if model else None
        cpu = attend(*inputs, selector, setting, sinks=sinks, **model)
        gpu = attend(*on_gpu(inputs), selector, setting, sinks=None if sinks is None else sinks.cuda(), **model)
        assert_alike(gpu, cpu, dtype)
        assert all(x.is_cuda for x in gpu)


@pytest.mark.parametrize("with_sinks", [False, True])
@pytest.mark.parametrize("window", [0, 37])
@pytest.mark.parametrize("shape", [dict(tokens=1), dict(tokens=1003, heads=7, kv_heads=7),
                                   dict(tokens=777, heads=32, kv_heads=2, batch=3),
                                   dict(tokens=20000, heads=8), dict(tokens=500, heads=34, kv_heads=2)])
def test_one_query_that_keeps_all(shape, window, with_sinks):
    for dim in (64, 128):
        for dtype in OUT_TOLERANCE:
            inputs = tensors(**shape, dim=dim, value_dim=dim, dtype=dtype)
            sinks = torch.linspace(-2, 30, inputs[0].shape[1]) if with_sinks else None
            on_device = dict(window=window, sinks=sinks.cuda() if with_sinks else None)
            exact = attend(*on_gpu(inputs), **on_device)
            assert_alike(exact, attend(*inputs, window=window, sinks=sinks), dtype)
            dense = attend(*on_gpu(inputs), "quest", 64, layer=0, **on_device)
            assert all_equal(exact, dense)
            assert all_equal(exact, attend(*on_gpu(inputs), window=window, sinks=sinks))  # sinks on the CPU


@pytest.mark.parametrize("selector", ["kv_cache:k=fp8_ds_mla", "kv_cache:k=nvfp4", "kv_cache:k=q8_0"])
def test_values_that_are_in_the_keys(selector):
    for dtype in OUT_TOLERANCE:
        q, k, _ = tensors(**SHAPES["absorbed latents"], queries=5, dtype=dtype)
        inputs = [q, k, k[..., :256]]
        cpu = attend(*inputs, selector, 0, values_in_keys=True)
        assert_alike(attend(*on_gpu(inputs), selector, 0, values_in_keys=True), cpu, dtype)
        with pytest.raises(ValueError, match="option 'v' is 'q8_0', expected 'native'"):
            attend(*on_gpu(inputs), "kv_cache:v=q8_0", 0, values_in_keys=True)


def test_results_are_repeatable():
    inputs = on_gpu(tensors(**SHAPES["long"]))
    first = attend(*inputs, "ffd", 3)
    for _ in range(3):
        assert all_equal(first, attend(*inputs, "ffd", 3))


def test_strided_and_unaligned_tensors():
    inputs = tensors(queries=3, tokens=200, batch=2)
    right = attend(*on_gpu(inputs), "quest", 64)
    for change in (lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
                   lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
                   lambda x: torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape)):
        assert all_equal(attend(*(change(x) for x in on_gpu(inputs)), "quest", 64), right)


def test_it_runs_on_the_current_stream():
    inputs = tensors(**SHAPES["long"])
    right = attend(*on_gpu(inputs), "ffd", 3)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        q, k, v = (torch.zeros_like(x, device="cuda") for x in inputs)
        torch.cuda._sleep(50_000_000)  # the copies come late
        for place, x in zip((q, k, v), inputs):
            place.copy_(x, non_blocking=True)
        out = attend(q, k, v, "ffd", 3)
    stream.synchronize()
    assert all_equal(out, right)


def test_dense_layers_and_many_rows():
    inputs = on_gpu(tensors(queries=600, tokens=4000, heads=32, kv_heads=8, dim=64, value_dim=64))
    dense = attend(*inputs, "quest", 64, layer=0)
    assert all_equal(dense, attend(*inputs))
    assert (attend(*inputs, "quest", 64, layer=2)[2] < 4000).all()


def test_errors_are_sentences():
    q, k, v = on_gpu(tensors())
    with pytest.raises(ValueError, match="q is on cuda:0, k on cpu"):
        attend(q, k.cpu(), v)
    k[0, 1, 17] = torch.inf
    for selector in ("ffd", "exact"):
        with pytest.raises(ValueError, match="the score of token 17 is"):
            attend(q, k, v, selector, 5 if selector == "ffd" else 0)
    for where in (1, 2):
        wide = on_gpu(tensors(dim=64, value_dim=64))  # one query and 64 channels: a kernel of its own
        wide[where][0, 1, 17] = torch.inf
        with pytest.raises(ValueError, match="the score of token 17 is" if where == 1 else "output"):
            attend(*wide)
    assert attend(*on_gpu(tensors()), "ffd", 5)[0].isfinite().all()  # the next call works
    with pytest.raises(ValueError, match="'nonsense'"):
        attend(*on_gpu(tensors()), "nonsense", 5)


def test_options_of_other_layers(tmp_path):
    refuses_options_of_other_layers(tmp_path, *on_gpu(tensors()))


def test_opcheck():
    q, k, v = on_gpu(tensors(queries=2, batch=2))
    torch.library.opcheck(torch.ops.attest.attend.default, (q, k, v, "ffd", 5.0, 3, 0.5))
    torch.library.opcheck(torch.ops.attest.attend.default, (q[:, :, :1], k, v, "ffd", 5.0, 3, 0.5))


# ---- FfdCache


def caches(tokens, extra, bits=2, **shape):
    """A cache of the first `tokens` tokens, and q, k, v of all."""
    q, k, v = on_gpu(tensors(tokens=tokens + extra, dtype=torch.float16, dim=128, value_dim=128, heads=8, kv_heads=2,
                             **shape))
    return torch.classes.attest.FfdCache(k[:, :, :tokens], v[:, :, :tokens], 8, tokens + extra, bits), q, k, v


@pytest.mark.parametrize("tokens", [100, 128, 1000, 5000])
@pytest.mark.parametrize("delta", [2.0, 5.0])
def test_a_decode_step_is_the_selector(tokens, delta):
    cache, q, k, v = caches(tokens, 130, batch=2)
    deltas = torch.full((2,), delta, device="cuda")
    for _ in range(130):
        at = cache.tokens()
        cache.append(k[:, :, at:at + 1], v[:, :, at:at + 1])
    assert cache.tokens() == tokens + 130
    out, lse, kept = torch.ops.attest.ffd_decode(cache, q, deltas, 0.5)
    right, right_lse, right_kept = attend(q, k, v, "ffd:block=128,sub_block=128,gqa=union", delta)
    same = kept * 128 + cache.tokens() % 128 == right_kept
    assert same.float().mean() >= 1 - 0.25  # a cell is one of four
    same = same.repeat_interleave(4, 1)
    torch.testing.assert_close(lse[same], right_lse[same], rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(out[same], right[same], rtol=1e-2, atol=1e-2)
    again = torch.ops.attest.ffd_decode(cache, q, deltas, 0.5)
    assert all_equal((out, lse, kept), again)


def test_a_deal_by_kept_shares_changes_rounding_alone():
    cache, q, _, _ = caches(70000, 0)
    deltas = torch.full((2,), 2.0, device="cuda")
    out, lse, kept = torch.ops.attest.ffd_decode(cache, q, deltas, 0.5)
    cache.deal(torch.tensor([[0.05, 0.95]], device="cuda"))
    dealt = [torch.ops.attest.ffd_decode(cache, q, deltas, 0.5) for _ in range(2)]
    assert all_equal(*dealt) and torch.equal(dealt[0][2], kept) and not torch.equal(dealt[0][0], out)
    torch.testing.assert_close(dealt[0][1], lse, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(dealt[0][0], out, rtol=1e-3, atol=1e-3)
    cache.deal(kept[..., 0] / (cache.tokens() // 128))
    for shares in ([[0.5, 1.5]], [[float("nan"), 0]]):
        with pytest.raises(ValueError, match="expected kept shares from 0 to 1, found"):
            cache.deal(torch.tensor(shares))


def test_what_a_cache_refuses():
    cache, q, k, v = caches(100, 1)
    delta = torch.full((2,), 5.0, device="cuda")
    for call, sentence in [(lambda: torch.ops.attest.ffd_decode(cache, q[:, :4], delta, 0.5),
                            r"q is Half \[1, 4, 1, 128\]"),
                           (lambda: torch.ops.attest.ffd_decode(cache, q, delta[:1], 0.5), r"delta is Float \[1\]"),
                           (lambda: torch.ops.attest.ffd_decode(cache, q, delta, 0.5, None, 7), "sub"),
                           (lambda: torch.ops.attest.ffd_decode(cache, q, delta, 0.5, None, 128, "best"),
                            "pseudo_max is 'best'"),
                           (lambda: torch.classes.attest.FfdCache(k.float(), v.float(), 8, 200, 2),
                            "expected float16 or bfloat16"),
                           (lambda: torch.classes.attest.FfdCache(k, v, 8, 50, 2), "max_tokens is 50")]:
        with pytest.raises((ValueError, RuntimeError), match=sentence):
            call()
    cache.append(k[:, :, 100:], v[:, :, 100:])
    with pytest.raises((ValueError, RuntimeError), match="it is full"):
        cache.append(k[:, :, 100:], v[:, :, 100:])
