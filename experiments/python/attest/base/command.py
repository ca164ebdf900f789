"""Runs the command of a script: an exception becomes a line on stderr and an exit code; Ctrl-C leaves no file."""
import contextlib
import errno
import json
import os
import secrets
import signal
import sys

from .errors import AttestError, OutputError, first_line, printable
from .places import checkout

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LIMITS = {errno.EMFILE: "too many open files (ulimit -n)", errno.ENFILE: "too many open files on this machine",
          errno.EAGAIN: "no further process or thread can be started (ulimit -u)", errno.ENOMEM: "out of memory"}

interrupted = False
temporary_files = set()  # paths to remove however the command ends, even by a signal during start-up


def temporary_beside(path):
    """The name of a file in the folder of `path` that is removed however the command ends. It holds no part of the
    path's own name, which may have the greatest allowed length."""
    temporary = os.path.join(os.path.dirname(path), f".attest-{secrets.token_hex(8)}.part")
    temporary_files.add(temporary)
    return temporary


def remove_temporary(path):
    """Succeeds also if the file has got its name, or is not there."""
    with contextlib.suppress(OSError):
        os.unlink(path)
    temporary_files.discard(path)


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


def end_interruptions():
    """From now on, and until the command ends, signals are dropped: the output gets its name, and what an interruption
    says would not be true. To block them would not do, as a thread of torch would get them."""
    for each in SIGNALS:
        if signal.getsignal(each) is _on_signal:  # within run_command
            signal.signal(each, signal.SIG_IGN)


def drop_output(*streams):
    """Drops what these standard streams still hold, as it cannot be written: the flush at exit would fail again, and
    Python would end with 120."""
    for stream in streams:
        with contextlib.suppress(OSError, ValueError):  # closed from the start
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def json_text(value):
    """JSON in UTF-8, but what a terminal would obey or not show is \\uNNNN, as the program writes it."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] if ord(c) > 0x7f else f"\\u{ord(c):04x}"
                   for c in json.dumps(value, indent=2, ensure_ascii=False))


def print_report(text):
    """Prints what a command reports, on standard output."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output(sys.stdout)
        raise OutputError("cannot write to standard output") from error


def _on_ignored(ignored):
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)


def _limit(error):
    """What limit of the machine an exception tells of, or None. A shared library that finds no memory fails to import,
    and some modules replace that exception by one of their own."""
    of_input = isinstance(error, AttestError) and error.exit_code != AttestError.exit_code
    while error is not None:
        if isinstance(error, OSError) and error.errno in LIMITS:
            return LIMITS[error.errno]
        if of_input:  # its sentence tells about memory what there is to tell
            pass
        elif isinstance(error, MemoryError) or any(words in str(error) for words in (
                "failed to map segment from shared object", "cannot apply additional memory protection",
                "Cannot allocate memory")):
            return LIMITS[errno.ENOMEM]
        elif isinstance(error, RuntimeError) and "can't start new thread" in str(error):
            return LIMITS[errno.EAGAIN]
        elif type(error).__name__ == "OutOfMemoryError":  # torch's, which this module does not import
            return f"out of the GPU's memory ({first_line(error)})"
        error = error.__cause__
    return None


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


def run_command(program, needed_modules, command, interruption=lambda: NOTHING_WRITTEN, extra="models"):
    """Calls `command` and returns the exit code. `program` begins the line that reports an exception; `interruption`
    returns the sentence that reports Ctrl-C; `extra` of the wheel brings `needed_modules` (_advice)."""
    global interrupted
    interrupted = False
    before, hook_before = {each: signal.getsignal(each) for each in SIGNALS}, sys.unraisablehook
    for each, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(each, _on_signal)
    mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    sys.unraisablehook = _on_ignored
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # the program that started this script has blocked them
        command()
        return 0
    except BaseException as error:
        if interrupted or isinstance(error, KeyboardInterrupt):  # libraries fail in odd ways when interrupted
            sentence, code = interruption(), INTERRUPTED
        elif isinstance(error, BrokenPipeError):  # nobody reads what it says
            sentence, code = None, 128 + signal.SIGPIPE
            drop_output(sys.stdout, sys.stderr)
        elif limit := _limit(error):
            named = isinstance(error, AttestError) and error.exit_code != AttestError.exit_code
            sentence, code = str(error) if named else limit, 5
        elif isinstance(error, AttestError):
            sentence, code = str(error), error.exit_code
        elif isinstance(error, ImportError):
            sentence, code = (f"{sys.executable} lacks a module that this command needs, {needed_modules} "
                              f"({first_line(error)}); {_advice(extra)}", 5)
        else:
            raise
    finally:
        for path in temporary_files:
            with contextlib.suppress(OSError):
                os.unlink(path)
        temporary_files.clear()
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # the command is over
        signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)
        for each, handler in before.items():
            signal.signal(each, handler)
        sys.unraisablehook, interrupted = hook_before, False
    try:
        if sentence:
            sentence = str(sentence)
            # A name in a file may have any length.
            shown = sentence if len(sentence) <= 8000 else sentence[:8000] + "..."
            print(f"{program}: {printable(shown)}", file=sys.stderr)
    except OSError:  # nor can that be said
        pass
    return code
