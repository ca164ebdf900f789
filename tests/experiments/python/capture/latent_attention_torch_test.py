"""Latent attention is captured in the absorbed form: one key/value head, whose values are the latents."""
import json

import h5py
import numpy as np
import pytest
import torch
import transformers

from capture_models import (
    attention, FAMILIES, LATENT, models, read, run, T, token_ids, write_prompts)  # noqa: F401 (models is a fixture)
from near import MODEL, assert_near

RANK, ROPE, NOPE = LATENT["kv_lora_rank"], LATENT["qk_rope_head_dim"], LATENT["qk_nope_head_dim"]
LATENT_FAMILIES = [name for name in FAMILIES if name.startswith("deepseek")]


@pytest.mark.parametrize("family", LATENT_FAMILIES)
def test_shapes_scale_and_rope(family, models, tmp_path):
    dump = tmp_path / "dump.h5"
    assert run(models(family), write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"}), "-o", dump) == 0
    with h5py.File(dump) as file:
        root = file.attrs
        assert (root["num_query_heads"], root["num_kv_heads"]) == (4, 1)
        assert (root["head_dim"], root["value_dim"]) == (RANK + ROPE, RANK)
        assert root["values_in_keys"] == 1 and root["values_in_keys"].dtype == np.uint8
        own = (NOPE + ROPE) ** -0.5
        mscale = 1.0 if family == "deepseek_v3" else 1 + 0.1 * 0.7 * np.log(4)  # as the paper of YaRN has it
        assert root["softmax_scale"] == pytest.approx(own * mscale**2)
        assert json.loads(root["rope"])["first_channel"] == RANK
        k, v = (read(file[f"samples/s/layers/1/{name}"]) for name in "kv")
        np.testing.assert_array_equal(k[..., :RANK], v)  # the latents, in both


@pytest.mark.parametrize("family", LATENT_FAMILIES)
def test_absorbed_is_expanded(family, models, tmp_path):
    """Latents, queries and keys against the tensors of the model's own expanded form."""
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models(family), prompts, "-o", dump, "--last", 5, "--layers", "2") == 0
    model = transformers.AutoModelForCausalLM.from_pretrained(models(family), dtype=torch.float32).eval()
    module, seen = model.model.layers[2].self_attn, {}
    module.kv_a_layernorm.register_forward_hook(lambda *call: seen.update(latent=call[2][0]))
    expanded = {}

    def keep(_, query, key, *rest, **options):
        expanded.update(query=query[0].double(), key=key[0].double())
        return torch.zeros(1, query.shape[2], query.shape[1], LATENT["v_head_dim"]), None

    transformers.AttentionInterface.register("keep", keep)
    with torch.inference_mode():
        hidden = []
        model.model.layers[2].register_forward_pre_hook(
            lambda _, args, kwargs: hidden.append((args, kwargs)), with_kwargs=True)
        model(input_ids=torch.tensor([token_ids()]), use_cache=False)
        model.set_attn_implementation("keep")
        model.model.layers[2](*hidden[0][0], **hidden[0][1])
    with h5py.File(dump) as file:
        q, k, v = (read(file[f"samples/s/layers/2/{name}"]) for name in "qkv")
    assert_near(v[0], seen["latent"].reshape(T, RANK).numpy(), abs=MODEL)
    assert_near(k[0, :, RANK:], expanded["key"][3, :, NOPE:].numpy(), abs=MODEL)
    scores = torch.einsum("hnd,htd->nht", expanded["query"][:, -5:], expanded["key"]).numpy()
    assert_near(np.einsum("nhd,td->nht", q, k[0]), scores, abs=1e-4 * np.abs(scores).max())


def test_attention_mass_is_of_the_heads(models, tmp_path):
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    everything = ",".join(map(str, range(T)))
    assert run(models("deepseek_v3"), prompts, "-o", dump, "--positions", everything, "--attention-mass") == 0
    with h5py.File(dump) as file:
        mass = attention(file, "s", 1)[1].sum(0)
        assert_near(file["samples/s/layers/1/attention_mass"][:], mass, abs=1e-3)


def test_another_expansion_is_refused(models, tmp_path, capsys, monkeypatch):
    from attest.capture import latent_attention
    monkeypatch.setattr(latent_attention.Latents, "__init__", lambda self, model: setattr(self, "seen", {}))
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("deepseek_v3"), prompts, "-o", tmp_path / "dump.h5") == 4
    sentence = "layer 0: expected latent attention that expands its latents by a kv_b_proj, found another kind"
    assert sentence in capsys.readouterr().err
