"""What a command may not write."""
import contextlib
import os

from .errors import OutputError, UsageError


def refuse_inputs(output, inputs):
    """Refuses an output that is one of the files that the command reads, or a link to one: --force would destroy it."""
    try:
        there = os.stat(output)
    except (OSError, ValueError):  # nothing would be destroyed
        return
    for path in inputs:
        with contextlib.suppress(OSError, ValueError):  # a file that is missing is said by who reads it
            if os.path.samestat(there, os.stat(path)):
                raise UsageError(f"{output}: is an input, too, expected a name of its own for the output")


def fail_existing(path):
    """The sentence of every command that would replace a file."""
    raise OutputError(f"{path}: exists already, expected a new file (or --force)")


def refuse_existing(path, force):
    """Refuses, before the work, a file that is there without --force, and a folder that is not there."""
    if os.path.lexists(path) and not force:
        fail_existing(path)
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise OutputError(f"{path}: cannot be written (there is no folder {folder})")
