"""`attest figures` of results with names of any bytes and with numbers at their limits."""

import json
import re
import subprocess

import h5py
import numpy as np
import pytest
from attest_program import ATTEST
from figures_command import figures, needs_gnuplot
from results_maker import EXACT, ffd, quest, write_results


def edited(path, change):
    with h5py.File(path, "r+") as file:
        change(file["dumps/0"])
    return path


@pytest.mark.parametrize("json_output", [[], ["--json"]])
def test_a_model_of_any_bytes_is_printable(json_output, tmp_path):
    name = np.bytes_("m\u009b31m\u202eevil\x1b[2J\n".encode() + b"\xff")
    path = edited(write_results(tmp_path / "r.h5", [ffd(), quest(), EXACT]),
                  lambda dump: dump.attrs.__setitem__("model", name))
    done = subprocess.run([ATTEST, "figures", path, "-o", tmp_path / "f", *json_output], capture_output=True)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode("utf-8")
    if json_output:
        assert json.loads(text)["experiments"][0]["study"].startswith("m\u009b31m\u202eevil\x1b[2J\n\\xff")
    else:
        assert "m\\u009b31m\\u202eevil\\x1b[2J\\x0a\\xff" in text and not set("\x1b\u009b\u202e") & set(text)


def test_figures_of_whatever_run_may_write(tmp_path):
    def largest_model(dump):
        dump.attrs["num_layers"] = 2**31 - 1  # as in a dump
        dump["samples/a/layers"][-1] = 2**31 - 2

    long = "a" * 60_000
    figures(edited(write_results(tmp_path / "a.h5", [ffd(), quest(), EXACT]), largest_model), "-o", tmp_path / "a")
    figures(write_results(tmp_path / "b.h5", [ffd(), quest(), EXACT], samples={long: [5]}), "-o", tmp_path / "b")


@pytest.mark.parametrize("metric, value", [("pseudo_max_gap_exact", "inf"), ("pseudo_max_gap_exact", "-1")])
def test_a_value_that_no_axis_has_is_refused(tmp_path, metric, value):
    def other_gap(dump):
        dump[f"samples/a/ffd/{metric}"][0, 0, 0] = float(value)

    path = edited(write_results(tmp_path / "r.h5", [ffd(), quest(), EXACT]), other_gap)
    error = figures(path, "-o", tmp_path / "f", expect=4).stderr
    assert error == (f"attest: {path}: /dumps/0/samples/a/ffd/{metric}: [layer 0, query 0, head 0] is {value}, "
                     "expected at least 0\n")


@needs_gnuplot
@pytest.mark.parametrize("label, setting", [("'a", "5"), ('"a', "5"), ("a''b", "5"), ("a\\", "5"), ("ffd", "a'\"`c`"),
                                            ("ffd", "a,c"), ("ffd", "a\nb\x1b[31m")])
def test_names_of_any_characters_are_drawn(label, setting, tmp_path):
    """gnuplot 5.4 misreads two single quotes in a row, and ends a cell of a csv at a comma and a row at a line
    break."""
    path = write_results(tmp_path / "r.h5", [ffd(label), EXACT])
    with h5py.File(path, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            labels = sample[label]["setting_labels"].asstr()[()]
            del sample[label]["setting_labels"]
            sample[label]["setting_labels"] = np.array(
                [setting if i == 0 else text for i, text in enumerate(labels)], dtype=object)
    figures(path, "-o", tmp_path / "f", "--format", "svg")
    captions = (tmp_path / "f/captions.md").read_text()
    assert "\x1b" not in captions and "quality_vs_io" in captions


def test_names_are_no_markup_in_markdown(tmp_path):
    mark = "<img src=x>[x](javascript:1)`y`"
    path = edited(write_results(tmp_path / "r.h5", [ffd(), quest(), EXACT]),
                  lambda dump: dump.attrs.__setitem__("model", mark))
    figures(path, "-o", tmp_path / "f", "--format", "svg")
    for file in (tmp_path / "f").glob("*.md"):
        assert not re.search(r"(?<!\\)(<img|\]\(javascript|`y)", file.read_text()), file.name
    assert r"\<img src=x>\[x\](javascript:1)\`y\`" in (tmp_path / "f/captions.md").read_text()
