"""The commit of --version is -dirty after any change after which ./attest builds (tests/launcher_test.py)."""
import re
import subprocess
from pathlib import Path

import pytest

from cmake_program import CMAKE

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ["dumps/a.h", "kernels/a.cu", "analysis/a.cpp", "experiments/main.cpp", "experiments/python/attest/run.py",
           "plots/a.cpp", "cmake/a.cmake", "CMakeLists.txt", "CMakePresets.json", "requirements.txt"]


def git(folder, *words):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", folder, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit_of(folder):
    header = folder.with_name("version.h")
    subprocess.run([CMAKE, "-D", "GIT=git", "-D", f"SOURCE_DIR={folder}", "-D", f"HEADER={header}", "-P",
                    ROOT / "cmake/write_version.cmake"], check=True)
    return re.search('ATTEST_GIT_COMMIT "(.*)"', header.read_text())[1]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "checkout"
    for name in [*SOURCES, "tests/a.cpp", "kernels/README.md", ".gitignore"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("__pycache__/\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "a")
    return folder


def test_the_sources_as_they_were_committed(checkout):
    commit = git(checkout, "rev-parse", "--short=12", "HEAD")
    assert commit_of(checkout) == commit
    (checkout / "experiments/python/attest/__pycache__").mkdir()
    (checkout / "experiments/python/attest/__pycache__/run.pyc").write_text("x")
    for name in "tests/a.cpp", "kernels/README.md":
        (checkout / name).write_text("x")
    assert commit_of(checkout) == commit, "bytecode, tests and documents are no sources of the program"


@pytest.mark.parametrize("name", SOURCES)
def test_a_change_is_said(checkout, name):
    (checkout / name).write_text("changed")
    assert commit_of(checkout).endswith("-dirty")
    git(checkout, "checkout", "-q", name)


def test_a_folder_without_git(tmp_path):
    (tmp_path / "checkout").mkdir()
    assert commit_of(tmp_path / "checkout") == "unknown"
