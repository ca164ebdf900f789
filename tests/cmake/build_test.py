"""cmake/build.sh sets up a compiler for CUDA for the presets that build with CUDA, and for no others."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRESETS = {preset["name"]: preset for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}


def builds_cuda(name):
    preset = PRESETS[name]
    found = preset.get("cacheVariables", {}).get("ATTEST_CUDA")
    return found != "OFF" if found else builds_cuda(preset["inherits"]) if "inherits" in preset else True


@pytest.mark.parametrize("preset", [name for name, preset in PRESETS.items() if not preset.get("hidden")])
def test_cuda_is_set_up_for_the_presets_that_have_it(preset, tmp_path):
    (tmp_path / "cmake").mkdir()
    for script in "build.sh", "watch.sh", "up_to_date.sh":
        shutil.copy(ROOT / "cmake" / script, tmp_path / "cmake")
    (tmp_path / "cmake/setup.sh").write_text('#!/bin/sh\necho "cuda=$ATTEST_CUDA $*"\nexit 1\n')
    (tmp_path / "cmake/setup.sh").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ATTEST_")}
    done = subprocess.run([tmp_path / "cmake/build.sh", preset, "attest", "--lm-eval"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (1, f"cuda={int(builds_cuda(preset))} --lm-eval\n"), done.stderr
