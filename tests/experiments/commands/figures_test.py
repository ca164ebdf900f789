"""`attest figures` on the real executable: studies that are pooled or apart, files, pictures, captions and refusals."""

import json
import os
import re
import resource
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from attest_program import run_attest
from csv_rows import NUMBER, read_csv
from figures_command import HAS_GNUPLOT, figures, needs_gnuplot, number, study  # noqa: F401
from results_maker import EXACT, cells, ffd, quest, write_results


def test_findings_quote_the_csv(study):
    _, out, said = study
    rows = {(row["curve"], row["setting_label"]): row for row in read_csv(out / "quality_vs_io.csv")}
    sentence = re.search(r"At io (\S+) the mean recall of ffd is (\S+) against (\S+) of quest", said)
    io, ours, theirs = map(float, sentence.groups())
    assert io == 0.25 or "0.25" not in said
    for curve, value in (("ffd", ours), ("quest", theirs)):
        points = sorted((number(r, "io_ratio"), number(r, "recall_mean")) for (c, _), r in rows.items() if c == curve)
        assert value == pytest.approx(np.interp(io, *zip(*points)), abs=0.01)  # io is printed with two digits
    at_5 = rows["ffd", "5"]
    assert f"ffd at delta 5 keeps {100 * number(at_5, 'keep_ratio'):.1f} % of the tokens" in said
    assert "Averages leave out layers 0 and 1, dense in one of the selectors" in said
    assert "share" not in said or "nan" not in said.lower()


