"""Subcommands that become modules of the package: `attest capture` passes all arguments on, and missing modules are
reported."""
import os
import pathlib

import pytest

from attest_program import run_attest

SOURCES = pathlib.Path(os.environ["ATTEST_SOURCE_DIR"])


def attest(*arguments, **environment):
    return run_attest(*arguments, env=os.environ | environment)


def test_capture_parses_its_own_options():
    done = attest("capture", "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: attest capture MODEL PROMPTS... -o DUMP [options]")
    for arguments, complaint in ((["--quiet"], "the following arguments are required: MODEL, PROMPTS"),
                                 (["run", "list", "-o", "x", "--nonsense=1"], "unrecognized arguments: --nonsense=1"),
                                 (["a", "b", "-o", "c", "--last", ""], "--last: '' is not a whole number above 0"),
                                 (["--last", "0", "--", "-a"], "--last: '0' is not a whole number above 0")):
        done = attest("capture", *arguments)
        assert done.returncode == 2 and complaint in done.stderr and done.stderr.startswith("attest: "), done.stderr


def test_capture_comes_first():
    done = attest("--quiet", "capture", "--help")
    assert done.returncode == 2
    assert done.stderr == "attest: expected 'capture' before its options; it takes none of the common ones\n"
    assert "capture" in attest("--help").stdout


@pytest.mark.parametrize("module", ["numpy", "h5py"])
def test_a_missing_module_is_said_with_where_to_get_it(module, tmp_path):
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{module}'\")")
    done = attest("import", tmp_path / "a.npz", "-o", tmp_path / "d.h5", PYTHONPATH=str(tmp_path))
    assert done.returncode == 5 and done.stderr.count("\n") == 1
    assert f"lacks a module that this command needs, numpy and h5py (No module named '{module}'); " in done.stderr
    # The set-up installs into the checkout's own environment; another interpreter is told what to install itself.
    assert "cmake/setup.sh" in done.stderr or "-m pip install -r " in done.stderr


def test_the_working_directory_holds_no_modules(tmp_path):
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('of the working directory')")
    for places in ({}, {"PYTHONPATH": ""}):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | places
        done = run_attest("import", "absent.npz", "-o", "d.h5", cwd=tmp_path, env=environment)
        assert done.returncode == 4 and "absent.npz" in done.stderr, (places, done.stderr)


def test_a_module_sees_the_users_number_of_cuda_connections(tmp_path):
    """The program asks for fewer than CUDA makes, for its own study alone."""
    (tmp_path / "numpy.py").write_text("import os\nraise ModuleNotFoundError("
                                       "'connections ' + os.environ.get('CUDA_DEVICE_MAX_CONNECTIONS', 'unset'))")
    user = {name: value for name, value in os.environ.items() if name != "CUDA_DEVICE_MAX_CONNECTIONS"}
    for number, seen in (({}, "unset"), ({"CUDA_DEVICE_MAX_CONNECTIONS": "7"}, "7")):
        done = run_attest("import", tmp_path / "a.npz", "-o", tmp_path / "d.h5",
                          env=user | number | {"PYTHONPATH": str(tmp_path)})
        assert f"(connections {seen})" in done.stderr, done.stderr


def test_modules_leave_no_bytecode_beside_the_sources(tmp_path):
    """./attest would take it for changed sources and rebuild."""
    before = {path: path.stat().st_mtime_ns for path in (SOURCES / "experiments/python").rglob("*") if path.is_dir()}
    attest("import", tmp_path / "absent", "-o", tmp_path / "d.h5", PYTHONDONTWRITEBYTECODE="")
    assert before == {path: path.stat().st_mtime_ns for path in (SOURCES / "experiments/python").rglob("*")
                      if path.is_dir()}
