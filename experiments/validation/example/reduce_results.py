#!/usr/bin/env python3
"""Writes results files of `attest run` again as one small file: chosen selectors, metrics, settings, samples and
queries.

What `attest validate` reads stays what it was, bit for bit, for what is kept. So do the manifests, but that paths are
cut to their last part: those of the files after the first are in the attribute `more_manifests`; `inputs` of the first
lists the dumps of all, in their order. """
import argparse
import json
import os
import sys

import h5py
import numpy as np

AXES = ("layers", "query_positions")  # of a sample
COLUMNS = ("settings", "setting_labels", "lambdas", "dense", "done")  # of a selector


def compressed(group, name, values):
    """float32 is shuffled, so that equal exponents stand together, and deflated. What is smaller than headers stays as
    it is."""
    small = values.nbytes < 1024
    filters = {} if small else {"chunks": values.shape, "shuffle": True, "compression": 9}
    group.create_dataset(name, data=values, **filters)


def copy_attributes(source, target):
    """Strings get their own length: those of variable length take 4 KiB of a heap."""
    for name, value in source.attrs.items():
        target.attrs[name] = np.bytes_(value.encode()) if isinstance(value, str) else value


def last_part(path):
    return path.rsplit("/", 1)[-1]


def without_folders(manifest):
    inputs = [{**one, "path": last_part(one["path"])} for one in manifest["inputs"]]
    command = [last_part(word) for word in manifest["command_line"]]
    configuration = dict(manifest["configuration"])
    configuration["dumps"] = [{**one, "path": last_part(one["path"])} for one in configuration["dumps"]]
    return {**manifest, "inputs": inputs, "command_line": command, "configuration": configuration}


def reduce_selector(source, target, options, queries):
    copy_attributes(source, target)
    labels = source["setting_labels"].asstr()[()].tolist()
    wanted = options.settings.split(",") if options.settings else labels
    missing = [label for label in wanted if label not in labels]
    if missing:
        sys.exit(f"{source.file.filename}: {source.name} has no setting {', '.join(missing)}")
    places = [labels.index(label) for label in wanted]
    for name in COLUMNS:
        if name in source:
            values = np.array(labels, "S") if name == "setting_labels" else source[name][()]
            target[name] = values[places] if name.startswith("setting") else values
    for name in options.metrics.split(","):
        if name in source:
            values = source[name][:, queries]
            has_settings = source[name].dims[values.ndim - 1].label == "setting"
            compressed(target, name, values[..., places] if has_settings else values)


def reduce_sample(source, target, options):
    copy_attributes(source, target)
    queries = slice(0, options.queries)
    for name in AXES:
        target[name] = source[name][queries if name == "query_positions" else slice(None)]
    for name in ("lse", "span_mass"):
        if name in source["scores"]:
            compressed(target, f"scores/{name}", source[f"scores/{name}"][:, queries])
    for label in options.selectors.split(","):
        if label not in source:
            sys.exit(f"{source.file.filename}: {source.name} has no selector '{label}'")
        reduce_selector(source[label], target.create_group(label), options, queries)


def reduce(options, target):
    manifests, dumps = [], 0
    target.attrs.update(format="attention-study", format_version=1)
    for path in options.results:
        with h5py.File(path) as source:
            if source.attrs.get("format") not in ("attention-study", b"attention-study"):
                sys.exit(f"{path}: expected results of `attest run`")
            manifests.append(without_folders(json.loads(source.attrs["manifest"])))
            for dump in sorted(source["dumps"], key=int):
                group = target.create_group(f"dumps/{dumps}")
                copy_attributes(source["dumps"][dump], group)
                group.attrs["path"] = last_part(source["dumps"][dump].attrs["path"])
                for name, sample in source["dumps"][dump]["samples"].items():
                    if options.samples in name:
                        reduce_sample(sample, group.create_group(f"samples/{name}"), options)
                dumps += 1
    inputs = [one for manifest in manifests for one in manifest["inputs"]]
    target.attrs["manifest"] = json.dumps({**manifests[0], "inputs": inputs})
    if len(manifests) > 1:
        target.attrs["more_manifests"] = json.dumps(manifests[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="RESULTS")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--selectors", default="ffd", help="labels (default %(default)s)")
    parser.add_argument("--metrics", default="recall,lse_error,keep_ratio,io_ratio", help="(default %(default)s)")
    parser.add_argument("--settings", help="as typed, such as 5,5.25 (default: all)")
    parser.add_argument("--samples", default="", metavar="TEXT", help="those with this in their names (default: all)")
    parser.add_argument("--queries", type=int, help="only the first N queries of each prompt (default: all)")
    options = parser.parse_args()
    part = options.output + ".part"
    try:
        with h5py.File(part, "w", libver=("v110", "v110")) as target:  # small headers, which HDF5 1.10 reads
            reduce(options, target)
        os.replace(part, options.output)
    finally:
        if os.path.exists(part):
            os.remove(part)


if __name__ == "__main__":
    main()
