"""Records drawn from a fitted model: all that a page or a picture shows of data."""

from __future__ import annotations

import warnings
from typing import Any

import polars as pl

# The same model has the same page.
_SEED = 0


def draw_from(model: Any, rows: int) -> pl.DataFrame | None:
    """Records drawn from a model, always the same ones; ``None`` if it is no distribution of rows.

    Examples
    --------
    >>> draw_from(object(), 10) is None
    True
    """
    if not hasattr(model, "sample_frame"):
        return None
    twin = object.__new__(type(model))
    vars(twin).update(vars(model))
    twin.random_state = _SEED
    with warnings.catch_warnings():
        # What there is to say of a model is in words on the page.
        warnings.simplefilter("ignore", UserWarning)
        frame: pl.DataFrame = twin.sample_frame(rows, "polars")
    return frame
