"""Numbers, commands and example messages of the documents: those that the embedded dump or a made-up one can tell are
compared with it; of a speed, which depends on the machine, the command beside it is run on a small case."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from attest_program import ATTEST, run_attest as attest

ROOT = Path(os.environ["ATTEST_SOURCE_DIR"])
DEMO, LONG_DEMO = ROOT / "dumps/demo.h5", ROOT / "dumps/demo-long.h5"
NEEDLES = ["niah_single_4k", "niah_multikey_1k", "key_value_1k", "niah_multivalue_1k", "niah_multiquery_1k"]


def document(name):
    return (ROOT / name).read_text()


def flat(text):
    return re.sub(r"\s+", " ", text)


def told(pattern, text):
    """What a sentence of a document tells, in the places of the pattern's groups."""
    found = re.search(pattern, text)
    assert found, f"no document says any more: {pattern}"
    return found.groups()


def inspected(dump):
    result = attest("inspect", dump, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def demo():
    return inspected(DEMO)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """ffd on the embedded dump at delta 5 and infinity."""
    path = tmp_path_factory.mktemp("study") / "r.h5"
    result = attest("run", DEMO, "-o", path, "--selector", "ffd", "--delta", "5,inf", "--device", "cpu", "--quiet")
    assert result.returncode == 0, result.stderr
    with h5py.File(path) as file:
        samples = file["dumps/0/samples"]
        return {name: {m: group[m][()] for m in ("layers", "scores/span_mass", "ffd/keep_ratio", "ffd/lse_error")}
                for name, group in samples.items()}


def test_the_demo_page_on_the_embedded_dump(demo, study):
    text = flat(DEMO_PAGE)
    words = "zero one two three four five six seven".split()
    assert demo["num_query_heads"] / demo["num_kv_heads"] == 4 and "query heads : KV heads = 4" in text
    assert demo["head_dim"] == 128 and {l["element_type"] for s in demo["samples"] for l in s["layers"]} == {"bfloat16"}
    assert "head_dim 128, bfloat16" in text
    long = [s for s in demo["samples"] if s["num_tokens"] > 2000]
    (count, tasks, one, many, fewest, most, queries) = told(
        r"(\w+) prompts of (\w+) retrieval tasks, (\w+) of 4\.1K tokens and (\w+) of 1K, (\w+) to (\w+) layers each, "
        r"the (\w+) queries", text)
    layers = [len(s["layers"]) for s in demo["samples"]]
    assert [words.index(w) for w in (count, tasks, one, many, fewest, most, queries)] == [
        len(demo["samples"]), len({s["task"] for s in demo["samples"]}), len(long), len(demo["samples"]) - len(long),
        min(layers), max(layers),
        len(demo["samples"][0]["query_positions"])]
    (first, last) = told(r"delta 5 keeps (\d+) % of the tokens in layer 1 and (\d+) % in layer 7", text)
    kept = study[long[0]["name"]]
    assert list(kept["layers"]) == [1, 7]
    assert [int(first), int(last)] == [round(100 * x) for x in kept["ffd/keep_ratio"][..., 0].mean((1, 2))]
    (rest,) = told(r"LSE errors of ([\d.]+) nats remain at any delta", text)
    assert float(rest) == round(float(max(s["ffd/lse_error"][..., 1].max() for s in study.values())), 2)


DEMO_PAGE = document("experiments/manual/demo.md")
COLUMNS = [("ffd", 0), ("ffd", 1), ("ffd_heads", 0), ("ffd_heads", 1)]  # of its table: label and setting


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    """metric(label, name, setting) -> all cells of a metric, pooled; `scores` is the label of the exact scores."""
    path = tmp_path_factory.mktemp("results") / "r.h5"
    command = re.search(r"`attest (run dumps/demo\.h5 -o r\.h5 [^`]*)`", DEMO_PAGE)[1].replace("\n", " ")
    words = [str(path) if word == "r.h5" else word for word in shlex.split(command)]
    done = attest(*words, "--device", "cpu", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    with h5py.File(path) as file:
        samples = {name: {} for name in file["dumps/0/samples"]}
        file["dumps/0/samples"].visititems(
            lambda name, item: samples[name.split("/")[0]].update({name.split("/", 1)[1]: item[()]})
            if isinstance(item, h5py.Dataset) and "/" in name else None)

    def metric(label, name, setting=None, sample=None):
        cells = [values[f"{label}/{name}"] for key, values in samples.items() if sample in (None, key)]
        return np.concatenate([(c if setting is None else c[..., setting]).ravel() for c in cells])

    return metric


def row(name):
    """The numbers of a row of the table; per cents as shares."""
    cells = re.search(rf"^\| {re.escape(name)} \|(.*)\|$", DEMO_PAGE, re.MULTILINE)[1].split("|")
    return [[float(x) / (100 if "%" in cell else 1) for x in re.findall(r"[\d.]+", cell)] for cell in cells]


def number(pattern):
    return [float(x) for x in told(pattern, DEMO_PAGE.replace("\n", " "))]


@pytest.mark.parametrize(
    "name, metric, statistics, tolerance",
    [
        ("tokens kept", "keep_ratio", [np.mean], 5e-4),
        ("bytes read, of a dense 16-bit read", "io_ratio", [np.mean], 5e-4),
        ("recall, mean", "recall", [np.nanmean], 5e-5),
        ("recall, worst cell", "recall", [np.nanmin], 5e-4),
        ("LSE error, max (mean), nats", "lse_error", [np.max, np.mean], 5e-4),
    ],
)
def test_the_table_of_the_demo_page(pooled, name, metric, statistics, tolerance):
    for (label, setting), printed in zip(COLUMNS, row(name), strict=True):
        found = [statistic(pooled(label, metric, setting)) for statistic in statistics]
        assert printed == pytest.approx(found, abs=tolerance * 1.01), (name, label, setting)


def test_the_retrieval_cells_of_the_demo_page(pooled):
    cells = pooled("scores", "span_mass") >= 0.3
    for (label, setting), (printed,) in zip(COLUMNS, row("span recall, worst retrieval cell"), strict=True):
        assert printed == pytest.approx(pooled(label, "recall", setting)[cells].min(), abs=5.05e-5)
    count, least, median, most = number(r"[Ii]n the (\d+) cells .*?recall is at least ([\d.]+) at delta 5, .*?is "
                                        r"([\d.]+) % at the median and ([\d.]+) % +at most")
    errors = pooled("ffd", "output_error", 0)[cells]
    assert count == cells.sum() and least <= pooled("ffd", "recall", 0)[cells].min()
    assert [median, most] == pytest.approx([100 * np.median(errors), 100 * errors.max()], abs=0.051)


def test_the_pseudo_maximum_of_the_demo_page(pooled):
    equal, short = number(r"true maximum of the full blocks in ([\d.]+) % of the cells .*? delta = 5 in ([\d.]+) %")
    gaps = pooled("ffd", "pseudo_max_gap_exact")
    assert [equal, short] == pytest.approx([100 * (gaps == 0).mean(), 100 * (gaps > 5).mean()], abs=0.051)
    (exceeds,) = number(r"\*exceeds\* the true maximum in (\d+) % of the cells")
    assert exceeds == pytest.approx(100 * (pooled("ffd", "pseudo_max_gap_thumbnail") < 0).mean(), abs=0.51)


def test_the_number_of_cells_of_the_demo_page(pooled):
    (cells,) = number(r"\((\d+) cells of layer, query and head\)")
    assert cells == pooled("scores", "lse").size


def test_the_demo_page_on_the_long_dump(tmp_path):
    """The paragraph's numbers, by numpy from the results of its command."""
    paragraph = next(p for p in DEMO_PAGE.split("\n\n") if "12.3K tokens" in p)
    (command,) = re.findall(r"`attest (run\s[^`]*)`", paragraph)
    assert attest(
        *["dumps/demo-long.h5" if w.startswith("dumps/") else tmp_path / w if w == "l.h5" else w
          for w in shlex.split(command)], cwd=ROOT).returncode == 0
    with h5py.File(tmp_path / "l.h5") as file:
        (sample,) = file["dumps/0/samples"].values()
        layers, tokens, mass = sample["layers"][()], sample.attrs["num_tokens"], sample["scores/span_mass"][()]
        get = lambda label, metric: sample[f"{label}/{metric}"][()].astype(np.float64)
        keep, heads, io, recall = get("ffd", "keep_ratio"), get("ffd_heads", "keep_ratio"), get("ffd", "io_ratio"), \
            get("ffd", "recall")
    deficit = 1 - recall[..., 0]
    expected = [layers[0], tokens / 1000, 100 * keep[..., 0].mean(), 100 * io[..., 0].mean(),
                100 * heads[..., 0].mean(), recall[..., 0].mean(),
                np.median(deficit), np.quantile(deficit, 0.95), deficit.max(), deficit.size, 100 * keep[..., 1].mean(),
                recall[..., 1].min()]
    printed = told(
        r"holds layer (\d+) of one of ([\d.]+)K tokens\..*keeps ([\d.]+) % of the tokens and reads ([\d.]+) %.*would "
        r"keep ([\d.]+) %. Mean recall is ([\d.]+), "
        r".*from ([\d.]+) at the median over ([\d.]+) at the 95 % quantile to ([\d.]+) in the worst of (\d+) "
        r"cells.*Delta 7 keeps ([\d.]+) % .*recall of ([\d.]+)\. ",
        flat(paragraph))
    for text, value in zip(printed, expected, strict=True):
        assert float(text) == pytest.approx(value, abs=0.51 * 10 ** -len(text.partition(".")[2])), (text, value)
    assert "In the one cell that retrieves the evidence recall is 1.0000 at both" in flat(paragraph)
    (retrieves,) = recall[mass >= 0.3]
    assert [f"{r:.4f}" for r in retrieves] == ["1.0000", "1.0000"]


def test_capture_on_the_embedded_dump(demo, study):
    text = document("experiments/python/attest/capture/README.md")
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| ([\d, ]+) \|", text, re.MULTILINE)
    assert {(name, int(tokens), layers) for name, tokens, layers in rows} == {
        (s["name"], s["num_tokens"], ", ".join(str(l["layer"]) for l in s["layers"]))
        for s in demo["samples"] + inspected(LONG_DEMO)["samples"]}
    shape = (f"({demo['num_layers']} layers, {demo['num_query_heads']} query heads of {demo['head_dim']} in "
             f"{demo['num_kv_heads']} KV groups, bfloat16)")
    assert shape in flat(text)
    (least,) = told(r"head 2 keeps at least ([\d.]+) of its mass", flat(text))
    mass = min(study[name]["scores/span_mass"][list(study[name]["layers"]).index(7), :, 2].min() for name in NEEDLES)
    assert float(least) <= mass < float(least) + 0.01
    (saved,) = told(r"\((\d+) % in the embedded dump\)", text)
    assert int(saved) == round(100 * (1 - demo["file_bytes"] / sum(s["value_bytes"] for s in demo["samples"])))


def test_the_memory_of_synth(tmp_path):
    """The same however long the sample: 16 times the bytes take no more memory."""
    (mib,) = told(r"Memory is about (\d+) MB", flat(document("dumps/synthetic/README.md")))
    measure = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    for tokens in (2048, 32768):
        command = [ATTEST, "synth", "-o", str(tmp_path / "d.h5"), "--tokens", str(tokens), "--layers",
                   "2", "--threads", "2", "--force", "--quiet"]
        kib = int(subprocess.run([sys.executable, "-c", measure, *command], capture_output=True, text=True,
                                 check=True).stdout)
        assert kib / 1024 < 2 * int(mib), tokens


def test_the_size_of_the_preset():
    """32 layers of q, k and v as the synth document describes them, in bfloat16."""
    text = flat(document("dumps/synthetic/README.md"))
    layers, heads, kv_heads, dim, thousands, queries, gigabytes = told(
        r"\((\d+) layers, (\d+) query and (\d+) KV heads of (\d+), (\d+)K tokens, (\d+) queries: ([\d.]+) GB\)", text)
    values = int(layers) * int(dim) * (int(queries) * int(heads) + 2 * int(kv_heads) * int(thousands) * 1024)
    assert float(gigabytes) == round(2 * values / 1e9, 1)


def test_the_example_of_a_rejected_dump(tmp_path):
    """dumps/README.md shows a message: the same defect gives it, word for word."""
    (line,) = re.findall(r"^    (dump\.h5: /samples/.*)$", document("dumps/README.md"), re.MULTILINE)
    with h5py.File(tmp_path / "dump.h5", "w") as file:
        file.attrs.update(format="attention-dump", format_version=1, model="m", num_layers=32, num_query_heads=32,
                          num_kv_heads=8, head_dim=128)
        sample = file.create_group("samples/needle")
        sample.attrs.update(task="needle", num_tokens=4096)
        sample["query_positions"] = np.array([4095])
        group = sample.create_group("layers/7")
        group["q"], group["k"], group["v"] = (np.zeros(shape, np.float16)
                                              for shape in [(1, 32, 128), (8, 4095, 128), (8, 4096, 128)])
    result = attest("inspect", "dump.h5", cwd=tmp_path)
    assert result.returncode == 4 and result.stderr == f"attest: {line}\n"


def test_the_results_can_be_read_as_the_document_shows(tmp_path):
    (code,) = re.findall(r"```python\n(import h5py\n.*?)```", document("analysis/results/README.md"), re.DOTALL)
    assert attest("run", DEMO, "-o", tmp_path / "results.h5", "--selector", "ffd", "--delta", "5,7", "--samples",
                  "niah_multikey_1k", "--quiet").returncode == 0
    done = subprocess.run([sys.executable, "-c", code.replace("/needle/", "/niah_multikey_1k/")], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 0 and 0.9 < float(done.stdout) <= 1, done.stderr


SPEED = document("analysis/SPEED.md")
COMMANDS = sorted(set(re.findall(r"`attest ((?:bench|synth|run) [^`]*)`", SPEED)))
SMALL = {"--device": "cpu", "--tokens": "256", "--samples": "1", "--queries": "2", "--layers": "1",
         "--sweep-points": "2"}


def test_every_speed_names_its_command():
    """Each row of the table and each paragraph with a time has a command."""
    assert len(COMMANDS) >= 5
    for paragraph in SPEED.split("\n\n"):
        if re.search(r"\d (ms|s)\b", paragraph) and not paragraph.startswith("|"):
            assert "`attest " in paragraph, paragraph
    rows = [line for line in SPEED.splitlines() if line.startswith("| ") and re.search(r"\d (ms|s)\b", line)]
    assert rows and all("`attest " in row for row in rows)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_of_a_speed_runs(command, tmp_path):
    words = shlex.split(command)
    made = tmp_path / "dump.h5"
    assert attest("synth", "-o", made, "--tokens", "256", "--layers", "1", "--query-heads", "4", "--kv-heads", "2",
                  "--quiet").returncode == 0
    for option, value in SMALL.items():
        if option in words:
            words[words.index(option) + 1] = value
    if words[0] == "bench":
        words += [] if "--scaling" in words else ["--no-peer"]
        words += ["--repeats", "1", "--quiet"] + (["--device", "cpu"] if "--device" not in words else [])
        if "DUMP" not in words and "dump.h5" not in words:
            words += [w for option in ("--tokens", "--queries", "--layers") if option not in words
                      for w in (option, SMALL[option])]
    elif words[0] == "synth":
        words += [w for option in ("--tokens", "--layers") if option not in words for w in (option, SMALL[option])] + \
            ["--force", "--quiet"]
    result = attest(*["dump.h5" if word == "DUMP" else word for word in words], cwd=tmp_path)
    assert result.returncode == 0, (words, result.stderr)
