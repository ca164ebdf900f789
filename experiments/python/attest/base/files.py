"""Untrusted files: only regular files, read at any offset, with bounds on the JSON in them."""
import json
import os
import stat

from .errors import InputError, printable

MAX_READ_BYTES = 1 << 30  # Linux reads less than 2^31 bytes in one call
MAX_JSON_BYTES = 16 << 20  # enough for 150,000 tensors; json.loads needs up to 30 times this much memory


KINDS = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket",
         stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFLNK: "a link"}


def kind_of(mode):
    """What a path names, by st_mode, in the words of messages."""
    return KINDS.get(stat.S_IFMT(mode), "something else")


class InputFile:
    def __init__(self, path):
        self.path = path
        try:
            # O_NONBLOCK: opening a pipe would otherwise block for ever
            self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:  # ValueError: not a path, such as one with a null byte
            raise InputError(f"{path}: cannot be opened ({getattr(error, 'strerror', error)})") from error
        status = os.fstat(self.descriptor)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise InputError(f"{path}: expected a file, found {kind_of(status.st_mode)}")
        self.size = status.st_size

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Gives the descriptor back; the bytes that were read stay."""
        os.close(self.descriptor)

    def read(self, offset, size):
        """Exactly `size` bytes from byte `offset` on; a file that ends before is refused."""
        parts = []
        while size:
            try:
                part = os.pread(self.descriptor, min(size, MAX_READ_BYTES), offset)
            except OSError as error:
                raise InputError(f"{self.path}: cannot be read ({error.strerror})") from error
            if not part:
                raise InputError(f"{self.path}: ends at byte {offset}, expected {size} more")
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts)


class FileBytes:
    """Reads the bytes of a file from `begin` on, in order."""

    def __init__(self, path, begin):
        self.file, self.position = InputFile(path), begin

    def read(self, size):
        """The next `size` bytes."""
        data = self.file.read(self.position, size)
        self.position += size
        return data

    def close(self):
        """Gives the descriptor of the file back."""
        self.file.close()


def in_quotes(name):
    """Quotes a name from an untrusted file for a message: on one line, at most 120 characters."""
    name = str(name)
    return "'" + printable(name[:120]) + ("...'" if len(name) > 120 else "'")


def parse_json(text, place):
    """Parses bytes, whose number the caller bounds. `place` begins the InputError's message. Duplicate keys are
    refused."""
    def unique(pairs):
        values = dict(pairs)
        if len(values) < len(pairs):
            seen = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))
            raise InputError(f"{place}: expected each name once, found {in_quotes(twice)} twice")
        return values

    def no_constant(name):
        raise ValueError(f"the number {name}")

    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant)
    except RecursionError as error:
        raise InputError(f"{place}: expected JSON of a few levels, found more") from error
    except ValueError as error:
        raise InputError(f"{place}: expected JSON, found {in_quotes(error)}") from error
