"""Tensors of ggml, the library under llama.cpp, as they lie in memory; through the libraries of llama-cpp-python."""
import ctypes
import functools

import numpy as np

from ..base.errors import AttestError

VIEWS = {"VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE", "CONT"}  # operations that keep the values
TYPES = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16, "i32": np.int32, "i64": np.int64}


class Tensor(ctypes.Structure):
    """struct ggml_tensor. ne: extents, fastest first; nb: their strides in bytes."""


Tensor._fields_ = [("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4),
                   ("nb", ctypes.c_size_t * 4), ("op", ctypes.c_int), ("op_params", ctypes.c_int32 * 16),
                   ("flags", ctypes.c_int32), ("src", ctypes.POINTER(Tensor) * 10),
                   ("view_src", ctypes.POINTER(Tensor)),
                   ("view_offs", ctypes.c_size_t), ("data", ctypes.c_void_p), ("name_", ctypes.c_char * 64)]


@functools.cache
def library():
    """The functions that are called here."""
    from llama_cpp import _ggml

    functions = _ggml.libggml
    for name, result, arguments in (
            ("ggml_op_name", ctypes.c_char_p, [ctypes.c_int]), ("ggml_type_name", ctypes.c_char_p, [ctypes.c_int]),
            ("ggml_nbytes", ctypes.c_size_t, [ctypes.c_void_p]), ("ggml_get_name", ctypes.c_char_p, [ctypes.c_void_p]),
            ("ggml_backend_tensor_get", None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t])):
        function = getattr(functions, name)
        function.restype, function.argtypes = result, arguments
    return functions


@functools.cache
def operation(number):
    """ggml's name of an operation, as the header's numbers differ by version."""
    return library().ggml_op_name(number).decode()


@functools.cache
def type_name(number):
    """"f16", "q8_0", ..."""
    return library().ggml_type_name(number).decode()


@functools.cache
def type_number(name):
    """The number of a type's name; None where this llama.cpp does not have it."""
    return next((number for number in range(64) if library().ggml_type_name(number) == name.encode()), None)


def tensor_at(address):
    """A tensor of ggml's, whose name is compared: the layout of the structure differs by version."""
    tensor = Tensor.from_address(address)
    if library().ggml_get_name(address) != tensor.name_:
        raise AttestError("the tensors of this llama.cpp are laid out in another way than those of llama-cpp-python "
                          "0.3.36, with which attest was tested")
    return tensor


def address(tensor):
    """The address of the structure, for calls of ggml."""
    return ctypes.addressof(tensor)


def name(tensor):
    """Whatever bytes a model gave its tensor."""
    return tensor.name_.decode(errors="replace")


def source(tensor, index):
    """The tensor that an operation reads, or None."""
    pointer = tensor.src[index]
    return pointer.contents if pointer else None


def origin(tensor):
    """The tensor whose values this one shows in another shape."""
    while operation(tensor.op) in VIEWS and tensor.src[0]:
        tensor = tensor.src[0].contents
    return tensor


def root(tensor):
    """The tensor whose memory a view shows."""
    while tensor.view_src:
        tensor = tensor.view_src.contents
    return tensor


def float_parameters(tensor):
    """The parameters of the tensor's operation, as float32."""
    return np.frombuffer(bytes(tensor.op_params), np.float32)


def values(tensor):
    """A copy, with the slowest axis first; of bfloat16 its bits."""
    kind = TYPES.get(type_name(tensor.type))
    if kind is None:
        raise AttestError(f"tensor {name(tensor)}: expected numbers of 16 or 32 bits, found {type_name(tensor.type)}")
    size = library().ggml_nbytes(address(tensor))
    memory = np.empty(size, np.uint8)
    library().ggml_backend_tensor_get(address(tensor), memory.ctypes.data, 0, size)
    shape, strides = tuple(tensor.ne)[::-1], tuple(tensor.nb)[::-1]
    return np.lib.stride_tricks.as_strided(memory.view(kind), shape, strides).copy()
