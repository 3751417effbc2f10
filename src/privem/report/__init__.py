"""What people look at: tables of records, pictures, pages."""

from .compare import Comparison
from .page import Report
from .pairs import MissingExtra, draw_pairs
from .records import RECORD_SUFFIXES, print_csv, write_records

__all__ = [
    "RECORD_SUFFIXES",
    "Comparison",
    "MissingExtra",
    "Report",
    "draw_pairs",
    "print_csv",
    "write_records",
]
