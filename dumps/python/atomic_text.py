"""Writes text files that appear whole."""
import contextlib
import os
import secrets

from dump_command import temporary_files
from dump_errors import OutputError


@contextlib.contextmanager
def atomic_text(path):
    """A file to write to. It gets its name, and replaces what had it, once the block has ended without an error."""
    path = os.fspath(path)
    temporary = os.path.join(os.path.dirname(path), f".attest-{secrets.token_hex(8)}.part")
    temporary_files.add(temporary)
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        temporary_files.discard(temporary)
