"""Tests the dump format with h5py on the other side: h5py writes and attest reads, attest writes and h5py reads.
`attest inspect --check` shows what attest has read: it must report values planted at known places."""
import json

import h5py
import numpy as np
import pytest

from attest_program import attest, run_attest

HQ, HKV, D, DV, T = 6, 2, 16, 10, 53
POSITIONS = [0, 17, 52]

STORAGE = {
    "contiguous": {},
    "chunked": dict(chunks=True),
    "gzip": dict(compression="gzip", shuffle=True),
    "fletcher32": dict(fletcher32=True),
}
LIBVER = {"default": None, "v110": ("v110", "v110")}


def bfloat16_bits(values):
    """Exact for values that have at most 8 significant bits."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype("<u2")


def write_tensor(group, name, values, kind, storage):
    if kind == "bfloat16 as uint16":
        group.create_dataset(name, data=bfloat16_bits(values), **storage).attrs["dtype"] = "bfloat16"
    elif kind == "bfloat16":
        file_type = h5py.h5t.IEEE_F32LE.copy()
        file_type.set_fields(15, 7, 8, 0, 7)
        file_type.set_size(2)
        file_type.set_ebias(127)
        space = h5py.h5s.create_simple(values.shape)
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if storage:
            properties.set_chunk((1,) + values.shape[1:])
            if "compression" in storage:
                properties.set_shuffle()
                properties.set_deflate(4)
        data = h5py.h5d.create(group.id, name.encode(), file_type, space, properties)
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(values, np.float32))  # HDF5 converts
    else:
        group.create_dataset(name, data=values.astype({"float16": "<f2", "float32": "<f4"}[kind]), **storage)


def layer_values(layer):
    """0.25 everywhere but for one large value per tensor, each at a different place."""
    values = {"q": np.full((len(POSITIONS), HQ, D), 0.25, np.float32),
              "k": np.full((HKV, T, D), 0.25, np.float32),
              "v": np.full((HKV, T, DV), 0.25, np.float32)}
    values["q"][1, 4, 3] = 100 + layer
    values["k"][1, 30, 15] = -60 - layer
    values["v"][0, 52, 9] = 70 + layer
    return values


def write_dump(path, kind="float16", storage=None, libver=None, change=None):
    """`change(layer, values)` may alter a layer's arrays before they are written."""
    with h5py.File(path, "w", libver=libver) as file:
        file.attrs.update(format="attention-dump", format_version=1, model="h5py/model", num_layers=32,
                          num_query_heads=HQ, num_kv_heads=np.int32(HKV), head_dim=np.uint8(D), value_dim=DV,
                          softmax_scale=np.float32(0.5), source=np.bytes_("fixed length"))
        sample = file.create_group("samples/s \N{GREEK SMALL LETTER ALPHA}")
        sample.attrs.update(task="ruler/niah", num_tokens=T, prompt_length=50)
        sample["query_positions"] = np.array(POSITIONS)
        sample["tokens"] = np.arange(T, dtype=np.int32)
        sample["spans"] = np.array([[3, 9], [20, 21]])
        sample["span_labels"] = ["needle", "\N{GREEK SMALL LETTER BETA}"]
        for layer in (0, 31):
            group = sample.create_group(f"layers/{layer}")
            if layer == 31:
                group.attrs["sliding_window"] = 4096
            values = layer_values(layer)
            if change:
                change(layer, values)
            for name, array in values.items():
                write_tensor(group, name, array, kind, storage or {})
            group.create_dataset("attention_mass", data=np.zeros((HQ, T), np.float32), **(storage or {}))


def inspect(path, *options):
    done = run_attest("inspect", path, "--json", "--quiet", *options)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


