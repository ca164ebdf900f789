"""capture.py against the library itself: tiny random models of each family are captured through the command line, and
attention recomputed from the dump (plain numpy, float64) must be what an eager run of the same model puts out.
"""
import json
import pathlib
import subprocess
import sys

import h5py
import numpy as np
import pytest
import torch
import transformers

REPOSITORY = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "dumps"))
import capture  # noqa: E402
import capture_attention  # noqa: E402

torch.set_num_threads(1)  # the models are tiny

# Relative to the largest output. float32: sums in another order, through four layers. float16 and bfloat16: the model
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
    "gemma3": lambda: transformers.Gemma3TextConfig(**SMALL, head_dim=32, sliding_window=WINDOW,
                                                    query_pre_attn_scalar=20, layer_types=ALTERNATING),
    "phi": lambda: transformers.PhiConfig(**SMALL),
    "phi3": lambda: transformers.Phi3Config(**SMALL, sliding_window=WINDOW),
}
WINDOWED_LAYERS = {"mistral": {0, 1, 2, 3}, "gemma2": {0, 2}, "gemma3": {0, 2}, "phi3": {0, 1, 2, 3}}


def make_model(folder, config, dtype=torch.float32):
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # random too: Qwen2 adds a bias to q, k and v
            torch.nn.init.normal_(parameter, std=0.3)
        if name.endswith("sinks"):  # GPT-OSS: logits of the size that its scores have here
            torch.nn.init.constant_(parameter, 20.0)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """name -> folder of a checkpoint, made when first asked for."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = make_model(tmp_path_factory.mktemp(name), FAMILIES[name]())
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
    """[N, Hq, Dv] and the probabilities [N, Hq, T] that dump-format defines."""
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
    p /= p.sum(-1, keepdims=True)
    return np.einsum("nht,htd->nhd", p, v), p


def reference(folder, ids, dtype=torch.float32):
    """What reaches each layer's output projection when the model runs all tokens at once, [T, Hq*Dv], and the model.
    Eager in float32. In the 16-bit types as captured: another order of sums would end in another rounding, which layers of
    random weights amplify."""
    implementation = "eager" if dtype == torch.float32 else "sdpa"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=implementation)
    model.eval()
    outputs, handles = {}, []
    for layer, block in enumerate(model.model.layers):
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
                expected = outputs[int(layer)][positions].reshape(recomputed.shape)
                np.testing.assert_allclose(recomputed, expected, rtol=0, atol=TOLERANCE[dtype] * np.abs(expected).max(),
                                           err_msg=f"layer {layer}")
                # Attention is neither uniform nor on one token, or the comparison would say little.
                effective = np.exp(-(p * np.log(p + 1e-300)).sum(-1)).mean()
                assert 1.05 < effective < 30, effective
        return model


def assert_well_formed(path):
    """What dump-format.md demands, straight from the file."""
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


# ---- families

@pytest.mark.parametrize("query_block", [1024, 16])  # whole, and in blocks as a long prompt is
@pytest.mark.parametrize("family", FAMILIES)
def test_attention_of_dump_is_attention_of_model(family, query_block, models, tmp_path, monkeypatch):
    monkeypatch.setattr(capture_attention, "QUERY_BLOCK", query_block)
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "long"}, {"tokens": token_ids(9, 1), "name": "short"})
    dump = tmp_path / "dump.h5"
    assert run(models(family), prompts, "-o", dump, "--positions=0,3,-2,-1") == 0
    assert_well_formed(dump)
    assert_reproduces_model(dump, models(family))
    with h5py.File(dump) as file:
        layers = file["samples/long/layers"]
        windows = {int(n) for n, layer in layers.items() if "sliding_window" in layer.attrs}
        assert windows == WINDOWED_LAYERS.get(family, set()) and len(layers) == 4
        for layer in windows:  # without it the result would be another
            assert layers[str(layer)].attrs["sliding_window"] == WINDOW
            difference = attention(file, "long", layer)[0] - attention(file, "long", layer, window=False)[0]
            assert np.abs(difference).max() > 1e-2
        assert ("logit_softcap" in file.attrs) == (family == "gemma2")
        if family == "gemma2":
            assert np.abs(attention(file, "long", 1)[0] - attention(file, "long", 1, softcap=False)[0]).max() > 1e-2


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gemma3"])  # sliding caches forget keys, the dump must not
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


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_element_type_is_kept(dtype, tmp_path):
    folder = make_model(tmp_path / "model", FAMILIES["llama"](), dtype)
    dump = tmp_path / "dump.h5"
    assert run(folder, write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"}), "-o", dump) == 0
    model = assert_reproduces_model(dump, folder, dtype)
    # v of layer 0 goes from its projection to the file without arithmetic: bit for bit the same.
    projected = []
    model.model.layers[0].self_attn.v_proj.register_forward_hook(lambda *call: projected.append(call[2][0]))
    with h5py.File(dump) as file, torch.inference_mode():
        model(input_ids=torch.tensor([file["samples/s/tokens"][:].tolist()]))
        kind = file["samples/s/layers/0/v"].id.get_type()
        layout = {torch.float16: (15, 10, 5, 0, 10), torch.bfloat16: (15, 7, 8, 0, 7), torch.float32: (31, 23, 8, 0, 23)}
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
    """RoPE of [H, T, D] by its definition: the pair (i, i + D'/2) turns by position * frequency i."""
    frequencies = np.array(parameters["inv_freq"])
    half = len(frequencies)
    angle = np.arange(x.shape[1])[:, None] * frequencies
    c, s = np.cos(angle), np.sin(angle)
    a, b = x[..., :half], x[..., half:2 * half]
    return np.concatenate([a * c - b * s, b * c + a * s], -1) * parameters["attention_scaling"]


@pytest.mark.parametrize("family", ["llama", "gemma3"])  # frequencies of llama3 scaling; of two kinds of layer
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
            np.testing.assert_allclose(read(file[f"samples/s/layers/{layer}/k"]), rotate(key, parameters), atol=1e-4)


# ---- queries, layers, spans

def test_last_answer_and_layers(models, tmp_path):
    dump, answer = tmp_path / "dump.h5", [10, 20, 30, 40, 50]
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "answer": answer, "name": "s", "task": "copy"},
                            {"tokens": token_ids(), "answer": answer, "name": "own", "layers": [1]})
    assert run(models("llama"), prompts, "-o", dump, "--answer", 4, "--layers", "0,2-3") == 0
    with h5py.File(dump) as file:
        sample = file["samples/s"]
        assert sample["query_positions"][:].tolist() == [T - 1, T, T + 1, T + 2]
        assert sample["tokens"][:].tolist() == token_ids() + answer[:3]  # the fourth is only predicted
        assert sample.attrs["prompt_length"] == T and sample.attrs["task"] == "copy"
        assert set(sample["layers"]) == {"0", "2", "3"} and file.attrs["num_layers"] == 4
        assert set(file["samples/own/layers"]) == {"1"}
    assert_reproduces_model(dump, models("llama"))
    assert run(models("llama"), prompts, "-o", dump, "--force") == 0  # --last 4 is the default
    with h5py.File(dump) as file:
        assert file["samples/s/query_positions"][:].tolist() == [T - 4, T - 3, T - 2, T - 1]


