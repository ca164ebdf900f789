"""Selectors that are calibrated on other samples of the dump: those samples are left out, and the ranking matters."""

import json
import subprocess

import h5py
import numpy as np
import pytest

from attest_program import ATTEST
import dump_maker

HEADS, KV_HEADS, DIM, TOKENS = 4, 2, 16, 300


def write_dump(path, samples, layers=(0, 3)):
    """Only channel 5 of the keys and only channel 9 of the queries are large."""
    def values(random, _):
        q, k = random.standard_normal((2, HEADS, DIM)), random.standard_normal((KV_HEADS, TOKENS, DIM))
        q[..., 9] *= 30
        k[..., 5] *= 30
        return q.astype(np.float32), k.astype(np.float32), random.standard_normal(
            (KV_HEADS, TOKENS, DIM)).astype(np.float32)

    dump_maker.write_dump(path, values, seed=3, layers=layers, tokens=TOKENS, heads=HEADS, kv_heads=KV_HEADS, dim=DIM,
                          positions=[250, 299],
                          samples=samples)


def run(dump, output, selector, *arguments):
    command = [ATTEST, "run", dump, "-o", output, "--device", "cpu", "--selector", selector, "--budget", "30",
               *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


@pytest.fixture
def dump(tmp_path):
    write_dump(tmp_path / "dump.h5", ["a", "b", "c"])
    return tmp_path / "dump.h5"


def test_calibration_samples_are_not_judged(dump, tmp_path):
    out = tmp_path / "r.h5"
    done = run(dump, out, "ds=double_sparsity:calibrate=a+c,dense_layers=0,bits=16,group_factor=8")
    assert done.returncode == 0, done.stderr
    with h5py.File(out) as file:
        assert list(file["dumps/0/samples"]) == ["b"]
        assert json.loads(file["dumps/0/samples/b/ds"].attrs["options"])["calibrate"] == "a+c"
        # Two of 16 channels carry nearly all of a score, and the calibration finds them.
        assert file["dumps/0/samples/b/ds/spearman"][()].mean() > 0.9


def test_a_ranking_from_a_file(dump, tmp_path):
    def spearman(first):
        order = first + [d for d in range(DIM) if d not in first]
        names = [f"model.layers.{layer}.self_attn.qk_proj" for layer in (0, 3)]
        (tmp_path / "ranking.json").write_text(json.dumps({name: [order] * HEADS for name in names}))
        selector = f"ds=double_sparsity:channels={tmp_path / 'ranking.json'},dense_layers=0,bits=16,group_factor=8"
        done = run(dump, tmp_path / "r.h5", selector, "--force")
        assert done.returncode == 0, done.stderr
        with h5py.File(tmp_path / "r.h5") as file:
            return np.mean([file[f"dumps/0/samples/{s}/ds/spearman"][()].mean() for s in "abc"])

    assert spearman([5, 9]) > 0.9
    assert spearman([0, 1]) < 0.5


@pytest.mark.parametrize(
    "options, arguments, said",
    [
        ("", [], "needs a channel ranking"),
        (":calibrate=a", [
            "--samples", "a,b"], "selector 'ds' learns from sample 'a', so --samples must not ask for it"),
        (":calibrate=x", [], "no dump has a sample 'x'; nearest: 'a', 'b' or 'c'"),
        (":calibrate=a+b+c", [], "no sample is left to study"),
    ],
)
def test_what_cannot_be_is_said(dump, tmp_path, options, arguments, said):
    done = run(dump, tmp_path / "r.h5", f"ds=double_sparsity{options}", *arguments)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not (tmp_path / "r.h5").exists()


def test_two_dumps_do_not_share_a_calibration(dump, tmp_path):
    write_dump(tmp_path / "other.h5", ["d"])
    done = run(dump, tmp_path / "r.h5", "ds=double_sparsity:calibrate=a", tmp_path / "other.h5")
    assert done.returncode == 2 and "expected one dump, given 2" in done.stderr, done.stderr


def test_a_layer_without_a_ranking_is_named(dump, tmp_path):
    (tmp_path / "ranking.json").write_text(json.dumps({"layers.0.qk_proj": [list(range(DIM))] * HEADS}))
    done = run(dump, tmp_path / "r.h5", "double_sparsity:channels=ranking.json,dense_layers=0", "--layers", "3")
    assert done.returncode == 4 and "ranking.json: cannot be opened" in done.stderr
    done = run(dump, tmp_path / "r.h5", f"ds=double_sparsity:channels={tmp_path}/ranking.json,dense_layers=0",
               "--layers", "3")
    assert done.returncode == 4 and "there is no head 0 of layer 3" in done.stderr, done.stderr
