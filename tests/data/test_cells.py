"""Fine cells: every value has one, whatever it is, and values drawn from a cell lie in it."""

import datetime as dt
import math
from decimal import Decimal
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privem import Schema
from privem.data import Policy, open_table
from privem.data.cells import cell, for_type
from privem.data.columns import Number
from privem.data.grid import MOST_CELLS, number_starts, whole_starts

DECLARED = {
    "x": (-2.5, 10.0),
    "n": (int, -3, 7),
    "wide": (int, -5_000, 100_000),
    "money": {"bounds": [-0.05, 999.99], "decimals": 2},
    "flag": bool,
    "word": ["a", "b", "NA"],
    "code": [1, 2, 2.5],
    "day": ("2019-01-01", "2025-12-31"),
    "time": ("2019-01-01T00:00", "2025-12-31T23:59"),
}
COMPLETE, GAPPY = Schema(DECLARED), Schema(DECLARED, missing=True)
RNG = np.random.default_rng(0)


def cells_of(frame, schema, **policy):
    """The cells of a table, and the schema as it is for it."""
    table = open_table(frame, policy=Policy(schema=schema, **policy))
    return np.concatenate([block.X for block in table.rows.blocks(7)]), table.schema


def places(values, declared, dtype=pl.String, **more):
    """The cells of one column of values."""
    column = Schema({"v": declared}, **more)["v"]
    frame = pl.DataFrame({"v": pl.Series(values, dtype=dtype)})
    return frame.select(cell(for_type(column, dtype))).to_series().to_list()


# -- the grid ---------------------------------------------------------------------------------

BOUND = st.floats(-(2.0**100), 2.0**100)


@given(BOUND, BOUND)
@example(0.0, 5e-324)
@example(-5e-324, 0.0)
@example(-1.0, 1e-300)
@example(1.0, math.nextafter(1.0, 2.0))
def test_numbers_are_cut_at_the_lower_bound_and_zero(a, b):
    low, high = min(a, b), max(a, b)
    if low == high:
        return
    starts = number_starts(low, high)
    assert (np.diff(starts) > 0).all()
    assert starts[0] == low
    assert starts[-1] <= high
    # The lower bound and zero are alone in their cells.
    for alone in [low, *([0.0] if low < 0 <= high else [])]:
        at = int(np.searchsorted(starts, alone))
        assert starts[at] == alone
        assert at + 1 == len(starts) or starts[at + 1] == np.nextafter(alone, np.inf)
    assert len(starts) <= MOST_CELLS + 2


@pytest.mark.parametrize("bounds", [(0, 60_000.0), (-60_000.0, 0), (-60_000.0, 60_000.0)])
def test_amounts_far_below_the_bound_have_cells(bounds):
    """From an eighth of the bound on cells are of one width; below it they stay a ninth as wide."""
    starts = number_starts(*bounds)
    away = np.sort(np.abs(starts))
    for amount in (10.0, 100.0, 1_000.0, 7_000.0):
        inside = away[(away > amount / 2) & (away <= amount)]
        assert len(inside) >= (9 if 0 in bounds else 2 * 4)
    widths = np.diff(away[away >= 7_500])
    assert widths[widths > 1e-6].max() == pytest.approx(60_000 / (128 if 0 in bounds else 64))


@given(st.integers(-(2**53), 2**53), st.integers(1, 2**53), st.booleans())
@example(-1, 10**6, True)
@example(-(10**6), 10**6, True)
@example(-300, 300, True)
@example(0, 256, True)
def test_whole_numbers_are_cut_at_whole_numbers(low, width, zero):
    high = low + width
    starts = whole_starts(low, high, zero)
    assert all(a < b for a, b in pairwise(starts))
    assert starts[0] == low
    assert starts[-1] <= high
    if width < MOST_CELLS:
        assert starts == list(range(low, high + 1))
        return
    assert starts[1] == low + 1
    if zero and low < 0 <= high:
        assert 0 in starts
        assert high == 0 or starts[starts.index(0) + 1] == 1
    assert len(starts) <= MOST_CELLS + 2


