"""The text that a task's lines are hidden in: ASCII text of source files and documents, of any length."""
import bisect
import pathlib
import re

from ..base.errors import InputError
from ..base.places import PACKAGE, checkout

SUFFIXES = {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".md", ".py", ".rst", ".sh", ".txt"}
FEWEST_CHARACTERS = 1000
FEWEST_WORDS = 50
SOURCES = checkout() or PACKAGE  # the project's own, the default haystack
# Of a checkout: what commands write beside them is no source, and would change the prompts of a seed.
SOURCE_FOLDERS = ("analysis", "cmake", "dumps", "experiments", "kernels", "plots", "tests")


def haystack_text(path):
    """A text file, or all text files below a folder in the order of their names, without what is not ASCII: so a
    character is a token of bytes. Hidden folders and those of builds are no sources; of a checkout of this project
    only SOURCE_FOLDERS are."""
    path = pathlib.Path(path)
    try:
        if not path.exists():
            raise InputError(f"{path}: there is no such haystack, expected a text file or a folder of them")
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        texts = []
        for file in files:
            inside = file.relative_to(path).parts
            hidden = any(part.startswith(".") or part == "build" for part in inside)
            beside = path == SOURCES != PACKAGE and inside[:1] and inside[0] not in SOURCE_FOLDERS
            if file.is_file() and (file == path or file.suffix in SUFFIXES and not hidden and not beside):
                texts.append(file.read_bytes().decode("ascii", "ignore"))
    except OSError as error:
        raise InputError(f"{path}: the haystack cannot be read ({error.strerror})") from error
    return "\n".join(texts)


def words_of(text):
    """Words that keys are made of, sorted."""
    return sorted({word for word in re.findall(r"\b[a-z]{4,9}\b", text)})


class Haystack:
    """`words` are those that keys and word lists are made of; by default the text's own."""

    def __init__(self, text, words=None, name="haystack"):
        self.text = text if text.endswith("\n") else text + "\n"
        self.words = sorted(set(words)) if words is not None else words_of(text)
        if len(self.text) < FEWEST_CHARACTERS or len(self.words) < FEWEST_WORDS:
            raise InputError(f"{name}: has {len(self.text)} characters of text and {len(self.words)} words, expected "
                             f"{FEWEST_CHARACTERS} and {FEWEST_WORDS} at least")
        self.line_starts = [0] + [end.end() for end in re.finditer("\n", self.text)][:-1]

    @classmethod
    def read(cls, path=SOURCES):
        """The haystack of a file or folder of texts."""
        return cls(haystack_text(path), name=str(path))

    def line_start(self, place):
        """The last start of a line in the first `place`, in 0..1, of the text."""
        return self.line_starts[bisect.bisect_right(self.line_starts, int(place * len(self.text))) - 1]

    def piece(self, begin, length):
        """`length` characters from `begin`; the text begins anew where it ends."""
        begin %= len(self.text)
        copies = (begin + length) // len(self.text) + 1
        return (self.text * copies)[begin:begin + length]
