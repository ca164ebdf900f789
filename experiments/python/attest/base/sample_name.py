"""The names that a dump's samples can have."""

SAMPLE_NAME = "the name of one HDF5 group: UTF-8 text that is neither empty nor \".\", without '/' and NUL"


def is_sample_name(name):
    return name not in ("", ".") and not any(c in "/\0" or "\ud800" <= c <= "\udfff" for c in name)
