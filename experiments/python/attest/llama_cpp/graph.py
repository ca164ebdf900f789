"""Finds attention in the graphs that llama.cpp computes, by what the operations are and read. Most names differ from
model to model. It relies on those that llama.cpp itself gives: of caches (cache_k_lN, cache_v_lN), of the rotations of
quantised caches (with "_rot") and of the products of attention without flash attention ("kq...").

A layer of a pass is

    SET_ROWS(cache_k_lN, k, cells)   k and v as they arrive at the cache, in float32
    SET_ROWS(cache_v_lN, v, cells)
    FLASH_ATTN_EXT(q, cache_k_lN, cache_v_lN, mask, sinks)     which reads a cache of float32 in float16; or
    MUL_MAT(cache_v_lN, SOFT_MAX(MUL_MAT(cache_k_lN, q), mask, sinks))

Quantised caches hold keys and values that a Hadamard matrix has rotated, MUL_MAT(rotation, x). Then x is taken, of the
queries too, and the output is what the rotation makes of attention's.
"""
import dataclasses
import re

import numpy as np

from ..base.errors import InputError
from .ggml import address, float_parameters, name, operation, origin, root, source, tensor_at, type_name, values

CACHE = re.compile(r"cache_([kv])_l(\d+)")


@dataclasses.dataclass
class Pass:
    """What one pass does in one layer: q [N, Hq, D], k [N, Hkv, D], v [N, Hkv, Dv] of its tokens, in float32; the cells
    of the cache that they go to [N]; mask [N, cells] of zeros and -infinity; output [N, Hq, Dv] in float32."""
    layer: int
    cells: np.ndarray = None
    k: np.ndarray = None
    v: np.ndarray = None
    q: np.ndarray = None
    mask: np.ndarray = None
    output: np.ndarray = None
    sinks: np.ndarray = None
    scale: float = 0
    softcap: float | None = None
    rotated: set = dataclasses.field(default_factory=set)  # of "k" and "v": those that the cache holds rotated
    types: dict = dataclasses.field(default_factory=dict)  # of "k" and "v": in which type attention reads them