def test_text_file_with_byte_tokens(models, tmp_path):
    text = tmp_path / "haystack.txt"
    text.write_text("Größe: 12 µm\n" * 5)
    dump = tmp_path / "dump.h5"
    options = ["--tokenizer", "bytes", "--task", "reading", "--max-tokens", 60, "--model-name", "tiny"]
    assert run(models("llama"), text, "-o", dump, *options) == 0
    with h5py.File(dump) as file:
        sample = file["samples/haystack"]
        assert sample["tokens"][:].tolist() == [256, *text.read_bytes()][:60]
        assert sample.attrs["task"] == "reading" and "spans" not in sample and file.attrs["model"] == "tiny"
        assert str(tmp_path) not in file.attrs["source"] and "haystack.txt" in file.attrs["source"]


def test_spans_of_text(models, tmp_path):
    text = "Größe eins: 4711. Größe zwei: 0815. Größe eins ist 4711?"
    spans = ["4711", "Größe zwei", [0, 5]]
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"text": text, "evidence": spans, "name": "s"})
    assert run(models("llama"), prompts, "-o", dump, "--tokenizer", "bytes", "--spans", "evidence") == 0
    with h5py.File(dump) as file:
        tokens = file["samples/s/tokens"][:].tolist()
        found = [bytes(tokens[b:e]).decode() for b, e in file["samples/s/spans"][:]]
        assert found == ["4711", "Größe zwei", "Größe"]
        assert file["samples/s/spans"][0, 0] == 1 + text.encode().index(b"4711")  # the first of two
        assert file["samples/s/span_labels"].asstr()[:].tolist() == ["4711", "Größe zwei", ""]


