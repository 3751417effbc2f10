"""Synthetic records as tables: the names, the types and the bounds of the data fitted."""

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import privem
from privem import FactorAnalysis, GaussianMixture, KMeans, ModelFileError
from privem.data import read_file
from privem.data.values import TYPES, check_type, type_name
from privem.estimator import store
from privem.estimator.synthetic import Columns

pandas = pytest.importorskip("pandas")

LOW, HIGH = [0, 0, 140.0, -3], [110, 1, 210.5, 2]
SCHEMA = {"age": pl.UInt8, "member": pl.Boolean, "height": pl.Float32, "score": pl.Int64}


def people(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "member": rng.random(n) < 0.2,
            "height": rng.normal(175, 10, n),
            "score": rng.integers(-5, 6, n),
        }
    ).cast(SCHEMA)


def private(cls=GaussianMixture, **more):
    return cls(1, epsilon=2.0, bounds=(LOW, HIGH), random_state=0, **more)


def within(frame, low=LOW, high=HIGH):
    values = frame.cast(pl.Float64).to_numpy()
    return bool(((values >= low) & (values <= high)).all())


# Types by name


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_known_by_every_library(name):
    frame = pl.DataFrame({"a": np.zeros(1, dtype=name)})
    assert type_name(np.dtype(name)) == name
    assert type_name(frame.schema["a"]) == name
    assert type_name(pandas.Series([0], dtype=name).dtype) == name
    first, bits = name[0], name.lstrip("uintfloa")
    nullable = {"b": "boolean", "u": f"UInt{bits}", "i": f"Int{bits}", "f": f"Float{bits}"}[first]
    assert type_name(pandas.array([1], dtype=nullable).dtype) == name
    assert check_type(name) == name


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.dtype(">i4"), "int32"),
        (np.dtype("f2"), "float32"),
        (np.dtype("O"), "float64"),
        (pl.Decimal(10, 2), "float64"),
        (pl.Int128, "float64"),
        (pandas.SparseDtype("float64"), "float64"),
        (None, "float64"),
    ],
)
def test_other_types_have_a_nearest_one(dtype, expected):
    assert type_name(dtype) == expected


# What a fit records


def test_types_come_from_the_schema(tmp_path):
    frame = people(50)
    expected = ["uint8", "bool", "float32", "int64"]
    frame.write_parquet(tmp_path / "x.parquet")
    frame.write_csv(tmp_path / "x.csv")
    np.save(tmp_path / "x.npy", np.zeros((9, 4), dtype=np.int16))
    as_pandas = pandas.DataFrame({name: frame[name].to_numpy() for name in frame.columns})
    nullable = as_pandas.astype({"age": "UInt8", "member": "boolean", "score": "Int64"})
    whole = np.arange(36).reshape(9, 4)
    cases = [
        (frame, expected),
        (as_pandas, expected),
        (nullable, expected),
        (tmp_path / "x.parquet", expected),
        (read_file(tmp_path / "x.parquet", columns=["score", "age"]), ["int64", "uint8"]),
        (read_file(tmp_path / "x.parquet", types={"age": "float"}), ["float64", *expected[1:]]),
        (tmp_path / "x.npy", ["int16"] * 4),
        (whole.astype(np.uint32), ["uint32"] * 4),
        (whole.astype(np.float32), ["float32"] * 4),
        (whole > 5, ["bool"] * 4),
        # A list and a CSV file declare nothing: to guess would be to look at the values.
        (whole.tolist(), ["float64"] * 4),
        (tmp_path / "x.csv", ["float64"] * 4),
        (read_file(tmp_path / "x.csv", types={"age": "int"}), ["int64", *["float64"] * 3]),
    ]
    for rows, types in cases:
        for model in (
            GaussianMixture(1, epsilon=None),
            FactorAnalysis(1, epsilon=None),
            KMeans(1, epsilon=None),
            KMeans(1, epsilon=1.0, bounds=300.0),
        ):
            assert model.fit(rows).feature_types_in_ == types
    assert not hasattr(KMeans(1), "sample_frame")


def test_a_refit_forgets_the_earlier_types():
    model = GaussianMixture(1, epsilon=None).fit(people(50))
    assert model.fit(np.zeros((9, 2)) + np.eye(9, 2)).feature_types_in_ == ["float64"] * 2
    assert model.sample_frame(3).schema == {"x0": pl.Float64, "x1": pl.Float64}


