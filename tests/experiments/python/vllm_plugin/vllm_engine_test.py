"""attest.vllm_plugin.engine: which engines and layers a dump can describe, and what it says of their cache."""
import types

import pytest

from attest.base.errors import InputError
from attest.vllm_plugin.engine import Engine, refuse_configuration, sort_layers
from attest.vllm_plugin.rank import Rank


class Mode:
    def __init__(self, name):
        self.name = name

    def has_full_cudagraphs(self):
        return self.name.startswith("FULL")


def configuration(speculative_config=None, mode="PIECEWISE", fuse_attn_quant=False, **parallel):
    passes = types.SimpleNamespace(fuse_attn_quant=fuse_attn_quant)
    return types.SimpleNamespace(speculative_config=speculative_config,
                                 parallel_config=types.SimpleNamespace(**parallel),
                                 compilation_config=types.SimpleNamespace(
                                     cudagraph_mode=Mode(mode), pass_config=passes))


class Attention:
    """A layer as vLLM's; its class has the same name."""

    def __init__(self, window=None, cache="auto", kv_heads=2, **other):
        self.num_heads, self.num_kv_heads, self.head_size, self.head_size_v = 4, kv_heads, 32, 32
        self.attn_type, self.sliding_window, self.kv_cache_dtype = "decoder", window, cache
        self.kv_sharing_target_layer_name, self._k_scale_float, self._v_scale_float = None, 1.0, 1.0
        self.impl = types.SimpleNamespace(scale=0.25, logits_soft_cap=0, alibi_slopes=None)
        for name, value in other.items():
            setattr(self.impl if hasattr(self.impl, name) else self, name, value)


class ChunkedLocalAttention(Attention):
    pass


def layers_of(*modules):
    names = {f"model.layers.{number}.attn": number for number in range(len(modules))}
    return sort_layers(dict(zip(names, modules)), names)


def engine(*modules):
    layers, left_out = layers_of(*modules)
    return Engine("1.0", "m", len(modules), layers, left_out, Rank(), "X", None, False)


def test_an_engine_that_shows_every_token_to_python_is_taken():
    refuse_configuration(configuration(decode_context_parallel_size=1, enable_dbo=False))


@pytest.mark.parametrize("change, sentence", [
    ({"speculative_config": object()}, "speculative decoding: .*run the engine without --speculative-config"),
    ({"mode": "FULL_AND_PIECEWISE"}, "cudagraph mode FULL_AND_PIECEWISE: a full CUDA graph runs no Python code"),
    ({"fuse_attn_quant": True}, "fuse_attn_quant: attention gives a quantised output"),
    ({"decode_context_parallel_size": 2}, "decode_context_parallel_size 2: a rank sees a part of the tokens"),
    ({"enable_dbo": True}, "dual batch overlap")])
def test_others_are_refused(change, sentence):
    with pytest.raises(InputError, match=sentence):
        refuse_configuration(configuration(**change))


def test_layers_are_described():
    layers, left_out = layers_of(Attention(), Attention(window=16))
    assert not left_out and [layers[n].window for n in (0, 1)] == [None, 16]
    assert layers[0].geometry() == {"num_query_heads": 4, "num_kv_heads": 2, "head_dim": 32, "value_dim": 32,
                                    "softmax_scale": 0.25, "logit_softcap": None}


@pytest.mark.parametrize("module, reason", [
    (ChunkedLocalAttention(), "is ChunkedLocalAttention, whose attention is not"),
    (Attention(attn_type="encoder_only"), "is attention of the kind encoder_only"),
    (Attention(alibi_slopes=[1.0]), "has position biases"),
    (Attention(kv_sharing_target_layer_name="model.layers.0.attn"), "reads the cache of model.layers.0.attn"),
    (Attention(cache="turboquant_3bit_nc"), "has a cache of the type turboquant_3bit_nc, for which attest has no"),
    (Attention(kv_heads=4), "has num_kv_heads 4, the first layer 2")])
def test_what_a_dump_cannot_describe_is_left_out_with_its_reason(module, reason):
    layers, left_out = layers_of(Attention(), module)
    assert set(layers) == {0} and left_out[1].startswith(reason)


def test_a_model_without_such_layers_is_refused():
    with pytest.raises(InputError, match="no attention layer that a dump can describe; layer 0 is ChunkedLocal"):
        layers_of(ChunkedLocalAttention())


def test_two_attention_layers_of_one_number_are_refused():
    with pytest.raises(InputError, match="layer 0: has several attention layers, b is one of them"):
        sort_layers({"a": Attention(), "b": Attention()}, {"a": 0, "b": 0})


def test_the_cache_is_named_as_the_selector_kv_cache_does():
    assert engine(Attention(), Attention()).kv_cache([0, 1]) == ""
    assert engine(Attention(cache="fp8"), Attention(cache="fp8")).kv_cache([0, 1]) == "k=fp8_e4m3,v=fp8_e4m3"
    assert engine(Attention(cache="fp8_e5m2")).kv_cache([0]) == "k=fp8_e5m2,v=fp8_e5m2"
    assert engine(Attention(cache="fp8"), Attention()).kv_cache([0, 1]) == "k=fp8_e4m3,v=fp8_e4m3,skip_layers=1"
    scaled = Attention(cache="fp8", _k_scale_float=0.5)
    assert engine(scaled).kv_cache([0]) == "k=fp8_e4m3,v=fp8_e4m3", "scales stand at the layers"
    assert layers_of(scaled)[0][0].cache_scale("k") == 0.5


def test_caches_of_two_narrow_types_are_refused():
    with pytest.raises(InputError, match="KV caches of the types fp8, fp8_e5m2: a dump tells of one"):
        layers_of(Attention(cache="fp8"), Attention(cache="fp8_e5m2"))