def make_word_tokenizer(folder):
    """One token per word or punctuation mark, a first token, and a chat template."""
    from tokenizers import Tokenizer, models as tokenizer_models, pre_tokenizers, processors
    words = ["<s>", "<unk>", "user", "assistant", "the", "key", "of", "box", "is", "red", "blue", ".", ":", "?"]
    tokenizer = Tokenizer(tokenizer_models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>")
    fast.chat_template = "user: {{ messages[0]['content'] }} assistant:"
    fast.save_pretrained(folder)
    return words


@pytest.mark.parametrize("chat", [False, True])
def test_spans_through_a_real_tokenizer(chat, tmp_path):
    folder = make_model(tmp_path / "model", FAMILIES["llama"]())
    words = make_word_tokenizer(folder)
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"text": "the key of box red is blue. the key of box?", "spans": ["red is blue"],
                                       "answer": "is red", "name": "s"})
    assert run(folder, prompts, "-o", dump, "--spans", "--answer", 2, *(["--chat"] if chat else [])) == 0
    with h5py.File(dump) as file:
        spelled = [words[t] for t in file["samples/s/tokens"][:]]
        (begin, end), = file["samples/s/spans"][:]
        assert spelled[begin:end] == ["red", "is", "blue"] and spelled[-1] == "is"
        assert spelled[:2] == (["user", ":"] if chat else ["<s>", "the"])


def test_attention_mass_is_column_sums(models, tmp_path, monkeypatch):
    monkeypatch.setattr(capture_attention, "SCORES_AT_ONCE", 4 * T * 7)  # seven queries at a time
    dump, everything = tmp_path / "dump.h5", ",".join(map(str, range(T)))
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "answer": [1, 2, 3], "name": "s"})
    assert run(models("gemma2"), prompts, "-o", dump, "--positions", everything, "--attention-mass") == 0
    with h5py.File(dump) as file:
        for layer in file["samples/s/layers"]:
            np.testing.assert_allclose(file[f"samples/s/layers/{layer}/attention_mass"][:],
                                       attention(file, "s", layer)[1].sum(0), atol=1e-4)
        first = file["samples/s/layers/0/attention_mass"][:]
    # Only the prompt's queries count; tokens after it have none.
    assert run(models("gemma2"), prompts, "-o", dump, "--decode", 2, "--attention-mass", "--force") == 0
    with h5py.File(dump) as file:
        again = file["samples/s/layers/0/attention_mass"][:]
    np.testing.assert_allclose(again, np.pad(first, ((0, 0), (0, 2))), atol=1e-4)


def test_gzip_changes_no_value(models, tmp_path):
    plain, small = tmp_path / "plain.h5", tmp_path / "small.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models("llama"), prompts, "-o", plain, "--decode", 3) == 0
    assert run(models("llama"), prompts, "-o", small, "--decode", 3, "--gzip") == 0
    with h5py.File(plain) as a, h5py.File(small) as b:
        assert a["samples/s/layers/1/k"].chunks is None and b["samples/s/layers/1/k"].compression == "gzip"
        for name in "qkv":
            np.testing.assert_array_equal(a[f"samples/s/layers/1/{name}"][:], b[f"samples/s/layers/1/{name}"][:])


