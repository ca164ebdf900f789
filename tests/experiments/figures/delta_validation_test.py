"""delta_validation: quality by delta, layer and head, and the smallest delta that meets a target, by numpy from the
cells."""

import itertools
import math

import h5py
import numpy as np
import pytest
import results_maker
from program_study import NUMBER, cells, findings, make, make_study, number, read_csv, reason, same, spoil

TARGETS = {"recall_mean >= 0.99": ("recall", np.mean, lambda x: x >= 0.99),
           "recall_mean >= 0.999": ("recall", np.mean, lambda x: x >= 0.999),
           "lse_error_max <= 0.2": ("lse_error", np.max, lambda x: x <= 0.2),
           "lse_error_max <= 0.05": ("lse_error", np.max, lambda x: x <= 0.05)}
QUANTITIES = {"recall_mean": ("recall", np.mean), "recall_min": ("recall", np.min),
              "lse_error_max": ("lse_error", np.max),
              "lse_error_mean": ("lse_error", np.mean), "keep_ratio": ("keep_ratio", np.mean),
              "io_ratio": ("io_ratio", np.mean),
              "salient_ratio": ("salient_ratio", np.mean)}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("delta")
    selectors = ["ffd=ffd:dense_layers=1", "log=ffd:dense_layers=1,delta_unit=log2", "heads=ffd:gqa=per_head", "quest"]
    path = make_study(folder, selectors, "--delta", "inf,7,1,2.5,5", "--budget", "256", tokens=3000)
    spoil(path, "ffd", ("recall", "lse_error"), skipped=("synthetic-0001", 2))
    with h5py.File(path, "r+") as file:
        file["dumps/0/samples/synthetic-0000/ffd/lse_error"][3, :, 2] = 0.4  # a head that no delta mends
    return path, folder / "out", make(path, folder / "out", "delta_validation")


def test_quality_by_delta_is_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "delta_validation.csv")
    assert [(row["label"], row["layer"], row["delta"]) for row in rows] == list(
        itertools.product(
            ["ffd", "log"], ["nan", "1", "2", "3"], ["1", "2.5", "5", "7", "inf"])), "dense layers are left out"
    for row in rows:
        keep = (lambda layer: layer >= 1) if row["layer"] == "nan" else (lambda layer: layer == int(row["layer"]))
        expected = {name: function(cells([path], row["label"], metric, row["delta"], keep))
                    for name, (metric, function) in QUANTITIES.items()}
        same(row, expected)
        assert number(row, "cells") == cells([path], row["label"], "recall", row["delta"], keep).size
        assert row["delta_unit"] == {"log": "log2"}.get(row["label"], "natural")
        if row["layer"] == "nan":
            layers = [r for r in rows if (r["label"], r["delta"]) == (row["label"], row["delta"])
                      and r["layer"] != "nan"]
            for name in QUANTITIES:
                values = [number(r, name) for r in layers]
                same(row, {f"{name}_layers_low": min(values), f"{name}_layers_high": max(values)})
    edges = [(number(r, "delta_low"), number(r, "delta_high")) for r in rows[:5]]
    assert edges[:4] == [(0.25, 1.75), (1.75, 3.75), (3.75, 6), (6, 8)] and all(map(math.isnan, edges[4]))


def head_cells(path, label, metric, setting, layer, head):
    values = []
    with h5py.File(path) as file:
        for sample in file["dumps/0/samples"].values():
            at = list(sample[label]["setting_labels"].asstr()[()]).index(setting)
            for row, number_ in enumerate(sample["layers"][()]):
                if (number_ == layer if layer is not None else number_ >= 1) and sample[label]["done"][row]:
                    part = sample[label][metric][row, :, :, at]
                    values.extend(part[:, head] if head is not None else part.ravel())
    values = np.array(values, np.float64)
    return values[~np.isnan(values)]


