"""guarantee: gaps against delta and the causes of broken cells, by numpy from the stored gaps."""

import math
import re

import h5py
import numpy as np
import pytest
from program_study import findings, make, make_study, number, read_csv, reason, same, spoil

SELECTORS = {"ffd": "ffd=ffd:bits=1", "log": "log=ffd:bits=1,delta_unit=log2,gqa=per_head",
             "peak": "peak=ffd:bits=1,pseudo_max=exact",
             "exact": "exact=ffd:scan=exact", "global": "global=ffd:pseudo_max=global",
             "raw": "raw=ffd:delta_unit=unscaled"}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarantee")
    path = make_study(folder, [*SELECTORS.values(), "quest"], "--delta", "0.5,inf,7,2,5", "--budget", "256",
                      tokens=3000)
    spoil(path, "ffd", ("dropped_gap",), skipped=("synthetic-0001", 2))
    return path, folder / "out", make(path, folder / "out", "guarantee")


def gaps_of(path, label, setting, layer):
    """Gaps and m - m~ of every cell: [2, cells]."""
    parts = []
    with h5py.File(path) as file:
        for sample in file["dumps/0/samples"].values():
            group = sample[label]
            at = list(group["setting_labels"].asstr()[()]).index(setting)
            get = lambda name: group["pseudo_max_gap_" + name][()].astype(np.float64)
            below = get("all") if label in ("peak", "exact") else get("thumbnail") + get("all") - get("exact")
            rows = (group["done"][()] == 1) & ((sample["layers"][()] == layer) if layer is not None else True)
            parts.append(np.stack([group["dropped_gap"][..., at][rows].ravel(), below[rows].ravel()]))
    return np.concatenate(parts, axis=1)


def test_gaps_and_causes_are_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "guarantee.csv")
    assert {row["label"] for row in rows} == {"ffd", "log", "peak", "exact"}, (
        "thresholds that results do not tell are left out")
    assert len(rows) == 4 * 4 * (1 + 4)
    causes = {name: 0 for name in ("share_scan_error", "share_both", "share_pseudo_max")}
    for row in rows:
        delta = float(row["setting_label"]) * (math.log(2) if row["label"] == "log" else 1)
        cells = gaps_of(path, row["label"], row["setting_label"], None if row["layer"] == "nan" else int(row["layer"]))
        gap, below = cells[:, ~np.isnan(cells[0])]
        assert number(row, "delta_nats") == pytest.approx(delta)
        assert (number(row, "cells"), number(row, "cells_dropping")) == (cells.shape[1], gap.size)
        if gap.size == 0:
            assert row["share_within_delta"] == row["margin_min"] == "nan"
            continue
        margin = gap - delta
        levels = {"min": 0, "p1": 0.01, "p5": 0.05, "p50": 0.5, "p95": 0.95, "max": 1}
        same(row, {f"margin_{name}": np.quantile(margin, p) for name, p in levels.items()})
        broken = margin < 0
        shares = {"share_scan_error": broken & (below >= 0), "share_pseudo_max": broken & (-below >= -margin)}
        shares["share_both"] = broken & ~shares["share_scan_error"] & ~shares["share_pseudo_max"]
        same(row, {name: cells_.mean() for name, cells_ in shares.items()})
        same(row, {"share_within_delta": broken.mean()})
        for name, cells_ in shares.items():
            causes[name] += cells_.sum()
        if row["label"] == "exact":
            assert not broken.any(), "without a scan error and with m~ <= m the guarantee holds"
        if row["label"] == "peak":
            assert number(row, "share_both") == number(row, "share_pseudo_max") == 0
    assert min(causes.values()) > 0, f"not trivial: {causes}"


def test_findings_quote_the_csv(study):
    _, out, said = study
    rows = {r["setting_label"]: r for r in read_csv(out / "guarantee.csv") if r["label"] == "ffd"
            and r["layer"] == "nan"}
    texts = findings(said)
    assert len(texts) == 2
    for text, setting in zip(texts, ("5", "7"), strict=True):
        row = rows[setting]
        if number(row, "cells_dropping") == 0:
            assert text == f"ffd at delta {setting} dropped nothing in any of {row['cells']} cells."
            continue
        shares = re.search(
            r"fails in (\S+) % of the (\d+) cells where ffd at delta (\S+) drops any: in (\S+) % by scan error alone, "
            r"in (\S+) % because the pseudo-max exceeds the maximum, in (\S+) % by both; .* lies (\S+) nats",
                           text).groups()
        columns = ("share_within_delta", "share_scan_error", "share_pseudo_max", "share_both")
        assert (shares[0], *shares[3:6]) == tuple(f"{100 * number(row, column):.1f}" for column in columns)
        assert shares[1:3] == (row["cells_dropping"], setting)
        assert shares[6] == f"{number(row, 'margin_min') + float(setting):.2f}"


def test_where_the_guarantee_holds_it_says_so(tmp_path):
    path = make_study(tmp_path, ["ffd:scan=exact"], "--delta", "2,5", samples=1, layers=2)
    assert "and none within delta of the peak: the closest lies " \
        in findings(make(path, tmp_path / "o", "guarantee"))[0]


def test_what_is_missing_is_said(tmp_path):
    path = make_study(tmp_path, ["quest:dense_layers=0", "ffd:pseudo_max=global"], "--budget", "256", samples=1,
                      layers=1)
    why = "needs ffd at a delta in natural or base-2 units, its pseudo-max from sink and local blocks"
    assert reason(path, tmp_path / "o", "guarantee") == (why, "--selector ffd --delta 1:12:0.5")
    short = make_study(tmp_path, ["ffd"], "--delta", "5", name="s", samples=1, layers=1, tokens=100)
    assert "ffd dropped nothing at any delta" in reason(short, tmp_path / "s", "guarantee")[0]