def test_wrong_types_are_refused(tmp_path):
    people(50).write_csv(tmp_path / "x.csv")
    np.save(tmp_path / "x.npy", np.zeros((9, 4)))
    with pytest.raises(ValueError, match=r"no type 'str'; types are bool, int8"):
        read_file(tmp_path / "x.csv", types={"age": "str"})
    with pytest.raises(ValueError, match=r"given for 'wage', which is not one of the columns"):
        read_file(tmp_path / "x.csv", types={"wage": "int"})
    with pytest.raises(ValueError, match="one type"):
        read_file(tmp_path / "x.npy", types={"x0": "int"})


def test_the_statement_says_that_types_are_taken_as_public():
    public = private().fit(people()).privacy_.public
    assert public["column types"] == "uint8, bool, float32, int64"
    whole = np.arange(40).reshape(10, 4)
    fit = FactorAnalysis(1, epsilon=1.0, bounds=50.0).fit
    assert fit(whole).privacy_.public["column types"] == f"all {whole.dtype}"
    assert "column types" not in fit(whole.astype(float)).privacy_.public
    assert "column types" not in fit(whole.tolist()).privacy_.public


# A private fit of a CSV file


def released(path, tmp_path, epsilon=1.0):
    """All that a private fit publishes but its noisy numbers."""
    model = GaussianMixture(1, epsilon=epsilon, bounds=(0, 9), n_iter=2).fit(path)
    content = json.loads((model.save(tmp_path / "m.json") and tmp_path / "m.json").read_text())
    statement = content["attributes"].pop("privacy_")["statement"]
    del content["checksum"], statement["releases"]
    statement["public"].pop("background", None)  # a noisy number in words
    content["statement"] = statement
    return _without_numbers(content), model.sample_frame(5).schema, str(vars(model).keys())


def _without_numbers(value):
    match value:
        case dict():
            return {key: _without_numbers(item) for key, item in value.items()}
        case list():
            return [_without_numbers(item) for item in value]
        case float():
            return "a number"
    return value


@pytest.mark.parametrize("at", [0, 50, 499])
def test_a_private_fit_does_not_tell_whether_one_record_was_fractional(at, tmp_path):
    lines = [f"{i % 7},{i % 5}" for i in range(500)]
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "\n".join(lines) + "\n")
    whole = released(path, tmp_path)
    lines[at] = "1.5,3"
    path.write_text("a,b\n" + "\n".join(lines) + "\n")
    assert released(path, tmp_path) == whole
    # The same comparison does see a schema that differs.
    pl.DataFrame({"a": [1, 2], "b": [2, 1]}).write_parquet(tmp_path / "x.parquet")
    assert released(tmp_path / "x.parquet", tmp_path) != whole


# Tables


@pytest.mark.parametrize("cls", [GaussianMixture, FactorAnalysis])
def test_a_private_sample_is_like_the_data(cls):
    frame = people(5000)
    model = private(cls).fit(frame)
    drawn = model.sample_frame(5000)
    assert drawn.schema == frame.schema
    assert within(drawn)
    assert drawn["age"].n_unique() > 50
    assert abs(drawn["member"].mean() - 0.2) < 0.06
    assert abs(drawn["height"].mean() - 175) < 2
    # Without noise of its own: the same seed, the same records; and unclipped arrays as ever.
    assert drawn.equals(model.sample_frame(5000))
    X = model.sample(5000)
    X = X[0] if cls is GaussianMixture else X
    assert X.dtype == np.float64
    assert (X[:, 3] % 1 != 0).any()


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_booleans_are_as_frequent_as_each_component_says(kind, tmp_path):
    rng = np.random.default_rng(1)
    group = rng.random(40_000) < 0.4
    share = np.where(group, 0.02, 0.7)
    frame = pl.DataFrame(
        {"place": np.where(group, 0.0, 9.0) + rng.normal(0, 0.5, 40_000), "rare": False}
    ).with_columns(rare=pl.Series(rng.random(40_000) < share))
    frame.write_parquet(tmp_path / "x.parquet")
    model = GaussianMixture(2, covariance_type=kind, epsilon=None, random_state=3)
    # Who opens rows themselves has said what they are; a frame or a file with flags is refused.
    for rows in (frame, frame.lazy(), tmp_path / "x.parquet"):
        with pytest.raises(ValueError, match=r"'rare' is declared as yes or no.*TableMixture"):
            model.fit(rows)
    model.fit(read_file(tmp_path / "x.parquet"))
    drawn = model.sample_frame(200_000)
    low, high = drawn.filter(pl.col("place") < 4.5), drawn.filter(pl.col("place") > 4.5)
    # Five standard errors of the data's share; one half as the threshold would give 0.0003.
    assert abs(low["rare"].mean() - 0.02) < 5 * np.sqrt(0.02 * 0.98 / 16_000)
    assert abs(high["rare"].mean() - 0.7) < 5 * np.sqrt(0.7 * 0.3 / 24_000)


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("cls", [GaussianMixture, FactorAnalysis])
def test_a_constant_boolean_stays_constant(value, cls):
    frame = people(200).with_columns(member=pl.lit(value))
    assert set(cls(1, epsilon=None).fit(frame).sample_frame(2000)["member"]) == {value}


