"""The set-up uses no network if nothing is missing, and reports what is missing."""

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bare_checkout(tmp_path):
    """The set-up and its requirements, without a .venv."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "cmake", root / "cmake")
    shutil.copy(ROOT / "requirements.txt", root)
    return root


@pytest.fixture
def checkout(bare_checkout):
    """The same with this one's .venv: other tests use that at the same time, and a set-up changes no linked one."""
    if (ROOT / ".venv").exists():
        (bare_checkout / ".venv").symlink_to(ROOT / ".venv")
    return bare_checkout


def set_up(tmp_path, root, *arguments, stdin=None, **environment):
    """Runs the set-up of a checkout with stubs of the installers, which say and record their calls and fail; sudo takes
    the password that it asks for."""
    for tool in ["apt-get", "sudo"]:
        (tmp_path / tool).write_text(
            f"#!/bin/sh\necho {tool} $@ | tee -a '{tmp_path}/calls' >&2\n[ \"$1\" = -v ]\n")
        (tmp_path / tool).chmod(0o755)
    variables = dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}", PIP_NO_INDEX="1", PIP_FIND_LINKS="") | \
        environment
    result = subprocess.run([root / "cmake/setup.sh", *arguments], env=variables, capture_output=True, text=True,
                            stdin=stdin)
    calls = tmp_path / "calls"
    return result, calls.read_text() if calls.exists() else ""


def test_a_second_set_up_installs_nothing(checkout, tmp_path):
    set_up(tmp_path, checkout, "--tests")  # may look for optional packages
    (tmp_path / "calls").unlink(missing_ok=True)
    result, calls = set_up(tmp_path, checkout, "--tests")
    assert result.returncode == 0, result.stderr
    assert calls == ""
    assert "installing" not in result.stderr


def test_an_interpreter_without_torch_is_refused_where_torch_is_needed(checkout, tmp_path):
    python = tmp_path / "python-without-torch"
    python.write_text("#!/bin/sh\necho torch h5py\n")
    python.chmod(0o755)
    result, _ = set_up(tmp_path, checkout, "--torch", ATTEST_PYTHON=str(python))
    assert result.returncode == 1
    assert (f"attest: ATTEST_PYTHON={python} has no torch. Missing are:\n"
            f"attest:   Python's packages  {python} -m pip install torch h5py") in result.stderr


def test_an_interpreter_without_the_capture_scripts_modules_is_used(checkout, tmp_path):
    python = tmp_path / "python-without-h5py"
    python.write_text("#!/bin/sh\necho h5py transformers\n")
    python.chmod(0o755)
    result, calls = set_up(tmp_path, checkout, ATTEST_PYTHON=str(python), ATTEST_CUDA="0")
    assert result.returncode == 0
    assert result.stderr == (f"attest: {python} has no h5py, transformers: attest capture, tasks, bench model and "
                             "attest.lm_eval take torch, transformers, numpy and h5py; attest prompts takes "
                             "transformers; attest import takes numpy and h5py; the other benches take torch as a "
                             "peer.\n")
    assert calls == ""


def python_without(tmp_path, *packages):
    """This one, for which some packages are not installed."""
    (tmp_path / "sitecustomize.py").write_text(f"""
import importlib.metadata, importlib.util
version, find_spec, lacks = importlib.metadata.version, importlib.util.find_spec, {packages}
def of(name):
    if name in lacks:
        raise importlib.metadata.PackageNotFoundError(name)
    return "0.1"  # of another version
importlib.metadata.version = of
importlib.util.find_spec = lambda name: None if name in lacks else object()
""")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} \"$@\"\n")
    python.chmod(0o755)
    return python


def test_what_an_interpreter_lacks_for_the_tests_is_named_at_once(checkout, tmp_path):
    python = python_without(tmp_path, "pytest", "pandas", "gguf", "torch")
    result, _ = set_up(tmp_path, checkout, "--tests", ATTEST_PYTHON=str(python), ATTEST_CUDA="0")
    assert result.returncode == 1
    assert (f"attest: ATTEST_PYTHON={python} has no pytest. Missing are:\n"
            f"attest:   Python's packages  {python} -m pip install pytest pandas gguf\n"
            "attest:   or all in a .venv  unset ATTEST_PYTHON\n") in result.stderr
    assert set_up(tmp_path, checkout, ATTEST_PYTHON=str(python), ATTEST_CUDA="0")[0].returncode == 0, \
        "only the tests take it"


