"""Every golden case on the CPU."""

import h5py
import numpy as np
import pytest

from attest_program import ATTEST
from goldens import check


@pytest.mark.parametrize("case", check.cases())
def test_conforms(case):
    outcome = check.check(ATTEST, case, "cpu")
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert outcome.kept_sets > 0


def test_the_cases_are_all_there():
    assert len(check.cases()) == 13
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
    assert check.check(ATTEST, "short", "cpu", ["ffd"]).wrong


def test_a_missing_label_is_found(tmp_path, monkeypatch):
    altered(tmp_path, lambda group: group.move("ffd", "other"))
    (tmp_path / "short.args").write_text("--selector\nother=exact")
    monkeypatch.setattr(check, "FOLDER", tmp_path)
    assert check.check(ATTEST, "short", "cpu").wrong


def test_a_cell_far_off_is_no_tie(monkeypatch):
    """On CUDA a share of the cells may be off, but none by more than a tie explains."""
    monkeypatch.setitem(check.CELLS_MAY_BE_OFF, "cpu", {"step": 0.15, "other": 0.025})
    tokens = np.full((1, 1), 400)
    for metric, near, far in (("salient_ratio", 0.104, 0.2), ("spearman", 0.104, 0.2), ("recall", 0.09, 0.104)):
        want = np.full((1, 1, 4, 30), 0.5)
        if metric == "spearman":
            want = want.reshape(1, 1, 120)
        for difference, accepted in ((near, True), (far, False), (np.nan, False)):
            have = want.copy()
            have.flat[7] += difference
            outcome = check.Outcome()
            with h5py.File("cells", "w", driver="core", backing_store=False) as file:
                file[f"expected/{metric}"], file[f"found/{metric}"] = want, have
                check.compare_label("x", file["expected"], file["found"], tokens, "cpu", outcome)
            assert (len(outcome.ties), not outcome.wrong) == (accepted, accepted), (metric, difference, outcome)
