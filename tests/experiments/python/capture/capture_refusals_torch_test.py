"""What attest capture refuses, in one sentence and with no dump left."""
import os
import subprocess
import sys
import types

import pytest
import torch
import transformers

from capture_models import (
    assert_well_formed, models, run, token_ids, write_prompts)  # noqa: F401 (models is a fixture)
from attest.capture import run_model


def test_existing_output_is_refused(models, tmp_path, capsys):
    dump = tmp_path / "dump.h5"
    dump.write_text("precious")
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("llama"), prompts, "-o", dump) == 5
    assert capsys.readouterr().err == f"attest: {dump}: exists already, expected a new file (or --force)\n"
    assert dump.read_text() == "precious"
    assert run(models("llama"), prompts, "-o", dump, "--force", "--quiet") == 0
    assert capsys.readouterr().err == ""
    assert_well_formed(dump)


@pytest.mark.parametrize("line, sentence", [
    ("{", "prompts.jsonl:1: expected JSON"),
    ("[1]", "expected a JSON object, found a list"),
    ('{"name": "x"}', 'expected either "text" or "tokens"'),
    ('{"text": "some text", "span": ["some"]}',
     'prompts.jsonl:1: unknown field "span", the nearest is "spans" (known: text,'),
    ('{"tokens": [1, 2, 3, 4]}\n{"tokens": [1, 2, 3, 4], "Answers": [1]}',
     'prompts.jsonl:2: unknown field "Answers", the nearest is "answer" (known: text,'),
    ('{"text": "a", "tokens": [1]}', 'expected either "text" or "tokens"'),
    ('{"tokens": [1, -2]}', 'lists of token ids'),
    ('{"text": ""}', "none of them empty"),
    ('{"tokens": [1, 2, 3, 4], "name": "a/b"}', "without '/'"),
    ('{"tokens": [1, 2, 3, 4], "spans": [[2, 5]]}', "the span [2, 5] is empty or reaches outside of 0..4"),
    ('{"tokens": [1, 2, 3, 4], "spans": [[3, 3]]}', "is empty"),
    ('{"tokens": [1, 2, 3, 4], "spans": ["x"]}', 'found "x"'),
    ('{"text": "some text", "spans": ["other"]}', "the span 'other' does not occur"),
    ('{"tokens": [1, 2, 3, 4], "spans": [[1, 2]], "span_labels": []}', "1 strings"),
    ('{"tokens": [1, 2, 3, 4], "question": [2, 5]}', "the question [2, 5] is empty or reaches outside of 0..4"),
    ('{"text": "some text", "question": "which?"}', "the question 'which?' does not occur"),
    ('{"text": "some text", "question": 3}', "a question is [begin, end), or a string of the text, found 3"),
    ('{"tokens": [1, 2, 3, 4], "layers": "0"}', '"layers" must be a list'),
    ('{"tokens": [1, 2, 3, 4], "layers": [0, 4]}', "prompts.jsonl:1: there is no layer 4, the model has 4"),
    ('{"tokens": [1, 2, 3]}', "--last 4 of a prompt of 3 tokens"),
    ('{"tokens": [1, 2, 3, 999]}', "token 999 is not in the model's vocabulary of 260"),
    ("\n", "no prompt in it"),
    ('{"tokens": [1, 2, 3, 4], "name": "a"}\n{"tokens": [1, 2, 3, 4], "name": "a"}',
     "prompts.jsonl:2: a second sample"),
])
def test_bad_prompts(line, sentence, models, tmp_path, capsys):
    (tmp_path / "prompts.jsonl").write_text(line)
    assert run(models("llama"), tmp_path / "prompts.jsonl", "-o", tmp_path / "dump.h5", "--tokenizer", "bytes") == 4
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["prompts.jsonl"]  # no partial dump


@pytest.mark.parametrize("options, code, sentence", [
    (["--layers", "4"], 2, "there is no layer 4, the model has 4"),
    (["--layers", "4-"], 2, "there is no layer 4, the model has 4"),
    (["--layers", "0-99999999999"], 2, "there is no layer 99999999999, the model has 4"),
    (["--layers", "3-2"], 2, "--layers: '3-2' is not a list of layers such as 0,4,8-11"),
    (["--layers=-3"], 2, "--layers: '-3' is not a list of layers such as 0,4,8-11"),
    (["--layers", "x"], 2, "--layers: 'x' is not a list of layers such as 0,4,8-11"),
    (["--last", "0"], 2, "--last: '0' is not a whole number above 0"),
    (["--decode", "1e3"], 2, "--decode: '1e3' is not a whole number above 0"),
    (["--positions", "1,x"], 2, "--positions: '1,x' is not a list of whole numbers such as 5,10"),
    (["--gzip", "10"], 2, "--gzip: '10' is not a compression level from 1 to 9"),
    (["--dtype", "half"], 2, "--dtype/--element-type: invalid choice: 'half' (choose from"),
    (["--last"], 2, "--last: expected one argument"),
    (["--nonsense"], 2, "unrecognized arguments: --nonsense"),
    (["--positions", "50"], 4, "--positions reaches outside of the prompt's 50 tokens"),
    (["--answer", "3"], 4, '--answer 3 needs an "answer" of as many tokens, found 0'),
    (["--spans"], 4, 'prompts.jsonl:1: no field "spans"'),
])
def test_bad_options(options, code, sentence, models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("llama"), prompts, "-o", tmp_path / "dump.h5", *options) == code
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1 and error.startswith("attest: ")
    assert not (tmp_path / "dump.h5").exists()


