"""`attest figures --only failure_cases`: numpy sorts the pairs and recomputes the table, the sentences quote it."""

import re

import h5py
import numpy as np
import pytest
from study_maker import blocks, figures, make, read_csv, same
from results_maker import ffd, quest, selector

ORACLE = selector("oracle", "topdelta", "delta", granularity="block", gqa="union")
SELECTORS = [ffd(pseudo_max="thumbnail"), ffd("global", pseudo_max="global"),
             selector("another", "topdelta", "delta", granularity="block", gqa="per_head"),
             ORACLE, quest(dense_layers=0)]


@pytest.fixture
def study(tmp_path):
    path = make(tmp_path / "r.h5", SELECTORS, skipped=[("b", 5)])
    return path, tmp_path / "out", figures(path, tmp_path / "out", "--only", "failure_cases")


def pair_values(path, label, metric, setting=None, reduce=np.nanmean):
    """(layer, head) -> the mean or maximum over samples and queries."""
    cells = {}
    for _, _, layer, block in blocks(path, label, metric, setting):
        for head in range(block.shape[1]):
            cells.setdefault((layer, head), []).extend(v for v in block[:, head] if not np.isnan(v))
    return {pair: reduce(values) for pair, values in cells.items() if values}


def classes(path):
    def scores(metric):
        cells = {}
        for sample, _, layer, block in blocks(path, "scores", metric):
            if (sample, layer) == ("b", 5):
                continue  # the scores of a layer that was left out are not used either
            for head in range(block.shape[1]):
                cells.setdefault((layer, head), []).extend(v for v in block[:, head] if not np.isnan(v))
        return {pair: np.mean(values) for pair, values in cells.items() if values}

    gap, std = scores("top1_top2_gap"), scores("score_std")
    limits = np.quantile(list(gap.values()), 0.1), np.quantile(list(std.values()), 0.1)
    low_gap, low_std = ({p for p, v in values.items() if v <= limit}
                        for values, limit in ((gap, limits[0]), (std, limits[1])))
    return {"regular": set(gap) - low_gap - low_std, "proxy-error": low_gap | low_std,
            "high-error": low_gap & low_std}, gap, std, limits


def test_table_is_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "failure_cases_table.csv")
    members, gap, _, _ = classes(path)
    assert 0 < len(members["proxy-error"]) < len(gap), "the case is not trivial"
    assert [(r["label"], r["role"]) for r in rows[::3]] == [
        ("ffd", "ffd"), ("global", "global pseudo-max"), ("oracle (oracle)", "oracle")]
    for row in rows:
        label, chosen = row["label"].split(" ")[0], members[row["class"]]
        assert float(row["pairs"]) == len(chosen)
        assert same(row, "share_percent", 100 * len(chosen) / len(gap))
        expected = {"keep_percent": ("keep_ratio", "5", np.mean, 100),
                    "hit_rate_percent": ("salient_hit_rate", "5", np.mean, 100),
                    "missed_mass_percent": ("missed_salient_mass", "5", np.mean, 100),
                    "lse_error_max": ("lse_error", "5", np.max, 1),
                    "pseudo_max_gap_exact": ("pseudo_max_gap_exact", None, np.mean, 1),
                    "pseudo_max_gap_thumbnail": ("pseudo_max_gap_thumbnail", None, np.mean, 1)}
        for column, (metric, setting, reduce, factor) in expected.items():
            values = pair_values(path, label, metric, setting, reduce)
            found = [values[p] for p in chosen if p in values]
            assert same(row, column, factor * np.mean(found) if found else np.nan), (row["label"], row["class"], column)


