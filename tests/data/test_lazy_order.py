"""Lazy frames may have their rows in another order whenever they are run: they are run once."""

import numpy as np
import polars as pl
import pytest

from privem import GaussianMixture, Schema, TableMixture
from privem.data import Policy, open_table
from privem.data.mixed import as_text

RNG = np.random.default_rng(0)
N = 4_000


def shuffling() -> pl.LazyFrame:
    """Half of the rows are one person's; each pass has them in another order."""
    frame = pl.DataFrame({"id": [0] * (N // 2) + list(range(1, N // 2 + 1)), "v": [1] * N})
    frame = frame.with_columns(v=(pl.col("id") == 0).cast(pl.Int64))

    def shuffle(some: pl.DataFrame) -> pl.DataFrame:
        return some[RNG.permutation(len(some))]

    kept = {"projection_pushdown": False, "predicate_pushdown": False, "slice_pushdown": False}
    return frame.lazy().map_batches(shuffle, schema=frame.schema, **kept)


@pytest.mark.filterwarnings("ignore:nearly all of column:UserWarning")
def test_a_person_counts_once_whatever_the_order_of_a_pass():
    assert not shuffling().collect().equals(shuffling().collect())
    schema = {"v": (int, 0, 1)}
    model = TableMixture(schema=schema, epsilon=20.0).fit(shuffling(), groups="id")
    assert model.marginals_[0][1] < 0.05  # one of 2,001 persons; it was half of the records
    model = GaussianMixture(1, bounds=(0, 1), epsilon=20.0).fit(shuffling(), groups="id")
    assert model.means_[0, 0] < 0.1


def test_every_pass_has_the_same_rows():
    for schema in (None, Schema({"v": (int, 0, 1)})):
        policy = Policy(private=True, schema=schema)
        rows = open_table(shuffling().select("v"), policy=policy).rows
        one, other = (np.concatenate([b.X for b in rows.blocks(512)]) for _ in range(2))
        assert np.array_equal(one, other)


def test_persons_of_a_pandas_frame_are_told_apart_as_they_are():
    pandas = pytest.importorskip("pandas")
    ids = pandas.Series([1, 1.0, True, np.int64(1)] * 5, dtype=object)
    frame = pandas.DataFrame({"id": ids, "v": [0.5] * 20})
    policy = Policy(private=True, schema=Schema({"v": (0, 1)}))
    table = open_table(frame, groups="id", policy=policy)
    assert table.people is not None
    assert table.people.count == 1


def test_halves_of_characters_are_text_that_nobody_declared():
    assert as_text("a\ud800") == "a?"
    pandas = pytest.importorskip("pandas")
    # As objects: Arrow, in which pandas keeps text where it is installed, has no such halves.
    frame = pandas.DataFrame({"c": pandas.Series(["a", "\ud800", "b"] * 50, dtype=object)})
    model = TableMixture(schema={"c": ["a", "b"]}).fit(frame)
    assert model.schema_.names == ["c"]
