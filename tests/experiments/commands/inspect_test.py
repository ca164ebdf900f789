"""attest inspect on results files and unfinished studies; dumps are tested in tests/dumps/inspect/inspect_test.cpp."""

import json
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

from attest_program import ATTEST, run_attest as attest
from dump_maker import write_dump
from results_maker import EXACT, ffd, quest, write_results

STUDY = ["--selector", "ffd:block=16,sub_block=16,rule=topk", "--selector", "topp", "--selector", "exact", "--budget",
         "8,50%", "--p", "0.9"]


def small_dump(path, layers=(1, 4), bad_layer=None):
    def values(random, number):
        q, k, v = (random.standard_normal(s).astype(np.float32) for s in [(2, 4, 16), (2, 40, 16), (2, 40, 16)])
        if number == bad_layer:
            k[0, 0, 0] = np.nan
        return q, k, v

    write_dump(path, values, seed=1, layers=layers, tokens=40, heads=4, kv_heads=2, dim=16, positions=[30, 39],
               spans=[[3, 9]])


@pytest.fixture
def results(tmp_path):
    small_dump(tmp_path / "d.h5", layers=(1, 2, 4), bad_layer=2)
    done = attest("run", tmp_path / "d.h5", "-o", tmp_path / "r.h5", *STUDY, "--device", "cpu", "--quiet",
                  "--skip-bad-layers")
    assert done.returncode == 0, done.stderr
    return tmp_path / "r.h5"


def inspected(*arguments):
    result = attest("inspect", *arguments, "--json", "--quiet")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_all_that_results_say(results):
    document = inspected(results)
    assert (document["format"], document["format_version"], document["file_bytes"]) == \
        ("attention-study", 1, results.stat().st_size)
    (dump,) = document["dumps"]
    assert dump["model"] == "test/model" and dump["num_query_heads"] == 4 and dump["head_dim"] == 16
    (sample,) = dump["samples"]
    assert sample == {"name": "s", "task": "test", "num_tokens": 40, "query_positions": [30, 39], "layers": [1, 2, 4],
                      "layers_left_out": [2]}
    assert [s["selector"] for s in document["selectors"]] == ["ffd", "topp", "exact"]
    assert document["selectors"][0]["setting_labels"] == ["8", "50%"] \
        and document["selectors"][0]["options"]["rule"] == "topk"
    metrics = {m["name"]: m for m in document["metrics"]}
    labels = [s["label"] for s in document["selectors"]]
    assert metrics["recall"]["of"] == labels and metrics["block_keep_ratio"]["of"] == labels[:1] \
        and metrics["lse"]["of"] == ["scores"]
    with h5py.File(results) as file:
        assert document["manifest"] == json.loads(file.attrs["manifest"])
        group = file["dumps/0/samples/s"]
        assert set(metrics) == {name for label in [*labels, "scores"] for name in group[label]} - {
            "settings", "setting_labels", "lambdas", "span_tokens", "dense", "done", "layer", "query", "head",
            "setting", "lambda", "token"}
        for metric in metrics.values():
            assert metric["axes"] == [d.label for d in group[metric["of"][0]][metric["name"]].dims]


def test_the_text_says_the_same(results):
    text = attest("inspect", results).stdout
    manifest = inspected(results)["manifest"]
    for part in ["format version 1", "attest run", "--skip-bad-layers", manifest["device"], manifest["start_time"],
                 manifest["inputs"][0]["xxh64_of_1MiB"],
                 "d.h5", "test/model", "30, 39", "1-2, 4", "8, 50%", "block=16,sub_block=16,rule=topk", "span_keep",
                 "[layer, query, head, lambda]"]:
        assert part in text, part
    assert "bits=2" not in text  # a default


def test_the_kind_is_that_of_the_attribute_not_of_the_name(results, tmp_path):
    shutil.copy(results, tmp_path / "dump.h5")
    assert inspected(tmp_path / "dump.h5")["format"] == "attention-study"
    shutil.copy(tmp_path / "d.h5", tmp_path / "r.partial")
    assert inspected(tmp_path / "r.partial")["format"] == "attention-dump"


def test_results_of_another_program(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd(), quest(), EXACT], skipped=[("a", 1)])
    text = attest("inspect", path).stdout
    assert "has no manifest" in text and "quest" in text
    assert inspected(path)["dumps"][0]["samples"][0]["layers_left_out"] == [1]


