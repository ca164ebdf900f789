"""The figure of throughput: plain arithmetic recomputes the csv files from the record, and what the reader refuses."""

import copy
import json
import math

import pytest
from attest_program import attest
from csv_rows import read_csv
from model_bench_maker import FOLDER, h200

DOCUMENT = h200()
NUMBER = 1e-8  # relative: ten digits in the csv
PAPER_COLUMNS = ("paper_h100", "paper_h100_over_flash", "paper_rtx4090", "paper_rtx4090_over_flash")
PAPERS = {  # of its text, batch 1: tokens/s on H100 and RTX 4090, and how many times FlashAttention-2's those are
    ("ffd", 4096): (110.6, None, 61.0, None),
    ("ffd", 16384): (87.0, 1.96, 51.8, 2.37),
    ("sdpa_flash", 16384): (44.5, None, None, None),
}


def figures(folder, document, *options, expect=0):
    folder.mkdir(exist_ok=True)
    path = folder / "b.json"
    path.write_text(json.dumps(document))
    return attest("figures", path, "-o", folder / "out", "--format", "svg", *options, expect=expect)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("throughput")
    return folder / "out", json.loads(figures(folder, DOCUMENT, "--json").stdout)["experiments"][0]


def name_of(m):
    of = {"sdpa_flash": "SDPA flash", "sdpa_cudnn": "SDPA cuDNN"}
    return of.get(m["method"]) or f"FFD keep {100 * m['setting']['value']:g} %"


def measured(method, context, batch):
    """At each of its settings."""
    return [m for m in DOCUMENT["measurements"] if (m["method"], m["context"], m["batch"]) == (method, context, batch)]


def papers_of(m):
    """The paper's FFD stands beside the setting that keeps least."""
    least = min((o["kept"] for o in measured(m["method"], m["context"], 1)), default=None)
    found = PAPERS.get((m["method"], m["context"])) if m["batch"] == 1 and m["kept"] == least else None
    return found or (None,) * 4


def test_the_table_is_the_record(made):
    rows = read_csv(made[0] / "throughput_times.csv")
    curves = read_csv(made[0] / "throughput.csv")
    assert len(rows) == len(curves) == len(DOCUMENT["measurements"])
    by_name = {(row["method"], int(row["context"]), int(row["batch"])): row for row in rows}
    papers = 0
    for m in DOCUMENT["measurements"]:
        row = by_name[name_of(m), m["context"], m["batch"]]
        expected = {
            "kept": m["kept"],
            "tokens_per_second": m["tokens_per_second"],
            "low": m["tokens_per_second_low"],
            "high": m["tokens_per_second_high"],
            "step_ms": m["step_milliseconds"],
            "attention_share": m["attention_share"],
            "cache_gb": m["cache_bytes"] / 1e9,
            "over_flash": m["over_flash"],
            "limit_flash": m["limit_flash"],
            "over_cudnn": m["over_cudnn"],
            "limit_cudnn": m["limit_cudnn"],
            **dict(zip(PAPER_COLUMNS, papers_of(m))),
        }
        papers += any(papers_of(m))
        for column, value in expected.items():
            assert float(row[column]) == pytest.approx(math.nan if value is None else value, rel=NUMBER, nan_ok=True), (
                column, row)
    assert papers == 3


def test_the_document_has_the_record():
    text = (FOLDER / "README.md").read_text()
    for m in DOCUMENT["measurements"]:
        if m["method"] != "ffd":
            continue
        (flash,), (cudnn,) = (measured(name, m["context"], m["batch"]) for name in ("sdpa_flash", "sdpa_cudnn"))
        if m["setting"]["value"] == 0.06:
            speeds = [f"{o['tokens_per_second']:.0f}" for o in (flash, cudnn, m)]
            cells = [str(m["batch"]), f"{m['context'] // 1024}K", *speeds]
            assert "| " + " | ".join(cells) + " | " in text
            ends = [
                f"{m['over_flash']:.2f}x ({m['limit_flash']:.2f})",
                f"{m['over_cudnn']:.2f}x ({m['limit_cudnn']:.2f})",
                f"{100 * cudnn['attention_share']:.0f} %",
                f"{m['cache_bytes'] / 1e9:.1f} / {cudnn['cache_bytes'] / 1e9:.1f}",
            ]
            assert " | " + " | ".join(ends) + " |" in text
        else:
            begin = f"| {m['batch']} | {m['context'] // 1024}K |"
            row = next(line for line in text.splitlines() if line.startswith(begin))
            assert f"| {m['tokens_per_second']:.0f} |" in row


def test_what_it_says(made):
    texts = [f["text"] for f in made[1]["findings"]]
    ffd = [m for m in DOCUMENT["measurements"] if m["method"] == "ffd"]
    best = max(ffd, key=lambda m: min(m["over_flash"], m["over_cudnn"]))
    assert (f"{name_of(best)} decodes {best['tokens_per_second']:.1f} tokens/s at {best['context'] // 1024}K tokens, "
            f"batch {best['batch']}") in texts[0]
    assert f"{min(best['over_flash'], best['over_cudnn']):.2f} times the better of the dense methods" in texts[0]
    assert texts[1].startswith("Slower than the better of the dense methods: FFD keep 6 % at 4K, batch 1;")
    worst = max(m["check"]["logits_difference"] for m in DOCUMENT["measurements"])
    assert f"at most {worst:.2g} of their norm" in texts[2]
    assert len(texts) == 3 + len(DOCUMENT["left_out"])
    assert texts[3].startswith("128K tokens, batch 8, was not measured: needs")


