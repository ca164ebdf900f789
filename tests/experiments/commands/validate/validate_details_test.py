"""`attest validate --details`: the folder, and its numbers recomputed from the results file."""

import json
import math
import os
import shutil

import h5py
import numpy as np
import pytest
from attest_program import attest, run_attest
from csv_rows import read_csv
from near import CELL
from results_maker import write_results, ffd
from verdicts import TARGET, head_that_needs_more, planted

needs_gnuplot = pytest.mark.skipif(shutil.which("gnuplot") is None, reason="gnuplot is not installed")
TABLES = {f"{name}.{ending}" for name in ("settings", "groups") for ending in ("csv", "md", "tex")}
FILES = {"verdict.json", "verdict.md", "offenders.csv", "captions.md", "validation.csv", "validation.gp"} | TABLES


def validate(*arguments, expect, **options):
    return attest("validate", *arguments, **options, expect=expect)


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path / "r.h5", [ffd()], {f"p{i}": [0, 1, 2] for i in range(40)})


def means(path, metric):
    """[prompt][setting] the mean over the cells of a prompt."""
    with h5py.File(path) as file:
        return np.array([np.nanmean(s[f"ffd/{metric}"][()].astype(np.float64), axis=(0, 1, 2))
                         for s in file["dumps/0/samples"].values()])


def at_most(k, n, alpha):
    """The largest share p with P(Bin(n, p) <= k) > alpha, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2
        tail = sum(math.comb(n, i) * p**i * (1 - p)**(n - i) for i in range(k + 1))
        low, high = (p, high) if tail > alpha else (low, p)
    return high


def interval(k, n, alpha):
    """Clopper and Pearson's."""
    return 1 - at_most(n - k, n, alpha / 2), at_most(k, n, alpha / 2)


def test_every_number_is_that_of_the_prompts(results, tmp_path):
    recall, keep, io = (means(results, metric) for metric in ("recall", "keep_ratio", "io_ratio"))
    target = float(np.quantile(recall[:, 1], 0.03))  # some prompts violate at 5, nearly none at 7
    validate(results, "--target", f"recall>={target!r}", "--max-violating", "15%", "--details", tmp_path / "out",
             "--format", "svg", expect=0)
    rows = read_csv(tmp_path / "out/validation.csv")
    assert [row["setting"] for row in rows] == ["7", "5", "3"], "safest first"
    settings = {row["setting"]: row for row in read_csv(tmp_path / "out/settings.csv")}
    for row, column in zip(rows, (2, 1, 0), strict=True):
        k = int(np.sum(recall[:, column] < target))
        low, high = interval(k, 40, 0.05)
        upper = at_most(k, 40, 0.05)
        expected = {"n": 40, "k": k, "share": k / 40, "share_low": low, "share_high": high, "share_at_most": upper,
                    "keep_ratio": keep[:, column].mean(), "io_ratio": io[:, column].mean()}
        for name, value in expected.items():
            assert float(row[name]) == pytest.approx(value, abs=2e-6), (row["setting"], name)
            if name != "share_at_most":
                assert float(settings[row["setting"]][name]) == pytest.approx(value, abs=2e-6)
        assert (row["verdict"] == "certified") == (upper <= 0.15)
    certified = json.loads((tmp_path / "out/verdict.json").read_text())["certified"]
    assert [row["setting"] for row in rows if row["answer"] == "1"] == [f"{certified:g}"]
    assert len({row["verdict"] for row in rows}) > 1, "the case is not trivial"


def test_the_folder_has_what_was_said(results, tmp_path):
    arguments = (results, "--target", "recall>=0.5", "--target", "lse_error<=30", "--json")
    said = validate(*arguments, "--details", tmp_path / "out", "--format", "png", expect=0).stdout
    found = {path.name for path in (tmp_path / "out").iterdir()}
    assert found == FILES | ({"validation.png"} if shutil.which("gnuplot") else set())
    assert (tmp_path / "out/verdict.json").read_text() == said
    text = (tmp_path / "out/verdict.md").read_text()
    assert json.loads(said)["text"].splitlines()[1] in text and "| 7 " in text
    captions = (tmp_path / "out/captions.md").read_text().replace("\\", "")  # names of metrics are escaped
    document = json.loads(said)
    assert document["claim"]["sentence"] in captions and document["results"][0]["xxh64_of_1MiB"] in captions


