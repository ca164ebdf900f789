"""Broken tasks files: one sentence each, with what was found and what was expected."""

import h5py
import numpy as np
import pytest
from outcome_figures import refusal
from outcomes_maker import planted, write_results, write_tasks


def change(**edits):
    """A change of a tasks file: data set -> new values, or None to remove it."""
    def apply(file):
        for name, values in edits.items():
            name = name.replace("__", "/")
            old = file[name][()] if values is None or callable(values) else None
            if name in file:
                del file[name]
            if values is not None:
                file[name] = values(old) if callable(values) else values
    return apply


def attribute(name, value):
    def apply(file):
        if value is None:
            del file.attrs[name]
        else:
            file.attrs[name] = value
    return apply


def put(place, value):
    def apply(array):
        array = array.copy()
        array[place] = value
        return array
    return apply


def huge(file):
    """A small file that claims very many answers."""
    for name in ("exact", "contains", "prefix"):
        del file[f"outcomes/{name}"]
        file.create_dataset(f"outcomes/{name}", (2_000_000_000, 1_000_000_000), np.uint8, chunks=(1000, 1000),
                            compression="gzip")


def many_prompts(file):
    for name in ("name", "task", "answer"):
        del file[f"prompts/{name}"]
        file.create_dataset(f"prompts/{name}", (3_000_000,), "S1", chunks=(3_000_000,), compression="gzip",
                            data=np.full(3_000_000, b"x"))


BROKEN = {
    "no version": (attribute("format_version", None), "attribute 'format_version'"),
    "another version": (attribute("format_version", 2), "'format_version' is 2, expected"),
    "no model": (attribute("model", None), "attribute 'model'"),
    "no prompts": (change(prompts__name=None), "/prompts"),
    "no scores": (change(outcomes__prefix=None), "/outcomes"),
    "no kept ratio": (change(outcomes__kept_ratio=None), "/outcomes"),
    "no answers": (change(outcomes__answer=None), "/outcomes"),
    "no settings": (change(runs__setting=None), "/runs"),
    "a score of 3": (change(outcomes__exact=put((3, 5), 3)),
                     "/outcomes/exact: [3, 5] is 3, expected 0 (wrong), 1 (right) or 2 (not scored)"),
    "scores as floats": (change(outcomes__exact=np.full((12, 8), 0.5)), "/outcomes/exact: has elements of type"),
    "too few runs": (change(outcomes__exact=lambda x: x[:, 1:]),
                     "/outcomes/exact: has the shape [12, 7], expected [12, 8] (prompts, runs)"),
    "transposed": (change(outcomes__contains=lambda x: x.T.copy()),
                   "/outcomes/contains: has the shape [8, 12], expected [12, 8] (prompts, runs)"),
    "one name too few": (change(prompts__task=lambda x: x[1:]),
                         "/prompts/task: has the shape [11], expected [12] (prompts)"),
    "a prompt twice": (change(prompts__name=put(4, b"p003")),
                       "/prompts/name: [4] is 'p003' again, expected each prompt once"),
    "a run twice": (
        change(
            runs__setting=put(2, 1.0)), "/runs/label: [2] is 'ffd' at 1 again, expected each label and setting once"),
    "no dense run": (
        change(
            runs__selector=put(0, b"ffd")), "/runs/selector: [0] is 'ffd', expected 'exact': the first run is dense"),
    "an unknown kind": (change(runs__setting_kind=put(1, b"alpha")),
                        "/runs/setting_kind: [1] is 'alpha', expected none, delta, budget, p or factor"),
    "a negative delta": (change(runs__setting=put(1, -1.0)), "/runs/setting: [1] is -1, expected a delta"),
    "a NaN": (change(runs__setting=put(1, np.nan)), "/runs/setting: [1] is nan, expected a delta"),
    "a delta in per cent": (change(runs__setting_percent=put(1, 1)), "/runs/setting: [1] is 1%, expected a delta"),
    "per cent of 2": (change(runs__setting_percent=put(1, 2)), "/runs/setting_percent: [1] is 2, expected 0 or 1"),
    "a setting of none": (change(runs__setting=put(0, 4.0)),
                          "/runs/setting: [0] is 4, expected 0: the run has no setting"),
    "options that are no object": (change(runs__options=put(1, b"[]")),
                                   "/runs/options: [1] is '[]', expected a JSON object"),
    "a prompt of no tokens": (change(prompts__num_tokens=put(1, 0)), "/prompts/num_tokens: [1] is 0, expected 1 to"),
    "names as numbers": (change(prompts__name=np.arange(12)), "/prompts/name: has elements of type"),
    "no prompt at all": (change(prompts__name=np.array([], "S3")), "/prompts/name: is not a list of prompts"),
    "more than fits": (huge, "/outcomes/contains"),
    "too many prompts": (many_prompts, "has 3000000 prompts and 8 runs, expected at most 4000000 answers"),
}


@pytest.mark.parametrize("defect", BROKEN)
def test_a_broken_tasks_file_is_one_sentence(tmp_path, defect):
    bad, failed = planted(12)
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed)
    breaks, expected = BROKEN[defect]
    with h5py.File(tasks, "r+") as file:
        breaks(file)
    sentence = refusal(results, tasks, tmp_path / "out")
    assert tasks in sentence and expected in sentence, sentence


def test_a_cut_file_is_refused(tmp_path):
    bad, failed = planted(12)
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed)
    whole = open(tasks, "rb").read()
    open(tasks, "wb").write(whole[: len(whole) // 2])
    assert tasks in refusal(results, tasks, tmp_path / "out")
