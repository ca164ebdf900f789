"""tasks.h5 is read back as it was written, other files are refused; the table's shares by task and length."""
import json
import pathlib
import sys

import h5py
import pytest

REPOSITORY = pathlib.Path(__file__).parents[3]
sys.path[:0] = [str(REPOSITORY / folder) for folder in ("experiments/tasks", "dumps/capture", "dumps/python")]
from dump_errors import InputError, OutputError  # noqa: E402
from outcomes_file import read_outcomes, write_outcomes  # noqa: E402
from outcomes_table import summarize, table_text  # noqa: E402
from prompt_outcomes import Outcome, PromptOutcomes, storable  # noqa: E402
from task_runs import runs_of  # noqa: E402

RUNS = runs_of([{"label": "a", "selector": "quest", "text": "quest", "options": '{"page":"16"}', "setting_kind": "budget",
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
    found = read_outcomes(path)
    assert (found.model, found.manifest, found.prompts) == ("m", {"answered": "greedy"}, PROMPTS)
    assert [(r.label, r.selector, r.options, r.setting_kind, r.value, r.percent, r.typed) for r in found.runs] == [
        (r.label, r.selector, r.options, r.setting_kind, r.value, r.percent, r.typed) for r in RUNS]
    with pytest.raises(OutputError, match="exists already"):
        write(path)
    write(path, force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["t.h5"]


def test_text_that_hdf5_cannot_hold():
    assert storable("a\0b\ud800c") == "a\ufffdb?c"


@pytest.mark.parametrize("change", [
    lambda file: file.attrs.modify("format", "attention-dump"), lambda file: file.attrs.modify("format_version", 2),
    lambda file: file.pop("runs"), lambda file: file["outcomes"].pop("prefix"), lambda file: file.attrs.pop("manifest"),
    lambda file: file.attrs.modify("manifest", '{"answered": "guessed"}'), lambda file: file.attrs.modify("manifest", "{"),
    lambda file: (file["prompts"].pop("task"), file["prompts"].create_dataset("task", data=["kv"])),
    lambda file: (file["outcomes"].pop("exact"), file["outcomes"].create_dataset("exact", data=[1, 2])),
    lambda file: file["prompts/num_tokens"].write_direct(__import__("numpy").zeros(4, "<i8")),
])
def test_other_files_are_refused(change, tmp_path):
    write(tmp_path / "t.h5")
    with h5py.File(tmp_path / "t.h5", "r+") as file:
        change(file)
    with pytest.raises(InputError, match="t.h5: "):
        read_outcomes(tmp_path / "t.h5")


def test_no_hdf5(tmp_path):
    (tmp_path / "t.h5").write_text("text")
    with pytest.raises(InputError, match="cannot be read as outcomes"):
        read_outcomes(tmp_path / "t.h5")


def test_table():
    summary = json.loads(json.dumps(summarize(RUNS, PROMPTS, "greedy")))
    assert summary["prompts"] == {"kv 4K": 2, "kv 16K": 1, "mk": 1}
    assert [row["right"]["kv 4K"] for row in summary["runs"]] == [1, 0.5, 0, 0, 1]
    assert [row["right"]["kv 16K"] for row in summary["runs"]] == [0, 1, 0, 0, 1]
    assert [row["kept_ratio"] for row in summary["runs"]] == [0, 0.25, 0.5, 0.75, 1]
    assert table_text(summary).splitlines()[3].split() == ["a", "25%", "0.50", "1.00", "1.00", "25.0", "%"]


def test_forced_answers_are_judged_by_their_prefix():
    forced = [prompt("f", "kv", 100, 1, 0, 1, 1, 0, scored=False)]
    summary = summarize(RUNS, forced, "forced")
    assert [row["right"]["kv"] for row in summary["runs"]] == [1, 0, 1, 1, 0]
    assert summary["right"].startswith("prefix")
