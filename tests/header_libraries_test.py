"""Headers that are slow to compile are included by few sources, also through headers of ours."""

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
FOLDERS = ("dumps", "kernels", "analysis", "plots", "experiments", "tests")

# Pattern of a library's headers, most sources of the program that may include them, most sources of the tests.
LIBRARIES = {
    "nlohmann-json": (r"nlohmann/.*", 1, 1),
    "CLI11": (r"CLI/.*", 1, 0),
    "toml++": (r"toml\+\+/.*|toml.hpp", 1, 0),
    "fmt/chrono.h": (r"fmt/chrono\.h", 1, 0),
    "fmt/format.h": (r"fmt/format\.h", 0, 0),
    "fmt/ranges.h": (r"fmt/ranges\.h", 0, 0),
    "<regex>": (r"regex", 0, 0),
    "Eigen": (r"Eigen/.*", 3, 0),
    "gmock": (r"gmock/.*", 0, 37),  # for its matchers; tests are compiled a few at a time and share it
}


@functools.cache
def includes(path):
    return INCLUDE.findall(path.read_text())


@functools.cache
def headers_of(source):
    """All headers that a source includes, through headers of ours too."""
    found, open_headers = set(), [source]
    while open_headers:
        for name in includes(open_headers.pop()):
            if name not in found:
                found.add(name)
                if (ROOT / name).is_file():
                    open_headers.append(ROOT / name)
    return found


def users(pattern, folders):
    sources = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))
               if path.suffix in (".cpp", ".cu")]
    return [str(path.relative_to(ROOT)) for path in sources if any(
        re.fullmatch(pattern, name) for name in headers_of(path))]


@pytest.mark.parametrize("library", LIBRARIES)
def test_few_sources_include_a_library(library):
    pattern, in_program, in_tests = LIBRARIES[library]
    program, tests = users(pattern, FOLDERS[:-1]), users(pattern, FOLDERS[-1:])
    assert len(program) <= in_program, f"{library}: {', '.join(program)}"
    assert len(tests) <= in_tests, f"{library}: {', '.join(tests)}"
