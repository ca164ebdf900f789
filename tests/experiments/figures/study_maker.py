"""Results of made-up studies with all metrics, and plain numpy over the cells that they hold."""

import subprocess
from pathlib import Path

import h5py
import numpy as np

from attest_program import ATTEST
from csv_rows import NUMBER, read_csv  # noqa: F401  (tests import it from here)
import results_maker

ESTIMATING = ("ffd", "quest", "kivi", "twilight")


def make(path, selectors, tasks=None, spans=(), skipped=(), seed=0, **more):
    """write_results() with the metrics that it does not know. `tasks`: sample -> task; `spans`: names of samples."""
    results_maker.write_results(path, selectors, skipped=skipped, seed=seed, **more)
    rng = np.random.default_rng(seed + 1)
    with h5py.File(path, "r+") as file:
        for dump in file["dumps"].values():
            for name, sample in dump["samples"].items():
                sample.attrs["task"] = (tasks or {}).get(name, "made up")
                done = np.array([(name, layer) not in skipped for layer in sample["layers"][()]])
                _add_scores(rng, sample, name in spans)
                for one in selectors:
                    _add_metrics(rng, sample[one["label"]], one, done, name in spans, sample)
    return str(path)


def make_of_two_dumps(path, selectors, samples):
    """A study of two dumps whose samples have the same names; returns the path, and those of each dump's own study."""
    own = [make(path.with_name(f"{name}.h5"), selectors, samples=samples, dump=f"{name}.h5", seed=seed)
           for seed, name in enumerate(("first", "second"))]
    return results_maker.join_dumps(path, own), own


def _put(group, done, dense, values, when_dense):
    for name, array in values.items():
        array[dense] = when_dense.get(name, np.nan)
        array[~done] = np.nan
        if name in group:
            del group[name]
        group[name] = array.astype(np.float32)


def _add_scores(rng, sample, has_spans):
    shape = sample["scores/lse"].shape
    gap = rng.exponential(1.0, shape)
    gap[0, 0, 0] = np.nan
    sample["scores/top1_top2_gap"] = gap.astype(np.float32)
    sample["scores/score_std"] = (0.3 + 0.5 * gap + rng.exponential(0.5, shape)).astype(np.float32)
    if has_spans:
        sample["scores/span_mass"] = rng.uniform(0, 0.8, shape).astype(np.float32)


def _add_metrics(rng, group, one, done, has_spans, sample):
    dense = group["dense"][()] == 1
    keep = group["keep_ratio"][()].astype(np.float64)
    hit = np.clip(keep + rng.uniform(0, 0.4, keep.shape), 0, 1)
    hit[0, 0, 2] = np.nan
    values = {"salient_hit_rate": hit, "missed_salient_mass": 1 - hit}
    if one["name"] in ESTIMATING:
        # Rules, GQA policies and dense layers do not change an estimate.
        own = np.random.default_rng([len(sample.name), *sample.name.encode(), *one["name"].encode()])
        level = {"ffd": 0.8, "quest": 0.5}.get(one["name"], 0.95)
        for metric, lift in (("spearman", 0.0), ("spearman_block16", 0.1), ("spearman_block128", -0.1)):
            values[metric] = np.clip(level + lift + own.normal(0, 0.2, keep.shape[:3]), -1, 1)
        values["spearman"][-1, 0, 1] = np.nan
    if has_spans:
        mass = sample["scores/span_mass"][()].astype(np.float64)
        values["span_keep"] = np.clip(keep + rng.uniform(-0.2, 0.4, keep.shape), 0, 1)
        values["span_mass_kept"] = mass[..., None] * np.clip(values["span_keep"] + 0.1, 0, 1)
    exact = {"salient_hit_rate": 1, "missed_salient_mass": 0, "span_keep": 1}
    if has_spans:
        tokens = _span_tokens(sample, one, keep)
        values |= {"span_token_heads": tokens,
                   "span_lost": np.where(np.isnan(tokens), np.nan, tokens == 0).sum(-1, where=~np.isnan(tokens)) / 5}
        exact |= {"span_token_heads": keep.shape[2], "span_lost": 0}
        if "span_tokens" not in group:
            group["span_tokens"] = np.arange(100, 106)
    _put(group, done, dense, values, exact)


def _span_tokens(sample, one, keep):
    """Heads that keep each of six span tokens, of which a query sees five."""
    own = np.random.default_rng([7, *sample.name.encode(), *one["label"].encode()])
    layers, queries, heads, settings = keep.shape
    counts = own.binomial(heads, 0.6 * np.nan_to_num(keep).mean(2)[..., None] ** 3,
                          (layers, queries, settings, 6)).astype(float)
    for query in range(queries):
        counts[:, query, :, query] = np.nan
    return counts


def figures(results, folder, *arguments, expect=0):
    """Runs `attest figures` on one file or several; returns what it printed. `expect`: the exit status, None for
    any."""
    paths = [results] if isinstance(results, (str, Path)) else results
    command = [ATTEST, "figures", *map(str, paths), "-o", str(folder), "--format", "svg", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert expect in (done.returncode, None), done.stderr + done.stdout
    return done.stdout + (done.stderr if done.returncode else "")


def blocks(path, label, metric, setting=None):
    """(sample, task, layer, [queries, heads]) of every computed layer; metrics of the exact scores: label "scores"."""
    found = []
    with h5py.File(path) as file:
        for dump in file["dumps"].values():
            for name, sample in dump["samples"].items():
                if label not in sample or metric not in sample[label]:
                    continue
                array = sample[label][metric][()].astype(np.float64)
                if setting is not None:
                    array = array[..., list(sample[label]["setting_labels"].asstr()[()]).index(setting)]
                for row, layer in enumerate(sample["layers"][()]):
                    found.append((name, sample.attrs["task"], int(layer), array[row]))
    return found


def pooled(found, wanted=lambda sample, task, layer: True):
    """Every defined value of the blocks for which wanted() holds."""
    chosen = [block.ravel() for sample, task, layer, block in found if wanted(sample, task, layer)]
    values = np.concatenate(chosen) if chosen else np.array([])
    return values[~np.isnan(values)]


def same(row, column, value):
    """Whether the csv's cell is the value; NaN is NaN."""
    number = float(row[column])
    return (np.isnan(number) and np.isnan(value)) or bool(np.isclose(number, value, rtol=NUMBER, atol=NUMBER))