# ---- refusals

def test_existing_output_is_refused(models, tmp_path, capsys):
    dump = tmp_path / "dump.h5"
    dump.write_text("precious")
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("llama"), prompts, "-o", dump) == 5
    assert capsys.readouterr().err == f"capture.py: {dump}: exists (--force overwrites a file)\n"
    assert dump.read_text() == "precious"
    assert run(models("llama"), prompts, "-o", dump, "--force", "--quiet") == 0
    assert capsys.readouterr().err == ""
    assert_well_formed(dump)


@pytest.mark.parametrize("line, sentence", [
    ("{", "prompts.jsonl:1: not JSON"),
    ("[1]", "expected a JSON object, found a list"),
    ('{"name": "x"}', 'expected either "text" or "tokens"'),
    ('{"text": "a", "tokens": [1]}', 'expected either "text" or "tokens"'),
    ('{"tokens": [1, -2]}', 'lists of token ids'),
    ('{"text": ""}', "none of them empty"),
    ('{"tokens": [1, 2, 3, 4], "name": "a/b"}', "without '/'"),
    ('{"tokens": [1, 2, 3, 4], "spans": [[2, 5]]}', "the span [2, 5] is empty or reaches outside of 0..4"),
    ('{"tokens": [1, 2, 3, 4], "spans": [[3, 3]]}', "is empty"),
    ('{"tokens": [1, 2, 3, 4], "spans": ["x"]}', 'found "x"'),
    ('{"text": "some text", "spans": ["other"]}', "the span 'other' does not occur"),
    ('{"tokens": [1, 2, 3, 4], "spans": [[1, 2]], "span_labels": []}', "1 strings"),
    ('{"tokens": [1, 2, 3, 4], "layers": "0"}', '"layers" must be a list'),
    ('{"tokens": [1, 2, 3, 4], "layers": [0, 4]}', "prompts.jsonl:1: there is no layer 4, the model has 4"),
    ('{"tokens": [1, 2, 3]}', "--last 4 of a prompt of 3 tokens"),
    ('{"tokens": [1, 2, 3, 999]}', "token 999 is not in the model's vocabulary of 260"),
    ("\n", "no prompt in it"),
    ('{"tokens": [1, 2, 3, 4], "name": "a"}\n{"tokens": [1, 2, 3, 4], "name": "a"}', "prompts.jsonl:2: a second sample"),
])
def test_bad_prompts(line, sentence, models, tmp_path, capsys):
    (tmp_path / "prompts.jsonl").write_text(line)
    assert run(models("llama"), tmp_path / "prompts.jsonl", "-o", tmp_path / "dump.h5", "--tokenizer", "bytes") == 4
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["prompts.jsonl"]  # no half dump


@pytest.mark.parametrize("options, code, sentence", [
    (["--layers", "4"], 2, "there is no layer 4, the model has 4"),
    (["--layers", "x"], 2, "--layers: invalid list of layers value: 'x'"),
    (["--last", "0"], 2, "--last: invalid count value: '0'"),
    (["--last", "2", "--decode", "2"], 2, "not allowed with"),
    (["--nonsense"], 2, "unrecognized arguments: --nonsense"),
    (["--positions", "50"], 4, "--positions reaches outside of the prompt's 50 tokens"),
    (["--answer", "3"], 4, '--answer 3 needs an "answer" of as many tokens, found 0'),
    (["--spans"], 4, 'prompts.jsonl:1: no field "spans"'),
])
def test_bad_options(options, code, sentence, models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("llama"), prompts, "-o", tmp_path / "dump.h5", *options) == code
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1 and error.startswith("capture.py: ")
    assert not (tmp_path / "dump.h5").exists()


