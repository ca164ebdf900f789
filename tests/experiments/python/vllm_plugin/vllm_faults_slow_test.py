"""Faults in the attention of a real vLLM (its build for CPUs, cmake/setup.sh --vllm), planted at one layer beneath the
plugin: attest audit finds the layer and names the cause. As it is, vLLM passes."""
import json
import pathlib
import subprocess

import pytest

pytest.importorskip("torch", reason="torch is not installed (cmake/requirements-torch.txt)")
pytest.importorskip("transformers", reason="transformers is not installed (cmake/requirements-torch.txt)")
from attest_program import attest
from vllm_slow_test import ENGINE, models, plugin, request, without_checkout  # noqa: F401, two fixtures

pytestmark = pytest.mark.skipif(not (ENGINE / "python").exists(),
                                reason="vLLM is not installed (cmake/setup.sh --vllm)")
LAYER, LENGTH = 2, 50

# name of the round: model, fault, what the other layers do, and what the audit must say: kind, words; None: it agrees.
SOUND = {
    "llama": ("llama", "none", "none"), "gpt_oss": ("gpt_oss", "none", "none"),
    "fp8_rounded": ("fp8", "rounded_codes", "rounded_codes"),
}
FAULTS = {
    "window": ("llama", "window", "none", "window", "24 tokens instead of none"),
    "no_window": ("gpt_oss", "no_window", "none", "window", "the sliding window of 16 tokens is missing"),
    "no_mask": ("llama", "no_mask", "none", "mask", "there is no mask in the prompt"),
    "no_sinks": ("gpt_oss", "no_sinks", "none", "sinks", "learned sinks are missing"),
    "turned_queries": ("qwen3", "turned_queries", "none", "position",
                       "queries are rotated 3 positions more than their keys"),
    "heads_modulo": ("llama", "heads_modulo", "none", "gqa", "query head h reads KV head h mod Hkv"),
    "undeclared_fp8": ("llama", "undeclared_fp8", "none", "cache", "k=fp8_e4m3,v=fp8_e4m3"),
    "scale_forgotten": ("fp8", "scale_forgotten", "rounded_codes", "cache",
                        "keys stored with k_scale=0.5 and read without it"),
    "cut_codes": ("fp8", "none", "rounded_codes", "cache", "codes are cut towards zero, not rounded"),
}


@pytest.fixture(scope="module")
def dumps(plugin, models, tmp_path_factory):  # noqa: F811
    """All rounds in one process, an engine for each model."""
    folder = tmp_path_factory.mktemp("faults")
    engines = {"llama": {"model": models["llama"], "dtype": "float32"},
               "qwen3": {"model": models["qwen3"], "dtype": "float32"},
               "gpt_oss": {"model": models["gpt_oss"], "dtype": "bfloat16"},
               "fp8": {"model": models["llama"], "dtype": "bfloat16", "kv_cache_dtype": "fp8_e4m3"}}
    rounds = {engine: [] for engine in engines}
    for name, (engine, fault, otherwise, *_) in (SOUND | FAULTS).items():
        arguments = request(name, 0, LENGTH, attest_last=40)
        rounds[engine].append({"fault": fault, "layer": LAYER, "else": otherwise, "request": arguments})
    path = folder / "jobs.json"
    path.write_text(json.dumps([{"engine": engines[name], "rounds": of} for name, of in rounds.items()]))
    done = subprocess.run(
        [ENGINE / "python", pathlib.Path(__file__).with_name("vllm_faults.py"), path], capture_output=True, text=True,
        env=without_checkout(PYTHONPATH=str(plugin), ATTEST_VLLM_FOLDER=str(folder), ATTEST_VLLM_REQUESTS="0"))
    assert done.stdout.endswith("planted\n"), done.stderr[-3000:]
    return folder


def audit(dumps, name, expect):
    return json.loads(attest("audit", str(dumps / f"{name}.h5"), "--json", expect=expect).stdout)


@pytest.mark.parametrize("name", SOUND)
def test_vllm_as_it_is_agrees(dumps, name):
    report = audit(dumps, name, 0)
    assert report["engine"].startswith("vllm ") and len(report["layers"]) == 4


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_at_one_layer_is_found_and_named(dumps, name):
    *_, kind, words = FAULTS[name]
    report = audit(dumps, name, 3)
    failing = [layer for layer in report["layers"] if layer["first"]]
    assert [layer["layer"] for layer in failing] == [LAYER] and report["first"]["layer"] == LAYER
    best = failing[0]["explanation"]["explained_by"][0]
    assert best["kind"] == kind and words in best["text"], failing[0]["explanation"]