def test_a_setting_that_did_not_fit_stands_beside_what_was_measured(tmp_path):
    """The dense numbers stay, and table, figure and findings say what is missing, and why."""
    place = {"context": 16384, "batch": 1}
    less = copy.deepcopy(DOCUMENT)
    gone = next(m for m in less["measurements"] if m["method"] == "ffd" and place.items() <= m.items())
    less["measurements"].remove(gone)
    less["left_out"] = [{"method": "ffd", "setting": gone["setting"], **place, "reason": "no memory"}]
    said = figures(tmp_path, less).stdout
    assert f"{name_of(gone)} at 16K tokens, batch 1, was not measured: no memory." in said
    rows = read_csv(tmp_path / "out" / "throughput_times.csv")
    assert len(rows) == len(DOCUMENT["measurements"])
    marked = [row for row in rows if row["method"] == f"{name_of(gone)} (not measured: no memory)"]
    assert [(row["context"], row["batch"], row["tokens_per_second"], row["over_flash"]) for row in marked] == \
        [("16384", "1", "nan", "nan")]
    assert f"Not measured: {name_of(gone)} at 16K, batch 1 (no memory)." \
        in (tmp_path / "out" / "captions.md").read_text()


def test_one_context_gives_a_table_alone(tmp_path):
    one = {**DOCUMENT, "measurements": [m for m in DOCUMENT["measurements"] if m["context"] == 4096]}
    figures(tmp_path, one)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "captions.md", *(f"throughput_times.{x}" for x in ("csv", "md", "tex"))}


def test_two_machines_are_rows(tmp_path):
    other = copy.deepcopy(DOCUMENT)
    other["machine"]["gpu"] = "NVIDIA A100"
    record, second = tmp_path / "h.json", tmp_path / "a.json"
    record.write_text(json.dumps(DOCUMENT))
    second.write_text(json.dumps(other))
    attest("figures", record, second, "-o", tmp_path / "out", "--format", "svg", "--only", "throughput")
    assert {row["study"] for row in read_csv(tmp_path / "out" / "throughput_times.csv")} == {"H200", "A100"}
    assert "hold the same bench" in attest("figures", record, record, "-o", tmp_path / "again", expect=2).stderr


def test_two_models_of_one_gpu_are_rows(tmp_path):
    """Each has curves of its own; of one model twice, the files tell them apart."""
    qwen, later = copy.deepcopy(DOCUMENT), copy.deepcopy(DOCUMENT)
    qwen["model"]["name"] = "qwen"
    later["seed"] = 1
    first, second, third = (tmp_path / name for name in ("first.json", "second.json", "later.json"))
    for path, document in zip((first, second, third), (DOCUMENT, qwen, later), strict=True):
        path.write_text(json.dumps(document))
    out = ["--format", "svg", "--only", "throughput"]
    attest("figures", first, second, "-o", tmp_path / "out", *out)
    studies = {"H200 (llama31-8b)", "H200 (qwen)"}
    assert {row["study"] for row in read_csv(tmp_path / "out" / "throughput_times.csv")} == studies
    curves = {row["curve"] for row in read_csv(tmp_path / "out" / "throughput.csv")}
    own = {f"{name_of(m)} batch {m['batch']}" for m in DOCUMENT["measurements"]}
    assert curves == {f"{study}: {curve}" for study in studies for curve in own}
    attest("figures", first, second, third, "-o", tmp_path / "three", *out)
    assert {row["study"] for row in read_csv(tmp_path / "three" / "throughput_times.csv")} == {
        "H200 (first)", "H200 (qwen)", "H200 (later)"}


def test_without_cudnn(tmp_path):
    less = copy.deepcopy(DOCUMENT)
    less["measurements"] = [
        {**m, "over_cudnn": None, "limit_cudnn": None} for m in less["measurements"] if m["method"] != "sdpa_cudnn"
    ]
    said = figures(tmp_path, less).stdout
    assert "FFD keep 6 % decodes" in said
    assert {row["over_cudnn"] for row in read_csv(tmp_path / "out" / "throughput_times.csv")} == {"nan"}


def test_it_is_asked_for_without_a_bench(tmp_path):
    kernels = FOLDER.parent / "kernel" / "h200.json"
    done = attest("figures", kernels, "-o", tmp_path / "out", "--only", "throughput", expect=4)
    assert "throughput needs a file of attest bench model" in done.stderr


def changed(change):
    document = copy.deepcopy(DOCUMENT)
    change(document)
    return document


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda d: d.update(format_version=2), "format_version is 2, expected"),
        (lambda d: d["measurements"][0].update(method="best"), 'measurements[0].method is "best", expected'),
        (
            lambda d: d["measurements"][1].update(tokens_per_second=0),
            "measurements[1].tokens_per_second is 0, expected a number from",
        ),
        (lambda d: d["measurements"][1].update(kept=1.5), "measurements[1].kept is 1.5, expected a share from 0 to 1"),
        (lambda d: d["measurements"][2].pop("check"), "measurements[2].check"),
        (lambda d: d["measurements"][0].update(batch=-1), "measurements[0].batch is -1, expected"),
        (lambda d: d["model"].update(layers="many"), 'model.layers is "many", expected'),
        (lambda d: d.update(measurements=[]), "has 0 measurements, expected 1 to 1000"),
        (lambda d: d.update(measurements=d["measurements"] * 40), "measurements, expected 1 to 1000"),
        (lambda d: d["left_out"][0].update(method="ffd"), "left_out[0].setting"),
        (lambda d: d["left_out"][0].update(method="x" * 9), 'left_out[0].method is "xxxxxxxxx", expected'),
    ],
)
def test_bad_records_are_one_sentence(change, sentence, tmp_path):
    said = figures(tmp_path, changed(change), expect=4).stderr
    assert sentence in said and "b.json" in said and said.count("\n") == 1 and not (tmp_path / "out").exists()
