"""Every source has the layout of .clang-format, by the pinned version of clang-format: others break other lines. The
lines of sources, of scripts and styles of pages, of CMake, of shell scripts, of Python and of requirements have at most
120 columns."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CLANG_FORMAT = Path(sys.executable).parent / "clang-format"
COLUMNS = 120
AT_ONCE = 50  # files per process: a command line has a limited length


def pinned_version():
    return re.search(r"^clang-format==(\S+)", (ROOT / "cmake/requirements-tests.txt").read_text(), re.MULTILINE)[1]


SOURCES = ("*.h", "*.cpp", "*.cu", "*.cuh")
SCRIPTS = ("*.js", "*.css", "*.cmake", "*CMakeLists.txt", "*.sh", "attest", "tests/run", ".ci/run", "*.py", "*.toml",
           "*requirements*.txt")


def files(patterns):
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("no git checkout: nobody knows which files are the project's")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def clang_format(*arguments):
    if not CLANG_FORMAT.is_file():
        pytest.skip(f"there is no {CLANG_FORMAT}: pip install clang-format=={pinned_version()}")
    return subprocess.run([CLANG_FORMAT, "--style=file", *arguments], cwd=ROOT, capture_output=True, text=True)


def cannot_be_broken(line):
    """A line with a raw string or of a single word (an include, a path or an address in a comment)."""
    return 'R"' in line or len(line.lstrip(" /*").split()) == 1 or line.startswith("#include ")


def misplaced(names):
    """The files that clang-format would change."""
    found = set()
    for begin in range(0, len(names), AT_ONCE):
        checked = clang_format("--dry-run", "-Werror", *names[begin : begin + AT_ONCE])
        named = {line.split(":", 1)[0] for line in checked.stderr.splitlines() if "[-Wclang-format-violations]" in line}
        assert (checked.returncode == 0) == (not named), checked.stderr
        found |= named
    return sorted(found)


def test_the_version_is_the_pinned_one():
    assert f"version {pinned_version()} " in clang_format("--version").stdout


def test_sources_are_as_clang_format_leaves_them():
    names = files(SOURCES)
    assert len(names) > 200  # the search has found the sources
    wrong = misplaced(names)
    assert not wrong, f"{CLANG_FORMAT} -i {' '.join(wrong)}"


def test_a_misplaced_line_is_found(tmp_path):
    (tmp_path / ".clang-format").write_text((ROOT / ".clang-format").read_text())
    good, bad = tmp_path / "good.cpp", tmp_path / "bad.cpp"
    good.write_text("int f(int* a) { return *a; }\n")
    bad.write_text("int f(int *a) { return *a; }\n")
    assert misplaced([str(good), str(bad)]) == [str(bad)]


def test_lines_end_within_the_columns():
    long = [
        f"{name}:{number}: {len(line)} columns"
        for name in files(SOURCES + SCRIPTS)
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        if len(line) > COLUMNS and not cannot_be_broken(line)
    ]
    assert not long, "\n".join(long)


@pytest.mark.parametrize(
    "line, is_so",
    [
        ("// https://example.org/" + "x" * 120, True),
        ("  // see https://example.org/" + "x" * 120, False),  # the address belongs on a line of its own
        ('  f(R"(' + "x " * 60 + ')");', True),
        ('  f("' + "x " * 60 + '");', False),
        ('#include "' + "x/" * 60 + '.h"  // why', True),
    ],
)
def test_what_cannot_be_broken(line, is_so):
    assert len(line) > COLUMNS
    assert cannot_be_broken(line) == is_so
