"""Results files with planted numbers and tasks files with planted answers, with h5py, independently of the program."""

import json

import h5py
import numpy as np

LAYERS, QUERIES, HEADS, SPAN_TOKENS = 2, 2, 4, 5
NOT_SCORED = 2

# label -> (selector, kind of setting, settings, options that were given)
SELECTORS = {
    "ffd": ("ffd", "delta", ["1", "5"], {}),
    "half": ("ffd", "delta", ["1", "5"], {"gqa": "per_head"}),
    "quest": ("quest", "budget", ["256", "25%"], {}),
    "stream": ("streaming_llm", "budget", ["1024"], {}),
}


def number(setting):
    return float(setting.rstrip("%")), setting.endswith("%")


def every_run(selectors=None):
    """(label, setting) in the order of the arrays below."""
    return [(label, setting) for label, (_, _, settings, _) in (selectors or SELECTORS).items() for setting in settings]


def planted(prompts, seed=0, selectors=None, noise=0.02):
    """Numbers [prompt, run] of made-up runs: how bad they are decides, with a little noise, whether they fail."""
    rng = np.random.default_rng(seed)
    runs = every_run(selectors)
    base = rng.uniform(0, 0.35, len(runs))
    bad = np.clip(base + rng.normal(0, 0.15, (prompts, 1)) + rng.normal(0, 0.1, (prompts, len(runs))), 0.001, 0.95)
    failed = bad + rng.normal(0, noise, bad.shape) > 0.3
    return bad, failed


def write_results(path, bad, names=None, *, selectors=None, model="tiny", dump="tiny.h5", spans=True, left_out=(),
                  seed=0, metrics=None):
    """Cells whose worst is 1 - bad (qualities) or 2 bad (LSE error). `metrics`: name -> [prompt, run], the worst cell
    instead. `left_out`: prompts whose last layer was left out."""
    selectors = selectors or SELECTORS
    rng = np.random.default_rng(seed)
    shape = (LAYERS, QUERIES, HEADS)
    with h5py.File(path, "w") as file:
        file.attrs.update({"format": "attention-study", "format_version": 1, "manifest": "{}"})
        group = file.create_group("dumps/0")
        group.attrs.update({"path": dump, "model": model, "num_query_heads": HEADS, "num_kv_heads": 2, "head_dim": 64,
                            "value_dim": 64, "num_layers": LAYERS})
        for p, row in enumerate(bad):
            sample = group.create_group(f"samples/{names[p] if names else f'p{p:03}'}")
            sample.attrs.update({"task": "t", "num_tokens": 1000})
            sample["layers"] = np.arange(LAYERS, dtype=np.int32)
            sample["query_positions"] = np.arange(1000 - QUERIES, 1000)
            sample["scores/lse"] = rng.normal(size=shape).astype(np.float32)
            sample["scores/margin"] = ((0.6 + 0.08 * (p % 10)) * np.linspace(2.5, 4, QUERIES)).astype(np.float32)
            mass = np.full(shape, 0.1)
            mass[:, :, 0] = 0.6  # retrieval cells
            if spans:
                sample["scores/span_mass"] = mass.astype(np.float32)
            run = 0
            for label, (name, kind, settings, options) in selectors.items():
                target = sample.create_group(label)
                target.attrs.update({"selector": name, "setting": kind, "options": json.dumps(options)})
                target["settings"] = np.array([number(s)[0] for s in settings])
                target["setting_labels"] = np.array(settings, h5py.string_dtype())
                target["dense"] = np.zeros(LAYERS, np.uint8)
                done = np.array([1] * (LAYERS - 1) + [p not in left_out], np.uint8)
                target["done"] = done
                own = np.array([row[run + s] for s in range(len(settings))])
                # Of recall the worst cell is no retrieval cell, and half as bad again.
                recall = 1 - own * rng.uniform(0.1, 0.9, (*shape, 1))
                recall[1, 1, 0] = 1 - own
                recall[0, 0, 3] = 1 - np.minimum(1, own * rng.uniform(0.8, 1.6, own.shape))
                values = {"recall": recall, "mass_recall": 1 - own * rng.uniform(0.2, 1, (*shape, 1)),
                          "lse_error": 2 * own * rng.uniform(0, 1, (*shape, 1)),
                          "output_error": 1.5 * own * rng.uniform(0.6, 1, (*shape, 1)),
                          "weighted_error_head": own**2 * np.linspace(0.5, 2, mass.size).reshape(*shape, 1),
                          # Of up to 12 own per row, some of it negative; the margins are about 3.
                          "predicted_loss_head": own * np.linspace(-1.5, 3.5, mass.size).reshape(*shape, 1),
                          "recall_layer": 1 - own * rng.uniform(0.2, 1, (LAYERS, QUERIES, 1)),
                          "keep_ratio": np.clip(0.8 - own * rng.uniform(0.5, 1, (*shape, 1)), 0, 1)}
                if spans:
                    values["span_mass_kept"] = mass[..., None] * (1 - own * rng.uniform(0.8, 1, (*shape, 1)))
                    lost = rng.uniform(size=(LAYERS, QUERIES, len(settings), SPAN_TOKENS)) < own[:, None]
                    values["span_token_heads"] = np.where(lost, 0, 2)
                    target["span_tokens"] = np.arange(100, 100 + SPAN_TOKENS)
                for metric, numbers in (metrics or {}).items():
                    worst = np.array([numbers[p][run + s] for s in range(len(settings))])
                    values[metric] = np.broadcast_to(worst, (*shape, len(settings))).copy()
                for metric, array in values.items():
                    array = array.astype(np.float32)
                    array[done == 0] = np.nan
                    target[metric] = array
                run += len(settings)
    return str(path)


