"""attest.cluster.run over executors of Python, with a program that stands in for attest: units are numbers."""
import concurrent.futures
import json
import os
import pickle
import threading
import traceback

import pytest

import attest.cluster
from attest.base.errors import AttestError, OutputError, UsageError
from attest.base.program import ProgramError
from attest.cluster import chunk
from attest.cluster.chunk import ChunkError, units_text
from attest.cluster.executors import JobExecutor, dask, slurm, slurm_parameters
from attest_program import run_attest

PROGRAM = r'''#!/usr/bin/env python3
import json, os, pathlib, sys
words, units = sys.argv[1:], 24
with open("calls", "a") as calls:
    calls.write(json.dumps(words) + "\n")
with open("ranks", "a") as ranks:
    names = "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"
    ranks.write(" ".join(os.environ.get(name, "-") for name in names) + "\n")
def after(name):
    return words[words.index(name) + 1]
if "--chunk" in words:
    chosen = [u for r in after("--units").split(",") for u in range(int(r.split("-")[0]), int(r.split("-")[-1]) + 1)]
    if os.path.exists("broken") and 7 in chosen:
        sys.exit(print("attest: d.h5: expected a dump, found something else", file=sys.stderr) or 4)
    pathlib.Path(after("--chunk")).write_text(json.dumps(chosen))
    sys.exit()
out = after("-o")
partial = pathlib.Path(out + ".partial")
if partial.exists() and "--resume" not in words:
    sys.exit(print("attest: is there already", file=sys.stderr) or 5)
known = set(json.loads(partial.read_text())) if partial.exists() else set()
chunks = words[words.index("--take") + 1:]
for chunk in (line.rstrip() for line in sys.stdin) if chunks == ["-"] else chunks:
    known |= set(json.loads(open(chunk).read()))
partial.write_text(json.dumps(sorted(known)))
missing = [u for u in range(units) if u not in known]
if missing:
    print(json.dumps({"results": out, "units": units, "missing": missing}))
else:
    partial.rename(out)
    print(json.dumps({"results": out}))
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "program").write_text(PROGRAM)
    (tmp_path / "program").chmod(0o755)
    monkeypatch.setenv("ATTEST_BIN", str(tmp_path / "program"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def calls(folder):
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


@pytest.mark.parametrize("units, text", [((3,), "3"), ((0, 1, 2), "0-2"), ((0, 2, 3, 9), "0,2-3,9"), ((5, 6), "5-6")])
def test_units_text(units, text):
    assert units_text(units) == text


@pytest.mark.parametrize("slots", [None, 1, 3, 100])
def test_every_unit_comes_back_once(folder, slots):
    seen = []
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        found = attest.cluster.run(executor, ["d.h5"], "r.h5", slots=slots,
                                   progress=lambda *counts: seen.append(counts))
    assert found == {"results": "r.h5"} and json.loads((folder / "r.h5").read_text()) == list(range(24))
    computed = [words[words.index("--units") + 1] for words in calls(folder) if "--chunk" in words]
    parts = [part.split("-") for text in computed for part in text.split(",")]
    assert sorted(u for part in parts for u in range(int(part[0]), int(part[-1]) + 1)) == list(range(24))
    assert seen[0] == (0, 24) and seen[-1] == (24, 24) and seen == sorted(seen)


def test_threads_that_share_this_machines_gpus_are_ranks_to_the_program(folder):
    barrier = threading.Barrier(3)

    def rank(_):
        barrier.wait()  # so that each thread has one
        return chunk.environment()["RANK"]

    with chunk.computed_here(3), concurrent.futures.ThreadPoolExecutor(3) as executor:
        shared = chunk.kept
        assert len(set(executor.map(rank, range(3)))) == 3 and os.path.isdir(shared)
        attest.cluster.run(executor, ["d.h5"], "r.h5", slots=3)
    assert chunk.environment() is None and chunk.kept is None and not os.path.exists(shared)
    ranks = set((folder / "ranks").read_text().splitlines())
    assert "- - - -" in ranks and ranks - {"- - - -"} <= {f"{rank} {rank} 3 3" for rank in range(3)} and len(ranks) > 1


def test_options_become_words(folder):
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        attest.cluster.run(executor, ["d.h5", "e.h5"], "r.h5", selector=["ffd", "quest"], delta="1:3:1",
                           skip_bad_layers=True, with_dense_layers=False, threads=2)
    options = ["--selector=ffd", "--selector=quest", "--delta=1:3:1", "--skip-bad-layers", "--threads=2"]
    take = ["--json", "--quiet", "run", "d.h5", "e.h5", *options, "-o", "r.h5"]
    assert calls(folder)[0] == [*take, "--take"] and [*take, "--resume", "--take", "-"] in calls(folder)
    words = next(words for words in calls(folder) if "--chunk" in words)
    assert words[:8] == ["run", "d.h5", "e.h5", *options] and words[8:10] == ["--units", "0"]


def test_a_worker_that_fails_ends_the_study_with_its_sentence(folder):
    (folder / "broken").touch()
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        with pytest.raises(ChunkError, match="^worker .*: d.h5: expected a dump, found something else$") as caught:
            attest.cluster.run(executor, ["d.h5"], "r.h5", slots=2)
        assert caught.value.exit_code == 4
        with pytest.raises(ProgramError, match="^is there already$") as caught:
            attest.cluster.run(executor, ["d.h5"], "r.h5")
        assert caught.value.exit_code == 5
        (folder / "broken").unlink()
        kept = len(json.loads((folder / "r.h5.partial").read_text()))
        counts = []
        attest.cluster.run(executor, ["d.h5"], "r.h5", resume=True, progress=lambda *two: counts.append(two))
    assert counts[0] == (kept, 24) and not (folder / "r.h5.partial").exists()


class Faulty(concurrent.futures.Executor):
    """Computes a chunk when it is submitted; error_of(how many were submitted, its units) may give an error instead."""
    count = 0

    def __init__(self, error_of):
        self.error_of = error_of

    def submit(self, function, *arguments):
        self.count += 1
        future = concurrent.futures.Future()
        if error := self.error_of(self.count, arguments[1]):
            future.set_exception(error)
        else:
            future.set_result(function(*arguments))
        return future


@pytest.mark.parametrize("error, sentence", [
    (ChunkError("worker w: d.h5: is damaged", 4), "worker w: d.h5: is damaged"),
    (concurrent.futures.BrokenExecutor("a child died"),
     "the workers are gone (a child died) with 23 of 24 layers finished; the same command with --resume goes on")])
def test_finished_chunks_are_kept_when_one_beside_them_fails(folder, error, sentence):
    with pytest.raises(AttestError) as caught:
        attest.cluster.run(Faulty(lambda _, units: error if 7 in units else None), ["d.h5"], "r.h5", slots=24)
    assert str(caught.value) == sentence
    assert json.loads((folder / "r.h5.partial").read_text()) == [unit for unit in range(24) if unit != 7]


def test_what_is_lost_with_a_worker_is_computed_again(folder):
    """Also if that befalls more than eleven of them, as long as others come back."""
    executor = Faulty(lambda count, _: RuntimeError("the worker died") if count % 3 else None)
    attest.cluster.run(executor, ["d.h5"], "r.h5", slots=1, seconds=0)
    assert json.loads((folder / "r.h5").read_text()) == list(range(24)) and executor.count > 30


def test_a_chunk_that_ends_every_worker_is_the_last_one(folder):
    executor = Faulty(lambda _, units: RuntimeError("the worker died") if 7 in units else None)
    with pytest.raises(OutputError, match=r"the workers are gone \(the worker died\) with 23 of 24 layers finished; "):
        attest.cluster.run(executor, ["d.h5"], "r.h5", slots=1, seconds=0)
    assert executor.count < 23 + 15, "eleven in a row, and few while others came back"


@pytest.mark.parametrize("error, cause", [(RuntimeError("all died"), "all died"),
                                          (concurrent.futures.CancelledError(), "CancelledError"),
                                          (concurrent.futures.BrokenExecutor("a child died"), "a child died")])
def test_workers_that_are_gone_are_one_sentence(folder, error, cause):
    class Dead(concurrent.futures.Executor):
        def submit(self, *_):
            future = concurrent.futures.Future()
            future.set_exception(error)
            return future

    sentence = "with 0 of 24 layers finished; the same command with --resume goes on"
    with pytest.raises(OutputError, match=f"^the workers are gone \\({cause}\\) {sentence}$"):
        attest.cluster.run(Dead(), ["d.h5"], "r.h5")


def test_a_client_that_cannot_be_closed_hides_no_sentence(monkeypatch):
    """As one whose scheduler was killed, now and then."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed (cmake/setup.sh --cluster)")
    close, calls = distributed.Client.close, []

    def late(client, *arguments):
        calls.append(arguments)
        close(client, *arguments)
        raise TimeoutError("timed out after 30 s")
    monkeypatch.setattr(distributed.Client, "close", late)
    with pytest.raises(OutputError, match="^the workers are gone$"):
        with dask("local:1", lambda said: None):
            raise OutputError("the workers are gone")
    assert calls


def test_a_folder_that_a_worker_lacks(folder):
    with pytest.raises(ChunkError, match="has no folder /no/such, where the command was given"):
        chunk.compute(["d.h5"], (0,), "/no/such")


class Job:
    """What submitit's executor gives. A job that raises gives the text of its traceback alone."""
    begun = []

    def __init__(self, function, *arguments):
        assert len([job for job in Job.begun if not job.taken]) < 2, "more jobs than may run at a time"
        Job.begun.append(self)
        self.outcome, self.trace, self.taken = None, None, False
        self.thread = threading.Thread(target=self.run, args=(function, *arguments))
        self.thread.start()

    def run(self, function, *arguments):
        try:
            self.outcome = pickle.dumps(function(*arguments))
        except Exception:
            self.trace = traceback.format_exc()

    def done(self):
        return not self.thread.is_alive()

    def result(self):
        self.taken = True
        if self.trace:
            raise RuntimeError(f"Job (task=0) failed during processing with trace:\n{self.trace}")
        return pickle.loads(self.outcome)

    def cancel(self):
        self.taken = True


def test_jobs_that_are_asked_become_futures(folder, monkeypatch):
    monkeypatch.setattr(JobExecutor, "INTERVAL", 0.01)
    monkeypatch.setattr(Job, "begun", [])
    with JobExecutor(Job, 2) as executor:
        attest.cluster.run(executor, ["d.h5"], "r.h5", slots=2)
    assert len(Job.begun) > 2 and json.loads((folder / "r.h5").read_text()) == list(range(24))


def test_a_job_whose_program_fails_ends_the_study_with_its_sentence(folder, monkeypatch):
    monkeypatch.setattr(JobExecutor, "INTERVAL", 0.01)
    monkeypatch.setattr(Job, "begun", [])
    (folder / "broken").touch()
    with pytest.raises(ChunkError, match="^worker .*: d.h5: expected a dump, found something else$") as caught:
        with JobExecutor(Job, 2) as executor:
            attest.cluster.run(executor, ["d.h5"], "r.h5", slots=2)
    assert caught.value.exit_code == 4


class Failing:
    """A job of which nothing can be learned."""
    made = cancelled = 0

    def __init__(self, *_):
        Failing.made += 1

    def done(self):
        raise OSError("sacct: no answer")

    def cancel(self):
        Failing.cancelled += 1
        raise OSError("scancel: no answer")


def test_jobs_that_cannot_be_asked_about_are_lost_and_do_not_stop_the_others(folder, monkeypatch):
    monkeypatch.setattr(JobExecutor, "INTERVAL", 0.01)

    def no_job(*_):
        raise RuntimeError("sbatch: error: invalid partition\nand more")

    with pytest.raises(OutputError, match=r"^the workers are gone \(sacct: no answer\) with 0 of 24 layers finished; "):
        with JobExecutor(Failing, 1) as executor:
            attest.cluster.run(executor, ["d.h5"], "r.h5", slots=1)
    assert Failing.cancelled == Failing.made >= 11, "all that were lost"
    assert not executor.thread.is_alive() and not executor.jobs and not executor.waiting
    with pytest.raises(OutputError, match=r"^the workers are gone \(sbatch: error: invalid partition\) with 0 of 24 "):
        with JobExecutor(no_job, 1) as executor:
            attest.cluster.run(executor, ["d.h5"], "r.h5", resume=True)


def test_a_cancelled_job_whose_cancellation_fails_leaves_the_others_alone(monkeypatch):
    monkeypatch.setattr(JobExecutor, "INTERVAL", 0.01)

    class Late(Failing):
        def done(self):
            return False

    class Done:
        def done(self):
            return True

        def result(self):
            return 7, None

    jobs = iter([Late(), Done()])
    with JobExecutor(lambda *_: next(jobs), 2) as executor:
        assert executor.submit(None).cancel()
        assert executor.submit(None).result(timeout=10) == 7


@pytest.mark.parametrize("place, sentence", [
    ("partition=gpu,jobs=x", "--slurm: jobs is 'x', expected a whole number from 1 on"),
    ("jobs=0", "--slurm: jobs is '0', expected a whole number from 1 on"),
    ("partition=gpu,8", "--slurm partition=gpu,8: expected a list such as partition=gpu,jobs=8, found '8'"),
    ("partition=", "found 'partition='"), ("", "found ''"), ("=gpu", "found '=gpu'"), ("a b=1", "found 'a b=1'"),
])
def test_bad_parameters_of_slurm_are_one_sentence(place, sentence):
    with pytest.raises(UsageError) as caught:
        with slurm(place, print):
            pass
    assert sentence in str(caught.value) and caught.value.exit_code == 2


@pytest.mark.parametrize("error", ["RuntimeError", "ImportError"])
def test_an_mpi4py_without_a_library_is_one_sentence(error, tmp_path):
    (tmp_path / "packages/mpi4py").mkdir(parents=True)
    (tmp_path / "packages/mpi4py/__init__.py").write_text(
        f"raise {error}('cannot load MPI library\\nlibmpi.so: no such file')\n")
    (tmp_path / "out").mkdir()
    places = os.pathsep.join([str(tmp_path / "packages"), os.environ["PYTHONPATH"]])
    done = run_attest("run", "d.h5", "-o", "r.h5", "--selector", "exact", "--mpi", cwd=tmp_path / "out",
                      env=os.environ | {"PYTHONPATH": places})
    assert (done.returncode, done.stdout) == (5, "") and not any((tmp_path / "out").iterdir())
    assert done.stderr == ("attest: --mpi: no MPI library can be loaded (mpi4py: cannot load MPI library); "
                           "install one, such as Debian's libopenmpi3\n")


def test_parameters_of_slurm():
    assert slurm_parameters("partition=gpu,gpus_per_node=1,time=2:00:00,jobs=16") == {
        "partition": "gpu", "gpus_per_node": 1, "time": "2:00:00", "jobs": 16}
