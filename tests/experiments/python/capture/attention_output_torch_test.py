"""attest capture --attention-output: what the model's own attention gave, which attest audit finds to be right."""
import json

import h5py
import pytest
import transformers

from attest_program import run_attest
# noqa: F401 (models is a fixture)
from capture_models import attention, FAMILIES, models, read, run, token_ids, write_prompts
from near import MODEL, assert_near


def audit(dump, *options):
    done = run_attest("audit", dump, "--json", *options)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


@pytest.mark.parametrize("family", [name for name in FAMILIES if not name.startswith("deepseek")])
def test_the_output_of_a_model_agrees(family, models, tmp_path):
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models(family), prompts, "-o", dump, "--last", 3, "--decode", 2, "--attention-output") == 0
    with h5py.File(dump) as file:
        assert file.attrs["engine"] == f"transformers {transformers.__version__}"
        for layer, group in file["samples/s/layers"].items():
            plain, _ = attention(file, "s", layer)
            assert group["output"].shape == plain.shape
            assert_near(read(group["output"]), plain, abs=MODEL)
    code, report = audit(dump)
    assert code == 0 and report["agrees"] and report["engine"].startswith("transformers "), report


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_model_of_16_bits_agrees(dtype, models, tmp_path):
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "a"}, {"tokens": token_ids(50), "name": "b"})
    assert run(models("gemma2"), prompts, "-o", dump, "--attention-output", "--dtype", dtype, "--gzip", "--resume") == 0
    code, report = audit(dump)
    assert code == 0 and {layer["output_type"] for layer in report["layers"]} == {dtype}


def test_without_the_option_there_is_none(models, tmp_path):
    dump = tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    assert run(models("llama"), prompts, "-o", dump) == 0
    with h5py.File(dump) as file:
        assert "engine" not in file.attrs and "output" not in file["samples/s/layers/0"]
    code, sentence = audit(dump)
    assert code == 4 and "'attest capture --attention-output' records it" in sentence


def test_latent_attention_is_refused(models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("deepseek_v3"), prompts, "-o", tmp_path / "dump.h5", "--attention-output") == 4
    assert "layer 0: its attention is latent" in capsys.readouterr().err and not (tmp_path / "dump.h5").exists()
