"""Attention of a model through a selector: exact is the model, other selectors are what the dump and the study say."""
import os
import pathlib
import subprocess

import h5py
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (cmake/setup.sh --torch)")
transformers = pytest.importorskip("transformers", reason="transformers is not installed (cmake/setup.sh --torch)")
from attest_program import ATTEST
from capture_models import (
    ALTERNATING, FAMILIES, models, read, run, SMALL, T, token_ids, VOCABULARY, WINDOW, write_prompts)  # noqa: F401
from attest.base.errors import InputError, OutputError, UsageError
from attest.selectors.attention import attach

LIBRARY = pathlib.Path(ATTEST).parent / "libattest_torch_ops.so"
if not LIBRARY.exists():
    pytest.skip("this build has no operator library", allow_module_level=True)
SINK, BUDGET, ROWS, LAYERS = 4, 10, 6, 4
# Relative to the largest logit or output: another order of sums in float32, through four layers of random weights. The
# library's own sdpa and eager differ by up to 2e-6.
TOLERANCE = 2e-5


@pytest.fixture
def load(models):
    def get(family, **options):
        return transformers.AutoModelForCausalLM.from_pretrained(models(family), **options).eval()
    return get


@pytest.fixture
def attached(load):
    """(model, attention) of a family; the model is loaded anew."""
    def get(family, *arguments, **options):
        model = load(family)
        return model, attach(model, *arguments, library=LIBRARY, **options)
    with torch.inference_mode():
        yield get


def ids(count=T, seed=0):
    return torch.tensor([token_ids(count, seed)])


def assert_close(found, expected):
    difference = (found - expected).abs().max()
    assert difference <= TOLERANCE * expected.abs().max(), difference


