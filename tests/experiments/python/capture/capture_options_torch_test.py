"""Options of attest capture: which queries, layers and spans a dump holds. Also the demo dump."""
import json
import os
import pathlib
import signal

import h5py
import numpy as np
import pytest
import transformers

from attest_program import attest
from capture_models import (
    assert_reproduces_model, assert_well_formed, attention, FAMILIES, make_model, models, REPOSITORY, run,
    T, token_ids, write_prompts)  # noqa: F401 (models is a fixture)
from attest.capture import __main__ as capture
from attest.capture import softmax_attention
from attest.capture.prompt_files import read_prompts
from attest.capture.prompt_tokens import tokenize
from near import MODEL, assert_near


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


def test_names_that_are_not_utf8_cost_no_run(models, tmp_path):
    bad = os.fsdecode(b"\xff")
    dump = tmp_path / f"{bad}.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models("llama"), prompts, "-o", dump, "--task", bad, "--model-name", bad) == 0
    with h5py.File(dump) as file:
        (sample,) = file["samples"].values()
        assert (file.attrs["model"], sample.attrs["task"]) == ("?", "?") and "?.h5" in file.attrs["source"]


def test_an_interruption_behind_the_joined_dump_comes_too_late(models, tmp_path, monkeypatch):
    remove = capture.PartialCapture.remove
    monkeypatch.setattr(capture.PartialCapture, "remove", lambda partial: (
        os.kill(os.getpid(), signal.SIGINT), remove(partial)))
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("llama"), prompts, "-o", tmp_path / "dump.h5", "--resume") == 0
    assert_well_formed(tmp_path / "dump.h5")


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


def test_bytes_are_decoded_without_special_tokens():
    from attest.capture.prompt_tokens import ByteTokenizer

    assert ByteTokenizer(256).decode([256, *"aü".encode(), 0xC3, 257], skip_special_tokens=True) == "aü\ufffd"


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("question, spelling", [("box?", ["box", "?"]), ([28, 43], ["the", "key", "of", "box", "?"])])
def test_the_question_is_placed_and_not_written(question, spelling, chat, tmp_path):
    folder = make_model(tmp_path / "model", FAMILIES["llama"]())
    words, dump = make_word_tokenizer(folder), tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"text": "the key of box red is blue. the key of box?", "question": question,
                                       "spans": ["blue"], "name": "s"})
    assert run(folder, prompts, "-o", dump, *(["--chat"] if chat else [])) == 0
    with h5py.File(dump) as file:
        assert len(file["samples/s/spans"]) == 1 and "question" not in {*file["samples/s"], *file["samples/s"].attrs}
    prompt, = read_prompts(prompts)
    placed = tokenize(prompt, transformers.AutoTokenizer.from_pretrained(folder), chat)
    begin, end = placed.question
    assert [words[t] for t in placed.ids[begin:end]] == spelling and end == len(placed.ids) - (2 if chat else 0)


def test_attention_mass_is_column_sums(models, tmp_path, monkeypatch):
    monkeypatch.setattr(softmax_attention, "MAX_SCORES_PER_STEP", 4 * T * 7)  # seven queries at a time
    dump, everything = tmp_path / "dump.h5", ",".join(map(str, range(T)))
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "answer": [1, 2, 3], "name": "s"})
    assert run(models("gemma2"), prompts, "-o", dump, "--positions", everything, "--attention-mass") == 0
    with h5py.File(dump) as file:
        for layer in file["samples/s/layers"]:
            assert_near(file[f"samples/s/layers/{layer}/attention_mass"][:], attention(file, "s", layer)[1].sum(0),
                        abs=MODEL)
        first = file["samples/s/layers/0/attention_mass"][:]
    # Only the prompt's queries count; tokens after it have none.
    assert run(models("gemma2"), prompts, "-o", dump, "--decode", 2, "--attention-mass", "--force") == 0
    with h5py.File(dump) as file:
        again = file["samples/s/layers/0/attention_mass"][:]
    assert_near(again, np.pad(first, ((0, 0), (0, 2))), abs=MODEL)


@pytest.mark.parametrize("window", [5, T + 9])
def test_attention_mass_of_an_observation_window(models, tmp_path, window):
    dump, everything = tmp_path / "dump.h5", ",".join(map(str, range(T)))
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models("gemma2"), prompts, "-o", dump, "--positions", everything, "--attention-mass", window) == 0
    with h5py.File(dump) as file:
        for layer in file["samples/s/layers"]:
            mass = file[f"samples/s/layers/{layer}/attention_mass"]
            assert_near(mass[:], attention(file, "s", layer)[1][-window:].sum(0), abs=MODEL)
            assert mass.attrs["queries"] == min(window, T)


def test_prompts_of_one_document_are_one_unit_of_evidence(models, tmp_path):
    """From the field of the prompts to the verdict."""
    prompts = write_prompts(tmp_path, *({"tokens": token_ids(40 + n), "name": f"s{n}", "document": f"book {n // 3}"}
                                        for n in range(6)))
    assert run(models("llama"), prompts, "-o", tmp_path / "d.h5", "--last", 2) == 0
    for options, units in (["--cluster", "document"], 2), ([], 6):
        done = attest("validate", "d.h5", "--target", "recall>=0.1", "--max-violating", "80%", "--selector",
                      "topdelta", "--json", "--quiet", *options, cwd=tmp_path)
        assert json.loads(done.stdout)["claim"]["n"] == units


