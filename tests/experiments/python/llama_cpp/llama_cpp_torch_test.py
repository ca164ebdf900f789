"""`attest capture MODEL.gguf`: random tiny models of several families in llama.cpp (cmake/setup.sh --llama-cpp), whose
captured q, k and v are those of transformers, and whose captured output is attention of them as the dump format defines
it; for quantised caches, with keys and values as the package gguf quantises them."""
import json
import os

import h5py
import numpy as np
import pytest

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed (cmake/setup.sh --llama-cpp)")
gguf = pytest.importorskip("gguf", reason="gguf is not installed (cmake/requirements-tests.txt)")
pytest.importorskip("transformers", reason="transformers is not installed (cmake/requirements-torch.txt)")
from attest.llama_cpp.samples import LlamaSamples
from attest_program import run_attest
from capture_models import T, attention, capture, read, run, token_ids, write_prompts
from gguf_models import FAMILIES, WINDOWED, interleaved, make_gguf
from near import assert_near

# Of the output, relative to its norm per query and head. In float16: queries, and products with values, are rounded, as
# flash attention on a processor adds them up in float16. In bfloat16 and float32 sums are in float32.
HALF, SINGLE = 4 * 2**-10, 1e-5
# Of q, k and v, relative to the largest value of a layer: another order of sums, through four layers, and values of
# GELU that llama.cpp takes from a table in float16.
INPUT_TOLERANCE = 2e-3
SCALED_QUERIES = {"gemma2": 32**-0.5, "phi3": 32**-0.5}  # llama.cpp scales queries of these before attention


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """name -> (checkpoint, GGUF file), made when first asked for."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = make_gguf(tmp_path_factory.mktemp(name), name)
        return made[name]
    return get


def capture_gguf(models, tmp_path, family, *options, prompts=None, expect=0):
    prompts = prompts or [{"name": "p", "tokens": token_ids()}]
    path = write_prompts(tmp_path, *prompts)
    code = capture.main([models(family)[1], path, "-o", str(tmp_path / "d.h5"), "--force", "-t", "1",
                         *map(str, options)])
    assert code == expect
    return h5py.File(tmp_path / "d.h5") if not expect else None


def errors(dump, sample, expected_of):
    """Of the captured output, per layer, query and head. expected_of(layer): the exact one."""
    for layer, group in dump[f"samples/{sample}/layers"].items():
        expected = expected_of(layer)
        yield np.linalg.norm(read(group["output"]) - expected, axis=-1) / np.linalg.norm(expected, axis=-1)


def check_output(dump, tolerance, sample="p"):
    worst = max(error.max() for error in errors(dump, sample, lambda layer: attention(dump, sample, layer)[0]))
    assert worst <= tolerance


@pytest.mark.parametrize("options", [(), ("-fa", "off"), ("-b", 16)], ids=["flash", "plain", "chunks"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_output_is_attention_of_what_was_captured(models, tmp_path, family, options):
    """The prompt's last queries, and decoded ones, of prompts longer and shorter than a window."""
    prompts = [{"name": "p", "tokens": token_ids()}, {"name": "short", "tokens": token_ids(9)}]
    dump = capture_gguf(models, tmp_path, family, "--last", 3, "--decode", 3, *options, prompts=prompts)
    for name, length in (("p", T), ("short", 9)):
        sample = dump[f"samples/{name}"]
        assert sample["query_positions"][:].tolist() == list(range(length - 3, length + 3))
        assert sample.attrs["num_tokens"] == length + 3 == len(sample["tokens"]) and len(sample["layers"]) == 4
        check_output(dump, HALF, name)
    assert ("sinks" in sample["layers/0"]) == (family == "gpt_oss")
    assert ("logit_softcap" in dump.attrs) == (family == "gemma2")
    windows = [dump[f"samples/p/layers/{layer}"].attrs.get("sliding_window") for layer in range(4)]
    assert windows == ([16, None, 16, None] if family in WINDOWED else [None] * 4)
    assert dump.attrs["engine"].startswith("llama.cpp of llama-cpp-python ") and dump.attrs["kv_cache"] == ""
    assert "KV cache K f16, V f16" in dump.attrs["source"] and dump.attrs["model"] == "tiny random"
    assert sample["layers/0/k"].dtype == np.float16 and sample["layers/0/output"].dtype == np.float32


