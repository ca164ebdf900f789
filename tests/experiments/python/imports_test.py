"""Packages of the Python package import those above them in its README, and no command waits for torch to parse its
options."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(os.environ["ATTEST_SOURCE_DIR"]) / "experiments/python/attest"
ORDER = re.findall(r"^\| \[?`(\w+)/`", (ROOT / "README.md").read_text(), re.MULTILINE)
HAND_OVER = {"capture/__main__.py", "importing/engine_folders.py"}  # to packages of engines
IMPORT = re.compile(r"^\s*from \.\.(?:(\w+)(?:\.\w+)* import|import) (\w+)", re.MULTILINE)


def imported(path):
    """The other packages that a module imports."""
    own = path.relative_to(ROOT).parts[0]
    names = {package or name for package, name in IMPORT.findall(path.read_text())}
    return {name for name in names if name in ORDER and name != own}


def test_the_readme_lists_every_package():
    assert sorted(ORDER) == sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


@pytest.mark.parametrize("package", ORDER)
def test_packages_import_those_above_them(package):
    above, modules = set(ORDER[:ORDER.index(package)]), list((ROOT / package).rglob("*.py"))
    names = {str(path.relative_to(ROOT)): imported(path) - above for path in modules}
    below = [f"{name} imports {', '.join(sorted(found))}" for name, found in names.items() if found
             and name not in HAND_OVER]
    assert modules and not below, "\n".join(below)


def test_what_hands_over_is_needed():
    for name in HAND_OVER:
        assert not imported(ROOT / name) <= set(ORDER[:ORDER.index(name.partition("/")[0])]), f"{name} is no exception"


@pytest.mark.parametrize("package", sorted(path.parent.name for path in ROOT.glob("*/__main__.py")))
def test_options_are_parsed_before_anything_slow_is_imported(package):
    script = (f"import sys, attest.{package}.__main__; print(*{{'torch', 'numpy', 'h5py', 'transformers'}} & "
              "set(sys.modules))")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
