"""attest run --mpi and --slurm with a real mpirun, with submitit's jobs on this machine, and with a real Slurm if one
answers here."""
import os
import shutil
import signal
import subprocess

import pytest

from attest.cluster import executors, study
from attest.cluster.chunk import ChunkError
from attest_program import ATTEST, attest
from results_data import data_of
from shared_runs import CLEAN, SELECTORS, wait_for

LIMIT = 300


def mpirun(processes, *words):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed (cmake/setup.sh --cluster)")
    if not shutil.which("mpirun"):
        pytest.skip("mpirun is not installed")
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "-n", str(processes), *map(str, words)]


def slurm(*words):
    pytest.importorskip("submitit", reason="submitit is not installed (cmake/setup.sh --cluster)")
    if subprocess.run(["sh", "-c", "sinfo -h | grep -q idle"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no Slurm answers here")
    return [*map(str, words)]


def local_jobs(*words):
    pytest.importorskip("submitit", reason="submitit is not installed (cmake/setup.sh --cluster)")
    return [*map(str, words), "--slurm", "cluster=local,jobs=2"]


def run(words, folder, expect=0):
    done = subprocess.run(words, cwd=folder, env=CLEAN, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == expect, done.stderr
    return done


@pytest.mark.parametrize("way", ["mpi", "slurm", "local"])
def test_the_bits_are_those_of_one_process(way, dump, plain, tmp_path):
    words = [ATTEST, "run", dump, "-o", "r.h5", *SELECTORS]
    words = mpirun(3, *words, "--mpi") if way == "mpi" else local_jobs(*words) if way == "local" else \
        slurm(*words, "--slurm", "jobs=2")
    done = run(words, tmp_path)
    assert done.stdout.count("Results: r.h5") == 1 and "24 of 24 layers" in done.stderr
    assert data_of(tmp_path / "r.h5") == data_of(plain) and not (tmp_path / "r.h5.partial").exists()


def test_a_job_whose_program_fails_is_one_sentence(dump, tmp_path, monkeypatch):
    pytest.importorskip("submitit", reason="submitit is not installed (cmake/setup.sh --cluster)")
    program = tmp_path / "program"  # fails on workers
    program.write_text(f'#!/bin/sh\ncase "$*" in *--chunk*) echo "attest: no such dump" >&2; exit 4;; esac\n'
                       f'exec {ATTEST} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("ATTEST_BIN", str(program))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ChunkError, match="^worker .*: no such dump$") as caught:
        with executors.slurm("cluster=local,jobs=2", print) as (executor, slots):
            study.run(executor, [dump], "r.h5", slots=slots, selector="exact")
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("old", [SELECTORS, ["--selector", "exact"]])
def test_force_replaces_results_that_are_there(old, dump, plain, tmp_path):
    attest("run", dump, "-o", "r.h5", *old, "--quiet", cwd=tmp_path, env=CLEAN)
    before = (tmp_path / "r.h5").stat().st_ino
    words = mpirun(3, ATTEST, "run", dump, "-o", "r.h5", *SELECTORS, "--mpi")
    assert "'r.h5' exists; --force replaces it" in run(words, tmp_path, expect=5).stderr
    done = run([*words, "--force"], tmp_path)
    assert done.stdout.count("Results: r.h5") == 1 and "complete already" not in done.stderr
    assert data_of(tmp_path / "r.h5") == data_of(plain) and (tmp_path / "r.h5").stat().st_ino != before


def test_one_process_alone_is_refused(dump, tmp_path):
    said = run(mpirun(1, ATTEST, "run", dump, "-o", "r.h5", "--mpi"), tmp_path, expect=2).stderr
    assert "attest: --mpi: expected at least two processes of mpirun" in said and not list(tmp_path.iterdir())


def test_a_killed_job_goes_on(dump, plain, tmp_path):
    words = mpirun(3, ATTEST, "run", dump, "-o", "r.h5", *SELECTORS, "--mpi")
    job = subprocess.Popen(words, cwd=tmp_path, env=CLEAN, start_new_session=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    wait_for(lambda: list((tmp_path / "r.h5.partial").glob("unit-*")))
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    if not (tmp_path / "r.h5").exists():
        done = run([*words, "--resume"], tmp_path)
        assert done.stdout.count("Results: r.h5") == 1
    assert data_of(tmp_path / "r.h5") == data_of(plain)
