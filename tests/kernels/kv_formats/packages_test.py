"""Decoded keys against implementations by others, bit for bit: gguf's quantisers, and the small floats of ml_dtypes.

A key head has one token, and its query heads are the unit vectors with a scale of 1: the score of query head d is
channel d of K^, and scan_error_mean is that minus the channel of K, rounded to float32 once.
"""

import h5py
import numpy as np
import pytest

from attest_program import attest

gguf = pytest.importorskip("gguf", reason="gguf is not installed (cmake/requirements-tests.txt)")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed (cmake/requirements-tests.txt)")

CHANNELS = 32
HEADS = 512


def made_keys():
    """[HEADS, CHANNELS] in bfloat16: ties are frequent there."""
    random = np.random.default_rng(5)
    keys = random.standard_normal((HEADS, CHANNELS)) * np.exp2(random.integers(-12, 13, (HEADS, 1)))
    keys[::7] = random.integers(-8, 9, keys[::7].shape)  # exact ties
    keys[1::7] *= np.exp2(random.integers(-6, 1, keys[1::7].shape))
    keys[2::7, 3] = keys[2::7, 9] = -keys[2::7, 4]  # two peaks, of either sign
    keys[3] = 0
    keys[4] = 1.25  # one value: max = min
    keys[5] = 2.0**-30  # scales that float16 flushes to zero
    keys[6] = np.linspace(-500, 500, CHANNELS)  # beyond 448
    keys[8] = np.linspace(-60000, 60000, CHANNELS)  # beyond 57344
    keys[9] = np.linspace(-1, 1, CHANNELS) * 2.0**-8  # subnormal in e4m3
    keys[10] = 2.0 ** -np.arange(CHANNELS)
    return keys.astype(ml_dtypes.bfloat16).astype(np.float32)


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    path = tmp_path_factory.mktemp("kv") / "rows.h5"
    keys = made_keys()
    with h5py.File(path, "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="rows", num_layers=1,
                          num_query_heads=HEADS * CHANNELS, num_kv_heads=HEADS, head_dim=CHANNELS, softmax_scale=1.0)
        sample = file.create_group("samples/s")
        sample.attrs.update(task="rows", num_tokens=1)
        sample["query_positions"] = np.array([0])
        layer = sample.create_group("layers/0")
        layer["q"] = np.tile(np.eye(CHANNELS, dtype=np.float32), (HEADS, 1))[None]
        layer["k"] = layer["v"] = keys[:, None]
    return path, keys


def differences(dump, options, folder):
    """K^ - K [HEADS, CHANNELS] as attest finds it."""
    results = folder / "results.h5"
    attest("run", dump, "-o", results, "--device", "cpu", "--selector", f"kv=kv_cache:{options}")
    with h5py.File(results) as file:
        return file["dumps/0/samples/s/kv/scan_error_mean"][()].reshape(HEADS, CHANNELS)


def fp8(keys, kind, scale, largest):
    return np.clip(keys / np.float32(scale), -largest, largest).astype(kind).astype(np.float64) * np.float32(scale)


def nvfp4(keys, scale):
    blocks, one = keys.reshape(-1, 16), np.float32(1)
    peak = np.abs(blocks).max(1, keepdims=True)
    factor = np.minimum(one / np.float32(scale) * (peak * (one / np.float32(6))), 448)
    factor = factor.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    step = factor * np.float32(scale)
    with np.errstate(divide="ignore"):
        inverse = np.where(step > 0, one / step, 0).astype(np.float32)
    codes = np.clip(blocks * inverse, -6, 6).astype(ml_dtypes.float4_e2m1fn).astype(np.float64)
    return (codes * (factor.astype(np.float64) * np.float32(scale))).reshape(keys.shape)


def ggml(keys, name):
    kind = gguf.GGMLQuantizationType[name.upper()]
    return gguf.quants.dequantize(gguf.quants.quantize(keys, kind), kind).astype(np.float64)


def amax_of_heads(keys):
    scales = np.abs(keys).max(1, keepdims=True) / np.float32(448)
    return np.where(scales == 0, np.float32(1), scales)


PEAK = np.float32(np.abs(made_keys()).max())
CASES = {
    "k=fp8_e4m3": lambda keys: fp8(keys, ml_dtypes.float8_e4m3fn, 1, 448),
    "k=fp8_e4m3,k_scale=0.0123": lambda keys: fp8(keys, ml_dtypes.float8_e4m3fn, 0.0123, 448),
    "k=fp8_e5m2": lambda keys: fp8(keys, ml_dtypes.float8_e5m2, 1, 57344),
    "k=fp8_e5m2,k_scale=3": lambda keys: fp8(keys, ml_dtypes.float8_e5m2, 3, 57344),
    "k=fp8_e4m3,k_scale=amax": lambda keys: fp8(keys, ml_dtypes.float8_e4m3fn, PEAK / np.float32(448), 448),
    "k=fp8_e4m3,k_scale=amax_head": lambda keys: fp8(keys, ml_dtypes.float8_e4m3fn, amax_of_heads(keys), 448),
    "k=nvfp4": lambda keys: nvfp4(keys, PEAK / np.float32(2688)),
    "k=nvfp4,k_scale=0.01": lambda keys: nvfp4(keys, 0.01),
    **{f"k={name},rotate=none": lambda keys, name=name: ggml(keys, name)
       for name in ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0")},
}


@pytest.mark.parametrize("options", CASES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # gguf's own, of blocks whose scale underflows
def test_decoded_keys_are_the_same_bits(dump, options, tmp_path):
    path, keys = dump
    expected = (CASES[options](keys) - keys).astype(np.float32)
    found = differences(path, options, tmp_path)
    wrong = np.argwhere(found != expected)
    assert len(wrong) == 0, (f"{len(wrong)} channels, first {wrong[0]}: {found[tuple(wrong[0])]} "
                             f"{expected[tuple(wrong[0])]}")
    assert (expected != 0).mean() > 0.2  # the case is not trivial


def test_channels_are_found_where_they_differ(dump, tmp_path):
    """The measurement tells two formats apart."""
    path, keys = dump
    found = differences(path, "k=q4_0,rotate=none", tmp_path)
    assert (found != (ggml(keys, "q4_1") - keys).astype(np.float32)).mean() > 0.5
