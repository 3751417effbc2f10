"""The demonstration: synthetic people, a private mixture fitted from a file, what it costs.

And a mixed table of them, with categories, gaps and dates, beside a synthetic one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.exceptions import ConvergenceWarning

from .datasets import make_people
from .linalg import Array
from .models.gaussian_mixture.estimator import GaussianMixture
from .models.table_mixture.estimator import TableMixture
from .models.table_mixture.imputing import known_cells
from .models.table_mixture.picture import Shares, draw_tables
from .report import MissingExtra, draw_pairs, write_records
from .schema import Schema

COMPONENTS, EPSILON = 5, 1.0

# What anybody would write down without having seen a single record.
_LIMITS = {
    "age": (0, 120),
    "height_cm": (100, 230),
    "weight_kg": (20, 250),
    "systolic_bp": (50, 250),
    "cholesterol": (50, 500),
    "income_k": (0, 500),
}
_PAIRS = (("age", "income_k"), ("age", "systolic_bp"), ("income_k", "cholesterol"))
_LABELS = {
    "age": "age, years",
    "income_k": "income, thousands a year",
    "systolic_bp": "systolic blood pressure, mmHg",
    "cholesterol": "cholesterol, mg/dL",
}
_SCHEMA = Schema(
    {
        "age": (int, 0, 120),
        "years_employed": (int, 0, 80),
        "occupation": ["student", "employed", "retired"],
        "smoker": bool,
        "income_k": {"bounds": [0, 500], "decimals": 1},
        "visited": ("2025-01-01", "2025-12-31"),
    },
    missing=["income_k"],
    constraints=["years_employed <= age"],
)


@dataclass(frozen=True)
class Demo:
    """What the demonstration found, and where it put things.

    The three scores are mean log-densities of people that no fit has seen. They are exact. For real
    people that would be an unpaid release, but these people are synthetic.
    """

    model: GaussianMixture
    """The private mixture: what would be published."""
    rows: int
    held_out: int
    exact: float
    """Score of exact EM with as many components."""
    private: float
    """Score of ``model``."""
    single: float
    """Score of one Gaussian with the same budget: what a private mixture has to beat."""
    table: TableMixture
    """The private model of the mixed table."""
    columns: float
    """How far single columns of its synthetic table are from the people's: mean total variation."""
    pairs: float
    """The same of pairs of columns."""
    files: dict[str, Path]
    remark: str
    """Why something is missing; empty if nothing is."""


