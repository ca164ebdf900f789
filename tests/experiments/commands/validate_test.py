"""`attest validate` on planted results: every number that it prints is worked out again here."""

import csv
import json
import math
import os
import shutil
import subprocess

import h5py
import numpy as np
import pytest
import yaml_free
from dump_maker import write_dump
from planted_results import recalls, with_violations, write_planted

ATTEST = os.environ["ATTEST_BIN"]
CLOSE = 1e-9
TARGET = "recall.min>=0.9"


def validate(*arguments, expect=0, cwd=None):
    done = subprocess.run([ATTEST, "validate", *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=cwd)
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    if expect in (2, 4, 5):
        assert done.stdout == "" and len(done.stderr.strip().splitlines()) <= 2, done.stderr
        assert done.stderr.isprintable() or "\n" in done.stderr
    return done


def verdict(*arguments, expect=0, cwd=None):
    return json.loads(validate(*arguments, "--json", expect=expect, cwd=cwd).stdout)


def planted(path, prompts, per_setting, **more):
    """One bad cell in per_setting[s] prompts; io_ratio and keep_ratio grow with the setting."""
    recall = with_violations(prompts, per_setting)
    grow = np.broadcast_to(0.1 + 0.2 * np.arange(len(per_setting)), recall.shape)
    return write_planted(path, {"recall": recall, "io_ratio": grow, "keep_ratio": grow / 2, "lse_error": 1 - recall}, **more)


# -- plain forms


def cdf(k, n, p):
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(0, min(k, n) + 1)) if n else 1.0


def upper_tail(k, n, p):
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def root(rises, level):
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) < level else (low, middle)
    return high


def clopper_pearson(k, n, confidence=0.95):
    tail = (1 - confidence) / 2
    low = 0 if k == 0 else root(lambda p: upper_tail(k, n, p), tail)
    return low, 1 if k == n else root(lambda p: 1 - cdf(k, n, p), 1 - tail)


def hoeffding_bentkus(losses, a):
    n, mean = len(losses), sum(losses) / len(losses)
    r = min(mean, a)
    kl = (r * math.log(r / a) if r else 0) + (1 - r) * math.log((1 - r) / (1 - a))
    return min(1, math.exp(-n * kl), math.e * cdf(math.ceil(n * mean - 1e-9), n, a))


def check_evidence(evidence, n, k, beta=0.1, confidence=0.95):
    low, high = clopper_pearson(k, n, confidence)
    assert (evidence["n"], evidence["k"]) == (n, k)
    assert evidence["share"] == pytest.approx(k / n, rel=CLOSE)
    assert evidence["share_low"] == pytest.approx(low, abs=1e-9)
    assert evidence["share_high"] == pytest.approx(high, abs=1e-9)
    assert evidence["p_value"] == pytest.approx(cdf(k, n, beta), rel=1e-8)


# -- prompts


@pytest.mark.parametrize("n, k, options, expected", [
    (28, 0, [], "undecided"), (29, 0, [], "certified"), (45, 1, [], "undecided"), (46, 1, [], "certified"), (60, 2, [], "undecided"),
    (61, 2, [], "certified"), (30, 6, [], "undecided"), (30, 7, [], "refuted"), (58, 0, ["--max-violating", "5%"], "undecided"),
    (59, 0, ["--max-violating", "5%"], "certified"), (21, 0, ["--confidence", "90%"], "undecided"),
    (22, 0, ["--confidence", "0.9"], "certified"), (1, 0, ["--max-violating", "50%", "--confidence", "50%"], "certified"),
    (2, 0, ["--max-violating", "50%", "--confidence", "75%"], "certified"), (3, 0, ["--max-violating", "50%", "--confidence", "87.5%"], "certified"),
])
def test_verdicts_at_the_borders(tmp_path, n, k, options, expected):
    path = planted(tmp_path / "r.h5", n, [k, k, k])
    found = verdict(path, "--target", TARGET, "--delta", "5", *options, expect=0 if expected == "certified" else 3)
    beta = 0.05 if "5%" in options else 0.5 if "50%" in options else 0.1
    confidence = {"90%": 0.9, "0.9": 0.9, "50%": 0.5, "75%": 0.75, "87.5%": 0.875}.get(options[-1] if options else "", 0.95)
    if "--confidence" not in options:
        confidence = 0.95
    assert found["verdict"] == expected
    assert [s["setting"] for s in found["settings"]] == [5]
    check_evidence(found["settings"][0], n, k, beta, confidence)
    assert found["claim"]["n"] == n and found["claim"]["k"] == k and found["claim"]["beta"] == beta
    assert found["claim"]["confidence"] == pytest.approx(confidence)
    assert found["settings"][0]["io_ratio"] == pytest.approx(0.3, abs=1e-6)
    assert found["settings"][0]["keep_ratio"] == pytest.approx(0.15, abs=1e-6)
    text = validate(path, "--target", TARGET, "--delta", "5", *options, expect=0 if expected == "certified" else 3).stdout
    assert text == found["text"] and text.startswith(f"{expected}: delta 5 of ffd for tiny\n")
    fewest = math.ceil(math.log(1 - confidence) / math.log(1 - beta) - 1e-9)
    assert (f"takes at least {fewest} prompts" in text) == (expected != "certified" and n < fewest)


