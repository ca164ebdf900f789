"""The results file of a study, as xarray and pandas see it."""
import json

import h5py
import numpy as np

FORMAT = "attention-study"
CELL = ("layer", "query", "head", "setting")  # the axes of a cell
OTHERS = ("dense", "done", "settings", "setting_labels", *CELL)  # data sets that are no metric


def manifest(path):
    """What the study was: its configuration, inputs, program version and device."""
    with _open(path) as file:
        return json.loads(file.attrs["manifest"])


def selectors(path):
    """The labels of the selectors that the study ran, in their order; its samples have the same ones."""
    with _open(path) as file:
        labels = {label: None for _, _, sample in _samples(file) for label in _labels(sample)}
    return list(labels)


def dataset(path, selector, sample=None, dump=0):
    """An xarray.Dataset of one selector on one sample (by default the first of the dump), or of `selector="scores"`,
    the exact scores' metrics. Axes have coordinates: ds.recall.sel(setting=5).min(["query", "head"])."""
    import xarray

    with _open(path) as file:
        _require(f"{path}:", "dump", str(dump), file["dumps"])
        samples = file[f"dumps/{dump}/samples"]
        if not len(samples):
            raise ValueError(f"{path}: dump {dump} has no samples")
        sample = next(iter(samples)) if sample is None else sample
        _require(f"{path}: dump {dump}", "sample", sample, samples)
        known = [name for name, group in samples[sample].items() if isinstance(group, h5py.Group)]
        _require(f"{path}: sample {sample} of dump {dump}", "selector", selector, known)
    return xarray.open_dataset(path, engine="h5netcdf", group=f"dumps/{dump}/samples/{sample}/{selector}")


def cells(path, metrics=None, selectors=None):
    """All cells of a study as one pandas.DataFrame: a row for each sample, selector, setting, layer, query and head.

    `metrics`: names of columns to read, by default all that a cell has; those of a selector or of the exact scores that
    do not depend on an axis are repeated along it. What a selector does not define is NaN. `selectors`: labels, by
    default all. A single name may stand for a list of one. Layers that a selector leaves dense have `dense`; layers
    that were not computed are left out."""
    import pandas

    metrics, selectors = ([names] if isinstance(names, str) else names for names in (metrics, selectors))
    with _open(path) as file:
        known = {label for _, _, sample in _samples(file) for label in _labels(sample)}
        if unknown := [label for label in selectors or () if label not in known]:
            raise ValueError(f"{path}: has no selector {unknown[0]}, expected some of {', '.join(sorted(known))}")
        frames = [_frame(pandas, dump, name, sample, label, metrics) for dump, name, sample in _samples(file)
                  for label in _labels(sample) if selectors is None or label in selectors]
    wanted = {column for frame in frames for column in frame}
    missing = [name for name in [*(metrics or ())] if name not in wanted]
    if missing or not frames:
        raise ValueError(f"{path}: has no {'metric ' + missing[0] if missing else 'cells of these selectors'}")
    found = pandas.concat(frames, ignore_index=True)
    for column in ("path", "model", "sample", "task", "selector", "setting_label"):
        found[column] = found[column].astype("category")
    return found


def _open(path):
    """The file of a study; anything else would end in a KeyError of h5py, which names no file."""
    try:
        file = h5py.File(path)
    except OSError as error:
        if error.errno:
            raise
        raise ValueError(f"{path}: expected a results file of attest run, found something else ({error})") from error
    found = file.attrs.get("format")
    if found != FORMAT:
        file.close()
        raise ValueError(f"{path}: expected a results file of attest run (format {FORMAT}), found format {found}")
    return file


def _require(place, what, name, known):
    if name not in known:
        raise ValueError(f"{place} has no {what} {name}, expected one of {', '.join(known)}")


def _samples(file):
    """Yields (attributes of the dump, name, group) of each sample."""
    for number in sorted(file["dumps"], key=int):
        dump = file["dumps"][number]
        for name, sample in dump["samples"].items():
            yield dump.attrs, name, sample


def _labels(sample):
    return [name for name, group in sample.items() if isinstance(group, h5py.Group) and name != "scores"]


def _columns(group, sizes, metrics):
    """{metric: values broadcast to a cell's axes} of the data sets that have no other axes."""
    found = {}
    for name, data in group.items():
        if name in OTHERS or metrics is not None and name not in metrics:
            continue
        axes = tuple(data.attrs.get("DIMENSION_LABELS", ()))
        if axes and set(axes) <= set(CELL):
            shape = [sizes[axis] if axis in axes else 1 for axis in CELL]
            found[name] = np.broadcast_to(data[()].reshape(shape), [sizes[axis] for axis in CELL])
    return found


def _frame(pandas, dump, name, sample, label, metrics):
    group = sample[label]
    axes = {"layer": sample["layers"][()], "query": sample["query_positions"][()],
            "head": np.arange(dump["num_query_heads"]), "setting": group["settings"][()]}
    sizes = {axis: len(values) for axis, values in axes.items()}
    done = group["done"][()].astype(bool)
    index = np.indices(list(sizes.values()))[:, done]  # [axis, cells of computed layers...]
    place = {axis: values.ravel() for axis, values in zip(CELL, index)}
    columns = {"path": dump["path"], "model": dump["model"], "sample": name, "task": sample.attrs["task"],
               "num_tokens": sample.attrs["num_tokens"], "selector": label}
    columns |= {axis: values[place[axis]] for axis, values in axes.items()}
    columns["setting_label"] = group["setting_labels"].asstr()[()][place["setting"]]
    columns["dense"] = group["dense"][()].astype(bool)[place["layer"]]
    values = _columns(group, sizes, metrics) | _columns(sample["scores"], sizes, metrics)
    columns |= {metric: array[done].ravel() for metric, array in values.items()}
    return pandas.DataFrame(columns)
