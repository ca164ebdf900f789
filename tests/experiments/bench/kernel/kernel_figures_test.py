"""Figures from kernel benches: plain numpy recomputes every number of the csv files from the JSON."""

import json
import math
import re
import shutil

import numpy as np
import pytest
from attest_program import attest
from bench_maker import (ABLATION, HEADS, LENGTHS, ablation, bench, depths, everything, latency, measurement, selection,
                         write_bench)
from csv_rows import read_csv
from results_maker import ffd, write_results

NUMBER = 1e-8  # relative tolerance: ten digits in the csv


def figures(*arguments, expect=0):
    return attest("figures", *arguments, "--format", "svg", expect=expect)


def said(*arguments):
    return json.loads(figures(*arguments, "--json").stdout)


def texts(report):
    return [f["text"] for e in report["experiments"] for f in e["findings"]]


def same(row, expected):
    for column, value in expected.items():
        assert float(row[column]) == pytest.approx(value, rel=NUMBER, nan_ok=True), (column, row)


def chosen(document, **wanted):
    """Measurements with these fields; setting=(kind, value)."""
    if "setting" in wanted:
        wanted["setting"] = dict(zip(("kind", "value"), wanted["setting"]))
    experiment = wanted.pop("experiment", None)
    return [m for m in document["measurements"] if all(m[k] == v for k, v in wanted.items())
            and (experiment is None or experiment in m["experiments"])]


def mean(measurements, *keys):
    def value(m):
        for key in keys:
            m = m[key]
        return m
    return np.mean([value(m) for m in measurements])


def speed_up(document, ours, method):
    dense = chosen(document, method=method, length=ours[0]["length"], batch=ours[0]["batch"])
    return mean(dense, "median_microseconds") / mean(ours, "median_microseconds") if dense else math.nan


def times(ours):
    medians = [m["median_microseconds"] for m in ours]
    floor = mean(ours, "floor_microseconds")
    return {"layers": len(ours), "us": np.mean(medians), "us_low": min(medians), "us_high": max(medians),
            "floor_us": floor, "floor_ratio": np.mean(medians) / floor,
            "keep_ratio": mean(ours, "keep_ratio")}


def fidelity(ours):
    values = lambda name: [m["fidelity"][name] for m in ours]
    return {"recall_mean": np.mean(values("recall_mean")), "recall_min": min(values("recall_min")),
            "lse_error_mean": np.mean(values("lse_error_mean")), "lse_error_max": max(values("lse_error_max"))}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    document = everything()
    path = write_bench(folder / "b.json", document)
    return document, path, folder / "out", said(path, "-o", folder / "out")


PAPERS_US = {("ffd", 5.0): 170, ("ffd", 7.0): 210, ("sdpa_flash", None): 1120}
PAPERS_SPEED_UP = {5.0: 6.58, 7.0: 5.33}


def test_kernel_latency_is_what_the_measurements_say(made):
    document, _, out, _ = made
    rows = read_csv(out / "kernel_latency.csv")
    assert len(rows) == 7 * 2 * (6 + 1 + 2) and rows == read_csv(out / "kernel_latency_speedup.csv")
    printed = [line for line in read_csv(out / "kernel_latency_times.csv") if "dealt" not in line["method"]]
    assert len(printed) == len(rows)
    for row, line in zip(rows, printed, strict=True):
        value = None if row["value"] == "nan" else float(row["value"])
        length, batch = int(row["length"]), int(row["batch"])
        ours = chosen(document, experiment="kernel_latency", method=row["method"], length=length, batch=batch,
                      setting=(row["setting"], value or 0),
                      launches=None if row["method"].startswith("sdpa") else "fused")
        assert len(ours) == (1 if row["method"].startswith("sdpa") else 3)
        papers = batch == 1 and length == LENGTHS[-1] and row["setting"] in ("delta", "none")
        expected = times(ours) | {
            "io_ratio": mean(ours, "io_ratio"), "io_limit": 1 / mean(ours, "io_ratio"),
            "over_flash": speed_up(document, ours, "sdpa_flash"),
            "over_cudnn": speed_up(document, ours, "sdpa_cudnn"),
            "replay_low": min(min(m["microseconds"]) for m in ours),
            "replay_high": max(max(m["microseconds"]) for m in ours),
            "paper_rtx4090_us": PAPERS_US.get((row["method"], value), math.nan) if papers else math.nan,
            "paper_rtx4090_over_flash": PAPERS_SPEED_UP.get(value, math.nan) if papers and row["method"] == "ffd"
            else math.nan}
        same(row, expected)
        same(line, expected | {"length": length, "batch": batch})
    assert {row["curve"] for row in rows} >= {"FFD delta 5 batch 1", "FFD keep 27 % batch 8",
                                              "skip_softmax factor 0.001 batch 1", "SDPA cuDNN batch 8"}


