"""Documents: links lead somewhere, lines and rows of tables are short, files that are named exist, in comments too."""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MADE = ROOT / "experiments/claims/DEMO.md"  # as the program writes it
FOLDERS = ["dumps", "kernels", "analysis", "plots", "experiments", "tests"]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md",
             *(p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.md")))]


def prose(path):
    """The text without blocks of code."""
    return re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """Those that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if p != MADE], ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_are_short(path):
    long = [line for line in prose(path).splitlines() if len(line) > 120]
    assert not [line for line in long if not line.startswith(("|", "    "))]  # tables, and what a program prints


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if p != MADE], ids=lambda path: str(path.relative_to(ROOT)))
def test_rows_of_tables_are_short(path):
    assert not [line for line in prose(path).splitlines() if line.startswith("|") and len(line) > 180]


def test_every_preset_is_in_the_table():
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    rows = re.findall(r"^\| (`\w+`.*?) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {preset["name"] for preset in presets if not preset.get("hidden")} <= named


def test_the_readme_is_read_in_minutes():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


# With a place holder for a part (X, NAME), and files of other projects.
NAMED = re.compile(r"(?<![\w/.-])(?:[\w.-]+/)*[\w-]+\.(?:cpp|cuh|cu|h|cmake|sh|js|py|md)\b(?!\.\w)")
PLACE_HOLDER = re.compile(r"X(_.*)?\.|NAME|_")
OTHERS = {
    "CUDAStream.h", "ann_attention.py", "controller.py", "flash_fwd_int4_sparse_kernel_v2.h", "kv_cache.py",
    "llama.cpp", "llama31_sparse_patch_4_51.py", "llama_kivi.py", "mean_key.py", "modify_llama.py", "new_pack.py",
    "offline_calibration.py", "quant_triton.py", "quantize.py", "quants.py", "quest_attention.py", "sampling.cuh"}
COMMENTS = {".cpp": "//", ".h": "//", ".cu": "//", ".cuh": "//", ".py": "#", ".sh": "#", ".cmake": "#", ".txt": "#"}


def words(path):
    """A document, or the comments and docstrings of a source, line by line."""
    mark = "" if path.suffix == ".md" else COMMENTS[path.suffix]
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if path.suffix == ".py" else ():
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield from (ast.get_docstring(node) or "").splitlines()
    for line in text.splitlines():
        if mark in line and not line.lstrip().startswith("#include"):
            yield re.sub(r"https?://\S+", "", line[line.index(mark):])


FILES = [path for folder in (*FOLDERS, "cmake") for path in (ROOT / folder).rglob("*") if path.is_file()]
MADE_BY_VALIDATE = {"captions.md", "verdict.md"}
NAMES = {path.name for path in FILES} | {path.name for path in ROOT.glob("*.md")} | MADE_BY_VALIDATE


def is_there(name, path):
    """A name alone is that of a file anywhere; in Python README.md is the one beside it. A name with folders is a path
    from a folder that `path` is in."""
    last = name.rpartition("/")[2]
    if last in OTHERS or PLACE_HOLDER.match(last):
        return True
    if name == "README.md" and path.suffix == ".py":
        return (path.parent / name).exists()
    return any(
        (folder / name).exists() for folder in path.parents
        if folder.is_relative_to(ROOT)) if "/" in name else name in NAMES


def test_files_that_are_named_exist():
    read = [*DOCUMENTS[:2], *(path for path in FILES if path.suffix in {".md", *COMMENTS})]
    assert len(read) > 1000
    unknown = [f"{path.relative_to(ROOT)}: {name}" for path in read for line in words(path)
               for name in NAMED.findall(line)
               if not is_there(name, path)]
    assert not unknown


def test_docstrings_are_read(tmp_path):
    (tmp_path / "a.py").write_text('"""Of x.md."""\nclass A:\n    """Of\n    y.h."""\n    b = 1  '
                                   '# of X_z.py\n')
    assert [name for line in words(tmp_path / "a.py") for name in NAMED.findall(line)] == ["x.md", "y.h", "X_z.py"]


def test_a_python_file_names_the_readme_beside_it():
    assert is_there("README.md", ROOT / "experiments/python/attest/capture/options.py")
    assert not is_there("README.md", ROOT / "experiments/python/attest/vllm_plugin/options.py")


def test_a_file_that_is_named_is_found():
    assert NAMED.findall("// See a/b_cuda.cu, x.h.") == ["a/b_cuda.cu", "x.h"]
    assert NAMED.findall("`../a/b.py`") == ["../a/b.py"]


@pytest.mark.parametrize("name, there", [
    ("selectors/ffd.cpp", True), ("kernels/selectors/ffd.cpp", True), ("../selectors/ffd.cpp", True), ("ffd.cpp", True),
    ("selectors/NAME.cpp", True),
    ("evaluation/quest_attention.py", True), ("decode/ffd.cpp", False), ("base/error.h", False),
    ("ffd_of_old.cpp", False)])
def test_a_path_is_one_from_a_folder_of_the_document(name, there):
    assert is_there(name, ROOT / "kernels/quantize/ffd_thumbnail.h") == there
