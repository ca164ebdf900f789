#!/usr/bin/env python3
"""Runs `attest run` on every golden dump and compares each metric with that of an independent float64 implementation.

A cell whose kept set differs (keep_ratio off by more than 1e-6) is counted, and its other metrics are not compared.
Cells that a tie explains are counted and listed, within a bound.
The exit status is 1 if anything is missing, wrong in shape, or beyond tolerance.
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np

FOLDER = Path(__file__).resolve().parent

# Largest difference relative to max(1, |expected|). The CPU computes in double and stores float32; a GPU accumulates
# scores in float32.
TOLERANCE = {
    "cpu": {"default": 2e-5},
    "cuda": {"default": 3e-3, "recall": 1e-3, "spearman": 2e-3},
}
# Share of (layer, query, head, setting) cells whose kept set may differ because a score is within rounding error of its
# threshold.
KEPT_SETS_MAY_DIFFER = {"cpu": 0, "cuda": 0.01}
# Metrics that jump when one token crosses a threshold, or when a tie is broken differently (ties are exact only in
# double). CELLS_MAY_BE_OFF is the share of cells that may be beyond tolerance for these metrics ("step") and for all
# others. No cell may be off by more than MOST_OFF; one of a step metric may also differ by what TIES tokens are worth.
STEPS = (
    "salient_",
    "missed_",
    "scan_error_tail",
    "scan_error_lower",
    "span_keep",
    "block_keep",
    "spearman",
    "pearson",
)
CELLS_MAY_BE_OFF = {
    "cpu": {"step": 0, "other": 0},
    "cuda": {"step": 0.15, "other": 0.025},
}
MOST_OFF = 0.1
TIES = 2


@dataclass
class Outcome:
    """The result of comparing one case."""

    kept_sets: int = 0
    kept_sets_that_differ: int = 0
    worst: dict = field(default_factory=dict)  # metric -> largest difference
    ties: list = field(default_factory=list)  # cells beyond tolerance that a tie explains
    wrong: list = field(default_factory=list)  # error messages

    def worst_of_all(self):
        return max(self.worst.values(), default=0)


def cases():
    return sorted(path.stem for path in FOLDER.glob("*.args"))


def arguments(case, selectors=None):
    """The run's arguments with only the wanted selectors, and their labels. Replaces @DIR@ by the goldens folder."""
    tokens = iter((FOLDER / f"{case}.args").read_text().replace("@DIR@", str(FOLDER)).split())
    kept, labels = [], []
    for token in tokens:
        if token != "--selector":
            kept.append(token)
            continue
        spec = next(tokens)
        label, name = spec.split("=", 1)
        if not selectors or name.split(":")[0] in selectors:
            kept += [token, spec]
            labels.append(label)
    return kept, labels


def differences(expected, found):
    """|expected - found| relative to max(1, |expected|). Equal infinities agree, and NaN agrees only with NaN."""
    with np.errstate(invalid="ignore"):
        difference = np.abs(expected - found) / np.maximum(1, np.abs(expected))
    difference[(np.isnan(expected) & np.isnan(found)) | (expected == found)] = 0
    difference[np.isnan(difference)] = np.inf
    return difference


def tokens_of_rows(dump, sample):
    """The tokens [Y, N] that a query sees in a layer: the fewest that a step of a metric may be a share of."""
    windows = [dump[f"samples/{sample.name.split('/')[-1]}/layers/{layer}"].attrs.get("sliding_window", 1 << 60)
               for layer in sample["layers"][()]]
    return np.minimum.outer(windows, sample["query_positions"][()] + 1)


def share_of_a_token(metric, group, tokens):
    """What one token is worth in cells [Y, N, ...] of a step metric. Shares of salient tokens count these alone; spans
    and sub-blocks have a few."""
    worth = 1 / tokens[..., None, None]
    if metric in ("salient_hit_rate", "salient_hit_rate_fixed") and "salient_ratio" in group:
        worth = worth / np.maximum(group["salient_ratio"][()].astype(float), worth)
    if metric.startswith(("span_keep", "block_keep", "salient_hit_rate_fixed")):
        worth = np.full_like(worth, 0.5)
    return worth


