"""KV_EXAMPLE.md quotes what its commands print, run one after the other.

`PYTHONPATH=tests/helpers python tests/experiments/validation/kv_example_test.py` with ATTEST_BIN and
ATTEST_SOURCE_DIR set writes the quotes anew."""

import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from attest_program import ATTEST

ROOT = Path(os.environ["ATTEST_SOURCE_DIR"])
DOCUMENT = ROOT / "experiments/validation/KV_EXAMPLE.md"
QUOTE = re.compile(r"^```\n\$ (.*)\n((?:.*\n)*?)```$", re.MULTILINE)  # command, output


def run(command, folder):
    words = [ATTEST if word == "attest" else word for word in shlex.split(command)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 3), (command, done.stderr)
    return done.stdout


def outputs(folder):
    (Path(folder) / "dumps").symlink_to(ROOT / "dumps")
    return {command: run(command, folder) for command, _ in QUOTE.findall(DOCUMENT.read_text())}


def cut(output, quoted):
    """The document leaves out the end where it says so."""
    lines = output.splitlines()
    return lines[: quoted.splitlines().index("[...]")] + ["[...]"] if "[...]" in quoted else lines


def test_the_document_quotes_what_its_commands_print(tmp_path):
    printed = outputs(tmp_path)
    assert len(printed) >= 6
    for command, quoted in QUOTE.findall(DOCUMENT.read_text()):
        assert cut(printed[command], quoted) == quoted.splitlines(), command


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        anew = outputs(made)
    DOCUMENT.write_text(
        QUOTE.sub(lambda m: "```\n$ " + m[1] + "\n" + "".join(line + "\n" for line in cut(anew[m[1]], m[2])) + "```",
                  DOCUMENT.read_text()))