def test_layers_are_those_of_every_selector_and_sample(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd(), quest(), EXACT])
    with h5py.File(path, "r+") as file:
        group = file["dumps/0/samples/b/quest"]
        group["done"][3] = 0
        for values in group.values():
            if values.ndim > 1:
                values[3] = np.nan
    document = inspected(path)
    assert {s["name"]: s["layers_left_out"] for s in document["dumps"][0]["samples"]} == {"a": [], "b": [5], "c": []}
    assert {s["label"]: s["dense_layers"] for s in document["selectors"]} == {"ffd": [], "quest": [0, 1], "exact": []}


def test_check_of_good_results(results):
    result = attest("inspect", results, "--check", "--quiet")
    assert result.returncode == 0 and "none of" in result.stdout, result.stderr
    check = inspected(results, "--check")["check"]
    assert check["bad_cells"] == 0
    with h5py.File(results) as file:
        group = file["dumps/0/samples/s"]
        for metric in check["metrics"]:
            values = group[metric["of"]][metric["metric"]][()][[0, 2]]  # layer 2 was left out
            assert (metric["cells"], metric["nan"], metric["infinite"]) == (
                values.size, np.isnan(values).sum(), np.isinf(values).sum())
            finite = values[np.isfinite(values)]
            if finite.size:
                assert metric["minimum"] == pytest.approx(finite.min()) \
                    and metric["maximum"] == pytest.approx(finite.max())
            else:
                assert metric["minimum"] is None


@pytest.mark.parametrize(
    "metric, place, value, expected",
    [
        ("keep_ratio", (2, 1, 3, 1), 1.5, "[layer 4, query 1, head 3, setting 1] is 1.5, expected 0 to 1"),
        ("keep_ratio", (0, 0, 0, 0), np.nan, "[layer 1, query 0, head 0, setting 0] is NaN, expected a number"),
        ("recall", (0, 0, 0, 0), -np.inf, "is -inf, expected -1 to 1"),
        ("lse_error", (0, 0, 0, 0), -0.5, "is -0.5, expected at least 0"),
        ("recall", (1, 0, 0, 0), 0.5, "[layer 2, query 0, head 0, setting 0] is 0.5, expected NaN in a layer that was "
                                      "left out"),
        ("block_keep_ratio", (0, 0, 0, 0), 7, "is 7, expected 0 to 1"),
    ],
)
def test_check_finds_a_bad_cell(results, metric, place, value, expected):
    label = inspected(results)["selectors"][0]["label"]
    with h5py.File(results, "r+") as file:
        data = file[f"dumps/0/samples/s/{label}/{metric}"]
        data[place] = value
    assert attest("inspect", results).returncode == 0  # without --check no value is read
    result = attest("inspect", results, "--check", "--quiet")
    assert result.returncode == 4
    assert result.stderr.startswith(f"attest: {results}: /dumps/0/samples/s/{label}/{metric}: [layer ") \
        and expected in result.stderr
    assert result.stderr.endswith("1 cell of the file holds what the metric does not allow\n") \
        and result.stderr.count("\n") == 1
    assert json.loads(attest("inspect", results, "--check", "--json", "--quiet").stdout)["check"]["bad_cells"] == 1


def test_undefined_cells_are_allowed_where_the_metric_may_be_undefined(results):
    label = inspected(results)["selectors"][0]["label"]
    with h5py.File(results, "r+") as file:
        file[f"dumps/0/samples/s/{label}/recall"][0, 0, 0, 0] = np.nan
    assert attest("inspect", results, "--check").returncode == 0


def test_an_array_of_the_wrong_size(results):
    with h5py.File(results, "r+") as file:
        group = file["dumps/0/samples/s/exact"]
        del group["recall"]
        group["recall"] = np.zeros((3, 2, 4, 2), np.float32)
    result = attest("inspect", results)
    assert result.returncode == 4 and "/dumps/0/samples/s/exact/recall" in result.stderr \
        and result.stderr.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"no HDF5", b"\x89HDF\r\n\x1a\n" + b"\xff" * 200])
def test_a_file_that_is_neither(tmp_path, content):
    path = tmp_path / "x.h5"
    path.write_bytes(content)
    result = attest("inspect", path)
    assert result.returncode == 4 and result.stderr.startswith(f"attest: {path}") and result.stderr.count("\n") == 1


