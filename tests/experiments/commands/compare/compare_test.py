"""`attest compare` on the real executable: numpy and every sign vector recompute each number from the results files."""

import itertools
import json

import h5py
import numpy as np
import pytest
from compare_runs import SAMPLES, compare, edit, result, set_manifest, studies  # noqa: F401
from csv_rows import read_csv
from near import DOUBLE
from results_maker import EXACT, ffd, quest, selector, write_results

NUMBER = 1e-9  # relative tolerance: float32 cells, sums in double, ten digits in the csv
DEFAULT = ["recall.mean", "recall.min", "lse_error.max", "mass_recall.mean", "keep_ratio.mean", "io_ratio.mean"]


def statistic(values, name):
    if not values.size:
        return np.nan
    if name.startswith("p"):
        return np.quantile(values, float(name[1:]) / 100)
    return {"mean": np.mean, "min": np.min, "max": np.max, "std": np.std, "median": np.median}[name](values)


def read(sample, label, metric, setting):
    """[layer, query, head] in double, NaN where the layer was not done."""
    if label == "scores":
        return sample["scores"][metric][()].astype(np.float64)
    group = sample[label]
    array = group[metric][()].astype(np.float64)
    if array.ndim == 4:
        array = array[..., list(group["settings"][()]).index(setting)]
    return array


def paired(paths, labels, metric, setting):
    """name -> (layers, first, second), NaN shared."""
    found = {}
    with h5py.File(paths[0]) as one, h5py.File(paths[1]) as two:
        for name in one["dumps/0/samples"]:
            if name not in two["dumps/0/samples"]:
                continue
            samples = one["dumps/0/samples"][name], two["dumps/0/samples"][name]
            a, b = (read(s, label, metric, setting) for s, label in zip(samples, labels, strict=True))
            done = np.ones(len(samples[0]["layers"]), bool)
            for sample in samples:
                for label in ("ffd", "quest") if "scores" in labels else labels:
                    done &= sample[label]["done"][()] == 1
            a[~done], b[~done] = np.nan, np.nan
            both = ~np.isnan(a) & ~np.isnan(b)
            a[~both], b[~both] = np.nan, np.nan
            found[name] = samples[0]["layers"][()], a, b
    return found


def plain_test(d, confidence=0.95):
    """p and interval from every sign vector and every subset."""
    n = len(d)
    signs = np.array(list(itertools.product([1, -1], repeat=n)))
    tie = 1e-13 * np.abs(d).sum()
    p = np.mean(np.abs(signs @ d) >= abs(d.sum()) - tie)
    chosen = (signs < 0)
    means = np.sort((chosen[1:] @ d) / chosen[1:].sum(1))
    rank = int((1 - confidence) / 2 * 2**n)
    return p, (means[rank - 1], means[-rank]) if rank else (None, None)


def holm(p):
    order = np.argsort(p, kind="stable")
    adjusted, largest = np.empty(len(p)), 0
    for i, at in enumerate(order):
        largest = max(largest, min(1, (len(p) - i) * p[at]))
        adjusted[at] = largest
    return adjusted


SETTINGS = {"ffd": [3, 5, 7], "quest": [256, 1024, 50], "exact": [0]}


def check_rows(rows, paths, confidence=0.95):
    """Every number of the rows."""
    expected_p = []
    for row in rows:
        labels = (row["selector_1"] or "scores", row["selector_2"] or "scores")
        metric, stat = row["metric"].split(".", 1)
        setting = float(row["setting_label"].rstrip("%") or 0)
        first, second = [], []
        for _, a, b in paired(paths, labels, metric.removesuffix("_deficit"), setting).values():
            a, b = ((1 - x if metric.endswith("_deficit") else x)[~np.isnan(x)] for x in (a, b))
            if a.size:
                first.append(statistic(a, stat))
                second.append(statistic(b, stat))
        d = np.array(second) - np.array(first)
        p, (low, high) = plain_test(d, confidence)
        expected_p.append(p)
        assert row["prompts"] == len(d)
        assert [row["mean_1"], row["mean_2"]] == pytest.approx([np.mean(first), np.mean(second)], rel=NUMBER), row
        assert row["difference"] == pytest.approx(d.mean(), rel=NUMBER, abs=DOUBLE)
        assert row["p"] == pytest.approx(p, rel=DOUBLE)
        assert (row["low"], row["high"]) == (pytest.approx(low, rel=NUMBER, abs=DOUBLE),
                                             pytest.approx(high, rel=NUMBER, abs=DOUBLE))
    adjusted = holm(np.array(expected_p))
    rejected = sum(adjusted <= 1 - confidence)
    for row, p in zip(rows, adjusted, strict=True):
        assert row["p_holm"] == pytest.approx(p, rel=DOUBLE)
        few = 2 / 2 ** row["prompts"] > (1 - confidence) / (len(rows) - rejected)
        verdict = "changed" if p <= 1 - confidence else "too few prompts to tell" if few \
            and not row["equal"] else "no evidence of a change"
        assert row["verdict"] == verdict, row


