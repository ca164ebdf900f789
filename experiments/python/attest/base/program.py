"""The program `attest`, where it was installed with the package."""
import os
import shutil
import sys

from . import places
from .errors import AttestError, OutputError


class ProgramError(AttestError):
    """A call of the program that failed: the last line that it said, or how it ended, and its exit code."""

    def __init__(self, said, code):
        how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        super().__init__((said.strip().splitlines() or [how])[-1].removeprefix("attest: "))
        self.exit_code = code if code > 0 else 1


def find_program():
    """Path of the program; None where the plugin of vLLM was installed alone."""
    found = _usual_program()
    return found if os.access(found, os.X_OK) else shutil.which("attest")


def _usual_program():
    root = places.checkout()
    return os.environ.get("ATTEST_BIN") or str(root / "attest" if root else places.PACKAGE / "bin/attest")


def program():
    """Path of the program: ATTEST_BIN, the installed one, or that of the checkout, which builds what is missing."""
    found = _usual_program()
    if not os.access(found, os.X_OK):
        raise OutputError(f"{found}: expected the program, found none that can be run")
    return found


def main():
    """The command `attest`: becomes the program, whose modules this interpreter runs."""
    try:
        os.execve(program(), ["attest", *sys.argv[1:]], {**os.environ, "ATTEST_PYTHON": sys.executable})
    except (OSError, OutputError) as error:
        print(f"attest: {error}", file=sys.stderr)
        return OutputError.exit_code
