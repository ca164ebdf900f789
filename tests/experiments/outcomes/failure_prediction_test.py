"""failure_prediction: plain numpy recomputes its numbers from the cells; planted truths; what does not join."""

import csv
import functools
import json
import os
import shutil
import subprocess

import h5py
import numpy as np
import pytest
from outcomes_maker import NOT_SCORED, SELECTORS, every_run, planted, write_results, write_tasks

ATTEST = os.environ["ATTEST_BIN"]
NUMBER = 2e-6  # float32 cells, ten digits in the csv


def attest(*arguments, expect=0):
    done = subprocess.run([ATTEST, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, done.stderr + done.stdout
    return done


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
    with open(f"{folder}/failure_prediction_{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def row_of(rows, **wanted):
    found = [r for r in rows if all(r[k] == v for k, v in wanted.items())]
    assert len(found) == 1, (wanted, len(found))
    return found[0]


@functools.cache
def load(path):
    """(scores, label -> metric -> array) of each sample."""
    with h5py.File(path) as file:
        return [({name: data[()] for name, data in sample["scores"].items()}, {label: {name: data[()] for name, data in sample[label].items()} for label in SELECTORS})
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
PREDICTORS = {"span_recall.min": "low", "span_recall.mean": "low", "span_share_kept": "low", "span_mass_kept.min": "low", "model_span_lost.max": "high",
              "model_span_lost.mean": "high", "recall.mean": "low", "recall.min": "low", "recall.p5": "low", "mass_recall.min": "low", "lse_error.max": "high",
              "lse_error.mean": "high", "keep_ratio.mean": "low", "keep_ratio.min": "low"}


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
        return np.array([numbers_of(path, label, setting, predictor)[prompt] for _, prompt, label, setting, _, path in self.runs])

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
        assert float(row["auc"]) == pytest.approx(auc_of_pairs(score, study.failed), abs=1e-4)
        assert float(row["auc_same_selector"]) == pytest.approx(auc_of_pairs(score, study.failed, study.label), abs=1e-4)
        for scope, of in (("ffd", study.selector == "ffd"), ("quest", study.selector == "quest"), ("model other", study.model == "other")):
            row = row_of(rows, predictor=predictor, scope=scope)
            assert int(row["runs"]) == of.sum()
            assert float(row["auc"]) == pytest.approx(auc_of_pairs(score[of], study.failed[of]), abs=1e-4)
            assert float(row["auc_low"]) <= float(row["auc"]) <= float(row["auc_high"])
    assert float(row_of(rows, predictor="combination_spans", scope="all")["auc"]) > 0.97
    assert rows[0]["spans"] == "with" and {r["scope"] for r in rows} == {"all", "ffd", "quest", "streaming_llm", "model tiny", "model other"}


def test_thresholds_catch_what_they_say(study):
    rows = table(study.out, "thresholds")
    for predictor in PREDICTORS:
        for scope, of in (("all", study.failed | True), ("ffd", study.selector == "ffd")):
            row, score, failed = row_of(rows, predictor=predictor, scope=scope), study.score(predictor)[of], study.failed[of]
            for share in (95, 99):
                limit = np.sort(score[failed])[::-1][int(np.ceil(share / 100 * failed.sum() - 1e-9)) - 1]
                assert abs(float(row[f"threshold_{share}"])) == pytest.approx(abs(limit), rel=NUMBER, abs=NUMBER)
                assert float(row[f"caught_{share}"]) == pytest.approx((score[failed] >= limit).mean(), abs=0.01)
                assert float(row[f"caught_{share}"]) >= share / 100
                assert float(row[f"false_alarms_{share}"]) == pytest.approx((score[~failed] >= limit).mean(), abs=0.01)


def test_what_is_left_out_does_not_teach(study):
    rows = table(study.out, "left_out")
    for kind, parts in (("selector", study.selector), ("model", study.model)):
        for predictor in ("span_recall.min", "lse_error.max", "recall.mean"):
            score = study.score(predictor)
            caught = alarms = 0
            for part in sorted(set(parts)):
                own, row = parts == part, row_of(rows, left_out=kind, part=part, predictor=predictor)
                others = np.sort(score[~own & study.failed])[::-1]
                limit = others[int(np.ceil(0.95 * len(others) - 1e-9)) - 1]
                assert abs(float(row["threshold_95"])) == pytest.approx(abs(limit), rel=NUMBER)
                assert float(row["caught_95"]) == pytest.approx((score[own & study.failed] >= limit).mean(), abs=1e-9)
                assert float(row["false_alarms_95"]) == pytest.approx((score[own & ~study.failed] >= limit).mean(), abs=1e-9)
                assert float(row["auc"]) == pytest.approx(auc_of_pairs(score[own], study.failed[own]), abs=1e-4)
                caught += (score[own & study.failed] >= limit).sum()
                alarms += (score[own & ~study.failed] >= limit).sum()
            row = row_of(rows, left_out=kind, part="all in turn", predictor=predictor)
            assert float(row["caught_95"]) == pytest.approx(caught / study.failed.sum()) and row["threshold_95"] == "nan"
            assert float(row["false_alarms_95"]) == pytest.approx(alarms / (~study.failed).sum())
        assert float(row_of(rows, left_out=kind, part="all in turn", predictor="combination_spans")["auc"]) > 0.97


def test_targets_count_prompts(study):
    rows = [r for r in table(study.out, "target") if r["predictor"] == "span_recall.min"]
    values, certified = study.values("span_recall.min"), None
    for row in rows:
        meets = values >= float(row["value"]) - 1e-6
        passing = set(study.prompt[meets])
        failing = set(study.prompt[meets & study.failed])
        assert [int(row[c]) for c in ("runs", "failed_runs", "prompts", "failed_prompts")] == [meets.sum(), (meets & study.failed).sum(), len(passing), len(failing)]
        # P(Bin(n, 0.1) <= k)
        n, k = len(passing), len(failing)
        tail = sum(np.exp(np.sum(np.log(np.arange(n - i + 1, n + 1))) - np.sum(np.log(np.arange(1, i + 1)))) * 0.1**i * 0.9 ** (n - i) for i in range(k + 1))
        if n >= 29 and (certified is None or certified):
            certified = tail <= 0.05
        assert row["certified_10"] == ("1" if n >= 29 and certified else "0"), row
    last = [r for r in rows if r["certified_10"] == "1"][-1]
    finding = [t for t in texts(study.report) if t.startswith("Target ")]
    assert len(finding) == 1 and finding[0].startswith(f"Target {last['target']}: at most 10 % of prompts like these fail in a run that meets it (confidence 95 %); here {last['failed_prompts']} of {last['prompts']} prompts do.")
    target = f"--target '{last['target']}'"
    assert f"attest validate RESULTS --selector LABEL {target}." in finding[0]
    done = subprocess.run([ATTEST, "validate", study.paths[0], "--selector", "half", "--target", last["target"]], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 3), done.stderr


def test_curves_and_bins_hold_all_runs(study):
    with open(study.out / "failure_prediction_roc.csv", newline="") as file:
        points = list(csv.DictReader(file))
    for predictor in ("span_recall.min", "lse_error.max", "combination"):
        own = [(float(r["false_alarms"]), float(r["caught"])) for r in points if r["curve"] == predictor]
        assert own[0] == (0, 0) and own[-1] == (1, 1) and own == sorted(own)
        area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in zip(own, own[1:]))
        assert area == pytest.approx(float(row_of(table(study.out, "auc"), predictor=predictor, scope="all")["auc"]), abs=1e-8)
    with open(study.out / "failure_prediction_calibration.csv", newline="") as file:
        bins = list(csv.DictReader(file))
    values = study.values("span_recall.min")
    own = [r for r in bins if r["curve"] == "span_recall.min"]
    assert 8 <= len(own) <= 10 and sum(int(r["runs"]) for r in own) == len(values)
    for r in own:
        inside = (values >= float(r["from"]) - 1e-7) & (values <= float(r["to"]) + 1e-7)
        assert int(r["runs"]) == inside.sum() and int(r["failures"]) == study.failed[inside].sum()
        assert float(r["failed_low"]) <= float(r["failed"]) <= float(r["failed_high"]) and float(r["failed_low"]) < float(r["failed_high"])
    assert float(own[0]["failed"]) > 0.9 and float(own[-1]["failed"]) < 0.1
    assert (study.out / "failure_prediction_roc.svg").exists() and (study.out / "failure_prediction_calibration.svg").exists()


def test_the_report_shows_it(study, tmp_path):
    attest("report", *study.paths, "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "which metrics foretell a failed answer" in page and "Target span_recall.min&gt;=" in page or "Target span_recall.min" in page
    assert attest("report", study.paths[1], "-o", tmp_path / "s.html", expect=2).stderr.count("\n") == 1


def test_what_is_joined_is_said(study):
    sentences = texts(study.report)
    runs, failed = len(study.failed), study.failed.sum()
    assert sentences[0] == f"{runs} runs of 40 prompts under 4 labels, 2 models: {failed} failed, {runs - failed} right (scored {runs} by exact)."
    assert sentences[1] == f"Left out of {runs + 7} answers: 7 of 1 prompt that dense attention answers wrong."
    assert study.report["experiments"][0]["study"] == "tiny; other"


def test_all_that_does_not_join_is_counted(tmp_path):
    bad, failed = planted(40, seed=5)
    results = write_results(tmp_path / "r.h5", bad, left_out={2})
    chosen = {"ffd": ("ffd", "delta", ["1", "9"], {}), "half": ("ffd", "delta", ["1", "5"], {"gqa": "union"}), "new": ("quest", "budget", ["256"], {}),
              "quest": ("quest", "budget", ["256", "25%"], {})}
    order = [every_run().index(pair) if pair in every_run() else 0 for pair in every_run(chosen)]
    failed = failed[:, order]
    names = [f"p{p:03}" for p in range(40)] + ["unknown"]
    failed = np.concatenate([failed, failed[:1]])
    exact = np.concatenate([np.ones((41, 1)), ~failed], 1)
    prefix = exact.copy()
    exact[3], prefix[3] = NOT_SCORED, NOT_SCORED
    exact[4] = NOT_SCORED  # prefix counts
    contains = np.full(exact.shape, NOT_SCORED)
    dense = exact[6, 0] = 0
    tasks = write_tasks(tmp_path / "t.h5", failed, names, selectors=chosen, exact=exact, prefix=prefix, contains=contains)
    sentences = texts(said(results, tasks, "-o", tmp_path / "out"))
    answers, joined_each = 41 * 7, 3  # ffd 1, quest 256 and 25 %
    joined = joined_each * (40 - 3)
    assert dense == 0 and sentences[0].startswith(f"{joined} runs of 37 prompts under 2 labels, 1 model:") and f"(scored {joined - 3} by exact, 3 by prefix)." in sentences[0]
    assert sentences[1] == (f"Left out of {answers} answers: 3 of 1 prompt that dense attention answers wrong, 7 of prompts that the results lack, 80 of labels or settings that the results lack, "
                            "80 of another selector or other options under the same label, 3 of prompts of which the study left out layers, "
                            "3 that have no kind of score in common with the dense answer.")
    assert sentences[2] == f"{40 * 4} runs in the results without an answer (prompts by selector and setting)."


def test_options_may_be_given_or_complete(tmp_path):
    """Results have every option, a tasks file those that were given: what is left out has its default."""
    bad, failed = planted(30, seed=6)
    full = dict(SELECTORS, half=("ffd", "delta", ["1", "5"], {"gqa": "per_head", "bits": "2", "unknown_to_this_program": "x"}))
    results = write_results(tmp_path / "r.h5", bad, selectors=full)
    tasks = write_tasks(tmp_path / "t.h5", failed)
    assert texts(said(results, tasks, "-o", tmp_path / "out"))[0].startswith("210 runs of 30 prompts under 4 labels")
    tasks = write_tasks(tmp_path / "u.h5", failed, options={"half": {"gqa": "per_head", "bits": 4}})
    assert "60 of another selector or other options" in texts(said(results, tasks, "-o", tmp_path / "out", "--force"))[1]


def test_nothing_in_common_is_refused(tmp_path):
    bad, failed = planted(20)
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed, model="large")
    sentence = refusal(results, tasks, tmp_path / "out")
    assert f"{tasks} and {results} have no run in common: of 140 answers, 140 are of prompts that the results lack" in sentence
    assert "model 'large', prompt 'p000', label 'ffd' (ffd), the results have model 'tiny', sample 'p000', labels 'ffd', 'half', 'quest', 'stream'" in sentence
    alone = write_tasks(tmp_path / "d.h5", failed[:, :0], selectors={"x": ("ffd", "delta", [], {})})
    assert f"{alone}: holds dense answers alone, expected answers through selectors" in refusal(results, alone, tmp_path / "out")
    # Where dense attention answers nothing right there is nothing to tell, which is said.
    wrong = write_tasks(tmp_path / "w.h5", failed, dense=np.zeros(20))
    assert "of 140 answers in common with the results none counts: 140 are of prompts that dense attention answers wrong" in refusal(results, wrong, tmp_path / "out")


def test_an_answer_twice_is_refused(tmp_path):
    bad, failed = planted(20)
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed)
    copy = shutil.copy(tasks, tmp_path / "u.h5")
    assert f"{tasks} and {copy} both hold an answer to prompt 'p000' of model 'tiny' under label 'ffd' at delta 1; give one of them" in refusal(results, tasks, copy, tmp_path / "out")
    other = write_results(tmp_path / "s.h5", bad, dump="again.h5")
    sentence = refusal(results, other, tasks, tmp_path / "out")
    assert f"{results} and {other} both hold sample 'p000' of model 'tiny' under label 'ffd' at '1': which of them was answered cannot be told; give one of them" in sentence
    done = figures(results, tasks, tasks, "-o", tmp_path / "out", expect=2)
    assert done.stderr.count("\n") == 1 and f"{tasks} is named twice" in done.stderr


def test_without_results_or_tasks_it_says_what_it_needs(tmp_path):
    bad, failed = planted(20)
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed)
    assert "failure_prediction needs a file of attest tasks" in refusal(results, tmp_path / "out")
    assert "failure_prediction needs results of attest run for the same prompts" in refusal(tasks, tmp_path / "out")
    # Other experiments do not ask for it.
    assert "failure_prediction" not in attest("figures", results, "-o", tmp_path / "all", "--format", "svg").stdout


def test_too_few_failures_are_a_sentence(tmp_path):
    bad, failed = planted(40)
    failed[:] = False
    failed[:4] = True  # 28 failures, of 4 prompts
    report = said(write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed), "-o", tmp_path / "out")
    assert ("28 failures of 4 prompts and 252 right runs of 36 prompts are too few to judge a predictor, which takes at least 10 each, of at least 5 prompts: there is no AUC and no threshold."
            in texts(report))
    assert [t["name"] for t in report["experiments"][0]["tables"]] == ["failure_prediction_target"] and report["experiments"][0]["figures"] == []
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