def test_every_number_of_the_default_rows(studies):
    found = result(*studies)
    rows = found["rows"]
    assert [(r["selector_1"], r["setting_label"], r["metric"]) for r in rows] == [
        (label, setting, metric) for label, settings in
        [("exact", [""]), ("ffd", ["3", "5", "7"]), ("quest", ["256", "1024", "50%"])] for setting in settings
        for metric in DEFAULT]
    check_rows(rows, studies)
    assert found["prompts"] == list(SAMPLES) and found["prompts_matched_by_name"] == 8
    assert found["left_out"] == [{"prompt": "s1", "layer": 5}, {"prompt": "s3", "layer": 2}]
    assert not found["all_equal"]
    text = compare(*studies).stdout
    assert "Not compared, in R2 alone: ffd at 9." in text
    assert "Left out of both, because a study did not compute them: s1 layer 5, s3 layer 2." in text
    assert "8 prompts, matched by name alone: the contents of their dumps differ or are not known; layers 0-2 and 5." \
        in text


def test_a_planted_change_is_found_and_said(studies):
    found = result(*studies, "--selectors", "ffd", "--settings", "5", "--metrics",
                   "recall,lse_error.p90,recall_deficit.max")
    check_rows(found["rows"], studies)
    assert found["rows"][0]["verdict"] == "changed" and found["rows"][0]["difference"] < -0.15
    assert found["rows"][1]["verdict"] == "no evidence of a change"
    assert f"changed: recall of ffd at delta 5 by {found['rows'][0]['difference']:+.3g} (95 % interval " \
        in found["summary"]
    assert "no evidence of a change" in found["summary"]
    text = compare(*studies, "--selectors", "ffd", "--settings", "5", "--metrics", "recall").stdout
    assert text.splitlines()[-1].startswith("The row changed: recall of ffd at delta 5 by -0.")


def test_confidence_layers_scores_and_settings_by_value(studies):
    check_rows(result(*studies, "--confidence", "80%")["rows"], studies, 0.8)
    rows = result(*studies, "--settings", "7.0,50.0%", "--metrics",
                  "keep_ratio,lse,pseudo_max_gap_exact.median")["rows"]
    assert [(r["selector_1"], r["setting_label"], r["metric"]) for r in rows] == [
        ("", "", "lse.mean"), ("exact", "", "keep_ratio.mean"), ("ffd", "", "pseudo_max_gap_exact.median"),
        ("ffd", "7", "keep_ratio.mean"), ("quest", "50%", "keep_ratio.mean")]
    chosen = result(*studies, "--layers", "5", "--metrics", "recall", "--selectors", "quest", "--settings", "256")
    assert chosen["layers"] == [5]
    d = [np.nanmean(b[-1]) - np.nanmean(a[-1]) for name, (_, a, b) in paired(
        studies, ("quest", "quest"), "recall", 256).items() if name != "s1"]
    assert chosen["rows"][0]["prompts"] == 7
    assert chosen["rows"][0]["difference"] == pytest.approx(np.mean(d), rel=NUMBER)


