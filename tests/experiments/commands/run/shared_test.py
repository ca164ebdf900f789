"""attest run by several processes that share the folder of a study: the same bits as one; whoever ends, the others go
on."""

import signal
import subprocess
import time

import pytest

import shared_runs
from results_data import data_of
from shared_runs import Job, command, run, units, wait_for


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return shared_runs.studied(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def endless_dump(tmp_path_factory):
    return shared_runs.write_endless_dump(tmp_path_factory.mktemp("endless"))


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


@pytest.mark.parametrize("rank, number, code", [(0, signal.SIGTERM, 130), (1, signal.SIGKILL, -9)])
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
