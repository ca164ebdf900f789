"""Options of capture.py: which queries, layers and spans a dump holds, and what is refused. Also the demo dump."""
import json
import os
import subprocess
import sys
import types

import h5py
import numpy as np
import pytest
import transformers

from capture_models import (
    assert_reproduces_model, assert_well_formed, attention, FAMILIES, make_model, models, REPOSITORY, run,
    SMALL, T, token_ids, write_prompts)  # noqa: F401 (models is a fixture)
import run_model  # found by capture_models
import softmax_attention


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
    monkeypatch.setattr(softmax_attention, "MAX_SCORES_PER_STEP", 4 * T * 7)  # seven queries at a time
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
    assert capsys.readouterr().err == f"capture.py: {dump}: exists already, expected a new file (or --force)\n"
    assert dump.read_text() == "precious"
    assert run(models("llama"), prompts, "-o", dump, "--force", "--quiet") == 0
    assert capsys.readouterr().err == ""
    assert_well_formed(dump)


@pytest.mark.parametrize("line, sentence", [
    ("{", "prompts.jsonl:1: not JSON"),
    ("[1]", "expected a JSON object, found a list"),
    ('{"name": "x"}', 'expected either "text" or "tokens"'),
    ('{"text": "some text", "span": ["some"]}', 'prompts.jsonl:1: unknown field "span", the nearest is "spans" (known: text,'),
    ('{"tokens": [1, 2, 3, 4]}\n{"tokens": [1, 2, 3, 4], "Answers": [1]}',
     'prompts.jsonl:2: unknown field "Answers", the nearest is "answer" (known: text,'),
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
    assert sorted(p.name for p in tmp_path.iterdir()) == ["prompts.jsonl"]  # no partial dump


@pytest.mark.parametrize("options, code, sentence", [
    (["--layers", "4"], 2, "there is no layer 4, the model has 4"),
    (["--layers", "4-"], 2, "there is no layer 4, the model has 4"),
    (["--layers", "0-99999999999"], 2, "there is no layer 99999999999, the model has 4"),
    (["--layers", "3-2"], 2, "--layers: invalid list of layers value: '3-2'"),
    (["--layers=-3"], 2, "--layers: invalid list of layers value: '-3'"),
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


@pytest.mark.parametrize("choice, layers", [("2-", "23"), ("0,3-", "03"), ("1-2,2-2", "12"), ("3", "3")])
def test_ranges_of_layers(choice, layers, models, tmp_path):
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models("llama"), prompts, "-o", dump, "--layers", choice) == 0
    with h5py.File(dump) as file:
        assert set(file["samples/s/layers"]) == set(layers)


def test_missing_files_are_said_without_torch(tmp_path):
    """Importing torch or transformers would end with exit code 5."""
    for module in ("torch", "transformers"):
        (tmp_path / f"{module}.py").write_text("raise ImportError('asked for')")
    (tmp_path / "empty").mkdir()
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    for arguments, sentence in (
            (["./no-such-folder", prompts], "./no-such-folder: no such folder"),
            (["/no/such/folder", prompts], "/no/such/folder: no such folder"),
            (["no/such/folder", prompts], "no/such/folder: no such folder"),
            (["no-such-folder/", prompts], "no-such-folder/: no such folder"),
            (["empty", prompts], "empty: expected the folder of a checkpoint, found no config.json in it"),
            ([prompts, prompts], f"{prompts}: expected the folder of a checkpoint or a name on the hub, found a file"),
            (["gpt2", "none.txt"], "none.txt: cannot be read (No such file or directory)"),
            (["gpt2", prompts, "--tokenizer", "../none"], "--tokenizer ../none: no such folder")):
        done = subprocess.run([sys.executable, REPOSITORY / "dumps/capture/capture.py", *arguments, "-o", "dump.h5"],
                              env=os.environ | {"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (4, f"capture.py: {sentence}\n")
    done = subprocess.run([sys.executable, REPOSITORY / "dumps/capture/capture.py", "gpt2", prompts, "-o", "dump.h5"],
                          env=os.environ | {"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 5 and "asked for" in done.stderr  # the files above do stand in for the modules


def test_a_folder_for_the_dump_that_is_missing(models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("llama"), prompts, "-o", tmp_path / "none" / "dump.h5") == 5
    assert "cannot be written" in capsys.readouterr().err


def test_layers_without_attention_are_left_out(models, tmp_path, capsys):
    """LFM2 mixes convolutions with attention."""
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models("lfm2"), prompts, "-o", dump) == 0
    assert "left out, no softmax attention: layers 0, 2" in capsys.readouterr().err
    with h5py.File(dump) as file:
        assert set(file["samples/s/layers"]) == {"1", "3"}
    assert run(models("lfm2"), prompts, "-o", dump, "--force", "--layers", "0") == 4


@pytest.mark.parametrize("queries", [["--last", "2"], ["--decode", "2"]])
def test_a_model_without_attention_is_refused(queries, models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("mamba"), prompts, "-o", tmp_path / "dump.h5", *queries) == 4
    error = capsys.readouterr().err
    assert "has no attention to capture: none of the chosen layers" in error and error.count("\n") == 1
    assert not (tmp_path / "dump.h5").exists()


def test_a_model_that_forgets_positions_is_refused(models, tmp_path, capsys, monkeypatch):
    """Bamba counts from 0 in every pass when no positions are given."""
    monkeypatch.setattr(run_model.inspect, "signature", lambda _: types.SimpleNamespace(parameters=()))
    prompts = write_prompts(tmp_path, {"tokens": token_ids(40)})
    assert run(models("bamba"), prompts, "-o", tmp_path / "dump.h5", "--decode", "2") == 4
    assert "puts the decoded token 40 at position 0, expected 40" in capsys.readouterr().err


def test_a_failing_model_is_one_sentence(models, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(transformers.LlamaModel, "forward", lambda *_, **__: 1 / 0)
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("llama"), prompts, "-o", tmp_path / "dump.h5") == 4
    assert "cannot be run with its attention captured (ZeroDivisionError: division by zero)\n" in capsys.readouterr().err


def test_full_disk(models, tmp_path):
    """Runs in its own process, which may not write files beyond 64 KiB."""
    prompts = write_prompts(tmp_path, {"tokens": token_ids(500)})
    command = f"ulimit -f 64; trap '' XFSZ; exec {sys.executable} {REPOSITORY}/dumps/capture/capture.py {models('llama')} {prompts} " \
              f"-o {tmp_path}/dump.h5 --device cpu"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 5 and "dump.h5: cannot be written (" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["prompts.jsonl"]


# ---- the embedded dump

def test_demo_dump():
    """What the README of capture says about the demo dump. Its prompts are in a file beside it: tokens and spans must
    decode to their text."""
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
                assert p[:, 2, begin:end].sum(-1).min() > 0.8, prompt["name"]  # head 2 is a retrieval head
