"""Bugs in the tables of mixed columns, planted one by one: the audit finds each."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from privem import TableMixture, load
from privem.audit import Claim, audit_model_file, audit_release, judge, recount, structure_checks
from privem.audit.battery import _releases, tiny
from privem.audit.fits import statement_claim
from privem.audit.neighbours import Dataset, weak_point
from privem.blocks import thresholds
from privem.blocks.thresholds import Thresholded, ValuesQuery
from privem.data import persons
from privem.models.table_mixture import plan, tables
from privem.models.table_mixture.tables import CellCountsQuery, TablesQuery
from privem.noise.discrete import Discrete
from privem.noise.sampler import insecure_seeded_entropy_for_tests

NEIGHBOURS = ("add-remove", "replace-one")
PAIRS = ((0, 1), (0, 2), (1, 2))
QUERIES = {
    "cells": CellCountsQuery((2, 2, 2), 1.0),
    "tables": TablesQuery(((0, 1),) * 3, PAIRS, None, 1.0),
    "target": TablesQuery(((0, 1),) * 4, PAIRS, 3, 1.0),
}
every_query = pytest.mark.parametrize("kind", QUERIES)
every_relation = pytest.mark.parametrize("neighbours", NEIGHBOURS)


def audited(kind, neighbours, rows=1, draws=2):
    pair = weak_point("TableMixture", neighbours, rows)
    if kind == "target":  # a column more
        pair = type(pair)(
            pair.name,
            *(
                Dataset(np.column_stack([side.X, side.X[:, 0]]), side.groups)
                for side in (pair.data, pair.neighbour)
            ),
        )
    noise = Discrete(1.0, neighbours, 100.0)
    return audit_release(QUERIES[kind], noise, pair.data, pair.neighbour, draws)


@every_query
@every_relation
@pytest.mark.parametrize("rows", [1, 10])
def test_without_a_bug_all_of_the_claim_is_used_and_no_more(kind, neighbours, rows):
    found = audited(kind, neighbours, rows)
    assert not found.violated
    assert found.share == pytest.approx(1.0, rel=1e-6)


def one_table_less(monkeypatch):
    right = tables._one_group

    def group(name, size, count, neighbours, cap):
        return right(name, size, count - 1, neighbours, cap)

    monkeypatch.setattr(tables, "_one_group", group)


def every_record_twice(monkeypatch):
    for cls in (CellCountsQuery, TablesQuery):

        def twice(self, block, scratch, right=cls.__call__):
            once = right(self, block, scratch)
            return type(once)(2 * once.counts)

        monkeypatch.setattr(cls, "__call__", twice)


def some_cells_twice(monkeypatch):
    """Those at both ends of the vector, as where slices of it overlap."""
    for cls in (CellCountsQuery, TablesQuery):

        def twice(self, block, scratch, right=cls.__call__):
            once = right(self, block, scratch)
            counts = once.counts.copy()
            counts[:2] *= 2
            counts[-2:] *= 2
            return type(once)(counts)

        monkeypatch.setattr(cls, "__call__", twice)


def weights_without_a_cap(monkeypatch):
    """A record of weight three counts three, where it was to count one."""
    monkeypatch.setattr(tables, "capped", lambda weight, cap, rows: np.full(rows, 3.0))


@every_query
@every_relation
@pytest.mark.parametrize(
    "bug", [one_table_less, every_record_twice, some_cells_twice, weights_without_a_cap]
)
def test_what_one_record_moves(kind, neighbours, bug, monkeypatch):
    bug(monkeypatch)
    assert audited(kind, neighbours).too_far


@every_query
def test_replacing_one_costs_more_than_removing_one(kind, monkeypatch):
    right = tables.moved
    monkeypatch.setattr(
        tables, "moved", lambda neighbours, add, swap: right("add-remove", add, add)
    )
    found = audited(kind, "replace-one")
    assert found.too_far
    assert found.share == pytest.approx(math.sqrt(2))


def test_rows_of_a_person_that_each_count_one(monkeypatch):
    monkeypatch.setattr(
        "privem.audit.neighbours.per_person",
        lambda groups, n: (np.ones(n), persons.per_person(groups, n)[1]),
    )
    assert audited("tables", "add-remove", rows=10).too_far


def test_bins_that_are_read_off_the_rows(monkeypatch):
    """Nothing is released beyond what is charged, but a question tells."""
    right, seen = plan.PrivateTables._bins, []
    opened = TableMixture._open_table

    def remember(self, *given):
        table = opened(self, *given)
        seen.append(np.concatenate([b.X for b in table.rows.blocks(100)])[:, 0].mean())
        return table

    def peeking(self, cells, ground):
        bins = right(self, cells, ground)
        return bins[::-1] if seen[-1] > 0.3 else bins

    monkeypatch.setattr(TableMixture, "_open_table", remember)
    monkeypatch.setattr(plan.PrivateTables, "_bins", peeking)
    data = weak_point("TableMixture").data
    data = Dataset(np.column_stack([data.X, np.zeros(len(data.X))]))
    estimator = tiny("TableMixture").set_params(schema={"x0": [0, 1], "x1": (0, 9), "x2": bool,
                                                        "x3": (0.0, 1.0)})  # fmt: skip
    failed = structure_checks(estimator, data, Dataset(0 * data.X), repeats=60).failures
    assert "replay" in {finding.name for finding in failed}


def test_the_audit_of_the_library_looks_at_tables(monkeypatch):
    """Its usual attacks have one column, and so no tables; the weak point has three."""
    found = _releases("TableMixture", "add-remove", 20, 1e-9, 1)
    assert [finding.name.split(", ")[-1] for finding in found] == [
        *("count", "cells"),
        *("count", "cells", "tables"),
    ]
    assert all(finding.passed for finding in found)
    one_table_less(monkeypatch)
    wrong = [f for f in _releases("TableMixture", "add-remove", 20, 1e-9, 1) if not f.passed]
    assert any("tables: weak point" in finding.name for finding in wrong)


@pytest.mark.parametrize(
    ("neighbours", "weighted", "target"),
    [("add-remove", True, "x2"), ("replace-one", False, None), ("replace-one", True, None)],
)
def test_model_files_of_persons_and_weights(neighbours, weighted, target, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 3)).astype(float)
    weight = rng.uniform(0, 2, 400) if weighted else None
    model = TableMixture(
        schema=[0, 1],
        epsilon=8.0,
        target=target,
        neighbours=neighbours,
        max_weight=1.5,
        random_state=0,
    ).fit(X, sample_weight=weight, groups=np.arange(400) // 4)
    assert (model.uncertainty()["marginals_"][0] > 0).all()
    path = tmp_path / "model.json"
    model.save(path)
    assert audit_model_file(path).passed
    said = load(path).privacy_
    assert (said.unit, said.neighbours) == ("person", neighbours)
    # Planted: noise for one table less.
    less = tuple(
        replace(
            r, groups=tuple(replace(g, steps=int(g.steps * math.sqrt(2 / 3))) for g in r.groups)
        )
        for r in said.releases
    )
    assert not recount(replace(said, releases=less)).passed


def published(noise, draws=2000):
    """Whether a text is found that one record alone has; and where nobody has it."""
    query = ValuesQuery(("town",))
    return {
        "found": tuple(
            [float(bool(noise.release(query, [counts]).statistics.names[0])) for _ in range(draws)]
            for counts in ({"a secret": 1}, {})
        )
    }


def test_a_threshold_may_fail_as_often_as_it_says_and_no_more(monkeypatch):
    with pytest.warns(match="seeded"):
        seeded = insecure_seeded_entropy_for_tests(7)
    noise = Thresholded(Discrete(4.0, "add-remove", 1e6, entropy=seeded), 0.09)
    claim = Claim.of(noise.price(ValuesQuery(("town",))))
    assert claim.failure == 0.09
    found = published(noise)
    assert not judge(found, claim, delta=0.1).violated
    # An auditor who knows of the noise alone would refute it.
    assert judge(found, replace(claim, failure=0.0), delta=0.1).violated
    # Planted: a threshold that is reached four times as often.
    monkeypatch.setattr(thresholds, "least_steps", lambda spent: int(1.5 * spent.steps * 0.25))
    assert judge(published(noise), claim, delta=0.1).violated


def test_the_claim_of_fits_holds_what_a_threshold_may_fail():
    town = pl.DataFrame({"town": ["Bonn", "Cork"] * 300})
    model = TableMixture(schema={"town": str}, epsilon=4.0, delta=1e-4).fit(town)
    claim = statement_claim([model.privacy_] * 2, 4.0, 1e-4)
    assert claim.failure == pytest.approx(model.privacy_.failure + 1e-5)
    assert claim.most(0.0) >= claim.failure
