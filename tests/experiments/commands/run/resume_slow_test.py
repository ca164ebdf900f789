"""A study may be killed at any moment: --resume gives the same data as an uninterrupted run. Several
processes may share a study."""

import json
import os
import random
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

from attest_program import ATTEST
import dump_maker
from results_data import data_of

SELECTORS = ["--selector", "ffd:block=64", "--selector", "quest:dense_layers=1", "--selector", "twilight", "--threads",
             "1"]
LAYERS = 12


def write_dump(path, seed=3, tokens=1500):
    def values(random, _):
        return 3 * random.standard_normal((2, 8, 64)).astype(np.float16), *random.standard_normal(
            (2, 2, tokens, 64)).astype(np.float16)

    dump_maker.write_dump(path, values, seed=seed, layers=range(LAYERS), tokens=tokens, heads=8, kv_heads=2, dim=64,
                          positions=[700, tokens - 1],
                          num_layers=LAYERS)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A dump, and the results of an uninterrupted run on it."""
    folder = tmp_path_factory.mktemp("study")
    write_dump(folder / "dump.h5")
    start = time.monotonic()
    subprocess.run(command(folder / "dump.h5", folder / "whole.h5"), check=True, capture_output=True)
    return folder / "dump.h5", data_of(folder / "whole.h5"), time.monotonic() - start


def command(dump, out, *more):
    return [ATTEST, "run", str(dump), "-o", str(out), *SELECTORS, *more]


def kill_after(arguments, seconds):
    """True if the process was killed; False if it had ended by itself without an error."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, error = process.communicate(timeout=seconds)
        assert process.returncode == 0, error
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return True


def test_killed_at_random_moments(study, tmp_path):
    dump, expected, duration = study
    clock = random.Random(1)
    kills = 0
    for attempt in range(6):
        out = tmp_path / f"{attempt}.h5"
        while kill_after(command(dump, out, "--resume"), clock.uniform(0, 0.6 * duration)):
            kills += 1
            assert not out.exists() or data_of(out) == expected, "a results file appears whole"
        assert data_of(out) == expected
        assert not (tmp_path / f"{attempt}.h5.partial").exists()
    assert kills >= 6, "the case must not be trivial"
    assert {p.suffix for p in tmp_path.iterdir()} == {".h5"}, "nothing is left behind"


