"""`attest compare` on many prompts of a large model: memory does not grow with their number, and it takes seconds."""

import os
import subprocess

import h5py
import numpy as np

from attest_program import ATTEST

LAYERS, HEADS, SETTINGS = 32, 32, 61
CPU_SECONDS = 20  # of 240 prompts; 2 to 3 on an idle core


def write_study(path, prompts, seed):
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        file.attrs.update({"format": "attention-study", "format_version": 1, "manifest": "{}"})
        group = file.create_group("dumps/0")
        group.attrs.update(path="d.h5", model="m", num_query_heads=HEADS, num_kv_heads=8, head_dim=128, value_dim=128,
                           num_layers=LAYERS)
        cells = {m: rng.uniform(0.5, 0.9, (LAYERS, 1, HEADS, SETTINGS)).astype(np.float32)
                 for m in ("recall", "lse_error")}
        for prompt in range(prompts):
            sample = group.create_group(f"samples/p{prompt}")
            sample.attrs.update(task="t", num_tokens=9000)
            sample["layers"] = np.arange(LAYERS, dtype=np.int32)
            sample["query_positions"] = np.array([8999])
            sample["scores/lse"] = np.zeros((LAYERS, 1, HEADS), np.float32)
            one = sample.create_group("ffd")
            one.attrs.update(selector="ffd", setting="delta", options="{}")
            one["settings"] = np.arange(1, SETTINGS + 1) / 4
            one["setting_labels"] = np.array([f"{s / 4}" for s in range(1, SETTINGS + 1)], h5py.string_dtype())
            one["dense"], one["done"] = np.zeros(LAYERS, np.uint8), np.ones(LAYERS, np.uint8)
            for metric, values in cells.items():
                one[metric] = values + np.float32(np.clip(0.02 * rng.normal(), -0.09, 0.09))
    return str(path)


def measured(*paths):
    """Bytes of memory and seconds of processors."""
    process = subprocess.Popen([ATTEST, "compare", *paths, "--threads", "2"], stdout=subprocess.PIPE)
    text = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0 and text.splitlines()[-1].startswith("Of 183 rows ")
    return usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime


def test_memory_is_flat_and_time_is_seconds(tmp_path):
    few = [write_study(tmp_path / f"few{i}.h5", 40, i) for i in range(2)]
    many = [write_study(tmp_path / f"many{i}.h5", 240, i) for i in range(2)]
    (least, _), (most, seconds) = measured(*few), measured(*many)
    print(f"{least / 1e6:.0f} MB for 40 prompts, {most / 1e6:.0f} MB and {seconds:.1f} s of processors for 240")
    assert most < least + 16e6 and most < 100e6
    assert seconds < CPU_SECONDS
