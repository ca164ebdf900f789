"""Writes attention dumps (dumps/README.md) as a stream, without changing element types or bits."""
import contextlib
import errno
import os
import re
import secrets

import h5py
import numpy as np

from dump_command import raise_if_interrupted, temporary_files
from dump_errors import OutputError, first_line

ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}


def hdf5_type(element_type):
    """The HDF5 type. bfloat16 has 1 sign bit, 8 exponent bits (bias 127) and 7 mantissa bits."""
    if element_type == "bfloat16":
        bfloat16 = h5py.h5t.IEEE_F16LE.copy()
        bfloat16.set_fields(15, 7, 8, 0, 7)
        bfloat16.set_ebias(127)
        return bfloat16
    return {"float16": h5py.h5t.IEEE_F16LE, "float32": h5py.h5t.IEEE_F32LE}[element_type]


def _creation_properties(kind):
    """Creation properties of files, groups or data sets without timestamps, so that the same content gives the same
    bytes."""
    properties = h5py.h5p.create(kind)
    properties.set_obj_track_times(False)
    return properties


class DumpWriter:
    """Writes to a temporary file in the target's folder. commit() gives it the target's name, so that no partial dump
    is visible. Without commit(), leaving the `with` removes it. Every failure to write is an OutputError."""

    def __init__(self, path, force=False, gzip_level=0):
        self.path, self.force, self.gzip_level = os.fspath(path), force, gzip_level
        self._refuse_existing()
        # Contains no part of the target's name, which may have the greatest allowed length.
        self.temporary = os.path.join(os.path.dirname(self.path), f".attest-{secrets.token_hex(8)}.part")
        temporary_files.add(self.temporary)
        with self._writing():
            self.descriptor = os.open(self.temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                                      0o666)
        try:
            with self._writing():
                self.file = self._create_file()
        except BaseException:
            self._remove()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Exception):
            self.file.close()
        self._remove()

    def require_space(self, needed):
        """Refuses at once what the file system has no room for. `needed` in bytes."""
        with self._writing():
            system = os.fstatvfs(self.descriptor)
        free = system.f_bavail * system.f_frsize
        if system.f_blocks and needed > free:
            raise OutputError(f"{self.path}: needs {needed / 1e9:.1f} GB, its file system has {free / 1e9:.1f} GB free")

    def write_header(self, **attributes):
        """Writes the attributes of the root, except those that are None."""
        with self._writing():
            self.file.attrs["format"], self.file.attrs["format_version"] = "attention-dump", 1
            for name, value in attributes.items():
                if value is not None:
                    self.file.attrs[name] = value

    def create_group(self, at, name, **attributes):
        with self._writing():
            group = h5py.Group(h5py.h5g.create(at.id, name.encode(), gcpl=_creation_properties(h5py.h5p.GROUP_CREATE)))
            for attribute, value in attributes.items():
                if value is not None:
                    group.attrs[attribute] = value
        return group

    def create_sample(self, name, task, num_tokens, positions, spans=(), span_labels=None, prompt_length=None):
        """Returns the sample's group, which has an empty group "layers"."""
        sample = self.create_group(self.file["samples"], name, task=task, num_tokens=num_tokens,
                                   prompt_length=prompt_length)
        self.create_group(sample, "layers")
        self.write_array(sample, "query_positions", positions, "<i8")
        if spans:
            self.write_array(sample, "spans", spans, "<i8")
            if span_labels:
                self.write_array(sample, "span_labels", span_labels, h5py.string_dtype())
        return sample

    def create_layer(self, sample, layer, sliding_window=None):
        return self.create_group(sample["layers"], str(layer), sliding_window=sliding_window)

    def create_values(self, layer, name, shape, element_type):
        """Creates q, k or v, to be written in parts. If compressed, a chunk is 8192 tokens of one head."""
        properties = _creation_properties(h5py.h5p.DATASET_CREATE)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # every element is written
        if self.gzip_level:
            properties.set_chunk((1, min(8192, shape[1]), shape[2]))
            properties.set_shuffle()
            properties.set_deflate(self.gzip_level)
        with self._writing():
            space = h5py.h5s.create_simple(tuple(shape))
            return h5py.Dataset(h5py.h5d.create(layer.id, name.encode(), hdf5_type(element_type), space, properties))

    def write_values(self, dataset, start, bits):
        """Writes `bits`, an array of integers as wide as the elements, at index `start`."""
        bits = np.ascontiguousarray(bits)
        with self._writing():
            target = dataset.id.get_space()
            target.select_hyperslab(start, bits.shape)
            dataset.id.write(h5py.h5s.create_simple(bits.shape), target, bits, dataset.id.get_type())

    def read_values(self, dataset):
        """What write_values wrote, read from the file: an array of integers as wide as the elements."""
        kind = dataset.id.get_type()
        bits = np.empty(dataset.shape, f"<i{kind.get_size()}")
        with self._writing():
            dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, bits, kind)
        return bits

    def write_array(self, group, name, values, dtype):
        """Writes a small array at once."""
        with self._writing():
            group.create_dataset(name, data=values, dtype=dtype)

    def commit(self):
        """Gives the dump its name, once the data are on the disk. Returns its size in bytes."""
        with self._writing():
            self.file.close()
            os.fsync(self.descriptor)
            size = os.fstat(self.descriptor).st_size
            self._refuse_existing()
            raise_if_interrupted()
            if self.force or not self._link():
                os.replace(self.temporary, self.path)
            self._sync_folder()
        return size

    def _create_file(self):
        access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
        access.set_alignment(1 << 20, 4096)  # large data sets begin at page boundaries
        access.set_libver_bounds(h5py.h5f.LIBVER_V18, h5py.h5f.LIBVER_V18)  # checksums; HDF5 1.8 and later read it
        # By its descriptor: by its name, another file could be put into its place in a folder that others may write to.
        path = f"/proc/self/fd/{self.descriptor}"
        file = h5py.File(h5py.h5f.create(os.fsencode(path if os.path.exists(path) else self.temporary),
                                         h5py.h5f.ACC_TRUNC, _creation_properties(h5py.h5p.FILE_CREATE), access))
        h5py.h5g.create(file.id, b"samples", gcpl=_creation_properties(h5py.h5p.GROUP_CREATE))
        return file

    def _sync_folder(self):
        """The name reaches the disk, too. A folder that may not be read cannot be opened; some file systems sync none."""
        try:
            folder = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:
            return
        try:
            os.fsync(folder)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        finally:
            os.close(folder)

    def _link(self):
        """A hard link never replaces a file, as a rename would. Some file systems have no hard links."""
        try:
            os.link(self.temporary, self.path)
        except FileExistsError:
            self._fail_existing()
        except OSError:
            return False
        return True

    def _refuse_existing(self):
        if os.path.lexists(self.path) and not self.force:
            self._fail_existing()
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise OutputError(f"{self.path}: expected a file that --force can replace, found something else")

    def _fail_existing(self):
        raise OutputError(f"{self.path}: exists already, expected a new file (or --force)")

    def _remove(self):
        with contextlib.suppress(OSError):
            os.unlink(self.temporary)
        temporary_files.discard(self.temporary)
        os.close(self.descriptor)

    @contextlib.contextmanager
    def _writing(self):
        raise_if_interrupted()
        try:
            yield
        except (OSError, RuntimeError) as error:  # h5py raises either type
            cause = re.search(r"error message = '([^']*)'", str(error))
            reason = cause[1] if cause else getattr(error, "strerror", None) or first_line(error)
            raise OutputError(f"{self.path}: cannot be written ({reason})") from error
