"""`attest inspect` of task outcomes and of the folder of unfinished ones, which are files like any other: damaged or
hostile ones end in one sentence, soon, and follow nothing."""

import json
import os

import h5py
import numpy as np
import pytest

from attest_program import run_attest
from outcomes_maker import planted, write_tasks



def inspect(path, *options):
    return run_attest("inspect", path, *options)


def refusal(path):
    done = inspect(path)
    assert done.returncode == 4 and done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"attest: {path}")
    return done.stderr


@pytest.fixture
def tasks(tmp_path):
    return write_tasks(tmp_path / "t.h5", planted(6)[1])


def replaced(path, name, data):
    with h5py.File(path, "r+") as file:
        del file[name]
        file[name] = data


def test_names_are_shown_safely(tasks):
    replaced(tasks, "prompts/task", np.array(["\x1b[31mred"] * 6, h5py.string_dtype()))
    replaced(tasks, "runs/label",
             np.array(["dense", *(f"a\nb{i}" for i in range(7))][:len(h5py.File(tasks)["runs/label"])],
                      h5py.string_dtype()))
    shown = inspect(tasks)
    assert shown.returncode == 0 and "\x1b" not in shown.stdout and "a\\x0ab0" in shown.stdout
    assert json.loads(inspect(tasks, "--json").stdout)["prompts"] == {"\x1b[31mred": 6}


@pytest.mark.parametrize("name, data", [
    ("outcomes/kept_ratio", np.full((6, 8), np.nan, "f4")), ("outcomes/kept_ratio", np.full((6, 8), 2, "f4")),
    ("outcomes/kept_ratio", np.zeros((6, 1), "f4")), ("runs/setting_label", np.zeros(8)),
    ("outcomes/exact", np.full((6, 8), 3, "u1")),
    ("prompts/num_tokens", np.zeros(6, "i8"))])
def test_what_is_no_outcome_is_refused(tasks, name, data):
    with h5py.File(tasks) as file:
        shape = file[name].shape
    if data.ndim == 2 and data.shape[1] == 8 and shape != data.shape:
        data = np.broadcast_to(data[:, :1], shape)
    replaced(tasks, name, data)
    assert name in refusal(tasks)


def test_data_elsewhere_are_not_followed(tasks, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(tasks, "r+") as file:
        shape = file["outcomes/kept_ratio"].shape
        del file["outcomes/kept_ratio"]
        file.create_dataset("outcomes/kept_ratio", shape, "f4",
                            external=[(str(tmp_path / "pipe"), 0, h5py.h5f.UNLIMITED)])
    refusal(tasks)
    with h5py.File(tasks, "r+") as file:
        del file["prompts/name"]
        file["prompts/name"] = h5py.ExternalLink(str(tmp_path / "pipe"), "/name")
    refusal(tasks)


WHAT = {"program": {"version": "1.2"}, "model": {"called": "ti\u202eny"}, "prompts": {"file": "p.jsonl", "sha256": "0"}}
MADE = {"tasks": ["kv", "mk"], "context": [500, 1000, 2000], "prompts": 4}


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "t.h5.partial"
    place.mkdir()
    for name in ("prompt-0.json", "prompt-12.json", "prompt-x.json", "prompt-.json", "dump-3.h5"):
        (place / name).touch()
    return place


def describe(folder, what):
    (folder / "tasks.json").write_text(json.dumps({"what": what, "record": {"created": "now"}}))


def test_an_unfinished_folder(folder):
    describe(folder, WHAT)
    found = json.loads(inspect(folder, "--json").stdout)
    assert found == {"path": str(folder), "format": "attest-tasks-partial", "begun": "now", "program": "1.2",
                     "model": WHAT["model"]["called"],
                     "prompts": None, "finished_prompts": 2}
    assert f"{folder}: unfinished task outcomes, begun now by attest 1.2" in inspect(folder).stdout
    describe(folder, {**WHAT, "prompts": MADE})
    assert "\n2 of 24 prompts are finished." in inspect(folder).stdout
    assert inspect(folder, "--check").returncode == 2


@pytest.mark.parametrize("what", [
    {}, {**WHAT, "prompts": {**MADE, "prompts": "x" * 100}}, {**WHAT, "prompts": {**MADE, "prompts": 1e300}},
    {**WHAT, "model": {"called": 5}},
    {**WHAT, "prompts": {**MADE, "tasks": "kv"}}, {**WHAT, "prompts": {**MADE, "prompts": 10**18}},
    {**WHAT, "program": []}])
def test_a_description_that_cannot_be_is_refused(folder, what):
    describe(folder, what)
    assert "tasks.json: what" in refusal(folder)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 1_000_000, b'{"what": NaN}'])
def test_no_json_is_refused(folder, content):
    (folder / "tasks.json").write_bytes(content)
    refusal(folder)


def test_a_pipe_or_gigabytes_are_refused(folder):
    os.mkfifo(folder / "tasks.json")
    refusal(folder)
    os.unlink(folder / "tasks.json")
    with open(folder / "tasks.json", "wb") as file:
        file.truncate(3 << 30)
    assert "3221225472 bytes, expected" in refusal(folder)
