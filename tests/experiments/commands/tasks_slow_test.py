"""`attest tasks` as a user runs it: selectors and grids, refusals, a config file, and going on after an end."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import h5py
import pytest

from attest.tasks.options import make_parser
from attest_program import ATTEST, attest, run_attest
from task_runs_maker import answered_prompts, model_folder, write_lines  # noqa: F401

EPOCH = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
COMMON = ["--tokenizer", "bytes", "--device", "cpu", "--threads", "1"]
STREAMING = ["--selector", "streaming_llm", "--budget", "8,16,25%,100%"]


@pytest.fixture(scope="module")
def prompts(model_folder):  # noqa: F811
    return answered_prompts(model_folder, 24)


def run(folder, *arguments, expect=0):
    return attest("tasks", *arguments, cwd=folder, env=EPOCH, expect=expect)


def refusal(folder, *arguments, expect):
    before = sorted(folder.iterdir())
    error = run(folder, *arguments, expect=expect).stderr
    assert len(error.splitlines()) == 1 and error.startswith("attest: "), error
    assert sorted(folder.iterdir()) == before
    return error


def test_runs_are_those_of_selectors_and_grids(model_folder, prompts, tmp_path):  # noqa: F811
    write_lines(tmp_path / "p.jsonl", prompts[:2])
    said = run(tmp_path, "--model", model_folder, *COMMON, "--prompts", "p.jsonl", "-o", "t.h5", "--selector",
               "few=streaming_llm:sink=1", "--selector", "exact", "--selector", "topdelta", "--budget", "8:24:8",
               "--budget", "25%", "--delta", "inf", "--p", "0.5", "--forced", "--json")
    assert "warning: --p 0.5 is not used" in said.stderr
    summary = json.loads(said.stdout)
    assert summary["answered"] == "forced" and summary["prompts"] == {"own": 2}
    with h5py.File(tmp_path / "t.h5") as file:
        runs = {name: (d.asstr() if h5py.check_string_dtype(d.dtype) else d)[()].tolist()
                for name, d in file["runs"].items()}
        manifest = json.loads(file.attrs["manifest"])
    assert runs["label"] == ["dense", *["few"] * 4, "exact", "topdelta"]
    assert runs["selector"] == ["exact", *["streaming_llm"] * 4, "exact", "topdelta"]
    assert runs["setting_kind"] == ["none", *["budget"] * 4, "none", "delta"]
    assert runs["setting"] == [0, 8, 16, 24, 25, 0, float("inf")]
    assert runs["setting_percent"] == [0, 0, 0, 0, 1, 0, 0]
    assert json.loads(runs["options"][1])["sink"] == "1" and "gqa" in json.loads(runs["options"][6])
    assert manifest["command_line"][1] == "tasks" and manifest["program"]["name"] == "attest"
    assert [row["setting"] for row in summary["runs"]] == ["", "8", "16", "24", "25%", "", "inf"]


def test_the_options_of_a_run_are_those_of_attest_run(model_folder, prompts, tmp_path):  # noqa: F811
    """Outcomes are joined with results by sample name, label, selector, options and setting."""
    write_lines(tmp_path / "p.jsonl", prompts[:2])
    run(tmp_path, "--model", model_folder, *COMMON, "--prompts", "p.jsonl", "-o", "t.h5", *STREAMING, "--dump", "d.h5")
    attest("run", "d.h5", "-o", "r.h5", *STREAMING, "--quiet", cwd=tmp_path)
    with h5py.File(tmp_path / "t.h5") as outcomes, h5py.File(tmp_path / "r.h5") as results:
        samples = results["dumps/0/samples"]
        assert sorted(samples) == sorted(outcomes["prompts/name"].asstr()[()])
        assert results["dumps/0"].attrs["model"] == outcomes.attrs["model"]
        study = samples["p0/streaming_llm"]
        runs = outcomes["runs"]
        assert set(runs["options"].asstr()[1:]) == {study.attrs["options"]}
        assert set(runs["setting_kind"].asstr()[1:]) == {study.attrs["setting"]}
        assert runs["setting"][1:].tolist() == study["settings"][()].tolist()
        assert runs["setting_label"].asstr()[1:].tolist() == study["setting_labels"].asstr()[()].tolist()


def test_config_file(model_folder, prompts, tmp_path):  # noqa: F811
    write_lines(tmp_path / "p.jsonl", prompts[:1])
    (tmp_path / "c.toml").write_text('threads = 1\ndevice = "cpu"\n[tasks]\ntokenizer = "bytes"\nprompts = "p.jsonl"\n'
                                     f'model = "{model_folder}"\nforced = true\noutput = "t.h5"\n'
                                     'selector = ["streaming_llm"]\nbudget = [8, "25%"]\nlayers = [0, "2-3"]\n')
    run(tmp_path, "--config", "c.toml")
    with h5py.File(tmp_path / "t.h5") as file:
        assert file["runs/setting"][()].tolist() == [0, 8, 25]
        assert json.loads(file.attrs["manifest"])["layers"] == [0, 2, 3]
    (tmp_path / "c.toml").write_text("[tasks]\nbudgt = 8\n")
    assert "c.toml, line 2: unknown key 'budgt' in [tasks]" in refusal(tmp_path, "--config", "c.toml", expect=2)


@pytest.mark.parametrize("options, code, sentence", [
    ([], 2, "--selector is required"),
    (["--selector", "fdf"], 2, "'ffd'"),
    (["--selector", "ffd", "--delta", "1,1.0"], 2, "--delta: '1' and '1.0' are the same"),
    (["--selector", "a=ffd", "--selector", "a=quest"], 2, "two selectors have the label 'a'"),
    (["--selector", "dense=ffd"], 2, "the label 'dense' is that of the run without a selector"),
    (["--selector", "imported:path=x.h5"], 2, "--selector: selector 'imported'"),
    (["--selector", "exact", "--prompts", "p.txt"], 2, "'p.txt' is not a number of prompts"),
    (["--selector", "exact", "--prompts", "no.jsonl"], 4, "no.jsonl: cannot be read (No such file"),
    (["--selector", "exact", "--model", "./none"], 4, "./none: no such folder"),
    (["--selector", "exact", "--prompts", "unanswered.jsonl"], 4, 'unanswered.jsonl:2: no "answer", or an empty one'),
])
def test_bad_input(options, code, sentence, model_folder, tmp_path):  # noqa: F811
    write_lines(tmp_path / "unanswered.jsonl", [{"text": "x", "answer": "y"}, {"text": "x"}])
    given = [] if "--model" in options else ["--model", model_folder]
    assert sentence in refusal(tmp_path, *given, "-o", "t.h5", *COMMON, "--quiet", *options, expect=code)


def start(folder, arguments):
    return subprocess.Popen([ATTEST, "tasks", *arguments], cwd=folder, env=EPOCH, stderr=subprocess.PIPE, text=True)


def wait_for(path, process):
    deadline = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[1]
        time.sleep(0.002)


@pytest.mark.parametrize("number, code", [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_resume(number, code, model_folder, prompts, tmp_path):  # noqa: F811
    arguments = ["--model", model_folder, *COMMON, "--prompts", "p.jsonl", "-o", "t.h5", *STREAMING, "--dump", "d.h5"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    write_lines(whole / "p.jsonl", prompts)
    run(whole, *arguments)
    for _ in range(5):  # on a busy machine the signal may come when all prompts are answered
        shutil.rmtree(broken, ignore_errors=True)
        broken.mkdir()
        write_lines(broken / "p.jsonl", prompts)
        process = start(broken, arguments)
        wait_for(broken / "t.h5.partial/prompt-1.json", process)
        process.send_signal(number)
        said = process.communicate()[1]
        finished = len(list((broken / "t.h5.partial").glob("prompt-*.json")))
        if finished < len(prompts):
            break
    assert process.returncode == code, said
    if number == signal.SIGINT:
        assert "prompts finished; the same command with --resume goes on" in said
    assert not (broken / "t.h5").exists() and not (broken / "d.h5").exists()
    assert 2 <= finished < len(prompts)
    shown = run_attest("inspect", "t.h5.partial", cwd=broken)
    assert shown.returncode == 0 and f"{finished} prompts are finished. The same 'attest tasks' command" in shown.stdout

    error = run(broken, *arguments, expect=5).stderr
    assert "t.h5.partial: holds unfinished outcomes; continue with --resume, or start over with --force" in error
    error = run(broken, *arguments, "--resume", "--forced", expect=2).stderr
    assert 'cannot resume t.h5.partial: it was started with answered "greedy", and not "forced"' in error
    config = pathlib.Path(model_folder, "config.json")
    times = config.stat()
    os.utime(config, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    error = run(broken, *arguments, "--resume", expect=2).stderr
    assert "cannot resume t.h5.partial: it was started with checkpoint.files." in error
    os.utime(config, ns=(times.st_atime_ns, times.st_mtime_ns))
    damaged = broken / "t.h5.partial/prompt-0.json"
    damaged.write_text(damaged.read_text()[:40])
    resumed = run(broken, *arguments, "--resume")
    assert f"resumed: {finished - 1} of {len(prompts)} prompts were finished before" in resumed.stderr
    assert (broken / "t.h5").read_bytes() == (whole / "t.h5").read_bytes()
    assert (broken / "d.h5").read_bytes() == (whole / "d.h5").read_bytes()
    assert sorted(p.name for p in broken.iterdir()) == ["d.h5", "p.jsonl", "t.h5"]


def test_one_process_at_a_time_and_force(model_folder, prompts, tmp_path):  # noqa: F811
    write_lines(tmp_path / "p.jsonl", prompts)
    arguments = ["--model", model_folder, *COMMON, "--prompts", "p.jsonl", "-o", "t.h5", *STREAMING]
    process = start(tmp_path, arguments)
    wait_for(tmp_path / "t.h5.partial/prompt-0.json", process)
    os.kill(process.pid, signal.SIGSTOP)
    assert "t.h5.partial: another process works here" in run(tmp_path, *arguments, "--force", expect=5).stderr
    process.kill()
    process.communicate()
    (tmp_path / "t.h5.partial/mine.txt").write_text("mine")
    assert "resumed" not in run(tmp_path, *arguments, "--force").stderr
    assert [p.name for p in (tmp_path / "t.h5.partial").iterdir()] == ["mine.txt"]
    assert "t.h5: exists already, expected a new file (or --force)" in run(tmp_path, *arguments, expect=5).stderr


def test_inspect(model_folder, prompts, tmp_path):  # noqa: F811
    write_lines(tmp_path / "p.jsonl", prompts[:2])
    table = run(tmp_path, "--model", model_folder, *COMMON, "--prompts", "p.jsonl", "-o", "t.h5", *STREAMING).stdout

    def inspect(*arguments, expect=0):
        return attest("inspect", *arguments, cwd=tmp_path, expect=expect)

    shown = inspect("t.h5").stdout
    assert shown.startswith("t.h5: task outcomes of model '") and ", 2 prompts, 5 runs, greedy\n\n" in shown
    assert table.rsplit("Outcomes:", 1)[0].strip() in shown
    assert json.loads(inspect("t.h5", "--json").stdout)["prompts"] == {"own": 2}
    assert "these are task outcomes" in inspect("t.h5", "--check", expect=2).stderr
    with h5py.File(tmp_path / "t.h5", "r+") as file:
        del file["outcomes/exact"]
    assert "t.h5: /outcomes: 'exact' is missing" in inspect("t.h5", expect=4).stderr


def test_help_shows_all_options():
    """Those that the program hands over, and common ones."""
    shown = [attest(*words, "--help").stdout for words in (["tasks"], [])]
    options = {option for action in make_parser()._actions for option in action.option_strings} - {"--request"}
    assert len(options) > 25
    for option in options | {"--selector", "--delta", "--budget"}:
        assert re.search(rf"(^|,| ){option}\b(?!-)", "".join(shown), re.MULTILINE), option
