"""An exception of a script's command becomes one line and an exit code."""
import errno
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import tomllib

import pytest

from attest.base import command
from attest.base.command import end_interruptions, raise_if_interrupted, run_command
from attest.base.errors import AttestError, InputError, OutputError, UsageError


def ends(error):
    def command():
        if error:
            raise error
    return run_command("it", "h5py", command)


@pytest.mark.parametrize("error, code, line", [
    (None, 0, ""),
    (AttestError("general"), 1, "it: general\n"),
    (UsageError("usage"), 2, "it: usage\n"),
    (InputError("a\nb\x1b[2J \ud800 é"), 4, "it: a\\x0ab\\x1b[2J \\ud800 é\n"),
    (OutputError("output"), 5, "it: output\n"),
    (KeyboardInterrupt(), 130, "it: interrupted, nothing was written; run the command again to start over\n"),
])
def test_errors_are_one_line_and_a_code(error, code, line, capsys):
    before = signal.getsignal(signal.SIGINT)
    assert ends(error) == code and capsys.readouterr().err == line
    assert signal.getsignal(signal.SIGINT) is before


def test_a_missing_module_says_how_to_get_it(capsys):
    assert ends(ModuleNotFoundError("No module named 'h5py'")) == 5
    assert capsys.readouterr().err.startswith(f"it: {sys.executable} lacks a module that this command needs, h5py "
                                              "(No module named 'h5py'); ")


@pytest.mark.parametrize("extra, name, into, beside_a_wheel", [
    ("models", "torch", ".venv", "'attest[models]'"), ("llama", "llama-cpp", ".venv", "'attest[llama]'"),
    ("lm_eval", "lm-eval", ".venv", "'attest[lm_eval]'"), ("cluster", "cluster", ".venv", "'attest[cluster]'"),
    ("vllm", "vllm", ".venv-vllm", "vllm")])
def test_each_extra_has_its_advice(extra, name, into, beside_a_wheel, capsys, monkeypatch):
    root = pathlib.Path(os.environ["ATTEST_SOURCE_DIR"])
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert (extra == "vllm" or extra in extras) and (root / f"cmake/requirements-{name}.txt").exists()
    assert f" --{name}) " in (root / "cmake/setup.sh").read_text()
    by_set_up = f"cmake/setup.sh --{name} installs them into {into}"
    # The set-up makes an environment of vLLM for any interpreter, and else installs into .venv alone.
    by_pip = by_set_up if extra == "vllm" else (
        f"{sys.executable} -m pip install -r {root}/requirements.txt -r {root}/cmake/requirements-{name}.txt "
        "installs them")
    for found, prefix, advice in [(root, root / ".venv", by_set_up), (root, "/opt/another", by_pip),
                                  (None, "/opt/another", f"pip install {beside_a_wheel} installs them")]:
        monkeypatch.setattr(command, "checkout", lambda: found)
        monkeypatch.setattr(sys, "prefix", str(prefix))
        assert run_command("it", "x", lambda: __import__("no_such_module"), extra=extra) == 5
        assert capsys.readouterr().err.endswith(f"; {advice}\n")


@pytest.mark.parametrize("module, words, extra", [
    ("capture", ["m", "p.jsonl"], "models"), ("capture", ["m.gguf", "p.jsonl"], "llama"), ("lm_eval", [], "lm_eval"),
    ("vllm_plugin", ["m", "p.jsonl"], "vllm")])
def test_each_command_names_its_extra(module, words, extra, monkeypatch):
    entry, seen = importlib.import_module(f"attest.{module}.__main__"), []
    monkeypatch.setattr(entry, "run_command", lambda *_, extra="models": seen.append(extra) or 0)
    monkeypatch.setattr(entry, "end_process", lambda code: None)
    entry.main(*[words] * (module != "lm_eval"))
    assert seen == [extra]


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("error, line", [
    (MemoryError(), "it: out of memory\n"),
    (type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory.\nmore"), "it: out of the GPU's memory (CUDA "
                                                                                 "out of memory.)\n"),
    (OSError(errno.EMFILE, "Too many open files", "x.py"), "it: too many open files (ulimit -n)\n"),
    (RuntimeError("can't start new thread"), "it: no further process or thread can be started (ulimit -u)\n"),
    (caused(ImportError("a paragraph"), ImportError("libx.so: failed to map segment from shared object")),
     "it: out of memory\n"),
    (caused(InputError("a.npz: cannot be opened"), OSError(errno.EMFILE, "Too many open files")),
     "it: a.npz: cannot be opened\n"),
    (caused(AttestError("internal error"), MemoryError()), "it: out of memory\n"),
])
def test_limits_of_the_machine_are_no_defects(error, line, capsys):
    assert ends(error) == 5 and capsys.readouterr().err == line


