"""A study whose units are computed by the workers of an executor."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile

from ..base.command import raise_if_interrupted
from ..base.errors import DumpError, OutputError, first_line
from ..program import program
from .chunk import ChunkError, compute

SECONDS = 10  # of work in a chunk
MOST_LOST = 10  # how often an executor may lose a chunk to workers that die
# Variables of launchers (mpirun, srun, torchrun): this process alone has the study's folder.
LAUNCHER = re.compile("OMPI_|PMI|SLURM_|(LOCAL_RANK|RANK|WORLD_SIZE)$")
SLOTS = 8  # of an executor that does not say how many it has


def run(executor, dumps, output, *, slots=None, seconds=SECONDS, resume=False, force=False, progress=None, **options):
    """Runs a study on the workers of a concurrent.futures.Executor, and returns its summary (the JSON of `attest run`).

    `options` are those of `attest run`, named as in Python: selector=["ffd", "quest"], delta="1:12:1", layers="0-3",
    skip_bad_layers=True. What comes back goes into the folder OUTPUT.partial, so that `resume` goes on where a killed
    run ended, with the same bits. `slots`: how many chunks the workers compute at a time, if that is known; a chunk is
    about `seconds` of work. `progress(finished, total)` is called as units come back."""
    words = [*map(os.fspath, dumps)]
    for name, value in options.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            option = "--" + name.replace("_", "-")
            words += [] if item is False else [option] if item is True else [f"{option}={item}"]
    study = Study(words, os.fspath(output))
    study.begin(["--resume"] * resume + ["--force"] * force)
    if progress:
        progress(study.total - len(study.missing), study.total)
    study.share(executor, slots, seconds, progress or (lambda finished, total: None))
    return study.summary


class Study:
    """`words`: the arguments of `attest run`, but for the output. After begin(), `missing` are the units that nobody has
    computed, of `total`; `summary` is there when it is complete."""

    def __init__(self, words, output, show=None):
        self.words, self.output, self.show = words, output, show
        if not any(word.startswith("--threads") for word in words):
            self.words = [*words, "--threads=1"]  # a slot of a worker is one thread
        self.total, self.missing, self.summary = 0, [], None
        self.how = []  # to go on

    def begin(self, how=()):
        self._take([], [*how])
        self.how = ["--resume"] + ["--force"] * ("--force" in how)

    def share(self, executor, slots=None, seconds=SECONDS, progress=lambda finished, total: None):
        """Submits the missing units in chunks, and adds what comes back to the study until none is missing."""
        waiting, running, lost, size = list(self.missing), {}, 0, 1

        def submit():
            units = tuple(waiting[:size])
            del waiting[:size]
            running[executor.submit(compute, self.words, units, os.getcwd())] = units

        try:
            for _ in range(min(slots or 1, len(waiting))):  # of one unit, to see how long it takes
                submit()
            while running:
                done, _ = concurrent.futures.wait(running, timeout=0.5, return_when=concurrent.futures.FIRST_COMPLETED)
                raise_if_interrupted()
                chunks, spent = [], []
                for future in done:
                    units = running.pop(future)
                    try:
                        data, took = future.result()
                    except ChunkError:
                        raise
                    except concurrent.futures.BrokenExecutor as error:
                        raise self._gone(error) from error
                    except (concurrent.futures.CancelledError, Exception) as error:
                        lost += 1
                        if lost > MOST_LOST or isinstance(error, concurrent.futures.CancelledError):
                            raise self._gone(error) from error
                        waiting[:0] = units
                        continue
                    chunks.append((data, units))
                    spent.append(took / len(units))
                if spent and waiting:  # at the end all workers are to be busy, so that chunks are not too few
                    fair = -(-len(waiting) // (2 * (slots or SLOTS)))
                    size = max(1, min(round(seconds * len(spent) / sum(spent)), fair))
                while waiting and (slots is None or len(running) < 2 * slots):  # one waits behind each that runs
                    submit()
                if chunks:
                    self._take_data(chunks)
                    progress(self.total - len(self.missing), self.total)
                if not running and self.missing:  # their files were damaged since
                    waiting, lost = list(self.missing), lost + 1
                    submit()
        finally:
            for future in running:
                future.cancel()

    def _gone(self, error):
        cause = first_line(error) if str(error) else type(error).__name__
        return OutputError(f"the workers are gone ({cause}) with {self.total - len(self.missing)} of {self.total} layers "
                           "finished; the same command with --resume goes on")

    def _take_data(self, chunks):
        with tempfile.TemporaryDirectory(prefix="attest-chunks-") as folder:
            paths = []
            for number, (data, _) in enumerate(chunks):
                paths.append(pathlib.Path(folder) / str(number))
                paths[-1].write_bytes(data)
            taken = {unit for _, units in chunks for unit in units}
            self._take([*map(str, paths)], self.how, last=taken >= set(self.missing))

    def _take(self, chunks, how, last=False):
        """Adds chunks to the study's folder; the last ones complete the results file. With `show` the program then says
        what it has to say to the user."""
        shown = last and self.show is not None
        words = [program(), *(self.show if shown else ["--json", "--quiet"]), "run", *self.words, "-o", self.output, *how,
                 "--take", *chunks]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=None if shown else subprocess.PIPE,
                              stderr=None if shown else subprocess.PIPE, text=True, errors="replace",
                              env={name: value for name, value in os.environ.items() if not LAUNCHER.match(name)})
        if done.returncode:
            said = "" if shown else (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1]
            raise ProgramError(said.removeprefix("attest: "), done.returncode)
        found = {} if shown else json.loads(done.stdout)
        self.missing = found.get("missing", [])
        if "missing" in found:
            self.total = found["units"]
        else:
            self.summary = found


class ProgramError(DumpError):
    """The program's own sentence, with its exit code."""

    def __init__(self, sentence, code):
        super().__init__(sentence)
        self.exit_code = code if code > 0 else 1
