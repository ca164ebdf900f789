"""A full disk, and files of another user: commands that write end in one sentence and the right code, and leave nothing
behind."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from attest_program import ATTEST, attest, run_attest
import results_maker

WRITERS = {
    "synth": ["synth", "-o", "OUT/s.h5", "--tokens", "4096"],
    "import": ["import", "a.npz", "-o", "OUT/i.h5"],
    "run": ["--device", "cpu", "run", "d.h5", "-o", "OUT/r.h5", "--selector", "ffd"],
    "chunk": ["--device", "cpu", "run", "d.h5", "--selector", "ffd", "--chunk", "OUT/c", "--units", "0"],
    "figures": ["figures", "made.h5", "-o", "OUT/f"],
    "report": ["report", "made.h5", "-o", "OUT/r.html"],
    "table": ["table", "made.h5", "-o", "OUT/t.csv"],
    "claims": ["claims", "made.h5", "-o", "OUT/c.md"],
    "compare": ["compare", "made.h5", "made.h5", "-o", "OUT/c.md"],
    "table in Markdown": ["table", "made.h5", "--by", "layer", "-o", "OUT/t.md"],
    "demo": ["demo", "-o", "OUT/demo"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("full")
    attest("--quiet", "synth", "-o", "d.h5", "--tokens", "600", "--layers", "2", cwd=path)
    results_maker.write_results(path / "made.h5", [results_maker.ffd(), results_maker.quest()])
    np.savez(path / "a.npz", **{f"model.layers.0.{t}": np.zeros((2, 900 if t != "q" else 2, 64), np.float32)
                                for t in "qkv"})
    (path / "full").mkdir()
    return path


def in_full_disk(folder, arguments):
    """On 1 MB that is full. The exit code, stderr, and what is left there."""
    script = (
        "mount -t tmpfs -o size=1m none full && { head -c 2M /dev/zero >full/filler 2>/dev/null; true; } || exit 77; "
        '"$@" >out 2>err; code=$?; ls -A full >left; exit $code')
    done = subprocess.run(["unshare", "--map-root-user", "--mount", "bash", "-c", script, "bash", ATTEST, *arguments],
                          cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no file system can be mounted here")
    return done.returncode, (folder / "err").read_text(), (folder / "left").read_text().split()


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk(folder, name):
    code, error, left = in_full_disk(folder, [word.replace("OUT", "full") for word in WRITERS[name]])
    assert code == 5, error
    assert "internal" not in error and "Traceback" not in error and re.search(
        "No space left|has 0 B free", error.splitlines()[-1])
    # What is finished of a study stays, as after a kill.
    assert [entry for entry in left if entry != "filler" and not entry.endswith(".partial")] == []


def skip_without_another_user():
    if os.geteuid() != 0:
        pytest.skip("needs another user")
    if not all(place.stat().st_mode & 0o001 for place in (Path(ATTEST), *Path(ATTEST).parents)):
        pytest.skip("the checkout is in a folder that other users cannot enter")


@pytest.fixture(scope="module")
def open_folder(folder):
    """The same files where every user may enter. pytest takes that right from its own folders whenever a pytest
    starts."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        for file in folder.glob("*.*"):
            shutil.copy(file, path)
        yield path


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_of_another_user(open_folder, name):
    skip_without_another_user()
    folder, place = open_folder, open_folder / f"theirs-{name}"
    place.mkdir(mode=0o755)
    done = attest(*(word.replace("OUT", str(place)) for word in WRITERS[name]), cwd=folder, user=65534,
                  env=os.environ | {"HOME": "/tmp", "TMPDIR": "/tmp"}, expect=5)
    assert "ermission denied" in done.stderr.splitlines()[-1] and not list(place.iterdir())


def test_a_folder_that_cannot_be_entered(open_folder):
    skip_without_another_user()
    closed = open_folder / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0o700)
    for arguments in WRITERS["report"], WRITERS["run"]:
        words = [word.replace("OUT", str(closed / "inner")) for word in arguments]
        done = run_attest(*words, cwd=open_folder, user=65534)
        assert done.returncode == 5 and done.stderr.startswith(f"attest: cannot write '{closed}/inner/r.h"), done.stderr
        assert done.stderr.endswith("': Permission denied\n") and done.stderr.count("\n") == 1, done.stderr


def test_an_input_of_another_user(open_folder):
    skip_without_another_user()
    folder = open_folder
    for name in "d.h5", "made.h5":
        (folder / name).chmod(0o600)
    for arguments in ["inspect", "d.h5"], ["run", "d.h5", "-o", "x.h5"], ["table", "made.h5"], [
        "figures", "made.h5", "-o", "x"]:
        done = run_attest(*arguments, cwd=folder, user=65534)
        assert done.returncode == 4 and "Permission denied" in done.stderr and done.stderr.count("\n") == 1, done.stderr
