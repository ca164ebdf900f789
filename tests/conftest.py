"""Processes that tests start find the package, too, and a test that is run by hand its checkout."""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ["PYTHONPATH"] = str(ROOT / "experiments/python")
os.environ.setdefault("ATTEST_SOURCE_DIR", str(ROOT))


def pytest_make_parametrize_id(val):
    """The name of a test stands in the environment of the processes that it starts, which has little room."""
    if isinstance(val, (str, bytes)) and len(val) > 100:
        return f"{val[:40]!a}..."
