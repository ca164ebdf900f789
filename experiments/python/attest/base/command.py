"""Runs the command of a script: an exception becomes a line on stderr and an exit code; Ctrl-C leaves no file."""
import contextlib
import os
import signal
import sys

from .errors import AttestError, first_line, printable
from .limits import exceeded_limit
from .places import checkout
from .printing import drop_output
from .signals import interruptible, unblock_signals, was_interrupted
from .temporary import remove_all_temporary

MOST_SHOWN = 8000  # characters of a message: a name in a file may have any length
INTERRUPTED = 130  # exit code
NOTHING_WRITTEN = "interrupted, nothing was written; run the command again to start over"


def interruption_of(arguments):
    """For run_command, of a command that may have the option --resume."""
    return lambda: "interrupted; the same command goes on" if "--resume" in arguments else NOTHING_WRITTEN


def end_process(code):
    """Ends a script with the exit code of its command. After an interruption the interpreter is not cleaned up:
    libraries whose import was cut short may crash there."""
    if code != INTERRUPTED:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it, or it was closed from the start
            stream.flush()
    os._exit(code)


def _advice(extra):
    """How to get the modules that an extra of the wheel brings; "vllm": those of the environment of vLLM."""
    root = checkout()
    if not root:
        return "pip install vllm installs them" if extra == "vllm" else f"pip install 'attest[{extra}]' installs them"
    if extra == "vllm":
        return "cmake/setup.sh --vllm installs them into .venv-vllm"
    name = {"models": "torch", "llama": "llama-cpp"}.get(extra, extra.replace("_", "-"))  # of the set-up's option
    if os.path.realpath(sys.prefix) == os.path.realpath(f"{root}/.venv"):
        return f"cmake/setup.sh --{name} installs them into .venv"
    # An interpreter that ATTEST_PYTHON named: the set-up installs nothing there.
    files = f"-r {root}/requirements.txt -r {root}/cmake/requirements-{name}.txt"
    return f"{sys.executable} -m pip install {files} installs them"


def _ending(error, needed_modules, interruption, extra):
    """(sentence or None, exit code) of a command that an exception ends; None if the exception is a defect."""
    if was_interrupted() or isinstance(error, KeyboardInterrupt):  # libraries fail in odd ways when interrupted
        return interruption(), INTERRUPTED
    if isinstance(error, BrokenPipeError):  # nobody reads what it says
        drop_output(sys.stdout, sys.stderr)
        return None, 128 + signal.SIGPIPE
    if limit := exceeded_limit(error):
        named = isinstance(error, AttestError) and error.exit_code != AttestError.exit_code
        return str(error) if named else limit, 5
    if isinstance(error, AttestError):
        return str(error), error.exit_code
    if isinstance(error, ImportError):
        return (f"{sys.executable} lacks a module that this command needs, {needed_modules} ({first_line(error)}); "
                f"{_advice(extra)}", 5)
    return None


def run_command(program, needed_modules, command, interruption=lambda: NOTHING_WRITTEN, extra="models"):
    """Calls `command` and returns the exit code. `program` begins the line that reports an exception; `interruption`
    returns the sentence that reports Ctrl-C; `extra` of the wheel brings `needed_modules` (_advice)."""
    with interruptible():
        try:
            unblock_signals()
            command()
            return 0
        except BaseException as error:
            ending = _ending(error, needed_modules, interruption, extra)
            if ending is None:
                raise
        finally:
            remove_all_temporary()
    sentence, code = ending
    if sentence:
        shown = sentence if len(sentence) <= MOST_SHOWN else sentence[:MOST_SHOWN] + "..."
        with contextlib.suppress(OSError):  # nor can that be said
            print(f"{program}: {printable(shown)}", file=sys.stderr)
    return code
