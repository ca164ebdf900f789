"""Shares a study among the workers of an executor (README.md)."""
from .study import run

__all__ = ["run"]
