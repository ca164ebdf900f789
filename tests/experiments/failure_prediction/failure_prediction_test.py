"""failure_prediction: plain numpy recomputes its numbers from the cells; planted truths; too few failures."""

import contextlib
import functools
import os
import subprocess

import h5py
import numpy as np
import pytest
from attest_program import ATTEST, attest, run_attest
from csv_rows import NUMBER, read_csv
from near import CLOSE
from outcome_figures import row_of, said, table, texts
from outcomes_maker import SELECTORS, every_run, planted, write_results, write_tasks

PRINTED = 1e-4  # areas under curves have four digits


@functools.cache
def load(path):
    """(scores, label -> metric -> array) of each sample."""
    with h5py.File(path) as file:
        return [({name: data[()] for name, data in sample["scores"].items()},
                 {label: {name: data[()] for name, data in sample[label].items()} for label in SELECTORS})
                for sample in file["dumps/0/samples"].values()]


@functools.cache
def numbers_of(path, label, setting, predictor):
    """One number for each sample: of span_recall the cells with a span mass of at least 0.3."""
    metric, _, statistic = predictor.partition(".")
    reduce, numbers, at = STATISTICS.get(statistic), [], SELECTORS[label][2].index(setting)
    for scores, labels in load(path):
        group, mass = labels[label], scores["span_mass"]
        if metric == "span_share_kept":
            numbers.append(np.nansum(group["span_mass_kept"][..., at].astype(float)) / np.nansum(mass.astype(float)))
        elif metric == "model_span_lost":  # [layer, query, setting, token]
            numbers.append(np.float32(reduce((group["span_token_heads"][:, :, at, :] == 0).all(0).mean(-1))))
        elif metric == "span_error":  # of each query over layers and heads
            weight = mass.astype(float)
            numbers.append(reduce((weight * group["output_error"][..., at]).sum((0, 2)) / weight.sum((0, 2))))
        elif metric == "weighted_error":
            of_rows = np.sqrt((group["weighted_error_head"][..., at].astype(float) ** 2).sum(2)).sum(0)
            numbers.append(np.float32(reduce(of_rows.astype(np.float32).astype(float))))
        elif metric in ("predicted_loss", "predicted_margin"):
            loss = group["predicted_loss_head"][..., at].astype(float).sum((0, 2))
            row = loss if metric == "predicted_loss" else scores["margin"].astype(float) - loss
            numbers.append(np.float32(reduce(row.astype(np.float32).astype(float))))
        elif metric == "span_recall":
            numbers.append(reduce(group["recall"][..., at].astype(float)[mass >= 0.3]))
        else:
            numbers.append(reduce(group[metric][..., at].astype(float)))
    return numbers


def auc_of_pairs(score, failed, stratum=None):
    won = pairs = 0
    stratum = np.zeros(len(score)) if stratum is None else stratum
    for s in set(stratum):
        bad, good = score[(stratum == s) & failed], score[(stratum == s) & ~failed]
        won += (bad[:, None] > good).sum() + (bad[:, None] == good).sum() / 2
        pairs += len(bad) * len(good)
    return won / pairs


STATISTICS = {"mean": np.nanmean, "min": np.nanmin, "max": np.nanmax, "p5": lambda x: np.nanquantile(x, 0.05)}
PREDICTORS = {"span_error.max": "high", "span_recall.min": "low", "span_recall.mean": "low", "span_share_kept": "low",
              "span_mass_kept.min": "low", "model_span_lost.max": "high",
              "model_span_lost.mean": "high", "recall.mean": "low", "recall.min": "low", "recall.p5": "low",
              "mass_recall.min": "low", "lse_error.max": "high", "recall_layer.min": "low",
              "lse_error.mean": "high", "keep_ratio.mean": "low", "keep_ratio.min": "low", "weighted_error.max": "high",
              "weighted_error.mean": "high", "predicted_loss.max": "high", "predicted_margin.min": "low",
              "predicted_margin.mean": "low"}


