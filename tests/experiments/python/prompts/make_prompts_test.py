"""Prompts of tasks: lengths, seeds, evidence and question in tokens, answers, the file that capture reads."""
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

from prompt_tokenizers import BYTES, HAYSTACK, TOKENIZERS, tokenizer_of
from attest.base.errors import OutputError, UsageError
from attest.capture.prompt_files import Prompt, read_prompts
from attest.capture.prompt_tokens import tokenize
from attest.prompts.families import TASKS
from attest.prompts.haystack import Haystack
from attest.prompts.make_prompts import as_line, join_answer, make_prompt, make_prompts, write_prompts

EACH = [(task, tokenizer) for task in TASKS for tokenizer in TOKENIZERS]
VALUES = {"niah": 1, "mk": 1, "mv": 4, "mq": 4, "kv": 1}  # values that are asked for: each stands in the text once


@pytest.mark.parametrize("task, tokenizer", EACH)
@pytest.mark.parametrize("length", [1024, 3000])
def test_lengths_evidence_and_question(task, tokenizer, length):
    tokenizer = tokenizer_of(tokenizer)
    for index in range(3):
        prompt = make_prompt(task, length, tokenizer, HAYSTACK, seed=3, index=index)
        placed = tokenize(prompt, tokenizer)
        assert len(placed.ids) == length
        assert len(placed.ids) == len(tokenizer(prompt.text)["input_ids"])
        assert placed.spans and len(placed.spans) == len(prompt.spans) == len(prompt.span_labels)
        offsets = tokenizer(prompt.text, return_offsets_mapping=True)["offset_mapping"]
        for (begin, end), label in zip(placed.spans, prompt.span_labels, strict=True):
            covered = prompt.text[offsets[begin][0]:offsets[end - 1][1]]
            assert label in covered and len(covered) < len(label) + 20
        begin, end = placed.question
        assert end == len(placed.ids) and prompt.text[offsets[begin][0]:].lstrip().startswith("Question: ")
        assert max(end for _, end in placed.spans) <= begin + 1


@pytest.mark.parametrize("task", VALUES)
def test_values_stand_in_the_text_once(task):
    for index in range(5):
        prompt = make_prompt(task, 2000, BYTES, HAYSTACK, index=index)
        assert len(prompt.spans) == VALUES[task]
        assert all(prompt.text.count(value) == 1 and value in prompt.answer for value in prompt.span_labels)
        if task != "mq":  # its answer names the keys, too
            assert prompt.answer == ", ".join(prompt.span_labels)


@pytest.mark.parametrize("name, result, why", [("filled_to", None, "its lines do not fit"),
                                               ("_only_in_lines", False, "the haystack holds what is asked for")])
def test_a_text_that_is_not_found_says_why(monkeypatch, name, result, why):
    from attest.prompts import make_prompts as module
    monkeypatch.setattr(module, name, lambda *_: result)
    with pytest.raises(UsageError, match=f"kv_8000_0_0: no text of 8000 tokens found in 100 attempts: {why}$"):
        make_prompt("kv", 8000, BYTES, HAYSTACK)


def test_values_that_the_haystack_holds_are_drawn_anew(monkeypatch):
    from attest.prompts import needles
    drawn = iter(["1111111", "2222222"])
    monkeypatch.setattr(needles, "number", lambda rng: next(drawn))
    haystack = Haystack(HAYSTACK.text[:3000] + "1111111\n")
    prompt = make_prompt("niah", 5000, BYTES, haystack)
    assert "1111111" in prompt.text and prompt.answer == "2222222"


def test_variable_tracking_answers_follow_from_the_text():
    prompt = make_prompt("vt", 1500, BYTES, HAYSTACK)
    values = {}
    for line in prompt.text.splitlines():
        if line.startswith("VAR ") and " = " in line:
            name, source = line[4:].split(" = ")
            values[name] = values[source[4:]] if source.startswith("VAR ") else source
    asked = prompt.text.rsplit("the value ", 1)[1].split("?")[0]
    assert len(values) == 10 and prompt.answer == ", ".join(name for name, value in values.items() if value == asked)
    assert all(label.startswith("VAR ") for label in prompt.span_labels) and len(prompt.spans) == 5


@pytest.mark.parametrize("task", ["cwe", "fwe"])
@pytest.mark.parametrize("length", [700, 4096, 40_000])
def test_words_asked_for_are_the_most_frequent(task, length):
    prompt = make_prompt(task, length, BYTES, HAYSTACK)
    words = prompt.text[prompt.spans[0][0] - length:].split("\nQuestion")[0].split("\n")[-1].split()
    counts = sorted(((words.count(word), word) for word in set(words)), reverse=True)
    answer = prompt.answer.split(", ")
    assert sorted(word for _, word in counts[:3]) == sorted(answer) and counts[2][0] > counts[3][0]
    if task == "fwe":
        assert answer == [word for _, word in counts[:3]]
    else:
        assert answer == sorted(answer, key=words.index)
    assert len(" ".join(words)) > 0.75 * length


@pytest.mark.parametrize("task", ["cwe", "fwe"])
def test_lists_of_other_words_fill_a_prompt_as_well(task):
    for seed in range(30):
        words = random.Random(seed).sample(HAYSTACK.words, 200)
        prompt = make_prompt(task, 700, BYTES, Haystack(HAYSTACK.text, words))
        listed = prompt.text[:prompt.text.index("\nQuestion")].split("\n")[-1]
        assert len(listed) > 0.75 * 700


