"""Mixed tables through the data door: frames, lazy frames and files give the same cells."""

import datetime as dt
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from privem import Schema
from privem.core import Block, Scratch
from privem.data import Policy, open_table

ROWS = 500
RNG = np.random.default_rng(0)
SCHEMA = Schema(
    {
        "age": (int, 15, 95),
        "hours": (0, 100),
        "sex": ["Female", "Male"],
        "grade": [1, 2, 3],
        "smoker": bool,
        "admitted": ("2019-01-01", "2025-12-31"),
        "seen": ("2019-01-01T00:00:00", "2025-12-31T00:00:00"),
    },
    missing=["hours", "smoker", "seen", "sex"],
)


def gaps(values):
    return [
        None if gap else value for value, gap in zip(values, RNG.random(ROWS) < 0.2, strict=True)
    ]


def people():
    """A table of all kinds of columns, some with gaps, and columns for other uses."""
    start = dt.datetime(2018, 6, 1)
    times = [start + dt.timedelta(seconds=int(s)) for s in RNG.integers(0, 2.5e8, ROWS)]
    return pl.DataFrame(
        {
            "age": RNG.integers(10, 100, ROWS),
            "hours": gaps(RNG.normal(50, 30, ROWS).round(3).tolist()),
            "sex": gaps(RNG.choice(["Female", "Male", "other"], ROWS).tolist()),
            "grade": RNG.integers(1, 5, ROWS),
            "smoker": gaps((RNG.random(ROWS) < 0.3).tolist()),
            "admitted": [each.date() for each in times],
            "seen": gaps(times),
            "person": RNG.integers(0, 100, ROWS),
            "weight": RNG.random(ROWS),
        }
    )


PEOPLE = people()
TABLE = PEOPLE.select(SCHEMA.names)


