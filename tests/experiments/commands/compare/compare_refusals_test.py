"""What `attest compare` refuses, in one sentence that names both files and what differs."""

import h5py
import numpy as np
import pytest
from compare_runs import SAMPLES, compare, edit, set_manifest, studies  # noqa: F401
from results_maker import ffd, quest, selector, write_results


def other(tmp_path, change=None, selectors=(ffd(),), samples=None, **more):
    path = write_results(tmp_path / "other.h5", list(selectors), samples or SAMPLES, seed=3, **more)
    if change:
        with h5py.File(path, "r+") as file:
            change(file)
    return path


def move_queries(file):
    file["dumps/0/samples/s1/query_positions"][...] = [1, 2, 3]


def more_tokens(file):
    file["dumps/0/samples/s1"].attrs["num_tokens"] = 901


@pytest.mark.parametrize("make, sentence", [
    (dict(model="else"), "different models cannot be compared: "),
    (dict(samples={"x": [2], "y": [2], "z": [2], "w": [2]}), "no prompt is common: "),
    (dict(samples={"s0": [2, 5], "s1": [0, 5]}), "prompt 's1': its layers (--layers chooses some) differ, so that its "
                                                 "cells cannot be compared: 0, 1, 2, 5 in "),
    (dict(change=move_queries), "prompt 's1': its query positions differ, so that its cells cannot be compared: 800, "
                                "801, 802 in "),
    (dict(change=more_tokens), "prompt 's1': its numbers of tokens differ, so that its cells cannot be compared: 900 "
                               "in "),
    (dict(change=lambda file: file["dumps/0"].attrs.update(num_kv_heads=4)),
     "prompt 's0': its numbers of heads differ, so that its cells cannot be compared: 4 query heads, 2 KV heads"),
    (dict(selectors=[quest()]), "no label is common: "),
    (dict(selectors=[selector("ffd", "quest", "budget")]), "selector 'ffd': its kinds of setting differ, delta in "),
])
def test_what_cannot_be_compared_is_refused(tmp_path, make, sentence):
    path = write_results(tmp_path / "one.h5", [ffd()], SAMPLES)
    done = compare(path, other(tmp_path, **make), expect=4)
    assert done.stderr.startswith(f"attest: {sentence}"), done.stderr
    assert path in done.stderr and "other.h5" in done.stderr


def test_more_refusals(studies, tmp_path):
    one, two = studies

    def grid(name, sample):
        sample["ffd/settings"][...] = [11, 12, 13]
        sample["ffd/setting_labels"][...] = ["11", "12", "13"]

    path = write_results(tmp_path / "grid.h5", [ffd()], SAMPLES)
    edit(path, grid)
    assert "selector 'ffd': no setting is common: " in compare(one, path, expect=4).stderr
    with h5py.File(path, "r+") as file:
        file.copy("dumps/0", "dumps/1")
        file["dumps/1"].attrs["model"] = "else"
    assert f"{path}: holds several models, 'tiny', 'else'; expected one" in compare(one, path, expect=4).stderr
    assert "no 'block_keep_ratio'" in compare(one, two, "--selectors", "quest", "--metrics", "block_keep_ratio",
                                              expect=4).stderr
    assert "no 'span_keep', which takes samples with spans" in compare(
        one, two, "--metrics", "span_keep", expect=4).stderr
    assert "there.h5" in compare(one, tmp_path / "there.h5", expect=4).stderr
    for path, delta in zip(studies, (5, 4), strict=True):
        set_manifest(path, configuration={"salient_delta": delta})
        edit(path, lambda name, s: s["ffd"].create_dataset(
            "salient_ratio", data=np.full(s["ffd/recall"].shape, 0.5, np.float32)))
    done = compare(one, two, "--metrics", "salient_ratio", expect=4)
    assert f"'salient_ratio' cannot be compared: --salient-delta was 5 for {one}, 4 for {two}" in done.stderr
    compare(one, two)


