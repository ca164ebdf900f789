"""Writes text files that appear whole."""
import contextlib
import os

from .errors import OutputError
from .temporary import remove_temporary, temporary_beside


@contextlib.contextmanager
def atomic_text(path):
    """A file to write to. It gets its name, and replaces what had it, once the block has ended without an error."""
    path = os.fspath(path)
    temporary = temporary_beside(path)
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        remove_temporary(temporary)
