"""Puts what the ranks of an engine wrote about its requests together: one dump of all requests, with all heads."""
import contextlib
import dataclasses
import os

import h5py
import numpy as np

from ..base.dump_writer import DumpWriter, dataset_type, read_bits
from ..base.errors import InputError, first_line
from ..base.files import InputFile, in_quotes
from ..base.inspected import OF_A_SAMPLE, refuse_unknown
from .rank import Rank

OF_ONE_REQUEST = ("created", "engine_rank")  # attributes of the root that need not be those of the other requests
HEAD_AXIS = {"q": 1, "output": 1, "k": 0, "v": 0}
OF_A_LAYER = {*HEAD_AXIS, "sinks", "cache_scales"}  # of those that the ranks have parts of
MOST_REFUSAL_BYTES = 8000


@dataclasses.dataclass
class Part:
    """What one rank wrote of one request."""
    path: str
    file: h5py.File
    rank: Rank
    name: str  # of the sample


@dataclasses.dataclass
class Joined:
    size: int  # bytes
    samples: int
    layers: int  # of all samples
    header: dict


def finished_files(folder):
    """The dumps in a folder of the plugin."""
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".h5"))


def refusals(folder):
    """The sentences about what could not be captured."""
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".refused"):
            with InputFile(os.path.join(folder, name)) as file:
                found.append(file.read(0, min(file.size, MOST_REFUSAL_BYTES)).decode(errors="replace").strip())
    return found


def rank_of(path):
    """The rank of the process that wrote a dump."""
    with _damage_of(path), h5py.File(path) as file:
        return _rank(file)


def join_requests(paths, target, force=False, gzip_level=0, model_name=None):
    """One dump of the requests that the files hold. `model_name` stands for the one that the engine gave."""
    if not paths:
        raise InputError("expected the dumps of the plugin's requests, found none")
    requests, layers = {}, 0
    for path in paths:
        with contextlib.ExitStack() as stack:
            part = _open(stack, path)
            requests.setdefault(part.name, []).append((part.rank.pipeline, part.rank.tensor, path))
    header = None
    with DumpWriter(target, force, gzip_level) as writer:
        for files in requests.values():
            with contextlib.ExitStack() as stack:
                parts = [_open(stack, path) for _, _, path in sorted(files)]
                with _damage_of(parts[0].path):
                    found = _header(parts) | ({"model": model_name} if model_name else {})
                    if header is None:
                        header = found
                        writer.write_attributes(**header)
                    _refuse_another_engine(header, found, parts[0].path)
                    layers += _copy_sample(writer, parts)
        return Joined(writer.commit(ends_command=True), len(requests), layers, header)


def _refuse_another_engine(header, found, path):
    for name in {**header, **found}:
        if name not in OF_ONE_REQUEST and header.get(name) != found.get(name):
            raise InputError(f"{path}: its {name} is {in_quotes(found.get(name, ''))}, that of the requests before "
                             f"{in_quotes(header.get(name, ''))}, and a dump has one")


@contextlib.contextmanager
def _damage_of(path):
    try:
        yield
    except (OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise InputError(f"{path}: is damaged, or not what the plugin writes ({first_line(error)})") from error


def _open(stack, path):
    with _damage_of(path):
        file = stack.enter_context(h5py.File(path))
        (name,) = file["samples"]
        return Part(path, file, _rank(file), name)


def _rank(file):
    return Rank.of_attribute(file.attrs.get("engine_rank"))


def _stages(parts):
    """{pipeline rank: its tensor-parallel parts}"""
    stages = {}
    for part in parts:
        stages.setdefault(part.rank.pipeline, []).append(part)
    return stages


def _header(parts):
    """The root's attributes of a request, of all its heads."""
    stages = _stages(parts)
    for stage in stages.values():
        expected, found = stage[0].rank.tensor_size, [part.rank.tensor for part in stage]
        if found != list(range(expected)):
            raise InputError(f"{stage[0].path}: request {in_quotes(stage[0].name)}: expected the dumps of {expected} "
                             f"tensor-parallel ranks, found {', '.join(map(str, found))}")
    pipeline = parts[0].rank.pipeline_size
    if sorted(stages) != list(range(pipeline)):
        raise InputError(f"{parts[0].path}: request {in_quotes(parts[0].name)}: expected the dumps of {pipeline} "
                         f"pipeline-parallel ranks, found {', '.join(map(str, sorted(stages)))}")
    attributes, (first, *_) = dict(parts[0].file.attrs), stages.values()
    attributes.pop("engine_rank", None)
    attributes["num_query_heads"] = sum(int(part.file.attrs["num_query_heads"]) for part in first)
    attributes["num_kv_heads"] = sum(int(part.file.attrs["num_kv_heads"]) for part in _with_own_keys(first))
    return attributes


def _with_own_keys(stage):
    """One of the ranks that have the same KV heads."""
    return stage[::stage[0].rank.kv_copies]


def _copy_sample(writer, parts):
    """Returns the number of layers."""
    source = parts[0].file["samples"][parts[0].name]
    sample = writer.create_group(writer.file["samples"], parts[0].name, **dict(source.attrs))
    layers = writer.create_group(sample, "layers")
    refuse_unknown(source, OF_A_SAMPLE)
    with writer.writing():
        for name in source:
            if name != "layers":
                source.copy(source[name], sample, name)
    for stage in _stages(parts).values():
        for number in stage[0].file["samples"][stage[0].name]["layers"]:
            groups = [part.file["samples"][part.name]["layers"][number] for part in stage]
            _copy_layer(writer, layers, number, groups, stage[0].rank.kv_copies)
    return len(layers)


def _copy_layer(writer, layers, number, groups, kv_copies):
    layer = writer.create_group(layers, number, **dict(groups[0].attrs))
    refuse_unknown(groups[0], OF_A_LAYER)
    for name in groups[0]:
        datasets = [group[name] for group in (groups[::kv_copies] if name in "kv" else groups)]
        if name == "cache_scales":  # every rank has them
            writer.write_array(layer, name, datasets[0][:], "<f4")
        elif name in HEAD_AXIS:
            _copy_heads(writer, layer, name, datasets, HEAD_AXIS[name])
        else:  # sinks
            writer.write_array(layer, name, np.concatenate([dataset[:] for dataset in datasets]), "<f4")


def _copy_heads(writer, layer, name, datasets, axis):
    """The data sets one behind the other along their heads."""
    shape = list(datasets[0].shape)
    shape[axis] = sum(dataset.shape[axis] for dataset in datasets)
    target = writer.create_values(layer, name, shape, dataset_type(datasets[0]))
    start = [0] * len(shape)
    for dataset in datasets:
        writer.write_values(target, tuple(start), read_bits(dataset))
        start[axis] += dataset.shape[axis]
