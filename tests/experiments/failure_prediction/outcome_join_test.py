"""What failure_prediction does with answers and results that do not fit each other."""

import shutil

import h5py
import numpy as np
from outcome_figures import attest, figures, refusal, said, texts
from outcomes_maker import NOT_SCORED, SELECTORS, every_run, planted, write_results, write_tasks


def test_all_that_does_not_join_is_counted(tmp_path):
    bad, failed = planted(40, seed=5)
    results = write_results(tmp_path / "r.h5", bad, left_out={2})
    chosen = {"ffd": ("ffd", "delta", ["1", "9"], {}), "half": ("ffd", "delta", ["1", "5"], {"gqa": "union"}),
              "new": ("quest", "budget", ["256"], {}),
              "quest": ("quest", "budget", ["256", "25%"], {})}
    order = [every_run().index(pair) if pair in every_run() else 0 for pair in every_run(chosen)]
    failed = failed[:, order]
    names = [f"p{p:03}" for p in range(40)] + ["unknown"]
    failed = np.concatenate([failed, failed[:1]])
    contains = np.concatenate([np.ones((41, 1)), ~failed], 1)
    prefix = contains.copy()
    contains[3], prefix[3] = NOT_SCORED, NOT_SCORED
    contains[4] = NOT_SCORED  # prefix counts
    exact = np.full(contains.shape, NOT_SCORED)
    dense = contains[6, 0] = 0
    tasks = write_tasks(tmp_path / "t.h5", failed, names, selectors=chosen, exact=exact, prefix=prefix,
                        contains=contains)
    sentences = texts(said(results, tasks, "-o", tmp_path / "out"))
    answers, joined_each = 41 * 7, 3  # ffd 1, quest 256 and 25 %
    joined = joined_each * (40 - 3)
    assert dense == 0 and sentences[0].startswith(f"{joined} runs of 37 prompts under 2 labels, 1 model:") \
        and f"(scored {joined - 3} by contains, 3 by prefix)." in sentences[0]
    assert sentences[1] == (f"Left out of {answers} answers: 3 of 1 prompt that dense attention answers wrong, 7 of "
                            "prompts that the results lack, 80 of labels or settings that the results lack, 80 of "
                            "another selector or other options under the same label, 3 of prompts of which the study "
                            "left out layers, 3 that have no kind of score in common with the dense answer.")
    assert sentences[2] == f"{40 * 4} runs in the results without an answer (prompts by selector and setting)."


def test_options_may_be_given_or_complete(tmp_path):
    """Results have every option, a tasks file those that were given: what is left out has its default."""
    bad, failed = planted(30, seed=6)
    full = dict(SELECTORS,
                half=("ffd", "delta", ["1", "5"], {"gqa": "per_head", "bits": "2", "unknown_to_this_program": "x"}))
    results = write_results(tmp_path / "r.h5", bad, selectors=full)
    tasks = write_tasks(tmp_path / "t.h5", failed)
    assert texts(said(results, tasks, "-o", tmp_path / "out"))[0].startswith("210 runs of 30 prompts under 4 labels")
    tasks = write_tasks(tmp_path / "u.h5", failed, options={"half": {"gqa": "per_head", "bits": 4}})
    assert "60 of another selector or other options" in texts(said(
        results, tasks, "-o", tmp_path / "out", "--force"))[1]


