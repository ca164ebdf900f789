"""Runs `attest validate`, and has the formulas of its numbers in plain Python."""

import json
import math

import numpy as np
import pytest
from attest_program import attest
from planted_results import with_violations, write_planted

CLOSE = 1e-9
TARGET = "recall.min>=0.9"


def validate(*arguments, expect=0, cwd=None):
    done = attest("validate", *arguments, cwd=cwd, expect=expect)
    if expect in (2, 4, 5):
        assert done.stdout == "" and len(done.stderr.strip().splitlines()) <= 2, done.stderr
        assert all(line.isprintable() for line in done.stderr.splitlines()), done.stderr
    return done


def verdict(*arguments, expect=0, cwd=None):
    return json.loads(validate(*arguments, "--json", expect=expect, cwd=cwd).stdout)


def planted(path, prompts, per_setting, **more):
    """One bad cell in per_setting[s] prompts; io_ratio and keep_ratio grow with the setting."""
    recall = with_violations(prompts, per_setting)
    grow = np.broadcast_to(0.1 + 0.2 * np.arange(len(per_setting)), recall.shape)
    return write_planted(path, {"recall": recall, "io_ratio": grow, "keep_ratio": grow / 2, "lse_error": 1 - recall},
                         **more)


def head_that_needs_more(path, prompts=60):
    """KV head 1 of layer 1 fails below setting 5; all else passes at 3."""
    return planted(path, prompts, [prompts, 0, 0])


def cdf(k, n, p):
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(0, min(k, n) + 1)) if n else 1.0


def upper_tail(k, n, p):
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def root(rises, level):
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) < level else (low, middle)
    return high


def clopper_pearson(k, n, confidence=0.95):
    tail = (1 - confidence) / 2
    low = 0 if k == 0 else root(lambda p: upper_tail(k, n, p), tail)
    return low, 1 if k == n else root(lambda p: 1 - cdf(k, n, p), 1 - tail)


def hoeffding_bentkus(losses, a):
    n, mean = len(losses), sum(losses) / len(losses)
    r = min(mean, a)
    kl = (r * math.log(r / a) if r else 0) + (1 - r) * math.log((1 - r) / (1 - a))
    return min(1, math.exp(-n * kl), math.e * cdf(math.ceil(n * mean - 1e-9), n, a))


def check_evidence(evidence, n, k, beta=0.1, confidence=0.95):
    low, high = clopper_pearson(k, n, confidence)
    assert (evidence["n"], evidence["k"]) == (n, k)
    assert evidence["share"] == pytest.approx(k / n, rel=CLOSE)
    assert evidence["share_low"] == pytest.approx(low, abs=CLOSE)
    assert evidence["share_high"] == pytest.approx(high, abs=CLOSE)
    assert evidence["p_value"] == pytest.approx(cdf(k, n, beta), rel=CLOSE)
