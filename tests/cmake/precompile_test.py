"""Sources are compiled with precompiled headers that the compiler takes: GCC leaves out, without an error, those that
were made with other options."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ["ATTEST_BIN"]).parent


def commands():
    return {str(Path(entry["directory"], entry["output"]).relative_to(BUILD)): entry
            for entry in json.loads((BUILD / "compile_commands.json").read_text())}


def arguments_of(entry):
    words = shlex.split(entry["command"])
    while words[0] == "env" or not Path(words[0]).name.startswith(("c++", "g++", "gcc", "clang")):
        words.pop(0)  # of the launcher
    return words


def read_headers(entry):
    """What GCC says of a source's headers: a line for each, "! FILE" for a precompiled one that it took."""
    words = arguments_of(entry)
    del words[words.index("-o"):words.index("-o") + 2]
    found = subprocess.run([*words, "-fsyntax-only", "-H"], cwd=entry["directory"], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stderr.splitlines()


# One of each library and of each kind of options.
@pytest.mark.parametrize("source", [
    "dumps/CMakeFiles/dumps.dir/Unity/base_0.cpp.o", "dumps/CMakeFiles/dumps.dir/element_type.cpp.o",
    "kernels/CMakeFiles/kernels.dir/Unity/selectors_0.cpp.o", "kernels/CMakeFiles/kernels.dir/selectors/template.cpp.o",
    "analysis/CMakeFiles/analysis.dir/Unity/metrics_0.cpp.o", "analysis/CMakeFiles/analysis.dir/metrics/io_ratio.cpp.o",
    "plots/CMakeFiles/plots.dir/Unity/page_0.cpp.o", "experiments/CMakeFiles/experiments.dir/Unity/list_0.cpp.o",
    "tests/CMakeFiles/test_plots.dir/Unity/unity_0_cxx.cxx.o"])
def test_headers_are_precompiled(source):
    known = commands()
    if not any("/Unity/" in output for output in known):
        pytest.skip("this build compiles each source alone")
    words = arguments_of(known[source])
    if not any("cmake_pch" in word for word in words):
        pytest.skip("this build has no precompiled headers")
    version = subprocess.run([words[0], "--version"], capture_output=True, text=True).stdout
    if "Free Software Foundation" not in version:
        pytest.skip("only GCC says which precompiled headers it took")
    taken = [line for line in read_headers(known[source]) if line.startswith(("! ", "x "))]
    assert len(taken) == 1 and taken[0].startswith("! "), taken