def compare_label(label, expected, found, tokens, device, outcome):
    for attribute in ("dense", "settings"):
        if attribute in expected.attrs:
            values = np.asarray(found[attribute][()], float) if attribute in found else None
            want = np.asarray(expected.attrs[attribute], float)
            if values is None or values.shape != want.shape or not np.allclose(values, want):
                outcome.wrong.append(f"{label}/{attribute}: {values}, expected {expected.attrs[attribute]}")
    same_set = None
    if "keep_ratio" in expected and "keep_ratio" in found and expected["keep_ratio"].shape == found["keep_ratio"].shape:
        same_set = np.abs(expected["keep_ratio"][()] - found["keep_ratio"][()]) <= 1e-6
        outcome.kept_sets += same_set.size
        outcome.kept_sets_that_differ += int((~same_set).sum())
    for metric in expected:
        want = expected[metric][()].astype(float)
        if metric not in found:
            if not np.isnan(want).all():
                outcome.wrong.append(f"{label}/{metric}: missing")
            continue
        have = found[metric][()].astype(float)
        if want.shape != have.shape:
            outcome.wrong.append(f"{label}/{metric}: shape {have.shape}, expected {want.shape}")
            continue
        difference = differences(want, have)
        if same_set is not None and difference.shape == same_set.shape:
            difference = np.where(same_set, difference, 0)
        elif same_set is not None and metric == "recall_layer":
            difference = np.where(same_set.all(2), difference, 0)
        off = ~(difference <= TOLERANCE[device].get(metric, TOLERANCE[device]["default"]))
        kind = "step" if metric.startswith(STEPS) else "other"
        bound = np.full(difference.shape, MOST_OFF)
        if kind == "step":
            worth = share_of_a_token(metric, expected, tokens)
            bound += TIES * (worth if difference.ndim == worth.ndim else worth[..., 0])
        if off.any() and off.mean() <= CELLS_MAY_BE_OFF[device][kind] and (difference <= bound)[off].all():
            for cell in zip(*np.nonzero(off)):
                place = ",".join(map(str, cell))
                outcome.ties.append(f"{label}/{metric}[{place}]: {have[cell]:.7g}, expected {want[cell]:.7g}")
            continue
        outcome.worst[metric] = max(outcome.worst.get(metric, 0), difference.max(initial=0))
        if off.any():
            cell = np.unravel_index(np.argmax(difference), difference.shape)
            place = ",".join(map(str, cell))
            outcome.wrong.append(
                f"{label}/{metric}[{place}]: {have[cell]:.7g}, expected {want[cell]:.7g} ({off.sum()} of {off.size} "
                "cells)"
            )


def check(attest, case, device="cpu", selectors=None, folder=None):
    """Runs one case. The results are kept in `folder` if given."""
    options, labels = arguments(case, selectors)
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as temporary:
        results = Path(folder or temporary) / f"{case}.results.h5"
        command = [attest, "run", FOLDER / f"{case}.h5", "-o", results, "--device", device, "--force", *options]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            outcome.wrong.append(f"exit status {run.returncode}: {run.stderr.strip()[-300:]}")
            return outcome
        with h5py.File(FOLDER / f"{case}.expected.h5") as expected, h5py.File(results) as found, \
                h5py.File(FOLDER / f"{case}.h5") as dump:
            for sample in expected:
                here = f"dumps/0/samples/{sample}"
                if here not in found:
                    outcome.wrong.append(f"sample {sample}: missing")
                    continue
                outcome.wrong += [f"{sample}/{label}: no expected values" for label in labels
                                  if label not in expected[sample]]
                for label in expected[sample]:
                    if label in found[here]:
                        if label == "scores" or label in labels:
                            tokens = tokens_of_rows(dump, found[here])
                            compare_label(label, expected[sample][label], found[here][label], tokens, device, outcome)
                    elif label in labels or label == "scores":
                        outcome.wrong.append(f"{sample}/{label}: missing")
    if outcome.kept_sets_that_differ > KEPT_SETS_MAY_DIFFER[device] * max(outcome.kept_sets, 1):
        outcome.wrong.append(f"{outcome.kept_sets_that_differ} of {outcome.kept_sets} kept sets differ")
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attest", help="the program")
    parser.add_argument("--device", choices=TOLERANCE, default="cpu")
    parser.add_argument("--case", action="append", choices=cases(), help="only this one")
    parser.add_argument("--selector", action="append", help="only this one")
    parser.add_argument("--keep", metavar="FOLDER", help="where results files stay")
    parser.add_argument("--verbose", action="store_true", help="the worst difference of every metric, and all ties")
    options = parser.parse_args()
    wanted = options.case or cases()
    failed = 0
    for case in wanted:
        outcome = check(options.attest, case, options.device, options.selector, options.keep)
        failed += bool(outcome.wrong)
        print(
            f"{'FAIL' if outcome.wrong else 'ok  '} {case}: {outcome.kept_sets} kept sets, "
            f"{outcome.kept_sets_that_differ} differ; {len(outcome.ties)} ties; worst {outcome.worst_of_all():.1e}"
        )
        if options.verbose:
            print("     ", {metric: f"{worst:.1e}" for metric, worst in outcome.worst.items()})
            for sentence in outcome.ties:
                print("      tie:", sentence)
        for sentence in outcome.wrong[:12]:
            print("     ", sentence)
        if len(outcome.wrong) > 12:
            print(f"      ... {len(outcome.wrong) - 12} more")
    print(f"{len(wanted) - failed} of {len(wanted)} cases conform")
    sys.exit(bool(failed) or not wanted)


if __name__ == "__main__":
    main()
