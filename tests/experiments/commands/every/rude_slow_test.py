"""Rude machines: signals, closed or full streams, and limits of files, threads, processes and memory. Every command
ends with one sentence and the right code, and leaves nothing half-written."""

import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from attest_program import ATTEST, run_attest
from shared_runs import wait_for
import results_maker

SYNTH = ["synth", "-o", "s.h5", "--tokens", "600", "--queries", "2", "--force"]
LONG_SYNTH = ["synth", "-o", "s.h5", "--tokens", "200000", "--layers", "40", "--force"]
RUN = ["run", "d.h5", "-o", "r.h5", "--selector", "ffd:block=64", "--force"]
FIGURES = ["figures", "made.h5", "-o", "f", "--force"]
INSPECT = ["inspect", "d.h5", "--check"]
IMPORT = ["import", "a.npz", "-o", "i.h5", "--force"]
COMMANDS = [SYNTH, RUN, FIGURES, INSPECT, IMPORT]


@pytest.fixture
def folder(tmp_path):
    run_attest(*SYNTH[:2], "d.h5", *SYNTH[3:], cwd=tmp_path).check_returncode()
    results_maker.write_results(tmp_path / "made.h5", [results_maker.ffd(), results_maker.quest()])
    np.savez(tmp_path / "a.npz", **{f"model.layers.0.{t}": np.zeros((2, 9 if t != "q" else 2, 8), np.float32)
                                    for t in "qkv"})
    return tmp_path


@pytest.fixture(scope="session")
def rude_calls(tmp_path_factory):
    library = tmp_path_factory.mktemp("rude") / "rude_calls.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, Path(__file__).with_name("rude_calls.c"), "-ldl"],
                   check=True)
    return library


def attest(folder, arguments, **options):
    options = {"capture_output": True, "timeout": 120} | options
    return subprocess.run([ATTEST, *arguments], cwd=folder, text=True, **options)


def leftovers(folder):
    return [str(p) for p in folder.rglob("*") if ".tmp-" in p.name or p.name.startswith(".attest")
            or p.name.endswith(".partial")]


def sentence(done):
    return done.stderr.splitlines()[-1] if done.stderr else ""


# ---- signals


def stub_gnuplot(folder, script):
    (folder / "bin").mkdir()
    (folder / "bin/gnuplot").write_text("#!/bin/sh\n" + script)
    (folder / "bin/gnuplot").chmod(0o755)
    return os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("group", [False, True])
