"""What people look at: files written whole, tables of records, pictures."""

from .extras import MissingExtra
from .pairs import draw_pairs
from .records import RECORD_SUFFIXES, print_csv, write_records
from .writing import CannotWrite, check_destination, write_whole

__all__ = [
    "RECORD_SUFFIXES",
    "CannotWrite",
    "MissingExtra",
    "check_destination",
    "draw_pairs",
    "print_csv",
    "write_records",
    "write_whole",
]
