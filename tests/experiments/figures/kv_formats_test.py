"""kv_formats: rungs and bytes of the csv and of the table by numpy from the cells; keys and values apart."""

import re

import h5py
import numpy as np
import pytest
from program_study import cells, findings, make, make_study, number, read_csv, reason, same

RUNGS = {"mean": np.mean, "p95": lambda x: np.quantile(x, 0.95), "p99": lambda x: np.quantile(x, 0.99),
         "p999": lambda x: np.quantile(x, 0.999), "worst": np.max}
MEASURES = {"recall_deficit": ("recall", lambda x: 1 - x), "lse_error": ("lse_error", lambda x: x)}
# Bytes of a token of 32 channels each: native 2C, fp8 C, nvfp4 9C/16, q8_0 34C/32.
BYTES = {"fp8": 64, "k_fp8": 32 + 64, "v_fp8": 64 + 32, "k_nvfp4": 18 + 64, "mixed": 34 + 18}
OPTIONS = {"fp8": "k=fp8_e4m3,v=fp8_e4m3", "k_fp8": "k=fp8_e4m3", "v_fp8": "v=fp8_e4m3", "k_nvfp4": "k=nvfp4",
           "mixed": "k=q8_0,v=nvfp4"}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    path = make_study(folder, ["exact", "ffd", *(f"{label}=kv_cache:{text}" for label, text in OPTIONS.items())],
                      "--delta", "5", layers=3, tokens=400)
    return path, folder / "out", make(path, folder / "out", "kv_formats")


def expected(path, label, rung, layer=None):
    get = lambda metric: cells([path], label, metric, "", (lambda y: y == layer) if layer is not None
                               else (lambda y: True))
    numbers = {name: RUNGS[rung](badness(get(metric))) for name, (metric, badness) in MEASURES.items()}
    return numbers | {"bytes": BYTES[label], "cells": get("recall").size}


def test_rungs_are_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "kv_formats.csv")
    assert {row["label"] for row in rows} == set(OPTIONS) and len(rows) == len(OPTIONS) * (1 + 3) * len(RUNGS)
    for row in rows:
        layer = None if row["layer"] in ("", "nan") else int(float(row["layer"]))
        same(row, expected(path, row["label"], row["rung"], layer))
    assert {row["layer"] for row in rows if row["curve"].endswith(" by layer")} == {"0", "1", "2"}


def test_keys_and_values_apart(study):
    path, out, _ = study
    rows = {row["format"]: row for row in read_csv(out / "kv_formats_table.csv")}
    assert set(rows) == {"fp8_e4m3, unit", "nvfp4, amax", "q8_0 / nvfp4, amax"}
    for format_, side, label in (("fp8_e4m3, unit", "k", "k_fp8"), ("fp8_e4m3, unit", "v", "v_fp8"),
                                 ("fp8_e4m3, unit", "both", "fp8"),
                                 ("nvfp4, amax", "k", "k_nvfp4"), ("q8_0 / nvfp4, amax", "both", "mixed")):
        for rung in ("mean", "p99", "worst"):
            want = expected(path, label, rung)
            same(rows[format_],
                 {f"{side}_{name}_{rung}": want[name] for name in MEASURES} | {f"{side}_bytes": want["bytes"]})
    assert rows["nvfp4, amax"]["both_bytes"] in ("", "nan") and rows["nvfp4, amax"]["v_bytes"] in ("", "nan")
    # Values alone leave the scores alone.
    assert number(rows["fp8_e4m3, unit"], "v_lse_error_worst") == 0 < number(
        rows["fp8_e4m3, unit"], "k_lse_error_worst")


