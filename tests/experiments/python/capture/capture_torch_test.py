"""Compares attest capture with the library: attention recomputed from the dump must equal the model's, for each
family."""
import importlib.util
import json

import h5py
import numpy as np
import pytest
import torch

from capture_models import (
    assert_reproduces_model, assert_well_formed, attention, FAMILIES, make_model, models, read, reference, run, T,
    token_ids, TOLERANCE, WINDOW, WINDOWED_LAYERS, write_prompts)  # noqa: F401 (models is a fixture)
from attest.capture import model_attention
from near import MODEL, assert_near


@pytest.mark.parametrize("query_block", [1024, 16])  # in one block, and in several as for a long prompt
@pytest.mark.parametrize("family", FAMILIES)
def test_attention_of_dump_is_attention_of_model(family, query_block, models, tmp_path, monkeypatch):
    monkeypatch.setattr(model_attention, "QUERY_BLOCK", query_block)
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "long"},
                            {"tokens": token_ids(9, 1), "name": "short"})
    dump = tmp_path / "dump.h5"
    assert run(models(family), prompts, "-o", dump, "--positions=0,3,-2,-1") == 0
    assert_well_formed(dump)
    assert_reproduces_model(dump, models(family))
    with h5py.File(dump) as file:
        layers = file["samples/long/layers"]
        windows = {int(n) for n, layer in layers.items() if "sliding_window" in layer.attrs}
        assert windows == WINDOWED_LAYERS.get(family, set()) and len(layers) == 4
        for layer in windows:  # without the window the result would differ
            assert layers[str(layer)].attrs["sliding_window"] == WINDOW
            difference = attention(file, "long", layer)[0] - attention(file, "long", layer, window=False)[0]
            assert np.abs(difference).max() > 1e-2
        assert all(("sinks" in layer) == (family == "gpt_oss") for layer in layers.values())
        assert ("logit_softcap" in file.attrs) == (family == "gemma2")
        if family == "gemma2":
            assert np.abs(attention(file, "long", 1)[0] - attention(file, "long", 1, softcap=False)[0]).max() > 1e-2


# Sliding-window caches drop keys, the dump must not.
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gemma3", "gpt_oss", "deepseek_v2", "deepseek_v3",
                                    "bamba"])
def test_decode_steps(family, models, tmp_path):
    dump = tmp_path / "dump.h5"
    assert run(models(family), write_prompts(tmp_path, {"tokens": token_ids(40)}), "-o", dump, "--decode", 5) == 0
    assert_well_formed(dump)
    assert_reproduces_model(dump, models(family))
    with h5py.File(dump) as file:
        sample = file["samples/text_0"]
        assert sample["query_positions"][:].tolist() == [40, 41, 42, 43, 44]
        assert sample.attrs["num_tokens"] == 45 and sample.attrs["prompt_length"] == 40
        ids = sample["tokens"][:].tolist()
    _, logits, _ = reference(models(family), ids)
    assert ids[40:] == logits[39:44].argmax(-1).tolist()


def test_learned_sinks_are_the_models_own(models, tmp_path):
    dump = tmp_path / "dump.h5"
    assert run(models("gpt_oss"), write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"}), "-o", dump, "--layers",
               "1,2") == 0
    model = assert_reproduces_model(dump, models("gpt_oss"))
    with h5py.File(dump) as file:
        for layer in (1, 2):
            sinks = file[f"samples/s/layers/{layer}/sinks"]
            assert sinks.dtype == np.float32
            np.testing.assert_array_equal(sinks[:], model.model.layers[layer].self_attn.sinks.detach().numpy())


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_element_type_is_kept(dtype, tmp_path):
    folder = make_model(tmp_path / "model", FAMILIES["llama"](), dtype)
    dump = tmp_path / "dump.h5"
    assert run(folder, write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"}), "-o", dump) == 0
    model = assert_reproduces_model(dump, folder, dtype)
    # v of layer 0 goes from its projection to the file without arithmetic, so the bits must be equal.
    projected = []
    model.model.layers[0].self_attn.v_proj.register_forward_hook(lambda *call: projected.append(call[2][0]))
    with h5py.File(dump) as file, torch.inference_mode():
        model(input_ids=torch.tensor([file["samples/s/tokens"][:].tolist()]))
        kind = file["samples/s/layers/0/v"].id.get_type()
        layout = {torch.float16: (15, 10, 5, 0, 10), torch.bfloat16: (15, 7, 8, 0, 7),
                  torch.float32: (31, 23, 8, 0, 23)}
        assert kind.get_fields() == layout[dtype] and kind.get_order() == h5py.h5t.ORDER_LE
        assert kind.get_ebias() == (15 if dtype == torch.float16 else 127)
        v = read(file["samples/s/layers/0/v"])
    np.testing.assert_array_equal(v, projected[0].view(T, 2, 32).transpose(0, 1).double().numpy())


def test_dtype_option_overrides_checkpoint(models, tmp_path):
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models("llama"), prompts, "-o", dump, "--dtype", "float16") == 0
    with h5py.File(dump) as file:
        assert file["samples/s/layers/0/k"].dtype == np.float16


def rotate(x, parameters):
    """RoPE of [H, T, D] by its definition: the pair (i, i + D'/2) is rotated by position * frequency i."""
    frequencies = np.array(parameters["inv_freq"])
    half = len(frequencies)
    angle = np.arange(x.shape[1])[:, None] * frequencies
    c, s = np.cos(angle), np.sin(angle)
    a, b = x[..., :half], x[..., half:2 * half]
    return np.concatenate([a * c - b * s, b * c + a * s], -1) * parameters["attention_scaling"]


# llama: frequencies scaled as in llama3. gemma3: frequencies of two layer types.
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_rope_parameters_rotate_keys(family, models, tmp_path):
    dump = tmp_path / "dump.h5"
    assert run(models(family), write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"}), "-o", dump) == 0
    with h5py.File(dump) as file:
        rope = json.loads(file.attrs["rope"])
        _, _, model = reference(models(family), [0])
        projected = {}
        for layer, block in enumerate(model.model.layers):
            last = getattr(block.self_attn, "k_norm", block.self_attn.k_proj)
            last.register_forward_hook(lambda *call, layer=layer: projected.__setitem__(layer, call[2][0].double()))
        with torch.inference_mode():
            model(input_ids=torch.tensor([file["samples/s/tokens"][:].tolist()]))
        for layer, key in projected.items():
            key = key.numpy() if key.dim() == 3 else key.view(T, 2, 32).transpose(0, 1).numpy()
            parameters = rope[rope["layer_types"][layer]] if "layer_types" in rope else rope
            assert_near(read(file[f"samples/s/layers/{layer}/k"]), rotate(key, parameters), abs=MODEL)


def test_layers_spread_over_devices_give_the_same_dump(models, tmp_path):
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models("llama"), prompts, "-o", tmp_path / "one.h5") == 0
    spread = tmp_path / "spread.h5"
    code = run(models("llama"), prompts, "-o", spread, "--device", "spread")
    if not importlib.util.find_spec("accelerate"):
        assert code == 2
        return
    assert code == 0
    assert_reproduces_model(spread, models("llama"))
    with h5py.File(tmp_path / "one.h5") as one, h5py.File(spread) as other:
        for tensor in "qkv":
            path = f"samples/s/layers/2/{tensor}"
            assert np.array_equal(one[path][:], other[path][:])
