"""The plugin in a real vLLM, its build for CPUs (cmake/setup.sh --vllm): random tiny models of six families and more,
in batches of several requests, whose captured q, k and v are those of transformers, and whose captured output is
attention of them as the dump format defines it."""
import json
import os
import pathlib
import subprocess

import h5py
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (cmake/requirements-torch.txt)")
transformers = pytest.importorskip("transformers",
                                   reason="transformers is not installed (cmake/requirements-torch.txt)")
from capture_models import ALTERNATING, LLAMA3_ROPE, SMALL, attention, make_model, read, run as capture, write_prompts
from near import assert_near

ROOT = pathlib.Path(__file__).parents[4]
ENGINE = ROOT / ".venv-vllm/bin"
PLUGIN = ROOT / "experiments/python/attest/vllm_plugin"
pytestmark = pytest.mark.skipif(not (ENGINE / "python").exists(),
                                reason="vLLM is not installed (cmake/setup.sh --vllm)")

# Of the output, relative to its norm per query and head: an engine rounds the probabilities and the output to the type,
# by half a unit each.
OUTPUT_TOLERANCE = {"float32": 1e-5, "bfloat16": 2**-7}
# Of q, k and v of float32 models, relative to the largest value of a layer: another order of sums, through four layers.
INPUT_TOLERANCE = 1e-4

WIDE = {**SMALL, "hidden_size": 128}  # heads of 32 channels, the fewest that vLLM's CPU kernels take
FAMILIES = {
    "llama": ("float32", lambda: transformers.LlamaConfig(**WIDE, rope_parameters=LLAMA3_ROPE)),
    "qwen2": ("float32", lambda: transformers.Qwen2Config(**WIDE)),
    "qwen3": ("float32", lambda: transformers.Qwen3Config(**WIDE, head_dim=32)),
    "mistral": ("float32", lambda: transformers.MistralConfig(**WIDE, sliding_window=16)),
    "gemma2": ("float32", lambda: transformers.Gemma2Config(
        **WIDE, head_dim=32, sliding_window=16, query_pre_attn_scalar=20, attn_logit_softcapping=5.0,
        layer_types=ALTERNATING)),
    # vLLM's CPU kernels for experts take bfloat16 alone.
    "gpt_oss": ("bfloat16", lambda: transformers.GptOssConfig(
        **{**WIDE, "intermediate_size": 128}, head_dim=32, sliding_window=16, layer_types=ALTERNATING,
        num_local_experts=2, num_experts_per_tok=1)),
}
LENGTHS = (50, 90, 33, 20, 70)


