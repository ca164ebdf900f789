"""What FFD keeps of a dump at a delta, for each layer and KV head: a study of the dump by the program."""

import os
import subprocess
import tempfile

import torch

from ..base.errors import AttestError, InputError
from ..program import program

SELECTOR = "ffd:block=128,sub_block=128,gqa=union,residual=fp8"


def shares_of_dump(dump, deltas, device):
    """{delta: shares [layers, Hkv]}, means over samples and queries."""
    with tempfile.TemporaryDirectory() as folder:
        results = os.path.join(folder, "results.h5")
        ran = subprocess.run(
            [
                program(),
                "run",
                dump,
                "-o",
                results,
                "--quiet",
                f"--device={device}",
                "--selector",
                SELECTOR,
                "--delta",
                ",".join(f"{delta:.17g}" for delta in deltas),
            ],
            text=True,
            capture_output=True,
        )
        if ran.returncode:
            failure = AttestError(ran.stderr.strip().removeprefix("attest: ") or f"{dump}: cannot be studied")
            failure.exit_code = ran.returncode
            raise failure
        return shares_of_results(results)


def shares_of_results(path):
    import h5py

    with h5py.File(path) as file:
        dump = file["dumps/0"]
        kv_heads, sums, count = int(dump.attrs["num_kv_heads"]), None, 0
        for sample in dump["samples"].values():
            name = next(key for key in sample if key.startswith("ffd"))
            group = sample[name]
            kept = torch.from_numpy(group["keep_ratio"][()]).double()  # [layer, query, head or KV head, setting]
            shares = kept.mean(1)
            shares = shares.reshape(len(shares), kv_heads, -1, shares.shape[-1]).mean(2)
            sums, count = shares if sums is None else sums + shares, count + 1
        values = group["settings"][()].tolist()
    return {delta: sums[:, :, s] / count for s, delta in enumerate(values)}


def for_model(shares, decoder, dump):
    """Of a dump's layers [layers, Hkv] for those of the model, in proportion: its last third takes the dump's."""
    layers, kv_heads = shares.shape
    if kv_heads != decoder.kv_heads:
        raise InputError(f"{dump}: has {kv_heads} KV heads, expected the model's {decoder.kv_heads}")
    places = [n * layers // decoder.num_layers for n in range(decoder.num_layers)]
    return shares[places]
