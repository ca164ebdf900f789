"""The page of `attest report` in a real Chromium: what it shows is what plain numpy finds in the results file."""

import re
from decimal import ROUND_HALF_UP, Decimal

import h5py
import numpy as np
import pytest

from attest_program import run_attest
import results_maker
from browser import Browser, find_browser
from results_maker import EXACT, ffd, quest, selector, write_results

HOSTILE = "\"'><!--<script>alert(1)<img src=x onerror=alert(1)>\u202e<b>&amp;{{data}}"  # a label has no slash
HOSTILE_MODEL = "tiny </script></title></style>" + HOSTILE
pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium is installed")


def report(path, *more):
    done = run_attest("report", "-o", path, *more)
    assert done.returncode == 0, done.stderr + done.stdout
    return path


def make_study(folder):
    """Three samples, of which c has fewer layers; layer 5 of sample b was left out; quest is dense in layers 0 and
    1."""
    selectors = [EXACT, ffd(), ffd("ffd:gqa=per_head", "per_head"), quest(), selector(HOSTILE, "topk", "budget")]
    return write_results(folder / "r.h5", selectors, skipped={("b", 5)}, model=HOSTILE_MODEL, dump="gone.h5")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    results = make_study(folder)
    return results, report(folder / "report.html", results)


@pytest.fixture(scope="module")
def browser():
    with Browser(find_browser()) as opened:
        yield opened


@pytest.fixture
def page(browser, study):
    browser.errors.clear()
    browser.requests.clear()
    browser.open(study[1])
    yield browser
    assert browser.errors == []
    assert all(url.startswith(("file://", "data:")) or url == "about:blank" for url in browser.requests), \
        browser.requests


def rounded(value, digits):
    """To so many significant digits or to 1e-7, whichever is coarser, as the page stores numbers."""
    exact = Decimal(float(value))
    decade = exact.adjusted() if exact else 0
    step = Decimal(1).scaleb(max(decade - digits + 1, -7))
    return exact.quantize(step, ROUND_HALF_UP)


def shown(value, metric):
    """A number as the page is to show it."""
    if np.isnan(value):
        return "\u2013"
    if metric in ("recall", "mass_recall"):
        missing = rounded(1 - float(value), 3)
        return "1" if missing == 0 else f"{1 - missing:.{min(7, max(0, 2 - missing.adjusted()))}f}"
    stored = rounded(value, 4)
    if stored == 0:
        return "0"
    decade = stored.adjusted()
    if decade < -4:
        return re.sub(r"e([+-])0*(\d)", r"e\1\2", f"{stored:.{min(3, decade + 7)}e}")
    return f"{stored:.{min(7, max(0, 3 - decade))}f}"


def head_cells(results, label, metric, layer, head, setting=None, sample=None):
    """The cells of one head, read with h5py."""
    values = []
    with h5py.File(results) as file:
        for name, group in file["dumps/0/samples"].items():
            layers = list(group["layers"][()])
            if layer not in layers or sample not in (None, name):
                continue
            array = group[label][metric][()].astype(np.float64)[layers.index(layer), :, head]
            if setting is not None:
                array = array[:, list(group[label]["setting_labels"].asstr()[()]).index(setting)]
            values.extend(array)
    return np.array(values)


def expected_readout(results, label, kind, setting, metric, layer, head, sample=None):
    cells = head_cells(results, label, metric, layer, head, None if metric.startswith("pseudo") else setting, sample)
    cells = cells[~np.isnan(cells)]
    worst = min if metric in ("recall", "mass_recall") else max
    mean, least = (shown(cells.mean(), metric), shown(worst(cells), metric)) if len(cells) else ("\u2013", "\u2013")
    return f"Layer {layer}, head {head}: {metric} mean {mean}, worst {least} at {kind} {setting}"


def readout(page):
    return page.run("document.getElementById('readout').textContent")


def address(page):
    return page.run("location.hash")


def expect_address(page, *words):
    """The address follows a few times a second."""
    page.wait(" && ".join(f"location.hash.includes({word!r})" for word in words))


