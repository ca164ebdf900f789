"""layer_sparsity: numpy recomputes the csv, and what the sentence says of the layers."""

import figures_command
import h5py
import numpy as np
import pytest
from csv_rows import NUMBER, read_csv
from figures_command import number, study  # noqa: F401
from results_maker import cells, ffd, write_results
from study_maker import figures, make

MEAN = "At delta 5 ffd (gqa=union) skips {:.1f} % of the blocks and"


@pytest.mark.parametrize("kept, mean, range_", [
    ({0: 1, 2: 1, 5: 1}, 0, "; 0.0 % of the blocks in each of the 3 layers."),
    ({0: 0.5, 2: 0.5001, 5: 0.5}, 50, "; 50.0 % of the blocks in each of the 3 layers."),
    ({0: 0.25, 2: 0.5, 5: 0.75}, 50, "; from 25.0 % of the blocks in layer 5 to 75.0 % in layer 0."),
    ({2: 0.25}, 75, " of the tokens."),
])
def test_no_layer_is_the_extreme_of_equal_ones(tmp_path, kept, mean, range_):
    path = make(tmp_path / "r.h5", [ffd()], samples={name: list(kept) for name in "ab"})
    with h5py.File(path, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            for row, value in enumerate(kept.values()):
                sample["ffd/block_keep_ratio"][row] = value
    said = figures(path, tmp_path / "out", "--only", "layer_sparsity")
    line = next(line.strip() for line in said.splitlines() if MEAN.format(mean) in line)
    assert line.endswith(range_), line
    assert len(kept) > 1 or "layer" not in line


def test_layer_sparsity_is_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "layer_sparsity.csv")
    keys = [(row["label"], row["delta"], row["layer"]) for row in rows]
    assert len(set(keys)) == len(keys) == 2 * 2 * 4
    for row in rows:
        only_this = lambda layer: layer == int(row["layer"])
        blocks = cells([path], row["label"], "block_keep_ratio", row["delta"], only_this)
        tokens = cells([path], row["label"], "keep_ratio", row["delta"], only_this)
        assert number(row, "blocks_skipped_mean") == pytest.approx(1 - blocks.mean(), abs=NUMBER)
        assert number(row, "tokens_skipped_mean") == pytest.approx(1 - tokens.mean(), abs=NUMBER)
        assert number(row, "cells") == blocks.size
        assert row["gqa"] == ("per_head" if "per_head" in row["label"] else "union")


def test_layer_sparsity_band_is_over_heads_of_all_dumps(tmp_path):
    """Each head has one mean, over the samples of both dumps, not one for each dump."""
    paths = [write_results(tmp_path / f"{name}.h5", [ffd()], samples={s: [2, 3] for s in samples}, dump=f"{name}.h5")
             for name, samples in (("one", "ab"), ("two", "cdefg"))]
    figures_command.figures(*paths, "-o", tmp_path / "out", "--only", "layer_sparsity", "--format", "svg")
    by_head = []
    for path in paths:
        with h5py.File(path) as file:
            for sample in file["dumps/0/samples"].values():
                by_head.append(sample["ffd/keep_ratio"][()][list(sample["layers"][()]).index(3)][..., 1])
    heads = 1 - np.nanmean(np.concatenate(by_head), axis=0)
    row = next(r for r in read_csv(tmp_path / "out/layer_sparsity.csv")
               if (r["label"], r["delta"], r["layer"]) == ("ffd", "5", "3"))
    assert number(row, "tokens_skipped_p5") == pytest.approx(np.quantile(heads, 0.05), abs=NUMBER)
    assert number(row, "tokens_skipped_p95") == pytest.approx(np.quantile(heads, 0.95), abs=NUMBER)


def test_layer_sparsity_band_is_over_heads(study):
    path, out, _ = study
    row = next(r for r in read_csv(out / "layer_sparsity.csv")
               if (r["label"], r["delta"], r["layer"]) == ("ffd", "5", "5"))
    by_head = []
    with h5py.File(path) as file:
        for sample in file["dumps/0/samples"].values():
            by_head.append(sample["ffd/keep_ratio"][()][list(sample["layers"][()]).index(5)][..., 1])
    heads = 1 - np.nanmean(np.concatenate(by_head), axis=0)
    assert number(row, "tokens_skipped_p5") == pytest.approx(np.quantile(heads, 0.05), abs=NUMBER)
    assert number(row, "tokens_skipped_p95") == pytest.approx(np.quantile(heads, 0.95), abs=NUMBER)
