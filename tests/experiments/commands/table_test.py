"""`attest table` on the real executable: numpy recomputes every number from the results file."""

import json
import os
import re

import h5py
import numpy as np
import pytest
from attest_program import attest
from csv_rows import read_csv
from near import DOUBLE
from results_maker import EXACT, cells, ffd, join_dumps, quest, selector, write_results

NUMBER = 1e-9  # relative tolerance: float32 cells, sums in double, ten digits in the csv
RUNGS = ["mean", "median", "p95", "p99", "p99.9", "worst"]


def table(*arguments, expect=0):
    return attest("table", *arguments, expect=expect)


def rows_of(*arguments):
    return json.loads(table(*arguments, "--json").stdout)["rows"]


def statistic(values, name):
    if name.startswith("p"):
        return np.quantile(values, float(name[1:]) / 100) if values.size else np.nan
    if name == "count":
        return values.size
    return {"mean": np.mean, "std": np.std, "min": np.min, "max": np.max, "median": np.median}[name](values)


@pytest.fixture
def study(tmp_path):
    """Five selectors; quest is dense in layers 0 and 1; sample c has fewer layers; layer 5 of sample b was left out."""
    selectors = [EXACT, ffd(), ffd("ffd:gqa=per_head", "per_head"), quest(), selector("best,k", "topk", "budget")]
    path = write_results(tmp_path / "r.h5", selectors, skipped={("b", 5)})
    with h5py.File(path, "r+") as file:
        for number, sample in enumerate(file["dumps/0/samples"].values()):
            sample.attrs.update({"task": f"t{number % 2}", "num_tokens": [900, 1100, 5000][number]})
            sample["scores/span_mass"] = \
                np.random.default_rng(number).random(sample["scores/lse"].shape).astype(np.float32)
    return path


def test_default_columns_are_means_and_ladders_of_the_cells(study):
    rows = rows_of(study)
    assert len(rows) == 1 + 3 * 2 + 3 * 2
    for row in rows:
        get = lambda metric: cells([study], row["label"], metric, row["setting_label"], lambda layer: layer >= 2)
        bad = {"recall_deficit": 1 - get("recall"), "lse_error": get("lse_error"),
               "dropped_mass": 1 - get("mass_recall")}
        for quantity, values in bad.items():
            for rung in RUNGS:
                expected = values.max() if rung == "worst" else statistic(values, rung)
                assert row[f"{quantity}.{rung}"] == pytest.approx(expected, rel=NUMBER, abs=DOUBLE), (quantity, rung)
        assert row["keep_ratio.mean"] == pytest.approx(get("keep_ratio").mean(), rel=NUMBER)
        assert row["io_ratio.mean"] == pytest.approx(get("io_ratio").mean(), rel=NUMBER)
        assert row["recall.count"] == get("recall").size
    assert len({row["recall.count"] for row in rows}) == 1, "all selectors are averaged over the same layers"


def cell_list(path, label, metric, setting, with_dense=False):
    """(sample, task, tokens, layer, head, value) of every defined cell."""
    found = []
    with h5py.File(path) as file:
        for name, sample in file["dumps/0/samples"].items():
            group = sample[label]
            array = group[metric][()].astype(np.float64)
            if array.ndim == 4:
                array = array[..., list(group["setting_labels"].asstr()[()]).index(setting)]
            for row, layer in enumerate(sample["layers"][()]):
                if group["done"][row] == 0 or (not with_dense and layer < 2):
                    continue
                for head in range(array.shape[2]):
                    for value in array[row, :, head]:
                        if not np.isnan(value):
                            found.append((name, sample.attrs["task"], sample.attrs["num_tokens"], layer, head, value))
    return found


