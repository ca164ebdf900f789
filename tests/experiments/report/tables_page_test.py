"""The worst cells and the other tables of the page of `attest report`."""
import h5py
import numpy as np

from report_page import HOSTILE, choose, expect_address, needs_browser, settled, shown

pytestmark = needs_browser


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
