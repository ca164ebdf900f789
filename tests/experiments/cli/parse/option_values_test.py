"""Every option of the commands in COMMANDS, with values that it does not take: one sentence that names the option, what
was given and what is expected, in none of the words of the library that parses the command line. The tests of the
commands in ELSEWHERE have their options."""

import re
from pathlib import Path

import pytest

from attest_program import attest, run_attest

LIBRARY_WORDS = ["Could not convert", "not in {", "not in range", "Value ", "At Most", "At Least", "required", "INI ",
                 "was not expected",
                 "RequiredError", "internal error"]

COUNT = ("a whole number from 1 to 1048576", ["x", "0", "-1", "1.5", "0x10", "1e3", "99999999999999999999", "''", " 1",
                                              "1 "])
COUNT_OR_NONE = ("a whole number from 0 to 1048576", ["x", "-1", "1.5", "1e999", "''"])
TOKENS = ("a whole number from 1 to 2147483647", ["x", "0", "-5", "1e999", "99999999999999999999", "''"])
REPEATS = ("a whole number from 1 to 1000", ["x", "0", "-1", "1001", "''"])
POSITION = ("a whole number of at least 0", ["x", "-1", "1.5", "99999999999999999999", "''"])
REAL = ("a finite number of at least 0", ["x", "-1", "nan", "inf", "-inf", "1e999", "1,5", "''"])
FILE = ("a file's name", ["''"])
TEXT = ("a name", ["''"])
GRID = ("a list such as", ["''"])
TIME = ("a time of at least 1 ms: seconds such as 90 or 0.5, or H:MM:SS",
        ["x", "0", "-1", "1h", "1:60", "inf", "1e999", "''"])

MEMORY = {"--allow-memory": ("a size such as 16GiB", ["x", "0", "-1", "nan", "12 apples", "1e999", "''"])}

COMMON = {
    "--threads": ("a whole number from 0 to 1024", ["x", "-1", "1025", "1.5", "1e999", "''"]),
    "--seed": ("a whole number from 0 to 18446744073709551615", ["x", "-1", "1.5", "18446744073709551616", "''"]),
    "--config": FILE,
    "--device": ("auto, cpu, cuda, cuda:<number>, cuda:<number>,<number> or cuda:all",
                 ["tpu", "cuda:x", "cuda:-1", "''"]),
    "--device-memory": ("a share of the GPU's memory such as 80%, or a size such as 12GiB",
                        ["lots", "0%", "101%", "-1GiB", "1e999GiB", "''"]),
}
SYNTH = {
    "--output": FILE, "--layers": COUNT, "--samples": COUNT, "--tokens": TOKENS, "--queries": TOKENS,
    "--query-heads": COUNT,
    "--kv-heads": COUNT, "--head-dim": COUNT, "--value-dim": COUNT, "--scale": REAL, "--softcap": REAL,
    "--sliding-window": ("a whole number from 0 to 1099511627776", ["x", "-1", "''"]), "--global-every": COUNT_OR_NONE,
    "--spans": ("a whole number from 0 to 1000", ["x", "-1", "1001", "''"]), "--span-tokens": COUNT,
    "--sink-tokens": COUNT_OR_NONE,
    "--preset": ("one of gemma2-9b, llama31-8b, mla", ["gpt", "''"]), "--profile": ("one of mixed, ", ["round", "''"]),
    "--dtype": ("one of bfloat16, float16, float32", ["half", "''"]),
}
RUN = {
    "--output": FILE,
    "--selector": ("[LABEL=]NAME[:option=value,...]", ["''", "a=", "ffd:bits"]),
    "--delta": ("a delta: a number of at least 0, or inf", ["x", "-1", "nan", "1e999", "5,", "1,,2", "5;7"]),
    "--budget": ("a budget: a whole number of tokens above 0, or a percentage",
                 ["x", "0", "-1", "101%", "1.5", "1e999"]),
    "--p": ("a p: a number above 0 and at most 1", ["x", "0", "1.5", "-1", "nan"]),
    "--factor": ("a factor: a finite number above 0", ["x", "0", "-1", "inf", "1e999"]),
    "--lambdas": ("a finite number of at least 0", ["x", "-1", "inf", "nan"]),
    "--salient-delta": ("a number of at least 0, or inf", ["x", "-1", "nan", "1e999", "''"]),
    "--layers": ("a layer number", ["x", "-1", "1.5", "3-1", "99999999999", "1,,2"]),
    "--queries": ("position", ["some", "-1", "1.5", "99999999999999999999"]),
    "--samples": GRID,
    "--units": ("a list such as 0-7", ["''"]), "--chunk": FILE, "--weights": FILE,
    "--dask": ("an address, a file or local:N", ["''"]),
    "--slurm": ("a list such as partition=gpu,jobs=8", ["''"]),
    "--time-limit": TIME,
}
EMPTY_GRIDS = {name: GRID for name in ("--delta", "--budget", "--p", "--factor", "--lambdas", "--layers")}
AUDIT = {**{name: RUN[name] for name in ("--selector", "--delta", "--budget", "--p", "--factor", "--layers",
                                         "--queries", "--samples")},
         "--roundings": REAL}
