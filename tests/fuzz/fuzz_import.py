"""Reads made safetensors files, npz archives, indices and recorded calls with the readers of `attest import`, as
fuzz_readers does for the readers written in C++: each input is read or refused in one printable line, soon and in
little memory.

    fuzz_import.py [--reader safetensors,npz,index,recording] [--runs N | --seconds S] [--seed N] [--first N] [--file
PATH]
"""
import argparse
import os
import pathlib
import random
import resource
import signal
import sys
import tempfile
import time
import warnings

import import_mutation
from attest.base.errors import InputError, UsageError, printable
from attest.flight_recorder.writer import write_recording
from attest.importing.layout import view_array
from attest.importing.plan import ImportOptions, plan_import
from attest.importing.sources import open_source

MOST_SECONDS = 10  # of one input
MOST_GIB = 2
MOST_FAILURES = 10
MOST_READ = 64 << 20  # bytes of values that are read of one input; a deflated kilobyte may hold a megabyte
LONGEST_SENTENCE = 4000


class Hang(BaseException):
    """Not an Exception: the readers turn some of those into refusals."""


def on_alarm(number, frame):
    raise Hang(f"no end after {MOST_SECONDS} s")


def require(holds, what):
    if not holds:
        raise AssertionError(what)


def read_values(array, left):
    """Reads an array as the import does, in the order of the file."""
    if array.element_type is None or 0 in array.shape:
        return left
    letters = "BHTD"[-len(array.shape):] if 0 < len(array.shape) <= 4 else None
    if letters is None:
        return left
    for _, values in view_array(array, letters).blocks(array.element_type):
        left -= values.nbytes
        if left < 0:
            break
    return left


def read(path, source):
    """The contract of a reader. Returns whether it accepted the input."""
    try:
        if os.path.exists(os.path.join(source, "call")):
            samples, _, _ = write_recording(source, ImportOptions(), os.path.join(source, "d.h5"), True, 4)
            require(samples > 0, "a dump of nothing")
            return True
        arrays = open_source(source)
        left = MOST_READ
        for array in arrays:
            require(array.file.startswith(source), "an array of another file")
            if left > 0:
                left = read_values(array, left)
        plan = plan_import(arrays, source, ImportOptions())
        require(plan.num_samples() > 0 and plan.num_bytes() > 0, "a plan of nothing")
        return True
    except (InputError, UsageError) as error:
        sentence = printable(str(error))  # as run_command prints it: a path may hold anything
    require(sentence.isprintable(), f"not printable: {sentence[:300]}")
    require(0 < len(sentence) <= LONGEST_SENTENCE, f"a sentence of {len(sentence)} characters: {sentence[:300]}")
    require(source in sentence, f"does not name the file: {sentence[:300]}")
    return False


class Fuzzer:
    def __init__(self, reader, folder, options):
        self.reader, self.folder, self.options = reader, folder, options
        self.path = os.path.join(folder, import_mutation.FILE_NAMES[reader])
        # The index is one of a folder, whose file is sound, and so is the record of a call.
        self.source = folder if reader in ("index", "recording") else self.path
        if reader == "recording":
            import_mutation.write_recorded_call(folder)
        if reader == "index":
            import_mutation.write_indexed_file(folder)
        self.accepted = self.refused = self.failed = 0
        self.worst = (0.0, 0)

    def one(self, number, content):
        with open(self.path, "wb") as file:
            file.write(content)
        began, descriptors = time.monotonic(), len(os.listdir("/proc/self/fd"))
        signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
        try:
            accepted = read(self.path, self.source)
            require(len(os.listdir("/proc/self/fd")) == descriptors, "a file that stays open")
            require(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < MOST_GIB << 20, "more than 2 GiB of memory")
        except (Exception, Hang) as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.failed += 1
            kept = os.path.join(self.options.failures, f"attest-fuzz-{self.reader}-{self.options.seed}-{number}")
            print(f"{self.reader}: input {number}: {type(error).__name__}: {printable(str(error))[:500]}")
            again = f"again: {sys.argv[0]} --reader {self.reader}"
            try:
                with open(kept, "wb") as file:
                    file.write(content)
                print(f"  {again} --file {kept}")
            except OSError as why:
                print(f"  not kept: {kept} cannot be written ({why.strerror}); {again} --seed {self.options.seed} "
                      f"--first {number} --runs 1")
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.accepted, self.refused = self.accepted + accepted, self.refused + (not accepted)
        self.worst = max(self.worst, (time.monotonic() - began, number))

    def run(self, runs, seconds):
        options, began = self.options, time.monotonic()
        number = options.first
        while (not runs or number < options.first + runs) and self.failed < MOST_FAILURES:
            if seconds and time.monotonic() - began > seconds:
                break
            self.one(number, import_mutation.make(self.reader, random.Random(f"{options.seed}/{self.reader}/{number}")))
            number += 1
        took, inputs = time.monotonic() - began, self.accepted + self.refused + self.failed
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{self.reader:11s} {inputs:9d} inputs in {took:.1f} s ({inputs / took:.0f}/s): {self.accepted} accepted, "
            f"{self.refused} refused, {self.failed} failed; worst {self.worst[0]:.3f} s (input {self.worst[1]}), peak "
            f"{peak} MiB", flush=True)
        return self.failed == 0 and inputs > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--reader", default=",".join(import_mutation.FILE_NAMES), help="which readers")
    parser.add_argument("--runs", type=int, default=0, help="inputs of each reader")
    parser.add_argument("--seconds", type=float, default=0, help="time for all readers together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--failures", default=tempfile.gettempdir(), help="folder for inputs that failed")
    parser.add_argument("--file", help="reads this input once")
    options = parser.parse_args()
    readers = options.reader.split(",")
    signal.signal(signal.SIGALRM, on_alarm)
    warnings.simplefilter("ignore")  # as attest import does
    good = True
    for reader in readers:
        with tempfile.TemporaryDirectory() as folder:
            fuzzer = Fuzzer(reader, folder, options)
            if options.file:
                fuzzer.one(0, pathlib.Path(options.file).read_bytes())
                print("accepted" if fuzzer.accepted else "refused" if fuzzer.refused else "failed")
                good = good and not fuzzer.failed
            else:
                good = fuzzer.run(options.runs or (0 if options.seconds else 1000), options.seconds / len(readers)) \
                    and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