@pytest.mark.parametrize("by", ["layer", "head", "task", "length", "sample", "task,layer", "head,length,layer"])
@pytest.mark.parametrize("dense", [False, True])
def test_rows_are_split_by_groups(study, by, dense):
    statistics = ["mean", "min", "max", "median", "p12.5", "p99", "std", "count"]
    metrics = ",".join(f"recall.{s}" for s in statistics) + ",recall_deficit.p80,lse_error.p80"
    rows = rows_of(study, "--by", by, "--metrics", metrics, *(["--with-dense-layers"] if dense else []))
    key_of = {"layer": lambda c: c[3], "head": lambda c: c[4], "task": lambda c: c[1], "sample": lambda c: c[0],
              "length": lambda c: {900: 1024, 1100: 1024, 5000: 4096}[c[2]]}
    names = by.split(",")
    for label, setting in {(row["label"], row["setting_label"]) for row in rows}:
        groups, errors = {}, {}
        for target, metric in ((groups, "recall"), (errors, "lse_error")):
            for cell in cell_list(study, label, metric, setting, dense):
                target.setdefault(tuple(key_of[name](cell) for name in names), []).append(cell[-1])
        mine = [row for row in rows if (row["label"], row["setting_label"]) == (label, setting)]
        assert [tuple(row[name] for name in names) for row in mine] == sorted(groups), "ascending"
        assert len(mine) > 1
        for row in mine:
            key = tuple(row[name] for name in names)
            values = np.array(groups[key])
            for name in statistics:
                assert row[f"recall.{name}"] == pytest.approx(statistic(values, name), rel=NUMBER, abs=DOUBLE), \
                    (key, name)
            assert row["recall_deficit.p80"] == pytest.approx(np.quantile(1 - values, 0.8), rel=NUMBER, abs=DOUBLE)
            assert row["lse_error.p80"] == pytest.approx(np.quantile(errors[key], 0.8), rel=NUMBER, abs=DOUBLE)


def test_samples_of_two_dumps_are_rows_of_their_own(tmp_path):
    own = [write_results(tmp_path / f"{name}.h5", [ffd()], {"a": [0]}, dump=f"{name}.h5", seed=seed)
           for seed, name in enumerate(("first", "second"))]
    rows = rows_of(join_dumps(tmp_path / "r.h5", own), "--by", "sample", "--metrics", "recall.mean", "--settings", "5")
    expected = [cells([path], "ffd", "recall", "5").mean() for path in own]
    assert [row["sample"] for row in rows] == ["a", "a of second.h5"]
    assert [row["recall.mean"] for row in rows] == pytest.approx(expected, rel=NUMBER)


def test_metrics_of_scores_without_settings_and_of_spans(study):
    columns = ("span_recall.min,span_recall.mean,span_recall.count,span_recall_deficit.p90,span_mass.mean,"
               "pseudo_max_gap_exact.p95")
    rows = rows_of(study, "--selectors", "ffd", "--metrics", columns)
    assert [row["setting_label"] for row in rows] == ["3", "5", "7"]
    with h5py.File(study) as file:
        for s, row in enumerate(rows):
            chosen, masses, gaps = [], [], []
            for sample in file["dumps/0/samples"].values():
                done = sample["ffd/done"][()] == 1
                recall, mass = sample["ffd/recall"][..., s][done], sample["scores/span_mass"][()][done]
                chosen.append(recall[(mass >= 0.3) & ~np.isnan(recall)])
                masses.append(mass.ravel())
                gaps.append(sample["ffd/pseudo_max_gap_exact"][()][done].ravel())
            chosen, masses, gaps = (np.concatenate(x).astype(np.float64) for x in (chosen, masses, gaps))
            gaps = gaps[~np.isnan(gaps)]
            assert 0 < chosen.size < masses.size
            expected = [chosen.min(), chosen.mean(), chosen.size, np.quantile(1 - chosen, 0.9), masses.mean(),
                        np.quantile(gaps, 0.95)]
            assert [row[name] for name in columns.split(",")] == pytest.approx(expected, rel=NUMBER)


def test_a_metric_that_a_selector_lacks_has_no_count(study):
    said = table(study, "--selectors", "ffd,quest", "--metrics", "block_keep_ratio.count,recall.count").stdout
    assert "nan" not in said and re.search(r"quest .* -  ", said)