class GraphWatch:
    """`deliver` gets each Pass of the chosen layers once its output is there. Errors wait in `error`: the function that
    calls here is written in C."""

    def __init__(self, deliver):
        self.deliver, self.layers, self.error = deliver, set(), None

    def begin(self, layers):
        """A call of the library that may compute several graphs."""
        self.layers, self.error = layers, None
        self.passes = {}  # layer -> Pass that is being put together
        self.unrotated = {}  # address of a rotation's result -> what was rotated
        self.attention = {}  # address of an operation that gives an output -> layer

    def __call__(self, pointer, ask, _):
        """Called before each operation, whether its result is wanted, and after those whose is. False stops the
        pass."""
        if self.error is not None:
            return False
        try:
            tensor = tensor_at(pointer)
            handler = self._handler(tensor)
            if ask:
                return handler is not None
            handler(tensor)
        except BaseException as error:
            self.error = error
            return False
        return True

    def _handler(self, tensor):
        kind = operation(tensor.op)
        if kind == "SET_ROWS":
            return self._stored if self._layer_of(tensor) else None
        if kind == "FLASH_ATTN_EXT":
            if self._layer_of(source(tensor, 1)):
                return self._flash
            self.unrotated.clear()  # of a layer that is not wanted
        if kind == "MUL_MAT":
            first = source(tensor, 0)
            if "_rot" in name(first):
                return self._rotation
            if self._layer_of(first) and name(tensor).startswith("kq"):
                return self._scores if CACHE.match(name(root(first)))[1] == "k" else self._weighted
        if kind == "SOFT_MAX" and self._scored(tensor) is not None:
            return self._softmax
        return None

    def _layer_of(self, tensor):
        """The (kind, layer) of a part of the cache that belongs to a chosen layer; None of another tensor."""
        found = CACHE.match(name(root(tensor)))
        return (found[1], int(found[2])) if found and int(found[2]) in self.layers else None

    def _pass(self, layer):
        return self.passes.setdefault(layer, Pass(layer))

    def _rotation(self, tensor):
        rotated = origin(source(tensor, 1))
        layer = self.attention.get(address(rotated))
        if layer is None:
            self.unrotated[address(tensor)] = values(source(tensor, 1)).reshape(-1)
        else:
            this = self.passes[layer]
            this.output = values(tensor).reshape(this.output.shape)
            self._finish(this)

    def _arrived(self, tensor):
        """The values before a rotation, flat, and whether there is one."""
        before = self.unrotated.get(address(origin(tensor)))
        return (values(tensor).reshape(-1), False) if before is None else (before, True)

    def _stored(self, tensor):
        kind, layer = self._layer_of(tensor)
        this = self._pass(layer)
        if getattr(this, kind) is not None:
            raise InputError(f"layer {layer}: its cache is written twice in a pass, which a dump cannot describe")
        found, rotated = self._arrived(source(tensor, 0))
        setattr(this, kind, found)
        this.rotated |= {kind} if rotated else set()
        if kind == "k":
            this.cells = values(source(tensor, 1)).reshape(-1)

    def _query(self, layer, tensor):
        """tensor [N, D] of each query head, as attention gets it."""
        this = self._pass(layer)
        if this.k is None or this.v is None or this.q is not None:
            raise InputError(f"layer {layer}: its keys are those of another layer, which a dump cannot describe")
        width, rows, heads, _ = tensor.ne
        before = self.unrotated.get(address(origin(tensor)))
        this.q = values(tensor)[0].transpose(1, 0, 2) if before is None else before.reshape(rows, heads, width)
        return this, rows, width

    def _heads(self, this, rows, width, value_width):
        this.k, this.v = this.k.reshape(rows, -1, width), this.v.reshape(rows, -1, value_width)

    def _mask(self, this, tensor, rows, max_bias):
        if tensor is None:
            raise InputError(f"layer {this.layer}: its attention has no mask, expected a decoder's")
        if max_bias:
            raise InputError(f"layer {this.layer}: its attention has position biases (ALiBi), which a dump cannot "
                             "describe")
        this.mask = values(tensor)[0, 0, :rows].astype(np.float32)

    def _flash(self, tensor):
        _, layer = self._layer_of(source(tensor, 1))
        this, rows, width = self._query(layer, source(tensor, 0))
        self._heads(this, rows, width, tensor.ne[0])
        this.types = {"k": type_name(source(tensor, 1).type), "v": type_name(source(tensor, 2).type)}
        scale, max_bias, softcap = (float(x) for x in float_parameters(tensor)[:3])
        this.scale, this.softcap = scale, softcap or None
        self._mask(this, source(tensor, 3), rows, max_bias)
        if source(tensor, 4) is not None:
            this.sinks = values(source(tensor, 4)).reshape(-1)
        this.output = values(tensor)[0]  # [N, Hq, Dv]
        self._computed(this, tensor)

    def _scores(self, tensor):
        _, layer = self._layer_of(source(tensor, 0))
        this, _, _ = self._query(layer, source(tensor, 1))
        this.types["k"] = type_name(source(tensor, 0).type)

    def _scored(self, softmax):
        """(layer, factors) of a softmax over scores of a chosen layer, else None. factors: what scales the scores, the
        last one first; a soft-cap c is c tanh(x / c)."""
        tensor, factors = source(softmax, 0), []
        while operation(tensor.op) in ("SCALE", "UNARY"):
            if operation(tensor.op) == "SCALE":
                factors.append(float(float_parameters(tensor)[0]))
            tensor = source(tensor, 0)
        found = self._layer_of(source(tensor, 0)) if operation(tensor.op) == "MUL_MAT" else None
        return (found[1], factors) if found and found[0] == "k" else None

    def _softmax(self, tensor):
        layer, factors = self._scored(tensor)
        this = self.passes[layer]
        this.scale, max_bias = (float(x) for x in float_parameters(tensor)[:2])
        if factors:
            if len(factors) != 2 or this.scale != 1:
                raise InputError(f"layer {layer}: its scores are scaled by {factors} and {this.scale}, which a dump "
                                 "cannot describe")
            this.softcap, this.scale = factors[0], factors[0] * factors[1]
        self._mask(this, source(tensor, 1), len(this.q), max_bias)
        if source(tensor, 2) is not None:
            this.sinks = values(source(tensor, 2)).reshape(-1)

    def _weighted(self, tensor):
        _, layer = self._layer_of(source(tensor, 0))
        this = self.passes[layer]
        this.types["v"] = type_name(source(tensor, 0).type)
        self._heads(this, len(this.q), this.q.shape[2], tensor.ne[0])
        this.output = values(tensor)[0].transpose(1, 0, 2)  # from [Hq, N, Dv]
        self._computed(this, tensor)

    def _computed(self, this, tensor):
        self.attention[address(tensor)] = this.layer
        if "v" not in this.rotated:
            self._finish(this)

    def _finish(self, this):
        """The next graph may have its tensors at the same addresses."""
        del self.passes[this.layer]
        self.unrotated.clear()
        for key in [key for key, layer in self.attention.items() if layer == this.layer]:
            del self.attention[key]
        self.deliver(this)
