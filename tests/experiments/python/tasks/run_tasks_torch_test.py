"""What attest tasks measures: its outcomes against plain passes of the model, forced against greedy, and its dump
against that of `attest capture`."""
import json
import types

import h5py
import numpy as np
import pytest

from task_runs_maker import (ANSWER, END, LINE_BREAK, SELECTORS, answered_prompts, greedy, load,  # noqa: F401
                             model_folder, tasks, write_lines)
from attest.capture import __main__ as capture
from attest.tasks import __main__ as command
from capture_models import token_ids
from near import assert_near


@pytest.fixture(scope="module")
def prompts(model_folder):  # noqa: F811
    return answered_prompts(model_folder, 3)


def columns(file, group):
    return {name: data.asstr()[()] if h5py.check_string_dtype(data.dtype) else data[()]
            for name, data in file[group].items()}


def test_format(model_folder, prompts, tmp_path, capsys):  # noqa: F811
    wrong = {**prompts[0], "name": "wrong", "answer": [65, 66]}
    path = write_lines(tmp_path / "p.jsonl", [*prompts, wrong])
    assert tasks(model_folder, tmp_path / "t.h5", f"--prompts={path}", "--model-name=tiny") == 0
    said = capsys.readouterr()
    assert "[4/4] wrong: 120 tokens, dense wrong, " in said.err and "[1/4] p0: 120 tokens, dense right, " in said.err
    rows = [line.split() for line in said.out.splitlines()[2:5]]
    assert rows[0][:3] == ["dense", "0.75", "100.0"] and rows[1][:3] == ["exact", "0.75", "100.0"]
    assert rows[2][:2] == ["recent", "8"]
    with h5py.File(tmp_path / "t.h5") as file:
        assert (file.attrs["format"], file.attrs["format_version"]) == ("attest-tasks", 1)
        assert (file.attrs["model"], file.attrs["num_layers"]) == ("tiny", 4)
        manifest = json.loads(file.attrs["manifest"])
        assert manifest["answered"] == "greedy" and manifest["layers"] == "all"
        assert manifest["model"]["dtype"] == "float32"
        made = columns(file, "prompts")
        assert made["name"].tolist() == ["p0", "p1", "p2", "wrong"] and set(made["task"]) == {"own"}
        assert made["num_tokens"].dtype == np.int64 and made["num_tokens"].tolist() == [120, 121, 122, 120]
        assert made["answer"][3] == "AB"
        runs = columns(file, "runs")
        assert runs["label"].tolist() == ["dense", "exact", "recent", "recent", "recent"]
        assert runs["selector"].tolist() == ["exact", "exact", "streaming_llm", "streaming_llm", "streaming_llm"]
        assert runs["setting_kind"].tolist() == ["none", "none", "budget", "budget", "budget"]
        assert runs["setting"].dtype == np.float64 and runs["setting"].tolist() == [0, 0, 8, 25, 100]
        assert runs["setting_percent"].dtype == np.uint8 and runs["setting_percent"].tolist() == [0, 0, 0, 1, 1]
        assert set(runs["options"]) == {"{}"}
        out = columns(file, "outcomes")
        assert [out[n].dtype for n in ("exact", "contains", "prefix", "kept_ratio", "num_tokens")] == [
            np.uint8, np.uint8, np.uint8, np.float32, np.int32]
        assert all(values.shape == (4, 5) for values in out.values())
        assert out["prefix"][:3, 0].all() and not out["prefix"][3].any()
        assert (out["answer"][:, 0] == out["answer"][:, 1]).all()  # everything is kept
        assert (out["answer"][:, 0] == out["answer"][:, 4]).all()  # 100 %
        assert (out["kept_ratio"][:, [0, 1, 4]] == 1).all() and (out["kept_ratio"][:, 2] < 0.1).all()
        assert not (out["answer"][:, 0] == out["answer"][:, 2]).all()  # else nothing here depends on the selector
        assert_near(out["kept_ratio"][:, 3], 0.25, abs=0.02)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.jsonl", "t.h5"]