def test_a_ladder_descends_where_higher_is_better_and_has_no_bound(study):
    with h5py.File(study, "r+") as file:
        for sample in file["dumps/0/samples"].values():
            sample["ffd/dropped_gap"] = (3 * (1 - sample["ffd/recall"][()])).astype(np.float32)
    row = rows_of(study, "--selectors", "ffd", "--settings", "5", "--metrics", "dropped_gap.ladder")[0]
    values = np.array([cell[-1] for cell in cell_list(study, "ffd", "dropped_gap", "5", True)])
    expected = {"mean": values.mean(), "median": np.median(values), "p5": np.quantile(values, 0.05),
                "p1": np.quantile(values, 0.01), "p0.1": np.quantile(values, 0.001), "worst": values.min()}
    assert {name: row[f"dropped_gap.{name}"] for name in expected} == pytest.approx(expected, rel=NUMBER)


def test_chosen_selectors_decide_which_layers_are_dense(study):
    everything, without_quest = rows_of(study, "--settings", "5"), rows_of(
        study, "--settings", "5", "--selectors", "ffd")
    assert [row["label"] for row in everything] == ["exact", "ffd", "ffd:gqa=per_head"], "exact has no settings"
    assert without_quest[0]["recall.count"] > everything[1]["recall.count"]


def test_settings_are_found_by_text_and_by_value(study):
    for typed in ("5", "5.0", "3,5,7"):
        assert any(row["setting_label"] == "5" for row in rows_of(study, "--settings", typed))
    rows = rows_of(study, "--selectors", "quest", "--settings", "50%")
    assert [row["setting_label"] for row in rows] == ["50%"]


def test_labels_may_have_commas(study):
    rows = rows_of(study, "--selectors", "ffd,best,k,quest", "--metrics", "recall")
    assert {row["label"] for row in rows} == {"ffd", "best,k", "quest"}
    assert "no selector labelled 'best'" in table(study, "--selectors", "best,quest", expect=2).stderr


def test_files_of_one_model_are_pooled_and_models_are_not(tmp_path):
    one = write_results(tmp_path / "1.h5", [ffd()], {"a": [2, 3]}, dump="1", seed=1)
    two = write_results(tmp_path / "2.h5", [ffd()], {"b": [2, 3]}, dump="2", seed=2)
    other = write_results(tmp_path / "3.h5", [ffd()], {"c": [2, 3]}, dump="3", seed=3, model="other")
    rows = rows_of(one, two, other, "--metrics", "recall,recall.min")
    assert [row["model"] for row in rows] == ["tiny"] * 3 + ["other"] * 3
    for row in rows:
        values = cells([one, two] if row["model"] == "tiny" else [other], "ffd", "recall", row["setting_label"])
        assert row["recall.mean"] == pytest.approx(values.mean(), rel=NUMBER)
        assert row["recall.min"] == values.min()
    text = table(one, other, "--metrics", "recall").stdout
    assert text.splitlines()[1].split()[:3] == ["model", "selector", "setting"]
    assert "model" not in table(one, "--metrics", "recall").stdout
    assert "model" in table(one, "--metrics", "recall", "--by", "model").stdout
    with h5py.File(two, "r+") as file:
        file["dumps/0"].attrs["num_layers"] = 16
    warned = table(one, two, "--metrics", "recall").stderr
    assert "32 layers" in warned and "16 layers" in warned and "is called 'tiny', and means are over both" in warned
    assert table(one, two, "--metrics", "recall", "--quiet").stderr == "" == \
        table(one, other, "--metrics", "recall").stderr


def test_a_note_names_a_selector_of_two_models_once(tmp_path):
    own = selector("own", "imported", "budget", file="estimates.h5", scan_bytes=0)
    files = [write_results(tmp_path / f"{model}.h5", [own], model=model, dump=model) for model in "AB"]
    assert json.loads(table(*files, "--json").stdout)["scan_not_counted"] == ["own"]


