"""`attest figures --only head_weights`: numpy recomputes the csv files and tables, the sentences quote them."""

import json

import h5py
import numpy as np
import pytest
from near import FLOAT32, assert_near
from results_maker import EXACT, ffd, quest, selector
from study_maker import figures, make, read_csv, same

LABELS = ("best", "ffd", "quest")
GROUP = 2


def add_weights(path, weighted=("a", "b", "c")):
    """Weights of each sample, and weighted errors, which are 0 in dense layers."""
    rng = np.random.default_rng(4)
    with h5py.File(path, "r+") as file:
        for name, sample in file["dumps/0/samples"].items():
            if name not in weighted:
                continue
            layers, queries, heads = sample["scores/lse"].shape
            weights = rng.exponential(1, (layers, 1, heads)).repeat(queries, 1)
            sample["scores/head_weight"] = weights.astype(np.float32)
            for label in LABELS:
                group = sample[label]
                error = weights[..., None] * rng.exponential(1, group["recall"].shape)
                own = rng.exponential(1, error.shape)
                for array in (error, own):
                    array[group["dense"][()] == 1] = 0
                    array[group["done"][()] == 0] = np.nan
                group["output_error"] = own.astype(np.float32)
                group["weighted_error_head"] = error.astype(np.float32)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("head_weights")
    path = make(folder / "r.h5", [EXACT, ffd(), quest(), selector("best", "topk", "budget")], spans=("a", "c"),
                skipped=[("a", 5)])
    add_weights(path)
    return path, folder / "out", figures(path, folder / "out", "--only", "head_weights")


def samples(path):
    with h5py.File(path) as file:
        for name, sample in file["dumps/0/samples"].items():
            yield name, sample


def weights_of(path):
    """{(layer, head): mean weight over the samples that have the layer}"""
    found = {}
    for name, sample in samples(path):
        for y, layer in enumerate(sample["layers"][()]):
            if sample["ffd/done"][y]:
                for head in range(4):
                    found.setdefault((int(layer), head), []).append(float(sample["scores/head_weight"][y, 0, head]))
    return {place: np.mean(values) for place, values in found.items()}


def masses_of(path):
    found = {}
    for name, sample in samples(path):
        if "span_mass" in sample["scores"]:
            for y, layer in enumerate(sample["layers"][()]):
                if sample["ffd/done"][y]:
                    for head in range(4):
                        found.setdefault((int(layer), head), []).extend(
                            sample["scores/span_mass"][y, :, head].astype(float))
    return {place: np.mean(values) for place, values in found.items()}


def rows_of(path, label, setting):
    """(sample, [(layer, [queries, heads])]) of the weighted errors."""
    for name, sample in samples(path):
        s = sample[label]["setting_labels"].asstr()[()].tolist().index(setting)
        done = sample[label]["done"][()] == 1
        yield name, [(int(layer), sample[label]["weighted_error_head"][y, :, :, s].astype(float))
                     for y, layer in enumerate(sample["layers"][()]) if done[y]]


def test_heads_are_ranked_by_weight(study):
    path, out, printed = study
    rows, weights, masses = read_csv(out / "head_weights.csv"), weights_of(path), masses_of(path)
    order = sorted(weights, key=lambda place: -weights[place])
    assert [(int(r["layer"]), int(r["head"])) for r in rows] == order and len(order) == 16
    total, so_far = sum(weights.values()), 0
    for rank, (row, place) in enumerate(zip(rows, order), 1):
        so_far += weights[place]
        assert int(row["rank"]) == rank and int(row["kv_head"]) == place[1] // GROUP
        assert same(row, "weight", weights[place]) and same(row, "of_all", weights[place] / total)
        assert same(row, "so_far", so_far / total) and same(row, "span_mass", masses[place])
    most = max(masses, key=masses.get)
    half = int(np.searchsorted(np.cumsum([weights[p] for p in order]), total / 2)) + 1
    assert (
        f"The answer listens most to layer {order[0][0]} head {order[0][1]}: {100 * weights[order[0]] / total:.1f} % "
        f"of the sum of all weights over 3 prompts; {half} of 16 heads have half of it. The head with most attention "
        f"on the evidence, layer {most[0]} head {most[1]}, is number {order.index(most) + 1} of them.") in printed


