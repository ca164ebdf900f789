"""Processes that share a study are killed, stopped and interrupted at random moments, also as if they were on several
machines: the bits are those of one process, nobody hangs, and nothing is left behind."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import shared_runs
from results_data import data_of
from shared_runs import Job, command, run, wait_for

# other processes: as good as another machine
ELSEWHERE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    shared_runs.write_dump(folder / "dump.h5", tokens=2000, layers=24, queries=8)
    start = time.monotonic()
    assert run(command(folder / "dump.h5", folder / "one.h5")).returncode == 0
    return folder / "dump.h5", data_of(folder / "one.h5"), time.monotonic() - start


def needs(*command):
    try:
        made = subprocess.run([*command, "true"], capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"no {command[0]} here: {error}")
    if made.returncode != 0:
        pytest.skip(f"{command[0]} does not work here: {made.stderr.strip()}")


@pytest.mark.parametrize("seed", range(20))
def test_signals_at_random_moments(study, tmp_path, seed):
    dump, expected, seconds = study
    chance, out = random.Random(seed), tmp_path / "r.h5"
    for attempt in range(20):
        ranks = chance.choice([2, 3, 4])
        with Job(ranks, dump, out).start() as job:
            told = set()
            for rank in chance.sample(range(ranks), chance.randint(1, ranks) if attempt < 3 else 0):
                time.sleep(chance.uniform(0, seconds / 3))
                if job.processes[rank].poll() is None:
                    number = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP])
                    job.processes[rank].send_signal(number)
                    if number == signal.SIGSTOP:
                        time.sleep(chance.uniform(0, 1))
                        job.processes[rank].send_signal(signal.SIGCONT)
                    else:
                        told.add(rank)
            codes = job.codes(*range(ranks))
        assert not out.exists() or data_of(out) == expected, "a results file appears whole"
        assert all(code == 0 or (rank in told and code in (130, -9, -15, -2)) for rank, code in enumerate(codes)), \
            (codes, told)
        if out.exists() and not out.with_name("r.h5.partial").exists():
            break
    assert data_of(out) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["r.h5"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_falls_silent_elsewhere_is_overtaken(study, tmp_path, number):
    """Another pid namespace: only its count tells whether it lives."""
    needs(*ELSEWHERE)
    dump, expected, _ = study
    out = tmp_path / "r.h5"
    with Job(2, dump, out, on=[[], ELSEWHERE]).start(1) as job:
        wait_for(lambda: list((tmp_path / "r.h5.partial").glob("lock-*-*-*")))
        children = Path(f"/proc/{job.processes[1].pid}/task/{job.processes[1].pid}/children").read_text().split()
        os.kill(int(children[0]), number)
        start = time.monotonic()
        job.start(0)
        assert job.end(0)[0] == 0
        assert time.monotonic() - start > 8, "it had the right to write the results"
        if number == signal.SIGSTOP:
            os.kill(int(children[0]), signal.SIGCONT)
            assert job.end(1)[0] == 0, job.end(1)
    assert data_of(out) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["r.h5"]


def test_a_stopped_process_is_overtaken_and_ends_well(study, tmp_path):
    dump, expected, _ = study
    out = tmp_path / "r.h5"
    with Job(2, dump, out).start() as job:
        job.until_all_work()
        job.processes[1].send_signal(signal.SIGSTOP)
        assert job.end(0)[0] == 0
        assert data_of(out) == expected
        job.processes[1].send_signal(signal.SIGCONT)
        assert job.end(1)[0] == 0, job.end(1)


def test_a_process_says_for_whom_it_waits(tmp_path):
    """For one that is stopped and goes on by turns in a long layer: it counts, but hardly computes."""
    out, long_dump = tmp_path / "r.h5", shared_runs.write_dump(
        tmp_path / "dump.h5", tokens=40000, layers=1, queries=512)
    with Job(2, long_dump, out).start(0) as job:
        wait_for(lambda: list((tmp_path / "r.h5.partial").glob("lock-*-*-0")))
        holder = job.processes[0]
        holder.send_signal(signal.SIGSTOP)
        job.start(1)
        said = f"[rank 1] warning: waiting for process {holder.pid} on '"
        end = time.monotonic() + 40
        while said not in job.text(1) and time.monotonic() < end:
            time.sleep(2)
            holder.send_signal(signal.SIGCONT)
            time.sleep(0.01)
            holder.send_signal(signal.SIGSTOP)
        assert said in job.text(1) and ", which computes layer 0 of sample 1" in job.text(1), job.text(1)


def test_a_folder_that_is_perhaps_not_shared_is_named(tmp_path):
    endless = shared_runs.write_endless_dump(tmp_path)
    with Job(4, endless, tmp_path / "r.h5").start(0) as job:
        wait_for(lambda: "4 processes were started, but after 20 s this one has seen no other in '" in job.text(0), 40)
        assert "r.h5.partial': perhaps that folder is not shared" in job.text(0)


def test_two_machines_with_other_files_at_one_path(study, tmp_path):
    needs("unshare", "--mount")
    for name, seed in ("a", 3), ("b", 4):
        (tmp_path / name).mkdir()
        shared_runs.write_dump(tmp_path / name / "x.h5", tokens=2000, layers=24, queries=8, seed=seed)
    elsewhere = ["unshare", "--mount", "bash", "-c", f"mount --bind {tmp_path}/b {tmp_path}/a && exec \"$@\"", "-"]
    out = tmp_path / "r.h5"
    with Job(2, tmp_path / "a/x.h5", out, on=[[], elsewhere]).start() as job:
        codes = job.codes(0, 1)
        refused = job.end(codes.index(4))[2].splitlines()[-1]
    assert sorted(codes) == [0, 4] and f"began the study with another '{tmp_path}/a/x.h5' than process " in refused, (
        codes, refused)
    right = tmp_path / ("a" if codes[0] == 0 else "b")
    assert run(command(right / "x.h5", tmp_path / "alone.h5")).returncode == 0
    assert data_of(out) == data_of(tmp_path / "alone.h5")


def test_a_read_only_folder_ends_one_process(study, tmp_path):
    needs("unshare", "--mount")
    dump, expected, _ = study
    read_only = ["unshare", "--mount", "bash", "-c",
                 f"mount --bind {tmp_path} {tmp_path} && mount -o remount,ro,bind {tmp_path} && exec \"$@\"", "-"]
    with Job(2, dump, tmp_path / "r.h5", on=[[], read_only]).start() as job:
        assert job.codes(0, 1) == [0, 5], job.end()
    assert data_of(tmp_path / "r.h5") == expected


def test_two_studies_in_a_row(study, tmp_path):
    """Each process runs one study after the other, as the script of a job does; the last one comes late."""
    dump, expected, _ = study
    processes = []
    for rank in range(3):
        script = " && ".join(
            [f"sleep {2 * (rank == 2)}"] + [" ".join(command(dump, tmp_path / f"{name}.h5", "--layers", layers))
                                                             for name, layers in (("a", "0-11"), ("b", "12-23"))])
        processes.append(subprocess.Popen(["bash", "-c", script],
                                          env=shared_runs.CLEAN | {"RANK": str(rank), "WORLD_SIZE": "3"},
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    for process in processes:
        error = process.communicate(timeout=shared_runs.LIMIT)[1]
        assert process.returncode == 0, error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "b.h5"]


def test_the_script_of_a_batch_job_is_one_process(study, tmp_path):
    dump, expected, _ = study
    variables = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "7", "SLURM_LOCALID": "0"}
    result = subprocess.run(command(dump, tmp_path / "r.h5"), env=shared_runs.CLEAN | variables,
                            capture_output=True, text=True, timeout=shared_runs.LIMIT)
    assert result.returncode == 0 and "rank" not in result.stderr
    assert data_of(tmp_path / "r.h5") == expected


def test_torchrun(study, tmp_path):
    dump, expected, _ = study
    torchrun = Path(sys.executable).with_name("torchrun")
    if not torchrun.exists():
        pytest.skip("no torchrun here")
    result = run([torchrun, "--standalone", "--nproc-per-node", "2", "--no-python",
                  *command(dump, tmp_path / "r.h5")])
    assert result.returncode == 0, result.stderr
    assert data_of(tmp_path / "r.h5") == expected
    assert result.stdout.count("Results: ") == 1, "rank 0 alone"


def test_torchrun_starts_killed_ranks_again(study, tmp_path):
    torchrun = Path(sys.executable).with_name("torchrun")
    if not torchrun.exists():
        pytest.skip("no torchrun here")
    dump, expected, _ = study
    wrapper = tmp_path / "rank.sh"
    wrapper.write_text(
        '#!/bin/bash\n[ "$TORCHELASTIC_RESTART_COUNT$RANK" != 01 ] || { "$@" & sleep 0.8; kill -9 $!; exit 1; }\nexec '
        '"$@"\n')
    wrapper.chmod(0o755)
    result = run([torchrun, "--standalone", "--nproc-per-node", "2", "--max-restarts", "2", "--no-python", wrapper,
                  *command(dump, tmp_path / "r.h5")])
    assert result.returncode == 0, result.stderr
    assert data_of(tmp_path / "r.h5") == expected


@pytest.fixture
def one_folder_twice(tmp_path):
    """A folder, and the same through sshfs, on which locks of one machine are unknown to the other."""
    server = "/usr/lib/openssh/sftp-server"
    if not shutil.which("sshfs") or not os.path.exists(server) or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("no sshfs with a server and /dev/fuse here")
    real, mounted, pipe = tmp_path / "real", tmp_path / "mounted", tmp_path / "pipe.sh"
    real.mkdir()
    mounted.mkdir()
    pipe.write_text(f"#!/bin/sh\nexec {server}\n")
    pipe.chmod(0o755)
    made = subprocess.run(["sshfs", "-o", f"ssh_command={pipe}", f"here:{real}", mounted], capture_output=True,
                          text=True)
    if made.returncode != 0:
        pytest.skip(f"sshfs does not work here: {made.stderr.strip()}")
    yield real, mounted
    subprocess.run(["fusermount", "-uz", mounted], check=True)


@pytest.mark.parametrize("kill", [False, True])
def test_a_network_file_system_without_locks(study, one_folder_twice, kill):
    needs(*ELSEWHERE)
    dump, expected, _ = study
    real, mounted = one_folder_twice
    with Job(2, dump, real / "r.h5", on=[[], ELSEWHERE]).start(0) as job:
        wait_for(lambda: list((real / "r.h5.partial").glob("unit-*")))
        if kill:
            job.processes[0].send_signal(signal.SIGSTOP)  # so that it does not finish first
        job.start(1, arguments=command(dump, mounted / "r.h5"))
        wait_for(lambda: "device: " in job.text(1))
        if kill:
            time.sleep(0.5)
            job.processes[0].kill()
        assert job.codes() == [-9 if kill else 0, 0], job.end()
    assert data_of(real / "r.h5") == expected
    assert [path.name for path in real.iterdir()] == ["r.h5"]
