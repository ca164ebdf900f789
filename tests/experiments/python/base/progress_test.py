"""Lines of progress: each is written at once."""

import io
import sys

from attest.base.progress import Progress


class Writes(io.StringIO):
    """What was written, piece by piece."""

    def __init__(self):
        super().__init__()
        self.pieces = []

    def write(self, text):
        self.pieces.append(text)
        return super().write(text)


def test_a_line_and_its_end_are_one_piece(monkeypatch):
    written = Writes()
    monkeypatch.setattr(sys, "stderr", written)
    with Progress(4, "layers", quiet=False) as progress:
        progress(1)
        progress.say("left out: layer 2")
        progress(3)
    first, said, last = written.pieces
    assert first.startswith("1 of 4 layers, ") and first.endswith(" left\n")
    assert said == "left out: layer 2\n"
    assert last.startswith("4 of 4 layers, ") and last.endswith("\n")