class Study:
    """Two models, of which one has a prompt that dense attention answers wrong."""

    def __init__(self, folder):
        self.paths, self.runs = [], []  # (model, prompt, label, setting, failed, path)
        for m, model in enumerate(["tiny", "other"]):
            bad, failed = planted(40, seed=m + 3)
            dense = np.arange(40) != 7 if m else np.ones(40, bool)
            results = write_results(folder / f"r{m}.h5", bad, model=model, dump=f"{model}.h5", seed=m)
            self.paths += [results, write_tasks(folder / f"t{m}.h5", failed, model=model, dense=dense)]
            for i, (label, setting) in enumerate(every_run()):
                self.runs += [(model, p, label, setting, failed[p, i], results) for p in range(40) if dense[p]]
        self.failed = np.array([r[4] for r in self.runs])
        self.label = np.array([r[2] for r in self.runs])
        self.selector = np.array([SELECTORS[r[2]][0] for r in self.runs])
        self.model = np.array([r[0] for r in self.runs])
        self.prompt = np.array([r[1] for r in self.runs])

    def values(self, predictor):
        return np.array(
            [numbers_of(path, label, setting, predictor)[prompt] for _, prompt, label, setting, _, path in self.runs])

    def score(self, predictor):
        return self.values(predictor) * (1 if PREDICTORS[predictor] == "high" else -1)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    made = Study(folder)
    made.out = folder / "out"
    r0, t0, r1, t1 = made.paths
    made.report = said(t1, r0, r1, t0, "-o", made.out)  # any order
    return made


def test_auc_is_what_all_pairs_say(study):
    rows = table(study.out, "auc")
    for predictor, direction in PREDICTORS.items():
        score = study.score(predictor)
        row = row_of(rows, predictor=predictor, scope="all")
        assert row["failure_if"] == direction and row["spans"] == ("with" if "span" in predictor else "without")
        assert (int(row["runs"]), int(row["failures"])) == (len(score), study.failed.sum())
        assert int(row["failed_prompts"]) == len(set(study.prompt[study.failed]))
        assert float(row["auc"]) == pytest.approx(auc_of_pairs(score, study.failed), abs=PRINTED)
        assert float(row["auc_same_selector"]) == pytest.approx(
            auc_of_pairs(score, study.failed, study.label), abs=PRINTED)
        for scope, of in (("ffd", study.selector == "ffd"), ("quest", study.selector == "quest"),
                          ("model other", study.model == "other")):
            row = row_of(rows, predictor=predictor, scope=scope)
            assert int(row["runs"]) == of.sum()
            assert float(row["auc"]) == pytest.approx(auc_of_pairs(score[of], study.failed[of]), abs=PRINTED)
            assert float(row["auc_low"]) <= float(row["auc"]) <= float(row["auc_high"])
    assert float(row_of(rows, predictor="combination_spans", scope="all")["auc"]) > 0.97
    assert rows[0]["spans"] == "with" and {r["scope"] for r in rows} == {
        "all", "ffd", "quest", "streaming_llm", "model tiny", "model other"}


def test_captions_speak_of_what_is_there(study):
    """Bootstrap intervals are in two tables alone; bins and margins have numbers of any count."""
    caption = lambda name: " ".join((study.out / f"failure_prediction_{name}").read_text().replace("#", " ").split())
    for name, interval, fewest in (("auc.md", True, True), ("left_out.md", True, True), ("thresholds.md", False, True),
                                   ("margin.md", False, False),
                                   ("roc.gp", False, True), ("calibration.gp", False, False)):
        text = caption(name)
        assert "it failed if dense attention answers right and the run wrong." in text, name
        assert ("Intervals are cluster bootstraps over prompts" in text) == interval, name
        assert ("No number stands for fewer than 10 failures" in text) == fewest, name


def test_thresholds_catch_what_they_say(study):
    rows = table(study.out, "thresholds")
    for predictor in PREDICTORS:
        for scope, of in (("all", study.failed | True), ("ffd", study.selector == "ffd")):
            row, score, failed = row_of(rows, predictor=predictor, scope=scope), study.score(predictor)[of], \
                study.failed[of]
            for share in (95, 99):
                limit = np.sort(score[failed])[::-1][int(np.ceil(share / 100 * failed.sum() - 1e-9)) - 1]
                assert abs(float(row[f"threshold_{share}"])) == pytest.approx(abs(limit), rel=NUMBER, abs=NUMBER)
                assert float(row[f"caught_{share}"]) == pytest.approx((score[failed] >= limit).mean(), abs=0.01)
                assert float(row[f"caught_{share}"]) >= share / 100
                assert float(row[f"false_alarms_{share}"]) == pytest.approx((score[~failed] >= limit).mean(), abs=0.01)


