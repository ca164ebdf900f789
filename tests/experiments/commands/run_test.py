"""attest run on the real executable: what it writes, what it refuses, and that threads do not change the results."""

import json
import os
import re

import h5py
import numpy as np
import pytest

from attest_program import run_attest as attest
import dump_maker
from near import CELL, FLOAT32, assert_near


def write_dump(path, layers=(0, 1, 4), tokens=300, heads=4, kv_heads=2, dim=32, positions=(130, 299), bad=None,
               samples=("s",)):
    """Random values. `bad` is placed once in k of the last layer."""
    def values(random, number):
        q = 3 * random.standard_normal((len(positions), heads, dim)).astype(np.float16)
        k, v = random.standard_normal((2, kv_heads, tokens, dim)).astype(np.float16)
        if bad is not None and number == layers[-1]:
            k[1, 37, 5] = bad
        return q, k, v

    dump_maker.write_dump(path, values, seed=7, layers=layers, tokens=tokens, heads=heads, kv_heads=kv_heads, dim=dim,
                          positions=positions,
                          samples=samples, task="ruler/test", spans=[[20, 40], [100, 110]])


@pytest.fixture
def dump(tmp_path):
    write_dump(tmp_path / "dump.h5")
    return tmp_path / "dump.h5"


def arrays(path):
    """Every data set and attribute of a results file except the manifest, as bytes."""
    found = {}

    def visit(name, item):
        for key, value in item.attrs.items():
            found[f"{name}@{key}"] = repr(value)
        if isinstance(item, h5py.Dataset):
            value = item[()]
            found[name] = (str(value.dtype), value.shape, value.tolist() if value.dtype == object else value.tobytes())

    with h5py.File(path) as file:
        file.visititems(visit)
    return found


# ---- what is written


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


# ---- what is refused


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


def test_a_bad_value_in_a_query_that_nobody_studies(dump, tmp_path):
    with h5py.File(dump, "r+") as file:
        for layer in file["samples/s/layers"].values():
            layer["q"][0, 1, 2] = np.nan
    refused = attest("run", dump, "-o", tmp_path / "r.h5", "--device", "cpu", "--selector", "exact")
    assert refused.returncode == 4 and "NaN" in refused.stderr
    studied = attest("run", dump, "-o", tmp_path / "r.h5", "--device", "cpu", "--selector", "exact", "--queries",
                     "last:1")
    assert studied.returncode == 0, studied.stderr


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


@pytest.mark.parametrize("value, name", [(np.nan, "NaN"), (np.inf, "Inf")])
def test_bad_values_are_refused_or_left_out(tmp_path, value, name):
    dump, out = tmp_path / "bad.h5", tmp_path / "r.h5"
    write_dump(dump, bad=value)
    result = attest("run", dump, "-o", out, "--selector", "exact")
    assert result.returncode == 4
    assert "sample 's', layer 4, k, head 1: " in result.stderr and "token 37" in result.stderr
    assert not out.exists()
    advice = re.search("; the same command with (.*) leaves this layer out", result.stderr)[1].split()
    result = attest("run", dump, "-o", out, "--selector", "exact", *advice)
    assert result.returncode == 0 and "the layer is left out" in result.stderr
    assert "resumed: 2 of 3 layers were finished before" in result.stderr
    with h5py.File(out) as file:
        group = file["dumps/0/samples/s/exact"]
        assert group["done"][()].tolist() == [1, 1, 0]
        assert np.isnan(group["recall"][2]).all() and not np.isnan(group["recall"][:2]).any()
        manifest = json.loads(file.attrs["manifest"])
        assert manifest["layers_left_out"] == [{"dump": 0, "sample": "s", "layer": 4}] \
            and manifest["skip_bad_layers"] is True
    resumed = arrays(out)
    assert attest("run", dump, "-o", out, "--selector", "exact", "--skip-bad-layers",
                  "--resume").stderr.count("complete already") == 1
    refused = attest("run", dump, "-o", out, "--selector", "exact", "--resume")
    assert refused.returncode == 2 and "made with other options" in refused.stderr, "this one leaves no layer out"
    assert attest("run", dump, "-o", out, "--selector", "exact", *advice, "--force").returncode == 0
    assert attest("run", dump, "-o", out, "--selector", "exact", "--skip-bad-layers", "--force").returncode == 0
    assert arrays(out) == resumed
    assert attest("run", dump, "-o", out, "--selector", "exact", "--skip-bad-layers", "--layers", "4",
                  "--force").returncode == 0
    empty = attest("table", out)
    assert empty.returncode == 4 and "no layer was studied, because --skip-bad-layers left all out" in empty.stderr