def test_heads_are_means_over_prompts_of_means_over_queries(studies):
    found = result(*studies)
    layers = found["layers"]
    assert len(found["heads"]) == 5 * (1 + 3 + 3), "one for each metric, whatever its statistics"
    for heads in found["heads"]:
        setting = float(heads["setting_label"].rstrip("%") or 0)
        per_place = {}
        for numbers, a, b in paired(studies, (heads["selector_1"], heads["selector_2"]), heads["metric"],
                                    setting).values():
            for y, layer in enumerate(numbers):
                for head in range(a.shape[2]):
                    d = (b - a)[y, :, head]
                    if (~np.isnan(d)).any():
                        per_place.setdefault((layer, head), []).append(np.nanmean(d))
        for i, (mean, prompts, share) in enumerate(zip(
                heads["difference"], heads["prompts"], heads["same_sign"], strict=True)):
            d = np.array(per_place[layers[i // heads["heads"]], i % heads["heads"]])
            assert mean == pytest.approx(d.mean(), rel=NUMBER, abs=DOUBLE)
            assert prompts == len(d)
            assert share == pytest.approx(np.mean(np.sign(d) == np.sign(d.mean())))
    lines = compare(*studies, "--settings", "5", "--selectors", "ffd", "--metrics", "recall").stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Where recall of ffd at delta 5 differs most"))
    of_row = next(
        h for h in found["heads"] if (h["selector_1"], h["setting_label"], h["metric"]) == ("ffd", "5", "recall"))
    largest = sorted(range(len(of_row["difference"])), key=lambda i: -abs(of_row["difference"][i]))[:10]
    for line, i in zip(lines[start + 2 : start + 12], largest, strict=True):
        count = round(of_row["same_sign"][i] * of_row["prompts"][i])
        assert line.split() == [str(layers[i // 4]), str(i % 4), f"{of_row['difference'][i]:+.3g}", str(count), "of",
                                str(of_row["prompts"][i])]
    assert lines[start + 12] == ""


def test_formats_hold_the_same_numbers(studies, tmp_path):
    arguments = [*studies, "--settings", "5,256"]
    found = result(*arguments)
    for extension in ("csv", "md", "json"):
        line = compare(*arguments, "-o", tmp_path / f"c.{extension}").stdout
        assert line == f"{tmp_path}/c.{extension}: {found['summary']}\n"
    assert json.loads((tmp_path / "c.json").read_text()) == found
    lines = read_csv(tmp_path / "c.csv")
    rows = [line for line in lines if line["layer"] == ""]
    for line, row in zip(rows, found["rows"], strict=True):
        for name in ("selector_1", "selector_2", "setting", "setting_label", "metric", "verdict"):
            assert line[name] == row[name]
        for name in ("prompts", "mean_1", "mean_2", "difference", "low", "high", "p", "p_holm"):
            assert float(line[name]) == pytest.approx(row[name], rel=NUMBER), name
    heads = [line for line in lines if line["layer"] != ""]
    values = [v for h in found["heads"] for v in h["difference"]]
    assert [float(line["difference"]) for line in heads] == pytest.approx(values, rel=NUMBER)
    assert [(line["layer"], line["head"]) for line in heads[:5]] == [
        ("0", "0"), ("0", "1"), ("0", "2"), ("0", "3"), ("1", "0")]
    markdown = (tmp_path / "c.md").read_text()
    row = found["rows"][-1]
    assert f"| quest | budget 256 | io\\_ratio (%) | {100 * row['mean_1']:.2f} | {100 * row['mean_2']:.2f} | " \
        in markdown
    assert found["summary"] in markdown
    text = compare(*arguments).stdout
    row = next(r for r in found["rows"] if (r["selector_1"], r["metric"]) == ("ffd", "recall.min"))
    line = next(line for line in text.splitlines() if line.startswith("ffd ") and " recall.min " in line)
    assert line.split()[4:7] == [f"{row['mean_1']:.5f}", f"{row['mean_2']:.5f}", f"{row['difference']:+.3g}"]
    assert f"{row['low']:+.3g} to {row['high']:+.3g}" in line
    before = (tmp_path / "c.md").read_bytes()
    assert "c.md is there already" in compare(*arguments, "-o", tmp_path / "c.md", expect=5).stderr
    assert (tmp_path / "c.md").read_bytes() == before
    compare(*arguments, "-o", tmp_path / "c.md", "--force")
    compare(*studies, "-o", tmp_path / "c.txt", expect=2)


def test_equal_studies_say_so_first(studies, tmp_path):
    found = result(studies[0], studies[0])
    assert found["all_equal"] and found["summary"] == "All 42 rows are equal."
    for row in found["rows"]:
        assert (row["p"], row["difference"], row["equal"], row["verdict"]) == (1, 0, True, "no evidence of a change")
    text = compare(studies[0], studies[0]).stdout
    assert text.startswith(
        "Every matched cell of the metrics compared (recall, lse_error, mass_recall, keep_ratio, io_ratio) is bit for "
        "bit equal.\n")
    other = tmp_path / "other.h5"
    other.write_bytes(open(studies[0], "rb").read())
    with h5py.File(other, "r+") as file:
        cell = file["dumps/0/samples/s4/ffd/keep_ratio"]
        cell[0, 0, 0, 0] = np.nextafter(cell[0, 0, 0, 0], np.float32(1))
    assert not result(studies[0], other)["all_equal"]
    assert [r["equal"] for r in result(studies[0], other)["rows"]].count(False) == 1


def test_too_few_prompts_say_how_many_it_takes(tmp_path):
    five = {f"s{i}": [2, 5] for i in range(5)}
    paths = [write_results(tmp_path / f"{i}.h5", [ffd()], five, seed=i) for i in range(2)]
    found = result(*paths, "--metrics", "recall", "--settings", "5")
    assert found["rows"][0]["verdict"] == "too few prompts to tell" and found["prompts_needed"] == 6
    assert (found["rows"][0]["low"], found["rows"][0]["high"]) == (None, None)
    assert "5 prompts cannot show a change of one row at confidence 0.95: 1 row takes at least 6 prompts." \
        in found["summary"]
    found = result(*paths)  # 2 / 2^n <= 0.05 / 18
    assert found["prompts_needed"] == 10
    assert "any of 18 rows at confidence 0.95: 18 rows take at least 10 prompts; fewer --metrics" in found["summary"]
    found = result(*paths, "--metrics", "recall", "--settings", "5", "--confidence", "0.9")
    assert found["rows"][0]["verdict"] != "too few prompts to tell"


def test_many_prompts_are_drawn_and_repeat(tmp_path):
    many = {f"s{i:02}": [2] for i in range(30)}
    paths = [write_results(tmp_path / f"{i}.h5", [ffd()], many, seed=i) for i in range(2)]
    arguments = [*paths, "--metrics", "recall", "--settings", "5"]
    one, again, other = result(*arguments)["rows"][0], result(*arguments, "--threads", 1)["rows"][0], \
        result(*arguments, "--seed", 7)["rows"][0]
    assert one == again and one["p"] != other["p"]
    d = np.array([np.nanmean(b) - np.nanmean(a) for _, a, b in paired(paths, ("ffd", "ffd"), "recall", 5).values()])
    signs = np.random.default_rng(0).choice([-1, 1], (200_000, 30))
    p = np.mean(np.abs(signs @ d) >= abs(d.sum()) - 1e-12)
    assert one["p"] == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 1e5) + 1e-4)
    assert "100000 sign vectors, drawn with --seed 7" in compare(*arguments, "--seed", 7).stdout


def test_two_selectors_of_one_file(tmp_path):
    label = "ffd:gqa=per_head"
    path = write_results(tmp_path / "r.h5", [ffd(), ffd(label, "per_head"), selector("best,k", "topk", "budget"),
                                             quest("q")], SAMPLES)
    for typed in (f"ffd={label}", f"{label}=ffd"):
        found = result(path, path, "--selectors", typed, "--metrics", "recall,keep_ratio")
        labels = ("ffd", label) if typed.startswith("ffd=") else (label, "ffd")
        assert {(r["selector_1"], r["selector_2"]) for r in found["rows"]} == {labels}
        check_rows(found["rows"], [path, path])
        assert {"selector": typed, "option": "gqa", "value_1": ["union", "per_head"][labels[0] == label],
                "value_2": ["per_head", "union"][labels[0] == label]} in found["options"]
    rows = result(path, path, "--selectors", f"best,k=q,ffd,{label}", "--metrics", "recall")["rows"]
    assert {(r["selector_1"], r["selector_2"]) for r in rows} == {("best,k", "q"), ("ffd", "ffd"), (label, label)}
    assert {(r["selector_1"]) for r in result(path, path, "--metrics", "recall", "--selectors", "ffd",
                                              "q")["rows"]} == {"ffd", "q"}
    text = compare(path, path, "--selectors", "best,k=q", "--metrics", "recall").stdout
    assert "Options that differ (R1 -> R2): best,k=q: selector topk -> quest." in text


def test_options_versions_and_devices_are_said(studies):
    set_manifest(studies[0], program={"version": "0.1.0", "git_commit": "abc"}, device="CPU, 2 threads",
                 configuration={"salient_delta": 5})
    set_manifest(studies[1], program={"version": "0.2.0", "git_commit": "def"}, device="NVIDIA H200",
                 configuration={"salient_delta": 4})
    edit(studies[1], lambda name,
         s: s["ffd"].attrs.update(options=json.dumps({"gqa": "per_head", "sub_block": 128, "new": "x"})))
    text = compare(*studies).stdout
    assert (f"R1 = {studies[0]} (attest 0.1.0, commit abc, CPU, 2 threads)\nR2 = {studies[1]} (attest 0.2.0, commit "
            "def, NVIDIA H200)\n") in text
    assert (
        "Options that differ (R1 -> R2): ffd: gqa union -> per_head, new - -> x, rule topdelta -> -, scan thumbnail -> "
        "-; salient_delta 5 -> 4.") in text


def test_prompts_are_matched_by_content_then_by_name(tmp_path):
    """Two dumps have a sample of the same name; hashes tell which is which."""
    paths = []
    for number, order in enumerate(([0, 1], [1, 0])):
        path = write_results(tmp_path / f"{number}.h5", [ffd()], {"a": [2, 5], "only" + "01"[number]: [2]}, seed=number)
        with h5py.File(path, "r+") as file:
            file.copy("dumps/0", "dumps/1")
            for dump, content in enumerate(order):
                for sample in file[f"dumps/{dump}/samples"].values():
                    sample["ffd/recall"][...] = 0.5 + 0.1 * content + 0.001 * number
        set_manifest(path, inputs=[{"xxh64_of_1MiB": f"{content:016x}"} for content in order])
        paths.append(path)
    found = result(*paths, "--metrics", "recall")
    assert found["prompts"] == ["a", "a"] and found["prompts_matched_by_name"] == 0
    assert [r["difference"] for r in found["rows"]] == pytest.approx([0.001] * 3, rel=1e-3)
    assert (found["study_1"]["prompts_alone"], found["study_2"]["prompts_alone"]) == (["only0"] * 2, ["only1"] * 2)
    assert "Not compared, in R1 alone: 2 prompts (only0, only0)." in compare(*paths).stdout
    set_manifest(paths[1], inputs=[])
    assert "prompt 'a' is there twice, of the dumps tiny.h5 (/dumps/0) and tiny.h5 (/dumps/1)" \
        in compare(*paths, expect=4).stderr
    set_manifest(paths[0], inputs=[{"xxh64_of_1MiB": "1"}, {"xxh64_of_1MiB": "1"}])
    assert "is there twice" in compare(paths[0], paths[0], expect=4).stderr
    for path in paths:
        with h5py.File(path, "r+") as file:
            del file["dumps/1"]
    set_manifest(paths[1], inputs=[{"xxh64_of_1MiB": "2"}])
    assert result(*paths)["prompts_matched_by_name"] == 1, "other contents: the name"


def test_infinite_values_are_left_out_and_said(studies):
    with h5py.File(studies[1], "r+") as file:
        for sample in file["dumps/0/samples"].values():
            sample["ffd/scan_error_max"] = np.zeros(sample["ffd/pseudo_max_gap_exact"].shape, np.float32)
        file["dumps/0/samples/s2/ffd/scan_error_max"][0, 0, 0] = np.inf
    found = result(studies[1], studies[1], "--metrics", "scan_error_max.max", "--selectors", "ffd")
    assert (found["rows"][0]["prompts"], found["rows"][0]["infinite_prompts"]) == (7, 1)
    assert "Prompts with an infinite value are left out of scan_error_max.max of ffd (1 prompt)." in found["header"]


def test_span_recall_takes_the_retrieval_cells_of_both(studies):
    for number, path in enumerate(studies):
        edit(path, lambda name, s: s.create_dataset(
            "scores/span_mass", data=np.random.default_rng(number).random(s["scores/lse"].shape).astype(np.float32)))
    row = result(*studies, "--metrics", "span_recall.min", "--selectors", "ffd", "--settings", "5")["rows"][0]
    masses = paired(studies, ("scores", "scores"), "span_mass", 0)
    d = []
    for name, (_, a, b) in paired(studies, ("ffd", "ffd"), "recall", 5).items():
        keep = (masses[name][1] >= 0.3) & (masses[name][2] >= 0.3) & ~np.isnan(a)
        if keep.any():
            d.append(b[keep].min() - a[keep].min())
    assert row["prompts"] == len(d) and row["difference"] == pytest.approx(np.mean(d), rel=NUMBER)


# -- settings of two kinds, and matched bytes


@pytest.fixture
def bytes_study(tmp_path):
    """Both methods in one file, with io_ratio planted by setting: ffd reads 10, 20, 40 %, quest 5, 21, 30 %."""
    path = write_results(tmp_path / "r.h5", [ffd(), quest(dense_layers=0)], SAMPLES, seed=3)

    def change(name, sample):
        sample["ffd/io_ratio"][...] = np.broadcast_to([0.1, 0.2, 0.4], sample["ffd/io_ratio"].shape)
        sample["quest/io_ratio"][...] = np.broadcast_to([0.05, 0.21, 0.3], sample["quest/io_ratio"].shape)

    return edit(path, change)


def labels(path, label):
    with h5py.File(path) as file:
        return list(next(iter(file["dumps/0/samples"].values()))[label]["setting_labels"].asstr()[()])


def of_samples(path, label, setting, metric="recall"):
    with h5py.File(path) as file:
        return np.array(
            [np.nanmean(s[label][metric][()][..., setting].astype(float)) for s in file["dumps/0/samples"].values()])


def test_settings_of_two_kinds(bytes_study):
    deltas, budgets = labels(bytes_study, "ffd"), labels(bytes_study, "quest")
    found = result(bytes_study, bytes_study, "--selectors", f"ffd@{deltas[1]}=quest@{budgets[0]}", "--metrics",
                   "recall")
    (row,) = found["rows"]
    first, second = of_samples(bytes_study, "ffd", 1), of_samples(bytes_study, "quest", 0)
    assert (row["mean_1"], row["mean_2"]) == (pytest.approx(first.mean()), pytest.approx(second.mean()))
    assert (row["setting"], row["setting_label"], row["setting_2"]) == ("delta", deltas[1], f"budget {budgets[0]}")
    assert f"delta {deltas[1]} = budget {budgets[0]}" in compare(
        bytes_study, bytes_study, "--selectors", f"ffd@{deltas[1]}=quest@{budgets[0]}", "--metrics", "recall").stdout
    assert "LABEL1@SETTING=LABEL2@SETTING" in compare(
        bytes_study, bytes_study, "--selectors", "ffd=quest", expect=4).stderr
    assert f"has the settings {', '.join(deltas)}, found '99'" in compare(
        bytes_study, bytes_study, "--selectors", "ffd@99=quest@1", expect=2).stderr


def test_a_selector_without_settings_beside_a_setting(tmp_path):
    path = write_results(tmp_path / "r.h5", [ffd(), EXACT], SAMPLES, seed=3)
    delta = labels(path, "ffd")[1]
    for pair, setting, second in ((f"exact=ffd@{delta}", "no setting", f"delta {delta}"),
                                  (f"ffd@{delta}=exact", f"delta {delta}", "no setting")):
        (row,) = result(path, path, "--selectors", pair, "--metrics", "recall")["rows"]
        assert row["setting_2"] == second and f"{setting} = {second}" in compare(
            path, path, "--selectors", pair, "--metrics", "recall").stdout
        means = [of_samples(path, label, 1 if label == "ffd" else 0).mean()
                 for label in (part.split("@")[0] for part in pair.split("="))]
        assert [row["mean_1"], row["mean_2"]] == pytest.approx(means)
    assert "neither a label" in compare(path, path, "--selectors", f"ffd@{delta}=ffd", expect=2).stderr


def test_bytes_are_matched_by_the_layers_of_the_rows(bytes_study, tmp_path):
    """The second study did not compute layer 5, where quest reads all in the first."""
    def all_of_layer_5(name, sample):
        sample["quest/io_ratio"][-1] = 1

    def plant(name, sample):
        sample["ffd/io_ratio"][:-1] = np.broadcast_to([0.1, 0.2, 0.4], sample["ffd/io_ratio"][:-1].shape)

    first = edit(bytes_study, all_of_layer_5)
    second = edit(write_results(tmp_path / "two.h5", [ffd(), quest(dense_layers=0)], SAMPLES, seed=3,
                                skipped={(name, 5) for name in SAMPLES}), plant)
    rows = result(first, second, "--selectors", "quest=ffd", "--same-bytes", "--metrics", "io_ratio")["rows"]
    assert [(row["mean_1"], row["mean_2"]) for row in rows] == [
        (pytest.approx(0.21), pytest.approx(0.2)), (pytest.approx(0.3), pytest.approx(0.2))]
    assert [(row["io_1"], row["io_2"]) for row in rows] == [(row["mean_1"], row["mean_2"]) for row in rows]


def test_matched_bytes(bytes_study):
    """At what quest reads, ffd is its setting that reads most without reading more; quest's smallest has none."""
    deltas, budgets = labels(bytes_study, "ffd"), labels(bytes_study, "quest")
    found = result(bytes_study, bytes_study, "--selectors", "quest=ffd", "--same-bytes", "--metrics", "recall")
    assert [(r["setting_label"], r["setting_2"], r["io_1"], r["io_2"]) for r in found["rows"]] == [
        (budgets[1], f"delta {deltas[1]}", pytest.approx(0.21), pytest.approx(0.2)),
        (budgets[2], f"delta {deltas[1]}", pytest.approx(0.3), pytest.approx(0.2))]
    text = compare(bytes_study, bytes_study, "--selectors", "quest=ffd", "--same-bytes", "--metrics", "recall").stdout
    assert "Matched by bytes" in text and "read 21 % and 20 %" in text and (
        f"quest=ffd at {budgets[0]}, as R2 has no setting that is known to read as little") in text
    other = result(bytes_study, bytes_study, "--selectors", "ffd=quest", "--same-bytes", "--metrics", "recall",
                   "--settings", deltas[2])
    assert [(r["setting_label"], r["setting_2"]) for r in other["rows"]] == [(deltas[2], f"budget {budgets[2]}")]
    none = edit(bytes_study, lambda name,
                sample: sample["ffd/io_ratio"].write_direct(np.ones(sample["ffd/io_ratio"].shape, np.float32)))
    refused = compare(none, none, "--selectors", "quest=ffd", "--same-bytes", expect=4).stderr
    assert "read as little as one of " in refused
    # Each prompt counts once, as in the rows: a prompt of two layers as much as one of four, which have most of the
    # cells.
    def uneven(name, sample):
        sample["ffd/io_ratio"][...] = 0.3
        sample["quest/io_ratio"][...] = np.broadcast_to(
            [0.1, 0.15 if len(SAMPLES[name]) == 4 else 0.5, 1.1], sample["quest/io_ratio"].shape)

    (row, *_) = result(*[edit(bytes_study, uneven)] * 2, "--selectors", "ffd=quest", "--same-bytes", "--metrics",
                       "io_ratio")["rows"]
    assert (row["mean_1"], row["mean_2"], row["setting_2"]) == (
        pytest.approx(0.3), pytest.approx(0.1), f"budget {budgets[0]}")


def test_a_setting_of_same_bytes_is_one_of_some_pair(bytes_study):
    delta = labels(bytes_study, "ffd")[2]
    arguments = (bytes_study, bytes_study, "--selectors", "ffd,quest", "--same-bytes", "--metrics", "recall",
                 "--settings")
    assert [(row["selector_1"], row["setting_label"]) for row in result(*arguments, delta)["rows"]] == [("ffd", delta)]
    refused = compare(*arguments, f"{delta},99", expect=2).stderr
    assert "--settings: no selector that is compared was studied at '99'" in refused


def test_pairs_that_read_too_much_are_named(bytes_study, tmp_path):
    def all_of_second(name, sample):
        for label in ("ffd", "quest"):
            sample[label]["io_ratio"][...] = 1.5

    second = edit(write_results(tmp_path / "two.h5", [ffd(), quest(dense_layers=0)], SAMPLES, seed=3), all_of_second)
    refused = compare(bytes_study, second, "--same-bytes", expect=4).stderr
    assert "read as little as one of " in refused and refused.rstrip().endswith("for ffd, quest")
