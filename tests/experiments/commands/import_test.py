"""`attest import` as a user meets it: NumPy and the safetensors library write, h5py reads back."""

import json
import os
import subprocess

import h5py
import numpy as np
import pytest

ATTEST = os.environ["ATTEST_BIN"]
HQ, HKV, T, N, D, DV = 4, 2, 50, 3, 8, 6


def run(source, *options, expect=0):
    target = source.parent / "out" / "dump.h5"
    target.parent.mkdir(exist_ok=True)
    result = subprocess.run([ATTEST, "import", source, "-o", target, *map(str, options)], capture_output=True, text=True)
    assert result.returncode == expect, result.stderr
    if expect:
        assert len(result.stderr.splitlines()) == 1
        assert list(target.parent.iterdir()) == []
        return result.stderr
    return h5py.File(target)


def tensors(seed=0, dtype=np.float32):
    """q [Hq, N, D], k [Hkv, T, D], v [Hkv, T, Dv]."""
    random = np.random.default_rng(seed)
    return {"q": random.normal(size=(HQ, N, D)).astype(dtype), "k": random.normal(size=(HKV, T, D)).astype(dtype),
            "v": random.normal(size=(HKV, T, DV)).astype(dtype)}


def layers_of(count, **options):
    return {f"layers.{layer}.{role}": array for layer in range(count) for role, array in tensors(layer, **options).items()}


def assert_layer(layer, expected):
    np.testing.assert_array_equal(layer["q"][...], expected["q"].transpose(1, 0, 2))
    np.testing.assert_array_equal(layer["k"][...], expected["k"])
    np.testing.assert_array_equal(layer["v"][...], expected["v"])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npz(tmp_path, save, dtype, order):
    save(tmp_path / "a.npz", **{name: np.asarray(array, order=order) for name, array in layers_of(2, dtype=dtype).items()})
    with run(tmp_path / "a.npz", "--model", "my model", "--task", "mine") as dump:
        assert dump.attrs["model"] == "my model"
        sample = dump["samples/sample"]
        assert sample.attrs["task"] == "mine" and sample.attrs["num_tokens"] == T
        assert sample["query_positions"][...].tolist() == [47, 48, 49]
        assert sample["layers/0/k"].dtype == dtype
        for number in range(2):
            assert_layer(sample[f"layers/{number}"], tensors(number, dtype))


