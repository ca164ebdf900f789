"""The decoder of `attest bench model` beside transformers: tiny models of each family, and what it refuses."""

import pytest
from torch_or_skip import torch, transformers  # before what needs them

from attest.base.errors import InputError
from attest.bench_model.caches import DenseCache, key_exponents, made_keys_and_values
from attest.bench_model.decoder import Decoder, refuse_other_families
from attest.bench_model.model import load_config, random_weights, shape_of_llama31_8b

SMALL = dict(
    vocab_size=97,
    hidden_size=64,
    intermediate_size=80,
    num_hidden_layers=3,
    num_attention_heads=8,
    num_key_value_heads=2,
    max_position_embeddings=256,
)
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 32}
CASES = {
    "llama": ("llama", dict(rope_parameters=LLAMA3)),
    "llama with biases, tied": ("llama", dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "mistral, heads of their own size": ("mistral", dict(head_dim=16, sliding_window=None)),
    "qwen2": ("qwen2", {}),
    "qwen3, yarn": ("qwen3", dict(head_dim=16, rope_parameters=YARN)),
}
TOLERANCE = 2e-5  # float32, of logits around 1


def config_of(family, **options):
    return transformers.AutoConfig.for_model(family, **{**SMALL, **options})


class PlainCache:
    """Keys and values as lists; softmax attention as it is written."""

    def __init__(self, decoder):
        self.k, self.v = ([[] for _ in range(decoder.num_layers)] for _ in range(2))
        self.scale = decoder.head_dim**-0.5

    def attend(self, layer, q, k, v):
        self.k[layer].append(k)
        self.v[layer].append(v)
        group = q.shape[1] // k.shape[1]
        keys, values = (torch.cat(x[layer], 2).repeat_interleave(group, 1) for x in (self.k, self.v))
        return (self.scale * q @ keys.transpose(2, 3)).softmax(-1) @ values


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case):
    family, options = CASES[case]
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config_of(family, **options)).float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():  # norms and biases too, which begin as 1 and 0
            weight.add_(0.2 * torch.randn_like(weight))
        ids = torch.randint(SMALL["vocab_size"], (2, 40))
        expected = model(ids).logits
        refuse_other_families(model.config, "it")
        decoder = Decoder(model.config, {name: x.clone() for name, x in model.state_dict().items()})
        cache = PlainCache(decoder)
        for t in range(ids.shape[1]):
            logits = decoder.step(ids[:, t], torch.tensor([t]), cache.attend)
            torch.testing.assert_close(logits, expected[:, t], rtol=TOLERANCE, atol=TOLERANCE * expected.abs().max())


def test_weights_are_counted_once():
    config = config_of("llama", tie_word_embeddings=True)
    decoder = Decoder(config, random_weights(config, torch.device("cpu"), torch.float32, 0))
    model = transformers.AutoModelForCausalLM.from_config(config)
    assert decoder.weight_bytes() == 4 * sum(p.numel() for p in model.parameters())


def test_the_default_is_llama31_8b():
    config = shape_of_llama31_8b()
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    assert sum(p.numel() for p in model.parameters()) == 8_030_261_248  # as its model card counts them


@pytest.mark.parametrize(
    "family, options, sentence",
    [
        ("gemma2", {}, "is a model of the family 'gemma2', expected one of llama, mistral, qwen2, qwen3"),
        ("llama", dict(hidden_act="gelu"), "has the activation 'gelu', expected silu"),
        ("mistral", dict(sliding_window=128), "has layers with a sliding window, expected full attention in all"),
        (
            "qwen2",
            dict(use_sliding_window=True, sliding_window=64, max_window_layers=1),
            "has layers with a sliding window",
        ),
    ],
)
def test_other_models_are_refused(family, options, sentence, tmp_path):
    config_of(family, **options).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=sentence):
        load_config(str(tmp_path / "config.json"))


@pytest.mark.parametrize(
    "change, sentence",
    [
        (
            lambda w: w.pop("model.layers.2.mlp.down_proj.weight"),
            "lacks the weight model.layers.2.mlp.down_proj.weight",
        ),
        (
            lambda w: w.update({"model.layers.1.self_attn.gate.weight": torch.zeros(1)}),
            "has the weight model.layers.1.self_attn.gate.weight",
        ),
    ],
)
def test_other_weights_are_refused(change, sentence):
    config = config_of("llama")
    weights = random_weights(config, torch.device("cpu"), torch.float32, 0)
    change(weights)
    with pytest.raises(InputError, match=sentence):
        Decoder(config, weights)


def test_no_such_configuration(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="config.json: has no configuration of a model"):
        load_config(str(tmp_path / "config.json"))
    with pytest.raises(InputError, match="no such folder"):
        load_config(str(tmp_path / "nowhere/at/all"))


def decoder_of(**options):
    config = config_of("llama", **options)
    return Decoder(config, random_weights(config, torch.device("cpu"), torch.bfloat16, 5))


def e4m3(x):
    return x.float().to(torch.float8_e4m3fn).double()


def test_keys_have_the_size_that_scores_want():
    for size, exponent in ((1.0, 0), (0.5, 1), (8.2, -3), (1e9, -5), (1e-9, 4), (0.0, 0)):
        assert key_exponents([torch.full((2, 4, 1, 8), size)]) == [exponent]


@pytest.mark.parametrize("exponent", [-5, 0, 4])
def test_ffd_holds_made_keys_exactly(exponent):
    """Its quantiser as the paper writes it: s = max / 1.5, codes -1.5 to 1.5, and an e4m3 residual."""
    k, v = made_keys_and_values(decoder_of(), 1, 2, 384, 7, exponent)
    again, _ = made_keys_and_values(decoder_of(), 1, 2, 384, 7, exponent)
    other, _ = made_keys_and_values(decoder_of(), 2, 2, 384, 7, exponent)
    assert k.abs().max() == 6 * 2.0**exponent
    assert torch.equal(k, again) and not torch.equal(k, other) and v.float().std() == pytest.approx(1, abs=0.05)
    blocks = k.double().reshape(2, 2, 3, 128, -1)
    scale = blocks.abs().amax(3, keepdim=True) / 1.5
    code = (blocks / scale + 1.5).clamp(0, 3).round() - 1.5
    assert torch.equal(code * scale + e4m3(blocks - code * scale), blocks)
    assert (blocks - code * scale).unique().numel() > 20  # the residuals are not all alike


def test_a_dense_step_attends_to_its_context():
    decoder = decoder_of()
    cache, plain = DenseCache(decoder, 2, 128, 3, [0, 1, -2]), PlainCache(decoder)
    for layer in range(decoder.num_layers):
        k, v = made_keys_and_values(decoder, layer, 2, 128, 3, [0, 1, -2][layer])
        plain.k[layer], plain.v[layer] = [k[:, :, :-1].float()], [v[:, :, :-1].float()]
    tokens, position = torch.tensor([4, 9]), torch.tensor([127])
    expected = decoder.step(
        tokens, position, lambda n, q, k, v: plain.attend(n, q.float(), k.float(), v.float()).bfloat16()
    )
    for backend in (None, "sdpa_flash", None):  # a second step overwrites the first
        cache.backend = backend
        logits = decoder.step(tokens, position, cache.attend)
        assert (logits - expected).norm() / expected.norm() < 0.02  # bfloat16 in all layers
    assert cache.bytes() == 3 * 2 * 2 * 2 * 128 * 8 * 2