IMPORT = {
    "--output": FILE, "--q": ("a pattern such as", ["''"]), "--k": ("a pattern such as", ["''"]),
    "--v": ("a pattern such as", ["''"]),
    "--layout": ("axes such as HTD", ["''"]), "--q-layout": ("axes such as HTD", ["''"]), "--positions": POSITION,
    "--span": ("BEGIN:END", ["1", "x:2", "1:2:3", "''"]), "--scale": REAL, "--softcap": REAL,
    "--sliding-window": POSITION,
    "--window-layers": COUNT_OR_NONE, "--num-layers": COUNT, "--model": TEXT, "--sample": TEXT, "--task": TEXT,
    "--last": COUNT,
}
FIGURES = {"--output": ("a folder's name", ["''"]), "--only": ("one of quality_vs_io, ", ["quality", "''"]),
           "--format": ("one of pdf, svg, png", ["gif", "''"]), "--style": ("one of paper, slides", ["poster", "''"]),
           "--by": ("one of model, task, length", ["layer", "''"]),
           "--width": ("a length such as 3.25in or 84mm, from 1 to 30 in", ["84", "0.5in", "x", "''"])}
BENCH = {
    "--tokens": TOKENS, "--queries": TOKENS, "--layers": COUNT, "--selector": ("a list such as exact,ffd", ["''"]),
    "--sweep-points": ("a whole number from 0 to 1000", ["x", "-1", "1001", "''"]), "--repeats": REPEATS,
    "--peer-repeats": REPEATS,
}
BENCH_KERNEL = {
    "--lengths": ("a number of tokens such as 4096 or 128K, from 1 to 16384K",
                  ["x", "0", "-1", "1.5K", "8K..4K", "16385K", "4K,"]),
    "--batch": ("a whole number from 1 to 1024", ["x", "0", "-1", "1025", "1.5"]),
    "--delta": ("a finite number of at least 0", ["x", "-1", "inf", "nan"]),
    "--keep": ("a share such as 10% or 0.1", ["x", "-1%", "101%", "2", "nan"]), "--dump": FILE, "--output": FILE,
    "--samples": GRID, "--layers": ("a layer number", ["x", "-1", "1.5", "3-1"]),
    "--heads": ("a whole number from 1 to 1024", ["x", "0", "1025"]),
    "--kv-heads": ("a whole number from 1 to 1024", ["x", "0", "1025"]),
    "--head-dim": ("a whole number from 1 to 1024", ["x", "0", "1025"]),
    "--dtype": ("one of float16, bfloat16", ["float32", "''"]),
    "--sub-block": ("one of 16, 32, 64, 128", ["24", "x", "''"]),
    "--only": ("one of kernel_latency, selection_overhead, quant_depth, ablation", ["speed"]), "--repeats": REPEATS,
}
BENCH_MODEL = {
    "--context": BENCH_KERNEL["--lengths"], "--batch": BENCH_KERNEL["--batch"], "--keep": BENCH_KERNEL["--keep"],
    "--dump": FILE,
    "--delta": ("a list such as 5,7", ["''"]), "--dtype": BENCH_KERNEL["--dtype"], "--repeats": REPEATS,
    "--output": FILE,
}
# command -> (other arguments, options). The files are missing: values are checked before files.
COMMANDS = {
    "synth": (["-o", "x.h5"], [SYNTH, COMMON]),
    "run": (["no.h5", "-o", "x.h5"], [RUN, EMPTY_GRIDS, MEMORY, COMMON]),
    "audit": (["no.h5"], [AUDIT, {name: GRID for name in EMPTY_GRIDS if name != "--lambdas"}, MEMORY, COMMON]),
    "import": (["no.npz", "-o", "x.h5"], [IMPORT, COMMON]),
    "figures": (["no.h5", "-o", "x"], [FIGURES, COMMON]),
    "bench study": (["no.h5"], [BENCH, COMMON]),
    "bench kernel": (["--dump", "no.h5"], [BENCH_KERNEL, COMMON]),
    "bench model": ([], [BENCH_MODEL, COMMON]),
    "inspect": (["no.h5"], [MEMORY, COMMON]),
    "list": ([], [COMMON]),
    "demo": ([], [{"--output": ("a folder's name", ["''"])}, COMMON]),
}
ELSEWHERE = {
    "prompts": "../../python/prompts/prompts_command_test.py",
    "capture": "../../python/capture/capture_refusals_torch_test.py",
    "tasks": "../../python/tasks/task_options_torch_test.py", "report": "../../commands/report_test.py",
    "weights": "../../commands/weights_test.py", "table": "../../commands/table_test.py",
    "compare": "../../commands/compare/compare_refusals_test.py",
    "claims": "../../commands/claims_test.py", "validate": "../../commands/validate/validate_inputs_test.py",
    "monitor": "../../commands/monitor_test.py"}
