"""Writes small dumps with h5py, independently of the program (format: dumps/README.md)."""

import h5py
import numpy as np


def write_dump(path, values, *, seed, layers, tokens, heads, kv_heads, dim, positions, samples=("s",), task="test",
               spans=None,
               num_layers=6):
    """values(random, number of the layer) -> q [N, heads, dim], k and v [kv_heads, tokens, dim], called in the order of
    samples and layers."""
    random = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="test/model", num_layers=num_layers,
                          num_query_heads=heads, num_kv_heads=kv_heads, head_dim=dim)
        for name in samples:
            sample = file.create_group(f"samples/{name}")
            sample.attrs.update(task=task, num_tokens=tokens)
            sample["query_positions"] = np.array(positions, np.int64)
            if spans is not None:
                sample["spans"] = np.array(spans, np.int64)
            for number in layers:
                layer = sample.create_group(f"layers/{number}")
                layer["q"], layer["k"], layer["v"] = values(random, number)
