"""Missing values in streams: one look at them before a private fit spends anything."""

from __future__ import annotations

import numpy as np

from ..core import Rows
from .checks import CONTAINS_NAN
from .scan import ScanRows

__all__ = ["refuse_gaps"]


def refuse_gaps(rows: Rows, target: bool = False, allowed: bool = False) -> None:
    """Raise if a value is missing: all that a private fit says about single values of a stream.

    It says neither where nor how many, as for arrays and frames, and the caller alone hears it. A
    file's columns are searched by polars in one pass, over the columns fitted only. What is missing
    in a later pass all the same, because the file was changed meanwhile, is mapped by the fixed
    rule of the queries (:meth:`privem.blocks.region.Region.to_unit`): the noise covers it.

    Parameters
    ----------
    rows : Rows
        Opened without checks of their own.
    target : bool
        Whether the last column is a target.
    allowed : bool
        Whether values may be missing, in all columns but the target.
    """
    x, y, weight = _in_file(rows, target) if isinstance(rows, ScanRows) else _in(rows, target)
    if x and not allowed:
        raise ValueError(CONTAINS_NAN)
    if y:
        raise ValueError("Input y contains NaN: remove or impute missing values first")
    if weight:
        raise ValueError("sample_weight contains NaN")


def _in_file(rows: ScanRows, target: bool) -> tuple[bool, bool, bool]:
    """Whether the features, the target and the weights have gaps, by polars."""
    last = len(rows.names) - target
    by_name = [rows.weight] if isinstance(rows.weight, str) else []
    x, y, weight = rows.missing(rows.names[:last], rows.names[last:], by_name)
    if isinstance(rows.weight, np.ndarray):
        weight = bool(np.isnan(rows.weight).any())
    return x, y, weight


def _in(rows: Rows, target: bool) -> tuple[bool, bool, bool]:
    """The same of any rows, block by block."""
    found = np.zeros(3, dtype=np.bool_)
    last = rows.n_features - target
    for block in rows.blocks(65_536):
        with np.errstate(over="ignore", invalid="ignore"):
            # A sum is NaN if one of its terms is: no temporary in the usual case.
            if np.isnan(np.sum(block.X, dtype=np.float64)):
                bad = np.isnan(block.X)
                found[:2] |= [bad[:, :last].any(), bad[:, last:].any()]
        if block.weight is not None:
            found[2] |= bool(np.isnan(block.weight).any())
    return bool(found[0]), bool(found[1]), bool(found[2])
