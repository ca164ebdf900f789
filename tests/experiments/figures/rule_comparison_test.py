"""rule_comparison: three rules at equal mean keep ratio, binned by entropy, by numpy from the cells."""

import re

import h5py
import numpy as np
import pytest
from program_study import findings, make, make_study, number, read_csv, reason, same, spoil

FFD = [f"{rule}=ffd:rule={rule},sub_block=32,gqa=per_head" for rule in ("topk", "topp", "topdelta")]
ORACLES = ["ok=topk", "op=topp", "od=topdelta", "block=topk:granularity=block"]
GRIDS = ["--budget", "64,1%,25%,50%,100%", "--p", "0.3,0.9,0.999,1", "--delta", "7,1,5,12"]
NAMES = {"oracle": ["ok", "op", "od"], "ffd": ["topk", "topp", "topdelta"]}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rules")
    path = make_study(folder, FFD[:1] + ORACLES + FFD[1:], *GRIDS, tokens=3000)
    spoil(path, "op", ("recall", "keep_ratio"), skipped=("synthetic-0001", 2))
    return path, folder / "out", make(path, folder / "out", "rule_comparison")


def family_cells(path, labels):
    """entropy [cells]; per label: setting -> (keep, recall); cells defined in all of them."""
    entropy, arrays = [], {label: {} for label in labels}
    with h5py.File(path) as file:
        for sample in file["dumps/0/samples"].values():
            done = sample[labels[0]]["done"][()] == 1
            entropy.append(sample["scores/entropy"][()][done].ravel())
            for label in labels:
                for at, setting in enumerate(sample[label]["setting_labels"].asstr()[()]):
                    pair = [sample[label][metric][..., at][done].ravel() for metric in ("keep_ratio", "recall")]
                    arrays[label].setdefault(setting, []).append(np.stack(pair).astype(np.float64))
    arrays = {label: {s: np.concatenate(parts, axis=1) for s, parts in own.items()} for label, own in arrays.items()}
    everything = np.concatenate([pair for own in arrays.values() for pair in own.values()])
    defined = ~np.isnan(everything).any(axis=0)
    chosen = {label: {s: pair[:, defined] for s, pair in own.items()} for label, own in arrays.items()}
    return np.concatenate(entropy).astype(np.float64)[defined], chosen


def test_bins_are_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "rule_comparison.csv")
    assert [row["family"] for row in rows] == sorted((row["family"] for row in rows), reverse=True), "oracles first"
    for family, labels in NAMES.items():
        entropy, arrays = family_cells(path, labels)
        edges = np.quantile(entropy, np.arange(1, 10) / 10)
        bins = np.searchsorted(edges, entropy, side="left")
        own = [row for row in rows if row["family"] == family]
        assert {row["label"] for row in own} == set(labels)
        for row in own:
            delta = re.fullmatch(r"delta (\d)", row["matched_on"]).group(1)
            target = arrays[labels[2]][delta][0].mean()
            assert number(row, "matched_keep_ratio") == pytest.approx(target)
            means = sorted((pair[0].mean(), setting) for setting, pair in arrays[row["label"]].items())
            place = np.searchsorted([mean for mean, _ in means], target - 1e-9)
            high = means[place]
            low = high if abs(high[0] - target) < 1e-9 else means[place - 1]
            assert (row["setting_low"], row["setting_high"]) == (low[1], high[1])
            weight = 0 if low == high else (target - low[0]) / (high[0] - low[0])
            low, high = arrays[row["label"]][low[1]], arrays[row["label"]][high[1]]
            keep, recall = (1 - weight) * low + weight * high
            assert keep.mean() == pytest.approx(target)
            chosen = bins == int(row["bin"]) if row["bin"] != "nan" else np.ones(len(entropy), bool)
            keep, recall, scores = keep[chosen], recall[chosen], entropy[chosen]
            same(row, {"cells": chosen.sum(), "entropy_low": scores.min(), "entropy_mean": scores.mean(),
                       "entropy_high": scores.max(),
                       "keep_mean": keep.mean(), "keep_std": keep.std(), "keep_p5": np.quantile(keep, 0.05),
                       "keep_p95": np.quantile(keep, 0.95), "recall_mean": recall.mean(),
                       "recall_p1": np.quantile(recall, 0.01),
                       "recall_min": recall.min(), "weight_of_high": weight}, abs=5e-6)
    assert {row["matched_on"] for row in rows if row["family"] == "oracle"} == {"delta 5", "delta 7"}


def test_findings_quote_the_csv(study):
    _, out, said = study
    rows = read_csv(out / "rule_comparison.csv")
    text = next(t for t in findings(said) if "oracle" in t and "delta 5" in t)
    for rule in ("top-k", "top-p", "top-delta"):
        own = [r for r in rows if (r["family"], r["rule"], r["matched_on"]) == ("oracle", rule, "delta 5")]
        bins = [r for r in own if r["bin"] != "nan"]
        assert f"{rule} from {100 * number(bins[0], 'keep_mean'):.2f} to {100 * number(bins[-1], 'keep_mean'):.2f} %" \
            in text
        whole = next(r for r in own if r["bin"] == "nan")
        assert f"{number(whole, 'recall_mean'):.4f} ({number(whole, 'recall_min'):.3f})" in text


def test_without_the_papers_deltas_the_common_range_is_used(tmp_path):
    path = make_study(tmp_path, ["topk", "topp", "topdelta"], "--budget", "1%,100%", "--p", "0.3,1", "--delta",
                      "1,3,12", samples=1)
    make(path, tmp_path / "o", "rule_comparison")
    rows = read_csv(tmp_path / "o/rule_comparison.csv")
    assert {row["matched_on"] for row in rows} == {"common range"} \
        and {row["rule"] for row in rows} == {"top-k", "top-p", "top-delta"}
    for row in rows:
        if row["bin"] == "nan":
            assert number(row, "keep_mean") == pytest.approx(number(row, "matched_keep_ratio"))


def test_what_is_missing_is_said(tmp_path):
    path = make_study(tmp_path, ["topk", "topp:granularity=block", "topdelta"], "--budget", "64", samples=1, layers=1)
    why, run_options = reason(path, tmp_path / "o", "rule_comparison")
    assert why == "needs top-k, top-p and top-delta: the three oracles, or ffd with the three values of rule"
    assert run_options == "--selector topk --selector topp --selector topdelta"
    apart = make_study(tmp_path, ["topk", "topp", "topdelta"], "--budget", "100%", "--p", "0.5", "--delta", "1",
                       samples=1, layers=1, name="a")
    assert "no mean keep ratio within their grids" in reason(apart, tmp_path / "a", "rule_comparison")[0]
