"""Learned sinks of a dump on the real executable: inspect, run, and the sinks that are refused."""

import json

import h5py
import numpy as np
import pytest

from attest_program import run_attest as attest
import dump_maker
from near import CELL, FLOAT32, assert_near

HEADS, DIM, TOKENS, POSITIONS = 4, 16, 100, (40, 99)
SINKS = np.array([0.5, -3, 7.25, -700], np.float32)


@pytest.fixture
def dump(tmp_path):
    """Layers 0 and 2; layer 2 has sinks."""
    def values(random, _):
        q, k, v = random.standard_normal((2, HEADS, DIM)), *random.standard_normal((2, 2, TOKENS, DIM))
        return q.astype(np.float32), k.astype(np.float32), v.astype(np.float32)

    path = tmp_path / "dump.h5"
    dump_maker.write_dump(path, values, seed=9, layers=(0, 2), tokens=TOKENS, heads=HEADS, kv_heads=2, dim=DIM,
                          positions=POSITIONS)
    set_sinks(path, SINKS)
    return path


def set_sinks(path, sinks):
    with h5py.File(path, "r+") as file:
        layer = file["samples/s/layers/2"]
        if "sinks" in layer:
            del layer["sinks"]
        layer["sinks"] = sinks


def test_inspect_tells_of_them(dump):
    assert "learned sinks" in attest("inspect", dump).stdout
    document = json.loads(attest("inspect", dump, "--json").stdout)
    layers = document["samples"][0]["layers"]
    assert [layer["sinks"] for layer in layers] == [None, SINKS.tolist()]


def test_they_join_the_softmax(dump, tmp_path):
    done = attest("run", dump, "-o", tmp_path / "r.h5", "--selector", "exact", "--selector", "topk", "--budget", "3",
                  "--device", "cpu")
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "r.h5") as file, h5py.File(dump) as source:
        sample, layer = file["dumps/0/samples/s"], source["samples/s/layers/2"]
        q, k, v = (layer[name][()].astype(float) for name in "qkv")
        assert np.isnan(sample["scores/sink_mass"][0]).all()
        for n, position in enumerate(POSITIONS):
            for h in range(HEADS):
                scores, values = k[h // 2, : position + 1] @ q[n, h] / 4, v[h // 2, : position + 1]
                lse = np.logaddexp.reduce([*scores, SINKS[h]])
                output = np.exp(scores - lse) @ values
                assert_near(sample["scores/lse"][1, n, h], lse, rel=FLOAT32)
                # the least float32
                assert_near(sample["scores/sink_mass"][1, n, h], np.exp(SINKS[h] - lse), rel=FLOAT32, abs=1e-38)
                best = np.argsort(-scores, kind="stable")[:3]
                kept_lse = np.logaddexp.reduce([*scores[best], SINKS[h]])
                kept = np.exp(scores[best] - kept_lse) @ values[best]
                error = np.linalg.norm(kept - output) / np.linalg.norm(output)
                assert_near(sample["topk/output_error"][1, n, h, 0], error, rel=FLOAT32)
                assert_near(sample["topk/lse_error"][1, n, h, 0], lse - kept_lse, rel=FLOAT32, abs=CELL)
        assert (sample["exact/output_error"][()] == 0).all()


def test_a_dump_without_them_has_no_such_metric(dump, tmp_path):
    assert attest("run", dump, "-o", tmp_path / "r.h5", "--layers", "0", "--selector", "exact").returncode == 0
    with h5py.File(tmp_path / "r.h5") as file:
        scores = file["dumps/0/samples/s/scores"]
        assert "sink_mass" not in scores or np.isnan(scores["sink_mass"][()]).all()


@pytest.mark.parametrize(
    "sinks, sentence",
    [
        (SINKS[:3], "has the shape [3], expected [4]"),
        (SINKS[None], "has the shape [1, 4], expected [4]"),
        (SINKS.astype("f8"), "expected little-endian float16, bfloat16 or float32"),
        (np.arange(4), "expected"),
        (np.array([0, np.nan, 0, 0], "f4"), "entry 1 is nan, expected a finite logit"),
        (np.array([0, 0, 0, np.inf], "f4"), "entry 3 is inf, expected a finite logit"),
    ],
)
def test_sinks_that_are_refused(dump, sinks, sentence):
    set_sinks(dump, sinks)
    done = attest("inspect", dump)
    assert done.returncode == 4
    assert done.stderr.startswith(f"attest: {dump}: /samples/s/layers/2/sinks: ") and sentence in done.stderr, \
        done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