def test_salient_tokens_of_another_delta_are_others(tmp_path):
    """At delta 5 tokens within 5 nats are salient, at delta 3 within 3; of quest those within --salient-delta."""
    path = write_results(tmp_path / "r.h5", [ffd(), quest(dense_layers=0)], seed=3)
    set_manifest(path, configuration={"salient_delta": 5})

    def salient(name, sample):
        for label in ("ffd", "quest"):
            for metric in ("salient_hit_rate", "missed_salient_mass", "salient_hit_rate_fixed"):
                sample[label].create_dataset(metric, data=sample[f"{label}/mass_recall"][()])

    edit(path, salient)
    for metric in ("salient_hit_rate", "missed_salient_mass.max"):
        for pair in ("ffd@3=quest@1024", "ffd@3=ffd@5", "quest@1024=ffd@7"):
            assert "salient are the tokens within" in compare(
                path, path, "--selectors", pair, "--metrics", metric, expect=4).stderr
        compare(path, path, "--selectors", "ffd@5=quest@1024", "--metrics", metric)
        compare(path, path, "--selectors", "ffd", "--metrics", metric)
    compare(path, path, "--selectors", "ffd@3=quest@1024", "--metrics", "salient_hit_rate_fixed")


@pytest.mark.parametrize("arguments, sentence", [
    (["--metrics", "foo"], "there is no metric 'foo'"),
    (["--metrics", "recall,recall.mean"], "'recall.mean' is there twice"),
    (["--metrics", "recall.count"], "'recall.count': cells are compared in pairs, so that both files have as many"),
    (["--selectors", "ffd=none"], "'ffd=none' is neither a label that both files have, LABEL1=LABEL2, nor "
                                  "LABEL1@SETTING=LABEL2@SETTING; "),
    (["--selectors", "ffd@4=ffd@5"], "has the settings 3, 5, 7, found '4'"),
    (["--selectors", "ffd@5=quest@2"], "has the settings 256, 1024, 50%, found '2'"),
    (["--selectors", "ffd,ffd"], "'ffd' is there twice"),
    (["--settings", "9"], "no selector has the setting '9' in both files; common are 3, 5, 7, 256, 1024, 50%"),
    (["--settings", "50"], "no selector has the setting '50' in both files"),
    (["--layers", "7"], "no prompt has the layer 7; there are 0, 1, 2, 5"),
    (["--layers", "x"], "'x' is neither a layer number nor a range"),
    (["--confidence", "0"], "'0' is not between 0 and 1"),
    (["--confidence", "1"], "'1' is not between 0 and 1"),
    (["--confidence", "nan"], "--confidence: 'nan' is not"),
    (["-o", "c.pdf"], "'c.pdf' ends neither in .md, .csv nor .json"),
])
def test_bad_requests(studies, arguments, sentence):
    assert sentence in compare(*studies, *arguments, expect=2).stderr


def test_a_setting_that_is_unknown_in_both(studies):
    one, two = studies
    done = compare(one, two, "--selectors", "ffd@4=quest@2", expect=2)
    assert done.stderr == (f"attest: --selectors: 'ffd' of {one} has the settings 3, 5, 7, found '4'; "
                           f"'quest' of {two} has the settings 256, 1024, 50%, found '2'\n")


def test_many_settings_are_cut(tmp_path):
    path = write_results(tmp_path / "many.h5", [ffd()], SAMPLES)
    edit(path, lambda name,
         sample: sample["ffd/setting_labels"].write_direct(np.array(["1" * 150, "2" * 150, "3"], object)))
    assert f"has the settings {'1' * 150}, {'2' * 48}..., found '4'\n" \
        in compare(path, path, "--selectors", "ffd@3=ffd@4", expect=2).stderr


def test_names_cannot_write_to_the_terminal(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd("\x1b[31mred")], SAMPLES, model="\x1b]0;x\x07")
    for arguments in ([path, path], [path, path, "-o", tmp_path / "c.md"]):
        assert "\x1b" not in compare(*arguments).stdout
    assert "\x1b" not in (tmp_path / "c.md").read_text()
