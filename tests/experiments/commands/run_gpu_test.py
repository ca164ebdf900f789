"""attest run on a GPU: what it says, what --device-memory changes (nothing in the results), and what it leaves after an error (nothing)."""

import json
import os
import subprocess

import h5py
import numpy as np
import pytest

ATTEST = os.environ["ATTEST_BIN"]
LEARNT = "synthetic-0000"  # the sample that double_sparsity learns from


def attest(*arguments):
    return subprocess.run([ATTEST, *map(str, arguments)], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    path = tmp_path_factory.mktemp("dumps") / "dump.h5"
    made = attest("synth", "-o", path, "--layers", 3, "--samples", 2, "--tokens", 20000, "--queries", 3, "--query-heads", 8, "--kv-heads", 4)
    assert made.returncode == 0, made.stderr
    return path


@pytest.fixture(scope="module")
def selectors():
    """Every selector that the program lists."""
    names = [selector["name"] for selector in json.loads(attest("list", "--json").stdout)["selectors"]]
    learning = {"double_sparsity": f"double_sparsity:calibrate={LEARNT}"}
    return [argument for name in names for argument in ("--selector", learning.get(name, name))]


@pytest.fixture
def run(dump, selectors):
    def run_on_gpu(output, *arguments):
        return attest("run", dump, "-o", output, "--device", "cuda", "--delta", "3,5", "--budget", "1024", "--p", "0.85", *selectors, *arguments)

    return run_on_gpu


def metrics(path):
    with h5py.File(path) as file:
        found = {}
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) and item.dtype.kind == "f" else None)
        return found


def test_the_first_gpu_is_what_auto_takes(dump, tmp_path):
    result = attest("run", dump, "-o", tmp_path / "r.h5", "--selector", "exact", "--layers", "0")
    assert result.returncode == 0, result.stderr
    assert any(line.startswith("device: ") and line.endswith("(cuda:0)") for line in result.stderr.splitlines()), result.stderr


def test_less_memory_changes_no_bit(run, tmp_path):
    assert run(tmp_path / "all.h5").returncode == 0
    result = run(tmp_path / "little.h5", "--device-memory", "100MiB")
    assert result.returncode == 0, result.stderr
    expected, found = metrics(tmp_path / "all.h5"), metrics(tmp_path / "little.h5")
    assert len(expected) > 50 and expected.keys() == found.keys()
    for name, values in expected.items():
        assert np.array_equal(values, found[name], equal_nan=True), name


@pytest.mark.parametrize("memory", ["4MiB", "20MiB"])
def test_too_little_memory_is_one_sentence_and_leaves_nothing(run, tmp_path, memory):
    result = run(tmp_path / "r.h5", "--device-memory", memory, "--quiet")
    assert result.returncode == 5, result.stderr
    assert result.stderr.startswith("attest: ") and result.stderr.count("\n") == 1, result.stderr
    assert "raise --device-memory, or choose --device cpu" in result.stderr
    assert not list(tmp_path.iterdir())


def test_more_memory_than_there_is(run, tmp_path):
    result = run(tmp_path / "r.h5", "--device-memory", "500000GiB", "--quiet")
    assert result.returncode == 2 and "--device-memory is " in result.stderr
