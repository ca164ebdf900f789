"""Keeps a few small inputs of a reader in ../corpus/READER.zip:

    keep_corpus.py FUZZ_COVERAGE READER FOLDER [INPUT...]
    keep_corpus.py FUZZ_READERS READER

The first merges libFuzzer's FOLDER and keeps some that each reach other code, with the further INPUTs, for instance
those of mended defects. The second is for readers of HDF5 files, which libFuzzer does not make: it keeps one input that
is read, with zeros for its numbers, and the smallest that are refused.
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib

import h5py

MOST_BYTES = 4000  # of an archive


def of_libfuzzer(program, reader, scratch, folder, *more):
    subprocess.run([program, "-merge=1", "-max_len=2000", scratch, folder],
                   env=os.environ | {"ATTEST_FUZZ_READER": reader}, check=True)
    inputs = sorted(map(pathlib.Path, os.scandir(scratch)), key=lambda path: (path.stat().st_size, path.name))
    return [*map(pathlib.Path, more), *inputs[::-1][::max(1, len(inputs) // 40)]]


def size(path):
    return len(zlib.compress(path.read_bytes(), 9))


def without_numbers(path):
    """A copy with zeros, where HDF5 can change it."""
    def clear(_, node):
        if isinstance(node, h5py.Dataset) and node.dtype.kind in "fu" and node.size < 100_000:
            node[...] = 0

    copy = pathlib.Path(shutil.copy(path, f"{path}.zeros"))
    with contextlib.suppress(OSError, KeyError, RuntimeError, ValueError), h5py.File(copy, "r+") as file:
        file.visititems(clear)
    return copy


def of_fuzz_readers(program, reader, scratch):
    def outcome(path):  # neither of the two where HDF5 crashes or loops
        with contextlib.suppress(subprocess.TimeoutExpired):
            said = subprocess.run([program, "--reader", reader, "--file", path], capture_output=True, text=True,
                                  timeout=5)
            return said.stdout.rpartition(": ")[2].strip()

    subprocess.run([program, "--reader", reader, "--variants", "1", "--runs", "200", "--seed", "5", "--save", scratch],
                   check=True)
    inputs = sorted(map(pathlib.Path, os.scandir(scratch)), key=lambda path: int(path.name))
    outcomes = {path: outcome(path) for path in inputs}
    sound = [path for path in inputs if outcomes[path] == "accepted"]
    sound += [copy for copy in map(without_numbers, sound) if outcome(copy) == "accepted"]
    refused = {size(path): path for path in inputs if outcomes[path] == "refused"}
    return [min(sound, key=size), *(refused[bytes] for bytes in sorted(refused)[:4])]


def main():
    program, reader, *rest = sys.argv[1:]
    archive = pathlib.Path(__file__).resolve().parent.parent / "corpus" / f"{reader}.zip"
    archive.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        offered = (of_libfuzzer if rest else of_fuzz_readers)(program, reader, scratch, *rest)
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as zipped:
            for number, path in enumerate(offered):
                if zipped.fp.tell() < MOST_BYTES:
                    zipped.writestr(zipfile.ZipInfo(f"{number:03}"), path.read_bytes(), zipfile.ZIP_DEFLATED)
            kept = len(zipped.namelist())
    print(f"{archive.name}: {archive.stat().st_size} bytes, {kept} inputs of {len(offered)}")


main()
