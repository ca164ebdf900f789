"""A long command says what it is doing: one line kept up to date on a terminal, lines at intervals elsewhere."""

import os
import pty
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(os.environ["ATTEST_SOURCE_DIR"])
NINJA = 'for i in 1 2 3 4; do echo "[$i/4] Building $i"; sleep 1.2; done'


def script(command, after="", interval=1):
    return (f'set -euo pipefail; . {ROOT}/cmake/watch.sh; watch_seconds={interval}; watch "building" "$0.log" bash -c '
            f'\'{command}\' {after}')


def run(tmp_path, *arguments, **options):
    return subprocess.run(["bash", "-c", script(*arguments, **options), str(tmp_path / "x")], capture_output=True,
                          text=True)


def test_lines_at_intervals(tmp_path):
    result = run(tmp_path, NINJA)
    lines = result.stderr.splitlines()
    assert result.returncode == 0 and result.stdout == ""
    assert lines[0] == "attest: building ..." and re.fullmatch(r"attest: building took \d+ s", lines[-1])
    steps = [re.fullmatch(r"attest: building: (\d)/4", line)[1] for line in lines[1:-1]]
    assert len(steps) >= 2 and steps == sorted(steps)
    assert "\r" not in result.stderr
    assert (tmp_path / "x.log").read_text() == "".join(f"[{i}/4] Building {i}\n" for i in range(1, 5))


def test_a_command_without_steps_says_how_long_it_has_taken(tmp_path):
    assert re.search(r"attest: building: \d+ s\n", run(tmp_path, "sleep 3.7").stderr)


def test_one_line_on_a_terminal(tmp_path):
    try:
        master, slave = pty.openpty()
    except OSError as error:  # a root without /dev/pts
        pytest.skip(f"no terminal can be made: {error}")
    process = subprocess.Popen(["bash", "-c", script(NINJA), str(tmp_path / "x")], stderr=slave, stdout=slave,
                               env=os.environ | {"TERM": "xterm"})
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        text += part
    assert process.wait() == 0
    *shown, end = text.decode().split("\r\x1b[K")
    assert re.fullmatch(r"attest: building took \d+ s\r\n", end)
    steps = [re.fullmatch(r"attest: building: (\d)/4", line)[1] for line in shown if line]
    assert len(steps) >= 2 and steps == sorted(steps)


def test_what_is_soon_over_is_not_mentioned(tmp_path):
    assert run(tmp_path, "echo [1/1]").stderr == ""


def test_a_failure_keeps_its_status(tmp_path):
    result = run(tmp_path, "echo broken; exit 3", "|| echo status $?")
    assert result.stdout == "status 3\n" and re.search(r"building failed after \d+ s\n$", result.stderr)


@pytest.mark.parametrize("finished, seconds, text", [(0, 5, "0/180"), (90, 5, "90/180"), (20, 60, "20/180"),
                                                     (90, 100, "90/180, about 2 min left"),
                                                     (150, 100, "150/180, about 20 s left"),
                                                    (60, 95, "60/180, about 3 min left"), (180, 200, "180/180")])
def test_the_time_left(tmp_path, finished, seconds, text):
    (tmp_path / "log").write_text(f"[{finished - 1}/180] a\n[{finished}/180] b\nsome warning [3/4]\n")
    command = f". {ROOT}/cmake/watch.sh; progress_of {tmp_path}/log {seconds}"
    assert subprocess.run(["bash", "-c", command], capture_output=True, text=True).stdout == text + "\n"


def test_an_interruption_ends_the_command(tmp_path):
    mark = tmp_path / "finished"
    process = subprocess.Popen(["bash", "-c", script(f"sleep 3; touch {mark}"), str(tmp_path / "x")],
                               stderr=subprocess.DEVNULL)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    time.sleep(3)
    assert not mark.exists()
