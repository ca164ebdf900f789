"""Errors that end a script of dumps/: one sentence, and an exit code per kind (those of the attest command line)."""


class DumpError(Exception):
    exit_code = 1


class UsageError(DumpError):
    exit_code = 2


class InputError(DumpError):
    exit_code = 4


class OutputError(DumpError):
    exit_code = 5


def first_line(error):
    """The first line of an error's message: libraries write paragraphs, and the first line names the cause."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def printable(text):
    """Text from untrusted files on one line: control characters and lone surrogates are written as \\xNN or \\uNNNN."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}" for c in text)
