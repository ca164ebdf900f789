"""A decoding model of Llama's shape in plain torch: a step of one token per sequence, with whatever attention it is
given. Nothing in a step waits for the device or branches on data, so that it can be captured in a CUDA graph."""
import torch
import torch.nn.functional as F

from ..base.errors import InputError

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")  # whose logits the test compares with transformers


def refuse_other_families(config, name):
    """The timed decoder has its own step, which is that of a few families."""
    if config.model_type not in FAMILIES:
        raise InputError(f"{name}: is a model of the family '{config.model_type}', expected one of "
                         f"{', '.join(FAMILIES)}")
    if config.hidden_act != "silu":
        raise InputError(f"{name}: has the activation '{config.hidden_act}', expected silu")
    layers = getattr(config, "layer_types", None)
    if "sliding_attention" in layers if layers else getattr(config, "sliding_window", None) is not None:
        raise InputError(f"{name}: has layers with a sliding window, expected full attention in all")


class Layer:
    """One layer's weights: projections of one input are one matrix."""

    def __init__(self, take, has):
        def joined(names, kind):
            return torch.cat([take(f"{name}.{kind}") for name in names])

        attention, mlp = [f"self_attn.{x}_proj" for x in "qkv"], ["mlp.gate_proj", "mlp.up_proj"]
        self.qkv = joined(attention, "weight")
        self.qkv_bias = joined(attention, "bias") if has("self_attn.q_proj.bias") else None
        self.o = take("self_attn.o_proj.weight")
        self.o_bias = take("self_attn.o_proj.bias") if has("self_attn.o_proj.bias") else None
        self.gate_up = joined(mlp, "weight")
        self.gate_up_bias = joined(mlp, "bias") if has("mlp.gate_proj.bias") else None
        self.down = take("mlp.down_proj.weight")
        self.down_bias = take("mlp.down_proj.bias") if has("mlp.down_proj.bias") else None
        self.q_norm = take("self_attn.q_norm.weight") if has("self_attn.q_norm.weight") else None
        self.k_norm = take("self_attn.k_norm.weight") if has("self_attn.k_norm.weight") else None
        self.input_norm, self.mlp_norm = take("input_layernorm.weight"), take("post_attention_layernorm.weight")


class Decoder:
    """`weights`: {name: tensor} as transformers names them; they are taken out of it."""

    def __init__(self, config, weights):
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        self.num_layers, self.eps = config.num_hidden_layers, config.rms_norm_eps
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.scale = self.head_dim**-0.5
        self.embedding = weights.pop("model.embed_tokens.weight")
        self.layers = [self._layer(weights, f"model.layers.{n}.") for n in range(self.num_layers)]
        self.norm = weights.pop("model.norm.weight")
        head = weights.pop("lm_head.weight", None)
        self.head = self.embedding if config.tie_word_embeddings or head is None else head
        if weights:
            raise InputError(f"the model has the weight {min(weights)}, which no model of Llama's shape has")
        self.device, self.dtype = self.embedding.device, self.embedding.dtype
        rotary = LlamaRotaryEmbedding(config)
        self.frequencies = rotary.inv_freq.float().to(self.device)
        self.rope_scale = float(rotary.attention_scaling)

    @staticmethod
    def _layer(weights, prefix):
        def take(name):
            try:
                return weights.pop(prefix + name)
            except KeyError:
                raise InputError(f"the model lacks the weight {prefix}{name}, which a model of Llama's shape "
                                 "has") from None

        return Layer(take, lambda name: prefix + name in weights)

    def weight_bytes(self):
        """Tied tensors count once."""
        tensors = [self.embedding, self.norm, self.head]
        tensors += [x for layer in self.layers for x in vars(layer).values() if x is not None]
        return sum({x.data_ptr(): x.numel() * x.element_size() for x in tensors}.values())

    def step(self, tokens, position, attend):
        """tokens [B], all at `position` [1] -> logits [B, vocabulary]. attend(layer, q [B, Hq, 1, D], k and v
        [B, Hkv, 1, D]) -> [B, Hq, 1, D], with the new token among the keys."""
        angles = position.float() * self.frequencies
        cos = (torch.cat([angles, angles]).cos() * self.rope_scale).to(self.dtype)
        sin = (torch.cat([-angles, angles]).sin() * self.rope_scale).to(self.dtype)  # of roll()ed channels
        x = F.embedding(tokens, self.embedding)
        for number, layer in enumerate(self.layers):
            x = x + self._attention(number, layer, self._normed(x, layer.input_norm), cos, sin, attend)
            gate, up = F.linear(self._normed(x, layer.mlp_norm), layer.gate_up, layer.gate_up_bias).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down, layer.down_bias)
        return F.linear(self._normed(x, self.norm), self.head)

    def _normed(self, x, weight):
        return F.rms_norm(x, (weight.shape[0],), weight, self.eps)

    def _attention(self, number, layer, x, cos, sin, attend):
        batch, rotated = len(x), self.heads + self.kv_heads
        heads = F.linear(x, layer.qkv, layer.qkv_bias).view(batch, rotated + self.kv_heads, self.head_dim)
        qk, v = heads[:, :rotated], heads[:, rotated:]
        if layer.q_norm is not None:
            qk = torch.cat([self._normed(qk[:, :self.heads], layer.q_norm),
                            self._normed(qk[:, self.heads:], layer.k_norm)], 1)
        qk = torch.addcmul(qk * cos, qk.roll(self.head_dim // 2, -1), sin)
        q, k = qk[:, :self.heads], qk[:, self.heads:]
        out = attend(number, q.unsqueeze(2), k.unsqueeze(2), v.unsqueeze(2))
        return F.linear(out.reshape(batch, -1), layer.o, layer.o_bias)
