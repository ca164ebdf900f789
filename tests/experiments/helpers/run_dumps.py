"""A small dump of random values for the tests of attest run, and the whole of a results file to compare."""
import h5py
import numpy as np

import dump_maker


def write_dump(path, layers=(0, 1, 4), tokens=300, heads=4, kv_heads=2, dim=32, positions=(130, 299), bad=None,
               samples=("s",)):
    """Random values. `bad` is placed once in k of the last layer."""
    def values(random, number):
        q = 3 * random.standard_normal((len(positions), heads, dim)).astype(np.float16)
        k, v = random.standard_normal((2, kv_heads, tokens, dim)).astype(np.float16)
        if bad is not None and number == layers[-1]:
            k[1, 37, 5] = bad
        return q, k, v

    dump_maker.write_dump(path, values, seed=7, layers=layers, tokens=tokens, heads=heads, kv_heads=kv_heads, dim=dim,
                          positions=positions, samples=samples, task="ruler/test", spans=[[20, 40], [100, 110]])


def arrays(path):
    """Every data set and attribute of a results file except the manifest, as bytes."""
    found = {}

    def visit(name, item):
        for key, value in item.attrs.items():
            found[f"{name}@{key}"] = repr(value)
        if isinstance(item, h5py.Dataset):
            value = item[()]
            found[name] = (str(value.dtype), value.shape, value.tolist() if value.dtype == object else value.tobytes())

    with h5py.File(path) as file:
        file.visititems(visit)
    return found
