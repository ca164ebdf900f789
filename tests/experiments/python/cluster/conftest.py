"""A study of 24 layers that clusters share, and what one process makes of it."""
import subprocess

import pytest

from shared_runs import ATTEST, CLEAN, SELECTORS, write_dump


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def dump(folder):
    return write_dump(folder / "d.h5", tokens=3000, layers=24)


@pytest.fixture(scope="module")
def plain(folder, dump):
    subprocess.run([ATTEST, "run", dump, "-o", folder / "plain.h5", *SELECTORS], env=CLEAN, check=True, capture_output=True)
    return folder / "plain.h5"
