"""The shares of a dump that `attest bench model --dump` gives to the heads of the model."""

import subprocess
from types import SimpleNamespace

import h5py
import pytest
from attest_program import ATTEST
from near import CELL
from torch_or_skip import torch  # before what needs it

from attest.base.errors import InputError
from attest.bench_model.kept_shares import for_model, shares_of_dump
from attest.base.program import ProgramError

BLOCK, TOKENS = 128, 1500
LEAST_CELLS_ALIKE = 0.9  # a block at the threshold may fall on either side of it in another arithmetic


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    path = tmp_path_factory.mktemp("dump") / "d.h5"
    made = [ATTEST, "synth", "-o", path, "--layers", "3", "--tokens", str(TOKENS), "--queries", "4"]
    made += ["--query-heads", "8", "--kv-heads", "2", "--head-dim", "32"]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    return path


def kept(q, k, delta):
    """Of one query [G, D] that is the last of the tokens of k [T, D]: top-delta over thumbnails, in double
    precision."""
    full = len(k) // BLOCK
    blocks = k[: full * BLOCK].double().reshape(full, BLOCK, -1)
    scale = blocks.abs().amax(1, keepdim=True) / 1.5
    thumbnail = ((blocks / scale + 1.5).clamp(0, 3).round() - 1.5) * scale
    scores = torch.einsum("gd,bnd->gbn", q.double(), thumbnail).amax(-1) * q.shape[-1] ** -0.5
    reference = torch.maximum(scores[:, :1], scores[:, -1:])
    return (scores >= reference - delta).any(0).sum().item() * BLOCK + len(k) % BLOCK


def test_shares_are_those_of_top_delta(dump):
    found = shares_of_dump(dump, [2.0, 0.5], "cpu")
    assert list(found) == [2.0, 0.5]
    alike = total = 0
    with h5py.File(dump) as file:
        sample = next(iter(file["samples"].values()))
        positions = sample["query_positions"][()]
        for layer in range(3):
            group = sample[f"layers/{layer}"]
            q, k = (torch.from_numpy(group[name][()]) for name in ("q", "k"))
            for delta, shares in found.items():
                for head in range(2):
                    own = [
                        kept(q[n, head * 4 : head * 4 + 4], k[head, : p + 1], delta) / (p + 1)
                        for n, p in enumerate(positions)
                    ]
                    total += 1
                    alike += shares[layer, head].item() == pytest.approx(sum(own) / len(own), abs=CELL)
    assert alike >= LEAST_CELLS_ALIKE * total


def test_samples_of_other_layers_count_where_they_have_one(tmp_path):
    path = tmp_path / "d.h5"
    make = [ATTEST, "synth", "-o", path, "--layers", "3", "--samples", "2", "--tokens", "700"]
    subprocess.run(make, check=True, capture_output=True, timeout=60)
    whole = shares_of_dump(path, [2.0], "cpu")[2.0]
    with h5py.File(path, "r+") as file:
        del file["samples/synthetic-0000/layers/0"], file["samples/synthetic-0001/layers/2"]
    found = shares_of_dump(path, [2.0], "cpu")[2.0]
    assert found.shape == whole.shape and found[1].equal(whole[1]) and not found.equal(whole)


def test_a_model_of_other_depth_takes_layers_in_proportion():
    shares = torch.arange(6.0).reshape(3, 2)
    deep = SimpleNamespace(num_layers=7, kv_heads=2)
    assert for_model(shares, deep, "d.h5")[:, 0].tolist() == [0, 0, 0, 2, 2, 4, 4]
    assert for_model(shares, SimpleNamespace(num_layers=3, kv_heads=2), "d.h5").equal(shares)
    with pytest.raises(InputError, match="d.h5: has 2 KV heads, expected the model's 8"):
        for_model(shares, SimpleNamespace(num_layers=3, kv_heads=8), "d.h5")


def test_a_dump_that_cannot_be_studied(tmp_path):
    with pytest.raises(ProgramError, match="none.h5: cannot be opened") as refused:
        shares_of_dump(tmp_path / "none.h5", [5.0], "cpu")
    assert refused.value.exit_code == 4