def test_files_with_other_settings_of_one_selector_are_pooled(tmp_path):
    """The settings of a label are those of all files of the model, and each model has its own."""
    paths = [write_results(tmp_path / f"{i}.h5", [ffd()], {"a": [2]}, dump=str(i), seed=i, model="m" if i < 2 else "n")
             for i in range(3)]
    settings = {1: [7.0, 9.0], 2: [11.0]}
    for number, values in settings.items():
        with h5py.File(paths[number], "r+") as file:
            group = file["dumps/0/samples/a/ffd"]
            keep = len(values)
            for name, array in list(group.items()):
                if array.ndim == 4:
                    cut = array[..., :keep]
                    del group[name]
                    group[name] = cut
            del group["settings"], group["setting_labels"]
            group["settings"] = np.array(values)
            group["setting_labels"] = np.array([f"{v:g}" for v in values], h5py.string_dtype())
    rows = rows_of(*paths, "--metrics", "recall,recall.count")
    assert [(row["model"], row["setting_label"]) for row in rows] == [
        ("m", "3"), ("m", "5"), ("m", "7"), ("m", "9"), ("n", "11")]
    for row in rows:
        holding = [p for i, p in enumerate(paths) if row["model"] == "mmn"[i] and row["setting_label"] in
                   (["3", "5", "7"] if i == 0 else [f"{v:g}" for v in settings[i]])]
        values = cells(holding, "ffd", "recall", row["setting_label"])
        assert (row["recall.count"], row["recall.mean"]) == (values.size, pytest.approx(values.mean(), rel=NUMBER))


def test_formats_hold_the_same_numbers(study, tmp_path):
    arguments = [study, "--settings", "5", "--metrics", "recall,lse_error.worst,dropped_mass.p99,recall.count", "--by",
                 "task"]
    rows = rows_of(*arguments)
    for extension in ("csv", "md", "tex", "json", "txt"):
        table(*arguments, "-o", tmp_path / f"t.{extension}")
    assert json.loads((tmp_path / "t.json").read_text())["rows"] == rows
    for found, row in zip(read_csv(tmp_path / "t.csv"), rows, strict=True):
        assert found["label"] == row["label"] and found["task"] == row["task"]
        assert float(found["recall.mean"]) == pytest.approx(row["recall.mean"], rel=NUMBER)
    markdown = (tmp_path / "t.md").read_text().splitlines()
    assert markdown[0] == ("| selector | setting | task | recall mean | lse error worst (nats) | dropped mass p99 | "
                           "recall count |")
    r = rows[1]
    expected = [r["recall.mean"], r["lse_error.worst"], r["dropped_mass.p99"]]
    assert markdown[3] == (
        "| {} | delta 5 | {} | {:.5f} | {:.4f} | {:.6f} | {} |".format(
            r["label"], r["task"], *expected, int(r["recall.count"]))
                           if r["label"] != "exact" else markdown[3])
    latex = (tmp_path / "t.tex").read_text()
    assert latex.startswith("\\begin{tabular}{lllrrrr}") and "delta 5" in latex
    text = (tmp_path / "t.txt").read_text()
    assert text == table(*arguments).stdout
    line = next(line for line in text.splitlines() if line.startswith("ffd ") and " t1 " in line)
    ffd_row = next(row for row in rows if (row["label"], row["task"]) == ("ffd", "t1"))
    assert line.split()[4:] == [f"{ffd_row['recall.mean']:.5f}", f"{ffd_row['lse_error.worst']:.4f}",
                                f"{ffd_row['dropped_mass.p99']:.3g}", f"{ffd_row['recall.count']:.0f}"]


def test_json_is_printed_beside_a_file_in_a_format_of_its_own(study, tmp_path):
    table(study, "-o", tmp_path / "plain.csv")
    for more in [], ["--format", "csv"]:
        done = table(study, "-o", tmp_path / "t.csv", "--json", "--force", *more)
        assert json.loads(done.stdout)["rows"] == rows_of(study)
        assert (tmp_path / "t.csv").read_text() == (tmp_path / "plain.csv").read_text()