@pytest.mark.parametrize("queries, selectors, what", [
    (1.0, [], "the score of token 37 is"),
    (0.0, ["--selector", "exact", "--selector", "four=twilight:dense_layers=0"],
     "the score that selector 'four' estimates for token 37 is"),
])
def test_finite_values_that_overflow_are_refused_or_left_out(tmp_path, queries, selectors, what):
    """One key of layer 4 holds both ends of the range of float32. It must not matter to queries that are 0 there, but a
    quantiser's range overflows."""
    def values(random, number):
        q, k, v = (random.standard_normal(shape, np.float32) for shape in ((2, 4, 32), (2, 300, 32), (2, 300, 32)))
        if number == 4:
            q[:, :, 5:7] = queries
            k[1, 37, 5:7] = 3.3e38, -3e38
        return q, k, v

    dump, out = tmp_path / "extreme.h5", tmp_path / "r.h5"
    dump_maker.write_dump(dump, values, seed=8, layers=(0, 1, 4), tokens=300, heads=4, kv_heads=2, dim=32,
                          positions=(130, 299))
    assert attest("inspect", dump, "--check").returncode == 0, "every value is finite"
    command = ["run", dump, "-o", out, "--device", "cpu", *selectors]
    result = attest(*command, timeout=60)
    said = (f"{dump}: sample 's', layer 4, query head 2, query at 130: {what} NaN or beyond 1.15e+18, the largest that "
            "is studied")
    assert result.returncode == 4
    assert result.stderr.splitlines()[-1] == (f"attest: {said}; the same command with --skip-bad-layers --resume "
                                              "leaves this layer out")
    assert not out.exists()
    result = attest(*command, "--skip-bad-layers", "--resume", timeout=60)
    assert result.returncode == 0 and f"warning: {said}; the layer is left out" in result.stderr
    assert "resumed: 2 of 3 layers were finished before" in result.stderr
    with h5py.File(out) as file:
        assert json.loads(file.attrs["manifest"])["layers_left_out"] == [{"dump": 0, "sample": "s", "layer": 4}]


def test_a_soft_cap_that_float32_cannot_hold_is_refused(dump, tmp_path):
    with h5py.File(dump, "a") as file:
        file.attrs["logit_softcap"] = 5e-324
    result = attest("run", dump, "-o", tmp_path / "r.h5")
    assert result.returncode == 4
    assert result.stderr.endswith(
        "attribute 'logit_softcap' is 4.94066e-324, expected a number that float32 holds, 1.2e-38 to 3.4e+38\n")


@pytest.mark.parametrize("begun_with", [["--force"], ["--resume"], ["--force", "--resume"]])
def test_the_advice_on_bad_values_works_whatever_the_command_was(tmp_path, begun_with):
    dump, out = tmp_path / "bad.h5", tmp_path / "r.h5"
    write_dump(dump, layers=(0, 1), bad=np.nan)
    write_dump(tmp_path / "good.h5", layers=(2,))
    if "--force" in begun_with:
        assert attest("run", tmp_path / "good.h5", "-o", out, "--selector", "exact").returncode == 0
    for layers, resumed in [(["--layers", "1"], 0), ([], 1)]:
        command = ["run", dump, "-o", out, "--selector", "exact", *layers, *begun_with]
        advice = re.search("; the same command with (.*) leaves this layer out", attest(*command).stderr)[1].split()
        result = attest(*command, *advice)
        assert result.returncode == 0, result.stderr
        assert ("resumed: 1 of 2" in result.stderr) == bool(resumed)
        if "--force" not in begun_with:
            out.unlink()


