"""tasks.h5: what is in it, and what `attest inspect` finds there (tests/experiments/commands/inspect_tasks_test.py has
more)."""
import json

import h5py
import pytest

from attest.base.errors import OutputError
from attest.base.stored_text import storable
from attest.outcomes.file import write_outcomes
from attest.outcomes.prompt import Outcome, PromptOutcomes
from attest.tasks.runs import runs_of
from attest_program import attest

RUNS = runs_of([{"label": "a", "selector": "quest", "text": "quest", "options": '{"page":"16"}',
                 "setting_kind": "budget",
                 "settings": [[25, True, "25%"], [100, True, "100%"], [64, False, "64"]]},
                {"label": "b", "selector": "ffd", "text": "ffd", "options": "{}", "setting_kind": "delta",
                 "settings": [["inf", False, "inf"]]}])


def prompt(name, task, tokens, *right, scored=True):
    return PromptOutcomes(name, task, "answer", tokens,
                          [Outcome(r if scored else 2, r if scored else 2, r, f"ü{r}", 0.25 * i, 3)
                           for i, r in enumerate(right)])


PROMPTS = [prompt("k0", "kv", 4096, 1, 1, 0, 0, 1), prompt("k1", "kv", 4090, 1, 0, 0, 0, 1),
           prompt("k2", "kv", 16384, 0, 1, 0, 0, 1), prompt("m0", "mk", 4096, 1, 1, 1, 0, 1)]


def write(path, prompts=PROMPTS, answered="greedy", force=False):
    write_outcomes(path, force, RUNS, prompts, {"answered": answered}, model="m", num_layers=3, created="now")


def test_settings_of_the_operator():
    assert [run.operator_setting() for run in RUNS] == [0, 0.25, 1e15, 64, float("inf")]
    assert [run.is_dense for run in RUNS] == [True, False, False, False, False]


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "t.h5"
    write(path)
    with h5py.File(path) as file:
        assert json.loads(file.attrs["manifest"]) == {"answered": "greedy"} and file.attrs["created"] == "now"
        assert file["outcomes/answer"].asstr()[()].tolist() == [[o.reply for o in p.outcomes] for p in PROMPTS]
        assert file["runs/setting_label"].asstr()[()].tolist() == ["", "25%", "100%", "64", "inf"]
        assert file["runs/setting"][()].tolist() == [0, 25, 100, 64, float("inf")]
    with pytest.raises(OutputError, match="exists already"):
        write(path)
    write(path, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["t.h5"]


def test_text_that_hdf5_cannot_hold():
    assert storable("a\0b\ud800c") == "a\ufffdb?c"


def inspect(path, *options):
    return attest(*options, "inspect", path).stdout


def test_the_table_of_the_program(tmp_path):
    write(tmp_path / "t.h5")
    summary = json.loads(inspect(tmp_path / "t.h5", "--json"))
    assert summary["prompts"] == {"kv 4K": 2, "kv 16K": 1, "mk": 1} and summary["answered"] == "greedy"
    assert [row["right"]["kv 4K"] for row in summary["runs"]] == [1, 0.5, 0, 0, 1]
    assert [row["right"]["kv 16K"] for row in summary["runs"]] == [0, 1, 0, 0, 1]
    assert [row["kept_ratio"] for row in summary["runs"]] == [0, 0.25, 0.5, 0.75, 1]
    text = inspect(tmp_path / "t.h5").splitlines()
    assert text[0] == f"{tmp_path}/t.h5: task outcomes of model 'm', 4 prompts, 5 runs, greedy"
    assert text[5].split() == ["a", "25%", "0.50", "1.00", "1.00", "25.0", "%"]
    assert text[-1] == "Right is contains: the answer stands in the reply."


def test_forced_answers_are_judged_by_their_prefix(tmp_path):
    write(tmp_path / "t.h5", [prompt("f", "kv", 100, 1, 0, 1, 1, 0, scored=False)], answered="forced")
    summary = json.loads(inspect(tmp_path / "t.h5", "--json"))
    assert [row["right"]["kv"] for row in summary["runs"]] == [1, 0, 1, 1, 0]
    assert summary["right"].startswith("prefix") and summary["answered"] == "forced"
