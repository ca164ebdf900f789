"""Runs of `attest run` as several processes with the variables of a launcher, which share a study."""

import os
import subprocess
import tempfile
import time

import numpy as np

from attest_program import ATTEST
import dump_maker
from results_data import data_of

LAYERS = 12
SELECTORS = ["--selector", "ffd:block=64", "--selector", "quest:dense_layers=1", "--threads", "1", "--device", "cpu"]
LIMIT = 300  # seconds; nothing here takes a tenth of that on an idle machine
CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith(("SLURM_", "OMPI_", "PMIX_", "TORCHELASTIC_"))
         and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}


def write_dump(path, tokens=1500, layers=LAYERS, queries=2, seed=3):
    def values(random, _):
        return 3 * random.standard_normal((queries, 8, 64)).astype(np.float16), *random.standard_normal(
            (2, 2, tokens, 64)).astype(np.float16)

    dump_maker.write_dump(path, values, seed=seed, layers=range(layers), tokens=tokens, heads=8, kv_heads=2, dim=64,
                          positions=range(tokens - queries, tokens), num_layers=layers)
    return path


def write_endless_dump(folder):
    """One that no test studies to its end."""
    return write_dump(folder / "dump.h5", tokens=20000, layers=30, queries=64)


def studied(folder):
    """A dump that a job studies for some seconds, and the results of one process."""
    dump = write_dump(folder / "dump.h5", tokens=3000, layers=24, queries=16)
    assert run(command(dump, folder / "one.h5")).returncode == 0
    return dump, data_of(folder / "one.h5")


def units(out):
    return list(out.with_name(out.name + ".partial").glob("unit-*.bin"))


def command(dump, out, *more):
    return [ATTEST, "run", str(dump), "-o", str(out), *SELECTORS, *more]


def run(arguments, **more):
    return subprocess.run(arguments, env=CLEAN, capture_output=True, text=True, timeout=LIMIT, **more)


class Job:
    """Processes with RANK and WORLD_SIZE. All are ended when the test is.

    on: for each a command that runs what follows elsewhere."""

    def __init__(self, ranks, dump, out, *more, on=None):
        self.ranks, self.arguments, self.on = ranks, command(dump, out, *more), on or [[]] * ranks
        self.processes, self.logs = {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()
        for logs in self.logs.values():
            for log in logs:
                log.close()

    def start(self, *ranks, arguments=None):
        for rank in ranks or range(self.ranks):
            variables = {"RANK": rank, "WORLD_SIZE": self.ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": self.ranks}
            self.logs[rank] = [tempfile.TemporaryFile("w+") for _ in range(2)]
            self.processes[rank] = subprocess.Popen([*self.on[rank], *(arguments or self.arguments)],
                                                    env=CLEAN | {k: str(v) for k, v in variables.items()},
                                                    stdout=self.logs[rank][0], stderr=self.logs[rank][1])
        return self

    def text(self, rank, stream=1):
        return os.pread(self.logs[rank][stream].fileno(), 1 << 20, 0).decode()

    def until_all_work(self):
        wait_for(lambda: all("device: " in self.text(rank) for rank in self.processes))
        wait_for(lambda: " layers" in self.text(0))
        return self

    def end(self, *ranks):
        """Exit code, stdout and stderr of each rank, by rank; of a single one, its own."""
        found = {}
        for rank in ranks or sorted(self.processes):
            found[rank] = (self.processes[rank].wait(timeout=LIMIT), self.text(rank, 0), self.text(rank))
        return found[ranks[0]] if len(ranks) == 1 else found

    def codes(self, *ranks):
        return [found[0] for found in (self.end(*ranks) if len(ranks) != 1 else {0: self.end(*ranks)}).values()]


def wait_for(condition, seconds=LIMIT):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)
