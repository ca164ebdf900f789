"""error_bound: bounds and false negatives by numpy from the dump, tails from the results."""

import re

import h5py
import numpy as np
import pytest
from near import FLOAT32, assert_near
from program_study import attest, findings, make, make_study, number, read_csv, reason, same, spoil

LAMBDAS = [0.25, 0.5, 1, 1.5, 2, 3, 4, 6]
DELTA, BLOCK = 5.0, 128


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bound")
    path = make_study(folder, ["exact", "ffd=ffd:bits=2,dense_layers=1"], "--delta", "3,5", tokens=1500, samples=2,
                      layers=3)
    spoil(path, "ffd", (), skipped=("synthetic-0001", 1))
    return path, folder / "out", make(path, folder / "out", "error_bound")


def bfloat16(dataset):
    """Values of a bfloat16 data set, which h5py reads as 16-bit patterns, as float32."""
    raw = dataset[()]
    if raw.dtype == np.uint16:
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float32)


def thumbnails(keys, bits=2):
    """k^ and the steps of every full block, in float32: keys [T, D]."""
    z = np.float32((2**bits - 1) / 2)
    hats, steps = [], []
    for begin in range(0, len(keys) // BLOCK * BLOCK, BLOCK):
        k = keys[begin : begin + BLOCK]
        s = np.maximum(np.abs(k).max(axis=0) / z, np.float32(1e-8))
        hats.append((np.clip(np.round(k / s + z), 0, 2**bits - 1) - z) * s)
        steps.append(s)
    return np.concatenate(hats).astype(np.float64), np.array(steps, np.float64)


def expected(path):
    """layer -> one record per row (query, head) with alpha, sigma, bounds [M], tails [M] and counts [M]."""
    records = {}
    lambdas = np.array(LAMBDAS)
    with h5py.File(str(path).replace(".h5", "_dump.h5")) as dump, h5py.File(path) as results:
        scale = dump.attrs.get("softmax_scale", dump.attrs["head_dim"] ** -0.5)
        for name, sample in results["dumps/0/samples"].items():
            group = sample["ffd"]
            positions = list(dump["samples"][name]["query_positions"][()])
            for y, layer in enumerate(sample["layers"][()]):
                if not group["done"][y] or group["dense"][y]:
                    continue
                tensors = dump["samples"][name]["layers"][str(layer)]
                q, k = bfloat16(tensors["q"]).astype(np.float64), bfloat16(tensors["k"])
                for n, position in enumerate(sample["query_positions"][()]):
                    row_q = q[positions.index(position)]
                    visible = int(position) + 1
                    covered = visible // BLOCK * BLOCK
                    heads = []
                    for h in range(len(row_q)):
                        keys = k[h * len(k) // len(row_q)]
                        hats, steps = thumbnails(keys[:covered])
                        query = row_q[h]
                        heads.append((query, scale * keys[:visible].astype(np.float64) @ query, scale * hats @ query,
                                      steps))
                    threshold = [max(e[:BLOCK].max(), e[-BLOCK:].max()) - DELTA for _, _, e, _ in heads]
                    kept = [(e.reshape(-1, BLOCK).max(axis=1) >= t)
                            for (_, _, e, _), t in zip(heads, threshold, strict=True)]
                    group_size = len(row_q) // len(k)
                    for h, (query, s, estimate, steps) in enumerate(heads):
                        first = h // group_size * group_size
                        union = np.repeat(np.any(kept[first : first + group_size], axis=0), BLOCK)
                        variance = (scale**2 * query**2 * (steps / 2) ** 2).sum(axis=1)
                        paper = scale**2 * (query @ query) * (steps.max() / 2) ** 2
                        one = lambda v: np.exp(-(lambdas**2) / (2 * v))
                        by_block = np.array([one(v) for v in variance])
                        near = [(s[:covered] >= s.max() - (DELTA - m)) for m in lambdas]
                        records.setdefault(int(layer), []).append({
                            "alpha": np.sqrt(query @ query / len(query)), "sigma_eff_block": np.sqrt(variance.mean()),
                            "sigma_eff_paper": np.sqrt(paper),
                            "tail": group["scan_error_tail"][y, n, h].astype(np.float64),
                            "lower_tail": group["scan_error_lower_tail"][y, n, h].astype(np.float64),
                            "tail_bound_block": np.minimum(1, 2 * by_block).mean(axis=0),
                            "tail_bound_paper": np.minimum(1, 2 * one(paper)),
                            "lower_tail_bound_block": by_block.mean(axis=0), "lower_tail_bound_paper": one(paper),
                            "salient": np.array([x.sum() for x in near]),
                            "missed": np.array([(x & (estimate < threshold[h])).sum() for x in near]),
                            "dropped": np.array([(x & ~union).sum() for x in near]),
                            "missed_bound_block": np.array(
                                [np.repeat(by_block[:, i], BLOCK)[x].sum() for i, x in enumerate(near)]),
                            "missed_bound_paper": np.array([one(paper)[i] * x.sum() for i, x in enumerate(near)]),
                            "error": np.array([(np.abs(estimate - s[:covered]) >= m).mean() for m in lambdas])})
    return records


def test_bounds_and_misses_are_what_the_dump_says(study):
    path, out, _ = study
    records = expected(path)
    assert sorted(records) == [1, 2], "dense layers are left out"
    assert len(records[1]) == 12 and len(records[2]) == 24
    for record in records[1] + records[2]:
        assert_near(record["tail"], record["error"], abs=1.5 / 1024, what="this test's codes are the study's")
    rows = read_csv(out / "error_bound.csv")
    assert len(rows) == len(LAMBDAS) * (1 + 2)
    for row in rows:
        own = records[1] + records[2] if row["layer"] == "nan" else records[int(row["layer"])]
        i = LAMBDAS.index(number(row, "lambda"))
        get = lambda name: np.array([record[name][i] for record in own])
        means = ("tail", "lower_tail", "tail_bound_block", "tail_bound_paper", "lower_tail_bound_block",
                 "lower_tail_bound_paper")
        same(row, {name: get(name).mean() for name in means}, rel=FLOAT32)
        same(row, {f"rows_above_bound_{form}": (get("tail") > get(f"tail_bound_{form}")).mean()
                   for form in ("block", "paper")})
        salient = get("salient").sum()
        assert number(row, "salient_tokens") == salient and number(row, "delta") == DELTA
        shares = ("missed", "dropped", "missed_bound_block", "missed_bound_paper")
        same(row, {name: get(name).sum() / salient if salient else np.nan for name in shares}, rel=FLOAT32)
        alpha = np.array([record["alpha"] for record in own])
        same(row, {"alpha_mean": alpha.mean(), "alpha_min": alpha.min(), "alpha_max": alpha.max(), "rows": len(own)},
             rel=FLOAT32)
        for name in ("sigma_eff_block", "sigma_eff_paper"):
            same(row, {name: np.mean([record[name] for record in own])}, rel=FLOAT32)
    assert sum(record["missed"].sum() for record in records[1] + records[2]) > 0, "not trivial"


def test_findings_quote_the_csv(study):
    _, out, said = study
    rows = read_csv(out / "error_bound.csv")
    one = next(r for r in rows if r["layer"] == "nan" and r["lambda"] == "1")
    texts = findings(said)
    percent = lambda column: f"{100 * number(one, column):.3g} %"
    assert f"at least 1 nats for {percent('tail')} of the tokens; the bound allows {percent('tail_bound_block')}" \
        in texts[0]
    above = [r for r in rows if r["layer"] != "nan" and number(r, "tail") > number(r, "tail_bound_block")]
    assert ("In no layer" in texts[1]) == (not above)
    if above:
        assert f"layer {above[0]['layer']} at {above[0]['lambda']}" in texts[1]
    assert (f"is {number(one, 'alpha_mean'):.3g} in the mean, from {number(one, 'alpha_min'):.3g} to "
            f"{number(one, 'alpha_max'):.3g}") in texts[2]
    assert re.search(
        rf"of {one['salient_tokens']} tokens within delta - 1 of the peak {re.escape(percent('missed'))} have",
        texts[3])


def test_a_dump_that_is_gone_or_changed_is_named(tmp_path):
    path = make_study(tmp_path, ["ffd"], "--delta", "5", samples=1, layers=1)
    dump = tmp_path / "r_dump.h5"
    whole = dump.read_bytes()
    dump.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert reason(path, tmp_path / "a", "error_bound") == (
        f"needs the dump of the study: {dump} has changed since the study", "")
    dump.write_bytes(whole + b"x")
    assert f"it has {len(whole) + 1} bytes" in reason(path, tmp_path / "b", "error_bound")[0]
    dump.unlink()
    assert f"{dump}: No such file" in reason(path, tmp_path / "c", "error_bound")[0]


def test_dumps_that_moved_with_the_results_are_found(tmp_path):
    path = make_study(tmp_path, ["ffd"], "--delta", "5", samples=1, layers=1)
    moved = tmp_path / "moved"
    moved.mkdir()
    path.rename(moved / "r.h5")
    (tmp_path / "r_dump.h5").rename(moved / "r_dump.h5")
    assert "alpha = norm(q)/sqrt(D)" in " ".join(findings(make(moved / "r.h5", tmp_path / "o", "error_bound")))


def test_what_is_missing_is_said(tmp_path):
    path = make_study(tmp_path, ["ffd:scan=exact"], "--delta", "5", samples=1, layers=1)
    why = ("needs ffd with scan=thumbnail at a delta, and the dump", "--selector ffd --delta 5")
    assert reason(path, tmp_path / "o", "error_bound") == why
    short = make_study(tmp_path, ["ffd"], "--delta", "5", samples=1, layers=1, tokens=100, name="s")
    assert "every context is shorter than a block" in reason(short, tmp_path / "s", "error_bound")[0]
    attest("inspect", short)


def test_a_delta_of_another_unit_is_told_in_nats(tmp_path):
    path = make_study(tmp_path, ["ffd=ffd:bits=2,delta_unit=log2"], "--delta", "5", samples=1, layers=1)
    texts = findings(make(path, tmp_path / "out", "error_bound"))
    nats = 5 * np.log(2)
    assert all(number(row, "delta") == pytest.approx(nats) for row in read_csv(tmp_path / "out/error_bound.csv"))
    assert texts[3].startswith(f"At margin 1 (delta 5 as typed, {nats:.3g} nats): of ")
