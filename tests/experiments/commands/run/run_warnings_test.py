"""What attest run warns about, and how its summary tells models apart."""
import json

import h5py
import numpy as np
import pytest

from attest_program import run_attest as attest
from near import CELL
from run_dumps import write_dump


@pytest.fixture
def dump(tmp_path):
    write_dump(tmp_path / "dump.h5")
    return tmp_path / "dump.h5"


def warnings_of(dump, out, *options):
    result = attest("run", dump, "-o", out, "--force", *options)
    assert result.returncode == 0, result.stderr
    return [line for line in result.stderr.splitlines() if line.startswith("warning: ")]


def test_a_grid_that_nobody_uses_is_said(dump, tmp_path):
    out = tmp_path / "r.h5"
    (warning,) = warnings_of(dump, out, "--selector", "ffd:block=64", "--budget", "64,50%", "--delta", "0,1")
    assert warning.startswith("warning: --budget 64,50% is not used: no selector of this study takes it, as quest, ")
    assert warnings_of(dump, out, "--selector", "ffd:block=64,rule=topk", "--budget", "64,50%") == []
    sentence = "warning: --factor 5 is not used: no selector of this study takes it, as skip_softmax:unit=factor would"
    assert sentence in warnings_of(dump, out, "--selector", "exact", "--factor", "5")
    quiet = attest("run", dump, "-o", out, "--force", "--selector", "exact", "--p", "0.5", "--quiet")
    assert quiet.returncode == 0 and quiet.stderr == ""


def test_one_selector_under_two_labels_is_said(dump, tmp_path):
    options = ["--selector", "a=ffd:block=64", "--selector", "b=ffd:block=64,bits=2", "--selector", "c=ffd:block=128",
               "--delta", "0"]
    assert warnings_of(dump, tmp_path / "r.h5", *options) == [
        "warning: 'a' and 'b' are the same selector, 'ffd' with the same options"]


def test_fewer_queries_and_samples_than_asked_are_said(dump, tmp_path):
    other = tmp_path / "other.h5"
    write_dump(other, layers=(2,), positions=(7,), samples=("t", "u"))
    last = warnings_of(dump, tmp_path / "r.h5", "--selector", "exact", "--queries", "last:9")
    assert last == ["warning: --queries last:9: all queries are taken of the samples that have fewer: 's' (2)"]
    assert warnings_of(dump, tmp_path / "r.h5", "--selector", "exact", "--queries", "last:2") == []
    result = attest("run", dump, other, "-o", tmp_path / "r.h5", "--force", "--selector", "exact", "--layers", "4")
    assert "warning: samples without any of the chosen layers or queries are left out: 't', 'u'\n" in result.stderr


def test_models_are_not_averaged(dump, tmp_path):
    """A row for each model; the dumps of one model are pooled."""
    others = [tmp_path / "1.h5", tmp_path / "2.h5"]
    for path, layers in zip(others, [(1,), (2,)], strict=True):
        write_dump(path, layers=layers, heads=2, kv_heads=1)
        with h5py.File(path, "r+") as file:
            file.attrs["model"] = "other\x1b[1m"
    command = ["run", others[0], dump, others[1], "-o", tmp_path / "r.h5", "--selector", "ffd:block=64", "--delta",
               "0,1"]
    result = attest(*command)
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["model", "selector", "setting"]
    assert [line.split()[0] for line in lines[1:5]] == ["other\\x1b[1m"] * 2 + ["test/model"] * 2
    rows = json.loads(attest(*command, "--resume", "--json").stdout)["rows"]
    with h5py.File(tmp_path / "r.h5") as file:
        for row, dumps, setting in zip(rows, [(0, 2), (0, 2), (1,), (1,)], [0, 1, 0, 1], strict=True):
            recall = np.concatenate([file[f"dumps/{d}/samples/s/ffd:block=64/recall"][..., setting].ravel()
                                     for d in dumps])
            assert row["mean_recall"] == pytest.approx(recall.mean(), abs=CELL)
    assert [row["model"] for row in rows] == ["other\x1b[1m"] * 2 + ["test/model"] * 2
    assert "of a model" in result.stdout
