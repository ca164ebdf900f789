"""Layers with values that cannot be studied: attest run refuses them, or leaves them out."""
import json
import re

import h5py
import numpy as np
import pytest

import dump_maker
from attest_program import run_attest as attest
from run_dumps import arrays, write_dump


@pytest.fixture
def dump(tmp_path):
    write_dump(tmp_path / "dump.h5")
    return tmp_path / "dump.h5"


def test_a_bad_value_in_a_query_that_nobody_studies(dump, tmp_path):
    with h5py.File(dump, "r+") as file:
        for layer in file["samples/s/layers"].values():
            layer["q"][0, 1, 2] = np.nan
    refused = attest("run", dump, "-o", tmp_path / "r.h5", "--device", "cpu", "--selector", "exact")
    assert refused.returncode == 4 and "NaN" in refused.stderr
    studied = attest("run", dump, "-o", tmp_path / "r.h5", "--device", "cpu", "--selector", "exact", "--queries",
                     "last:1")
    assert studied.returncode == 0, studied.stderr


@pytest.mark.parametrize("value, name", [(np.nan, "NaN"), (np.inf, "Inf")])
def test_bad_values_are_refused_or_left_out(tmp_path, value, name):
    dump, out = tmp_path / "bad.h5", tmp_path / "r.h5"
    write_dump(dump, bad=value)
    result = attest("run", dump, "-o", out, "--selector", "exact")
    assert result.returncode == 4
    assert "sample 's', layer 4, k, head 1: " in result.stderr and "token 37" in result.stderr
    assert not out.exists()
    advice = re.search("; the same command with (.*) leaves this layer out", result.stderr)[1].split()
    result = attest("run", dump, "-o", out, "--selector", "exact", *advice)
    assert result.returncode == 0 and "the layer is left out" in result.stderr
    assert "resumed: 2 of 3 layers were finished before" in result.stderr
    with h5py.File(out) as file:
        group = file["dumps/0/samples/s/exact"]
        assert group["done"][()].tolist() == [1, 1, 0]
        assert np.isnan(group["recall"][2]).all() and not np.isnan(group["recall"][:2]).any()
        manifest = json.loads(file.attrs["manifest"])
        assert manifest["layers_left_out"] == [{"dump": 0, "sample": "s", "layer": 4}] \
            and manifest["skip_bad_layers"] is True
    resumed = arrays(out)
    assert attest("run", dump, "-o", out, "--selector", "exact", "--skip-bad-layers",
                  "--resume").stderr.count("complete already") == 1
    refused = attest("run", dump, "-o", out, "--selector", "exact", "--resume")
    assert refused.returncode == 2 and "made with other options" in refused.stderr, "this one leaves no layer out"
    assert attest("run", dump, "-o", out, "--selector", "exact", *advice, "--force").returncode == 0
    assert attest("run", dump, "-o", out, "--selector", "exact", "--skip-bad-layers", "--force").returncode == 0
    assert arrays(out) == resumed
    assert attest("run", dump, "-o", out, "--selector", "exact", "--skip-bad-layers", "--layers", "4",
                  "--force").returncode == 0
    empty = attest("table", out)
    assert empty.returncode == 4 and "no layer was studied, because --skip-bad-layers left all out" in empty.stderr


@pytest.mark.parametrize("queries, selectors, what", [
    (1.0, [], "the score of token 37 is"),
    (0.0, ["--selector", "exact", "--selector", "four=twilight:dense_layers=0"],
     "the score that selector 'four' estimates for token 37 is"),
])
def test_finite_values_that_overflow_are_refused_or_left_out(tmp_path, queries, selectors, what):
    """One key of layer 4 holds both ends of the range of float32. It must not matter to queries that are 0 there, but a
    quantiser's range overflows."""
    def values(random, number):
        q, k, v = (random.standard_normal(shape, np.float32) for shape in ((2, 4, 32), (2, 300, 32), (2, 300, 32)))
        if number == 4:
            q[:, :, 5:7] = queries
            k[1, 37, 5:7] = 3.3e38, -3e38
        return q, k, v

    dump, out = tmp_path / "extreme.h5", tmp_path / "r.h5"
    dump_maker.write_dump(dump, values, seed=8, layers=(0, 1, 4), tokens=300, heads=4, kv_heads=2, dim=32,
                          positions=(130, 299))
    assert attest("inspect", dump, "--check").returncode == 0, "every value is finite"
    command = ["run", dump, "-o", out, "--device", "cpu", *selectors]
    result = attest(*command, timeout=60)
    said = (f"{dump}: sample 's', layer 4, query head 2, query at 130: {what} NaN or beyond 1.15e+18, the largest that "
            "is studied")
    assert result.returncode == 4
    assert result.stderr.splitlines()[-1] == (f"attest: {said}; the same command with --skip-bad-layers --resume "
                                              "leaves this layer out")
    assert not out.exists()
    result = attest(*command, "--skip-bad-layers", "--resume", timeout=60)
    assert result.returncode == 0 and f"warning: {said}; the layer is left out" in result.stderr
    assert "resumed: 2 of 3 layers were finished before" in result.stderr
    with h5py.File(out) as file:
        assert json.loads(file.attrs["manifest"])["layers_left_out"] == [{"dump": 0, "sample": "s", "layer": 4}]


def test_a_soft_cap_that_float32_cannot_hold_is_refused(dump, tmp_path):
    with h5py.File(dump, "a") as file:
        file.attrs["logit_softcap"] = 5e-324
    result = attest("run", dump, "-o", tmp_path / "r.h5")
    assert result.returncode == 4
    assert result.stderr.endswith(
        "attribute 'logit_softcap' is 4.94066e-324, expected a number that float32 holds, 1.2e-38 to 3.4e+38\n")


@pytest.mark.parametrize("begun_with", [["--force"], ["--resume"], ["--force", "--resume"]])
def test_the_advice_on_bad_values_works_whatever_the_command_was(tmp_path, begun_with):
    dump, out = tmp_path / "bad.h5", tmp_path / "r.h5"
    write_dump(dump, layers=(0, 1), bad=np.nan)
    write_dump(tmp_path / "good.h5", layers=(2,))
    if "--force" in begun_with:
        assert attest("run", tmp_path / "good.h5", "-o", out, "--selector", "exact").returncode == 0
    for layers, resumed in [(["--layers", "1"], 0), ([], 1)]:
        command = ["run", dump, "-o", out, "--selector", "exact", *layers, *begun_with]
        advice = re.search("; the same command with (.*) leaves this layer out", attest(*command).stderr)[1].split()
        result = attest(*command, *advice)
        assert result.returncode == 0, result.stderr
        assert ("resumed: 1 of 2" in result.stderr) == bool(resumed)
        if "--force" not in begun_with:
            out.unlink()
