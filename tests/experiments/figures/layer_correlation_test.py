"""`attest figures --only layer_correlation`: numpy recomputes the csv, the sentences quote it."""

import re

import h5py
import numpy as np
import pytest
from study_maker import blocks, figures, make, make_of_two_dumps, pooled, read_csv, same
from results_maker import EXACT, ffd, quest, selector

METRICS = ("spearman", "spearman_block16", "spearman_block128")


@pytest.fixture
def study(tmp_path):
    """quest has no estimate in layers 0 and 1; quest0 has, and ffd2 has the estimate of ffd."""
    selectors = [EXACT, ffd(), quest(), quest("quest0", 0), selector("streaming", "streaming_llm", "budget"),
                 ffd("ffd2", "per_head")]
    path = make(tmp_path / "r.h5", selectors, skipped=[("b", 5)])
    said = figures(path, tmp_path / "out", "--only", "layer_correlation")
    return path, tmp_path / "out", said


def test_csv_is_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "layer_correlation.csv")
    assert {row["label"] for row in rows} == {"ffd", "ffd2", "quest", "quest0"}
    assert sorted(int(r["layer"]) for r in rows if (r["curve"], r["layers"]) == ("ffd", "one")) == [0, 1, 2, 5]
    assert sorted(int(r["layer"]) for r in rows if (r["curve"], r["layers"]) == ("quest", "one")) == [2, 5]
    for row in rows:
        chosen = {"one": lambda layer: layer == int(row["layer"]), "compared": lambda layer: layer >= 2,
                  "all": lambda layer: True}
        wanted = lambda sample, task, layer: chosen[row["layers"]](layer) and row["sample"] in ("", sample)
        for metric in METRICS:
            values = pooled(blocks(path, row["label"], metric), wanted)
            assert float(row[metric + "_cells"]) == values.size
            assert same(row, metric + "_mean", values.mean() if values.size else np.nan), row
            assert same(row, metric + "_min", values.min() if values.size else np.nan), row
    samples = {row["sample"] for row in rows}
    assert samples == {"", "a", "b", "c"}, "below five samples they are drawn instead of a band"
    counts = [pooled(blocks(path, label, "spearman")).size for label in ("ffd", "quest")]
    assert f"({min(counts)} to {max(counts)} cells per curve)" in (out / "captions.md").read_text()


def test_sentences_count_the_layers(study):
    _, out, said = study
    rows = [r for r in read_csv(out / "layer_correlation.csv") if r["layers"] == "one" and r["sample"] == ""]
    assert "quest has no estimate" not in said, "quest0 shows these layers"
    assert "above that of quest in" not in said
    sentence = next(line for line in said.splitlines() if "of ffd is above that of quest0 in" in line)
    parts = re.findall(r"(\d+) of (\d+) layers \(([^:]+): mean (\S+) against ([\d.]+)\)", sentence)
    assert len(parts) == 3
    for metric, (above, layers, _, ours, theirs) in zip(METRICS, parts, strict=True):
        of = lambda curve: {r["layer"]: float(r[metric + "_mean"]) for r in rows if r["curve"] == curve}
        a, b = of("ffd"), of("quest0")
        assert int(layers) == len(a.keys() & b.keys()) == 4
        assert int(above) == sum(a[k] > b[k] for k in a)
        assert float(ours) == pytest.approx(np.mean(list(a.values())), abs=6e-4)
        assert float(theirs) == pytest.approx(np.mean(list(b.values())), abs=6e-4)


def test_equal_estimates_are_drawn_once(study):
    _, out, _ = study
    script = (out / "layer_correlation.gp").read_text()
    assert "only('ffd'," in script and "only('ffd2'," not in script
    assert "only('quest0'," in script and "only('quest'," not in script
    assert "Equal estimates, drawn once: ffd2 as ffd, quest as quest0." in (out / "captions.md").read_text()


def test_dense_layers_are_named(tmp_path):
    path = make(tmp_path / "r.h5", [ffd(), quest()])
    said = figures(path, tmp_path / "out", "--only", "layer_correlation")
    assert "quest has no estimate in layers 0 and 1, where it is dense: run it with dense_layers=0" in said
    assert "of ffd is above that of quest in" in said and "of 2 layers (tokens" in said


def test_without_estimates_it_says_what_to_run(tmp_path):
    path = make(tmp_path / "r.h5", [EXACT, selector("streaming", "streaming_llm", "budget")])
    said = figures(path, tmp_path / "out")
    assert "left out: layer_correlation (tiny): needs a selector with an estimate" in said
    assert "--selector ffd --selector quest:dense_layers=0" in said


def test_five_samples_have_a_band(tmp_path):
    path = make(tmp_path / "r.h5", [ffd(), quest("quest", 0)], samples={name: [0, 1, 2] for name in "abcde"})
    figures(path, tmp_path / "out", "--only", "layer_correlation")
    row = next(r for r in read_csv(tmp_path / "out/layer_correlation.csv") if (r["curve"], r["layer"]) == ("ffd", "1"))
    mean, low, high = (float(row[f"spearman_{name}"]) for name in ("mean", "low", "high"))
    assert mean == pytest.approx(np.nanmean([b for _, _, layer, b in blocks(path, "ffd", "spearman") if layer == 1]))
    assert low < mean < high <= 1
    assert "filledcurves" in (tmp_path / "out/layer_correlation.gp").read_text()


def test_samples_of_two_dumps_are_kept_apart(tmp_path):
    path, own = make_of_two_dumps(tmp_path / "r.h5", [ffd(), quest("quest", 0)], {name: [0, 1] for name in "ab"})
    figures(path, tmp_path / "out", "--only", "layer_correlation")
    rows = [r for r in read_csv(tmp_path / "out/layer_correlation.csv") if r["sample"] and r["layers"] == "all"]
    titles = {"a": (0, "a"), "b": (0, "b"), "a of second.h5": (1, "a"), "b of second.h5": (1, "b")}
    assert sorted((r["label"], r["sample"]) for r in rows) == sorted(
        (label, title) for label in ("ffd", "quest") for title in titles)
    for row in rows:
        dump, name = titles[row["sample"]]
        values = pooled(blocks(own[dump], row["label"], "spearman"), lambda sample, task, layer: sample == name)
        assert float(row["spearman_cells"]) == values.size and same(row, "spearman_mean", values.mean()), row


def test_layers_are_those_of_the_metric(tmp_path):
    """The first of two pooled files has other layers and lacks one of the metrics."""
    paths = [make(tmp_path / f"{name}.h5", [ffd(), quest("quest", 0)], samples={name: layers}, dump=name, seed=seed)
             for seed, (name, layers) in enumerate({"a": [0, 1], "b": [2, 5]}.items())]
    with h5py.File(paths[0], "r+") as file:
        del file["dumps/0/samples/a/ffd/spearman_block16"]
    figures(paths, tmp_path / "out", "--only", "layer_correlation")
    rows = [row for row in read_csv(tmp_path / "out/layer_correlation.csv")
            if (row["curve"], row["layers"]) == ("ffd", "one")]
    assert [int(row["layer"]) for row in rows] == [0, 1, 2, 5]
    for row in rows:
        for metric in METRICS:
            values = [pooled(blocks(path, "ffd", metric), lambda sample, task, layer: layer == int(row["layer"]))
                      for path in paths]
            values = np.concatenate(values)
            assert same(row, metric + "_mean", values.mean() if values.size else np.nan), (metric, row)
