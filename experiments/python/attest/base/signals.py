"""Signals that end a command. The first unwinds the stack as a KeyboardInterrupt, so that temporary files are removed;
the second ends the process at once."""
import contextlib
import signal
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_interrupted = False


def was_interrupted():
    """Whether a signal came in this command."""
    return _interrupted


def raise_if_interrupted():
    """Python drops exceptions raised in callbacks and destructors, which most calls of h5py run. The exception from a
    signal can therefore be lost, and long commands call this function too."""
    if _interrupted:
        raise KeyboardInterrupt


def end_interruptions():
    """From now on, and until the command ends, signals are dropped: the output gets its name, and what an interruption
    says would not be true. To block them would not do, as a thread of torch would get them."""
    for each in SIGNALS:
        if signal.getsignal(each) is _on_signal:  # within interruptible()
            signal.signal(each, signal.SIG_IGN)


@contextlib.contextmanager
def interruptible():
    """Around a command. Signals that the caller ignores stay ignored; those that it has blocked come after
    unblock_signals()."""
    global _interrupted
    _interrupted = False
    before, hook_before = {each: signal.getsignal(each) for each in SIGNALS}, sys.unraisablehook
    for each, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(each, _on_signal)
    mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    sys.unraisablehook = _on_ignored
    try:
        yield
    finally:
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # the command is over
        signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)
        for each, handler in before.items():
            signal.signal(each, handler)
        sys.unraisablehook, _interrupted = hook_before, False


def unblock_signals():
    """The program that starts a script blocks them, so that none ends it before they are handled."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _on_signal(number, frame):
    global _interrupted
    _interrupted = True
    for each in SIGNALS:
        if signal.getsignal(each) is not signal.SIG_IGN:  # by the caller
            signal.signal(each, signal.SIG_DFL)
    raise KeyboardInterrupt


def _on_ignored(ignored):
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
