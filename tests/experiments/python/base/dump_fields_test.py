"""What Python writes into dumps are fields of the format: those of the table in dumps/README.md, which a C++ test holds
to the tables that the reader follows."""
import ast
import os
import re
from pathlib import Path

import h5py
import pytest

from attest.base.dump_writer import DumpWriter
from attest.base.inspected import OF_A_LAYER, OF_A_SAMPLE

SOURCE = Path(os.environ.get("ATTEST_SOURCE_DIR", Path(__file__).resolve().parents[4]))
TYPES = {"int64": "<i8", "int32": "<i4", "float32": "<f4", "string": "O"}


def table():
    """{name: (attribute or shape, type)}"""
    text = (SOURCE / "dumps/README.md").read_text()
    block = text[text.index("```\n/ "):].split("```")[1]
    rows = re.findall(r"^ {4,8}(\w+) +(attribute|\[.*?\])(?: +(\w+))?", block, re.M)
    return {name: (kind, elements) for name, kind, elements in rows}


def names_in_source():
    """(call, name) for every field that a call of the writer names."""
    for path in sorted((SOURCE / "experiments/python/attest").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr == "write_header":
                yield from (("write_header", k.arg) for k in node.keywords if k.arg)
            elif node.func.attr in ("write_array", "create_values") and len(node.args) > 1:
                if isinstance(node.args[1], ast.Constant):
                    yield node.func.attr, node.args[1].value


def test_the_table_is_read():
    assert len(table()) >= 26
    assert table()["k"] == ("[Hkv, T, D]", "") and table()["spans"] == ("[S, 2]", "int64")
    assert table()["softmax_scale"] == ("attribute", "double")


def test_every_name_is_a_field():
    found = set(names_in_source())
    assert len(found) >= 8
    for call, name in found:
        assert name in table(), (call, name)
        assert (table()[name][0] == "attribute") == (call == "write_header"), (call, name)


def test_every_data_set_may_be_copied():
    """What of a sample or layer is not known to the reader is refused before it is."""
    assert OF_A_SAMPLE | OF_A_LAYER == {"layers"} | {name for name, (kind, _) in table().items() if kind != "attribute"}


@pytest.mark.parametrize("gzip_level", [0, 4])
def test_types_are_those_of_the_format(gzip_level, tmp_path):
    with DumpWriter(tmp_path / "dump.h5", gzip_level=gzip_level) as writer:
        writer.write_header(model="m", rope=None)
        sample = writer.create_sample("s", "task", 9, [3, 7], [[1, 3], [4, 5]], ["a", "b"], prompt_length=8)
        writer.create_values(writer.create_layer(sample, 3, 4), "k", (2, 9, 5), "float16")
        writer.commit()
    with h5py.File(tmp_path / "dump.h5") as dump:
        found = dict(dump.attrs)

        def visit(path, item):
            found.update(item.attrs)
            if isinstance(item, h5py.Dataset):
                name = path.split("/")[-1]
                kind, elements = table()[name]
                assert len(item.shape) == kind.count(",") + 1, name
                assert not elements or item.dtype == TYPES[elements], name

        dump.visititems(visit)
    assert set(found) == {"format", "format_version", "model", "task", "num_tokens", "prompt_length", "sliding_window"}
    assert set(found) <= set(table())
