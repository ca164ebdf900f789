"""`attest figures --only pseudo_max_gap`: numpy recomputes every number of the csv from the results file."""

import numpy as np
import pytest
from csv_rows import NUMBER, read_csv
from figures_command import number, study  # noqa: F401
from results_maker import cells


def test_pseudo_max_gap_is_what_the_cells_say(study):
    path, out, _ = study
    rows = read_csv(out / "pseudo_max_gap.csv")
    assert len(rows) == 3 * (4 + 1)
    for row in rows:
        pooled = row["layer"] == "nan"
        keep_layer = lambda layer: pooled or layer == int(row["layer"])
        gaps = cells([path], "ffd", "pseudo_max_gap_" + row["variant"], None, keep_layer)
        for column, p in {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "min": 0, "max": 1}.items():
            assert number(row, column) == pytest.approx(np.quantile(gaps, p), abs=NUMBER), \
                (row["curve"], row["layer"], column)
        shares = {"share_zero": gaps == 0, "share_negative": gaps < 0, "share_above_5": gaps > 5,
                  "share_above_7": gaps > 7}
        for column, hits in shares.items():
            assert number(row, column) == pytest.approx(hits.mean(), abs=NUMBER), (row["curve"], column)
        assert number(row, "cells") == gaps.size
    pooled = {row["variant"]: row for row in rows if row["layer"] == "nan"}
    assert number(pooled["exact"], "share_zero") > 0.2 and number(pooled["thumbnail"], "share_negative") > 0.1, \
        "not trivial"
