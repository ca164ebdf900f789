"""The bets of `attest monitor` beside MAPIE's risk monitoring: the same hypothesis, level and prompts."""

import json

import numpy as np
import pytest
from monitor_test import monitor, recommended, violations  # noqa: F401
from planted_results import write_planted

pytest.importorskip("mapie", reason="MAPIE is not installed (cmake/setup.sh --torch --tests)")
BETA, LEVEL = 0.1, 0.05


def alarm_of_mapie(losses):
    """Prompts until the lower confidence bound of the share exceeds BETA (Podkopaev and Ramdas, ICLR 2022). Half of its
    level is for a threshold from reference data, which is given here."""
    from mapie.exchangeability_testing import RiskMonitoring

    watch = RiskMonitoring(risk="accuracy", test_level=2 * LEVEL, threshold=BETA, warn=False)
    for n, loss in enumerate(losses, 1):
        if watch.update(np.zeros(1, int), np.array([int(loss)])).harmful_shift_detected:
            return n
    return None


@pytest.mark.parametrize("share, alarms", [(0.35, True), (0.6, True), (0.08, False)])
def test_bets_see_violations_no_later_than_bounds(recommended, tmp_path, share, alarms):  # noqa: F811
    """And neither sees what is not there."""
    for seed in range(4):
        bad = np.flatnonzero(np.random.default_rng(seed).permutation(150) < 150 * share)
        recall = 1 - np.random.default_rng(seed + 9).uniform(0, 0.02, (150, 2, 2, 4, 3))
        recall[bad, 0, 0, 0] = 0.5
        path = write_planted(tmp_path / f"{seed}.h5", {"recall": recall}, dump=f"{seed}.h5",
                             names=[f"n{p:03}" for p in range(150)])
        found = json.loads(monitor(recommended, path, "--json", expect=None).stdout)
        theirs = alarm_of_mapie(violations(found, bad))
        assert found["guarantee"]["alarm"] == alarms and (theirs is not None) == alarms
        assert not alarms or found["guarantee"]["after"] <= theirs