def test_values_are_where_they_belong():
    assert places([0.0, -0.0, -1.0, -2.0, 1e308, float("inf"), 1.0], (-1, 1), pl.Float64) == [
        *(110, 110, 0, 0, 219, 219, 219)
    ]
    assert places([3, 4, 300, -1], (int, 0, 90), pl.Int64) == [3, 4, 90, 0]
    assert places(["3.4", "3.6", " 4 ", "1e1"], (int, 0, 90)) == [3, 4, 4, 10]
    assert places(["2019-01-01", "2019-01-02", "1066-10-14"], ("2019-01-01", "2019-01-09")) == [
        *(0, 1, 0)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "2019-03-04",
        "2019/03/04",
        "04.03.2019",
        "4.3.2019",
        "4 March 2019",
        "04 Mar 2019",
        "2019-03-04T23:59:59",
        "2019-03-04 10:00",
        "2019-03-04T10:00+02:00",
    ],
)
def test_dates_are_read_in_the_usual_ways(text):
    assert places([text], ("2019-03-01", "2019-03-09")) == [3]


@pytest.mark.parametrize("text", ["03/04/2019", "2019-02-30", "20190304", "Monday", "2019-03-04x"])
def test_other_dates_are_not_guessed(text):
    assert places([text], ("2019-03-01", "2019-03-09")) == [0]
    assert places([text], ("2019-03-01", "2019-03-09"), missing=["v"]) == [9]


def test_a_declared_format_is_read_and_no_other():
    american = {"bounds": ["2019-03-01", "2019-03-09"], "format": "%m/%d/%Y"}
    assert places(["03/04/2019", "2019-03-04"], american) == [3, 0]
    timed = {"type": "datetime", "bounds": ["2019-03-01", "2019-03-02"], "format": "%d/%m/%y %H.%M"}
    first, second, third = places(["01/03/19 00.00", "01/03/19 12.00", "02/03/19 00.00"], timed)
    assert first < second < third
    zoned = {"bounds": ["2019-03-01T00", "2019-03-02T00"], "format": "%Y-%m-%d %H:%M %z"}
    assert places(["2019-03-01 05:00 +0200", "2019-03-01 03:00 +0000"], zoned) == [3, 3]


def test_times_are_read_in_the_usual_ways():
    day = ("2019-03-01T00", "2019-03-02T00")
    texts = ["2019-03-01T05:30", "2019-03-01 05:59:59.999999999", "01.03.2019 05:00"]
    texts += ["2019-03-01T07:00+02:00", "2019-03-01T00:30-05:00", "2019-03-01T05:10Z"]
    assert places(texts, day) == [5] * 6
    assert places(["2019-03-01", "2019-03-01T24:00", "2019-03-01T05:61"], day) == [0, 0, 0]
    berlin = pl.Series(["2019-03-01T05:30"]).str.to_datetime().dt.replace_time_zone("Europe/Berlin")
    for unit in ("ms", "us", "ns"):
        assert places(berlin.dt.cast_time_unit(unit), day, pl.Datetime(unit, "Europe/Berlin")) == [
            4
        ]
    assert places([dt.date(2019, 3, 1), dt.date(5000, 1, 1)], day, pl.Date) == [0, 24]


def test_flags_and_categories():
    words = ["true", "NO", "Yes", "0", "1", "1.0", "f", "T", "maybe", "2", None, "NA"]
    expected = [1, 0, 1, 0, 1, 1, 0, 1, 0, 0, None, None]
    assert places(words, bool) == expected
    assert places([0.0, 1.0, 0.5, float("nan")], bool, pl.Float64) == [0, 1, 0, None]
    assert places(["b", " a ", "NA", "c", "", None, "null"], ["b", "a", "NA"]) == [
        *(0, 1, 2, 0, None, None, None)
    ]
    assert places(["", "a", "NA"], ["a", ""]) == [1, 0, None]
    assert places(["1", "1.0", "2.5", "x"], [2.5, 1, 7], missing=["v"]) == [1, 1, 0, 3]
    assert places([1, 2, 7], [2, 7, 9], pl.Int8) == [0, 0, 1]
    assert places([True, False, None], [True, False], pl.Boolean) == [0, 1, None]
    assert places(["true", "0", "x"], [True, False]) == [0, 1, 0]
    kinds = pl.Series(["b", "a"], dtype=pl.Categorical)
    assert places(kinds, ["a", "b"], pl.Categorical) == [1, 0]


