"""Which files the text of a haystack is made of."""
from attest.prompts import haystack


def test_what_commands_leave_in_a_checkout_is_no_source(tmp_path, monkeypatch):
    monkeypatch.setattr(haystack, "SOURCES", tmp_path)
    ours = {"dumps/a.h": "one", "tests/deep/b.py": "two"}
    strays = {"notes.md": "x", "attest-demo/claims.md": "x", "build/cpu/c.h": "x", ".venv/d.py": "x",
              "dumps/build/e.h": "x",
              "dumps/.hidden/f.h": "x", "dumps/g.h5": "x"}
    for name, text in {**ours, **strays}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert haystack.haystack_text(tmp_path) == "one\ntwo"
    assert haystack.haystack_text(tmp_path / "attest-demo") == "x", "a folder of one's own is read whole"


def test_the_default_is_this_project():
    assert "def haystack_text(" in haystack.Haystack.read().text
