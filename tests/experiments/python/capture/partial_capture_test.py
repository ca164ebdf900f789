"""The folder of an unfinished capture."""
import os
import types

from attest.capture.model import checkpoint_identity
from attest.capture.partial import PartialCapture
from attest.capture.record import provenance


def test_a_capture_whose_command_is_no_utf8_goes_on(tmp_path):
    record = {"source": provenance("attest capture", ["m", "-o", "\udcff.h5"], "torch")}
    with PartialCapture(tmp_path / "\udcff.h5", True, False) as partial:
        assert partial.begin({}, record) == partial.begin({}, record) == \
            {"source": "attest capture m -o '?.h5' (torch)"}


def test_a_checkpoint_is_told_from_another_of_the_same_name(tmp_path):
    def identity(model=tmp_path / "m", tokenizer=None, config=None):
        return checkpoint_identity(types.SimpleNamespace(model=str(model), tokenizer=tokenizer), config)

    (tmp_path / "m").mkdir()
    weights = tmp_path / "m/model.safetensors"
    weights.write_text("weights")
    before = identity()
    (tmp_path / "m/d.h5.partial").mkdir()
    (tmp_path / "m/train.log").touch()
    assert identity() == before and identity(tokenizer="bytes") == before
    os.utime(weights, ns=(0, 1))
    assert identity() != before and identity(model=weights) == identity()
    os.utime(weights, ns=(0, before["files"][str(weights)]["modified_ns"]))
    assert identity() == before
    (tmp_path / "m/tokenizer.json").touch()
    assert identity() != before and identity(weights, str(tmp_path / "m")) != identity(weights)
    first, second = (identity("a/b", config=types.SimpleNamespace(_commit_hash=commit)) for commit in ("1", "2"))
    assert first["commit"] == "1" and first != second