def test_choosing_down_the_grid(tmp_path):
    found = verdict(planted(tmp_path / "a.h5", 29, [1, 0, 0]), "--target", TARGET)
    assert (found["verdict"], found["certified"], found["stopped_at"]) == ("certified", 5, 3)
    assert [s["setting"] for s in found["settings"]] == [7, 5, 3], "the safest first"
    for evidence, k in zip(found["settings"], [0, 0, 1]):
        check_evidence(evidence, 29, k)
    # A hole at 5: 3 would pass, and is not reached.
    found = verdict(planted(tmp_path / "b.h5", 29, [0, 1, 0]), "--target", TARGET)
    assert (found["certified"], found["stopped_at"]) == (7, 5)
    found = verdict(planted(tmp_path / "c.h5", 29, [0, 0, 1]), "--target", TARGET, expect=3)
    assert (found["verdict"], found["certified"], found["stopped_at"]) == ("undecided", None, 7)
    assert "not even delta 7 of ffd, the safest setting, is certified" in found["text"]
    # Among settings that are named.
    found = verdict(tmp_path / "b.h5", "--target", TARGET, "--grid", "3,7")
    assert (found["certified"], len(found["settings"])) == (3, 2)


def test_smaller_factors_are_safer(tmp_path):
    path = planted(tmp_path / "r.h5", 29, [0, 0, 29], kind="factor", settings=(100, 200, 300), selector="skip_softmax", label="skip")
    found = verdict(path, "--target", TARGET)
    assert (found["certified"], found["stopped_at"]) == (200, 300)
    out = tmp_path / "engine.yaml"
    validate(path, "--target", TARGET, "--emit-trtllm", out)
    assert yaml_free.parse(out.read_text()) == {
        "sparse_attention_config": {"algorithm": "skip_softmax", "threshold_scale_factor": {"decode": 200}}}


@pytest.mark.parametrize("factor", [1e-5, 1e20, 0.5, 1234.5])
def test_factors_are_numbers_in_yaml(tmp_path, factor):
    path = planted(tmp_path / "r.h5", 29, [0], kind="factor", settings=(factor,), labels=[str(factor)], selector="skip_softmax", label="skip")
    validate(path, "--target", TARGET, "--emit-trtllm", tmp_path / "e.yaml")
    read = yaml_free.parse((tmp_path / "e.yaml").read_text())["sparse_attention_config"]["threshold_scale_factor"]["decode"]
    assert isinstance(read, (int, float)) and read == factor


def test_emit_trtllm_refuses_what_it_cannot_say(tmp_path):
    path = planted(tmp_path / "r.h5", 29, [0, 0, 0])
    assert "--emit-trtllm" in validate(path, "--target", TARGET, "--emit-trtllm", tmp_path / "e.yaml", expect=2).stderr
    path = planted(tmp_path / "s.h5", 29, [0], kind="factor", settings=(5,), selector="skip_softmax", label="skip", num_layers=5)
    assert "all layers" in validate(path, "--target", TARGET, "--emit-trtllm", tmp_path / "e.yaml", expect=2).stderr
    assert not (tmp_path / "e.yaml").exists()