def test_each_file_has_its_own_options_of_a_label(tmp_path):
    """Delta 1 was studied with the options that were answered, delta 5 with others: an answer at 5 joins nothing."""
    bad, failed = planted(40, seed=8)
    of = lambda setting, gqa: {"ffd": ("ffd", "delta", [setting], {"gqa": gqa})}
    first = write_results(tmp_path / "a.h5", bad[:, :1], selectors=of("1", "union"))
    second = write_results(tmp_path / "b.h5", bad[:, 1:2], selectors=of("5", "per_head"), dump="later.h5")
    with h5py.File(second, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            sample.attrs["task"] = "u"
    tasks = write_tasks(tmp_path / "t.h5", failed[:, :2],
                        selectors={"ffd": ("ffd", "delta", ["1", "5"], {"gqa": "union"})})
    sentences = texts(said(first, second, tasks, "--by", "task", "-o", tmp_path / "out"))
    assert sentences[0].startswith("40 runs of 40 prompts under 1 label") \
        and "40 of another selector or other options under the same label" in sentences[1]


def test_results_of_programs_with_and_without_an_option_are_one_label(tmp_path):
    """A program that did not know dense_heads wrote what a later one writes with it at its default; not at another."""
    bad, failed = planted(40, seed=7)
    names = [f"p{p:03}" for p in range(40)]
    known = {label: (name, kind, settings, dict(options, dense_heads=""))
             for label, (name, kind, settings, options) in SELECTORS.items()}
    first = write_results(tmp_path / "a.h5", bad[:20], names[:20])
    second = write_results(tmp_path / "b.h5", bad[20:], names[20:], selectors=known, dump="later.h5")
    tasks = write_tasks(tmp_path / "t.h5", failed)
    for order in ((first, second), (second, first)):
        assert texts(said(*order, tasks, "-o", tmp_path / "out", "--force"))[0].startswith(
            "280 runs of 40 prompts under 4 labels")
    known["half"] = ("ffd", "delta", ["1", "5"], {"gqa": "per_head", "dense_heads": "0:1"})
    other = write_results(tmp_path / "c.h5", bad[20:], names[20:], selectors=known, dump="later.h5")
    refused = figures(first, other, tasks, "-o", tmp_path / "none", expect=2).stderr
    assert f"label 'half' of {other} means other options than in the files before it" in refused


def test_nothing_in_common_is_refused(tmp_path):
    bad, failed = planted(20)
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed, model="large")
    sentence = refusal(results, tasks, tmp_path / "out")
    assert f"{tasks} and {results} have no run in common: of 140 answers, 140 are of prompts that the results lack" \
        in sentence
    assert ("model 'large', prompt 'p000', label 'ffd' (ffd), the results have model 'tiny', sample 'p000', labels "
            "'ffd', 'half', 'quest', 'stream'") in sentence
    alone = write_tasks(tmp_path / "d.h5", failed[:, :0], selectors={"x": ("ffd", "delta", [], {})})
    assert f"{alone}: holds dense answers alone, expected answers through selectors" \
        in refusal(results, alone, tmp_path / "out")
    # Where dense attention answers nothing right there is nothing to tell, which is said.
    wrong = write_tasks(tmp_path / "w.h5", failed, dense=np.zeros(20))
    assert ("of 140 answers in common with the results none counts: 140 are of prompts that dense attention answers "
            "wrong") in refusal(results, wrong, tmp_path / "out")


def test_nothing_in_common_is_refused_before_the_work(tmp_path):
    """The cells of these results cannot be read, which whoever reads them says."""
    bad, failed = planted(20)
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed, model="large")
    with h5py.File(results, "r+") as file:
        selector = file["dumps/0/samples/p000/ffd"]
        shape = selector["recall"].shape
        del selector["recall"]
        cells = selector.create_dataset("recall", shape, "f4", chunks=shape, compression="gzip")
        cells.id.write_direct_chunk((0,) * len(shape), b"no deflate stream")
    page = tmp_path / "page.html"
    assert "recall" in attest("figures", results, "-o", tmp_path / "out", expect=4).stderr
    for command in (("figures", results, tasks, "-o", tmp_path / "out"), ("report", results, tasks, "-o", page)):
        assert "have no run in common" in attest(*command, expect=4).stderr
        assert not (tmp_path / "out").exists() and not page.exists()


def test_an_answer_twice_is_refused(tmp_path):
    bad, failed = planted(20)
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed)
    copy = shutil.copy(tasks, tmp_path / "u.h5")
    with h5py.File(copy, "r+") as file:
        file["runs/setting_label"][1] = "1.0"
    assert (f"{tasks} and {copy} both hold an answer to prompt 'p000' of model 'tiny' under label 'ffd' at delta 1.0; "
            "give one of them") in refusal(results, tasks, copy, tmp_path / "out")
    other = write_results(tmp_path / "s.h5", bad, dump="again.h5")
    sentence = refusal(results, other, tasks, tmp_path / "out")
    assert (f"{results} and {other} both hold sample 'p000' of model 'tiny' under label 'ffd' at '1': which of them "
            "was answered cannot be told; give one of them") in sentence
    done = figures(results, tasks, tasks, "-o", tmp_path / "out", expect=2)
    assert done.stderr.count("\n") == 1 and f"{tasks} is named twice" in done.stderr


def test_without_results_or_tasks_it_says_what_it_needs(tmp_path):
    bad, failed = planted(20)
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed)
    assert "failure_prediction needs a file of attest tasks" in refusal(results, tmp_path / "out")
    assert "failure_prediction needs results of attest run for the same prompts" in refusal(tasks, tmp_path / "out")
    # Other experiments do not ask for it.
    assert "failure_prediction" not in attest("figures", results, "-o", tmp_path / "all", "--format", "svg").stdout


def test_text_from_a_file_cannot_do_harm(tmp_path):
    bad, failed = planted(20)
    evil = "x\x1b[31m\ny"
    results, tasks = write_results(tmp_path / "r.h5", bad), write_tasks(tmp_path / "t.h5", failed, model=evil)
    assert "\x1b" not in refusal(results, tasks, tmp_path / "out")
    results = write_results(tmp_path / "s.h5", bad, model=evil)
    done = figures(results, tasks, "-o", tmp_path / "out")
    assert "\x1b" not in done.stdout + done.stderr
