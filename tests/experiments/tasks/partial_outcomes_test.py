"""The folder of unfinished outcomes: what goes on, what is refused, and what is left behind."""
import pathlib
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).parents[3]
sys.path[:0] = [str(REPOSITORY / folder) for folder in ("experiments/tasks", "dumps/capture", "dumps/python")]
from dump_errors import InputError, OutputError, UsageError  # noqa: E402
from partial_outcomes import PartialOutcomes, first_difference, status_of  # noqa: E402
from prompt_outcomes import Outcome, PromptOutcomes  # noqa: E402

WHAT = {"model": {"name": "a"}, "selectors": [{"settings": [1, 2]}]}
FOUND = PromptOutcomes("p", "kv", "12", 9, [Outcome(1, 1, 1, "12\ufffd\n", 0.5, 3)] * 2)


def begin(output, what=WHAT, resume=False, force=False, finish=True):
    with PartialOutcomes(output, resume, force) as partial:
        record = partial.begin(what, {"created": "now" if not resume else "later"})
        if finish:
            partial.store(0, FOUND)
        return partial, record


def test_finished_prompts_are_found_again(tmp_path):
    begin(tmp_path / "t")
    partial, record = begin(tmp_path / "t", resume=True)
    assert record == {"created": "now"}
    assert partial.finished(0, "p", 2, False) == FOUND
    for other in [(1, "p", 2, False), (0, "q", 2, False), (0, "p", 3, False), (0, "p", 2, True)]:
        assert partial.finished(*other) is None
    for damaged in ("", "{}", "[1]", '{"name": "p"', '{"name": "p", "outcomes": [{}]}'):
        (partial.folder / "prompt-0.json").write_text(damaged)
        assert partial.finished(0, "p", 2, False) is None
    partial.remove()
    assert not list(tmp_path.iterdir())


def test_status(tmp_path):
    what = {"program": {"version": "1.2"}, "model": {"called": "tiny"}, "prompts": {"file": "p.jsonl", "sha256": "0"}}
    partial, _ = begin(tmp_path / "t", what)
    expected = {"path": str(partial.folder), "format": "attest-tasks-partial", "begun": "now", "program": "1.2",
                "model": "tiny", "prompts": None, "finished_prompts": 1}
    assert status_of(partial.folder) == expected
    begin(tmp_path / "t", {**what, "prompts": {"tasks": ["kv", "mk"], "context": [500, 1000, 2000], "prompts": 4}},
          force=True)
    assert status_of(partial.folder) == {**expected, "prompts": 24}
    for damaged in ("", "[]", "{}", '{"what": {}, "record": {}}'):
        (partial.folder / "tasks.json").write_text(damaged)
        with pytest.raises(InputError, match="is damaged"):
            status_of(partial.folder)


def test_refusals(tmp_path):
    begin(tmp_path / "t")
    with pytest.raises(OutputError, match="holds unfinished outcomes; continue them with --resume"):
        begin(tmp_path / "t")
    with pytest.raises(UsageError, match='it was started with model.name "a", and not "b"'):
        begin(tmp_path / "t", {**WHAT, "model": {"name": "b"}}, resume=True)
    (tmp_path / "t.partial/tasks.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        begin(tmp_path / "t", resume=True)
    begin(tmp_path / "t", {**WHAT, "more": 1}, force=True)
    (tmp_path / "u.partial").write_text("")
    with pytest.raises(OutputError, match="expected a folder for unfinished outcomes, found something else"):
        begin(tmp_path / "u")


def test_nothing_is_left_of_what_finished_no_prompt(tmp_path):
    begin(tmp_path / "t", finish=False)
    assert not list(tmp_path.iterdir())


def test_first_difference():
    assert first_difference("", WHAT, WHAT) is None
    assert first_difference("", WHAT, {**WHAT, "selectors": [{"settings": [1, 3]}]}) == (
        "selectors[0].settings[1] 2, and not 3")
    assert first_difference("", WHAT, {"model": {"name": "a"}}) == "a selectors"
    assert first_difference("", {}, {"layers": 1}) == "no layers"
    assert first_difference("", {"a": [1]}, {"a": [1, 2]}) == "a [1], and not [1, 2]"
