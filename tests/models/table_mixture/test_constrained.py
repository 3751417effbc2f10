"""Draws and filled gaps keep the constraints of a schema, and single columns their laws."""

from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given as cases
from hypothesis import settings
from hypothesis import strategies as st

from privem import Schema, TableMixture
from privem.models.table_mixture.chains import Chain
from privem.models.table_mixture.constrained import Constrained

RNG = np.random.default_rng(5)
N = 1500
AGE = RNG.integers(18, 90, N)
LEVEL = RNG.integers(0, 3, N)
LOW = 0.2 + RNG.random(N) * 9
USUAL = LOW + RNG.exponential(1, N)
DAYS = RNG.integers(0, 900, N)
PEOPLE = pl.DataFrame(
    {
        "age": AGE,
        "years": pl.Series(np.floor(RNG.random(N) * (AGE - 17)).astype(int)).set(
            pl.Series(RNG.random(N) < 0.1), None
        ),
        "level": np.array(["low", "mid", "top"])[LEVEL],
        "number": np.array([9, 13, 16])[LEVEL],
        "top": LEVEL == 2,
        "least": LOW.astype(np.float32),
        "usual": USUAL,
        "most": USUAL + RNG.exponential(9, N),
        "came": [date(2020, 1, 1) + timedelta(int(k)) for k in DAYS],
        "left": [date(2020, 1, 1) + timedelta(int(k)) for k in DAYS + RNG.integers(0, 90, N)],
    }
)
SCHEMA = Schema(
    {
        "age": (15, 95),
        "years": (0, 80),
        "level": ["low", "mid", "top"],
        "number": (int, 0, 20),
        "top": bool,
        "least": (0.1, 10),
        "usual": (0, 20),
        "most": (-5, 100),
        "came": ("2020-01-01", "2022-12-31"),
        "left": ("2020-01-01", "2023-12-31"),
    },
    missing=["years", "number", "usual"],
    constraints=[
        "years <= age",
        "level -> number",
        {"number -> top": {k: k == 16 for k in range(21)}},
        "usual >= least",
        "usual <= most",
        "came <= left",
    ],
)


@pytest.fixture(scope="module")
def model():
    return TableMixture(schema=SCHEMA, n_components=4, epsilon=4.0, random_state=0).fit(PEOPLE)


def keeps(frame):
    ordered = ("years", "age"), ("least", "usual"), ("usual", "most"), ("came", "left")
    for one, other in ordered:
        assert (frame[one] <= frame[other]).drop_nulls().all(), (one, other)
    for one, other in (("level", "number"), ("number", "top")):
        known = frame.select(one, other).drop_nulls()
        assert known.n_unique() == known[one].n_unique()
    return frame


def test_every_record_keeps_them(model):
    drawn = keeps(model.sample_frame(3000))
    assert drawn.schema == PEOPLE.schema
    assert 0 < drawn["years"].null_count() < 900
    complete = keeps(model.sample_frame(3000, missing=False))
    assert sum(complete.null_count().row(0)) == 0
    numbers = dict(complete.select("level", "number").unique().iter_rows())
    assert numbers == {"low": 9, "mid": 13, "top": 16}
    assert set(model.sample_frame(50, "pandas").columns) == set(PEOPLE.columns)


def test_columns_keep_their_laws():
    """Drawn without constraints, a column has the same law, up to what draws and weights leave."""
    model = TableMixture(schema=SCHEMA, n_components=4, epsilon=None, random_state=0).fit(PEOPLE)
    linked = model.sample_frame(40_000, missing=False)
    alone = TableMixture(**model.get_params())
    alone.__dict__.update(model.__dict__)
    alone.schema_ = Schema(model.schema_.to_dict()["columns"])
    free = alone.sample_frame(40_000, missing=False)
    assert (free["usual"] > free["most"]).any()
    assert (free["years"] > free["age"]).any()
    for name in ("age", "years", "least", "usual", "most"):
        edges = np.quantile(free[name], np.linspace(0, 1, 9)[1:-1])
        one, other = (
            np.bincount(np.searchsorted(edges, frame[name]), minlength=8) / 40_000
            for frame in (linked, free)
        )
        assert np.abs(one - other).sum() / 2 < 0.04, name
    one, other = (
        frame["level"].value_counts(normalize=True).sort("level")["proportion"]
        for frame in (linked, free)
    )
    assert (one - other).abs().max() < 0.02


