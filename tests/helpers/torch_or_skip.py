"""Skips the module that imports this one where torch and transformers are not installed."""
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (cmake/setup.sh --torch)")
transformers = pytest.importorskip("transformers", reason="transformers is not installed (cmake/setup.sh --torch)")
