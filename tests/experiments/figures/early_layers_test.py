"""`attest figures --only early_layers`: numpy recomputes the csv and the table, the sentences quote the cells."""

import json

import h5py
import pytest
from study_maker import NUMBER, blocks, figures, make, pooled, read_csv
from results_maker import EXACT, ffd, quest, selector

GROUPS = {"0": lambda layer: layer == 0, "1": lambda layer: layer == 1, "others": lambda layer: layer >= 2,
          "all": lambda layer: True}


@pytest.fixture
def study(tmp_path):
    selectors = [EXACT, ffd(dense_layers=0), quest(dense_layers=2), quest("quest0", 0),
                 selector("twilight", "twilight", "p", 2), selector("kivi", "kivi", "none")]
    for one in selectors:
        one["options"]["dense_layers"] = one["dense_layers"]
    path = make(tmp_path / "r.h5", selectors, skipped=[("b", 5)])
    return path, tmp_path / "out", figures(path, tmp_path / "out", "--only", "early_layers")


def test_numbers_are_what_the_cells_say(study):
    path, out, _ = study
    rows, table = read_csv(out / "early_layers.csv"), read_csv(out / "early_layers_table.csv")
    assert {(r["label"], r["layers"]) for r in rows} == \
        {(label, group) for label in ("ffd", "quest", "quest0", "twilight", "kivi") for group in GROUPS}
    assert {r["dense_layers"] for r in rows if r["label"] == "quest"} == {"2"}
    shown = {"ffd": {"5", "7"}, "quest": {"1024", "50%"}, "quest0": {"1024", "50%"}, "twilight": {"0.85"}, "kivi": {""}}
    assert {label: {r["setting_label"] for r in table if r["label"] == label} for label in shown} == shown
    for row in rows + table:
        wanted = lambda sample, task, layer: GROUPS[row["layers"]](layer)
        get = lambda metric: pooled(blocks(path, row["label"], metric, row["setting_label"]), wanted)
        recall, lse = get("recall"), get("lse_error")
        expected = {"recall_mean": recall.mean(), "recall_min": recall.min(), "lse_error_max": lse.max(),
                    "lse_error_mean": lse.mean(),
                    "mass_recall_min": get("mass_recall").min(), "keep_ratio": get("keep_ratio").mean(),
                    "io_ratio": get("io_ratio").mean(), "cells": recall.size}
        for column, value in expected.items():
            assert float(row[column]) == pytest.approx(value, rel=NUMBER, abs=NUMBER), (row["curve"], column)


def test_sentences_compare_with_the_worst_later_layer(study):
    path, _, said = study
    for label, setting, words in (("ffd", "5", "ffd at delta 5"), ("quest0", "1024", "quest0 at budget 1024"),
                                  ("kivi", "", "kivi")):
        at = lambda metric, layer: pooled(blocks(path, label, metric, setting), lambda s, t, y: y == layer)
        quality = {layer: (at("recall", layer).mean(), at("lse_error", layer).max()) for layer in (0, 1, 2, 5)}
        worst = min(quality[2][0], quality[5][0]), max(quality[2][1], quality[5][1])
        parts = ", ".join(f"mean recall {quality[y][0]:.4f} and max LSE error {quality[y][1]:.3g} nats in layer {y}"
                          for y in (0, 1))
        by_recall = [y for y in (0, 1) if quality[y][0] <= worst[0] - 0.01]
        by_error = [y for y in (0, 1) if quality[y][1] >= max(1.5 * worst[1], worst[1] + 0.01)]
        assert (
            f"{words} without dense layers has {parts}, against at worst {worst[0]:.4f} and {worst[1]:.3g} in the 2 "
            f"layers studied from layer 2 on (2 to 3 samples): {verdict(by_recall, by_error)}.") in said


LOW = "a mean recall lower by 0.01 or more"
LARGE = "a max LSE error at least 1.5 times as large (and 0.01 nats larger)"