def test_blocked_signals_are_handled_and_blocked_again():
    def command():
        os.kill(os.getpid(), signal.SIGHUP)
        pytest.fail("went on")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    try:
        assert run_command("it", "", command) == 130
        assert signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.parametrize("to", ["process", "thread"])
def test_no_signal_interrupts_a_command_that_has_done_its_work(to, capsys):
    """Nor one that the system gives to another thread: torch has some."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()

    def command():
        end_interruptions()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number) if to == "process" else signal.pthread_kill(thread.ident, number)
        time.sleep(0.1)
        raise_if_interrupted()

    before = signal.getsignal(signal.SIGTERM)
    try:
        assert run_command("it", "", command) == 0 and capsys.readouterr().err == ""
    finally:
        over.set()
    end_interruptions()
    assert signal.getsignal(signal.SIGTERM) == before, "what is no command stays as it is"


def test_a_signal_that_comes_in_a_destructor_is_not_lost(capsys):
    """Python ignores exceptions of destructors."""
    class Closing:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)

    def command():
        Closing()
        raise_if_interrupted()
        pytest.fail("went on")

    assert run_command("it", "h5py", command) == 130
    assert capsys.readouterr().err == "it: interrupted, nothing was written; run the command again to start over\n"
    raise_if_interrupted()  # the flag has been cleared


def test_a_signal_unwinds_and_a_second_one_ends_at_once():
    script = ("import sys, time; from attest.base.command import run_command\n"
              "def command():\n"
              "    try: print('ready', flush=True); time.sleep(60)\n"
              "    finally:\n"
              "        print('unwound', flush=True)\n"
              "        if sys.argv[1] == 'twice': time.sleep(60)\n"
              "sys.exit(run_command('it', '', command))")
    for number in (signal.SIGINT, signal.SIGTERM):
        for times, code in (("once", 130), ("twice", -number)):
            process = subprocess.Popen([sys.executable, "-c", script, times], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True,
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
            assert process.stdout.readline() == "ready\n"
            os.kill(process.pid, number)
            assert process.stdout.readline() == "unwound\n"
            if times == "twice":
                os.kill(process.pid, number)
            error = process.communicate(timeout=30)[1]
            assert process.returncode == code and error.count("\n") == (times == "once")


def test_after_an_interruption_libraries_are_not_cleaned_up():
    """A library whose import was cut short may crash there."""
    script = ("import atexit, os, signal, sys; from attest.base.command import end_process, run_command\n"
              "atexit.register(os.abort)\n"
              "def command():\n"
              "    print('begun')\n"
              "    os.kill(os.getpid(), signal.SIGTERM)\n"
              "end_process(run_command('it', '', command))")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 130 and done.stdout == "begun\n" and "interrupted" in done.stderr


def test_a_signal_that_came_while_the_interpreter_started_is_an_interrupt():
    """The program that starts the script blocks signals until then."""
    script = ("import os, signal, sys; os.kill(os.getpid(), signal.SIGTERM)\n"
              "from attest.base.command import run_command\n"
              "sys.exit(run_command('it', '', lambda: print('began')))")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]))
    assert done.returncode == 130 and done.stdout == ""
    assert done.stderr == "it: interrupted, nothing was written; run the command again to start over\n"


def test_output_that_nobody_reads_is_dropped_on_both_streams():
    """What stays in a stream would fail once more at exit, and Python would end with 120."""
    program = ("import sys; from attest.base.command import run_command\n"
               "def command():\n"
               "    print('result')\n"
               "    print('progress', end='', file=sys.stderr)\n"
               "    raise BrokenPipeError\n"
               "sys.exit(run_command('it', '', command))")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run([sys.executable, "-c", program], stdout=writer, stderr=writer, env=environment,
                               timeout=60)
    finally:
        os.close(writer)
    assert ended.returncode == 128 + signal.SIGPIPE