@pytest.mark.parametrize("family", FAMILIES)
def test_q_k_v_are_those_of_transformers(models, tmp_path, family):
    """In float32, of all queries of the same tokens, prompt and decoded, read at once."""
    dump = capture_gguf(models, tmp_path, family, "--decode", 4, "--last", T, "-ctk", "f32", "-ctv", "f32", "-fa",
                        "off")
    check_output(dump, SINGLE)
    found = dump["samples/p"]
    prompts = write_prompts(tmp_path, {"name": "p", "tokens": found["tokens"][:].tolist()})
    assert run(models(family)[0], prompts, "-o", tmp_path / "t.h5", "--last", T + 4) == 0
    with h5py.File(tmp_path / "t.h5") as reference:
        factor = SCALED_QUERIES.get(family, 1)
        assert reference.attrs["softmax_scale"] == pytest.approx(dump.attrs["softmax_scale"] * factor)
        for layer in range(4):
            for kind in "qkv":
                expected, captured = (read(sample[f"layers/{layer}/{kind}"])
                                      for sample in (reference["samples/p"], found))
                if family.startswith("llama") and kind != "v":
                    expected = interleaved(np.moveaxis(expected, -1, 0), 1)
                    expected = np.moveaxis(expected, 0, -1)
                expected = expected * (factor if kind == "q" else 1)
                assert_near(captured, expected, abs=INPUT_TOLERANCE * np.abs(expected).max(), what=(layer, kind))


QUANTS = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0,
          "q4_1": gguf.GGMLQuantizationType.Q4_1, "q5_0": gguf.GGMLQuantizationType.Q5_0,
          "q5_1": gguf.GGMLQuantizationType.Q5_1}


def hadamard(size):
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / np.sqrt(size)


def rotated(values, size):
    """In blocks of `size` channels; none where the channels are no multiple of 64."""
    if values.shape[-1] % 64:
        return values
    return (values.reshape(*values.shape[:-1], -1, size) @ hadamard(size)).reshape(values.shape)


def quantised(values, kind):
    flat = np.ascontiguousarray(values, np.float32).reshape(-1, values.shape[-1])
    return gguf.quants.dequantize(gguf.quants.quantize(flat, QUANTS[kind]), QUANTS[kind]).reshape(values.shape)