@pytest.mark.parametrize(
    ("declared", "dtype"),
    [
        ((0, 1), pl.Date),
        ((0, 1), pl.List(pl.Int64)),
        (bool, pl.Date),
        (["a", "b"], pl.Int64),
        (["yes", "no"], pl.Boolean),
        (("2019-01-01", "2020-01-01"), pl.Int64),
        (("2019-01-01", "2020-01-01"), pl.Time),
    ],
)
def test_types_that_cannot_hold_a_column_are_refused_by_type(declared, dtype):
    with pytest.raises(ValueError, match=r"column 'v' is declared as .* but the table holds") as e:
        Schema({"v": declared}).for_types({"v": dtype})
    assert ("as numbers" in str(e.value)) == (declared == (0, 1))


def test_whole_numbers_are_known_by_their_type():
    def typed(declared, dtype):
        column = Schema({"v": declared}).for_types({"v": dtype})["v"]
        return column.whole, column.dtype

    assert typed((0, 90), pl.UInt8) == (True, "uint8")
    assert typed((0, 900), pl.UInt8) == (True, "int64")
    assert typed((0, 90), pl.Float32) == (False, "float32")
    assert typed((0, 90), pl.String) == (False, "float64")
    assert typed((int, 0, 90), pl.Float64) == (True, "int64")
    assert typed((float, 0, 90), pl.Int64) == (False, "float64")
    assert typed((0.5, 90.5), pl.Int16) == (True, "int16")
    assert typed((0.25, 0.75), pl.Int16) == (False, "float64")
    assert typed((0, 1e20), pl.Int64) == (False, "float64")
    assert typed(int, pl.Float64) == (True, "int64")
    again = Schema({"v": (0, 90)}).for_types({"v": pl.UInt8})
    assert again.for_types({"v": pl.Float64}) == again


# -- there and back ---------------------------------------------------------------------------

ROUND_TRIP = {
    **DECLARED,
    "single": (float, 0.1, 0.7),
    "tiny": (0.0, 1e-310),
    "years": ("0001-01-01T00:00:00.000000", "9999-12-31T00:00:00.000000"),
    "zoned": ("2019-01-01T00:00Z", "2019-12-31T00:00Z"),
    "kind": ["x", "y"],
    "bit": bool,
}
ROUND_TRIP_TYPES = {
    **dict.fromkeys(ROUND_TRIP, pl.String),
    "single": pl.Float32,
    "n": pl.Int8,
    "zoned": pl.Datetime("ms", "Europe/Berlin"),
    "kind": pl.Categorical,
    "bit": pl.Int8,
    "code": pl.Float32,
}


@pytest.mark.parametrize("library", ["polars", "pandas"])
@pytest.mark.parametrize("missing", [False, True])
def test_values_drawn_from_a_cell_lie_in_it(library, missing):
    if library == "pandas":
        pytest.importorskip("pandas")
    schema = Schema(ROUND_TRIP, missing=missing).for_types(ROUND_TRIP_TYPES)
    rows = max(each.cells for each in schema.cells)
    # Every cell of every column, several times.
    cells = np.stack([np.arange(20 * rows) % each.cells for each in schema.cells], axis=1)
    for rng in (np.random.default_rng(1), np.random.RandomState(1)):
        frame = schema.decode(cells, rng, library)
        assert [str(name) for name in frame.columns] == schema.names
        again, _ = cells_of(frame, schema, private=True)
        assert (again == cells).all(), np.argwhere(again != cells)[:3]


