"""torch.ops.attest.attend on the CPU: exact attention beside torch, shapes, strides, torch.compile, and bad input."""
import json
import math

import pytest

from attend_cases import LIBRARY, SCALE, all_equal, attend, dense, refuses_options_of_other_layers, tensors, torch

SHAPES = {
    "one query": dict(),
    "one token": dict(tokens=1),
    "a chunk of queries": dict(queries=70, tokens=200),
    "only queries": dict(queries=40, tokens=40),
    "one head": dict(heads=1, kv_heads=1),
    "group of 8": dict(heads=8, kv_heads=1),
    "value_dim of its own": dict(dim=40, value_dim=24),
    "batch": dict(batch=3, queries=2),
    "float16": dict(dtype=torch.float16),
    "float32": dict(dtype=torch.float32, queries=3),
}
MODELS = {
    "plain": dict(),
    "window": dict(window=37),
    "window of all": dict(window=5000),
    "softcap": dict(softcap=2.0),
    "sinks": dict(sinks=True),
    "all": dict(window=37, softcap=2.0, sinks=True),
}
TOLERANCE = {torch.bfloat16: 5e-3, torch.float16: 6e-4, torch.float32: 1e-6}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_exact_is_attention(shape, model):
    q, k, v = tensors(**SHAPES[shape])
    options = dict(MODELS[model])
    if options.pop("sinks", False):
        options["sinks"] = torch.linspace(-2, 4, q.shape[1])
    out, lse, kept = attend(q, k, v, **options)
    right, right_lse = dense(q, k, v, **options)
    assert out.dtype == q.dtype and lse.dtype == torch.float32 and kept.dtype == torch.int64
    torch.testing.assert_close(out.double(), right, rtol=TOLERANCE[q.dtype], atol=1e-6)
    torch.testing.assert_close(lse.double(), right_lse, rtol=1e-6, atol=1e-6)
    queries, tokens = q.shape[2], k.shape[2]
    seen = torch.arange(tokens - queries, tokens) + 1
    if options.get("window"):
        seen = seen.clamp(max=options["window"])
    assert (kept == seen).all() and kept.shape == (q.shape[0], k.shape[1], queries)


@pytest.mark.parametrize("selector, setting", [("exact", 0), ("ffd:block=32,sub_block=16", 2), ("quest", 64),
                                               ("kivi", 0)])
