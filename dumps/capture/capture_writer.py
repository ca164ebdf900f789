"""Writes an attention dump (see README.md) from tensors, streaming, element types kept."""
import contextlib
import os
import pathlib

import h5py
import torch

from capture_errors import OutputError


def element_type(dtype):
    """The HDF5 type of a torch dtype. bfloat16: 1 sign, 8 exponent (bias 127) and 7 mantissa bits."""
    if dtype == torch.bfloat16:
        bfloat16 = h5py.h5t.IEEE_F16LE.copy()
        bfloat16.set_fields(15, 7, 8, 0, 7)
        bfloat16.set_ebias(127)
        return bfloat16
    return {torch.float16: h5py.h5t.IEEE_F16LE, torch.float32: h5py.h5t.IEEE_F32LE}[dtype]


class DumpWriter:
    """A temporary file beside the target, which takes its name when complete: nobody sees half a dump."""

    def __init__(self, path, force=False, gzip_level=0):
        self.path, self.force, self.gzip_level = pathlib.Path(path), force, gzip_level
        self._refuse_existing()
        self.temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        self.file = h5py.File(self.temporary, "w")

    def _refuse_existing(self):
        if self.path.is_dir() or (self.path.exists() and not self.force):
            raise OutputError(f"{self.path}: exists (--force overwrites a file)")

    def create_sample(self, name, num_tokens, prompt_length, task, positions, tokenized):
        group = self.file.create_group(f"samples/{name}")
        group.attrs["task"] = task
        group.attrs["num_tokens"] = num_tokens
        group.attrs["prompt_length"] = prompt_length
        group.create_dataset("query_positions", data=positions, dtype="<i8")
        if tokenized.spans:
            group.create_dataset("spans", data=tokenized.spans, dtype="<i8")
            if tokenized.span_labels:
                group.create_dataset("span_labels", data=tokenized.span_labels, dtype=h5py.string_dtype())
        return group

    def create_values(self, group, name, shape, dtype):
        """q, k or v, to be written in parts. Compressed, a chunk is one head's next 8192 tokens."""
        options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        options.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # every element is written
        options.set_obj_track_times(False)
        if self.gzip_level:
            options.set_chunk((1, min(8192, shape[1]), shape[2]))
            options.set_shuffle()
            options.set_deflate(self.gzip_level)
        space = h5py.h5s.create_simple(shape)
        h5py.h5d.create(group.id, name.encode(), element_type(dtype), space, options)

    @staticmethod
    def write_values(dataset, axis, begin, tensor):
        """Writes `tensor` at `begin` of `axis`, bits unchanged."""
        bits = torch.int16 if tensor.element_size() == 2 else torch.int32
        array = tensor.contiguous().cpu().view(bits).numpy()
        start = tuple(begin if i == axis else 0 for i in range(array.ndim))
        target = dataset.id.get_space()
        target.select_hyperslab(start, array.shape)
        dataset.id.write(h5py.h5s.create_simple(array.shape), target, array, element_type(tensor.dtype))

    def commit(self):
        """Returns the size of the dump in bytes."""
        self.file.close()
        self._refuse_existing()
        os.replace(self.temporary, self.path)
        return self.path.stat().st_size

    def discard(self):
        with contextlib.suppress(Exception):
            self.file.close()
        self.temporary.unlink(missing_ok=True)