def test_predicted_margins_below_zero(study):
    """A threshold that is not learnt."""
    rows, alarm = table(study.out, "margin"), study.values("predicted_margin.min") < 0
    assert {r["scope"] for r in rows} == {"all", "ffd", "quest", "streaming_llm", "model tiny", "model other"}
    for scope, of in (("all", study.failed | True), ("ffd", study.selector == "ffd"),
                      ("model other", study.model == "other")):
        row, failed = row_of(rows, scope=scope), study.failed[of]
        assert (int(row["failures"]), int(row["right"])) == (failed.sum(), (~failed).sum())
        assert float(row["caught"]) == pytest.approx(alarm[of][failed].mean(), abs=NUMBER)
        assert float(row["false_alarms"]) == pytest.approx(alarm[of][~failed].mean(), abs=NUMBER)
    caught, alarms = alarm[study.failed].mean(), alarm[~study.failed].mean()
    assert 0.2 < caught < 1 and 0 < alarms < 0.8, "the case is not trivial"
    assert (
        f"predicted_margin.min below 0, a threshold that is not learnt, tells {100 * caught:.1f} % of "
        f"{study.failed.sum()} failures, "
            f"and takes {100 * alarms:.1f} % of {(~study.failed).sum()} right runs for failures.") in texts(
                study.report)


def test_what_is_left_out_does_not_teach(study):
    """Prompts are left out with the selector, the model, or both: the thresholds are near those of all other
    prompts."""
    rows = table(study.out, "left_out")
    for kind, parts in (("selector", study.selector), ("model", study.model)):
        for predictor in ("span_recall.min", "lse_error.max", "recall.mean"):
            score = study.score(predictor)
            for part in sorted(set(parts)):
                own, row = parts == part, row_of(rows, left_out=kind, part=part, predictor=predictor)
                others = np.sort(score[~own & study.failed])[::-1]
                limit = others[int(np.ceil(0.95 * len(others) - 1e-9)) - 1]
                assert abs(float(row["threshold_95"])) == pytest.approx(abs(limit), rel=0.2)
                assert float(row["caught_95"]) == pytest.approx((score[own & study.failed] >= limit).mean(), abs=0.1)
                assert float(row["auc"]) == pytest.approx(auc_of_pairs(score[own], study.failed[own]), abs=PRINTED)
            row = row_of(rows, left_out=kind, part="all in turn", predictor=predictor)
            assert row["threshold_95"] == "nan" and 0.8 < float(row["caught_95"]) <= 1
        assert float(row_of(rows, left_out=kind, part="all in turn", predictor="combination_spans")["auc"]) > 0.97
    both = [row["part"] for row in rows if row["left_out"] == "selector and model"
            and row["predictor"] == "recall.mean"]
    assert sorted(both) == \
        sorted([f"{s} on {m}" for s in set(study.selector) for m in set(study.model)] + ["all in turn"])


def test_targets_count_prompts(study):
    rows = [r for r in table(study.out, "target") if r["predictor"] == "span_recall.min"]
    values, certified = study.values("span_recall.min"), None
    for row in rows:
        meets = values >= float(row["value"]) - 1e-6
        passing = set(study.prompt[meets])
        failing = set(study.prompt[meets & study.failed])
        assert [int(row[c]) for c in ("runs", "failed_runs", "prompts", "failed_prompts")] == \
            [meets.sum(), (meets & study.failed).sum(), len(passing), len(failing)]
        # P(Bin(n, 0.1) <= k)
        n, k = len(passing), len(failing)
        tail = sum(np.exp(np.sum(np.log(np.arange(n - i + 1, n + 1))) - np.sum(np.log(np.arange(1, i + 1)))) * 0.1**i *
                   0.9 ** (n - i) for i in range(k + 1))
        if n >= 29 and (certified is None or certified):
            certified = tail <= 0.05
        assert row["certified_10"] == ("1" if n >= 29 and certified else "0"), row
    last = [r for r in rows if r["certified_10"] == "1"][-1]
    finding = [t for t in texts(study.report) if t.startswith("Target ")]
    assert len(finding) == 1 and finding[0].startswith(
        f"Target {last['target']}: at most 10 % of prompts like these fail in a run that meets it (confidence 95 %); "
        f"here {last['failed_prompts']} of {last['prompts']} prompts do.")
    target = f"--target '{last['target']}'"
    assert f"attest validate RESULTS --selector LABEL {target}." in finding[0]
    done = run_attest("validate", study.paths[0], "--selector", "half", "--target", last["target"])
    assert done.returncode in (0, 3), done.stderr