@pytest.mark.parametrize(
    "asked",
    [
        {"age": (20, 25)},
        {"age": 20, "years": (3, None)},
        {"most": (3.3, 3.31)},
        {"usual": (5.01, 5.02), "least": (5.0, 5.015)},
        {"usual": None},
        {"left": ("2020-01-02", "2020-01-05")},
        {"number": 13},
        {"number": None, "level": "top"},
        {"top": True},
        {"years": [None, 30], "top": False},
    ],
    ids=str,
)
def test_conditions_and_constraints_hold_together(model, asked):
    drawn = keeps(model.sample_frame(200, given=asked, missing=len(asked) > 1))
    for name, condition in asked.items():
        column = drawn[name]
        if condition is None:
            assert column.null_count() == 200
        elif isinstance(condition, list):
            assert set(column) <= set(condition)
        elif isinstance(condition, tuple):
            low, high = (
                date.fromisoformat(end) if isinstance(end, str) else end for end in condition
            )
            assert column.null_count() == 0
            assert low is None or (column >= low).all()
            assert high is None or (column <= high).all()
        else:
            assert (column == condition).all()


@pytest.mark.parametrize(
    "asked",
    [
        {"age": (15, 20), "years": (30, 40)},
        {"least": (9, 10), "most": (-5, 8)},
        {"came": "2022-03-01", "left": "2021-03-01"},
        {"level": "low", "number": 16},
        {"number": 13, "top": True},
    ],
    ids=str,
)
def test_contradictions_are_said(model, asked):
    with pytest.raises(ValueError, match="can meet the constraints"):
        model.sample_frame(5, given=asked, missing=False)


def test_gaps_are_filled_within_them(model):
    holes = PEOPLE.head(400).with_columns(
        pl.when(pl.Series(RNG.random(400) < 0.5)).then(None).otherwise(pl.col(name)).alias(name)
        for name in PEOPLE.columns
    )
    filled = model.impute(holes)
    assert sum(filled.null_count().row(0)) == 0
    for one, other in (("years", "age"), ("least", "usual"), ("usual", "most"), ("came", "left")):
        assert (filled[one] <= filled[other]).all()
    known = filled.filter(holes["number"].is_null() & holes["level"].is_not_null())
    assert known.select("level", "number").n_unique() == 3
    for name in PEOPLE.columns:
        kept = holes[name].is_not_null()
        assert filled[name].filter(kept).equals(holes[name].filter(kept))
    # What determines a known value fits it.
    back = model.impute(holes.with_columns(level=pl.lit(None, pl.String), number=pl.lit(13)))
    assert set(back["level"]) == {"mid"}


def test_a_record_that_breaks_one_is_filled_all_the_same(model):
    broken = PEOPLE.head(3).with_columns(
        least=pl.lit(9.0, pl.Float32), usual=pl.lit(None, pl.Float64), most=pl.lit(-4.0)
    )
    filled = model.impute(broken)
    assert filled["usual"].null_count() == 0
    assert filled["least"].to_list() == [9.0] * 3


def test_what_the_model_says_of_records_is_without_them(model):
    assert "what holds between them" in model.privacy_.public["schema"]
    assert np.isfinite(model.score_samples(PEOPLE.head(5))).all()


