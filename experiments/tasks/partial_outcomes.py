"""The folder NAME.partial of unfinished outcomes: what they are made of, and a file for each finished prompt.

    tasks.json       what decides the outcomes, which --resume must agree with; when they were begun, and the command
    prompt-N.json    the outcomes of prompt N, renamed into place; a damaged one is made again
    dump-N.h5        with --dump, the dump of prompt N alone, which is there before prompt-N.json
    lock             held by the process that works here; the system drops it when that process dies
"""
import contextlib
import fcntl
import json
import os
import pathlib
import re

from atomic_text import atomic_text
from dump_errors import InputError, OutputError, UsageError, first_line
from prompt_outcomes import PromptOutcomes

BEGUN, LOCK = "tasks.json", "lock"
START_OVER = "start over with --force instead of --resume"
OURS = re.compile(r"tasks\.json|prompt-\d+\.json|dump-\d+\.h5|\.attest-[0-9a-f]{16}\.part|lock")


def folder_of(output):
    return pathlib.Path(f"{output}.partial")


def status_of(folder):
    """What the folder of unfinished outcomes says of itself, for `attest inspect`."""
    path = pathlib.Path(folder) / BEGUN
    try:
        begun = json.loads(path.read_text())
        what, record = begun["what"], begun["record"]
        made = what["prompts"]
        total = None if "file" in made else len(made["tasks"]) * len(made["context"]) * made["prompts"]
        return {"path": os.fspath(folder), "format": "attest-tasks-partial", "begun": record["created"],
                "program": what["program"]["version"], "model": what["model"]["called"], "prompts": total,
                "finished_prompts": sum(re.fullmatch(r"prompt-\d+\.json", name) is not None
                                        for name in os.listdir(folder))}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: is damaged ({first_line(error)})") from error


def first_difference(path, before, now):
    """Names the first entry in which two JSON values differ; None if there is none."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            where = f"{path}.{key}" if path else key
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


class PartialOutcomes:
    """`number` counts prompts from 0. Use it in a `with`, at whose end the lock is given back; the folder stays if a
    prompt is finished."""

    def __init__(self, output, resume, force):
        self.folder = folder_of(output)
        if self.folder.is_symlink() or self.folder.exists() and not self.folder.is_dir():
            raise OutputError(f"{self.folder}: expected a folder for unfinished outcomes, found something else")
        begun = (self.folder / BEGUN).exists()
        if begun and not (resume or force):
            raise OutputError(f"{self.folder}: holds unfinished outcomes; continue them with --resume, or start over "
                              "with --force")
        try:
            self.folder.mkdir(exist_ok=True)
            self.lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise OutputError(f"{self.folder}: cannot be made or written ({error.strerror})") from error
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock)
            raise OutputError(f"{self.folder}: another process works on these outcomes") from None
        if force and not resume:
            self._remove_files()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):  # the folder may be gone
            if not self.count_finished():
                self.remove()
        os.close(self.lock)

    def begin(self, what, record):
        """`what` decides the outcomes. Returns `record`, or that of the process that began them with the same."""
        path = self.folder / BEGUN
        if not path.exists():
            with atomic_text(path) as file:
                json.dump({"what": what, "record": record}, file, indent=1)
            return record
        try:
            begun = json.loads(path.read_text())
            difference = first_difference("", begun["what"], json.loads(json.dumps(what)))
            record = {name: begun["record"][name] for name in record}
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{path}: is damaged ({first_line(error)}); {START_OVER}") from error
        if difference:
            raise UsageError(f"cannot resume {self.folder}: it was started with {difference}; {START_OVER}")
        return record

    def dump_path(self, number):
        return self.folder / f"dump-{number}.h5"

    def finished(self, number, name, num_runs, with_dump):
        """The outcomes of a prompt, or None if it is to be answered."""
        try:
            found = PromptOutcomes.from_json((self.folder / f"prompt-{number}.json").read_text())
        except (OSError, ValueError, TypeError, KeyError):
            return None
        whole = found.name == name and len(found.outcomes) == num_runs
        return found if whole and (not with_dump or self.dump_path(number).exists()) else None

    def store(self, number, outcomes):
        with atomic_text(self.folder / f"prompt-{number}.json") as file:
            file.write(outcomes.to_json())

    def count_finished(self):
        return sum(name.startswith("prompt-") for name in os.listdir(self.folder))

    def remove(self):
        """Removes the folder; one that holds files of others stays with these."""
        self._remove_files()
        with contextlib.suppress(OSError):
            os.unlink(self.folder / LOCK)
            self.folder.rmdir()

    def _remove_files(self):
        """What was begun goes first: without it the others count for nothing."""
        for name in sorted(os.listdir(self.folder), key=lambda name: name != BEGUN):
            if OURS.fullmatch(name) and name != LOCK:
                os.unlink(self.folder / name)
