"""All data sets of a results file, to compare two files bit for bit."""
import h5py


def data_of(path):
    """Type, shape and bytes by name. The manifest is an attribute and not among them."""
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            value = item[()]
            found[name] = (value.dtype.str, value.shape, value.tolist() if value.dtype == object else value.tobytes())

    with h5py.File(path) as file:
        file.visititems(visit)
    return found