def pandas_frames(frame):
    """The same as pandas frames: usual types, nullable ones and objects."""
    pandas = pytest.importorskip("pandas")
    usual = pandas.DataFrame(frame.to_dict(as_series=False))
    usual["seen"] = pandas.to_datetime(usual["seen"])
    yield usual
    nullable = usual.convert_dtypes()
    nullable["sex"] = nullable["sex"].astype("category")
    nullable["grade"] = nullable["grade"].astype("Int8").astype("category")
    nullable["seen"] = usual["seen"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    yield nullable
    yield usual.astype(object)


def sources(frame, folder):
    """All that one table may come as."""
    yield frame
    yield frame.lazy()
    frame.write_parquet(folder / "t.parquet")
    yield folder / "t.parquet"
    frame.write_csv(folder / "t.csv")
    yield str(folder / "t.csv")
    (folder / "parts").mkdir()
    frame[:200].write_csv(folder / "parts" / "a.csv")
    frame[200:].write_csv(folder / "parts" / "b.csv")
    yield folder / "parts"
    yield from pandas_frames(frame)


def read(table, rows=64):
    return np.concatenate([block.X for block in table.rows.blocks(rows)])


def test_all_kinds_of_tables_give_the_same_cells(tmp_path):
    tables = [
        open_table(each, policy=Policy(private=True, schema=SCHEMA))
        for each in sources(TABLE, tmp_path)
    ]
    assert len(tables) == 8
    first = read(tables[0])
    assert first.shape == (ROWS, 7)
    assert (first[:, 1] == SCHEMA.cells[1].cells - 1).any()
    for table in tables:
        found = read(table)
        assert found.dtype == np.int32
        assert table.names == SCHEMA.names
        assert (found == first).all(), np.argwhere(found != first)[:5]
        assert [cell.cells for cell in table.schema.cells] == [c.cells for c in SCHEMA.cells]


def test_columns_come_in_the_order_of_the_schema():
    shuffled = TABLE.select(SCHEMA.names[::-1])
    policy = Policy(private=True, schema=SCHEMA)
    assert (
        read(open_table(shuffled, policy=policy)) == read(open_table(TABLE, policy=policy))
    ).all()


def test_synthetic_tables_have_the_types_of_the_table(tmp_path):
    frame = TABLE.with_columns(
        pl.col("age").cast(pl.UInt8),
        pl.col("hours").cast(pl.Float32),
        pl.col("sex").cast(pl.Categorical),
        pl.col("seen").dt.replace_time_zone("Asia/Tokyo").dt.cast_time_unit("ns"),
    )
    frame.write_parquet(tmp_path / "t.parquet")
    for each in (frame, tmp_path / "t.parquet"):
        table = open_table(each, policy=Policy(private=True, schema=SCHEMA))
        assert table.schema.decode(read(table), RNG).schema == frame.schema
        assert Schema.from_dict(table.schema.to_dict()) == table.schema
        assert list(table.types) == [column.dtype for column in table.schema.columns]


@pytest.mark.parametrize("kind", ["frame", "lazy", "csv", "parquet", "pandas"])
def test_weights_and_persons_by_name(tmp_path, kind):
    PEOPLE.write_csv(tmp_path / "t.csv")
    PEOPLE.write_parquet(tmp_path / "t.parquet")
    source = {
        "frame": lambda: PEOPLE,
        "lazy": lambda: PEOPLE.lazy(),
        "csv": lambda: tmp_path / "t.csv",
        "parquet": lambda: tmp_path / "t.parquet",
        "pandas": lambda: next(pandas_frames(PEOPLE)),
    }[kind]()
    policy = Policy(private=True, schema=SCHEMA, params={"max_weight": 0.5})
    table = open_table(source, None, "weight", "person", policy)
    assert (table.people.unit, table.people.count, table.people.weighted) == ("person", 100, True)
    (_, person, counts) = np.unique(
        PEOPLE["person"].to_numpy(), return_inverse=True, return_counts=True
    )
    expected = np.minimum(PEOPLE["weight"].to_numpy(), 0.5) / counts[person]
    weights = np.concatenate([block.weight for block in table.owned.rows.blocks(64)])
    np.testing.assert_allclose(weights, expected)
    assert sum(len(block.X) for block in table.owned.persons.blocks(64)) == 100
    assert table.names == SCHEMA.names

    def count(block: Block, scratch: Scratch) -> int:
        return int(block.X[:, 0].sum())

    total = sum(table.each(count, n_jobs=1))
    assert total == int((TABLE["age"].clip(15, 95) - 15).sum())


def test_weights_and_groups_as_values():
    policy = Policy(private=True, schema=SCHEMA)
    table = open_table(TABLE, None, PEOPLE["weight"].to_numpy(), PEOPLE["person"], policy)
    assert table.people.count == 100
    lazy = open_table(TABLE.lazy(), None, PEOPLE["weight"].to_numpy(), None, policy)
    assert sum(block.weight.sum() for block in lazy.rows.blocks(64)) == pytest.approx(
        PEOPLE["weight"].sum()
    )
    lazy = open_table(TABLE.lazy(), None, None, PEOPLE["person"], policy)
    assert lazy.people.count == 100


def test_columns_that_do_not_fit_the_schema(tmp_path):
    policy = Policy(private=True, schema=SCHEMA)
    with pytest.raises(ValueError, match="no column 'age'"):
        open_table(TABLE.drop("age"), policy=policy)
    with pytest.raises(ValueError, match="not in the schema: 'person', 'weight'; add them"):
        open_table(PEOPLE, policy=policy)
    with pytest.raises(ValueError, match="leave it out of the schema"):
        open_table(TABLE, None, "age", None, policy)
    skipping = Schema.from_dict(
        {"columns": SCHEMA.to_dict()["columns"] | {"person": {"type": "skip"}}}
    )
    table = open_table(PEOPLE, None, "weight", None, Policy(private=True, schema=skipping))
    assert table.names == SCHEMA.names
    # What is evaluated may have more columns; y names one to leave out.
    assert open_table(PEOPLE, policy=Policy(fitted=True, party=True, schema=SCHEMA)).n_features == 7
    assert open_table(PEOPLE.drop("weight"), "person", policy=policy).n_features == 7
    # The other names of a CSV file may be somebody's record.
    PEOPLE.write_csv(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="number 8, number 9; add them") as caught:
        open_table(tmp_path / "t.csv", policy=policy)
    assert "person" not in str(caught.value)
    PEOPLE.rename({"age": "Ann"}).write_csv(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="no column 'age' in its first line") as caught:
        open_table(tmp_path / "t.csv", policy=policy)
    assert "Ann" not in str(caught.value)


@pytest.mark.parametrize("X", [np.eye(7), [[1] * 7], {"age": [1]}])
def test_rows_without_names_are_refused(X):
    with pytest.raises(TypeError, match="frame"):
        open_table(X, policy=Policy(private=True, schema=SCHEMA))


def test_a_name_given_twice_is_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match="named twice in the frame: a"):
        open_table(frame, policy=Policy(private=True, schema=Schema({"a": (0, 1)})))


