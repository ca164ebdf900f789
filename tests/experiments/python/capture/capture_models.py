"""Helpers for the tests of attest.capture: tiny random models of each family, its command line, attention
recomputed from the dump in plain numpy and float64, and the output of an eager run of the same model."""
import json
import pathlib

import h5py
import numpy as np
import pytest
import torch
import transformers

REPOSITORY = pathlib.Path(__file__).parents[4]
from attest.capture import __main__ as capture
from near import assert_near

torch.set_num_threads(1)  # the models are tiny
transformers.utils.logging.disable_progress_bar()  # tests compare what is printed

# Relative to the largest output. float32: another order of sums, through four layers. float16 and bfloat16: the model
# rounds probabilities and outputs to 11 and 8 bits.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
VOCABULARY = 260
T = 50
WINDOW = 16

# initializer_range is large, so that attention is peaked and a wrong scale, mask or rotation shows.
SMALL = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=4096, initializer_range=0.25, bos_token_id=256,
             eos_token_id=257, pad_token_id=258)
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
ALTERNATING = ["sliding_attention", "full_attention"] * 2
FAMILIES = {
    "llama": lambda: transformers.LlamaConfig(**SMALL, head_dim=32, rope_parameters=LLAMA3_ROPE),
    "llama_mha": lambda: transformers.LlamaConfig(**{**SMALL, "num_key_value_heads": 4}),
    "qwen2": lambda: transformers.Qwen2Config(**SMALL),
    "qwen3": lambda: transformers.Qwen3Config(**SMALL, head_dim=32),
    "mistral": lambda: transformers.MistralConfig(**SMALL, sliding_window=WINDOW),
    "gemma": lambda: transformers.GemmaConfig(**{**SMALL, "num_key_value_heads": 1}, head_dim=32),
    "gemma2": lambda: transformers.Gemma2Config(**SMALL, head_dim=32, sliding_window=WINDOW, query_pre_attn_scalar=20,
                                                attn_logit_softcapping=5.0, layer_types=ALTERNATING),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **SMALL, head_dim=32, sliding_window=WINDOW, query_pre_attn_scalar=20, layer_types=ALTERNATING),
    "phi": lambda: transformers.PhiConfig(**SMALL),
    "phi3": lambda: transformers.Phi3Config(**SMALL, sliding_window=WINDOW),
    "gpt_oss": lambda: transformers.GptOssConfig(**SMALL, head_dim=32, sliding_window=WINDOW, layer_types=ALTERNATING,
                                                 num_local_experts=2, num_experts_per_tok=1),
}
LATENT = dict(kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12, n_routed_experts=2, n_group=1,
              topk_group=1, num_experts_per_tok=1, moe_intermediate_size=32, first_k_dense_replace=2)
YARN_ROPE = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.7,
             "original_max_position_embeddings": 32}
LATENT_SMALL = {**SMALL, "num_key_value_heads": 4, **LATENT}
FAMILIES |= {
    "deepseek_v2": lambda: transformers.DeepseekV2Config(**LATENT_SMALL, q_lora_rank=24, rope_parameters=YARN_ROPE),
    "deepseek_v3": lambda: transformers.DeepseekV3Config(**LATENT_SMALL, q_lora_rank=None, rope_interleave=True),
    "deepseek_v3_halves": lambda: transformers.DeepseekV3Config(
        **LATENT_SMALL, q_lora_rank=24, rope_interleave=False, rope_parameters=YARN_ROPE),
}
# Layers without attention beside those with it, or none with it.
HYBRIDS = {
    "lfm2": lambda: transformers.Lfm2Config(**SMALL, layer_types=["conv", "full_attention"] * 2),
    "bamba": lambda: transformers.BambaConfig(**SMALL, attn_layer_indices=[1, 3], mamba_n_heads=8, mamba_d_head=16,
                                              mamba_n_groups=1, mamba_d_state=16, mamba_chunk_size=16),
    "mamba": lambda: transformers.MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2),
}
WINDOWED_LAYERS = {"mistral": {0, 1, 2, 3}, "gemma2": {0, 2}, "gemma3": {0, 2}, "gpt_oss": {0, 2}, "phi3": {0, 1, 2, 3}}


def make_model(folder, config, dtype=torch.float32):
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # random as well: Qwen2 adds a bias to q, k and v
            torch.nn.init.normal_(parameter, std=0.3)
        if name.endswith("sinks"):  # GPT-OSS: sink logits as large as the scores
            torch.nn.init.normal_(parameter, mean=5.0, std=5.0)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """name -> folder of a checkpoint, made when first asked for."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = make_model(tmp_path_factory.mktemp(name), (FAMILIES | HYBRIDS)[name]())
        return str(made[name])
    return get


def token_ids(count=T, seed=0):
    return [256, *np.random.default_rng(seed).integers(0, 256, count - 1).tolist()]


def write_prompts(folder, *prompts):
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(p) + "\n" for p in prompts))
    return str(path)


def run(*arguments):
    return capture.main([*map(str, arguments), "--device", "cpu"])


def read(dataset):
    """Values in float64, by h5py's own conversion."""
    return dataset.astype(np.float64)[:]


