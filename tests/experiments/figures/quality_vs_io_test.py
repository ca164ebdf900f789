"""`attest figures --only quality_vs_io`: numpy recomputes every number of the csv from the results file."""

import h5py
import numpy as np
import pytest
from csv_rows import NUMBER, read_csv
from figures_command import figures, number, study  # noqa: F401
from results_maker import cells, ffd, join_dumps, write_results


def test_quality_vs_io_is_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "quality_vs_io.csv")
    assert {row["label"] for row in rows} == {"exact", "ffd", "ffd:gqa=per_head", "quest", "best,k"}
    compared = [row for row in rows if row["layers"] == "compared"]
    assert len([row for row in compared if not row["sample"]]) == 1 + 3 * 4
    assert len([row for row in compared if row["sample"]]) == 3 * 3 * 4, "too few samples for a band: each is drawn"
    for row in rows:
        if row["sample"]:
            continue
        keep_layer = (lambda layer: layer >= 2) if row["layers"] == "compared" else (lambda layer: True)
        get = lambda metric: cells([path], row["label"], metric, row["setting_label"], keep_layer)
        recall, lse = get("recall"), get("lse_error")
        expected = {"io_ratio": get("io_ratio").mean(), "keep_ratio": get("keep_ratio").mean(),
                    "recall_mean": recall.mean(),
                    "recall_min": recall.min(), "recall_p5": np.quantile(recall, 0.05), "lse_error_max": lse.max(),
                    "lse_error_mean": lse.mean(), "mass_recall_min": get("mass_recall").min(), "cells": recall.size}
        for column, value in expected.items():
            assert number(row, column) == pytest.approx(value, rel=NUMBER, abs=NUMBER), (row["curve"], column)
        assert number(row, "clusters") == 3


def test_the_caption_says_which_layers_a_point_pools(study, tmp_path):
    path, out, _ = study
    caption = lambda folder: next(line for line in (folder / "captions.md").read_text().splitlines()
                                  if "Quality against bytes read and tokens kept" in line)
    assert "pools one setting over layers, heads and queries" in caption(out)
    assert " Without layers 0 and 1, dense in one of the selectors." in caption(out)
    figures(write_results(tmp_path / "all.h5", [ffd()]), "-o", tmp_path / "all", "--only", "quality_vs_io", "--format",
            "svg")
    assert "pools one setting over all layers, heads and queries" in caption(tmp_path / "all") \
        and "Without layers" not in caption(tmp_path / "all")


def test_few_samples_are_drawn_one_by_one(study):
    path, out, _ = study
    rows = [row for row in read_csv(out / "quality_vs_io.csv") if row["sample"]]
    assert {row["sample"] for row in rows} == {"a", "b", "c"}
    with h5py.File(path) as file:
        for row in rows:
            group = file["dumps/0/samples"][row["sample"]]
            setting = list(group[row["label"]]["setting_labels"].asstr()).index(row["setting_label"])
            layers = (group["layers"][()] >= 2) & (group[row["label"]]["done"][()] == 1)
            for column, metric in {"recall_mean": "recall", "io_ratio": "io_ratio",
                                   "lse_error_mean": "lse_error"}.items():
                values = group[row["label"]][metric][()][layers][..., setting]
                assert number(row, column) == pytest.approx(np.nanmean(values), abs=NUMBER)
    assert "small dots: the 3 samples" in (out / "quality_vs_io.gp").read_text()
    assert "filledcurves" not in (out / "quality_vs_io.gp").read_text(), "no band below five samples"


def test_samples_of_two_dumps_are_drawn_apart(tmp_path):
    own = [write_results(tmp_path / f"{name}.h5", [ffd()], {"a": [0]}, dump=f"{name}.h5", seed=seed)
           for seed, name in enumerate(("first", "second"))]
    figures(join_dumps(tmp_path / "r.h5", own), "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "svg")
    rows = {row["sample"]: row for row in read_csv(tmp_path / "out/quality_vs_io.csv") if row["sample"]
            and row["setting_label"] == "5"}
    assert list(rows) == ["a", "a of second.h5"]
    for row, path in zip(rows.values(), own):
        recall = cells([path], "ffd", "recall", "5")
        assert int(row["cells"]) == recall.size and number(row, "recall_mean") == pytest.approx(
            recall.mean(), abs=NUMBER)
    assert [rows[name]["curve"] for name in rows] == ["ffd of sample a", "ffd of sample a of second.h5"]


def test_five_samples_have_a_band(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd()], samples={name: [2, 3] for name in "abcde"})
    figures(path, "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "svg")
    script = (tmp_path / "out/quality_vs_io.gp").read_text()
    assert "filledcurves" in script and "95 % (studentized bootstrap over 5 samples)" in script
    assert not [row for row in read_csv(tmp_path / "out/quality_vs_io.csv") if row["sample"]]


def test_quality_band_is_a_studentized_bootstrap_over_samples(study, tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd()], samples={name: [2, 3] for name in "abcdef"})
    figures(path, "-o", tmp_path / "six", "--only", "quality_vs_io", "--format", "svg")
    row = next(r for r in read_csv(tmp_path / "six/quality_vs_io.csv") if r["curve"] == "ffd"
               and r["setting_label"] == "5")
    few = next(r for r in read_csv(study[1] / "quality_vs_io.csv") if r["curve"] == "ffd" and r["setting_label"] == "5")
    assert few["recall_low"] == few["recall_high"] == "nan", "no interval of three samples"
    clusters = []
    with h5py.File(path) as file:
        for sample in file["dumps/0/samples"].values():
            values = sample["ffd/recall"][()][..., 1].ravel().astype(float)
            clusters.append((np.nansum(values), np.count_nonzero(~np.isnan(values))))
    sums = np.array(clusters, float)

    def mean_and_error(drawn):  # [..., n, 2]
        means = drawn[..., 0].sum(-1) / drawn[..., 1].sum(-1)
        residuals = drawn[..., 0] - means[..., None] * drawn[..., 1]
        n = drawn.shape[-2]
        return means, np.sqrt((residuals**2).sum(-1) * n / (n - 1)) / drawn[..., 1].sum(-1)

    mean, error = mean_and_error(sums)
    means, errors = mean_and_error(sums[np.random.default_rng(1).integers(0, len(sums), (20000, len(sums)))])
    proper = errors > 1e-9 * error
    below, above = np.quantile((means[proper] - mean) / errors[proper], [0.025, 0.975])
    low, high = mean - above * error, min(mean - below * error, 1)
    assert high - low > 1e-3, "the case is not trivial"
    assert number(row, "recall_low") == pytest.approx(low, abs=0.2 * (high - low))
    assert number(row, "recall_high") == pytest.approx(high, abs=0.2 * (high - low))


def test_quality_marks_the_methods_own_settings(study):
    _, out, _ = study
    marked = {(row["label"], row["setting_label"]) for row in read_csv(out / "quality_vs_io.csv")
              if row["default"] == "1"}
    for label in ("ffd", "ffd:gqa=per_head"):
        assert {(label, "5"), (label, "7")} <= marked and (label, "3") not in marked
    for label in ("quest", "best,k"):
        assert {(label, "1024"), (label, "50%")} <= marked and (label, "256") not in marked
