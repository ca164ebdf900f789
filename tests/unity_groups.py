"""Prints which sources of tests are compiled together: a line "GROUP PATH" for each.

    tests/unity_groups.py FOLDER SOURCE...    (paths relative to FOLDER)

Most of the time of a test goes into the headers of GoogleTest and of the library. Up to eight sources share them, if no
name in their anonymous namespaces is another's: these stand at the beginning of a line.
"""
import pathlib
import re
import sys

MOST = 8
NAMES = re.compile(
    r"^(?:template <[^\n]*> ?\n?)?(?:(?:struct|class|enum class|enum) (?P<type>\w+)|using (?P<alias>\w+) =|"
    r"TEST(?:_[FP])?\((?P<test>\w+, \w+)\)|"
    r"(?!return|using|namespace|TEST|INSTANTIATE)[A-Za-z_][\w:<>,&*\[\] ]*?[ &*](?P<value>\w+)(?:\(|\[| =|\{|;))",
    re.MULTILINE)


FURTHER = re.compile(r"^\S.*?, (k[A-Z]\w*) =", re.MULTILINE)  # constants of one declaration


def names_of(path):
    text = path.read_text()
    return {next(filter(None, match.groups())) for match in NAMES.finditer(text)} | set(FURTHER.findall(text))


def main(folder, sources):
    groups = []  # (kind, names, sources); *.cu of a subfolder stay by themselves: a kernel of theirs takes long
    for source in sorted(sources):
        path = pathlib.PurePath(source)
        kind, names = str(path.parent) if path.suffix == ".cu" else "", names_of(pathlib.Path(folder, source))
        for known_kind, known, members in groups:
            if known_kind == kind and len(members) < MOST and not known & names:
                known |= names
                members.append(source)
                break
        else:
            groups.append((kind, names, [source]))
    for number, (kind, _, members) in enumerate(groups):
        for source in members:
            print(f"{kind.replace('/', '_')}{'_cu_' if kind else ''}{number} {source}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
