"""Makes a dump of recorded calls: a sample per pass and request, whose layers are the calls of the pass."""
import math

import numpy as np

from ..base.dump_writer import IN_FLOAT32, DumpWriter, float32_holds, rounded_bits
from ..base.errors import InputError
from ..importing.plan import MOST_HEADS, layers_of_model
from ..importing.safetensors import SAFETENSORS_TYPES
from .attention import FUNCTIONS, attention_calls
from .recording import read_recording
from .stored import rows

CODES = {"F8_E4M3", "F8_E5M2"}
DEFAULT_LAST = 4  # queries of a request
MOST_TOKENS = 1 << 30  # of a request


def type_of_call(attention):
    """One that holds q, k and v exactly: 8-bit codes are numbers of every other type. Scaled values take float32."""
    kinds = {attention.q.type_name, *(array.type_name for array in attention.cache.pair)} - CODES
    if len(kinds) <= 1 and attention.value_scale == 1:
        return SAFETENSORS_TYPES.get(kinds.pop() if kinds else "BF16", "float32")
    return "float32"


def write_recording(folder, options, target, force, last):
    """Returns (samples, layers, geometry of all)."""
    found = attention_calls(read_recording(folder, FUNCTIONS), folder)
    geometry, passes = check(found), {}
    for attention in found:
        passes.setdefault(attention.pass_number, []).append(attention)
    num_layers = layers_of_model(folder, 1 + max(attention.layer for attention in found), options)
    samples = 0
    with DumpWriter(target, force) as writer:
        version = found[0].call.version
        writer.write_header(model=options.model, num_layers=num_layers, **geometry, rope=options.rope or None,
                            engine=f"flashinfer {version}",
                            source=f"flashinfer {version}, {', '.join(sorted({a.call.function for a in found}))}; from "
                            "its flight recorder")
        for number, layers in passes.items():
            for request in range(len(layers[0].lengths)):
                name = f"pass-{number}-request-{request}"
                samples += write_request(writer, name, options.task, layers, request, last)
        if not samples:
            raise InputError(f"{folder}: expected requests with queries, found none")
        writer.commit(ends_command=True)
    return samples, len(found), geometry


def check(found):
    """Refuses calls whose shapes do not fit each other. Returns what all share."""
    shared = None
    for attention in found:
        kv_heads, head_dim, value_dim = attention.cache.geometry()
        call, q, output = attention.call, attention.q, attention.output
        tokens = int(attention.bounds[-1])
        for name, array, expected in (("q", q, head_dim), ("the output", output, value_dim)):
            shape = getattr(array, "shape", ())
            if len(shape) != 3 or shape[2] != expected or not shape[0] >= tokens or not 0 < shape[1] <= MOST_HEADS:
                call.fail(f"{name} of {tokens} tokens, heads and {expected} channels", f"shape {list(shape)}")
        if q.shape[1] % kv_heads or output.shape[1] != q.shape[1]:
            call.fail(f"query heads that are a multiple of {kv_heads}, and as many of the output",
                      f"{q.shape[1]} and {output.shape[1]}")
        if attention.lse is not None and tuple(attention.lse.shape[:2]) != tuple(q.shape[:2]):
            call.fail(f"log-sum-exps {list(q.shape[:2])}", list(attention.lse.shape))
        if len(attention.lengths) + 1 != len(attention.bounds) or (np.diff(attention.bounds) < 0).any():
            call.fail(f"queries of {len(attention.lengths)} requests", f"{attention.bounds.tolist()[:9]}")
        if attention.window is not None and not attention.window > 0 or not math.isfinite(attention.value_scale):
            call.fail("a window above 0 and finite scales", f"{attention.window}, {attention.value_scale}")
        for what, value in (("softmax scale", attention.scale), ("soft-cap", attention.softcap)):
            if value is not None and not float32_holds(value):
                call.fail(f"a {what} that is {IN_FLOAT32}", f"{value:g}")
        if attention.sinks is not None and tuple(attention.sinks.shape) != (q.shape[1],):
            call.fail(f"{q.shape[1]} sinks", list(attention.sinks.shape))
        for length, count in zip(attention.lengths, np.diff(attention.bounds)):
            if not count <= length <= MOST_TOKENS:
                call.fail(f"at least {count} keys of a request with as many queries", length)
        geometry = {"num_query_heads": q.shape[1], "num_kv_heads": kv_heads, "head_dim": head_dim,
                    "value_dim": value_dim, "softmax_scale": float(attention.scale), "logit_softcap": attention.softcap}
        shared = shared or geometry
        for name, value in geometry.items():
            if value != shared[name]:
                call.fail(f"{name} {shared[name]}, as in the calls before", value)
    return shared


def write_request(writer, name, task, layers, request, last):
    """Returns whether the request has queries."""
    first = layers[0]
    length, count = first.lengths[request], int(first.query_rows(request))
    kept = min(count, last)
    if not kept:
        return False
    sample = writer.create_sample(name, task, length, range(length - kept, length))
    for attention in layers:
        if attention.lengths != first.lengths or (attention.bounds != first.bounds).any():
            attention.call.fail("the requests of the layers before", "others")
        write_layer(writer, sample, attention, request, kept)
    return True


def write_layer(writer, sample, attention, request, kept):
    """What a call tells of one request; the `kept` last queries, where there are more."""
    layer = writer.create_layer(sample, attention.layer, attention.window)
    kind, end = type_of_call(attention), int(attention.bounds[request + 1])
    if attention.sinks is not None:
        writer.write_array(layer, "sinks", rows(attention.sinks, 0, attention.q.shape[1]), "<f4")

    def write(name, values, element):
        writer.write_values(writer.create_values(layer, name, values.shape, element), (0,) * values.ndim,
                            rounded_bits(values, element))

    write("q", rows(attention.q, end - kept, kept), kind)
    write("k", attention.cache.read("k", request).transpose(1, 0, 2), kind)
    write("v", attention.cache.read("v", request).transpose(1, 0, 2) * np.float32(attention.value_scale), kind)
    output_type = SAFETENSORS_TYPES.get(attention.output.type_name)
    if output_type is None:
        attention.call.fail("an output in 16 or 32 bits", attention.output.type_name)
    write("output", rows(attention.output, end - kept, kept), output_type)
    if attention.lse is not None:
        lse = rows(attention.lse, end - kept, kept).reshape(kept, -1) * np.float32(attention.lse_factor)
        writer.write_array(layer, "output_lse", lse, "<f4")
