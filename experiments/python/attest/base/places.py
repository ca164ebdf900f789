"""Where the parts of attest are: in a checkout, or installed by pip."""
import hashlib
import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def checkout():
    """The root of the checkout that this package is a part of; None: it is installed."""
    root = PACKAGE.parents[2]
    return root if (root / "CMakePresets.json").is_file() else None


def built(name):
    """Files called `name` that the checkout has built, the newest first."""
    root = checkout()
    paths = [root / "build" / preset / name for preset in ("release", "cpu")] if root else []
    found = [path for path in paths if path.exists()]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def code_digest():
    """A hash of this package's code. A version would not do: that of a checkout stays while the code changes."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(f"{path.relative_to(PACKAGE)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
