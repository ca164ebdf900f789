"""One array of a safetensors file or npz archive: what its file says of it, its values not read yet."""
from collections.abc import Callable
from dataclasses import dataclass

from import_files import in_quotes

MOST_ELEMENTS = 1 << 62


@dataclass(slots=True)
class SourceArray:
    """One array as its file describes it, checked against the size of the file."""
    file: str  # path, for messages
    name: str
    type_name: str  # as the file spells it: "BF16", "<f4"
    shape: tuple
    open: Callable  # returns an object with read(size), the bytes in the order of the file, and close()
    element_type: str | None = None  # float16, bfloat16 or float32; None: a dump cannot hold the type
    bits_of_16: bool = False  # untyped or integer 16 bits, which may be bfloat16 in disguise
    column_major: bool = False  # the first axis varies fastest (Fortran order)

    def place(self):
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