def test_the_summary_is_of_the_times(made):
    _, _, out, _ = made
    rows = read_csv(out / "kernel_latency.csv")
    summary = read_csv(out / "kernel_latency_summary.csv")
    assert len(summary) == 2 * 7
    for line in summary:
        mine = [r for r in rows if r["curve"] == f"{line['method']} batch {line['batch']}"]
        papers = {("FFD delta 5", "1"): (7.33, 11.63), ("FFD delta 7", "1"): (6.18, math.nan)}.get(
            (line["method"], line["batch"]), (math.nan, math.nan))
        expected = {"lengths": 7, "paper_rtx4090_mean": papers[0], "paper_rtx4090_peak": papers[1],
                    "floor_ratio_least": min(float(r["floor_ratio"]) for r in mine),
                    "floor_ratio_largest": max(float(r["floor_ratio"]) for r in mine)}
        for baseline in ("flash", "cudnn"):
            peak = max(mine, key=lambda r: float(r[f"over_{baseline}"]))
            expected |= {f"mean_over_{baseline}": np.mean([float(r[f"over_{baseline}"]) for r in mine]),
                         f"peak_over_{baseline}": float(peak[f"over_{baseline}"]),
                         f"peak_length_{baseline}": float(peak["length"]),
                         f"io_limit_{baseline}": float(peak["io_limit"])}
        same(line, expected)


def test_deals_are_in_the_times_and_in_a_sentence(made):
    document, _, out, report = made
    lines = [r for r in read_csv(out / "kernel_latency_times.csv") if "dealt" in r["method"]]
    assert len(lines) == 7 * 2 * 3
    ratios = []
    for line in lines:
        share = int(re.fullmatch(r"FFD dealt keep (\d+) %", line["method"])[1]) / 100
        at = {"length": int(line["length"]), "batch": int(line["batch"]), "setting": ("keep", share)}
        dealt, without = (chosen(document, experiment="kernel_latency", launches=launches, **at)
                          for launches in ("dealt", "fused"))
        same(line, times(dealt))
        ratios.append((mean(dealt, "median_microseconds") / mean(without, "median_microseconds"),
                       f"{line['method']} at {at['length'] // 1024}K tokens, batch {at['batch']}"))
    (least, at_least), (most, at_most) = min(ratios), max(ratios)
    assert least < 0.9 and most > 1
    assert (f"Given a deal of thread blocks by what each KV head keeps at the step, a call takes {least:.2f} "
            f"({at_least}) to {most:.2f} times ({at_most}) as long as without one, in 42 cases.") in texts(report)


def test_one_deal_and_none(tmp_path):
    one = [m for m in latency(lengths=[4096, 8192], batches=[1]) if m["launches"] != "dealt" or (
        m["length"], m["setting"]["value"]) == (8192, 0.27)]
    sentences = texts(said(write_bench(tmp_path / "b.json", bench(one)), "-o", tmp_path / "one"))
    assert any(re.fullmatch(r"Given a deal .* a call takes 0\.\d\d times \(FFD dealt keep 27 % at 8K tokens, batch 1\) "
                            r"as long as without one, in 1 case\.", s) for s in sentences)
    none = write_bench(tmp_path / "c.json", bench(latency(lengths=[4096, 8192], batches=[1], dealt=False)))
    assert not any("deal" in s for s in texts(said(none, "-o", tmp_path / "none")))


def peak_recall(document, row):
    ours = chosen(document, experiment="kernel_latency", method="ffd", launches="fused", length=int(row["length"]),
                  batch=int(row["batch"]), setting=(row["setting"], float(row["value"])))
    return mean(ours, "fidelity", "recall_mean")


def curves_of(script):
    """The curves that a gnuplot script draws."""
    names = re.findall(r"[^'\"]* batch 1\b", script.read_text())
    return {name.removesuffix(" batch 1") for name in names if not name.startswith("(")}  # (a) is a panel's title


