"""Every golden case on the CPU."""

import os

import h5py
import pytest

from goldens import check


@pytest.mark.parametrize("case", check.cases())
def test_conforms(case):
    outcome = check.check(os.environ["ATTEST_BIN"], case, "cpu")
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert outcome.kept_sets > 0


def test_the_cases_are_all_there():
    assert len(check.cases()) == 11
    for case in check.cases():
        assert (check.FOLDER / f"{case}.h5").is_file() and (check.FOLDER / f"{case}.expected.h5").is_file(), case


def altered(folder, change):
    """A copy of the expected values of one case, with `change` made to one cell of one metric."""
    text = (check.FOLDER / "short.expected.h5").read_bytes()
    path = folder / "short.expected.h5"
    path.write_bytes(text)
    for name in ("short.h5", "short.args"):
        (folder / name).write_bytes((check.FOLDER / name).read_bytes())
    with h5py.File(path, "r+") as file:
        sample = next(iter(file))
        change(file[sample])


@pytest.mark.parametrize("metric", ["recall", "keep_ratio", "spearman"])
def test_a_wrong_cell_is_found(metric, tmp_path, monkeypatch):
    def change(group):
        values = group[f"ffd/{metric}"][()]
        values[-1, -1, -1] += 1e-3
        group[f"ffd/{metric}"][...] = values

    altered(tmp_path, change)
    monkeypatch.setattr(check, "FOLDER", tmp_path)
    assert check.check(os.environ["ATTEST_BIN"], "short", "cpu", ["ffd"]).wrong


def test_a_missing_label_is_found(tmp_path, monkeypatch):
    altered(tmp_path, lambda group: group.move("ffd", "other"))
    (tmp_path / "short.args").write_text("--selector\nother=exact")
    monkeypatch.setattr(check, "FOLDER", tmp_path)
    assert check.check(os.environ["ATTEST_BIN"], "short", "cpu").wrong
