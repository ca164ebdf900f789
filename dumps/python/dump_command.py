"""Runs the command of a script: an exception becomes a line on stderr and an exit code; Ctrl-C leaves no file."""
import contextlib
import os
import signal
import sys

from dump_errors import DumpError, first_line, printable

SIGNALS = (signal.SIGINT, signal.SIGTERM)

interrupted = False
temporary_files = set()  # paths to remove however the command ends, even by a signal during start-up


def _on_signal(number, frame):
    """The first signal unwinds the stack, so that temporary files are removed. The second ends the process at once."""
    global interrupted
    interrupted = True
    for each in SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    raise KeyboardInterrupt


def raise_if_interrupted():
    """Python drops exceptions raised in callbacks and destructors, which most calls of h5py run. The exception from a
    signal can therefore be lost, and long commands call this function too."""
    if interrupted:
        raise KeyboardInterrupt


def _on_ignored(ignored):
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)


def run_command(program, needed_modules, command):
    """Calls `command` and returns the exit code. `program` begins the line that reports an exception."""
    global interrupted
    interrupted = False
    before, hook_before = {each: signal.getsignal(each) for each in SIGNALS}, sys.unraisablehook
    for each, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(each, _on_signal)
    sys.unraisablehook = _on_ignored
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # the program that started this script has blocked them
        command()
        return 0
    except BaseException as error:
        if interrupted or isinstance(error, KeyboardInterrupt):  # libraries fail in odd ways when interrupted
            sentence, code = "interrupted, nothing was written; run the command again to start over", 130
        elif isinstance(error, DumpError):
            sentence, code = str(error), error.exit_code
        elif isinstance(error, ImportError):
            sentence, code = (f"{sys.executable} lacks a module that this command needs, {needed_modules} ({first_line(error)}); "
                              "cmake/setup.sh, which ./attest runs, installs them into .venv", 5)
        else:
            raise
    finally:
        for path in temporary_files:
            with contextlib.suppress(OSError):
                os.unlink(path)
        temporary_files.clear()
        for each, handler in before.items():
            signal.signal(each, handler)
        sys.unraisablehook, interrupted = hook_before, False
    print(f"{program}: {printable(sentence)}", file=sys.stderr)
    return code
