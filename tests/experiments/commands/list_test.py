"""attest list: every selector, metric and experiment; with NAME all of one; the truth about grids that depend on
options."""

import json

import pytest
from attest_program import run_attest as attest


@pytest.fixture(scope="module")
def document():
    result = attest("list", "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def entry(name):
    result = attest("list", name, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_list_names_everything(document):
    ffd = next(s for s in document["selectors"] if s["name"] == "ffd")
    assert "pseudo_max_gap_exact" in [m["name"] for m in ffd["metrics"]]
    assert {s["name"] for s in document["selectors"] if s["oracle"]} == {"topk", "topp", "topdelta"}
    metrics = {m["name"]: m for m in document["metrics"]}
    assert metrics["recall"]["of"] == "selectors" and metrics["lse"]["of"] == "scores"
    assert metrics["recall"]["axes"] == ["layer", "query", "head", "setting"] \
        and metrics["recall"]["better"] == "higher"
    assert metrics["spearman"]["needs"] == ["estimate"] \
        and metrics["span_keep"]["needs"] == metrics["span_lost"]["needs"] == ["spans"]
    assert metrics["span_token_heads"]["axes"] == ["layer", "query", "setting", "token"] \
        and metrics["span_token_heads"]["needs"] == ["spans", "few span tokens"]
    assert {"quality_vs_io", "failure_prediction", "ablation"} <= {e["name"] for e in document["experiments"]}
    text = attest("list").stdout
    for selector in document["selectors"]:
        assert f"\n{selector['name']}: " in text
    for metric in [*document["metrics"], *ffd["metrics"]]:
        assert metric["name"] in text and metric["definition"] in text


def test_every_option_has_a_meaning(document):
    options = [(s["name"], o) for s in document["selectors"] for o in s["options"]]
    assert len(options) > 50
    for selector, option in options:
        assert option["meaning"], (selector, option["name"])
        numbers = option["valid"].replace("..", "").replace(",", "").replace(".", "").replace("e+", "").isdigit()
        assert not numbers or option["unit"], (selector, option["name"])


def test_ffd_in_full(document):
    ffd = entry("ffd")
    assert ffd == {"kind": "selector"} | next(s for s in document["selectors"] if s["name"] == "ffd")
    assert {"name": "bits", "default": "2", "valid": "2,1,3,4,8", "meaning": "of a key in the thumbnail",
            "unit": "bits"} in ffd["options"]
    text = attest("list", "ffd").stdout
    for option in ffd["options"]:
        assert f"{option['name']}={option['default']}" in text and option["valid"] in text and option["meaning"] in text
    for metric in ffd["metrics"]:
        assert metric["name"] in text and metric["definition"] in text and metric["range"] in text
    for part in [ffd["io_bytes"], ffd["source"], *ffd["notes"]]:
        assert part in text


@pytest.mark.parametrize(
    "name, grids",
    [
        ("exact", [("none", None)]),
        ("quest", [("budget", None)]),
        ("ffd", [("delta", None), ("budget", "rule=topk"), ("p", "rule=topp")]),
        ("imported", [("budget", None), ("p", "rule=topp"), ("delta", "rule=topdelta"), ("none", "rule=all")]),
        ("skip_softmax", [("delta", None), ("factor", "unit=factor")]),
    ],
)
def test_the_grids_of_a_selector(name, grids, tmp_path):
    """What an option does to the grid is also what attest run does: it refuses the grid of another setting."""
    settings = entry(name)["settings"]
    assert [(s["setting"], s.get("when")) for s in settings] == grids
    text = attest("list", name).stdout
    for setting in settings:
        if setting["setting"] != "none":
            assert setting["option"] in text and setting["default_grid"] in text


def test_what_an_option_changes():
    assert any(note.startswith("rule=reference: ") for note in entry("twilight")["notes"])
    assert "units=ranks: scan errors are not defined" in entry("imported")["notes"]
    assert "imported (not with rule=all or units=ranks)" in entry("scan_error_max")["selectors"]
    assert any("file=FILE" in note for note in entry("imported")["notes"])
    assert "spearman" in entry("topk")["metrics_not_defined"] \
        and "spearman" not in entry("quest")["metrics_not_defined"]


def test_a_metric_in_full(document):
    names = {s["name"] for s in document["selectors"]}
    recall = entry("recall")
    assert set(recall["selectors"]) == names and recall["range"].startswith("-1 to 1") and recall["source"]
    assert entry("block_keep_ratio")["selectors"] == ["ffd"]
    assert entry("lse")["selectors"] == [] and "the exact scores" in attest("list", "lse").stdout
    text = attest("list", "recall").stdout
    for part in ["layer, query, head, setting", "cosine", recall["definition"], recall["range"], recall["source"],
                 "quest"]:
        assert part in text


def test_an_experiment():
    assert entry("layer_sparsity")["kind"] == "experiment"
    assert attest("list", "layer_sparsity").stdout.startswith("layer_sparsity: ")


@pytest.mark.parametrize("name, nearest", [("recal", "'recall'"), ("fdd", "'ffd'"),
                                           ("block_keep", "'block_keep_ratio'")])
def test_an_unknown_name(name, nearest):
    result = attest("list", name)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith(f"attest: no selector, metric or experiment is named '{name}'; nearest: ")
    assert nearest in result.stderr and result.stderr.count("\n") == 1


def test_two_names_are_refused():
    assert attest("list", "ffd", "quest").returncode == 2