def test_gzip_changes_no_value(models, tmp_path):
    plain, small = tmp_path / "plain.h5", tmp_path / "small.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models("llama"), prompts, "-o", plain, "--decode", 3) == 0
    assert run(models("llama"), prompts, "-o", small, "--decode", 3, "--gzip") == 0
    with h5py.File(plain) as a, h5py.File(small) as b:
        assert a["samples/s/layers/1/k"].chunks is None and b["samples/s/layers/1/k"].compression == "gzip"
        for name in "qkv":
            np.testing.assert_array_equal(a[f"samples/s/layers/1/{name}"][:], b[f"samples/s/layers/1/{name}"][:])


@pytest.mark.parametrize("choice, layers", [("2-", "23"), ("0,3-", "03"), ("1-2,2-2", "12"), ("3", "3")])
def test_ranges_of_layers(choice, layers, models, tmp_path):
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models("llama"), prompts, "-o", dump, "--layers", choice) == 0
    with h5py.File(dump) as file:
        assert set(file["samples/s/layers"]) == set(layers)


def test_layers_without_attention_are_left_out(models, tmp_path, capsys):
    """LFM2 mixes convolutions with attention."""
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models("lfm2"), prompts, "-o", dump) == 0
    assert "left out, no softmax attention: layers 0, 2" in capsys.readouterr().err
    with h5py.File(dump) as file:
        assert set(file["samples/s/layers"]) == {"1", "3"}
    assert run(models("lfm2"), prompts, "-o", dump, "--force", "--layers", "0") == 4


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


def test_last_and_decode_together(models, tmp_path):
    """The rows of the prompt are those of --last, the rows behind it those of --decode."""
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    for name, options in {"both": ["--last", 3, "--decode", 2], "last": ["--last", 3],
                          "decode": ["--decode", 2]}.items():
        assert run(models("llama"), prompts, "-o", tmp_path / f"{name}.h5", *options) == 0
    both, last, decode = (h5py.File(tmp_path / f"{name}.h5")["samples/s"] for name in ("both", "last", "decode"))
    assert both["query_positions"][:].tolist() == [T - 3, T - 2, T - 1, T, T + 1] and both.attrs["prompt_length"] == T
    np.testing.assert_array_equal(both["layers/1/q"][:3], last["layers/1/q"][:])
    for name in ("q", "k", "v"):
        np.testing.assert_array_equal(both[f"layers/1/{name}"][:] if name != "q" else both["layers/1/q"][3:],
                                      decode[f"layers/1/{name}"][:])


@pytest.mark.parametrize("options", [["--last", 3, "--answer", 1], ["--positions", 1, "--decode", 2],
                                     ["--last", 1, "--positions", 2]])
def test_other_ways_to_choose_queries_exclude_each_other(options, models, tmp_path, capsys):
    assert run(models("llama"), write_prompts(tmp_path, {"tokens": token_ids()}), "-o", tmp_path / "d.h5",
               *options) == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_resume_goes_on_to_the_same_dump(models, tmp_path, monkeypatch, capsys):
    prompts = write_prompts(tmp_path, *({"tokens": token_ids(40 + n), "name": f"s{n}"} for n in range(3)))
    command = (models("llama"), prompts, "-o", tmp_path / "d.h5", "--last", 2)
    assert run(*command[:2], "-o", tmp_path / "whole.h5", "--last", 2) == 0
    with monkeypatch.context() as patch:
        write = capture.Samples.write

        def interrupted(self, prompt, writer):
            if prompt.name == "s2":
                raise KeyboardInterrupt
            return write(self, prompt, writer)
        patch.setattr(capture.Samples, "write", interrupted)
        assert run(*command, "--resume") == 130
        assert "the same command goes on" in capsys.readouterr().err
    folder = tmp_path / "d.h5.partial"
    assert sorted(p.name for p in folder.iterdir()) == ["capture.json", "dump-0.h5", "dump-1.h5", "lock"]
    assert run(*command) == 5 and "holds an unfinished capture; continue with --resume" in capsys.readouterr().err
    assert run(*command, "--resume", "--chat") == 2 and "it was started with" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(capture, "code_digest", lambda: "of other code")
        assert run(*command, "--resume") == 2 and "it was started with attest " in capsys.readouterr().err
    config = pathlib.Path(models("llama"), "config.json")
    times = config.stat()
    os.utime(config, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    assert run(*command, "--resume") == 2 and "config.json.modified_ns " in capsys.readouterr().err
    os.utime(config, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert run(*command, "--resume") == 0 and "resumed: 2 of 3 prompts" in capsys.readouterr().err
    assert not folder.exists()
    with h5py.File(tmp_path / "d.h5") as resumed, h5py.File(tmp_path / "whole.h5") as whole:
        assert list(resumed["samples"]) == list(whole["samples"]) == ["s0", "s1", "s2"]
        names = []
        whole.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        assert len(names) > 30 and all(resumed[name][()].tobytes() == whole[name][()].tobytes() for name in names)
        assert set(resumed.attrs) == set(whole.attrs)