def test_another_format(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs["format"] = "recipe"
    result = attest("inspect", tmp_path / "x.h5")
    assert result.returncode == 4 and "'recipe'" in result.stderr


def unfinished(tmp_path):
    """A study that was interrupted; the folder of its finished layers."""
    small_dump(tmp_path / "d.h5", layers=range(6))
    words = ["run", tmp_path / "d.h5", "-o", tmp_path / "r.h5", *STUDY, "--device", "cpu", "--threads", "1", "--quiet"]
    folder = tmp_path / "r.h5.partial"
    for _ in range(50):
        process = subprocess.Popen([ATTEST, *map(str, words)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while process.poll() is None and not (folder / "study.json").exists():
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (folder / "study.json").exists():
            return words, folder
        (tmp_path / "r.h5").unlink(missing_ok=True)
    pytest.fail("the study was always faster than its interruption")


def test_an_unfinished_study(tmp_path):
    words, folder = unfinished(tmp_path)
    for name in folder.glob("unit-*"):
        name.unlink()
    for layer in (0, 1, 4):
        (folder / f"unit-0-0-{layer}.bin").write_bytes(b"")
    document = inspected(folder)
    assert (document["layers"], document["finished_layers"]) == (6, 3)
    assert document["samples"] == [{"dump": str(tmp_path / "d.h5"), "name": "s", "layers": list(range(6)),
                                    "finished": [0, 1, 4]}]
    text = attest("inspect", folder).stdout
    assert "an unfinished study, begun " in text and "3 of 6 layers are finished" in text and "--resume" in text \
        and "0-1, 4" in text
    result = attest("inspect", tmp_path / "r.h5")
    assert result.returncode == 4 and f"attest inspect {folder}" in result.stderr
    assert attest("inspect", folder, "--check").returncode == 2
    assert attest(*words, "--resume").returncode == 0  # what it says works
    assert inspected(tmp_path / "r.h5")["format"] == "attention-study"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"study": 5}', '{"begun": 1, "study": {"dumps": []}}'])
def test_a_damaged_study_file(tmp_path, content):
    (tmp_path / "r.partial").mkdir()
    (tmp_path / "r.partial/study.json").write_text(content)
    result = attest("inspect", tmp_path / "r.partial")
    assert result.returncode == 4 and "r.partial/study.json: " in result.stderr and result.stderr.count("\n") == 1


def test_a_folder_that_is_no_study(tmp_path):
    result = attest("inspect", tmp_path)
    assert result.returncode == 4 and "without a study.json" in result.stderr


def test_an_unfinished_capture(tmp_path):
    folder = tmp_path / "d.h5.partial"
    folder.mkdir()
    (folder / "capture.json").write_text("{}")
    (folder / "dump-0.h5").touch()
    assert inspected(folder)["finished_prompts"] == 1
    result = attest("inspect", folder, "--check")
    assert result.returncode == 2 \
        and "--check takes a dump or a results file, and this capture is unfinished" in result.stderr


def test_check_lists_every_metric_with_a_fault(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd(), quest(), EXACT])
    with h5py.File(path, "r+") as file:
        group = file["dumps/0/samples/a"]
        group["ffd/io_ratio"][0, 0, 0, 0] = -5
        group["quest/recall"][2, 0, 0, :2] = 7
    result = attest("inspect", path, "--check", "--quiet")
    assert result.returncode == 4 and "; 3 cells of the file hold what the metric does not allow" in result.stderr
    assert "/ffd/io_ratio: [layer 0, query 0, head 0, setting 0] is -5, expected at least 0 (1 bad)\n" in result.stdout
    assert "/quest/recall: [layer 2, query 0, head 0, setting 0] is 7, expected -1 to 1 (2 bad)\n" in result.stdout
    assert attest("inspect", path).returncode == 0


def test_options_of_many_levels_are_refused(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd(), EXACT])
    with h5py.File(path, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            sample["ffd"].attrs["options"] = "[" * 20_000 + "]" * 20_000
    result = attest("inspect", path, "--json", "--quiet")
    assert result.returncode == 4 and "/ffd: attribute 'options' is '[[[" in result.stderr \
        and "expected a JSON object" in result.stderr
