"""Patterns of array names, which give layers and samples."""
import time

import pytest

from array_files import message_of
from attest.importing.names import LayerKey, NamePattern, find_layers
from attest.importing.source_array import SourceArray


@pytest.mark.parametrize("pattern, name, expected", [
    ("q", "q", ("", 0)),
    ("layers.{l}.k", "layers.31.k", ("", 31)),
    ("{l}", "007", ("", 7)),
    ("{s}/layers/{l}/q", "niah_1/layers/4/q", ("niah_1", 4)),
    ("{l}_{s}", "3_3_x", ("3_x", 3)),  # the first hole is as short as possible
    ("{s}.{l}", "a.b.5", ("a.b", 5)),
    ("{s}.x.{l}.x", "a.x.b.x.5.x", ("a.x.b", 5)),
    ("q{l}0", "q100", ("", 10)),
    ("a.b+{l}", "a.b+1", ("", 1)),  # the pattern is not a regular expression
    ("{s}", "Größe\n", ("Größe\n", 0)),
])
def test_holes_take_what_stands_in_them(pattern, name, expected):
    assert NamePattern(pattern).match(name) == expected


@pytest.mark.parametrize("pattern, names", [
    ("layers.{l}.k", ["layers.1.k.bias", "model.layers.1.k", "layers..k", "layers.k", "layers.1.k\n", "layersx1.k"]),
    ("a{l}a", ["a"]), ("q", [""]), ("", ["q"]),
    ("q.{l}", ["q.-1", "q.1x", "q.x", "q. 1", "q.+1", "q.99999999999", "q.2147483648", "q.1.0", "q.١"]),
    ("{s}", ["a/b"]), ("{s}.q", [".q"]),
])
def test_a_name_fits_from_its_first_to_its_last_character(pattern, names):
    for name in names:
        assert NamePattern(pattern).match(name) is None, name


def test_a_long_name_is_no_work():
    began = time.process_time()
    for length in (4000, 50_000_000):
        assert NamePattern("{s}a{l}").match("a" * length) is None
        assert NamePattern("{s}1{l}").match("1" * length + "x") is None
    assert time.process_time() - began < 5


@pytest.mark.parametrize("pattern, why", [
    ("layers.{n}", "expected {l} (layer) or {s} (sample) after '{'"),
    ("layers.{", "expected {l} (layer) or {s} (sample) after '{'"),
    ("{l}.{l}", "expected {l} once"),
    ("{s}{l}", "expected text between its holes"),
])
def test_other_holes_are_refused(pattern, why):
    assert message_of(NamePattern, pattern) == f"name pattern '{pattern}': {why}"


def arrays(*names):
    return [SourceArray("memory", name, "F32", (1,), None) for name in names]


@pytest.mark.parametrize("form", ["*", "layers.0.*", "s.layers.0.*", "layer_0.*", "layer0.*", "layer_0/*", "*_0", "*0",
                                  "0.*", "s/*", "model.layers.0.self_attn.*"])
def test_usual_names_are_found_without_patterns(form):
    found = find_layers(arrays(*(form.replace("*", role) for role in "qkv"), "lm_head.weight"), "memory", None)
    assert list(found) == [LayerKey("s" if form.startswith("s") else "", 0)]
    [layer] = found.values()
    assert {role: array.name for role, array in layer.items()} == {role: form.replace("*", role) for role in "qkv"}


def test_layers_must_be_whole():
    names = ["layers.0.q", "layers.0.k", "layers.0.v", "layers.1.q", "layers.1.k"]
    assert message_of(find_layers, arrays(*names), "memory", None) == \
        "memory: layer 1: expected q, k and v, found no array that fits 'layers.{l}.v'"
    assert message_of(find_layers, arrays("s/q", "s/k", "t/v"), "memory", None) == \
        "memory: layer 0 of sample 's': expected q, k and v, found no array that fits '{s}/v'"
    assert message_of(find_layers, arrays("layers.1.q", "layers.01.q", "layers.1.k", "layers.1.v"), "memory", None) == \
        "memory: expected one q of layer 1, found 'layers.1.q' and 'layers.01.q'"


def test_names_that_fit_nothing_are_listed():
    given = {"q": "layers.{l}.q", "k": "x.{l}", "v": "x.{l}"}
    names = ["layers.0.q", "layers.0.k", "layers.0.v", "layers.1.q", "a\n\x1b[2J", "b" * 200]
    assert message_of(find_layers, arrays(*names), "memory", given) == \
        "memory: expected arrays named like 'layers.{l}.q', 'x.{l}' and 'x.{l}', found 'layers.0.q', 'layers.0.k', " \
        "'layers.0.v', 'layers.1.q' and 2 more"
    assert message_of(find_layers, arrays(*names[4:]), "memory", None).endswith(
        "found 'a\\x0a\\x1b[2J', '" + "b" * 120 + "...' (--q, --k and --v name them)")
    assert "found no arrays" in message_of(find_layers, [], "memory", None)


def test_few_of_many_names_are_matched(monkeypatch):
    matched, match = [], NamePattern.match
    monkeypatch.setattr(NamePattern, "match", lambda pattern, name: (matched.append(name), match(pattern, name))[1])
    arrays = [SourceArray("f", f"encoder/{i}/x/attention_q", "F32", (0,), None) for i in range(1000)]
    message_of(find_layers, arrays, "f", None)
    assert len(matched) < 3 * len(arrays)  # of 15 patterns
