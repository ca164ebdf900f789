"""`attest report` on the real executable: the command line, what it refuses, what it leaves behind."""

import json
import os
import re
import subprocess
from pathlib import Path

import h5py
import pytest
import results_maker
from attest_program import ATTEST, attest
from results_maker import EXACT, ffd, quest, write_results

SOURCE = Path(os.environ["ATTEST_SOURCE_DIR"])


def report(*arguments, expect=0, **options):
    return attest("report", *arguments, **options, expect=expect)


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path / "r.h5", [EXACT, ffd(), quest()])


def test_it_says_what_it_found(results, tmp_path):
    said = report(results, "-o", tmp_path / "report.html").stdout
    assert "tiny: 2 selectors (ffd, quest) against exact attention, on 3 samples of 900 tokens" in said
    assert f"{tmp_path}/report.html: " in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.h5", "report.html"], "nothing else is left"


def test_json_has_the_findings(results, tmp_path):
    document = json.loads(report(results, "-o", tmp_path / "report.html", "--json").stdout)
    assert document["bytes"] == (tmp_path / "report.html").stat().st_size
    assert {"severity", "text", "number", "link"} == set(document["findings"][0])
    order = ["serious", "warning", "note", "good"]
    severities = [order.index(finding["severity"]) for finding in document["findings"]]
    assert severities == sorted(severities)
    assert any(finding["link"].startswith("model=tiny&metric=recall&") for finding in document["findings"])


def test_dense_layers_lose_nothing_that_is_told(tmp_path):
    """Layers 0 and 1 are dense for quest, and left out for ffd, too."""
    path = write_results(tmp_path / "r.h5", [EXACT, ffd(), quest()], samples={"a": list(range(8))})
    with h5py.File(path, "r+") as file:
        recall = file["dumps/0/samples/a/ffd/recall"]
        recall[...] = 0.999
        recall[0, :, 0] = 0.1
        recall[5, :, 2] = 0.5
    texts = [
        finding["text"] for finding in json.loads(report(path, "-o", tmp_path / "x.html", "--json").stdout)["findings"]]
    assert "Half of the recall that ffd loses at delta 5 is lost in one head of 24: layer 5, head 2." in texts


def test_the_worst_cell_is_named_only_if_it_is_listed(tmp_path):
    """By recall --cells 1 lists one of delta 7; the one of delta 5 that it lists by LSE error has not the least
    recall."""
    path = write_results(tmp_path / "r.h5", [EXACT, ffd()], samples={"a": [2, 5]})
    with h5py.File(path, "r+") as file:
        group = file["dumps/0/samples/a/ffd"]
        for metric, good, worst in (("recall", 0.99, 0.8), ("mass_recall", 0.99, 0.8), ("lse_error", 0.01, 0.02)):
            group[metric][...] = good
            group[metric][1, 2, 3, 1] = worst
            group[metric][1, 2, 3, 2] = worst - 0.1 if metric != "lse_error" else good
        group["recall"][0, 0, 0, 1], group["lse_error"][0, 0, 0, 1] = 0.95, 9

    def said(*options):
        document = json.loads(report(path, "-o", tmp_path / "x.html", "--json", "--force", *options).stdout)
        return " ".join(finding["text"] for finding in document["findings"])

    assert "worst at layer 5, head 3" in said()
    assert "worst at" not in said("--cells", 1)


def test_every_number_has_a_name(results, studied_demo, tmp_path):
    """A bold -0.0356 beside a sentence says nothing."""
    for number, path in enumerate((results, studied_demo)):
        document = json.loads(report(path, "-o", tmp_path / f"{number}.html", "--json").stdout)
        numbers = [finding["number"] for finding in document["findings"] if finding["number"]]
        assert len(numbers) > 5 and all(re.search("[a-z]{2}|[0-9]x$", text) for text in numbers), numbers


def test_a_page_is_no_pdf(results, tmp_path):
    done = report(results, "-o", tmp_path / "r.pdf", expect=2)
    assert "r.pdf: the report is a page for a browser, expected a name that ends in .html" in done.stderr
    report(results, "-o", tmp_path / "r")
    assert (tmp_path / "r").read_text().startswith("<!DOCTYPE html>"), "a name of no kind is as good"


