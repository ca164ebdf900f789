"""layer_sparsity: what the sentence says of the layers. Its numbers: tests/experiments/commands/figures_test.py."""

import h5py
import pytest
from study_maker import figures, make
from results_maker import ffd

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
