"""Every layout must put every value where the dump format requires it, for any size of blocks."""
import itertools

import numpy as np
import pytest

from array_files import memory_array, message_of
from attest.importing import layout as import_layout
from attest.importing.layout import check_layout, view_array

EXTENT = {"B": 2, "H": 3, "T": 7, "D": 5}


def numbered(letters):
    """A different number at every place: 1000 b + 100 h + 10 t + d."""
    values = np.zeros([EXTENT[letter] for letter in letters], np.float32)
    for letter, weight in zip("BHTD", (1000, 100, 10, 1)):
        if letter in letters:
            along = [-1 if other == letter else 1 for other in letters]
            values += (weight * np.arange(EXTENT[letter], dtype=np.float32)).reshape(along)
    return values


def gathered(view):
    """[B, H, T, D] assembled from the blocks. Every place must occur once."""
    shape = [view.extent[letter] for letter in "BHTD"]
    values, times = np.zeros(shape, np.float32), np.zeros(shape, int)
    for first, block in view.blocks("float32"):
        place = tuple(slice(first[letter], first[letter] + size) for letter, size in zip("BHTD", block.shape))
        values[place] = block.view(np.float32) if block.flags.c_contiguous else block.copy().view(np.float32)
        times[place] += 1
    assert (times == 1).all()
    return values


LAYOUTS = ["".join(order) for letters in ("D", "TD", "HTD", "BHTD") for order in itertools.permutations(letters)]


@pytest.mark.parametrize("block_bytes", [4, 60, 200, 1 << 20])
@pytest.mark.parametrize("column_major", [False, True])
@pytest.mark.parametrize("letters", LAYOUTS)
def test_every_value_comes_once_and_in_its_place(letters, column_major, block_bytes, monkeypatch):
    monkeypatch.setattr(import_layout, "BLOCK_BYTES", block_bytes)
    values = np.asarray(numbered(letters), order="F" if column_major else "C")
    view = view_array(memory_array("x", values), letters)
    found = gathered(view)
    for b, h, t, d in np.ndindex(found.shape):
        assert found[b, h, t, d] == 1000 * b + 100 * h + 10 * t + d


class CountingReader:
    def __init__(self):
        self.largest = 0

    def read(self, size):
        self.largest = max(self.largest, size)
        return bytes(size)

    def close(self):
        pass


@pytest.mark.parametrize("letters, shape, largest", [
    ("HTD", (2, 20_000, 128), 4 << 20),
    ("THD", (20_000, 2, 128), 4 << 20),
    ("BHTD", (9, 2, 20_000, 128), 4 << 20),
    ("HDT", (3, 128, 20_000), 4 * 128 * 20_000),  # a block must have all of D, so it is a whole head
    ("BDHT", (3, 128, 2, 20_000), 4 * 128 * 2 * 20_000),  # a whole sample
])
def test_a_block_is_small_unless_d_is_not_the_fastest_axis(letters, shape, largest):
    reader = CountingReader()
    array = memory_array("x", np.zeros((1,) * len(shape), np.float32))
    array.shape, array.open = shape, lambda: reader
    total = sum(block.nbytes for _, block in view_array(array, letters).blocks("float32"))
    assert total == 4 * np.prod(shape)
    assert reader.largest <= largest


def test_an_axis_more_or_less_is_the_batch():
    assert view_array(memory_array("x", numbered("BHTD")), "HTD").extent == EXTENT
    assert view_array(memory_array("x", numbered("HTD")), "BHTD").extent == EXTENT | {"B": 1}
    assert view_array(memory_array("x", numbered("HD")), "HD").extent == EXTENT | {"B": 1, "T": 1}


def test_layouts_and_shapes_that_do_not_fit_are_refused():
    for letters in ("HTX", "HTDD", "HT", "", "htd"):
        assert message_of(check_layout, letters).startswith(f"layout '{letters}': expected each of the letters B ")
    assert message_of(view_array, memory_array("x", numbered("TD")), "HTD") == \
        "memory: tensor 'x': expected 3 axes (layout HTD), found shape [7, 5]"
    assert message_of(view_array, memory_array("x", np.zeros((2, 0, 4), np.float32)), "HTD") == \
        "memory: tensor 'x': expected values, found shape [2, 0, 4]"


def test_what_does_not_fit_in_memory_is_said():
    class Reader(CountingReader):
        def read(self, size):
            raise MemoryError
    array = memory_array("x", np.zeros((1, 1, 1), np.float32))
    array.open = Reader
    assert message_of(list, view_array(array, "HTD").blocks("float32")) == \
        "memory: tensor 'x': expected an array that fits in memory, found 4 bytes"
