"""`attest import` of a folder that the plugin of vLLM has left, as somebody hostile leaves it: refused in one sentence,
in time, and nothing stays behind."""
import json
import os

import h5py
import numpy as np
import pytest
from attest.base.dump_writer import DumpWriter
from attest_program import attest

HEADS, TOKENS, ROWS, DIM = 2, 8, 2, 4
SHAPES = {"q": (ROWS, HEADS, DIM), "k": (HEADS, TOKENS, DIM), "v": (HEADS, TOKENS, DIM), "output": (ROWS, HEADS, DIM)}
MOST_SECONDS = 30  # a pipe that is opened waits for ever


@pytest.fixture
def folder(tmp_path):
    """A request of a model with one layer."""
    made = tmp_path / "plugin"
    made.mkdir()
    os.mkfifo(tmp_path / "pipe")
    with DumpWriter(str(made / "a.h5")) as writer:
        writer.write_header(model="m", num_layers=1, num_query_heads=HEADS, num_kv_heads=HEADS, head_dim=DIM)
        layer = writer.create_layer(writer.create_sample("a", "t", TOKENS, [6, 7]), 0, None)
        for name, shape in SHAPES.items():
            writer.write_values(writer.create_values(layer, name, shape, "float32"), (0, 0, 0),
                                np.ones(shape, np.float32).view(np.uint32))
        writer.commit()
    return made


def run(folder, expect, target="dump.h5", *options):
    done = attest("--json", "import", "plugin", "-o", target, *options, cwd=folder.parent, timeout=MOST_SECONDS,
                  expect=expect)
    if expect:
        assert len(done.stderr.splitlines()) == 1 and "internal error" not in done.stderr
        assert sorted(os.listdir(folder.parent)) == ["pipe", "plugin"]
        return done.stderr
    return json.loads(done.stdout)


def edited(folder, change):
    with h5py.File(folder / "a.h5", "r+") as file:
        change(file, file["samples/a"], file["samples/a/layers/0"])


def test_a_sound_one(folder):
    report = run(folder, 0)
    assert (report["samples"], report["layers"], report["head_dim"], report["value_dim"]) == (1, 1, DIM, DIM)
    assert report["bytes"] == 4 * DIM * HEADS * (ROWS + 2 * TOKENS), "as of arrays: q, k and v"
    with h5py.File(folder.parent / "dump.h5") as dump:
        assert (dump["samples/a/layers/0/output"][:] == 1).all()


@pytest.mark.parametrize("name", ["b.h5", "b.refused"])
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file(folder, name, kind):
    (os.mkfifo if kind == "pipe" else os.mkdir)(folder / name)
    said = run(folder, 4)
    assert f"{name}: " in said and "expected a file" in said


def replace(where, name, **how):
    if name in where:
        del where[name]
    where.create_dataset(name, **how)


def link(where, name, to):
    if name in where:
        del where[name]
    where[name] = to


def virtual(where, name):
    del where[name]
    layout = h5py.VirtualLayout(shape=SHAPES[name], dtype="f4")
    layout[...] = h5py.VirtualSource("pipe", "x", shape=SHAPES[name])
    where.create_virtual_dataset(name, layout)


@pytest.mark.parametrize("change", [
    lambda file, sample, layer: replace(layer, "q", shape=(1 << 40, HEADS, DIM), dtype="f4", chunks=(64, HEADS, DIM)),
    lambda file, sample, layer: replace(
        layer, "output", shape=SHAPES["output"], dtype="f4", external=[("pipe", 0, 4096)]),
    lambda file, sample, layer: virtual(layer, "k"),
    lambda file, sample, layer: link(layer, "v", h5py.ExternalLink("pipe", "/x")),
    lambda file, sample, layer: link(layer, "q", h5py.SoftLink(".")),
    lambda file, sample, layer: replace(layer, "v", data=1.0),
    lambda file, sample, layer: replace(layer, "more", shape=(1 << 40,), dtype="f4", chunks=(64,)),
    lambda file, sample, layer: replace(sample, "more", shape=(8,), dtype="f4", external=[("pipe", 0, 32)]),
    lambda file, sample, layer: link(sample, "more", file["samples"]),
    lambda file, sample, layer: file.attrs.__delitem__("head_dim"),
    lambda file, sample, layer: file.__delitem__("samples"),
], ids=["claims", "external", "virtual", "link", "circle", "scalar", "unknown of a layer", "unknown of a sample",
        "circle of groups",
        "no head_dim", "no samples"])
def test_a_hostile_dump(folder, change):
    edited(folder, change)
    assert "a.h5: " in run(folder, 4)


@pytest.mark.parametrize("rank", ["[" * 50000, "[]", '"x"', '{"zzz": 1}', '{"tensor": "x"}',
                                  '{"tensor_size": 1000000000000}', '{"tensor": NaN}',
                                  '{"kv_copies": 0}', '{"kv_copies": -1}', '{"tensor": true}', '{"tensor": 3}', "{",
                                  "5", 5],
                         ids=["deep", "list", "text", "unknown", "type", "large", "nan", "none", "negative", "truth",
                              "beyond", "cut", "number",
                              "integer"])
def test_a_hostile_rank(folder, rank):
    edited(folder, lambda file, sample, layer: file.attrs.__setitem__("engine_rank", rank))
    assert "a.h5: is damaged, or not what the plugin writes" in run(folder, 4)


def test_results_are_no_dump(folder):
    with h5py.File(folder / "a.h5", "r+") as file:
        file.attrs["format"] = "attest-results"
    assert "a.h5: " in run(folder, 4)


def test_a_request_whose_name_begins_with_a_dot_is_not_left_out(folder):
    (folder / "a.h5").rename(folder / ".a.h5")
    assert run(folder, 0)["samples"] == 1


@pytest.mark.parametrize("option, value, sentence", [
    ("--scale", "0.5", "is for arrays in files, what it says the plugin's dumps tell"),
    ("--model", "m", "is for arrays and recordings, what it says the plugin's dumps tell"),
    ("--num-layers", "9", "is for arrays and recordings, what it says the plugin's dumps tell"),
    ("--last", "2",
     "is for a folder of FlashInfer's flight recorder, the plugin's dumps have the queries that their requests asked "
     "for")])
def test_options_of_other_sources_are_refused(folder, option, value, sentence):
    assert run(folder, 2, "dump.h5", option, value) == f"attest: {option}: {sentence}\n"


def test_the_output_is_no_input(folder):
    before = (folder / "a.h5").read_bytes()
    assert "is an input, too" in run(folder, 2, "plugin/a.h5", "--force")
    assert (folder / "a.h5").read_bytes() == before
