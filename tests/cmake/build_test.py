"""cmake/build.sh sets up a compiler for CUDA for the presets that build with CUDA, and for no others; it says what
failed."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRESETS = {
    preset["name"]: preset for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}


def builds_cuda(name):
    preset = PRESETS[name]
    found = preset.get("cacheVariables", {}).get("ATTEST_CUDA")
    return found != "OFF" if found else builds_cuda(preset["inherits"]) if "inherits" in preset else True


def checkout(folder, set_up):
    """The script, and a stub of the set-up."""
    (folder / "cmake").mkdir()
    for script in "build.sh", "watch.sh", "up_to_date.sh":
        shutil.copy(ROOT / "cmake" / script, folder / "cmake")
    (folder / "cmake/setup.sh").write_text(f"#!/bin/sh\n{set_up}\n")
    (folder / "cmake/setup.sh").chmod(0o755)


def build(folder, *words, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ATTEST_")}
    return subprocess.run([folder / "cmake/build.sh", *words], capture_output=True, text=True,
                          env=environment | variables)


@pytest.mark.parametrize("preset", [name for name, preset in PRESETS.items() if not preset.get("hidden")])
def test_cuda_is_set_up_for_the_presets_that_have_it(preset, tmp_path):
    checkout(tmp_path, 'echo "cuda=$ATTEST_CUDA $*"; exit 1')
    done = build(tmp_path, preset, "attest", "--lm-eval")
    assert (done.returncode, done.stdout) == (1, f"cuda={int(builds_cuda(preset))} --lm-eval\n"), done.stderr


@pytest.mark.parametrize("said", ["", "[1/2] Building a.cpp\\n", "[1/2] Building a.cpp\\nkilled\\n"])
def test_a_build_that_fails_is_said_to_whatever_it_said(said, tmp_path):
    checkout(tmp_path, "")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/cmake").write_text(f"#!/bin/sh\nprintf '{said}'\nexit 1\n")
    (tmp_path / ".venv/bin/cmake").chmod(0o755)
    done = build(tmp_path, "cpu", "attest")
    assert done.returncode == 1 and done.stderr.endswith(
        f"attest: configuring failed. Log: {tmp_path}/build/cpu/configuring.log\n")
    assert ("\nkilled\n" in done.stderr) == ("killed" in said) and "a.cpp" not in done.stderr
