"""Two machines, which are network namespaces, and a cable between them that is pulled: no bit changes, and nobody hangs."""

import shutil
import subprocess
import time

import pytest

import rank_runs
from rank_runs import Job, command, data_of, wait_for

rank_runs.needs_torch()

FIRST, OTHER = "10.213.7.1", "10.213.7.2"


class Network:
    def __init__(self, name):
        self.names = [f"{name}-{i}" for i in range(2)]
        self.on = [["ip", "netns", "exec", each] for each in self.names]

    def __enter__(self):
        try:
            self.connect()
        except subprocess.CalledProcessError:
            self.__exit__()
            raise
        return self

    def connect(self):
        for each in self.names:
            ip("netns", "add", each)
        ip("link", "add", "cable", "netns", self.names[0], "type", "veth", "peer", "name", "cable", "netns", self.names[1])
        for each, address in zip(self.names, (FIRST, OTHER)):
            ip("-n", each, "address", "add", f"{address}/24", "dev", "cable")
            for link in ("cable", "lo"):  # rank 0 reaches its own address through lo
                ip("-n", each, "link", "set", link, "up")

    def __exit__(self, *_):
        for each in self.names:
            subprocess.run(["ip", "netns", "delete", each], capture_output=True)

    def cut(self):
        ip("-n", self.names[1], "link", "set", "cable", "down")

    def mend(self):
        ip("-n", self.names[1], "link", "set", "cable", "up")


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def needs_namespaces():
    """Skips the tests where two machines cannot be made: that takes root, and more than a container has."""
    if not shutil.which("ip"):
        pytest.skip("there is no ip, of the package iproute2", allow_module_level=True)
    try:
        with Network("attest-probe"):
            pass
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.strip()}", allow_module_level=True)


needs_namespaces()


@pytest.fixture
def network():
    with Network(f"attest-{time.monotonic_ns()}") as made:
        yield made


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    rank_runs.write_dump(folder / "dump.h5", tokens=2000, layers=220, queries=4)
    subprocess.run(command(folder / "dump.h5", folder / "one.h5"), env=rank_runs.CLEAN, check=True, capture_output=True)
    return folder / "dump.h5", data_of(folder / "one.h5")


def job_on(network, dump, out, lease):
    """Only the dump is shared; results go through the store."""
    return Job(2, dump, out, "--resume", "--send-results", "--lease", str(lease), address=FIRST, on=network.on)


def test_a_rank_that_is_cut_off_is_overtaken_and_ends(network, study, tmp_path):
    dump, expected = study
    with job_on(network, dump, tmp_path / "r.h5", lease=1).start() as job:
        job.until_all_work()
        network.cut()
        begin = time.monotonic()
        code, _, error = job.end(1)
        assert code == 5 and f"attest: the store at {FIRST}:{job.port} is gone (no answer within 3 s)" in error, error
        assert time.monotonic() - begin < 15
        assert job.end(0)[0] == 0
        assert "rank 1 has been silent for" in job.end(0)[2]
    assert data_of(tmp_path / "r.h5") == expected


def test_a_rank_that_comes_back_goes_on(network, study, tmp_path):
    """The network is away for longer than the lease, and for less than three leases: TCP tries again 0.2, 0.6, 1.4 and 3 s
    after the cut."""
    dump, expected = study
    with job_on(network, dump, tmp_path / "r.h5", lease=2).start() as job:
        job.until_all_work()
        network.cut()
        time.sleep(2.2)
        network.mend()
        assert [code for code, _, _ in job.end().values()] == [0, 0], job.end(1)[2]
        wait_for(lambda: "[rank 1] done" in job.text(1))
    assert data_of(tmp_path / "r.h5") == expected