@pytest.mark.parametrize("extra, package", [("cluster", "submitit"), ("llama-cpp", "llama-cpp-python"),
                                            ("lm-eval", "accelerate")])
def test_what_an_interpreter_lacks_for_an_option_is_said(extra, package, checkout, tmp_path):
    python = python_without(tmp_path, package)
    result, _ = set_up(tmp_path, checkout, f"--{extra}", ATTEST_PYTHON=str(python), ATTEST_CUDA="0")
    assert result.returncode == 0
    assert (f"attest: {python} has no {package}, which --{extra} is for: {python} -m pip install -r "
            f"{checkout}/cmake/requirements-{extra}.txt\n") in result.stderr


def test_what_some_tests_take_is_optional_in_an_interpreter(checkout, tmp_path):
    python = python_without(tmp_path, "pandas", "gguf")
    result, _ = set_up(tmp_path, checkout, "--tests", ATTEST_PYTHON=str(python), ATTEST_CUDA="0")
    assert result.returncode == 0
    assert f"attest: {python} has no pandas, gguf: tests that take them are skipped.\n" in result.stderr


def test_an_environment_for_an_old_cmake_is_made_by_the_interpreter(bare_checkout, tmp_path):
    """The machine's own python3 may have no module for that."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n[ \"$2\" != venv ] || exit 1\nexec {sys.executable} \"$@\"\n")
    (tmp_path / "cmake").write_text("#!/bin/sh\necho cmake version 3.25.1\n")
    for program in python, tmp_path / "cmake":
        program.chmod(0o755)
    result, _ = set_up(tmp_path, bare_checkout, ATTEST_PYTHON=str(python), ATTEST_CUDA="0")
    assert result.returncode == 1
    assert (f"attest: {python} makes no virtual environment to install cmake and ninja into: it takes the modules venv "
            "and ensurepip (Debian's python3-venv), or CMake 3.28, ") in result.stderr


def test_a_browser_is_optional_and_tried_once(checkout, tmp_path):
    """On a machine like this one, but for Chromium."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for folder in reversed(os.environ["PATH"].split(":")):
        for command in Path(folder).glob("*") if Path(folder).is_dir() else ():
            link = commands / command.name
            link.unlink(missing_ok=True)
            if not command.name.startswith(("chromium", "google-chrome", "chrome")):
                link.symlink_to(command)
    without = {"PATH": f"{tmp_path}:{commands}"}
    result, calls = set_up(tmp_path, checkout, "--tests", **without)
    assert result.returncode == 0, result.stderr
    assert ("Going on without: the page of attest report is tested in Chromium. To try again, remove "
            "build/setup-browser.") in result.stderr
    assert "apt-get" in calls
    (tmp_path / "calls").unlink()
    assert set_up(tmp_path, checkout, "--tests", **without)[1] == ""
    (checkout / "build/setup-browser").unlink()
    assert set_up(tmp_path, checkout, **without)[1] == "", "only the tests take one"


@pytest.mark.parametrize("user, sentence", [
    (0, "Packages cannot be installed."), (1000, "Installing packages takes root.")])
def test_where_nothing_can_be_installed_all_that_is_missing_is_named_at_once(user, sentence, bare_checkout, tmp_path):
    (tmp_path / "id").write_text(f"#!/bin/sh\necho {user}\n")
    (tmp_path / "id").chmod(0o755)
    result, calls = set_up(tmp_path, bare_checkout, "--tests", CXX="no-such-compiler", ATTEST_CUDA="0",
                           ATTEST_PYTHON="")
    assert result.returncode == 1
    assert ("apt-get" in calls) == (user == 0)
    said = [line.removeprefix("attest: ") for line in result.stderr.splitlines()]
    said = said[said.index(f"{sentence} Missing are:") + 1:]
    assert said[0].startswith("  Debian's packages  apt-get install") and said[0].split()[-1] == "g++"
    assert said[1] == "  or conda's         conda install -c conda-forge cxx-compiler"
    assert said[2].split("&&")[1] == " .venv/bin/pip install -r requirements.txt -r cmake/requirements-tests.txt"
    for pointer in ("CMAKE_PREFIX_PATH=", "CXX=", "CUDACXX=", "ATTEST_PYTHON="):
        assert pointer in "".join(said[3:])
    assert said[-1] == f"Log: {bare_checkout}/build/setup.log"


