"""tests/run: its help, and what it says of tests that were skipped or failed, by a real run of ctest."""
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CTEST = Path(sys.executable).with_name("ctest")
TESTS = """
add_test(good true)
add_test(bad false)
add_test(absent /no/such/program)
add_test(python sh -c "printf 'x\\n1 skipped in 0.1s\\nSKIPPED [1] a_test.py:3: no torch here\\n'; true")
set_tests_properties(python PROPERTIES SKIP_REGULAR_EXPRESSION "skipped in")
add_test(shell sh -c "echo 'skipped: no ssh'; exit 77")
set_tests_properties(shell PROPERTIES SKIP_RETURN_CODE 77)
add_test(google sh -c "printf 'a_test.cpp:9: Skipped\\nno such file system\\n'; exit 77")
set_tests_properties(google PROPERTIES SKIP_RETURN_CODE 77)
"""


def test_help_sets_nothing_up():
    shown = subprocess.run([ROOT / "tests/run", "--help"], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert shown.returncode == 0 and shown.stderr == ""
    for option in ("--all", "--gpu", "--help", "-R REGEX", "ATTEST_CUDA"):
        assert option in shown.stdout


def summary(folder, tests, *left_out):
    (folder / "CTestTestfile.cmake").write_text(tests)
    ctest = CTEST if CTEST.exists() else shutil.which("ctest")
    subprocess.run([ctest, "--output-junit", "tests.xml"], cwd=folder, capture_output=True)
    done = subprocess.run([sys.executable, ROOT / "tests/summary.py", "tests.xml", *left_out], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def test_what_was_skipped_is_said_with_its_reason(tmp_path):
    code, lines = summary(tmp_path, TESTS, "12 need a GPU")
    assert code == 1
    assert lines == ["Skipped:", "  12 need a GPU", "  1 says: no torch here", "  1 says: no ssh", "  1 says: no such file system",
                     "1 passed, 2 failed, 15 skipped"]


@pytest.mark.parametrize("tests, code, last", [
    ("add_test(good true)", 0, ["1 passed, 0 failed, 0 skipped"]), ("", 1, ["No test ran.", "0 passed, 0 failed, 0 skipped"])])
def test_a_run_is_good_only_if_a_test_passed(tests, code, last, tmp_path):
    assert summary(tmp_path, tests) == (code, last)