GAP = TABLE.with_columns(
    pl.when(pl.int_range(ROWS) == 77).then(None).otherwise(pl.col("age")).alias("age")
)


def test_an_undeclared_gap_is_refused_without_saying_where(tmp_path):
    """All columns that may have none are named, whichever has one."""
    elsewhere = TABLE.with_columns(grade=pl.lit(None, pl.Int64))
    said = set()
    for each in (*sources(GAP, tmp_path), elsewhere, elsewhere.lazy()):
        with pytest.raises(ValueError, match="Input X contains NaN") as caught:
            open_table(each, policy=Policy(private=True, schema=SCHEMA))
        said.add(str(caught.value))
    (message,) = said
    full = [repr(column.name) for column in SCHEMA.columns if not column.missing]
    assert all(name in message for name in full)
    assert not any(repr(name) in message for name in SCHEMA.missing)


def test_an_exact_fit_names_the_column_of_a_gap(tmp_path):
    complete = GAP.with_columns(sex=pl.lit("Male"), grade=pl.lit(2))
    for each in sources(complete, tmp_path):
        with pytest.raises(ValueError, match=r"contains NaN .* in column 'age'"):
            open_table(each, policy=Policy(schema=SCHEMA))


def test_a_party_counts_an_undeclared_gap_as_the_first_cell(tmp_path):
    for each in sources(GAP, tmp_path):
        table = open_table(each, policy=Policy(party=True, schema=SCHEMA))
        assert read(table)[77, 0] == 0
        private = open_table(TABLE, policy=Policy(private=True, schema=SCHEMA))
        assert (np.delete(read(table), 77, 0) == np.delete(read(private), 77, 0)).all()


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("sex", ["Male", "other"], "column 'sex' holds 'other'"),
        ("grade", ["1", "9"], "column 'grade' holds '9'"),
        ("smoker", ["yes", "perhaps"], "column 'smoker' holds 'perhaps'"),
        ("age", ["31", "old"], "column 'age' holds 'old'"),
        ("hours", ["3", "inf"], "column 'hours' holds 'inf'"),
        ("admitted", ["2020-01-01", "01/02/2020"], "column 'admitted' holds '01/02/2020'"),
        ("seen", ["2020-01-01", "noon"], "column 'seen' holds 'noon'"),
    ],
)
def test_an_exact_fit_names_what_is_not_declared(tmp_path, column, values, words):
    frame = pl.DataFrame({column: values})
    frame.write_csv(tmp_path / "t.csv")
    schema = SCHEMA.select([column])
    for each in (frame, frame.lazy(), tmp_path / "t.csv", *list(pandas_frames_of(frame))):
        with pytest.raises(ValueError, match=words):
            open_table(each, policy=Policy(schema=schema))
        # A private fit says nothing.
        assert open_table(each, policy=Policy(private=True, schema=schema)).n_features == 1


