"""Values published from a threshold on: what one record moves, the tail, and a planted bug."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from privem.accounting import NotValid, epsilon
from privem.audit.evidence import clopper_pearson
from privem.blocks import thresholds
from privem.blocks.thresholds import Thresholded, Values, ValuesQuery, least_steps
from privem.budget import Allowance, Part
from privem.core import Block, Scratch, Spent, Stage
from privem.data import ArrayRows, LocalSource, raw
from privem.data.header import Header
from privem.data.raw import ListedSource, Texts
from privem.meter import BudgetExceeded, Meter, ReleaseRecord, Statement, event_of
from privem.noise.discrete import Discrete
from privem.noise.exact import Exact
from privem.run import run

words = st.sampled_from(["a", "b ", " b", "B", "1", "1.0", "na", "", None])
tables = st.lists(st.tuples(words, words, words), min_size=1, max_size=8)
NAMES = ("x", "y", "z")


def texts_of(rows):
    frame = pl.DataFrame(rows, schema=dict.fromkeys(NAMES, pl.String), orient="row")
    return Texts(frame.lazy(), "the frame", Header(list(NAMES), None))


def source_of(rows, owner=None):
    inner = LocalSource(ArrayRows(np.zeros((len(rows), 3))))
    return ListedSource(inner, texts_of(rows), owner)


def difference(one, other):
    """How counts of values differ, column after column."""
    return np.array(
        [a[v] - b[v] for a, b in zip(one, other, strict=True) for v in sorted({*a, *b})] or [0]
    )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@settings(max_examples=25)
@given(rows=tables, more=st.tuples(words, words, words), other=st.tuples(words, words, words))
def test_nobody_moves_counts_by_more_than_is_charged(neighbours, rows, more, other):
    (group,) = ValuesQuery(NAMES).groups(neighbours)
    second = rows if neighbours == "add-remove" else [*rows, other]
    moved = difference(
        texts_of([*rows, more]).counts(NAMES, None), texts_of(second).counts(NAMES, None)
    )
    assert np.linalg.norm(moved) <= group.sensitivity
    assert np.count_nonzero(moved) <= group.dimension
    # A value that only one neighbour has is there once: what the threshold is made for.
    assert np.abs(moved).max() <= 1


@settings(max_examples=25)
@given(rows=tables, data=st.data())
def test_a_person_has_one_value_in_each_column(rows, data):
    owner = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))))
    owner = np.unique(owner, return_inverse=True)[1]
    with pytest.MonkeyPatch.context() as patch:
        # The choice among a person's rows is the same whoever else is there.
        patch.setattr(raw, "one_of_each", lambda who: np.unique(who, return_index=True)[1])
        everyone = texts_of(rows).counts(NAMES, owner)
        without = [row for row, who in zip(rows, owner, strict=True) if who > 0]
        others = texts_of(without).counts(NAMES, owner[owner > 0] - 1)
    moved = difference(everyone, others)
    assert np.linalg.norm(moved) <= ValuesQuery(NAMES).groups("add-remove")[0].sensitivity
    assert np.abs(moved).max() <= 1


def test_the_bounds_are_attained():
    rows = [("a", "a", "a")]
    for neighbours, other in (("add-remove", []), ("replace-one", [("b", "b", "b")])):
        (group,) = ValuesQuery(NAMES).groups(neighbours)
        moved = difference(*(texts_of(each).counts(NAMES, None) for each in (rows, other)))
        assert np.linalg.norm(moved) == pytest.approx(group.sensitivity, rel=1e-9)
        assert np.count_nonzero(moved) == group.dimension


@settings(max_examples=60)
@given(
    steps=st.integers(8, 3000),
    failure=st.floats(1e-12, 1e-2),
    dimension=st.integers(1, 20),
    bits=st.integers(-2, 8),
)
def test_the_tail_is_what_is_charged(steps, failure, dimension, bits):
    spent = Spent("values", "gaussian", dimension, 1.0, 0.0, 2.0**-bits, steps, failure=failure)
    least, one = least_steps(spent), math.ceil(2.0**bits)
    far = 14 * steps
    weights = np.exp(-0.5 * (np.arange(-far, far + 1) / steps) ** 2)
    tails = np.cumsum((weights / weights.sum())[::-1])[::-1]
    # The noise that lifts a count of one to the threshold.
    lifts = tails[least - one + far]
    assert dimension * lifts * (1 - 1e-10) <= failure
    # And not much more noise than that would do: three tenths of a deviation and two steps.
    assert dimension * ndtr(-((least - one) / steps - 0.3 - 2 / steps)) >= failure
    with pytest.raises(ValueError, match="delta above 0"):
        least_steps(Spent("values", "gaussian", 1, 1.0, 0.0, 1.0, steps))


def noise_of(failure, multiplier=3.0, neighbours="add-remove"):
    return Thresholded(Discrete(multiplier, neighbours, 1e6), failure)


def leaks(failure, trials=4000):
    """How often the value of a single record was published, at the least, for sure."""
    rows = [(f"only mine {k}", "a", None) for k in range(trials)]
    stage = Stage(ValuesQuery(("x",)), noise_of(failure))
    found = source_of(rows).release(stage).statistics.names[0]
    return clopper_pearson(len(found), trials, 1e-7)[0]


def test_the_value_of_one_record_is_hidden_and_a_low_threshold_is_caught(monkeypatch):
    failure = 1e-12
    assert leaks(failure) <= failure
    right = thresholds._quantile
    monkeypatch.setattr(thresholds, "_quantile", lambda p: right(p) - 5)
    assert leaks(failure) > failure


def test_the_rows_of_one_person_count_once():
    rows = [("mine", "a", "b")] * 900 + [("ours", "a", "b")] * 900
    stage = Stage(ValuesQuery(("x",)), noise_of(1e-9))
    assert source_of(rows).release(stage).statistics == Values((("mine", "ours"),))
    owner = np.array([0] * 900 + [*range(1, 901)])
    assert source_of(rows, owner).release(stage).statistics == Values((("ours",),))
    # A file that has grown since: what nobody owns is not counted.
    assert source_of(rows, owner[:900]).release(stage).statistics == Values(((),))


def test_only_names_leave_in_an_order_that_says_nothing():
    rows = [("z", "b", "a")] * 400 + [("m", "a", "a")] * 300 + [("a", None, "na")] * 500
    rows += [("rare", "rare", "rare")]
    query = ValuesQuery(NAMES)
    release = source_of(rows).release(Stage(query, noise_of(1e-9)))
    assert release.statistics == Values((("a", "m", "z"), ("a", "b"), ("a",)))
    assert release.deviation is None
    few = Thresholded(noise_of(1e-9).noise, 1e-9, most=2)
    assert source_of(rows).release(Stage(query, few)).statistics.names[0] == ("a", "z")
    none = source_of([(None, "", "x")]).release(Stage(query, noise_of(1e-9)))
    assert none.statistics == Values(((), (), ()))


def test_nothing_else_counts_values():
    source = source_of([("a", "b", "c")])
    with pytest.raises(ValueError, match="private fits only"):
        source.release(Stage(ValuesQuery(NAMES), Exact()))
    with pytest.raises(TypeError, match="rows of numbers"):
        ValuesQuery(NAMES)(Block(np.zeros((1, 3))), Scratch())
    with pytest.raises(ValueError, match="unknown view"):
        source.source.release(Stage(ValuesQuery(NAMES), noise_of(1e-9)))


def test_the_threshold_is_part_of_the_price():
    (spent,) = noise_of(1e-7, 9.0).price(ValuesQuery(("x",)))
    assert spent.failure == 1e-7
    event = event_of(spent)
    alone = event_of(Spent(**{**vars(spent), "failure": 0.0}))
    assert epsilon(event, 1e-6, "gdp") == pytest.approx(epsilon(alone, 9e-7, "gdp"), rel=1e-9)
    assert epsilon(event, 1e-8, "gdp") == math.inf
    part = Part("categories", 1.0, [("gaussian", 1)], 1e-7)
    with_it = Allowance.plan([part], 1.0, 1e-6, "auto", "add-remove")
    without = Allowance.plan([Part("x", 1.0, part.releases)], 1.0, 9e-7, "auto", "add-remove")
    assert with_it.base == pytest.approx(without.base, rel=1e-9)
    with pytest.raises((ValueError, NotValid)):
        Allowance.plan([part], 1.0, 1e-8, "auto", "add-remove")


class Plan:
    def __init__(self, times, noise):
        self.times, self.noise = times, noise

    def stages(self):
        for _ in range(self.times):
            yield Stage(ValuesQuery(NAMES), self.noise, "categories")


def test_each_release_is_charged_before_a_row_is_read():
    class Broken:
        def release(self, stage):
            raise OSError("the disk is gone")

    noise = noise_of(6e-7, 20.0)
    meter = Meter(1.0, 1e-6, "auto")
    with pytest.raises(OSError, match="disk"):
        run(Plan(1, noise), Broken(), meter=meter)
    assert [name for name, _ in meter.releases] == ["categories"]
    assert meter.spent > 0
    # A second one would exceed delta, however much noise it has: it is refused, not made.
    seen = []
    with pytest.raises(BudgetExceeded):
        run(Plan(2, noise), source_of([("a", "b", "c")]), lambda *each: seen.append(each), meter)
    assert not seen
    groups = (meter.releases[0][1],)
    records = tuple(ReleaseRecord("categories", each) for each in groups)
    statement = Statement(1.0, 1e-6, meter.spent, "record", "add-remove", "auto", records)
    assert Statement.from_dict(statement.to_dict()) == statement
    assert statement.recount() == meter.spent
