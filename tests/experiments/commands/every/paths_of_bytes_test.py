"""Paths need not be UTF-8: what the commands of the Python package are handed over."""
import json
import os
import subprocess

import pytest

from attest_program import ATTEST

# Python imports this module first.
SHOW_REQUEST = "import os, sys\nprint(sys.orig_argv[-1], flush=True)\nos._exit(0)\n"
DUMP, OUTPUT = b"d\xc3\xa9\xff.h5", b"o\xed\xa0\x80.h5"


def request_of(folder, *words):
    (folder / "sitecustomize.py").write_text(SHOW_REQUEST)
    done = subprocess.run([ATTEST, *words, "-o", OUTPUT], cwd=folder, capture_output=True,
                          env={**os.environ, "PYTHONPATH": str(folder)})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_bytes(text):
    return text.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("where", ["--mpi", "--dask=local:1", "--slurm=partition=gpu"])
def test_of_a_study_elsewhere(tmp_path, where):
    request = request_of(tmp_path, "run", DUMP, "--selector", "exact", where)
    assert as_bytes(request["output"]) == OUTPUT and DUMP in map(as_bytes, request["words"])


def test_of_an_import(tmp_path):
    request = request_of(tmp_path, "import", DUMP)
    assert as_bytes(request["source"]) == DUMP and as_bytes(request["target"]) == OUTPUT
