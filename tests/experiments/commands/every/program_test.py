"""The program without a command, with an unknown one, and --version."""
import pytest

from attest_program import run_attest as attest


def test_unknown_commands_and_none():
    result = attest("rum")
    assert result.returncode == 2 and result.stderr.startswith("attest: unknown command 'rum'; nearest: 'run'")
    result = attest()
    assert result.returncode == 2 and "attest --help" in result.stderr
    result = attest("run")
    assert result.returncode == 2
    assert attest("--help").returncode == 0 and attest("run", "--help").returncode == 0


def test_version_tells_what_it_stands_on():
    result = attest("--version")
    assert result.returncode == 0
    assert [line.split()[0] for line in result.stdout.splitlines()][:5] == ["attest", "LibTorch", "CUDA", "HDF5", "GPU"]


@pytest.mark.parametrize("command", ["validate", "report", "tasks"])
def test_help_needs_no_file_of_the_sources(command):
    assert ".md" not in attest(command, "--help").stdout
