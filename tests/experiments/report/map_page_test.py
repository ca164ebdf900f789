"""The map of the page of `attest report`, its links and its readout show what numpy finds in the results file."""
import os
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from planted_results import recalls, write_planted
from report_page import address, choose, expect_address, expected_readout, head_cells, needs_browser
from report_page import press, readout, report, settled, shown
from results_maker import EXACT, ffd, write_results

pytestmark = needs_browser


def test_numbers_are_those_of_the_results_file(page, study):
    results, path = study
    for label, kind, settings in (("ffd", "delta", ["3", "7"]), ("quest", "budget", ["50%"])):
        for setting in settings:
            for metric in ("recall", "lse_error", "keep_ratio", "pseudo_max_gap_exact"):
                if label == "quest" and metric.startswith("pseudo"):
                    continue
                for layer, head in ((0, 0), (5, 1)):
                    page.run(f"location.hash = 'metric={metric}&selector={label}&setting={setting.replace('%', '%25')}"
                             f"&layer={layer}&head={head}'")
                    expected = expected_readout(results, label, kind, setting, metric, layer, head)
                    settled(page)
                    assert readout(page) == expected


def test_every_metric_of_the_chosen_head_is_listed(page, study):
    page.run("location.hash = 'metric=recall&selector=ffd&setting=5&layer=2&head=1'")
    settled(page, "document.getElementById('head-title').textContent === 'Layer 2, head 1'")
    rows = page.run(
        "[...document.querySelectorAll('#head-numbers tbody tr')].map((row) => [...row.cells].map((c) => "
        "c.textContent))")
    with h5py.File(study[0]) as file:
        stored = {name for name, item in file["dumps/0/samples/a/ffd"].items() if item.ndim >= 3}
    assert {row[0] for row in rows} == stored | {"lse"}
    for name, mean, _ in rows:
        if name in ("recall", "keep_ratio", "io_ratio"):
            assert mean == shown(np.nanmean(head_cells(study[0], "ffd", name, 2, 1, "5")), name)


def test_a_single_sample_can_be_chosen(page, study):
    page.run("location.hash = 'metric=recall&selector=ffd&setting=5&layer=2&head=1&sample=b'")
    settled(page)
    assert readout(page) == expected_readout(study[0], "ffd", "delta", "5", "recall", 2, 1, sample="b")
    page.run("location.hash = 'metric=recall&selector=ffd&setting=5&layer=5&head=1&sample=b'")
    settled(page)
    assert "mean \u2013, worst \u2013" in readout(page), "the layer that the study left out"


def picture(page):
    return page.run("document.getElementById('canvas').toDataURL()")


def test_the_map_changes_with_the_setting(page):
    page.run("location.hash = 'metric=recall&selector=ffd&setting=5'")
    settled(page)
    before = picture(page)
    page.run("document.getElementById('grid').focus()")
    press(page, "+")
    assert picture(page) != before
    expect_address(page, "setting=7")
    press(page, "-")
    assert picture(page) == before


@pytest.mark.parametrize("metric, brighter", [("recall", "worse"), ("lse_error", "worse"), ("lse", "more")])
def test_what_bright_colours_mean_is_said_by_metric(page, metric, brighter):
    page.run(f"location.hash = 'metric={metric}&selector=ffd&setting=5'")
    settled(page)
    assert page.run("document.getElementById('brighter').textContent") == f"Brighter is {brighter}."
    assert page.run("document.getElementById('legend').ariaLabel").endswith(f"; brighter is {brighter}")


def test_colours_follow_the_numbers(page, study):
    """The brightest cell of the map is the head with the worst number, and a missing one is hatched."""
    page.run("location.hash = 'metric=lse_error&statistic=worst&selector=ffd&setting=3'")
    settled(page)
    worst = max(((head_cells(study[0], "ffd", "lse_error", layer, head, "3"), layer, head)
                 for layer in (0, 1, 2, 5) for head in range(4)), key=lambda place: np.nanmax(place[0]))
    assert readout(page).startswith(f"Layer {worst[1]}, head {worst[2]}: "), "where a reader begins who chose no head"
    first = page.run("document.querySelector('#worst-heads button').textContent")
    assert first == f"layer {worst[1]}, head {worst[2]}: {shown(np.nanmax(worst[0]), 'lse_error')}"
    page.run("location.hash = 'metric=lse_error&statistic=worst&selector=ffd&setting=3&order=worst'")
    settled(page)
    colours = page.run("""(() => { const c = document.getElementById('canvas'), g = c.getContext('2d');
      return [0, 1, 2, 3].map((i) => [...g.getImageData(map_left() + (i + 0.5) * 34, 15, 1, 1).data]);
      function map_left() { return 20; } })()""")
    light = [r + g for r, g, _, _ in colours]
    assert light == sorted(light, reverse=True) and light[0] > light[-1], "the worst head of a layer stands first"
    page.errors.clear()  # the browser advises against reading a canvas


