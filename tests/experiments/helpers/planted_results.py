"""Writes results files with planted values for `attest validate`, with h5py, independently of the program."""

import json
import zlib

import h5py
import numpy as np

SCORES = {"span_mass"}


def write_planted(path, metrics, *, kind="delta", settings=(3, 5, 7), labels=None, names=None, tasks=None, lengths=None,
                  model="tiny",
                  dump="tiny.h5", layers=None, num_layers=None, kv_heads=2, label="ffd", selector="ffd", options=None,
                  manifest=None,
                  left_out=()):
    """`metrics`: name -> array [prompt, layer, query, head, setting], of scores without the last axis, of layers
    (NAME_layer) without the head. `left_out`: (prompt, layer)."""
    values = {name: np.asarray(array, np.float32) for name, array in metrics.items()}
    prompts, rows, queries, heads = next(v for v in values.values() if v.ndim == 5).shape[:4]
    layers = list(range(rows)) if layers is None else layers
    labels = [f"{s:g}" for s in settings] if labels is None else labels
    rng = np.random.default_rng(zlib.crc32(f"{dump} {names}".encode()))
    with h5py.File(path, "w") as file:
        file.attrs.update({"format": "attention-study", "format_version": 1, "manifest": json.dumps(manifest or {})})
        group = file.create_group("dumps/0")
        group.attrs.update({"path": dump, "model": model, "num_query_heads": heads, "num_kv_heads": kv_heads,
                            "head_dim": 64,
                            "value_dim": 64, "num_layers": num_layers or rows})
        for p in range(prompts):
            sample = group.create_group(f"samples/{names[p] if names else f'p{p:03}'}")
            length = lengths[p] if lengths else 1000
            sample.attrs.update({"task": tasks[p] if tasks else "t", "num_tokens": length})
            sample["layers"] = np.array(layers, np.int32)
            sample["query_positions"] = np.arange(length - queries, length)
            sample["scores/lse"] = rng.normal(size=(rows, queries, heads)).astype(np.float32)
            target = sample.create_group(label)
            target.attrs.update({"selector": selector, "setting": kind, "options": json.dumps(options or {})})
            target["settings"] = np.array([float(str(s).rstrip("%")) for s in settings])
            target["setting_labels"] = np.array(labels, h5py.string_dtype())
            target["dense"] = np.zeros(rows, np.uint8)
            done = target["done"] = np.array([(p, layer) not in left_out for layer in layers], np.uint8)
            done = np.asarray([(p, layer) not in left_out for layer in layers])
            for name, array in values.items():
                cells = array[p].copy()
                cells[~done] = np.nan
                (sample["scores"] if name in SCORES else target)[name] = cells
    return str(path)


def recalls(prompts, layers=2, queries=2, heads=4, settings=3, value=1.0):
    return np.full((prompts, layers, queries, heads, settings), value)


def with_violations(prompts, per_setting, *, layer=1, query=1, head=2, value=0.5, **shape):
    """The first per_setting[s] prompts have one bad cell at setting s."""
    array = recalls(prompts, settings=len(per_setting), **shape)
    for s, count in enumerate(per_setting):
        array[:count, layer, query, head, s] = value
    return array
