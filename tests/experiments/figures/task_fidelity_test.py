"""`attest figures --only task_fidelity`: numpy recomputes the table, the sentences quote it."""

import re

import h5py
import numpy as np
import pytest
from study_maker import blocks, figures, make, pooled, read_csv, same
from results_maker import EXACT, ffd, quest, selector

TASKS = {"a": "needle", "b": "words", "c": "words"}


@pytest.fixture
def study(tmp_path):
    selectors = [EXACT, ffd(), quest(), selector("best", "topk", "budget"), selector("kivi", "kivi", "none")]
    path = make(tmp_path / "r.h5", selectors, TASKS, spans=("a", "c"), skipped=[("b", 5)])
    return path, tmp_path / "out", figures(path, tmp_path / "out", "--only", "task_fidelity")


def retrieval(path, label, metric, setting, wanted):
    """The defined cells of a metric where the exact mass on the span is at least 0.3."""
    mass = {(sample, layer): block for sample, _, layer, block in blocks(path, "scores", "span_mass")}
    found = [block[np.float32(mass[sample, layer]) >= 0.3]
             for sample, task, layer, block in blocks(path, label, metric, setting)
             if (sample, layer) in mass and wanted(sample, task, layer)]
    values = np.concatenate(found) if found else np.array([])
    return values[~np.isnan(values)]


def test_table_is_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "task_fidelity.csv")
    settings = {"ffd": ["5", "7"], "quest": ["1024", "50%"], "best (oracle)": ["1024", "50%"], "kivi": [""]}
    expected = {(layers, task, label, setting) for layers in ("compared", "all") for task in ("needle", "words", "all")
                for label in settings for setting in settings[label]}
    assert len(rows) == len(expected) and {(r["layers"], r["task"], r["label"], r["setting_label"])
                                           for r in rows} == expected
    for row in rows:
        label, setting = row["label"].split(" ")[0], row["setting_label"]
        wanted = lambda sample, task, layer: row["task"] in (task, "all") and (row["layers"] == "all" or layer >= 2)
        get = lambda metric: pooled(blocks(path, label, metric, setting), wanted)
        recall, spans, keep = get("recall"), retrieval(path, label, "recall", setting, wanted), get("span_keep")
        numbers = {"samples": {"needle": 1, "words": 2, "all": 3}[row["task"]], "io_ratio": get("io_ratio").mean(),
                   "keep_ratio": get("keep_ratio").mean(),
                   "span_keep": keep.mean(), "span_recall_mean": spans.mean(), "span_recall_min": spans.min(),
                   "recall_mean": recall.mean(),
                   "recall_min": recall.min(), "lse_error_max": get("lse_error").max(), "retrieval_cells": spans.size,
                   "cells": recall.size}
        for column, value in numbers.items():
            assert same(row, column, value), (row["task"], row["label"], column)
    assert [r["task"] for r in rows if r["layers"] == "compared"] == ["needle"] * 7 + ["words"] * 7 + \
        ["all"] * 7, "methods of a task stand together"


def test_sentences_quote_the_table(study):
    _, out, said = study
    rows = {(r["task"], r["label"], r["setting_label"]): r for r in read_csv(out / "task_fidelity.csv")
            if r["layers"] == "compared"}
    for label, setting, words in (("ffd", "5", "ffd at delta 5"), ("quest", "1024", "quest at budget 1024"),
                                  ("kivi", "", "kivi")):
        of = {task: rows[task, label, setting] for task in ("needle", "words")}
        worst = min(of, key=lambda task: float(of[task]["recall_mean"]))
        lowest = min(of, key=lambda task: float(of[task]["span_recall_min"]))
        assert (f"Of 2 tasks, {words} has its lowest mean recall in {worst} ({float(of[worst]['recall_mean']):.4f}); "
                f"the lowest span recall is {float(of[lowest]['span_recall_min']):.4f}, in {lowest}.") in said
    above = sum(float(rows[t, "ffd", "5"]["recall_mean"]) > float(rows[t, "quest", "50%"]["recall_mean"])
                for t in ("needle", "words"))
    ours, theirs = (100 * np.mean([float(rows[t, *which]["io_ratio"]) for t in ("needle", "words")])
                    for which in (("ffd", "5"), ("quest", "50%")))
    assert (f"ffd at delta 5 has a higher mean recall than quest at budget 50% in {above} of 2 tasks ({ours:.1f} "
            f"against {theirs:.1f} % of the bytes") in said
    assert not re.search(r"Of 2 tasks, best", said), "an oracle is no method"


def test_a_grid_without_the_papers_settings_is_told(study, tmp_path):
    _, out, _ = study
    assert "none of the papers" not in (out / "captions.md").read_text()
    path = make(tmp_path / "few.h5", [ffd(), quest()], TASKS)
    with h5py.File(path, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            sample["ffd/settings"][...] = [1, 2, 3]
            sample["ffd/setting_labels"][...] = ["1", "2", "3"]
    figures(path, tmp_path / "few", "--only", "task_fidelity")
    assert "The grid of ffd has none of the papers' settings: all settings are shown." \
        in (tmp_path / "few/captions.md").read_text()


def test_without_spans_only_their_columns_are_undefined(tmp_path):
    path = make(tmp_path / "r.h5", [ffd()], TASKS)
    said = figures(path, tmp_path / "out", "--only", "task_fidelity")
    for row in read_csv(tmp_path / "out/task_fidelity.csv"):
        assert row["span_keep"] == row["span_recall_min"] == "nan" and float(row["recall_mean"]) > 0 \
            and float(row["retrieval_cells"]) == 0
    assert "span recall" not in said and "nan" not in said


def test_without_tasks_it_says_so(tmp_path):
    path = make(tmp_path / "r.h5", [ffd()], {"a": "", "b": "", "c": ""})
    assert "left out: task_fidelity (tiny): needs samples that name their task" in figures(path, tmp_path / "out")
    dense = make(tmp_path / "d.h5", [ffd(), quest()], TASKS, samples={"a": [0, 1]})
    assert "needs a selector other than exact and a layer that is dense in no selector" \
        in figures(dense, tmp_path / "d")


def test_a_task_named_all_is_not_all_tasks(tmp_path):
    """It has its own rows, counts among the tasks, and is not pooled with samples that have no task."""
    path = make(tmp_path / "r.h5", [ffd()], {"a": "all", "b": "words", "c": "no task"})
    said = figures(path, tmp_path / "out", "--only", "task_fidelity")
    rows = [r for r in read_csv(tmp_path / "out/task_fidelity.csv") if r["setting_label"] == "5"]
    assert [(r["task"], r["samples"]) for r in rows] == [
        ("no task", "1"), ("task all", "1"), ("words", "1"), ("all", "3")]
    assert "Of 3 tasks, ffd at delta 5" in said
    for row, sample in zip(rows, "cab"):
        assert same(row, "recall_mean", pooled(blocks(path, "ffd", "recall", "5"), lambda of, task,
                                               layer: of == sample).mean())


def test_a_task_named_no_task_is_not_pooled_with_samples_without_one(tmp_path):
    path = make(tmp_path / "r.h5", [ffd()], {"a": "no task", "b": "", "c": ""})
    figures(path, tmp_path / "out", "--only", "quality_vs_io", "--by", "task")
    captions = (tmp_path / "out/captions.md").read_text()
    assert "tiny, no task, 2 samples" in captions and "tiny, task no task, 1 sample," in captions
