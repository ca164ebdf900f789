"""Processes that tests start find the package, too."""
import os
import pathlib

os.environ["PYTHONPATH"] = str(pathlib.Path(__file__).resolve().parents[1] / "experiments/python")


def pytest_make_parametrize_id(val):
    """The name of a test stands in the environment of the processes that it starts, which has little room."""
    if isinstance(val, (str, bytes)) and len(val) > 100:
        return f"{val[:40]!a}..."