def test_greedy_answers_are_those_of_plain_passes(model_folder, tmp_path):  # noqa: F811
    """Until the end of the text, the answer's lines or the longest answer; for prompts from one token on."""
    ids = [token_ids(length, seed) for seed, length in enumerate([1, 2, 3, 20, 40, 60, 80, 100, 120, 150])]
    path = write_lines(tmp_path / "p.jsonl", [{"name": f"p{i}", "tokens": each, "answer": [65, 66]}
                                              for i, each in enumerate(ids)])
    assert tasks(model_folder, tmp_path / "t.h5", f"--prompts={path}", "--max-new-tokens=25", "--quiet") == 0
    model, stops = load(model_folder), set()
    with h5py.File(tmp_path / "t.h5") as file:
        out = columns(file, "outcomes")
    for i, each in enumerate(ids):
        expected = greedy(model, each, 25)
        if END in expected:
            expected = expected[:expected.index(END)]
        text = ""
        for n in range(len(expected) + 1):
            text = bytes(t for t in expected[:n] if t < 256).decode(errors="replace")
            if "\n" in text.lstrip() and n:
                expected = expected[:n]
                break
        assert out["num_tokens"][i, 0] == len(expected), i
        assert out["answer"][i, 0] == text.replace("\0", "\ufffd")
        stops.add("end" if len(expected) < 25 else "longest")
    assert "longest" in stops


@pytest.mark.parametrize("stop", [END, LINE_BREAK])
def test_an_answer_ends(stop, model_folder, prompts, tmp_path):  # noqa: F811
    """At the token that ends a text, which is no part of the reply; after the line break that begins a second line."""
    model = load(model_folder)
    first = prompts[0]["answer"][1]  # make the model say `stop` instead of the second token
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    head = weights["lm_head.weight"]
    head[[stop, first]] = head[[first, stop]]
    model.load_state_dict(weights)
    model.save_pretrained(tmp_path / "model")
    path = write_lines(tmp_path / "p.jsonl", [prompts[0]])
    assert tasks(tmp_path / "model", tmp_path / "t.h5", f"--prompts={path}") == 0
    with h5py.File(tmp_path / "t.h5") as file:
        reply = bytes(prompts[0]["answer"][:1] + [stop] * (stop == LINE_BREAK)).decode(errors="replace")
        assert file["outcomes/answer"].asstr()[0, 0] == reply and file["outcomes/num_tokens"][0, 0] == len(reply)


def test_forced_prefix_is_the_greedy_one(model_folder, prompts, tmp_path):  # noqa: F811
    path = write_lines(tmp_path / "p.jsonl", [*prompts, {**prompts[1], "name": "wrong", "answer": [65, 66, 67]}])
    found = {}
    for way, options in {"greedy": [], "forced": ["--forced"]}.items():
        assert tasks(model_folder, tmp_path / f"{way}.h5", f"--prompts={path}", *options) == 0
        with h5py.File(tmp_path / f"{way}.h5") as file:
            found[way] = columns(file, "outcomes")
            assert json.loads(file.attrs["manifest"])["answered"] == way
    assert (found["forced"]["prefix"] == found["greedy"]["prefix"]).all()
    assert found["forced"]["prefix"].any() and not found["forced"]["prefix"].all()
    assert (found["forced"]["exact"] == 2).all() and (found["forced"]["contains"] == 2).all()
    assert found["forced"]["num_tokens"][:, 1].tolist() == [ANSWER] * 3 + [3]


def test_layers_and_forced_layers(model_folder, prompts, tmp_path):  # noqa: F811
    """The layers that do not go through the selector count as kept."""
    path = write_lines(tmp_path / "p.jsonl", prompts)
    assert tasks(model_folder, tmp_path / "t.h5", f"--prompts={path}", "--layers=3-", "--forced") == 0
    with h5py.File(tmp_path / "t.h5") as file:
        assert json.loads(file.attrs["manifest"])["layers"] == [3]
        assert (abs(file["outcomes/kept_ratio"][:, 2] - (0.75 + 0.25 * 8 / 122)) < 0.01).all()


def test_dense_heads_are_checked_in_every_layer(model_folder, prompts, tmp_path, capsys):  # noqa: F811
    """One of two KV heads of the last of four layers keeps all."""
    path = write_lines(tmp_path / "p.jsonl", prompts)

    def run(heads):
        recent = {**SELECTORS[1], "text": f"streaming_llm:dense_heads={heads}", "settings": [[8, False, "8"]]}
        return tasks(model_folder, tmp_path / "t.h5", f"--prompts={path}", "--forced", selectors=[recent])

    assert run("3:2") == 2
    assert "option 'dense_heads' has 3:2, and layer 3 has 2 KV heads" in capsys.readouterr().err
    assert run("3:1") == 0
    with h5py.File(tmp_path / "t.h5") as file:
        assert (abs(file["outcomes/kept_ratio"][:, 1] - (1 / 8 + 7 / 8 * 8 / 122)) < 0.01).all()


