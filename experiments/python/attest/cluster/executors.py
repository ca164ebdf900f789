"""The executors of `attest run --dask`, --mpi and --slurm, as context managers. Each yields the executor and how many
chunks it computes at a time."""
import collections
import concurrent.futures
import contextlib
import logging
import os
import re
import threading

from ..base.errors import AttestError, OutputError, UsageError, first_line
from . import chunk

CONNECT_SECONDS = 15
CLOSE_SECONDS = 5
LOCAL = {
    "distributed.dashboard.link": "http://127.0.0.1:{port}/status",
    # How Dask watches itself would take a twentieth of a core.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.worker.memory.monitor-interval": "2s",
}


@contextlib.contextmanager
def dask(place, say):
    """`place`: the scheduler's address, its scheduler file, or local:N for N worker processes on this machine. What TLS
    takes is in Dask's own settings (distributed.comm.tls, DASK_DISTRIBUTED__COMM__TLS__CA_FILE and others)."""
    if re.fullmatch("local:0*", place):
        raise UsageError(f"--dask {place}: expected how many processes compute at a time, such as local:4")
    from dask import config
    from distributed import Client, LocalCluster

    with contextlib.ExitStack() as stack:
        try:
            if local := re.fullmatch(r"local:([1-9]\d*)", place):
                # Threads do: each starts a process of the program.
                stack.enter_context(config.set(LOCAL))
                slots = int(local[1])
                stack.enter_context(chunk.computed_here(slots))
                cluster = LocalCluster(n_workers=1, threads_per_worker=slots, processes=False,
                                       dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL)
                client = Client(stack.enter_context(cluster))
                stack.callback(close, client)
                stack.callback(chunk.end_processes)
            else:
                where = {"scheduler_file": place} if os.path.isfile(place) else {"address": place}
                client = Client(**where, timeout=CONNECT_SECONDS)
                stack.callback(close, client)
        except (OSError, ValueError, TypeError) as error:
            raise OutputError(f"--dask {place}: no scheduler answers there ({first_line(error)})") from error
        say(f"Dask's dashboard: {client.dashboard_link}")
        if not client.nthreads():
            say("waiting for workers")
            client.wait_for_workers(1)
        yield client.get_executor(pure=False), sum(client.nthreads().values())


def close(client):
    """A client whose scheduler has died may fail to close. That is no matter, and would hide the error that the user is
    to read: what came back was taken."""
    with contextlib.suppress(Exception):
        client.close(CLOSE_SECONDS)


@contextlib.contextmanager
def mpi(_, say):
    """An executor of the processes that mpirun started. The first one leads; in the others it is None, at the end."""
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPICommExecutor
    except ModuleNotFoundError:
        raise
    except (ImportError, RuntimeError) as error:  # the first from a mpi4py that was built for one library
        raise OutputError(f"--mpi: no MPI library can be loaded (mpi4py: {first_line(error)}); install one, such as "
                          "Debian's libopenmpi3") from error

    if MPI.COMM_WORLD.size < 2:
        raise UsageError("--mpi: expected at least two processes of mpirun, one that leads and others that compute")
    with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
        yield executor, MPI.COMM_WORLD.size - 1


@contextlib.contextmanager
def slurm(place, say):
    """`place`: parameters of sbatch, such as "partition=gpu,gpus_per_node=1", and jobs=N, how many run at a time."""
    given = slurm_parameters(place)
    jobs, logs, cluster = given.pop("jobs", 8), str(given.pop("folder", "attest-slurm")), given.pop("cluster", "slurm")
    import submitit

    try:
        executor = submitit.AutoExecutor(folder=logs, cluster=cluster)
        executor.update_parameters(**{f"slurm_{name}": value for name, value in given.items()})
    except (NameError, TypeError, ValueError, AssertionError) as error:
        raise UsageError(f"--slurm {place}: {first_line(error)}") from error
    except (OSError, RuntimeError) as error:
        raise OutputError(f"--slurm {place}: no Slurm answers here ({first_line(error)})") from error
    say(f"Slurm's jobs write to {logs}/")
    with JobExecutor(executor.submit, jobs) as jobs_of_futures:
        yield jobs_of_futures, jobs


def slurm_parameters(place):
    """By name; whole numbers as such. Raises UsageError."""
    given = {}
    for item in place.split(","):
        name, _, value = item.partition("=")
        if not re.fullmatch("[a-z][a-z0-9_]*", name) or not value:
            raise UsageError(f"--slurm {place}: expected a list such as partition=gpu,jobs=8, found '{item}'")
        given[name] = int(value) if re.fullmatch("[0-9]{1,9}", value) else value
    if given.get("jobs") == 0 or not isinstance(given.get("jobs", 1), int):
        raise UsageError(f"--slurm: jobs is '{given['jobs']}', expected a whole number from 1 on")
    return given


def outcome_of(function, *arguments):
    """(result, None) or (None, an error of ours). A job of submitit that raises gives the text of its traceback."""
    try:
        return function(*arguments), None
    except AttestError as error:
        return None, error


class JobExecutor(concurrent.futures.Executor):
    """Makes futures of jobs that are asked whether they have ended. `submit_job(function, *arguments)` returns one that
    has done(), result() and cancel(). At most `most` are submitted at a time. The others wait here: a queue
    that has room would run all of them at once."""
    INTERVAL = 1  # seconds

    def __init__(self, submit_job, most):
        self.submit_job, self.most, self.jobs, self.ended = submit_job, most, {}, threading.Event()
        self.waiting, self.starting = collections.deque(), threading.Lock()
        self.thread = threading.Thread(target=self._poll, daemon=True)
        self.thread.start()

    def submit(self, function, /, *arguments):
        future = concurrent.futures.Future()
        self.waiting.append((future, function, arguments))
        self._start()
        return future

    def _start(self):
        """A job that cannot be queued is a broken executor, as a worker that died is."""
        with self.starting:  # by the caller of submit() and by the thread
            while self.waiting and len(self.jobs) < self.most:
                future, function, arguments = self.waiting.popleft()
                if future.cancelled():
                    continue
                try:
                    self.jobs[future] = self.submit_job(outcome_of, function, *arguments)
                except Exception as error:
                    with contextlib.suppress(concurrent.futures.InvalidStateError):  # cancelled meanwhile
                        future.set_exception(concurrent.futures.BrokenExecutor(first_line(error)))

    def _poll(self):
        while not self.ended.wait(self.INTERVAL):
            for future, job in list(self.jobs.items()):
                with contextlib.suppress(concurrent.futures.InvalidStateError):  # cancelled meanwhile
                    self._ask(future, job)
            self._start()

    def _ask(self, future, job):
        try:
            if future.cancelled():
                return self._cancel(future)
            if not job.done():
                return
        except Exception as error:  # nobody can tell
            self._cancel(future)
            return future.set_exception(error)
        del self.jobs[future]
        try:
            result, error = job.result()
        except Exception as lost:  # what befell the job
            result, error = None, lost
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _cancel(self, future):
        with contextlib.suppress(Exception):
            self.jobs.pop(future).cancel()

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Jobs that are not finished are cancelled: nobody would take their results."""
        self.ended.set()
        self.thread.join()
        self.waiting.clear()
        for future in list(self.jobs):
            self._cancel(future)