@pytest.mark.parametrize("task", ["mk", "kv"])
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_tasks_that_fill_a_prompt_do(task, tokenizer):
    prompt = make_prompt(task, 4096, tokenizer_of(tokenizer), HAYSTACK)
    lines = prompt.text.splitlines()
    made = [line for line in lines if line.startswith("One of the special") or len(line) == 18 and line[8:10] == ": "]
    assert len(tokenizer_of(tokenizer)("\n".join(made))["input_ids"]) > 0.9 * 4096


def test_places_differ_over_the_text():
    tokenizer = BYTES
    places = [make_prompt("niah", 2000, tokenizer, HAYSTACK, index=index).spans[0][0] for index in range(30)]
    assert min(places) < 500 and max(places) > 1300 and len(set(places)) > 25


def test_a_prompt_is_a_function_of_its_arguments():
    tokenizer = tokenizer_of("byte_level")
    few = [as_line(p) for p in make_prompts(["kv", "niah"], [600], 2, tokenizer, HAYSTACK, seed=1)]
    more = [as_line(p) for p in make_prompts(["niah", "cwe", "kv"], [500, 600], 3, tokenizer, HAYSTACK, seed=1)]
    other = [as_line(p) for p in make_prompts(["kv", "niah"], [600], 2, tokenizer, HAYSTACK, seed=2)]
    assert len(set(few)) == 4 and set(few) < set(more) and not set(few) & set(other)
    names = [json.loads(line)["name"] for line in more]
    assert len(set(names)) == len(names) == 18 and names[0] == "niah_500_1_0"


def test_another_process_makes_the_same(tmp_path):
    script = ("import hashlib, sys; sys.path.insert(0, sys.argv[1]); from prompt_tokenizers import *\n"
              "from attest.prompts.make_prompts import *; from attest.prompts.families import TASKS\n"
              "made = ''.join(map(as_line, make_prompts(TASKS, [900], 1, BYTES, HAYSTACK)))\n"
              "print(hashlib.sha256(made.encode()).hexdigest())")
    words = [sys.executable, "-c", script, pathlib.Path(__file__).parent]
    hashes = {subprocess.run(words, capture_output=True, text=True, check=True,
                             env={**os.environ, "PYTHONHASHSEED": seed}).stdout.strip() for seed in "12"}
    made = "".join(map(as_line, make_prompts(TASKS, [900], 1, BYTES, HAYSTACK)))
    assert hashes == {hashlib.sha256(made.encode()).hexdigest()}


@pytest.mark.parametrize("tokenizer, question_ends, answer_begins", [
    ("bytes", "is: ", "1"), ("byte_level", "is:", " 1"), ("prefix_space", "is:", "1")])
def test_the_space_before_the_answer(tokenizer, question_ends, answer_begins):
    question, answer = join_answer(tokenizer_of(tokenizer), "The number is:", "1234567")
    assert question.endswith(question_ends) and answer.startswith(answer_begins)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_answers_continue_the_prompt_in_tokens(tokenizer):
    tokenizer = tokenizer_of(tokenizer)
    for task in TASKS:
        prompt = make_prompt(task, 900, tokenizer, HAYSTACK)
        placed = tokenize(prompt, tokenizer)
        whole = f"{prompt.text.rstrip()} {prompt.answer.strip()}"
        assert placed.ids + placed.answer == list(tokenizer(whole)["input_ids"])


def test_a_short_haystack_is_repeated():
    prompt = make_prompt("niah", 20_000, BYTES, Haystack(HAYSTACK.text[:2000]))
    assert len(prompt.text) + 1 == 20_000


def test_files_are_read_back(tmp_path):
    path, tokenizer = tmp_path / "prompts.jsonl", tokenizer_of("byte_level")
    prompts = list(make_prompts(["mv", "vt"], [800], 2, tokenizer, HAYSTACK))
    assert write_prompts(path, prompts) == 4
    for made, back in zip(prompts, read_prompts(path), strict=True):
        made.where = back.where
        assert made == back
        assert tokenize(made, tokenizer) == tokenize(back, tokenizer)
    with pytest.raises(OutputError, match="exists"):
        write_prompts(path, prompts)
    assert write_prompts(path, prompts[:1], force=True) == 1 and len(read_prompts(path)) == 1
    tokens = Prompt("s", "t", "", tokens=[1, 2, 3], answer=[4], spans=[[0, 1]], question=[2, 3], layers={1, 0})
    write_prompts(path, [tokens], force=True)
    back, = read_prompts(path)
    assert tokenize(back).question == (2, 3) and back.layers == {0, 1}


def test_no_file_is_left_half_written(tmp_path):
    def failing():
        yield make_prompt("niah", 500, BYTES, HAYSTACK)
        raise RuntimeError
    with pytest.raises(RuntimeError):
        write_prompts(tmp_path / "prompts.jsonl", failing())
    assert not list(tmp_path.iterdir())
    with pytest.raises(OutputError, match="cannot be written"):
        write_prompts(tmp_path / "missing/prompts.jsonl", [])
    with pytest.raises(UsageError, match=r"ends in \.jsonl"):
        write_prompts(tmp_path / "prompts.txt", [])


def test_what_cannot_be_made_is_refused():
    tokenizer = BYTES
    for task in TASKS:
        with pytest.raises(UsageError, match=f"{task}: 40 tokens are too few"):
            make_prompt(task, 40, tokenizer, HAYSTACK)
    with pytest.raises(UsageError, match="no task 'needle', expected one of niah, mk"):
        list(make_prompts(["needle"], [1000], 1, tokenizer, HAYSTACK))
