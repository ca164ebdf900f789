"""The selectors of attest bench study: names, or one with options; anything else is one sentence."""
import json

import pytest

from attest_program import attest, run_attest


def bench(*words):
    return run_attest("--json", "bench", "study", "--no-peer", "--sweep-points", "0", "--tokens", "256", "--layers",
                      "1", "--repeats", "1", "--device", "cpu", *words)


@pytest.mark.parametrize("words, settings", [
    (["--selector", "exact,quest"], 3), (["--selector", "kv_cache:k=fp8_e4m3,v=nvfp4"], 1),
    (["--selector", "exact", "--selector", "quest:dense_layers=1"], 3),
])
def test_selectors(words, settings):
    done = bench(*words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["one_layer"][0]["settings"] == settings


@pytest.mark.parametrize("text, sentence", [
    ("nonsense", "unknown selector 'nonsense'"), ("ffd:", "--selector: '' is no option=value"),
    (",", "--selector: it names no selector"),
    ("kv_cache:k=fp9", "fp9"),
])
def test_what_is_no_selector(text, sentence):
    done = bench("--selector", text)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and sentence in done.stderr, done.stderr


@pytest.mark.parametrize("words", [["--no-peer"], ["--sweep-points", "0"], ["--peer-repeats", "5"]])
def test_options_without_effect_on_scaling_are_refused(words):
    done = run_attest("bench", "study", "--scaling", "--tokens", "256", "--queries", "4", "--layers", "1", "--repeats",
                      "1", "--device", "cpu", *words)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == f"attest: {words[0]} has no effect on --scaling, which times whole dumps alone\n"


@pytest.mark.parametrize("words, sentence", [
    (["d.h5"], "--tokens is of the synthetic dump, and DUMP is given"),
    (["--peer-repeats", "3"], "--peer-repeats is of the LibTorch peer, which --no-peer leaves out"),
])
def test_options_without_effect_are_refused(words, sentence):
    done = bench(*words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and sentence in done.stderr, done.stderr


@pytest.mark.parametrize("option, lacking", [("--softcap", "a soft-cap of the scores"),
                                             ("--sliding-window", "a sliding window")])
def test_what_the_peer_does_not_have_is_refused(option, lacking, tmp_path):
    attest("synth", "-o", tmp_path / "d.h5", "--layers", 1, "--tokens", 256, "--queries", 2, "--query-heads", 2,
           "--kv-heads", 1, "--head-dim", 32, option, 30)
    words = ["bench", "study", tmp_path / "d.h5", "--repeats", "1", "--device", "cpu", "--sweep-points", "0"]
    done = run_attest(*words)
    assert done.returncode == 2 and done.stderr.endswith(
        f"attest: layer 0 has {lacking}, which the LibTorch peer does not have: --no-peer leaves it out\n"), done.stderr
    assert run_attest(*words, "--no-peer").returncode == 0