def test_several_files_of_one_model_are_pooled(tmp_path):
    one = write_results(tmp_path / "1.h5", [ffd()], dump="1", seed=1)
    two = write_results(tmp_path / "2.h5", [ffd()], dump="2", seed=2, samples={"a": [3]})
    figures(one, two, "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "svg")
    pooled = [row for row in read_csv(tmp_path / "out/quality_vs_io.csv") if not row["sample"]]
    assert [row["setting_label"] for row in pooled] == ["3", "5", "7"]
    for row in pooled:
        recall = cells([one, two], "ffd", "recall", row["setting_label"])
        assert number(row, "recall_mean") == pytest.approx(recall.mean(), abs=NUMBER)
        assert number(row, "clusters") == 4


def test_models_are_never_pooled_but_rows_of_one_figure(tmp_path):
    one = write_results(tmp_path / "1.h5", [ffd()], model="org/Tiny 1B", dump="1", seed=1)
    two = write_results(tmp_path / "2.h5", [ffd()], model="other", dump="2", seed=2)
    said = json.loads(figures(one, two, "-o", tmp_path / "out", "--only", "layer_sparsity", "--format", "svg",
                              "--json").stdout)
    assert [e["study"] for e in said["experiments"]] == ["org/Tiny 1B; other"]
    rows = read_csv(tmp_path / "out/layer_sparsity.csv")
    assert {row["study"] for row in rows} == {"org/Tiny 1B", "other"}
    row = next(r for r in rows if (r["study"], r["delta"], r["layer"]) == ("other", "7", "2"))
    tokens = cells([two], "ffd", "keep_ratio", "7", lambda layer: layer == 2)
    assert number(row, "tokens_skipped_mean") == pytest.approx(1 - tokens.mean(), abs=NUMBER)
    if HAS_GNUPLOT:
        svg = (tmp_path / "out/layer_sparsity.svg").read_text()
        assert "org/Tiny 1B" in svg and "other" in svg


def test_too_many_models_for_one_page_have_figures_of_their_own(tmp_path):
    files = [write_results(tmp_path / f"{i}.h5", [ffd()], model=f"m {i}", dump=f"{i}", seed=i) for i in range(4)]
    figures(*files, "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "svg")
    assert sorted(p.name for p in (tmp_path / "out").glob("*.csv")) == [f"quality_vs_io-m-{i}.csv" for i in range(4)]


@pytest.mark.parametrize("by, titles", [("task", {"tiny, qa", "tiny, code"}),
                                        ("length", {"tiny, 2K tokens", "tiny, 16K tokens"})])
def test_tasks_and_lengths_are_studies_of_their_own(tmp_path, by, titles):
    path = write_results(tmp_path / "r.h5", [ffd()], samples={"a": [2], "b": [2], "c": [2]})
    with h5py.File(path, "r+") as file:
        for sample, (task, tokens) in {"a": ("qa", 2000), "b": ("code", 15000), "c": ("qa", 2100)}.items():
            file["dumps/0/samples"][sample].attrs.update({"task": task, "num_tokens": tokens})
    figures(path, "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "svg", "--by", by)
    rows = read_csv(tmp_path / "out/quality_vs_io.csv")
    assert {row["study"] for row in rows} == titles
    with h5py.File(path) as file:
        for row in rows:
            mine = ["b"] if "code" in row["study"] or "16K" in row["study"] else ["a", "c"]
            mine = [row["sample"]] if row["sample"] else mine
            at = list(file["dumps/0/samples/a/ffd/setting_labels"].asstr()).index(row["setting_label"])
            values = np.concatenate([file["dumps/0/samples"][s]["ffd/recall"][..., at].ravel() for s in mine])
            assert number(row, "recall_mean") == pytest.approx(np.nanmean(values), abs=NUMBER)


@needs_gnuplot
def test_style_width_and_linear_axes_change_the_picture(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd()])
    draw = lambda name, *more: figures(path, "-o", tmp_path / name, "--only", "quality_vs_io", "--format", "svg", *more)
    draw("paper"), draw("wide", "--width", "84mm"), draw("slides", "--style", "slides"), draw("linear", "--linear")
    width = {n: float(re.search(r'width="(\d+)"', (tmp_path / n / "quality_vs_io.svg").read_text())[1])
             for n in ("paper", "wide", "slides")}
    assert width["paper"] == round(3.3 * 96) and width["slides"] == 8 * 96 \
        and width["wide"] == pytest.approx(84 / 25.4 * 96, abs=1)
    assert "1 - column('recall_mean')" in (tmp_path / "paper/quality_vs_io.gp").read_text()
    assert "1 - column('recall_mean')" not in (tmp_path / "linear/quality_vs_io.gp").read_text()
    for text in ("84", "0.2in", "99in", "xin", ""):
        refused = figures(path, "-o", tmp_path / "no", "--width", text, expect=2)
        assert "--width: " in refused.stderr \
            and "is not a length such as 3.25in or 84mm, from 1 to 30 in" in refused.stderr


@needs_gnuplot
def test_tikz_is_latex(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd("ffd_a", sub_block=64)])
    figures(path, "-o", tmp_path / "out", "--only", "quality_vs_io", "--format", "tikz")
    picture = (tmp_path / "out/quality_vs_io.tikz").read_text()
    assert "\\begin{tikzpicture}" in picture and "ffd\\_a" in picture and "tokens kept (\\%)" in picture


def test_captions_say_samples_cells_intervals_and_hash(study):
    path, out, _ = study
    captions = (out / "captions.md").read_text()
    by_blocks = "split -b 1M --filter='xxhsum -H1 | cut -c1-16' {} | xxhsum -H1"
    assert re.search(
        r"\*\*quality_vs_io\*\*: .*3 samples, results r.h5 \([0-9a-f]{16}\).*\d+ cells.*small dots: the 3 samples",
        captions)
    assert " Bands: 5 % to 95 % quantile over heads.\n" in captions, "the note is a sentence there"
    if shutil.which("xxhsum"):
        expected = subprocess.run(["sh", "-c", by_blocks.format(path)], capture_output=True, text=True).stdout[:16]
        assert expected in captions


def test_what_cannot_be_made_is_said(tmp_path):
    path = write_results(tmp_path / "r.h5", [EXACT, quest(dense_layers=0)])
    said = json.loads(figures(path, "-o", tmp_path / "out", "--format", "svg", "--json").stdout)
    assert "quality_vs_io" in [f["experiment"] for f in said["experiments"]]
    skipped = {s["experiment"]: (s["reason"], s["run_options"]) for s in said["skipped"]}
    assert skipped["pseudo_max_gap"] == ("needs the selector ffd", "--selector ffd")
    assert skipped["layer_sparsity"] == ("needs ffd with delta 5 or 7 in its grid", "--selector ffd --delta 5,7")
    text = figures(path, "-o", tmp_path / "text", "--format", "svg").stdout
    assert ("left out: layer_sparsity (tiny): needs ffd with delta 5 or 7 in its grid; attest run ... --selector ffd "
            "--delta 5,7\n") in text
    only_exact = write_results(tmp_path / "e.h5", [EXACT])
    failed = figures(only_exact, "-o", tmp_path / "none", expect=4)
    assert "the results support no figure: quality_vs_io needs a selector other than exact" in failed.stderr
    assert not (tmp_path / "none").exists()
    dense = write_results(tmp_path / "d.h5", [ffd(), quest()], samples={"a": [0, 1]})
    assert "run them with dense_layers=0" in figures(dense, "-o", tmp_path / "d", "--format", "svg").stdout


def test_without_gnuplot_data_and_scripts_are_made(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd()])
    empty = tmp_path / "empty"
    empty.mkdir()
    done = figures(path, "-o", tmp_path / "out", env={**os.environ, "PATH": str(empty)})
    assert done.stderr.count("\n") == 1 and "gnuplot is not installed" in done.stderr
    files = {p.suffix for p in (tmp_path / "out").iterdir()}
    assert {".csv", ".gp"} <= files <= {".csv", ".gp", ".md", ".tex"}


