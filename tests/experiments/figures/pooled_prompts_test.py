"""Pooled files need not share their prompts: what `attest figures` compares is of the same ones."""

import json
import shutil

import h5py
import numpy as np
import pytest
import results_maker
from attest_program import attest
from figures_command import figures
from program_study import make_study
from results_maker import ffd, quest, write_results
from study_maker import figures as figures_of, make

FFD, QUEST = ffd(pseudo_max="thumbnail", dense_layers=0), quest(dense_layers=0)
DENSE = ffd("ffd:dense_layers=2", pseudo_max="thumbnail", dense_layers=2)
for one in (FFD, QUEST, DENSE):
    one["options"]["dense_layers"] = one["dense_layers"]
# Experiment -> what it compares, and the words with which it does.
COMPARED = {"task_fidelity": (FFD, QUEST, "has a higher mean recall than"),
            "layer_correlation": (FFD, QUEST, "Spearman's rho of ffd is above that of quest"),
            "early_layers": (FFD, DENSE, "With dense layers (ffd:dense_layers=2)")}


@pytest.mark.parametrize("experiment", COMPARED)
def test_selectors_of_other_prompts_are_not_compared(tmp_path, experiment):
    first, second, words = COMPARED[experiment]
    together = make(tmp_path / "r.h5", [first, second], {"a": "one", "b": "one", "c": "two"}, spans=("a", "b", "c"))
    apart = [make(tmp_path / f"{name}.h5", [one], {name: "one"}, spans=(name,), samples={name: [0, 1, 2, 5]}, dump="d",
                  seed=seed) for seed, (name, one) in enumerate({"x": first, "y": second}.items())]
    assert words in figures_of(together, tmp_path / "out", "--only", experiment)
    said = figures_of(apart, tmp_path / "apart", "--only", experiment)
    assert words not in said and experiment in said