def test_deltas_and_shares_are_figures_of_their_own(made, tmp_path):
    _, _, out, report = made
    assert [f["name"] for f in report["experiments"][0]["figures"]] == [
        "kernel_latency", "kernel_latency_speedup", "kernel_latency_keep", "kernel_latency_speedup_keep"]
    deltas, keeps, dense = {"FFD delta 5", "FFD delta 7"}, {
        "FFD keep 2 %", "FFD keep 6 %", "FFD keep 27 %", "FFD keep 100 %"}, {"SDPA flash", "SDPA cuDNN"}
    skip = {"skip_softmax factor 0.001"}
    for name, curves in {"kernel_latency": deltas | skip | dense, "kernel_latency_keep": keeps | skip | dense,
                         "kernel_latency_speedup": deltas | skip, "kernel_latency_speedup_keep": keeps | skip}.items():
        assert curves_of(out / f"{name}.gp") == curves, name
    titles = re.findall(r"'(\([a-z]\) batch \d+)'", (out / "kernel_latency_speedup.gp").read_text())
    assert titles == ["(a) batch 1", "(b) batch 1", "(c) batch 8", "(d) batch 8"], (
        "a row of panels is a batch size, beside each other its baselines")
    document = bench([m for m in latency() if m["setting"]["kind"] != "delta"])
    alone = said(write_bench(tmp_path / "b.json", document), "-o", tmp_path / "out")
    assert [f["name"] for f in alone["experiments"][0]["figures"]] == ["kernel_latency", "kernel_latency_speedup"]
    assert curves_of(tmp_path / "out/kernel_latency.gp") == keeps | skip | dense


def test_findings_quote_the_csv(made):
    _, _, out, report = made
    ffd = [r for r in read_csv(out / "kernel_latency.csv") if r["method"] == "ffd"]
    sentences = "\n".join(texts(report))
    for baseline, column in (("SDPA flash", "over_flash"), ("SDPA cuDNN", "over_cudnn")):
        peak = max(ffd, key=lambda r: float(r[column]))
        assert f"The largest speed-up over {baseline} is {float(peak[column]):.2f}x" in sentences
        assert (f"at {int(peak['length']) // 1024}K tokens, batch {peak['batch']}; reading less gives at most 1/io = "
                f"{float(peak['io_limit']):.2f}x there; mean recall is {peak_recall(made[0], peak):.4f}.") in sentences
        beyond = [r for r in ffd if float(r[column]) > float(r["io_limit"])]
        if beyond:
            assert f"{len(beyond)} of {len(ffd)} speed-ups of FFD over {baseline} exceed 1/io" in sentences
        else:
            assert f"No speed-up of FFD over {baseline} exceeds 1/io." in sentences
        slower = [r for r in ffd if float(r[column]) < 1]
        assert (f"FFD is slower than {baseline} in {len(slower)} of {len(ffd)} cases" in sentences) == bool(slower)
    assert "FFD is slower than SDPA cuDNN" in sentences, "the case is not trivial"
    assert "exceed 1/io, most that of FFD keep 100 %" in sentences and (
        "SDPA flash is slow there, with 3.11 times its own floor") in sentences
    ratios = [float(r["floor_ratio"]) for r in ffd]
    assert f"FFD takes {min(ratios):.2f} times its floor where it is nearest" in sentences \
        and f"and {max(ratios):.2f} times" in sentences
    by_5 = [float(r["over_flash"]) for r in ffd if r["curve"] == "FFD delta 5 batch 1"]
    assert (f"FFD delta 5, batch 1, is {np.mean(by_5):.2f}x as fast as SDPA flash on average over 7 lengths (paper, "
            "RTX 4090: 7.33x).") in sentences
    assert "outputs differ by at most 0.0003 of their norm, log-sum-exps by 1e-05 nats, 0 of" in sentences
    assert "nan" not in sentences


