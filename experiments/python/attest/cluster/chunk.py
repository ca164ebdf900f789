"""What a worker does: computes some units of a study with the program of its machine, and returns them as bytes."""
import contextlib
import itertools
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import time

from ..base.errors import AttestError, printable
from ..base.program import ProgramError, program

running = set()  # processes that threads of this one have started
# How many threads of this process compute chunks, and share the machine's processors and GPUs as ranks do. A slot of
# any other worker is one thread.
slots = None
kept = None  # a folder: the client is this process, and is given files there instead of bytes
thread, numbers = threading.local(), itertools.count()


@contextlib.contextmanager
def computed_here(count):
    """In the block `count` threads of this process compute chunks."""
    global slots, kept
    with tempfile.TemporaryDirectory(prefix="attest-chunks-") as folder:
        slots, kept = count, folder
        try:
            yield
        finally:
            slots = kept = None


def end_processes():
    """Those of chunks that nobody waits for any more."""
    for process in list(running):
        process.terminate()


def environment():
    """The environment of a process of the program: which of the node's slots it has, by which it chooses its GPU."""
    if slots is None:
        return None
    if not hasattr(thread, "number"):
        thread.number = next(numbers) % slots
    rank, world = str(thread.number), str(slots)
    return {**os.environ, "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}


class ChunkError(AttestError):
    """The program failed on a worker: in the words of the program, and with its exit code."""

    def __init__(self, sentence, exit_code):
        super().__init__(sentence, exit_code)  # so that a pickled one is read back
        self.exit_code = exit_code

    def __str__(self):
        return self.args[0]


def units_text(units):
    """"0-7,9" of ascending numbers."""
    ranges = []
    for unit in units:
        if ranges and ranges[-1][1] == unit - 1:
            ranges[-1][1] = unit
        else:
            ranges.append([unit, unit])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


def compute(words, units, folder):
    """(bytes or `kept` file, seconds): `attest run` with `words` on these units of the study, from the client's
    `folder`, where relative paths begin. The file of the units checks itself when it is added to the study
    (analysis/run/chunk.cpp)."""
    if not os.path.isdir(folder):
        raise ChunkError(f"worker {socket.gethostname()}: has no folder {folder}, where the command was given", 4)
    with tempfile.TemporaryDirectory(prefix="attest-chunk-", dir=kept) as place:
        chunk = pathlib.Path(place) / "chunk"
        threads = [] if slots or any(word.startswith("--threads") for word in words) else ["--threads=1"]
        began = time.monotonic()
        process = subprocess.Popen(
            [program(), "run", *words, *threads, "--units", units_text(units), "--chunk", str(chunk), "--quiet"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors="replace", env=environment())
        running.add(process)
        try:
            error = process.communicate()[1]
        finally:
            running.discard(process)
        if process.returncode:
            failure = ProgramError(error, process.returncode)
            raise ChunkError(f"worker {socket.gethostname()}: {printable(str(failure))}",
                             failure.exit_code if failure.exit_code in (1, 2, 4, 5) else 1)
        took = time.monotonic() - began
        if kept is None:
            return chunk.read_bytes(), took
        return chunk.rename(f"{place}.chunk"), took
