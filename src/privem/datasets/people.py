"""Synthetic people. There are no real records among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..parameters import check_int

__all__ = ["make_people"]

_COLUMNS = ("age", "height_cm", "weight_kg", "systolic_bp", "cholesterol", "income_k")

# Plausible values; a draw outside is drawn again, so that nothing piles up at a limit.
_LOW = np.array([16.0, 140.0, 40.0, 80.0, 90.0, 0.0])
_HIGH = np.array([100.0, 210.0, 150.0, 210.0, 360.0, 200.0])


@dataclass(frozen=True)
class _Group:
    share: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    income_with_age: float
    """Correlation of income with age: careers rise, pensions do not."""


# Students, people starting out, in mid-career, well paid, retired.
_GROUPS = (
    _Group(0.18, (21.5, 173, 67, 113, 164, 10), (2.3, 9.0, 10.5, 8.5, 25, 3.6), 0.45),
    _Group(0.24, (31, 173, 74, 118, 184, 34), (4.6, 9.0, 12.5, 9.5, 29, 7.5), 0.55),
    _Group(0.26, (47, 171, 81, 128, 212, 50), (7.0, 9.0, 14.0, 12.0, 34, 10.5), 0.25),
    _Group(0.11, (51, 175, 78, 124, 203, 98), (7.5, 8.5, 12.0, 11.5, 31, 19.0), 0.35),
    _Group(0.21, (72, 167, 75, 141, 202, 27), (6.5, 9.0, 12.5, 15.5, 35, 6.5), -0.15),
)

# Within every group: taller people weigh more, weight and age raise blood pressure, and so on.
_CORRELATIONS = {
    ("age", "height_cm"): -0.10,
    ("age", "weight_kg"): 0.12,
    ("age", "systolic_bp"): 0.30,
    ("age", "cholesterol"): 0.22,
    ("height_cm", "weight_kg"): 0.52,
    ("height_cm", "income_k"): 0.10,
    ("weight_kg", "systolic_bp"): 0.34,
    ("weight_kg", "cholesterol"): 0.20,
    ("systolic_bp", "cholesterol"): 0.20,
}


def make_people(
    n_samples: int = 1000, random_state: int | np.random.Generator | None = None
) -> pl.DataFrame:
    """Make synthetic records of people from five overlapping groups.

    The groups are students, people starting out, people in mid-career, the well paid and the
    retired. Within each group the measurements are jointly normal, truncated at plausible limits
    and rounded to one decimal.

    Parameters
    ----------
    n_samples : int, default=1000
        How many people.
    random_state : int, numpy.random.Generator or None
        The same number gives the same people.

    Returns
    -------
    polars.DataFrame
        One row per person: ``age`` (years), ``height_cm``, ``weight_kg``, ``systolic_bp`` (mmHg),
        ``cholesterol`` (mg/dL) and ``income_k`` (thousands a year), all floats.

    Examples
    --------
    >>> from privem.datasets import make_people
    >>> people = make_people(1000, random_state=0)
    >>> people.shape
    (1000, 6)
    >>> people.columns[:3]
    ['age', 'height_cm', 'weight_kg']
    >>> bool(people["age"].is_between(16, 100).all())
    True
    """
    count = check_int("n_samples", n_samples, 1)
    rng = np.random.default_rng(random_state)
    shares = [group.share for group in _GROUPS]
    member = rng.choice(len(shares), size=count, p=shares)
    people = np.empty((count, len(_COLUMNS)))
    for number, group in enumerate(_GROUPS):
        rows = np.flatnonzero(member == number)
        people[rows] = _draw(group, len(rows), rng)
    return pl.DataFrame(people.round(1), schema=list(_COLUMNS), orient="row")


def _draw(group: _Group, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    factor = np.linalg.cholesky(_correlation(group)) * np.array(group.deviation)[:, None]
    drawn = np.empty((count, len(_COLUMNS)))
    wanted = np.arange(count)
    while len(wanted):
        drawn[wanted] = group.mean + rng.standard_normal((len(wanted), len(_COLUMNS))) @ factor.T
        bad = ((drawn[wanted] < _LOW) | (drawn[wanted] > _HIGH)).any(axis=1)
        wanted = wanted[bad]
    return drawn


def _correlation(group: _Group) -> NDArray[np.float64]:
    matrix = np.eye(len(_COLUMNS))
    pairs = _CORRELATIONS | {("age", "income_k"): group.income_with_age}
    for (first, second), value in pairs.items():
        i, j = _COLUMNS.index(first), _COLUMNS.index(second)
        matrix[i, j] = matrix[j, i] = value
    return matrix
