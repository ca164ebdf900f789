"""Prompts of retrieval tasks, in the form that capture reads: made of a seed, and written as lines of JSON."""
import dataclasses
import json
import os
import random

from ..base.atomic_text import atomic_text
from ..base.errors import UsageError
from ..base.output_check import refuse_existing
from ..capture.prompt_files import Prompt
from .families import TASKS
from .text import filled_to

ATTEMPTS = 100  # of drawing strings that the haystack does not hold
FULL = 0.97  # share of a prompt that the lines of a task that fills it are meant to take
SHRINK = 0.98
CLOSE = 0.99  # of that share: near enough
CORRECTIONS = 8  # of the size, because words drawn for one size are longer than those for another


def count_tokens(tokenizer, text, special=True):
    """With the special tokens that the tokenizer puts around a text, unless told otherwise."""
    return len(tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"])


def join_answer(tokenizer, question, answer):
    """(question, answer) with the space between them where their tokens apart are those of the whole: a model has
    learnt the answer in these tokens. Some tokenizers begin every text with a space, so that neither has it."""
    def ids(text):
        return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    whole = ids(f"{question} {answer}")
    for apart in ((f"{question} ", answer), (question, f" {answer}"), (question, answer)):
        if ids(apart[0]) + ids(apart[1]) == whole:
            return apart
    return question, f" {answer}"


def _full_size(task, wanted, words, seed, count):
    """The size at which the lines that a task makes of `seed`, without a haystack, about fill a prompt."""
    def tokens(size):
        episode = task.make(size, words, random.Random(seed))
        return count("".join(line.text for line in episode.lines) + episode.question)

    few, more, full = 32, 128, wanted * FULL
    each = (tokens(more) - tokens(few)) / (more - few)  # two sizes tell what one more costs
    low, low_tokens, high = 1, tokens(1), None
    for _ in range(CORRECTIONS):
        if low_tokens >= full * CLOSE or high is not None and high - low <= 1:
            break
        size = low + max(1, int((full - low_tokens) / each))
        if high is not None and size >= high:
            size = (low + high) // 2
        found = tokens(size)
        if found <= full:
            low, low_tokens = size, found
        else:
            high = size
    return low


def prompt_name(task, length, seed, index):
    """Says how the prompt can be made again."""
    return f"{task}_{length}_{seed}_{index}"


def make_prompt(name, length, tokenizer, haystack, seed=0, index=0):
    """One prompt of the task `name`. It depends on nothing else than these arguments: not on which others are made."""
    task, sample = TASKS[name], prompt_name(name, length, seed, index)

    def count(text):
        return count_tokens(tokenizer, text)

    size = _full_size(task, length, haystack.words, f"{sample}/0", count) if task.fills else 1
    why = "its lines do not fit"
    for attempt in range(ATTEMPTS):
        rng = random.Random(f"{sample}/{attempt}")
        episode = task.make(size, haystack.words, rng)
        question, answer = join_answer(tokenizer, episode.question, episode.answer)
        episode = dataclasses.replace(episode, question=question)
        text = filled_to(length, episode, haystack, haystack.line_start(rng.random()), count)
        if text is None and size == 1:
            raise UsageError(f"{name}: {length} tokens are too few for its lines and its question")
        if text is None:
            size = max(1, int(size * SHRINK))
        elif all(_only_in_lines(string, episode, text.text) for string in episode.unique):
            labels = [text.text[begin:end] for begin, end in text.evidence]
            return Prompt(sample, name, sample, text.text, None, answer, text.evidence, labels, question=text.question)
        else:
            why = "the haystack holds what is asked for"
    raise UsageError(f"{sample}: no text of {length} tokens found in {ATTEMPTS} attempts: {why}")


def _only_in_lines(string, episode, text):
    return text.count(string) == episode.question.count(string) + sum(line.text.count(string) for line in episode.lines)


def make_prompts(tasks, lengths, count, tokenizer, haystack, seed=0):
    """`count` prompts of each task and length, one after the other."""
    for name in tasks:
        if name not in TASKS:
            raise UsageError(f"there is no task {name!r}, expected one of {', '.join(TASKS)}")
    for name in tasks:
        for length in lengths:
            for index in range(count):
                yield make_prompt(name, length, tokenizer, haystack, seed, index)


def as_line(prompt):
    """A prompt as a line that read_prompts of capture/prompt_files.py reads back."""
    fields = {"name": prompt.name, "task": prompt.task, "document": prompt.document, "text": prompt.text,
              "tokens": prompt.tokens, "answer": prompt.answer, "spans": prompt.spans or None,
              "span_labels": prompt.span_labels, "question": prompt.question,
              "layers": sorted(prompt.layers) if prompt.layers else None}
    return json.dumps({name: value for name, value in fields.items() if value is not None})


def write_prompts(path, prompts, force=False):
    """Writes a .jsonl file, which appears whole. Returns how many prompts it holds."""
    path = os.fspath(path)
    if not path.endswith(".jsonl"):
        raise UsageError(f"{path}: the name of a file of prompts ends in .jsonl")
    refuse_existing(path, force)
    written = 0
    with atomic_text(path) as file:
        for prompt in prompts:
            file.write(as_line(prompt) + "\n")
            written += 1
    return written