# ---- what is said


def warnings_of(dump, out, *options):
    result = attest("run", dump, "-o", out, "--force", *options)
    assert result.returncode == 0, result.stderr
    return [line for line in result.stderr.splitlines() if line.startswith("warning: ")]


def test_a_grid_that_nobody_uses_is_said(dump, tmp_path):
    out = tmp_path / "r.h5"
    (warning,) = warnings_of(dump, out, "--selector", "ffd:block=64", "--budget", "64,50%", "--delta", "0,1")
    assert warning.startswith("warning: --budget 64,50% is not used: no selector of this study takes it, as quest, ")
    assert warnings_of(dump, out, "--selector", "ffd:block=64,rule=topk", "--budget", "64,50%") == []
    sentence = "warning: --factor 5 is not used: no selector of this study takes it, as skip_softmax:unit=factor would"
    assert sentence in warnings_of(dump, out, "--selector", "exact", "--factor", "5")
    quiet = attest("run", dump, "-o", out, "--force", "--selector", "exact", "--p", "0.5", "--quiet")
    assert quiet.returncode == 0 and quiet.stderr == ""


def test_one_selector_under_two_labels_is_said(dump, tmp_path):
    options = ["--selector", "a=ffd:block=64", "--selector", "b=ffd:block=64,bits=2", "--selector", "c=ffd:block=128",
               "--delta", "0"]
    assert warnings_of(dump, tmp_path / "r.h5", *options) == [
        "warning: 'a' and 'b' are the same selector, 'ffd' with the same options"]


def test_fewer_queries_and_samples_than_asked_are_said(dump, tmp_path):
    other = tmp_path / "other.h5"
    write_dump(other, layers=(2,), positions=(7,), samples=("t", "u"))
    last = warnings_of(dump, tmp_path / "r.h5", "--selector", "exact", "--queries", "last:9")
    assert last == ["warning: --queries last:9: all queries are taken of the samples that have fewer: 's' (2)"]
    assert warnings_of(dump, tmp_path / "r.h5", "--selector", "exact", "--queries", "last:2") == []
    result = attest("run", dump, other, "-o", tmp_path / "r.h5", "--force", "--selector", "exact", "--layers", "4")
    assert "warning: samples without any of the chosen layers or queries are left out: 't', 'u'\n" in result.stderr


def test_models_are_not_averaged(dump, tmp_path):
    """A row for each model; the dumps of one model are pooled."""
    others = [tmp_path / "1.h5", tmp_path / "2.h5"]
    for path, layers in zip(others, [(1,), (2,)], strict=True):
        write_dump(path, layers=layers, heads=2, kv_heads=1)
        with h5py.File(path, "r+") as file:
            file.attrs["model"] = "other\x1b[1m"
    command = ["run", others[0], dump, others[1], "-o", tmp_path / "r.h5", "--selector", "ffd:block=64", "--delta",
               "0,1"]
    result = attest(*command)
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["model", "selector", "setting"]
    assert [line.split()[0] for line in lines[1:5]] == ["other\\x1b[1m"] * 2 + ["test/model"] * 2
    rows = json.loads(attest(*command, "--resume", "--json").stdout)["rows"]
    with h5py.File(tmp_path / "r.h5") as file:
        for row, dumps, setting in zip(rows, [(0, 2), (0, 2), (1,), (1,)], [0, 1, 0, 1], strict=True):
            recall = np.concatenate([file[f"dumps/{d}/samples/s/ffd:block=64/recall"][..., setting].ravel()
                                     for d in dumps])
            assert row["mean_recall"] == pytest.approx(recall.mean(), abs=CELL)
    assert [row["model"] for row in rows] == ["other\x1b[1m"] * 2 + ["test/model"] * 2
    assert "of a model" in result.stdout


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
