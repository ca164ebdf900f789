"""The first attribute in which layers differ is named, also one that either of them lacks."""
import pytest

from attest.base.errors import InputError
from attest.capture.one_kind import refuse_other_kinds


@pytest.mark.parametrize("found, before, sentence", [
    ({"head_dim": 64}, {"head_dim": 128}, "its head_dim is 64, that of the layers before 128, "),
    ({}, {"scale": 0.5}, "its scale is None, that of the layers before 0.5, "),
    ({"scale": 0.5}, {}, "its scale is 0.5, that of the layers before None, ")])
def test_other_kinds(found, before, sentence):
    with pytest.raises(InputError) as refusal:
        refuse_other_kinds("layer 3", found, before, "layers", "; leave it out")
    assert str(refusal.value) == f"layer 3: {sentence}and a dump holds layers of one kind; leave it out"


def test_the_same_kind():
    refuse_other_kinds("layer 3", {"head_dim": 64}, {"head_dim": 64}, "layers")
