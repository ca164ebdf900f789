"""What the Python package reads on its own, on made inputs: prompts, and the folder of unfinished task outcomes. Each
is taken, or refused in one sentence; what is taken can be used and stored."""
import json
import random

import import_mutation
import pytest
from attest.base.errors import InputError, UsageError, printable
from attest.capture.prompt_files import read_prompts
from attest.capture.prompt_tokens import ByteTokenizer, tokenize
from attest.outcomes.file import write_outcomes
from attest.outcomes.partial import PartialOutcomes
from attest.outcomes.prompt import Outcome, PromptOutcomes
from attest.tasks.runs import runs_of

RUNS = 1500
PROMPT = {"text": "the key is 7", "answer": "7", "name": "p", "task": "kv", "spans": ["7", [0, 3]],
          "span_labels": ["a", "b"], "question": [4, 7],
          "layers": [0, 2], "document": "d"}
IDS = {"tokens": [1, 2, 3, 4], "answer": [5], "spans": [[1, 2]], "question": [0, 1]}
FOUND = PromptOutcomes("p", "kv", "12", 9, [Outcome(1, 1, 1, "12", 0.5, 3), Outcome(2, 2, 0, "x", 0.25, 1)])
WHAT, RECORD = {"model": {"called": "m"}, "prompts": [1, 2]}, {
    "created": "2026-01-02", "command_line": ["attest", "tasks"]}


def texts(seeds):
    """Made texts, a function of the seeds."""
    for number in range(RUNS):
        source = random.Random(f"{number}")
        tree = json.loads(json.dumps(source.choice(seeds)))
        for _ in range(source.randrange(3)):
            tree = import_mutation.changed_tree(tree, source)
        content = import_mutation.json_text(tree, source)
        yield import_mutation.damaged(content, source) if source.random() < 0.2 else content


def counted(path, contents, read):
    """How many were taken and refused; what was refused is said with the path, and could be shown on one line."""
    taken = refused = 0
    for content in contents:
        path.write_bytes(content)
        try:
            read()
            taken += 1
        except (InputError, UsageError) as refusal:
            assert str(path.parent) in str(refusal), content
            printable(str(refusal)).encode()
            refused += 1
    return taken, refused


def test_prompts(tmp_path):
    path = tmp_path / "p.jsonl"

    def read():
        for prompt in read_prompts(path):
            tokenized = tokenize(prompt, ByteTokenizer(256))
            assert tokenized.ids and all(type(i) is int and i >= 0 for i in tokenized.ids + tokenized.answer)
            assert all(0 <= begin < end <= len(tokenized.ids) for begin, end in tokenized.spans)
            assert tokenized.span_labels is None or len(tokenized.span_labels) == len(tokenized.spans)
            f"{prompt.name}{prompt.task}{prompt.document}{tokenized.span_labels}".encode()

    taken, refused = counted(path, texts([PROMPT, IDS]), read)
    assert min(taken, refused) > RUNS / 20


def test_finished_prompts(tmp_path):
    """What counts as finished can be written to tasks.h5."""
    runs = runs_of([{"label": "a", "selector": "ffd", "text": "ffd", "options": "{}", "setting_kind": "delta",
                     "settings": [[5, False, "5"]]}])
    known = 0
    with PartialOutcomes(tmp_path / "t", False, False) as partial:
        path = partial.folder / "prompt-0.json"
        for content in texts([json.loads(FOUND.to_json())]):
            path.write_bytes(content)
            found = partial.finished(0, "p", 2, False)
            if found and found != FOUND:
                write_outcomes(tmp_path / "t.h5", True, runs, [found], {}, model="m", num_layers=1, created="now")
            known += found is not None
    assert RUNS / 20 < known < RUNS * 0.95


@pytest.mark.parametrize("part", ["what", "record"])
def test_descriptions(part, tmp_path):
    with PartialOutcomes(tmp_path / "t", False, False) as partial:
        path = partial.folder / "tasks.json"

        def read():
            record = partial.begin(WHAT, RECORD)
            assert record.keys() == RECORD.keys() and isinstance(record["created"], str)
            json.dumps(record, ensure_ascii=False).encode()

        def made(content):
            whole = {"what": WHAT, "record": RECORD}
            before, after = json.dumps(whole).encode().split(json.dumps(whole[part]).encode())
            return before + content + after

        taken, refused = counted(path, map(made, texts([{"what": WHAT, "record": RECORD}[part]])), read)
        assert min(taken, refused) > RUNS / 20
