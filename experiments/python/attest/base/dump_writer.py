"""Writes attention dumps (dumps/README.md) as a stream, without changing element types or bits."""
import h5py
import numpy as np

from .hdf5_output import Hdf5Output, creation_properties
from .stored_text import storable

ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
# What readers take as a softmax scale or soft-cap (dumps/format/dump_fields.cpp).
LEAST, MOST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
IN_FLOAT32 = f"a number that float32 holds, {LEAST:.2g} to {MOST:.2g}"


def float32_holds(value):
    """Whether a number is neither lost below the normal numbers nor infinite in float32."""
    return LEAST <= value <= MOST


def hdf5_type(element_type):
    """The HDF5 type. bfloat16 has 1 sign bit, 8 exponent bits (bias 127) and 7 mantissa bits."""
    if element_type == "bfloat16":
        bfloat16 = h5py.h5t.IEEE_F16LE.copy()
        bfloat16.set_fields(15, 7, 8, 0, 7)
        bfloat16.set_ebias(127)
        return bfloat16
    return {"float16": h5py.h5t.IEEE_F16LE, "float32": h5py.h5t.IEEE_F32LE}[element_type]


def rounded_bits(array, element_type):
    """Values of float32 rounded to the element type, half to even, as integers of its width."""
    wide = np.ascontiguousarray(array, np.float32)
    if element_type == "bfloat16":
        bits = wide.view(np.uint32)
        rounded = ((bits + np.uint32(0x7fff) + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(wide), np.uint16(0x7fc0), rounded)
    return wide.view("<i4") if element_type == "float32" else wide.astype(np.float16).view("<i2")


def dataset_type(dataset):
    """The name of a data set's element type; None if it is not one of q, k and v."""
    kind = dataset.id.get_type()
    return next((name for name in ITEM_BYTES if hdf5_type(name) == kind), None)


def read_bits(dataset):
    """The values of an open data set as integers as wide as the elements."""
    kind = dataset.id.get_type()
    bits = np.empty(dataset.shape, f"<i{kind.get_size()}")
    dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, bits, kind)
    return bits


class DumpWriter(Hdf5Output):
    def __init__(self, path, force=False, gzip_level=0):
        super().__init__(path, force)
        self.gzip_level = gzip_level
        try:
            self.create_group(self.file, "samples")
        except BaseException:
            self.close()
            raise

    def write_header(self, **attributes):
        """Writes the attributes of the root, except those that are None."""
        self.write_attributes(format="attention-dump", format_version=1, **attributes)

    def create_sample(self, name, task, num_tokens, positions, spans=(), span_labels=None, prompt_length=None,
                      document=None):
        """Returns the sample's group, which has an empty group "layers"."""
        sample = self.create_group(self.file["samples"], name, task=task, document=document, num_tokens=num_tokens,
                                   prompt_length=prompt_length)
        self.create_group(sample, "layers")
        self.write_array(sample, "query_positions", positions, "<i8")
        if spans:
            self.write_array(sample, "spans", spans, "<i8")
            if span_labels:
                self.write_array(sample, "span_labels", [*map(storable, span_labels)], h5py.string_dtype())
        return sample

    def create_layer(self, sample, layer, sliding_window=None):
        """The group of a layer; a window of None has no attribute: every earlier key is seen."""
        return self.create_group(sample["layers"], str(layer), sliding_window=sliding_window)

    def create_values(self, layer, name, shape, element_type):
        """Creates q, k, v or output, to be written in parts. If compressed, a chunk is 8192 tokens of one head."""
        properties = creation_properties(h5py.h5p.DATASET_CREATE)
        properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)  # every element is written
        if self.gzip_level:
            properties.set_chunk((1, min(8192, shape[1]), shape[2]))
            properties.set_shuffle()
            properties.set_deflate(self.gzip_level)
        with self.writing():
            space = h5py.h5s.create_simple(tuple(shape))
            return h5py.Dataset(h5py.h5d.create(layer.id, name.encode(), hdf5_type(element_type), space, properties))

    def write_values(self, dataset, start, bits):
        """Writes `bits`, an array of integers as wide as the elements, at index `start`."""
        bits = np.ascontiguousarray(bits)
        with self.writing():
            target = dataset.id.get_space()
            target.select_hyperslab(start, bits.shape)
            dataset.id.write(h5py.h5s.create_simple(bits.shape), target, bits, dataset.id.get_type())

    def read_values(self, dataset):
        """What write_values wrote, read from the file: an array of integers as wide as the elements."""
        with self.writing():
            return read_bits(dataset)
