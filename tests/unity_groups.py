"""Prints which sources of tests are compiled together: a line "GROUP PATH" for each.

    tests/unity_groups.py FOLDER SOURCE...    (paths relative to FOLDER)

Most of the time of a test goes into the headers of GoogleTest and of the library. Sources of a folder share them, up to
six, if no name in their anonymous namespaces is another's: these stand at the beginning of a line.
"""
import collections
import pathlib
import re
import sys

MOST = 6
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
    groups = collections.defaultdict(list)  # subfolder -> [(names, sources)]
    for source in sorted(sources):
        path = pathlib.PurePath(source)
        subfolder, names = f"{path.parent}{path.suffix.removeprefix('.cpp')}", names_of(pathlib.Path(folder, source))
        for known, members in groups[subfolder]:
            if len(members) < MOST and not known & names:
                known |= names
                members.append(source)
                break
        else:
            groups[subfolder].append((names, [source]))
    for subfolder, found in groups.items():
        for number, (_, members) in enumerate(found):
            for source in members:
                print(f"{subfolder.replace('/', '_').replace('.', '')}_{number} {source}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
