"""attest.prompts as a command: capture reads what it writes, which is what was asked for; bad input gets a sentence."""
import subprocess
import sys

import pytest

from prompt_tokenizers import BOS, BYTES, REPOSITORY, tokenizer_of
from attest.capture.prompt_files import read_prompts
from attest.capture.prompt_tokens import tokenize
from attest.prompts import __main__ as prompts_command

HAYSTACK = str(REPOSITORY / "experiments/python/attest/capture")


def run(*arguments):
    return prompts_command.main([str(argument) for argument in arguments])


def test_bytes(tmp_path):
    path = tmp_path / "prompts.jsonl"
    assert run("bytes", "-o", path, "--tasks", "kv,vt", "--context", "1K,700", "--prompts", 2, "--seed", 5,
               "--haystack", HAYSTACK, "--first-token", BOS) == 0
    prompts = read_prompts(path)
    assert [p.name for p in prompts] == [f"{task}_{length}_5_{i}" for task in ("kv", "vt") for length in (1024, 700)
                                         for i in (0, 1)]
    assert [len(tokenize(p, BYTES).ids) for p in prompts] == [1024, 1024, 700, 700] * 2


def test_a_tokenizer_from_a_folder(tmp_path):
    tokenizer_of("byte_level").save_pretrained(tmp_path / "model")
    path = tmp_path / "prompts.jsonl"
    assert run(tmp_path / "model", "-o", path, "--context", 600, "--prompts", 1, "--haystack", HAYSTACK) == 0
    lengths = [len(tokenize(p, tokenizer_of("byte_level")).ids) for p in read_prompts(path)]
    assert len(lengths) == 8 and all(597 <= length <= 600 for length in lengths)


@pytest.mark.parametrize("arguments, code, sentence", [
    (["bytes", "--tasks", "kv,needle"], 2, "'kv,needle' is not a list of tasks such as kv,mk"),
    (["bytes", "--tasks", "kv,kv"], 2, "'kv,kv' is not a list of tasks"),
    (["bytes", "--context", "0K"], 2, "'0K' is not a list of lengths"),
    (["bytes", "--context", "4k"], 2, "'4k' is not a list of lengths"),
    (["bytes", "--prompts", "-1"], 2, "is not a whole number above 0"),
    (["bytes", "--first-token", "x"], 2, "'x' is not a token id"),
    (["bytes", "--context", "60"], 2, "niah: 60 tokens are too few for its lines and its question"),
    (["bytes", "--haystack", "no/such"], 4, "no/such: there is no such haystack"),
    (["./no-such-model"], 4, "./no-such-model: no such folder"),
    (["/"], 4, "/: no tokenizer can be loaded"),
    (["/"], 4, "name a model with a tokenizer, or 'bytes'"),
])
def test_bad_input(arguments, code, sentence, tmp_path, capsys):
    if arguments == ["/"]:
        tokenizer_of("byte_level")  # transformers is needed to see that there is none
    assert run(*arguments, "-o", tmp_path / "prompts.jsonl") == code
    error = capsys.readouterr().err
    assert error.startswith("attest: ") and sentence in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_poor_haystack_is_refused(tmp_path, capsys):
    (tmp_path / "short.txt").write_text("only a few words\n")
    assert run("bytes", "-o", tmp_path / "prompts.jsonl", "--haystack", tmp_path / "short.txt") == 4
    assert "short.txt: has 17 characters of text and 2 words, expected 1000 and 50 at least" in capsys.readouterr().err


def test_help_names_the_tasks_and_needs_no_torch():
    script = "import runpy, sys\ntry: runpy.run_module('attest.prompts', run_name='__main__')\n" \
             "except SystemExit: print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n") and "one of as many hexadecimal keys as fit" in done.stdout
