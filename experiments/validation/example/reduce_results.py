#!/usr/bin/env python3
"""Writes results files of `attest run` again as one small file: chosen selectors, metrics, settings and queries, compressed.

What `attest validate` reads stays what it was, bit for bit, for what is kept. The manifests of the files are kept as they were, those
after the first in the attribute `more_manifests`; `inputs` of the manifest lists the dumps of all, in their order.
"""
import argparse
import json
import os
import sys

import h5py
import numpy as np

AXES = ("layers", "query_positions")  # of a sample
COLUMNS = ("settings", "setting_labels", "lambdas", "dense", "done")  # of a selector


def compressed(group, name, values):
    """float32 is shuffled, so that equal exponents stand together, and deflated."""
    group.create_dataset(name, data=values, chunks=values.shape, shuffle=True, compression=9)


def copy_attributes(source, target):
    """Strings get their own length: those of variable length take 4 KiB of a heap."""
    for name, value in source.attrs.items():
        target.attrs[name] = np.bytes_(value.encode()) if isinstance(value, str) else value


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
            has_settings = values.ndim == 4 or source[name].shape[-1] == len(labels) != source[name].shape[2]
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


def reduce(options):
    manifests, dumps = [], 0
    part = options.output + ".part"
    with h5py.File(part, "w", libver=("v110", "v110")) as target:
        target.attrs.update(format="attention-study", format_version=1)
        for path in options.results:
            with h5py.File(path) as source:
                if source.attrs.get("format") not in ("attention-study", b"attention-study"):
                    sys.exit(f"{path}: expected results of `attest run`")
                manifests.append(json.loads(source.attrs["manifest"]))
                for dump in sorted(source["dumps"], key=int):
                    group = target.create_group(f"dumps/{dumps}")
                    copy_attributes(source["dumps"][dump], group)
                    for name, sample in source["dumps"][dump]["samples"].items():
                        reduce_sample(sample, group.create_group(f"samples/{name}"), options)
                    dumps += 1
        first = dict(manifests[0], inputs=[i for m in manifests for i in m["inputs"]])
        target.attrs["manifest"] = json.dumps(first)
        if len(manifests) > 1:
            target.attrs["more_manifests"] = json.dumps(manifests[1:])
    os.replace(part, options.output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="RESULTS")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--selectors", default="ffd", help="labels (default %(default)s)")
    parser.add_argument("--metrics", default="recall,lse_error,keep_ratio,io_ratio", help="(default %(default)s)")
    parser.add_argument("--settings", help="as typed, such as 5,5.25 (default: all)")
    parser.add_argument("--queries", type=int, help="only the first N queries of each prompt (default: all)")
    reduce(parser.parse_args())


if __name__ == "__main__":
    main()
