"""A first SIGTERM or SIGINT ends a study, also within a layer that takes minutes: before that layer is finished."""

import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

from attest_program import ATTEST, MOST_SECONDS


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """A short sample, then one whose layer takes more than a minute."""
    path = tmp_path_factory.mktemp("interrupt") / "dump.h5"
    random = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="test/model", num_layers=1,
                          num_query_heads=2,
                          num_kv_heads=1, head_dim=32)
        for name, tokens, queries in ("a", 300, 2), ("b", 60_000, 512):
            sample = file.create_group(f"samples/{name}")
            sample.attrs.update(task="test", num_tokens=tokens)
            sample["query_positions"] = np.arange(tokens - queries, tokens)
            layer = sample.create_group("layers/0")
            layer["q"] = random.standard_normal((queries, 2, 32), np.float32).astype(np.float16)
            for tensor in "kv":
                layer[tensor] = random.standard_normal((1, tokens, 32), np.float32).astype(np.float16)
    return path


def command(dump, out, *more):
    return [ATTEST, "--device", "cpu", "--threads", "2", "run", dump, "-o", out, "--selector", "ffd", "--selector",
            "quest:dense_layers=0",
            "--selector", "twilight:dense_layers=0", "--selector", "sale", *more]


def stopped(arguments, units, number):
    """The exit code and the last line on stderr."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not list(units.glob("unit-*.bin")) and process.poll() is None:
        time.sleep(0.01)
    time.sleep(1)  # within the long layer
    assert process.poll() is None
    process.send_signal(number)
    try:
        error = process.communicate(timeout=MOST_SECONDS)[1]
    finally:
        process.kill()
    return process.returncode, error.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_ends_a_long_layer(dump, tmp_path, number):
    out = tmp_path / "r.h5"
    units = tmp_path / "r.h5.partial"
    for more in [], ["--resume"]:  # the layer before it stays finished
        code, said = stopped(command(dump, out, *more), units, number)
        assert (code, said) == (130, "attest: interrupted with 1 of 2 layers finished; the same command with --resume "
                                     "goes on")
        assert not out.exists() and len(list(units.glob("unit-*.bin"))) == 1


def test_validate_goes_on_without_resume(dump, tmp_path):
    """It has no --resume: the same command takes what is there."""
    units = tmp_path / "r.h5.partial"
    selectors = ["--selector=ffd", "--selector=quest:dense_layers=0", "--selector=twilight:dense_layers=0",
                 "--selector=sale"]
    arguments = [ATTEST, "--device", "cpu", "--threads", "2", "validate", dump, "--target", "recall>=0.5", *selectors,
                 "--results", tmp_path / "r.h5"]
    finished = set()
    for more in [], ["--force"]:  # which is for other files
        code, said = stopped([*arguments, *more], units, signal.SIGINT)
        assert (code, said) == (130, "attest: interrupted with 1 of 2 layers finished; the same command goes on")
        finished |= {(path.name, path.stat().st_mtime_ns) for path in units.glob("unit-*.bin")}
    assert len(finished) == 1
