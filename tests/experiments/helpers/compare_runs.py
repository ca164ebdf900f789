"""Runs of `attest compare`, and two small studies that differ in all that the command must match."""

import json

import h5py
import numpy as np
import pytest
from attest_program import attest
from results_maker import EXACT, ffd, quest, write_results

SAMPLES = {f"s{i}": ([0, 1, 2, 5] if i % 2 else [2, 5]) for i in range(8)}


def compare(*arguments, expect=0):
    done = attest("compare", *arguments, expect=expect)
    if expect:
        assert done.stderr.startswith("attest: ") and done.stderr.count("\n") == 1 and done.stdout == "", done.stderr
    return done


def result(*arguments):
    return json.loads(compare(*arguments, "--json").stdout)


def edit(path, change):
    """change(sample's name, group) for every sample."""
    with h5py.File(path, "r+") as file:
        for dump in file["dumps"].values():
            for name, sample in dump["samples"].items():
                change(name, sample)
    return path


def set_manifest(path, **manifest):
    with h5py.File(path, "r+") as file:
        file.attrs["manifest"] = json.dumps(manifest)


@pytest.fixture
def studies(tmp_path):
    """The second has other values, its settings in another order and one more of them, and NaN in other cells; layer 5
    of s1 is missing in the first, layer 2 of s3 in the second."""
    selectors = [EXACT, ffd(), quest()]
    paths = [write_results(tmp_path / "one.h5", selectors, SAMPLES, seed=1, skipped={("s1", 5)}),
             write_results(tmp_path / "two.h5", selectors, SAMPLES, seed=2, skipped={("s3", 2)})]

    def change(name, sample):
        group = sample["ffd"]
        order = [2, 0, 1]
        for metric, array in list(group.items()):
            if array.ndim == 4:
                values = array[()][..., order]
                if metric == "recall":
                    values = values - 0.2 - 0.01 * int(name[1:])
                    values[-1, 0, 2, 0] = np.nan
                values = np.concatenate([values, np.ones_like(values[..., :1])], axis=-1)
                del group[metric]
                group[metric] = values.astype(np.float32)
        del group["settings"], group["setting_labels"]
        group["settings"] = np.array([7.0, 3.0, 5.0, 9.0])
        group["setting_labels"] = np.array(["7.0", "3", "5.00", "9"], h5py.string_dtype())

    edit(paths[1], change)
    return paths