def test_decoded_types():
    schema = Schema(ROUND_TRIP, missing=["n", "flag", "day"]).for_types(ROUND_TRIP_TYPES)
    frame = schema.decode(np.zeros((2, len(schema.names)), int), RNG)
    assert dict(frame.schema) == {
        "x": pl.Float64,
        "n": pl.Int8,
        "wide": pl.Int64,
        "money": pl.Float64,
        "flag": pl.Boolean,
        "word": pl.String,
        "code": pl.Float32,
        "day": pl.Date,
        "time": pl.Datetime("us"),
        "single": pl.Float32,
        "tiny": pl.Float64,
        "years": pl.Datetime("us"),
        "zoned": pl.Datetime("ms", "Europe/Berlin"),
        "kind": pl.Categorical,
        "bit": pl.Int8,
    }
    assert frame.row(0)[:10] == (
        *(-2.5, -3, -5000, -0.05, False, "a", 1.0),
        *(dt.date(2019, 1, 1), dt.datetime(2019, 1, 1), float(np.float32(0.1))),
    )
    assert frame["zoned"][0] == dt.datetime(2019, 1, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    pandas = pytest.importorskip("pandas")
    types = schema.decode(np.zeros((2, len(schema.names)), int), RNG, "pandas").dtypes
    assert [str(types[name]) for name in ("n", "flag", "bit", "kind", "zoned", "x")] == [
        *("Int8", "boolean", "int8", "category", "datetime64[ms, Europe/Berlin]", "float64")
    ]
    assert isinstance(types["kind"], pandas.CategoricalDtype)


def test_draws_are_uniform_within_a_cell():
    column = Number("v", 0, 2560, whole=True)
    start, end = int(column.starts[7]), int(column.starts[8])
    drawn = Schema({"v": (int, 0, 2560)}).decode(np.full((20_000, 1), 7), RNG)["v"].to_numpy()
    assert set(drawn.tolist()) == set(range(start, end))
    # Each count is binomial; six deviations have a false-alarm rate of 2e-9 each.
    counts = np.bincount(drawn - start)
    assert np.abs(counts - 20_000 / len(counts)).max() < 6 * math.sqrt(20_000 / len(counts))


@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32, pl.String])
def test_numbers_have_as_many_decimals_as_declared(dtype):
    schema = Schema({"bmi": {"type": "float", "bounds": [9.95, 60], "decimals": 1}}, missing=True)
    schema = schema.for_types({"bmi": dtype})
    size = schema.cells[0].cells
    assert 240 < size <= 258  # of 501 numbers, the lowest and missing are alone
    drawn = schema.decode(RNG.integers(0, size - 1, (20_000, 1)), RNG)["bmi"]
    texts = drawn.cast(pl.Float64).round(1).to_numpy()
    assert np.array_equal(drawn.to_numpy(), texts.astype(drawn.to_numpy().dtype))
    assert drawn.min() == 10.0
    assert drawn.n_unique() > 490
    # What lies between two such numbers counts as the nearest.
    near, same = [20.04, 19.96, 1e300], [20.0, 20.0, 60.0]
    declared = {"bounds": [9.95, 60], "decimals": 1}
    assert places(near, declared, pl.Float64) == places(same, declared, pl.Float64)


def test_times_of_pandas():
    pandas = pytest.importorskip("pandas")
    schema = Schema({"t": ("2019-01-01T00", "2019-01-09T00"), "d": ("2019-01-01", "2019-01-09")})
    schema = Schema.from_dict(schema.to_dict())
    for unit in ("s", "ms", "us", "ns"):
        times = np.array(["2019-01-03T23:30", "1700-01-01", "NaT", "2262-01-01"], f"M8[{unit}]")
        frame = pandas.DataFrame({"t": times, "d": times})
        assert cells_of(frame, schema, party=True)[0].tolist() == [
            [71, 2],
            [0, 0],
            [0, 0],
            [192, 8],
        ]
        for name in frame:
            frame[name] = frame[name].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
        found = cells_of(frame, schema, party=True)[0].tolist()
        # A date is that of the place; times are compared as UTC.
        assert found == [[71, 3], [0, 0], [0, 0], [192, 8]]
    far = np.array([2**62, -(2**62)], "M8[s]")
    found, _ = cells_of(pandas.DataFrame({"t": far, "d": far}), schema, party=True)
    assert found.tolist() == [[192, 8], [0, 0]]


# -- odd values -------------------------------------------------------------------------------


class Evil:
    """An object that fails whatever is asked of it."""

    def __str__(self):
        raise RuntimeError("no")

    __ne__ = __eq__ = __str__
    __hash__ = object.__hash__


ODD = [
    *(None, float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, 10**400, -(10**30)),
    *(True, False, "", " ", "abc", "NA", "nan", "-nan", "1e999", "9" * 500, "0x1", "1_0", "1,5"),
    *("2019-02-30", "2019-01-01T25:00", "999999-01-01", "-262000-01-01", "0000-00-00", "12:00"),
    *("2019-01-01T00:00+99:99", "\0", "é\n", '"', "a,b", b"\xff\x00", dt.date(1, 1, 1)),
    *(dt.datetime(9999, 12, 31, tzinfo=dt.UTC), dt.timedelta(1), Decimal("1e999"), Decimal("sNaN")),
    *(1 + 2j, [1], {"a": 1}, object(), Evil(), np.datetime64("NaT"), np.float32(3), np.int8(1)),
]
VALUE = st.sampled_from(ODD) | st.floats() | st.integers() | st.text(max_size=8) | st.dates()
PLAIN = ["1", "2.5", "true", "a", "2020-02-02", "2020-02-02T02:02", "7", "no"]


