"""Reads the few lines of YAML that the program writes, by the rules of YAML 1.1, which PyYAML has, too."""

import re

NUMBER = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?|[0-9]+)$")  # 1e-05 is text there, for want of a point


def parse(text):
    """Nested maps of two spaces; numbers and words."""
    root = {}
    open_maps = [(-1, root)]
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        depth = len(line) - len(line.lstrip())
        key, _, value = line.strip().partition(":")
        while open_maps[-1][0] >= depth:
            open_maps.pop()
        value = value.strip()
        if value == "":
            open_maps[-1][1][key] = {}
            open_maps.append((depth, open_maps[-1][1][key]))
        else:
            open_maps[-1][1][key] = float(value) if NUMBER.match(value) else value
    return root