def test_bfloat16_of_torch_through_safetensors(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file
    saved = {name: torch.from_numpy(array).to(torch.bfloat16) for name, array in layers_of(3).items()}
    save_file(saved, tmp_path / "a.safetensors", metadata={"format": "pt"})
    with run(tmp_path / "a.safetensors") as dump:
        for number in range(3):
            layer = dump[f"samples/sample/layers/{number}"]
            assert_layer({role: tensor[...].astype(np.float32) for role, tensor in layer.items()},
                         {role: saved[f"layers.{number}.{role}"].float().numpy() for role in "qkv"})


def test_bits_of_bfloat16_in_npz(tmp_path):
    arrays = {name: (array.view(np.uint32) >> 16).astype(np.uint16) for name, array in tensors().items()}
    np.savez(tmp_path / "a.npz", **arrays)
    assert "--bfloat16-bits" in run(tmp_path / "a.npz", expect=4)
    with run(tmp_path / "a.npz", "--bfloat16-bits") as dump:
        layer = dump["samples/sample/layers/0"]
        assert_layer({role: tensor[...].astype(np.float32) for role, tensor in layer.items()},
                     {name: (bits.astype(np.uint32) << 16).view(np.float32) for name, bits in arrays.items()})


def test_a_sharded_folder_with_batches_and_a_token_first_layout(tmp_path):
    from safetensors.numpy import save_file
    folder = tmp_path / "model"
    folder.mkdir()
    weight_map = {}
    for layer in range(2):
        batch = [tensors(10 * layer + b) for b in range(2)]
        shard = {f"model.layers.{layer}.self_attn.{role}": np.ascontiguousarray([b[role].transpose(1, 0, 2) for b in batch]) for role in "qkv"}
        save_file(shard, folder / f"shard-{layer}.safetensors")
        weight_map |= {name: f"shard-{layer}.safetensors" for name in shard}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with run(folder, "--layout", "THD") as dump:
        assert sorted(dump["samples"]) == ["sample-0", "sample-1"]
        for b in range(2):
            for layer in range(2):
                assert_layer(dump[f"samples/sample-{b}/layers/{layer}"], tensors(10 * layer + b))


def test_patterns_name_samples_and_layers(tmp_path):
    arrays = {f"{sample}|attn{layer}:{role}": array for sample in ("niah", "qa") for layer in (3, 11)
              for role, array in tensors(layer + len(sample)).items()}
    np.savez(tmp_path / "a.npz", **arrays)
    with run(tmp_path / "a.npz", "--q", "{s}|attn{l}:q", "--k", "{s}|attn{l}:k", "--v", "{s}|attn{l}:v", "--num-layers", 20,
             "--positions", "7,9,40", "--span", "1:3,10:20", "--scale", 0.5, "--sliding-window", 16, "--window-layers", 11) as dump:
        assert dump.attrs["num_layers"] == 20 and dump.attrs["softmax_scale"] == 0.5
        assert sorted(dump["samples"]) == ["niah", "qa"]
        assert dump["samples/qa/query_positions"][...].tolist() == [7, 9, 40]
        assert dump["samples/qa/spans"][...].tolist() == [[1, 3], [10, 20]]
        assert "sliding_window" not in dump["samples/qa/layers/3"].attrs
        assert dump["samples/qa/layers/11"].attrs["sliding_window"] == 16
        assert_layer(dump["samples/niah/layers/11"], tensors(15))


def test_inspect_finds_the_import_sound(tmp_path):
    np.savez(tmp_path / "a.npz", **layers_of(2))
    run(tmp_path / "a.npz").close()
    result = subprocess.run([ATTEST, "inspect", "--check", tmp_path / "out" / "dump.h5"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_json_tells_what_was_written(tmp_path):
    np.savez(tmp_path / "a.npz", **layers_of(2))
    result = subprocess.run([ATTEST, "--json", "--quiet", "import", tmp_path / "a.npz", "-o", tmp_path / "d.h5"], capture_output=True, text=True)
    report = json.loads(result.stdout)
    assert (report["samples"], report["layers"], report["head_dim"], report["value_dim"]) == (1, 2, D, DV)
    assert report["bytes"] == 2 * 4 * (N * HQ * D + HKV * T * (D + DV))
    assert result.stderr == ""


def refused(tmp_path, complaint, *options, expect=4, **arrays):
    np.savez(tmp_path / "bad.npz", **arrays)
    error = run(tmp_path / "bad.npz", *options, expect=expect)
    assert complaint in error, error


def test_what_makes_no_dump_is_refused(tmp_path):
    refused(tmp_path, "found '<f8' (convert it to float32 first)", **tensors(dtype=np.float64))
    refused(tmp_path, "found '>f4'", **tensors(dtype=">f4"))
    refused(tmp_path, "expected float32 as in 'q', found float16", **(tensors() | {"v": tensors(dtype=np.float16)["v"]}))
    refused(tmp_path, "found 'q', 'keys', 'v' (--q, --k and --v name them)", q=tensors()["q"], keys=tensors()["k"], v=tensors()["v"])
    refused(tmp_path, "expected 50 tokens as in k, found 49", **(tensors() | {"v": tensors()["v"][:, 1:]}))
    refused(tmp_path, "name pattern 'x{y}'", "--q", "x{y}", "--k", "k", "--v", "v", expect=2, **tensors())
    refused(tmp_path, "--span: expected BEGIN:END, found '7'", "--span", "7", expect=2, **tensors())
    refused(tmp_path, "layout 'ABC'", "--layout", "ABC", expect=2, **tensors())


def test_files_that_are_none_or_damaged_are_refused(tmp_path):
    (tmp_path / "text").write_text("hello, world")
    assert "expected safetensors or npz, found neither" in run(tmp_path / "text", expect=4)
    assert "No such file" in run(tmp_path / "absent", expect=4)
    np.savez(tmp_path / "a.npz", **tensors())
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    assert "cut.npz: zip archive: expected its end record, found none" in run(tmp_path / "cut.npz", expect=4)
    flipped = bytearray(whole)
    flipped[500] ^= 1
    (tmp_path / "flipped.npz").write_bytes(flipped)
    assert "checksum" in run(tmp_path / "flipped.npz", expect=4)


def test_an_existing_dump_is_replaced_only_by_force(tmp_path):
    np.savez(tmp_path / "a.npz", **tensors())
    target = tmp_path / "d.h5"
    target.write_text("mine")
    command = [ATTEST, "import", tmp_path / "a.npz", "-o", target]
    assert subprocess.run(command, capture_output=True).returncode == 5
    assert target.read_text() == "mine"
    assert subprocess.run([*command, "--force"], capture_output=True).returncode == 0
    assert h5py.is_hdf5(target)
