"""One array of a safetensors file or npz archive, as its file describes it; its values are not read yet."""
from collections.abc import Callable
from dataclasses import dataclass

from ..base.files import in_quotes

MOST_ELEMENTS = 1 << 62


@dataclass(slots=True)
class SourceArray:
    """The description has been checked against the size of the file."""
    file: str  # path, for messages
    name: str
    type_name: str  # as the file spells it: "BF16", "<f4"
    shape: tuple
    open: Callable  # returns an object with close() and read(size), which reads in the order of the file
    element_type: str | None = None  # float16, bfloat16 or float32; None: a dump cannot hold the type
    may_hold_bfloat16: bool = False  # 16-bit elements without type or of integers, which may be the bits of bfloat16
    column_major: bool = False  # the first axis varies fastest (Fortran order)
    begin: int | None = None  # where the values begin in the file, if they stand there as they are

    def place(self):
        """For messages: file and tensor."""
        return f"{self.file}: tensor {in_quotes(self.name)}"


def shape_text(shape):
    """"[2, 3]" """
    return "[" + ", ".join(str(axis) for axis in shape[:8]) + (", ...]" if len(shape) > 8 else "]")


def element_count(shape):
    """The product of the axes, or None when one is negative or the product exceeds 2^62."""
    elements = 1
    for axis in shape:
        elements *= axis
        if axis < 0 or elements > MOST_ELEMENTS:
            return None
    return elements
