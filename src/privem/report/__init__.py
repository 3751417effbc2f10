"""What people look at: tables of records, pictures."""

from .pairs import MissingExtra, draw_pairs
from .records import RECORD_SUFFIXES, print_csv, write_records
from .tables import Shares, draw_tables

__all__ = [
    "RECORD_SUFFIXES",
    "MissingExtra",
    "Shares",
    "draw_pairs",
    "draw_tables",
    "print_csv",
    "write_records",
]
