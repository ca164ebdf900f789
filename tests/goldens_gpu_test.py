"""Every golden case on the GPU."""

import pytest

from attest_program import ATTEST
from goldens import check


@pytest.mark.parametrize("case", check.cases())
def test_conforms(case):
    outcome = check.check(ATTEST, case, "cuda")
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert outcome.kept_sets > 0
