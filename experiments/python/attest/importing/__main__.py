"""`attest import`: makes a dump from arrays in safetensors files or npz archives. experiments/commands/import.cpp calls
it with the parsed options as one JSON document."""
import gc
import json
import os
import sys
import warnings

from ..base.command import end_process, run_command
from ..base.errors import AttestError, UsageError
from ..base.files import in_quotes
from ..base.progress import Progress
from .report import report


def is_json_object(text):
    """JSON that is too deep for the parser is none."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def check_options(options, target):
    """Refuses what a dump cannot hold."""
    from ..base.dump_writer import IN_FLOAT32, float32_holds
    from ..base.stored_text import SAMPLE_NAME, is_sample_name
    for name in ("softmax_scale", "logit_softcap"):
        value = getattr(options, name)
        if value and not float32_holds(value):
            raise UsageError(f"{target}: /: attribute '{name}' is {value:g}, expected {IN_FLOAT32}")
    for name in ("model", "task", "rope"):
        text = getattr(options, name)
        if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
            raise UsageError(f"--{name}: expected UTF-8 text, found {in_quotes(text)}")
    if not is_json_object(options.rope or "{}"):
        raise UsageError(f"--rope: expected a JSON object, found {in_quotes(options.rope)}")
    if not is_sample_name(options.sample):
        raise UsageError(f"--sample: expected {SAMPLE_NAME}, found {in_quotes(options.sample)}")


def run_import(request):
    """The command, of the program's request."""
    # Imported here, because these modules need numpy and h5py: run_command reports them if they are missing.
    from ..base.output_check import refuse_inputs
    from .engine_folders import import_of
    from .plan import ImportOptions, plan_import
    from .sources import open_source
    from .writer import write_import

    source, target, options = request["source"], request["target"], ImportOptions(**request["options"])
    check_options(options, target)
    if other := import_of(source):
        return other(request, options)
    arrays = open_source(source)
    if options.last:
        raise UsageError("--last: is for a folder of FlashInfer's flight recorder, of arrays as in "
                         f"{source} all queries are taken")
    if options.window_layers and not options.sliding_window:
        raise UsageError("--window-layers: has no effect without a --sliding-window above 0")
    refuse_inputs(target, sorted({array.file for array in arrays}))
    plan = plan_import(arrays, source, options)
    with Progress(plan.num_bytes(), "MB", request["quiet"], scale=10**6) as progress:
        write_import(plan, options, target, request["force"], progress)
    first = plan.groups[0]
    report(request, plan.num_samples(), plan.num_sample_layers(), plan.geometry(), plan.num_bytes(), progress.seconds(),
           f"\nsample {in_quotes(first.names[0])}: {first.num_tokens} tokens, {len(first.positions)} query position(s) "
           f"{first.positions[0]} .. {first.positions[-1]}")


def main(request):
    """Returns the exit code."""
    def command():
        try:
            run_import(json.loads(request))
        except (AttestError, ImportError, BrokenPipeError):
            raise
        except Exception as error:
            raise AttestError(f"internal error: {type(error).__name__}: {error}; this is a defect of attest: please "
                              "report it with this message, the command line and the output of 'attest "
                              "--version'") from error
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing is multiplied: numpy's threads would only take memory
    gc.disable()  # nothing here is cyclic; with a header of 80,000 arrays, collection would take a second
    warnings.simplefilter("ignore")  # numpy warns about some arrays of untrusted files
    return run_command("attest", "numpy and h5py", command)


if __name__ == "__main__":
    end_process(main(sys.argv[1]))
