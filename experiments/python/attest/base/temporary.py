"""Temporary files, which are removed however a command ends, even by a signal during start-up."""
import contextlib
import os
import secrets

PATTERN = r"\.attest-[0-9a-f]{16}\.part"  # of their names
_there = set()


def temporary_beside(path):
    """The name of a temporary file in the folder of `path`. It holds no part of the path's own name, which may have the
    greatest allowed length."""
    temporary = os.path.join(os.path.dirname(path), f".attest-{secrets.token_hex(8)}.part")
    _there.add(temporary)
    return temporary


def remove_temporary(path):
    """Succeeds also if the file has got its name, or is not there."""
    with contextlib.suppress(OSError):
        os.unlink(path)
    _there.discard(path)


def remove_all_temporary():
    """At the end of a command."""
    for path in list(_there):
        remove_temporary(path)
