"""attest.vllm_plugin.settings: what to capture, from the environment and from a request's own arguments."""
import pytest

from attest.base.arguments import chosen_layers
from attest.base.errors import UsageError
from attest.vllm_plugin.settings import read_settings, read_wish


def settings(**given):
    return read_settings({"ATTEST_VLLM_FOLDER": "/dumps"} | {
        f"ATTEST_VLLM_{name.upper()}": value for name, value in given.items()})


def test_without_a_folder_nothing_is_captured():
    assert read_settings({}) is None
    assert read_settings({"ATTEST_VLLM_LAST": "2", "ATTEST_PYTHON": "/x"}) is None


def test_the_environment_says_what_to_capture():
    found = settings(layers="0,2-3,7-", last="2", decode="0", requests="3", memory="0.5")
    assert (found.folder, found.last, found.decode, found.requests, found.memory) == ("/dumps", 2, 0, 3, 0.5)
    assert chosen_layers(found.layers, 9) == {0, 2, 3, 7, 8}


@pytest.mark.parametrize("name, text, expected", [
    ("last", "-1", "a whole number"), ("last", "two", "a whole number"), ("memory", "0", "a number above 0"),
    ("memory", "inf", "a number above 0"), ("layers", "3-1", "a list of layers")])
def test_a_wrong_setting_is_refused(name, text, expected):
    with pytest.raises(UsageError, match=f"ATTEST_VLLM_{name.upper()}: expected {expected}.*, found '{text}'"):
        settings(**{name: text})


def test_a_misspelt_setting_is_refused():
    with pytest.raises(UsageError, match="ATTEST_VLLM_LAYER: no such setting of attest .known: ATTEST_VLLM_FOLDER, "):
        settings(layer="1")


def test_a_request_takes_the_settings():
    wish = read_wish(settings(last="3", decode="2"), "r1", 10, None)
    assert (wish.name, [*wish.positions], wish.num_tokens, wish.own) == ("r1", [7, 8, 9, 10, 11], 12, False)
    assert read_wish(settings(last="30"), "r1", 2, {}).positions == range(6), "not before the prompt"


def test_a_request_has_arguments_of_its_own():
    own = {"attest_name": "box", "attest_task": "niah", "attest_layers": "1-", "attest_last": 1, "attest_decode": 1,
           "other": "not ours"}
    wish = read_wish(settings(requests="0"), "r1", 10, own)
    assert (wish.name, wish.task, [*wish.positions], wish.own) == ("box", "niah", [9, 10], True)
    assert chosen_layers(wish.layers, 3) == {1, 2}
    assert read_wish(settings(requests="0"), "r2", 10, {"other": 1}) is None
    assert read_wish(settings(), "r3", 10, {"attest_positions": "[2, 5]"}).positions == [2, 5]


@pytest.mark.parametrize("own, sentence", [
    ({"attest_layer": "1"}, "attest_layer: no such argument of attest"),
    ({"attest_last": "x"}, "attest_last: expected a whole number, found 'x'"),
    ({"attest_positions": [3, 3]}, "request r1: expected ascending positions of queries, found .3, 3."),
    ({"attest_positions": "5"}, "request r1: expected ascending positions of queries, found 5"),
    ({"attest_positions": []}, "request r1: expected ascending positions"),
    ({"attest_last": 0, "attest_decode": 0}, "request r1: expected ascending positions"),
    ({"attest_name": "a/b"}, "attest_name: expected the name of one HDF5 group.*, found 'a/b'"),
    ({"attest_name": "."}, "attest_name: expected the name of one HDF5 group.*, found '.'")])
def test_wrong_arguments_are_refused(own, sentence):
    with pytest.raises(UsageError, match=sentence):
        read_wish(settings(), "r1", 10, own)
