"""What attest run refuses: bad options, and inputs and outputs that cannot be."""
import os

import h5py
import pytest

from attest_program import run_attest as attest
from run_dumps import write_dump


@pytest.fixture
def dump(tmp_path):
    write_dump(tmp_path / "dump.h5")
    return tmp_path / "dump.h5"


@pytest.mark.parametrize("arguments, sentence", [
    (["--selector", "fdd"], "unknown selector 'fdd'; nearest: 'ffd'"),
    (["--selector", "ffd:bit=2"], "selector 'ffd' has no option 'bit'; nearest: 'bits'"),
    (["--selector", "ffd:bits=5"], "selector 'ffd': option 'bits' is '5', expected '2', '1', '3', '4' or '8'"),
    (["--selector", "ffd:bits"], "'bits' is no option=value"),
    (["--selector", "ffd", "--selector", "ffd"], "two selectors have the label 'ffd'"),
    (["--selector", "a=ffd", "--selector", "a=quest"], "two selectors have the label 'a'"),
    (["--selector", "scores=ffd"], "the label must not be 'scores'"),
    (["--delta=-1"], "--delta: '-1' is not a delta"),
    (["--delta", "-1"], "--delta: '-1' is not a delta"),
    (["--p", "1.5"], "--p: '1.5' is not a p"),
    (["--budget", "0"], "--budget: '0' is not a budget"),
    (["--budget", "101%"], "--budget: '101%' is not a budget"),
    (["--layers", "9-8"], "--layers: '9-8' is neither a layer number nor a range"),
    (["--layers", "9-"], "no chosen sample has layer 9; there is 0-1, 4"),
    (["--layers", "0-1,9"], "no chosen sample has layer 9; there is 0-1, 4"),
    (["--layers", "1-99"], "no chosen sample has layers 2-3, 5-99; there is 0-1, 4"),
    (["--delta", "5,5"], "--delta: '5' is there twice"),
    (["--budget", "50%,50.0%"], "--budget: '50%' and '50.0%' are the same"),
    (["--lambdas", "1,1"], "--lambdas: '1' is there twice"),
    (["--samples", "t"], "no dump has a sample 't'; nearest: 's'"),
    (["--queries", "some"], "--queries: 'some' is not a position"),
    (["--queries", "5"], "no chosen sample has a query at position 5"),
    (["--salient-delta", "-2"], "--salient-delta"),
    (["--device", "tpu"], "--device is 'tpu', expected auto, cpu, cuda, cuda:<number>, cuda:<number>,<number> or "
                          "cuda:all"),
    (["--device", "cuda:7"], "--device cuda:7: "),
    (["--device-memory", "lots"], "--device-memory is 'lots', expected a share of the GPU's memory such as 80%, or a "
                                  "size such as 12GiB"),
    (["--device-memory", "0%"], "--device-memory is '0%'"),
    (["--threads", "-1"], "--threads"),
    (["--kivi"], "unknown option '--kivi'; nearest: "),
    (["--selector", "kivi:group=7"], "7"),
])
def test_usage_errors_are_one_sentence(dump, tmp_path, arguments, sentence):
    result = attest("run", dump, "-o", tmp_path / "r.h5", *arguments)
    assert result.returncode == 2, result.stderr
    assert sentence in result.stderr
    assert result.stderr.startswith("attest: ") and result.stderr.count("\n") == 1
    assert set(tmp_path.iterdir()) == {dump}, "nothing is left behind"


def test_a_dump_is_given_once(dump, tmp_path):
    (tmp_path / "link.h5").symlink_to(dump)
    for again in (dump, tmp_path / "link.h5"):
        result = attest("run", dump, again, "-o", tmp_path / "r.h5")
        assert result.returncode == 2
        assert result.stderr == f"attest: '{dump}' and '{again}' are the same dump, expected each once\n"
    assert not (tmp_path / "r.h5").exists()


def test_a_default_selector_that_the_dump_does_not_suit_is_left_out(tmp_path):
    write_dump(tmp_path / "odd.h5", dim=24)
    result = attest("run", tmp_path / "odd.h5", "-o", tmp_path / "r.h5", "--device", "cpu")
    assert result.returncode == 0, result.stderr
    assert "warning: 'kivi' is left out: " in result.stderr
    with h5py.File(tmp_path / "r.h5") as file:
        labels = {name.split("/")[0] for name in file["dumps/0/samples/s"]}
        assert labels - {"scores", "layers", "query_positions"} == {"ffd", "quest", "twilight", "streaming_llm"}
    refused = attest("run", tmp_path / "odd.h5", "-o", tmp_path / "s.h5", "--device", "cpu", "--selector", "kivi")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1


def test_a_gpu_that_is_not_there(dump, tmp_path):
    result = attest("run", dump, "-o", tmp_path / "r.h5", "--device", "cuda",
                    env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
    assert result.returncode == 2
    assert result.stderr == "attest: --device cuda: no GPU was found; expected cpu or auto\n"


def test_an_output_that_exists_is_kept(dump, tmp_path):
    out = tmp_path / "r.h5"
    out.write_text("precious")
    result = attest("run", tmp_path / "no dump is looked at.h5", "-o", out)
    assert result.returncode == 5 and result.stderr == f"attest: '{out}' exists; --force replaces it\n"
    assert out.read_text() == "precious"
    assert attest("run", dump, "-o", out, "--selector", "exact", "--force").returncode == 0
    assert h5py.is_hdf5(out)


def test_an_output_that_cannot_be_written(dump, tmp_path):
    result = attest("run", dump, "-o", tmp_path / "no/folder/r.h5")
    assert result.returncode == 5 and "there is no folder" in result.stderr
    result = attest("run", dump, "-o", tmp_path, "--force")
    assert result.returncode == 5 and "found a folder" in result.stderr
    result = attest("run", dump, "-o", tmp_path / ("L" * 300))
    assert result.returncode == 5 and "File name too long" in result.stderr and "finished" not in result.stderr
    result = attest("run", dump, "-o", "/proc/r.h5")
    assert result.returncode == 5 and "/proc/r.h5" in result.stderr


def test_the_dump_is_never_overwritten(dump):
    before = dump.read_bytes()
    result = attest("run", dump, "-o", dump, "--force")
    assert result.returncode == 2 and "both a dump to read and the results to write" in result.stderr
    assert dump.read_bytes() == before


def test_input_that_is_bad(dump, tmp_path):
    out = tmp_path / "r.h5"
    result = attest("run", tmp_path / "missing.h5", "-o", out)
    assert result.returncode == 4 and "missing.h5" in result.stderr
    (tmp_path / "text.h5").write_text("no HDF5")
    result = attest("run", dump, tmp_path / "text.h5", "-o", out)
    assert result.returncode == 4 and "text.h5" in result.stderr
    assert not out.exists()
