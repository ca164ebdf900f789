"""Limits of the machine, which are no defects of the program."""
import errno

from .errors import AttestError, first_line

LIMITS = {errno.EMFILE: "too many open files (ulimit -n)", errno.ENFILE: "too many open files on this machine",
          errno.EAGAIN: "no further process or thread can be started (ulimit -u)", errno.ENOMEM: "out of memory"}


def exceeded_limit(error):
    """Which limit an exception tells of, or None. A shared library that finds no memory fails to import, and some
    modules replace that exception by one of their own."""
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
