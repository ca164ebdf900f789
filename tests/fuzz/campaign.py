"""A long run of all readers, which may be interrupted: campaign.py FUZZ_READERS LOG [--text N] [--hdf5 N] [--seed S]
[--reader NAMES] [--jobs N] [--seconds S] reads N made inputs with each reader (default 10,000,000 of text and 1,000,000
of HDF5), in pieces that it notes in LOG, where it goes on; --table prints what LOG has."""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import time

HDF5 = {"dump", "estimates", "results", "tasks", "figures"}
PIECES = 100  # of the inputs of a reader
LINE = re.compile(
    r"(?P<inputs>\d+) inputs in [\d.]+ s \([\d.]+/s, (?P<rate>[\d.]+) in a second of a core\): (?P<accepted>\d+) "
    r"accepted, \d+ refused, (?P<failed>\d+) failed, (?P<crashes>\d+) crashes and (?P<loops>\d+) loops of HDF5, "
    r"(?P<again>\d+) of them read again")


def pieces(log, seed):
    """{reader: pieces} of a seed."""
    found = collections.defaultdict(list)
    for line in log.read_text().splitlines() if log.exists() else ():
        piece = json.loads(line)
        if piece["seed"] == seed:
            found[piece["reader"]].append(piece)
    return found


def missing(options, readers):
    """(reader, first, runs) of the pieces that LOG has not."""
    done = pieces(options.log, options.seed)
    for reader in readers:
        most = options.hdf5 if reader in HDF5 else options.text
        size = max(1, most // PIECES)
        begin = 0
        for first, runs in sorted((piece["first"], piece["runs"]) for piece in done[reader]) + [(most, 0)]:
            yield from ((reader, at, min(size, first - at)) for at in range(begin, min(first, most), size))
            begin = max(begin, first + runs)


def read(options, reader, first, runs):
    """Reads one piece; (its line of LOG or None, what was printed, whether an input failed)."""
    done = subprocess.run([options.program, "--reader", reader, "--seed", str(options.seed), "--first", str(first),
                           "--runs", str(runs)],
                          capture_output=True, text=True)
    found = LINE.search(done.stdout)
    if not found:
        return None, f"{reader}: {done.stdout}{done.stderr}", True
    counts = {name: int(text) for name, text in found.groupdict().items()}
    seconds = counts["inputs"] / max(counts.pop("rate"), 1)
    line = {"reader": reader, "seed": options.seed, "first": first, "runs": runs, "seconds": round(seconds, 3),
            **counts}
    return line, done.stdout, done.returncode != 0


def run(options, readers):
    """Reads what is missing, options.jobs pieces at a time. False if an input failed; no further piece is begun
    then."""
    end = time.monotonic() + options.seconds
    good = True

    def read_in_time(piece):
        return read(options, *piece) if good and time.monotonic() < end else None

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed(
            [pool.submit(read_in_time, piece) for piece in missing(options, readers)]):
            if done.result() is None:
                continue
            line, printed, failed = done.result()
            if line:
                with options.log.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            if failed:
                print(printed, end="")
                good = False
    return good


def table(log, seed):
    print("| reader | inputs | accepted | failed | HDF5 crashed | looped | read again | s of a core | in a second of a "
          "core |")
    print("|---|---|---|---|---|---|---|---|---|")
    for reader, found in pieces(log, seed).items():
        total = {name: sum(piece[name] for piece in found) for name in (
            "inputs", "accepted", "failed", "crashes", "loops", "again", "seconds")}
        print(f"| {reader} | {total['inputs']:,} | {total['accepted']:,} | {total['failed']} | {total['crashes']} | "
              f"{total['loops']} | {total['again']} | {total['seconds']:.0f} | "
              f"{total['inputs'] / max(total['seconds'], 1e-9):,.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("log", type=pathlib.Path)
    parser.add_argument("--text", type=int, default=10_000_000)
    parser.add_argument("--hdf5", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader")
    parser.add_argument("--jobs", type=int, default=1, help="pieces at a time")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begins no piece after this time")
    parser.add_argument("--table", action="store_true", help="read nothing")
    options = parser.parse_args()
    listed = subprocess.run([options.program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    readers = options.reader.split(",") if options.reader else listed
    good = options.table or run(options, readers)
    table(options.log, options.seed)
    return not good


if __name__ == "__main__":
    sys.exit(main())