def settled(page, condition="true"):
    """Waits until pending pictures of the state are drawn."""
    frame = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)))"
    page.run(frame)
    page.wait("document.body.ariaBusy !== 'true'")
    page.run(frame)
    page.wait(condition)


def press(page, key, times=1):
    for _ in range(times):
        page.key(key)
    settled(page)


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


def test_keys_reach_everything(page):
    focusable = page.run("""[...document.querySelectorAll('a[href], button, select, input, summary, [tabindex="0"]')]
        .filter((e) => e.checkVisibility()).length""")
    page.run("""window.reached = new Set(); window.bare = [];
        document.addEventListener('focusin', (e) => {
          window.reached.add(e.target);
          if (getComputedStyle(e.target).outlineStyle === 'none') window.bare.push(e.target.outerHTML.slice(0, 80));
        });
        window.scrollTo(0, 0); document.activeElement.blur()""")
    for _ in range(focusable + 5):
        page.key("Tab")
    missed = page.run("""[...document.querySelectorAll('a[href], button, select, input, summary, [tabindex="0"]')]
        .filter((e) => e.checkVisibility() && !window.reached.has(e)).map((e) => e.outerHTML.slice(0, 80))""")
    assert missed == []
    assert page.run("window.bare") == [], "the focus is seen"


def test_arrow_keys_move_in_the_map(page):
    page.open(page.run("location.pathname"), "#metric=recall&selector=ffd&setting=5&layer=1&head=1")
    for key, place in (("ArrowRight", (1, 2)), ("ArrowDown", (2, 2)), ("End", (2, 3)), ("ArrowRight", (2, 3)),
                       ("PageDown", (5, 3)),
                       ("Home", (5, 0)), ("ArrowUp", (2, 0)), ("PageUp", (0, 0))):
        press(page, key)
        assert readout(page).startswith(f"Layer {place[0]}, head {place[1]}: "), key
    expect_address(page, "layer=0&head=0")


def all_cells(results, label, settings, metric):
    found = []
    with h5py.File(results) as file:
        for name, group in file["dumps/0/samples"].items():
            labels = list(group[label]["setting_labels"].asstr()[()])
            array = group[label][metric][()].astype(np.float64)
            for (y, n, h, s), value in np.ndenumerate(array):
                if labels[s] in settings and not np.isnan(value):
                    found.append((value, name, int(group["layers"][y]), h, int(group["query_positions"][n]), labels[s]))
    return found


def cell_rows(page):
    return page.run(
        "[...document.querySelectorAll('#cell-table tbody tr')].map((row) => [...row.cells].map((c) => c.textContent))")


def choose(page, name, text):
    page.run(
        f"(() => {{ const s = document.getElementById({name!r}); s.value = [...s.options].find((o) => o.textContent "
        f"=== {text!r}).value; s.dispatchEvent(new Event('change')); }})()")


def test_the_worst_cells_are_the_worst(page, study):
    choose(page, "cell-selector", "ffd")
    for by, worse in (("recall", 1), ("lse_error", -1), ("mass_recall", 1)):
        page.run(
            f"(() => {{ const s = document.getElementById('cell-order'); s.value = {by!r}; s.dispatchEvent(new "
            f"Event('change')); }})()")
        cells = sorted(all_cells(study[0], "ffd", {"5", "7"}, by), key=lambda cell: worse * cell[0])
        column = {"recall": 6, "lse_error": 7, "mass_recall": 8}[by]
        rows = cell_rows(page)
        assert len(rows) == 20
        assert [row[column] for row in rows] == [shown(cell[0], by) for cell in cells[:20]]
        if cells[0][0] != cells[1][0]:
            _, sample, layer, head, query, setting = cells[0]
            assert rows[0][:6] == ["ffd", f"delta {setting}", sample, str(layer), str(head), str(query)]


