"""What FFD keeps of a dump at a delta, for each layer and KV head: a study of the dump by the program."""
import os
import subprocess
import tempfile

import torch

from ..base.errors import InputError
from ..base.program import ProgramError, program

SELECTOR = "ffd:block=128,sub_block=128,gqa=union,residual=fp8"


def shares_of_dump(dump, deltas, device):
    """{delta: shares [layers, Hkv]}, means over queries and over the samples that have the layer."""
    with tempfile.TemporaryDirectory() as folder:
        results = os.path.join(folder, "results.h5")
        grid = ",".join(f"{delta:.17g}" for delta in deltas)
        words = ["--quiet", f"--device={device}", "--selector", SELECTOR, "--delta", grid]
        ran = subprocess.run([program(), "run", dump, "-o", results, *words], text=True, capture_output=True)
        if ran.returncode:
            raise ProgramError(ran.stderr, ran.returncode)
        return shares_of_results(results)


def shares_of_results(path):
    """{delta: shares [layers, Hkv]} of a study that has FFD alone."""
    import h5py

    with h5py.File(path) as file:
        dump = file["dumps/0"]
        kv_heads, of_layers = int(dump.attrs["num_kv_heads"]), {}
        for sample in dump["samples"].values():
            name = next(key for key in sample if key.startswith("ffd"))
            group = sample[name]
            kept = torch.from_numpy(group["keep_ratio"][()]).double()  # [layer, query, head or KV head, setting]
            shares = kept.mean(1)
            shares = shares.reshape(len(shares), kv_heads, -1, shares.shape[-1]).mean(2)
            for layer, of_layer in zip(sample["layers"][()].tolist(), shares):
                of_layers.setdefault(layer, []).append(of_layer)
        values = group["settings"][()].tolist()
    # [layer, KV head, setting]
    means = torch.stack([sum(found) / len(found) for _, found in sorted(of_layers.items())])
    return {delta: means[:, :, s] for s, delta in enumerate(values)}


def for_model(shares, decoder, dump):
    """The shares of a dump's layers [layers, Hkv] for the model's, in proportion: its last third takes the dump's."""
    layers, kv_heads = shares.shape
    if kv_heads != decoder.kv_heads:
        raise InputError(f"{dump}: has {kv_heads} KV heads, expected the model's {decoder.kv_heads}")
    places = [n * layers // decoder.num_layers for n in range(decoder.num_layers)]
    return shares[places]
