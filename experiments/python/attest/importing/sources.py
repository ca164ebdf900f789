"""Named arrays of safetensors files, npz archives, and folders of them, found from their headers alone."""
import os

from ..base.errors import InputError
from ..base.files import InputFile, MAX_JSON_BYTES, in_quotes, parse_json
from .npz import npz_arrays
from .safetensors import safetensors_arrays


def open_source(path):
    """The arrays of a file or a folder. In a folder with NAME.safetensors.index.json these are the arrays of the files
    that it lists, else of all files *.safetensors and *.npz. If a name occurs in several files of a folder, every array
    is called FILE/NAME, where FILE has no extension."""
    if not os.path.isdir(path):
        return _open_file(path)
    arrays = [array for file in _files_of_folder(path) for array in _open_file(file)]
    if len({array.name for array in arrays}) < len(arrays):
        for array in arrays:
            array.name = f"{os.path.splitext(os.path.basename(array.file))[0]}/{array.name}"
    return arrays


def _open_file(path):
    with InputFile(path) as file:
        start = file.read(0, min(file.size, 9))
        if start.startswith(b"PK"):
            return npz_arrays(file)
        if start[8:] == b"{":
            return safetensors_arrays(file)
    if start.startswith(b"\x89HDF"):
        raise InputError(f"{path}: expected safetensors or npz, found HDF5 (a dump needs no import)")
    if start.startswith(b"\x93NUMPY"):
        raise InputError(f"{path}: expected safetensors or npz, found a single NumPy array (numpy.savez holds several)")
    raise InputError(f"{path}: expected safetensors or npz, found neither")


def _files_of_folder(folder):
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from error
    indices = [name for name in names if name.endswith(".safetensors.index.json")]
    if len(indices) > 1:
        raise InputError(f"{folder}: expected one *.safetensors.index.json, found {len(indices)}")
    names = [name for name in names if name.endswith((".safetensors", ".npz"))]
    if indices:
        names = _indexed_names(os.path.join(folder, indices[0]))
    if not names:
        raise InputError(f"{folder}: expected *.safetensors or *.npz files, found none")
    return [os.path.join(folder, name) for name in names]


def _indexed_names(index):
    """The distinct files that a safetensors index names."""
    with InputFile(index) as file:
        if file.size > MAX_JSON_BYTES:
            raise InputError(f"{index}: expected an index of at most {MAX_JSON_BYTES} bytes, found {file.size}")
        described = parse_json(file.read(0, file.size), index)
    weight_map = described.get("weight_map") if isinstance(described, dict) else None
    if not isinstance(weight_map, dict):
        raise InputError(f"{index}: expected a JSON object with an object 'weight_map', found none")
    names = set()
    for name in weight_map.values():
        if not isinstance(name, str):
            raise InputError(f"{index}: expected file names in 'weight_map', found another type")
        if name in ("", ".", "..") or "/" in name or "\0" in name or len(name) > 255:  # stays in the folder
            raise InputError(f"{index}: expected a file name in 'weight_map', found {in_quotes(name)}")
        names.add(name)
    return sorted(names)
