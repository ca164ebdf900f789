"""Every reader of untrusted files has a fuzz target beside its tests: of folder/X.cpp it is
tests/folder/X_target.cpp."""

import os
import pathlib
import re

import pytest

SOURCE = pathlib.Path(os.environ["ATTEST_SOURCE_DIR"])
# How a source opens a file, parses one, or has it read in a guarded child.
READS = re.compile(
    r"InputFile\b[^;\n]*[({]|InputFile "
    r"\w+_;|read_json_object\(|parsed?_json\(|run_in_guarded_child\(|open_file\(|H5Fopen|"
                   r"O_RDONLY|O_RDWR|fopen\(|i?fstream\b.*[({]|istreambuf|mmap\(")
# Sources that are no readers of a format, and why; or parts of a reader: the source whose target attacks them.
OTHERS = {
    "analysis/decode_bench/gpu_clocks.cpp": "the driver's words",
    "analysis/results/decoded_arrays.cpp": "analysis/results/results_file_reader.cpp",
    "analysis/results/manifest_inputs.cpp": "analysis/results/results_file_reader.cpp",
    "analysis/results/results_file_scan.cpp": "analysis/results/results_file_reader.cpp",
    "analysis/results/study_difference.cpp": "analysis/results/partial_status.cpp",
    "analysis/run/input_hashes.cpp": "bytes of any file, which are hashed",
    "analysis/run/manifest.cpp": "analysis/results/results_file_reader.cpp",
    "analysis/run/study_input.cpp": "analysis/results/results_file_reader.cpp",
    "analysis/study/selector_options.cpp": "analysis/results/results_file_reader.cpp",
    "analysis/study/study.cpp": "analysis/results/results_file_reader.cpp",
    "dumps/base/atomic_file.cpp": "writes",
    "dumps/base/cgroup.cpp": "of the machine",
    "dumps/base/input_file.cpp": "what readers read with",
    "dumps/base/json.cpp": "what readers read with",
    "dumps/base/machine_limits.cpp": "of the machine",
    "dumps/base/process_identity.cpp": "of the machine",
    "dumps/format/decoded_values.cpp": "dumps/format/dump_reader.cpp",
    "dumps/format/memory_bound.cpp": "looks at the size",
    "dumps/hdf5/child_limits.cpp": "of the machine",
    "dumps/hdf5/guarded_child.cpp": "what readers read with",
    "dumps/hdf5/node.cpp": "what readers read with",
    "dumps/hdf5/open_file.cpp": "what readers read with",
    "dumps/format/file_format.cpp": "dumps/format/dump_reader.cpp",
    "experiments/bench/study/dump_timing.cpp": "bytes of the dump, to warm the cache",
    "experiments/cli/options/results_arguments.cpp": "looks at the first bytes",
    "experiments/cli/parse/checks.cpp": "looks at the size",
    "experiments/cli/parse/command.cpp": "experiments/cli/parse/config_file.cpp",
    "experiments/cli/process/available_processors.cpp": "of the machine",
    "experiments/cli/process/standard_streams.cpp": "opens /dev/null",
    "experiments/cli/process/version.cpp": "of the machine",
    "experiments/commands/demo.cpp": "what this program said",
    "experiments/compare/comparison.cpp": "analysis/results/results_file_reader.cpp",
    "experiments/inspect/inspect_results.cpp": "analysis/results/results_file_reader.cpp",
    "experiments/report/gather_report.cpp": "analysis/results/results_file_reader.cpp",
    "experiments/report/result_section.cpp": "figures that this process drew",
    "experiments/study_view/figure_files.cpp": "captions that this program wrote",
    "experiments/study_view/staged_folder.cpp": "syncs what was written",
    "experiments/validation/recommendation.cpp": "analysis/results/results_file_reader.cpp",
    "kernels/device/page_locked_memory.cpp": "memory",
    "plots/files.cpp": "figures that this process drew",
    "plots/gnuplot.cpp": "gives it /dev/null",
}
PLANTED = {"kThrowsTarget", "kCrashesTarget", "kHangsTarget", "kSwellsTarget"}  # fail in a known way


def readers(root=SOURCE):
    """The sources that read, relative to the checkout."""
    for folder in "dumps", "kernels", "analysis", "plots", "experiments":
        for path in sorted((root / folder).rglob("*.cpp")):
            if READS.search(re.sub(r"//.*", "", path.read_text())):
                yield str(path.relative_to(root))


def without_target(root=SOURCE):
    """Readers that nothing attacks."""
    for source in readers(root):
        reason = OTHERS.get(source, source)
        if not reason.endswith(".cpp"):
            continue
        target = root / "tests" / f"{reason.removesuffix('.cpp')}_target.cpp"
        if not target.exists():
            yield source


def test_each_reader_has_a_target():
    assert len(list(readers())) > 35
    assert list(without_target()) == []
    assert sorted(set(OTHERS) - set(readers())) == []


@pytest.mark.parametrize("line", [
    'const Json content = read_json_object(path, "weights", kMax);', "const InputFile file(path);",
    "std::ifstream file(path);",
    "auto root = hdf5::root_of(hdf5::open_file(path));", "run_in_guarded_child(path, limits, work, receive);"])
def test_a_new_reader_without_one_is_found(line, tmp_path):
    new = tmp_path / "analysis/study/new_file.cpp"
    new.parent.mkdir(parents=True)
    new.write_text(f"void read(const std::string& path) {{\n  {line}\n}}\n")
    assert list(without_target(tmp_path)) == ["analysis/study/new_file.cpp"]
    target = tmp_path / "tests/analysis/study/new_file_target.cpp"
    target.parent.mkdir(parents=True)
    target.write_text("")
    assert list(without_target(tmp_path)) == []


def test_each_target_is_in_the_programs_with_sanitizers():
    """Those compile what readers need alone; of figures there are none."""
    cmake = (SOURCE / "tests/fuzz/CMakeLists.txt").read_text()
    needed = re.compile("|".join(re.findall(r'"([^"]+)"', cmake.split("set(needed")[1].split(")\n  list(")[0])))
    sources = [str(path.relative_to(SOURCE / "tests")).replace("_target", "")
               for path in (SOURCE / "tests").rglob("*_target.cpp")]
    assert len(sources) > 20 and [
        source for source in sources if not needed.match(source)] == ["experiments/figures/figures.cpp"]


def test_each_target_is_in_the_list():
    declared = set(re.findall(r"k\w+Target\b", (SOURCE / "tests/fuzz/fuzz_target.h").read_text()))
    listed = set(re.findall(r"&(k\w+Target)\b", (SOURCE / "tests/fuzz/fuzz_targets.cpp").read_text()))
    files = [*(SOURCE / "tests").rglob("*_target.cpp"), SOURCE / "tests/fuzz/planted_targets.cpp"]
    defined = {path: re.findall(r"TargetInfo (k\w+Target)\{", path.read_text()) for path in files}
    assert all(defined.values())
    assert declared == {name for names in defined.values() for name in names} and listed == declared - PLANTED


def test_each_target_has_inputs_that_are_kept():
    names = {name for path in (SOURCE / "tests").rglob("*_target.cpp")
             for name in re.findall(r'TargetInfo k\w+Target\{"(\w+)"', path.read_text())}
    assert len(names) > 20 and names == {path.stem for path in (SOURCE / "tests/fuzz/corpus").glob("*.zip")}
