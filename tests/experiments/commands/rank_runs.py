"""Runs of `attest run` as several ranks: under torchrun, or as plain processes with the variables of a launcher."""

import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import dump_maker
from results_data import data_of

ATTEST = os.environ["ATTEST_BIN"]
TORCHRUN = Path(sys.executable).with_name("torchrun")
LAYERS = 12
SELECTORS = ["--selector", "ffd:block=64", "--selector", "quest:dense_layers=1", "--threads", "1", "--device", "cpu"]
LIMIT = 40  # seconds; nothing here takes half as long
CLEAN = {name: value for name, value in os.environ.items()
         if not name.startswith(("SLURM_", "OMPI_", "PMIX_", "TORCHELASTIC_")) and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}


def needs_torch():
    """Skips the tests of a build without LibTorch."""
    if not (Path(ATTEST).parent / "libanalysis_torch.so").exists() or not TORCHRUN.exists():
        pytest.skip("this build has no LibTorch: attest's ranks need it", allow_module_level=True)


def write_dump(path, tokens=1500, layers=LAYERS, queries=2):
    def values(random, _):
        return 3 * random.standard_normal((queries, 8, 64)).astype(np.float16), *random.standard_normal((2, 2, tokens, 64)).astype(np.float16)

    dump_maker.write_dump(path, values, seed=3, layers=range(layers), tokens=tokens, heads=8, kv_heads=2, dim=64,
                          positions=range(tokens - queries, tokens), num_layers=layers)
    return path


def command(dump, out, *more):
    return [ATTEST, "run", str(dump), "-o", str(out), *SELECTORS, *more]


def torchrun(ranks, arguments, *options):
    """A finished run under torchrun, on a free port."""
    return subprocess.run([TORCHRUN, "--nproc-per-node", str(ranks), "--master-port", str(free_port()), *options, "--no-python", *arguments],
                          env=CLEAN, capture_output=True, text=True, timeout=LIMIT)


def free_port():
    """Not one of those that the system gives to outgoing connections: a client that comes first could be given the same one."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                server.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Job:
    """Processes with the variables of ranks; rank 0 has the store. All are ended when the test is.

    address: of rank 0's machine. on: a command for each rank that runs what follows on that rank's machine."""

    def __init__(self, ranks, dump, out, *more, address="127.0.0.1", on=None):
        self.port, self.ranks, self.arguments = free_port(), ranks, command(dump, out, *more)
        self.address, self.on = address, on or [[]] * ranks
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

    def start(self, *ranks, arguments=None, cwd=None):
        for rank in ranks or range(self.ranks):
            variables = {"RANK": rank, "WORLD_SIZE": self.ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": self.ranks,
                         "MASTER_ADDR": self.address, "MASTER_PORT": self.port}
            self.logs[rank] = [tempfile.TemporaryFile("w+") for _ in range(2)]
            self.processes[rank] = subprocess.Popen([*self.on[rank], *(arguments or self.arguments)], env=CLEAN | {k: str(v) for k, v in variables.items()},
                                                    stdout=self.logs[rank][0], stderr=self.logs[rank][1], cwd=cwd)
        return self

    def text(self, rank, stream=1):
        log = self.logs[rank][stream]
        return os.pread(log.fileno(), 1 << 20, 0).decode()

    def until_all_work(self):
        """Waits until every rank has begun to compute, and a layer is finished."""
        wait_for(lambda: all("device: " in self.text(rank) for rank in self.processes))
        wait_for(lambda: " layers" in self.text(0))
        return self

    def end(self, *ranks):
        """Exit code, stdout and stderr of each rank, by rank; of a single one, its own."""
        found = {}
        for rank in ranks or sorted(self.processes):
            found[rank] = (self.processes[rank].wait(timeout=LIMIT), self.text(rank, 0), self.text(rank))
        return found[ranks[0]] if len(ranks) == 1 else found


def wait_for(condition, seconds=LIMIT / 2):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)