def test_planted_truths(tmp_path):
    """A metric that separates perfectly, one that knows nothing, and one that knows the selector alone."""
    rng = np.random.default_rng(8)
    runs = every_run()
    chance = np.array([0.05, 0.05, 0.2, 0.2, 0.5, 0.5, 0.9])
    failed = rng.uniform(size=(80, len(runs))) < chance
    plant = {"missed_salient_mass": np.where(failed, 0.6, 0.3) + rng.uniform(0, 0.1, failed.shape), "output_error": rng.uniform(0.1, 0.9, failed.shape),
             "salient_hit_rate": np.broadcast_to(1 - chance, failed.shape) + rng.uniform(-0.02, 0.02, failed.shape)}
    results = write_results(tmp_path / "r.h5", rng.uniform(0.1, 0.3, failed.shape), metrics=plant)
    said(results, write_tasks(tmp_path / "t.h5", failed), "-o", tmp_path / "out")
    rows = table(tmp_path / "out", "auc")
    perfect = row_of(rows, predictor="missed_salient_mass.max", scope="all")
    assert perfect["auc"] == perfect["auc_low"] == perfect["auc_high"] == perfect["auc_same_selector"] == "1"
    blind = row_of(rows, predictor="output_error.max", scope="all")
    assert float(blind["auc_low"]) < 0.5 < float(blind["auc_high"]) and float(blind["auc_high"]) - float(blind["auc_low"]) < 0.25
    knows = row_of(rows, predictor="salient_hit_rate.min", scope="all")
    assert float(knows["auc_low"]) > 0.75, "the pooled AUC is high"
    assert float(knows["auc_same_selector_low"]) < 0.5 < float(knows["auc_same_selector_high"]), "but knows the selector alone"


