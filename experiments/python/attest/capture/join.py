"""Joins the dumps of single prompts."""
import h5py

from ..base.dump_writer import DumpWriter
from ..base.errors import InputError, first_line
from ..base.inspected import ADVICE, OF_A_LAYER, OF_A_SAMPLE, refuse_bad_dump, refuse_unknown
from .one_kind import refuse_other_kinds


def join_dumps(paths, target, force, gzip_level=0, ends_command=False):
    """One dump of all samples. The dumps are of the same model; layers of another kind are refused. `ends_command`: as
    of commit()."""
    header = None
    with DumpWriter(target, force, gzip_level) as writer:
        for path in paths:
            refuse_bad_dump(path, "a dump of this capture", ADVICE)
            try:
                with h5py.File(path) as part:
                    attributes = dict(part.attrs)
                    if header is None:
                        header = attributes
                        writer.write_attributes(**header)
                    refuse_other_kinds(path, attributes, header, "prompts")
                    refuse_unknown_parts(part)
                    with writer.writing():
                        for name in part["samples"]:
                            part.copy(part["samples"][name], writer.file["samples"], name)
            except (OSError, LookupError, ValueError, AttributeError, RuntimeError) as error:
                raise InputError(f"{path}: is damaged ({first_line(error)}){ADVICE}") from error
        return writer.commit(ends_command)


def refuse_unknown_parts(dump):
    """What the reader does not know of a dump would be copied with the rest."""
    for sample in dump["samples"].values():
        refuse_unknown(sample, OF_A_SAMPLE)
        for layer in sample["layers"].values():
            refuse_unknown(layer, OF_A_LAYER)