def test_wide_text_is_broken_into_blocks_of_120_columns(study):
    lines = table(study).stdout.splitlines()
    assert sum(line.startswith("selector") for line in lines) == 3
    assert max(map(len, lines)) <= 120
    assert lines[-1] == "Layers that are dense in some selector (0, 1) are left out; --with-dense-layers includes them."
    assert table(study, "--with-dense-layers").stdout.splitlines()[-1] == "Dense layers (0, 1) are included."
    assert table(study, "--format", "csv").stderr.strip() == lines[-1]


@pytest.mark.parametrize("arguments, expect, sentence", [
    (["--metrics", "foo"], 2, "there is no metric 'foo'"),
    (["--metrics", "recall.p101"], 2, "'p101' is not a statistic"),
    (["--metrics", "recall.p-1"], 2, "'p-1' is not a statistic"),
    (["--metrics", "recall.pnan"], 2, "'pnan' is not a statistic"),
    (["--metrics", "entropy.ladder"], 2, "no value of 'entropy' is bad"),
    (["--metrics", "entropy.worst"], 2, "no value of 'entropy' is worst"),
    (["--metrics", "lse_error_deficit"], 2, "'lse_error' has no deficit"),
    (["--metrics", "scan_error_tail"], 2, "has a value for each lambda"),
    (["--metrics", "span_token_heads.max"], 2, "has a value for each span token"),
    (["--metrics", "recall,recall.mean"], 2, "'recall.mean' is there twice"),
    (["--metrics", "recall_layer", "--by", "head"], 2, "'recall_layer' is of all heads of a layer together"),
    (["--metrics", "span_lost", "--by", "head"], 2, "'span_lost' is of all heads of a layer together"),
    (["--metrics", "sink_mass"], 4, "the results have no 'sink_mass'"),
    (["--metrics", "span_keep"], 4, "the results have no 'span_keep', which takes samples with spans"),
    (["--settings", "9"], 2, "no selector has the setting '9'; there are 256, 1024, 50%, 3, 5, 7"),
    (["--settings", "9", "--selectors", "exact"], 2, "no selector of --selectors has the setting '9'; they have none"),
    (["--selectors", "none"], 2, "no selector labelled 'none'; they have best,k, exact, ffd, ffd:gqa=per_head, quest"),
    (["--by", "foo"], 2, "'foo' is not one of selector, model, layer"),
    (["--json", "--format", "csv"], 2, "--json and --format csv contradict each other"),
])
def test_what_cannot_be_meant_is_refused_in_a_sentence(study, arguments, expect, sentence):
    done = table(study, *arguments, expect=expect)
    assert sentence in done.stderr and done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_nothing_left_is_a_sentence(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd(), quest()], {"a": [0, 1]})
    assert "every layer is dense in a selector (dense: 0, 1); --with-dense-layers" in table(path, expect=4).stderr
    assert len(rows_of(path, "--with-dense-layers")) == 6
    path = write_results(tmp_path / "s.h5", [ffd()], {"a": [3]}, skipped={("a", 3)})
    assert "no layer was studied" in table(path, expect=4).stderr


def test_an_output_is_replaced_only_with_force(study, tmp_path):
    out = tmp_path / "t.csv"
    out.write_text("mine")
    assert "is there already" in table(study, "-o", out, expect=5).stderr
    assert out.read_text() == "mine"
    table(study, "-o", out, "--force")
    assert out.read_text().startswith("model,")
    assert table(study, "-o", tmp_path / "no" / "t.csv", expect=5).stderr.count("\n") == 1


def test_a_dump_is_refused(tmp_path):
    dump = os.path.join(os.environ["ATTEST_SOURCE_DIR"], "dumps", "demo.h5")
    assert "expected 'attention-study'" in table(dump, expect=4).stderr
