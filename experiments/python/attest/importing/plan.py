"""Finds by name which arrays are q, k and v of which layer and sample, and checks that types and shapes fit."""
import math
from dataclasses import dataclass, field

from ..base.dump_writer import ITEM_BYTES
from ..base.errors import InputError, UsageError
from ..base.files import in_quotes
from ..base.stored_text import SAMPLE_NAME, is_sample_name
from .layout import check_layout, view_array
from .names import ROLES, find_layers
from .source_array import shape_text

MOST_LAYERS = 100_000  # a larger number is not a layer's
MOST_SAMPLES = 10_000  # of one array along B: each gets its own groups and data sets
MOST_HEADS = 1 << 20  # also the limit for channels, and for queries of a sample
MOST_SHOWN = 8  # layers in a message


@dataclass
class ImportOptions:
    """As on the command line; 0 and "" mean "not given"."""
    q_names: str = ""
    k_names: str = ""
    v_names: str = ""
    layout: str = "HTD"
    q_layout: str = ""
    positions: list = field(default_factory=list)
    spans: list = field(default_factory=list)  # [begin, end], the same for every sample
    bfloat16_bits: bool = False
    sample: str = "sample"
    task: str = "imported"
    model: str = "imported"
    rope: str = ""
    num_layers: int = 0
    softmax_scale: float = 0
    logit_softcap: float = 0
    sliding_window: int = 0
    window_layers: list = field(default_factory=list)  # empty: all
    last: int = 0  # queries of each recorded request


def option_of(field):
    """The option of a field of ImportOptions."""
    options = {"q_names": "--q", "k_names": "--k", "v_names": "--v", "spans": "--span", "softmax_scale": "--scale",
               "logit_softcap": "--softcap"}
    return options.get(field, "--" + field.replace("_", "-"))


@dataclass
class PlannedLayer:
    number: int
    element_type: str
    views: dict  # role to ArrayView


@dataclass
class PlannedSamples:
    """The samples that share one {s}: as many as the arrays have along B."""
    names: list
    num_tokens: int
    positions: list | range
    layers: list


@dataclass
class ImportPlan:
    num_query_heads: int
    num_kv_heads: int
    head_dim: int
    value_dim: int
    num_layers: int
    groups: list  # of PlannedSamples

    def geometry(self):
        """Attributes of the dump."""
        return {"num_query_heads": self.num_query_heads, "num_kv_heads": self.num_kv_heads, "head_dim": self.head_dim,
                "value_dim": self.value_dim}

    def num_samples(self):
        """How many samples all groups have."""
        return sum(len(group.names) for group in self.groups)

    def num_sample_layers(self):
        """How many layers all samples have: one counts once for each sample that has it."""
        return sum(len(group.names) * len(group.layers) for group in self.groups)

    def num_bytes(self):
        """The bytes of q, k and v as they will be stored."""
        return sum(math.prod(view.extent.values()) * ITEM_BYTES[layer.element_type]
                   for group in self.groups for layer in group.layers for view in layer.views.values())


def layers_of_model(path, recorded, options):
    """How many layers the dump says that the model has: as many as were recorded, or --num-layers, if that is more."""
    if 0 < options.num_layers < recorded:
        raise UsageError(f"{path}: expected at least {recorded} layers, found {options.num_layers} (--num-layers)")
    return max(recorded, options.num_layers)


def plan_import(arrays, path, options):
    """`path` names the source in messages. InputError when names, types or shapes do not make a dump, UsageError when
    the options are wrong in themselves."""
    return _Planner(path, options).plan(arrays)


