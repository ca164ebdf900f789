"""The tables of experiments/bench/kernel/H200.md are those of its record, and the record makes figures."""

import json
import os
from pathlib import Path

from attest_program import attest

FOLDER = Path(os.environ["ATTEST_SOURCE_DIR"]) / "experiments" / "bench" / "kernel"
RECORD = json.loads((FOLDER / "h200.json").read_text())
DOCUMENT = (FOLDER / "H200.md").read_text()
LENGTHS = {"4K": 4096, "8K": 8192, "16K": 16384, "32K": 32768, "64K": 65536, "128K": 131072, "256K": 262144}


def measured(method, length, batch, scan=None, launches=("fused", None), **setting):
    found = [
        m
        for m in RECORD["measurements"]
        if (m["method"], m["length"], m["batch"]) == (method, length, batch) and m["launches"] in launches
        and scan in (None, m["scan"])
        and (not setting or [m["setting"]] == [{"kind": k, "value": v} for k, v in setting.items()])
    ]
    assert len(found) == 1, (method, length, batch, scan, setting)
    return found[0]


def us(*arguments, **setting):
    return measured(*arguments, **setting)["median_microseconds"]


def test_latencies():
    for batch in (1, 8, 32):
        for name in ("4K", "16K", "32K", "64K", "128K", "256K"):
            n = LENGTHS[name]
            flash, cudnn = us("sdpa_flash", n, batch), us("sdpa_cudnn", n, batch)
            ffd = [measured("ffd", n, batch, "2-bit", keep=share) for share in (0.02, 0.06, 0.27, 1)]
            times = [m["median_microseconds"] for m in ffd]
            floor, io = ffd[1]["floor_microseconds"], ffd[1]["io_ratio"]
            cells = [str(batch), name, *(f"{t:.1f}" for t in (flash, cudnn, *times, floor)), f"{times[1] / floor:.2f}"]
            cells += [f"{flash / times[1]:.2f}x", f"{cudnn / times[1]:.2f}x", f"{1 / io:.1f}x"]
            assert "| " + " | ".join(cells) + " |" in DOCUMENT


def test_deals():
    for batch in (1, 8):
        for name, n in LENGTHS.items():
            cells = [f"{us('ffd', n, batch, '2-bit', launches=[launches], keep=share):.1f}"
                     for share in (0.02, 0.06, 0.27) for launches in ("fused", "dealt")]
            row = "| " + " | ".join([str(batch), name, *cells]) + " |"
            assert (row in DOCUMENT) == (name != "4K" and (batch, name) != (8, "256K")), row
    near = [(n, batch) for batch in (1, 32) for n in LENGTHS.values() if batch == 32 or n == LENGTHS["4K"]]
    for share in (0.02, 0.06, 0.27):
        for at in [*near, (LENGTHS["256K"], 8)]:
            dealt, without = (us("ffd", *at, "2-bit", launches=[way], keep=share) for way in ("dealt", "fused"))
            assert abs(dealt / without - 1) < 0.02, (at, share)


def test_everything_kept_takes_no_longer_than_cudnn():
    ratios = [us("ffd", n, batch, "2-bit", keep=1) / us("sdpa_cudnn", n, batch)
              for batch in (1, 8, 32) for n in LENGTHS.values()]
    assert f"{min(ratios):.2f} to {max(ratios):.3f} times" in " ".join(DOCUMENT.split()) and max(ratios) < 1


def test_the_papers_rows():
    means = []
    for delta in (5, 7):
        ratios = [us("sdpa_flash", n, 1) / us("ffd", n, 1, "2-bit", delta=delta) for n in LENGTHS.values()]
        means.append(sum(ratios) / len(ratios))
    assert f"| {means[0]:.2f}x / {means[1]:.2f}x |" in DOCUMENT
    longest = [us("sdpa_flash", 262144, 1), *(us("ffd", 262144, 1, "2-bit", delta=delta) for delta in (5, 7))]
    assert "| " + " / ".join(f"{t / 1000:.3f}" for t in longest) + " ms |" in DOCUMENT
    selections = [next(m["median_microseconds"] for m in RECORD["measurements"] if m["method"] == name)
                  for name in ("ffd_scan", "block_topk", "token_topp", "kivi_scan")]
    assert "| " + " / ".join(f"{t / 32:.2f}" for t in selections) + " us |" in DOCUMENT
    depths = [us("ffd", 16384, 1, scan, delta=5) for scan in ("2-bit", "4-bit", "8-bit")]
    assert f"| {depths[1] / depths[0]:.2f} and {depths[2] / depths[0]:.2f} times |" in DOCUMENT


def test_what_was_checked():
    checks = [m["check"] for m in RECORD["measurements"]]
    assert max(c["largest_output_error"] for c in checks if c["largest_output_error"] is not None) < 0.0006
    assert sum(c["blocks_differing"] or 0 for c in checks) == 9
    assert f"{sum(c['blocks'] or 0 for c in checks) / 1e6:.1f} million" in DOCUMENT
    assert f"{RECORD['machine']['copy_bytes_per_second'] / 1e9:.0f} GB/s" in DOCUMENT


def test_the_record_makes_every_figure(tmp_path):
    attest("figures", FOLDER / "h200.json", "-o", tmp_path / "f", "--format", "svg")
    for name in ("kernel_latency_times", "selection_overhead", "quant_depth_times", "ablation"):
        assert (tmp_path / "f" / f"{name}.md").exists()