def test_budgets_in_tokens_and_per_cent(tmp_path):
    path = planted(tmp_path / "r.h5", 29, [0, 29, 0], kind="budget", settings=("256", "1024", "50%"), labels=["256", "1024", "50%"],
                   selector="quest", label="quest:page=16,x", lengths=[1000] * 29)
    found = verdict(path, "--target", TARGET, expect=3)
    assert [s["setting"] for s in found["settings"]] == [1024, "50%", 256]
    assert (found["verdict"], found["certified"], found["stopped_at"]) == ("refuted", None, 1024)
    longer = planted(tmp_path / "l.h5", 29, [0, 29, 0], kind="budget", settings=("256", "1024", "50%"), labels=["256", "1024", "50%"],
                     selector="quest", label="quest:page=16,x", lengths=[4000] * 29)
    found = verdict(longer, "--target", TARGET, "--selector", "quest:page=16,x")
    assert [s["setting"] for s in found["settings"]] == ["50%", 1024, 256]
    assert (found["certified"], found["stopped_at"]) == ("50%", 1024)
    assert verdict(longer, "--target", TARGET, "--budget", "50%")["settings"][0]["setting"] == "50%"
    assert "--delta" in validate(longer, "--target", TARGET, "--delta", "5", expect=2).stderr


def test_other_kinds_of_settings(tmp_path):
    path = planted(tmp_path / "p.h5", 29, [29, 0], kind="p", settings=(0.5, 0.85), selector="topp", label="topp")
    assert verdict(path, "--target", TARGET)["certified"] == 0.85
    assert verdict(path, "--target", TARGET, "--p", "0.5", expect=3)["verdict"] == "refuted"
    none = planted(tmp_path / "n.h5", 29, [0], kind="none", settings=(0,), labels=[""], selector="kivi", label="kivi")
    found = verdict(none, "--target", TARGET)
    assert found["verdict"] == "certified" and found["text"].startswith("certified: kivi for tiny")
    for option in (["--grid", "1,2"], ["--per", "layer"], ["--delta", "5"]):
        assert "kivi" in validate(none, "--target", TARGET, *option, expect=2).stderr


# -- means


def test_mean_by_hb(tmp_path):
    rng = np.random.default_rng(1)
    recall = recalls(80, settings=2)
    recall -= rng.exponential(0.002, (80, 1, 1, 1, 1)) * np.array([3.0, 1.0])
    recall[0] = 0.2
    path = write_planted(tmp_path / "r.h5", {"recall": recall}, settings=(3, 5))
    stored = recall.astype(np.float32).astype(np.float64)
    options = ["--target", "recall>=0.98", "--claim", "mean", "--bound", "hb"]
    found = verdict(path, *options)
    for evidence, s in zip(found["settings"], [1, 0]):
        deficits = 1 - stored[..., s].mean(axis=(1, 2, 3))
        losses = np.minimum(deficits, 0.2) / 0.2
        one = evidence["targets"][0]
        assert one["mean_deficit"] == pytest.approx(deficits.mean(), rel=1e-6)
        assert one["p_value"] == pytest.approx(hoeffding_bentkus(list(losses), 0.1), rel=1e-5)
        assert evidence["p_value"] == one["p_value"]
        assert one["beyond_clip"] == 1
        assert one["beyond_clip_at_most"] == pytest.approx(root(lambda p: 1 - cdf(1, 80, p), 0.95), abs=1e-9)
        assert (evidence["n"], one["n"]) == (80, 80)
        assert one["k"] == evidence["k"] == int((deficits > 0.02).sum())
    # The strictest value at the same clip.
    about = [s for s in found["settings"] if s["setting"] == found["certified"]][0]["targets"][0]
    losses = np.minimum(1 - stored[..., [3, 5].index(found["certified"])].mean(axis=(1, 2, 3)), 0.2) / 0.2
    assert 1 - about["passes_at"] == pytest.approx(0.2 * root(lambda a: -hoeffding_bentkus(list(losses), a) if a > 0 else -1, -0.05), rel=1e-4)
    assert found["claim"]["clip"] == [pytest.approx(0.2)] and found["claim"]["bound"] == "hb"


def wsr_of_equal(loss, n, a, alpha=0.05):
    """Losses that are all equal have no order."""
    few = n * math.log1p(a) < 2 * math.log(1 / alpha)
    most, total, squares, capital, largest = (1 - 1e-9) / (1 - a) if few else 1, 0.5, 0.25, 1.0, 1.0
    for i in range(n):
        bet = min(most, math.sqrt(2 * math.log(1 / alpha) / (n * squares / (i + 1))))
        capital *= 1 - (most if few and (i == 0 or loss == 0) else bet) * (loss - a)
        largest = max(largest, capital)
        total += loss
        squares += (loss - total / (i + 2)) ** 2
    return 1 / largest


