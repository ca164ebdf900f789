"""Runs failure_prediction and reads what it wrote."""

import json
import os

from attest_program import attest
from csv_rows import read_csv


def figures(*arguments, expect=0):
    return attest("figures", *arguments, "--only", "failure_prediction", "--format", "svg", expect=expect)


def said(*arguments):
    return json.loads(figures(*arguments, "--json").stdout)


def texts(report):
    return [f["text"] for e in report["experiments"] for f in e["findings"]]


def refusal(*arguments):
    """The one sentence of a refusal of bad input; nothing is written."""
    folder = arguments[-1]
    done = figures(*arguments[:-1], "-o", folder, expect=4)
    assert done.stdout == "" and done.stderr.count("\n") == 1 and not os.path.exists(folder)
    return done.stderr


def table(folder, name):
    return read_csv(f"{folder}/failure_prediction_{name}.csv")


def row_of(rows, **wanted):
    found = [r for r in rows if all(r[k] == v for k, v in wanted.items())]
    assert len(found) == 1, (wanted, len(found))
    return found[0]
