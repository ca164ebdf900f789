"""attest.base.program: what is told of a call of the program that failed."""
import pytest

from attest.base.program import ProgramError


@pytest.mark.parametrize("said, code, sentence, exit_code", [
    ("attest: a warning\nattest: d.h5: is damaged\n", 4, "d.h5: is damaged", 4),
    ("", 1, "ended with exit code 1", 1), (" \n", 137, "ended with exit code 137", 137),
    ("", -9, "ended by signal 9", 1)])
def test_the_last_line_or_how_it_ended(said, code, sentence, exit_code):
    error = ProgramError(said, code)
    assert (str(error), error.exit_code) == (sentence, exit_code)