def test_curves_and_bins_hold_all_runs(study):
    points = read_csv(study.out / "failure_prediction_roc.csv")
    for predictor in ("span_recall.min", "lse_error.max", "combination"):
        own = [(float(r["false_alarms"]), float(r["caught"])) for r in points if r["curve"] == predictor]
        assert own[0] == (0, 0) and own[-1] == (1, 1) and own == sorted(own)
        area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in zip(own, own[1:]))
        assert area == pytest.approx(float(row_of(table(study.out, "auc"), predictor=predictor, scope="all")["auc"]),
                                     abs=CLOSE)
    bins = read_csv(study.out / "failure_prediction_calibration.csv")
    values = study.values("span_recall.min")
    own = [r for r in bins if r["curve"] == "span_recall.min"]
    assert 8 <= len(own) <= 10 and sum(int(r["runs"]) for r in own) == len(values)
    for r in own:
        inside = (values >= float(r["from"]) - 1e-7) & (values <= float(r["to"]) + 1e-7)
        assert int(r["runs"]) == inside.sum() and int(r["failures"]) == study.failed[inside].sum()
        assert float(r["failed_low"]) <= float(r["failed"]) <= float(r["failed_high"]) \
            and float(r["failed_low"]) < float(r["failed_high"])
    assert float(own[0]["failed"]) > 0.9 and float(own[-1]["failed"]) < 0.1
    assert (study.out / "failure_prediction_roc.svg").exists() \
        and (study.out / "failure_prediction_calibration.svg").exists()


def test_the_report_shows_it(study, tmp_path):
    attest("report", *study.paths, "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "which metrics predict a failed answer" in page and "Target span_recall.min" in page
    assert attest("report", study.paths[1], "-o", tmp_path / "s.html", expect=2).stderr.count("\n") == 1


def test_what_is_joined_is_said(study):
    sentences = texts(study.report)
    runs, failed = len(study.failed), study.failed.sum()
    assert sentences[0] == (f"{runs} runs of 40 prompts under 4 labels, 2 models: {failed} failed, {runs - failed} "
                            f"right (scored {runs} by contains).")
    assert sentences[1] == f"Left out of {runs + 7} answers: 7 of 1 prompt that dense attention answers wrong."
    assert study.report["experiments"][0]["study"] == "tiny; other"


def test_too_few_failures_are_a_sentence(tmp_path):
    bad, failed = planted(40)
    failed[:] = False
    failed[:4] = True  # 28 failures, of 4 prompts
    report = said(write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed), "-o", tmp_path / "out")
    assert (
        "28 failures of 4 prompts and 252 right runs of 36 prompts are too few to judge a predictor, which takes at "
        "least 10 each, of at least 5 prompts: there is no AUC and no threshold."
            in texts(report))
    assert [t["name"] for t in report["experiments"][0]["tables"]] == ["failure_prediction_target"] \
        and report["experiments"][0]["figures"] == []
    assert not any("AUC of" in t for t in texts(report))


def test_a_selector_with_few_failures_has_no_numbers(tmp_path):
    bad, failed = planted(40)
    quest = [i for i, (label, _) in enumerate(every_run()) if label == "quest"]
    failed[:, quest] = False
    report = said(write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed), "-o", tmp_path / "out")
    assert "Too few failures or right runs for numbers of their own: quest (0 failed, 80 right)." in texts(report)
    row = row_of(table(tmp_path / "out", "auc"), predictor="lse_error.max", scope="quest")
    assert row["auc"] == row["auc_low"] == "nan" and row["failures"] == "0"
    assert "There is one model: what a threshold does for another model is not known." in texts(report)


