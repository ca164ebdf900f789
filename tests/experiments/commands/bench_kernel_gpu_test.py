"""attest bench kernel on a GPU: small runs on generated inputs and on a dump, and the record that they leave."""

import json
import math

import pytest
from attest_program import run_attest as attest
from near import CLOSE

SMALL = ["--lengths", "1K,2K", "--batch", "1,2", "--repeats", "3", "--keep", "27%,100%"]
METHODS = {"ffd", "sdpa_flash", "sdpa_cudnn", "skip_softmax", "ffd_scan", "block_topk", "token_topp", "kivi_scan"}
EXPERIMENTS = {"kernel_latency", "selection_overhead", "quant_depth", "ablation"}


def bench(path, *arguments):
    done = attest("bench", "kernel", *arguments, "-o", path, "--quiet")
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text()), done.stdout


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    return bench(tmp_path_factory.mktemp("bench") / "bench.json", *SMALL)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    made = attest("synth", "-o", folder / "d.h5", "--layers", 2, "--tokens", 1500, "--queries", 2, "--query-heads", 8,
                  "--kv-heads", 2)
    assert made.returncode == 0, made.stderr
    return bench(folder / "bench.json", "--dump", folder / "d.h5", *SMALL, "--only", "kernel_latency")


def check_measurement(m, report):
    assert set(m) == {"experiments", "method", "length", "batch", "layer", "sample", "tiled", "scan", "rule",
                      "launches", "setting", "delta", "keep_ratio",
                      "io_ratio", "bytes", "floor_microseconds", "microseconds", "median_microseconds", "fidelity",
                      "check"}
    assert set(m["experiments"]) <= EXPERIMENTS and m["experiments"] and m["method"] in METHODS
    assert len(m["microseconds"]) == 3 and all(t > 0 for t in m["microseconds"])
    assert m["median_microseconds"] == sorted(m["microseconds"])[1]
    assert 0 < m["keep_ratio"] <= 1 and 0 < m["io_ratio"] <= 1.2 and m["bytes"] > 0
    floor = 1e6 * m["bytes"] / report["machine"]["copy_bytes_per_second"]
    assert math.isclose(m["floor_microseconds"], floor, rel_tol=CLOSE)
    assert m["check"]["against"] and m["check"]["blocks_differing"] <= max(4, m["check"]["blocks"] // 50)
    if m["fidelity"] is not None:
        assert -1 <= m["fidelity"]["recall_min"] <= m["fidelity"]["recall_mean"] + 1e-9 <= 1 + 2e-9
        assert m["check"]["largest_output_error"] < 0.02


def test_the_record_is_whole(generated):
    report, text = generated
    assert report["format"] == "attest-kernel-bench" and report["format_version"] == 1
    assert report["machine"]["multiprocessors"] > 0 and report["machine"]["copy_bytes_per_second"] > 1e11
    assert report["arguments"][:2] == ["bench", "kernel"] and report["data"] == {"source": "generated"}
    for m in report["measurements"]:
        check_measurement(m, report)
        assert m["layer"] is None and not m["tiled"]
    assert "NVIDIA" in text and "method" in text


def test_every_method_was_measured_or_left_out(generated):
    report, _ = generated
    measured = {m["method"] for m in report["measurements"]}
    left_out = {line["method"] for line in report["left_out"]}
    assert measured | left_out >= METHODS and "ffd" in measured, report["left_out"]
    assert left_out <= {"sdpa_flash", "sdpa_cudnn"}, report["left_out"]


def test_exact_methods_are_exact_and_shares_are_reached(generated):
    report, _ = generated
    for m in report["measurements"]:
        if m["method"].startswith("sdpa"):
            assert m["fidelity"]["recall_min"] > 0.9999
        if m["method"] == "ffd" and m["setting"] == {"kind": "keep", "value": 1.0}:
            assert m["keep_ratio"] == 1 and m["delta"] is None
        if m["method"] == "ffd" and m["setting"]["kind"] == "keep" and m["rule"] == "topdelta":
            assert abs(m["keep_ratio"] - m["setting"]["value"]) < 0.1  # at most eight blocks of each head


def test_the_ablation_has_its_six_rows(generated):
    report, _ = generated
    rows = {(m["scan"], m["rule"], m["launches"]) for m in report["measurements"] if "ablation" in m["experiments"]}
    assert rows == {("16-bit", "topk", "split"), ("16-bit", "topdelta", "split"), ("2-bit", "topk", "split"),
                    ("2-bit", "topdelta", "split"),
                    ("2-bit", "topk", "fused"), ("2-bit", "topdelta", "fused")}


def test_layers_of_a_dump(dumped):
    report, _ = dumped
    assert report["data"]["source"] == "dump" and len(report["data"]["xxh64_of_1MiB"]) == 16
    assert report["shape"]["num_query_heads"] == 8 and report["shape"]["element_type"] == "bfloat16"
    assert {m["layer"] for m in report["measurements"]} == {0, 1}
    for m in report["measurements"]:
        check_measurement(m, report)
        assert m["tiled"] == (m["length"] == 2048)


def test_a_file_stays_unless_forced(tmp_path):
    (tmp_path / "b.json").write_text("mine")
    done = attest("bench", "kernel", *SMALL, "-o", tmp_path / "b.json")
    assert done.returncode == 5 and "--force" in done.stderr and (tmp_path / "b.json").read_text() == "mine"


def test_what_does_not_fit_is_said(tmp_path):
    done = attest("bench", "kernel", *SMALL, "--device-memory", "1MiB")
    assert done.returncode == 5 and done.stderr.count("of the device's memory are left") >= 1, done.stderr