def test_results_without_spans_have_predictors_without(tmp_path):
    bad, failed = planted(40)
    report = said(write_results(tmp_path / "r.h5", bad, spans=False), write_tasks(tmp_path / "t.h5", failed), "-o", tmp_path / "out")
    assert {r["spans"] for r in table(tmp_path / "out", "auc")} == {"without"}
    assert any(t.startswith("Target lse_error.max<=") for t in texts(report)), texts(report)


def change(**edits):
    """A change of a tasks file: data set -> new values, or None to remove it."""
    def apply(file):
        for name, values in edits.items():
            name = name.replace("__", "/")
            old = file[name][()] if values is None or callable(values) else None
            if name in file:
                del file[name]
            if values is not None:
                file[name] = values(old) if callable(values) else values
    return apply


def attribute(name, value):
    def apply(file):
        if value is None:
            del file.attrs[name]
        else:
            file.attrs[name] = value
    return apply


def put(place, value):
    def apply(array):
        array = array.copy()
        array[place] = value
        return array
    return apply


def huge(file):
    """A small file that claims very many answers."""
    for name in ("exact", "contains", "prefix"):
        del file[f"outcomes/{name}"]
        file.create_dataset(f"outcomes/{name}", (2_000_000_000, 1_000_000_000), np.uint8, chunks=(1000, 1000), compression="gzip")