def shares(path, label, setting):
    parts, total, rows = {}, 0, 0
    for _, layers in rows_of(path, label, setting):
        rows += 3
        for layer, errors in layers:
            root = np.sqrt((errors**2).sum(1))
            total += root.sum()
            for head in range(4):
                with np.errstate(invalid="ignore"):
                    part = np.where(root > 0, errors[:, head]**2 / root, 0).sum()
                parts[layer, head] = parts.get((layer, head), 0) + part
    return {place: part / total for place, part in parts.items()}, total / rows


def test_shares_of_the_weighted_error(study):
    path, out, printed = study
    rows = read_csv(out / "head_weights_errors.csv")
    assert {(r["label"], r["setting"]) for r in rows} == {
        ("ffd", "3"), ("ffd", "5"), ("ffd", "7"),
        *((label, s) for label in ("best", "quest") for s in ("256", "1024", "50%"))}
    seen = {}
    for row in rows:
        key = row["label"], row["setting"]
        found, mean = seen.setdefault(key, shares(path, *key))
        place = int(row["layer"]), int(row["head"])
        assert same(row, "share", found[place]) and same(row, "weighted_error", mean)
    for key, (found, _) in seen.items():
        listed = [float(r["share"]) for r in rows if (r["label"], r["setting"]) == key]
        assert_near(listed, sorted(found.values(), reverse=True)[:8], rel=FLOAT32)
        assert abs(sum(found.values()) - 1) < 1e-9
    drawn = read_csv(out / "head_weights_error.csv")
    heaviest = sorted(weights_of(path).items(), key=lambda e: -e[1])[:5]
    assert {(int(r["layer"]), int(r["head"])) for r in drawn} == {place for place, _ in heaviest}
    found, mean = seen["ffd", "5"]
    first = max(found, key=found.get)
    assert f"ffd at delta 5: weighted error {mean:.3g} logits on average" in printed
    assert f"most in layer {first[0]} head {first[1]}, {100 * found[first]:.1f} %." in printed
    assert "best at budget" not in printed  # an oracle


