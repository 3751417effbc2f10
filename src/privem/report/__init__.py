"""What people look at: tables of records, pictures."""

from .pairs import MissingExtra, draw_pairs
from .records import RECORD_SUFFIXES, print_csv, write_records

__all__ = ["RECORD_SUFFIXES", "MissingExtra", "draw_pairs", "print_csv", "write_records"]
