"""Suites of an executable become tests of ctest, which are skipped only if all that is in them is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cmake_program import CMAKE, CTEST

SCRIPT = Path(os.environ["ATTEST_SOURCE_DIR"]) / "cmake/discover_suites.cmake"
SKIPPED = "[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] {0}.B\n"
FAILED = "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] {0}.C\n\n 1 FAILED TEST\n"
SUITES = {  # what GoogleTest prints at the end, exit status, what ctest makes of it
    "Passes": ("[  PASSED  ] 1 test.\n", 0, "Passed"),
    "All/Skips": ("[  PASSED  ] 0 tests.\n" + SKIPPED, 0, "***Skipped"),
    "All/PassesAndSkips": ("[  PASSED  ] 10 tests.\n" + SKIPPED, 0, "Passed"),
    "Typed/0": ("[  PASSED  ] 1 test.\n" + FAILED, 1, "***Failed"),
    "SkipsAndFails": ("[  PASSED  ] 0 tests.\n" + SKIPPED + FAILED, 1, "***Failed"),
    "Crashes": ("[ RUN      ] Crashes.A\n", 139, "***Failed"),
}


@pytest.fixture
def executable(tmp_path):
    """Prints what GoogleTest does."""
    listed = "".join(f"{name}.{'  # TypeParam = float' if '/0' in name else ''}\n  A\n  B/x  # GetParam() = 3\n"
                     for name in SUITES)
    answers = {"--gtest_list_tests": (listed, 0)}
    answers |= {f"--gtest_filter={name}.*": (end.format(name), status) for name, (end, status, _) in SUITES.items()}
    path = tmp_path / "a test"
    path.write_text(
        f"#!{sys.executable}\nimport sys\ntext, status = {answers}[sys.argv[1]]\nprint(*sys.argv[2:])\nprint(text, "
        "end='')\nsys.exit(status)\n")
    path.chmod(0o755)
    return path


def discover(executable, out):
    defined = {"EXECUTABLE": executable, "PREFIX": "kernels/", "LABEL": "gpu", "REPORTS": "/a b", "OUT": out}
    return subprocess.run([CMAKE, *(f"-D{name}={value}" for name, value in defined.items()), "-P", SCRIPT],
                          capture_output=True, text=True)


def test_each_suite_is_a_test(executable, tmp_path):
    found = discover(executable, tmp_path / "CTestTestfile.cmake")
    assert found.returncode == 0, found.stderr
    ran = subprocess.run([CTEST, "-V", "--test-dir", tmp_path, "-L", "^gpu$"], capture_output=True, text=True).stdout
    states = dict(re.findall(r"Test +#\d+: kernels/(\S+) \.*\s*(Passed|\*{3}\w+)", ran))
    assert states == {name: state for name, (_, _, state) in SUITES.items()}
    assert re.findall(r"^\d+: --gtest_output=(.*)$", ran, re.MULTILINE) == [
        f"xml:/a b/kernels/{name}.xml" for name in SUITES]


def test_an_executable_that_cannot_run_fails_the_build(tmp_path):
    assert discover("/bin/false", tmp_path / "out.cmake").returncode != 0
    assert not (tmp_path / "out.cmake").exists()
