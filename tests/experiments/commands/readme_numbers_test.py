"""The numbers in the manual about the embedded dump are those of the command that it names."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

ROOT = Path(os.environ["ATTEST_SOURCE_DIR"])
SECTION = (ROOT / "experiments/manual/demo.md").read_text()
COLUMNS = [("ffd", 0), ("ffd", 1), ("ffd_heads", 0), ("ffd_heads", 1)]  # of the table: label and setting


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """metric(label, name, setting) -> all cells of a metric, pooled; `scores` is the label of the exact scores."""
    path = tmp_path_factory.mktemp("results") / "r.h5"
    command = re.search(r"`attest (run dumps/demo\.h5 -o r\.h5 [^`]*)`", SECTION)[1].replace("\n", " ")
    words = [str(path) if word == "r.h5" else word for word in shlex.split(command)]
    done = subprocess.run([os.environ["ATTEST_BIN"], *words, "--device", "cpu"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with h5py.File(path) as file:
        samples = {name: {} for name in file["dumps/0/samples"]}
        file["dumps/0/samples"].visititems(
            lambda name, item: samples[name.split("/")[0]].update({name.split("/", 1)[1]: item[()]})
            if isinstance(item, h5py.Dataset) and "/" in name else None)

    def metric(label, name, setting=None, sample=None):
        cells = [values[f"{label}/{name}"] for key, values in samples.items() if sample in (None, key)]
        return np.concatenate([(c if setting is None else c[..., setting]).ravel() for c in cells])

    return metric


def row(name):
    """The numbers of a row of the table; per cents as shares."""
    cells = re.search(rf"^\| {re.escape(name)} \|(.*)\|$", SECTION, re.MULTILINE)[1].split("|")
    return [[float(x) / (100 if "%" in cell else 1) for x in re.findall(r"[\d.]+", cell)] for cell in cells]


def number(pattern):
    return [float(x) for x in re.search(pattern, SECTION.replace("\n", " ")).groups()]


@pytest.mark.parametrize(
    "name, metric, statistics, tolerance",
    [
        ("tokens kept", "keep_ratio", [np.mean], 5e-4),
        ("bytes read, of a dense 16-bit read", "io_ratio", [np.mean], 5e-4),
        ("recall, mean", "recall", [np.nanmean], 5e-5),
        ("recall, worst cell", "recall", [np.nanmin], 5e-4),
        ("LSE error, max (mean), nats", "lse_error", [np.max, np.mean], 5e-4),
    ],
)
def test_the_table(results, name, metric, statistics, tolerance):
    for (label, setting), printed in zip(COLUMNS, row(name), strict=True):
        found = [statistic(results(label, metric, setting)) for statistic in statistics]
        assert printed == pytest.approx(found, abs=tolerance * 1.01), (name, label, setting)


def test_the_retrieval_cells(results):
    cells = results("scores", "span_mass") >= 0.3
    for (label, setting), (printed,) in zip(COLUMNS, row("span recall, worst retrieval cell"), strict=True):
        assert printed == pytest.approx(results(label, "recall", setting)[cells].min(), abs=5.05e-5)
    count, least, median, most = number(r"[Ii]n the (\d+) cells .*?recall is at least ([\d.]+) at delta 5, .*?is ([\d.]+) % at the median and ([\d.]+) % +at most")
    errors = results("ffd", "output_error", 0)[cells]
    assert count == cells.sum() and least <= results("ffd", "recall", 0)[cells].min()
    assert [median, most] == pytest.approx([100 * np.median(errors), 100 * errors.max()], abs=0.051)


def test_the_pseudo_maximum(results):
    equal, short = number(r"true maximum of the full blocks in ([\d.]+) % of the cells .*? delta = 5 in ([\d.]+) %")
    gaps = results("ffd", "pseudo_max_gap_exact")
    assert [equal, short] == pytest.approx([100 * (gaps == 0).mean(), 100 * (gaps > 5).mean()], abs=0.051)
    (exceeds,) = number(r"\*exceeds\* the true maximum in (\d+) % of the cells")
    assert exceeds == pytest.approx(100 * (results("ffd", "pseudo_max_gap_thumbnail") < 0).mean(), abs=0.51)


def test_the_number_of_cells(results):
    (cells,) = number(r"\((\d+) cells of layer, query and head\)")
    assert cells == results("scores", "lse").size
