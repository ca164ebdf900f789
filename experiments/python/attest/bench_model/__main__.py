"""`attest bench model`: tokens per second of a decoding model (experiments/manual/bench.md).
experiments/commands/bench_model.cpp calls it with the checked options as one JSON document."""
import json
import sys

from ..base.atomic_text import atomic_text
from ..base.clock import utc_now
from ..base.command import end_process, run_command
from ..base.errors import OutputError, first_line
from ..base.output_check import refuse_existing, refuse_inputs
from ..base.printing import print_report
from ..base.progress import say
from ..base.signals import end_interruptions
from ..capture.model import files_of_model


def prepared_device(request):
    """The GPU, with the operators loaded."""
    import torch

    from ..selectors.library import LibraryError, find_library, load_library, runs_on

    load_library()
    if not torch.cuda.is_available():
        raise OutputError("bench model: expected a GPU that torch can use, found none")
    if not runs_on("cuda"):
        raise LibraryError(f"{find_library()}: was built without CUDA, expected a library with ffd_decode for a GPU")
    device = torch.device(request["device"])
    torch.cuda.set_device(device)
    return device


def free_bytes(device, limit):
    """Bytes that may still be taken under --device-memory, {"share": of the device's} or {"bytes": }."""
    import torch

    free, total = torch.cuda.mem_get_info(device)
    maximum = limit["bytes"] or limit["share"] * total
    return min(free, max(0, maximum - (total - free)))


def settings_of(request, decoder):
    """What FFD keeps: set shares, or those of a dump's heads."""
    import torch

    from .kept_shares import for_model, shares_of_dump
    from .points import Setting

    settings = [Setting("keep", keep, torch.full((decoder.num_layers, decoder.kv_heads), keep, dtype=torch.float64))
                for keep in request["keep"]]
    if request["dump"]:
        found = shares_of_dump(request["dump"], request["delta"], request["device"])
        settings += [Setting("delta", delta, for_model(shares, decoder, request["dump"]))
                     for delta, shares in found.items()]
    return settings


def measure(request, device, operators, free):
    """The record. `free`: () -> bytes that may be taken."""
    import huggingface_hub
    import torch
    import transformers

    from .model import load_decoder
    from .points import Plan, Point
    from .record import record

    transformers.utils.logging.set_verbosity_error()
    huggingface_hub.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    measured, left_out = [], []
    with torch.inference_mode():
        decoder, config, random = load_decoder(request, device)
        plan = Plan(request["seed"], request["repeats"], settings_of(request, decoder), operators, free)
        for context in request["context"]:
            for batch in request["batch"]:
                point = Point(decoder, context, batch, plan)
                for found in point.measure():
                    measured.append(found)
                    say(f"context {context}, batch {batch}, {found.method}: {min(found.step):.2f} ms a step at best",
                        request["quiet"])
                left_out += point.left_out
        return record(request, decoder, config, random, measured, left_out, utc_now())


def bench(request):
    """Measures, writes the record and prints the table. Nothing is written where nothing was measured."""
    import torch

    from .caches import Operators
    from .record import table, text_of

    if request["output"]:
        refuse_inputs(request["output"], [*filter(None, [request["dump"]]), *files_of_model(request["model"])])
        refuse_existing(request["output"], request["force"])
    device = prepared_device(request)
    try:
        document = measure(request, device, Operators(), lambda: free_bytes(device, request["device_memory"]))
    except torch.OutOfMemoryError as error:
        raise OutputError("bench model: the weights do not fit into the device's memory "
                          f"({first_line(error)})") from error
    if not document["measurements"]:
        reasons = "; ".join(sorted({line["reason"] for line in document["left_out"]}))
        raise OutputError(f"bench model: nothing could be measured: {reasons}")
    text = text_of(document)
    if request["output"]:
        end_interruptions()
        with atomic_text(request["output"]) as file:
            file.write(text + "\n")
    print_report(text if request["json"] else table(document))


def main(request):
    """Returns the exit code."""
    return run_command("attest", "torch, transformers 5 and h5py", lambda: bench(json.loads(request)))


if __name__ == "__main__":
    end_process(main(sys.argv[1]))
