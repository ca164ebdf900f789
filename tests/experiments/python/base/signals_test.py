"""A signal unwinds a command, is not lost, and does not come too late."""
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from attest.base.command import run_command
from attest.base.signals import end_interruptions, raise_if_interrupted


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


def test_what_the_caller_ignores_stays_ignored_after_the_first_signal():
    """nohup ignores the hang-up, which may come while temporary files are removed."""
    script = ("import os, signal, sys; from attest.base.command import run_command\n"
              "def command():\n"
              "    try: os.kill(os.getpid(), signal.SIGTERM)\n"
              "    finally:\n"
              "        os.kill(os.getpid(), signal.SIGHUP)\n"
              "        print('unwound', flush=True)\n"
              "sys.exit(run_command('it', '', command))")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert (done.returncode, done.stdout) == (130, "unwound\n")


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
