"""What the folder of an unfinished study and chunks say is untrusted: counters, sizes and texts of any size, pipes and
holes end in the right results or in one short sentence, soon."""

import concurrent.futures
import json
import os
import resource
import shutil
import struct
import subprocess
import time
import uuid

import pytest

import shared_runs
from results_data import data_of
from shared_runs import command

LONG = "x" * (4 << 20)
VALUES = [-1, 2**31, 2**62, 9 * 10**18, 2**64, 1e300, 0.5, None, [], {}, LONG, "\udc80\x1b[2J\u202e"]
PROCESS = {"token": "0123456789abcdef", "host": "node2", "machine": "m", "process": 12, "started": "1"}
BEAT = "00000000000000000007\n"


class Study:
    """A dump, its results, and the folder of a study of which two of three units are finished."""

    def __init__(self, folder):
        self.dump, self.chunk, self.template = folder / "dump.h5", folder / "c", folder / "t.h5.partial"
        shared_runs.write_dump(self.dump, layers=3, tokens=300)
        assert shared_runs.run(command(self.dump, folder / "one.h5")).returncode == 0
        self.expected = data_of(folder / "one.h5")
        made = [shared_runs.ATTEST, "run", str(self.dump), *shared_runs.SELECTORS, "--units", "0-1", "--chunk",
                str(self.chunk)]
        assert shared_runs.run(made).returncode == 0
        assert shared_runs.run(
            command(self.dump, folder / "t.h5", "--resume", "--take", str(self.chunk))).returncode == 0

    def unfinished(self, place):
        """A new output; its folder is a copy."""
        out = place / f"{uuid.uuid4().hex}.h5"
        shutil.copytree(self.template, f"{out}.partial")
        return out, place / f"{out.name}.partial"

    def resume(self, out, *more, seconds=20):
        done = limited(*command(self.dump, out, "--resume", *more), seconds=seconds)
        if done.returncode == 0 and out.exists():
            assert data_of(out) == self.expected
        return done


def limited(*arguments, seconds=20):
    """Ends by itself, in little memory, with one short sentence if it fails."""
    begin = time.monotonic()
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)))
    assert time.monotonic() - begin < seconds
    assert done.returncode in (0, 2, 4, 5), done.stderr[-500:]
    assert "internal" not in done.stderr and len(done.stderr) < 20_000 and len(done.stdout) < 300_000
    assert not set("\x1b\u202e") & set(done.stdout + done.stderr)
    return done


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("hostile"))


def replaced(document, path, value):
    changed = json.loads(json.dumps(document))
    *before, last = path
    at = changed
    for key in before:
        at = at[key]
    at[last] = value
    return json.dumps(changed)


def places(value, path=()):
    if path:
        yield path
    for key, inside in value.items() if isinstance(
        value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inside, (*path, key))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:12])
def test_the_description(study, tmp_path, value):
    document = json.loads((study.template / "study.json").read_text())
    for path in [("begun",), ("by",), ("study",), *list(places(document["study"], ("study",)))[::23]]:
        out, folder = study.unfinished(tmp_path)
        (folder / "study.json").write_text(replaced(document, path, value))
        limited(shared_runs.ATTEST, "inspect", folder)
        study.resume(out)


def test_other_processes_and_their_locks(study, tmp_path):
    """Each waits for the silence of a process that may live, so they run side by side."""
    def resumed(field, value):
        out, folder = study.unfinished(tmp_path / field)
        said = BEAT + replaced(PROCESS, [field], value) + "\n"
        (folder / "process-0123456789abcdef").write_text(said)
        (folder / "lock-0-0-2").write_text(said)
        return study.resume(out, seconds=55).returncode

    for field in PROCESS:
        (tmp_path / field).mkdir()
    cases = [("process", -1), ("process", 2**62), ("process", 9 * 10**18), ("token", LONG),
             ("host", "\udc80\x1b[2J\u202e"), ("started", None)]
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        assert set(pool.map(lambda case: resumed(*case), cases)) == {0}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:12])
def test_the_note_of_the_inputs(study, tmp_path, value):
    for note in {"by": value, "xxh64_of_1MiB": ["0" * 16]}, {"by": "a", "xxh64_of_1MiB": value}, {
        "by": "a", "xxh64_of_1MiB": [value]}:
        out, folder = study.unfinished(tmp_path)
        (folder / "note-inputs.json").write_text(json.dumps(note))
        study.resume(out)


@pytest.mark.parametrize("name", ["study.json", "unit-0-0-0.bin", "unit-0-0-2.bin", "note-inputs.json", "lock-0-0-2",
                                  "process-0123456789abcdef"])
@pytest.mark.parametrize("what", ["pipe", "folder", "hole", "link", "empty"])
def test_what_is_no_file_of_ours(study, tmp_path, name, what):
    out, folder = study.unfinished(tmp_path)
    place = folder / name
    place.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(place)
    elif what == "folder":
        place.mkdir()
    elif what == "link":
        place.symlink_to("/dev/zero")
    else:
        with open(place, "wb") as file:
            file.truncate((3 << 30) if what == "hole" else 0)
    limited(shared_runs.ATTEST, "inspect", folder)
    study.resume(out)


SIZES = [0, 1, 2**31, 2**40, 2**62, 2**63, 9 * 10**18, 2**64 - 1]


@pytest.mark.parametrize("size", SIZES)
def test_sizes_in_chunks(study, tmp_path, size):
    """The description's, the unit's place, and the unit's."""
    chunk = study.chunk.read_bytes()
    begin = chunk.index(b"\n") + 1
    place = begin + 8 + struct.unpack_from("<Q", chunk, begin)[0]
    for at in begin, place, place + 8:
        if chunk[at:at + 8] == struct.pack("<Q", size):
            continue
        (tmp_path / "c").write_bytes(chunk[:at] + struct.pack("<Q", size) + chunk[at + 8:])
        done = study.resume(tmp_path / "r.h5", "--take", tmp_path / "c")
        assert done.returncode == 4 and str(tmp_path / "c") in done.stderr, done.stderr


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:12])
def test_the_description_in_a_chunk(study, tmp_path, value):
    chunk = study.chunk.read_bytes()
    begin = chunk.index(b"\n") + 1
    size, = struct.unpack_from("<Q", chunk, begin)
    described, units = json.loads(chunk[begin + 8:begin + 8 + size]), chunk[begin + 8 + size:]
    for path in ("by",), ("study",), ("study", "dumps"), ("study", "dumps", 0):
        text = replaced(described, path, value).encode()
        (tmp_path / "c").write_bytes(chunk[:begin] + struct.pack("<Q", len(text)) + text + units)
        done = study.resume(tmp_path / "r.h5", "--take", tmp_path / "c")
        assert done.returncode in (2, 4) or path == ("by",), done.stderr


@pytest.mark.parametrize("what", ["pipe", "folder", "hole", "link"])
def test_chunks_that_are_no_files(study, tmp_path, what):
    place = tmp_path / "c"
    if what == "pipe":
        os.mkfifo(place)
    elif what == "folder":
        place.mkdir()
    elif what == "link":
        place.symlink_to("/dev/zero")
    else:
        place.write_bytes(b"attest chunk 1\n")
        os.truncate(place, 9 << 30)
    assert str(place) in study.resume(tmp_path / "r.h5", "--take", place).stderr