def verdict(by_recall, by_error):
    have = lambda layers, what: f"layers 0 and 1 have {what}" if len(layers) == 2 else f"layer {layers[0]} has {what}"
    if not by_recall and not by_error:
        return f"no early layer has {LOW} or {LARGE}"
    if by_recall == by_error:
        return have(by_recall, f"{LOW} and {LARGE}")
    return ", ".join(have(layers, what) for layers, what in ((by_recall, LOW), (by_error, LARGE)) if layers)


@pytest.mark.parametrize("early, later, by_recall, by_error", [
    ({0: (0.9994, 0.101)}, {2: (0.9992, 0.1)}, [], []),  # better in one, hardly worse in the other
    ({0: (0.9930, 0.14)}, {2: (0.9992, 0.1)}, [], []),  # worse in both, by less than the margins
    ({0: (0.9994, 0.006)}, {2: (0.9992, 0.001)}, [], []),  # six times an error of nothing
    ({0: (0.9994, 0)}, {2: (0.9992, 0)}, [], []),
    ({0: (0.9992, 0.2)}, {2: (0.9992, 0.1), 5: (0.9999, 0.01)}, [], [0]),
    ({0: (0.98, 0.1)}, {2: (0.9992, 0.1), 5: (0.9999, 0.01)}, [0], []),
    ({0: (0.98, 0.1)}, {2: (0.9992, 0.1), 5: (0.95, 0.01)}, [], []),  # a later layer is worse
    ({0: (0.98, 0.2)}, {2: (0.9992, 0.1)}, [0], [0]),
    ({0: (0.98, 0.2), 1: (0.97, 0.1)}, {2: (0.9992, 0.1)}, [0, 1], [0]),
    ({0: (0.98, 0.2), 1: (0.97, 0.3)}, {2: (0.9992, 0.1)}, [0, 1], [0, 1]),
])
def test_an_early_layer_is_called_worse_from_a_margin_on(tmp_path, early, later, by_recall, by_error):
    quality = early | later
    path = make(tmp_path / "r.h5", [ffd(dense_layers=0)], samples={name: list(quality) for name in "abc"})
    with h5py.File(path, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            for row, (recall, error) in enumerate(quality.values()):
                sample["ffd/recall"][row], sample["ffd/lse_error"][row] = recall, error
    said = json.loads(figures(path, tmp_path / "out", "--only", "early_layers", "--json"))
    finding = said["experiments"][0]["findings"][0]
    layers = "one layer" if len(later) == 1 else f"{len(later)} layers"
    worst = f"against at worst {min(r for r, _ in later.values()):.4f} and {max(e for _, e in later.values()):.3g}"
    assert f"{worst} in the {layers} studied from layer 2 on (3 samples): {verdict(by_recall, by_error)}." \
        in finding["text"]
    assert finding["severity"] == ("warning" if by_recall or by_error else "good")


def test_the_price_of_the_exception_is_said(study):
    path, _, said = study
    mean = lambda label, metric: pooled(blocks(path, label, metric, "1024")).mean()
    assert (f"With dense layers (quest) the mean recall of quest0 over all layers is {mean('quest', 'recall'):.4f} "
            f"instead of {mean('quest0', 'recall'):.4f}") in said
    assert (f"for {100 * mean('quest', 'io_ratio'):.1f} % of the bytes instead of "
            f"{100 * mean('quest0', 'io_ratio'):.1f} %") in said
    assert "Not known without dense layers: twilight; run with dense_layers=0." in said


def test_only_selectors_without_dense_layers_are_drawn(study):
    script = (study[1] / "early_layers.gp").read_text()
    assert "only('quest0 layer 0'," in script and "only('quest layer 0'," not in script and "all layers'," not in script


@pytest.mark.parametrize("layers, selectors, reason", [
    ([2, 5], [ffd()], "needs layer 0 or 1 of the model"),
    ([0, 1], [ffd()], "needs a layer from 2 on to compare with"),
    ([0, 5], [EXACT, quest()], "needs a selector other than exact that is dense in no layer"),
])
def test_what_is_missing_is_said(tmp_path, layers, selectors, reason):
    path = make(tmp_path / "r.h5", selectors, samples={"a": layers})
    said = figures(path, tmp_path / "out", expect=None)
    assert f"early_layers{' (tiny):' if 'left out' in said else ''} {reason}" in said
