"""Patterns of array names, for example "layers.{l}.k" or "{s}/layers/{l}/q", and the patterns tried by default."""
import re
from typing import NamedTuple

from ..base.errors import InputError, UsageError
from ..base.files import in_quotes

ROLES = ("q", "k", "v")
# Tried in this order; * is replaced by q, k and v.
USUAL_FORMS = ("layers.{l}.*", "{s}.layers.{l}.*", "{s}/layers/{l}/*", "model.layers.{l}.self_attn.*", "layer_{l}.*",
               "layer{l}.*", "layer_{l}/*", "layer{l}/*", "*_{l}", "*{l}", "{l}.*", "{l}/*", "{s}.*", "{s}/*", "*")
LONGEST_NAME = 4096  # matching takes up to quadratic time in a name's length
LARGEST_LAYER = (1 << 31) - 1

# Non-greedy: of several possible matches, the one with the shortest first hole is taken.
HOLES = {"{l}": "(?P<layer>[0-9]+?)", "{s}": "(?P<sample>[^/]+?)"}


class LayerKey(NamedTuple):
    sample: str  # "" where the pattern has no {s}
    layer: int  # 0 where it has no {l}


class NamePattern:
    """Text with at most one hole {l}, which matches a decimal number, and at most one hole {s}, which matches one or
    more characters other than '/'. The pattern must match the whole name."""

    def __init__(self, text):
        expression, holes, after_hole = "", set(), False
        self.begin, self.end = text[:text.find("{")] if "{" in text else text, text[text.rfind("}") + 1:]
        for piece in re.split(r"({.?.?)", text):
            if not piece.startswith("{"):
                expression += re.escape(piece)
                after_hole &= not piece
                continue
            if piece not in HOLES:
                raise UsageError(f"name pattern '{text}': expected {{l}} (layer) or {{s}} (sample) after '{{'")
            if piece in holes:
                raise UsageError(f"name pattern '{text}': expected {piece} once")
            if after_hole:
                raise UsageError(f"name pattern '{text}': expected text between its holes")
            expression += HOLES[piece]
            holes.add(piece)
            after_hole = True
        self.fullmatch = re.compile(expression).fullmatch

    def matches(self, arrays):
        """The LayerKey and the array of each that fits. Comparing the ends first saves most of the time: with the usual
        patterns, each of the 80,000 names of a large model is compared with 45."""
        begin, end = self.begin, self.end
        likely = [array for array in arrays if array.name.endswith(end) and array.name.startswith(begin)]
        return [(key, array) for array in likely if (key := self.match(array.name)) is not None]

    def match(self, name):
        """The LayerKey of a name that fits, or None."""
        found = self.fullmatch(name) if len(name) <= LONGEST_NAME else None
        if not found:
            return None
        parts = found.groupdict()
        digits = parts.get("layer", "0").lstrip("0") or "0"
        if len(digits) > 10 or int(digits) > LARGEST_LAYER:
            return None
        return LayerKey(parts.get("sample", ""), int(digits))


def find_layers(arrays, path, given):
    """Returns {LayerKey: {role: array}}, by the patterns `given` as {role: text}, or by the first usual patterns that
    find all roles. `path` names the source in messages."""
    candidates = [given] if given else [{role: form.replace("*", role) for role in ROLES} for form in USUAL_FORMS]
    # A usual name begins or ends with its role: this one test saves matching every name against all 45 patterns.
    by_role = {role: arrays if given else [a for a in arrays if role in (a.name[:1], a.name[-1:])] for role in ROLES}
    for texts in candidates:
        layers = _assign(by_role, {role: NamePattern(texts[role]) for role in ROLES}, path)
        if any(all(role not in found for found in layers.values()) for role in ROLES):
            continue
        for key, found in sorted(layers.items()):
            for role in ROLES:
                if role not in found:
                    of_sample = f" of sample {in_quotes(key.sample)}" if key.sample else ""
                    raise InputError(f"{path}: layer {key.layer}{of_sample}: expected q, k and v, found no array that "
                                     f"fits '{texts[role]}'")
        return layers
    q, k, v = (candidates[0][role] for role in ROLES)
    raise InputError(f"{path}: expected arrays named like '{q}', '{k}' and '{v}', found {_some_names(arrays)}"
                     + ("" if given else " (--q, --k and --v name them)"))


def _assign(by_role, patterns, path):
    layers = {}
    for role, arrays in by_role.items():
        for key, array in patterns[role].matches(arrays):
            found = layers.setdefault(key, {})
            if role in found:
                raise InputError(f"{path}: expected one {role} of layer {key.layer}, found "
                                 f"{in_quotes(found[role].name)} and {in_quotes(array.name)}")
            found[role] = array
    return layers


def _some_names(arrays):
    names = ", ".join(in_quotes(array.name) for array in arrays[:4]) or "no arrays"
    return names + (f" and {len(arrays) - 4} more" if len(arrays) > 4 else "")
