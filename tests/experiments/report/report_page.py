"""Helpers for tests of the page of `attest report` in a real Chromium: a study, and what its page is to show."""
import re
from decimal import ROUND_HALF_UP, Decimal

import h5py
import numpy as np
import pytest

from attest_program import run_attest
from browser import find_browser
from results_maker import EXACT, ffd, quest, selector, write_results

HOSTILE = "\"'><!--<script>alert(1)<img src=x onerror=alert(1)>\u202e<b>&amp;{{data}}"  # a label has no slash
HOSTILE_MODEL = "tiny </script></title></style>" + HOSTILE
needs_browser = pytest.mark.skipif(find_browser() is None, reason="no Chromium is installed")


def report(path, *more):
    done = run_attest("report", "-o", path, *more)
    assert done.returncode == 0, done.stderr + done.stdout
    return path


def make_study(folder):
    """Three samples, of which c has fewer layers; layer 5 of sample b was left out; quest is dense in layers 0 and
    1."""
    selectors = [EXACT, ffd(), ffd("ffd:gqa=per_head", "per_head"), quest(), selector(HOSTILE, "topk", "budget")]
    return write_results(folder / "r.h5", selectors, skipped={("b", 5)}, model=HOSTILE_MODEL, dump="gone.h5")


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


def choose(page, name, text):
    page.run(
        f"(() => {{ const s = document.getElementById({name!r}); s.value = [...s.options].find((o) => o.textContent "
        f"=== {text!r}).value; s.dispatchEvent(new Event('change')); }})()")
