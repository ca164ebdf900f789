"""example.sh goes on where it was interrupted, and judges no studies of something else. A stub replaces the program."""
import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(os.environ["ATTEST_SOURCE_DIR"]) / "experiments/validation/example.sh"
STUB = """#!/usr/bin/env bash
echo "$1" >>calls
[ "$1" != "$(cat fails 2>/dev/null)" ] || exit 130
while [ $# != 0 ]; do
  [ "$1" != -o ] || echo x >"$2"
  shift
done
"""
JUDGED = ["validate"] * 4


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "attest").write_text(STUB)
    (tmp_path / "attest").chmod(0o755)
    (tmp_path / "prompts.jsonl").write_text("".join(f'{{"text": "{i}"}}\n' for i in range(4)))
    return tmp_path


def script(folder, *options, model="model", prompts="prompts.jsonl", expect=0, **environment):
    """What of the program was called."""
    (folder / "calls").write_text("")
    done = subprocess.run([SCRIPT, model, prompts, "a folder", *options], cwd=folder, capture_output=True,
                          text=True,
                          env={**os.environ, "ATTEST": "./attest", "PART": "2", **environment})
    assert done.returncode == expect, done.stderr
    return (folder / "calls").read_text().split(), done.stderr


def test_studies_are_made_once(folder):
    assert script(folder)[0] == ["capture", "run"] * 2 + JUDGED
    assert script(folder)[0] == JUDGED
    assert not list(folder.glob("*/dump*"))
    with open(folder / "prompts.jsonl", "a") as prompts:
        prompts.write('{"text": "more"}\n')
    assert script(folder)[0] == ["capture", "run"] + JUDGED


def test_prompts_in_the_folder_of_the_studies_are_kept(folder):
    own = folder / "a folder/prompts.llama.jsonl"
    own.parent.mkdir()
    text = (folder / "prompts.jsonl").read_text()
    own.write_text(text)
    assert script(folder, prompts=own)[0] == ["capture", "run"] * 2 + JUDGED
    assert script(folder, prompts=own)[0] == JUDGED and own.read_text() == text


@pytest.mark.parametrize("fails, left", [("capture", ["capture", "run"]), ("run", ["run"])])
def test_an_interrupted_script_goes_on(folder, fails, left):
    (folder / "fails").write_text(fails)
    script(folder, expect=130)
    (folder / "fails").unlink()
    assert script(folder)[0] == left + ["capture", "run"] + JUDGED


@pytest.mark.parametrize("change", [{"model": "other"}, {"options": ["--tokenizer", "bytes"]}, {"QUERIES": "2"},
                                    {"DELTA": "1:4:1"}, {"PART": "3"},
                                    {"prompts": "x"}])
@pytest.mark.parametrize("interrupted", [False, True])
def test_studies_of_something_else_are_refused(folder, change, interrupted):
    if interrupted:
        (folder / "fails").write_text("run")
    script(folder, expect=130 if interrupted else 0)
    if "prompts" in change:
        (folder / "prompts.jsonl").write_text((folder / "prompts.jsonl").read_text().replace("0", change["prompts"]))
    given = {name: value for name, value in change.items() if name not in ("options", "prompts")}
    calls, error = script(folder, *change.get("options", []), expect=2, **given)
    file = "dump.000.h5" if interrupted else "study.000.h5"
    assert not calls and error == (f"example.sh: a folder/{file} is of another model, other prompts or options: "
                                   "name another FOLDER or empty it\n")
    assert (folder / "a folder" / file).exists()


def test_studies_without_a_note_are_refused(folder):
    script(folder)
    (folder / "a folder/made_from.001").unlink()
    assert "a folder/study.001.h5 is of another model" in script(folder, expect=2)[1]
