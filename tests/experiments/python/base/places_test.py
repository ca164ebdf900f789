"""Where the parts of attest are found: in a checkout, what was built last; installed, nothing of a checkout."""
import os

import pytest

from attest.base import places


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package at the place that it has in a checkout."""
    folder = tmp_path / "experiments/python/attest"
    folder.mkdir(parents=True)
    (folder / "code.py").write_text("1")
    monkeypatch.setattr(places, "PACKAGE", folder)
    return folder


def test_an_installed_package_finds_nothing_of_a_checkout(package, tmp_path):
    (tmp_path / "build/cpu").mkdir(parents=True)
    (tmp_path / "build/cpu/attest").touch()
    assert places.checkout() is None and places.built("attest") == []


def test_the_newest_build_of_a_checkout_comes_first(package, tmp_path):
    (tmp_path / "CMakePresets.json").touch()
    assert places.checkout() == tmp_path and places.built("attest") == []
    paths = [tmp_path / f"build/{preset}/attest" for preset in ("release", "cpu", "dev")]
    for age, path in enumerate(paths):
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (1e9 + age, 1e9 + age))
    assert places.built("attest") == [paths[1], paths[0]], "dev is not for use"


def test_the_digest_of_the_code_is_of_names_and_contents(package):
    before = places.code_digest()
    (package / "notes.txt").touch()
    assert places.code_digest() == before
    (package / "code.py").write_text("2")
    changed = places.code_digest()
    (package / "code.py").rename(package / "other.py")
    assert len({before, changed, places.code_digest()}) == 3