def test_scatter_has_every_pair_once(study):
    path, out, _ = study
    rows = read_csv(out / "failure_cases.csv")
    members, gap, std, limits = classes(path)
    assert len(rows) == len(gap) == len({(r["layer"], r["head"]) for r in rows})
    for row in rows:
        pair = int(row["layer"]), int(row["head"])
        assert same(row, "top1_top2_gap", gap[pair]) and same(row, "score_std", std[pair])
        narrowest = "high-error" if pair in members["high-error"] else "proxy-error" if pair in members[
            "proxy-error"] else "regular"
        assert row["curve"] == narrowest
    arrows = re.findall(r"set arrow from (?:first ([\d.]+), graph 0|graph 0, first ([\d.]+))",
                        (out / "failure_cases.gp").read_text())
    drawn = [float(a or b) for a, b in arrows]
    assert drawn == pytest.approx(limits, rel=1e-4), "limits are reference lines"


def test_sentences_quote_the_table(study):
    _, out, said = study
    rows = {(r["role"], r["class"]): r for r in read_csv(out / "failure_cases_table.csv")}
    number = lambda role, kind, column, digits=2: f"{float(rows[role, kind][column]):.{digits}f}"
    for role, label in (("ffd", "ffd"), ("global pseudo-max", "global"), ("oracle", "oracle")):
        assert (
            f"{label} at delta 5 keeps {number(role, 'regular', 'keep_percent')} % of the tokens of regular pairs and "
                f"{number(role, 'proxy-error', 'keep_percent')} % of proxy-error pairs "
                f"({number(role, 'proxy-error', 'share_percent', 1)} % of all); "
                f"their salient hit rates are {number(role, 'regular', 'hit_rate_percent')} and "
                f"{number(role, 'proxy-error', 'hit_rate_percent')} %") in said
    gaps = [float(rows["ffd", kind]["pseudo_max_gap_exact"]) for kind in ("regular", "proxy-error")]
    assert f"by {gaps[0]:.3f} nats on average on regular pairs and {gaps[1]:.3f} on proxy-error pairs" in said
    assert ("which is not the larger one here" in said) == (gaps[1] <= gaps[0])
    for role in ("global pseudo-max", "oracle"):
        ratio = lambda r: float(rows[r, "proxy-error"]["keep_percent"]) / float(rows[r, "regular"]["keep_percent"])
        label = rows[role, "regular"]["label"].split(" ")[0]
        assert (f"{label} needs no pseudo-max and keeps {ratio(role):.2f} times" in said) == (ratio(role) > 1.1)


def test_what_is_not_measured_is_not_judged(tmp_path):
    path = make(tmp_path / "r.h5", SELECTORS)
    with h5py.File(path, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            for label in ("ffd", "global"):
                del sample[label]["pseudo_max_gap_exact"]
            sample["ffd/salient_hit_rate"][...] = np.nan
    said = figures(path, tmp_path / "out", "--only", "failure_cases")
    assert "ffd at delta 5 keeps " in said and "nan" not in said and "The pseudo-max of" not in said
    assert "any top-delta rule" not in said, "of one selector nothing is said about all"


def test_missing_selectors_are_named(tmp_path):
    path = make(tmp_path / "r.h5", [ffd(pseudo_max="thumbnail"), quest()])
    said = figures(path, tmp_path / "out", "--only", "failure_cases")
    assert "What heads keep without a pseudo-max is not in the results" in said and "topdelta:granularity=block" in said
    path = make(tmp_path / "o.h5", [ffd(pseudo_max="thumbnail"), ORACLE])
    said = figures(path, tmp_path / "oracle", "--only", "failure_cases")
    assert "What heads keep with a global pseudo-max is not in the results" in said and "without a pseudo" not in said
    none = figures(make(tmp_path / "q.h5", [quest()]), tmp_path / "none")
    assert "left out: failure_cases (tiny): needs ffd with delta 5 in its grid" in none


def test_studies_side_by_side_have_axes_of_their_own(tmp_path):
    paths = [make(tmp_path / f"{model}.h5", SELECTORS, model=model, dump=model, seed=seed)
             for seed, model in enumerate(("one", "two"))]
    figures(paths, tmp_path / "out", "--only", "failure_cases")
    script = (tmp_path / "out/failure_cases.gp").read_text()
    assert script.count("set xtics (") == 2 and "set xtics (''" not in script, "ranges differ: each panel has its tics"
