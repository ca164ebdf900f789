"""A study of 24 layers that clusters share, and what one process makes of it."""

import pytest

from attest_program import attest
from shared_runs import CLEAN, SELECTORS, write_dump


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch, tmp_path_factory):
    """Workers that are killed leave their folders there."""
    place = str(tmp_path_factory.mktemp("t"))  # short, for MPI's sockets
    monkeypatch.setitem(CLEAN, "TMPDIR", place)
    monkeypatch.setenv("TMPDIR", place)


@pytest.fixture(scope="module")
def dump(folder):
    return write_dump(folder / "d.h5", tokens=3000, layers=24)


@pytest.fixture(scope="module")
def plain(folder, dump):
    attest("run", dump, "-o", folder / "plain.h5", *SELECTORS, env=CLEAN)
    return folder / "plain.h5"
