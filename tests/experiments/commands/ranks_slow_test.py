"""Ranks are killed at random moments, or by torchrun's own restarts: the bits are those of one process."""

import random
import signal
import subprocess
import sys
import time

import pytest

import rank_runs
from rank_runs import Job, command, data_of, torchrun

rank_runs.needs_torch()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    rank_runs.write_dump(folder / "dump.h5", tokens=2000, layers=24, queries=8)
    subprocess.run(command(folder / "dump.h5", folder / "one.h5"), env=rank_runs.CLEAN, check=True, capture_output=True)
    return folder / "dump.h5", data_of(folder / "one.h5")


@pytest.mark.parametrize("ranks", [2, 8])
def test_torchrun_gives_the_bits_of_one_process(study, tmp_path, ranks):
    dump, expected = study
    result = torchrun(ranks, command(dump, tmp_path / "r.h5", "--resume"))
    assert result.returncode == 0, result.stderr
    assert data_of(tmp_path / "r.h5") == expected


@pytest.mark.parametrize("seed", range(6))
def test_ranks_killed_at_random_moments(study, tmp_path, seed):
    """Others go on without them; if it was rank 0, the job is given the same command line again."""
    dump, expected = study
    out, clock, kills = tmp_path / "r.h5", random.Random(seed), 0
    for attempt in range(10):
        with Job(3, dump, out, "--resume", "--lease", "1").start() as job:
            for rank in clock.sample(range(3), 3 if attempt < 2 else 0):
                time.sleep(clock.uniform(0.1, 0.5))
                if job.processes[rank].poll() is None:
                    job.processes[rank].send_signal(signal.SIGKILL)
                    kills += 1
                if rank == 0:
                    break
            code, _, error = job.end(0)
            assert code in (0, -signal.SIGKILL), error
            if code == 0:
                break
        assert not out.exists() or data_of(out) == expected, "a results file appears whole"
    assert code == 0 and kills > 0
    assert data_of(out) == expected
    assert not (tmp_path / "r.h5.partial").exists()


def test_torchrun_starts_killed_ranks_again(study, tmp_path):
    """A rank kills itself in the first attempt; torchrun starts all again, and they go on."""
    dump, expected = study
    wrapper = tmp_path / "rank.sh"
    wrapper.write_text('#!/bin/bash\n[ "$TORCHELASTIC_RESTART_COUNT$RANK" != 01 ] || { "$@" & sleep 0.8; kill -9 $!; exit 1; }\nexec "$@"\n')
    wrapper.chmod(0o755)
    result = torchrun(2, [str(wrapper), *command(dump, tmp_path / "r.h5", "--resume")], "--max-restarts", "2")
    assert result.returncode == 0, result.stderr
    assert data_of(tmp_path / "r.h5") == expected


def test_a_rank_killed_on_another_node_is_started_again(study, tmp_path):
    """Two agents of torchrun, as on two machines: both start their ranks again, and count that differently."""
    dump, expected = study
    wrapper, killed = tmp_path / "rank.sh", tmp_path / "killed"
    wrapper.write_text(f'#!/bin/bash\n[ $RANK = 0 ] || [ -e {killed} ] || {{ touch {killed}; "$@" & sleep 0.8; kill -9 $!; exit 1; }}\nexec "$@"\n')
    wrapper.chmod(0o755)
    address = f"127.0.0.1:{rank_runs.free_port()}"
    agents = [subprocess.Popen([rank_runs.TORCHRUN, "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", address,
                                "--rdzv-id", "test", "--local-addr", "127.0.0.1", "--max-restarts", "2", "--no-python", wrapper,
                                *command(dump, tmp_path / "r.h5", "--resume")],
                               env=rank_runs.CLEAN, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for agent in agents:
            error = agent.communicate(timeout=100)[1]
            assert agent.returncode == 0, error
    finally:
        for agent in agents:
            agent.kill()
    assert killed.exists() and data_of(tmp_path / "r.h5") == expected


STORE = "import sys, time, torch.distributed as d; s = d.TCPStore('127.0.0.1', int(sys.argv[1]), is_master=True, wait_for_workers=False); time.sleep(100)"


@pytest.fixture
def start_store(monkeypatch):
    """Starts the store of a job, as torchrun does, in a process of its own."""
    monkeypatch.setitem(rank_runs.CLEAN, "TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setitem(rank_runs.CLEAN, "TORCHELASTIC_USE_AGENT_STORE", "True")
    stores = []

    def start(job):
        stores.append(subprocess.Popen([sys.executable, "-c", STORE, str(job.port)]))
        return stores[-1]

    yield start
    for store in stores:
        store.kill()
        store.wait()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_job_that_is_suspended_goes_on(study, tmp_path, order, start_store):
    """All ranks, but not the launcher's store, are stopped for longer than three leases, as by a scheduler, and go on one after the other."""
    dump, expected = study
    with Job(2, dump, tmp_path / "r.h5", "--resume", "--lease", "1") as job:
        start_store(job)
        job.start().until_all_work()
        for process in job.processes.values():
            process.send_signal(signal.SIGSTOP)
        time.sleep(5)
        for rank in order:
            job.processes[rank].send_signal(signal.SIGCONT)
            time.sleep(0.3)
        for code, _, error in job.end().values():
            assert code == 0, error
    assert data_of(tmp_path / "r.h5") == expected


def test_a_signal_is_heard_although_the_store_hangs(tmp_path, start_store):
    dump = rank_runs.write_dump(tmp_path / "endless.h5", tokens=20000, layers=30, queries=64)
    with Job(2, dump, tmp_path / "r.h5", "--resume") as job:
        store = start_store(job)
        job.start()
        rank_runs.wait_for(lambda: all("device: " in job.text(rank) for rank in job.processes))
        store.send_signal(signal.SIGSTOP)
        time.sleep(1)
        begin = time.monotonic()
        for process in job.processes.values():
            process.send_signal(signal.SIGTERM)
        assert {code for code, _, _ in job.end().values()} == {130}
        assert time.monotonic() - begin < 10, "three leases are 30 s"