def without_checkout(**more):
    return {name: value for name, value in os.environ.items() if not name.startswith(("ATTEST_", "PYTHON"))} | more


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """A folder with the installed plugin, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("plugin")
    subprocess.run([ENGINE / "python", "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target",
                    folder,
                    PLUGIN], check=True, env=without_checkout())
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return {name: str(make_model(tmp_path_factory.mktemp(name), make(), getattr(torch, dtype)))
            for name, (dtype, make) in FAMILIES.items()}


def ids(seed, count):
    return np.random.default_rng(seed).integers(0, 256, count).tolist()


def request(name, seed, count, tokens=5, **arguments):
    return {"ids": ids(seed, count), "tokens": tokens,
            "arguments": {"attest_name": name, "attest_last": 3, "attest_decode": 4} | arguments}


def family_job(name, models):
    return {"name": name, "engine": {"model": models[name], "dtype": FAMILIES[name][0]},
            "requests": [request(f"{name}-{n}", n, count) for n, count in enumerate(LENGTHS)]}


@pytest.fixture(scope="module")
def dumps(plugin, models, tmp_path_factory):
    """All jobs in one process, as vLLM takes long to start. Returns the folder of the dumps, and what each job says."""
    llama = models["llama"]
    jobs = [family_job(name, models) for name in FAMILIES]
    jobs.append({"name": "fp8", "engine": {"model": llama, "dtype": "bfloat16", "kv_cache_dtype": "fp8_e4m3"},
                 "requests": [request("fp8", 0, 50)]})
    jobs.append({"name": "prefix", "engine": {"model": llama, "dtype": "float32", "enable_prefix_caching": True,
                                              "block_size": 32},
                 "requests": [request("first", 0, 70, 60), request("other", 1, 70, 60)]
                 + [request(f"short-{n}", 10 + n, 20, 1) for n in range(3)]
                 + [request("again", 0, 70)]})
    jobs.append({"name": "preempt", "engine": {"model": llama, "dtype": "float32", "block_size": 32,
                                               "num_gpu_blocks_override": 9},
                 "requests": [request(f"preempt-{n}", n, 60, 60, attest_decode=59) for n in range(4)]})
    jobs.append({"name": "refused", "engine": {"model": llama},
                 "requests": [
                     request("no-layer", 0, 20, attest_layers="7"), request("one-layer", 0, 20, attest_layers="2")]})
    folder = tmp_path_factory.mktemp("dumps")
    path = folder / "jobs.json"
    path.write_text(json.dumps(jobs))
    done = subprocess.run(
        [ENGINE / "python", pathlib.Path(__file__).with_name("vllm_jobs.py"), path], capture_output=True, text=True,
        env=without_checkout(PYTHONPATH=str(plugin), ATTEST_VLLM_FOLDER=str(folder), ATTEST_VLLM_REQUESTS="0"))
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(said) == len(jobs), done.stderr[-3000:]
    return folder, {job["name"]: job for job in said}


def open_dump(dumps, name):
    return h5py.File(dumps[0] / f"{name}.h5")


def largest_error(dump, name):
    """Of the captured output, over the layers, relative to its norm."""
    worst = 0
    for layer, group in dump[f"samples/{name}/layers"].items():
        expected, _ = attention(dump, name, layer)
        error = np.linalg.norm(read(group["output"]) - expected, axis=-1) / np.linalg.norm(expected, axis=-1)
        worst = max(worst, error.max())
    return worst


def check_request(dumps, name, positions, dtype):
    dump = open_dump(dumps, name)
    assert dump[f"samples/{name}/query_positions"][:].tolist() == positions
    assert len(dump[f"samples/{name}/layers"]) == 4
    assert largest_error(dump, name) <= OUTPUT_TOLERANCE[dtype]
    return dump


@pytest.mark.parametrize("family", FAMILIES)
def test_batches_of_each_family(dumps, family):
    assert dumps[1][family]["error"] is None
    for number, count in enumerate(LENGTHS):
        dump = check_request(dumps, f"{family}-{number}", list(range(count - 3, count + 4)), FAMILIES[family][0])
        sample = dump[f"samples/{family}-{number}"]
        assert sample["tokens"][:count].tolist() == ids(number, count) and sample.attrs["prompt_length"] == count
    assert dump.attrs["engine"].startswith("vllm ") and dump.attrs["kv_cache"] == ""
    assert "attention backend CPU_ATTN, KV cache auto" in dump.attrs["source"]
    assert ("sinks" in sample["layers/0"]) == (family == "gpt_oss")
    assert ("logit_softcap" in dump.attrs) == (family == "gemma2")
    assert ("sliding_window" in sample["layers/0"].attrs) == (family in ("mistral", "gemma2", "gpt_oss"))


@pytest.mark.parametrize("family", [name for name, (dtype, _) in FAMILIES.items() if dtype == "float32"])
def test_q_k_v_are_those_of_transformers(dumps, models, tmp_path, family):
    """Of the same tokens, prompt and decoded, read at once."""
    name = f"{family}-1"
    found = open_dump(dumps, name)[f"samples/{name}"]
    prompts = write_prompts(tmp_path, {"name": name, "tokens": found["tokens"][:].tolist()})
    positions = ",".join(map(str, found["query_positions"][:]))
    assert capture(models[family], prompts, "-o", tmp_path / "d.h5", "--positions", positions) == 0
    with h5py.File(tmp_path / "d.h5") as dump:
        assert dump.attrs["softmax_scale"] == pytest.approx(open_dump(dumps, name).attrs["softmax_scale"])
        for layer in range(4):
            for kind in "qkv":
                expected, captured = (read(sample[f"layers/{layer}/{kind}"])
                                      for sample in (dump[f"samples/{name}"], found))
                assert_near(captured, expected, abs=INPUT_TOLERANCE * np.abs(expected).max(), what=(layer, kind))


def test_an_8_bit_cache_is_named_and_seen_in_the_output(dumps):
    dump = open_dump(dumps, "fp8")
    assert dump.attrs["kv_cache"] == "k=fp8_e4m3,v=fp8_e4m3" and "KV cache fp8_e4m3" in dump.attrs["source"]
    assert largest_error(dump, "fp8") > 4 * OUTPUT_TOLERANCE["bfloat16"]


def test_what_the_prefix_cache_gives_is_refused(dumps):
    """The last request waits until the first, whose prompt it repeats, has ended."""
    for name in ("first", "other"):
        check_request(dumps, name, list(range(67, 74)), "float32")
    refused = (dumps[0] / "again.refused").read_text()
    assert "request again: its first 64 tokens come from a cache" in refused and not (dumps[0] / "again.h5").exists()


def test_preempted_requests_are_whole(dumps):
    assert dumps[1]["preempt"]["preempted"] > 0
    for number in range(4):
        check_request(dumps, f"preempt-{number}", list(range(57, 119)), "float32")


def test_layers_of_one_request(dumps):
    assert "there is no layer 7, the model has 4" in (dumps[0] / "no-layer.refused").read_text()
    assert list(open_dump(dumps, "one-layer")["samples/one-layer/layers"]) == ["2"]


def attest_vllm(plugin, folder, *words):
    return subprocess.run([plugin / "bin/attest-vllm", *map(str, words)], capture_output=True, text=True, cwd=folder,
                          env=without_checkout(PYTHONPATH=str(plugin), VLLM_CPU_OMP_THREADS_BIND="0|0",
                                               VLLM_NO_USAGE_STATS="1"))


def test_the_command_with_two_tensor_parallel_ranks(plugin, tmp_path):
    """One KV head, which both ranks have."""
    config = transformers.LlamaConfig(**{**WIDE, "num_key_value_heads": 1})
    model = make_model(tmp_path / "model", config, torch.bfloat16)
    text = "def hello(x):\n    return x + 1\n" * 3
    prompts = write_prompts(tmp_path, {"name": "ids", "tokens": ids(3, 40), "task": "t"},
                            {"name": "words", "text": text, "spans": ["hello"], "answer": "ok"})
    words = (model, prompts, "-o", "d.h5", "--tokenizer", "bytes", "--last", "2", "--decode", "3", "--layers", "0,3")
    done = attest_vllm(plugin, tmp_path, *words, "--", "--tensor-parallel-size", "2", "--max-num-batched-tokens",
                       "64")
    assert done.returncode == 0, done.stderr[-3000:]
    assert not (tmp_path / "d.h5.partial").exists()
    with h5py.File(tmp_path / "d.h5") as dump:
        assert (dump.attrs["num_query_heads"], dump.attrs["num_kv_heads"]) == (4, 1)
        assert "2 tensor-parallel and 1 pipeline-parallel ranks" in dump.attrs["source"]
        for name, count in (("ids", 40), ("words", len(text) + 1)):
            sample = dump[f"samples/{name}"]
            assert sample["query_positions"][:].tolist() == list(range(count - 2, count + 3))
            assert sorted(sample["layers"]) == ["0", "3"] and sample["layers/0/k"].shape == (1, count + 3, 32)
            assert largest_error(dump, name) <= OUTPUT_TOLERANCE["bfloat16"]
        assert dump["samples/ids"].attrs["task"] == "t"
        assert dump["samples/words/spans"][:].tolist() == [[5, 10]]


def test_the_command_says_what_cannot_be_run(plugin, models, tmp_path):
    prompts = write_prompts(tmp_path, {"tokens": [1, 2, 3, 4, 5]})
    done = attest_vllm(plugin, tmp_path, models["llama"], prompts, "-o", "d.h5", "--layers", "4")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2, "attest-vllm: --layers: there is no layer 4, the model has 4")
    done = attest_vllm(plugin, tmp_path, models["llama"], prompts, "-o", "d.h5", "--", "--no-such-option")
    assert done.returncode == 2 and "the options behind -- are not those of vllm serve" in done.stderr
    assert not list(tmp_path.glob("d.h5*"))