def test_a_predictor_that_is_not_defined_everywhere_says_so(tmp_path):
    bad, failed = planted(40)
    share = np.full(bad.shape, 0.4)
    share[5:] = np.nan
    report = said(write_results(tmp_path / "r.h5", bad, metrics={"mass_recall": share}),
                  write_tasks(tmp_path / "t.h5", failed), "-o", tmp_path / "out")
    few = failed[:5]
    prompts = few.any(1).sum()
    assert (f"mass_recall.min is defined for 35 runs, of which {few.sum()} of {prompts} prompts failed: too few for a "
            "number.") in texts(report)
    share[:36] = 0.4
    results = write_results(tmp_path / "s.h5", bad, metrics={"mass_recall": share})
    assert any(t.startswith("mass_recall.min tells") and t.endswith("(it is defined for 252 runs).")
               for t in texts(said(results, tmp_path / "t.h5", "-o", tmp_path / "out", "--force")))


def test_planted_truths(tmp_path):
    """A metric that separates perfectly, one that knows nothing, and one that knows the selector alone."""
    rng = np.random.default_rng(8)
    runs = every_run()
    chance = np.array([0.05, 0.05, 0.2, 0.2, 0.5, 0.5, 0.9])
    failed = rng.uniform(size=(80, len(runs))) < chance
    plant = {"missed_salient_mass": np.where(failed, 0.6, 0.3) + rng.uniform(0, 0.1, failed.shape),
             "output_error": rng.uniform(0.1, 0.9, failed.shape),
             "salient_hit_rate": np.broadcast_to(1 - chance, failed.shape) + rng.uniform(-0.02, 0.02, failed.shape)}
    results = write_results(tmp_path / "r.h5", rng.uniform(0.1, 0.3, failed.shape), metrics=plant)
    said(results, write_tasks(tmp_path / "t.h5", failed), "-o", tmp_path / "out")
    rows = table(tmp_path / "out", "auc")
    perfect = row_of(rows, predictor="missed_salient_mass.max", scope="all")
    assert perfect["auc"] == perfect["auc_low"] == perfect["auc_high"] == perfect["auc_same_selector"] == "1"
    blind = row_of(rows, predictor="output_error.max", scope="all")
    assert float(blind["auc_low"]) < 0.5 < float(blind["auc_high"]) \
        and float(blind["auc_high"]) - float(blind["auc_low"]) < 0.25
    knows = row_of(rows, predictor="salient_hit_rate.min", scope="all")
    assert float(knows["auc_low"]) > 0.75, "the pooled AUC is high"
    assert float(knows["auc_same_selector_low"]) < 0.5 < float(knows["auc_same_selector_high"]), \
        "but knows the selector alone"


def test_results_without_spans_have_predictors_without(tmp_path):
    bad, failed = planted(40)
    report = said(write_results(tmp_path / "r.h5", bad, spans=False), write_tasks(tmp_path / "t.h5", failed), "-o",
                  tmp_path / "out")
    assert {r["spans"] for r in table(tmp_path / "out", "auc")} == {"without"}
    assert any(t.startswith("Target lse_error.max<=") for t in texts(report)), texts(report)


def test_threads_are_as_many_as_asked(study, tmp_path):
    def most(threads):
        """The most threads seen at a time in the process: those, and the few that any run of the program has."""
        command = [ATTEST, "figures", *map(str, study.paths), "-o", str(tmp_path / f"{threads}"), "--force", "--only",
                   "failure_prediction", "--threads", str(threads)]
        found = 0
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None:
                with contextlib.suppress(FileNotFoundError):  # it has ended
                    found = max(found, len(os.listdir(f"/proc/{process.pid}/task")))
        assert process.returncode == 0
        return found

    # On a busy machine a look comes too late for some threads, so that the most seen may be too few.
    twelve = eight = 0
    for _ in range(5):
        twelve, eight = max(twelve, most(12)), max(eight, most(8))
        if twelve - eight == 4:
            break
    assert twelve - eight == 4


def test_the_same_every_time(study, tmp_path):
    said(*study.paths, "-o", tmp_path / "out")
    for name in ("auc", "thresholds", "left_out", "target"):
        assert sorted(map(str, table(tmp_path / "out", name))) == sorted(map(str, table(study.out, name)))
