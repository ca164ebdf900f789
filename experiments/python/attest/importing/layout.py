"""Maps the axes of an array to samples, heads, tokens and channels, and reads it in blocks in the order of the file."""
import itertools
import math
import os
from dataclasses import dataclass

import numpy as np

from ..base.dump_writer import ITEM_BYTES
from ..base.errors import InputError, UsageError
from .source_array import shape_text

AXES = "BHTD"  # B sample, H head, T token (of q: query), D channel
BLOCK_BYTES = 4 << 20


@dataclass
class ArrayView:
    """An array with named axes. `order` has all of AXES in the order of the file, slowest first."""
    array: object
    order: str
    extent: dict  # letter to extent, 1 for an axis that the layout leaves out

    def blocks(self, element_type):
        """Reads the array once from its first to its last byte. Yields {letter: first index} and the values of a block,
        as unsigned integers of the same width, with the axes in the order AXES. A block has at most BLOCK_BYTES but
        always whole rows along D: if D is not the fastest axis, it has all of D and of the axes faster than D, and may
        be larger."""
        item = ITEM_BYTES[element_type]
        block, size = dict.fromkeys(AXES, 1), item
        for at in reversed(range(4)):
            letter = self.order[at]
            whole = at >= self.order.index("D")
            block[letter] = self.extent[letter] if whole else max(1, min(self.extent[letter], BLOCK_BYTES // size))
            size *= block[letter]
            if block[letter] < self.extent[letter]:
                break
        reader = self.array.open()
        try:
            for firsts in itertools.product(*(range(0, self.extent[letter], block[letter]) for letter in self.order)):
                first = dict(zip(self.order, firsts))
                shape = [min(block[letter], self.extent[letter] - first[letter]) for letter in self.order]
                values = np.frombuffer(self._read(reader, math.prod(shape) * item), f"<u{item}").reshape(shape)
                yield first, values.transpose([self.order.index(letter) for letter in AXES])
        finally:
            reader.close()

    def _read(self, reader, size):
        try:
            if size > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
                raise MemoryError
            return reader.read(size)
        except MemoryError as error:
            place = self.array.place()
            raise InputError(f"{place}: expected an array that fits in memory, found {size} bytes") from error


def check_layout(letters):
    """UsageError unless the letters are axes, each once, with the channel."""
    if "D" not in letters or not set(letters) <= set(AXES) or len(set(letters)) < len(letters):
        raise UsageError(f"layout '{letters}': expected each of the letters B (sample), H (head), T (token), D "
                         "(channel) at most once, and D")


def view_array(array, layout):
    """An array with one axis more than the layout has letters has B in front; with one axis less it has no B."""
    letters = layout
    if "B" not in letters and len(array.shape) == len(letters) + 1:
        letters = "B" + letters
    elif "B" in letters and len(array.shape) + 1 == len(letters):
        letters = letters.replace("B", "")
    if len(array.shape) != len(letters):
        raise InputError(f"{array.place()}: expected {len(layout)} axes (layout {layout}), found shape "
                         f"{shape_text(array.shape)}")
    if 0 in array.shape:
        raise InputError(f"{array.place()}: expected values, found shape {shape_text(array.shape)}")
    left_out = "".join(letter for letter in AXES if letter not in letters)
    order = left_out + (letters[::-1] if array.column_major else letters)
    return ArrayView(array, order, dict.fromkeys(left_out, 1) | dict(zip(letters, array.shape)))
