"""What the sentences of a verdict say, and the targets that they would say too much of."""

import re

import h5py
import numpy as np
import pytest
from planted_results import recalls, with_violations, write_planted
from verdicts import TARGET, head_that_needs_more, planted, validate, verdict


def test_a_guarantee_of_groups_is_not_one_of_prompts(tmp_path):
    """A group violates if one of its prompts does; how often prompts do depends on how many a group has."""
    path = planted(tmp_path / "r.h5", 60, [0, 0, 0])
    with h5py.File(path, "r+") as file:
        for p, sample in enumerate(file["dumps/0/samples"].values()):
            sample.attrs["document"] = f"text {p // 2}"
    clustered = (path, "--target", TARGET, "--target", "lse_error<=0.6", "--cluster", "document")
    found = verdict(*clustered)
    assert found["claim"]["sentence"] == ("with 95 % confidence at most 10 % of groups of prompts of one document like "
                                          "these have a prompt that misses recall.min>=0.9 or lse_error<=0.6")
    observed = verdict(*clustered, "--claim", "observed", expect=3)["claim"]["sentence"]
    assert observed.startswith("at most 10 % of these 30 groups of prompts of one document have a prompt that misses ")
    mean = verdict(*clustered, "--claim", "mean", expect=None)["text"]
    assert "over 30 groups of prompts of one document" in mean and "over 60 prompts" not in mean


def test_the_number_whose_mean_is_meant_is_named(tmp_path):
    sentence = verdict(planted(tmp_path / "r.h5", 60, [0, 0, 0]), "--target", TARGET, "--claim",
                       "mean")["claim"]["sentence"]
    assert "of 1 - recall.min is at most 0.1 (recall.min>=0.9, clipped at 1)" in sentence


@pytest.mark.parametrize("target, reason", [("io_ratio<=0.5", "is a cost"), ("keep_ratio.max<=0.9", "is a cost"),
                                            ("spearman>=0.5", "the same at every setting")])
