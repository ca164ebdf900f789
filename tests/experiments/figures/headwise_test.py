"""`attest figures --only headwise`: numpy recomputes the table and the maps, the sentences quote them."""

import json
import re

import h5py
import numpy as np
import pytest
from study_maker import blocks, figures, make, make_of_two_dumps, read_csv, same
from results_maker import EXACT, ffd, quest


@pytest.fixture
def study(tmp_path):
    tasks = {"a": "needle", "b": "words", "c": "words"}
    path = make(tmp_path / "r.h5", [EXACT, ffd(), ffd("heads", "per_head"), ffd("four", bits=4), quest()], tasks,
                skipped=[("b", 5)])
    return path, tmp_path / "out", figures(path, tmp_path / "out", "--only", "headwise")


def pairs(path, label, metric, sample=None):
    """A pair's value: the mean over the queries of one sample."""
    found = [np.nanmean(block, axis=0) for name, _, _, block in blocks(path, label, metric, "5")
             if sample in (None, name) and not np.isnan(block).all()]
    values = np.concatenate(found)
    return values[~np.isnan(values)]


def test_table_has_a_row_per_sample_and_never_averages_samples(study):
    path, out, _ = study
    rows = read_csv(out / "headwise_table.csv")
    assert [(r["label"], r["gqa"], r["sample"], r["task"]) for r in rows] == [
        (label, gqa, sample, task) for label, gqa in (("ffd", "union"), ("heads", "per_head"))
        for sample, task in (("a", "needle"), ("b", "words"), ("c", "words"), ("all", ""))]
    for row in rows:
        sample = None if row["sample"] == "all" else row["sample"]
        keep, hits = (pairs(path, row["label"], metric, sample) for metric in ("keep_ratio", "salient_hit_rate"))
        assert float(row["pairs"]) == keep.size
        expected = {"keep_percent_mean": keep.mean(), "keep_percent_std": keep.std(), "keep_percent_min": keep.min(),
                    "keep_percent_max": keep.max(), "hit_rate_percent_mean": hits.mean(),
                    "hit_rate_percent_min": hits.min()}
        for column, value in expected.items():
            assert float(row[column]) == pytest.approx(100 * value, abs=2e-4), (row["sample"], column)
    assert float(rows[3]["pairs"]) == (4 + 3 + 2) * 4, "layer 5 of sample b was left out"


def test_maps_are_means_of_heads(study):
    path, out, _ = study
    for label, gqa in (("ffd", "union"), ("heads", "per_head")):
        rows = read_csv(out / f"headwise_{gqa}.csv")
        assert sorted((int(r["layer"]), int(r["head"])) for r in rows) == [
            (y, h) for y in (0, 1, 2, 5) for h in range(4)]
        for row in rows:
            for metric in ("keep_ratio", "recall", "salient_hit_rate"):
                found = [np.nanmean(block[:, int(row["head"])])
                         for _, _, layer, block in blocks(path, label, metric, "5")
                         if layer == int(row["layer"]) and not np.isnan(block[:, int(row["head"])]).all()]
                assert same(row, metric, np.mean(found)), (gqa, row)


def test_a_policy_of_any_name_is_no_path(tmp_path):
    path = make(tmp_path / "r.h5", [ffd(gqa="../a/b")])
    figures(path, tmp_path / "out", "--only", "headwise")
    assert (tmp_path / "out/headwise_..-a-b.csv").is_file()


def test_sentences_quote_the_table(study):
    _, out, said = study
    row = next(r for r in read_csv(out / "headwise_table.csv") if (r["label"], r["sample"]) == ("heads", "all"))
    number = lambda column: f"{float(row[column]):.2f}"
    assert (
        f"heads (gqa=per_head) keeps {number('keep_percent_mean')} % of the tokens of a layer-head pair on average "
        f"(std {number('keep_percent_std')}, "
            f"from {number('keep_percent_min')} to {number('keep_percent_max')} %) over 36 pairs of 3 samples; "
            f"the mean salient hit rate is {number('hit_rate_percent_mean')} %") in said
    head, layer, rate = re.search(
        r"The head of heads with the lowest salient hit rate is head (\d+) of layer (\d+): (\S+) %", said).groups()
    worst = min(read_csv(out / "headwise_per_head.csv"), key=lambda r: float(r["salient_hit_rate"]))
    assert (worst["head"], worst["layer"]) == (head, layer)
    assert float(rate) == pytest.approx(100 * float(worst["salient_hit_rate"]), abs=0.06)


def test_one_policy_names_the_other(tmp_path):
    path = make(tmp_path / "r.h5", [ffd("four", bits=4), ffd("heads", "per_head")])
    said = figures(path, tmp_path / "out", "--only", "headwise")
    assert "The results hold gqa=union only" in said and "--selector heads=ffd:gqa=per_head" in said
    assert not (tmp_path / "out/headwise_per_head.csv").exists(), (
        "another number of bits is no other policy of the same selector")


def test_without_delta_5_it_says_what_to_run(tmp_path):
    said = figures(make(tmp_path / "r.h5", [quest()]), tmp_path / "out")
    assert "left out: headwise (tiny): needs ffd with delta 5 in its grid; attest run ... --selector ffd --delta 5" \
        in said


def test_no_sample_has_the_name_of_the_row_of_all(tmp_path):
    path, own = make_of_two_dumps(tmp_path / "r.h5", [ffd()], {name: [0, 1] for name in ("all", "sample all")})
    figures(path, tmp_path / "out", "--only", "headwise")
    rows = read_csv(tmp_path / "out/headwise_table.csv")
    assert [r["sample"] for r in rows] == ["sample all", "sample sample all", "all of second.h5",
                                           "sample all of second.h5", "all"]
    assert [int(r["pairs"]) for r in rows] == [8, 8, 8, 8, 32]
    for row, of in zip(rows, [(own[0], "all"), (own[0], "sample all"), (own[1], "all"), (own[1], "sample all")]):
        assert float(row["keep_percent_mean"]) == pytest.approx(
            100 * pairs(of[0], "ffd", "keep_ratio", of[1]).mean(), abs=2e-4)


def test_hit_rates_are_those_of_the_sample(tmp_path):
    """The first of two pooled files has no hit rates: those of the second are of its own samples."""
    paths = [make(tmp_path / f"{name}.h5", [ffd()], samples={name: [2, 5]}, dump=name, seed=seed)
             for seed, name in enumerate("ab")]
    with h5py.File(paths[0], "r+") as file:
        del file["dumps/0/samples/a/ffd/salient_hit_rate"]
    figures(paths, tmp_path / "out", "--only", "headwise")
    rows = {row["sample"]: row for row in read_csv(tmp_path / "out/headwise_table.csv")}
    hits = 100 * pairs(paths[1], "ffd", "salient_hit_rate").mean()
    assert rows["a"]["hit_rate_percent_mean"] == "nan"
    assert [float(rows[sample]["hit_rate_percent_mean"]) for sample in ("b", "all")] == pytest.approx([hits] * 2,
                                                                                                       abs=2e-4)


@pytest.mark.parametrize("experiment", ["headwise", "failure_cases", "layer_sparsity"])
def test_places_have_the_setting_as_typed(tmp_path, experiment):
    path = make(tmp_path / "r.h5", [ffd()])
    with h5py.File(path, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            sample["ffd/setting_labels"][...] = ["3.0", "5.0", "7.0"]
    said = json.loads(figures(path, tmp_path / "out", "--only", experiment, "--json"))
    places = [finding["place"] for finding in said["experiments"][0]["findings"] if "place" in finding]
    assert places and {place["setting"] for place in places} <= {"5.0", "7.0"}
