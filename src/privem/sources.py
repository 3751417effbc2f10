"""Some of :mod:`privem.data` under an earlier name."""

from .data import LocalSource, read_file, read_rows, read_table

__all__ = ["LocalSource", "read_file", "read_rows", "read_table"]
