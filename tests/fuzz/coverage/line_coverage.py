"""Which lines of each reader's sources made inputs reach: line_coverage.py FUZZ_READERS OBJECTS [--runs N] [--missed],
of the preset `coverage`, whose folder is OBJECTS. Each reader reads N inputs (default: those of a short run) and what
is kept in ../corpus; a line counts whichever reader reached it."""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOURCES = {  # where the content of a file is looked at
    "dump": "dumps/format/ dump_reader decoded_values dump_metadata dump_metadata_codec dump_fields value_check "
            "memory_bound dumps/hdf5/ node open_file dataset chunk_reader float_format dumps/inspect/ file_format",
    "estimates": "dumps/format/ estimate_reader",
    "results": "analysis/results/ results_file_reader results_file_scan decoded_arrays check_results cell_check",
    "packed": "dumps/base/ json_packed",
    "tasks": "analysis/outcomes/ tasks_file",
    "unit": "analysis/results/ layer_results_codec unit_check",
    "study": "analysis/results/ partial_status",
    "process": "analysis/results/ folder_member",
    "note": "analysis/run/ input_guard",
    "chunk": "analysis/run/ chunk",
    "answers": "dumps/base/ json_place",
    "settings": "kernels/selectors/ settings_file",
    "channels": "kernels/selectors/ channel_ranking",
    "bench": "experiments/bench/kernel/ kernel_report_reader",
    "model_bench": "experiments/bench/model/ model_bench",
    "config": "experiments/cli/parse/ config_text config_file",
    "selector": "kernels/selectors/ options dumps/base/ json",
    "grid": "experiments/cli/options/ grid",
    "scales": "kernels/kv_formats/ scales_file",
    "head_weights": "analysis/study/ head_weights",
    "rope": "analysis/audit/ rope",
    "recommendation": "experiments/validation/ recommended",
}

# Functions of these sources that look at no file: they write, or compute from what was read.
OTHERS = {
    "analysis/audit/rope.cpp": "::turn",
    "analysis/outcomes/tasks_file.cpp": "shared_score",
    "analysis/results/folder_member.cpp": "require_none is_listed is_file_name list_again make_lock look_for_another "
                                          "FolderMember::FolderMember",
    "analysis/results/results_file_reader.cpp": "ResultsFile(attest::ResultsFile&&) ::operator=",
    "analysis/run/chunk.cpp": "number_text chosen_units require_unchanged compute_chunk missing_units",
    "dumps/format/dump_reader.cpp": "select_queries DumpReader&&",
    "dumps/format/estimate_reader.cpp": "narrow",
    "dumps/format/value_check.cpp": "first_bad_vector first_bad_estimate",
    "experiments/cli/options/grid.cpp": "default_grid",
    "experiments/cli/parse/config_file.cpp": "located with_excerpt",
    "experiments/validation/recommended.cpp": "label_of find_recommended recommended_settings numbers_at fallback_of",
    "kernels/selectors/channel_ranking.cpp": "mean_magnitude ::add",
    "kernels/selectors/settings_file.cpp": "head_settings_json",
}


def sources(words):
    folder = ""
    for word in words.split():
        if word.endswith("/"):
            folder = word
        else:
            yield f"{folder}{word}.cpp"


def run(program, reader, runs):
    amount = ["--runs", str(runs), "--variants", "2"] if runs else ["--short"]  # files that HDF5 made have more to tell
    line = subprocess.run([program, "--reader", reader, *amount], capture_output=True, text=True, check=True).stdout
    archive = pathlib.Path(__file__).parent.parent / "corpus" / f"{reader}.zip"
    if archive.exists():
        with tempfile.TemporaryDirectory() as folder:
            zipfile.ZipFile(archive).extractall(folder)
            files = ",".join(str(path) for path in sorted(pathlib.Path(folder).iterdir()))
            subprocess.run([program, "--reader", reader, "--file", files], stdout=subprocess.DEVNULL, check=True)
    return int(re.search(r"(\d+) inputs", line)[1])


def others(source, functions):
    """The lines of functions that are no part of the reader."""
    words = OTHERS.get(source, "").split()
    return [(f["start_line"], f["end_line"]) for f in functions if any(word in f["demangled_name"] for word in words)]


def lines_of(objects):
    """{source: {line: how often it ran}} of all counters in the folder."""
    found = collections.defaultdict(dict)
    for counters in objects.rglob("*.gcda"):
        done = subprocess.run(["gcov", "--json-format", "--stdout", counters], capture_output=True, cwd=ROOT,
                              check=True)
        for text in done.stdout.splitlines():
            for file in json.loads(text)["files"]:
                path = pathlib.Path(
                    counters.parent,
                    file["file"]) if not pathlib.Path(file["file"]).is_absolute() else pathlib.Path(file["file"])
                name = str(path.resolve()) if path.exists() else file["file"]
                for line in file["lines"]:
                    source = re.sub(r"^(\.\./)*", "", name.removeprefix(f"{ROOT}/"))
                    if any(begin <= line["line_number"] <= end for begin, end in others(source, file["functions"])):
                        continue
                    of_file = found[source]
                    of_file[line["line_number"]] = of_file.get(line["line_number"], 0) + line["count"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("objects", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--reader", default=",".join(SOURCES))
    parser.add_argument("--missed", action="store_true", help="list the lines that were not reached")
    options = parser.parse_args()
    for counters in options.objects.rglob("*.gcda"):
        counters.unlink()
    readers = options.reader.split(",")
    inputs = {reader: run(options.program, reader, options.runs) for reader in readers}
    found = lines_of(options.objects)
    for reader in readers:
        for source in sources(SOURCES[reader]):
            lines = found[source]
            reached = sum(count > 0 for count in lines.values())
            print(
                f"{reader:12} {inputs[reader]:7} inputs  {source:48} {reached:4} of {len(lines):4} lines  "
                f"{100 * reached / max(1, len(lines)):5.1f} %")
            if options.missed:
                text = (ROOT / source).read_text().splitlines()
                for number in sorted(number for number, count in lines.items() if not count):
                    print(f"    {number}: {text[number - 1].strip()}")


main()
