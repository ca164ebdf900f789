"""Every golden case on the GPU."""

import os

import pytest

from goldens import check


@pytest.mark.parametrize("case", check.cases())
def test_conforms(case):
    outcome = check.check(os.environ["ATTEST_BIN"], case, "cuda")
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert outcome.kept_sets > 0
