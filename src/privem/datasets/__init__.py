"""Synthetic people, and the public data sets of the papers.

Files of public data are looked for in the folder that the variable ``PRIVEM_DATA`` names, then in
a cache (``~/.cache/privem``). What can be fetched from its original source is, once, and only
if its checksum is right.
"""

from .files import DataNotFound
from .people import make_people
from .real import (
    load_adult,
    load_gowalla,
    load_ipums,
    load_life_sciences,
    load_olivetti,
    load_parkinsons,
)

__all__ = [
    "DataNotFound",
    "load_adult",
    "load_gowalla",
    "load_ipums",
    "load_life_sciences",
    "load_olivetti",
    "load_parkinsons",
    "make_people",
]
