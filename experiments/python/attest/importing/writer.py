"""Streams the planned arrays to a dump, with one block of an array in memory at a time."""
import json

from ..base.dump_writer import DumpWriter
from .layout import BLOCK_BYTES


def write_import(plan, options, target, force, progress=lambda size: None):
    """Streams the arrays to the dump, reading each once. Calls `progress` with the size in bytes of every block."""
    with DumpWriter(target, force) as writer:
        writer.require_space(plan.num_bytes())
        writer.write_header(model=options.model, num_layers=plan.num_layers, **plan.geometry(),
                            softmax_scale=options.softmax_scale or None, logit_softcap=options.logit_softcap or None,
                            rope=options.rope or None,
                            source=json.dumps({"generator": "attest import", "layout": options.layout},
                                              separators=(",", ":")))
        for group in plan.groups:
            samples = [writer.create_sample(name, options.task, group.num_tokens, group.positions, options.spans)
                       for name in group.names]
            for layer in group.layers:
                windowed = not options.window_layers or layer.number in options.window_layers
                window = (windowed and options.sliding_window) or None
                layers = [writer.create_layer(sample, layer.number, window) for sample in samples]
                for role, view in layer.views.items():
                    write_values(writer, layers, role, view, layer.element_type, progress)
        writer.commit(ends_command=True)


def write_values(writer, layers, role, view, element_type, progress):
    """Writes q [N, Hq, D], k or v [Hkv, T, D] of all samples along B."""
    heads, tokens = view.extent["H"], view.extent["T"]
    shape = (tokens, heads) if role == "q" else (heads, tokens)
    targets = [writer.create_values(layer, role, (*shape, view.extent["D"]), element_type) for layer in layers]
    for first, values in view.blocks(element_type):  # [B, H, T, D]
        start = (first["T"], first["H"], 0) if role == "q" else (first["H"], first["T"], 0)
        for b, sample in enumerate(values.transpose(0, 2, 1, 3) if role == "q" else values):
            # write_values copies what has another order than the dump: the step bounds that copy.
            step = max(1, BLOCK_BYTES // sample[:1].nbytes)
            for row in range(0, len(sample), step):
                place = (start[0] + row, *start[1:])
                writer.write_values(targets[first["B"] + b], place, sample[row:row + step])
        progress(values.nbytes)