def test_cells_say_which_setting_would_have_been_enough(page, study):
    with h5py.File(study[0]) as file:
        for row in cell_rows(page)[:10]:
            _, _, sample, layer, head, query = row[:6]
            label = row[0] if row[0] in ("ffd", "quest", "ffd:gqa=per_head") else HOSTILE
            group = file["dumps/0/samples"][sample]
            where = list(group["layers"][()]).index(int(layer)), list(group["query_positions"][()]).index(int(query)), \
                int(head)
            enough = [(keep, text) for keep, recall, text in zip(group[label]["keep_ratio"][where],
                                                                 group[label]["recall"][where],
                                                                  group[label]["setting_labels"].asstr()[()])
                      if recall >= 0.999]
            assert row[9] == (min(enough)[1] if enough else "none")


def test_cells_filter_sort_and_lead_to_the_map(page):
    field = ("(() => {{ const f = document.getElementById('cell-filter'); f.value = {!r}; f.dispatchEvent(new "
             "Event('input')); }})()")
    page.run(field.format("quest"))
    rows = cell_rows(page)
    assert rows and all("quest" in row[0] for row in rows)
    page.run("document.querySelectorAll('#cell-table th button')[3].click()")
    layers = [int(row[3]) for row in cell_rows(page)]
    assert layers == sorted(layers, reverse=True)
    page.run("document.querySelectorAll('#cell-table th button')[3].click()")
    row = cell_rows(page)[0]
    assert int(row[3]) == min(int(r[3]) for r in cell_rows(page))
    page.run("document.querySelector('#cell-table tbody button').click()")
    settled(page)
    expect_address(page, f"layer={row[3]}&head={row[4]}", "selector=quest", "statistic=worst")
    page.run(field.format("no such words"))
    assert page.run("document.getElementById('cell-count').textContent") == "None of the listed cells."


def test_tables_sort_and_filter(page):
    page.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    column = """(() => { const tables = [...document.querySelectorAll('table.data')];
        const t = tables.find((t) => t.textContent.includes('keep_ratio'));
        const i = [...t.tHead.rows[0].cells].findIndex((c) => c.textContent === 'keep_ratio');
        return [...t.tBodies[0].rows].filter((r) => !r.hidden).map((r) => Number(r.cells[i].textContent)); })()"""
    click = """(() => { const tables = [...document.querySelectorAll('table.data')];
        const t = tables.find((t) => t.textContent.includes('keep_ratio'));
        [...t.tHead.rows[0].cells].find((c) => c.textContent === 'keep_ratio').querySelector('button').click(); })()"""
    before = page.run(column)
    page.run(click)
    assert page.run(column) == sorted(before, reverse=True) != before
    page.run(click)
    assert page.run(column) == sorted(before)
    page.run("""(() => { const f = document.querySelector('#quality_vs_io input[type=search]'); f.value = 'per_head 7';
        f.dispatchEvent(new Event('input')); })()""")
    assert 0 < len(page.run(column)) < len(before)


def test_text_of_files_is_never_markup(page):
    assert page.run("document.querySelectorAll('img[src=x], b b').length") == 0
    labels = page.run("[...document.getElementById('selector').options].map((o) => o.textContent)")
    assert HOSTILE.replace("\u202e", "\\u202e") in labels
    assert page.run("document.querySelector('h1').textContent").endswith(HOSTILE_MODEL.replace("\u202e", "\\u202e"))
    assert "\u202e" not in page.run("document.documentElement.textContent")
    assert "default-src 'none'" in page.run("document.querySelector('meta[http-equiv]').content")
    assert page.run("fetch('https://example.org').then(() => 'went out', () => 'refused')") == "refused"
    page.errors.clear()  # the browser tells of what it refused
    page.requests.clear()


