"""attest capture --resume and attest tasks --dump: what is in the folder of finished prompts may have been put there by
somebody else."""
import os

import h5py
import numpy as np
import pytest

from attest.base.dump_writer import DumpWriter
from attest.base.errors import InputError
from attest.capture.join import join_dumps

SHAPES = {"q": (1, 2, 4), "k": (2, 6, 4), "v": (2, 6, 4)}


def write(path, name):
    with DumpWriter(str(path), force=True) as writer:
        writer.write_header(model="m", num_layers=1, num_query_heads=2, num_kv_heads=2, head_dim=4)
        layer = writer.create_layer(writer.create_sample(name, "t", 6, [5]), 0, None)
        for array, shape in SHAPES.items():
            writer.write_values(writer.create_values(layer, array, shape, "float32"), (0, 0, 0),
                                np.ones(shape, np.float32).view(np.uint32))
        writer.commit()
    return path


@pytest.fixture
def parts(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return [write(tmp_path / f"dump-{n}.h5", f"s{n}") for n in range(2)]


def test_sound_ones(parts, tmp_path):
    join_dumps(parts, tmp_path / "d.h5", False)
    with h5py.File(tmp_path / "d.h5") as dump:
        assert list(dump["samples"]) == ["s0", "s1"]


def external(layer, name):
    layer.create_dataset(name, shape=(1, 2, 4), dtype="f4", external=[("pipe", 0, 32)])


def link(group, name):
    group.pop(name, None)
    group[name] = h5py.ExternalLink("pipe", "/x")


@pytest.mark.parametrize("change", [
    lambda file: link(file["samples/s1/layers/0"], "q"),
    lambda file: link(file["samples"], "s1"),
    lambda file: external(file["samples/s1/layers/0"], "more"),
    lambda file: external(file["samples/s1"], "more"),
    lambda file: file["samples/s1"].__setitem__("more", file["samples"]),
    lambda file: file["samples/s1"].__setitem__("margin", h5py.SoftLink(".")),
], ids=["link", "sample elsewhere", "unknown of a layer", "unknown of a sample", "circle", "soft link"])
def test_a_hostile_one_is_refused(parts, tmp_path, change):
    with h5py.File(parts[1], "r+") as file:
        change(file)
    with pytest.raises(InputError, match=r"^[^\n]*dump-1.h5: [^\n]*; remove it, and --resume makes it again$"):
        join_dumps(parts, tmp_path / "d.h5", False)
    assert not (tmp_path / "d.h5").exists()


def test_a_pipe_is_refused(parts, tmp_path):
    with pytest.raises(InputError, match="pipe: expected a file, found a pipe"):
        join_dumps([parts[0], tmp_path / "pipe"], tmp_path / "d.h5", False)