def test_a_signal_ends_figures_and_gnuplot(folder, number, group):
    environment = stub_gnuplot(folder, f"echo $$ >{folder}/started; exec sleep 100\n")
    process = subprocess.Popen([ATTEST, *FIGURES], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    wait_for(lambda: (folder / "started").exists() and (folder / "started").read_text())
    gnuplot = int((folder / "started").read_text())
    os.killpg(process.pid, number) if group else process.send_signal(number)
    error = process.communicate(timeout=20)[1]
    assert (process.returncode, error) == (130, "attest: interrupted\n")
    wait_for(lambda: not alive(gnuplot))
    assert not (folder / "f").exists() and not leftovers(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("arguments", [LONG_SYNTH, FIGURES, INSPECT, IMPORT])
def test_a_signal_at_any_time_leaves_nothing(folder, number, arguments):
    before = sorted(folder.rglob("*"))
    for pause in 0.0, 0.02, 0.05, 0.1, 0.2, 0.4:
        process = subprocess.Popen([ATTEST, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        time.sleep(pause)
        process.send_signal(number)
        error = process.communicate(timeout=20)[1]
        assert process.returncode in (0, 130, -number), error  # -number: before main has begun
        assert "Traceback" not in error and "internal" not in error
        assert not leftovers(folder)
        if process.returncode:
            assert sorted(folder.rglob("*")) == before
        else:
            before = sorted(folder.rglob("*"))


def test_nohup_is_respected(folder):
    process = subprocess.Popen([ATTEST, *SYNTH, "--layers", "40"], cwd=folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    for _ in range(20):
        process.send_signal(signal.SIGHUP)
        time.sleep(0.005)
    assert process.wait(timeout=60) == 0


def test_a_second_signal_leaves_no_temporary_file(folder):
    attest(folder, ["synth", "-o", "long.h5", "--tokens", "60000", "--queries", "200", "--layers", "2"])
    process = subprocess.Popen([ATTEST, "run", "long.h5", "-o", "r.h5", "--threads", "1"], cwd=folder,
                               stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    wait_for(lambda: list(folder.glob("r.h5.partial/r.h5.tmp-*")))
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.02)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert not list(folder.glob("r.h5.partial/*.tmp-*")) and not (folder / "r.h5").exists()


def test_a_failed_gnuplot_is_seen_though_the_parent_ignores_its_children(folder):
    environment = stub_gnuplot(folder, "echo broken >&2; exit 3\n")
    done = attest(folder, FIGURES, env=environment, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.returncode == 5 and "gnuplot could not draw" in done.stderr


def test_a_signal_to_the_group_says_nothing_of_the_file(folder):
    """`timeout` without --foreground."""
    for trial in range(20):
        done = subprocess.run(["timeout", "-s", "INT", f"{0.002 * trial:.3f}", ATTEST, *INSPECT], cwd=folder,
                              capture_output=True, text=True)
        assert "damaged" not in done.stderr and "ended by signal" not in done.stderr


# ---- streams


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"], ["list"],
                                       ["--json", "inspect", "d.h5"], SYNTH, IMPORT,
                                       ["capture", "--help"]])
def test_a_full_standard_output_is_told(folder, arguments):
    with open("/dev/full", "w") as full:
        done = attest(folder, arguments, stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 5 and "cannot write to standard output" in sentence(done)


@pytest.mark.parametrize("arguments", COMMANDS)
def test_closed_streams_are_no_place_for_data(folder, arguments):
    def close():
        for descriptor in 0, 1, 2:
            os.close(descriptor)
    done = subprocess.run([ATTEST, *arguments], cwd=folder, preexec_fn=close, timeout=60)
    assert done.returncode == 0 and not leftovers(folder)
    for name in {"synth": ["s.h5"], "run": ["r.h5"], "import": ["i.h5"]}.get(arguments[0], []):
        assert h5py.is_hdf5(folder / name)
        assert attest(folder, ["inspect", name, "--check"]).returncode == 0


@pytest.mark.parametrize("arguments", COMMANDS)
@pytest.mark.parametrize("streams", ["stdout", "both"])
def test_readers_that_go_leave_no_temporary_file(folder, arguments, streams):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([ATTEST, *arguments], cwd=folder, stdout=writer, stderr=writer if streams == "both"
                          else subprocess.PIPE, timeout=60)
    os.close(writer)
    assert done.returncode in (0, -signal.SIGPIPE, 128 + signal.SIGPIPE)
    assert not leftovers(folder)
    if streams == "stdout":
        assert b"cannot write" not in done.stderr and b"Traceback" not in done.stderr


# ---- limits


LIMIT_WORDS = ["too many open files", "Too many open files", "no further process or thread can be started",
               "out of memory", "memory allocation failed"]


def check_limited(folder, done):
    assert done.returncode in (0, 5), done.stderr
    assert not leftovers(folder)
    if done.returncode == 5:
        assert any(words in sentence(done) for words in LIMIT_WORDS), done.stderr
        assert "damaged" not in done.stderr and "internal" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("most", [4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 32])
@pytest.mark.parametrize("arguments", COMMANDS)
def test_few_descriptors(folder, arguments, most):
    check_limited(folder, attest(folder, ["--quiet", *arguments],
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))))


@pytest.mark.parametrize("arguments", [SYNTH, RUN, INSPECT])
@pytest.mark.parametrize("kind", ["THREADS", "FORKS"])
def test_few_threads_and_processes(folder, rude_calls, arguments, kind):
    ended = set()
    for most in range(8):
        done = attest(folder, ["--quiet", *arguments, "--threads", "4"],
                      env=os.environ | {"LD_PRELOAD": str(rude_calls), f"RUDE_{kind}": str(most)})
        check_limited(folder, done)
        ended.add(done.returncode)
    assert 5 in ended or (kind, arguments) == ("FORKS", SYNTH)


def in_memory(kibibytes):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (kibibytes * 1024, kibibytes * 1024))


@pytest.fixture(scope="session")
def least_memory():
    """KiB of address space with which the program loads and says its version. With less, the loader or a library's
    initialisation ends it before main."""
    low, high = 0, 4 << 20
    while high - low > 256:
        middle = (low + high) // 2
        loads = subprocess.run([ATTEST, "--version"], capture_output=True, preexec_fn=in_memory(middle)).returncode == 0
        low, high = (low, middle) if loads else (middle, high)
    return high


# A layer takes as much memory as forty.
@pytest.mark.parametrize("more", [1_000, 4_000, 10_000, 30_000])
@pytest.mark.parametrize("arguments", [[*LONG_SYNTH[:-2], "1", "--force"], INSPECT])
def test_little_memory(folder, least_memory, arguments, more):
    check_limited(folder, attest(folder, ["--quiet", *arguments], preexec_fn=in_memory(least_memory + more)))


# ---- without hard links


def test_without_hard_links_processes_share_a_study_all_the_same(folder, rude_calls):
    environment = os.environ | {"LD_PRELOAD": str(rude_calls), "RUDE_LINKS": "1"}
    attest(folder, ["synth", "-o", "big.h5", "--layers", "10", "--tokens", "3000"])
    command = [ATTEST, "run", "big.h5", "-o", "r.h5", "--resume", "--threads", "1", "--selector", "ffd", "--selector",
               "twilight"]
    many = [subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True)
            for _ in range(4)]
    many[0].kill()
    said = [process.communicate(timeout=120)[1] for process in many]
    assert [process.returncode for process in many[1:]] == [0, 0, 0], said
    assert attest(folder, ["inspect", "r.h5", "--check"]).returncode == 0 and not leftovers(folder)


# ---- the command line, names, surroundings


@pytest.mark.parametrize("arguments", [["run", "d.h5", "-o", "r.h5", "--resume=5"], ["list", "--json=true"],
                                       ["--help=1"], ["--version="],
                                       ["bench", "study", "--no-peer=0"], ["synth", "-o", "x", "--force=false"],
                                       ["inspect", "d.h5", "--check=9"]])
def test_flags_take_no_value(folder, arguments):
    flag, _, value = arguments[-1].partition("=")
    done = attest(folder, arguments)
    assert done.returncode == 2 and done.stderr == f"attest: {flag}: takes no value, found '{value}'\n"


@pytest.mark.parametrize("arguments", [["synth"], ["run", "d.h5"], ["figures", "made.h5"], ["import", "a.npz"],
                                       ["demo"], ["capture", "m", "p"]])
def test_an_empty_output_is_refused(folder, arguments):
    done = attest(folder, [*arguments, "-o", ""])
    assert done.returncode == 2 and "'' is not a f" in done.stderr


@pytest.mark.parametrize("length", [235, 240, 248, 255])
def test_the_longest_names(folder, length):
    for arguments in SYNTH, RUN, IMPORT:
        name = arguments[0][0] + "x" * (length - 1)
        done = attest(folder, [name if a == arguments[arguments.index("-o") + 1] else a for a in arguments])
        assert done.returncode == 0, done.stderr
        assert h5py.is_hdf5(folder / name) and not leftovers(folder)


def test_foreign_files_of_an_unfinished_study_stay(folder):
    (folder / "r.h5.partial").mkdir()
    (folder / "r.h5.partial/thesis.txt").write_text("precious")
    done = attest(folder, RUN[:-1])
    assert done.returncode == 0 and "'r.h5.partial' stays: 'thesis.txt' in it does not belong to a study" in done.stderr
    assert [p.name for p in (folder / "r.h5.partial").iterdir()] == ["thesis.txt"]
    done = attest(folder, RUN)
    assert done.returncode == 5 and "is left unchanged: 'thesis.txt'" in done.stderr


def test_a_missing_folder_for_temporary_files_is_named(folder):
    done = attest(folder, ["bench", "study", "--no-peer"], env=os.environ | {"TMPDIR": "/no/such/folder"})
    assert done.returncode == 5 and "TMPDIR is '/no/such/folder'" in done.stderr


def test_bare_surroundings(folder):
    for arguments in COMMANDS:
        done = subprocess.run([ATTEST, *arguments], cwd=folder, env={}, capture_output=True)
        assert done.returncode == 0, done.stderr
    assert subprocess.run([""] + ["list"], executable=ATTEST, capture_output=True).returncode == 0
    gone = folder / "gone"
    gone.mkdir()
    done = subprocess.run(["sh", "-c", f"cd {gone} && rmdir {gone} && exec {ATTEST} synth -o s.h5"],
                          capture_output=True, text=True)
    assert done.returncode == 5 and done.stderr.startswith("attest: s.h5: ")