def test_an_exact_fit_has_no_bounds_but_integers_have_their_range():
    rng = np.random.default_rng(0)
    X = pl.DataFrame({"a": rng.integers(0, 256, 500).astype(np.uint8), "b": rng.normal(size=500)})
    drawn = GaussianMixture(1, epsilon=None, random_state=0).fit(X).sample_frame(3000)
    assert drawn.schema == X.schema
    assert drawn["a"].min() == 0
    assert drawn["a"].max() == 255
    assert drawn["b"].max() > X["b"].max()
    # Far more at the ends than in between: pulled in and not wrapped around.
    assert (drawn["a"] == 0).sum() > 20


@pytest.mark.parametrize("radius", [0.4, 1.7, 3.0, 20.0])
@pytest.mark.parametrize("cls", [GaussianMixture, FactorAnalysis])
def test_records_stay_in_a_ball(radius, cls):
    frame = people(500).select(
        "member", "score", single=pl.col("height") / 100, double=pl.col("age") / 50.0
    )
    model = cls(1, epsilon=1.0, bounds=radius).fit(frame)
    drawn = model.sample_frame(2000)
    assert drawn.schema == frame.schema
    norm = np.linalg.norm(drawn.cast(pl.Float64).to_numpy(), axis=1)
    assert norm.max() <= radius * (1 + 1e-12)  # how the norm is rounded
    assert norm.max() > 0.5 * radius or radius == 20.0


def test_bounds_are_kept_as_given():
    low, high = [0.1, 0.2], [0.7, 99.3]
    for kind in ("full", "spherical"):
        X = np.random.default_rng(0).random((200, 2))
        model = GaussianMixture(1, covariance_type=kind, epsilon=1.0, bounds=(low, high)).fit(X)
        assert [side.tolist() for side in model.bounds_] == [low, high]
        drawn = model.sample_frame(500).to_numpy()
        assert ((drawn >= low) & (drawn <= high)).all()
    model = GaussianMixture(1, epsilon=1.0, bounds=(0, 5)).fit(X)
    assert [side.tolist() for side in model.bounds_] == [[0, 0], [5, 5]]


@given(
    st.sampled_from(TYPES),
    st.tuples(
        st.floats(allow_nan=False, allow_infinity=False),
        st.floats(allow_nan=False, allow_infinity=False),
    ).map(sorted),
    arrays(np.float64, (5, 1)),
)
def test_no_number_leaves_its_type_or_its_bounds(kind, bounds, drawn):
    sides = (np.array([bounds[0]]), np.array([bounds[1]]))
    (column,) = Columns(["a"], [kind], sides).table(drawn).values()
    assert column.dtype == kind
    values = column.tolist()  # Python's integers: exact to compare with doubles
    if kind == "bool":
        least, most = 0, 1
    else:
        info = (np.finfo if kind[0] == "f" else np.iinfo)(kind)
        least, most = info.min, info.max
    assert all(least <= value <= most for value in values)
    if kind == "float64":
        possible = True
    elif kind == "float32":
        with np.errstate(over="ignore"):
            near = np.float32(bounds)
            near = [*near, np.nextafter(near[0], np.inf), np.nextafter(near[1], -np.inf)]
        possible = any(bounds[0] <= v <= bounds[1] and abs(v) <= most for v in map(float, near))
    else:
        possible = max(math.ceil(bounds[0]), least) <= min(math.floor(bounds[1]), most)
    if possible:
        assert all(bounds[0] <= value <= bounds[1] for value in values)


def test_the_largest_integers_do_not_wrap_round():
    drawn = np.array([[1e30], [-1e30], [np.inf], [2.0**63], [5.4], [np.nan]])
    expected = {"int64": (-(2**63), 2**63 - 1024), "uint64": (0, 2**64 - 2048)}
    for kind, (low, high) in expected.items():
        (column,) = Columns(["a"], [kind]).table(drawn).values()
        middle = min(2**63, high)
        assert [int(v) for v in column] == [high, low, high, middle, 5, low]
    (column,) = Columns(["a"], ["int8"], ([-3.5], [2.5])).table(drawn).values()
    assert column.tolist() == [2, -3, 2, 2, 2, -3]