def test_a_prompt_of_two_files_is_one_sample(tmp_path):
    files = [write_results(tmp_path / f"{one['label']}.h5", [one], samples={"a": [2, 5], "b": [2]}, dump="d")
             for one in (ffd(), quest(dense_layers=0))]
    figures(*files, "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "svg")
    assert ", 2 samples, results ffd.h5" in (tmp_path / "out/captions.md").read_text()


def _without(path, target, label, settings=None):
    """A copy of the results without a selector, or with some of its settings alone."""
    shutil.copy(path, target)
    with h5py.File(target, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            if settings is None:
                del sample[label]
                continue
            group = sample[label]
            for name, data in list(group.items()):
                axis = 0 if name.startswith("setting") else 3 if data.ndim == 4 else None
                if axis is not None:
                    values = np.take(data[()], settings, axis)
                    del group[name]
                    group[name] = values
    return target


def _claims(*results):
    study = json.loads(attest("claims", *results, "--json").stdout)["studies"][0]
    return study["claims"] + study["contradictions"]


def _tables(folder, results):
    figures(*results, "-o", folder, "--format", "svg")
    tables = {path.name: path.read_text() for path in folder.glob("*.csv")}
    assert len(tables) > 8
    return tables


@pytest.mark.parametrize("apart", ["selectors", "settings", "layers"])
def test_files_of_the_same_prompts_are_as_one(tmp_path, apart):
    """Claims and figures of two files, each with a part of a study, are those of the whole study in one file."""
    names = "abcdef" if apart == "selectors" else "abc"
    spans = names if apart == "selectors" else ""
    layers = {"whole": [0, 1, 2, 5], "first": [0, 1], "second": [2, 5]}
    whole = make(tmp_path / "whole.h5", [FFD, QUEST], dict.fromkeys(names, "one"), spans=spans,
                 samples=dict.fromkeys(names, layers["whole"]))
    parts = [tmp_path / "first.h5", tmp_path / "second.h5"]
    if apart == "layers":
        for part in parts:
            shutil.copy(whole, part)
            with h5py.File(part, "r+") as file:
                for sample in file["dumps/0/samples"].values():
                    rows = [layers["whole"].index(layer) for layer in layers[part.stem]]
                    _keep_rows(sample, rows)
    elif apart == "selectors":
        _without(whole, parts[0], "quest")
        _without(whole, parts[1], "ffd")
    else:
        _without(whole, parts[0], "ffd", [0, 1])
        _without(_without(whole, tmp_path / "ffd.h5", "quest"), parts[1], "ffd", [2])
    assert _claims(*parts) == _claims(whole)
    assert _tables(tmp_path / "parts", parts) == _tables(tmp_path / "one", [whole])
    attest("report", *parts, "-o", tmp_path / "page.html", "--only", "layer_correlation")
    count = len(names)
    said = (tmp_path / "page.html").read_text()
    assert f"on {count} samples of 900 tokens" in said and f"{count * results_maker.QUERIES} queries in all." in said


def _keep_rows(group, rows):
    for name, data in list(group.items()):
        if isinstance(data, h5py.Group):
            _keep_rows(data, rows)
        elif name in ("layers", "dense", "done") or data.ndim >= 3:
            values = data[()][rows]
            del group[name]
            group[name] = values


def test_scan_bounds_have_each_prompt_once(tmp_path):
    """The dump is read again for them; two files have a delta each."""
    whole, first, second = (tmp_path / name / "r.h5" for name in ("5,7", "5", "7"))
    make_study(tmp_path, ["ffd"], "--delta", "5,7", layers=2, tokens=600, samples=2)
    for path, delta in ((whole, "5,7"), (first, "5"), (second, "7")):
        path.parent.mkdir()
        attest("run", tmp_path / "r_dump.h5", "-o", path, "--selector", "ffd", "--delta", delta)
    of_whole = _claims(whole)
    assert _claims(first, second) == of_whole and any("2 samples" in claim["subject"] for claim in of_whole)


def test_other_queries_of_a_prompt_are_another_sample(tmp_path):
    """Their cells do not belong together one by one."""
    files = [write_results(tmp_path / f"{one['label']}.h5", [one], samples={"a": [2, 5]}, dump="d")
             for one in (ffd(), quest(dense_layers=0))]
    with h5py.File(files[1], "r+") as file:
        file["dumps/0/samples/a/query_positions"][...] += 1
    said = figures(*files, "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "svg").stdout
    assert ", 2 samples, results ffd.h5" in (tmp_path / "out/captions.md").read_text() and "At io" not in said


def test_a_setting_of_few_samples_does_not_decide_about_bands(tmp_path, monkeypatch):
    """The one with the fewest tokens is of two of six samples."""
    files = []
    for names, labels in {"ab": ["3", "7"], "cdef": ["7"]}.items():
        monkeypatch.setitem(results_maker.GRIDS, "delta", (labels, [float(text) for text in labels]))
        files.append(write_results(tmp_path / f"{names}.h5", [ffd()], samples={name: [2, 5] for name in names},
                                   dump=names))
    with h5py.File(files[1], "r+") as file:
        for sample in file["dumps/0/samples"].values():
            sample["ffd/keep_ratio"][...] = 0.99
    figures(*files, "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "svg")
    script = (tmp_path / "out/quality_vs_io.gp").read_text()
    assert "over 6 samples" in script and "small dots" not in script


def test_curves_are_compared_over_the_same_prompts(tmp_path, monkeypatch):
    """One of two pooled files, of other prompts, has settings more; their points stand for it alone."""
    files = []
    for name, grids in {"a": (["3", "5", "7"], ["256", "1024"]), "b": (["3", "7"], ["256", "1024"])}.items():
        for setting, grid in zip(("delta", "budget"), grids, strict=True):
            monkeypatch.setitem(results_maker.GRIDS, setting, (grid, [float(text) for text in grid]))
        files.append(write_results(tmp_path / f"{name}.h5", [ffd(), quest(dense_layers=0)], samples={name: [2, 5]},
                                   dump=name))
        with h5py.File(files[-1], "r+") as file:
            sample = file[f"dumps/0/samples/{name}"]
            sample["ffd/io_ratio"][...] = [{"3": 0.1, "5": 0.25, "7": 0.4}[d] for d in grids[0]]
            sample["ffd/recall"][...] = [{"3": 0.6, "5": 0.1, "7": 0.8}[d] for d in grids[0]]
            sample["quest/io_ratio"][...] = [0.1, 0.4]
            sample["quest/recall"][...] = [0.5, 0.7]
    said = figures(*files, "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "svg").stdout
    assert "At io 0.25 the mean recall of ffd is 0.7000 against 0.6000 of quest" in said
    assert "nats, interpolated between settings." in said
    captions = (tmp_path / "out/captions.md").read_text()
    assert "; 1 of the 3 settings of ffd are not of all samples" in captions and "queries (24 to 48 cells)" in captions
    alone = write_results(tmp_path / "c.h5", [quest("other", dense_layers=0)], samples={"c": [2]}, dump="c")
    only = write_results(tmp_path / "d.h5", [ffd()], samples={"d": [2]}, dump="d")
    assert "At io" not in figures(alone, only, "-o", tmp_path / "none", "--only", "quality_vs_io", "--format",
                                  "svg").stdout, "they have no prompt in common"
