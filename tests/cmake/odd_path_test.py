"""A checkout may be at a path with a space, parentheses and a plus."""
import shutil
import subprocess
from pathlib import Path

from cmake_program import CMAKE

ROOT = Path(__file__).resolve().parents[2]


def run(script, folder, *variables):
    subprocess.run([CMAKE, *(f"-D{variable}" for variable in variables), "-P", script], check=True, cwd=folder)


def test_sources_are_united(tmp_path):
    folder = tmp_path / "a (b) c++"
    for name in ("one/a.cpp", "one/b.cpp", "one/more/c.cpp", "two/d.cpp"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    shutil.copy(ROOT / "cmake/unite_sources.cmake", folder)
    (folder / "script.cmake").write_text("""
include(${CMAKE_CURRENT_LIST_DIR}/unite_sources.cmake)
set(CMAKE_UNITY_BUILD ON)
file(GLOB_RECURSE sources ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
unite_sources(sources)
""")
    run(folder / "script.cmake", folder)
    made = {path.name: path.read_text() for path in (folder / "Unity").iterdir()}
    assert made == {
        "one_0.cpp": f'#include "{folder}/one/a.cpp"\n#include "{folder}/one/b.cpp"\n',
        "one_more_0.cpp": f'#include "{folder}/one/more/c.cpp"\n',
        "two_0.cpp": f'#include "{folder}/two/d.cpp"\n'}


def test_the_page_is_embedded(tmp_path):
    folder = tmp_path / "a (b) c++"
    folder.mkdir()
    for name in ("page.html", "page.css", "a.js", "b.js"):
        (folder / name).write_text(f"of {name}\n")
    run(ROOT / "cmake/embed_page.cmake", folder, f"HTML={folder}/page.html", f"STYLE={folder}/page.css",
        f"SCRIPTS={folder}/a.js|{folder}/b.js", f"OUT={folder}/page.cpp")
    assert "of a.js\nof b.js\n})();" in (folder / "page.cpp").read_text()
