"""Options of attest tasks that cannot be meant, prompts that cannot be answered: one sentence, and nothing is left."""

import pytest

from task_runs_maker import model_folder, tasks, write_lines  # noqa: F401


@pytest.mark.parametrize("options, code, sentence", [
    (["--prompts=0"], 2, "'0' is not a number of prompts above 0, or a .jsonl file"),
    (["--prompts=p.txt"], 2, "'p.txt' is not a number of prompts"),
    (["--prompts=good.jsonl", "--tasks=kv"], 2, "--tasks is for prompts that are made, and --prompts names the file"),
    (["--prompts=good.jsonl", "--haystack=x"], 2, "--haystack is for prompts that are made"),
    (["--tasks=vk"], 2, "'vk' is not a list of tasks such as kv,mk"),
    (["--context=4k"], 2, "'4k' is not a list of lengths"),
    (["--layers=3-1"], 2, "'3-1' is not a list of layers"),
    (["--prompts=good.jsonl", "--layers=4"], 2, "there is no layer 4, the model has 4"),
    (["--dtype=int8"], 2, "'int8' is not float16, bfloat16 or float32"),
    (["--dump-queries=2"], 2, "--dump-queries is of --dump, which is not given"),
    (["--dump-layers=2"], 2, "--dump-layers is of --dump, which is not given"),
    (["--head-weights"], 2, "--head-weights is of --dump, which is not given"),
    (["--forced", "--max-new-tokens=9"], 2, "--max-new-tokens is of answers that are decoded"),
    (["--tokenizer=x", "--first-token=3"], 2, "--first-token is of --tokenizer bytes"),
    (["--tokenizer=./x"], 4, "--tokenizer ./x: no such folder"),
    (["--tasks=kv", "--context=60"], 2, "kv: 60 tokens are too few"),
    (["--tasks=kv", "--haystack=none"], 4, "none: there is no such haystack"),
    (["--prompts=good.jsonl", "--chat"], 2, "--chat: this tokenizer has no chat template"),
    (["--prompts=good.jsonl", "--dump=good.jsonl"], 2, "good.jsonl: is an input, too"),
    (["--prompts=good.jsonl", "--dump=t.h5"], 5, "t.h5: is both --dump and --output"),
    (["--prompts=good.jsonl", "--dump=no/d.h5"], 5, "there is no folder no"),
    (["--prompts=good.jsonl", "--output=no/t.h5"], 5, "there is no folder no"),
    (["--prompts=good.jsonl", "--output=good.jsonl"], 2, "good.jsonl: is an input, too"),
    (["--prompts=no.jsonl"], 4, "no.jsonl: cannot be read (No such file"),
    (["--prompts=blank.jsonl"], 4, 'blank.jsonl:2: no "answer", or an empty one'),
    (["--prompts=special.jsonl"], 4, 'special.jsonl:1: no "answer", or an empty one'),
    (["--prompts=twice.jsonl"], 4, "twice.jsonl:2: a second sample is named 'a'"),
    (["--prompts=unknown.jsonl"], 4, "token 999 is not in the model's vocabulary of 260"),
])
def test_refusals(options, code, sentence, model_folder, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    good = {"text": "some text", "answer": "more"}
    for name, lines in {"good": [good], "blank": [good, {"text": "x", "answer": " \n"}],
                        "twice": [{**good, "name": "a"}] * 2, "unknown": [{"tokens": [1, 2], "answer": [65, 999]}],
                        "special": [{"tokens": [1, 2], "answer": [258]}]}.items():
        write_lines(tmp_path / f"{name}.jsonl", lines)
    before = sorted(tmp_path.iterdir())
    assert tasks(model_folder, "t.h5", *options) == code
    said = capsys.readouterr()
    assert said.err.startswith("attest: ") and len(said.err.splitlines()) == 1 and sentence in said.err, said.err
    assert not said.out and sorted(tmp_path.iterdir()) == before


def test_a_selector_that_does_not_fit_the_model(model_folder, tmp_path, capsys):  # noqa: F811
    """It is found out at the first prompt: the sentence names prompt and run, and the same name can be used again."""
    path = write_lines(tmp_path / "p.jsonl", [{"text": "some text", "answer": "more", "name": "first"}])
    twilight = {"label": "tw", "selector": "twilight", "text": "twilight", "options": "{}", "setting_kind": "p",
                "settings": [[0.5, False, "0.5"], [7, False, "7"]]}
    assert tasks(model_folder, tmp_path / "t.h5", f"--prompts={path}", selectors=[twilight]) == 2
    assert "the setting 7 is not a p" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.jsonl"]


def test_long_prompts_are_answered_with_a_warning(model_folder, tmp_path, capsys):  # noqa: F811
    path = write_lines(tmp_path / "p.jsonl", [{"text": "x" * 4200, "answer": "more"}])
    assert tasks(model_folder, tmp_path / "t.h5", f"--prompts={path}", "--forced") == 0
    assert "left, longer than the model's 4096 positions" in capsys.readouterr().err
