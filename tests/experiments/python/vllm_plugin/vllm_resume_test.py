"""attest-vllm: what decides whether --resume goes on."""
import os
import pathlib
import types

import h5py
import numpy as np
import pytest

from attest.base.dump_writer import DumpWriter
from attest.base.errors import InputError
from attest.vllm_plugin import __main__ as command
from attest.vllm_plugin.__main__ import Request, identity
from attest.vllm_plugin.options import parse


def found(*options, commit="c0"):
    request = types.SimpleNamespace(ids=[1, 2], arguments={"attest_name": "prompt-0"})
    return identity(parse(["model", "p.jsonl", "-o", "d.h5", *options]), [request],
                    types.SimpleNamespace(_commit_hash=commit))


def test_another_revision_or_engine_is_another_dump():
    assert found() == found("--force") == found("--model-name", "other")
    assert found(commit="c1") != found()
    assert found("--revision", "abc") != found() and found("--", "--kv-cache-dtype", "fp8") != found()


def test_another_version_is_another_dump(monkeypatch):
    ours = found()
    assert ours["attest"] and {"vllm", "torch"} <= ours.keys()
    monkeypatch.setattr(command.importlib.metadata, "version", lambda package: "0.0.1")
    assert {name for name, value in found().items() if value != ours[name]} == {"vllm", "torch"}
    monkeypatch.setattr(command, "code_digest", lambda: "other")
    assert found()["attest"] == "other"


@pytest.fixture
def finished(tmp_path):
    """The folder of an unfinished run, with prompt 0."""
    with DumpWriter(str(tmp_path / "prompt-0.h5")) as writer:
        writer.write_header(model="m", num_layers=1, num_query_heads=2, num_kv_heads=2, head_dim=4)
        layer = writer.create_layer(writer.create_sample("prompt-0", "t", 6, [5]), 0, None)
        for name, shape in {"q": (1, 2, 4), "k": (2, 6, 4), "v": (2, 6, 4)}.items():
            writer.write_values(writer.create_values(layer, name, shape, "float32"), (0, 0, 0),
                                np.ones(shape, np.float32).view(np.uint32))
        writer.commit()
    return tmp_path


def is_finished(folder):
    return Request(0, None, [1, 2], 0, {}).is_finished(folder)


def test_a_sound_dump_is_taken_over(finished):
    assert is_finished(finished) and not is_finished(finished.parent)


def test_a_hostile_dump_is_refused_before_the_engine_starts(finished):
    with h5py.File(finished / "prompt-0.h5", "r+") as file:
        layer = file["samples/prompt-0/layers/0"]
        del layer["q"]
        layer.create_dataset("q", shape=(1 << 40, 2, 4), dtype="f4", chunks=(64, 2, 4))
    with pytest.raises(InputError, match=r"prompt-0.h5: .*; remove it, and --resume makes it again$"):
        is_finished(finished)


@pytest.mark.parametrize("alone", [False, True])
def test_a_pipe_is_refused(tmp_path, monkeypatch, alone):
    """Also where the plugin is installed without the program."""
    if alone:
        monkeypatch.setenv("ATTEST_BIN", str(tmp_path / "none"))
        monkeypatch.setenv("PATH", str(tmp_path))
    os.mkfifo(tmp_path / "prompt-0.h5")
    with pytest.raises(InputError, match="prompt-0.h5: expected a file, found a pipe"):
        is_finished(pathlib.Path(tmp_path))
