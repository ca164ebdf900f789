"""A study whose units are computed by the workers of an executor."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from ..base.errors import OutputError, first_line
from ..base.program import ProgramError, program
from ..base.signals import raise_if_interrupted
from .chunk import ChunkError, compute

SECONDS = 10  # of work in a chunk
LEAST_SECONDS = 1  # because a process starts for each
PATIENCE = 20  # seconds, for what was computed before an error
MOST_LOST = 10  # chunks in a row that an executor may lose to workers that die
MOST_DAMAGED = 10  # how often the files of a study may be damaged while it is computed
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
    """`words`: the arguments of `attest run`, but for the output. After begin(), `missing` are the units that nobody
    has computed, of `total`; without them the study `is_complete`. `tells`: then the program tells the user so (with
    `quiet` as `attest run --quiet` does); otherwise `summary` is its JSON."""

    def __init__(self, words, output, tells=False, quiet=False):
        self.words, self.output, self.tells = words, output, tells
        self.show = ["--quiet"] * quiet if tells else ["--json", "--quiet"]
        self.total, self.missing, self.is_complete, self.summary = 0, [], False, None
        self.how = []  # to go on

    def begin(self, how=()):
        """Asks the program which units are missing."""
        self.ask(how)
        self.how = ["--resume"] + ["--force"] * ("--force" in how)
        if self.is_complete and self.tells:  # by another run
            subprocess.run(self.command(self.show, ["--resume"]), stdin=subprocess.DEVNULL, env=without_launchers())

    def share(self, executor, slots=None, seconds=SECONDS, progress=lambda finished, total: None):
        """Submits the missing units in chunks, and adds what comes back to the study until none is missing."""
        damaged = 0
        while self.missing:
            with Gatherer(self) as gatherer:
                self._compute(executor, slots, seconds, progress, gatherer)
                gatherer.finish()
            if self.missing and (damaged := damaged + 1) > MOST_DAMAGED:
                raise OutputError(f"{self.output}.partial: its files are damaged again and again")

    def _compute(self, executor, slots, seconds, progress, gatherer):
        """Each missing unit once."""
        waiting, running, size = list(self.missing), {}, 1
        lost = []  # why chunks in a row did not come back

        def submit():
            units = tuple(waiting[:size])
            del waiting[:size]
            running[executor.submit(compute, self.words, units, os.getcwd())] = units

        try:
            for _ in range(min(slots or 1, len(waiting))):  # of one unit, to see how long it takes
                submit()
            while running and self.missing:
                done, _ = concurrent.futures.wait(running, timeout=0.5, return_when=concurrent.futures.FIRST_COMPLETED)
                raise_if_interrupted()
                gatherer.check()
                chunks, spent, failure = [], [], None
                for future in done:
                    units = running.pop(future)
                    try:
                        data, took = future.result()
                    except (ChunkError, concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError) as error:
                        failure = failure or error
                    except Exception as error:
                        lost.append(error)
                        waiting += units  # behind the others, which are finished even if these end every worker
                    else:
                        chunks.append((data, units))
                        spent.append(took / len(units))
                if chunks:
                    lost.clear()
                elif len(lost) > MOST_LOST:
                    failure = failure or lost[-1]
                if failure:
                    waiting.clear()
                if spent and waiting:  # at the end all workers are to be busy, so that chunks are not too few
                    fair = -(-len(waiting) // (2 * (slots or SLOTS)))
                    a_second = len(spent) / sum(spent)
                    size = max(1, min(round(seconds * a_second), max(fair, round(LEAST_SECONDS * a_second))))
                while waiting and (slots is None or len(running) < 2 * slots):  # one waits behind each that runs
                    submit()
                for data, units in chunks:
                    gatherer.give(data)
                    self.missing = [unit for unit in self.missing if unit not in units]
                    progress(self.total - len(self.missing), self.total)
                if isinstance(failure, ChunkError):
                    raise failure
                if failure:
                    raise self._gone(failure) from failure
        finally:
            for future in running:
                future.cancel()

    def _gone(self, error):
        cause = first_line(error) if str(error) else type(error).__name__
        return OutputError(f"the workers are gone ({cause}) with {self.total - len(self.missing)} of {self.total} "
                           "layers finished; the same command with --resume goes on")

    def ask(self, how):
        """Which units are missing; the results are completed if none is."""
        done = subprocess.run(self.command(["--json", "--quiet"], how), stdin=subprocess.DEVNULL, capture_output=True,
                              env=without_launchers())
        self.learn(done.returncode, done.stdout, done.stderr)

    def command(self, show, how, *chunks):
        """The program's arguments; `chunks` are finished ones that it takes in."""
        return [program(), *show, "run", *self.words, "-o", self.output, *how, "--take", *chunks]

    def learn(self, code, printed, error):
        """Takes what the program printed: the missing units, or the summary when none is."""
        if code:
            raise ProgramError(error.decode(errors="replace"), code)
        found = json.loads(printed)
        self.missing = found.get("missing", [])
        if "missing" in found:
            self.total = found["units"]
        else:
            self.is_complete, self.summary = True, found


class Gatherer:
    """A process of the program that adds chunks to the study as they come, and writes the results meanwhile."""

    def __init__(self, study):
        self.study, self.given, self.ended = study, 0, False

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="attest-chunks-")
        self.place = pathlib.Path(self.folder.name)
        self.said = [open(self.place / name, "w+b") for name in ("out", "error")]
        self.process = subprocess.Popen(self.study.command(self.study.show, self.study.how, "-"),
                                        stdin=subprocess.PIPE, stdout=self.said[0], stderr=self.said[1],
                                        env=without_launchers())
        return self

    def give(self, data):
        """A chunk as bytes, or the path of a file where the workers share one with us."""
        self.check()
        if self.ended:
            return
        path = data
        if isinstance(data, bytes):
            path = self.place / str(self.given)
            path.write_bytes(data)
            self.given += 1
        try:
            self.process.stdin.write(f"{path}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            self.finish()

    def check(self):
        """Has it failed, or has another process completed the study?"""
        if self.process.poll() is not None:
            self.finish()

    def finish(self):
        """Waits until the results are written, and tells the user what the program said if it is to."""
        if self.ended:
            return None
        self.ended = True
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        code = self.process.wait()
        for file in self.said:
            file.seek(0)
        printed, error = (file.read() for file in self.said)
        if code or not self.study.tells:
            return self.study.learn(code, printed, error)
        if not printed:
            return self.study.ask(self.study.how)
        self.study.missing, self.study.is_complete = [], True
        for text, stream in (error, sys.stderr), (printed, sys.stdout):
            stream.write(text.decode(errors="replace"))
            stream.flush()

    def __exit__(self, kind, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:  # what was given is kept
            self.process.wait(0.5 if kind is KeyboardInterrupt else PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait()
        for file in self.said:
            file.close()
        self.folder.cleanup()


def without_launchers():
    """The environment without what launchers set."""
    return {name: value for name, value in os.environ.items() if not LAUNCHER.match(name)}
