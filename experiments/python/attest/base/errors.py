"""Errors that end a command: one sentence, and an exit code per kind (those of the attest command line)."""


class AttestError(Exception):
    exit_code = 1


class UsageError(AttestError):
    exit_code = 2


class InputError(AttestError):
    exit_code = 4


class OutputError(AttestError):
    exit_code = 5


def first_line(error):
    """The first line of an error's message: libraries write paragraphs, and the first line names the cause."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def printable(text):
    """Text from untrusted files on one line: control characters and lone surrogates are written as \\xNN, \\uNNNN or
    \\UNNNNNNNN."""
    def escape(n):
        return f"\\x{n:02x}" if n < 0x80 else f"\\u{n:04x}" if n < 0x10000 else f"\\U{n:08x}"
    return "".join(c if c.isprintable() else escape(ord(c)) for c in text)