def many_prompts(file):
    for name in ("name", "task", "answer"):
        del file[f"prompts/{name}"]
        file.create_dataset(f"prompts/{name}", (3_000_000,), "S1", chunks=(3_000_000,), compression="gzip", data=np.full(3_000_000, b"x"))


BROKEN = {
    "no version": (attribute("format_version", None), "attribute 'format_version'"),
    "another version": (attribute("format_version", 2), "'format_version' is 2, expected"),
    "no model": (attribute("model", None), "attribute 'model'"),
    "no prompts": (change(prompts__name=None), "/prompts"),
    "no scores": (change(outcomes__prefix=None), "/outcomes"),
    "no kept ratio": (change(outcomes__kept_ratio=None), "/outcomes"),
    "no answers": (change(outcomes__answer=None), "/outcomes"),
    "no settings": (change(runs__setting=None), "/runs"),
    "a score of 3": (change(outcomes__exact=put((3, 5), 3)), "/outcomes/exact: [3, 5] is 3, expected 0 (wrong), 1 (right) or 2 (not scored)"),
    "scores as floats": (change(outcomes__exact=np.full((12, 8), 0.5)), "/outcomes/exact: has elements of type"),
    "too few runs": (change(outcomes__exact=lambda x: x[:, 1:]), "/outcomes/exact: has the shape [12, 7], expected [12, 8] (prompts, runs)"),
    "transposed": (change(outcomes__contains=lambda x: x.T.copy()), "/outcomes/contains: has the shape [8, 12], expected [12, 8] (prompts, runs)"),
    "one name too few": (change(prompts__task=lambda x: x[1:]), "/prompts/task: has the shape [11], expected [12] (prompts)"),
    "a prompt twice": (change(prompts__name=put(4, b"p003")), "/prompts/name: [4] is 'p003' again, expected each prompt once"),
    "a run twice": (change(runs__setting=put(2, 1.0)), "/runs/label: [2] is 'ffd' at 1 again, expected each label and setting once"),
    "no dense run": (change(runs__selector=put(0, b"ffd")), "/runs/selector: [0] is 'ffd', expected 'exact': the first run is dense"),
    "an unknown kind": (change(runs__setting_kind=put(1, b"alpha")), "/runs/setting_kind: [1] is 'alpha', expected none, delta, budget, p or factor"),
    "a negative delta": (change(runs__setting=put(1, -1.0)), "/runs/setting: [1] is -1, expected a delta"),
    "a NaN": (change(runs__setting=put(1, np.nan)), "/runs/setting: [1] is nan, expected a delta"),
    "a delta in per cent": (change(runs__setting_percent=put(1, 1)), "/runs/setting: [1] is 1%, expected a delta"),
    "per cent of 2": (change(runs__setting_percent=put(1, 2)), "/runs/setting_percent: [1] is 2, expected 0 or 1"),
    "a setting of none": (change(runs__setting=put(0, 4.0)), "/runs/setting: [0] is 4, expected 0: the run has no setting"),
    "options that are no object": (change(runs__options=put(1, b"[]")), "/runs/options: [1] is '[]', expected a JSON object"),
    "a prompt of no tokens": (change(prompts__num_tokens=put(1, 0)), "/prompts/num_tokens: [1] is 0, expected 1 to"),
    "names as numbers": (change(prompts__name=np.arange(12)), "/prompts/name: has elements of type"),
    "no prompt at all": (change(prompts__name=np.array([], "S3")), "/prompts/name: is not a list of prompts"),
    "more than fits": (huge, "/outcomes/exact"),
    "too many prompts": (many_prompts, "has 3000000 prompts and 8 runs, expected at most 4000000 answers"),
}