NOT_CHECKED = {"--rope", "--take"}  # any text; perhaps no file
CASES = [(command, option, expected, "" if value == "''" else value)
         for command, (_, tables) in COMMANDS.items() for table in tables
         for option, (expected, values) in table.items()
         for value in values]


def commands_of(*group):
    text = attest(*group, "--help").stdout
    return [" ".join((*group, name)) for name in re.findall(
        r"^  ([a-z]+)  ", text.partition("Subcommands:")[2], re.MULTILINE)]


def test_every_command_is_in_a_table():
    commands = [command for command in commands_of() if command != "bench"] + commands_of("bench")
    assert sorted(commands) == sorted([*COMMANDS, *ELSEWHERE])
    assert all((Path(__file__).parent / test).is_file() for test in ELSEWHERE.values())


def complaint(folder, command, *arguments):
    done = run_attest(*command.split(), *arguments, cwd=folder)
    assert done.returncode == 2 and done.stdout == "", (arguments, done.stderr)
    assert done.stderr.startswith("attest: ") and done.stderr.count("\n") == 1, done.stderr
    assert not [words for words in LIBRARY_WORDS if words in done.stderr], done.stderr
    assert not any(folder.iterdir()), "nothing is written"
    return done.stderr


def without(arguments, option):
    """The other arguments without the option's own value."""
    return arguments[:-2] if option == "--output" and "-o" in arguments else arguments


def test_a_value_that_an_option_does_not_take(tmp_path):
    assert len(CASES) > 200
    for command, option, expected, value in CASES:
        sentence = complaint(tmp_path, command, *without(COMMANDS[command][0], option), f"{option}={value}" if value
                             else option, *[""] * (not value))
        assert f"{option}: " in sentence or f"{option} is " in sentence, (command, option, value, sentence)
        shown = next((part for part in re.split("[,;]", value) if f"'{part}'" in sentence), None)
        assert f"'{value}'" in sentence or shown is not None, (command, option, value, sentence)
        assert expected in sentence, (command, option, value, sentence)


