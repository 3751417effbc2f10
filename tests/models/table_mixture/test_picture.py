"""Pictures of tables: what is compared, and that every panel says what it shows."""

from contextlib import suppress

import numpy as np
import pytest
from matplotlib.figure import Figure

from privem import Schema
from privem.models.table_mixture.picture import Shares, draw_tables

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


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    def draw(schema, bins, one, other):
        figures = []
        monkeypatch.setattr(Figure, "savefig", lambda self, *args, **more: figures.append(self))
        with suppress(OSError):
            draw_tables(tmp_path / "y.png", schema, bins, one, other, names=("one", "other"))
        return figures[0]

    return draw


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_every_panel_says_what_it_shows(drawn):
    one, other = (Shares.of(rows(), SCHEMA, BINS) for _ in range(2))
    figure = drawn(SCHEMA, BINS, one, other)
    titles = [axes.get_title("left") for axes in figure.axes if axes.get_visible()]
    assert titles[:5] == SCHEMA.names
    assert {"debt by age\none", "debt by age\nother"} <= set(titles)
    assert legend(figure) == ["one", "other"]


def test_few_categories_are_in_the_order_of_the_schema_and_bars_are_not_negative(drawn):
    schema = Schema({"size": ["s", "m", "l"], "letter": list("abcdefghijklmnopqrstuvw")})
    counts = np.arange(23) / 253
    one = Shares([np.array([0.1, -0.2, 1.1]), counts], {})
    other = Shares([np.array([0.2, 0.1, 0.7]), counts], {})
    figure = drawn(schema, [np.arange(3), np.arange(23)], one, other)
    few, many = figure.axes[:2]
    assert [tick.get_text() for tick in few.get_xticklabels()] == ["s", "m", "l"]
    assert [bar.get_height() for bar in few.patches[:3]] == [0.1, 0.0, 1.1]
    assert few.get_ylim()[0] == 0
    assert many.get_xticklabels()[0].get_text() == "w"
    assert legend(figure) == ["one (negative numbers are drawn as zero)", "other"]


def test_one_column_has_no_pairs(tmp_path):
    schema = SCHEMA.select(["member"])
    found = Shares.of(rows()[:, 3:4], schema, BINS[3:4])
    draw_tables(tmp_path / "x.png", schema, BINS[3:4], found, found)
    assert found.strongest(4) == []
