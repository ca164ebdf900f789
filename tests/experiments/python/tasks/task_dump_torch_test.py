"""attest tasks --dump: whether the dump that is there is that of the run which --resume goes on with."""
import os

import h5py
import numpy as np

from attest.base.dump_writer import DumpWriter
from attest.tasks.dump import is_of


def test_the_dump_of_this_run_is_told_from_others(tmp_path):
    path = tmp_path / "d.h5"
    with DumpWriter(str(path)) as writer:
        writer.write_header(model="m", num_layers=1, num_query_heads=2, num_kv_heads=2, head_dim=4, source="tasks",
                            created="now")
        layer = writer.create_layer(writer.create_sample("s", "t", 6, [5]), 0, None)
        for name, shape in {"q": (1, 2, 4), "k": (2, 6, 4), "v": (2, 6, 4)}.items():
            writer.write_values(writer.create_values(layer, name, shape, "float32"), (0, 0, 0),
                                np.ones(shape, np.float32).view(np.uint32))
        writer.commit()
    assert is_of(path, "tasks", "now") and not is_of(path, "tasks", "then")
    with h5py.File(path, "r+") as file:
        file["samples/more"] = h5py.ExternalLink("elsewhere.h5", "/x")
    assert not is_of(path, "tasks", "now"), "the program's own reader refuses it"


def test_what_is_no_dump_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert not is_of(tmp_path / "pipe", "tasks", "now") and not is_of(tmp_path / "none", "tasks", "now")
