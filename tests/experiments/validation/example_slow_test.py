"""EXAMPLE.md quotes what its commands print on the kept results; the scripts beside them do what they say.

`PYTHONPATH=tests/helpers python tests/experiments/validation/example_slow_test.py` with ATTEST_BIN and
ATTEST_SOURCE_DIR set writes the quotes anew."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from attest_program import ATTEST, attest, run_attest

ROOT = Path(os.environ["ATTEST_SOURCE_DIR"])
EXAMPLE = ROOT / "experiments/validation/example"
DOCUMENT = ROOT / "experiments/validation/EXAMPLE.md"
QUOTE = re.compile(r"^```\n\$ (.*(?:\\\n.*)*)\n((?:.*\n)*?)```$", re.MULTILINE)  # command, output


def run(command):
    """What a command of the document prints. Lines of it may end in a backslash; `attest` is the program under test."""
    words = shlex.split(command.replace("\\\n", " "))
    if words[0].endswith(".py"):
        words.insert(0, sys.executable)
    words = [ATTEST if word == "attest" else word for word in words]
    done = subprocess.run(words, cwd=DOCUMENT.parent, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


@pytest.mark.parametrize("command, quoted", QUOTE.findall(DOCUMENT.read_text()))
def test_the_document_quotes_what_its_command_prints(command, quoted):
    lines = run(command).splitlines()
    if "[...]" in quoted:  # the document leaves out the end
        lines = lines[: quoted.splitlines().index("[...]")] + ["[...]"]
    assert lines == quoted.splitlines()


def test_the_document_has_quotes():
    assert len(QUOTE.findall(DOCUMENT.read_text())) >= 6


TARGETS = ["--target", "span_recall.min>=0.99", "--target", "recall>=0.999"]


def table(title):
    """Rows of the table with this first line, as lists of cells."""
    lines = DOCUMENT.read_text().split(title, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_of_costs():
    rows = table("| model | one delta | bytes | per layer | per KV head |")
    assert [row[0] for row in rows] == ["with_sink", "no_sink", "mla"]
    for model, delta, *costs in rows:
        for per, cost in zip(("model", "layer", "kv_head"), costs, strict=True):
            found = verdict(EXAMPLE / f"{model}.h5", "--per", per, *TARGETS)
            assert found["verdict"] == "certified" \
                and f" and reads {cost} of the bytes" in found["text"].split("  costs ")[1]
            assert per != "model" or found["certified"] == float(delta)


def test_the_table_of_fresh_prompts():
    for model, certified, certified_fresh, bootstrap, bootstrap_fresh in table(
        "| model | by prompts | violate | by the bootstrap | violate |"):
        mean = ["--claim", "mean", "--bound", "bootstrap", "--target", "recall>=0.999"]
        assert verdict(EXAMPLE / f"{model}.h5", *TARGETS)["certified"] == float(certified)
        assert verdict(EXAMPLE / f"{model}.h5", *mean)["shown"] == float(bootstrap)
        for delta, targets, printed in ((certified, TARGETS, certified_fresh),
                                        (bootstrap, TARGETS[2:], bootstrap_fresh)):
            claim = verdict(EXAMPLE / f"{model}_fresh.h5", "--claim", "observed", "--delta", delta, *targets)["claim"]
            assert f"{claim['k']} of {claim['n']}" == printed


def test_kept_results_are_small():
    files = sorted(EXAMPLE.glob("*.h5"))
    assert len(files) >= 3 and sum(file.stat().st_size for file in files) <= 4 * 2**20


def make_prompts(folder, *options):
    done = subprocess.run([sys.executable, EXAMPLE / "prompts.py", folder, *options], capture_output=True, text=True)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("length", [1024, 4096])
def test_prompts(length):
    done, prompts = make_prompts(ROOT / "dumps", "--lengths", str(length), "--count", "2", "--seed", "3")
    assert done.returncode == 0, done.stderr
    assert [p["task"] for p in prompts] == [t for t in ("niah", "mk", "kv", "mv", "mq") for _ in range(2)]
    assert len({p["name"] for p in prompts}) == len(prompts) == len({p["text"] for p in prompts})
    for prompt in prompts:
        text, answer = prompt["text"], prompt["answer"]
        assert text.isascii() and 1 + len(text) + len(answer) == length
        question = text.rindex("\nQuestion: ")
        for begin, end in prompt["spans"]:  # evidence: what the answer says, before the question, once
            assert end <= question and text[begin:end] in answer and text.count(text[begin:end]) == 1
        assert len(prompt["spans"]) == (4 if prompt["task"] in ("mv", "mq") else 1)
        # the line up to the value names what is asked for
        key = text[:question][: prompt["spans"][0][0]].rsplit("\n", 1)[-1]
        assert re.sub(r"^One of the special magic numbers for | is: $|: $", "", key) in text[question:]


def test_prompts_do_not_depend_on_their_number():
    few, many = (make_prompts(ROOT / "dumps", "--lengths", "1024", "--count", count)[1] for count in ("1", "3"))
    assert [p for p in many if p["name"].endswith("_0_0")] == few


def test_a_haystack_that_is_too_small(tmp_path):
    (tmp_path / "a.txt").write_text("short\n")
    done, prompts = make_prompts(tmp_path)
    assert done.returncode == 1 and not prompts
    assert "has 6 characters of text, expected more than 8192" in done.stderr


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Results of a made-up dump of eight prompts in two halves."""
    folder = tmp_path_factory.mktemp("study")
    paths = []
    for seed in ("1", "2"):
        dump, path = folder / f"d{seed}.h5", folder / f"r{seed}.h5"
        for command in (["--seed", seed, "synth", "-o", dump, "--tokens", "512", "--samples", "4", "--layers", "2",
                         "--query-heads", "4", "--kv-heads", "2", "--quiet"],
                        ["run", dump, "-o", path, "--selector", "ffd", "--selector", "heads=ffd:gqa=per_head",
                         "--delta", "1:6:1", "--device", "cpu", "--quiet"]):
            attest(*command)
        paths.append(path)
    return paths


