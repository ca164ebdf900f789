"""--config: what is wrong in the file is said with file, line and key."""

import os

import pytest

from attest_program import run_attest



def attest(folder, text, *arguments):
    (folder / "c.toml").write_text(text)
    return run_attest(*arguments, "--config", "c.toml", cwd=folder)


@pytest.mark.parametrize("text, sentence", [
    ("[run]\nselektor = 'ffd'", "line 2: unknown key 'selektor' in [run]; nearest: 'selector', "),
    ("\n[rum]\nselector = 'ffd'", "line 3: unknown section [rum]; nearest: 'run', "),
    ("[bench.studdy]\nrepeats = 3", "line 2: unknown section [bench.studdy]; nearest: 'bench.study', "),
    ("threds = 1", "line 1: unknown key 'threds' before the first [section]; nearest: 'threads', "),
    ("[run]\nthreads = 1", "line 2: unknown key 'threads' in [run]; it is a common option, which stands before the "
                           "first [section]"),
    ("[capture]\nlast = 4", "line 2: unknown key 'last' in [capture], which takes none"),
    ("[run]\nhelp = true", "line 2: unknown key 'help' in [run]; nearest: "),
    ("config = 'x'", "line 1: unknown key 'config' before the first [section]; nearest: "),
    ("threads = 'x'", "line 1: threads: 'x' is not a whole number from 0 to 1024"),
    ("threads = [1, 2]", "line 1: threads: it takes one value, found a list"),
    ("seed = 1.5", "line 1: seed: '1.5' is not a whole number from 0 to 18446744073709551615"),
    ("quiet = 'maybe'", "line 1: quiet: 'maybe' is not true or false"),
    ("quiet = 5", "line 1: quiet: '5' is not true or false"),
    ("[run]\nsalient-delta = -1", "line 2: salient-delta: '-1' is not a number of at least 0, or inf"),
    ("[run]\nlayers = []", "line 2: layers: the list is empty"),
    ("[run]\ndelta = ''", "line 2: delta: '' is not a list such as "),
    ("[synth]\ntokens = 0", "line 2: tokens: '0' is not a whole number from 1 to "),
    ("[figures]\nformat = ['svg', 'gif']", "line 2: format: 'gif' is not one of pdf, svg, png"),
    ("[bench.study]\nrepeats = true", "line 2: repeats: 'true' is not a whole number from 1 to 1000"),
    # What is long is cut.
    ("x" * 900_000 + " = 1", "line 1: unknown key '" + "x" * 200 + "...' before the first [section]; nearest: "),
    ("[" + "x" * 900_000 + "]\na = 1", "line 2: unknown section [" + "x" * 200 + "...]; nearest: "),
    ("threads = '" + "x" * 900_000 + "'", "line 1: threads: '" + "x" * 200 + "...' is not a whole number from 0 to "
                                                                             "1024\n"),
    ("quiet = '" + "x" * 900_000 + "'", "line 1: quiet: '" + "x" * 200 + "...' is not true or false\n"),
    ("[figures]\nonly = '" + "\ufeff" * 300 + "'", "line 2: only: '" + "\\ufeff" * 66 + "...' is not one of "),
    # What the command itself refuses later.
    ("device = 'tpu'", "line 1: --device is 'tpu', expected auto, cpu, cuda, cuda:<number>, cuda:<number>,<number> or "
                       "cuda:all"),
    ("[run]\n\ndelta = [5, 'x']", "line 3: --delta: 'x' is not a delta: "),
    ("[run]\ndelta = [5, 5.0]", "line 2: --delta: '5' and '5.0' are the same"),
    ("[run]\nselector = ['ffd', 'fdd']", "line 2: --selector: unknown selector 'fdd'; nearest: 'ffd'"),
    ("[run]\nselector = 'ffd:bit=2'", "line 2: --selector: selector 'ffd' has no option 'bit'; nearest: 'bits'"),
    ("[run]\nlayers = '3-1'", "line 2: --layers: '3-1' is neither a layer number nor a range"),
])
def test_wrong_options_are_usage_errors(text, sentence, tmp_path):
    done = attest(tmp_path, text, "run", "no.h5", "-o", "x.h5")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"attest: c.toml, {sentence}") and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("text, sentence", [
    ("threads = 1\nthreads = 2", "line 2, column 11: error while parsing key-value pair: cannot redefine existing "
                                 "integer 'threads'"),
    ("[run]\nforce = true\n[synth]\n[run]\n", "line 4, column 1: error while parsing table header: cannot redefine "
                                              "existing table 'run'"),
    ("device = cpu", "line 1, column 10: error while parsing value: could not determine value type"),
    ("seed = 1e999", "line 1, column 13: error while parsing floating-point: '1e999' could not be interpreted"),
    ("[run", "line 1, column 5: error while parsing table header: encountered end-of-file"),
    ("[" + "a." * 20_000 + "a]", "line 1: a name has more than 8 parts"),
    ("a = " + "[" * 500_000, "line 1, column 261: error while parsing value: exceeded maximum nested value depth"),
    ("[run]\nlayers = [[1]]", "line 2: a list has strings, numbers, true and false, found a list in it"),
])
def test_what_is_not_toml_is_bad_input(text, sentence, tmp_path):
    done = attest(tmp_path, text, "run", "no.h5", "-o", "x.h5")
    assert done.returncode == 4 and done.stderr.startswith(f"attest: c.toml, {sentence}") \
        and done.stderr.count("\n") == 1, done.stderr


def test_the_command_line_goes_before_the_file(tmp_path):
    """Its errors are not blamed on the file."""
    done = attest(tmp_path, "device = 'tpu'\n[run]\ndelta = 'x'", "run", "no.h5", "-o", "x.h5", "--delta", "y",
                  "--device", "cpu")
    assert done.returncode == 2 and done.stderr.startswith("attest: --delta: 'y' is not a delta: ")


def test_positional_arguments_and_other_commands_sections(tmp_path):
    text = ("quiet = true\njson = true\n[synth]\noutput = 'x.h5'\ntokens = 9\nforce = false\nqueries = "
            "2\n[inspect]\nFILE = 'x.h5'\n")
    assert attest(tmp_path, text, "synth").returncode == 0
    done = attest(tmp_path, text, "inspect")
    assert done.returncode == 0 and '"num_tokens": 9' in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["no.toml", ".", "pipe"])
def test_a_file_that_cannot_be_read_is_bad_input(name, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = run_attest("list", "--config", name, cwd=tmp_path)
    assert done.returncode == 4 and done.stderr.startswith(f"attest: {name}: ") and done.stderr.count("\n") == 1


def test_a_configuration_file_is_small(tmp_path):
    (tmp_path / "c.toml").write_text("#" * 1_000_001)
    done = run_attest("list", "--config", "c.toml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (4, "attest: c.toml: expected at most 1000000 bytes, found 1000001\n")