def objects(values, schema):
    """The cells of a pandas frame with columns of objects, which may hold anything."""
    pandas = pytest.importorskip("pandas")
    columns = {name: pandas.Series(values, dtype=object) for name in schema.names}
    found, _ = cells_of(pandas.DataFrame(columns), schema, party=True)
    assert ((found >= 0) & (found < [each.cells for each in schema.cells])).all()
    return found


@settings(max_examples=20)
@given(st.lists(VALUE, min_size=1, max_size=6))
def test_no_value_fails_or_changes_how_another_is_read(values):
    both = objects([*PLAIN, *values], GAPPY)
    assert (both[: len(PLAIN)] == objects(PLAIN, GAPPY)).all()
    assert (both[len(PLAIN) :] == objects(values[::-1], GAPPY)[::-1]).all()


@pytest.mark.parametrize("schema", [COMPLETE, GAPPY])
def test_odd_values_have_a_cell_of_their_own_accord(schema):
    together = objects([*PLAIN, *ODD], schema)
    assert (together[: len(PLAIN)] == objects(PLAIN, schema)).all()
    for j, value in enumerate(ODD):
        assert (objects([value], schema) == together[len(PLAIN) + j]).all()


@settings(max_examples=20)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=6))
@example([value for value in ODD if isinstance(value, str)])
def test_no_text_in_a_file_changes_how_another_is_read(tmp_path, values):
    # A carriage return in quotes is the CSV reader's own matter.
    values = [value.replace("\r", "") for value in values]
    path = tmp_path / "t.csv"
    frame = pl.DataFrame(dict.fromkeys(GAPPY.names, PLAIN + values))
    frame.write_csv(path, quote_style="always")
    found, _ = cells_of(path, GAPPY, private=True)
    # Text is text, wherever it stands.
    assert (cells_of(frame, GAPPY, private=True)[0] == found).all()
    assert (cells_of(frame[: len(PLAIN)], GAPPY, private=True)[0] == found[: len(PLAIN)]).all()


@settings(max_examples=8)
@given(
    st.lists(st.floats() | st.none()),
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.none()),
    st.lists(st.integers(-(2**31), 2**31 - 1)),
)
@example([], [0, -185542587187200001, 2**63 - 1, -(2**63), 185542587187200001], [0, 2**31 - 1])
def test_any_number_and_any_date_has_a_cell(floats, whole, days):
    numbers = {"x": (-1, 1), "n": (int, 0, 5), "flag": bool, "code": [0, 1, 2]}
    for values, dtype in ((floats, pl.Float64), (whole, pl.Int64)):
        frame = pl.DataFrame({name: pl.Series(values, dtype=dtype) for name in numbers})
        if len(frame):
            found, schema = cells_of(frame, Schema(numbers, missing=True), private=True)
            assert ((found >= 0) & (found < [each.cells for each in schema.cells])).all()
    moments = {
        "day": ("2019-01-01", "2019-12-31"),
        "time": ("2019-01-01T00:00:00.000000", "2020-01-01"),
    }
    physical = [(pl.Int32, days, pl.Date)]
    for zone in (None, "Asia/Tokyo", "America/Caracas"):
        physical += [(pl.Int64, whole, pl.Datetime(unit, zone)) for unit in ("ms", "us", "ns")]
    for kind, values, dtype in physical:
        column = pl.Series(values, dtype=kind).cast(dtype)
        frame = pl.DataFrame(dict.fromkeys(moments, column))
        if len(frame):
            found, schema = cells_of(frame, Schema(moments, missing=True), private=True)
            assert ((found >= 0) & (found < [each.cells for each in schema.cells])).all()
            # In the order of the values.
            known = [k for k, value in enumerate(values) if value is not None]
            for j in range(2):
                at = found[sorted(known, key=lambda k: values[k]), j]
                assert (np.diff(at) >= 0).all()