@pytest.mark.parametrize("n, value", [(28, 1.0), (29, 1.0), (40, 0.995), (200, 0.993), (40, 0.98), (200, 0.98)])
def test_mean_by_betting(tmp_path, n, value):
    path = write_planted(tmp_path / "r.h5", {"recall": recalls(n, settings=1, value=value)}, settings=(5,))
    loss = (1 - float(np.float32(value))) / 0.1
    p = wsr_of_equal(loss, n, 0.1)
    found = verdict(path, "--target", "recall>=0.99", "--claim", "mean", expect=0 if p <= 0.05 else 3)
    assert found["settings"][0]["p_value"] == pytest.approx(p, rel=1e-6)
    mirrored = wsr_of_equal(1 - loss, n, 0.9)
    assert found["verdict"] == ("certified" if p <= 0.05 else "refuted" if mirrored <= 0.05 else "undecided")
    assert ("at least 29 prompts" in found["text"]) == (n < 29)


def test_the_bootstrap_is_called_approximate(tmp_path):
    path = write_planted(tmp_path / "r.h5", {"recall": recalls(8, settings=1, value=0.995)}, settings=(5,))
    found = verdict(path, "--target", "recall>=0.99", "--claim", "mean", "--bound", "bootstrap")
    assert found["claim"]["approximate"] is True
    assert "with about 95 %" in found["claim"]["sentence"] and "approximate" in found["text"]


def test_observed(tmp_path):
    path = planted(tmp_path / "r.h5", 30, [4, 3, 0])
    found = verdict(path, "--target", TARGET, "--claim", "observed")
    assert (found["certified"], found["stopped_at"]) == (5, 3)
    assert "nothing is inferred" in found["claim"]["sentence"] and found["claim"]["p_value"] is None
    assert "p_value" not in found["settings"][0] and "share_low" not in found["settings"][0]
    assert verdict(path, "--target", TARGET, "--claim", "observed", "--max-violating", "0")["certified"] == 7


# -- what is said besides


def test_prompts_to_decide(tmp_path):
    for name, n, k, expected in [("a", 28, 0, 29), ("b", 5, 0, 29), ("c", 30, 3, None)]:
        found = verdict(planted(tmp_path / f"{name}.h5", n, [k]*3), "--target", TARGET, "--delta", "5", expect=3)
        assert found["prompts_to_decide"] == expected
    found = verdict(planted(tmp_path / "d.h5", 30, [1]*3), "--target", TARGET, "--delta", "5", expect=3)
    n = found["prompts_to_decide"]
    assert cdf(math.ceil(n / 30 - 1e-9), n, 0.1) <= 0.05 < cdf(math.ceil((n - 1) / 30 - 1e-9), n - 1, 0.1)
    assert f"{n} prompts would decide it" in found["text"]
    found = verdict(planted(tmp_path / "e.h5", 30, [6]*3), "--target", TARGET, "--delta", "5", expect=3)
    n = found["prompts_to_decide"]
    assert upper_tail(math.floor(n / 5 + 1e-9), n, 0.1) <= 0.05