def decode(model, cache, tokens):
    """Logits of tokens that are fed one by one."""
    return torch.cat([model(input_ids=token[:, None], past_key_values=cache).logits for token in tokens.unbind(1)], 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_exact_is_the_model(family, load):
    with torch.inference_mode():
        plain = load(family, attn_implementation="eager" if family in ("gemma2", "gpt_oss") else "sdpa")
        model = load(family)
        own = plain(input_ids=ids(), use_cache=True)
        attention = attach(model, library=LIBRARY)
        cache = attention.new_cache()
        prompt = model(input_ids=ids(), past_key_values=cache)
        assert torch.equal(prompt.logits, own.logits)  # dense, without us
        steps = ids(8, 1)
        expected = decode(plain, own.past_key_values, steps)
        assert_close(decode(model, cache, steps), expected)
        assert attention.kept_ratio() == 1
        for selector, setting in (("topk", T + 8), ("topk:gqa=union", 1000)):  # all tokens
            attention.use(selector, setting)
            attention.crop(cache, T)
            assert_close(decode(model, cache, steps), expected)
        attention.crop(cache, T)
        assert_close(model(input_ids=steps, past_key_values=cache).logits, expected)  # all rows in one pass


def plain_streaming(q, k, v, positions, scale, softcap, window, sinks):
    """Outputs [N, Hq, Dv] over the first SINK and the last BUDGET - SINK tokens that each query sees, in float64."""
    outputs = np.zeros((*q.shape[:2], v.shape[2]))
    for n, position in enumerate(positions):
        first = 0 if window is None else max(0, position + 1 - window)
        seen = np.arange(first, position + 1)
        kept = np.unique(np.concatenate([seen[:SINK], seen[-(BUDGET - SINK):]]))
        for head in range(q.shape[1]):
            g = head * k.shape[0] // q.shape[1]
            scores = k[g, kept] @ q[n, head] * scale
            if softcap:
                scores = softcap * np.tanh(scores / softcap)
            weights = np.exp(scores)
            sink = np.exp(sinks[head]) if sinks is not None else 0
            outputs[n, head] = weights @ v[g, kept] / (weights.sum() + sink)
    return outputs


@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_is_what_dump_and_study_say(family, models, attached, tmp_path):
    """One layer through the selector, so that its q, k and v are those of a dense capture of the same tokens."""
    prompt, answer = token_ids(T), token_ids(ROWS, 1)
    dump = tmp_path / "dump.h5"
    assert run(models(family), write_prompts(tmp_path, {"tokens": prompt, "answer": answer, "name": "s"}), "-o", dump,
               "--answer", ROWS) == 0
    selectors = {"streaming_llm": (f"streaming_llm:sink={SINK}", BUDGET), "topk": ("topk:gqa=union", 0.25)}
    command = [ATTEST, "run", dump, "-o", tmp_path / "results.h5", "--device", "cpu", "--quiet",
               "--budget", f"{BUDGET},25%"]
    for name, (selector, _) in selectors.items():
        command += ["--selector", f"{name}={selector}"]
    subprocess.run(command, check=True, capture_output=True)
    with h5py.File(tmp_path / "results.h5") as file:
        kept = {name: file[f"dumps/0/samples/s/{name}/keep_ratio"][()] for name in selectors}  # [L, N, Hq, S]
    tokens = torch.tensor([prompt + answer])
    model, attention = attached(family)
    seen, cache = {}, attention.new_cache()
    for layer, block in enumerate(model.model.layers):
        projection = getattr(block.self_attn, "o_proj", None) or block.self_attn.dense
        projection.register_forward_pre_hook(lambda _, inputs, layer=layer: seen.__setitem__(layer, inputs[0][0]))
    model(input_ids=tokens[:, :T - 1], past_key_values=cache)
    with h5py.File(dump) as file:
        scale, softcap = file.attrs["softmax_scale"], file.attrs.get("logit_softcap")
        positions = file["samples/s/query_positions"][:]
        for layer in range(LAYERS):
            group = file[f"samples/s/layers/{layer}"]
            for column, (name, (selector, setting)) in enumerate(selectors.items()):
                attention.use(selector, setting, layers=[layer])
                attention.reset()
                attention.crop(cache, T - 1)
                model(input_ids=tokens[:, T - 1:T - 1 + ROWS], past_key_values=cache)
                expected = kept[name][layer, ..., column].mean()  # a grid's columns: tokens before shares
                assert attention.kept_ratio() == pytest.approx((expected + LAYERS - 1) / LAYERS)
                assert expected < 0.8  # otherwise the comparison would show little
                if name == "topk":
                    continue
                sinks = read(group["sinks"]) if "sinks" in group else None
                outputs = plain_streaming(*(read(group[x]) for x in "qkv"), positions, scale, softcap,
                                          group.attrs.get("sliding_window"), sinks)
                module = model.model.layers[layer].self_attn
                if hasattr(module, "kv_b_proj"):  # values are latents
                    matrix = module.kv_b_proj.weight.double().numpy().reshape(outputs.shape[1], -1, module.kv_lora_rank)
                    outputs = np.einsum("nhr,hvr->nhv", outputs, matrix[:, module.qk_nope_head_dim:])
                assert_close(seen[layer].double(), torch.tensor(outputs).flatten(1))


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt_oss", "deepseek_v3", "lfm2"])
def test_generate(family, attached, load):
    model, attention = attached(family)
    options = dict(max_new_tokens=12, min_new_tokens=12, do_sample=False, output_logits=True,
                   return_dict_in_generate=True)
    dense = load(family).generate(ids(), **options)
    assert torch.equal(model.generate(ids(), **options).sequences, dense.sequences)
    assert attention.kept_ratio() == 1
    attention.use("streaming_llm", BUDGET)
    changed = model.generate(ids(), **options)
    assert torch.equal(changed.logits[0], dense.logits[0]) and attention.kept_ratio() < 0.8
    assert (changed.logits[1] - dense.logits[1]).abs().max() > 0.01
    # The library's own cache drops tokens outside of a window, ours keeps them: the selector sees none of them.
    if family != "lfm2":
        again = model.generate(ids(), past_key_values=attention.new_cache(), **options)
        assert torch.equal(again.sequences, changed.sequences)
        assert torch.equal(torch.stack(again.logits), torch.stack(changed.logits))


def test_settings_change_between_passes(attached):
    model, attention = attached("llama", "streaming_llm", BUDGET)
    step, cache, found = ids(1, 1), attention.new_cache(), {}
    model(input_ids=ids(), past_key_values=cache)
    for setting in (BUDGET, 30, 0.5, BUDGET):
        attention.use("streaming_llm", setting)
        attention.crop(cache, T)
        attention.reset()
        logits = model(input_ids=step, past_key_values=cache).logits
        kept = round((T + 1) * setting) if setting < 1 else setting
        assert attention.kept_ratio() == pytest.approx(kept / (T + 1), abs=1 / T if setting < 1 else 1e-12)
        assert setting not in found or torch.equal(found[setting], logits)
        found[setting] = logits
    assert not torch.equal(found[BUDGET], found[30])


def test_which_passes_and_layers(attached, load):
    model, attention = attached("llama", "streaming_llm", BUDGET)
    dense = load("llama")(input_ids=ids()).logits
    assert torch.equal(model(input_ids=ids()).logits, dense) and attention.rows == 0 and attention.kept_ratio() == 1
    attention.selecting = True
    through = model(input_ids=ids()).logits
    assert_close(through[:, :BUDGET], dense[:, :BUDGET])  # those see no more tokens than are kept
    assert (through - dense)[:, BUDGET:].abs().max() > 0.01
    counts = [min(BUDGET, p + 1) / (p + 1) for p in range(T)]
    assert attention.kept_ratio() == pytest.approx(np.mean(counts))
    attention.use("streaming_llm", BUDGET, layers=range(3, LAYERS))  # from layer 3 on
    attention.reset()
    last = model(input_ids=ids()).logits
    assert attention.kept_ratio() == pytest.approx((np.mean(counts) + 3) / 4)
    assert not torch.equal(last, through) and not torch.equal(last, dense)
    attention.use("streaming_llm:dense_layers=3", BUDGET)  # the selector is told which layer it is in
    attention.reset()
    assert_close(model(input_ids=ids()).logits, last)
    assert attention.kept_ratio() == pytest.approx((np.mean(counts) + 3) / 4)
    attention.use("streaming_llm", BUDGET, layers=[])
    assert torch.equal(model(input_ids=ids()).logits, dense)
    attention.use("streaming_llm", BUDGET)
    attention.selecting = False
    cache = attention.new_cache()
    model(input_ids=ids()[:, :-1], past_key_values=cache)
    assert_close(model(input_ids=ids()[:, -1:], past_key_values=cache).logits, dense[:, -1:])


def test_kept_ratio_within_a_window(attached):
    model, attention = attached("gemma3", "streaming_llm", BUDGET)
    attention.selecting = True
    model(input_ids=ids())
    counts = [min(BUDGET, seen) / seen for window in (WINDOW, T) for p in range(T) for seen in [min(p + 1, window)]]
    assert ALTERNATING[:2] == ["sliding_attention", "full_attention"]
    assert attention.kept_ratio() == pytest.approx(np.mean(counts))


@pytest.mark.parametrize("family", ["mistral", "gpt_oss", "deepseek_v2"])
def test_crop_goes_back_to_any_length(family, attached):
    model, attention = attached(family, "streaming_llm", BUDGET)
    tokens, cache = ids(T + 8), attention.new_cache()
    model(input_ids=tokens[:, :T], past_key_values=cache)
    first = decode(model, cache, tokens[:, T:])
    for length in (T + 4, T + 1, T):  # further back than the window's keys
        attention.crop(cache, length)
        assert cache.get_seq_length() == length
        assert torch.equal(decode(model, cache, tokens[:, length:]), first[:, length - T:])
    attention.crop(cache, 0)
    model(input_ids=tokens[:, :T], past_key_values=cache)
    assert torch.equal(decode(model, cache, tokens[:, T:]), first)
    with pytest.raises(ValueError, match=f"cannot cut a cache of {T + 8} tokens to {T + 9}"):
        attention.crop(cache, T + 9)


@pytest.mark.parametrize("family", ["llama", "gemma2", "deepseek_v3"])
def test_batch(family, attached):
    model, attention = attached(family, "streaming_llm", BUDGET)
    rows = []
    for batch in (ids(), ids(seed=2), torch.cat([ids(), ids(seed=2)])):
        cache = attention.new_cache()
        model(input_ids=batch[:, :-3], past_key_values=cache, attention_mask=torch.ones_like(batch[:, :-3]))
        rows.append(model(input_ids=batch[:, -3:], past_key_values=cache, attention_mask=torch.ones_like(batch)).logits)
    assert_close(rows[2], torch.cat(rows[:2]))
    padded = torch.ones_like(batch)
    padded[0, :5] = 0
    sentence = "a batch with padding cannot go through a selector: expected sequences of one length, found"
    with pytest.raises(ValueError, match=sentence):
        model(input_ids=batch, attention_mask=padded)
    attention.selecting = False
    model(input_ids=batch, attention_mask=padded)


def test_other_masks_are_refused(attached):
    model, attention = attached("llama", "streaming_llm", BUDGET)
    cache = attention.new_cache()
    model(input_ids=ids(), past_key_values=cache)
    mask = torch.ones(1, 1, 1, T + 1, dtype=torch.bool)
    model(input_ids=ids(1), past_key_values=cache, attention_mask=mask)
    mask = torch.ones(1, 1, 1, T + 2, dtype=torch.bool)
    mask[..., 3] = False
    with pytest.raises(ValueError, match="layer 0: expected queries that are the last tokens and see all keys before"):
        model(input_ids=ids(1), past_key_values=cache, attention_mask=mask)
    with pytest.raises(InputError, match="a static cache has keys behind the query"):
        model.generate(ids(), max_new_tokens=4, cache_implementation="static", disable_compile=True)
    static = transformers.StaticCache(model.config, max_cache_len=T + 10)
    with pytest.raises(ValueError, match="found another mask"):
        model(input_ids=ids(), past_key_values=static)


def test_attention_that_is_something_else_is_refused(attached, monkeypatch):
    """The first time that a layer goes through a selector, it is compared with the model's own attention."""
    from attest.selectors import attention as selector_attention
    own = selector_attention.model_attention
    model, _ = attached("llama")
    monkeypatch.setattr(selector_attention, "model_attention", lambda *call: own(*call).roll(1, dims=2))
    with pytest.raises(InputError, match="layer 0: its attention is not the softmax"):
        model.generate(ids(), max_new_tokens=4)


def test_detach_and_attach(attached, load):
    model, attention = attached("deepseek_v3", "streaming_llm", BUDGET)
    plain = load("deepseek_v3")
    with pytest.raises(ValueError, match="DeepseekV3ForCausalLM: is attached already; use\\(\\) changes the selector"):
        attach(model, library=LIBRARY)
    model.generate(ids(), max_new_tokens=3)
    attention.detach()
    assert model.config._attn_implementation == plain.config._attn_implementation == "sdpa"
    options = dict(max_new_tokens=8, do_sample=False, output_logits=True, return_dict_in_generate=True)
    for mine, own in zip(model.generate(ids(), **options).logits, plain.generate(ids(), **options).logits, strict=True):
        assert torch.equal(mine, own)
    assert not any("attest" in vars(m) or m._forward_pre_hooks or m._forward_hooks for m in model.modules())
    assert attach(model, library=LIBRARY).kept_ratio() == 1
    model.generate(ids(), max_new_tokens=3)


@pytest.mark.parametrize("arguments, sentence", [
    (("nosuch",), "nosuch"),
    (("ffd:nosuch=1", 5), "nosuch"),
    (("ffd", -1), "selector 'ffd': the setting -1 is not"),
    (("exact", 3), "selector 'exact' has no setting: expected 0, found 3"),
    (("imported", 5), "selector 'imported' takes estimates from a dump, and here is none"),
    (("double_sparsity:calibrate=dump", 64), "from a dump, and here is none"),
])
def test_selectors_that_cannot_be(arguments, sentence, load):
    model = load("llama")
    with pytest.raises(UsageError, match=sentence) as raised:
        attach(model, *arguments, library=LIBRARY)
    assert isinstance(raised.value, ValueError) and "\n" not in str(raised.value)
    assert model.config._attn_implementation == "sdpa"
    attention = attach(model, library=LIBRARY)
    with pytest.raises(ValueError, match=sentence):
        attention.use(*arguments)
    assert attention.selector == "exact"


def test_layers_that_cannot_be(attached):
    _, attention = attached("llama")
    with pytest.raises(ValueError, match="layers: there is no layer 4, the model has 4"):
        attention.use("ffd", 5, layers=range(2, 5))


@pytest.mark.parametrize("family", ["mamba", "bloom"])
def test_models_without_such_attention(family, attached, load):
    if family == "bloom":
        torch.manual_seed(1)
        config = transformers.BloomConfig(vocab_size=VOCABULARY, hidden_size=64, n_layer=2, n_head=4)
        model = transformers.BloomForCausalLM(config)
        attach(model, library=LIBRARY)
    else:
        model, _ = attached(family)
    with pytest.raises(ValueError, match="has no attention that calls the library's attention interface"):
        model(input_ids=ids())


def test_hybrid_caches_cannot_be_cut_back(attached):
    model, attention = attached("lfm2", "streaming_llm", BUDGET)
    cache = attention.new_cache()
    model(input_ids=ids(), past_key_values=cache)
    assert cache.get_seq_length() == T
    with pytest.raises(ValueError, match="found layers that cannot be cut back"):
        attention.crop(cache, 10)
    sliding = transformers.DynamicCache(config=transformers.MistralConfig(**SMALL, sliding_window=WINDOW))
    with pytest.raises(ValueError, match="DynamicSlidingWindowLayer"):
        attention.crop(sliding, 0)


def test_a_device_without_selectors(load, monkeypatch):
    from attest.selectors import library as operator_library

    monkeypatch.setattr(operator_library, "runs_on", lambda device_type: device_type != "cpu")
    with pytest.raises(UsageError, match="the model is on cpu, and the operator library has no code for it"):
        attach(load("llama"), "ffd", 5, library=LIBRARY)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert operator_library.default_device() == "cuda"
    monkeypatch.setattr(operator_library, "runs_on", lambda device_type: device_type == "cpu")
    assert operator_library.default_device() == "cpu"


def test_no_library(load, tmp_path, monkeypatch):
    from attest.selectors import library as operator_library
    monkeypatch.delenv("ATTEST_TORCH_OPS", raising=False)
    monkeypatch.setattr(operator_library.places, "checkout", lambda: tmp_path)
    sentence = "found no release/libattest_torch_ops.so or cpu/.*cmake/build.sh cpu attest --torch"
    with pytest.raises(OutputError, match=sentence):
        attach(load("llama"))
    with monkeypatch.context() as installed:
        installed.setattr(operator_library.places, "checkout", lambda: None)
        sentence = "a wheel has no libattest_torch_ops.so: build it in a checkout .* and name it with ATTEST_TORCH_OPS="
        with pytest.raises(OutputError, match=sentence):
            attach(load("llama"))
    for path in ("cpu", "release"):
        (tmp_path / "build" / path).mkdir(parents=True)
        (tmp_path / "build" / path / LIBRARY.name).write_bytes(b"")
    os.utime(tmp_path / "build/cpu" / LIBRARY.name, (4e9, 4e9))
    assert operator_library.find_library().parent.name == "cpu"
    monkeypatch.setenv("ATTEST_TORCH_OPS", str(tmp_path / "none.so"))
    with pytest.raises(OutputError, match="none.so: there is no such operator library"):
        attach(load("llama"))
    attach(load("llama"), library=LIBRARY)
    monkeypatch.setenv("ATTEST_TORCH_OPS", str(tmp_path / "build/cpu" / LIBRARY.name))
    with pytest.raises(OutputError, match="another library of torch.ops.attest is loaded already"):
        attach(load("llama"))