def write_tasks(path, failed, names=None, *, selectors=None, model="tiny", dense=None, exact=None, prefix=None,
                contains=None, options=None):
    """Answers: right unless `failed` [prompt, run]. `dense`: [prompt], whether dense attention is right (default: all).
    `exact`, `prefix`, `contains`: whole arrays [prompt, 1 + run] instead. `options`: label -> options as JSON."""
    selectors = selectors or SELECTORS
    failed = np.asarray(failed)
    prompts = len(failed)
    text = h5py.string_dtype()
    right = np.concatenate([np.ones((prompts, 1), bool) if dense is None else np.asarray(dense, bool)[:, None],
                            ~failed], 1).astype(np.uint8)
    rows = [("dense", "exact", {}, "none", 0.0, 0)]
    for label, setting in every_run(selectors):
        name, kind, _, given = selectors[label]
        value, percent = number(setting) if setting else (0.0, False)
        rows.append((label, name, (options or {}).get(label, given), kind, value, int(percent)))
    with h5py.File(path, "w") as file:
        file.attrs.update({"format": "attest-tasks", "format_version": 1, "model": model, "num_layers": LAYERS,
                           "created": "2026-11-22T17:00:00Z", "manifest": "{}"})
        file["prompts/name"] = np.array(names or [f"p{p:03}" for p in range(prompts)], text)
        file["prompts/task"] = np.array(["t"] * prompts, text)
        file["prompts/answer"] = np.array(["42"] * prompts, text)
        file["prompts/num_tokens"] = np.full(prompts, 1000)
        for i, (name, kind) in enumerate([("label", text), ("selector", text), ("options", text),
                                          ("setting_kind", text), ("setting", np.float64),
                                          ("setting_percent", np.uint8)]):
            file[f"runs/{name}"] = np.array([json.dumps(row[i]) if name == "options" else row[i] for row in rows], kind)
        file["runs/setting_label"] = np.array(["", *(setting for _, setting in every_run(selectors))], text)
        for name, given in (("exact", exact), ("contains", contains), ("prefix", prefix)):
            file[f"outcomes/{name}"] = (right if given is None else np.asarray(given)).astype(np.uint8)
        file["outcomes/answer"] = np.full(right.shape, "42", text)
        file["outcomes/kept_ratio"] = np.ones(right.shape, np.float32)
        file["outcomes/num_tokens"] = np.ones(right.shape, np.int32)
    return str(path)
