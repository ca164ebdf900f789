"""Metrics of the whole model and their parts by head: from outputs in plain numpy, or from the study's output_error."""

import h5py
import numpy as np
import pytest

from attest_program import run_attest
from near import FLOAT32, assert_near

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
    run = run_attest("run", tmp_path / "d.h5", "-o", tmp_path / "r.h5", "--device", "cpu", "--selector",
                     "recent=streaming_llm", "--budget", "50%,8,100%", *more)
    return run, norms, weights


@pytest.mark.parametrize("threads", ["1", "2"])
def test_both_are_those_of_plain_numpy(tmp_path, threads):
    run, norms, weights = study(tmp_path, LAYERS, "--threads", threads)
    assert run.returncode == 0, run.stderr
    with h5py.File(tmp_path / "r.h5") as file:
        group = file["dumps/0/samples/s/recent"]
        want = weights[:, None, :, None] * norms[..., None] * group["output_error"][:]
        assert_near(group["weighted_error_head"], want, rel=FLOAT32, abs=FLOAT32)
        assert want[:, :, 0, 1].min() > 1e-3 and not want[:, :, 1].any() and want[..., 2].max() < 1e-6
        total = np.sqrt((want**2).sum(2)).sum(0)
        assert_near(group["weighted_error"], total, rel=FLOAT32, abs=FLOAT32)
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
    run = run_attest("inspect", tmp_path / "d.h5")
    assert run.returncode == 4 and f"/samples/s/layers/2/{sentence}" in run.stderr


SCALES = [0.5, 1, 0.1]
HALF = 1e-4  # of losses: sums of float16 gradients times float32 outputs, which nearly cancel
KEPT = {"50%": 0.5, "8": 8, "100%": 1}  # streaming_llm: the first 4 tokens and the last of the budget


def attend(q, k, v, kept):
    """[N, Hq, D] of the tokens kept(L) of the L that a row sees."""
    out = np.empty(q.shape)
    for n in range(ROWS):
        tokens = kept(T - ROWS + n + 1)
        for h in range(HQ):
            s = k[h // 2, tokens].astype(float) @ q[n, h] / D**0.5
            e = np.exp(s - s.max())
            out[n, h] = e / e.sum() @ v[h // 2, tokens]
    return out


def kept_by(budget):
    def kept(visible):
        count = int(budget) if budget > 1 else max(1, int(budget * visible))
        tokens = np.arange(visible)
        return tokens[(tokens < 4) | (tokens >= visible - max(0, count - 4))]
    return kept


def write_gradients(path, scales=SCALES, layers=LAYERS, margin=True):
    """Adds output gradients to a dump. Returns predicted_loss_head [Y, N, Hq, S] and the margins."""
    random, lost = np.random.default_rng(6), []
    margins = random.normal(size=ROWS).astype(np.float32)
    with h5py.File(path, "r+") as file:
        if margin:
            file["samples/s/margin"] = margins
        for layer in LAYERS:
            group = file[f"samples/s/layers/{layer}"]
            gradients = random.normal(size=(len(scales), ROWS, HQ, D)).astype(np.float16)
            if layer in layers:
                group["output_gradient"] = gradients
                group["output_gradient"].attrs["scales"] = np.array(scales, float)
            # The mean over the scale, of the line through the three points, which ends level at both sides.
            order = np.argsort(scales)
            x = np.linspace(0, 1, 100001)
            lines = np.array([np.interp(x, np.array(scales)[order], np.eye(len(scales))[order][:, a])
                              for a in range(len(scales))])
            mean = np.einsum("a,anhd->nhd", np.trapezoid(lines, x, axis=1), gradients.astype(float))
            q, k, v = (group[name][:] for name in "qkv")
            exact = attend(q, k, v, np.arange)
            lost.append(np.stack([-(mean * (attend(q, k, v, kept_by(b)) - exact)).sum(-1) for b in KEPT.values()], -1))
    return np.array(lost), margins


def run(tmp_path, *more):
    return run_attest("run", tmp_path / "d.h5", "-o", tmp_path / "r.h5", "--device", "cpu", "--selector",
                      "recent=streaming_llm", "--budget", ",".join(KEPT), *more)


def test_predicted_losses_are_those_of_plain_numpy(tmp_path):
    write_dump(tmp_path / "d.h5", ())
    lost, margins = write_gradients(tmp_path / "d.h5")
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "r.h5") as file:
        scores, group = file["dumps/0/samples/s/scores"], file["dumps/0/samples/s/recent"]
        assert abs(lost[..., 0]).min() > 1e-4 and (lost[..., 0] < 0).any() and (lost[..., 0] > 0).any()
        assert_near(group["predicted_loss_head"], lost, rel=HALF, abs=HALF)
        assert_near(group["predicted_loss"], lost.sum((0, 2)), rel=HALF, abs=HALF)
        np.testing.assert_array_equal(scores["margin"], margins)
        assert_near(group["predicted_margin"], margins[:, None] - lost.sum((0, 2)), rel=HALF, abs=HALF)
        assert [d.label for d in group["predicted_margin"].dims] == ["query", "setting"]
        assert "weighted_error" not in group


def test_chosen_queries_have_their_own_gradients_and_margins(tmp_path):
    write_dump(tmp_path / "d.h5", LAYERS)
    lost, margins = write_gradients(tmp_path / "d.h5")
    done = run(tmp_path, "--queries", "last:2")
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "r.h5") as file:
        group = file["dumps/0/samples/s/recent"]
        assert_near(group["predicted_loss_head"], lost[:, 1:], rel=HALF, abs=HALF)
        assert_near(group["predicted_margin"], margins[1:, None] - lost[:, 1:].sum((0, 2)), rel=HALF, abs=HALF)


