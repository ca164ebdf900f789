"""attest run on the real executable: what it writes, and that threads do not change the results."""
import json

import h5py
import numpy as np
import pytest

from attest_program import run_attest as attest
from near import FLOAT32, assert_near
from run_dumps import arrays, write_dump


@pytest.fixture
def dump(tmp_path):
    write_dump(tmp_path / "dump.h5")
    return tmp_path / "dump.h5"


def test_results_are_as_the_format_says(dump, tmp_path):
    out = tmp_path / "r.h5"
    result = attest("run", dump, "-o", out, "--selector", "b=ffd:block=64", "--selector", "a=quest:dense_layers=1",
                    "--selector", "kivi:residual_length=32", "--delta", "5,2.50", "--budget", "64,12.5%", "--lambdas",
                    "0.5,1")
    assert result.returncode == 0, result.stderr
    assert set(tmp_path.iterdir()) == {dump, out}
    with h5py.File(out) as file:
        assert file.attrs["format"] == "attention-study"
        assert file.attrs["format_version"] == 1
        dump_group = file["dumps/0"]
        assert dump_group.attrs["path"] == str(dump)
        assert dump_group.attrs["model"] == "test/model"
        for name, value in dict(num_query_heads=4, num_kv_heads=2, head_dim=32, value_dim=32, num_layers=6).items():
            assert dump_group.attrs[name] == value
        sample = dump_group["samples/s"]
        assert sample.attrs["task"] == "ruler/test" and sample.attrs["num_tokens"] == 300
        assert sample["layers"].dtype == np.int32 and sample["layers"][()].tolist() == [0, 1, 4]
        assert sample["query_positions"].dtype == np.int64 and sample["query_positions"][()].tolist() == [130, 299]
        assert set(sample["scores"]) == {"lse", "top1_top2_gap", "score_std", "entropy", "span_mass", "layer", "query",
                                         "head"}
        assert sample["scores/lse"].shape == (3, 2, 4)
        group = sample["b"]
        assert group.attrs["selector"] == "ffd" and group.attrs["setting"] == "delta"
        assert json.loads(group.attrs["options"])["block"] == "64"
        assert json.loads(group.attrs["options"])["bits"] == "2"
        assert group["settings"].dtype == np.float64 and group["settings"][()].tolist() == [5, 2.5]
        assert group["setting_labels"].asstr()[()].tolist() == ["5", "2.50"]
        assert group["lambdas"][()].tolist() == [0.5, 1]
        assert group["dense"].dtype == np.uint8 and group["dense"][()].tolist() == [0, 0, 0]
        assert group["done"].dtype == np.uint8 and group["done"][()].tolist() == [1, 1, 1]
        for name in ["recall", "output_error", "lse_error", "mass_recall", "keep_ratio", "io_ratio", "salient_hit_rate",
                     "salient_hit_rate_fixed", "salient_ratio", "missed_salient_mass", "dropped_gap",
                     "block_keep_ratio",
                     "span_keep", "span_mass_kept"]:
            assert group[name].shape == (3, 2, 4, 2) and group[name].dtype == np.float32, name
            assert [d.label for d in group[name].dims] == ["layer", "query", "head", "setting"]
        for name in ["spearman", "pearson", "spearman_block16", "spearman_block128", "scan_error_mean",
                     "scan_error_std",
                     "scan_error_max", "pseudo_max_gap_exact", "pseudo_max_gap_thumbnail", "pseudo_max_gap_all"]:
            assert group[name].shape == (3, 2, 4) and group[name].dtype == np.float32, name
            assert [d.label for d in group[name].dims] == ["layer", "query", "head"]
        assert group["recall_layer"].shape == group["span_lost"].shape == (3, 2, 2)
        tokens = [*range(20, 40), *range(100, 110)]
        assert group["span_tokens"].dtype == np.int64 and group[
            "span_tokens"][()].tolist() == group["token"][()].tolist() == tokens
        heads = group["span_token_heads"]
        assert heads.shape == (3, 2, 2, 30) and [d.label for d in heads.dims] == ["layer", "query", "setting", "token"]
        assert_near(group["span_keep"][()].sum(2), heads[()].mean(-1), rel=FLOAT32)
        assert_near(group["span_lost"][()], (heads[()] == 0).mean(-1), rel=FLOAT32)
        assert (sample["a/span_lost"][0] == 0).all() and (sample["a/span_token_heads"][0] == 4).all(), "a dense layer"
        assert [d.label for d in group["recall_layer"].dims] == ["layer", "query", "setting"]
        assert [d.label for d in group["scan_error_tail"].dims] == ["layer", "query", "head", "lambda"]
        assert [d.label for d in group["settings"].dims] == ["setting"]
        assert sample["a/settings"][()].tolist() == [64, 12.5]
        assert sample["a/dense"][()].tolist() == [1, 0, 0]
        kivi = sample["kivi:residual_length=32"]
        assert kivi.attrs["setting"] == "none"
        assert kivi["settings"][()].tolist() == [0] and kivi["setting_labels"].asstr()[()].tolist() == [""]
        # Recomputes the exact scores with plain numpy.
        with h5py.File(dump) as source:
            layer = source["samples/s/layers/1"]
            q, k = layer["q"][1, 3].astype(float), layer["k"][1].astype(float)
        scores = k @ q / np.sqrt(32)
        assert_near(sample["scores/lse"][1, 1, 3], np.log(np.exp(scores).sum()), rel=FLOAT32)


