"""`attest validate`: files that it writes, and settings of layers and KV heads."""

import json

import numpy as np
import pytest
from near import CELL, CLOSE
from planted_results import recalls, write_planted
from verdicts import TARGET, cdf, check_evidence, head_that_needs_more, planted, validate, verdict


def test_recommendation(tmp_path):
    path = planted(tmp_path / "r.h5", 46, [2, 1, 0], options={"gqa": "union"}, tasks=["a", "b"] * 23)
    out = tmp_path / "rec.json"
    validate(path, "--target", TARGET, "-o", out)
    found = json.loads(out.read_text())
    assert list(found) == ["format", "format_version", "model", "shape", "selector", "setting", "default", "layers",
                           "claim", "certified_on", "results", "dumps", "program"]
    assert (found["format"], found["format_version"], found["model"]) == ("attest-recommendation", 1, "tiny")
    assert found["selector"] == {"name": "ffd", "label": "ffd", "options": {"gqa": "union"}}
    assert (found["setting"], found["default"], found["layers"]) == ("delta", 5, {})
    claim = found["claim"]
    assert (claim["n"], claim["k"], claim["beta"], claim["confidence"]) == (46, 1, 0.1, 0.95)
    assert claim["p_value"] == pytest.approx(cdf(1, 46, 0.1), rel=CLOSE)
    assert claim["tasks"] == ["a", "b"] and claim["layers"] == "all" and claim["targets"] == [TARGET]
    assert claim["sentence"] == f"with 95 % confidence at most 10 % of prompts like these miss {TARGET}"
    assert found["results"][0]["path"] == path and len(found["results"][0]["xxh64_of_1MiB"]) == 16
    before = out.read_bytes()
    assert "--force" in validate(path, "--target", TARGET, "-o", out, expect=5).stderr
    assert out.read_bytes() == before
    validate(path, "--target", TARGET, "-o", out, "--force", "--max-violating", "20%")
    assert json.loads(out.read_text())["claim"]["beta"] == 0.2


def test_recommendation_is_not_written_without_a_certificate(tmp_path):
    path = planted(tmp_path / "r.h5", 28, [0, 0, 0])
    out = tmp_path / "rec.json"
    done = validate(path, "--target", TARGET, "-o", out, expect=3)
    assert not out.exists() and "not written" in done.stderr
    out.write_text("mine")
    validate(path, "--target", TARGET, "-o", out, "--force", expect=3)
    assert out.read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.h5", "rec.json"]


@pytest.mark.parametrize("option", ["-o", "--csv"])
def test_outputs_never_replace_what_is_judged(tmp_path, option):
    path = planted(tmp_path / "r.h5", 29, [0, 0, 0])
    before = open(path, "rb").read()
    validate(path, "--target", TARGET, option, path, "--force", expect=2)
    assert open(path, "rb").read() == before


@pytest.mark.parametrize("option", ["-o", "--csv"])
def test_outputs_are_checked_before_the_work(tmp_path, option):
    path = planted(tmp_path / "r.h5", 29, [0, 0, 0])
    for force in ([], ["--force"]):
        assert "no folder" in validate(path, "--target", TARGET, option, tmp_path / "none/x", *force, expect=5).stderr
        assert "found a folder" in validate(path, "--target", TARGET, option, tmp_path, *force, expect=5).stderr


def test_a_setting_without_numbers_is_said(tmp_path):
    recall = recalls(29)
    recall[..., 0] = np.nan
    path = write_planted(tmp_path / "r.h5", {"recall": recall})
    found = verdict(path, "--target", TARGET)
    assert (found["certified"], found["stopped_at"], found["prompts_to_decide"]) == (5, 3, None)
    assert "no number there for any prompt" in found["text"]
    assert verdict(path, "--target", TARGET, "--claim", "observed", "--delta", "3", expect=3)["verdict"] == "not shown"


def test_control_characters_are_not_printed(tmp_path):
    path = planted(tmp_path / "r.h5", 29, [1, 0, 0], names=[f"p\x1b[31m{p}" for p in range(29)], model="m\nx",
                   label="f\x1bfd")
    assert all(c >= " " or c == "\n" for c in validate(path, "--target", TARGET).stdout)
    assert "\x1b" not in validate(path, "--target", TARGET, "--json").stdout


