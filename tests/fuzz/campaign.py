"""A long run of all readers, which may be interrupted: campaign.py FUZZ_READERS LOG [--text N] [--hdf5 N] [--seed S] [--reader NAMES]
reads N made inputs with each reader (default 10,000,000 of text and 1,000,000 of HDF5), in pieces that it notes in LOG, where it goes
on; --table prints what LOG has. One process at a time: start it again with another LOG and seed for another core."""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

HDF5 = {"dump", "estimates", "results", "tasks", "figures"}
PIECES = 100  # of the inputs of a reader
LINE = re.compile(r"(?P<inputs>\d+) inputs in [\d.]+ s \([\d.]+/s, (?P<rate>[\d.]+) in a second of a core\): (?P<accepted>\d+) accepted, \d+ refused, "
                  r"(?P<failed>\d+) failed, (?P<crashes>\d+) crashes and (?P<loops>\d+) loops of HDF5, (?P<again>\d+) of them read again")


def pieces(log, seed):
    """{reader: pieces} of a seed."""
    found = collections.defaultdict(list)
    for line in log.read_text().splitlines() if log.exists() else ():
        piece = json.loads(line)
        if piece["seed"] == seed:
            found[piece["reader"]].append(piece)
    return found


def run(options, reader, most):
    """Reads what is missing of a reader's inputs. False if an input failed."""
    size = max(1, most // PIECES)
    first = sum(piece["runs"] for piece in pieces(options.log, options.seed)[reader])
    for begin in range(first, most, size):
        runs = min(size, most - begin)
        done = subprocess.run([options.program, "--reader", reader, "--seed", str(options.seed), "--first", str(begin), "--runs", str(runs)],
                              capture_output=True, text=True)
        found = LINE.search(done.stdout)
        if not found:
            sys.exit(f"{reader}: {done.stdout}{done.stderr}")
        counts = {name: int(text) for name, text in found.groupdict().items()}
        seconds = counts["inputs"] / max(counts.pop("rate"), 1)
        with options.log.open("a") as file:
            file.write(json.dumps({"reader": reader, "seed": options.seed, "first": begin, "runs": runs, "seconds": round(seconds, 3), **counts}) + "\n")
        if done.returncode:
            print(done.stdout, end="")
            return False
    return True


def table(log, seed):
    print("| reader | inputs | accepted | failed | HDF5 crashed | looped | read again | s of a core | in a second of a core |")
    print("|---|---|---|---|---|---|---|---|---|")
    for reader, found in pieces(log, seed).items():
        total = {name: sum(piece[name] for piece in found) for name in ("inputs", "accepted", "failed", "crashes", "loops", "again", "seconds")}
        print(f"| {reader} | {total['inputs']:,} | {total['accepted']:,} | {total['failed']} | {total['crashes']} | {total['loops']} | {total['again']} | "
              f"{total['seconds']:.0f} | {total['inputs'] / max(total['seconds'], 1e-9):,.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("log", type=pathlib.Path)
    parser.add_argument("--text", type=int, default=10_000_000)
    parser.add_argument("--hdf5", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader")
    parser.add_argument("--table", action="store_true", help="read nothing")
    options = parser.parse_args()
    listed = subprocess.run([options.program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    good = options.table or all([run(options, reader, options.hdf5 if reader in HDF5 else options.text)
                                 for reader in (options.reader.split(",") if options.reader else listed)])
    table(options.log, options.seed)
    return not good


if __name__ == "__main__":
    sys.exit(main())