def left(path, label, setting, dense):
    """Mean and largest weighted error, and mean io, with these (layer, KV head) dense."""
    errors, io = [], []
    for name, layers in rows_of(path, label, setting):
        total = np.zeros(3)
        for layer, e in layers:
            keep = np.array([(layer, h // GROUP) not in dense for h in range(4)])
            total += np.sqrt((e**2)[:, keep].sum(1))
        errors.extend(total)
    for name, sample in samples(path):
        s = sample[label]["setting_labels"].asstr()[()].tolist().index(setting)
        for y, layer in enumerate(sample["layers"][()]):
            cells = sample[label]["io_ratio"][y, :, :, s].astype(float)
            for h in range(4):
                cells[:, h] = np.where(np.isnan(cells[:, h]), np.nan, 1 if (int(layer), h // GROUP) in dense
                                       else cells[:, h])
            io.extend(cells.ravel())
    return np.mean(errors), np.max(errors), np.nanmean(io)


def test_what_dense_kv_heads_leave(study):
    path, out, printed = study
    rows = read_csv(out / "head_weights_kept_dense.csv")
    weights = {}
    for (layer, head), w in weights_of(path).items():
        weights[layer, head // GROUP] = weights.get((layer, head // GROUP), 0) + w * w
    by_weight = sorted(weights, key=lambda place: -weights[place])
    settings = {"ffd": ("delta 5", "5"), "quest": ("budget 1024", "1024"), "best": ("budget 1024", "1024")}
    for label, (words, typed) in settings.items():
        mine = [r for r in rows if r["label"] == label]
        assert {r["setting"] for r in mine} == {words}
        assert {r["by"] for r in mine} == {"weight", "output error", "attention on the evidence", "chance"}
        for row in mine:
            count = int(row["dense_kv_heads"])
            if row["by"] == "chance":
                assert row["dense_heads"] == ""
                continue
            dense = [tuple(map(int, text.split(":"))) for text in row["dense_heads"].split("+") if text]
            assert len(dense) == count
            if row["by"] == "weight":
                assert dense == by_weight[:count]
            mean, largest, io = left(path, label, typed, dense)
            assert same(row, "weighted_error_mean", mean) and same(row, "weighted_error_max", largest) \
                and same(row, "io_ratio", io)
        assert [int(r["dense_kv_heads"]) for r in mine if r["by"] == "weight"] == [0, 1, 2, 4]
        chance = [float(r["weighted_error_mean"]) for r in mine if r["by"] == "chance"]
        assert chance == sorted(chance, reverse=True) and chance[0] == pytest.approx(left(path, label, typed, [])[0])
    first = ":".join(map(str, by_weight[0]))
    none, one = left(path, "ffd", "5", []), left(path, "ffd", "5", by_weight[:1])
    assert (
        f"ffd at delta 5: keeping the KV head that weighs most dense (dense_heads={first}) takes the mean weighted "
        f"error from {none[0]:.3g} to {one[0]:.3g} logits, and the bytes from {100 * none[2]:.1f} to "
        f"{100 * one[2]:.1f} %") in printed


def test_places_of_findings_name_the_head(study, tmp_path):
    path, _, _ = study
    said = json.loads(figures(path, tmp_path / "out", "--only", "head_weights", "--json"))
    places = [finding["place"] for finding in said["experiments"][0]["findings"] if "place" in finding]
    weights = weights_of(path)
    assert (places[0]["layer"], places[0]["head"]) == max(weights, key=weights.get) and places[0]["statistic"] is None


def test_without_weights_it_says_what_is_missing(tmp_path):
    path = make(tmp_path / "r.h5", [EXACT, ffd()])
    printed = figures(path, tmp_path / "out", "--only", "head_weights", expect=None)
    assert "needs head weights: dumps of attest capture --head-weights, or attest run --weights" in printed


def test_prompts_without_weights_are_left_out(tmp_path):
    path = make(tmp_path / "r.h5", [EXACT, ffd(), quest(), selector("best", "topk", "budget")])
    add_weights(path, weighted=("a", "b"))
    printed = figures(path, tmp_path / "out", "--only", "head_weights")
    assert "over 2 prompts" in printed and "attention on the evidence" not in printed
    assert {r["span_mass"] for r in read_csv(tmp_path / "out/head_weights.csv")} == {"nan"}
    rows = read_csv(tmp_path / "out/head_weights_kept_dense.csv")
    assert "attention on the evidence" not in {r["by"] for r in rows}
    none = next(r for r in rows if r["label"] == "ffd" and r["dense_kv_heads"] == "0")
    io = [sample["ffd/io_ratio"][..., 1].astype(float).ravel() for name, sample in samples(path) if name in ("a", "b")]
    assert same(none, "io_ratio", np.nanmean(np.concatenate(io))), (
        "bytes are of the prompts whose errors stand beside them")


def test_bytes_that_results_lack_are_not_in_the_sentence(tmp_path):
    path = make(tmp_path / "r.h5", [EXACT, ffd(), quest(), selector("best", "topk", "budget")])
    add_weights(path)
    with h5py.File(path, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            for label in LABELS:
                sample[label].pop("io_ratio", None)
    printed = figures(path, tmp_path / "out", "--only", "head_weights")
    assert "ffd at delta 5: keeping the KV head that weighs most dense" in printed
    assert "nan" not in printed and "and the bytes" not in printed
