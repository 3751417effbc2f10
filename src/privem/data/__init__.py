"""Where rows come from: arrays, frames, files; read in blocks, never all at once."""

from .array import ArrayRows
from .categories import read_table
from .files import read_file
from .frame import FrameRows
from .local import LocalSource
from .read import is_path, is_rows, is_table, read_rows

__all__ = [
    "ArrayRows",
    "FrameRows",
    "LocalSource",
    "is_path",
    "is_rows",
    "is_table",
    "read_file",
    "read_rows",
    "read_table",
]