def test_a_resumed_run_computes_only_the_rest(study, tmp_path):
    dump, expected, duration = study
    out, units = tmp_path / "r.h5", tmp_path / "r.h5.partial"
    process = subprocess.Popen(command(dump, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(list(units.glob("unit-*.bin"))) < 3 and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = len(list(units.glob("unit-*.bin")))
    assert 3 <= finished < LAYERS
    damaged = next(units.glob("unit-*.bin"))
    damaged.write_bytes(damaged.read_bytes()[:-20])
    result = subprocess.run(command(dump, out, "--resume"), capture_output=True, text=True)
    assert result.returncode == 0
    assert f"resumed: {finished - 1} of {LAYERS} layers were finished before" in result.stderr
    assert data_of(out) == expected


def stopped(dump, out, number=signal.SIGKILL):
    """A study that a signal stopped after at least one unit."""
    process = subprocess.Popen(command(dump, out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    units = out.with_name(out.name + ".partial")
    while not list(units.glob("unit-*.bin")) and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(number)
    _, error = process.communicate()
    assert units.exists() and not out.exists()
    return process.returncode, error


def test_ctrl_c_says_how_to_go_on(study, tmp_path):
    dump, expected, _ = study
    out = tmp_path / "r.h5"
    code, error = stopped(dump, out, signal.SIGINT)
    assert code == 130
    last = error.splitlines()[-1]
    assert last.startswith("attest: interrupted with ") and last.endswith("the same command with --resume goes on")
    assert subprocess.run(command(dump, out, "--resume"), capture_output=True).returncode == 0
    assert data_of(out) == expected


def test_without_resume_an_unfinished_study_is_kept(study, tmp_path):
    dump, expected, _ = study
    out = tmp_path / "r.h5"
    stopped(dump, out)
    result = subprocess.run(command(dump, out), capture_output=True, text=True)
    assert result.returncode == 5 and "continue it with --resume, or start over with --force" in result.stderr
    assert subprocess.run(command(dump, out, "--force"), capture_output=True).returncode == 0
    assert data_of(out) == expected


@pytest.mark.parametrize("more, sentence", [
    (["--delta", "5"], "selector 1, setting_labels"),
    (["--lambdas", "1"], "lambdas = [0.25,0.5,1.0,1.5,2.0,3.0,4.0,6.0], this command has [1.0]"),
    (["--salient-delta", "4"], "salient_delta = 5"),
    (["--layers", "0-3"], "dump 1, sample 1, layers"),
    (["--queries", "last:1"], "dump 1, sample 1, query_positions"),
    (["--selector", "exact"], "selector 4 = none"),
])
def test_other_options_are_refused(study, tmp_path, more, sentence):
    dump, _, _ = study
    out = tmp_path / "r.h5"
    stopped(dump, out)
    result = subprocess.run(command(dump, out, "--resume", *more), capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith("attest: cannot resume ") and sentence in result.stderr, result.stderr


def test_other_inputs_are_refused(study, tmp_path):
    dump, _, _ = study
    own, out = tmp_path / "own.h5", tmp_path / "r.h5"
    shutil.copy(dump, own)
    stopped(own, out)
    assert "process " in (tmp_path / "r.h5.partial/note-inputs.json").read_text(), "hashed by then"
    times, whole = own.stat(), own.read_bytes()
    for change, sentence in ("all", " began the study with another '"), ("a byte", " reads another '"):
        if change == "all":
            write_dump(own, seed=4)  # the same size
        else:  # between two of the sixteen pieces of 64 KiB that are compared first
            place = (len(whole) - 65536) * 7 // 15 + 70000
            own.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1:])
        os.utime(own, ns=(times.st_atime_ns, times.st_mtime_ns))
        result = subprocess.run(command(own, out, "--resume"), capture_output=True, text=True)
        assert result.returncode == 4 and sentence in result.stderr and f"{own}' than process " in result.stderr, \
            result.stderr
        assert not out.exists()


def test_a_copied_input_is_the_same_input(study, tmp_path):
    dump, expected, _ = study
    own, out = tmp_path / "own.h5", tmp_path / "r.h5"
    shutil.copy(dump, own)
    stopped(own, out)
    os.utime(own)
    result = subprocess.run(command(own, out, "--resume"), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    with h5py.File(out) as file:
        assert json.loads(file.attrs["manifest"])["inputs"][0]["path"] == str(own)
    assert data_of(out) == expected


def test_resuming_what_is_complete_does_nothing(study, tmp_path):
    dump, expected, _ = study
    out = tmp_path / "r.h5"
    assert subprocess.run(command(dump, out), capture_output=True).returncode == 0
    written = out.stat().st_mtime_ns
    result = subprocess.run(command(dump, out, "--resume"), capture_output=True, text=True)
    assert result.returncode == 0 and "is complete already" in result.stderr
    assert out.stat().st_mtime_ns == written and data_of(out) == expected
    result = subprocess.run(command(dump, out, "--resume", "--delta", "5"), capture_output=True, text=True)
    assert result.returncode == 2 and "other options or inputs" in result.stderr


def inputs_of(path):
    with h5py.File(path) as file:
        return json.loads(file.attrs["manifest"])["inputs"]


def test_another_process_writes_the_results_when_the_first_dies(study, tmp_path):
    dump, expected, _ = study
    out, units = tmp_path / "r.h5", tmp_path / "r.h5.partial"
    assert subprocess.run(command(dump, tmp_path / "alone.h5"), capture_output=True).returncode == 0
    first = subprocess.Popen(command(dump, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(units.glob("unit-*.bin")) and first.poll() is None:
        time.sleep(0.002)
    assert list(units.glob("r.h5.tmp-*")), "it writes results while it computes"
    second = subprocess.Popen(command(dump, out, "--resume"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(list(units.glob("unit-*.bin"))) < 4 and first.poll() is None:
        time.sleep(0.002)
    first.send_signal(signal.SIGKILL)
    first.wait()
    output, error = second.communicate(timeout=300)
    assert second.returncode == 0, error
    assert "ffd:block=64" in output
    assert data_of(out) == expected
    assert inputs_of(out) == inputs_of(tmp_path / "alone.h5"), "the hash of what several processes have read"
    assert not units.exists()