def test_the_manifest_tells_how(dump, tmp_path):
    out = tmp_path / "r.h5"
    assert attest("run", dump, "-o", out, "--selector", "ffd", "--delta", "5", "--threads", 1, "--device",
                  "cpu").returncode == 0
    with h5py.File(out) as file:
        manifest = json.loads(file.attrs["manifest"])
    options = ["--selector", "ffd", "--delta", "5", "--threads", "1", "--device", "cpu"]
    assert manifest["command_line"][1:] == ["run", str(dump), "-o", str(out)] + options
    assert manifest["configuration"]["selectors"][0]["options"]["gqa"] == "union"
    assert manifest["program"]["version"] and manifest["program"]["git_commit"]
    assert manifest["device"] == "CPU, 1 thread"
    assert manifest["precision"]
    assert manifest["start_time"] <= manifest["end_time"] and manifest["end_time"].endswith("Z")
    (entry,) = manifest["inputs"]
    assert entry["path"] == str(dump) and entry["bytes"] == dump.stat().st_size and len(entry["xxh64_of_1MiB"]) == 16


def test_threads_change_no_bit(dump, tmp_path):
    for threads in [1, 2, 3]:
        result = attest("run", dump, "-o", tmp_path / f"{threads}.h5", "--threads", threads)
        assert result.returncode == 0, result.stderr
    first = arrays(tmp_path / "1.h5")
    assert len(first) > 50
    assert arrays(tmp_path / "2.h5") == first
    assert arrays(tmp_path / "3.h5") == first


def test_without_selectors_the_usual_ones_are_compared(dump, tmp_path):
    result = attest("run", dump, "-o", tmp_path / "r.h5", "--json", "--quiet")
    assert result.returncode == 0 and result.stderr == ""
    document = json.loads(result.stdout)
    assert {row["label"] for row in document["rows"]} == {"ffd", "quest", "kivi", "twilight", "streaming_llm"}
    assert document["dense_layers"] == [0, 1]
    assert document["results"] == str(tmp_path / "r.h5")


def test_everything_kept_with_exact_residuals_is_exact_attention(dump, tmp_path):
    out = tmp_path / "r.h5"
    result = attest("run", dump, "-o", out, "--selector", "all=ffd:block=64,residual=exact", "--delta", "inf")
    assert result.returncode == 0
    with h5py.File(out) as file:
        group = file["dumps/0/samples/s/all"]
        assert np.abs(group["recall"][()] - 1).max() < 1e-6
        assert group["lse_error"][()].max() < 1e-6
        assert (group["keep_ratio"][()] == 1).all()
    assert "warning: selector 'all' dropped nothing at any setting" in result.stderr


