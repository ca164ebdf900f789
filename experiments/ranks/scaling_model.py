"""How many layers per second the parts of a study by ranks can take, and which of them ends its scaling.

    python experiments/ranks/scaling_model.py                      # the numbers of experiments/CLUSTERS.md
    python experiments/ranks/scaling_model.py --nodes 2 --node-read 25 --json
    python experiments/ranks/scaling_model.py --measure-store 8    # round trips per second of a TCPStore here
"""

import argparse
import json
import multiprocessing
import time

# A layer costs the store: its claim (a number, the owner), its end (the owner, a number, the log), and rank 0's look at the log.
ROUND_TRIPS_PER_LAYER = 6
BEATS_PER_SECOND = 2  # of a rank: its own, and a look at rank 0's
POLLS_PER_SECOND = 20  # of a rank: whether the job has ended


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def number(name, default, text):
        parser.add_argument(name, type=positive, default=default, help=f"{text} (default {default:g})", metavar="X")

    number("--nodes", 8, "machines")
    number("--gpus-per-node", 8, "GPUs, and ranks, of each")
    number("--terabytes", 4, "bytes of the dumps, in TB")
    number("--layer-mb", 134.4, "bytes of a layer, in MB")
    number("--result-mb", 1.53, "bytes of its results, in MB")
    number("--gpu-ms", 7.4, "time of a GPU for a layer, in ms")
    number("--node-read", 10, "GB/s that a machine reads from the file system")
    number("--file-read", 100, "GB/s that the file system reads for all")
    number("--file-write", 10, "GB/s that it writes for all")
    number("--node-write", 2, "GB/s that rank 0 writes, and reads of what others have written")
    number("--store-calls", 60000, "round trips per second of the store")
    number("--assembly-ms", 2.5, "time of one core for taking over a layer's results, in ms")
    number("--assembly-threads", 8, "threads of rank 0 that do so")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--measure-store", type=int, metavar="CLIENTS", help="measure a TCPStore on this machine instead")
    return parser.parse_args()


def positive(text):
    value = float(text)
    if not 0 < value < 1e12:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


def layers_per_second(a):
    """Each part's limit."""
    gpus = a.nodes * a.gpus_per_node
    calls_left = a.store_calls - gpus * (BEATS_PER_SECOND + POLLS_PER_SECOND)
    return {
        "GPUs": gpus * 1000 / a.gpu_ms,
        "reading, machines": a.nodes * a.node_read * 1000 / a.layer_mb,
        "reading, file system": a.file_read * 1000 / a.layer_mb,
        "writing finished layers": a.file_write * 1000 / a.result_mb,
        "rank 0: writing results": a.node_write * 1000 / a.result_mb,
        "rank 0: assembly": a.assembly_threads * 1000 / a.assembly_ms,
        "store": max(calls_left, 1) / ROUND_TRIPS_PER_LAYER,
    }


def model(a):
    limits = layers_per_second(a)
    layers = a.terabytes * 1e6 / a.layer_mb
    bound = min(limits, key=limits.get)
    per_gpu = 1000 / a.gpu_ms
    return {
        "gpus": a.nodes * a.gpus_per_node,
        "layers": round(layers),
        "layers_per_second": limits,
        "gpus_that_each_keeps_busy": {name: limit / per_gpu for name, limit in limits.items()},
        "bound_by": bound,
        "seconds": layers / limits[bound],
        "read_gb_per_second": limits[bound] * a.layer_mb / 1000,
    }


def text_of(result):
    lines = [f"{result['layers']} layers on {result['gpus']:g} GPUs", "", f"{'part':26}{'layers/s':>10}{'GPUs kept busy':>16}"]
    for name, limit in result["layers_per_second"].items():
        lines.append(f"{name:26}{limit:10.0f}{result['gpus_that_each_keeps_busy'][name]:16.1f}")
    lines += ["", f"bound by {result['bound_by']}: {result['seconds']:.0f} s, reading {result['read_gb_per_second']:.0f} GB/s"]
    return "\n".join(lines)


def claim(port, count, rates):
    from torch.distributed import TCPStore
    store = TCPStore("127.0.0.1", port, None, False)
    start = time.monotonic()
    for _ in range(count):
        unit = store.add("next", 1)
        store.compare_set(f"owner/{unit}", "", f"{unit}")
    rates.put(2 * count / (time.monotonic() - start))


def measure_store(clients, count=4000):
    """Round trips per second of so many clients together."""
    from torch.distributed import TCPStore
    store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    context = multiprocessing.get_context("spawn")
    rates = context.Queue()
    processes = [context.Process(target=claim, args=(store.port, count, rates)) for _ in range(clients)]
    for process in processes:
        process.start()
    total = sum(rates.get() for _ in processes)
    for process in processes:
        process.join()
    return total


def main():
    arguments = parse_arguments()
    if arguments.measure_store is not None:
        print(f"{measure_store(max(1, arguments.measure_store)):.0f} round trips/s")
        return
    result = model(arguments)
    print(json.dumps(result, indent=2) if arguments.json else text_of(result))


if __name__ == "__main__":
    main()