def test_a_folder_is_replaced_only_with_force(results, tmp_path):
    arguments = (results, "--target", "recall>=0.5", "--details", tmp_path / "out", "--format", "svg")
    validate(*arguments, expect=0)
    (tmp_path / "out/verdict.json").write_text("precious")
    assert "verdict.json is there already: --force replaces it" in validate(*arguments, expect=5).stderr
    assert (tmp_path / "out/verdict.json").read_text() == "precious"
    validate(*arguments, "--force", expect=0)
    json.loads((tmp_path / "out/verdict.json").read_text())
    (tmp_path / "file").write_text("")
    assert "is not a folder" in validate(results, "--target", "recall>=0.5", "--details", tmp_path / "file",
                                         expect=5).stderr
    made = {path.name for path in (tmp_path / "out").iterdir()}
    (tmp_path / "out/notes.txt").write_text("of nobody")
    validate(*arguments[:-1], "pdf,tikz", "--per", "layer", "--force", expect=None)
    between = {path.name for path in (tmp_path / "out").iterdir()}
    assert "validation_units.csv" in between and "validation.svg" not in between
    validate(*arguments, "--force", expect=0)
    assert {path.name for path in (tmp_path / "out").iterdir()} == made | {"notes.txt"}
    assert "--details" in validate(results, "--target", "recall>=0.5", "--format", "svg", expect=2).stderr


