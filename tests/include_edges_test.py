"""Includes follow the dependencies of the folders.

FOLDERS lists the top-level folders that a folder may include, LIBRARIES those that may include an external library.
The CMake targets must have the same dependencies. Within and between top-level folders, a folder includes only itself
and those before it in ORDER.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Which folders a folder may include besides itself.
FOLDERS = {
    "dumps": set(),
    "kernels": {"dumps"},
    "analysis": {"dumps", "kernels"},
    "plots": set(),
    "experiments": {"dumps", "kernels", "analysis", "plots"},
}

# All folders with sources, each after the folders that it uses.
ORDER = """
    dumps/base dumps dumps/hdf5 dumps/format dumps/synthetic dumps/inspect
    kernels/base kernels/device kernels/quantize kernels/kv_formats kernels/rank kernels/attention kernels/selectors
    kernels/decode/base kernels/decode/reference kernels/decode/fused kernels/decode kernels/decode/baselines
    analysis/study analysis/metrics analysis/results analysis/layer analysis/audit analysis/cuda analysis/torch
    analysis/torch_ops analysis/statistics
    analysis/decode_bench analysis/validation analysis/outcomes analysis/run
    plots plots/page
    experiments/cli/process experiments/cli/parse experiments/cli/output experiments/cli/options
    experiments/run experiments/study_view experiments/bench/study experiments/bench/kernel experiments/bench/model
    experiments/figures experiments/failure_prediction experiments/tables experiments/compare experiments/claims
    experiments/validation experiments/weights experiments/report experiments/audit experiments/list experiments/inspect
    experiments/commands
    experiments
""".split()

# Patterns of an external library's headers, and the folders that may include them.
LIBRARIES = {
    "HDF5": (r"(H5\w*|hdf5\w*)\.h", {"dumps"}),
    "xxHash": (r"xxh(ash|3)\.h", {"dumps"}),
    "zlib": (r"zlib\.h", {"dumps", "plots"}),
    "LibTorch": (r"(torch|ATen|c10)/.*", {"analysis"}),
    "CUDA": (r"(cu(da|b|blas|rand|tlass)\w*(/|\.h)|thrust/|nv/|mma\.h|cooperative_groups).*",
             {"kernels", "analysis", "experiments"}),
    "CLI11": (r"CLI/.*", {"experiments"}),
    "toml++": (r"toml\+\+/.*", {"experiments"}),
    "GoogleTest": (r"(gtest|gmock)/.*", set()),
}

# May include only those headers of dumps/ that need no HDF5; plots/ includes none.
HDF5_FREE = {"kernels", "plots"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)
SOURCES = {".h", ".cpp", ".cu", ".cuh"}


def includes(path):
    return [(style, name) for style, name in INCLUDE.findall(path.read_text())]


def violations(folder, style, name, place):
    """Messages about one include in a source of `folder`, which is in ORDER."""
    top, other_top, other = folder.split("/")[0], name.split("/")[0], name.rpartition("/")[0]
    if style == '"':
        if other_top not in FOLDERS:
            yield f'{place}: "{name}" is not written from the project\'s root'
        elif other_top != top and other_top not in FOLDERS[top]:
            yield f"{place}: {top}/ may not use {other_top}/ ({name})"
        elif other not in ORDER or ORDER.index(other) > ORDER.index(folder):
            yield f"{place}: {folder}/ may not use {other}/ ({name}), which comes after it"
    for library, (pattern, users) in LIBRARIES.items():
        if re.fullmatch(pattern, name) and top not in users:
            yield f"{place}: {top}/ may not use {library} ({name})"


def sources(folder):
    return sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in SOURCES)


@pytest.mark.parametrize("folder", FOLDERS)
def test_includes_follow_the_edges(folder):
    found = []
    for path in sources(folder):
        place = path.relative_to(ROOT)
        for style, name in includes(path):
            found += violations(str(place.parent), style, name, place)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", ["dumps", "kernels", "analysis", "experiments"])
def test_the_table_of_a_readme_has_the_order(folder):
    # a second table begins with what callers use
    text = (ROOT / folder / "README.md").read_text().split("`decode/base/`")[0]
    rows = re.findall(r"^\| (`[\w/]+/`(?:, `\w+/`)*) +\|", text, re.MULTILINE)
    listed = [f"{folder}/{name}" for row in rows for name in re.findall(r"`([\w/]+)/`", row)]
    placed = [ORDER.index(name) for name in listed if name in ORDER]
    assert len(placed) > 4 and placed == sorted(placed), listed


def test_scripts_of_any_page_need_none_of_the_report():
    """A browser has one scope for all: a name that only the report's scripts declare is missing in another page."""
    declared = lambda text: set(re.findall(r"^(?:async )?(?:function|const|let) (\w+)", text, re.MULTILINE))
    texts = {folder: "\n".join(path.read_text() for path in sorted((ROOT / folder).glob("*.js")))
             for folder in ("plots/page", "experiments/report/page")}
    calls = set(re.findall(r"(?<!\.)\b(\w+)\(", texts["plots/page"]))
    assert "inflate" in calls and not calls & (
        declared(texts["experiments/report/page"]) - declared(texts["plots/page"]))


