"""quality_ladder: every rung of the csv and of the table by numpy from the cells."""

import re

import h5py
import numpy as np
import pytest
import results_maker
from program_study import attest, cells, findings, make, make_study, number, read_csv, same, spoil

RUNGS = {"mean": np.mean, "median": np.median, "p95": lambda x: np.quantile(x, 0.95),
         "p99": lambda x: np.quantile(x, 0.99),
         "p999": lambda x: np.quantile(x, 0.999), "worst": np.max}
MEASURES = {"recall_deficit": ("recall", lambda x: 1 - x), "lse_error": ("lse_error", lambda x: x),
            "dropped_mass": ("mass_recall", lambda x: 1 - x)}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ladder")
    path = make_study(folder, ["exact", "ffd", "quest:dense_layers=1", "kivi", "best=topk"], "--delta", "3,5,7",
                      "--budget", "256,50%")
    spoil(path, "ffd", skipped=("synthetic-0001", 2))
    return path, folder / "out", make(path, folder / "out", "quality_ladder")


def test_rungs_are_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "quality_ladder.csv")
    assert {row["label"] for row in rows} == {"ffd", "quest:dense_layers=1", "kivi", "best"}, (
        "exact attention has no badness")
    assert len(rows) == 2 * (3 + 2 + 1 + 2)
    for row in rows:
        keep_layer = (lambda layer: layer >= 1) if row["layers"] == "compared" else (lambda layer: True)
        get = lambda metric: cells([path], row["label"], metric, row["setting_label"], keep_layer)
        expected = {"io_ratio": get("io_ratio").mean(), "keep_ratio": get("keep_ratio").mean(),
                    "cells": get("recall").size}
        for name, (metric, badness) in MEASURES.items():
            for rung, function in RUNGS.items():
                expected[f"{name}_{rung}"] = function(badness(get(metric)))
        same(row, expected)
    assert any(number(row, "recall_deficit_worst") > 10 * number(row, "recall_deficit_mean") > 0
               for row in rows), "not trivial"


def test_table_has_the_papers_settings(study):
    _, out, _ = study
    curves = {(row["label"], row["setting_label"]): row for row in read_csv(out / "quality_ladder.csv")
              if row["layers"] == "compared"}
    table = read_csv(out / "quality_ladder_defaults.csv")
    settings = {("ffd", "5"), ("ffd", "7"), ("quest:dense_layers=1", "50%"), ("best", "50%"), ("kivi", "")}
    assert {(row["label"], row["setting"]) for row in table} == settings
    assert settings == {key for key, row in curves.items() if row["default"] == "1"}
    titles = {"recall deficit": "recall_deficit", "LSE error (nats)": "lse_error", "dropped mass": "dropped_mass"}
    assert len(table) == len(titles) * len(settings)
    for row in table:
        curve = curves[row["label"], row["setting"]]
        same(row, {rung: number(curve, f"{titles[row['metric']]}_{rung}") for rung in RUNGS})
    assert "99.9 %" in (out / "quality_ladder_defaults.md").read_text()
    assert "99.9 \\%" in (out / "quality_ladder_defaults.tex").read_text()


def test_findings_quote_the_csv(study):
    _, out, said = study
    rows = {(row["label"], row["setting_label"]): row for row in read_csv(out / "quality_ladder.csv")
            if row["layers"] == "compared"}
    texts = findings(said)
    # Of fewer than 100 cells there is no 1 %, of fewer than 1000 no 0.1 %.
    deficit = lambda column: f"{number(rows['ffd', '5'], 'recall_deficit_' + column):.3g}"
    count = int(rows["ffd", "5"]["cells"])
    tail = f"{deficit('p99')} or more in 1 % of {count} cells, " if count >= 100 else ""
    worst = f"{deficit('worst')} in the worst" + ("" if count >= 100 else f" of {count} cells")
    assert count < 1000 and texts[0] == (f"ffd at delta 5: the recall deficit is {deficit('mean')} in the mean and "
                                         f"{deficit('median')} in the median, {tail}{worst}.")
    real = {key: number(row, "recall_deficit_worst") for key, row in rows.items() if row["default"] == "1"
            and key[0] != "best"}
    least, most = min(real.values()), max(real.values())
    assert re.search(rf"is least for .* \({least:.3g}, .* largest for .* \({most:.3g}, ", texts[2])
    assert len(texts) == 3


def test_quantiles_are_said_of_enough_cells(tmp_path):
    few = make_study(tmp_path, ["ffd"], "--delta", "5", layers=2, tokens=300, samples=1)
    text = findings(make(few, tmp_path / "few", "quality_ladder"))[0]
    assert "of 24 cells" in text and " or more in " not in text
    many = make_study(tmp_path, ["ffd"], "--delta", "5", layers=4, tokens=300, samples=21, name="many")
    text = findings(make(many, tmp_path / "many", "quality_ladder"))[0]
    assert " or more in 1 % and " in text and " or more in 0.1 % of 1008 cells, " in text


def test_what_is_missing_is_said(tmp_path):
    dense = make_study(tmp_path, ["exact", "quest:dense_layers=4"], "--budget", "256", samples=1)
    done = attest("figures", dense, "-o", tmp_path / "none", "--only", "quality_ladder", expect=4)
    assert "quality_ladder every layer is dense in one of the selectors: run them with dense_layers=0" in done.stderr
    other = make_study(tmp_path, ["quest"], "--budget", "64", "--layers", "2-", name="s", samples=1)
    make(other, tmp_path / "s", "quality_ladder")
    assert read_csv(tmp_path / "s/quality_ladder.csv")[0]["default"] == "0"
    assert not (tmp_path / "s/quality_ladder_defaults.csv").exists(), "no setting of a paper, no table"


def test_only_settings_of_the_same_prompts_are_compared(tmp_path, monkeypatch):
    """Of two pooled files, of other prompts, one alone has delta 5, and one alone has quest."""
    paths = []
    for name, grid in {"a": ["5", "7"], "b": ["7"]}.items():
        monkeypatch.setitem(results_maker.GRIDS, "delta", (grid, [float(text) for text in grid]))
        more = [results_maker.quest("quest", 0)] if name == "a" else []
        paths.append(results_maker.write_results(
            tmp_path / f"{name}.h5", [results_maker.ffd(), results_maker.ffd("heads", "per_head"), *more],
            samples={name: [2, 5]}, dump=name, seed=len(paths)))
        with h5py.File(paths[-1], "r+") as file:
            sample = file[f"dumps/0/samples/{name}"]
            sample["ffd/recall"][...] = [{"5": 0.99, "7": 0.5}[d] for d in grid]
            sample["heads/recall"][...] = [{"5": 0.1, "7": 0.7}[d] for d in grid]
    (text,) = (text for text in findings(make(paths, tmp_path / "out", "quality_ladder")) if "least for" in text)
    assert "is least for heads at delta 7 (0.3, " in text and " and largest for ffd at delta 7 (0.5, " in text
    captions = (tmp_path / "out/captions.md").read_text()
    for label in ("ffd", "heads"):
        assert f"; 1 of the 2 settings of {label} are not of all samples; " in captions
    assert "; 23 to 48 cells (layer, query, head)" in captions
