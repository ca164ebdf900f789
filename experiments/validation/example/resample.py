#!/usr/bin/env python3
"""How often verdicts are wrong: `attest validate` on random parts of the prompts of results files, which stand for all
prompts there are.

Each draw takes --part prompts and asks `attest validate` for a setting, with the options behind `--`. What it claims is
then looked up on all prompts: the share that violates, or for --claim mean the mean deficit (not clipped). One target.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import h5py

ATTEST = os.environ.get("ATTEST_BIN") or pathlib.Path(__file__).resolve().parents[3] / "attest"


def write_part(paths, chosen, output):
    """A results file with the samples of `chosen`, (path, dump, sample). Data sets are copied as they are stored."""
    with h5py.File(output, "w", track_order=True) as target:
        inputs, number = [], 0
        for path in paths:
            with h5py.File(path) as source:
                manifest = json.loads(source.attrs["manifest"])
                target.attrs.update(format="attention-study", format_version=1)
                for dump in sorted(source["dumps"], key=int):
                    names = [sample for p, d, sample in chosen if (p, d) == (path, dump)]
                    if not names:
                        continue
                    group = target.create_group(f"dumps/{number}", track_order=True)
                    group.attrs.update(source["dumps"][dump].attrs)
                    samples = group.create_group("samples", track_order=True)
                    for name in names:
                        source.copy(f"dumps/{dump}/samples/{name}", samples)
                    inputs.append(manifest["inputs"][int(dump)])
                    number += 1
        target.attrs["manifest"] = json.dumps({**manifest, "inputs": inputs})


def validate(files, options):
    done = subprocess.run([ATTEST, "--json", "validate", *files, *options], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


def totals(verdict):
    """{setting: (prompts, violations, sum of deficits)} of the only target."""
    counts = {}
    for setting in verdict["settings"]:
        (target,) = setting["targets"]
        counts[setting["setting"]] = (target["n"], target["k"], target["n"] * target["mean_deficit"])
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="RESULTS")
    parser.add_argument("--part", type=int, default=30, help="prompts that a verdict is made of (default %(default)s)")
    parser.add_argument("--draws", type=int, default=100, help="(default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    words = sys.argv[1:]
    own, options = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
    request = parser.parse_args(own)
    prompts = []
    for path in request.results:
        with h5py.File(path) as file:
            prompts += [(path, d, name) for d in sorted(file["dumps"], key=int) for name in file["dumps"][d]["samples"]]
    if not 0 < request.part < len(prompts):
        sys.exit(f"--part: {request.part} of {len(prompts)} prompts leaves none to judge")
    everything, rng = validate(request.results, options), random.Random(request.seed)
    claim, whole = everything["claim"], totals(everything)
    max_violating = claim.get("beta", 0)
    certified, failed, settings = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        for draw in range(request.draws):
            part = os.path.join(folder, f"{draw}.h5")
            write_part(request.results, rng.sample(prompts, request.part), part)
            verdict = validate([part], options)
            os.remove(part)
            if verdict["verdict"] not in ("certified", "shown"):  # shown: by what certifies nothing
                continue
            setting = verdict["certified"] if verdict["verdict"] == "certified" else verdict["shown"]
            n, k, deficit = whole[setting]
            certified += 1
            settings.append(setting)
            if claim["kind"] == "mean":
                (text,) = claim["targets"]
                value = float(text.replace("<=", ">=").split(">=")[1])
                failed += deficit / n > (1 - value if ">=" in text else value)
            else:
                failed += k / n > max_violating
    settings.sort()
    print(f"{certified} of {request.draws} parts of {request.part} prompts take a setting"
          + (f", {settings[len(settings) // 2]:g} at the median" if settings else "")
          + f"; {failed} of them are wrong")


if __name__ == "__main__":
    main()
