"""Outputs that may not be written are refused before the work."""
import os

import pytest

from attest.base.errors import OutputError, UsageError
from attest.base.output_check import refuse_existing, refuse_inputs


def test_an_output_that_is_an_input_is_refused_under_every_name(tmp_path):
    ours, other = tmp_path / "d.h5", tmp_path / "e.h5"
    ours.write_text("x")
    other.write_text("x")
    (tmp_path / "link").symlink_to(ours)
    os.link(ours, tmp_path / "second")
    for name in ("d.h5", "link", "second", "../" + tmp_path.name + "/d.h5"):
        with pytest.raises(UsageError, match="is an input, too, expected a name of its own for the output$"):
            refuse_inputs(tmp_path / name, ["no-such-file", "a\0b", other, ours])
    refuse_inputs(ours, [other, "no-such-file"])
    refuse_inputs(tmp_path / "new", [ours])


def test_what_is_there_takes_force(tmp_path):
    path = tmp_path / "a"
    refuse_existing(path, False)
    path.symlink_to("nowhere")  # a link to nothing is there, too
    with pytest.raises(OutputError, match=r"a: exists already, expected a new file \(or --force\)$"):
        refuse_existing(path, False)
    refuse_existing(path, True)


def test_a_folder_that_is_missing_is_refused(tmp_path, monkeypatch):
    with pytest.raises(OutputError, match=r"cannot be written \(there is no folder .*none\)$"):
        refuse_existing(str(tmp_path / "none/a"), True)
    monkeypatch.chdir(tmp_path)
    refuse_existing("a", False)
