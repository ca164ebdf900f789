"""What a page and its figures cost: processor seconds, which other programs on the machine do not change much."""

import os
import resource
from pathlib import Path

import pytest

from attest_program import ATTEST, attest

EXAMPLE = Path(os.environ["ATTEST_SOURCE_DIR"]) / "experiments/validation/example"
# Twice what one machine may take, for slower ones; with a child for each pass over a file it was more than a hundred.
MOST = {"report": 10, "figures": 10}
if "CMAKE_BUILD_TYPE:STRING=Release" not in (Path(ATTEST).parent / "CMakeCache.txt").read_text():
    pytest.skip("a speed is one of a release build", allow_module_level=True)


@pytest.mark.parametrize("command, output", [("report", "r.html"), ("figures", "f")])
def test_three_studies_take_seconds(tmp_path, command, output):
    """Of 60 prompts each, with pictures: gnuplot's seconds are counted, too."""
    def used():
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        return spent.ru_utime + spent.ru_stime

    before = used()
    attest(command, *(EXAMPLE / f"{name}.h5" for name in ("with_sink", "no_sink", "mla")), "-o", tmp_path / output)
    assert used() - before < MOST[command]
