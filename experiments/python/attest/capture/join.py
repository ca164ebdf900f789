"""Joins the dumps of single prompts."""
import h5py

from ..base.dump_writer import DumpWriter
from ..base.errors import InputError, first_line
from .one_kind import refuse_other_kinds


def join_dumps(paths, target, force, gzip_level=0, ends_command=False):
    """One dump of all samples. The dumps are of the same model; layers of another kind are refused. `ends_command`: as
    of commit()."""
    header = None
    with DumpWriter(target, force, gzip_level) as writer:
        for path in paths:
            try:
                with h5py.File(path) as part:
                    attributes = dict(part.attrs)
                    if header is None:
                        header = attributes
                        writer.write_attributes(**header)
                    refuse_other_kinds(path, attributes, header, "prompts")
                    with writer.writing():
                        for name in part["samples"]:
                            part.copy(part["samples"][name], writer.file["samples"], name)
            except (OSError, KeyError) as error:
                raise InputError(f"{path}: is damaged ({first_line(error)}); remove it, and --resume makes it "
                                 "again") from error
        return writer.commit(ends_command)