@pytest.mark.parametrize("libver", LIBVER)
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("kind", ["float16", "float32", "bfloat16", "bfloat16 as uint16"])
def test_attest_reads_what_h5py_writes(tmp_path, kind, storage, libver):
    path = tmp_path / "dump.h5"
    write_dump(path, kind, STORAGE[storage], LIBVER[libver])
    code, found, errors = inspect(path, "--check")
    assert (code, errors) == (0, "")
    assert {name: found[name] for name in ("model", "num_layers", "num_query_heads", "num_kv_heads", "head_dim",
                                           "value_dim", "softmax_scale", "logit_softcap", "source")} == {
        "model": "h5py/model", "num_layers": 32, "num_query_heads": HQ, "num_kv_heads": HKV, "head_dim": D,
        "value_dim": DV, "softmax_scale": 0.5, "logit_softcap": None, "source": "fixed length"}
    sample, = found["samples"]
    assert sample["name"] == "s \N{GREEK SMALL LETTER ALPHA}"
    assert (sample["task"], sample["num_tokens"], sample["prompt_length"]) == ("ruler/niah", T, 50)
    assert sample["query_positions"] == POSITIONS
    assert sample["spans"] == [{"begin": 3, "end": 9, "label": "needle"},
                               {"begin": 20, "end": 21, "label": "\N{GREEK SMALL LETTER BETA}"}]
    assert [layer["layer"] for layer in sample["layers"]] == [0, 31]
    assert [layer["sliding_window"] for layer in sample["layers"]] == [None, 4096]
    assert {layer["element_type"] for layer in sample["layers"]} == {kind.split()[0]}
    if storage in ("contiguous", "gzip"):
        assert {layer["storage"] for layer in sample["layers"]} == {storage}

    for layer in found["check"]["layers"]:
        number = layer["layer"]
        assert layer["q"] == {"minimum": 0.25, "maximum": 100 + number, "findings": [], "findings_left_out": 0}
        assert layer["k"] == {"minimum": -60 - number, "maximum": 0.25, "findings": [], "findings_left_out": 0}
        assert layer["v"] == {"minimum": 0.25, "maximum": 70 + number, "findings": [], "findings_left_out": 0}


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("kind", ["float16", "float32", "bfloat16"])
def test_attest_reads_the_axes_in_their_order(tmp_path, kind, storage):
    """A NaN is reported with its head and token, so a transposed read would report others."""
    def change(layer, values):
        if layer == 31:
            values["q"][2, 5, 1] = np.nan
            values["k"][1, 34, 2] = np.inf
            values["v"][0, 12, 3] = np.nan
            values["v"][1] = 0

    path = tmp_path / "dump.h5"
    write_dump(path, kind, STORAGE[storage], change=change)
    code, found, errors = inspect(path, "--check")
    assert code == 4
    assert errors.startswith(f"attest: {path}: ") and "layer 31, q, head 5: NaN, first at token 52" in errors
    clean, bad = found["check"]["layers"]
    assert clean["finite"] and not bad["finite"] and found["check"]["bad_layers"] == 1

    def finding(head, nan, infinite, token, zero=False):
        return {"head": head, "num_nan": nan, "num_infinite": infinite, "first_token": token, "all_zero": zero}

    assert bad["q"]["findings"] == [finding(5, 1, 0, 52)]
    assert bad["k"]["findings"] == [finding(1, 0, 1, 34)]
    assert bad["v"]["findings"] == [finding(0, 1, 0, 12), finding(1, 0, 0, None, zero=True)]


def as_float32(data):
    """The values as float32: h5py maps a bfloat16 type to float32, and HDF5 converts."""
    values = data[()]
    assert values.dtype in (np.float16, np.float32)
    return values.astype(np.float32)


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_h5py_reads_what_attest_writes(tmp_path, dtype):
    rng = np.random.default_rng(5)
    integers = {"q": rng.integers(-100, 100, (HQ, len(POSITIONS), D)), "k": rng.integers(-100, 100, (HKV, T, D)),
                "v": rng.integers(-100, 100, (HKV, T, DV))}  # exact in all three types
    arrays = {}
    for name, values in integers.items():
        values = values.astype(np.float32)
        arrays[f"layers.3.{name}"] = bfloat16_bits(values) if dtype == "bfloat16" else values.astype(dtype)
    source, path = tmp_path / "arrays.npz", tmp_path / "dump.h5"
    np.savez(source, **arrays)
    attest("import", source, "-o", path, "--q", "layers.{l}.q", "--k", "layers.{l}.k", "--v", "layers.{l}.v",
           "--layout", "HTD", "--positions", ",".join(map(str, POSITIONS)), "--num-layers", "7", "--span", "4:8",
           "--model", "some/model", "--sample", "one", *(["--bfloat16-bits"] if dtype == "bfloat16" else []))

    with h5py.File(path) as file:
        attributes = dict(file.attrs)
        assert attributes["format"] == "attention-dump" and attributes["format_version"] == 1
        assert attributes["model"] == "some/model" and attributes["num_layers"] == 7
        assert (attributes["num_query_heads"], attributes["num_kv_heads"]) == (HQ, HKV)
        assert (attributes["head_dim"], attributes["value_dim"]) == (D, DV)
        sample = file["samples/one"]
        assert sample.attrs["num_tokens"] == T
        assert sample["query_positions"][()].tolist() == POSITIONS
        assert sample["query_positions"].dtype == np.int64
        assert sample["spans"][()].tolist() == [[4, 8]]
        layer = sample["layers/3"]
        assert {name: layer[name].shape for name in "qkv"} == {
            "q": (len(POSITIONS), HQ, D), "k": (HKV, T, D), "v": (HKV, T, DV)}
        assert layer["k"].id.get_type().get_size() == (4 if dtype == "float32" else 2)
        assert layer["k"].id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS
        np.testing.assert_array_equal(as_float32(layer["q"]), integers["q"].transpose(1, 0, 2))
        np.testing.assert_array_equal(as_float32(layer["k"]), integers["k"])
        np.testing.assert_array_equal(as_float32(layer["v"]), integers["v"])
        if dtype == "bfloat16":
            fields = layer["k"].id.get_type().get_fields()
            assert fields == (15, 7, 8, 0, 7) and layer["k"].id.get_type().get_ebias() == 127


def test_a_dump_cannot_lead_to_another_file(tmp_path):
    other, path = tmp_path / "other.h5", tmp_path / "dump.h5"
    write_dump(other)
    write_dump(path)
    with h5py.File(path, "a") as file:
        file["samples/linked"] = h5py.ExternalLink(str(other), "/samples/s \N{GREEK SMALL LETTER ALPHA}")
    code, _, errors = inspect(path)
    assert code == 4
    assert errors == f"attest: {path}: /samples: 'linked' is a link into another file, which is not followed\n"