@settings(max_examples=40, deadline=None)
@cases(
    st.lists(st.tuples(st.integers(-300, 300), st.integers(1, 3000)), min_size=2, max_size=4),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_any_chain_is_in_order(bounds, whole, seed):
    """Whatever the bounds of the columns: what is drawn is in order, or nothing can be."""
    names = [f"x{k}" for k in range(len(bounds))]
    kind = int if whole else float
    columns = {
        name: (kind, low, low + width) for name, (low, width) in zip(names, bounds, strict=True)
    }
    most_of_low = np.maximum.accumulate([low for low, _ in bounds])
    possible = all(
        least <= low + width for least, (low, width) in zip(most_of_low, bounds, strict=True)
    )
    try:
        schema = Schema(columns, constraints=[f"{a} <= {b}" for a, b in pairwise(names)])
    except ValueError:
        assert not possible
        return
    rng = np.random.default_rng(seed)
    from privem.models.table_mixture.model import TableState

    sizes = [column.size for column in schema.columns]
    state = TableState(
        np.array([0.5, 0.5]),
        np.column_stack([rng.dirichlet(np.full(size, 0.1), 2) for size in sizes]),
        np.ones(sum(sizes)),
        tuple(tuple(range(size)) for size in sizes),
    )
    if not possible:
        with pytest.raises(ValueError, match="can meet"):
            Constrained(schema, state)
        return
    linked = Constrained(schema, state)
    cells = state.draw(50, rng, linked=linked)
    drawn = schema.decode(cells, rng)
    values = [linked.drawn[j] for j in range(len(names))]
    for one, other in pairwise(values):
        assert (one <= other).all()
    for j, name in enumerate(names):  # values are of the cells that were drawn
        low, high = bounds[j][0], sum(bounds[j])
        assert ((values[j] >= low) & (values[j] <= high)).all()
        assert drawn[name].null_count() == 0


def test_numbers_of_so_many_decimals_are_in_order():
    n = 300
    least = RNG.integers(0, 900, n)
    X = pl.DataFrame({"least": least / 100, "most": (least + RNG.integers(0, 99, n)) / 100})
    two = {"bounds": [0.0, 10.0], "decimals": 2}
    schema = Schema({"least": two, "most": two}, constraints=["least <= most"])
    model = TableMixture(schema=schema, n_components=2, random_state=0).fit(X)
    drawn = model.sample_frame(500, given={"most": (1.005, 3.2)})
    assert (drawn["least"] <= drawn["most"]).all()
    assert drawn["most"].is_between(1.01, 3.2).all()
    assert (drawn * 100 - (drawn * 100).select(pl.all().round())).select(pl.all().abs().max()).row(
        0
    ) < (1e-9, 1e-9)
    filled = model.impute(X.with_columns(least=pl.lit(None, pl.Float64)).head(50))
    assert (filled["least"] <= filled["most"]).all()


def test_a_pair_has_the_law_that_it_should():
    """Two uniform columns given x <= y: the mean of x is a third, of y two thirds.

    The deviation of a mean of 40,000 such values is 0.0012; six of them are the limit.
    """
    schema = Schema({"x": (0.0, 1.0), "y": (0.0, 1.0)}, constraints=["x <= y"])
    x, y = schema.columns
    chain = Chain.of({0: x, 1: y}, [(0, 1)], {})
    flat = chain.law(0, np.append(np.diff(x.starts), 1 - x.starts[-1])[None], missing=False)
    rng = np.random.default_rng(0)
    gathered = chain.gathered([flat, flat])
    states = chain.draw(gathered, np.zeros(40_000, dtype=int), rng)
    low, high = chain.values(states, {}, rng)
    assert abs(low.mean() - 1 / 3) < 0.0075
    assert abs(high.mean() - 2 / 3) < 0.0075
    assert gathered[0].sum() == pytest.approx(0.5, abs=1e-3)
    np.testing.assert_allclose(chain.beliefs(gathered)[1].sum(), 1.0)
