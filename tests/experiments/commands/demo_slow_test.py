"""`attest demo` twice in one folder."""

import json

from attest_program import attest


def test_a_second_call_writes_over_its_own_folder_and_its_json_is_one_document(tmp_path):
    folder = tmp_path / "out"
    attest("demo", "-o", folder)
    before = {p.name: p.read_bytes() for p in folder.glob("*.csv")}
    (folder / "mine.txt").write_text("mine")
    document = json.loads(attest("demo", "-o", folder, "--json", "--quiet").stdout)
    assert {p.name: p.read_bytes() for p in folder.glob("*.csv")} == before
    assert (folder / "mine.txt").read_text() == "mine"
    assert {"folder", "inspect", "inspect_long", "run", "figures", "claims", "report"} == set(document)
    assert document["inspect_long"]["samples"][0]["num_tokens"] > 12000
    names = {one["experiment"] for one in document["figures"]["experiments"]}
    assert {"quality_vs_io", "pseudo_max_gap", "layer_sparsity", "layer_correlation", "headwise", "failure_cases",
            "early_layers", "task_fidelity", "span_keep", "span_attribution"} <= names