def test_a_password_is_asked_for_before_the_line_of_progress(bare_checkout, tmp_path):
    try:
        terminal, slave = pty.openpty()
    except OSError as error:  # a root without /dev/pts
        pytest.skip(f"no terminal can be made: {error}")
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    result, calls = set_up(tmp_path, bare_checkout, stdin=slave, CXX="no-such-compiler", ATTEST_CUDA="0")
    for end in terminal, slave:
        os.close(end)
    assert [call[:7] for call in calls.splitlines()] == ["sudo -n", "sudo -v", "sudo sh"]
    assert result.returncode == 1 and result.stderr.startswith("sudo -v\n")


def test_wheels_that_cannot_be_had_are_named_at_once(bare_checkout, tmp_path):
    result, _ = set_up(tmp_path, bare_checkout, "--tests", ATTEST_CUDA="0", ATTEST_PYTHON="")
    assert result.returncode == 1
    _, missing = result.stderr.split("attest: Wheels cannot be installed. Missing are:\n")
    assert "Debian" not in missing
    assert "pip install -r requirements.txt -r cmake/requirements-tests.txt\n" in result.stderr


@pytest.mark.parametrize("pinned", [True, False])
def test_transformers_of_another_version_is_replaced_for_the_tokenizers(pinned, bare_checkout, tmp_path):
    packages = bare_checkout / ".venv/lib/python3.11/site-packages"
    pin = re.search(r"^transformers==(\S+)", (ROOT / "cmake/requirements-torch.txt").read_text(), re.M)[1]
    about = packages / "transformers-1.dist-info/METADATA"
    for folder in (packages / "transformers", about.parent, bare_checkout / ".venv/bin"):
        folder.mkdir(parents=True)
    about.write_text(f"Name: transformers\nVersion: {pin if pinned else '1.0'}\n")
    for program in ("python", "pip"):
        path = bare_checkout / ".venv/bin" / program
        path.write_text(f"#!/bin/sh\nPYTHONPATH={packages} exec {sys.executable} \"$@\"\n")
        path.chmod(0o755)
    (bare_checkout / "requirements.txt").write_text("")  # nothing else is missing
    result, _ = set_up(tmp_path, bare_checkout, "--tokenizers", ATTEST_CUDA="0", ATTEST_PYTHON="")
    assert ("installing transformers, without torch into .venv" in result.stderr) != pinned, result.stderr
    assert (result.returncode == 0) == pinned


def test_headers_of_another_prefix_count(bare_checkout, tmp_path):
    """On a machine with no libraries in /usr/include: only what CMAKE_PREFIX_PATH and CPATH have is there."""
    script = bare_checkout / "cmake/setup_missing.sh"
    script.write_text(script.read_text().replace("(/usr/include /usr/local/include)", "()"))
    prefix = tmp_path / "prefix"
    for header in ("hdf5.h", "zlib.h", "eigen3/Eigen/Core", "fmt/format.h"):
        (prefix / "include" / header).parent.mkdir(parents=True, exist_ok=True)
        (prefix / "include" / header).touch()
    result, _ = set_up(tmp_path, bare_checkout, ATTEST_CUDA="0", CMAKE_PREFIX_PATH=str(prefix), CPATH="")
    conda, = re.findall(r"conda-forge (.*)", result.stderr)
    assert {"xxhash", "cli11", "nlohmann_json"} <= set(conda.split())
    assert not {"hdf5", "zlib", "eigen", "fmt"} & set(conda.split())