def test_the_same_results_give_the_same_page(results, tmp_path):
    report(results, "-o", tmp_path / "a.html")
    report(results, "-o", tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def bytes_read(*command):
    """By the command and its children."""
    said = subprocess.run(["sh", "-c", '"$@" >/dev/null && cat /proc/$$/io', "sh", *map(str, command)],
                          capture_output=True, text=True, check=True)
    return int(next(line for line in said.stdout.splitlines() if line.startswith("rchar: ")).split()[1])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel does not count what a process reads")
def test_the_dump_is_read_once_for_the_bounds_of_figures_and_claims(tmp_path):
    dump, path, page = tmp_path / "d.h5", tmp_path / "r.h5", tmp_path / "report.html"
    attest("synth", "-o", dump, "--layers", "2", "--tokens", "6000", "--queries", "1")
    attest("run", dump, "-o", path, "--selector", "ffd", "--delta", "5")
    claims = bytes_read(ATTEST, "report", path, "-o", page, "--only", "guarantee")
    both = bytes_read(ATTEST, "report", path, "-o", page, "--only", "error_bound", "--force")
    assert "the measured tail exceeds the bound in at most" in page.read_text() \
        and 'id="error_bound"' in page.read_text()
    assert claims > dump.stat().st_size
    assert both < claims + dump.stat().st_size / 4


def test_a_page_is_replaced_only_with_force(results, tmp_path):
    page = tmp_path / "report.html"
    page.write_text("precious")
    refused = report(results, "-o", page, expect=5)
    assert refused.stderr == f"attest: {page} is there already: --force replaces it\n"
    assert page.read_text() == "precious"
    report(results, "-o", page, "--force")
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_bad_input_is_one_sentence(results, tmp_path):
    (tmp_path / "no.h5").write_bytes(b"no results")
    assert report(tmp_path / "no.h5", "-o", tmp_path / "x.html", expect=4).stderr.count("\n") == 1
    assert report(tmp_path / "missing.h5", "-o", tmp_path / "x.html", expect=4).stderr.count("\n") == 1
    assert "nosuch" in report(results, "-o", tmp_path / "x.html", "--only", "nosuch", expect=2).stderr
    assert report(results, "-o", tmp_path, expect=5).stderr.count("\n") == 1
    assert "there is no folder" in report(results, "-o", tmp_path / "nodir" / "x.html", expect=5).stderr
    assert not (tmp_path / "nodir").exists()
    assert report(results, "-o", "/proc/x.html", expect=5).stderr.count("\n") == 1
    assert not (tmp_path / "x.html").exists()


def test_title_and_choice_of_figures(results, tmp_path):
    page = tmp_path / "report.html"
    report(results, "-o", page, "--title", "Mine & yours", "--only", "layer_sparsity")
    text = page.read_text()
    assert "<title>Mine &amp; yours</title>" in text
    assert 'id="layer_sparsity"' in text and 'id="quality_vs_io"' not in text


def test_without_gnuplot_there_are_tables(results, tmp_path):
    page = tmp_path / "report.html"
    said = report(results, "-o", page, env={**os.environ, "PATH": str(tmp_path)})
    assert "gnuplot is not installed" in said.stdout
    text = page.read_text()
    assert "gnuplot is not installed" in text and "data-svg=" not in text
    assert 'id="quality_vs_io"' in text and "<td class=\"num\">" in text


def test_two_models_stand_side_by_side(tmp_path):
    files = [write_results(tmp_path / f"{model}.h5", [ffd()], model=model, dump=f"{model}.h5", seed=i)
             for i, model in enumerate("AB")]
    document = json.loads(report(*files, "-o", tmp_path / "report.html", "--json").stdout)
    assert document["title"] == "Attention fidelity of A, B"
    assert {finding["link"].split("&")[0] for finding in document["findings"] if "=" in finding["link"]} == \
        {"model=A", "model=B"}


@pytest.fixture(scope="module")
def studied_demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    results = folder / "r.h5"
    attest("run", SOURCE / "dumps/demo.h5", "-o", results, "--selector", "ffd", "--delta", "1,5")
    return results


def cells_of(page):
    data = json.loads(page.read_text().split('id="data">', 1)[1].split("</script>", 1)[0])
    return [dict(zip(data["cells"]["columns"], row)) for row in data["cells"]["rows"]]


def test_tokens_come_from_the_dump(studied_demo, tmp_path):
    page = tmp_path / "report.html"
    report(studied_demo, "-o", page, "--cells", "5", "--only", "layer_sparsity")
    cells = cells_of(page)
    assert 5 <= len(cells) <= 15
    with h5py.File(SOURCE / "dumps/demo.h5") as dump, h5py.File(studied_demo) as results:
        names = sorted(results["dumps/0/samples"])
        for cell in cells:
            sample, query, tokens, before = (cell[name] for name in ("sample", "query", "tokens", "before"))
            ids = dump[f"samples/{names[sample]}/tokens"][()]
            assert tokens[before] == ids[query] and len(tokens) >= before + 1
            assert tokens == list(ids[query - before:query - before + len(tokens)])


def test_tokens_can_be_left_out(studied_demo, tmp_path):
    report(studied_demo, "-o", tmp_path / "report.html", "--no-tokens")
    cells = cells_of(tmp_path / "report.html")
    assert cells and all(cell["tokens"] == [] for cell in cells)


def test_a_dump_that_is_gone_or_changed_costs_the_tokens_alone(tmp_path):
    dump = tmp_path / "d.h5"
    dump.write_bytes((SOURCE / "dumps/demo.h5").read_bytes())
    attest("run", dump, "-o", tmp_path / "r.h5", "--selector", "ffd", "--delta", "5", "--layers", "1")
    with dump.open("ab") as file:
        file.write(b"more")
    report(tmp_path / "r.h5", "-o", tmp_path / "a.html")
    assert re.search(r"No token ids: [^.]*d\.h5 has changed since the study: it has \d+ bytes\.",
                     (tmp_path / "a.html").read_text())
    changed = bytearray((SOURCE / "dumps/demo.h5").read_bytes())
    changed[-1] ^= 1
    dump.write_bytes(changed)  # of the same size
    report(tmp_path / "r.h5", "-o", tmp_path / "c.html")
    assert re.search(r"No token ids: [^.]*d\.h5 has changed since the study\.", (tmp_path / "c.html").read_text())
    dump.unlink()
    report(tmp_path / "r.h5", "-o", tmp_path / "b.html")
    assert re.search(r"No token ids: .*No such file", (tmp_path / "b.html").read_text())
    for page in ("a.html", "b.html", "c.html"):
        cells = cells_of(tmp_path / page)
        assert cells and all(cell["tokens"] == [] for cell in cells)


def test_a_report_of_one_layer_and_one_setting(tmp_path):
    results = write_results(tmp_path / "r.h5", [EXACT], {"a": [3]})
    said = report(results, "-o", tmp_path / "report.html").stdout
    assert "tiny: nothing against exact attention" in said


def test_the_first_good_setting_is_one_of_all_samples(tmp_path, monkeypatch):
    """One of two pooled files, of other prompts, has a delta more, at which every cell that there is is good."""
    paths = []
    for name, grid in {"a": ["3", "5", "7"], "b": ["3", "7"]}.items():
        monkeypatch.setitem(results_maker.GRIDS, "delta", (grid, [float(text) for text in grid]))
        paths.append(write_results(tmp_path / f"{name}.h5", [EXACT, ffd()], samples={name: [2, 5]}, dump=name))
        with h5py.File(paths[-1], "r+") as file:
            file[f"dumps/0/samples/{name}/ffd/recall"][...] = [{"3": 0.5, "5": 1, "7": 1}[d] for d in grid]
    found = json.loads(report(*paths, "-o", tmp_path / "x.html", "--json").stdout)["findings"]
    assert any(f["text"].startswith("delta 7 is the first setting that all samples have at which every cell of ffd has")
               for f in found), found
