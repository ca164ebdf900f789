"""A limit of the machine ends a command with 5, and is named."""
import errno

import pytest

from attest.base.command import run_command
from attest.base.errors import AttestError, InputError


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("error, line", [
    (MemoryError(), "it: out of memory\n"),
    (type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory.\nmore"),
     "it: out of the GPU's memory (CUDA out of memory.)\n"),
    (OSError(errno.EMFILE, "Too many open files", "x.py"), "it: too many open files (ulimit -n)\n"),
    (RuntimeError("can't start new thread"), "it: no further process or thread can be started (ulimit -u)\n"),
    (caused(ImportError("a paragraph"), ImportError("libx.so: failed to map segment from shared object")),
     "it: out of memory\n"),
    (caused(InputError("a.npz: cannot be opened"), OSError(errno.EMFILE, "Too many open files")),
     "it: a.npz: cannot be opened\n"),
    (caused(AttestError("internal error"), MemoryError()), "it: out of memory\n"),
])
def test_limits_of_the_machine_are_no_defects(error, line, capsys):
    def command():
        raise error
    assert run_command("it", "h5py", command) == 5 and capsys.readouterr().err == line
