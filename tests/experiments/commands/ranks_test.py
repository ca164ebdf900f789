"""attest run as several ranks: the same bits as one process; errors, interruptions and differences end all ranks with a sentence."""

import signal
import subprocess
import time

import pytest

import rank_runs
from rank_runs import LAYERS, Job, command, data_of, torchrun, wait_for

rank_runs.needs_torch()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A dump, and the results of one process."""
    folder = tmp_path_factory.mktemp("ranks")
    rank_runs.write_dump(folder / "dump.h5")
    subprocess.run(command(folder / "dump.h5", folder / "one.h5"), env=rank_runs.CLEAN, check=True, capture_output=True)
    return folder / "dump.h5", data_of(folder / "one.h5")


@pytest.fixture(scope="module")
def long_dump(tmp_path_factory):
    """One that a job studies for some seconds."""
    return rank_runs.write_dump(tmp_path_factory.mktemp("long") / "dump.h5", tokens=3000, layers=40, queries=16)


@pytest.fixture(scope="module")
def endless_dump(tmp_path_factory):
    """One that no test studies to its end."""
    return rank_runs.write_dump(tmp_path_factory.mktemp("endless") / "dump.h5", tokens=20000, layers=30, queries=64)


@pytest.mark.parametrize("ranks", [1, 3])
def test_torchrun_gives_the_bits_of_one_process(study, tmp_path, ranks):
    dump, expected = study
    result = torchrun(ranks, command(dump, tmp_path / "r.h5", "--resume"))
    assert result.returncode == 0, result.stderr
    assert data_of(tmp_path / "r.h5") == expected
    assert not (tmp_path / "r.h5.partial").exists()
    assert result.stdout.count("Results: ") == 1, "rank 0 alone"
    if ranks > 1:
        assert "rank 0 of 3 (torchrun), local rank 0 of 3" in result.stderr
        assert "[rank 2] rank 2 of 3 (torchrun)" in result.stderr and "[rank 1] done; rank 0 has the results" in result.stderr
        assert f"{LAYERS} of {LAYERS} layers" in result.stderr


def test_plain_processes_with_a_store_of_rank_0(study, tmp_path):
    dump, expected = study
    with Job(3, dump, tmp_path / "r.h5", "--resume").start(2, 1) as job:
        time.sleep(0.3)  # they wait for the store
        job.start(0)
        assert all(code == 0 for code, _, _ in job.end().values())
    assert data_of(tmp_path / "r.h5") == expected


def test_results_may_go_through_the_store(study, tmp_path):
    dump, expected = study
    (tmp_path / "elsewhere").mkdir()
    with Job(2, dump, "r.h5", "--resume", "--send-results") as job:
        job.start(0, cwd=tmp_path).start(1, cwd=tmp_path / "elsewhere")
        for code, _, error in job.end().values():
            assert code == 0, error
    assert data_of(tmp_path / "r.h5") == expected
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_rank_that_sees_another_folder_ends_all(endless_dump, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    with Job(2, endless_dump, "r.h5", "--resume") as job:
        job.start(0, cwd=tmp_path).start(1, cwd=tmp_path / "elsewhere")
        results = job.end()
    assert results[1][0] == 5 and "[rank 1] attest: rank 1 on '" in results[1][2]
    sentence = "cannot see 'r.h5.partial' as rank 0 does: expected a folder that all ranks share; --send-results sends finished layers to rank 0 instead"
    assert sentence in results[1][2]
    assert results[0][0] == 5 and results[0][2].splitlines()[-1].startswith("attest: rank 1: rank 1 on '") and sentence in results[0][2]


def test_other_options_on_one_rank_end_all(endless_dump, tmp_path):
    out = tmp_path / "r.h5"
    with Job(2, endless_dump, out, "--resume") as job:
        job.start(0).start(1, arguments=command(endless_dump, out, "--resume", "--lambdas", "1"))
        results = job.end()
    sentence = ("rank 1 was started with other options or inputs than rank 0, which has lambdas = [0.25,0.5,1.0,1.5,2.0,3.0,4.0,6.0], "
                "this command has [1.0]")
    assert (results[1][0], results[1][2].splitlines()[-1]) == (2, f"[rank 1] attest: {sentence}")
    assert (results[0][0], results[0][2].splitlines()[-1]) == (2, f"attest: rank 1: {sentence}")


def test_a_rank_without_the_dump_ends_all(endless_dump, tmp_path):
    out = tmp_path / "r.h5"
    with Job(2, endless_dump, out, "--resume") as job:
        job.start(0).start(1, arguments=command(tmp_path / "missing.h5", out, "--resume"))
        results = job.end()
    assert results[1][0] == 4 and "missing.h5" in results[1][2]
    assert results[0][0] == 4 and "attest: rank 1: " in results[0][2] and "missing.h5" in results[0][2]


def test_an_error_of_rank_0_ends_the_others(study, tmp_path):
    dump, _ = study
    (tmp_path / "r.h5").write_text("not results")
    with Job(2, dump, tmp_path / "r.h5") as job:
        job.start(0)
        code, _, error = job.end(0)
        assert (code, error.splitlines()[-1]) == (5, f"attest: '{tmp_path / 'r.h5'}' exists; --force replaces it")


@pytest.mark.parametrize("rank, number", [(0, signal.SIGTERM), (1, signal.SIGTERM), (1, signal.SIGINT)])
def test_a_signal_to_any_rank_ends_all_and_they_go_on_later(long_dump, tmp_path, rank, number):
    out = tmp_path / "r.h5"
    with Job(2, long_dump, out, "--resume").start() as job:
        job.until_all_work()
        start = time.monotonic()
        job.processes[rank].send_signal(number)
        results = job.end()
    assert time.monotonic() - start < 5
    assert [results[i][0] for i in (0, 1)] == [130, 130], results
    assert "layers finished; the same command with --resume goes on" in results[0][2]
    assert list((tmp_path / "r.h5.partial").glob("unit-*")) and not out.exists()
    with Job(2, long_dump, out, "--resume").start() as job:
        assert all(code == 0 for code, _, _ in job.end().values()), "at once, although the folder was in use"
    assert out.exists()


def test_a_time_limit_interrupts(endless_dump, tmp_path):
    out = tmp_path / "r.h5"
    with Job(2, endless_dump, out, "--resume", "--time-limit", "1").start() as job:
        results = job.end()
    assert [results[i][0] for i in (0, 1)] == [130, 130]
    assert "attest: the time limit is over: interrupted with " in results[0][2] + results[1][2]
    alone = subprocess.run(command(endless_dump, out, "--resume", "--time-limit", "0:01"), env=rank_runs.CLEAN, capture_output=True, text=True)
    assert alone.returncode == 130 and "attest: the time limit is over: interrupted with " in alone.stderr


def test_the_store_is_gone(long_dump, tmp_path):
    out = tmp_path / "r.h5"
    with Job(3, long_dump, out, "--resume", "--lease", "1").start() as job:
        job.until_all_work()
        job.processes[0].kill()
        for code, _, error in job.end(1, 2).values():
            assert code == 5 and f"attest: the store at 127.0.0.1:{job.port} is gone (" in error, error
            assert error.splitlines()[-1].endswith("; finished layers are kept, the same command with --resume goes on")
    assert list((tmp_path / "r.h5.partial").glob("unit-*")), "nothing is lost"
    with Job(2, long_dump, out, "--resume").start() as job:
        assert all(code == 0 for code, _, _ in job.end().values())


def test_a_rank_that_hangs_is_overtaken(long_dump, tmp_path):
    out, alone = tmp_path / "r.h5", tmp_path / "alone.h5"
    subprocess.run(command(long_dump, alone), env=rank_runs.CLEAN, check=True, capture_output=True)
    with Job(3, long_dump, out, "--resume", "--lease", "1").start() as job:
        job.until_all_work()
        job.processes[2].send_signal(signal.SIGSTOP)
        assert [code for code, _, _ in job.end(0, 1).values()] == [0, 0]
        assert data_of(out) == data_of(alone)
        job.processes[2].send_signal(signal.SIGCONT)
        assert job.end(2)[0] in (0, 5), "its store has gone with rank 0"


def test_rank_0_that_hangs_is_noticed(endless_dump, tmp_path):
    with Job(2, endless_dump, tmp_path / "r.h5", "--resume", "--lease", "0.5").start() as job:
        job.until_all_work()
        job.processes[0].send_signal(signal.SIGSTOP)
        code, _, error = job.end(1)
        assert code == 5 and "is gone (no answer within 1.5 s)" in error or "rank 0 has not been heard of" in error, error


def test_a_rank_says_what_it_waits_for(study, tmp_path):
    """Rank 0 does not come."""
    with Job(2, study[0], tmp_path / "r.h5").start(1) as job:
        rank_runs.wait_for(lambda: f"[rank 1] warning: waiting for the store of the ranks at 127.0.0.1:{job.port}, 300 s at most" in job.text(1))
        job.processes[1].send_signal(signal.SIGTERM)
        assert job.end(1)[0] == 130


def test_a_finished_study_is_found_by_all(study, tmp_path):
    dump, expected = study
    out = tmp_path / "r.h5"
    for _ in range(2):
        with Job(2, dump, out, "--resume").start() as job:
            results = job.end()
            assert [results[i][0] for i in (0, 1)] == [0, 0]
    assert "is complete already" in results[0][2]
    assert data_of(out) == expected


def test_a_rank_that_comes_when_all_is_done_ends_well(study, tmp_path):
    dump, _ = study
    with Job(3, dump, tmp_path / "r.h5", "--resume").start(0, 1) as job:
        wait_for((tmp_path / "r.h5").exists)
        job.start(2)
        assert all(code == 0 for code, _, _ in job.end().values())


def test_two_jobs_in_one_folder_are_refused(long_dump, tmp_path):
    out = tmp_path / "r.h5"
    with Job(2, long_dump, out, "--resume").start() as job, Job(2, long_dump, out, "--resume") as other:
        job.until_all_work()
        code, _, error = other.start(0).end(0)
        assert code == 5 and "is in use: ranks of another job work on the study, rank 0 is process" in error
        alone = subprocess.run(command(long_dump, out, "--resume"), env=rank_runs.CLEAN, capture_output=True, text=True)
        assert alone.returncode == 5 and "is in use: ranks of another job" in alone.stderr
        assert all(code == 0 for code, _, _ in job.end().values())


def test_a_folder_of_ranks_is_not_cleared_by_force(long_dump, tmp_path):
    out = tmp_path / "r.h5"
    with Job(2, long_dump, out, "--resume") as job:
        job.start().until_all_work()
        refused = subprocess.run(command(long_dump, out, "--force"), env=rank_runs.CLEAN, capture_output=True, text=True)
        assert refused.returncode == 5 and "is in use: ranks of another job work on the study" in refused.stderr
        job.processes[0].send_signal(signal.SIGTERM)
        assert {code for code, _, _ in job.end().values()} == {130}


@pytest.mark.parametrize("variables, sentence", [
    ({"RANK": "1"}, "RANK is set, but WORLD_SIZE is not"),
    ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK is 'x', expected a whole number from 0 to "),
    ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is 2 and WORLD_SIZE is 2, expected a smaller RANK"),
    ({"RANK": "1", "WORLD_SIZE": "2"}, "set MASTER_ADDR to its host and MASTER_PORT to a free port"),
])
def test_variables_that_cannot_be_meant(study, tmp_path, variables, sentence):
    dump, _ = study
    result = subprocess.run(command(dump, tmp_path / "r.h5"), env=rank_runs.CLEAN | variables, capture_output=True, text=True)
    assert result.returncode == 2 and sentence in result.stderr, result.stderr


def test_the_script_of_a_batch_job_is_one_process(study, tmp_path):
    dump, expected = study
    variables = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "7", "SLURM_LOCALID": "0"}
    result = subprocess.run(command(dump, tmp_path / "r.h5"), env=rank_runs.CLEAN | variables, capture_output=True, text=True, timeout=rank_runs.LIMIT)
    assert result.returncode == 0 and "rank" not in result.stderr
    assert data_of(tmp_path / "r.h5") == expected