def test_single_precision_does_not_round_across_a_bound():
    drawn = np.array([[-1e9], [1e9]])
    low, high = 2.0**25 - 1.0, 2.0**25 + 1.0  # singles are 2 apart below 2^25 and 4 above
    (column,) = Columns(["a"], ["float32"], ([low], [high])).table(drawn).values()
    assert column.tolist() == [2.0**25, 2.0**25]
    (column,) = Columns(["a"], ["float32"], ([0.1], [0.7])).table(drawn).values()
    assert float(column[0]) >= 0.1
    assert float(column[1]) <= 0.7


def test_integers_are_rounded_to_the_nearest():
    drawn = np.array([[5.4], [5.6], [-5.4], [-5.6], [0.2]])
    (column,) = Columns(["a"], ["int16"], ([-9.0], [9.0])).table(drawn).values()
    assert column.tolist() == [5, 6, -5, -6, 0]


def test_bounds_without_a_value_of_the_type_give_the_nearest():
    drawn = np.array([[0.5], [7.0]])
    for kind, low, high, value in [
        ("int16", 0.3, 0.8, 1),
        ("uint8", -9.0, -1.0, 0),
        ("bool", 2.0, 3.0, True),
    ]:
        (column,) = Columns(["a"], [kind], ([low], [high])).table(drawn).values()
        assert column.tolist() == [value, value]


# Frames, and models on disk


def test_pandas_frames():
    frame = people()
    as_pandas = pandas.DataFrame({name: frame[name].to_numpy() for name in frame.columns})
    model = private().fit(as_pandas)
    drawn = model.sample_frame(300, library="pandas")
    assert isinstance(drawn, pandas.DataFrame)
    assert drawn.dtypes.to_dict() == as_pandas.dtypes.to_dict()
    assert drawn["age"].tolist() == model.sample_frame(300)["age"].to_list()
    model.predict(drawn)
    with pytest.raises(ValueError, match="library"):
        model.sample_frame(3, library="dask")
    with pytest.raises(ValueError, match="n_samples"):
        model.sample_frame(0)
    model.feature_names_in_[:] = "height"
    with pytest.raises(ValueError, match="named twice"):
        model.sample_frame(3)


@pytest.mark.parametrize("cls", [GaussianMixture, FactorAnalysis])
@pytest.mark.parametrize("bounds", [(LOW, HIGH), 200.0])
def test_a_loaded_model_gives_the_same_table(cls, bounds, tmp_path):
    model = cls(1, epsilon=1.0, bounds=bounds, random_state=4).fit(people())
    again = privem.load(model.save(tmp_path / "m.json") and tmp_path / "m.json")
    assert again.feature_types_in_ == model.feature_types_in_
    assert again.sample_frame(400).equals(model.sample_frame(400))


def test_models_of_the_first_format_load_and_sample():
    """A file written by privem before types were recorded; ages 0 to 110 and a boolean."""
    model = privem.load(Path(__file__).parent / "model-version-1.json")
    assert model.privacy_.epsilon == 1.0
    drawn = model.sample_frame(2000)
    assert drawn.schema == {"age": pl.Float64, "member": pl.Float64}
    assert within(drawn, [0, 0], [110, 1])
    assert abs(drawn["age"].mean() - 54) < 6


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("feature_types_in_", ["int64"], "not 4 column types"),
        ("feature_types_in_", ["int64", "int64", "int64", "object"], "not 4 column types"),
        ("feature_types_in_", "int64", "not 4 column types"),
        ("feature_types_in_", 3, "not 4 column types"),
        ("bounds_", [[1.0], [2.0]], "not 4 lower and upper bounds"),
        ("bounds_", 3, "damaged"),
    ],
)
def test_a_file_with_impossible_columns_is_refused(name, value, words, tmp_path):
    path = tmp_path / "m.json"
    private().fit(people()).save(path)
    content = json.loads(path.read_text())
    assert content["version"] == 4
    content["attributes"][name] = value
    content["checksum"] = store._checksum(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ModelFileError, match=words):
        privem.load(path)


@pytest.mark.parametrize("version", [0, -1, True, 1.0, 5])
def test_versions_that_never_were_are_refused(version, tmp_path):
    path = tmp_path / "m.json"
    private().fit(people()).save(path)
    content = json.loads(path.read_text()) | {"version": version}
    content["checksum"] = store._checksum(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ModelFileError, match="format version"):
        privem.load(path)