def test_selection_overhead_is_what_the_measurements_say(made):
    document, _, out, report = made
    rows = read_csv(out / "selection_overhead.csv")
    papers = [0.0044, 0.0090, 0.1115, 0.0186]
    assert [r["method"] for r in rows] == ["ffd_scan", "block_topk", "token_topp", "kivi_scan"]
    us = [mean(chosen(document, method=r["method"]), "median_microseconds") for r in rows]
    for i, row in enumerate(rows):
        ours = chosen(document, method=row["method"])
        same(row, times(ours) | {"ms_per_head": us[i] / HEADS / 1000, "over_topdelta": us[i] / us[0],
                                 "paper_rtx4090_ms_per_head": papers[i],
                                 "paper_rtx4090_keep_ratio": [0.273, 0.275, 0.273, 1][i],
                                 "paper_rtx4090_over_topdelta": papers[i] / papers[0]})
    sentences = "\n".join(texts(report))
    assert (f"top-p takes {us[2] / us[0]:.2f} times as long as top-delta selection (paper, RTX 4090: 25.3 times), both "
            "at 28.7 % of the tokens.") in sentences


def test_selection_at_other_shares_is_a_warning(tmp_path):
    report = said(write_bench(tmp_path / "b.json", bench(selection(keeps=(0.1, 0.273), topp_keep=0.8))), "-o",
                  tmp_path / "out")
    rows = read_csv(tmp_path / "out/selection_overhead.csv")
    assert [(r["method"], r["setting"]) for r in rows][:4] == [("ffd_scan", "keep 10 %"), ("block_topk", "keep 10 %"),
                                                               ("token_topp", "keep 10 %"), ("ffd_scan", "keep 27.3 %")]
    for i in (0, 3):  # each with the top-delta of its own setting
        same(rows[i + 1], {"over_topdelta": float(rows[i + 1]["us"]) / float(rows[i]["us"])})
    same(rows[-1], {"over_topdelta": float(rows[-1]["us"]) / float(rows[3]["us"])})
    warned = [f["text"] for e in report["experiments"] for f in e["findings"] if f["severity"] == "warning"]
    assert len(warned) == 2 and all("The shares differ: " in text and "top-p" in text for text in warned)


DEPTHS = {"2+8": ("2-bit", 0.105, 10.65), "4+8": ("4-bit", 0.201, 5.60), "8+8": ("8-bit", 0.406, 2.82)}


def test_quant_depth_is_what_the_measurements_say(made):
    document, _, out, report = made
    rows, printed = read_csv(out / "quant_depth.csv"), read_csv(out / "quant_depth_times.csv")
    assert len(rows) == len(printed) == 9
    settings = {"delta 5": ("delta", 5), "keep 27 %": ("keep", 0.27), "keep 100 %": ("keep", 1)}
    by_place = {}
    for row, line in zip(rows, printed, strict=True):
        scan, milliseconds, over = DEPTHS[row["configuration"]]
        ours = chosen(document, experiment="quant_depth", scan=scan, setting=settings[row["setting"]])
        assert len(ours) == 2
        expected = times(ours) | fidelity(ours) | {"ms_per_head": mean(ours, "median_microseconds") / HEADS / 1000,
                                                   "over_flash": speed_up(document, ours, "sdpa_flash"),
                                                   "io_limit": 1 / mean(ours, "io_ratio"),
                                                   "paper_rtx4090_ms_per_head": milliseconds,
                                                   "paper_rtx4090_over_flash": over}
        same(row, expected | {"bits": int(scan[0]), "keeps_all": float(row["setting"] == "keep 100 %")})
        same(line, expected)
        by_place[row["setting"], int(scan[0])] = ours
    ratios = lambda key, bits: [mean(by_place[setting, bits], key) / mean(by_place[setting, 2], key)
                                for setting in settings]
    span = lambda key, bits: f"{min(ratios(key, bits)):.2f} to {max(ratios(key, bits)):.2f}"
    assert (
        f"At 16K tokens, batch 1, at 3 settings, 4+8 takes {span('median_microseconds', 4)} times as long as 2+8, and "
        f"8+8 {span('median_microseconds', 8)} times "
            f"(paper, RTX 4090: 1.91 and 3.87 times). They move {span('bytes', 4)} and {span('bytes', 8)} times the "
            "bytes." in texts(report))
    floor = [mean(by_place["keep 100 %", bits], "fidelity", "lse_error_mean") for bits in (2, 4, 8)]
    assert f"2+8, 4+8 and 8+8 is {floor[0]:.2g}, {floor[1]:.2g} and {floor[2]:.2g} nats: what no delta mends." \
        in "\n".join(texts(report))


