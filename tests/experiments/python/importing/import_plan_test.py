"""Which arrays make a dump: checks of names, types, shapes and options."""
import dataclasses
import re

import numpy as np
import pytest

from array_files import memory_array, message_of
from attest.base.stored_text import SAMPLE_NAME
from attest.importing.plan import ImportOptions, option_of, plan_import
from attest_program import attest


def zeros(name, *shape):
    return memory_array(name, np.zeros(shape, np.float32))


def plan(*arrays, **options):
    return plan_import(arrays, "memory", ImportOptions(**options))


def complaint(q, k, v, **options):
    return message_of(lambda: plan(zeros("q", *q), zeros("k", *k), zeros("v", *v), **options))


def huge(name, *shape):
    """Only the shape of this array is used."""
    array = zeros(name, 1)
    array.shape = shape
    return array


def test_names_tell_samples_and_layers():
    arrays = [zeros("lm_head.weight", 3, 3)]
    for prefix, tokens in (("b/layers/3/", 6), ("a/layers/3/", 5), ("a/layers/10/", 5)):
        arrays += [zeros(prefix + "q", 2, 1, 4), zeros(prefix + "k", 1, tokens, 4), zeros(prefix + "v", 1, tokens, 3)]
    made = plan(*arrays)
    a, b = made.groups
    assert (a.names, a.num_tokens, b.names, b.num_tokens) == (["a"], 5, ["b"], 6)
    assert [layer.number for layer in a.layers] == [3, 10] and made.num_layers == 11
    assert (made.num_query_heads, made.num_kv_heads, made.head_dim, made.value_dim) == (2, 1, 4, 3)
    assert (made.num_samples(), made.num_sample_layers()) == (2, 3)
    assert made.num_bytes() == 4 * (3 * 8 + 2 * (20 + 15) + 24 + 18)


def test_samples_along_b_share_their_arrays():
    made = plan(zeros("q", 3, 2, 1, 4), zeros("k", 3, 1, 5, 4), zeros("v", 3, 1, 5, 4), sample="s")
    assert made.groups[0].names == ["s-0", "s-1", "s-2"]
    assert made.num_samples() == made.num_sample_layers() == 3
    assert made.num_bytes() == 4 * 3 * (8 + 20 + 20)


def test_an_axis_that_is_left_out_is_one():
    made = plan(zeros("q", 4, 5), zeros("k", 3, 5), zeros("v", 3, 2), layout="TD", q_layout="HD")
    assert (made.num_query_heads, made.num_kv_heads, made.head_dim, made.value_dim) == (4, 1, 5, 2)
    assert list(made.groups[0].positions) == [2]


def test_16_bit_integers_are_bfloat16_only_when_asked():
    arrays = [zeros(role, 1, 2, 4) for role in "qkv"]
    for array in arrays:
        array.element_type, array.type_name, array.may_hold_bfloat16 = None, "U16", True
    assert message_of(lambda: plan(*arrays)) == \
        "memory: tensor 'q': expected float16, bfloat16 or float32, found 'U16' (--bfloat16-bits, if these are the " \
        "bits of bfloat16)"
    assert plan(*arrays, bfloat16_bits=True).groups[0].layers[0].element_type == "bfloat16"
    arrays[1].type_name, arrays[1].may_hold_bfloat16 = "F64", False
    assert message_of(lambda: plan(*arrays, bfloat16_bits=True)).endswith("found 'F64' (convert it to float32 first)")


@pytest.mark.parametrize("q, k, v, sentence", [
    ((3, 1, 4), (2, 9, 4), (2, 9, 4),
     "'q': expected a multiple of the 2 heads of k, found 3 heads in shape [3, 1, 4] (layout HTD)"),
    ((2, 1, 4), (2, 9, 5), (2, 9, 4), "'k': expected 4 channels as in q, found 5 in shape [2, 9, 5] (layout HTD)"),
    ((2, 1, 4), (2, 9, 4), (1, 9, 4), "'v': expected 2 KV heads as in k, found 1 in shape [1, 9, 4] (layout HTD)"),
    ((2, 1, 4), (2, 9, 4), (2, 8, 4), "'v': expected 9 tokens as in k, found 8 in shape [2, 8, 4] (layout HTD)"),
    ((2, 10, 4), (2, 9, 4), (2, 9, 4),
     "'q': expected at most 9 queries, the tokens of k, found 10 in shape [2, 10, 4] (layout HTD)"),
    ((2, 1, 4), (2, 0, 4), (2, 9, 4), "'k': expected values, found shape [2, 0, 4]"),
    ((2, 4), (2, 9, 4), (2, 9, 4), "'q': expected 3 axes (layout HTD), found shape [2, 4]"),
    ((3, 2, 1, 4), (2, 2, 9, 4), (2, 2, 9, 4),
     "'k': expected 3 samples as in q, found 2 in shape [2, 2, 9, 4] (layout HTD)"),
])
def test_shapes_that_make_no_dump_are_refused(q, k, v, sentence):
    assert complaint(q, k, v) == f"memory: tensor {sentence}"