def test_a_selector_that_drops_something_is_not_warned_about(dump, tmp_path):
    result = attest("run", dump, "-o", tmp_path / "r.h5", "--selector", "streaming_llm", "--budget", "16,100%")
    assert result.returncode == 0
    assert "warning" not in result.stderr


def test_layers_samples_and_queries_are_chosen(tmp_path):
    dump, out = tmp_path / "dump.h5", tmp_path / "r.h5"
    write_dump(dump, samples=("a", "b", "c"))
    result = attest("run", dump, "-o", out, "--selector", "exact", "--layers", "1,2-", "--samples", "a,c", "--queries",
                    "last:1")
    assert result.returncode == 0, result.stderr
    with h5py.File(out) as file:
        samples = file["dumps/0/samples"]
        assert set(samples) == {"a", "c"}
        assert samples["c/layers"][()].tolist() == [1, 4]
        assert samples["c/query_positions"][()].tolist() == [299]


def test_several_dumps_and_the_summary_table(dump, tmp_path):
    other = tmp_path / "other.h5"
    write_dump(other, layers=(2,), heads=2, kv_heads=1, dim=32)
    result = attest("run", dump, other, "-o", tmp_path / "r.h5", "--selector", "ffd:block=64", "--delta", "5,7")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert lines[0].split()[:7] == ["selector", "setting", "span", "recall", "min", "recall", "min"]
    assert lines[1].startswith("ffd:block=64  delta 5") and lines[2].startswith("ffd:block=64  delta 7")
    with h5py.File(tmp_path / "r.h5") as file:
        recall = np.concatenate([file[f"dumps/{d}/samples/s/ffd:block=64/recall"][..., 0].ravel() for d in (0, 1)])
    assert float(lines[1].split()[5]) == pytest.approx(recall.mean(), abs=1e-5)
    assert float(lines[1].split()[6]) == pytest.approx(recall.min(), abs=1e-5)


def test_progress_is_plain_lines_when_stderr_is_no_terminal(dump, tmp_path):
    result = attest("run", dump, "-o", tmp_path / "r.h5", "--selector", "exact", "--device", "cpu")
    assert "\r" not in result.stderr and "\033" not in result.stderr
    last = [line for line in result.stderr.splitlines() if "layers" in line][-1]
    assert last.startswith("3 of 3 layers, ") and "layers/s" in last
    assert any(line.startswith("device: CPU") for line in result.stderr.splitlines())


def test_options_come_from_a_file(dump, tmp_path):
    config = tmp_path / "study.toml"
    config.write_text(
        'threads = 1\n[run]\nselector = ["a=ffd:block=64,bits=4", "quest:dense_layers=0"]\ndelta = "5,7"\nbudget = '
        '[64, 128]\n')
    result = attest("run", dump, "-o", tmp_path / "r.h5", "--config", config, "--delta", "3")
    assert result.returncode == 0, result.stderr
    with h5py.File(tmp_path / "r.h5") as file:
        sample = file["dumps/0/samples/s"]
        assert json.loads(sample["a"].attrs["options"])["bits"] == "4"
        assert sample["a/settings"][()].tolist() == [3], "the command line goes before the file"
        assert sample["quest:dense_layers=0/settings"][()].tolist() == [64, 128]
    config.write_text("[run]\nselektor = \"ffd\"\n")
    result = attest("run", dump, "-o", tmp_path / "x.h5", "--config", config)
    assert result.returncode == 2 and "selektor" in result.stderr
    result = attest("run", dump, "-o", tmp_path / "x.h5", "--config", tmp_path / "missing.toml")
    assert result.returncode == 4
