"""The tables of metrics in analysis/README.md agree with `attest list --json`."""

import json
import os
from pathlib import Path

from attest_program import attest

README = Path(os.environ["ATTEST_SOURCE_DIR"]) / "analysis/README.md"
BEGIN, END = "<!-- begin: printed by tests/analysis/readme_test.py -->\n", "<!-- end -->\n"


def table(metrics):
    lines = ["| metric | axes | unit | better | definition |", "|---|---|---|---|---|"]
    for metric in metrics:
        better = "" if metric["better"] == "neither" else metric["better"]
        lines.append(
            f"| {metric['name']} | {', '.join(metric['axes'])} | {metric['unit']} | {better} | "
            f"{metric['definition']} |")
    return "\n".join(lines) + "\n"


def tables(document):
    """Tables of the metrics of all selectors, of each selector with its own metrics, and of the exact scores."""
    metrics = document["metrics"]
    parts = [
        ("Of a selector", [m for m in metrics if m["of"] == "selectors"]),
        *((f"Of {s['name']} alone", s["metrics"]) for s in document["selectors"] if s["metrics"]),
        ("Of the exact scores (group `scores`)", [m for m in metrics if m["of"] == "scores"]),
    ]
    return "\n".join(f"### {title}\n\n{table(rows)}" for title, rows in parts)


def program():
    listed = attest("list", "--json")
    return json.loads(listed.stdout)


def test_the_tables_are_those_of_the_program():
    expected = f"{BEGIN}\n{tables(program())}\n{END}"
    text = README.read_text()
    assert text.count(BEGIN) == 1 and text.count(END) == 1
    found = text[text.index(BEGIN) : text.index(END) + len(END)]
    assert found == expected, f"put this into {README}:\n\n{expected}"


def test_every_metric_is_in_a_table():
    document = program()
    names = [m["name"] for m in document["metrics"]] + [m["name"] for s in document["selectors"] for m in s["metrics"]]
    assert len(names) > 30
    text = tables(document)
    for name in names:
        assert text.count(f"\n| {name} | ") == 1, name
