"""Random tiny models as GGUF files, written by the package gguf from models of transformers with the same weights."""
import gguf
import numpy as np
import torch
import transformers
from capture_models import ALTERNATING, SMALL, make_model

WIDE = {**SMALL, "hidden_size": 128}
# Two layers of each kind; initializer_range is that of SMALL, so that attention is peaked.
FAMILIES = {
    "llama": lambda: transformers.LlamaConfig(**WIDE, head_dim=32),
    "llama_64": lambda: transformers.LlamaConfig(**WIDE, head_dim=64),  # whose quantised caches are rotated
    "llama_192": lambda: transformers.LlamaConfig(**WIDE, head_dim=192),  # in blocks of 64
    "qwen2": lambda: transformers.Qwen2Config(**WIDE),
    "qwen3": lambda: transformers.Qwen3Config(**WIDE, head_dim=32),
    "gemma2": lambda: transformers.Gemma2Config(
        **WIDE, head_dim=32, sliding_window=16, query_pre_attn_scalar=32, attn_logit_softcapping=5.0,
        final_logit_softcapping=30.0, layer_types=ALTERNATING),
    "phi3": lambda: transformers.Phi3Config(**WIDE),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **WIDE, head_dim=32, sliding_window=16, layer_types=ALTERNATING, num_local_experts=2, num_experts_per_tok=1,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
}
WINDOWED = ("gemma2", "gpt_oss")
ARCHITECTURES = {"llama": "llama", "llama_64": "llama", "llama_192": "llama", "gpt_oss": "gpt-oss"}

COMMON = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
          "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
          "input_layernorm": "attn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
          "mlp.down_proj": "ffn_down", "post_attention_layernorm": "ffn_norm"}
RENAMED = {
    "gemma2": {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
               "post_feedforward_layernorm": "post_ffw_norm"},
    "phi3": {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"},
    "gpt-oss": {"post_attention_layernorm": "post_attention_norm", "mlp.router": "ffn_gate_inp",
                "self_attn.sinks": "attn_sinks"},
}


def interleaved(weight, heads):
    """llama.cpp rotates neighbouring channels of a Llama, transformers those of the two halves."""
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def make_gguf(folder, family):
    """Returns the checkpoint of transformers and the GGUF file."""
    config = FAMILIES[family]()
    checkpoint = make_model(folder / "checkpoint", config)
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    architecture = ARCHITECTURES.get(family, family)
    path = folder / f"{family}.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    write_header(writer, model.config, architecture)
    for name, tensor in model.state_dict().items():
        for target, values in renamed(name, tensor.float().numpy(), architecture, model.config):
            writer.add_tensor(target, np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(checkpoint), str(path)


def write_header(writer, config, architecture):
    writer.add_name("tiny random")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if architecture == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if architecture == "gpt-oss":
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.intermediate_size)
    # Every byte is a token, as in GPT-2's vocabulary, where bytes that cannot be printed are other characters.
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    characters = [chr(byte) if byte in visible else chr(next(others)) for byte in range(256)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(characters + ["<s>", "</s>", "<pad>", "<more>"])
    writer.add_token_types([gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * 4)
    writer.add_token_merges([f"{characters[254]} {characters[255]}"])  # of bytes that no text has
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_add_bos_token(True)


def renamed(name, values, architecture, config):
    """(name in the GGUF file, values) of a tensor of the checkpoint."""
    if name in ("model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"):
        target = {"m": "token_embd", "l": "output"}[name[0]] if "norm" not in name else "output_norm"
        if architecture == "gemma2":
            if target == "output":  # tied
                return
            values = values + 1 if target == "output_norm" else values
        yield f"{target}.weight", values
        return
    _, _, layer, inner = name.split(".", 3)
    if inner.startswith("mlp.experts."):
        yield from experts(int(layer), inner, values)
        return
    module, _, kind = inner.rpartition(".")
    if kind == "sinks":
        module, kind = inner, "weight"
    target = (COMMON | RENAMED.get(architecture, {}))[module]
    if architecture == "llama" and target in ("attn_q", "attn_k"):
        values = interleaved(values, config.num_attention_heads if target == "attn_q" else config.num_key_value_heads)
    if architecture == "gemma2" and "norm" in target:
        values = values + 1  # transformers multiplies with 1 + weight
    yield f"blk.{layer}.{target}.{kind}", values


def experts(layer, inner, values):
    """transformers has gate and up as every other channel, and weights [expert, in, out]."""
    kind = "bias" if inner.endswith("bias") else "weight"
    turned = values if kind == "bias" else values.swapaxes(1, 2)
    if "gate_up" in inner:
        yield f"blk.{layer}.ffn_gate_exps.{kind}", turned[:, 0::2]
        yield f"blk.{layer}.ffn_up_exps.{kind}", turned[:, 1::2]
    else:
        yield f"blk.{layer}.ffn_down_exps.{kind}", turned
