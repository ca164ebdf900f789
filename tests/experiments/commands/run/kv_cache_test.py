"""Refusals of the selector kv_cache on the command line: one sentence, and the exit code that says whose fault it
is."""
import json
import struct

import h5py
import numpy as np
import pytest

from attest_program import run_attest


def make_dump(path, channels=64, **attributes):
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="m", num_layers=4, num_query_heads=2,
                          num_kv_heads=2, head_dim=channels, **attributes)
        sample = file.create_group("samples/s")
        sample.attrs.update(task="t", num_tokens=20)
        sample["query_positions"] = np.array([19])
        for layer in (1, 2):
            group = sample.create_group(f"layers/{layer}")
            group["q"] = random.standard_normal((1, 2, channels), np.float32)
            group["k"] = group["v"] = random.standard_normal((2, 20, channels), np.float32)
    return path


def scales(path, **numbers):
    header, data = {}, b""
    for name, values in numbers.items():
        values = np.atleast_1d(np.asarray(values, np.float32))
        header[f"model.layers.{name}"] = {"dtype": "F32", "shape": list(values.shape),
                                          "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def run(dump, options, folder):
    return run_attest("run", dump, "-o", folder / "r.h5", "--force", "--device", "cpu", "--quiet", "--selector",
                      f"x=kv_cache:{options}")


@pytest.mark.parametrize("options, attributes, sentence", [
    ("k=q8_0", dict(channels=72), "option 'k' is 'q8_0', and keys have 72 channels, expected a multiple of 32"),
    ("v=q4_0", dict(values_in_keys=1), "option 'v' is 'q4_0', expected 'native'"),
    ("k=fp8_ds_mla", {}, "expected latent attention (dump attribute values_in_keys)"),
    ("k=fp8_e4m3,k_scale=0", {}, "option 'k_scale' is '0', expected a number above 0"),
    ("k=fp8_e4m3,k_scale=nan", {}, "option 'k_scale' is 'nan', expected a number above 0"),
    ("k=fp8_e4m3,skip_layers=1+", {}, "option 'skip_layers' has '1+', expected numbers of layers"),
])
def test_options_that_do_not_fit(options, attributes, sentence, tmp_path):
    done = run(make_dump(tmp_path / "d.h5", **attributes), options, tmp_path)
    assert done.returncode == 2 and sentence in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("numbers, sentence", [
    ({"1.k_scale": 1}, "has no tensor layers.2.*k_scale, expected the scale of layer 2"),
    ({"1.k_scale": 1, "2.k_scale": np.nan}, "model.layers.2.k_scale is nan, expected a finite number above 0"),
    ({"1.k_scale": 1, "2.k_scale": 0}, "model.layers.2.k_scale is 0, expected a finite number above 0"),
    ({"1.k_scale": 1, "2.k_scale": [1, 2, 3]}, "layers.2.*k_scale has 3 numbers, expected one, or 2, one per KV head"),
])
def test_files_of_scales(numbers, sentence, tmp_path):
    file = scales(tmp_path / "s.safetensors", **numbers)
    done = run(make_dump(tmp_path / "d.h5"), f"k=fp8_e4m3,scales_file={file}", tmp_path)
    assert done.returncode == 4 and sentence in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert not (tmp_path / "r.h5").exists()


def test_scales_of_a_file_are_used(tmp_path):
    dump = make_dump(tmp_path / "d.h5")
    file = scales(tmp_path / "s.safetensors", **{"1.k_scale": 0.01, "2.k_scale": [0.02, 3]})

    def error(options, layer):
        assert run(dump, options, tmp_path).returncode == 0
        with h5py.File(tmp_path / "r.h5") as results:
            return results["dumps/0/samples/s/x/scan_error_std"][layer - 1, 0]

    both = f"k=fp8_e4m3,scales_file={file}"
    np.testing.assert_array_equal(error(both, 1), error("k=fp8_e4m3,k_scale=0.01", 1))
    np.testing.assert_array_equal(error(both, 2)[0], error("k=fp8_e4m3,k_scale=0.02", 2)[0])
    np.testing.assert_array_equal(error(both, 2)[1], error("k=fp8_e4m3,k_scale=3", 2)[1])
    assert run(dump, f"k=fp8_e4m3,scales_file={scales(file, **{'1.k_scale': 1})},skip_layers=2",
               tmp_path).returncode == 0
