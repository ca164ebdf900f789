"""tests/run: its help, and what it says of tests that were skipped or failed, by real runs of ctest and pytest."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cmake_program import CTEST

ROOT = Path(__file__).resolve().parent.parent
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
    shown = subprocess.run([ROOT / "tests/run", "--help"], capture_output=True, text=True,
                           env={"PATH": "/usr/bin:/bin"})
    assert shown.returncode == 0 and shown.stderr == ""
    for option in ("--all", "--gpu", "--help", "-R REGEX", "ATTEST_CUDA"):
        assert option in shown.stdout


@pytest.fixture
def checkout(tmp_path):
    """tests/run, and a stub of the build whose tests are there."""
    for file in "tests/run", "tests/summary.py", "cmake/choose_preset.sh":
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "cmake/build.sh").write_text("#!/bin/sh\n")
    (tmp_path / "cmake/build.sh").chmod(0o755)
    (tmp_path / "build/cpu").mkdir(parents=True)
    (tmp_path / "build/cpu/CTestTestfile.cmake").write_text("\n".join(
        f"add_test({name} true)\nset_tests_properties({name} PROPERTIES LABELS \"{labels}\")"
        for name, labels in (("a", ""), ("b", "slow"), ("c", "slow;torch"), ("d", "torch"), ("other", "slow"))))
    return tmp_path


def run(checkout, *arguments):
    environment = os.environ | {"ATTEST_CUDA": "0", "ATTEST_PYTHON": sys.executable}
    return subprocess.run([checkout / "tests/run", *arguments], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("arguments, lines", [
    ((), ["  3 are labelled slow (tests/run --all runs them)", "  1 are labelled torch (tests/run --all runs them)",
          "1 passed, 0 failed, 4 skipped"]),
    (("-R", "^[abd]$"), ["  1 are labelled slow (tests/run --all runs them)",
                         "  1 are labelled torch (tests/run --all runs them)",
                         "1 passed, 0 failed, 2 skipped"]),
    (("-LE", "torch"), ["  2 are labelled slow (tests/run --all runs them)", "1 passed, 0 failed, 2 skipped"]),
    (("--label-exclude=slow",), [
        "  1 are labelled torch (tests/run --all runs them)", "1 passed, 0 failed, 1 skipped"]),
    (("-LE", "slow", "--label-exclude", "torch"), ["  2 are labelled slow (tests/run --all runs them)",
        "  1 are labelled torch (tests/run --all runs them)", "1 passed, 0 failed, 3 skipped"]),
    (("--all", "-LE", "torch"), ["3 passed, 0 failed, 0 skipped"]),
    (("--all", "-R", "^[abd]$"), ["3 passed, 0 failed, 0 skipped"])])
def test_what_is_left_out_is_counted_of_what_was_asked_for(checkout, arguments, lines):
    done = run(checkout, *arguments)
    assert done.returncode == 0, done.stderr
    found = [line for line in done.stdout.splitlines() if line.startswith("  ") and "labelled" in line
             or line == lines[-1]]
    assert found == lines


@pytest.mark.parametrize("listing", ["-N", "--show-only", "--show-only=json-v1"])
def test_tests_are_listed(checkout, listing):
    done = run(checkout, "--all", listing, "-R", "^[ab]$")
    assert done.returncode == 0 and "No test ran" not in done.stdout
    assert done.stdout.startswith("{") if "json" in listing else done.stdout.endswith("Total Tests: 2\n")


PYTHON = """
import pytest
def test_passes(): pass
@pytest.mark.skip(reason="no torch here")
def test_skipped(): pass
@pytest.mark.parametrize("n", range(3))
def test_fails(n): assert FAILS == 0 or n
"""


@pytest.mark.parametrize("script, last", [
    (PYTHON.replace("FAILS", "0"), "4 passed, 0 failed, 1 skipped"),
    (PYTHON.replace("FAILS", "1"), "3 passed, 1 failed, 1 skipped"),
    ("import warnings\nimport pytest\ndef test_it():\n    warnings.warn('w')\n    pytest.skip('no torch here')",
     "0 passed, 0 failed, 1 skipped"),
    ("import pytest\npytest.skip('no torch here', allow_module_level=True)", "0 passed, 0 failed, 1 skipped"),
    ("raise ImportError", "0 passed, 1 failed, 0 skipped"),
    ("import os\ndef test_it(): os._exit(1)", "0 passed, 1 failed, 0 skipped")])
def test_the_tests_of_a_script_are_counted(script, last, tmp_path):
    """As tests/CMakeLists.txt runs them."""
    (tmp_path / "a_test.py").write_text(script)
    cmake = (ROOT / "tests/CMakeLists.txt").read_text()
    skip, = re.findall(r'SKIP_REGULAR_EXPRESSION ("[^"]+")', cmake)
    options, = re.findall(r"-m pytest ([^)]*)\)", cmake)
    options = options.replace("${CMAKE_BINARY_DIR}", str(tmp_path)).replace("${script}", "a_test.py")
    code, lines = summary(tmp_path, f'add_test(a_test.py "{sys.executable}" -m pytest {options} {tmp_path}/a_test.py)\n'
                                    f"set_tests_properties(a_test.py PROPERTIES SKIP_REGULAR_EXPRESSION {skip})\n")
    assert lines[-1] == last and code == (0 if ", 0 failed" in last and not last.startswith("0 passed") else 1)
    assert ("  1 says: no torch here" in lines) == ("1 skipped" in last)


GOOGLE = """<testsuites tests="5" failures="{failures}" disabled="1" name="AllTests"><testsuite name="A">
<testcase name="B" status="run" result="completed" classname="A" />
<testcase name="C" status="run" result="skipped" classname="A">
<skipped message="X_test.cpp:4&#x0A;no such&#x0A;file system"><![CDATA[X_test.cpp:4
no such
file system]]></skipped></testcase>
<testcase name="D" status="run" result="skipped" classname="A">
<skipped message="X_test.cpp:5&#x0A;">a</skipped></testcase>
<testcase name="E" status="run" result="completed" classname="A">{failure}</testcase>
<testcase name="DISABLED_F" status="notrun" result="suppressed" classname="A" />
</testsuite></testsuites>"""  # of GoogleTest 1.12


@pytest.mark.parametrize("failures, program, last", [
    (0, "true", "2 passed, 0 failed, 2 skipped"), (1, "false", "1 passed, 1 failed, 2 skipped"),
    (0, "false", "0 passed, 1 failed, 0 skipped")])  # ended with a status after the report
def test_the_tests_of_a_suite_are_counted(failures, program, last, tmp_path):
    report = tmp_path / "reports/kernels/All/A.xml"
    report.parent.mkdir(parents=True)
    report.write_text(
        GOOGLE.format(
            failures=failures, failure=failures * '<failure message="X_test.cpp:6"/><failure message="X_test.cpp:7"/>'))
    code, lines = summary(tmp_path, f"add_test(kernels/All/A {program})")
    assert (code, lines[-1]) == (program == "false", last)
    assert lines[:-1] == (["Skipped:", "  1 says: no such file system", "  1 says: no reason given"]
                          if "2 skipped" in last else [])


def summary(folder, tests, *left_out):
    (folder / "CTestTestfile.cmake").write_text(tests)
    subprocess.run([CTEST, "--output-junit", "tests.xml"], cwd=folder, capture_output=True)
    done = subprocess.run([sys.executable, ROOT / "tests/summary.py", "tests.xml", *left_out], cwd=folder,
                          capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def test_what_was_skipped_is_said_with_its_reason(tmp_path):
    code, lines = summary(tmp_path, TESTS, "12 need a GPU")
    assert code == 1
    assert lines == ["Skipped:", "  12 need a GPU", "  1 says: no torch here", "  1 says: no ssh",
                     "  1 says: no such file system",
                     "1 passed, 2 failed, 15 skipped"]


@pytest.mark.parametrize("tests, code, last", [
    ("add_test(good true)", 0, ["1 passed, 0 failed, 0 skipped"]), ("", 1, ["No test ran.",
        "0 passed, 0 failed, 0 skipped"])])
def test_a_run_is_good_only_if_a_test_passed(tests, code, last, tmp_path):
    assert summary(tmp_path, tests) == (code, last)