class _Planner:
    def __init__(self, path, options):
        self.path, self.options = path, options
        self.layouts = {"q": options.q_layout or options.layout, "k": options.layout, "v": options.layout}
        for layout in (options.layout, self.layouts["q"]):
            check_layout(layout)

    def plan(self, arrays):
        options = self.options
        given = {"q": options.q_names, "k": options.k_names, "v": options.v_names}
        if any(given.values()) != all(given.values()):
            raise UsageError("name patterns: expected all of --q, --k and --v, or none")
        found = find_layers(arrays, self.path, given if any(given.values()) else None)
        layers = {}  # by {s}
        for key in sorted(found):
            layers.setdefault(key.sample, []).append(self._layer(key.layer, found[key]))
        self._check_bfloat16_bits(found)
        self._check_window_layers({layer.number for group in layers.values() for layer in group})
        first = next(iter(layers.values()))[0].views
        q, k, v = (first[role].extent for role in ROLES)
        num_layers = 1 + max(layer.number for group in layers.values() for layer in group)
        plan = ImportPlan(q["H"], k["H"], q["D"], v["D"], layers_of_model(self.path, num_layers, options), [])
        self._check_first(plan, first)
        for sample, group in layers.items():
            plan.groups.append(self._samples(plan, sample, group))
        self._check_names(plan)
        return plan

    def _layer(self, number, arrays):
        element_type = self._element_type(arrays["q"])
        views = {role: view_array(arrays[role], self.layouts[role]) for role in ROLES}
        for role in ROLES:
            other = self._element_type(arrays[role])
            if other != element_type:
                _fail(arrays[role], f"{element_type} as in {in_quotes(arrays['q'].name)}", other)
        if number >= MOST_LAYERS:
            _fail(arrays["q"], f"a layer below {MOST_LAYERS}", number)
        return PlannedLayer(number, element_type, views)

    def _element_type(self, array):
        if array.element_type:
            return array.element_type
        if array.may_hold_bfloat16 and self.options.bfloat16_bits:
            return "bfloat16"
        hint = ""
        if array.may_hold_bfloat16:
            hint = " (--bfloat16-bits, if these are the bits of bfloat16)"
        elif array.type_name in ("F64", "<f8"):
            hint = " (convert it to float32 first)"
        _fail(array, "float16, bfloat16 or float32", in_quotes(array.type_name) + hint)

    def _check_bfloat16_bits(self, found):
        arrays = [array for layer in found.values() for array in layer.values()]
        if self.options.bfloat16_bits and not any(array.may_hold_bfloat16 for array in arrays):
            raise UsageError(f"--bfloat16-bits: {self.path}: expected arrays of 16-bit integers, or NumPy's V2, found "
                             f"{in_quotes(arrays[0].type_name)}")

    def _fail_extent(self, role, view, expected, found):
        _fail(view.array, expected, f"{found} in shape {shape_text(view.array.shape)} (layout {self.layouts[role]})")

    def _check_first(self, plan, views):
        """The first layer defines the shape that all others must have."""
        for role, letter in (("q", "H"), ("k", "H"), ("q", "D"), ("v", "D")):
            if views[role].extent[letter] > MOST_HEADS:
                _fail(views[role].array, f"at most {MOST_HEADS} heads and channels", views[role].extent[letter])
        if plan.num_query_heads % plan.num_kv_heads:
            self._fail_extent("q", views["q"], f"a multiple of the {plan.num_kv_heads} heads of k",
                              f"{plan.num_query_heads} heads")

    def _check_layer(self, plan, views):
        q, k = views["q"].extent, views["k"].extent
        for role, letter, expected, what in (("q", "H", plan.num_query_heads, "query heads"),
                                             ("q", "D", plan.head_dim, "channels"),
                                             ("k", "H", plan.num_kv_heads, "KV heads"),
                                             ("k", "D", plan.head_dim, "channels as in q"),
                                             ("v", "H", plan.num_kv_heads, "KV heads as in k"),
                                             ("v", "D", plan.value_dim, "channels"),
                                             ("v", "T", k["T"], "tokens as in k"),
                                             ("k", "B", q["B"], "samples as in q"),
                                             ("v", "B", q["B"], "samples as in q")):
            self._require_extent(role, views[role], letter, expected, what)

    def _require_extent(self, role, view, letter, expected, what):
        if view.extent[letter] != expected:
            self._fail_extent(role, view, f"{expected} {what}", view.extent[letter])

    def _samples(self, plan, sample, layers):
        first = layers[0].views
        self._check_layer(plan, first)
        num_samples, num_tokens = first["q"].extent["B"], first["k"].extent["T"]
        if num_samples > MOST_SAMPLES:
            self._fail_extent("q", first["q"], f"at most {MOST_SAMPLES} samples", num_samples)
        positions = self._positions(first)
        for layer in layers[1:]:
            views = layer.views
            self._check_layer(plan, views)
            self._require_extent("q", views["q"], "B", num_samples, "samples as in the first layer")
            self._require_extent("q", views["q"], "T", len(positions), "queries as in the first layer")
            self._require_extent("k", views["k"], "T", num_tokens, "tokens as in the first layer")
        name = sample or self.options.sample
        for begin, end in self.options.spans:
            if not 0 <= begin < end <= num_tokens:
                raise UsageError(f"--span: expected BEGIN:END within the {num_tokens} tokens of sample "
                                 f"{in_quotes(name)}, found {begin}:{end}")
        names = [f"{name}-{b}" for b in range(num_samples)] if num_samples > 1 else [name]
        return PlannedSamples(names, num_tokens, positions, layers)

    def _positions(self, views):
        queries, tokens = views["q"].extent["T"], views["k"].extent["T"]
        positions = self.options.positions
        if queries > tokens:
            self._fail_extent("q", views["q"], f"at most {tokens} queries, the tokens of k", queries)
        if queries > MOST_HEADS:
            self._fail_extent("q", views["q"], f"at most {MOST_HEADS} queries", queries)
        if not positions:
            return range(tokens - queries, tokens)
        if len(positions) != queries:
            _fail(views["q"].array, f"{len(positions)} queries, as many as --positions has", queries)
        for before, position in zip([-1, *positions], positions):
            if position <= before:
                raise UsageError(f"--positions: expected ascending numbers from 0, found {position}")
        if positions[-1] >= tokens:
            _fail(views["k"].array, f"tokens beyond position {positions[-1]}", tokens)
        return positions

    def _check_window_layers(self, found):
        for layer in self.options.window_layers:
            if layer not in found:
                shown = ", ".join(map(str, sorted(found)[:MOST_SHOWN])) + ", ..." * (len(found) > MOST_SHOWN)
                raise UsageError(f"--window-layers: {self.path} has no layer {layer}, expected some of its layers "
                                 f"({shown})")

    def _check_names(self, plan):
        seen = set()
        for name in (name for group in plan.groups for name in group.names):
            if not is_sample_name(name):
                raise InputError(f"{self.path}: expected as a sample's name {SAMPLE_NAME}, found {in_quotes(name)}")
            if name in seen:
                raise InputError(f"{self.path}: expected each sample once, found {in_quotes(name)} twice")
            seen.add(name)


def _fail(array, expected, found):
    raise InputError(f"{array.place()}: expected {expected}, found {found}")