def test_smallest_deltas_meet_their_targets(study):
    path, out, _ = study
    rows = read_csv(out / "delta_validation_heads.csv")
    assert len(rows) == 2 * 4 * (1 + 3 + 3 * 4)
    for row in rows:
        index = lambda column: None if row[column] == "nan" else int(row[column])
        metric, function, holds = TARGETS[row["target"]]
        get = lambda setting: function(head_cells(path, row["label"], metric, setting, index("layer"), index("head")))
        met = [setting for setting in ("1", "2.5", "5", "7", "inf") if holds(get(setting))]
        assert row["delta"] == (met[0] if met else "nan"), row
        assert row["model"] == "synthetic/mixed"
        if met:
            keep = head_cells(path, row["label"], "keep_ratio", met[0], index("layer"), index("head"))
            assert number(row, "keep_ratio") == pytest.approx(keep.mean(), abs=NUMBER)
    assert len({row["delta"] for row in rows}) >= 4 and "nan" in {row["delta"] for row in rows}, "not trivial"


def test_table_is_that_of_model_and_layers(study):
    _, out, _ = study
    heads = {(r["label"], r["layer"], r["target"]): r["delta"] for r in read_csv(out / "delta_validation_heads.csv")
             if r["head"] == "nan"}
    table = read_csv(out / "delta_validation_targets.csv")
    assert [(r["label"], r["layer"]) for r in table] == [("ffd", "nan"), ("log", "nan")] + [("ffd", n) for n in "123"]
    for row in table:
        assert {target: row[target] for target in TARGETS} == {
            target: heads[row["label"], row["layer"], target] for target in TARGETS}


def test_findings_quote_the_csv(study):
    _, out, said = study
    model = {r["target"]: r for r in read_csv(out / "delta_validation_heads.csv") if r["curve"].endswith("of the model")
             and r["label"] != "log"}
    heads = [r for r in read_csv(out / "delta_validation_heads.csv") if r["head"] != "nan" and r["label"] != "log"]
    texts = findings(said)
    assert len(texts) == len(TARGETS) + 1
    for text, target in zip(texts[:-1], TARGETS, strict=True):
        unmet = sum(r["delta"] == "nan" for r in heads if r["target"] == target)
        assert ("every head reaches it" in text) == (unmet == 0)
        assert unmet == 0 or f"{12 - unmet} of 12 heads reach it at some studied delta" in text
        if model[target]["delta"] == "nan":
            assert text.startswith("No studied delta of ffd up to inf gives ")
        else:
            assert f"is {model[target]['delta']}" in text
            assert f": it keeps {100 * number(model[target], 'keep_ratio'):.1f} % of the tokens" in text
    five = next(r for r in read_csv(out / "delta_validation.csv") if r["layer"] == "nan" and r["delta"] == "5")
    assert f"At delta 5 {100 * number(five, 'salient_ratio'):.2f} % of the tokens lie within delta of the peak" \
        in texts[-1]
    assert f"keeps {100 * number(five, 'keep_ratio'):.1f} %" in texts[-1]


@pytest.fixture
def small(tmp_path):
    """One layer, four heads; every head's largest LSE error is set by the test."""
    path = make_study(tmp_path, ["ffd=ffd:dense_layers=0"], "--delta", "1,5,12", samples=2, layers=1)

    def finding(errors):
        """What is said of LSE errors up to 0.05, and the csv's smallest deltas. `errors`: of each head, [setting]."""
        with h5py.File(path, "r+") as file:
            for sample in file["dumps/0/samples"].values():
                sample["ffd/lse_error"][...] = np.array(errors)[None, None]
        text = findings(make(path, tmp_path / "out", "delta_validation", "--force"))[3]
        rows = [r for r in read_csv(tmp_path / "out/delta_validation_heads.csv")
                if r["target"] == "lse_error_max <= 0.05"]
        return text, [r["delta"] for r in rows if r["head"] != "nan"], next(
            r["delta"] for r in rows if r["layer"] == "nan")

    return finding


