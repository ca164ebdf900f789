"""`attest validate TASKS.h5`: answers judged alone and together with cells, by counts worked out here."""

import numpy as np
from outcomes_maker import write_results, write_tasks
from verdicts import cdf, validate, verdict

ONE = {"ffd": ("ffd", "delta", ["1", "3", "5"], {})}


def answers(prompts, failing):
    """The first failing[s] prompts are answered wrong at setting s."""
    failed = np.zeros((prompts, len(failing)), bool)
    for s, count in enumerate(failing):
        failed[:count, s] = True
    return failed


def test_answers_alone(tmp_path):
    write_tasks(tmp_path / "t.h5", answers(40, [9, 0, 0]), selectors=ONE)
    found = verdict(tmp_path / "t.h5", "-o", tmp_path / "rec.json", expect=0)
    assert (found["verdict"], found["certified"], found["stopped_at"]) == ("certified", 3, 1)
    assert "answered wrong where dense attention answers right" in found["claim"]["sentence"]
    assert [(s["n"], s["k"]) for s in found["settings"]] == [(40, 0), (40, 0), (40, 9)]
    assert found["wrong_answers"] == [f"p{p:03}" for p in range(9)] and "  wrong        p000, p001" in found["text"]
    assert "answers of the whole model" in found["text"] and (tmp_path / "rec.json").exists()
    assert "  costs        keeps 100 % of the tokens\n" in found["text"] and "passes at" not in found["text"]


def test_settings_are_named_as_they_were_typed(tmp_path):
    settings = ["1048576", "1048577", "12.5%"]
    write_tasks(tmp_path / "t.h5", answers(40, [0, 0, 9]), selectors={"quest": ("quest", "budget", settings, {})})
    text = verdict(tmp_path / "t.h5", expect=0)["text"]
    assert "certified: budget 1048576 of quest" in text


def test_prompts_that_dense_attention_fails_do_not_count(tmp_path):
    dense = np.ones(40, bool)
    dense[5:17] = False
    write_tasks(tmp_path / "t.h5", answers(40, [0, 0, 0]), selectors=ONE, dense=dense)
    found = verdict(tmp_path / "t.h5", expect=3)
    assert found["claim"]["n"] == 28 and found["prompts_to_decide"] == 42
    assert "12 of 40 prompts do not count for answers: dense attention answers them wrong" in found["notes"][0]


def test_answers_and_cells_together(tmp_path):
    """A prompt violates if it misses a target or is answered wrong; a looser delta passes by answers than by cells."""
    bad = np.full((40, 3), 0.01)
    bad[:8, 1] = 0.5  # the cells of delta 3
    results = write_results(tmp_path / "r.h5", bad, selectors=ONE)
    write_tasks(tmp_path / "t.h5", answers(40, [8, 0, 0]), selectors=ONE)
    both = verdict(results, tmp_path / "t.h5", "--target", "recall.min>=0.9", expect=0)
    assert (both["certified"], both["stopped_at"]) == (5, 3)
    assert "miss recall.min>=0.9 or are answered wrong" in both["claim"]["sentence"]
    assert both["settings"][1]["k"] == 8 and both["settings"][1]["targets"][1]["k"] == 0
    # With the results but no target of cells: as the answers alone.
    assert verdict(results, tmp_path / "t.h5")["certified"] == verdict(tmp_path / "t.h5")["certified"] == 3


def test_the_heading_counts_what_was_judged(tmp_path):
    """The results have three settings, the answers fewer."""
    results = write_results(tmp_path / "r.h5", np.full((40, 3), 0.01), selectors=ONE)
    for settings, words in ((["1"], "delta 1 of ffd is not certified for tiny"),
                            (["1", "3"], "not even delta 3 of ffd, the largest judged, is certified for tiny")):
        tasks = write_tasks(tmp_path / f"{len(settings)}.h5", answers(40, [30] * len(settings)),
                            selectors={"ffd": ("ffd", "delta", settings, {})})
        found = verdict(results, tasks, "--target", "recall.min>=0.5", expect=3)
        assert found["text"].splitlines()[0] == f"refuted: {words}"


def test_what_answers_cannot_be_asked(tmp_path):
    write_tasks(tmp_path / "t.h5", answers(40, [0, 0, 0]), selectors=ONE)
    path = tmp_path / "t.h5"
    assert "of cells" in validate(path, "--target", "recall>=0.9", expect=2).stderr
    assert "--claim mean" in validate(path, "--claim", "mean", expect=2).stderr
    assert "--layers is of cells" in validate(path, "--layers", "0-3", expect=2).stderr
    results = write_results(tmp_path / "r.h5", np.full((40, 3), 0.01), selectors=ONE)
    assert "--per" in validate(results, path, "--per", "layer", expect=2).stderr
    assert "--target is missing" in validate(results, expect=2).stderr
    write_tasks(tmp_path / "two.h5", np.zeros((4, 7), bool))
    assert "--selector LABEL" in validate(tmp_path / "two.h5", expect=2).stderr


def test_the_share_of_false_certificates_stays_within_the_level(tmp_path):
    """Answers of which exactly the allowed share is wrong, in a sequence of three settings."""
    rng = np.random.default_rng(1)
    wrong = trials = 0
    for trial in range(40):
        write_tasks(tmp_path / f"{trial}.h5", rng.uniform(size=(30, 3)) < 0.2, selectors=ONE)
        done = validate(tmp_path / f"{trial}.h5", "--max-violating", "20%", expect=None)
        trials += 1
        wrong += done.returncode == 0
    level = cdf(max(k for k in range(30) if cdf(k, 30, 0.2) <= 0.05), 30, 0.2)
    assert wrong <= trials * level + 4 * np.sqrt(trials * level * (1 - level))
