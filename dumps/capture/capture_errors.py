"""What ends a capture: one sentence, and the exit code of its kind (the codes of the attest command line)."""


class CaptureError(Exception):
    exit_code = 1


class UsageError(CaptureError):
    exit_code = 2


class InputError(CaptureError):
    exit_code = 4


class OutputError(CaptureError):
    exit_code = 5


def first_line(error):
    """Libraries explain themselves in paragraphs; the first line names the cause."""
    return str(error).strip().split("\n")[0] or type(error).__name__
