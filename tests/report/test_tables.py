"""Pictures of tables: what is compared, and that every panel says what it shows."""

from contextlib import suppress

import numpy as np
import pytest
from matplotlib.figure import Figure

from privem import Schema
from privem.report import Shares, draw_tables

RNG = np.random.default_rng(0)
SCHEMA = Schema(
    {
        "age": (int, 0, 300),
        "debt": (-5.0, 100.0),
        "city": [f"a city with a long name, {k}" for k in range(40)],
        "member": bool,
        "since": ("2020-01-01", "2022-12-31"),
    },
    missing=["debt", "city"],
)
BINS = [np.arange(column.size) * 6 // column.size for column in SCHEMA.columns]


def rows(n=500):
    found = np.column_stack([RNG.integers(0, column.size, n) for column in SCHEMA.columns])
    found[:, 1] = found[:, 0] * SCHEMA.columns[1].size // SCHEMA.columns[0].size
    return found


def test_shares_sum_to_one_and_find_what_depends():
    found = Shares.of(rows(), SCHEMA, BINS)
    assert [each.sum() for each in found.cells] == pytest.approx([1.0] * 5)
    assert len(found.pairs) == 10
    assert all(table.sum() == pytest.approx(1.0) for table in found.pairs.values())
    assert found.strongest(1) == [(0, 1)]
    # With so much noise nothing can be told.
    assert Shares(found.cells, found.pairs, noise=0.5).strongest(4) == []


def test_every_panel_says_what_it_shows(tmp_path, monkeypatch):
    one, other = (Shares.of(rows(), SCHEMA, BINS) for _ in range(2))
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **more: figures.append(self))
    with suppress(OSError):
        draw_tables(tmp_path / "y.png", SCHEMA, BINS, one, other, names=("one", "other"))
    titles = [axes.get_title("left") for axes in figures[0].axes if axes.get_visible()]
    assert titles[:5] == SCHEMA.names
    assert {"debt by age\none", "debt by age\nother"} <= set(titles)


def test_one_column_has_no_pairs(tmp_path):
    schema = SCHEMA.select(["member"])
    found = Shares.of(rows()[:, 3:4], schema, BINS[3:4])
    draw_tables(tmp_path / "x.png", schema, BINS[3:4], found, found)
    assert found.strongest(4) == []
