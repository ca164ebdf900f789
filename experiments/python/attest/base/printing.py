"""What commands print on standard output, and what becomes of it where it cannot be written."""
import contextlib
import json
import os
import sys

from .errors import OutputError


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


def drop_output(*streams):
    """Drops what these standard streams still hold, as it cannot be written: the flush at exit would fail again, and
    Python would end with 120."""
    for stream in streams:
        with contextlib.suppress(OSError, ValueError):  # closed from the start
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
