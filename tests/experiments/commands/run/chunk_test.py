"""Units of a study that are computed elsewhere, as files: they are checked like any unit, and give the bits of one
process."""

import json
import os
import signal
import struct
import subprocess
import time

import h5py
import numpy as np
import pytest

import shared_runs
from results_data import data_of
from shared_runs import command, run


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A dump, the results of one process, and two chunks of all units."""
    folder = tmp_path_factory.mktemp("chunks")
    shared_runs.write_dump(folder / "dump.h5", layers=6)
    assert run(command(folder / "dump.h5", folder / "one.h5")).returncode == 0
    for name, units in ("a", "0-2,5"), ("b", "3-4"):
        result = run(chunk(folder / "dump.h5", folder / name, units))
        assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "dump.h5", "one.h5"]
    return folder, data_of(folder / "one.h5")


def chunk(dump, path, units, *more):
    return [shared_runs.ATTEST, "run", str(dump), *shared_runs.SELECTORS, "--units", units, "--chunk", str(path), *more]


def take(folder, out, *chunks, more=()):
    return run([shared_runs.ATTEST, "--json", *command(folder / "dump.h5", out, "--resume", *more)[1:], "--take",
                *map(str, chunks)])


def test_chunks_make_the_results_of_one_process(study, tmp_path):
    folder, expected = study
    out = tmp_path / "r.h5"
    for chunks, missing in ([], [0, 1, 2, 3, 4, 5]), ([folder / "a"], [3, 4]), ([folder / "a"], [3, 4]):
        result = take(folder, out, *chunks)
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout) == {"results": str(out), "units": 6, "missing": missing}
    result = take(folder, out, folder / "b")
    assert result.returncode == 0 and json.loads(result.stdout)["results"] == str(out), result.stderr
    assert data_of(out) == expected and [path.name for path in tmp_path.iterdir()] == ["r.h5"]
    assert "is complete already" in take(folder, out, folder / "b").stderr


def gather(folder, out, *more):
    """Names of chunks come on its standard input."""
    words = [shared_runs.ATTEST, "--json", *command(folder / "dump.h5", out, "--resume", *more)[1:], "--take", "-"]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=shared_runs.CLEAN)


def test_chunks_are_taken_as_they_come(study, tmp_path):
    folder, expected = study
    out = tmp_path / "r.h5"
    process = gather(folder, out)
    for name in ("a", "a", "b"):  # one of them twice
        path = tmp_path / "copy"
        path.write_bytes((folder / name).read_bytes())
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        shared_runs.wait_for(lambda: not path.exists())
    printed, error = process.communicate(timeout=60)
    assert process.returncode == 0 and json.loads(printed)["results"] == str(out), error
    assert data_of(out) == expected and [path.name for path in tmp_path.iterdir()] == ["r.h5"]


def test_what_came_before_the_end_of_the_names_is_kept(study, tmp_path):
    folder, expected = study
    out, path = tmp_path / "r.h5", tmp_path / "a"
    path.write_bytes((folder / "a").read_bytes())
    process = gather(folder, out)
    printed, error = process.communicate(f"{path}\n{tmp_path}/half of a na", timeout=60)
    assert process.returncode == 0 and json.loads(printed)["missing"] == [3, 4], error
    process = gather(folder, out)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=5) in (130, -signal.SIGTERM), "also before it has begun"
    process = gather(folder, out)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=5) == 130 and "interrupted with 4 of 6 layers finished" in process.stderr.read()
    path.write_bytes((folder / "b").read_bytes())
    process = gather(folder, out)
    process.communicate(f"{path}\n", timeout=60)
    assert process.returncode == 0 and data_of(out) == expected


def test_a_chunk_that_is_refused_ends_it(study, tmp_path):
    folder, _ = study
    process = gather(folder, tmp_path / "r.h5")
    _, error = process.communicate(f"{tmp_path / 'gone'}\n{folder / 'a'}\n", timeout=60)
    assert process.returncode == 4 and f"attest: {tmp_path / 'gone'}: cannot be opened" in error
    assert (folder / "a").exists()
    process = gather(folder, tmp_path / "r.h5")
    _, error = process.communicate("x" * 70000, timeout=60)
    assert process.returncode == 4 and "--take -: a line of the standard input is no file's name" in error


def test_a_killed_chunk_and_a_study_go_on_alike(study, tmp_path):
    folder, expected = study
    out = tmp_path / "r.h5"
    assert take(folder, out, folder / "a").returncode == 0
    assert run(command(folder / "dump.h5", out, "--resume")).returncode == 0, "computes what is missing"
    assert data_of(out) == expected


def test_a_chunk_that_failed_does_not_block_the_next(tmp_path):
    dump, path = shared_runs.write_dump(tmp_path / "dump.h5"), tmp_path / "c"
    with h5py.File(dump, "r+") as file:
        file["samples/s/layers/1/k"][0, 0] = np.nan
    result = run(chunk(dump, path, "0-1"))
    assert result.returncode == 4 and "layer 1, k, head 0: NaN" in result.stderr, result.stderr
    assert list(tmp_path.iterdir()) == [dump]
    assert run(chunk(dump, path, "0", "--lambdas", "1")).returncode == 0, "another study"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_chunk_that_was_ended_does_not_block_the_next(tmp_path, number):
    dump, path = shared_runs.write_dump(tmp_path / "dump.h5", tokens=30000), tmp_path / "c"
    process = subprocess.Popen(chunk(dump, path, "0-"), stderr=subprocess.DEVNULL, env=shared_runs.CLEAN)
    shared_runs.wait_for((tmp_path / "c.partial/study.json").exists)
    process.send_signal(number)
    assert process.wait(timeout=60) == (130 if number == signal.SIGTERM else -number)
    kept = number == signal.SIGKILL
    assert (tmp_path / "c.partial").exists() == kept and not path.exists()
    other = chunk(dump, path, "0", "--lambdas", "1")
    assert run(other).returncode == (2 if kept else 0)
    assert run([*other, "--force"]).returncode == 0
    assert path.exists() and not (tmp_path / "c.partial").exists()


def test_a_chunk_that_failed_leaves_a_study_of_its_name(tmp_path):
    dump, out = shared_runs.write_dump(tmp_path / "dump.h5"), tmp_path / "r.h5"
    with h5py.File(dump, "r+") as file:
        file[f"samples/s/layers/{shared_runs.LAYERS - 1}/k"][0, 0] = np.nan
    assert run(command(dump, out)).returncode == 4
    units = sorted((tmp_path / "r.h5.partial").glob("unit-*"))
    assert units and run(chunk(dump, out, str(shared_runs.LAYERS - 1))).returncode == 4
    assert sorted((tmp_path / "r.h5.partial").glob("unit-*")) == units


def test_a_standard_input_that_cannot_be_read_is_told(study, tmp_path):
    folder, _ = study
    place = os.open(tmp_path, os.O_RDONLY)  # read() fails of a folder
    result = run([shared_runs.ATTEST, *command(folder / "dump.h5", tmp_path / "r.h5", "--resume")[1:], "--take", "-"],
                 stdin=place)
    os.close(place)
    assert result.returncode == 4 and "--take -: the standard input cannot be read (Is a directory)" in result.stderr


def test_another_study_is_refused(study, tmp_path):
    folder, _ = study
    out = tmp_path / "r.h5"
    result = take(folder, out, folder / "a", more=["--lambdas", "1"])
    assert result.returncode == 2 and "it was started with lambdas = " in result.stderr
    shared_runs.write_dump(tmp_path / "dump.h5", layers=6, seed=4)
    assert run(chunk(tmp_path / "dump.h5", tmp_path / "c", "0")).returncode == 0
    result = take(folder, tmp_path / "other.h5", tmp_path / "c")
    assert result.returncode == 4 and "began the study with another '" in result.stderr \
        and "of other content" in result.stderr


def test_damaged_chunks_are_refused(study, tmp_path):
    folder, _ = study
    whole, out = (folder / "a").read_bytes(), tmp_path / "r.h5"
    start = len(b"attest chunk 1\n")
    size = struct.unpack_from("<Q", whole, start)[0]
    units = start + 8 + size
    cases = {
        b"": "ends early", b"attest chunk 2\n" + whole[start:]: "expected the units of a study",
        whole[:start + 4]: "ends early", whole[:-1]: "ends early",
        whole[:start] + struct.pack(
            "<Q", 1 << 62) + whole[start + 8:]: "is 4611686018427387904, expected at most 16777216",
        whole[:start + 8] + b"[" * size + whole[units:]: "description is damaged",
        whole[:units] + struct.pack("<Q", 6) + whole[units + 8:]: "a unit is 6, expected at most 5",
        whole[:units] + struct.pack("<Q", 1) + whole[units + 8:]: "the results of sample 1, layer 1 are damaged",
        whole[:units + 8] + struct.pack(
            "<Q", 1 << 63) + whole[units + 16:]: "the size of a unit is 9223372036854775808, expected at most ",
        whole[:units + 60] + bytes(
            [whole[units + 60] ^ 1]) + whole[units + 61:]: "the results of sample 1, layer 0 are damaged",
    }
    for number, (text, sentence) in enumerate(cases.items()):
        path = tmp_path / str(number)
        path.write_bytes(text)
        result = take(folder, out, path)
        assert result.returncode == 4 and f"attest: {path}: " in result.stderr and sentence in result.stderr, \
            (number, result.stderr)


def test_a_name_that_no_file_can_have_is_told_before_the_work(study, tmp_path):
    folder, _ = study
    name = "L" * 300
    result = subprocess.run([shared_runs.ATTEST, "run", folder / "dump.h5", *shared_runs.SELECTORS, "--units", "0",
                             "--chunk", name],
                            capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 5 and "L...': File name too long" in result.stderr and list(tmp_path.iterdir()) == [], \
        result.stderr


def test_refused_chunks_leave_no_study(study, tmp_path):
    folder, _ = study
    (tmp_path / "c").write_text("")
    command = [shared_runs.ATTEST, "run", folder / "dump.h5", *shared_runs.SELECTORS, "-o", tmp_path / "r.h5", "--take",
               tmp_path / "c"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 4 and sorted(tmp_path.iterdir()) == [tmp_path / "c"], result.stderr


@pytest.mark.parametrize("more, sentence", [
    (["--units", "0"], "--units and --chunk belong together"),
    (["--chunk", "x"], "--units and --chunk belong together"),
    (["--chunk", "x", "--units", "3-1"], "--units: '3-1' is neither a unit number nor a range"),
    (["--chunk", "x", "--units", "6"], "--units: the study has units 0 to 5, found 6"),
    (["--chunk", "x", "--units", "0", "-o", "r.h5"], "without --output and --take"),
    ([], "needs --output"),
])
def test_what_does_not_belong_together(study, tmp_path, more, sentence):
    folder, _ = study
    result = subprocess.run([shared_runs.ATTEST, "run", folder / "dump.h5", *shared_runs.SELECTORS, *more],
                            capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 2 and sentence in result.stderr, result.stderr
    assert not list(tmp_path.iterdir())


def test_a_chunk_replaces_nothing(study, tmp_path):
    folder, _ = study
    path = tmp_path / "c"
    path.write_text("precious")
    result = run(chunk(folder / "dump.h5", path, "0"))
    assert result.returncode == 5 and "exists; --force replaces it" in result.stderr and path.read_text() == "precious"
    assert run(chunk(folder / "dump.h5", path, "0", "--force")).returncode == 0


def test_a_chunk_takes_its_gpu_by_the_variables_of_a_launcher(study, tmp_path):
    folder, _ = study
    words = chunk(folder / "dump.h5", tmp_path / "c", "0-2,5")
    ranks = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    result = subprocess.run(words, capture_output=True, text=True, env={
        **shared_runs.CLEAN, **ranks, "LOCAL_RANK": "2"})
    assert result.returncode == 2 and "LOCAL_RANK" in result.stderr and list(tmp_path.iterdir()) == [], result.stderr
    result = subprocess.run(words, capture_output=True, text=True, env={**shared_runs.CLEAN, **ranks})
    assert result.returncode == 0 and "[rank" not in result.stderr, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    for path, missing in ((folder / "b", [0, 1, 2, 5]), (tmp_path / "c", None)):
        assert json.loads(take(folder, tmp_path / "r.h5", path).stdout).get("missing") == missing