@pytest.mark.parametrize("queries", [None, 2])
def test_dump_is_that_of_capture(queries, model_folder, prompts, tmp_path):  # noqa: F811
    path = write_lines(tmp_path / "p.jsonl", prompts)
    limit = [] if queries is None else [f"--dump-queries={queries}"]
    for name, more in {"with": [f"--dump={tmp_path}/d.h5", *limit], "without": []}.items():
        assert tasks(model_folder, tmp_path / f"{name}.h5", f"--prompts={path}", "--model-name=m", *more) == 0
    assert capture.main([model_folder, path, "-o", str(tmp_path / "c.h5"), "--answer", str(queries or ANSWER),
                         "--model-name", "m", "--device", "cpu"]) == 0
    with h5py.File(tmp_path / "d.h5") as dump, h5py.File(tmp_path / "c.h5") as expected:
        differing = {name for name in {*dump.attrs, *expected.attrs}
                     if dump.attrs.get(name) != expected.attrs.get(name)}
        assert differing <= {"source", "created"} and dump.attrs["source"].startswith("attest tasks")
        names = []
        expected.visit(names.append)
        found = []
        dump.visit(found.append)
        assert found == names and list(dump["samples"]) == ["p0", "p1", "p2"]
        for name in names:
            assert dict(dump[name].attrs) == dict(expected[name].attrs)
            if isinstance(dump[name], h5py.Dataset):
                assert (dump[name][()] == expected[name][()]).all() and dump[name].dtype == expected[name].dtype
    with h5py.File(tmp_path / "with.h5") as one, h5py.File(tmp_path / "without.h5") as other:
        for name in one["outcomes"]:
            assert (one["outcomes"][name][()] == other["outcomes"][name][()]).all()
        assert one["prompts/name"].asstr()[()].tolist() == ["p0", "p1", "p2"]


def test_dump_has_the_head_weights_of_capture(model_folder, prompts, tmp_path):  # noqa: F811
    path = write_lines(tmp_path / "p.jsonl", prompts)
    assert tasks(model_folder, tmp_path / "t.h5", f"--prompts={path}", f"--dump={tmp_path}/d.h5", "--dump-queries=3",
                 "--head-weights") == 0
    assert capture.main([str(model_folder), str(path), "-o", str(tmp_path / "c.h5"), "--answer", "3", "--head-weights",
                         "--device", "cpu", "--quiet"]) == 0
    with h5py.File(tmp_path / "d.h5") as dump, h5py.File(tmp_path / "c.h5") as expected:
        for name in ("margin", "answer_token", "layers/3/head_gradient"):
            np.testing.assert_array_equal(dump[f"samples/p1/{name}"], expected[f"samples/p1/{name}"])


def test_made_prompts(model_folder, tmp_path, capsys):  # noqa: F811
    options = ["--tasks=kv,niah", "--context=300,700", "--prompts=2", "--seed=3", "--forced"]
    assert tasks(model_folder, tmp_path / "t.h5", *options) == 0
    said = capsys.readouterr().out
    with h5py.File(tmp_path / "t.h5") as file:
        assert file["prompts/name"].asstr()[()].tolist() == [
            f"{task}_{length}_3_{i}" for task in ("kv", "niah") for length in (300, 700) for i in (0, 1)]
        assert file["prompts/num_tokens"][()].tolist() == [300, 300, 700, 700] * 2
    head = said.splitlines()[0]
    assert all(column in head for column in ("kv 300", "kv 700", "niah 300", "niah 700")), head


def test_bytes_are_repeatable(model_folder, prompts, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    path = write_lines(tmp_path / "p.jsonl", prompts)
    for name in ("a", "b"):
        assert tasks(model_folder, tmp_path / f"{name}.h5", f"--prompts={path}", f"--dump={tmp_path}/{name}.dump") == 0
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    assert (tmp_path / "a.dump").read_bytes() == (tmp_path / "b.dump").read_bytes()
    with h5py.File(tmp_path / "a.h5") as file:
        assert file.attrs["created"] == "2023-11-14T22:13:20+00:00"


def test_resume_compares_code_operators_and_checkpoint(tmp_path, monkeypatch):
    library = tmp_path / "operators.so"
    library.write_text("these")
    monkeypatch.setenv("ATTEST_TORCH_OPS", str(library))

    def found(commit="c0"):
        config = types.SimpleNamespace(_commit_hash=commit)
        return command.code_and_checkpoint(types.SimpleNamespace(model="a/b", tokenizer="bytes"),
                                           types.SimpleNamespace(config=config))

    before = found()
    assert found() == before and found("c1")["checkpoint"] != before["checkpoint"]
    library.write_text("those")
    assert found()["operators"] != before["operators"]
    monkeypatch.setattr(command, "code_digest", lambda: "other")
    assert found()["code"] == "other"