def test_targets_by_which_no_setting_can_be_chosen(tmp_path, target, reason):
    """Costs fall as settings get smaller, and what no setting changes is met by the smallest: delta 3 would be
    certified by a correlation."""
    recall = recalls(60)
    path = write_planted(tmp_path / "r.h5", {"recall": recall, "io_ratio": recall * 0.4, "keep_ratio": recall * 0.4})
    with h5py.File(path, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            sample["ffd/spearman"] = np.ones((2, 2, 4), np.float32)
    refused = validate(path, "--target", target, "-o", tmp_path / "rec.json", expect=2).stderr
    assert reason in refused and "--delta judges one setting" in refused and not (tmp_path / "rec.json").exists()
    assert verdict(path, "--target", target, "--delta", 5)["verdict"] == "certified"
    if target.startswith("spearman"):
        assert verdict(path, "--target", target, "--target", TARGET)["certified"] == 3


@pytest.mark.parametrize("target, reason", [
    ("salient_ratio<=0.5", "no value of salient_ratio is better than another"),
    ("salient_ratio.max>=0.1", "no value of salient_ratio is better than another"),
    ("recall>=-1", "every recall is at least -1, so that every setting meets it"),
    ("recall.min>=-5", "every recall is at least -1"),
    ("mass_recall>=0", "every mass_recall is at least 0"), ("dropped_mass<=1", "every dropped_mass is at most 1")])
def test_targets_that_say_nothing_of_safety(tmp_path, target, reason):
    """The smallest setting would be certified whatever it loses."""
    recall = with_violations(60, [60, 60, 60])
    path = write_planted(tmp_path / "r.h5", {"recall": recall, "mass_recall": recall, "salient_ratio": 0.3 * recall})
    refused = validate(path, "--target", target, "--target", "recall.max>=0.5", "-o", tmp_path / "rec.json",
                       expect=2).stderr
    assert reason in refused and not (tmp_path / "rec.json").exists()
    if target.startswith("salient_ratio<"):
        assert verdict(path, "--target", target, "--delta", 5)["verdict"] == "certified"


def test_no_sentence_certifies_what_is_only_shown(tmp_path):
    path = planted(tmp_path / "r.h5", 8, [8, 8, 8])
    text = verdict(path, "--target", TARGET, "--claim", "observed", "--per", "layer", expect=3)["text"]
    assert "  one for all  no single setting is shown to do on all 8 prompts\n" in text
    certified = re.findall(r".*certif.*", text)
    assert certified and all("which certifies nothing" in line for line in certified), certified


def test_a_mean_takes_prompts_without_a_deficit(tmp_path):
    text = verdict(planted(tmp_path / "r.h5", 8, [0, 0, 0]), "--target", TARGET, "--claim", "mean", expect=3)["text"]
    assert "this guarantee takes at least 29 prompts, all without a deficit" in text and "violation" not in text


def test_one_position_is_no_plural(tmp_path):
    path = write_planted(tmp_path / "r.h5", {"recall": recalls(30, queries=1)})
    assert "  covers       1 query of each prompt, at position 999; there" in verdict(path, "--target", TARGET)["text"]


@pytest.mark.parametrize("target, note", [
    ("recall.max>=0.9", "recall.max>=0.9 asks only of the best cell of each prompt; recall.min asks of every cell"),
    ("lse_error.min<=0.5", "lse_error.min<=0.5 asks only of the best cell of each prompt; lse_error.max asks of every "
                           "cell"),
    ("recall.p99>=0.9", "recall.p99>=0.9 asks only of the best 1 % of the cells of each prompt; recall.p01 asks of all "
                        "but the worst 1 %"),
    ("lse_error.p10<=0.5", "lse_error.p10<=0.5 asks only of the best 10 % of the cells of each prompt; lse_error.p90 "
                           "asks of all but the worst 10 %"),
    ("recall.p90>=0.9", "recall.p90>=0.9 asks only of the best 10 % of the cells of each prompt; recall.p10 asks of "
                        "all but the worst 10 %"),
    (TARGET, None), ("recall.p05>=0.9", None), ("lse_error.p99<=0.6", None), ("recall.median>=0.9", None)])
def test_a_statistic_of_the_best_cells_is_said(tmp_path, target, note):
    """A statistic on the wrong side would certify settings with bad cells without a word."""
    assert verdict(planted(tmp_path / "r.h5", 60, [60, 0, 0]), "--target", target, expect=None)["notes"] == \
        ([note] if note else [])


def test_one_prompt_is_no_plural(tmp_path):
    text = verdict(planted(tmp_path / "r.h5", 1, [0, 0, 0]), "--target", TARGET, expect=3)["text"]
    assert "  can show     1 prompt, if it does not violate, certifies a share of 95 % at best; " in text \
        and "the only prompt judges; " in text
    two = verdict(planted(tmp_path / "two.h5", 2, [0, 0, 0]), "--target", TARGET, "--per", "layer", expect=3)["text"]
    assert "on 1 prompt drawn with seed 0 (--choose 50%); judged on 1 other as one family" in two
    assert not re.search(r"\b1 (prompts|groups|others|layers)\b", text + two)


def test_what_units_pass_is_said_of_certified_ones_alone(tmp_path):
    """Of another target the units would have other settings: the values of a family that fails would not be
    certified."""
    certified = verdict(head_that_needs_more(tmp_path / "r.h5"), "--target", TARGET, "--per", "kv_head")
    assert "  passes at  " in certified["text"]
    few = verdict(head_that_needs_more(tmp_path / "f.h5", 20), "--target", TARGET, "--per", "kv_head", "--claim",
                  "mean", "--bound", "hb", expect=3)
    assert "  passes at  " not in few["text"]
    assert "; a choice between the two holds at 90 %" in certified["text"]


def test_what_a_metric_cannot_fall_below_is_nothing_to_pass(tmp_path):
    """Few prompts certify a mean so loose that its value is below -1, which no recall is."""
    found = verdict(planted(tmp_path / "r.h5", 6, [3, 2, 1]), "--target", TARGET, "--claim", "mean", "--bound", "hb",
                    "--clip", 5, expect=3)
    assert [t["passes_at"] is None or t["passes_at"] >= -1 for one in found["settings"] for t in one["targets"]] == \
        [True] * 3


def test_what_is_judged_alone_is_not_the_largest(tmp_path):
    """A selector without settings, and a grid of one: nothing is larger or smaller."""
    recall = with_violations(60, [60])
    path = write_planted(tmp_path / "r.h5", {"recall": recall}, kind="none", settings=(0,), labels=[""], label="kv_fp8",
                         selector="kv_cache")
    for choice in [], ["--candidates", "kv_fp8"]:
        assert verdict(path, "--target", TARGET, *choice, expect=3)["text"].startswith(
            "refuted: kv_fp8 is not certified for tiny\n")
    assert verdict(path, "--target", TARGET, "--claim", "observed",
                   expect=3)["text"].split("\n")[0].endswith(": kv_fp8 is not shown to do for tiny")
    path = planted(tmp_path / "g.h5", 60, [60, 60, 60])
    assert "refuted: delta 5 of ffd is not certified for tiny\n" in verdict(
        path, "--target", TARGET, "--grid", "5", expect=3)["text"]