def test_offenders(tmp_path):
    rng = np.random.default_rng(2)
    recall = 1 - rng.exponential(0.06, (31, 2, 2, 4, 1)) * np.array([1.5, 1.0, 0.5])
    lengths, tasks = [900 + p for p in range(31)], [f"t{p % 2}" for p in range(31)]
    path = write_planted(tmp_path / "r.h5", {"recall": recall}, lengths=lengths, tasks=tasks, layers=[4, 9], num_layers=12)
    stored = recall.astype(np.float32).astype(np.float64)
    found = verdict(path, "--target", TARGET, "--delta", "5", "--csv", tmp_path / "o.csv", expect=3)
    cells = []
    for p, row, query, head in np.ndindex(stored.shape[:4]):
        if stored[p, :, :, :, 1].min() < 0.9 and stored[p, row, query, head, 1] < 0.9:
            enough = [s for i, s in enumerate([3, 5, 7]) if stored[p, row, query, head, i] >= 0.9]
            cells.append({"prompt": f"p{p:03}", "task": tasks[p], "tokens": lengths[p], "layer": [4, 9][row], "head": head,
                          "query_position": lengths[p] - 2 + query, "target": TARGET, "value": stored[p, row, query, head, 1],
                          "setting": 5, "enough": enough[0] if enough else None})
    cells.sort(key=lambda cell: cell["value"])
    assert len(cells) > 20 and any(cell["enough"] is None for cell in cells)
    assert found["offenders"] == {"count": len(cells), "cells": cells}
    with open(tmp_path / "o.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(cells)
    for row, cell in zip(rows, cells):
        assert [row[key] for key in ("prompt", "task", "tokens", "layer", "head", "query_position", "target")] == [
            str(cell[key]) for key in ("prompt", "task", "tokens", "layer", "head", "query_position", "target")]
        assert float(row["value"]) == pytest.approx(cell["value"], rel=1e-6)
        assert row["setting"] == "5" and row["enough"] == ("" if cell["enough"] is None else str(cell["enough"]))
    shown = [line for line in found["text"].splitlines() if ", prompt p" in line]
    assert len(shown) == 10 and f"and {len(cells) - 10} more cells" in found["text"]
    first = cells[0]
    assert f"layer {first['layer']}, head {first['head']}, prompt {first['prompt']}, query {first['query_position']}: recall" in shown[0]
    by_task = {group["name"]: group for group in found["by_task"]}
    for task in ("t0", "t1"):
        own = [p for p in range(31) if tasks[p] == task]
        assert (by_task[task]["n"], by_task[task]["k"]) == (len(own), sum(stored[p, ..., 1].min() < 0.9 for p in own))
    assert found["by_length"] == [{"name": "up to 1K", "n": 31, "k": found["claim"]["k"]}]
    assert found["claim"]["lengths"] == [900, 930] and found["claim"]["tasks"] == ["t0", "t1"] and found["claim"]["layers"] == [4, 9]


def test_passes_at_is_the_strictest_value(tmp_path):
    rng = np.random.default_rng(3)
    recall = 1 - rng.exponential(0.001, (50, 2, 2, 4, 1))
    path = write_planted(tmp_path / "r.h5", {"recall": recall, "lse_error": 1 - recall}, settings=(5,))
    found = verdict(path, "--target", "recall.min>=0.95", "--target", "lse_error.max<=0.05")
    mins = np.sort(recall.astype(np.float32).astype(np.float64).min(axis=(1, 2, 3, 4)))
    allowed = max(k for k in range(50) if cdf(k, 50, 0.1) <= 0.05)
    assert allowed == 1
    recall_at, error_at = (one["passes_at"] for one in found["settings"][0]["targets"])
    assert recall_at == mins[allowed]
    errors = np.sort((1 - recall).astype(np.float32).astype(np.float64).max(axis=(1, 2, 3, 4)))[::-1]
    assert error_at == errors[allowed]
    # What is printed is certified when it is typed.
    line = next(line for line in found["text"].splitlines() if "passes at" in line)
    for typed in line.replace("passes at", "").strip().split(", "):
        assert verdict(path, "--target", typed.replace(" ", ""))["verdict"] == "certified"
    assert verdict(path, "--target", f"recall.min>={mins[allowed] + 1e-6}", expect=3)["verdict"] == "undecided"


def test_prompts_that_do_not_count_are_said(tmp_path):
    recall = recalls(40)
    mass = np.full(recall.shape[:4], 0.5)
    mass[:10] = np.nan
    mass[10:12] = 0.1
    path = write_planted(tmp_path / "r.h5", {"recall": recall, "span_mass": mass})
    found = verdict(path, "--target", "span_recall>=0.9", "--target", "recall>=0.9", expect=3)
    assert [(one["n"], one["k"]) for one in found["settings"][0]["targets"]] == [(28, 0), (40, 0)]
    assert found["settings"][0]["p_value"] == pytest.approx(0.9**28)
    assert "12 of 40 prompts do not count for span_recall>=0.9" in found["notes"][0]
    assert found["prompts_to_decide"] == math.ceil(29 * 40 / 28)
    assert "no prompt has a number" in validate(path, "--target", "output_error<=1", expect=4).stderr


# -- recommendation


def test_recommendation(tmp_path):
    path = planted(tmp_path / "r.h5", 46, [2, 1, 0], options={"gqa": "union"}, tasks=["a", "b"] * 23)
    out = tmp_path / "rec.json"
    validate(path, "--target", TARGET, "-o", out)
    found = json.loads(out.read_text())
    assert list(found) == ["format", "format_version", "model", "selector", "setting", "default", "layers", "claim", "results", "program"]
    assert (found["format"], found["format_version"], found["model"]) == ("attest-recommendation", 1, "tiny")
    assert found["selector"] == {"name": "ffd", "label": "ffd", "options": {"gqa": "union"}}
    assert (found["setting"], found["default"], found["layers"]) == ("delta", 5, {})
    claim = found["claim"]
    assert (claim["n"], claim["k"], claim["beta"], claim["confidence"]) == (46, 1, 0.1, 0.95)
    assert claim["p_value"] == pytest.approx(cdf(1, 46, 0.1), rel=1e-9)
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
        assert "is a folder" in validate(path, "--target", TARGET, option, tmp_path, *force, expect=5).stderr


def test_a_setting_without_numbers_is_said(tmp_path):
    recall = recalls(29)
    recall[..., 0] = np.nan
    path = write_planted(tmp_path / "r.h5", {"recall": recall})
    found = verdict(path, "--target", TARGET)
    assert (found["certified"], found["stopped_at"], found["prompts_to_decide"]) == (5, 3, None)
    assert "no number there for any prompt" in found["text"]
    assert verdict(path, "--target", TARGET, "--claim", "observed", "--delta", "3", expect=3)["verdict"] == "undecided"


def test_control_characters_are_not_printed(tmp_path):
    path = planted(tmp_path / "r.h5", 29, [1, 0, 0], names=[f"p\x1b[31m{p}" for p in range(29)], model="m\nx", label="f\x1bfd")
    assert all(c >= " " or c == "\n" for c in validate(path, "--target", TARGET).stdout)
    assert "\x1b" not in validate(path, "--target", TARGET, "--json").stdout


def test_outputs_have_different_names(tmp_path):
    path = planted(tmp_path / "r.h5", 29, [0, 0, 0])
    validate(path, "--target", TARGET, "-o", tmp_path / "x", "--csv", tmp_path / "x", expect=2)
    assert not (tmp_path / "x").exists()


# -- units


def head_that_needs_more(path, prompts=60):
    """KV head 1 of layer 1 fails below setting 5; all else passes at 3."""
    return planted(path, prompts, [prompts, 0, 0])


def test_per_kv_head(tmp_path):
    path = head_that_needs_more(tmp_path / "r.h5")
    out = tmp_path / "rec.json"
    found = verdict(path, "--target", TARGET, "--per", "kv_head", "-o", out)
    units = found["units"]
    assert (units["choosing"], units["certifying"], units["per"]) == (30, 30, "kv_head")
    assert units["settings"] == [{"layer": y, "kv_head": g, "setting": 5 if (y, g) == (1, 1) else 3} for y in (0, 1) for g in (0, 1)]
    certified = units["members"][units["certified"]]
    check_evidence(certified, 30, 0)
    assert certified["io_ratio"] == pytest.approx((3 * 0.1 + 0.3) / 4, abs=1e-6)
    assert certified["keep_ratio"] == pytest.approx((3 * 0.05 + 0.15) / 4, abs=1e-6)
    stopped = units["members"][units["certified"] + 1]
    check_evidence(stopped, 30, 30)
    assert stopped["slack"] == pytest.approx(5, rel=1e-6), "0.5 misses 0.1 by five times"
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
    assert found["units"]["members"][found["units"]["certified"]]["io_ratio"] == pytest.approx((3 * 0.1 + 1) / 4, abs=1e-6)


def test_io_budget(tmp_path):
    path = head_that_needs_more(tmp_path / "r.h5")
    found = verdict(path, "--target", TARGET, "--per", "kv_head", "--io-budget", "15.01%")
    assert [u["setting"] for u in found["units"]["settings"]] == [3, 3, 3, 5]
    budget = found["units"]["io_budget"]
    assert budget["budget"] == pytest.approx(0.1501) and budget["io"] == pytest.approx(0.15, abs=1e-6)
    assert budget["loss"] == pytest.approx(0, abs=1e-9) and budget["no_loss_below"] <= budget["loss"] + 1e-9
    assert budget["single"] == 3 and budget["single_loss"] == pytest.approx(5 / 4, rel=1e-6)
    found = verdict(path, "--target", TARGET, "--per", "kv_head", "--io-budget", "12%", expect=3)
    assert found["verdict"] == "refuted"
    # Two fifths of the step that would save it all.
    assert found["units"]["io_budget"]["no_loss_below"] == pytest.approx(5 / 4 * (1 - 0.02 / 0.05), rel=1e-4)
    assert "below 10%" in validate(path, "--target", TARGET, "--per", "kv_head", "--io-budget", "5%", expect=2).stderr


# -- scope


def test_lengths(tmp_path):
    path = planted(tmp_path / "r.h5", 29, [0, 0, 0], lengths=[1000 + 100 * p for p in range(29)])
    done = validate(path, "--target", TARGET, "--for-length", "128K", expect=3)
    assert "131072 tokens" in done.stderr and "1000 to 3800" in done.stderr and done.stdout == ""
    validate(path, "--target", TARGET, "--for-length", "128K", "--extrapolate")
    validate(path, "--target", TARGET, "--for-length", "1000")
    validate(path, "--target", TARGET, "--for-length", "999", expect=3)


def test_several_files_in_any_order(tmp_path):
    one = planted(tmp_path / "a.h5", 20, [1, 0, 0], dump="a.h5")
    two = planted(tmp_path / "b.h5", 26, [0, 0, 0], dump="b.h5")
    first, second = (verdict(*paths, "--target", TARGET) for paths in ((one, two), (two, one)))
    assert first["claim"]["n"] == 46 and first["certified"] == 3
    for found in (first, second):
        found["results"].sort(key=lambda result: result["path"])
    assert first == second
    for options in (["--claim", "mean"], ["--per", "kv_head"], ["--per", "kv_head", "--io-budget", "20%"]):
        texts = []
        for paths in ((one, two), (two, one)):
            done = subprocess.run([ATTEST, "validate", *paths, "--target", "recall.min>=0.9", *options], capture_output=True, text=True)
            texts.append((done.returncode, done.stdout))
        assert texts[0] == texts[1] and texts[0][0] in (0, 3)


def test_prompts_and_studies_that_do_not_fit(tmp_path):
    one = planted(tmp_path / "a.h5", 20, [0, 0, 0])
    assert "same prompt" in validate(one, one, "--target", TARGET, expect=2).stderr
    copy = shutil.copy(one, tmp_path / "copy.h5")
    assert "same prompt" in validate(one, copy, "--target", TARGET, expect=2).stderr
    with h5py.File(copy, "r+") as file:  # renamed, but with the same scores
        file["dumps/0"].attrs["path"] = "other.h5"
        samples = file["dumps/0/samples"]
        for name in list(samples):
            samples.move(name, name + "x")
    assert "same prompt" in validate(one, copy, "--target", TARGET, expect=2).stderr
    for name, more, text in [("g", {"settings": (3, 5, 9)}, "settings"), ("o", {"options": {"bits": "2"}}, "options"),
                             ("l", {"label": "x"}, "no selector"), ("m", {"model": "other"}, "models"), ("k", {"kv_heads": 4}, "KV heads"),
                             ("y", {"layers": [0, 3], "num_layers": 4}, "layers")]:
        other = planted(tmp_path / f"{name}.h5", 20, [0, 0, 0], dump="other.h5", names=[f"q{p}" for p in range(20)], **more)
        assert text in validate(one, other, "--target", TARGET, expect=2).stderr
    left_out = planted(tmp_path / "left.h5", 29, [0, 0, 0], left_out={(3, 1)})
    assert "layer 1 of sample 'p003' was left out" in validate(left_out, "--target", TARGET, expect=4).stderr
    assert verdict(left_out, "--target", TARGET, "--layers", "0")["claim"]["layers"] == [0]


@pytest.mark.parametrize("arguments, text", [
    (["--target", "recall"], "--target"), (["--target", "recall>=1.5"], "above 1"), (["--target", "lse>=1"], "exact scores"), ([], "--target"),
    (["--target", "nothing>=1"], "no metric"), (["--target", TARGET, "--target", TARGET], "same number"),
    (["--target", TARGET, "--delta", "4"], "3, 5, 7"), (["--target", TARGET, "--delta", "3,5"], "--delta"),
    (["--target", TARGET, "--delta", "3", "--p", "0.5"], "give one"), (["--target", TARGET, "--grid", "3,4"], "4"),
    (["--target", TARGET, "--layers", "7"], "layer 7"), (["--target", TARGET, "--model", "x"], "no model"),
    (["--target", TARGET, "--selector", "x"], "--selector"), (["--target", TARGET, "--confidence", "1"], "--confidence"),
    (["--target", TARGET, "--max-violating", "0"], "--max-violating"), (["--target", TARGET, "--io-budget", "10%"], "--per"),
    (["--target", TARGET, "--choose", "10%"], "--per"), (["--target", TARGET, "--clip", "0.1"], "--claim mean"),
    (["--target", TARGET, "--bound", "hb"], "--claim mean"), (["--target", TARGET, "--extrapolate"], "--for-length"),
    (["--target", TARGET, "--claim", "mean", "--max-violating", "5%"], "--max-violating"),
    (["--target", TARGET, "--claim", "observed", "--confidence", "5%"], "--confidence"), (["--target", TARGET, "--results", "x.h5"], "dumps"),
    (["--target", TARGET, "--queries", "last:1"], "dumps"), (["--target", "recall>=1", "--claim", "mean"], "allows no deficit"),
    (["--target", TARGET, "--claim", "mean", "--clip", "0.01"], "--clip"), (["--target", TARGET, "--per", "layer", "--delta", "5"], "--per"),
    (["--target", TARGET, "--per", "head"], "--per"), (["--target", TARGET, "--for-length", "x"], "--for-length"),
])
def test_bad_requests(tmp_path, arguments, text):
    path = planted(tmp_path / "r.h5", 29, [0, 0, 0])
    assert text in validate(path, *arguments, expect=2).stderr


def test_bad_files(tmp_path):
    (tmp_path / "x.h5").write_bytes(b"nothing")
    validate(tmp_path / "x.h5", "--target", TARGET, expect=4)
    validate(tmp_path / "none.h5", "--target", TARGET, expect=4)
    path = planted(tmp_path / "r.h5", 29, [0, 0, 0])
    with h5py.File(path, "r+") as file:
        del file["dumps/0/samples"]
        file["dumps/0"].create_group("samples")
    assert "no sample" in validate(path, "--target", TARGET, expect=4).stderr


# -- dumps


def test_dumps(tmp_path):
    def values(random, layer):
        q, k = random.normal(size=(2, 4, 64)).astype(np.float32), random.normal(size=(2, 200, 64)).astype(np.float32)
        return q, k, random.normal(size=(2, 200, 64)).astype(np.float32)

    write_dump(tmp_path / "d.h5", values, seed=1, layers=[0, 2], tokens=200, heads=4, kv_heads=2, dim=64, positions=[150, 199],
               samples=[f"s{i}" for i in range(6)])
    options = ["--target", "recall>=0.5", "--max-violating", "50%", "--selector", "topdelta"]
    found = verdict("d.h5", *options, cwd=tmp_path)
    assert found["claim"]["n"] == 6 and found["verdict"] == "certified" and len(found["settings"]) == 61
    results = tmp_path / "d.study.h5"
    assert results.exists()
    before = results.stat().st_mtime_ns
    again = verdict("d.h5", *options, cwd=tmp_path)
    assert again == found and results.stat().st_mtime_ns == before, "the study is used again"
    assert verdict("d.study.h5", *options, cwd=tmp_path)["settings"] == found["settings"]
    assert "give dumps or results" in validate("d.h5", "d.study.h5", *options, expect=2, cwd=tmp_path).stderr
    # Another study does not replace it.
    done = subprocess.run([ATTEST, "validate", "d.h5", "--target", "recall>=0.5", "--selector", "topk"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (2, 5) and results.stat().st_mtime_ns == before, done.stderr
    named = verdict("d.h5", "--target", "recall>=0.5", "--max-violating", "50%", "--selector", "topk:gqa=union", "--budget", "50%", "--results",
                    "k.h5", "--layers", "2", "--samples", "s0,s1,s2,s3,s4", "--queries", "last:1", cwd=tmp_path)
    assert named["settings"][0]["setting"] == "50%" and named["claim"]["layers"] == [2] and named["claim"]["n"] == 5