@needs_gnuplot
def test_pictures_and_scripts_draw_the_same(study, tmp_path):
    path, _, _ = study
    out = tmp_path / "all"
    figures(path, "-o", out)
    names = {"quality_vs_io", "layer_sparsity", "pseudo_max_gap"}
    assert {p.name for p in out.iterdir()} >= {f"{n}.{e}" for n in names for e in ("csv", "gp", "pdf", "svg", "png")}
    for name in names:
        before = (out / f"{name}.svg").read_text()
        assert before.count("xlink:href='#gpPt") > 5, "curves have markers"
        (out / f"{name}.svg").unlink()
        done = subprocess.run(["gnuplot", "-e", "formats='svg'", f"{name}.gp"], cwd=out, capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert (out / f"{name}.svg").read_text() == before


@needs_gnuplot
def test_every_curve_of_the_csv_is_drawn(study):
    """Labels contain commas and colons: gnuplot must still find every curve."""
    _, out, _ = study
    svg = (out / "quality_vs_io.svg").read_text()
    for title in ("ffd", "ffd:gqa=per_head", "quest", "best,k (oracle)"):
        assert f">{title}<" in svg
    rows = [r for r in read_csv(out / "quality_vs_io.csv") if r["layers"] == "compared" and r["selector"] != "exact"]
    # an oracle has no paper
    rings = sum(r["default"] == "1" and not r["sample"] and r["label"] != "best,k" for r in rows)
    markers = svg.count("<use xlink:href='#gpPt", svg.index("gnuplot_plot_1"))
    legend = 4 + 1
    assert markers == 4 * (len(rows) + rings) + legend


@needs_gnuplot
def test_a_gnuplot_that_fails_is_one_sentence_and_exit_5(tmp_path):
    """It costs the pictures of the figure on which it fails, and nothing else."""
    path = write_results(tmp_path / "r.h5", [ffd()])
    broken, out = tmp_path / "bin/gnuplot", tmp_path / "out"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\ncase $4 in quality_vs_io.gp) echo 'unknown terminal type' >&2; exit 1;; esac\n"
                      f"exec {shutil.which('gnuplot')} \"$@\"\n")
    broken.chmod(0o755)
    env = {**os.environ, "PATH": f"{broken.parent}:{os.environ['PATH']}"}
    whole = tmp_path / "whole"
    figures(path, "-o", whole, "--format", "svg,png")
    done = figures(path, "-o", out, "--format", "svg,png", expect=5, env=env)
    said = f"gnuplot could not draw quality_vs_io.gp: unknown terminal type; all else is written to {out}"
    assert done.stderr == f"attest: {said}\n" and "quality_vs_io.{csv,gp}" in done.stdout
    lost = {"quality_vs_io.svg", "quality_vs_io.png"}
    assert {p.name for p in out.iterdir()} == {p.name for p in whole.iterdir()} - lost
    captions = (out / "captions.md").read_text()
    assert "quality_vs_io.svg" not in captions and "layer_sparsity.svg" in captions
    again = figures(path, "-o", whole, "--format", "svg,png", "--force", "--json", expect=5, env=env)
    assert json.loads(again.stdout)["failed"] == [said.partition(";")[0]]
    assert not lost & {p.name for p in whole.iterdir()}, "they show what was"


@needs_gnuplot
@pytest.mark.parametrize("blocks", [1, 2, 8, 16, 40])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path, blocks):
    """A limit on the size of files stands for a full disk: gnuplot cuts its pictures there and reports nothing."""
    path = write_results(tmp_path / "r.h5", [ffd(), quest()])
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (blocks * 1024, blocks * 1024))
    done = run_attest("figures", path, "-o", tmp_path / "out", preexec_fn=limit)
    assert done.returncode == 5 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and f"attest: cannot write to the folder {tmp_path / 'out'}: " in done.stderr
    assert not (tmp_path / "out").exists()