def test_without_margins_or_gradients_of_a_layer(tmp_path):
    write_dump(tmp_path / "d.h5", ())
    write_gradients(tmp_path / "d.h5", layers=LAYERS[1:], margin=False)
    assert run(tmp_path).returncode == 0
    with h5py.File(tmp_path / "r.h5") as file:
        group = file["dumps/0/samples/s/recent"]
        assert "margin" not in file["dumps/0/samples/s/scores"] and "predicted_margin" not in group
        assert np.isnan(group["predicted_loss"]).all() and np.isnan(group["predicted_loss_head"][0]).all()
        assert np.isfinite(group["predicted_loss_head"][1:]).all()


def test_weights_are_shown_beside_the_exact_scores(tmp_path):
    done, _, weights = study(tmp_path, LAYERS)
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "r.h5") as file:
        have = file["dumps/0/samples/s/scores/head_weight"][:]
        assert_near(have, np.repeat(weights[:, None], ROWS, 1), rel=FLOAT32)


@pytest.mark.parametrize("scales, sentence", [
    ([0.5, 0.5], "output_gradient: entry 0 of attribute 'scales' is 0.5, expected numbers from 0 to 1, each once"),
    ([0.5, 1.5], "output_gradient: entry 1 of attribute 'scales' is 1.5, expected numbers from 0 to 1, each once"),
    ([0.5, np.nan], "output_gradient: entry 1 of attribute 'scales' is nan, expected numbers from 0 to 1, each once"),
    (None, "output_gradient: attribute 'scales' is missing, expected a list of 2 numbers"),
    ([0.5, 1, 0], "output_gradient: attribute 'scales' is not a list of 2 numbers"),
    ("half", "output_gradient: attribute 'scales' is not a list of 2 numbers"),
])
def test_wrong_scales_are_refused(tmp_path, scales, sentence):
    write_dump(tmp_path / "d.h5", ())
    with h5py.File(tmp_path / "d.h5", "r+") as file:
        group = file["samples/s/layers/2"]
        group["output_gradient"] = np.ones((2, ROWS, HQ, D), np.float16)
        if scales is not None:
            group["output_gradient"].attrs["scales"] = scales
    done = run_attest("inspect", tmp_path / "d.h5")
    assert done.returncode == 4 and f"/samples/s/layers/2/{sentence}" in done.stderr


def test_infinite_gradients_and_margins_are_refused(tmp_path):
    write_dump(tmp_path / "d.h5", ())
    write_gradients(tmp_path / "d.h5", margin=False)
    with h5py.File(tmp_path / "d.h5", "r+") as file:
        file["samples/s/layers/3/output_gradient"][1, 2, 3, 4] = np.inf
    done = run(tmp_path)
    assert done.returncode == 4 and not (tmp_path / "r.h5").exists()
    assert "/samples/s/layers/3/output_gradient: holds NaN or infinity, expected finite gradients" in done.stderr
    with h5py.File(tmp_path / "d.h5", "r+") as file:
        file["samples/s/margin"] = np.array([1, np.inf, 2], np.float32)
    done = run(tmp_path)
    assert done.returncode == 4 and "/samples/s/margin: entry 1 is inf, expected a finite margin" in done.stderr
