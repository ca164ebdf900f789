"""Pooled files need not share their prompts: what `attest figures` compares is of the same ones."""

import h5py
import pytest
import results_maker
from figures_command import figures
from results_maker import ffd, quest, write_results
from study_maker import figures as figures_of, make

FFD, QUEST = ffd(pseudo_max="thumbnail", dense_layers=0), quest(dense_layers=0)
DENSE = ffd("ffd:dense_layers=2", pseudo_max="thumbnail", dense_layers=2)
for one in (FFD, QUEST, DENSE):
    one["options"]["dense_layers"] = one["dense_layers"]
# Experiment -> what it compares, and the words with which it does.
COMPARED = {"task_fidelity": (FFD, QUEST, "has a higher mean recall than"),
            "layer_correlation": (FFD, QUEST, "Spearman's rho of ffd is above that of quest"),
            "early_layers": (FFD, DENSE, "With dense layers (ffd:dense_layers=2)")}


@pytest.mark.parametrize("experiment", COMPARED)
def test_selectors_of_other_prompts_are_not_compared(tmp_path, experiment):
    first, second, words = COMPARED[experiment]
    together = make(tmp_path / "r.h5", [first, second], {"a": "one", "b": "one", "c": "two"}, spans=("a", "b", "c"))
    apart = [make(tmp_path / f"{name}.h5", [one], {name: "one"}, spans=(name,), samples={name: [0, 1, 2, 5]}, dump="d",
                  seed=seed) for seed, (name, one) in enumerate({"x": first, "y": second}.items())]
    assert words in figures_of(together, tmp_path / "out", "--only", experiment)
    said = figures_of(apart, tmp_path / "apart", "--only", experiment)
    assert words not in said and experiment in said


def test_a_prompt_of_two_files_is_one_sample(tmp_path):
    files = [write_results(tmp_path / f"{one['label']}.h5", [one], samples={"a": [2, 5], "b": [2]}, dump="d")
             for one in (ffd(), quest(dense_layers=0))]
    figures(*files, "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "svg")
    assert ", 2 samples, results ffd.h5" in (tmp_path / "out/captions.md").read_text()


def test_curves_are_compared_over_the_same_prompts(tmp_path, monkeypatch):
    """One of two pooled files, of other prompts, has settings more; their points stand for it alone."""
    files = []
    for name, grids in {"a": (["3", "5", "7"], ["256", "1024"]), "b": (["3", "7"], ["256", "1024"])}.items():
        for setting, grid in zip(("delta", "budget"), grids, strict=True):
            monkeypatch.setitem(results_maker.GRIDS, setting, (grid, [float(text) for text in grid]))
        files.append(write_results(tmp_path / f"{name}.h5", [ffd(), quest(dense_layers=0)], samples={name: [2, 5]},
                                   dump=name))
        with h5py.File(files[-1], "r+") as file:
            sample = file[f"dumps/0/samples/{name}"]
            sample["ffd/io_ratio"][...] = [{"3": 0.1, "5": 0.25, "7": 0.4}[d] for d in grids[0]]
            sample["ffd/recall"][...] = [{"3": 0.6, "5": 0.1, "7": 0.8}[d] for d in grids[0]]
            sample["quest/io_ratio"][...] = [0.1, 0.4]
            sample["quest/recall"][...] = [0.5, 0.7]
    said = figures(*files, "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "svg").stdout
    assert "At io 0.25 the mean recall of ffd is 0.7000 against 0.6000 of quest" in said
    captions = (tmp_path / "out/captions.md").read_text()
    assert "; 1 of the 3 settings of ffd are not of all samples" in captions and "queries (24 to 48 cells)" in captions
    alone = write_results(tmp_path / "c.h5", [quest("other", dense_layers=0)], samples={"c": [2]}, dump="c")
    only = write_results(tmp_path / "d.h5", [ffd()], samples={"d": [2]}, dump="d")
    assert "At io" not in figures(alone, only, "-o", tmp_path / "none", "--only", "quality_vs_io", "--format",
                                  "svg").stdout, "they have no prompt in common"