@pytest.mark.parametrize("options, sentence", [
    (dict(positions=[5]), "memory: tensor 'q': expected 1 queries, as many as --positions has, found 2"),
    (dict(positions=[5, 9]), "memory: tensor 'k': expected tokens beyond position 9, found 9"),
    (dict(positions=[5, 5]), "--positions: expected ascending numbers from 0, found 5"),
    (dict(positions=[-1, 5]), "--positions: expected ascending numbers from 0, found -1"),
    (dict(spans=[[3, 10]]), "--span: expected BEGIN:END within the 9 tokens of sample 'sample', found 3:10"),
    (dict(spans=[[3, 3]]), "--span: expected BEGIN:END within the 9 tokens of sample 'sample', found 3:3"),
    (dict(layout="HTX"),
     "layout 'HTX': expected each of the letters B (sample), H (head), T (token), D (channel) "
     "at most once, and D"),
    (dict(q_names="q"), "name patterns: expected all of --q, --k and --v, or none"),
])
def test_options_must_fit(options, sentence):
    assert complaint((2, 2, 4), (2, 9, 4), (2, 9, 4), **options) == sentence


def test_layers_must_be_alike():
    arrays = [zeros(f"layers.{layer}.{role}", 1, 2, 4) for layer in (0, 1) for role in "qkv"]
    assert plan(*arrays, num_layers=7).num_layers == 7
    assert message_of(lambda: plan(*arrays, num_layers=1)) == \
        "memory: expected at least 2 layers, found 1 (--num-layers)"
    arrays[5].element_type = "float16"
    assert message_of(lambda: plan(*arrays)) == \
        "memory: tensor 'layers.1.v': expected float32 as in 'layers.1.q', found float16"
    for at, shape, sentence in ((3, (1, 1, 4), "expected 2 queries as in the first layer, found 1"),
                                (3, (2, 2, 4), "expected 1 query heads, found 2")):
        changed = [*arrays[:at], zeros(arrays[at].name, *shape), *arrays[at + 1:5], zeros("layers.1.v", 1, 2, 4)]
        assert sentence in message_of(lambda: plan(*changed))
    far = [zeros(f"layers.2147483647.{role}", 1, 2, 4) for role in "qkv"]
    assert message_of(lambda: plan(*far)) == \
        "memory: tensor 'layers.2147483647.q': expected a layer below 100000, found 2147483647"


@pytest.mark.parametrize("shape, layout, sentence", [
    ((1 << 21, 1, 1), "HTD", "expected at most 1048576 heads and channels, found 2097152"),
    ((1, 1, 1 << 21), "HTD", "expected at most 1048576 heads and channels, found 2097152"),
    ((1, 1 << 21, 1), "HTD", "expected at most 1048576 queries, found 2097152 in shape [1, 2097152, 1] (layout HTD)"),
    ((10**9, 1, 1, 1), "HTD",
     "expected at most 10000 samples, found 1000000000 in shape [1000000000, 1, 1, 1] (layout HTD)"),
])
def test_absurd_shapes_are_refused(shape, layout, sentence):
    """A file may be sparse, so its size bounds nothing."""
    arrays = [huge(role, *shape) for role in "qkv"]
    assert message_of(lambda: plan(*arrays, layout=layout)) == f"memory: tensor 'q': {sentence}"


def test_every_field_has_an_option_that_the_command_knows():
    known = attest("import", "--help").stdout
    for field in dataclasses.fields(ImportOptions):
        assert re.search(rf"^  {option_of(field.name)}\b", known, re.MULTILINE), field.name


def test_names_of_samples_must_be_those_of_groups():
    def named(*samples, shape=(1, 1, 1)):
        return message_of(lambda: plan(*(zeros(f"{s}/{role}", *shape) for s in samples for role in "qkv")))
    for name, shown in ((".", "'.'"), ("a\0b", "'a\\x00b'"), ("\ud800", "'\\ud800'")):
        assert named(name) == f"memory: expected as a sample's name {SAMPLE_NAME}, found {shown}"
    arrays = [zeros(f"a/{role}", 2, 1, 1, 1) for role in "qkv"] + [zeros(f"a-1/{role}", 1, 1, 1) for role in "qkv"]
    assert message_of(lambda: plan(*arrays)) == "memory: expected each sample once, found 'a-1' twice"