def attention(dump, sample, layer, softcap=True, window=True):
    """Outputs [N, Hq, Dv] and probabilities [N, Hq, T], as the dump format defines them."""
    group = dump[f"samples/{sample}/layers/{layer}"]
    positions = dump[f"samples/{sample}/query_positions"][:]
    q, k, v = (read(group[name]) for name in "qkv")
    k, v = (np.repeat(x, q.shape[1] // x.shape[0], axis=0) for x in (k, v))
    scores = np.einsum("nhd,htd->nht", q, k) * dump.attrs["softmax_scale"]
    if softcap and "logit_softcap" in dump.attrs:
        scores = dump.attrs["logit_softcap"] * np.tanh(scores / dump.attrs["logit_softcap"])
    token = np.arange(k.shape[1])
    visible = token <= positions[:, None]
    if window and "sliding_window" in group.attrs:
        visible &= token > positions[:, None] - group.attrs["sliding_window"]
    scores = np.where(visible[:, None], scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    weight = p.sum(-1, keepdims=True)
    sinks = np.exp(read(group["sinks"])[:, None] - scores.max(-1, keepdims=True)) if "sinks" in group else 0
    return np.einsum("nht,htd->nhd", p / (weight + sinks), v), p / weight


def reference(folder, ids, dtype=torch.float32):
    """The input of each layer's output projection when the model runs all tokens at once, [T, Hq*Dv], and the model.
    float32 runs in eager mode. The 16-bit types run as captured: another order of sums would round differently, and
    layers of random weights amplify the difference."""
    implementation = "eager" if dtype == torch.float32 else "sdpa"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=implementation)
    model.eval()
    outputs, handles = {}, []
    for layer, block in enumerate(model.model.layers):
        if not hasattr(block, "self_attn"):
            continue
        projection = getattr(block.self_attn, "o_proj", None) or block.self_attn.dense
        handles.append(projection.register_forward_pre_hook(
            lambda _, inputs, layer=layer: outputs.__setitem__(layer, inputs[0][0].double().numpy())))
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids])).logits[0]
    for handle in handles:
        handle.remove()
    return outputs, logits, model


def assert_reproduces_model(path, folder, dtype=torch.float32):
    with h5py.File(path) as dump:
        for sample in dump["samples"]:
            ids = dump[f"samples/{sample}/tokens"][:].tolist()
            outputs, _, model = reference(folder, ids, dtype)
            positions = dump[f"samples/{sample}/query_positions"][:]
            for layer in dump[f"samples/{sample}/layers"]:
                recomputed, p = attention(dump, sample, layer)
                module = model.model.layers[int(layer)].self_attn
                if hasattr(module, "kv_b_proj"):  # the dump's values are latents
                    weight = module.kv_b_proj.weight.detach().double().numpy()
                    weight = weight.reshape(recomputed.shape[1], -1, module.kv_lora_rank)
                    recomputed = np.einsum("nhr,hvr->nhv", recomputed, weight[:, module.qk_nope_head_dim:])
                expected = outputs[int(layer)][positions].reshape(recomputed.shape)
                assert_near(recomputed, expected, abs=TOLERANCE[dtype] * np.abs(expected).max(), what=f"layer {layer}")
                # If attention were uniform or on one token, the comparison would show little.
                effective = np.exp(-(p * np.log(p + 1e-300)).sum(-1)).mean()
                assert 1.05 < effective < 30, effective
        return model


def assert_well_formed(path):
    """Checks the file against the rules of the dump format."""
    with h5py.File(path) as dump:
        root = dump.attrs
        assert root["format"] == "attention-dump" and root["format_version"] == 1
        heads, kv_heads, head_dim = (int(root[f"{n}"]) for n in ("num_query_heads", "num_kv_heads", "head_dim"))
        value_dim = int(root["value_dim"])
        assert heads % kv_heads == 0 and root["softmax_scale"] > 0 and len(dump["samples"]) > 0
        for name, sample in dump["samples"].items():
            tokens, positions = int(sample.attrs["num_tokens"]), sample["query_positions"][:]
            assert sample["query_positions"].dtype == np.int64 and sample["tokens"].dtype == np.int32
            assert isinstance(sample.attrs["task"], str) and 0 < sample.attrs["prompt_length"] <= tokens
            assert sample["tokens"].shape == (tokens,) and (np.diff(positions) > 0).all()
            assert 0 <= positions[0] and positions[-1] < tokens and len(sample["layers"]) > 0
            if "spans" in sample:
                spans = sample["spans"][:]
                assert sample["spans"].dtype == np.int64 and spans.shape[1] == 2
                assert (0 <= spans[:, 0]).all() and (spans[:, 0] < spans[:, 1]).all() and (spans[:, 1] <= tokens).all()
                assert "span_labels" not in sample or len(sample["span_labels"]) == len(spans)
            for layer, group in sample["layers"].items():
                assert layer == str(int(layer)) and int(layer) < root["num_layers"]
                assert group["q"].shape == (len(positions), heads, head_dim), (name, layer)
                assert group["k"].shape == (kv_heads, tokens, head_dim)
                assert group["v"].shape == (kv_heads, tokens, value_dim)
                assert group["q"].id.get_type() == group["k"].id.get_type() == group["v"].id.get_type()
                assert all(np.isfinite(read(group[x])).all() for x in "qkv")
                if "attention_mass" in group:
                    assert group["attention_mass"].shape == (heads, tokens)
                    assert group["attention_mass"].dtype == np.float32
