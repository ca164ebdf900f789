"""The set-up uses no network if nothing is missing, and reports what is missing."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def set_up(tmp_path, *arguments, **environment):
    """Runs the set-up of this checkout with stubs of the installers, which record their calls and fail."""
    for tool in ["apt-get", "sudo"]:
        (tmp_path / tool).write_text(f"#!/bin/sh\necho {tool} $@ >>'{tmp_path}/calls'\nexit 1\n")
        (tmp_path / tool).chmod(0o755)
    variables = dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}", PIP_NO_INDEX="1", PIP_FIND_LINKS="") | environment
    result = subprocess.run([ROOT / "cmake/setup.sh", *arguments], env=variables, capture_output=True, text=True)
    calls = tmp_path / "calls"
    return result, calls.read_text() if calls.exists() else ""


def test_a_second_set_up_installs_nothing(tmp_path):
    result, calls = set_up(tmp_path, "--torch", "--tests")
    assert result.returncode == 0, result.stderr
    assert calls == ""
    assert "installing" not in result.stderr


def test_an_interpreter_without_torch_is_refused_where_torch_is_needed(tmp_path):
    python = tmp_path / "python-without-torch"
    python.write_text("#!/bin/sh\necho torch h5py\n")
    python.chmod(0o755)
    result, _ = set_up(tmp_path, "--torch", ATTEST_PYTHON=str(python))
    assert result.returncode == 1
    assert result.stderr.endswith(f"attest: ATTEST_PYTHON={python} has no torch: install torch 2.11 for it, or unset ATTEST_PYTHON.\n")


def test_an_interpreter_without_the_capture_scripts_modules_is_used(tmp_path):
    python = tmp_path / "python-without-h5py"
    python.write_text("#!/bin/sh\necho h5py transformers\n")
    python.chmod(0o755)
    result, calls = set_up(tmp_path, ATTEST_PYTHON=str(python), ATTEST_CUDA="0")
    assert result.returncode == 0
    assert result.stderr == (f"attest: {python} has no h5py, transformers: attest capture takes torch, transformers, numpy and h5py; "
                             "attest bench takes torch; attest import takes numpy and h5py.\n")
    assert calls == ""


def test_a_browser_is_optional_and_tried_once(tmp_path):
    """On a machine like this one, but for Chromium."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for folder in reversed(os.environ["PATH"].split(":")):
        for command in Path(folder).glob("*") if Path(folder).is_dir() else ():
            link = commands / command.name
            link.unlink(missing_ok=True)
            if not command.name.startswith(("chromium", "google-chrome", "chrome")):
                link.symlink_to(command)
    tried = ROOT / "build/setup-browser"
    before = tried.read_text() if tried.exists() else None
    tried.unlink(missing_ok=True)
    try:
        without = {"PATH": f"{tmp_path}:{commands}"}
        result, calls = set_up(tmp_path, "--tests", **without)
        assert result.returncode == 0, result.stderr
        assert "Going on without: the page of attest report is tested in Chromium. To try again, remove build/setup-browser." in result.stderr
        assert "apt-get" in calls
        (tmp_path / "calls").unlink()
        assert set_up(tmp_path, "--tests", **without)[1] == ""
        tried.unlink()
        assert set_up(tmp_path, **without)[1] == "", "only the tests take one"
    finally:
        tried.unlink(missing_ok=True)
        if before is not None:
            tried.write_text(before)


def test_a_failed_step_says_which_why_and_where_the_log_is(tmp_path):
    result, _ = set_up(tmp_path, CXX="no-such-compiler")
    assert result.returncode == 1
    assert "g++" in result.stderr and "(needed)" in result.stderr
    assert f"Log: {ROOT}/build/setup.log" in result.stderr
