"""The wheel: built by pip, installed into an empty virtual environment, used from there as command and as package."""
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from attest_program import ATTEST

ROOT = Path(os.environ["ATTEST_SOURCE_DIR"])
pytest.importorskip("scikit_build_core", reason="scikit-build-core is not installed (cmake/requirements-tests.txt)")


def call(*words, **options):
    """Without the checkout: neither its package nor its program is there to be found."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("ATTEST_", "PYTHON"))}
    environment |= {"CXX": os.environ.get("CXX", "c++"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run([*map(str, words)], capture_output=True, text=True, env=environment, **options)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    # Compiled as the program that the tests have, so that ccache has it.
    with_cuda = "ATTEST_CUDA:BOOL=OFF" not in (Path(ATTEST).parent / "CMakeCache.txt").read_text()
    settings = {"build-dir": f"{ROOT}/build/wheel", "cmake.define.ATTEST_NATIVE": "ON",
                "cmake.define.ATTEST_CUDA": "ON" if with_cuda else "OFF"}
    done = call(sys.executable, "-m", "pip", "wheel", ROOT, "-w", folder, "--no-deps", "--no-build-isolation",
                *(f"--config-settings={name}={value}" for name, value in settings.items()))
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def home(wheel, tmp_path_factory):
    """The environment, outside of the checkout."""
    folder = tmp_path_factory.mktemp("home")
    call(sys.executable, "-m", "venv", folder / "env", check=True)
    pip = [folder / "env/bin/pip", "install", "--disable-pip-version-check"]
    # of any version: a wrong pin of ours is no lack of network
    if call(*pip, "--dry-run", "--no-deps", "numpy").returncode:
        pytest.skip("pip finds no numpy: no network")
    done = call(*pip, f"attest[results] @ file://{wheel}")
    assert done.returncode == 0, done.stderr
    return folder


def attest(home, *words):
    return call(home / "env/bin/attest", *words, cwd=home)


def test_a_wheel_is_for_any_python_and_knows_no_place(wheel):
    assert wheel.name.startswith("attest-") and "-py3-none-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert str(ROOT).encode() not in archive.read("attest/bin/attest")
    assert {"attest/bin/attest", "attest/dumps/demo.h5", "attest/capture/__main__.py",
            "attest/results/__init__.py"} <= set(names)
    assert {name for name in names if name.startswith("attest/bin/")} == {"attest/bin/attest"}, "no library of torch"
    assert not [name for name in names if name.endswith((".md", ".pyc"))]


def test_the_command(home):
    shown = attest(home, "--version")
    assert shown.returncode == 0 and shown.stdout.startswith("attest ") and "LibTorch not in this build" in shown.stdout
    assert attest(home, "synth", "-o", "d.h5", "--tokens", "512", "--layers", "2").returncode == 0
    done = attest(home, "run", "d.h5", "-o", "r.h5", "--selector", "ffd", "--delta", "3,5")
    assert done.returncode == 0, done.stderr
    assert attest(home, "run", "d.h5", "-o", "r.h5").returncode == 5, "exit codes are the program's"
    assert attest(
        home, "inspect", home / "env/lib/python3.{}/site-packages/attest/dumps/demo.h5".format(
            sys.version_info[1])).returncode == 0


def test_commands_of_python(home):
    done = attest(home, "import", "absent.npz", "-o", "i.h5")
    assert done.returncode == 4 and done.stderr.startswith("attest: absent.npz: cannot be opened"), done.stderr
    made = "import numpy as n; a = n.ones((2, 8, 64), 'f4'); n.savez('a.npz', q=a, k=a, v=a)"
    call(home / "env/bin/python", "-c", made, cwd=home, check=True)
    assert attest(home, "import", "a.npz", "-o", "i.h5").returncode == 0
    assert attest(home, "capture", "--help").stdout.startswith("usage: attest capture")
    done = attest(home, "capture", home, "d.h5", "-o", "c.h5")
    assert done.returncode in (4, 5) and done.stderr.count("\n") == 1


def test_the_package(home):
    script = ("import attest.results, json; r = attest.results\n"
              "cells = r.cells('r.h5'); ds = r.dataset('r.h5', 'ffd')\n"
              "print(json.dumps([len(cells), r.selectors('r.h5'), list(ds.recall.dims)]))")
    done = call(home / "env/bin/python", "-c", script, cwd=home)
    assert done.returncode == 0, done.stderr
    rows, labels, axes = json.loads(done.stdout)
    assert labels == ["ffd"] and axes == ["layer", "query", "head", "setting"] and rows > 100
    assert call(home / "env/bin/python", "-m", "attest", "list", cwd=home).returncode == 0


def test_the_demo(home):
    done = attest(home, "demo", "--output", "out")
    assert done.returncode == 0, done.stderr
    assert (home / "out/report.html").exists()