def test_missing_files_are_said_without_torch(tmp_path):
    """Importing torch or transformers would end with exit code 5."""
    for module in ("torch", "transformers"):
        (tmp_path / f"{module}.py").write_text("raise ImportError('asked for')")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})

    def capture(*arguments):
        command = [sys.executable, "-m", "attest.capture", *arguments, "-o", "dump.h5"]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"},
                              cwd=tmp_path, text=True,
                              capture_output=True)
        return done.returncode, done.stderr

    for arguments, sentence in (
            (["./no-such-folder", prompts], "./no-such-folder: no such folder"),
            (["/no/such/folder", prompts], "/no/such/folder: no such folder"),
            (["no/such/folder", prompts], "no/such/folder: no such folder"),
            (["no-such-folder/", prompts], "no-such-folder/: no such folder"),
            (["empty", prompts], "empty: expected the folder of a checkpoint, found no config.json in it"),
            ([prompts, prompts], f"{prompts}: expected the folder of a checkpoint or a name on the hub, found a file"),
            (["gpt2", "none.txt"], "none.txt: cannot be read (No such file or directory)"),
            (["gpt2", "pipe"], "pipe: expected a file, found a pipe"),
            (["gpt2", prompts, "--tokenizer", "../none"], "--tokenizer ../none: no such folder")):
        assert capture(*arguments) == (4, f"attest: {sentence}\n")
    code, error = capture("gpt2", prompts)
    assert code == 5 and "asked for" in error  # the files above do stand in for the modules


def test_a_name_is_looked_for_on_the_hub(tmp_path):
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    for quiet in [], ["--quiet"]:
        done = subprocess.run([sys.executable, "-m", "attest.capture", "no-such/model", prompts, "-o",
                               tmp_path / "dump.h5", *quiet],
                              env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}, text=True,
                              capture_output=True)
        lines = done.stderr.splitlines()
        assert lines[:-1] == ([] if quiet else ["no-such/model: is no folder here; looking for it on the hub"])
        assert done.returncode == 4 and lines[-1].startswith("attest: no-such/model: cannot be loaded as a decoder (")


def test_a_folder_for_the_dump_that_is_missing(models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("llama"), prompts, "-o", tmp_path / "none" / "dump.h5") == 5
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("queries", [["--last", "2"], ["--decode", "2"]])
def test_a_model_without_attention_is_refused(queries, models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("mamba"), prompts, "-o", tmp_path / "dump.h5", *queries) == 4
    error = capsys.readouterr().err
    assert "has no attention to capture: none of the chosen layers" in error and error.count("\n") == 1
    assert not (tmp_path / "dump.h5").exists()


def test_a_model_that_forgets_positions_is_refused(models, tmp_path, capsys, monkeypatch):
    """Bamba counts from 0 in every pass when no positions are given."""
    deaf = types.SimpleNamespace(signature=lambda _: types.SimpleNamespace(parameters=()))
    monkeypatch.setattr(run_model, "inspect", deaf)
    prompts = write_prompts(tmp_path, {"tokens": token_ids(40)})
    assert run(models("bamba"), prompts, "-o", tmp_path / "dump.h5", "--decode", "2") == 4
    assert "puts the decoded token 40 at position 0, expected 40" in capsys.readouterr().err


def out_of_memory(*_, **__):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nSee the documentation")


@pytest.mark.parametrize("where, sentence", [
    ("forward", "50 tokens and the model do not fit into the memory of cpu; shorter prompts take less"),
    ("to", "does not fit into the memory of the GPU (CUDA out of memory. Tried to allocate 2.00 GiB.)")])
def test_a_gpu_without_memory_is_a_limit_of_the_machine(where, sentence, models, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(transformers.LlamaForCausalLM, where, out_of_memory)
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("llama"), prompts, "-o", tmp_path / "dump.h5") == 5
    assert capsys.readouterr().err == f"attest: {models('llama')}: {sentence}\n"


def test_a_library_of_another_version_is_as_one_that_is_missing(models, tmp_path, capsys, monkeypatch):
    folder, prompts = models("llama"), write_prompts(tmp_path, {"tokens": token_ids()})
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "4.57.1")
    assert run(folder, prompts, "-o", tmp_path / "dump.h5") == 5
    assert capsys.readouterr().err == f"attest: {sys.executable}: expected transformers 5 or later, found 4.57.1\n"


def test_names_of_prompts_are_shown_not_obeyed(models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "a\x1b[2Jb"})
    assert run(models("llama"), prompts, "-o", tmp_path / "dump.h5") == 0
    said = capsys.readouterr().err
    assert "a\\x1b[2Jb: 50 tokens" in said and "\x1b" not in said


def test_a_failing_model_is_one_sentence(models, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(transformers.LlamaModel, "forward", lambda *_, **__: 1 / 0)
    prompts = write_prompts(tmp_path, {"tokens": token_ids()})
    assert run(models("llama"), prompts, "-o", tmp_path / "dump.h5") == 4
    sentence = "cannot be run with its attention captured (ZeroDivisionError: division by zero)\n"
    assert sentence in capsys.readouterr().err


def test_full_disk(models, tmp_path):
    """Runs in its own process, which may not write files beyond 64 KiB."""
    prompts = write_prompts(tmp_path, {"tokens": token_ids(500)})
    command = f"ulimit -f 64; trap '' XFSZ; exec {sys.executable} -m attest.capture {models('llama')} {prompts} " \
              f"-o {tmp_path}/dump.h5 --device cpu"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 5 and "dump.h5: cannot be written (" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["prompts.jsonl"]