PAPERS_ABLATION = [(17.43, 86.82, 25.87), (21.64, 90.39, 25.90), (14.80, 86.95, 25.83), (24.65, 90.40, 25.90),
                   (21.21, 86.95, 25.83), (53.96, 90.40, 25.90)]


def test_ablation_is_what_the_measurements_say(made):
    document, _, out, report = made
    rows = read_csv(out / "ablation.csv")
    assert [(r["scan"], r["rule"], r["launches"]) for r in rows] == ABLATION
    ours = [chosen(document, experiment="ablation", scan=s, rule=r, launches=l) for s, r, l in ABLATION]
    us = [mean(o, "median_microseconds") for o in ours]
    for i, row in enumerate(rows):
        speed, ruler, longbench = PAPERS_ABLATION[i]
        same(row, times(ours[i]) | fidelity(ours[i]) | {"row": i + 1, "over_row_1": us[0] / us[i],
                                                        "over_row_6": us[i] / us[5],
                                                        "paper_rtx4090_tokens_per_second": speed,
                                                        "paper_rtx4090_over_row_1": speed / 17.43, "paper_ruler": ruler,
                                                        "paper_longbench": longbench})
    sentences = "\n".join(texts(report))
    for a, b in ((0, 5), (2, 4), (3, 5), (0, 2), (1, 3)):
        assert (f"{us[a] / us[b]:.2f}x (rows {a + 1} and {b + 1}; paper: "
                f"{PAPERS_ABLATION[b][0] / PAPERS_ABLATION[a][0]:.2f}x)") in sentences


def test_ablation_of_two_deltas_and_a_missing_row(tmp_path):
    """Top-k has the budget of each layer: its settings differ between layers, and each goes to the delta that keeps as
    much."""
    document = bench(ablation(deltas=(5.0, 7.0), left_out=(3,)))
    for m in document["measurements"]:
        if m["rule"] == "topk":
            m["setting"]["value"] = m["keep_ratio"]
    report = said(write_bench(tmp_path / "b.json", document), "-o", tmp_path / "out")
    rows = read_csv(tmp_path / "out/ablation.csv")
    assert [(r["row"], r["setting"]) for r in rows] == [
        (str(i), d) for d in ("delta 5", "delta 7") for i in range(1, 7)]
    for row in rows:
        if row["row"] == "3":
            same(row, {"us": math.nan, "layers": 0, "over_row_1": math.nan, "length": 16384, "batch": 1})
            continue
        keep = {"delta 5": 0.10, "delta 7": 0.14}[row["setting"]]
        ours = [m for m in chosen(document, scan=row["scan"], rule=row["rule"], launches=row["launches"])
                if m["keep_ratio"] == pytest.approx(keep * (1 + 0.1 * m["layer"]))]
        assert len(ours) == 2
        same(row, times(ours))
    assert "At 16K tokens, batch 1, delta 7, row 3 (2-bit, topk, split) was not measured." in texts(report)
    assert not any("nan" in text for text in texts(report))


def test_several_machines_are_rows_of_panels(tmp_path):
    paths = [write_bench(tmp_path / f"{name}.json", everything(gpu=gpu))
             for name, gpu in (("b", "NVIDIA H200"), ("c", "NVIDIA H100 80GB HBM3"))]
    report = said(*paths, "-o", tmp_path / "out")
    assert [e["study"] for e in report["experiments"]] == ["H200; H100 80GB HBM3"] * 4
    for name in ("kernel_latency", "kernel_latency_times", "quant_depth", "selection_overhead", "ablation"):
        assert {r["study"] for r in read_csv(tmp_path / f"out/{name}.csv")} == {"H200", "H100 80GB HBM3"}
    captions = (tmp_path / "out/captions.md").read_text()
    for gpu in ("NVIDIA H200", "NVIDIA H100 80GB HBM3"):
        assert (f"{gpu} (driver 580.65.06, CUDA 13.0, 1980 MHz, copies 4 TB/s), layers of dump.h5 (tiny) with 32 query "
                "heads, 8 KV heads, head_dim 128; bench ") in captions


def test_two_benches_of_one_gpu_have_their_files_names(tmp_path):
    paths = [write_bench(tmp_path / f"{name}.json", bench(latency(layers=layers)))
             for name, layers in (("one", (0,)), ("two", (1,)))]
    assert said(*paths, "-o", tmp_path / "out")["experiments"][0]["study"] == "H200 (one); H200 (two)"
    assert f"{paths[0]} and {paths[0]} hold the same bench" in figures(
        paths[0], paths[0], "-o", tmp_path / "no", expect=2).stderr