def test_a_query_alone_and_in_a_chunk_have_the_same_bits(selector, setting):
    q, k, v = tensors(queries=6, tokens=300, batch=2)
    chunk = attend(q, k, v, selector, setting)
    for n in range(6):
        seen = 300 - 6 + n + 1
        alone = attend(q[:, :, n:n + 1], k[:, :, :seen], v[:, :, :seen], selector, setting)
        for a, b in zip(alone, chunk, strict=True):
            assert torch.equal(a, b[:, :, n:n + 1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_strided_tensors_are_read_where_they_are(dtype):
    q, k, v = tensors(queries=3, tokens=200, batch=2, dtype=dtype)
    right = attend(q, k, v, "quest", 64)
    cache = [torch.full((2, 2, 500, 32), torch.nan, dtype=dtype) for _ in range(2)]  # unused places of a cache
    for place, x in zip(cache, (k, v), strict=True):
        place[:, :, :200] = x
    interleaved = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    columns = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in (q, k, v)]
    for q_, k_, v_ in ([q, *(c[:, :, :200] for c in cache)], interleaved, columns):
        assert all_equal(attend(q_, k_, v_, "quest", 64), right)


def test_nothing_is_written_to_the_inputs():
    before = tensors(queries=3)
    after = [x.clone() for x in before]
    attend(*after, "kivi")
    assert all_equal(before, after)


def test_the_number_of_threads_does_not_matter():
    q, k, v = tensors(queries=40, batch=2)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = attend(q, k, v, "ffd", 3)
        torch.set_num_threads(5)
        assert all_equal(one, attend(q, k, v, "ffd", 3))
    finally:
        torch.set_num_threads(threads)


def test_nothing_to_attend():
    q, k, v = tensors(queries=0)
    assert [x.numel() for x in attend(q, k, v, "ffd", 5)] == [0, 0, 0]
    q, k, v = tensors(batch=0)
    assert attend(q, k, v)[0].shape == (0, 4, 1, 32)


def test_dense_layers_are_exact():
    q, k, v = tensors()
    exact = attend(q, k, v)
    in_layer = {layer: attend(q, k, v, "quest", 64, layer=layer) for layer in (0, 1, 2)}
    assert all_equal(in_layer[0], exact) and all_equal(in_layer[1], exact)
    assert (in_layer[2][2] < 300).all()


def test_a_share_of_the_visible_keys():
    q, k, v = tensors(tokens=320)
    share, tokens = attend(q, k, v, "streaming_llm", 0.25), attend(q, k, v, "streaming_llm", 80)
    assert all_equal(share, tokens) and (share[2] == 80).all()


def test_values_in_keys_are_those_of_the_stored_keys():
    q, k, _ = tensors(tokens=320, batch=2)
    v = k[..., :16]
    latent = attend(q, k, v, "kv_cache:k=fp8_e4m3", values_in_keys=True)
    apart = attend(q, k, v, "kv_cache:k=fp8_e4m3,v=fp8_e4m3")
    assert all_equal(latent, apart)
    assert not torch.equal(latent[0], attend(q, k, v, "kv_cache:k=fp8_e4m3")[0])
    with pytest.raises(ValueError, match="option 'v' is 'fp8_e4m3', expected 'native'"):
        attend(q, k, v, "kv_cache:v=fp8_e4m3", values_in_keys=True)
    with pytest.raises(ValueError, match="expected values that are the first channels of the keys"):
        attend(q, k, torch.cat([k, k], dim=3), values_in_keys=True)


def test_scales_are_those_of_each_sequence():
    q, k, v = tensors(tokens=200, batch=2)
    k[1] *= 300
    both = attend(q, k, v, "kv_cache:k=nvfp4,v=nvfp4")
    for i in range(2):
        alone = attend(q[i:i + 1], k[i:i + 1], v[i:i + 1], "kv_cache:k=nvfp4,v=nvfp4")
        assert all_equal([x[i:i + 1] for x in both], alone)


def test_kinds_of_settings():
    kinds = {"ffd:gqa=per_head": "delta", "quest": "budget", "twilight": "p", "skip_softmax:unit=factor": "factor",
             "exact": "none"}
    assert {selector: torch.ops.attest.setting_kind(selector) for selector in kinds} == kinds
    with pytest.raises(ValueError, match="unknown selector 'qest'"):
        torch.ops.attest.setting_kind("qest")


def test_a_settings_file_gives_each_kv_head_its_delta(tmp_path):
    q, k, v = tensors(tokens=600)
    path = tmp_path / "rec.json"
    path.write_text(json.dumps({"format": "attest-recommendation", "format_version": 1, "model": "m", "selector": "ffd",
                                "setting": "delta", "default": 1, "layers": {"3": {"kv_heads": {"1": "dense"}}}}))
    own, exact, one = attend(q, k, v, f"ffd:settings_file={path}"), attend(q, k, v), attend(q, k, v, "ffd", 1)
    assert torch.equal(own[0][:, 2:], exact[0][:, 2:]) and torch.equal(own[0][:, :2], one[0][:, :2])


@pytest.mark.parametrize("selector, setting", [("exact", 0.0), ("ffd", 5.0)])
@pytest.mark.parametrize("sinks", [False, True])
def test_opcheck(selector, setting, sinks):
    q, k, v = tensors(queries=2)
    logits = torch.zeros(4) if sinks else None
    torch.library.opcheck(torch.ops.attest.attend.default, (q, k, v, selector, setting, 3, SCALE, 0.0, 0, logits))


def test_torch_compile_traces_through():
    def step(q, k, v):
        out, lse, kept = attend(2 * q, k, v, "ffd", 5.0)
        return out + 1, lse, kept

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (300, 301):
        q, k, v = tensors(tokens=tokens)
        assert all_equal(compiled(q, k, v), step(q, k, v))


def test_arguments_have_defaults():
    q, k, v = tensors()
    with_defaults = torch.ops.attest.attend(q, k, v, "ffd", 5, 3, SCALE)
    assert all_equal(with_defaults, attend(q, k, v, "ffd", 5))


def test_a_backward_pass_is_refused():
    q, k, v = tensors(dtype=torch.float32)
    out = attend(q.requires_grad_(), k, v)[0]
    with pytest.raises(RuntimeError, match="derivative for attest::attend is not implemented"):
        out.sum().backward()


Q, K, V = tensors()
TWO_CHANNELS = (torch.arange(32) == 3) | (torch.arange(32) == 4)
OPPOSITE = K.clone()  # the range of token 7 overflows in a quantiser, not in a score of a query without these channels
OPPOSITE[:, :, 7, 3], OPPOSITE[:, :, 7, 4] = 3.3e38, -3.3e38
BAD = {
    "dimensions": (dict(q=Q[0]), "q has 3 dimensions, expected 4"),
    "heads": (dict(q=Q[:, :3]), r"q is \[1, 3, 1, 32\], k \[1, 2, 300, 32\], .* where Hkv divides Hq"),
    "batch": (dict(q=Q.repeat(2, 1, 1, 1)), r"q is \[2, 4, 1, 32\]"),
    "head_dim": (dict(q=Q[..., :16]), "expected .*N, D"),
    "tokens": (dict(v=V[:, :, :7]), r"v \[1, 2, 7, 32\]"),
    "too many queries": (dict(q=Q.expand(1, 4, 301, 32)), "301 queries and 300 keys"),
    "types": (dict(v=V.float()), "expected one type"),
    "type": (dict(q=Q.double(), k=K.double(), v=V.double()), "q is double, expected float16, bfloat16 or float32"),
    "no selector": (dict(selector="ffdd"), "unknown selector 'ffdd'; nearest: 'ffd'"),
    "unprintable": (dict(selector="ffd\n"), "unknown selector 'ffd.+'; nearest: 'ffd'"),
    "empty": (dict(selector=""), "it names no selector; expected NAME"),
    "option": (dict(selector="ffd:blck=3"), "selector 'ffd' has no option 'blck'; nearest: 'block'"),
    "no option": (dict(selector="ffd:block"), "'block' is no option=value"),
    "value": (dict(selector="ffd:bits=99"), "option 'bits' is '99', expected"),
    "estimates": (dict(selector="imported:file=a,dataset=b"), "takes estimates from a dump"),
    "calibration": (dict(selector="double_sparsity:calibrate=a"), "takes a calibration from a dump"),
    "settings file": (dict(selector="ffd:settings_file=/no/such"), "/no/such"),
    "delta": (dict(selector="ffd", setting=-1.0), "the setting -1 is not a delta"),
    "nan": (dict(selector="ffd", setting=math.nan), "the setting nan is not a delta"),
    "budget": (dict(selector="quest", setting=64.5), "the setting 64.5 is not a budget"),
    "no budget": (dict(selector="quest", setting=0.0), "the setting 0 is not a budget"),
    "p": (dict(selector="twilight", setting=1.5), "the setting 1.5 is not a p"),
    "no setting": (dict(selector="kivi", setting=5.0), "selector 'kivi' has no setting: expected 0, found 5"),
    "layer": (dict(layer=-1), "layer is -1"),
    "scale": (dict(scale=0.0), r"scale is 0, expected a number that float32 holds, 1\.2e-38 to 3\.4e\+38"),
    "small scale": (dict(scale=1e-50), "scale is 1e-50, expected a number that float32 holds"),
    "large scale": (dict(scale=1e39), r"scale is 1e\+39, expected a number that float32 holds"),
    "scale nan": (dict(scale=math.nan), "scale is nan"),
    "softcap": (dict(softcap=-1.0), "softcap is -1"),
    "small softcap": (dict(softcap=1e-46), r"softcap is 1e-46, expected a number that float32 holds.*, or 0 for none"),
    "large softcap": (dict(softcap=1e39), r"softcap is 1e\+39"),
    "window": (dict(window=-1), "window is -1"),
    "sinks": (dict(sinks=torch.zeros(3)), r"sinks are float \[3\], expected floating point \[4\]"),
    "sink": (dict(sinks=torch.tensor([0, math.inf, 0, 0])), "the sink of query head 1 is inf"),
    "nan in q": (dict(q=Q * math.nan), "layer 3, query head 0, query at 299: the score of token 0 is NaN or beyond"),
    "estimate": (dict(q=Q.masked_fill(TWO_CHANNELS, 0), k=OPPOSITE, selector="twilight", setting=0.9),
                 "the score that selector 'twilight' estimates for token 7 is NaN or beyond"),
    "inf in v": (dict(v=V.masked_fill(torch.arange(300)[:, None] == 299, math.inf)),
                 "output of selector 'exact' is NaN"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(name):
    change, sentence = BAD[name]
    arguments = dict(q=Q, k=K, v=V) | change
    with pytest.raises(ValueError, match=sentence) as caught:
        attend(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)
    assert "\n" not in str(caught.value)


def test_options_of_other_layers(tmp_path):
    refuses_options_of_other_layers(tmp_path, Q, K, V)


def test_a_sequence_of_a_batch_is_named():
    q, k, v = tensors(batch=2)
    k[1, 1, 7, 0] = math.nan
    with pytest.raises(ValueError,
                       match="sequence 1, layer 3, query head 2, query at 299: the score of token 7 is NaN"):
        attend(q, k, v)


def test_loading_twice_is_harmless():
    before = attend(Q, K, V)
    torch.ops.load_library(str(LIBRARY))
    assert all(torch.equal(one, other) for one, other in zip(before, attend(Q, K, V), strict=True))
