"""Text that HDF5 can hold: the names of a dump's samples, and any other."""

SAMPLE_NAME = "the name of one HDF5 group: UTF-8 text that is neither empty nor \".\", without '/' and NUL"


def is_sample_name(name):
    """Whether HDF5 can have a group of that name: no path, no byte 0, no half of a surrogate pair."""
    return name not in ("", ".") and not any(c in "/\0" or "\ud800" <= c <= "\udfff" for c in name)


def storable(text):
    """HDF5's strings end at a NUL, and JSON and UTF-8 have no lone surrogates."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()