@pytest.mark.parametrize("defect", BROKEN)
def test_a_broken_tasks_file_is_one_sentence(tmp_path, defect):
    bad, failed = planted(12)
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed)
    breaks, expected = BROKEN[defect]
    with h5py.File(tasks, "r+") as file:
        breaks(file)
    sentence = refusal(results, tasks, tmp_path / "out")
    assert tasks in sentence and expected in sentence, sentence


def test_a_cut_file_is_refused(tmp_path):
    bad, failed = planted(12)
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed)
    whole = open(tasks, "rb").read()
    open(tasks, "wb").write(whole[: len(whole) // 2])
    assert tasks in refusal(results, tasks, tmp_path / "out")


def test_text_from_a_file_cannot_do_harm(tmp_path):
    bad, failed = planted(20)
    evil = "x\x1b[31m\ny"
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed, model=evil)
    assert "\x1b" not in refusal(results, tasks, tmp_path / "out")
    results = write_results(tmp_path / "s.h5", bad, model=evil)
    done = figures(results, tasks, "-o", tmp_path / "out")
    assert "\x1b" not in done.stdout + done.stderr


def test_the_same_every_time(study, tmp_path):
    said(*study.paths, "-o", tmp_path / "out")
    for name in ("auc", "thresholds", "left_out", "target"):
        assert sorted(map(str, table(tmp_path / "out", name))) == sorted(map(str, table(study.out, name)))
