"""What a command may not write."""
import contextlib
import os

from .errors import UsageError


def refuse_inputs(output, inputs):
    """Refuses an output that is one of the files that the command reads, or a link to one: --force would destroy it."""
    for path in inputs:
        with contextlib.suppress(OSError, ValueError):  # a file that is missing is said by who reads it
            if os.path.samefile(output, path):
                raise UsageError(f"{output}: is an input, too, expected a name of its own for the output")
