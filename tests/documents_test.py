"""Documents: links lead somewhere, and lines are short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MADE = ROOT / "experiments/claims/DEMO.md"  # as the program writes it
FOLDERS = ["dumps", "kernels", "analysis", "plots", "experiments"]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.md")))]


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


def test_the_readme_is_read_in_minutes():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100
