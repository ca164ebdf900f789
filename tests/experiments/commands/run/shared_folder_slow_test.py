"""What processes that share a study meet in its folder: other content and other options, copies, full disks, units
that vanish, a folder that is removed."""

import os
import resource
import shutil
import time

import pytest

import shared_runs
from results_data import data_of
from shared_runs import Job, command, run, units, wait_for


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return shared_runs.studied(tmp_path_factory.mktemp("shared"))


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


def test_the_folder_is_removed_under_them(tmp_path):
    out = tmp_path / "r.h5"
    endless_dump = shared_runs.write_endless_dump(tmp_path)
    with Job(2, endless_dump, out).start() as job:
        wait_for(lambda: (tmp_path / "r.h5.partial/study.json").exists()
                 and all("device" in job.text(rank) for rank in (0, 1)))
        time.sleep(1)
        shutil.rmtree(tmp_path / "r.h5.partial", ignore_errors=True)
        for code, _, error in job.end().values():
            assert code == 5 \
                and "r.h5.partial' was removed while the study ran, and there are no results" in error, error
