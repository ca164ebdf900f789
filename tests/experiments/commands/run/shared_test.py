"""attest run by several processes that share the folder of a study: the same bits as one; whoever ends, the others go
on."""

import os
import resource
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


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A dump that a job studies for some seconds, and the results of one process."""
    folder = tmp_path_factory.mktemp("shared")
    shared_runs.write_dump(folder / "dump.h5", tokens=3000, layers=24, queries=16)
    assert run(command(folder / "dump.h5", folder / "one.h5")).returncode == 0
    return folder / "dump.h5", data_of(folder / "one.h5")


@pytest.fixture(scope="module")
def endless_dump(tmp_path_factory):
    """One that no test studies to its end."""
    return shared_runs.write_dump(tmp_path_factory.mktemp("endless") / "dump.h5", tokens=20000, layers=30, queries=64)


def units(out):
    return list(out.with_name(out.name + ".partial").glob("unit-*.bin"))


def test_the_processes_of_a_launcher_join_one_study(study, tmp_path):
    dump, expected = study
    with Job(3, dump, tmp_path / "r.h5").start() as job:  # without --resume
        found = job.end()
    assert [found[rank][0] for rank in range(3)] == [0, 0, 0], found
    assert data_of(tmp_path / "r.h5") == expected
    assert [path.name for path in tmp_path.iterdir()] == ["r.h5"]
    assert ["Results: " in found[rank][1] for rank in range(3)] == [True, False, False], "one summary"
    assert "rank 0 of 3 (RANK and WORLD_SIZE), local rank 0 of 3" in found[0][2] \
        and "[rank 2] rank 2 of 3" in found[2][2]
    with Job(3, dump, tmp_path / "r.h5").start(1) as job:  # comes late
        code, _, error = job.end(1)
        assert code == 0 and "is complete already" in error


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 130), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
@pytest.mark.parametrize("rank", [0, 1])
def test_the_others_go_on_without_one(study, tmp_path, rank, number, code):
    dump, expected = study
    out = tmp_path / "r.h5"
    with Job(2, dump, out).start() as job:
        job.until_all_work()
        job.processes[rank].send_signal(number)
        assert job.end(rank)[0] == code
        other = job.end(1 - rank)
        assert other[0] == 0, other
        if code == 130:
            assert "layers finished; the same command with --resume goes on" in job.text(rank)
    assert data_of(out) == expected and [path.name for path in tmp_path.iterdir()] == ["r.h5"]


def warnings_in(text):
    return [line.partition("warning: ")[2] for line in text.splitlines() if "warning: " in line]


def test_warnings_of_a_study_are_said_by_one_process(study, tmp_path):
    dump, _ = study
    out, options = tmp_path / "r.h5", ["--queries", "last:99", "--p", "0.5"]
    with Job(3, dump, out, *options).start(0) as job:
        wait_for(lambda: units(out))
        said = warnings_in(job.text(0))
        job.start(1, 2)
        first = job.processes[0].pid
        wait_for(lambda: warnings_in(job.text(1)) and warnings_in(job.text(2)))
        for rank in 1, 2:
            (line,) = warnings_in(job.text(rank))
            assert line.startswith(f"{len(said)} warnings of this study are told by process {first} on '"), line
        job.processes[0].kill()
        assert job.codes(1, 2) == [0, 0]
        found = [warnings_in(job.text(rank)) for rank in (1, 2)]
    assert len(said) > 1 and any(line.startswith("--queries last:99: all queries ") for line in said)
    assert any(line.startswith("--p 0.5 is not used") for line in said)
    assert sorted(map(len, found)) == [1, 1 + len(said)] and max(found, key=len)[1:] == said, "the next one that writes"


def test_units_that_vanish_or_are_damaged_are_computed_again(study, tmp_path):
    dump, expected = study
    out = tmp_path / "r.h5"
    with Job(2, dump, out).start() as job:
        touched, end = 0, time.monotonic() + 20
        while touched < 4 and time.monotonic() < end:
            for number, path in enumerate(units(out)):
                try:
                    path.unlink() if (number + touched) % 2 else path.write_bytes(path.read_bytes()[:-20])
                    touched += 1
                except OSError:
                    pass
            time.sleep(0.05)
        assert job.codes() == [0, 0]
    assert touched and data_of(out) == expected


def test_another_process_writes_the_results_when_units_vanished(study, tmp_path):
    """Of those that the first process had taken over, some are gone when it is killed."""
    dump, expected = study
    out = tmp_path / "r.h5"
    with Job(2, dump, out).start(0) as job:
        wait_for(lambda: len(units(out)) >= 3)
        job.start(1)
        wait_for(lambda: len(units(out)) >= 14)
        for path in units(out)[:3]:
            path.unlink()
        job.processes[0].kill()
        assert job.end(1)[0] == 0, job.end(1)
    assert data_of(out) == expected


def test_other_content_and_other_options_are_refused(tmp_path):
    for name, seed in ("a", 3), ("b", 4):
        (tmp_path / name).mkdir()
        shared_runs.write_dump(tmp_path / name / "x.h5", tokens=3000, layers=24, queries=16, seed=seed)
    times = (tmp_path / "a/x.h5").stat()
    os.utime(tmp_path / "b/x.h5", ns=(times.st_atime_ns, times.st_mtime_ns))
    out = tmp_path / "r.h5"
    with Job(2, tmp_path / "a/x.h5", out).start(0) as job:
        wait_for(lambda: units(out))
        job.start(1, arguments=command(tmp_path / "b/x.h5", out))
        code, _, error = job.end(1)
        last = error.splitlines()[-1]
        assert code == 4 and "began the study with another '" in last and "b/x.h5' than process " in last \
            and "of other content" in last, error
        job.start(1, arguments=command(tmp_path / "a/x.h5", out, "--lambdas", "1"))
        code, _, error = job.end(1)
        assert code == 2 and "it was started with lambdas = " in error
        assert job.end(0)[0] == 0
    assert run(command(tmp_path / "a/x.h5", tmp_path / "alone.h5")).returncode == 0
    assert data_of(out) == data_of(tmp_path / "alone.h5")


def test_the_same_content_under_another_name_is_the_same(study, tmp_path):
    dump, expected = study
    shutil.copy(dump, tmp_path / "copy.h5")
    out = tmp_path / "r.h5"
    with Job(2, dump, out).start(0) as job:
        wait_for(lambda: units(out))
        job.start(1, arguments=command(tmp_path / "copy.h5", out))
        assert job.codes() == [0, 0]
    assert data_of(out) == expected


def test_a_process_that_cannot_write_ends_alone(study, tmp_path):
    dump, expected = study
    out = tmp_path / "r.h5"
    with Job(2, dump, out).start() as job:
        resource.prlimit(job.processes[1].pid, resource.RLIMIT_FSIZE, (2000, 2000))
        assert job.end(1)[0] == 5 and job.end(0)[0] == 0, job.end()
    assert data_of(out) == expected


def test_the_folder_is_removed_under_them(endless_dump, tmp_path):
    out = tmp_path / "r.h5"
    with Job(2, endless_dump, out).start() as job:
        wait_for(lambda: (tmp_path / "r.h5.partial/study.json").exists()
                 and all("device" in job.text(rank) for rank in (0, 1)))
        time.sleep(1)
        shutil.rmtree(tmp_path / "r.h5.partial", ignore_errors=True)
        for code, _, error in job.end().values():
            assert code == 5 \
                and "r.h5.partial' was removed while the study ran, and there are no results" in error, error


def test_starting_over_while_others_work_is_refused(endless_dump, tmp_path):
    out = tmp_path / "r.h5"
    with Job(2, endless_dump, out).start() as job:
        wait_for(lambda: (tmp_path / "r.h5.partial/study.json").exists())
        refused = run(command(endless_dump, out, "--force"))
        assert refused.returncode == 5 and "is in use: process " in refused.stderr \
            and "--resume joins it" in refused.stderr
        both = subprocess.run(command(endless_dump, out, "--force"),
                              env=shared_runs.CLEAN | {"RANK": "0", "WORLD_SIZE": "2"}, capture_output=True, text=True)
        assert both.returncode == 2 and "--force would start over in each of the 2 processes" in both.stderr


def test_a_time_limit_ends_one_process(endless_dump, tmp_path):
    out = tmp_path / "r.h5"
    with Job(2, endless_dump, out).start(0).start(1, arguments=command(endless_dump, out, "--time-limit", "1")) as job:
        code, _, error = job.end(1)
        assert code == 130 and "attest: the time limit is over: interrupted with " in error
        assert job.processes[0].poll() is None


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.3, 1, 3])
def test_sigterm_ends_at_any_moment(endless_dump, tmp_path, seconds):
    with Job(2, endless_dump, tmp_path / "r.h5").start() as job:
        time.sleep(seconds)
        for process in job.processes.values():
            process.send_signal(signal.SIGTERM)
        codes = job.codes()
        assert set(codes) <= {130, -signal.SIGTERM}, codes


@pytest.mark.parametrize("variables, sentence", [
    ({"RANK": "1"}, "RANK is set, but WORLD_SIZE is not"),
    ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK is 'x', expected a whole number from 0 to "),
    ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is 2 and WORLD_SIZE is 2, expected a smaller RANK"),
])
def test_variables_that_cannot_be_meant(study, tmp_path, variables, sentence):
    result = subprocess.run(command(study[0], tmp_path / "r.h5"), env=shared_runs.CLEAN | variables,
                            capture_output=True, text=True)
    assert result.returncode == 2 and sentence in result.stderr, result.stderr


def test_the_script_of_a_batch_job_is_one_process(study, tmp_path):
    variables = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "7", "SLURM_LOCALID": "0"}
    result = subprocess.run(command(study[0], tmp_path / "r.h5"), env=shared_runs.CLEAN | variables,
                            capture_output=True, text=True, timeout=shared_runs.LIMIT)
    assert result.returncode == 0 and "rank" not in result.stderr
    assert data_of(tmp_path / "r.h5") == study[1]


def test_torchrun(study, tmp_path):
    torchrun = Path(sys.executable).with_name("torchrun")
    if not torchrun.exists():
        pytest.skip("no torchrun here")
    result = run([torchrun, "--standalone", "--nproc-per-node", "2", "--no-python",
                  *command(study[0], tmp_path / "r.h5")])
    assert result.returncode == 0, result.stderr
    assert data_of(tmp_path / "r.h5") == study[1]
    assert result.stdout.count("Results: ") == 1, "rank 0 alone"