def script(name, *arguments):
    return subprocess.run([sys.executable, EXAMPLE / name, *arguments], capture_output=True, text=True)


def verdict(*arguments):
    done = run_attest("--json", "validate", *arguments)
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


def test_reduced_results_give_the_same_verdict(study, tmp_path):
    small = tmp_path / "small.h5"
    assert script("reduce_results.py", *study, "-o", small).returncode == 0
    request = ["--selector", "ffd", "--target", "recall>=0.9", "--max-violating", "40%"]
    whole, part = verdict(*study, *request), verdict(small, *request)
    for name in ("verdict", "certified", "claim", "settings", "by_task", "by_length"):
        assert part[name] == whole[name], name
    assert len(whole["settings"]) == 6 and whole["claim"]["n"] == 8


def test_reduced_results_keep_what_they_are_asked_to(study, tmp_path):
    small = tmp_path / "small.h5"
    done = script("reduce_results.py", study[0], "-o", small, "--selectors", "heads", "--settings", "2,5", "--metrics",
                  "recall,recall_layer", "--queries", "1")
    assert done.returncode == 0, done.stderr
    with h5py.File(study[0]) as before, h5py.File(small) as after:
        whole, kept = (json.loads(file.attrs["manifest"]) for file in (before, after))
        assert whole.pop("inputs")[0]["path"] == str(study[0].parent / "d1.h5") \
            and kept.pop("inputs")[0]["path"] == "d1.h5"
        assert [Path(word).name for word in whole.pop("command_line")] == kept.pop("command_line")
        dumps = whole["configuration"]["dumps"]
        dumps[0]["path"] = Path(dumps[0]["path"]).name
        assert whole == kept
        for name, sample in before["dumps/0/samples"].items():
            kept = after[f"dumps/0/samples/{name}"]
            assert sorted(kept) == ["heads", "layers", "query_positions", "scores"]
            assert np.array_equal(kept["heads/recall"][()], sample["heads/recall"][:, :1, :, [1, 4]])
            assert np.array_equal(kept["heads/recall_layer"][()], sample["heads/recall_layer"][:, :1, [1, 4]])
            assert kept["query_positions"][()].tolist() == sample["query_positions"][:1].tolist()
            assert list(kept["heads/setting_labels"].asstr()) == ["2", "5"]
    assert subprocess.run([ATTEST, "inspect", small, "--check"], capture_output=True).returncode == 0


@pytest.mark.parametrize("options, message", [(["--settings", "9"], "has no setting 9"),
                                              (["--selectors", "quest"], "has no selector 'quest'")])
def test_what_cannot_be_kept(study, tmp_path, options, message):
    done = script("reduce_results.py", study[0], "-o", tmp_path / "small.h5", *options)
    assert done.returncode == 1 and message in done.stderr and not (tmp_path / "small.h5").exists()


def test_resampling():
    """Three prompts alone are often wrong about all; a claim that three cannot certify is never made."""
    def counts(*options):
        done = script("resample.py", EXAMPLE / "with_sink.h5", "--part", "3", "--draws", "6", "--", "--target",
                      "recall>=0.999", *options)
        assert done.returncode == 0, done.stderr
        return [
            int(x) for x in re.fullmatch(r"(\d+) of 6 parts of 3 prompts take a setting.*; (\d+) of them are wrong\n",
                                         done.stdout).groups()]
    certified, wrong = counts("--claim", "observed", "--max-violating", "10%")
    assert certified == 6 and 0 < wrong <= 6
    assert counts("--max-violating", "10%") == [0, 0]


if __name__ == "__main__":
    def quote(match):
        lines, cut = run(match[1]).splitlines(), "[...]" in match[2]
        kept = lines[: match[2].splitlines().index("[...]")] + ["[...]"] if cut else lines
        return "```\n$ " + match[1] + "\n" + "".join(line + "\n" for line in kept) + "```"

    DOCUMENT.write_text(QUOTE.sub(quote, DOCUMENT.read_text()))
