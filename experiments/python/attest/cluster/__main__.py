"""`attest run` with --dask, --mpi or --slurm. experiments/commands/run.cpp calls it with one JSON document."""
import json
import logging
import sys

from ..base.command import NOTHING_WRITTEN, end_process, run_command
from ..base.printing import json_text, print_report
from ..base.progress import Progress
from . import executors
from .study import Study


def share(request, study):
    """Runs the study on an executor, and prints its summary once."""
    logging.disable()  # pages of the engines' own about workers that died: what ends a study is said in a sentence
    connect, say = getattr(executors, request["executor"]), Progress(0, "", request["quiet"]).say
    with connect(request["place"], say) as (executor, slots):
        if executor is None:  # of mpirun's processes one leads
            return
        study.begin(request["how"])
        if not study.is_complete:
            finished = study.total - len(study.missing)
            with Progress(study.total, "layers", request["quiet"], found=finished) as progress:
                study.share(executor, slots, progress=lambda now, _: progress(now - progress.done))
    if request["json"]:
        print_report(json_text(study.summary))


def main(text):
    """Returns the exit code."""
    request = json.loads(text)
    study = Study(request["words"], request["output"], tells=not request["json"], quiet=request["quiet"])

    def interruption():
        if not study.total:
            return NOTHING_WRITTEN
        return (f"interrupted with {study.total - len(study.missing)} of {study.total} layers finished; the same "
                "command with --resume goes on")
    return run_command("attest", {"dask": "distributed", "mpi": "mpi4py", "slurm": "submitit"}[request["executor"]],
                       lambda: share(request, study), interruption, extra="cluster")


if __name__ == "__main__":
    end_process(main(sys.argv[1]))