@pytest.mark.parametrize("device", ["cuda:0,0", "cuda:123456"])
def test_tasks_resolves_the_device_itself(device, tmp_path):
    """torch knows no list of GPUs, and would blame the checkpoint for a GPU that is not there."""
    sentence = complaint(tmp_path, "tasks", "--model=no", "--selector=exact", "-o", "t.h5", f"--device={device}")
    assert sentence.startswith(f"attest: --device {device}: ")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_table(command, tmp_path):
    """Also: a value that is missing."""
    text = attest(*command.split(), "--help").stdout
    lines = re.findall(r"^  (?:-\w,)?(--[a-z-]+)(.*)$", text, re.MULTILINE)
    takes_value = [name for name, rest in lines if re.match(r" [A-Z{]", rest)]
    arguments, tables = COMMANDS[command]
    known = set().union(*tables)
    assert set(takes_value) - NOT_CHECKED <= known and len(takes_value) == len(set(takes_value))
    assert "{}" not in text and (command != "synth" or "{bfloat16,float16,float32}" in text)
    for option in sorted(known):
        sentence = complaint(tmp_path, command, *without(arguments, option), option)
        assert f"{option}: the value is missing, expected " in sentence, sentence


def test_options_that_take_one_value_take_no_second(tmp_path):
    assert "--tokens: given 2 times, expected once;" in complaint(
        tmp_path, "synth", "-o", "x.h5", "--tokens", "5", "--tokens", "6")
    assert "--output: given 2 times, expected once;" in complaint(tmp_path, "run", "no.h5", "-o", "x.h5", "-o", "y.h5")


@pytest.mark.parametrize("command, arguments, sentence", [
    ("run", [], "'attest run' needs DUMP, attention dumps; see 'attest run --help'"),
    ("run", ["no.h5"], "'attest run' needs --output, results file to write; see 'attest run --help'"),
    ("figures", ["-o", "x"], "'attest figures' needs RESULTS, "),
    ("import", ["-o", "x"], "'attest import' needs SOURCE, "),
    ("inspect", [], "'attest inspect' needs FILE, the dump, the results file, the task outcomes, or the folder "
                    "R.partial of an unfinished study; see 'attest inspect --help'"),
    ("inspect", ["no.h5", "more.h5"], "unexpected argument 'more.h5'; see 'attest inspect --help'"),
    ("bench", [], "'attest bench' needs one of its commands: study, kernel, model; see 'attest bench --help'"),
    ("bench study", ["a", "b"], "unexpected argument 'b'; see 'attest bench study --help'"),
    ("run", ["no.h5", "--resume=maybe"], "--resume: takes no value, found 'maybe'"),
    ("inspect", ["no.h5", "--quiet=maybe"], "--quiet: takes no value, found 'maybe'"),
    ("synth", ["-o", "x.h5", "--token", "5"], "unknown option '--token'; nearest: '--tokens', "),
    ("synth", ["-x"], "unknown option '-x'; nearest: '--help', '--"),
])
def test_what_is_missing_or_too_much(command, arguments, sentence, tmp_path):
    assert sentence in complaint(tmp_path, command, *arguments)
    assert "'--help', '--help'" not in complaint(tmp_path, command, *arguments)


def test_a_newline_stays_in_a_name(tmp_path):
    def attest(*arguments):
        return run_attest(*arguments, cwd=tmp_path)

    (tmp_path / "c.toml").write_text('[synth]\noutput = "a\\nb.h5"\ntokens = 16\n')
    assert attest("synth", "--config", "c.toml", "--quiet").returncode == 0
    assert attest("synth", "-o", "d\n.h5", "--tokens", "16", "--quiet").returncode == 0
    assert attest("run", "d\n.h5", "-o", "n\nl.h5", "--selector", "exact", "--quiet").returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"c.toml", "a\nb.h5", "d\n.h5", "n\nl.h5"}
    assert attest("inspect", "n\nl.h5").returncode == 0


def test_whole_numbers_are_decimal(tmp_path):
    done = run_attest("synth", "-o", tmp_path / "x.h5", "--tokens", "010", "--quiet")
    assert done.returncode == 0 and " of 10 tokens" in done.stdout