def test_the_order_names_every_folder_with_sources():
    assert {str(path.parent.relative_to(ROOT)) for folder in FOLDERS for path in sources(folder)} == set(ORDER)


@pytest.mark.parametrize("folder", sorted(HDF5_FREE))
def test_hdf5_does_not_come_in_through_another_header(folder):
    for path in sources(folder):
        seen, open_headers = set(), [name for style, name in includes(path) if style == '"']
        while open_headers:
            header = open_headers.pop()
            if header in seen or not (ROOT / header).is_file():
                continue
            seen.add(header)
            for style, name in includes(ROOT / header):
                assert not re.fullmatch(LIBRARIES["HDF5"][0], name), (
                    f"{path.relative_to(ROOT)} gets {name} through {header}")
                if style == '"':
                    open_headers.append(name)


def test_only_dumps_calls_hdf5():
    """Others see its handles through headers of dumps/hdf5/."""
    for folder in set(FOLDERS) - LIBRARIES["HDF5"][1]:
        for path in sources(folder):
            calls = re.findall(r"\bH5[A-Z]+\w*\(", path.read_text())
            assert not calls, f"{path.relative_to(ROOT)} calls {calls[0]}): {folder}/ may not use HDF5"


def test_only_torch_sources_see_torch():
    pattern = LIBRARIES["LibTorch"][0]
    for path in sources("analysis"):
        # A header that includes torch's counts as one of torch's.
        if any(re.fullmatch(pattern, name) or re.fullmatch(r"analysis/torch_ops/torch_\w+\.h", name)
               for _, name in includes(path)):
            assert re.fullmatch(r"torch_\w+\.(cpp|h)", path.name), (
                f"{path.relative_to(ROOT)}: name it torch_*, or leave torch out")


@pytest.mark.parametrize(
    "folder, style, name",
    [
        ("dumps", '"', "kernels/attention/scores.h"),
        ("dumps", "<", "torch/torch.h"),
        ("dumps", "<", "cuda_runtime.h"),
        ("kernels", "<", "hdf5.h"),
        ("kernels", "<", "ATen/ops/empty.h"),
        ("kernels", '"', "analysis/statistics/aggregate.h"),
        ("analysis", "<", "CLI/CLI.hpp"),
        ("analysis", "<", "hdf5.h"),
        ("analysis", "<", "xxhash.h"),
        ("analysis", '"', "plots/table.h"),
        ("plots", '"', "dumps/base/error.h"),
        ("experiments", "<", "H5Fpublic.h"),
        ("kernels", '"', "scores.h"),
        ("dumps/base", '"', "dumps/hdf5/handle.h"),
        ("kernels/rank", '"', "kernels/attention/scores.h"),
        ("kernels/attention", '"', "kernels/selectors/selector.h"),
        ("analysis/results", '"', "analysis/run/manifest.h"),
        ("analysis/metrics", '"', "analysis/cuda/cuda_chunk_study.h"),
    ],
)
def test_a_forbidden_include_is_seen(folder, style, name):
    assert list(violations(folder, style, name, "a.cpp"))


@pytest.mark.parametrize(
    "folder, style, name",
    [
        ("kernels", "<", "cub/cub.cuh"),
        ("dumps", "<", "H5Ipublic.h"),
        ("dumps/base", "<", "xxhash.h"),
        ("analysis/run", '"', "dumps/base/error.h"),
        ("analysis/run", '"', "analysis/results/results_file.h"),
        ("plots", "<", "cmath"),
    ],
)
def test_an_allowed_include_is_not(folder, style, name):
    assert not list(violations(folder, style, name, "a.cpp"))
