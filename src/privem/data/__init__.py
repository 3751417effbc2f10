"""Where rows come from: arrays, frames, files and others; summed in blocks, never read whole."""

from . import dask as dask
from . import kinds as kinds
from .categories import read_table
from .cluster import on_cluster
from .device import rows_on
from .files import read_file
from .sums import ArrayRows, LocalSource
from .table import Policy, Table, open_table, read_rows, register

__all__ = [
    "ArrayRows",
    "LocalSource",
    "Policy",
    "Table",
    "on_cluster",
    "open_table",
    "read_file",
    "read_rows",
    "read_table",
    "register",
    "rows_on",
]