@pytest.mark.parametrize("low, high, texts", [
    (0.9851, 0.9953, ["0.99", "0.995"]),  # three digits
    (0.2, 1, ["0.2", "0.4", "0.6", "0.8", "1"]),
    (12000, 15800, ["12000", "13000", "14000", "15000"]),
    (0.985, 0.985, ["0.985"]),
])
def test_ticks_say_where_they_are(page, low, high, texts):
    source = (Path(os.environ["ATTEST_SOURCE_DIR"]) / "experiments/report/page/colours.js").read_text()
    scale = f"makeScale([{{values: [{low}, {high}]}}], {{log: false, share: false, better: 'lower'}})"
    ticks = page.run(f"(() => {{ const data = {{colours: []}};\n{source}\nreturn {scale}.ticks; }})()")
    assert [text for _, text in ticks] == texts
    for part, text in ticks:
        assert low + part * (high - low) == pytest.approx(float(text), rel=1e-9)


def test_a_link_restores_its_state(page, study):
    page.open(study[1], "#metric=mass_recall&statistic=worst&selector=quest&setting=1024&order=worst&layer=2&head=3")
    values = page.run("['statistic', 'order', 'setting-value'].map((id) => document.getElementById(id).value)")
    assert values == ["worst", "worst", "1024"]
    chosen = "document.getElementById('{}').selectedOptions[0].textContent"
    assert page.run(chosen.format("metric")) == "mass_recall" and page.run(chosen.format("selector")) == "quest"
    assert readout(page) == expected_readout(study[0], "quest", "budget", "1024", "mass_recall", 2, 3)
    assert page.run("document.activeElement.id") == "grid"
    assert page.run("document.getElementById('map').getBoundingClientRect().top") < 120
    page.run("document.getElementById('metric').value = [...document.getElementById('metric').options]"
             ".find((o) => o.textContent === 'recall').value;"
             "document.getElementById('metric').dispatchEvent(new Event('change'))")
    settled(page)
    expect_address(page, "metric=recall")
    assert address(page) == "#metric=recall&statistic=worst&selector=quest&setting=1024&order=worst&layer=2&head=3"


def test_a_link_to_what_is_not_there_says_so(page, study):
    page.open(study[1], "#metric=recall&selector=nosuch&setting=99&layer=77&head=0")
    said = page.run("document.getElementById('problem').textContent")
    assert said == "This report does not have selector nosuch; setting 99; layer 77, head 0."
    page.open(study[1], "#layer=&head=")
    assert page.run("document.getElementById('problem').textContent") == \
        "This report does not have layer '', head ''."


def test_numbers_that_cannot_be_unpacked_are_said(browser, study, tmp_path):
    text = Path(study[1]).read_text()
    texts = re.search(r'"texts":\s*\[[^]]*\]', text)[0]
    (tmp_path / "damaged.html").write_text(text.replace(texts, re.sub(r'"[^"]{20}', '"' + 20 * "A", texts)))
    browser.open(tmp_path / "damaged.html")
    said = browser.run("document.getElementById('problem').textContent")
    assert said.startswith("Numbers of this page cannot be unpacked (") and said.endswith("the file is damaged.")
    assert not browser.run("document.getElementById('problem').hidden")


def test_each_model_begins_with_a_selector_of_its_own(browser, tmp_path):
    """The exact computation, which has nothing to show, is the first of one of them."""
    files = [write_results(tmp_path / f"{model}.h5", selectors, model=model, dump=f"{model}.h5")
             for model, selectors in (("A", [ffd()]), ("B", [EXACT, ffd()]))]
    path = report(tmp_path / "two.html", *files, "--only", "layer_sparsity")
    browser.open(path)
    choose(browser, "model", "B")
    settled(browser)
    expect_address(browser, "model=B", "selector=ffd", "setting=5")
    browser.open(path, "#model=B&metric=recall")
    assert browser.run("document.getElementById('selector').selectedOptions[0].textContent") == "ffd"


