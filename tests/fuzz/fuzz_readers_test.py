"""Every reader written in C++ on inputs that were kept; and that the driver finds planted defects.

fuzz_readers_slow_test.py runs the readers on made inputs."""
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

FUZZ = os.environ["ATTEST_FUZZ"]
# The planted crash is not AddressSanitizer's to report.
ENVIRONMENT = os.environ | {"ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "handle_segv=0"]))}
READERS = subprocess.run([FUZZ, "--list"], capture_output=True, text=True, check=True).stdout.split()


def fuzz(*arguments):
    return subprocess.run([FUZZ, *map(str, arguments)], env=ENVIRONMENT, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("reader", READERS)
def test_the_inputs_that_were_kept(reader, tmp_path):
    """corpus/READER.zip: a few that each reach other code, or one that is read and some that are refused
    (coverage/keep_corpus.py)."""
    with zipfile.ZipFile(pathlib.Path(__file__).with_name("corpus") / f"{reader}.zip") as zipped:
        zipped.extractall(tmp_path)
    files = sorted(map(str, tmp_path.iterdir()))
    done = fuzz("--reader", reader, "--file", ",".join(files))
    assert done.returncode == 0 and done.stdout.count("\n") == len(files) > 2, done.stdout + done.stderr


@pytest.mark.parametrize("reader, sentence", [
    ("throws", r"no\x1bsentence"), ("crashes", "a crash: Segmentation fault"), ("hangs", "no end after 0.5 s"),
    ("swells", "MiB of memory")])
def test_a_defect_is_found_and_its_input_kept(reader, sentence, tmp_path):
    done = fuzz("--reader", reader, "--runs", 60, "--most-seconds", 0.5, "--most-gib", 0.1, "--failures", tmp_path)
    assert done.returncode == 1 and sentence in done.stdout, done.stdout
    kept = sorted(tmp_path.iterdir())
    assert kept and all(path.read_text() == "bad" and f"--reader {reader} --file {path}" in done.stdout
                        for path in kept)
    assert f" {len(kept)} failed" in done.stdout
    if reader == "throws":
        assert fuzz("--reader", reader, "--file", kept[0]).returncode == 2
        number = re.search(r"-(\d+)\.txt$", str(kept[0]))[1]
        assert fuzz("--reader", reader, "--first", number, "--save", tmp_path / "again").returncode == 0
        assert (tmp_path / "again").read_text() == "bad"


def test_a_finding_that_cannot_be_written_is_said_not_to_be_kept(tmp_path):
    (tmp_path / "file").write_text("")
    done = fuzz("--reader", "throws", "--runs", 60, "--failures", tmp_path / "file" / "folder")
    assert done.returncode == 1 and "--file" not in done.stdout, done.stdout + done.stderr
    kept = re.findall(
        r"  not kept: \S+ cannot be written; again: fuzz_readers (--reader throws --seed 1 --first \d+ --runs 1)\n",
        done.stdout)
    assert f" {len(kept)} failed" in done.stdout and kept
    assert " 1 failed" in fuzz(*kept[0].split(), "--failures", tmp_path).stdout


def test_an_input_is_a_function_of_seed_and_number(tmp_path):
    made = {}
    for name, seed, first in (("a", 1, 7), ("b", 1, 7), ("c", 1, 8), ("d", 2, 7)):
        assert fuzz("--reader", "unit", "--seed", seed, "--first", first, "--save", tmp_path / name).returncode == 0
        made[name] = (tmp_path / name).read_bytes()
    assert made["a"] == made["b"] and made["a"] != made["c"] and made["a"] != made["d"]


def test_the_command_line_says_what_is_wrong():
    done = fuzz("--reader", "nothing")
    assert done.returncode == 2 and done.stderr == (
        "fuzz_readers: --reader: there is no 'nothing'; --list shows the readers\n")


def test_a_campaign_goes_on_where_it_ended(tmp_path):
    """campaign.py: the inputs of two runs are those of one, and so are those of several processes."""
    def campaign(log, most, *options):
        command = [sys.executable, pathlib.Path(__file__).with_name("campaign.py"), FUZZ, tmp_path / log, "--text",
                   most, "--hdf5", 48, "--reader", "unit,tasks",
                   *options]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return re.findall(r"^\| (\w+) \| ([\d,]+) \| ([\d,]+) \| (\d+) \|", done.stdout, re.M)

    assert campaign("a", 300, "--seconds", 0) == []
    first, whole, again = campaign("a", 300), campaign("b", 600, "--jobs", 3), campaign("a", 600)
    assert first[0][:2] == ("unit", "300") and again == whole and again[0][:2] == ("unit", "600") \
        and again[1][0] == "tasks"
    assert campaign("a", 600) == whole
    lines = (tmp_path / "b").read_text().splitlines()
    (tmp_path / "c").write_text("\n".join(lines[:7] + lines[9:]) + "\n")  # two pieces were interrupted
    assert campaign("c", 600) == whole
