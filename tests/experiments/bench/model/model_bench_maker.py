"""The numbers that were measured on an H200 as a file of `attest bench model`, with what follows from them."""

import os
from pathlib import Path

from csv_rows import read_csv  # noqa: F401  (tests import it from here)

FOLDER = Path(os.environ["ATTEST_SOURCE_DIR"]) / "experiments" / "bench" / "model"


def measurement(row, dense):
    """`dense`: {method: row} of the same context and batch size."""
    step, attention = float(row["step_ms"]), float(row["attention_ms"])
    keep = float(row["keep"])
    found = {
        "method": row["method"],
        "context": int(row["context"]),
        "batch": int(row["batch"]),
        "setting": {"kind": "keep" if keep else "none", "value": keep},
        "kept": float(row["kept"]),
        "step_milliseconds": step,
        "attention_milliseconds": attention,
        "attention_share": attention / step,
        "cache_bytes": int(row["cache_bytes"]),
    }
    for name, of in (("", "step_ms"), ("_low", "most_ms"), ("_high", "least_ms")):
        found[f"tokens_per_second{name}"] = 1000 * found["batch"] / float(row[of])
    for name in ("flash", "cudnn"):
        own, own_attention = (float(dense[f"sdpa_{name}"][of]) for of in ("step_ms", "attention_ms"))
        share = own_attention / own
        found[f"over_{name}"] = own / step
        found[f"limit_{name}"] = 1 / (1 - share + share * attention / own_attention)
    found["check"] = {
        "logits_difference": float(row["logits_difference"]),
        "tolerance": 0.03,
        "without_attention": float(row["without_attention"]),
    }
    return {**found, "milliseconds": [step], "milliseconds_of_attention": [attention]}


def h200():
    rows = read_csv(FOLDER / "h200.csv")
    dense = {}
    for row in rows:
        dense.setdefault((row["context"], row["batch"]), {})[row["method"]] = row
    reason = "needs 151.9 GB beside the weights, and 102.8 GB may be taken"
    return {
        "format": "attest-model-bench",
        "format_version": 1,
        "program": {"version": "0.1.0", "commit": "0123456789ab"},
        "created": "2026-01-02T03:04:05+00:00",
        "machine": {
            "gpu": "NVIDIA H200", "device": "cuda:0", "memory_bytes": 150 * 10**9, "torch": "2", "cuda_runtime": "13"},
        "arguments": ["bench", "model"],
        "seed": 0,
        "model": {
            "name": "llama31-8b",
            "family": "llama",
            "random_weights": True,
            "layers": 32,
            "hidden": 4096,
            "num_query_heads": 32,
            "num_kv_heads": 8,
            "head_dim": 128,
            "element_type": "bfloat16",
            "weight_bytes": 16060522496,
        },
        "measurements": [measurement(row, dense[row["context"], row["batch"]]) for row in rows],
        "left_out": [{"method": "all", "context": 131072, "batch": 8, "reason": reason}],
    }