def test_links_of_findings_lead_to_what_they_say(page):
    links = page.run(
        "[...document.querySelectorAll('.findings a')].map((a) => [a.getAttribute('href'), "
        "a.closest('li').textContent])")
    assert len(links) > 8
    seen = 0
    for href, text in links:
        if "=" not in href:
            assert page.run(f"document.getElementById({href[1:]!r}) !== null"), href
            continue
        page.run(f"location.hash = {href[1:]!r}")
        settled(page)
        assert page.run("document.getElementById('problem').hidden"), href
        place = re.search(r"worst at layer (\d+), head (\d+)", text)
        number = re.search(r"recall (-?[\d.]+)", text)
        if place:
            said = readout(page)
            assert said.startswith(f"Layer {place[1]}, head {place[2]}: recall "), said
            assert float(re.search(r"worst (\S+) at", said)[1]) == pytest.approx(float(number[1]), abs=6e-4)
            seen += 1
    assert seen >= 3


def test_pointer_and_curve(page, study):
    page.run("location.hash = 'metric=recall&selector=ffd&setting=5&layer=0&head=1'")
    settled(page)
    page.run("document.getElementById('grid').scrollIntoView({block: 'center', behavior: 'instant'})")
    box = page.run(
        "(() => { const b = document.getElementById('canvas').getBoundingClientRect(); return [b.left, b.top]; })()")
    x, y = box[0] + 20 + 2.5 * 34, box[1] + 18 + 3.5 * 24  # the fourth row, the third column
    page.pointer(x, y)
    settled(page)
    assert readout(page) == expected_readout(study[0], "ffd", "delta", "5", "recall", 5, 2)
    assert "layer=0&head=1" in address(page), "hovering does not choose"
    page.pointer(x, y, click=True)
    settled(page)
    expect_address(page, "layer=5&head=2")
    assert page.run("document.querySelectorAll('#curve .mean circle').length") == 3
    titles = page.run("[...document.querySelectorAll('#curve .hit title')].map((t) => t.textContent)")
    cells = head_cells(study[0], "ffd", "recall", 5, 2, "7")
    assert titles[2] == f"delta 7: mean {shown(np.nanmean(cells), 'recall')}, worst {shown(np.nanmin(cells), 'recall')}"
    page.run("document.querySelectorAll('#curve .hit')[2].dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    settled(page)
    expect_address(page, "setting=7")


@pytest.mark.parametrize("metric, label, why", [
    ("recall", "exact", "exact has no settings to draw a curve over."),
    ("lse", "ffd", "lse is the same at every setting."),
    ("block_keep_ratio", "quest", "This page does not have block_keep_ratio of quest for what is shown.")])
def test_why_there_is_no_curve(page, metric, label, why):
    page.run(f"location.hash = 'metric={metric}&selector={label}&layer=5&head=2'")
    settled(page)
    assert page.run("document.getElementById('curve').textContent") == why


def test_one_setting_makes_no_curve(page, tmp_path):
    path = write_planted(tmp_path / "r.h5", {"recall": recalls(3, settings=1), "keep_ratio": recalls(3, settings=1)},
                         settings=(5,))
    page.open(report(tmp_path / "r.html", path), "#metric=recall&selector=ffd&layer=1&head=2")
    settled(page)
    assert page.run("document.getElementById('curve').textContent") == "ffd was studied at one setting."


def test_arrow_keys_move_in_the_map(page):
    page.open(page.run("location.pathname"), "#metric=recall&selector=ffd&setting=5&layer=1&head=1")
    for key, place in (("ArrowRight", (1, 2)), ("ArrowDown", (2, 2)), ("End", (2, 3)), ("ArrowRight", (2, 3)),
                       ("PageDown", (5, 3)),
                       ("Home", (5, 0)), ("ArrowUp", (2, 0)), ("PageUp", (0, 0))):
        press(page, key)
        assert readout(page).startswith(f"Layer {place[0]}, head {place[1]}: "), key
    expect_address(page, "layer=0&head=0")
