"""Writes results files of made-up studies with h5py, independently of the program (format: dumps/README.md)."""

import json

import h5py
import numpy as np

HEADS, QUERIES = 4, 3

GRIDS = {
    "delta": (["3", "5", "7"], [3, 5, 7]),
    "budget": (["256", "1024", "50%"], [256, 1024, 50]),
    "p": (["0.5", "0.85"], [0.5, 0.85]),
    "none": ([""], [0]),
}


def selector(label, name, setting, dense_layers=0, **options):
    """One selector of a study; `options` are those that the figures read."""
    return {"label": label, "name": name, "setting": setting, "dense_layers": dense_layers, "options": options}


def ffd(label="ffd", gqa="union", **more):
    return selector(label, "ffd", "delta", **{"gqa": gqa, "scan": "thumbnail", "rule": "topdelta", "sub_block": 128,
                                              **more})


def quest(label="quest", dense_layers=2):
    return selector(label, "quest", "budget", dense_layers, page=16)


EXACT = selector("exact", "exact", "none")


def _values(rng, selector, layers):
    """Every metric of one selector on one sample; quality grows with the setting, some cells are undefined."""
    settings = len(GRIDS[selector["setting"]][0])
    shape = (len(layers), QUERIES, HEADS, settings)
    grow = np.linspace(0.2, 0.9, settings) if settings > 1 else np.ones(1)
    keep = np.clip(grow + rng.uniform(-0.1, 0.1, shape), 0.01, 1)
    metrics = {
        "keep_ratio": keep,
        "io_ratio": np.clip(0.1 + 0.8 * keep, 0, 1.2),
        "recall": 1 - (1 - keep) * rng.uniform(0, 0.6, shape),
        "lse_error": (1.01 - keep) * rng.exponential(1.0, shape),
        "mass_recall": np.clip(keep + 0.3, 0, 1),
    }
    metrics["recall"][0, 0, 0] = np.nan
    if selector["name"] == "ffd":
        metrics["block_keep_ratio"] = np.clip(keep - 0.05, 0, 1)
        metrics["block_keep_ratio"][-1, -1, -1] = np.nan
        gap = np.maximum(rng.normal(-1, 4, shape[:3]), 0)
        gap[0, 0, 1] = np.nan
        metrics["pseudo_max_gap_exact"] = gap
        metrics["pseudo_max_gap_all"] = gap + np.where(rng.uniform(size=gap.shape) < 0.2, 2, 0)
        metrics["pseudo_max_gap_thumbnail"] = gap + rng.normal(0, 1, gap.shape)
    dense = np.array([layer < selector["dense_layers"] for layer in layers], np.uint8)
    for name, values in metrics.items():
        if name.startswith(("block_keep", "pseudo_max")):
            values[dense == 1] = np.nan
        else:
            values[dense == 1] = {"lse_error": 0.0}.get(name, 1.0)
    return metrics, dense


def write_results(path, selectors, samples=None, model="tiny", dump="tiny.h5", seed=0, skipped=()):
    """`samples`: name -> layer numbers; `skipped`: (sample, layer) that a study left out. Returns the path."""
    samples = samples or {"a": [0, 1, 2, 5], "b": [0, 1, 2, 5], "c": [2, 5]}
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        file.attrs.update({"format": "attention-study", "format_version": 1, "manifest": "{}"})
        group = file.create_group("dumps/0")
        group.attrs.update({"path": dump, "model": model, "num_query_heads": HEADS, "num_kv_heads": 2, "head_dim": 64,
                            "value_dim": 64, "num_layers": 32})
        for name, layers in samples.items():
            sample = group.create_group(f"samples/{name}")
            sample.attrs.update({"task": "made up", "num_tokens": 900})
            sample["layers"] = np.array(layers, np.int32)
            sample["query_positions"] = np.arange(800, 800 + QUERIES)
            sample["scores/lse"] = rng.normal(size=(len(layers), QUERIES, HEADS)).astype(np.float32)
            for one in selectors:
                labels, settings = GRIDS[one["setting"]]
                target = sample.create_group(one["label"])
                target.attrs.update({"selector": one["name"], "setting": one["setting"],
                                     "options": json.dumps(one["options"])})
                target["settings"] = np.array(settings, np.float64)
                target["setting_labels"] = np.array(labels, h5py.string_dtype())
                target["lambdas"] = np.array([0.5, 1.0])
                done = np.array([(name, layer) not in skipped for layer in layers], np.uint8)
                metrics, target["dense"] = _values(rng, one, layers)
                target["done"] = done
                for metric, values in metrics.items():
                    values[done == 0] = np.nan
                    target[metric] = values.astype(np.float32)
    return str(path)


def join_dumps(path, files):
    """One study of the dumps of several. Returns the path."""
    with h5py.File(path, "w") as joined:
        for number, one in enumerate(files):
            with h5py.File(one) as file:
                joined.attrs.update(file.attrs)
                file.copy("dumps/0", joined.require_group("dumps"), name=str(number))
    return str(path)


def cells(paths, label, metric, setting=None, keep_layer=lambda layer: True):
    """Every defined value of a metric, read directly from the files; `setting` as typed."""
    values = []
    for path in paths:
        with h5py.File(path) as file:
            for dump in file["dumps"].values():
                for sample in dump["samples"].values():
                    if label not in sample or metric not in sample[label]:
                        continue
                    group = sample[label]
                    array = group[metric][()].astype(np.float64)
                    if setting is not None:
                        array = array[..., list(group["setting_labels"].asstr()[()]).index(setting)]
                    for row, layer in enumerate(sample["layers"][()]):
                        if keep_layer(layer):
                            values.extend(array[row].ravel())
    values = np.array(values)
    return values[~np.isnan(values)]
