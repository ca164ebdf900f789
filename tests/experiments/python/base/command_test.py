"""An exception of a script's command becomes one line and an exit code."""
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import tomllib

import pytest

from attest.base import command
from attest.base.command import run_command
from attest.base.errors import AttestError, InputError, OutputError, UsageError


def ends(error):
    def command():
        if error:
            raise error
    return run_command("it", "h5py", command)


@pytest.mark.parametrize("error, code, line", [
    (None, 0, ""),
    (AttestError("general"), 1, "it: general\n"),
    (UsageError("usage"), 2, "it: usage\n"),
    (InputError("a\nb\x1b[2J \ud800 é"), 4, "it: a\\x0ab\\x1b[2J \\ud800 é\n"),
    (OutputError("output"), 5, "it: output\n"),
    (KeyboardInterrupt(), 130, "it: interrupted, nothing was written; run the command again to start over\n"),
])
def test_errors_are_one_line_and_a_code(error, code, line, capsys):
    before = signal.getsignal(signal.SIGINT)
    assert ends(error) == code and capsys.readouterr().err == line
    assert signal.getsignal(signal.SIGINT) is before


def test_a_missing_module_says_how_to_get_it(capsys):
    assert ends(ModuleNotFoundError("No module named 'h5py'")) == 5
    assert capsys.readouterr().err.startswith(f"it: {sys.executable} lacks a module that this command needs, h5py "
                                              "(No module named 'h5py'); ")


@pytest.mark.parametrize("extra, name, into, beside_a_wheel", [
    ("models", "torch", ".venv", "'attest[models]'"), ("llama", "llama-cpp", ".venv", "'attest[llama]'"),
    ("lm_eval", "lm-eval", ".venv", "'attest[lm_eval]'"), ("cluster", "cluster", ".venv", "'attest[cluster]'"),
    ("vllm", "vllm", ".venv-vllm", "vllm")])
def test_each_extra_has_its_advice(extra, name, into, beside_a_wheel, capsys, monkeypatch):
    root = pathlib.Path(os.environ["ATTEST_SOURCE_DIR"])
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert (extra == "vllm" or extra in extras) and (root / f"cmake/requirements-{name}.txt").exists()
    assert f" --{name}) " in (root / "cmake/setup.sh").read_text()
    by_set_up = f"cmake/setup.sh --{name} installs them into {into}"
    # The set-up makes an environment of vLLM for any interpreter, and else installs into .venv alone.
    by_pip = by_set_up if extra == "vllm" else (
        f"{sys.executable} -m pip install -r {root}/requirements.txt -r {root}/cmake/requirements-{name}.txt "
        "installs them")
    for found, prefix, advice in [(root, root / ".venv", by_set_up), (root, "/opt/another", by_pip),
                                  (None, "/opt/another", f"pip install {beside_a_wheel} installs them")]:
        monkeypatch.setattr(command, "checkout", lambda: found)
        monkeypatch.setattr(sys, "prefix", str(prefix))
        assert run_command("it", "x", lambda: __import__("no_such_module"), extra=extra) == 5
        assert capsys.readouterr().err.endswith(f"; {advice}\n")


@pytest.mark.parametrize("module, words, extra", [
    ("capture", ["m", "p.jsonl"], "models"), ("capture", ["m.gguf", "p.jsonl"], "llama"),
    ("capture", ["--last", "4", "m.gguf", "p.jsonl"], "llama"),
    ("capture", ["m", "p.jsonl", "--model-name", "x.gguf"], "models"), ("lm_eval", [], "lm_eval"),
    ("vllm_plugin", ["m", "p.jsonl"], "vllm")])
def test_each_command_names_its_extra(module, words, extra, monkeypatch):
    entry, seen = importlib.import_module(f"attest.{module}.__main__"), []
    monkeypatch.setattr(entry, "run_command", lambda *_, extra="models": seen.append(extra) or 0)
    monkeypatch.setattr(entry, "end_process", lambda code: None)
    entry.main(*[words] * (module != "lm_eval"))
    assert seen == [extra]


def test_output_that_nobody_reads_is_dropped_on_both_streams():
    """What stays in a stream would fail once more at exit, and Python would end with 120."""
    program = ("import sys; from attest.base.command import run_command\n"
               "def command():\n"
               "    print('result')\n"
               "    print('progress', end='', file=sys.stderr)\n"
               "    raise BrokenPipeError\n"
               "sys.exit(run_command('it', '', command))")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run([sys.executable, "-c", program], stdout=writer, stderr=writer, env=environment,
                               timeout=60)
    finally:
        os.close(writer)
    assert ended.returncode == 128 + signal.SIGPIPE
