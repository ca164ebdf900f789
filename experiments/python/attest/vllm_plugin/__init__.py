"""A plugin of vLLM that writes attention dumps of what its attention layers compute (experiments/manual/engines.md)."""
import os

from .settings import read_settings


def register():
    """vLLM calls this in each of its processes. Without ATTEST_VLLM_FOLDER it does nothing."""
    settings = read_settings(os.environ)
    if settings is not None:
        from .worker import install

        install(settings)
