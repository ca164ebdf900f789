"""A short run of the readers of `attest import` on made inputs; and that a defect is found."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

FUZZ = pathlib.Path(__file__).parent / "fuzz_import.py"


def fuzz(*arguments, **more):
    return subprocess.run([sys.executable, str(FUZZ), *map(str, arguments)], capture_output=True, text=True,
                          timeout=600, **more)


@pytest.mark.parametrize("reader", ["safetensors", "npz", "index", "recording"])
def test_whatever_the_input_it_is_read_or_refused(reader, tmp_path):
    done = fuzz("--reader", reader, "--runs", 800, "--failures", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    accepted, refused = map(int, re.search(r" (\d+) accepted, (\d+) refused", done.stdout).groups())
    assert accepted + refused == 800 and min(accepted, refused) > 40, done.stdout


@pytest.mark.parametrize("defect, sentence", [
    ("raise ValueError('two\\nlines')", r"ValueError: two\x0alines"), ("while True: pass", "Hang: no end after 0.5 s"),
    ("open('/dev/null').close; kept.append(open('/dev/null'))", "a file that stays open")])
def test_a_defect_is_found_and_its_input_kept(defect, sentence, tmp_path):
    planted = tmp_path / "planted.py"
    planted.write_text(f"""import runpy, sys
sys.path[:0] = [{str(FUZZ.parent)!r}]
import fuzz_import
kept = []
def defect(path, source):
    {defect}
fuzz_import.read, fuzz_import.MOST_SECONDS = defect, 0.5
sys.exit(fuzz_import.main())
""")
    failures = tmp_path / "failures"
    os.mkdir(failures)
    done = subprocess.run([sys.executable, str(planted), "--reader", "index", "--runs", "2", "--failures",
                           str(failures)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout.count(sentence) == 2, done.stdout + done.stderr
    assert sorted(path.name for path in failures.iterdir()) == ["attest-fuzz-index-1-0", "attest-fuzz-index-1-1"]
    done = subprocess.run([sys.executable, str(planted), "--reader", "index", "--runs", "2", "--failures",
                           str(tmp_path / "none")],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout.count(sentence) == done.stdout.count("not kept: ") == 2, \
        done.stdout + done.stderr
    assert "--reader index --seed 1 --first 1 --runs 1" in done.stdout
