"""Imports folders that engines have left: FlashInfer's flight recorder, and the plugin of vLLM."""
import json
import os
import sys
import time

from ..base.command import print_report
from ..base.errors import UsageError, printable
from .plan import ImportOptions

# Options that mean something for arrays alone, and those for a dump that is whole but for being in parts.
OF_ARRAYS = ("q_names", "k_names", "v_names", "layout", "q_layout", "positions", "spans", "bfloat16_bits", "sample",
             "softmax_scale", "logit_softcap", "sliding_window", "window_layers")
OF_HEADERS = ("model", "task", "rope", "num_layers", "last")


def is_plugin_folder(path):
    """Dumps, and nothing that holds arrays."""
    names = os.listdir(path)
    return any(name.endswith((".h5", ".refused")) for name in names) and \
        not any(name.endswith((".safetensors", ".npz")) for name in names)


def import_recording(request, options):
    from ..flight_recorder.writer import FEWEST, write_recording

    _refuse(options, OF_ARRAYS, "the flight recorder's calls tell")
    began = time.monotonic()
    samples, layers, geometry = write_recording(request["source"], options, request["target"], request["force"],
                                                options.last or FEWEST)
    _report(request, samples, layers, geometry, time.monotonic() - began)


def import_plugin(request, options):
    from ..vllm_plugin.join import finished_files, join_requests, refusals

    _refuse(options, OF_ARRAYS + OF_HEADERS, "the plugin's dumps tell")
    for sentence in refusals(request["source"]):
        if not request["quiet"]:
            print(printable(f"left out: {sentence}"), file=sys.stderr)
    began = time.monotonic()
    joined = join_requests(finished_files(request["source"]), request["target"], request["force"])
    _report(request, joined.samples, joined.layers, joined.header, time.monotonic() - began)


def _refuse(options, names, who):
    for name in names:
        if getattr(options, name) != getattr(ImportOptions(), name):
            raise UsageError(f"--{name.removesuffix('_names').replace('_', '-')}: is for arrays in files, what it says {who}")


def _report(request, samples, layers, geometry, seconds):
    target = request["target"]
    size = os.path.getsize(target)
    if request["json"]:
        return print_report(json.dumps(
            {"path": os.fsencode(target).decode(errors="replace"), "samples": samples, "layers": layers,
             "query_heads": int(geometry["num_query_heads"]), "kv_heads": int(geometry["num_kv_heads"]),
             "head_dim": int(geometry["head_dim"]), "value_dim": int(geometry["value_dim"]), "bytes": size,
             "seconds": seconds}, indent=2, ensure_ascii=False))
    print_report(f"{target}: {samples} sample(s), {layers} layer(s) in all, {geometry['num_query_heads']} query and "
                 f"{geometry['num_kv_heads']} KV heads of {geometry['head_dim']} channels (values "
                 f"{geometry['value_dim']}), {size / 1e6:.1f} MB in {seconds:.1f} s")