def run_demo(
    out: str | Path = "demo",
    rows: int = 200_000,
    random_state: int = 0,
    say: Callable[[str], object] = lambda text: None,
) -> Demo:
    """Make people, fit them privately from a file, compare, sample, draw.

    Parameters
    ----------
    out : path-like
        A folder for the results; made if it does not exist.
    rows : int, default=200_000
        How many people.
    random_state : int, default=0
        The same number gives the same people. Noise is fresh every time, whatever the number.
    say : callable
        Receives pieces of text while the work goes on.

    Examples
    --------
    >>> import tempfile
    >>> demo = run_demo(tempfile.mkdtemp(), rows=500)
    >>> sorted(demo.files)[:2]
    ['model', 'people']
    >>> demo.model.privacy_.epsilon
    1.0
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "people": folder / "people.parquet",
        "model": folder / "model.json",
        "synthetic": folder / "synthetic.parquet",
        "table": folder / "table.parquet",
        "synthetic_table": folder / "synthetic-table.parquet",
    }
    held_out = max(rows // 5, 100)
    step = partial(_step, say)

    with step(f"make {rows:,} people who do not exist"):
        people, others = make_people(rows, random_state), make_people(held_out, random_state + 1)
        write_records(files["people"], people.columns, rows, [people])

    def private(components: int) -> GaussianMixture:
        mixture = GaussianMixture(
            components,
            epsilon=EPSILON,
            bounds=_LIMITS,
            random_state=random_state,
            ledger=False,  # these people need no budget
        )
        return mixture.fit(files["people"])

    with step(f"fit {COMPONENTS} components with epsilon {EPSILON:g}, reading the file"):
        model = private(COMPONENTS)
        model.save(files["model"])
    with step("fit a single Gaussian with the same budget"):
        single = private(1)
    with step(f"fit {COMPONENTS} components exactly, for comparison"):
        exact = _fit_exactly(people)
    with step(f"draw {rows:,} records from the private model"):
        synthetic = model.sample_frame(rows)
        write_records(files["synthetic"], synthetic.columns, rows, [synthetic])
    mixed = _mixed(people, np.random.default_rng(random_state))
    write_records(files["table"], mixed.columns, rows, [mixed])
    with step("fit a table with categories, gaps and dates"):
        table = TableMixture(
            schema=_SCHEMA, epsilon=EPSILON, random_state=random_state, ledger=False
        )
        table.fit(files["table"])
    with step(f"draw {rows:,} rows of a synthetic table"):
        drawn = table.sample_frame(rows)
        write_records(files["synthetic_table"], drawn.columns, rows, [drawn])
        one, other = (
            Shares.of(known_cells(table.schema_, frame), table.schema_, table.bins_)
            for frame in (mixed, drawn)
        )
    with step("draw the pictures"):
        remark = _picture(folder / "demo.png", model, people, synthetic)
        if not remark:
            title = "A table of people who do not exist, and a private synthetic one"
            names = (f"{rows:,} people", "synthetic, epsilon 1")
            about = (table.schema_, table.bins_, one, other)
            draw_tables(folder / "table.png", *about, names=names, title=title)
    if not remark:
        files |= {"picture": folder / "demo.png", "table_picture": folder / "table.png"}
    best, mine, least = (mixture.score(others) for mixture in (exact, model, single))
    columns = _distance(one.cells, other.cells)
    pairs = _distance(list(one.pairs.values()), list(other.pairs.values()))
    return Demo(model, rows, held_out, best, mine, least, table, columns, pairs, files, remark)


def _mixed(people: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """The same people as a mixed table: whole numbers, categories, yes or no, gaps, dates."""
    n = people.height
    age = people["age"].to_numpy().astype(np.int64)
    income = people["income_k"].to_numpy()
    working = np.clip(np.minimum(age, 66) - 20 - rng.poisson(4, n), 0, None)
    smokes = rng.random(n) < np.where(people["cholesterol"].to_numpy() > 200, 0.3, 0.12)
    # The well paid say less often what they earn.
    says = rng.random(n) > np.clip(income / 300, 0.05, 0.5)
    days = 365 * rng.beta(2, 2, n) * (1 - 0.3 * smokes)
    return pl.DataFrame(
        {
            "age": age,
            "years_employed": np.where(income < 15, np.minimum(working, 3), working),
            "occupation": np.where(
                age > 64, "retired", np.where((age < 27) & (income < 20), "student", "employed")
            ),
            "smoker": smokes,
            "income_k": pl.Series(np.round(income, 1)).set(pl.Series(~says), None),
            "visited": np.datetime64("2025-01-01") + days.astype(np.int64),
        }
    )


def _distance(ones: Sequence[Array], others: Sequence[Array]) -> float:
    """Mean total variation."""
    both = zip(ones, others, strict=True)
    return float(np.mean([0.5 * np.abs(one - other).sum() for one, other in both]))


@contextmanager
def _step(say: Callable[[str], object], text: str) -> Iterator[None]:
    """Say what is going on, and how long it took."""
    say(f"  {text} ".ljust(60, ".") + " ")
    start = time.perf_counter()
    try:
        yield
    except BaseException:
        say("failed\n")
        raise
    say(f"{time.perf_counter() - start:5.1f} s\n")


def _fit_exactly(people: pl.DataFrame) -> GaussianMixture:
    with warnings.catch_warnings():
        # Few people converge slowly; a hundred iterations are plenty for a comparison.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(COMPONENTS, epsilon=None).fit(people)


def _picture(path: Path, model: GaussianMixture, real: pl.DataFrame, drawn: pl.DataFrame) -> str:
    """Draw, or say why not."""
    try:
        one, other = ({c.name: c.to_numpy() for c in table} for table in (real, drawn))
        title = "People who do not exist, and a private mixture that describes them"
        draw_pairs(path, model, one, other, _PAIRS, labels=_LABELS, title=title)
    except MissingExtra as error:
        return f"no picture: {error}"
    return ""
