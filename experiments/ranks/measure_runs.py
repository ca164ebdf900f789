"""Whole runs of a study on one GPU, on several and under torchrun, in turn: medians, ratios, and whether all bits are the same.

    python experiments/ranks/measure_runs.py dump.h5                               # cuda:0, cuda:all, and a rank for each of 2 GPUs
    python experiments/ranks/measure_runs.py dump.h5 cuda:0 torchrun:8 --repeats 5 --folder /dev/shm -- --selector ffd

The first round warms up and is not counted. The results files are written below a new folder of --folder and removed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py

ATTEST = os.environ.get("ATTEST_BIN") or Path(__file__).resolve().parents[2] / "attest"
# Of each rank, so that the time of torchrun itself can be told from that of the study.
RANK = 'begin=$EPOCHREALTIME; "$@"; code=$?; echo "$begin $EPOCHREALTIME" >>"$RANK_TIMES"; exit $code'


def parse_arguments():
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump")
    parser.add_argument("ways", nargs="*", default=["cuda:0", "cuda:all", "torchrun:2"], metavar="WAY",
                        help="a --device, or torchrun:RANKS; the first is what the others are compared with")
    parser.add_argument("--repeats", type=int, default=3, help="counted rounds (default 3)")
    parser.add_argument("--folder", help="where the results go (default: the folder of temporary files)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    found = parser.parse_args(arguments[:cut])
    if found.repeats < 1:
        parser.error("--repeats must be 1 or more")
    found.options = arguments[cut + 1:]
    return found


def run(way, dump, out, options):
    """Seconds of the whole command and, of ranks, from the start of the first to the end of the last."""
    times = out.with_suffix(".times")
    command = [str(ATTEST), "run", dump, "-o", str(out), *options]
    if way.startswith("torchrun:"):
        torchrun = Path(sys.executable).with_name("torchrun")
        command = [str(torchrun), "--nproc-per-node", way.split(":")[1], "--no-python", "bash", "-c", RANK, "rank", *command]
    else:
        command += ["--device", way]
    begin = time.time()
    done = subprocess.run(command, env=os.environ | {"RANK_TIMES": str(times)}, capture_output=True, text=True)
    whole = time.time() - begin
    if done.returncode != 0:
        sys.exit(f"{way}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    if not times.exists():
        return whole, whole
    ranks = [[float(x) for x in line.split()] for line in times.read_text().splitlines()]
    times.unlink()
    return whole, max(end for _, end in ranks) - min(start for start, _ in ranks)


def same_bits(path, other):
    with h5py.File(path) as a, h5py.File(other) as b:
        names = data_sets(a)
        return bool(names) and names == data_sets(b) and all(bits(a[name]) == bits(b[name]) for name in names)


def data_sets(file):
    names = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return sorted(names)


def bits(data):
    values = data[()]
    return values.tolist() if values.dtype == object else values.tobytes()


def measure(a):
    found = [{"way": way, "seconds": [], "ranks": []} for way in a.ways]
    with tempfile.TemporaryDirectory(dir=a.folder) as folder:
        outs = [Path(folder) / f"{i}.h5" for i in range(len(a.ways))]
        for round in range(a.repeats + 1):
            for entry, out in zip(found, outs):
                out.unlink(missing_ok=True)
                whole, ranks = run(entry["way"], a.dump, out, a.options)
                if round > 0:
                    entry["seconds"].append(whole)
                    entry["ranks"].append(ranks)
        for entry, out in zip(found, outs):
            entry["same_bits"] = same_bits(outs[0], out)
            entry["median"] = statistics.median(entry["seconds"])
            entry["median_of_ranks"] = statistics.median(entry["ranks"])
            entry["ratio"] = found[0]["median_of_ranks"] / entry["median_of_ranks"]
    return found


def text_of(found):
    lines = [f"{'':16}{'seconds':>9}{'of ranks':>10}{'ratio':>8}  {'bits':10} each"]
    for entry in found:
        lines.append(f"{entry['way']:16}{entry['median']:9.3f}{entry['median_of_ranks']:10.3f}{entry['ratio']:8.2f}  "
                     f"{'the same' if entry['same_bits'] else 'DIFFERENT':10} {' '.join(f'{s:.2f}' for s in entry['seconds'])}")
    return "\n".join(lines)


def main():
    arguments = parse_arguments()
    found = measure(arguments)
    print(json.dumps(found, indent=2) if arguments.json else text_of(found))
    if not all(entry["same_bits"] for entry in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
