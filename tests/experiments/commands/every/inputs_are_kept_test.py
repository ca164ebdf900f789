"""No command replaces a file that it reads, also not with --force."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from attest_program import ATTEST, attest, run_attest
from recorded_calls import FlightRecorder

SOURCE = Path(os.environ["ATTEST_SOURCE_DIR"])


@pytest.fixture
def folder(tmp_path):
    """A dump, results, an archive, prompts and a configuration, and a link to each."""
    for arguments in (["synth", "-o", "dump.h5", "--layers", 3, "--tokens", 300],
                      ["run", "dump.h5", "-o", "r.h5", "--selector", "ffd"]):
        attest(*arguments, "--quiet", cwd=tmp_path)
    np.savez(tmp_path / "a.npz", q=np.zeros(3))
    (tmp_path / "p.jsonl").write_text('{"name": "a", "text": "b", "answer": "c"}\n')
    (tmp_path / "s.json").write_text(
        '{"format": "attest-recommendation", "format_version": 1, "setting": "delta", "default": 5}\n')
    (tmp_path / "c.toml").write_text("quiet = true\n")
    (tmp_path / "hay.txt").write_text("hay\n")
    for file in list(tmp_path.iterdir()):
        (tmp_path / f"link_{file.name}").symlink_to(file)
    return tmp_path


@pytest.mark.parametrize("link", ["", "link_"])
@pytest.mark.parametrize("command, kept", [
    (["table", "r.h5", "-o"], "r.h5"),
    (["claims", "r.h5", "-o"], "r.h5"),
    (["report", "r.h5", "-o"], "r.h5"),
    (["validate", "r.h5", "--target", "recall>=0.9", "-o"], "r.h5"),
    (["run", "dump.h5", "-o"], "dump.h5"),
    (["run", "dump.h5", "--config", "c.toml", "-o"], "c.toml"),
    (["run", "dump.h5", "--selector", "ffd", "--units", "0", "--chunk"], "dump.h5"),
    (["run", "dump.h5", "--selector", "ffd:settings_file=s.json", "-o"], "s.json"),
    (["run", "dump.h5", "--selector", "ffd:settings_file=s.json", "--units", "0", "--chunk"], "s.json"),
    (["validate", "dump.h5", "--selector", "ffd:settings_file=s.json", "--target", "recall>=0.1", "--csv"], "s.json"),
    (["validate", "dump.h5", "--selector", "ffd:settings_file=s.json", "--target", "recall>=0.1", "--results"],
     "s.json"),
    (["bench", "kernel", "--dump", "dump.h5", "-o"], "dump.h5"),
    (["import", "a.npz", "-o"], "a.npz"),
    (["capture", "no-model", "p.jsonl", "-o"], "p.jsonl"),
    (["tasks", "--model", "no-model", "--selector", "ffd", "--delta", "5", "--prompts", "p.jsonl", "-o"], "p.jsonl"),
    (["tasks", "--model", "no-model", "--selector", "ffd:settings_file=s.json", "-o"], "s.json"),
])
def test_an_input_is_no_output(folder, command, kept, link):
    before = (folder / kept).read_bytes()
    result = attest(*command, link + kept, "--force", cwd=folder, expect=2)
    assert kept in result.stderr and len(result.stderr.splitlines()) == 1
    assert (folder / kept).read_bytes() == before and (folder / kept).is_symlink() is False


@pytest.mark.parametrize("file", ["session.jsonl", "CALL/metadata.jsonl", "CALL/inputs.safetensors",
                                  "CALL/outputs.safetensors"])
def test_a_recording_is_no_output(tmp_path, file):
    q = np.zeros((1, 1, 4), np.float32)
    call = FlightRecorder(tmp_path / "calls").call("single_decode_with_kv_cache", q[0], q, q, result=q[0])
    kept = tmp_path / "calls" / file.replace("CALL", call.name)
    before = kept.read_bytes()
    result = run_attest("import", "calls", "-o", kept, "--force", cwd=tmp_path)
    assert (result.returncode, kept.read_bytes()) == (2, before), result.stderr
    assert result.stderr == f"attest: {kept}: is an input, too, expected a name of its own for the output\n"


def test_a_dump_of_the_plugin_is_no_output(folder):
    (folder / "plugin").mkdir()
    (folder / "dump.h5").rename(folder / "plugin/dump.h5")
    before = (folder / "plugin/dump.h5").read_bytes()
    result = run_attest("import", "plugin", "-o", "plugin/dump.h5", "--force", cwd=folder)
    assert result.returncode == 2 and "plugin/dump.h5: is an input, too" in result.stderr
    assert (folder / "plugin/dump.h5").read_bytes() == before


@pytest.mark.parametrize("model, kept", [("m.gguf", "m.gguf"), ("checkpoint", "checkpoint/model.safetensors")])
@pytest.mark.parametrize("command", [
    ["-m", "attest.capture", "MODEL", "p.jsonl", "--force", "-o"],
    ["-m", "attest.vllm_plugin", "MODEL", "p.jsonl", "--force", "-o"],
    ["-m", "attest.tasks", "--request={}", "--model=MODEL", "--prompts=p.jsonl", "--force", "--output"],
    ["-m", "attest.tasks", "--request={}", "--model=MODEL", "--prompts=p.jsonl", "--force", "--output=o.h5", "--dump"]])
def test_a_model_is_no_output(folder, command, model, kept):
    (folder / "m.gguf").write_bytes(b"GGUF")
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint/model.safetensors").write_bytes(b"weights")
    before = (folder / kept).read_bytes()
    words = [word.replace("MODEL", model) for word in command]
    result = subprocess.run([sys.executable, *words, kept], cwd=folder, capture_output=True, text=True)
    assert result.returncode == 2 and f"{kept}: is an input, too" in result.stderr, result.stderr
    assert (folder / kept).read_bytes() == before


def test_what_a_benchmark_reads_is_no_output(folder):
    request = '{"output": "dump.h5", "dump": "dump.h5", "model": "m", "force": true}'
    result = subprocess.run([sys.executable, "-m", "attest.bench_model", request], cwd=folder, capture_output=True,
                            text=True)
    if "No module named 'torch'" in result.stderr:
        pytest.skip("torch is not installed (cmake/requirements-torch.txt)")
    assert result.returncode == 2 and "dump.h5: is an input, too" in result.stderr


@pytest.mark.parametrize("output", [["-o"], ["--units", "0", "--chunk"]])
def test_head_weights_are_no_output(tmp_path, output):
    weights, before = tmp_path / "w.json", (SOURCE / "dumps/demo.weights.json").read_bytes()
    weights.write_bytes(before)
    command = [ATTEST, "run", SOURCE / "dumps/demo.h5", "--selector", "exact", "--weights", weights, *output, weights,
               "--force"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2 and "both a file to read and the results to write" in result.stderr, result.stderr
    assert weights.read_bytes() == before


def test_a_haystack_is_no_output(folder):
    result = subprocess.run([sys.executable, "-m", "attest.prompts", "bytes", "--haystack", "hay.txt", "-o", "hay.txt",
                             "--force"],
                            cwd=folder, capture_output=True, text=True)
    assert result.returncode == 2 and "hay.txt" in result.stderr
    assert (folder / "hay.txt").read_text() == "hay\n"
