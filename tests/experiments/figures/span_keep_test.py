"""`attest figures --only span_keep`: numpy recomputes the csv, the sentences quote it."""

import h5py
import numpy as np
import pytest
from study_maker import blocks, figures, make, pooled, read_csv, same
from results_maker import EXACT, ffd, quest, selector


@pytest.fixture
def study(tmp_path):
    path = make(tmp_path / "r.h5", [EXACT, ffd(), quest(), selector("best", "topk", "budget")], spans=("a", "c"),
                skipped=[("a", 5)])
    return path, tmp_path / "out", figures(path, tmp_path / "out", "--only", "span_keep")


def test_csv_is_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "span_keep.csv")
    assert len(rows) == 2 * 3 * 3 and {r["label"] for r in rows} == {"ffd", "quest", "best"}
    mass = {(sample, layer): block for sample, _, layer, block in blocks(path, "scores", "span_mass")}
    for row in rows:
        wanted = lambda sample, task, layer: row["layers"] == "all" or layer >= 2
        cells = lambda metric: [(b, mass.get((s, y))) for s, t, y, b in blocks(
            path, row["label"], metric, row["setting_label"]) if wanted(s, t, y)]
        retrieval = lambda metric: np.concatenate([
            b[(np.float32(m) >= 0.3) & ~np.isnan(b)] for b, m in cells(metric) if m is not None])
        kept = [(b[~np.isnan(b)].sum(), m[~np.isnan(b)].sum()) for b, m in cells("span_mass_kept")]
        get = lambda metric: pooled(blocks(path, row["label"], metric, row["setting_label"]), wanted)
        recall = retrieval("recall")
        expected = {"io_ratio": get("io_ratio").mean(), "keep_ratio": get("keep_ratio").mean(),
                    "span_keep_mean": get("span_keep").mean(),
                    "span_keep_retrieval": retrieval("span_keep").mean(),
                    "span_mass_kept": sum(k for k, _ in kept) / sum(m for _, m in kept),
                    "span_recall_mean": recall.mean(), "span_recall_min": recall.min(), "cells": get("span_keep").size,
                    "retrieval_cells": recall.size}
        for column, value in expected.items():
            assert same(row, column, value), (row["curve"], row["setting_label"], column)
        assert 0 < recall.size < get("span_keep").size, "the case is not trivial"


def test_sentences_quote_the_csv(study):
    _, out, said = study
    rows = {(r["label"], r["setting_label"]): r for r in read_csv(out / "span_keep.csv") if r["layers"] == "compared"}
    for label, setting, words in (("ffd", "5", "ffd at delta 5"), ("ffd", "7", "ffd at delta 7"),
                                  ("quest", "1024", "quest at budget 1024")):
        number = lambda column, digits, factor=1: f"{factor * float(rows[label, setting][column]):.{digits}f}"
        assert (
            f"{words} keeps {number('span_keep_mean', 1, 100)} % of the evidence tokens and "
            f"{number('span_mass_kept', 2, 100)} % of the attention on them for {number('io_ratio', 1, 100)} % of the "
            f"bytes; span recall over {number('retrieval_cells', 0)} retrieval cells: mean "
            f"{number('span_recall_mean', 4)}, min {number('span_recall_min', 4)}.") in said
    assert "best at" not in said, "an oracle is no method"
    script = (out / "span_keep.gp").read_text()
    assert "[all layers]" not in script and "only('ffd'," in script and "(d) min span recall" in script


def test_without_retrieval_cells_their_panels_are_left_out(tmp_path):
    path = make(tmp_path / "r.h5", [ffd()], spans=("a",))
    with h5py.File(path, "r+") as file:
        file["dumps/0/samples/a/scores/span_mass"][...] *= 0.3
    said = figures(path, tmp_path / "out", "--only", "span_keep")
    assert "no cell puts 0.3 or more on it" in said
    script = (tmp_path / "out/span_keep.gp").read_text()
    assert "span mass kept" in script and "mean span recall" not in script
    assert {r["span_recall_min"] for r in read_csv(tmp_path / "out/span_keep.csv")} == {"nan"}


def test_without_spans_it_says_so(tmp_path):
    said = figures(make(tmp_path / "r.h5", [ffd()]), tmp_path / "out")
    assert "left out: span_keep (tiny): needs samples with evidence spans and a selector other than exact" in said
