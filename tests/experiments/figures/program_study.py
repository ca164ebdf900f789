"""Studies of synthetic dumps by the program itself, and numpy's view of their results: the base of tests of
experiments."""

import json

import h5py
import numpy as np

from attest_program import attest
from csv_rows import NUMBER, read_csv  # noqa: F401  (tests import it from here)
from results_maker import cells  # noqa: F401  (tests import it from here)



def make_study(folder, selectors, *run_options, name="r", synth=(), layers=4, tokens=1500, samples=3, seed=1):
    """A dump and its results; returns the path of the results. Some cells are made undefined, one layer is left out."""
    dump, path = folder / f"{name}_dump.h5", folder / f"{name}.h5"
    attest("synth", "-o", dump, "--layers", layers, "--samples", samples, "--tokens", tokens, "--queries", 3,
           "--query-heads", 4,
           "--kv-heads", 2, "--head-dim", 32, "--value-dim", 32, "--seed", seed, *synth)
    options = [part for selector in selectors for part in ("--selector", selector)]
    attest("run", dump, "-o", path, *options, *run_options)
    return path


def spoil(path, label, metrics=("recall",), skipped=None):
    """Sets one cell of each of `metrics` to NaN in every sample; leaves out layer `skipped` = (sample, row) of all
    selectors."""
    with h5py.File(path, "r+") as file:
        for sample, group in file["dumps/0/samples"].items():
            for metric in metrics:
                group[label][metric][-1, 0, 1] = np.nan
            if skipped and skipped[0] == sample:
                for own in group.values():
                    if not isinstance(own, h5py.Group) or "done" not in own:
                        continue
                    own["done"][skipped[1]] = 0
                    for data in own.values():
                        if data.ndim >= 3:
                            data[skipped[1]] = np.nan


def make(path, folder, experiment, *options):
    """Runs `attest figures` for one experiment; returns what it said, as JSON."""
    paths = path if isinstance(path, list) else [path]
    return json.loads(attest("figures", *paths, "-o", folder, "--only", experiment, "--format", "svg", "--json",
                             *options).stdout)


def findings(said):
    return [finding["text"] for one in said["experiments"] for finding in one["findings"]]


def reason(path, folder, experiment):
    """Why an experiment cannot be made, and the options that would help."""
    other = "quality_vs_io"  # so that there is something to make
    said = json.loads(attest("figures", path, "-o", folder, "--only", f"{experiment},{other}", "--format", "svg",
                             "--json").stdout)
    return next((s["reason"], s["run_options"]) for s in said["skipped"] if s["experiment"] == experiment)


def number(row, column):
    return float(row[column])


def same(row, expected, **tolerance):
    """Every number of `expected` stands in the row."""
    import pytest

    tolerance = {"rel": NUMBER, "abs": NUMBER, "nan_ok": True, **tolerance}
    for column, value in expected.items():
        assert number(row, column) == pytest.approx(value, **tolerance), (column, row)