def test_files_that_no_verdict_wrote_stay(results, tmp_path):
    """Not even a picture of a format that the verdict was not drawn in."""
    mine = {"groups.pdf", "settings.png", "validation.png", "validation_units.csv"}
    for name in mine:
        (tmp_path / name).write_text("mine")
    for _ in range(2):
        validate(results, "--target", "recall>=0.5", "--details", tmp_path, "--format", "svg", "--force", expect=0)
        assert mine == {path.name for path in tmp_path.iterdir() if path.read_bytes() == b"mine"}


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_folder_of_figures_stays(results, tmp_path, force):
    folder = tmp_path / "out"
    attest("figures", results, "-o", folder, "--only", "early_layers,quality_vs_io", "--format", "svg")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = validate(results, "--target", "recall>=0.5", "--details", folder, *force, expect=5)
    assert done.stderr == f"attest: --details: {folder} has figures of 'attest figures', expected a folder of its own\n"
    assert done.stdout == "" and {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_with_a_verdict_gets_no_figures(results, tmp_path):
    folder = tmp_path / "out"
    validate(results, "--target", "recall>=0.5", "--details", folder, expect=0)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = run_attest("figures", results, "-o", folder, "--force")
    assert done.returncode == 5 and done.stdout == ""
    assert done.stderr == f"attest: {folder} has a verdict of 'attest validate --details', expected another folder\n"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("output, folder", [("-o", "a.json"), ("--csv", "a.json"), ("--emit-vllm", "./a.json"),
                                            ("-o", "a.json/")])
def test_the_folder_is_no_other_output(results, tmp_path, output, folder):
    done = validate(results, "--target", "recall>=0.5", output, "a.json", "--details", folder, expect=2, cwd=tmp_path)
    assert done.stderr.startswith(
        f"attest: --details: {folder} is an input or another output, expected a folder of its own")
    assert done.stdout == "" and [path.name for path in tmp_path.iterdir()] == ["r.h5"]
    assert "is an input or another output" in validate(
        results, "--target", "recall>=0.5", "--details", results, expect=2).stderr


def test_without_gnuplot_there_are_data_and_scripts(results, tmp_path):
    done = validate(results, "--target", "recall>=0.5", "--details", tmp_path / "out", expect=0,
                    env={**os.environ, "PATH": str(tmp_path)})
    assert "gnuplot is not installed" in done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


def test_a_mean_has_a_curve_for_each_target(results, tmp_path):
    validate(results, "--claim", "mean", "--target", "recall>=0.8", "--target", "lse_error<=1", "--details",
             tmp_path / "out", "--format", "svg",
             expect=0)
    rows = read_csv(tmp_path / "out/validation.csv")
    assert [row["curve"] for row in rows] == ["settings: recall>=0.8"] * 3 + ["settings: lse_error<=1"] * 3
    deficits = list((1 - means(results, "recall")).mean(0)[::-1]) + list(means(results, "lse_error").mean(0)[::-1])
    assert [float(row["mean_deficit"]) for row in rows] == pytest.approx(deficits, abs=CELL)


def test_one_prompt_is_one_prompt(tmp_path):
    results = write_results(tmp_path / "r.h5", [ffd()], {"p": [0, 1, 2]})
    validate(results, "--claim", "observed", "--target", "recall>=0.5", "--details", tmp_path / "out", expect=None)
    captions = (tmp_path / "out/captions.md").read_text()
    assert "1 prompt of " in captions and "1 prompts" not in captions


def test_observed_has_no_interval(results, tmp_path):
    validate(results, "--claim", "observed", "--target", "recall>=0.5", "--details", tmp_path / "out", "--format",
             "svg", expect=3)
    assert "share_low" not in read_csv(tmp_path / "out/validation.csv")[0]
    assert "p_value" not in read_csv(tmp_path / "out/settings.csv")[0]


@pytest.mark.parametrize("per", ["model", "layer"])
def test_no_other_output_has_the_name_of_a_file_there(results, tmp_path, per):
    arguments = (results, "--target", "recall>=0.6", "--max-violating", "30%", "--per", per, "--format", "svg")
    (tmp_path / "out").mkdir()
    (tmp_path / "other").mkdir()
    validate(*arguments, "--details", tmp_path / "out", "-o", tmp_path / "out/mine.json", expect=0)
    names = {path.name for path in (tmp_path / "out").iterdir()} - {"mine.json"}
    assert len(names) > 8
    for name in names:
        done = validate(*arguments, "-o", f"other/{name}", "--details", "other/", expect=2, cwd=tmp_path)
        assert done.stderr == (f"attest: --details: writes a file of the name of other/{name}, expected another name "
                               "or folder\n")
    assert not any((tmp_path / "other").iterdir())


@pytest.mark.parametrize("unit", ["layer", "kv_head"])
def test_units_have_a_figure(results, tmp_path, unit):
    done = validate(results, "--target", "recall>=0.6", "--max-violating", "30%", "--per", unit, "--details",
                    tmp_path / "out", "--format", "svg",
                    "--json", expect=0)
    units = json.loads(done.stdout)["units"]
    rows = read_csv(tmp_path / "out/validation_units.csv")
    chosen = {(row["layer"], row["kv_head"]): row["setting"] for row in rows if row["layer"] != "nan"}
    expected = {(str(s["layer"]), str(s.get("kv_head", "nan"))): s["setting"] if s["setting"] == "dense"
                else f"{s['setting']:g}"
                for s in units["settings"]}
    assert chosen == expected and len(chosen) == (3 if unit == "layer" else 6)
    family = [row for row in rows if row["curve"] == "family"]
    assert [(float(r["slack"]), int(r["k"]), float(r["io_ratio"])) for r in family] == [
        (pytest.approx(m["slack"]), m["k"], pytest.approx(m["io_ratio"])) for m in units["members"]]
    assert [i for i, row in enumerate(family) if row["answer"] == "1"] == [units["certified"]]


@needs_gnuplot
def test_the_certified_range_is_shaded(results, tmp_path):
    validate(results, "--target", "recall>=0.01", "--details", tmp_path / "all", "--format", "svg", expect=0)
    assert "set object rectangle from first 3, graph 0 to first 7, graph 1" \
        in (tmp_path / "all/validation.gp").read_text()
    validate(results, "--target", "recall>=0.999999", "--details", tmp_path / "none", "--format", "svg", expect=3)
    script = (tmp_path / "none/validation.gp").read_text()
    # "certified" may stand on the next line
    assert "set object rectangle" not in script and "allowed; nothing" in script
    assert (tmp_path / "none/validation.svg").stat().st_size > 1000


def test_an_assignment_is_no_family(tmp_path):
    """What did not pass is named, and its verdict."""
    path = head_that_needs_more(tmp_path / "r.h5")
    arguments = (path, "--target", TARGET, "--per", "kv_head", "--format", "svg", "--details")
    validate(*arguments, tmp_path / "budget", "--io-budget", "12%", expect=3)
    captions = (tmp_path / "budget/captions.md").read_text()
    assert "Refuted: with 95 % confidence" in captions and "member" not in captions and "Not shown" not in captions
    assert "allowed; the assignment" in (tmp_path / "budget/validation_units.gp").read_text()
    validate(planted(path, 20, [20, 0, 0]), *arguments[1:], tmp_path / "family", expect=3)
    assert "Undecided even of the safest member: with 95 % confidence" in (tmp_path / "family/captions.md").read_text()
    assert "allowed; the family" in (tmp_path / "family/validation_units.gp").read_text()
