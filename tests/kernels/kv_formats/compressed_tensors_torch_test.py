"""Keys decoded from NVFP4 against compressed-tensors, which vLLM's checkpoints are made with: the same numbers.

Scales, codes and values are of the package; it divides where the formula multiplies by a reciprocal, and decodes in
float32. As in packages_test.py the score of a query head is one channel of K^.
"""
import importlib
import os

import h5py
import numpy as np
import pytest

from attest_program import attest

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # the package compiles its rounding, which takes a minute
torch = pytest.importorskip("torch", reason="torch is not installed (cmake/setup.sh --torch)")
pytest.importorskip("compressed_tensors", reason="compressed-tensors is not installed (cmake/setup.sh --torch --tests)")
quantization, forward, utils = (importlib.import_module(f"compressed_tensors.quantization{part}")
                                for part in ("", ".lifecycle.forward", ".utils"))

CHANNELS, HEADS = 64, 256
FLOAT32 = 2e-7  # relative: the package's values are products of float32
MOST_AT_A_TIE = 2e-3  # share of channels whose code is a neighbouring one: their position is within rounding of a tie


def made_keys():
    random = np.random.default_rng(8)
    keys = random.standard_normal((HEADS, CHANNELS)) * np.exp2(random.integers(-6, 7, (HEADS, 1)))
    keys[::9] = random.integers(-8, 9, keys[::9].shape)
    keys[3] = 0
    return torch.tensor(keys, dtype=torch.bfloat16).float()


def by_the_package(keys, scale):
    args = quantization.QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", symmetric=True,
                                         group_size=16,
                            scale_dtype=torch.float8_e4m3fn)
    whole = torch.tensor([1 / np.float32(scale)])
    blocks = keys.reshape(HEADS, -1, 16)
    scales, _ = utils.calculate_qparams(blocks.amin(-1), blocks.amax(-1), args, global_scale=whole)
    return forward.fake_quantize(keys, scales, None, args, global_scale=whole).double().numpy()


@pytest.mark.parametrize("options", ["k=nvfp4", "k=nvfp4,k_scale=0.02"])
def test_decoded_keys_are_the_same(options, tmp_path):
    keys = made_keys()
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="rows", num_layers=1,
                          num_query_heads=HEADS * CHANNELS, num_kv_heads=HEADS, head_dim=CHANNELS, softmax_scale=1.0)
        sample = file.create_group("samples/s")
        sample.attrs.update(task="rows", num_tokens=1)
        sample["query_positions"] = np.array([0])
        layer = sample.create_group("layers/0")
        layer["q"] = np.tile(np.eye(CHANNELS, dtype=np.float32), (HEADS, 1))[None]
        layer["k"] = layer["v"] = keys.numpy()[:, None]
    results = tmp_path / "r.h5"
    attest("run", tmp_path / "d.h5", "-o", results, "--device", "cpu", "--selector", f"kv=kv_cache:{options}")
    with h5py.File(results) as file:
        difference = file["dumps/0/samples/s/kv/scan_error_mean"][()].reshape(HEADS, CHANNELS)
    found = keys.double().numpy() + difference
    scale = float(options.split("=")[-1]) if "k_scale" in options else keys.abs().max().item() / 2688
    expected = by_the_package(keys, scale)
    assert (expected != keys.numpy()).mean() > 0.5
    magnitude = np.abs(expected).reshape(HEADS, -1, 16).max(2, keepdims=True).repeat(16, 2).reshape(expected.shape)
    differs = np.abs(found - expected) > FLOAT32 * magnitude
    assert differs.mean() <= MOST_AT_A_TIE, f"{differs.sum()} of {differs.size} channels differ"
