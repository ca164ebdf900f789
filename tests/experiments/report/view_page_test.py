"""The page of `attest report` as a whole: keys, themes, windows, print, hostile text, size and speed."""
import re

import pytest

import results_maker
from report_page import HOSTILE, HOSTILE_MODEL, needs_browser, report
from results_maker import ffd, write_results

pytestmark = needs_browser


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
