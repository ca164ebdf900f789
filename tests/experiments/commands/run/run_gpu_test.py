"""attest run on a GPU: its output, no effect of --device-memory on the results, and no files left by an error."""

import json

import h5py
import numpy as np
import pytest
from attest_program import run_attest as attest

CALIBRATION_SAMPLE = "synthetic-0000"  # double_sparsity is calibrated on this sample


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    path = tmp_path_factory.mktemp("dumps") / "dump.h5"
    made = attest("synth", "-o", path, "--layers", 3, "--samples", 2, "--tokens", 20000, "--queries", 3,
                  "--query-heads", 8, "--kv-heads", 4)
    assert made.returncode == 0, made.stderr
    return path


@pytest.fixture(scope="module")
def estimates(dump, tmp_path_factory):
    """Random estimates of every token, for the selector `imported`."""
    path, random = tmp_path_factory.mktemp("estimates") / "own.h5", np.random.default_rng(1)
    with h5py.File(dump) as source, h5py.File(path, "w") as own:
        for sample, group in source["samples"].items():
            for layer, tensors in group["layers"].items():
                shape = (*tensors["q"].shape[:2], tensors["k"].shape[1])
                own[f"samples/{sample}/layers/{layer}/e"] = random.standard_normal(shape, np.float32)
    return path


@pytest.fixture(scope="module")
def selectors(estimates):
    """Every selector that the program lists."""
    names = [selector["name"] for selector in json.loads(attest("list", "--json").stdout)["selectors"]]
    told = {"double_sparsity": f"double_sparsity:calibrate={CALIBRATION_SAMPLE}",
            "imported": f"own=imported:file={estimates},dataset=e"}
    return [argument for name in names for argument in ("--selector", told.get(name, name))]


@pytest.fixture
def run(dump, selectors):
    def run_on_gpu(output, *arguments):
        return attest("run", dump, "-o", output, "--device", "cuda", "--delta", "3,5", "--budget", "1024", "--p",
                      "0.85", *selectors, *arguments)

    return run_on_gpu


def metrics(path):
    with h5py.File(path) as file:
        found = {}
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset)
                        and item.dtype.kind == "f" else None)
        return found


def test_the_first_gpu_is_what_auto_takes(dump, tmp_path):
    result = attest("run", dump, "-o", tmp_path / "r.h5", "--selector", "exact", "--layers", "0")
    assert result.returncode == 0, result.stderr
    assert any(line.startswith("device: ") and line.endswith("(cuda:0)") for line in result.stderr.splitlines()), \
        result.stderr


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
    assert ": raise --device-memory" in result.stderr and ", or choose --device cpu" in result.stderr
    assert not list(tmp_path.iterdir())


def test_more_memory_than_there_is(run, tmp_path):
    result = run(tmp_path / "r.h5", "--device-memory", "500000GiB", "--quiet")
    assert result.returncode == 2 and "--device-memory is " in result.stderr