def attention_of_a_quantised_cache(dump, layer, key_kind, value_kind):
    """What llama.cpp computes: keys and queries rotated, the keys in the cache's type, and the queries in q8_0, whose
    products with the codes of keys are exact; values in the cache's type, rotated back at the end."""
    group, positions = dump[f"samples/p/layers/{layer}"], dump["samples/p/query_positions"][:]
    q, k, v = (read(group[name]) for name in "qkv")
    block = 64
    while k.shape[-1] % (2 * block) == 0:
        block *= 2
    q = quantised(rotated(q, block), "q8_0")
    k, v = quantised(rotated(k, block), key_kind), quantised(rotated(v, 64), value_kind)
    k, v = (np.repeat(x, q.shape[1] // x.shape[0], axis=0).astype(np.float64) for x in (k, v))
    scores = np.einsum("nhd,htd->nht", q, k) * dump.attrs["softmax_scale"]
    scores = np.where((np.arange(k.shape[1]) <= positions[:, None])[:, None], scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return rotated(np.einsum("nht,htd->nhd", p / p.sum(-1, keepdims=True), v), 64)


@pytest.mark.parametrize("family", ["llama", "llama_64", "llama_192"])
@pytest.mark.parametrize("key_kind, value_kind",
                         [("q8_0", "q4_0"), ("q4_0", "q8_0"), ("q5_1", "q5_0"), ("q4_1", "q4_1")])
def test_quantised_caches(models, tmp_path, family, key_kind, value_kind):
    dump = capture_gguf(models, tmp_path, family, "--decode", 4, "-ctk", key_kind, "-ctv", value_kind)
    assert dump.attrs["kv_cache"] == f"k={key_kind},v={value_kind}"
    assert f"KV cache K {key_kind}, V {value_kind}" in dump.attrs["source"]
    assert dump["samples/p/layers/0/k"].dtype == np.float32
    found = np.concatenate([error.ravel() for error in errors(
        dump, "p", lambda layer: attention_of_a_quantised_cache(dump, layer, key_kind, value_kind))])
    # A code at a tie may fall the other way, which moves a few outputs by more than rounding.
    assert np.quantile(found, 0.9) <= 1e-3 and found.max() <= 0.05
    exact = np.concatenate([error.ravel() for error in errors(dump, "p", lambda layer: attention(dump, "p", layer)[0])])
    assert np.median(exact) > 10 * np.median(found)


@pytest.mark.parametrize("options", [
    (), ("-t", 2), ("-fa", "off"), ("-ctk", "bf16", "-ctv", "bf16"), ("-ctk", "q8_0", "-ctv", "q8_0"),
    ("-ctk", "q4_0", "-ctv", "q4_0"), ("-ctk", "q8_0")], ids=lambda options: "_".join(map(str, options)) or "f16")
def test_llama_cpp_as_it_is_agrees(models, tmp_path, options):
    """A prompt of so many tokens that threads share its cache."""
    capture_gguf(models, tmp_path, "llama_64", "--last", 2, "--decode", 3, *options,
                 prompts=[{"name": "p", "tokens": token_ids(900)}]).close()
    done = run_attest("audit", tmp_path / "d.h5", "--json")
    assert done.returncode == 0, (json.loads(done.stdout)["text"], done.stderr)
    assert json.loads(done.stdout)["engine"].startswith("llama.cpp of llama-cpp-python ")


def test_a_rotation_that_is_turned_off_is_named(models, tmp_path, monkeypatch):
    monkeypatch.setenv("LLAMA_ATTN_ROT_DISABLE", "1")
    dump = capture_gguf(models, tmp_path, "llama_64", "-ctk", "q8_0", "-ctv", "q8_0")
    assert dump.attrs["kv_cache"] == "k=q8_0,v=q8_0,rotate=none"
    dump = capture_gguf(models, tmp_path, "llama", "-ctk", "q8_0")
    assert dump.attrs["kv_cache"] == "k=q8_0", "heads of 32 channels are never rotated"


@pytest.mark.parametrize("kind, dump_type, tolerance", [("bf16", "bfloat16", SINGLE), ("f32", "float16", HALF)])
def test_other_caches(models, tmp_path, kind, dump_type, tolerance):
    """Flash attention reads a cache of float32 in float16."""
    dump = capture_gguf(models, tmp_path, "qwen3", "-ctk", kind, "-ctv", kind, "--decode", 3)
    check_output(dump, tolerance)
    assert dump.attrs["kv_cache"] == "" and dump["samples/p/layers/0/q"].id.get_type().get_size() == 2
    assert (dump["samples/p/layers/0/q"].dtype == np.float16) == (dump_type == "float16")


def test_texts_spans_and_answers(models, tmp_path, capsys):
    """The tokenizer in the file puts token 256 before the bytes."""
    text = "The code of box four, für dich, is 7291. What is the code?"
    prompts = [{"name": "p", "text": text, "answer": " 7291", "spans": ["für dich", "7291"], "task": "niah"}]
    dump = capture_gguf(models, tmp_path, "llama", "--answer", 3, "--layers", "1,3", prompts=prompts)
    sample, content = dump["samples/p"], text.encode()
    assert sample["tokens"][:].tolist() == [256, *content, *b" 72"][:len(content) + 3]
    assert sample["query_positions"][:].tolist() == [len(content) + n for n in range(3)]
    for (begin, end), word in zip(sample["spans"][:], ("für dich", "7291"), strict=True):
        assert content[begin - 1:end - 1].decode() == word
    assert sorted(sample["layers"]) == ["1", "3"] and sample.attrs["task"] == "niah"
    assert sample.attrs["prompt_length"] == len(content) + 1
    assert "of 3 answer tokens predicted right" in capsys.readouterr().err
    check_output(dump, HALF)


def test_greedy_tokens_are_those_of_transformers(models, tmp_path):
    dump = capture_gguf(models, tmp_path, "qwen2", "--decode", 5, "-fa", "off", "-ctk", "f32", "-ctv", "f32")
    prompts = write_prompts(tmp_path, {"name": "p", "tokens": token_ids()})
    assert run(models("qwen2")[0], prompts, "-o", tmp_path / "t.h5", "--decode", 5) == 0
    with h5py.File(tmp_path / "t.h5") as reference:
        assert reference["samples/p/tokens"][:].tolist() == dump["samples/p/tokens"][:].tolist()


def test_an_unknown_token_is_refused(models, tmp_path, capsys):
    prompts = [{"name": "a", "tokens": token_ids(20)}, {"name": "b", "tokens": [256, 9999]}]
    capture_gguf(models, tmp_path, "llama", "--last", 2, prompts=prompts, expect=4)
    assert "prompts.jsonl:2: token 9999 is not in the model's vocabulary of 260" in capsys.readouterr().err


def contents(dump):
    """Every data set and attribute, but for those of the command."""
    found = {("", name): value for name, value in dump.attrs.items() if name not in ("source", "created")}

    def visit(name, entry):
        found.update({(name, attribute): value for attribute, value in entry.attrs.items()})
        if isinstance(entry, h5py.Dataset):
            found[name, None] = entry[()].tobytes()

    dump.visititems(visit)
    dump.close()
    return found


def test_an_interrupted_capture_goes_on(models, tmp_path, capsys, monkeypatch):
    prompts = [{"name": name, "tokens": token_ids(count)} for name, count in (("a", 20), ("b", 30), ("c", 25))]
    whole = contents(capture_gguf(models, tmp_path, "llama", "--last", 2, prompts=prompts))
    write, written = LlamaSamples.write, []

    def interrupted(self, prompt, writer):
        if written == ["a"]:
            raise KeyboardInterrupt
        written.append(prompt.name)
        return write(self, prompt, writer)

    monkeypatch.setattr(LlamaSamples, "write", interrupted)
    capture_gguf(models, tmp_path, "llama", "--resume", "--last", 2, prompts=prompts, expect=130)
    assert os.listdir(tmp_path / "d.h5.partial") and (tmp_path / "d.h5.partial/dump-0.h5").exists()
    written[:] = ["resumed"]
    resumed = contents(capture_gguf(models, tmp_path, "llama", "--resume", "--last", 2, prompts=prompts))
    assert written == ["resumed", "b", "c"] and resumed == whole and not (tmp_path / "d.h5.partial").exists()
    assert "resumed: 1 of 3 prompts were finished before" in capsys.readouterr().err


@pytest.mark.parametrize("options, code, sentence", [
    (("--device", "cpu"), 2, "argument --device: is for a model of Hugging Face, not for"),
    (("--head-weights",), 2, "argument --head-weights: is for a model of Hugging Face"),
    (("--tokenizer", "gpt2"), 2, "a .gguf file has its own"),
    (("-ctk", "iq4_nl"), 2, "invalid choice: 'iq4_nl'"),
    (("--layers", "4"), 2, "--layers: there is no layer 4, the model has 4"),
    (("-ctv", "q8_0", "-fa", "off"), 2, "cannot make a cache of K f16 and V q8_0 for 256 tokens (")])
def test_what_cannot_be_captured_is_refused(models, tmp_path, capsys, options, code, sentence):
    capture_gguf(models, tmp_path, "llama", *options, expect=code)
    said = capsys.readouterr().err.strip()
    assert sentence in said and "\n" not in said and not (tmp_path / "d.h5").exists()


def test_options_of_llama_cpp_are_for_gguf_files(models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": [1]})
    assert run(models("llama")[0], prompts, "-o", tmp_path / "d.h5", "-ctk", "q8_0") == 2
    assert "argument --cache-type-k: is for a .gguf file, not for" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"GGU", b"PK\3\4", b"GGUF" + bytes(100)])
def test_files_that_are_no_models_are_refused(tmp_path, capsys, content):
    (tmp_path / "m.gguf").write_bytes(content)
    prompts = write_prompts(tmp_path, {"tokens": [1]})
    assert capture.main([str(tmp_path / "m.gguf"), prompts, "-o", str(tmp_path / "d.h5")]) == 4
    said = capsys.readouterr().err.strip()
    expected = "llama.cpp cannot load it (" if content.startswith(b"GGUF") else \
        "expected a GGUF file, found something else"
    assert expected in said and "\n" not in said
