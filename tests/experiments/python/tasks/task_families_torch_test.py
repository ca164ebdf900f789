"""attest tasks over the families that capture supports: everything kept is dense, also with a dump; hybrids are
refused."""

import h5py
import pytest

from task_runs_maker import SELECTORS, tasks, write_lines
from capture_models import HYBRIDS, models, token_ids  # noqa: F401

PROMPTS = [{"name": f"p{i}", "tokens": token_ids(40 + i, i), "answer": [65, 66, 67]} for i in range(3)]


@pytest.mark.parametrize("family", ["mistral", "gemma2", "phi3", "gpt_oss", "deepseek_v3"])
def test_everything_kept_is_dense(family, models, tmp_path):  # noqa: F811
    path = write_lines(tmp_path / "p.jsonl", PROMPTS)
    assert tasks(models(family), tmp_path / "t.h5", f"--prompts={path}", f"--dump={tmp_path}/d.h5") == 0
    with h5py.File(tmp_path / "t.h5") as file, h5py.File(tmp_path / "d.h5") as dump:
        replies, kept = file["outcomes/answer"].asstr()[()], file["outcomes/kept_ratio"][()]
        assert (replies[:, 0] == replies[:, 1]).all() and (kept[:, 1] == 1).all() and (kept[:, 2] < 1).all()
        assert sorted(dump["samples"]) == ["p0", "p1", "p2"]


@pytest.mark.parametrize("family", sorted(HYBRIDS))
def test_models_without_a_cache_that_can_be_cut_are_refused(family, models, tmp_path, capsys):  # noqa: F811
    path = write_lines(tmp_path / "p.jsonl", PROMPTS)
    folder = models(family)
    capsys.readouterr()
    assert tasks(folder, tmp_path / "t.h5", f"--prompts={path}", selectors=SELECTORS[:1]) == 4
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and ("cannot be cut back" in said or "no attention" in said), said
    assert [p.name for p in tmp_path.iterdir()] == ["p.jsonl"]
