"""Every reader of untrusted files has a fuzz target: a source that opens or parses one has a header that a target includes."""

import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ["ATTEST_SOURCE_DIR"])
READS = re.compile(r"read_json_object\(|InputFile\b[^;\n]*[({]|run_in_guarded_child\(|parsed_json\(\*?text|O_RDONLY|std::ifstream")
# What they are instead of readers of a format, or the header of the reader whose part they are.
OTHERS = {
    "analysis/decode_bench/gpu_clocks.cpp": "the driver's words",
    "analysis/results/decoded_arrays.cpp": "analysis/results/results_file.h",
    "analysis/results/results_file_reader.cpp": "analysis/results/results_file.h",
    "analysis/run/input_hashes.cpp": "bytes of any file, which are hashed",
    "experiments/bench/study_bench.cpp": "bytes of the dump, to warm the cache",
    "dumps/format/memory_bound.cpp": "looks at the size",
    "experiments/cli/options/results_arguments.cpp": "looks at the first bytes",
    "experiments/cli/parse/checks.cpp": "looks at the size",
    "experiments/cli/process/version.cpp": "of the machine",
    "experiments/inspect/inspect_results.cpp": "analysis/results/results_file.h",
    "experiments/decode/kernel_report_reader.cpp": "experiments/decode/kernel_text.h",
    "experiments/report/result_section.cpp": "figures that this process drew",
    "experiments/study_view/figure_run.cpp": "figures that this process drew",
    "experiments/study_view/staged_folder.cpp": "syncs what was written",
}


def included():
    text = "".join(path.read_text() for path in (SOURCE / "tests/fuzz").rglob("*.cpp"))
    return set(re.findall(r'#include "([^"]+)"', text))


def readers():
    for folder in "kernels", "analysis", "experiments", "dumps/format", "dumps/inspect":
        for path in sorted((SOURCE / folder).rglob("*.cpp")):
            text = path.read_text()
            if READS.search(text):
                yield str(path.relative_to(SOURCE)), re.search(r'#include "([^"]+)"', text)[1]


def test_each_reader_has_a_target():
    attacked, found = included(), dict(readers())
    assert len(found) > 15
    headers = {source: OTHERS.get(source, header) for source, header in found.items()}
    assert [source for source, header in headers.items() if header.endswith(".h") and header not in attacked] == []


def test_each_target_is_in_the_list():
    declared = set(re.findall(r"k\w+Target\b", (SOURCE / "tests/fuzz/fuzz_target.h").read_text()))
    listed = set(re.findall(r"&(k\w+Target)\b", (SOURCE / "tests/fuzz/fuzz_targets.cpp").read_text()))
    defined = {name for path in (SOURCE / "tests/fuzz").rglob("*_target*.cpp") for name in re.findall(r"TargetInfo (k\w+Target)\{", path.read_text())}
    planted = {"kThrowsTarget", "kCrashesTarget", "kHangsTarget", "kSwellsTarget"}
    assert declared == defined and listed == declared - planted