def luminance(colour):
    parts = [int(p) / 255 for p in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_can_be_read(browser, study, theme):
    browser.open(study[1], theme=theme)
    paper = luminance(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert (paper > 0.5) == (theme == "light")
    for part in ("body", ".quiet", ".studied", ".findings p", ".severity", "th", "nav a", ".findings a", "#readout"):
        ink = luminance(browser.run(f"getComputedStyle(document.querySelector({part!r})).color"))
        contrast = (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05)
        assert contrast >= 4.5, part
    # light, then dark
    browser.run("document.getElementById('theme').click(); document.getElementById('theme').click()")
    assert luminance(browser.run("getComputedStyle(document.body).backgroundColor")) < 0.5
    browser.run("document.getElementById('theme').click()")


@pytest.mark.parametrize("width", [390, 1280])
def test_every_part_is_reached_from_the_bar(browser, study, width):
    """On a phone, too, no link hides behind the button of the theme or beyond the window."""
    browser.open(study[1], width=width)
    boxes = browser.run("""(() => {
        const box = (e) => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
        return {theme: box(document.getElementById('theme')), nav: box(document.querySelector('nav')),
                links: [...document.querySelectorAll('nav a')].map(box)}; })()""")
    left, top, right, bottom = boxes["theme"]
    assert len(boxes["links"]) == 5 and right <= width and bottom > top
    for link in boxes["links"]:
        assert link[0] >= boxes["nav"][0] and link[2] <= boxes["nav"][2] \
            and link[3] <= boxes["nav"][3] + 1, "not cut by the bar"
        assert link[2] <= left or link[0] >= right or link[3] <= top or link[1] >= bottom, "not behind the button"


@pytest.mark.parametrize("width", [400, 760, 1280])
def test_it_fits_its_window(browser, study, width):
    browser.open(study[1], width=width)
    browser.run("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_it_prints(page, tmp_path):
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert luminance(page.run("getComputedStyle(document.body).backgroundColor")) > 0.9, (
        "paper is white in a dark theme, too")
    page.call("Emulation.setEmulatedMedia", media="")
    page.pdf(tmp_path / "report.pdf")
    assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "report.pdf").read_bytes())) >= 2


def test_figures_are_shown(page, study):
    figures = page.run(
        "[...document.querySelectorAll('.plot img')].map((i) => [i.complete, i.naturalWidth, i.alt !== ''])")
    if not figures:
        assert "gnuplot is not installed" in page.run("document.getElementById('figures').textContent")
    assert all(complete and width > 100 and named for complete, width, named in figures)


def test_a_large_study_is_quick_and_small(browser, tmp_path, monkeypatch):
    """A quarter of 32 x 32 heads, 5 selectors, 23 settings, of noise, which nothing compresses: a quarter of 3 MB."""
    monkeypatch.setattr(results_maker, "HEADS", 16)
    grid = [f"{i / 2:g}" for i in range(1, 24)]
    monkeypatch.setitem(results_maker.GRIDS, "delta", (grid, [float(text) for text in grid]))
    results = write_results(tmp_path / "r.h5", [ffd(f"ffd{i}") for i in range(5)], {"a": list(range(16))})
    path = report(tmp_path / "report.html", results, "--only", "layer_sparsity", "--size", "732KiB")
    size = path.stat().st_size
    browser.errors.clear()
    browser.open(path)
    if size > 750_000:  # what is never left out is more
        assert "left out" in browser.run("document.getElementById('map').textContent")
        assert size < 1_100_000
    times = browser.run("""(async () => {
        const times = {setting: [], hover: []}, slider = document.getElementById('setting');
        const box = document.getElementById('canvas').getBoundingClientRect();
        for (let i = 0; i < 20; ++i) {
          let begun = performance.now();
          slider.value = String(i); slider.dispatchEvent(new Event('input'));
          await new Promise((done) => setTimeout(done));
          times.setting.push(performance.now() - begun);
          begun = performance.now();
          document.getElementById('grid').dispatchEvent(new PointerEvent(
              'pointermove', {clientX: box.left + 40 + 9 * i, clientY: box.top + 60 + 7 * i}));
          times.hover.push(performance.now() - begun);
        }
        return times; })()""")
    for what, spent in times.items():
        assert min(spent) < 50, (what, spent)  # the others may have waited for the machine
    opened = browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert 0 < opened < 20_000, "a fraction of a second when the machine has nothing else to do"
    assert browser.errors == []