def test_what_larger_deltas_miss_is_said(small):
    good, late, lost, never = [0.01, 0.01, 0.01], [0.2, 0.04, 0.03], [0.04, 0.03, 0.0516], [0.3, 0.2, 0.1]
    text, heads, model = small([good, late, lost, never])
    assert heads == ["1", "5", "1", "nan"] and model == "nan"
    assert text == (
        "No studied delta of ffd up to 12 gives max LSE error ≤ 0.05 over all cells; 3 of 4 heads reach it at some "
        "studied delta, 1 of them not at all larger ones.")
    text, heads, model = small([good, late, lost, lost])
    assert heads == ["1", "5", "1", "1"] and model == "5"
    assert text.startswith(
        "The smallest studied delta of ffd with max LSE error ≤ 0.05 over all cells is 5, but not all larger ones give "
        "it: ")
    assert text.endswith("; every head reaches it at some studied delta, 2 of them not at all larger ones.")
    text, heads, model = small([good, late, good, good])
    assert text.startswith("The smallest studied delta of ffd with max LSE error ≤ 0.05 over all cells is 5: it keeps ")
    assert text.endswith("; every head reaches it at some studied delta and at all larger ones.")


def test_heads_without_cells_are_not_counted(small):
    text, heads, _ = small([[np.nan] * 3, [0.3, 0.2, 0.1], [0.01] * 3, [0.01] * 3])
    assert heads == ["nan", "nan", "1", "1"]
    assert text.endswith("; 2 of 3 heads reach it at some studied delta.")


def test_what_is_missing_is_said(tmp_path):
    path = make_study(tmp_path, ["quest:dense_layers=0", "k=ffd:rule=topk"], "--budget", "256", samples=1, layers=1)
    assert reason(path, tmp_path / "o", "delta_validation") == (
        "needs ffd with a grid of deltas", "--selector ffd --delta 1:12:0.5")


def test_only_deltas_of_all_samples_are_compared(tmp_path, monkeypatch):
    """One of two pooled files, of other prompts, has a delta more; it is the smallest that meets a target there."""
    grids = {"a": ["3", "5", "7"], "b": ["3", "7"]}
    paths = []
    for name, grid in grids.items():
        monkeypatch.setitem(results_maker.GRIDS, "delta", (grid, [float(text) for text in grid]))
        path = results_maker.write_results(tmp_path / f"{name}.h5", [results_maker.ffd()], samples={name: [2, 5]},
                                           dump=name)
        paths.append(path)
        with h5py.File(path, "r+") as file:
            file[f"dumps/0/samples/{name}/ffd/recall"][...] = [{"3": 0.9, "5": 0.995, "7": 0.995}[d] for d in grid]
            file[f"dumps/0/samples/{name}/ffd/lse_error"][...] = 0.3
    texts = findings(make(paths, tmp_path / "out", "delta_validation"))
    assert texts[0].startswith("The smallest shared delta of ffd with mean recall ≥ 0.99 over all cells is 7: ")
    assert texts[0].endswith("; every head reaches it at some shared delta and at all larger ones.")
    assert texts[2].startswith("No shared delta of ffd up to 7 gives max LSE error ≤ 0.2 over all cells; ")
    rows = read_csv(tmp_path / "out/delta_validation_heads.csv")
    assert {row["delta"] for row in rows if row["target"] == "recall_mean >= 0.99"} == {"7"}
    caption = (tmp_path / "out/captions.md").read_text()
    assert "The smallest delta that all samples share at which" in caption
    assert "; 1 of the 3 settings of ffd are not of all samples; 24 to 48 cells " in caption


def test_prompts_without_a_delta_in_common(tmp_path, monkeypatch):
    paths = []
    for name, delta in {"a": 5, "b": 7}.items():
        monkeypatch.setitem(results_maker.GRIDS, "delta", ([str(delta)], [delta]))
        paths.append(results_maker.write_results(tmp_path / f"{name}.h5", [results_maker.ffd()], samples={"s": [2]},
                                                 dump=name))
    (text,) = findings(make(paths, tmp_path / "out", "delta_validation"))
    assert text.startswith("The samples have no delta of ffd in common")
    with h5py.File(paths[1], "r+") as file:
        file["dumps/0"].attrs["path"] = "a"
    said = findings(make(paths, tmp_path / "same", "delta_validation"))
    assert said[0].startswith(("The smallest studied delta of ffd ", "No studied delta of ffd up to 7 ")), (
        "two files of one prompt have its deltas together")
