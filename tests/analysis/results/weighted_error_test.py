"""weighted_error_head and weighted_error of a study, from the exact outputs in plain numpy and the study's output_error."""
import os
import subprocess

import h5py
import numpy as np
import pytest

HQ, HKV, D, T, ROWS, LAYERS = 4, 2, 16, 96, 3, (0, 2, 3)


def write_dump(path, gradients):
    """Layers of random attention. `gradients`: the layers that have head gradients. Returns exact outputs' norms and
    the weights, [layers, N, Hq] and [layers, Hq]."""
    random, norms, weights = np.random.default_rng(5), [], []
    with h5py.File(path, "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="m", num_layers=4, num_query_heads=HQ,
                          num_kv_heads=HKV, head_dim=D)
        sample = file.create_group("samples/s")
        sample.attrs.update(task="t", num_tokens=T)
        sample["query_positions"] = np.arange(T - ROWS, T)
        positions = np.arange(T - ROWS, T)
        for layer in LAYERS:
            q, k, v = (random.normal(size=s).astype(np.float32) for s in ((ROWS, HQ, D), (HKV, T, D), (HKV, T, D)))
            group = sample.create_group(f"layers/{layer}")
            group["q"], group["k"], group["v"] = 3 * q, k, v
            gradient = random.exponential(size=(ROWS, HQ)).astype(np.float32)
            gradient[:, 1] = 0
            if layer in gradients:
                group["head_gradient"] = gradient
            weights.append(np.sqrt((gradient.astype(float) ** 2).mean(0)))
            norms.append(np.empty((ROWS, HQ)))
            for n, p in enumerate(positions):
                for h in range(HQ):
                    s = 3 * k[h // 2, :p + 1].astype(float) @ q[n, h] / D**0.5
                    e = np.exp(s - s.max())
                    norms[-1][n, h] = np.linalg.norm(e / e.sum() @ v[h // 2, :p + 1])
    return np.array(norms), np.array(weights)


def study(tmp_path, gradients, *more):
    norms, weights = write_dump(tmp_path / "d.h5", gradients)
    run = subprocess.run([os.environ["ATTEST_BIN"], "run", tmp_path / "d.h5", "-o", tmp_path / "r.h5", "--device", "cpu",
                          "--selector", "recent=streaming_llm", "--budget", "50%,8,100%", *more],
                         capture_output=True, text=True)
    return run, norms, weights


@pytest.mark.parametrize("threads", ["1", "2"])
def test_both_are_those_of_plain_numpy(tmp_path, threads):
    run, norms, weights = study(tmp_path, LAYERS, "--threads", threads)
    assert run.returncode == 0, run.stderr
    with h5py.File(tmp_path / "r.h5") as file:
        group = file["dumps/0/samples/s/recent"]
        want = weights[:, None, :, None] * norms[..., None] * group["output_error"][:]
        np.testing.assert_allclose(group["weighted_error_head"], want, rtol=1e-5, atol=1e-7)
        assert want[:, :, 0, 1].min() > 1e-3 and not want[:, :, 1].any() and want[..., 2].max() < 1e-6
        total = np.sqrt((want**2).sum(2)).sum(0)
        np.testing.assert_allclose(group["weighted_error"], total, rtol=1e-5, atol=1e-6)
        assert [d.label for d in group["weighted_error"].dims] == ["query", "setting"]


def test_without_gradients_there_is_neither(tmp_path):
    run, _, _ = study(tmp_path, ())
    assert run.returncode == 0, run.stderr
    with h5py.File(tmp_path / "r.h5") as file:
        assert not {"weighted_error_head", "weighted_error"} & set(file["dumps/0/samples/s/recent"])


def test_a_layer_without_gradients_leaves_the_sum_undefined(tmp_path):
    run, _, _ = study(tmp_path, LAYERS[:2])
    assert run.returncode == 0, run.stderr
    with h5py.File(tmp_path / "r.h5") as file:
        group = file["dumps/0/samples/s/recent"]
        assert np.isfinite(group["weighted_error_head"][:2]).all() and np.isnan(group["weighted_error_head"][2]).all()
        assert np.isnan(group["weighted_error"]).all()


@pytest.mark.parametrize("wrong, sentence", [
    (np.full((ROWS, HQ), -1, np.float32), "head_gradient: entry 0 is -1, expected a finite number, 0 or above"),
    (np.full((ROWS, HQ), np.nan, np.float32), "head_gradient: entry 0 is nan, expected a finite number, 0 or above"),
    (np.ones((ROWS, HQ + 1), np.float32), "head_gradient: has the shape [3, 5], expected [3, 4]"),
])
def test_wrong_gradients_are_refused(tmp_path, wrong, sentence):
    write_dump(tmp_path / "d.h5", ())
    with h5py.File(tmp_path / "d.h5", "r+") as file:
        file["samples/s/layers/2/head_gradient"] = wrong
    run = subprocess.run([os.environ["ATTEST_BIN"], "inspect", tmp_path / "d.h5"], capture_output=True, text=True)
    assert run.returncode == 4 and f"/samples/s/layers/2/{sentence}" in run.stderr
