"""The section of `attest report --target` that judges selectors."""

import html
import json
import re
from pathlib import Path

import h5py
import pytest

from attest_program import attest, run_attest
from browser import Browser, find_browser
from results_maker import EXACT, ffd, quest, write_results

PROMPTS = {f"p{i}": [0, 1, 2] for i in range(40)}


def report(*arguments, expect=0):
    return attest("report", *arguments, "--only", "layer_sparsity", expect=expect)


def validate(*arguments):
    done = run_attest("validate", *arguments, "--json")
    return json.loads(done.stdout)


def section(page, name):
    text = Path(page).read_text()
    start = text.index(f'id="{name}"')
    return html.unescape(text[start:text.index("</section>", start)])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return write_results(tmp_path_factory.mktemp("results") / "r.h5", [EXACT, ffd(), quest(dense_layers=0)], PROMPTS)


def test_each_selector_with_settings_is_judged(results, tmp_path):
    target = ("--target", "recall>=0.85", "--max-violating", "20%")
    document = json.loads(report(results, "-o", tmp_path / "r.html", *target, "--json").stdout)
    for name, label in (("validation", "ffd"), ("validation-2", "quest")):
        verdict = validate(results, *target, "--selector", label)
        shown = section(tmp_path / "r.html", name)
        assert f"Validation: {label} on tiny" in shown and verdict["claim"]["sentence"] in shown
        severity = {"certified": "good", "undecided": "warning", "refuted": "serious"}[verdict["verdict"]]
        assert [f["severity"] for f in document["findings"] if f["link"] == name] == [severity]
        for cell in verdict["offenders"]["cells"][:10]:
            assert f"Layer {cell['layer']}, head {cell['head']}, prompt {cell['prompt']}, query" in shown
    assert "picked afterwards is not covered" in section(tmp_path / "r.html", "validation-2")
    assert "picked afterwards is not covered" in document["findings"][2]["text"], (
        "beside the verdicts, not in the last section alone")
    assert 'id="validation-3"' not in (tmp_path / "r.html").read_text()


def test_the_verdict_leads_and_says_seed_and_split(tmp_path):
    """Also a good one, which findings by severity would put last."""
    results = write_results(tmp_path / "r.h5", [ffd()], PROMPTS)
    done = report(results, "-o", tmp_path / "r.html", "--target", "recall>=0.2", "--seed", "5")
    assert done.stdout.splitlines()[1].startswith("good: Certified: delta 3 of ffd for tiny: with 95 % confidence")
    document = json.loads(report(results, "-o", tmp_path / "j.html", "--target", "recall>=0.2", "--json").stdout)
    assert document["findings"][0]["link"] == "validation" \
        and document["findings"][1]["severity"] in ("serious", "warning")
    assert "all 40 prompts judge, none chose; nothing is drawn (seed 5)" in section(tmp_path / "r.html", "validation")
    report(results, "-o", tmp_path / "m.html", "--target", "recall>=0.2", "--claim", "mean", "--seed", "6")
    assert "all 40 prompts judge, none chose; drawn with seed 6" in section(tmp_path / "m.html", "validation")


def test_without_a_target_nothing_is_judged(results, tmp_path):
    report(results, "-o", tmp_path / "r.html")
    assert 'id="validation"' not in (tmp_path / "r.html").read_text()
    assert "--claim" in report(results, "-o", tmp_path / "x.html", "--claim", "mean", expect=2).stderr
    assert "'recal'" in report(results, "-o", tmp_path / "x.html", "--target", "recal>=0.9", expect=2).stderr
    assert not (tmp_path / "x.html").exists()


def test_what_cannot_be_judged_is_a_sentence(tmp_path):
    left_out = write_results(tmp_path / "r.h5", [ffd()], PROMPTS, skipped={("p3", 1)})
    report(left_out, "-o", tmp_path / "r.html", "--target", "recall>=0.5")
    assert "Not judged: " in section(tmp_path / "r.html", "validation") \
        and "sample 'p3'" in section(tmp_path / "r.html", "validation")
    report(left_out, "-o", tmp_path / "layers.html", "--target", "recall>=0.5", "--layers", "0,2")
    assert "Not judged" not in section(tmp_path / "layers.html", "validation")
    report(left_out, "-o", tmp_path / "l.html", "--target", "recall>=0.5", "--layers", "0", "--for-length", "128K")
    assert "nothing is claimed for contexts of 131072 tokens" in section(tmp_path / "l.html", "validation")
    told = report(left_out, "-o", tmp_path / "k.html", "--target", "recall>=0.5").stdout
    assert "ffd on tiny is not judged: " in told and "sample 'p3'" in told, "on the terminal, too"
    none = write_results(tmp_path / "n.h5", [EXACT], PROMPTS)
    report(none, "-o", tmp_path / "n.html", "--target", "recall>=0.5")
    assert "no selector here has settings" in section(tmp_path / "n.html", "validation")


def test_models_are_judged_one_by_one(tmp_path):
    files = [write_results(tmp_path / f"{m}.h5", [ffd()], PROMPTS, model=m, dump=f"{m}.h5", seed=i)
             for i, m in enumerate("AB")]
    report(*files, "-o", tmp_path / "r.html", "--target", "recall>=0.85")
    for name, model in (("validation", "A"), ("validation-2", "B")):
        shown = section(tmp_path / "r.html", name)
        assert f"Validation: ffd on {model}" in shown
        links = re.findall(r'href="(#[^"]*layer=[^"]*)"', shown)
        assert links and all(f"#model={model}&" in link for link in links)


def test_verdicts_that_stand_together_are_of_one_model(tmp_path):
    files = [write_results(tmp_path / f"{m}.h5", [ffd(), ffd("heads", "per_head"), quest(dense_layers=0)], PROMPTS,
                           model=m, dump=f"{m}.h5", seed=i) for i, m in enumerate("AB")]
    with h5py.File(files[0], "r+") as file:
        file["dumps/0/samples/p3/quest/done"][1] = 0
    arguments = (*files, "-o", tmp_path / "r.html", "--target", "recall>=0.85", "--json")
    findings = [finding["text"] for finding in json.loads(report(*arguments).stdout)["findings"]]
    for start in ("A: Each of these 2 verdicts holds", "B: Each of these 3 verdicts holds"):
        assert len([text for text in findings if text.startswith(start)]) == 1
    for name, has in (("validation", False), ("validation-2", True), ("validation-3", False), ("validation-6", True)):
        assert ("Each of these" in section(tmp_path / "r.html", name)) == has, name
    assert "Not judged: " in section(tmp_path / "r.html", "validation-3")


@pytest.mark.skipif(find_browser() is None, reason="no Chromium is installed")
def test_an_offender_leads_to_its_cell(results, tmp_path):
    page = tmp_path / "r.html"
    report(results, "-o", page, "--target", "recall>=0.85")
    with Browser(find_browser()) as browser:
        browser.open(page)
        browser.run("document.querySelector('#validation a[href*=\"layer=\"]').click()")
        cell = validate(results, "--target", "recall>=0.85", "--selector", "ffd")["offenders"]["cells"][0]
        state = browser.run("location.hash")
        assert f"layer={cell['layer']}" in state and f"head={cell['head']}" in state and "statistic=worst" in state
        assert browser.errors == []