def test_findings_quote_the_cells(study):
    path, _, said = study
    texts = findings(said)
    assert len(texts) == len(OPTIONS) + 1
    for label, text in zip(OPTIONS, texts[:-1], strict=True):
        want = {rung: expected(path, label, rung) for rung in ("mean", "p99", "worst")}
        assert text.startswith(
            f"{label}, {BYTES[label]} bytes per token and KV head: the recall deficit is "
            f"{want['mean']['recall_deficit']:.3g} in the mean, ")
        worst = max(range(3), key=lambda y: expected(path, label, "p99", y)["recall_deficit"])
        assert re.search(rf"the worst layer is {worst} \(", text)
    keys, values = (expected(path, label, "p99")["recall_deficit"] for label in ("k_fp8", "v_fp8"))
    more, less = ("keys", "values") if keys > values else ("values", "keys")
    assert texts[-1].startswith(
        f"fp8_e4m3, unit: {more} cost more recall than {less} do (a deficit of {max(keys, values):.3g} against ")


def test_equal_costs_are_no_order(study, tmp_path):
    path = tmp_path / "r.h5"
    path.write_bytes(study[0].read_bytes())
    with h5py.File(path, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            sample["v_fp8/recall"][...] = sample["k_fp8/recall"][()]
    deficit = expected(path, "k_fp8", "p99")["recall_deficit"]
    said = findings(make(path, tmp_path / "out", "kv_formats"))
    assert said[-1] == (f"fp8_e4m3, unit: keys cost as much recall as values do (a deficit of {deficit:.3g} or more in "
                        "1 % of the cells).")


def test_a_few_cells_have_no_one_per_cent(tmp_path):
    path = make_study(tmp_path, [f"{label}=kv_cache:{OPTIONS[label]}" for label in ("k_fp8", "v_fp8")], layers=2,
                      tokens=300, samples=1)
    said = findings(make(path, tmp_path / "out", "kv_formats"))
    worst = {label: expected(path, label, "worst")["recall_deficit"] for label in ("k_fp8", "v_fp8")}
    assert all(" or more in " not in text for text in said)
    assert f" in the mean and {worst['k_fp8']:.3g} in the worst of 24 cells" in said[0] \
        and "in its worst cell)" in said[0]
    more, less = sorted(worst.values(), reverse=True)
    assert said[-1].endswith(f"(a deficit of {more:.3g} against {less:.3g} in the worst cell).")


def test_formats_that_differ_in_other_options_are_not_compared(tmp_path):
    path = make_study(tmp_path, ["k=kv_cache:k=fp8_e4m3,dense_heads=0:1", "v=kv_cache:v=fp8_e4m3",
                                 "dense=kv_cache:v=fp8_e4m3,dense_heads=0:1"], layers=2, tokens=300, samples=1)
    said = findings(make(path, tmp_path / "out", "kv_formats"))
    assert len(said) == 4 and re.match(r"fp8_e4m3, unit: (keys|values) cost more recall than ", said[-1])
    first, second = read_csv(tmp_path / "out" / "kv_formats_table.csv")
    assert (first["format"], second["format"]) == ("fp8_e4m3, unit", "fp8_e4m3, unit (v)")
    for row, side, label in ((first, "k", "k"), (first, "v", "dense"), (second, "v", "v")):
        worst = max(1 - cells([path], label, "recall", ""))
        same(row, {f"{side}_recall_deficit_worst": worst})
    assert second["k_bytes"] in ("", "nan") and number(second, "v_bytes") > 0


def test_formats_of_other_prompts_are_not_compared(tmp_path):
    paths = [make_study(tmp_path, [f"{label}=kv_cache:{OPTIONS[label]}"], name=label, layers=2, tokens=300,
                        samples=samples, seed=samples) for samples, label in ((1, "k_fp8"), (2, "v_fp8"))]
    said = make(paths, tmp_path / "out", "kv_formats")
    assert len(findings(said)) == 2 and not any("cost" in text for text in findings(said))
    captions = [figure["caption"] for one in said["experiments"] for figure in one["figures"]]
    assert captions and all("; 24 to 48 cells (layer, query, head)" in caption for caption in captions)


def test_what_it_needs(tmp_path):
    path = make_study(tmp_path, ["exact", "ffd"], "--delta", "5", layers=2, tokens=300, samples=1)
    for experiment in ("kv_formats", "kv_range"):
        why, run = reason(path, tmp_path / experiment, experiment)
        assert why.startswith("needs kv_cache") and "--selector kv_fp8=kv_cache:k=fp8_e4m3,v=fp8_e4m3" in run
