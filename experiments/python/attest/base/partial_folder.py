"""The folder NAME.partial of what a command has not finished. Beside the files of finished prompts, which the command
names, it holds a description and a lock. The description, a file of JSON, has what decides the output, which --resume
must agree with, and a record of the process that began it. The lock is held by the process that works here; the system
drops it when that process dies."""
import contextlib
import fcntl
import json
import os
import pathlib
import re

from . import temporary
from .atomic_text import atomic_text
from .errors import InputError, OutputError, UsageError, first_line
from .files import InputFile, kind_of
from .stored_text import storable

LOCK = "lock"
MOST_BYTES = 16 << 20  # of a file of JSON
MOST_TEXT = 100_000  # characters of a record
START_OVER = "start over with --force instead of --resume"


def folder_of(output):
    """Beside the output, so that the last rename stays on one file system."""
    return pathlib.Path(f"{output}.partial")


def read_small_text(path):
    """The text of a file that another process may have written: a pipe or 3 GB would do no good."""
    with InputFile(path) as file:
        if file.size > MOST_BYTES:
            raise InputError(f"{path}: expected at most {MOST_BYTES} bytes, found {file.size}")
        return file.read(0, file.size).decode()


def first_difference(path, before, now):
    """Names the first entry in which two JSON values differ; None if there is none."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            where = f"{path}.{key[:100]}" if path else key[:100]
            if key not in before or key not in now:
                return f"{'no ' if key not in before else 'a '}{where}"
            if difference := first_difference(where, before[key], now[key]):
                return difference
        return None
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return next(filter(None, (first_difference(f"{path}[{i}]", *both) for i, both in enumerate(zip(before, now)))),
                    None)
    return None if before == now else f"{path} {_short(before)}, and not {_short(now)}"


def _short(value):
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def like(found, example):
    """Whether a value of a file is of the example's kind: text that HDF5 can hold, or a list of such."""
    if isinstance(example, list):
        return isinstance(found, list) and all(like(element, "") for element in found)
    return isinstance(found, str) and len(found) <= MOST_TEXT and found == storable(found)


class PartialFolder:
    """`number` counts prompts from 0. At the end of its `with` block the lock is released, and the folder is removed
    unless a prompt is finished."""
    begun = None  # name of the description
    files = None  # pattern of the names of all others that the command writes here; the rest is not ours to remove
    finished_prefix = None  # of the names of files that finished prompts have; or a tuple of them
    what = None  # in messages: "unfinished outcomes"

    def __init__(self, output, resume, force):
        self.folder = folder_of(output)
        if self.folder.is_symlink() or self.folder.exists() and not self.folder.is_dir():
            raise OutputError(f"{self.folder}: expected a folder for {self.what}, found "
                              f"{kind_of(self.folder.lstat().st_mode)}")
        begun = (self.folder / self.begun).exists()
        if begun and not (resume or force):
            raise OutputError(f"{self.folder}: holds {self.what}; continue with --resume, or start over with --force")
        try:
            self.folder.mkdir(exist_ok=True)
            self.lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise OutputError(f"{self.folder}: cannot be made or written ({error.strerror})") from error
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock)
            raise OutputError(f"{self.folder}: another process works here") from None
        if force and not resume:
            self._remove_files()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, OutputError):  # the folder may be gone
            if not self.count_finished():
                self.remove()
        os.close(self.lock)

    def begin(self, what, record):
        """`what` decides the output. Returns `record`, or that of the process that began them with the same."""
        path = self.folder / self.begun
        if not path.exists():
            with atomic_text(path) as file:
                json.dump({"what": what, "record": record}, file, indent=1)
            return record
        try:
            begun = json.loads(read_small_text(path))
            difference = first_difference("", begun["what"], json.loads(json.dumps(what)))
            found = {name: begun["record"][name] for name in record}
            if wrong := [name for name in record if not like(found[name], record[name])]:
                raise ValueError(f"its {wrong[0]} is {_short(found[wrong[0]])}")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(f"{path}: is damaged ({first_line(error)}); {START_OVER}") from error
        if difference:
            raise UsageError(f"cannot resume {self.folder}: it was started with {difference}; {START_OVER}")
        return found

    def dump_path(self, number):
        """Where the dump of prompt `number` alone is."""
        return self.folder / f"dump-{number}.h5"

    def count_finished(self):
        """How many prompts are finished, by the names of their files."""
        return sum(name.startswith(self.finished_prefix) for name in os.listdir(self.folder))

    def remove(self):
        """Removes the folder; one that holds files of others stays with these."""
        self._remove_files()
        with contextlib.suppress(OSError):
            os.unlink(self.folder / LOCK)
            self.folder.rmdir()

    def _remove_files(self):
        """What was begun goes first: without it the others count for nothing."""
        for name in sorted(os.listdir(self.folder), key=lambda name: name != self.begun):
            if name == self.begun or re.fullmatch(f"{self.files}|{temporary.PATTERN}", name):
                try:
                    os.unlink(self.folder / name)
                except OSError as error:
                    raise OutputError(f"{self.folder / name}: cannot be removed ({error.strerror})") from error
