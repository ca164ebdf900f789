"""No two headers define a type, or an inline constant, of the same name in namespace attest: the linker would join
their functions unasked, and a source that includes both would not compile."""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("dumps", "kernels", "analysis", "plots", "experiments")
# Types within types are indented, and types of another namespace have one that is not attest alone.
DEFINITION = re.compile(r"^(?:(?:struct|class|enum class) (\w+)[^;(]*\{|"
                        r"inline constexpr [^={(]*?\b(\w+)(?:\[\w*\])? ?[={])", re.MULTILINE)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)


def duplicates(headers):
    places = defaultdict(set)
    for path, text in headers:
        namespaces = "::".join(NAMESPACE.findall(text))
        for type_name, constant in DEFINITION.findall(text):
            places[f"{namespaces}::{type_name or constant}"].add(path)
    return {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}


def test_every_type_and_constant_has_one_header():
    headers = [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
               for folder in FOLDERS for suffix in ("h", "cuh")
               for path in sorted((ROOT / folder).rglob(f"*.{suffix}"))]
    assert len(headers) > 200
    assert not duplicates(headers)


def test_a_second_definition_is_found():
    first = ("a.h", "namespace attest {\nstruct Place {\n  int x;\n};\n}\n")
    other = ("b.h", "namespace attest {\nclass Place final : Base {\n};\n}\n")
    nested = ("c.h", "namespace attest::fuzz {\nstruct Place {\n};\n}\n")
    declared = ("d.h", "namespace attest {\nstruct Place;\n}\n")
    assert duplicates([first, nested, declared]) == {}
    assert duplicates([first, other]) == {"attest::Place": ["a.h", "b.h"]}
    rows = [(f"{n}.h", f"namespace attest {{\ninline constexpr int kRows = {n};\n}}\n") for n in (32, 64)]
    assert duplicates(rows) == {"attest::kRows": ["32.h", "64.h"]}
