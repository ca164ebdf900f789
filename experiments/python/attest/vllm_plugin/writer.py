"""Writes what was captured of one request as a dump."""
import hashlib
import os
import re
import urllib.parse

import numpy as np

from ..base.atomic_text import atomic_text
from ..base.clock import utc_now
from ..base.dump_writer import DumpWriter
from ..base.errors import OutputError
from ..base.tensor_bits import bits
from .request import TORCH_TYPES

MOST_CHARACTERS = 200  # of the name of a file, before its ending


def file_name(name, ending):
    """A name of any characters as that of a file in the folder. File systems allow 255 bytes: of a longer name the
    beginning is taken, and a hash tells it from others."""
    quoted = urllib.parse.quote(name, safe=" ")
    if len(quoted) > MOST_CHARACTERS:
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        quoted = re.sub("%.?$", "", quoted[:MOST_CHARACTERS - 17]) + "-" + digest
    return quoted + ending


def write_request(folder, engine, request):
    """A dump of the rows that are there. Returns its path."""
    wish, rows = request.wish, request.num_rows()
    positions = wish.positions[:rows]
    tokens = positions[-1] + 1
    path = os.path.join(folder, file_name(wish.name, engine.rank.suffix() + ".h5"))
    if os.path.lexists(path):
        raise OutputError(f"{path} is of an earlier request of this name, expected another attest_name")
    numbers = sorted(request.captured)
    with DumpWriter(path) as writer:
        writer.write_header(model=engine.model, num_layers=engine.num_layers,
                            **engine.layers[numbers[0]].geometry(), rope=engine.rope, source=engine.source(),
                            engine=f"vllm {engine.version}", kv_cache=engine.kv_cache(numbers),
                            created=utc_now())
        writer.write_attributes(engine_rank=engine.rank.attribute())  # for join.py alone
        more = wish.sample
        sample = writer.create_sample(more.get("name", wish.name), wish.task, tokens, positions, more.get("spans", ()),
                                      more.get("span_labels"), more.get("prompt_length", wish.prompt_length),
                                      more.get("document"))
        if (request.tokens[:tokens] >= 0).all():
            writer.write_array(sample, "tokens", request.tokens[:tokens].numpy(), "<i4")
        for number in numbers:
            write_layer(writer, sample, engine.layers[number], request.captured[number], rows, tokens)
        writer.commit()
    return path


def write_layer(writer, sample, layer, captured, rows, tokens):
    """What one rank has of a layer: `rows` queries and `tokens` keys and values."""
    group = writer.create_layer(sample, layer.number, layer.window)
    if layer.module.kv_cache_dtype.startswith("fp8"):
        writer.write_array(group, "cache_scales", np.array([layer.cache_scale(which) for which in "kv"]), "<f4")
    sinks = layer.sinks()
    if sinks is not None:
        writer.write_array(group, "sinks", sinks.detach().float().cpu().numpy(), "<f4")
    for name, values in (("q", captured.q[:rows]), ("k", captured.k[:, :tokens]), ("v", captured.v[:, :tokens]),
                         ("output", captured.output[:rows])):
        dataset = writer.create_values(group, name, values.shape, TORCH_TYPES[values.dtype])
        writer.write_values(dataset, (0, 0, 0), bits(values))


def write_refusal(folder, name, sentence):
    """Says in the folder why there is no dump of a request, or none at all."""
    with atomic_text(os.path.join(folder, file_name(name, ".refused"))) as file:
        file.write(sentence + "\n")