def test_missing_files(models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("llama"), tmp_path / "none.txt", "-o", tmp_path / "dump.h5") == 4
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty", prompts, "-o", tmp_path / "dump.h5") == 4
    assert run(models("llama"), prompts, "-o", tmp_path / "none" / "dump.h5") == 5
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3 and "none.txt: cannot be read" in errors[0]
    assert "cannot be loaded as a decoder" in errors[1] and "cannot be written" in errors[2]


def test_attention_that_a_dump_cannot_describe(tmp_path, capsys):
    """GPT-OSS has learned sinks in its softmax; DeepSeek V3 has latent attention."""
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    sinks = transformers.GptOssConfig(**SMALL, head_dim=32, num_local_experts=2, num_experts_per_tok=1)
    assert run(make_model(tmp_path / "sinks", sinks), prompts, "-o", tmp_path / "dump.h5") == 4
    assert "layer 0: its attention is not the softmax(scale q k) v" in capsys.readouterr().err
    latent = transformers.DeepseekV3Config(**{**SMALL, "num_key_value_heads": 4}, moe_intermediate_size=32,
                                           n_routed_experts=2, n_group=1, topk_group=1, num_experts_per_tok=1,
                                           kv_lora_rank=16, q_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16)
    assert run(make_model(tmp_path / "latent", latent), prompts, "-o", tmp_path / "dump.h5") == 4
    assert "multi-head latent attention" in capsys.readouterr().err
    assert not (tmp_path / "dump.h5").exists()


def test_layers_without_attention_are_left_out(tmp_path, capsys):
    """LFM2 mixes convolutions with attention."""
    hybrid = transformers.Lfm2Config(**SMALL, layer_types=["conv", "full_attention", "conv", "full_attention"])
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(make_model(tmp_path / "hybrid", hybrid), prompts, "-o", dump) == 0
    assert "left out as without softmax attention: layers 0, 2" in capsys.readouterr().err
    with h5py.File(dump) as file:
        assert set(file["samples/s/layers"]) == {"1", "3"}
    assert run(tmp_path / "hybrid", prompts, "-o", dump, "--force", "--layers", "0") == 4


def test_full_disk(models, tmp_path):
    """In a process of its own, which may not write files beyond 64 KiB."""
    prompts = write_prompts(tmp_path, {"tokens": token_ids(500)})
    command = f"ulimit -f 64; trap '' XFSZ; exec {sys.executable} {REPOSITORY}/dumps/capture.py {models('llama')} {prompts} " \
              f"-o {tmp_path}/dump.h5 --device cpu"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 5 and "dump.h5: cannot be written (" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["prompts.jsonl"]


# ---- the embedded dump

def test_demo_dump():
    """What capture.md says of it. Its prompts stand beside it: tokens and spans are read back as their text."""
    path = REPOSITORY / "dumps/demo.h5"
    assert path.stat().st_size <= 24 * 2**20
    assert_well_formed(path)
    prompts = [json.loads(line) for line in (REPOSITORY / "dumps/demo_prompts.jsonl").read_text().splitlines()]
    with h5py.File(path) as dump:
        assert set(dump["samples"]) == {p["name"] for p in prompts}
        assert len({p["task"] for p in prompts}) == len(prompts) >= 7
        for prompt in prompts:
            sample = dump["samples"][prompt["name"]]
            tokens, length = sample["tokens"][:].tolist(), int(sample.attrs["prompt_length"])
            assert bytes(tokens[1:length]).decode() == prompt["text"]
            assert bytes(tokens[length:]).decode() == prompt["answer"][:3]
            assert [bytes(tokens[b:e]).decode() for b, e in sample["spans"][:]] == prompt["spans"]
            if "7" in sample["layers"] and prompt["task"].startswith(("niah", "key_value")):
                _, p = attention(dump, prompt["name"], 7)
                begin, end = sample["spans"][0]  # the value that the captured queries produce
                assert p[:, 2, begin:end].sum(-1).min() > 0.8, prompt["name"]  # head 2 retrieves