def test_force_replaces_files_only(study):
    path, out, _ = study
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    (out / "quality_vs_io.gp").unlink()
    os.mkfifo(out / "quality_vs_io.gp")
    refused = figures(path, "-o", out, "--format", "svg", "--force", expect=5)
    assert refused.stderr == f"attest: {out}/quality_vs_io.gp: expected a file that --force can replace, found a pipe\n"
    assert {p.name: p.read_bytes() for p in out.iterdir() if p.is_file()} == {
        n: b for n, b in before.items() if n != "quality_vs_io.gp"}


def test_captions_of_other_experiments_stay(study):
    path, out, _ = study

    def sections():
        return [line.split(":")[0] for line in (out / "captions.md").read_text().splitlines() if line.startswith("## ")]

    before = sections()
    figures(path, "-o", out, "--format", "svg,png", "--only", "quality_vs_io", "--force")
    others = [out / "quality_vs_io.pdf", out / "layer_sparsity.png", out / "quality_vs_io.txt"]
    assert all(path.write_text("mine") for path in others)
    assert (out / "quality_vs_io.png").exists()
    figures(path, "-o", out, "--format", "svg", "--only", "quality_vs_io", "--force")
    assert not (out / "quality_vs_io.png").exists(), "no picture of before beside the new caption"
    assert all(path.read_text() == "mine" for path in others)
    assert len(before) > 3 and sections()[0] == "## quality_vs_io" and sorted(sections()) == sorted(before)


def test_figures_that_are_not_made_again_are_removed(tmp_path):
    """The names of some depend on the results."""
    out = tmp_path / "out"
    both = write_results(tmp_path / "both.h5", [ffd(), ffd("heads", "per_head"), EXACT])
    figures(both, "-o", out, "--format", "svg", "--only", "headwise")
    assert (out / "headwise_per_head.csv").exists()
    (out / "headwise_mine.csv").write_text("mine")
    one = write_results(tmp_path / "one.h5", [ffd(), EXACT])
    figures(one, "-o", out, "--format", "svg", "--only", "headwise", "--force")
    assert {path.stem for path in out.iterdir()} == {"captions", "headwise_mine", "headwise_table", "headwise_union"}
    assert "per_head" not in (out / "captions.md").read_text().split("Files:")[-1]


def test_the_folder_is_made_whole(study, tmp_path):
    path, out, _ = study
    refused = figures(path, "-o", out, "--format", "svg", expect=5)
    assert "captions.md is there already: --force replaces it" in refused.stderr
    (out / "quality_vs_io.csv").write_text("old")
    (out / "notes.txt").write_text("mine")
    figures(path, "-o", out, "--format", "svg", "--force")
    assert (out / "quality_vs_io.csv").read_text() != "old"
    assert (out / "notes.txt").read_text() == "mine"
    assert not [p for p in out.iterdir() if p.name.startswith(".")]
    a_file = tmp_path / "file"
    a_file.write_text("")
    assert "is not a folder" in figures(path, "-o", a_file, expect=5).stderr


def test_wrong_usage_is_exit_2(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd()])
    unknown = figures(path, "-o", tmp_path / "out", "--only", "quality", expect=2)
    assert "--only: 'quality' is not one of quality_vs_io, " in unknown.stderr
    assert "--format: 'gif' is not one of pdf, svg, png, tikz" in figures(
        path, "-o", tmp_path / "out", "--format", "gif", expect=2).stderr
    assert "both hold sample 'a' of tiny.h5" in figures(path, path, "-o", tmp_path / "out", expect=2).stderr
    other = write_results(tmp_path / "o.h5", [ffd(bits=4)], dump="other.h5")
    assert "label 'ffd' of" in figures(path, other, "-o", tmp_path / "out", expect=2).stderr
    assert not (tmp_path / "out").exists()


def test_missing_or_foreign_files_are_exit_4(tmp_path):
    assert "missing.h5" in figures(tmp_path / "missing.h5", "-o", tmp_path / "out", expect=4).stderr
    Path(tmp_path / "text.h5").write_text("not HDF5")
    assert "text.h5" in figures(tmp_path / "text.h5", "-o", tmp_path / "out", expect=4).stderr
    path = tmp_path / "recommendation.json"
    path.write_text('{"format": "attest-recommendation", "format_version": 1}')
    assert figures(path, "-o", tmp_path / "out", expect=4).stderr == (
        f'attest: {path}: format is "attest-recommendation", expected one of "attest-kernel-bench", '
        '"attest-model-bench"\n')
