"""Makes files as `attest bench kernel` writes them, in which every number follows from a simple formula."""

import json

BITS = {"2-bit": 2, "4-bit": 4, "8-bit": 8, "16-bit": 16}
LENGTHS = [4096 << i for i in range(7)]  # 4K to 256K
COPY = 4e12  # bytes per second
HEADS = 32


def measurement(experiment, method, length, batch, *, layer=0, scan="2-bit", rule="topdelta", launches="fused",
                setting=("none", 0),
                keep=1.0, slow=1.0, start=3.0, fidelity=True):
    """`slow`: time over floor of long contexts; `start`: microseconds of an empty call."""
    keep = min(1.0, keep * (1 + 0.1 * layer))
    scanned = 0 if scan is None or scan == "16-bit" else BITS[scan] / 32 + 1 / 128
    io = scanned + keep * (1 if scanned == 0 else 0.75)
    data = io * batch * 8 * length * 256 * 2
    floor = 1e6 * data / COPY
    median = start + slow * floor
    codes = 0.1 / BITS[scan or "16-bit"]
    return {
        "experiments": experiment if isinstance(experiment, list) else [experiment], "method": method, "length": length,
        "batch": batch,
        "layer": layer, "sample": "s", "tiled": length > 8192, "scan": scan, "rule": rule, "launches": launches,
        "setting": {"kind": setting[0], "value": setting[1]}, "delta": setting[1] if setting[0] == "delta" else None,
        "keep_ratio": keep, "io_ratio": io, "bytes": data, "floor_microseconds": floor,
        "microseconds": [median * 0.98, median, median * 1.05], "median_microseconds": median,
        "fidelity": None if not fidelity else {
            "recall_mean": 1 - 0.001 * (1 - keep) - codes / 100, "recall_min": 0.99 - codes * (1 + layer),
            "lse_error_mean": codes * (1 + layer) + 0.01 * (1 - keep), "lse_error_max": 4 * codes * (1 + layer)},
        "check": {"against": "the plain kernel", "largest_output_error": 3e-4, "largest_lse_error": 1e-5,
                  "blocks_differing": 0, "blocks": 2048},
    }


SETTINGS = [("delta", 5.0, 0.06), ("delta", 7.0, 0.10), ("keep", 0.02, 0.02), ("keep", 0.06, 0.06),
            ("keep", 0.27, 0.27), ("keep", 1.0, 1.0)]


def latency(lengths=LENGTHS, batches=(1, 8), layers=(0, 1, 3), cudnn=True, slow_dense=1.2, dealt=True):
    made = []
    for length in lengths:
        for batch in batches:
            at = {"length": length, "batch": batch}
            for layer in layers:
                for kind, value, keep in SETTINGS:
                    made.append(measurement("kernel_latency", "ffd", **at, layer=layer, setting=(kind, value),
                                            keep=keep, slow=1.4, start=4))
                    if kind == "keep" and value < 1 and dealt:
                        made.append(measurement("kernel_latency", "ffd", **at, layer=layer, launches="dealt",
                                                setting=(kind, value), keep=keep, slow=1.2 - 0.2 * value, start=4.1))
                made.append(measurement("kernel_latency", "skip_softmax", **at, layer=layer, scan="16-bit", rule="none",
                                        setting=("factor", 0.001), keep=0.6, slow=1.3, start=5))
            made.append(measurement("kernel_latency", "sdpa_flash", **at, scan="16-bit", rule="none", launches=None,
                                    slow=slow_dense, start=8))
            if cudnn:
                made.append(measurement("kernel_latency", "sdpa_cudnn", **at, scan="16-bit", rule="none", launches=None,
                                        slow=slow_dense * 0.9, start=6))
    return made


def selection(length=16384, batch=1, keeps=(0.273,), topp_keep=1.0):
    at = {"length": length, "batch": batch, "fidelity": False}
    made = []
    for keep in keeps:
        for method, rule, slow, share in (("ffd_scan", "topdelta", 1.5, 1), ("block_topk", "topk", 2.5, 1.007),
                                          ("token_topp", "topp", 20, topp_keep)):
            made += [measurement("selection_overhead", method, **at, layer=layer, rule=rule, launches=None,
                                 setting=("keep", keep), keep=keep * share, slow=slow) for layer in (0, 1)]
    return made + [measurement("selection_overhead", "kivi_scan", **at, rule="none", launches=None, slow=2)]


def depths(length=16384, batch=1):
    settings = [("delta", 5.0, 0.06), ("keep", 0.27, 0.27), ("keep", 1.0, 1.0)]
    return [measurement("quant_depth", "ffd", length, batch, layer=layer, scan=scan, setting=(kind, value), keep=keep,
                        slow=1.4, start=4)
            for scan in ("2-bit", "4-bit", "8-bit") for kind, value, keep in settings for layer in (0, 1)]


ABLATION = [("16-bit", "topk", "split"), ("16-bit", "topdelta", "split"), ("2-bit", "topk", "split"),
            ("2-bit", "topdelta", "split"), ("2-bit", "topk", "fused"), ("2-bit", "topdelta", "fused")]


def ablation(length=16384, batch=1, deltas=(5.0,), left_out=()):
    made = []
    for delta in deltas:
        keep = 0.02 * delta
        for number, (scan, rule, launches) in enumerate(ABLATION):
            if number + 1 in left_out:
                continue
            setting = ("delta", delta) if rule == "topdelta" else ("keep", keep)
            made += [measurement("ablation", "ffd", length, batch, layer=layer, scan=scan, rule=rule, launches=launches,
                                 setting=setting, keep=keep,
                                 slow=1.4 + 0.3 * (rule == "topk"), start=4 if launches == "fused" else 12)
                     for layer in (0, 1)]
    return made


def bench(measurements, gpu="NVIDIA H200", left_out=()):
    return {
        "format": "attest-kernel-bench", "format_version": 1, "program": {"version": "0.1.0", "commit": "0123456789ab"},
        "created": "2026-01-02T03:04:05Z",
        "machine": {"gpu": gpu, "multiprocessors": 132, "memory_bytes": 150_000_000_000, "driver": "580.65.06",
                    "cuda_runtime": "13.0",
                    "torch": "2.11.0", "sm_clock_mhz": 1980, "memory_clock_mhz": None, "copy_bytes_per_second": COPY},
        "arguments": ["bench", "kernel"], "seed": 0,
        "shape": {"num_query_heads": HEADS, "num_kv_heads": 8, "head_dim": 128, "value_dim": 128,
                  "element_type": "float16"},
        "data": {"source": "dump", "path": "d/dump.h5", "xxh64_of_1MiB": "0123456789abcdef", "model": "tiny"},
        "measurements": measurements, "left_out": [{"method": m, "reason": r} for m, r in left_out],
    }


def everything(**more):
    return bench(latency() + selection() + depths() + ablation(), **more)


def write_bench(path, document):
    path.write_text(json.dumps(document, indent=1))
    return path


if __name__ == "__main__":
    import sys
    from pathlib import Path

    write_bench(Path(sys.argv[1]), everything(gpu=sys.argv[2] if len(sys.argv) > 2 else "NVIDIA H200"))
