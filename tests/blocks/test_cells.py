"""A partition: everyone in one cell, drawn independently of all data, and paid for once."""

from typing import Any

import numpy as np
import pytest

from privem import SymmetricMixture
from privem.audit import recount
from privem.blocks.bounded_sums import Cell
from privem.blocks.bounding import Clip
from privem.blocks.robust_mean import RobustMeanQuery
from privem.core import Block, Spent, Stage
from privem.data import ArrayRows, LocalSource
from privem.data.sampling import cell_rows, cells_of
from privem.meter import BudgetExceeded, Meter, ReleaseRecord, Statement, alternatives, cost
from privem.noise.discrete import Discrete


def spent(multiplier, cell=None):
    return Spent("g", "gaussian", 3, 1.0, 0.0, 2.0**-24, int(multiplier * 2**24), cell)


def test_every_record_is_in_one_cell_whatever_the_blocks():
    X = np.arange(50_000.0)[:, None]
    key = b"k" * 32
    found = []
    for index in range(7):
        whole = [b.X[:, 0] for b in cell_rows(ArrayRows(X), key, index, 7).blocks(50_000)]
        parts = [b.X[:, 0] for b in cell_rows(ArrayRows(X), key, index, 7).blocks(333)]
        np.testing.assert_array_equal(np.concatenate(whole), np.concatenate(parts))
        found.append(np.concatenate(whole))
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), X[:, 0])
    sizes = np.array([len(part) for part in found])
    # Uniform: a chi-square of 6 degrees exceeds 60 with probability 5e-11.
    assert ((sizes - 50_000 / 7) ** 2 / (50_000 / 7)).sum() < 60


def test_cells_depend_on_the_key_and_the_position_alone():
    one = cells_of(b"a" * 32, 0, 30_000, 5)
    np.testing.assert_array_equal(one[9_000:20_001], cells_of(b"a" * 32, 9_000, 20_001, 5))
    other = cells_of(b"b" * 32, 0, 30_000, 5)
    assert abs(np.mean(one == other) - 0.2) < 0.02
    # Neighbouring records are independent.
    assert abs(np.mean(one[1:] == one[:-1]) - 0.2) < 0.02
    assert len(cells_of(b"a" * 32, 5, 5, 3)) == 0


def test_all_rows_of_a_person_are_in_one_cell():
    owner = np.repeat(np.arange(300), 4)
    X = owner[:, None].astype(float)
    source = LocalSource(ArrayRows(X), 1, None, owner)
    seen = []
    for index in range(4):
        rows = cell_rows(source.rows, source._cells, index, 4, source.owner)
        values = np.concatenate([b.X[:, 0] for b in rows.blocks(97)])
        persons, counts = np.unique(values, return_counts=True)
        assert (counts == 4).all()
        seen.append(persons)
    assert len(np.concatenate(seen)) == 300


def test_a_source_keeps_its_partition_and_two_sources_differ():
    # One column's sums may agree by chance, about once in 20,000 runs; those of eight cannot.
    X = np.random.default_rng(0).normal(size=(2000, 8))
    query = RobustMeanQuery(np.zeros(8), np.ones(8), Clip(1.0), cell=Cell(0, 2))
    stage = Stage(query, Discrete(1e-6, "add-remove", 2000))
    one, two = LocalSource(ArrayRows(X), 1), LocalSource(ArrayRows(X), 1)
    first, again, other = (s.release(stage).statistics.total for s in (one, one, two))
    np.testing.assert_allclose(first, again, atol=1e-3)
    assert np.abs(first - other).max() > 1e-3


def test_cells_cost_their_maximum_not_their_sum():
    common, a, b = spent(4.0), spent(3.0, 0), spent(2.0, 1)
    one = cost([common, b], 0.0, 1e-6, "auto")
    assert cost([common, a, b], 0.0, 1e-6, "auto") == one
    assert cost([common, a, b, spent(2.2, 0)], 0.0, 1e-6, "auto") > one
    assert cost([common, a, b], 0.0, 1e-6, "auto") < cost(
        [common, spent(3), spent(2)], 0, 1e-6, "auto"
    )
    # Alike cells are one alternative, no cells none.
    assert len(alternatives([spent(3.0, i) for i in range(9)])) == 1
    assert len(alternatives([common, common])) == 1


def test_the_meter_refuses_a_cell_that_is_asked_twice():
    query = RobustMeanQuery(np.zeros(1), np.ones(1), Clip(1.0), cell=Cell(0, 2))
    other = RobustMeanQuery(np.zeros(1), np.ones(1), Clip(1.0), cell=Cell(1, 2))
    noise = Discrete(5.0, "add-remove", 100)
    budget = cost(noise.price(query), 0.0, 1e-6, "auto") * (1 + 1e-9)
    meter = Meter(budget, 1e-6, "auto")
    meter.charge(Stage(query, noise, "one"))
    meter.charge(Stage(other, noise, "two"))
    with pytest.raises(BudgetExceeded, match="'again' would bring epsilon"):
        meter.charge(Stage(query, noise, "again"))
    assert len(meter.releases) == 2


def test_an_independent_recount_takes_the_dearest_cell():
    groups = [spent(9.0), spent(5.0, 0), spent(4.0, 1)]
    records = [ReleaseRecord(f"r{i}", (g,)) for i, g in enumerate(groups)]
    worst = cost(groups, 0.0, 1e-6, "gdp")
    made = Statement(worst * 1.0001, 1e-6, worst, "record", "add-remove", "gdp", records)
    assert recount(made).passed
    assert made.recount() == worst
    assert Statement.from_dict(made.to_dict()).recount() == worst
    assert not recount(
        Statement(worst * 0.99, 1e-6, worst * 0.99, "record", "add-remove", "gdp", records)
    ).passed
    assert "one cell each" in str(made)


def test_a_partitioned_fit_pays_once():
    rng = np.random.default_rng(1)
    X = rng.choice([-1, 1], 4000)[:, None] * [2.0, 1.0] + rng.normal(size=(4000, 2))
    given = {"epsilon": 1.0, "bounds": 8, "method": "gradient", "noise_variance": 1.0}
    given["init"] = [1.0, 1.0]
    full = SymmetricMixture(n_iter=8, **given).fit(X).privacy_
    apart = SymmetricMixture(n_iter=8, batch="partition", **given).fit(X).privacy_

    def scale(statement):
        return statement.releases[-1].groups[0].scale

    assert scale(full) / scale(apart) == pytest.approx(np.sqrt(8), rel=0.01)
    assert apart.spent <= 1.0
    assert recount(apart).passed
    assert {group.cell for r in apart.releases[1:] for group in r.groups} == set(range(8))


def test_a_persons_cell_does_not_hang_on_what_blocks_say_of_themselves() -> None:
    """Rows whose blocks all claim to start at zero, in blocks of any length: the same cells."""
    X = np.arange(5_000.0)[:, None]

    class Careless:
        n_features, names = 1, None

        def blocks(self, rows: int) -> Any:
            for at in range(0, len(X), rows):
                yield Block(X[at : at + rows])

    def seen(rows: int) -> list[list[float]]:
        cells = [cell_rows(Careless(), b"k" * 32, index, 4) for index in range(4)]
        return [[x for b in cell.blocks(rows) for x in b.X[:, 0]] for cell in cells]

    first = seen(700)
    assert sorted(x for cell in first for x in cell) == X[:, 0].tolist()
    assert seen(64) == first