def pandas_frames_of(frame):
    pandas = pytest.importorskip("pandas")
    yield pandas.DataFrame(frame.to_dict(as_series=False))


def test_an_exact_fit_takes_what_is_declared(tmp_path):
    frame = TABLE.with_columns(sex=pl.lit("Male"), grade=pl.lit(2))
    for each in sources(frame, tmp_path):
        found = read(open_table(each, policy=Policy(schema=SCHEMA)))
        assert found.shape == (ROWS, 7)


def test_columns_that_are_all_missing():
    pandas = pytest.importorskip("pandas")
    schema = Schema({"a": (0, 1), "b": ["x", "y"], "c": bool}, missing=True)
    nothing = {"a": [None, None], "b": [None, None], "c": [None, None]}
    for frame in (pl.DataFrame(nothing), pandas.DataFrame(nothing)):
        for policy in (Policy(private=True, schema=schema), Policy(schema=schema)):
            assert read(open_table(frame, policy=policy)).tolist() == [[231, 2, 2]] * 2


def test_empty_tables(tmp_path):
    schema = Schema({"a": (0, 1)})
    with pytest.raises(ValueError, match="no rows"):
        open_table(pl.DataFrame({"a": []}), policy=Policy(private=True, schema=schema))
    (tmp_path / "t.csv").write_text("a\n")
    table = open_table(tmp_path / "t.csv", policy=Policy(private=True, schema=schema))
    assert list(table.rows.blocks(5)) == []


def test_a_file_that_changes_while_it_is_read_is_mapped_by_the_rule(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("age\n31\n47\n")
    schema = Schema({"age": (int, 0, 90)})
    table = open_table(path, policy=Policy(private=True, schema=schema))
    path.write_text("age\n31\nNA\n")
    assert read(table).tolist() == [[31], [0]]


def test_any_names_work():
    names = ["odd0", "gap0", "literal", "len", "a b", "x" * 300, "é", "a.b"]
    schema = Schema(dict.fromkeys(names, bool))
    frame = pl.DataFrame({name: [True, False] for name in names})
    for policy in (Policy(private=True, schema=schema), Policy(schema=schema)):
        for each in (frame, frame.lazy()):
            found = read(open_table(each, policy=policy))
            assert (found == [[1] * len(names), [0] * len(names)]).all()


_STREAM = """
import sys
from privem import Schema
from privem.data import Policy, open_table
days = ("2019-01-01", "2020-01-01")
schema = Schema({"age": (int, 0, 99), "x": (0, 1), "sex": ["f", "m"], "day": days})
def own():  # megabytes that are not pages of the file
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) / 1024
for path in sys.argv[1:]:
    table = open_table(path, policy=Policy(private=True, schema=schema))
    rows, most = 0, own()
    for block in table.rows.blocks(32_768):
        rows, most = rows + len(block.X), max(most, own())
    print(rows, most)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat_on_a_long_file(tmp_path):
    def frame(rows):
        columns = {"age": RNG.integers(0, 120, rows), "x": RNG.random(rows)}
        return pl.DataFrame(columns).with_columns(sex=pl.lit("f"), day=pl.lit("2019-05-05"))

    paths = [tmp_path / name for name in ("short.parquet", "long.parquet", "long.csv")]
    for path, rows in zip(paths, (1_000_000, 6_000_000), strict=False):
        frame(rows).write_parquet(path, row_group_size=100_000)
    frame(2_000_000).write_csv(paths[2])
    done = subprocess.run(
        [sys.executable, "-c", _STREAM, *map(str, paths)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    assert [rows for rows, _ in found] == [1_000_000, 6_000_000, 2_000_000]
    # The cells of five million rows would be 80 MB, and their values 240 MB.
    assert found[1][1] - found[0][1] < 128
    # polars reads ahead in a CSV file, by up to 256 MB: here that is all of it, 67 MB.
    assert found[2][1] - found[1][1] < 67 + 128