def test_outputs_have_different_names(tmp_path):
    path = planted(tmp_path / "r.h5", 29, [0, 0, 0])
    validate(path, "--target", TARGET, "-o", tmp_path / "x", "--csv", tmp_path / "x", expect=2)
    assert not (tmp_path / "x").exists()


# -- units


def test_per_kv_head(tmp_path):
    path = head_that_needs_more(tmp_path / "r.h5")
    out = tmp_path / "rec.json"
    found = verdict(path, "--target", TARGET, "--per", "kv_head", "-o", out)
    units = found["units"]
    assert (units["choosing"], units["certifying"], units["per"]) == (30, 30, "kv_head")
    assert units["settings"] == [{"layer": y, "kv_head": g, "setting": 5 if (y, g) == (1, 1) else 3} for y in (0, 1)
                                 for g in (0, 1)]
    certified = units["members"][units["certified"]]
    check_evidence(certified, 30, 0)
    assert certified["io_ratio"] == pytest.approx((3 * 0.1 + 0.3) / 4, abs=CELL)
    assert certified["keep_ratio"] == pytest.approx((3 * 0.05 + 0.15) / 4, abs=CELL)
    stopped = units["members"][units["certified"] + 1]
    check_evidence(stopped, 30, 30)
    assert stopped["slack"] == pytest.approx(5), "0.5 misses 0.1 by five times"
    assert found["certified"] == 5, "one setting for all"
    assert found["claim"]["n"] == 30 and found["claim"]["chosen_on"] == 30
    written = json.loads(out.read_text())
    assert (written["default"], written["layers"]) == (3, {"1": {"kv_heads": {"1": 5}}})
    assert found["offenders"]["count"] == 30
    assert all((c["layer"], c["head"], c["setting"], c["enough"]) == (1, 2, 3, 5) for c in found["offenders"]["cells"])


def test_per_layer_and_shares_that_choose(tmp_path):
    path = head_that_needs_more(tmp_path / "r.h5")
    found = verdict(path, "--target", TARGET, "--per", "layer", "--choose", "25%", "-o", tmp_path / "rec.json")
    assert (found["units"]["choosing"], found["units"]["certifying"]) == (15, 45)
    assert found["units"]["settings"] == [{"layer": 0, "setting": 3}, {"layer": 1, "setting": 5}]
    written = json.loads((tmp_path / "rec.json").read_text())
    assert written["layers"] in ({"1": {"default": 5}}, {"0": {"default": 3}})
    # 56 prompts leave 28 to certify.
    small = head_that_needs_more(tmp_path / "s.h5", 56)
    assert "takes at least 29 prompts" in verdict(small, "--target", TARGET, "--per", "layer", expect=3)["text"]


def test_heads_that_no_setting_serves_stay_dense(tmp_path):
    path = planted(tmp_path / "r.h5", 60, [60, 60, 60])
    found = verdict(path, "--target", TARGET, "--per", "kv_head", "-o", tmp_path / "rec.json")
    assert found["units"]["settings"][3]["setting"] == "dense" and found["certified"] is None
    assert json.loads((tmp_path / "rec.json").read_text())["layers"] == {"1": {"kv_heads": {"1": "dense"}}}
    assert found["units"]["members"][found["units"]["certified"]]["io_ratio"] == \
        pytest.approx((3 * 0.1 + 1) / 4, abs=CELL)


def test_io_budget(tmp_path):
    path = head_that_needs_more(tmp_path / "r.h5")
    found = verdict(path, "--target", TARGET, "--per", "kv_head", "--io-budget", "15.01%")
    assert [u["setting"] for u in found["units"]["settings"]] == [3, 3, 3, 5]
    budget = found["units"]["io_budget"]
    assert budget["budget"] == pytest.approx(0.1501) and budget["io"] == pytest.approx(0.15, abs=CELL)
    assert budget["loss"] == pytest.approx(0, abs=CLOSE) and budget["no_loss_below"] <= budget["loss"] + 1e-9
    assert budget["single"] == 3 and budget["single_loss"] == pytest.approx(5 / 4)
    found = verdict(path, "--target", TARGET, "--per", "kv_head", "--io-budget", "12%", expect=3)
    assert found["verdict"] == "refuted"
    # Two fifths of the step that would save it all.
    assert found["units"]["io_budget"]["no_loss_below"] == pytest.approx(5 / 4 * (1 - 0.02 / 0.05), rel=1e-4)
    assert "below 10%" in validate(path, "--target", TARGET, "--per", "kv_head", "--io-budget", "5%", expect=2).stderr
