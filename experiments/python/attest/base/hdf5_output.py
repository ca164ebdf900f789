"""Writes HDF5 files that appear whole, and whose bytes depend on their content alone."""
import contextlib
import errno
import os
import re

import h5py

from .errors import OutputError, first_line
from .files import kind_of
from .output_check import fail_existing
from .signals import end_interruptions, raise_if_interrupted
from .stored_text import storable
from .temporary import remove_temporary, temporary_beside


def creation_properties(kind):
    """Creation properties of files, groups or data sets without timestamps, so that the same content gives the same
    bytes."""
    properties = h5py.h5p.create(kind)
    properties.set_obj_track_times(False)
    return properties


def _write_attributes(item, attributes):
    """A name on the command line need not be UTF-8, and the run that it stands for has taken hours."""
    for name, value in attributes.items():
        if value is not None:
            item.attrs[name] = storable(value) if isinstance(value, str) else value


class Hdf5Output:
    """Writes to a temporary file in the target's folder. commit() gives it the target's name, so that no partial file
    is visible. Without commit(), leaving the `with` removes it. Every failure to write is an OutputError."""

    def __init__(self, path, force=False):
        self.path, self.force = os.fspath(path), force
        self._refuse_existing()
        self.temporary = temporary_beside(self.path)
        with self.writing():
            self.descriptor = os.open(self.temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                                      0o666)
        try:
            with self.writing():
                self.file = self._create_file()
        except BaseException:
            self._remove()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Without commit() before, nothing is left of the file."""
        with contextlib.suppress(Exception):
            self.file.close()
        self._remove()

    def require_space(self, needed):
        """Refuses at once what the file system has no room for. `needed` in bytes."""
        with self.writing():
            system = os.fstatvfs(self.descriptor)
        free = system.f_bavail * system.f_frsize
        if system.f_blocks and needed > free:
            raise OutputError(f"{self.path}: needs {needed / 1e9:.1f} GB, its file system has {free / 1e9:.1f} GB free")

    def write_attributes(self, **attributes):
        """Writes attributes of the root, except those that are None."""
        with self.writing():
            _write_attributes(self.file, attributes)

    def create_group(self, at, name, **attributes):
        """A group below `at`; attributes that are None are left out."""
        with self.writing():
            group = h5py.Group(h5py.h5g.create(at.id, name.encode(), gcpl=creation_properties(h5py.h5p.GROUP_CREATE)))
            _write_attributes(group, attributes)
        return group

    def write_array(self, group, name, values, dtype, **attributes):
        """Writes a small array at once."""
        with self.writing():
            group.create_dataset(name, data=values, dtype=dtype).attrs.update(attributes)

    def commit(self, ends_command=False):
        """Gives the file its name, once the data are on the disk. Returns its size in bytes. `ends_command`: nothing
        that follows may be interrupted, since the command has done what it should."""
        with self.writing():
            self.file.close()
            os.fsync(self.descriptor)
            size = os.fstat(self.descriptor).st_size
            self._refuse_existing()
            if ends_command:
                end_interruptions()
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
        return h5py.File(h5py.h5f.create(os.fsencode(path if os.path.exists(path) else self.temporary),
                                         h5py.h5f.ACC_TRUNC, creation_properties(h5py.h5p.FILE_CREATE), access))

    def _sync_folder(self):
        """The name reaches the disk, too. A folder that may not be read cannot be opened (EACCES); some file systems
        sync none (EINVAL)."""
        try:
            folder = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EINVAL):
                raise OutputError(f"{self.path}: is written, but its folder cannot be synced "
                                  f"({error.strerror})") from error

    def _link(self):
        """A hard link never replaces a file, as a rename would. Some file systems have no hard links."""
        try:
            os.link(self.temporary, self.path)
        except FileExistsError:
            fail_existing(self.path)
        except OSError:
            return False
        return True

    def _refuse_existing(self):
        try:
            os.lstat(self.path)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # said before the work, not when the file gets its name
                raise OutputError(f"{self.path}: cannot be written ({error.strerror})") from error
        if os.path.lexists(self.path) and not self.force:
            fail_existing(self.path)
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise OutputError(f"{self.path}: expected a file that --force can replace, found "
                              f"{kind_of(os.stat(self.path).st_mode)}")

    def _remove(self):
        remove_temporary(self.temporary)
        os.close(self.descriptor)

    @contextlib.contextmanager
    def writing(self):
        """Around calls of h5py: what fails in it, as on a full disk, is an OutputError with HDF5's own reason."""
        raise_if_interrupted()
        try:
            yield
        except (OSError, RuntimeError) as error:  # h5py raises either type
            cause = re.search(r"error message = '([^']*)'", str(error))
            reason = cause[1] if cause else getattr(error, "strerror", None) or first_line(error)
            raise OutputError(f"{self.path}: cannot be written ({reason})") from error