def test_the_axes_of_machines_are_the_same(tmp_path):
    """The lengths of the last row stand below all rows."""
    paths = [write_bench(tmp_path / "a.json", bench(latency(lengths=[4096, 8192], batches=(1,)))),
             write_bench(tmp_path / "b.json", bench(latency(lengths=[65536, 131072], batches=(1,)), gpu="NVIDIA A100"))]
    figures(*paths, "-o", tmp_path / "out")
    script = (tmp_path / "out/kernel_latency.gp").read_text()
    ranges = {line.split("set xrange ")[1].split(";")[0] for line in script.splitlines() if "set logscale x" in line}
    assert len(ranges) == 1


def test_what_is_missing_is_named_with_options(tmp_path):
    only = write_bench(tmp_path / "b.json", bench(
        latency(lengths=[4096, 8192], cudnn=False), left_out=[("sdpa_cudnn", "this LibTorch has no cuDNN")]))
    report = said(only, "-o", tmp_path / "out")
    skipped = {s["experiment"]: s for s in report["skipped"]}
    assert set(skipped) == {"selection_overhead", "quant_depth", "ablation"}
    assert all(s["command"] == "attest bench kernel" and s["run_options"].startswith("--only ")
               for s in skipped.values())
    assert "sdpa_cudnn was not measured: this LibTorch has no cuDNN." in texts(report)
    assert "The bench has no SDPA cuDNN to compare with." in texts(report)
    assert all(math.isnan(float(r["over_cudnn"])) for r in read_csv(tmp_path / "out/kernel_latency.csv"))
    said_so = figures(only, "-o", tmp_path / "text").stdout
    assert ("left out: ablation (H200): needs ffd under top-delta with split and with fused launches; attest bench "
            "kernel --only ablation ") in said_so
    refused = figures(only, "-o", tmp_path / "none", "--only", "ablation", expect=4)
    assert "the results support no figure: ablation needs ffd under top-delta" in refused.stderr \
        and not (tmp_path / "none").exists()


def test_options_name_what_bench_kernel_has(tmp_path):
    """As far as the program has the command: each option of the advice is one of its options."""
    known = attest("bench", "--help").stdout
    if "kernel" not in known:
        pytest.skip("attest bench kernel is not part of this build")
    known = attest("bench", "kernel", "--help").stdout
    path = write_bench(tmp_path / "b.json", bench([measurement("kernel_latency", "sdpa_flash", 4096, 1)] + selection()))
    skipped = said(path, "-o", tmp_path / "out")["skipped"]
    assert {s["experiment"] for s in skipped} == {"kernel_latency", "quant_depth", "ablation"}
    for option in (word for s in skipped for word in s["run_options"].split() if word.startswith("-")):
        assert option in known, option


def test_one_length_has_tables_and_no_curve(tmp_path):
    report = said(write_bench(tmp_path / "b.json", bench(latency(lengths=[4096]))), "-o", tmp_path / "out")
    latency_result = report["experiments"][0]
    assert latency_result["figures"] == [] and [t["name"] for t in latency_result["tables"]] == [
        "kernel_latency_times", "kernel_latency_summary"]
    assert any(text.startswith("There is no curve: 4K tokens is the only length.") for text in texts(report))


def test_results_and_benches_stand_in_any_order(made, tmp_path):
    _, path, _, _ = made
    renamed = shutil.copy(path, tmp_path / "bench_without_suffix")
    results = write_results(tmp_path / "r.h5", [ffd()])
    report = said(renamed, results, "-o", tmp_path / "out", "--only", "layer_sparsity,ablation")
    assert [e["experiment"] for e in report["experiments"]] == ["layer_sparsity", "ablation"]
    alone = said(results, "-o", tmp_path / "alone", "--only", "layer_sparsity,ablation")
    assert alone["skipped"] == [{"experiment": "ablation", "study": "", "reason": "needs a file of attest bench kernel",
                                 "run_options": "", "command": "attest bench kernel"}]
    assert "ablation" not in figures(results, "-o", tmp_path / "quiet").stdout, (
        "without a bench nothing is said of kernels")
    page = tmp_path / "report.html"
    attest("report", results, renamed, "-o", page, "--only", "layer_sparsity,ablation")
    assert "Component-wise ablation" in page.read_text() and "bench_without_suffix" in page.read_text()
    assert "a report needs results of attest run" in attest("report", path, "-o", tmp_path / "p.html", expect=2).stderr


