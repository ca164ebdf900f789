#!/usr/bin/env python3
"""Makes retrieval prompts with known answers and evidence spans, for `attest capture`, in attest's Python.

Five tasks hide lines in a haystack of text files and ask for some of them at the end: one line (niah), one of many
(mk), one of many hexadecimal keys (kv), four values of one key (mv), four keys (mq). The haystack is cut to ASCII, so
that for a model of bytes a length is that of the first token, the prompt and its answer. """
import argparse
import json
import random
import re
import sys

from attest.base.errors import InputError
from attest.prompts.episode import different, key, number
from attest.prompts.haystack import haystack_text, words_of

TASKS = ("niah", "mk", "kv", "mv", "mq")


def needle(key, value):
    return f"One of the special magic numbers for {key} is: {value}.\n"


def ask(keys):
    return f"\nQuestion: What is the special magic number for {keys}?\nAnswer: The special magic number for {keys} is: "


def episode(task, length, words, rng):
    """(lines to hide, question, answer, values that are the evidence) of one prompt."""
    def keys_and_values(num_keys, num_values):
        return different(num_keys, lambda: key(words, rng)), different(num_values, lambda: number(rng))

    if task == "kv":
        count = length // 2 // len("01234567: 01234567\n")
        keys, values = (different(count, lambda: f"{rng.getrandbits(32):08x}") for _ in range(2))
        asked = rng.randrange(count)
        question = f"\nQuestion: value of {keys[asked]}?\nAnswer: {keys[asked]}: "
        return [f"{k}: {v}\n" for k, v in zip(keys, values)], question, values[asked], [values[asked]]
    if task == "mv":  # a few needles of other keys stand between the four
        keys, values = keys_and_values(4, 7)
        lines = [needle(keys[max(0, i - 3)], v) for i, v in enumerate(values)]
        rng.shuffle(lines)
        mine = [v for line in lines for v in values[:4] if f" {keys[0]} is: {v}." in line]  # in the order of the text
        question = (f"\nQuestion: What are all the special magic numbers for {keys[0]}?\n"
                    f"Answer: The special magic numbers for {keys[0]} are: ")
        return lines, question, ", ".join(mine), mine
    count = {"niah": 1, "mk": length // 2 // 70, "mq": 8}[task]
    keys, values = keys_and_values(count, count)
    lines = [needle(k, v) for k, v in zip(keys, values)]
    if task != "mq":
        asked = rng.randrange(count)
        return lines, ask(keys[asked]), values[asked], [values[asked]]
    asked = rng.sample(range(count), 4)
    question = (f"\nQuestion: What are the special magic numbers for {', '.join(keys[i] for i in asked)}?\n"
                f"Answer: The special magic numbers are: {keys[asked[0]]} = ")
    answer = ", ".join(("" if i == asked[0] else f"{keys[i]} = ") + values[i] for i in asked)
    return lines, question, answer, [values[i] for i in asked]


def hide(lines, haystack, length, rng):
    """`length` characters of the haystack with the lines in it, in their order, each behind the end of a line."""
    room = length - sum(map(len, lines))
    begin = rng.randrange(len(haystack) - room)
    hay = haystack[begin:begin + room]
    ends = [0] + [match.end() for match in re.finditer("\n", hay)]
    text, at = "", 0
    for line, end in zip(lines, sorted(rng.choice(ends) for _ in lines)):
        text += hay[at:end] + line
        at = end
    return text + hay[at:]


def make_prompt(task, length, haystack, words, rng):
    lines, question, answer, values = episode(task, length, words, rng)
    text = hide(lines, haystack, length - 1 - len(question) - len(answer), rng) + question
    spans = [[text.index(value), text.index(value) + len(value)] for value in values]
    return {"task": task, "text": text, "answer": answer, "spans": spans}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("haystack", help="folder of text and source files")
    parser.add_argument("--lengths", default="2048,4096,8192", help="of prompt and answer (default %(default)s)")
    parser.add_argument("--count", type=int, default=4, help="prompts of each task and length (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        haystack = haystack_text(options.haystack)
    except InputError as error:
        sys.exit(str(error))
    lengths = [int(length) for length in options.lengths.split(",")]
    if len(haystack) <= max(lengths):
        sys.exit(f"{options.haystack}: has {len(haystack)} characters of text, expected more than {max(lengths)}")
    words = words_of(haystack)
    for task in TASKS:
        for length in lengths:
            for i in range(options.count):
                name = f"{task}_{length}_{options.seed}_{i}"
                rng = random.Random(name)  # of its own: a prompt does not depend on how many others are made
                print(json.dumps({"name": name, **make_prompt(task, length, haystack, words, rng)}))


if __name__ == "__main__":
    main()
