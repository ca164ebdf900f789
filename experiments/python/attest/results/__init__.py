"""Results files of `attest run` as xarray and pandas (README.md)."""
from .study_file import cells, dataset, manifest, selectors

__all__ = ["cells", "dataset", "manifest", "selectors"]
