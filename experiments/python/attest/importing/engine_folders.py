"""Imports folders that engines have left: FlashInfer's flight recorder, and the plugin of vLLM."""
import os
import time

import h5py

from ..base.errors import InputError, UsageError
from ..base.inspected import refuse_bad_dump
from ..base.output_check import refuse_inputs
from ..base.progress import say
from .plan import ImportOptions, option_of
from .report import report

# Options that mean something for arrays alone, and those for a dump that is whole but for being in parts.
OF_ARRAYS = ("q_names", "k_names", "v_names", "layout", "q_layout", "positions", "spans", "bfloat16_bits", "sample",
             "softmax_scale", "logit_softcap", "sliding_window", "window_layers")
OF_HEADERS = ("model", "task", "rope", "num_layers")


def import_of(path):
    """The function that imports a folder which an engine has left; None: arrays, which plan.py takes."""
    from ..flight_recorder.recording import is_recording

    if not os.path.isdir(path):
        return None
    return import_recording if is_recording(path) else import_plugin if is_plugin_folder(path) else None


def is_plugin_folder(path):
    """Dumps, and nothing that holds arrays."""
    try:
        names = os.listdir(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return any(name.endswith((".h5", ".refused")) for name in names) and \
        not any(name.endswith((".safetensors", ".npz")) for name in names)


def import_recording(request, options):
    """A dump of the calls in a folder of FlashInfer's flight recorder."""
    from ..flight_recorder.recording import recorded_files
    from ..flight_recorder.writer import DEFAULT_LAST, write_recording

    _refuse(options, OF_ARRAYS, "is for arrays in files, what it says the flight recorder's calls tell")
    refuse_inputs(request["target"], recorded_files(request["source"]))
    began = time.monotonic()
    samples, layers, geometry = write_recording(request["source"], options, request["target"], request["force"],
                                                options.last or DEFAULT_LAST)
    report(request, samples, layers, geometry, _value_bytes(request["target"]), time.monotonic() - began)


def import_plugin(request, options):
    """A dump of the requests in a folder of the plugin, each file looked at by the program first."""
    from ..vllm_plugin.join import finished_files, join_requests, refusals

    _refuse(options, OF_ARRAYS, "is for arrays in files, what it says the plugin's dumps tell")
    _refuse(options, OF_HEADERS, "is for arrays and recordings, what it says the plugin's dumps tell")
    _refuse(options, ("last",), "is for a folder of FlashInfer's flight recorder, the plugin's dumps have the queries "
                                "that their requests asked for")
    for sentence in refusals(request["source"]):
        say(f"left out: {sentence}", request["quiet"])
    began, files = time.monotonic(), finished_files(request["source"])
    refuse_inputs(request["target"], files)
    for path in files:
        refuse_bad_dump(path, "a dump of the plugin")
    joined = join_requests(files, request["target"], request["force"])
    report(request, joined.samples, joined.layers, joined.header, _value_bytes(request["target"]),
           time.monotonic() - began)


def _refuse(options, names, why):
    for name in names:
        if getattr(options, name) != getattr(ImportOptions(), name):
            raise UsageError(f"{option_of(name)}: {why}")


def _value_bytes(path):
    """The bytes of q, k and v in a dump."""
    with h5py.File(path) as file:
        layers = [layer for sample in file["samples"].values() for layer in sample["layers"].values()]
        return sum(layer[name].size * layer[name].id.get_type().get_size() for layer in layers for name in "qkv")
