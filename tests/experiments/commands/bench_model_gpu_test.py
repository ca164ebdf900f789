"""attest bench model on a GPU: a small model with random weights, one with weights, a dump's shares, and the record."""

import json
import math

import pytest
from attest_program import run_attest as attest

torch = pytest.importorskip("torch", reason="torch is not installed (cmake/setup.sh --torch)")
transformers = pytest.importorskip("transformers", reason="transformers is not installed (cmake/setup.sh --torch)")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

SMALL = ["--context", "1K,2K", "--batch", "1,3", "--repeats", "8"]


def bench(folder, model, *arguments):
    done = attest("bench", "model", model, *arguments, "-o", folder / "m.json", "--quiet", "--force")
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "m.json").read_text()), done.stdout


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    shape = dict(
        vocab_size=1000,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=64,
    )
    transformers.AutoConfig.for_model("qwen3", **shape).save_pretrained(folder)
    return folder / "config.json"


def test_the_record_is_whole(config, tmp_path):
    document, text = bench(tmp_path, config, *SMALL, "--keep", "30%,100%")
    assert document["machine"]["memory_bytes"] > 1e9 and document["machine"]["gpu"] in text
    methods = {(m["method"], m["context"], m["batch"]) for m in document["measurements"]}
    left = {(m["method"], m["context"], m["batch"]) for m in document["left_out"]}
    points = [(c, b) for c in (1024, 2048) for b in (1, 3)]
    assert methods | left == {(m, *p) for m in ("ffd", "sdpa_flash", "sdpa_cudnn") for p in points}
    for m in document["measurements"]:
        assert m["check"]["logits_difference"] <= m["check"]["tolerance"] < m["check"]["without_attention"] / 3
        assert len(m["milliseconds"]) == 8 and min(m["milliseconds"]) > 0 and 0 < m["attention_share"] <= 1
        assert m["kept"] == pytest.approx(m["setting"]["value"] or 1, abs=0.2)
        dense_bytes = 4 * 2 * m["batch"] * 2 * m["context"] * 64 * 2
        assert math.isclose(m["cache_bytes"], dense_bytes, rel_tol=0 if m["method"] != "ffd" else 0.5)


def test_a_checkpoint_and_the_shares_of_a_dump(config, tmp_path):
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(config))
    model.half().save_pretrained(tmp_path / "checkpoint")
    made = attest("synth", "-o", tmp_path / "d.h5", "--layers", 2, "--tokens", 3000, "--query-heads", 8, "--kv-heads",
                  2)
    assert made.returncode == 0, made.stderr
    options = ["--context", "2K", "--batch", 1, "--repeats", 4, "--dump", tmp_path / "d.h5", "--delta", "3,inf"]
    refused = attest("bench", "model", tmp_path / "checkpoint", *options)
    assert refused.returncode == 2 and "--delta" in refused.stderr
    document, _ = bench(tmp_path, tmp_path / "checkpoint", *options[:-1], "3")
    assert document["model"]["element_type"] == "float16" and not document["model"]["random_weights"]
    assert [m["setting"] for m in document["measurements"] if m["method"] == "ffd"] == [{"kind": "delta", "value": 3.0}]


def test_an_output_stays(config, tmp_path):
    (tmp_path / "m.json").write_text("mine")
    done = attest("bench", "model", config, *SMALL, "-o", tmp_path / "m.json")
    assert done.returncode == 5 and "--force" in done.stderr and (tmp_path / "m.json").read_text() == "mine"


def test_weights_that_do_not_fit(config, tmp_path):
    done = attest("bench", "model", config, *SMALL, "--device-memory", "1MiB")
    assert done.returncode == 5 and done.stderr.count("\n") >= 1 and "may be taken" in done.stderr, done.stderr
