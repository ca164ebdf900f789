"""attest run --dask on a real cluster: a scheduler and four worker processes, with TLS, on this machine."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest

from attest_program import ATTEST, attest, run_attest
from results_data import data_of
from shared_runs import CLEAN, SELECTORS, wait_for, write_dump

pytest.importorskip("distributed", reason="distributed is not installed (cmake/setup.sh --cluster)")
LIMIT = 300
WORKERS = 4


@pytest.fixture(scope="module")
def tls(folder):
    """Dask's settings, with one certificate for all."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    done = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
                           certificate, "-days", "2",
                           "-subj", "/CN=attest"], capture_output=True)
    if done.returncode:
        pytest.skip("openssl makes no certificate")
    settings = {"CA_FILE": certificate}
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        settings |= {f"{role}__CERT": certificate, f"{role}__KEY": key}
    return {**CLEAN, "TMPDIR": str(folder), "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true",
            **{f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(value) for name, value in settings.items()}}


def assert_same_results(path, other):
    assert data_of(path) == data_of(other) and len(data_of(other)) > 50


class Cluster:
    """All workers have joined it: of a study's first chunks each gets one. `programs`: for a worker another program
    than attest."""

    def __init__(self, folder, environment, programs=()):
        self.folder, self.environment, self.programs = folder, environment, dict(programs)
        self.file = folder / "scheduler.json"
        self.processes = []

    def __enter__(self):
        self.scheduler = self.start("dask_scheduler", "--no-dashboard", "--no-show", "--port", "0")
        wait_for(self.is_known)
        self.workers = [self.worker(number) for number in range(WORKERS)]
        subprocess.run([sys.executable, "-c", "import distributed, sys\n"
                        "distributed.Client(scheduler_file=sys.argv[1]).wait_for_workers(int(sys.argv[2]))",
                        self.file, str(WORKERS)], env=self.environment, check=True, timeout=LIMIT)
        return self

    def is_known(self):
        """Whether the scheduler has written its address: there is a moment when its file is empty."""
        return self.file.exists() and self.file.read_text().endswith("\n}")

    def start(self, module, *options, program=ATTEST):
        process = subprocess.Popen([sys.executable, "-m", f"distributed.cli.{module}", "--protocol", "tls", "--host",
                                    "127.0.0.1",
                                    "--scheduler-file", self.file, *options], cwd=self.folder,
                                   env={**self.environment, "ATTEST_BIN": str(program)},
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.processes.append(process)
        return process

    def worker(self, number):
        return self.start("dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60",
                          program=self.programs.get(number, ATTEST))

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def command(dump, out, where, *more):
    return [ATTEST, "run", dump, "-o", out, *SELECTORS, "--dask", where, *more]


def run(dump, out, cluster, *more):
    return subprocess.run(command(dump, out, cluster.file, *more), env=cluster.environment, capture_output=True,
                          text=True, timeout=LIMIT)


def test_four_workers_make_the_same_bits(folder, dump, plain, tls, tmp_path):
    with Cluster(tmp_path, tls) as cluster:
        assert json.loads(cluster.file.read_text())["address"].startswith("tls://")
        done = run(dump, tmp_path / "r.h5", cluster)
        assert done.returncode == 0, done.stderr
        assert "Results: " in done.stdout and "24 of 24 layers" in done.stderr
        assert_same_results(tmp_path / "r.h5", plain)
        done = run(dump, tmp_path / "s.h5", cluster, "--json", "--quiet")
        assert done.returncode == 0 and done.stderr == "" \
            and json.loads(done.stdout)["results"] == str(tmp_path / "s.h5")
        assert not (tmp_path / "s.h5.partial").exists()


def test_without_the_certificate_nobody_joins(folder, dump, tls, tmp_path):
    with Cluster(tmp_path, tls) as cluster:
        address = json.loads(cluster.file.read_text())["address"].replace("tls", "tcp")
        done = subprocess.run(command(dump, tmp_path / "r.h5", address), env=CLEAN, capture_output=True, text=True,
                              timeout=LIMIT)
        assert done.returncode == 5 and done.stderr.count("\n") == 1, done.stderr
        assert f"attest: --dask {address}: no scheduler answers there" in done.stderr


def kill_workers(seed, dump, plain, tls, folder):
    """Kills a random worker again and again, and starts another in its place, until the study is done."""
    chance = random.Random(seed)
    with Cluster(folder, tls) as cluster:
        out = folder / "r.h5"
        study = subprocess.Popen(command(dump, out, cluster.file), env=tls, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        killed = 0
        while study.poll() is None and killed < 6:
            time.sleep(chance.uniform(0.3, 2))
            number = chance.randrange(WORKERS)
            os.killpg(cluster.workers[number].pid, signal.SIGKILL)
            cluster.workers[number] = cluster.worker(number)
            killed += 1
        error = study.communicate(timeout=LIMIT)[1]
        assert study.returncode == 0, error
        assert_same_results(out, plain)
    return killed


@pytest.mark.parametrize("seed", [1, 2])
def test_workers_killed_at_random(seed, dump, plain, tls, tmp_path):
    assert kill_workers(seed, dump, plain, tls, tmp_path) > 0


def wrapper(path, text):
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


def all_but_one_wait(folder):
    """Programs of workers that compute nothing for as long as their workers live: no study ends by itself."""
    program = wrapper(folder / "waits", f'case "$*" in *--chunk*) while kill -0 $PPID; do sleep 0.05; done; exit 1; '
                                        f'esac; exec {ATTEST} "$@"')
    return dict.fromkeys(range(1, WORKERS), program)


def sentences(error):
    """What it says beside the dashboard's address and the progress."""
    return [
        line for line in error.splitlines() if not re.match(
            r"Dask's dashboard: |waiting for workers$|\d+ of \d+ layers", line)]


def test_a_killed_scheduler_is_one_sentence_and_resume_goes_on(dump, plain, tls, tmp_path):
    out = tmp_path / "r.h5"
    with Cluster(tmp_path, tls, all_but_one_wait(tmp_path)) as cluster:
        study = subprocess.Popen(command(dump, out, cluster.file), env=tls, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        wait_for(lambda: list((tmp_path / "r.h5.partial").glob("unit-*")))
        os.killpg(cluster.scheduler.pid, signal.SIGKILL)
        said = sentences(study.communicate(timeout=60)[1])
        assert study.returncode == 5 and len(said) == 1 \
            and "finished; the same command with --resume goes on" in said[0], said
    (tmp_path / "again").mkdir()
    with Cluster(tmp_path / "again", tls) as cluster:
        assert run(dump, out, cluster).returncode == 5, "without --resume"
        done = run(dump, out, cluster, "--resume")
        assert done.returncode == 0, done.stderr
        assert_same_results(out, plain)


def test_a_worker_with_another_dump_at_the_path_is_refused(dump, tls, tmp_path):
    other = write_dump(tmp_path / "other.h5", tokens=3000, layers=24, seed=4)
    program = wrapper(tmp_path / "program", f'words=(); for word; do [ "$word" != {dump} ] || word={other}; '
                                            f'words+=("$word"); done; exec {ATTEST} "${{words[@]}}"')
    with Cluster(tmp_path, tls, {2: program}) as cluster:
        done = run(dump, tmp_path / "r.h5", cluster)
    said = sentences(done.stderr)
    assert done.returncode == 4 and not (tmp_path / "r.h5").exists()
    assert len(said) == 1 and str(dump) in said[0], done.stderr


def test_a_worker_with_another_version_is_refused(dump, tls, tmp_path):
    version = run_attest("--version").stdout.split()[1]
    other = version[:-1] + ("1" if version[-1] != "1" else "2")
    program = wrapper(tmp_path / "program", f'{ATTEST} "$@" || exit; for ((i = 1; i < $#; ++i)); do [ "${{!i}}" != '
                                            '--chunk ] || at=$((i + 1)); done\n'
                                            f'sed -i \'0,/"{version}"/s//"{other}"/\' "${{!at}}"')
    with Cluster(tmp_path, tls, {1: program}) as cluster:
        done = run(dump, tmp_path / "r.h5", cluster)
    said = sentences(done.stderr)
    assert done.returncode == 2 and not (tmp_path / "r.h5").exists(), done.stderr
    assert len(said) == 1 and version in said[0] and other in said[0], done.stderr


def test_interrupted_it_says_how_far_it_came(dump, tls, tmp_path):
    with Cluster(tmp_path, tls, all_but_one_wait(tmp_path)) as cluster:
        study = subprocess.Popen(command(dump, tmp_path / "r.h5", cluster.file), env=tls, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        wait_for(lambda: list((tmp_path / "r.h5.partial").glob("unit-*")))
        study.send_signal(signal.SIGTERM)
        error = study.communicate(timeout=60)[1].splitlines()
    assert study.returncode == 130 \
        and "of 24 layers finished; the same command with --resume goes on" in error[-1], error


def test_workers_of_this_machine(tmp_path):
    # A study of seconds: the signal finds it at work.
    dump = write_dump(tmp_path / "long.h5", tokens=20000, layers=24, queries=8)
    attest("run", dump, "-o", tmp_path / "plain.h5", *SELECTORS, env=CLEAN)
    words = command(dump, tmp_path / "r.h5", "local:2")
    study = subprocess.Popen(words, env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: list((tmp_path / "r.h5.partial").glob("unit-*")))
    study.send_signal(signal.SIGTERM)
    error = study.communicate(timeout=60)[1].splitlines()
    assert study.returncode == 130 and "of 24 layers finished; the same command with --resume goes on" in error[-1], \
        error
    done = subprocess.run([*words, "--resume"], env=CLEAN, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and re.match(r"Dask's dashboard: http://127\.0\.0\.1:\d+/status\n", done.stderr), \
        done.stderr
    assert "Results: " in done.stdout
    assert_same_results(tmp_path / "r.h5", tmp_path / "plain.h5")
    done = subprocess.run([*words, "--resume"], env=CLEAN, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and "Results: " in done.stdout and "is complete already" in done.stderr
    done = subprocess.run([*words[:-1], "local:0"], env=CLEAN, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "such as local:4" in done.stderr
