"""The folder of unfinished outcomes: what goes on, what is refused, and what is left behind."""
import os

import pytest

from attest.base.errors import InputError, OutputError, UsageError
from attest.base.partial_folder import first_difference
from attest.capture.partial import PartialCapture
from attest.outcomes.partial import PartialOutcomes
from attest.outcomes.prompt import Outcome, PromptOutcomes

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
    other_type = FOUND.to_json().replace('"exact": 1', '"exact": "1"')
    for damaged in ("", "{}", "[1]", '{"name": "p"', '{"name": "p", "outcomes": [{}]}', other_type, "[" * 100_000):
        assert damaged != FOUND.to_json()
        (partial.folder / "prompt-0.json").write_text(damaged)
        assert partial.finished(0, "p", 2, False) is None
    partial.remove()
    assert not list(tmp_path.iterdir())


def test_refusals(tmp_path):
    begin(tmp_path / "t")
    with pytest.raises(OutputError, match="holds unfinished outcomes; continue with --resume"):
        begin(tmp_path / "t")
    with pytest.raises(UsageError, match='it was started with model.name "a", and not "b"'):
        begin(tmp_path / "t", {**WHAT, "model": {"name": "b"}}, resume=True)
    (tmp_path / "t.partial/tasks.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        begin(tmp_path / "t", resume=True)
    (tmp_path / "t.partial/tasks.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="is damaged"):
        begin(tmp_path / "t", resume=True)
    (tmp_path / "t.partial/tasks.json").unlink()
    os.mkfifo(tmp_path / "t.partial/tasks.json")
    with pytest.raises(InputError, match="expected a file, found a pipe"):
        begin(tmp_path / "t", resume=True)
    (tmp_path / "t.partial/tasks.json").unlink()
    with open(tmp_path / "t.partial/tasks.json", "wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(InputError, match="expected at most 16777216 bytes, found 3221225472"):
        begin(tmp_path / "t", resume=True)
    begin(tmp_path / "t", {**WHAT, "more": 1}, force=True)
    (tmp_path / "u.partial").write_text("")
    with pytest.raises(OutputError, match="expected a folder for unfinished outcomes, found a file"):
        begin(tmp_path / "u")


@pytest.mark.parametrize("before, damaged", [
    ('"exact": 1', '"exact": 3'), ('"prefix": 1', '"prefix": -1'), ('"contains": 1', '"contains": 1e0'),
    ('"kept_ratio": 0.5', '"kept_ratio": NaN'),
    ('"kept_ratio": 0.5', '"kept_ratio": 1e999'), ('"kept_ratio": 0.5', '"kept_ratio": -0.1'),
    ('"kept_ratio": 0.5', '"kept_ratio": 1.5'),
    ('"num_tokens": 3', '"num_tokens": 2147483648'), ('"num_tokens": 9', '"num_tokens": 1000000000000000000000'),
    ('"num_tokens": 9', '"num_tokens": -1'), ('"answer": "12"', r'"answer": "1\ud800"'),
    ('"reply": "12', r'"reply": "\u0000'),
    ('"task": "kv"', r'"task": "\udfff"'), ('"task": "kv"', '"task": "kv", "more": 1'),
    ('"num_tokens": 9', '"num_tokens": true')])
def test_what_cannot_be_stored_is_answered_again(tmp_path, before, damaged):
    """Else all prompts are answered, and then tasks.h5 cannot be written."""
    partial, _ = begin(tmp_path / "t")
    text = FOUND.to_json()
    assert before in text and partial.finished(0, "p", 2, False) == FOUND
    (partial.folder / "prompt-0.json").write_text(text.replace(before, damaged))
    assert partial.finished(0, "p", 2, False) is None


@pytest.mark.parametrize("created", ["null", "5", "[]", "{}", r'"\ud800"', r'"a\u0000"', '"' + "x" * 200_000 + '"',
                                     '{"a": ["b"]}'])
def test_a_record_that_is_no_text_is_refused(tmp_path, created):
    begin(tmp_path / "t")
    path = tmp_path / "t.partial/tasks.json"
    assert '"created": "now"' in path.read_text()
    path.write_text(path.read_text().replace('"created": "now"', f'"created": {created}'))
    with pytest.raises(InputError, match="is damaged \\(its created is ") as refusal:
        begin(tmp_path / "t", resume=True)
    assert len(str(refusal.value)) < 500


def test_a_long_name_in_a_description_is_cut(tmp_path):
    begin(tmp_path / "t", {**WHAT, "x" * 1_000_000: 1})
    with pytest.raises(UsageError, match="it was started with a x{100};") as refusal:
        begin(tmp_path / "t", resume=True)
    assert len(str(refusal.value)) < 500


def test_nothing_is_left_of_what_finished_no_prompt(tmp_path):
    begin(tmp_path / "t", finish=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind, ours", [
    (PartialOutcomes, ["tasks.json", "prompt-0.json", "dump-12.h5"]),
    (PartialCapture, ["capture.json", "dump-3.h5", "prompt-0.h5", "prompt-0.rank-0-1.h5", "prompt-1.refused",
                      "engine.refused"])])
def test_files_of_others_stay(tmp_path, kind, ours):
    folder, others = tmp_path / "t.partial", {"notes.txt", "dump-x.h5", "prompt-0.json.bak", "my-dump-0.h5"}
    folder.mkdir()
    for name in [*ours, *others, ".attest-0123456789abcdef.part"]:
        (folder / name).write_text("")
    with kind(tmp_path / "t", False, True) as partial:  # --force
        assert set(os.listdir(folder)) == {"lock", *others}
        (folder / ours[1]).write_text("")
        partial.remove()
    assert set(os.listdir(folder)) == others


def test_what_cannot_be_removed_is_named(tmp_path):
    begin(tmp_path / "t")
    (tmp_path / "t.partial/dump-0.h5").mkdir()
    with pytest.raises(OutputError, match=r"t\.partial/dump-0\.h5: cannot be removed \(Is a directory\)"):
        begin(tmp_path / "t", force=True)


def test_first_difference():
    assert first_difference("", WHAT, WHAT) is None
    assert first_difference("", WHAT, {**WHAT, "selectors": [{"settings": [1, 3]}]}) == (
        "selectors[0].settings[1] 2, and not 3")
    assert first_difference("", WHAT, {"model": {"name": "a"}}) == "a selectors"
    assert first_difference("", {}, {"layers": 1}) == "no layers"
    assert first_difference("", {"a": [1]}, {"a": [1, 2]}) == "a [1], and not [1, 2]"