def test_the_catalogue_has_them():
    names = {e["name"]: e for e in json.loads(attest("list", "--json").stdout)["experiments"]}
    for name in ("kernel_latency", "selection_overhead", "quant_depth", "ablation"):
        assert "attest bench kernel" in names[name]["needs"]
        assert attest("list", name).stdout.startswith(f"{name}: ")


def test_scales_of_the_axes(made, tmp_path):
    _, path, out, _ = made
    assert "; set logscale y" in (out / "kernel_latency.gp").read_text() \
        and "'4K' 4096" in (out / "kernel_latency.gp").read_text()
    figures(path, "-o", tmp_path / "out", "--linear")
    for name in ("kernel_latency", "kernel_latency_speedup"):
        assert "; set logscale" not in (tmp_path / f"out/{name}.gp").read_text()


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda d: d.update(format="other"), 'format is "other", expected one of "attest-kernel-bench", '
                                             '"attest-model-bench"'),
        (lambda d: d.update(format_version=2), "format_version is 2, expected "),
        (lambda d: d.pop("machine"), "machine is missing, expected an object"),
        (lambda d: d["measurements"][0].update(method="magic"), 'measurements[0].method is "magic", expected one of '),
        (lambda d: d["measurements"][1].update(length=-5),
         "measurements[1].length is -5, expected a whole number from 1 "),
        (lambda d: d["measurements"][1].update(io_ratio="much"),
         'measurements[1].io_ratio is "much", expected a number '),
        (lambda d: d.update(measurements={}), "measurements is an object, expected a list"),
        (lambda d: d.update(measurements=[dict(d["measurements"][0], length=i + 1) for i in range(1001)]),
         "measurements are of 1001 different methods, settings, lengths or batch sizes, expected at most 1000"),
    ],
)
def test_a_malformed_bench_is_one_sentence_and_exit_4(change, message, tmp_path):
    document = bench(ablation())
    change(document)
    path = write_bench(tmp_path / "b.json", document)
    error = figures(path, "-o", tmp_path / "out", expect=4).stderr
    assert error.startswith(f"attest: {path}: ") and error.count("\n") == 1 and message in error, error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "\x89HDF", '{"format": NaN}'])
def test_what_is_no_bench_is_one_sentence(text, tmp_path):
    (tmp_path / "b.json").write_text(text)
    error = figures(tmp_path / "b.json", "-o", tmp_path / "out", expect=4).stderr
    assert error.startswith(f"attest: {tmp_path / 'b.json'}: ") and error.count("\n") == 1
    assert "gone.json: cannot be opened" in figures(tmp_path / "gone.json", "-o", tmp_path / "out", expect=4).stderr


def test_odd_values_of_a_sound_file(tmp_path):
    """Nothing known but the times, no bytes, names of any characters, many batch sizes."""
    document = bench(
        latency(lengths=[4096, 8192], batches=range(1, 30), layers=(0,)) + selection() + depths() + ablation(),
        gpu="A, \"B\"\n\x1b[31m")
    for m in document["measurements"]:
        m |= {"keep_ratio": None, "io_ratio": None, "fidelity": None, "bytes": 0, "floor_microseconds": 0}
    document["measurements"][0]["median_microseconds"] = None
    report = said(write_bench(tmp_path / "b.json", document), "-o", tmp_path / "out")
    assert len(report["experiments"]) == 4
    assert not any("nan" in text or "inf" in text for text in texts(report)), texts(report)
    row = read_csv(tmp_path / "out/kernel_latency.csv")[0]
    assert row["floor_ratio"] == row["io_limit"] == "nan"


def test_times_of_a_head_are_of_one_sequence(tmp_path):
    said(write_bench(tmp_path / "b.json", bench(selection(batch=8) + depths(batch=8))), "-o", tmp_path / "out")
    for name in ("selection_overhead", "quant_depth"):
        rows = read_csv(tmp_path / f"out/{name}.csv")
        assert rows
        for row in rows:
            same(row, {"batch": 8, "ms_per_head": float(row["us"]) / (8 * HEADS) / 1000})
