"""What every estimator owes: types of columns, refits, silence on weights."""

import numpy as np
import polars as pl
import pytest

import privem
from privem import CategoricalMixture, SymmetricMixture, TableMixture
from privem.data import read_file
from privem.declaration import declarations

from ..examples import TARGETED

pandas = pytest.importorskip("pandas")

N = 300
EVERY = [each.estimator for each in declarations()]
KINDS = {"age": "int64", "height": "float32", "member": "bool"}
TYPES = list(KINDS.values())


def table():
    rng = np.random.default_rng(0)
    return {
        "age": rng.integers(-3, 4, N),
        "height": rng.normal(size=N).astype(np.float32),
        "member": rng.random(N) < 0.5,
        "y": rng.normal(size=N),
    }


def model_of(cls, **more):
    given = {"bounds": 5.0, "target_bounds": 9.0} if cls in TARGETED else {"bounds": 5.0}
    if cls is CategoricalMixture:
        given = {"categories": [[-3, -2, -1, 0, 1, 2, 3]] * 2}
    if cls is TableMixture:
        given = {"schema": (-5.0, 5.0)}
    return cls(**given, **more)


def numbers():
    return np.random.default_rng(1).integers(-1, 2, (N, 2)).astype(float)


@pytest.mark.parametrize("cls", TARGETED)
def test_types_are_those_of_the_features(cls, tmp_path):
    frame = pl.DataFrame(table())
    frame.write_parquet(tmp_path / "x.parquet")
    X, y = frame.drop("y"), frame["y"].to_numpy()
    opened = read_file(tmp_path / "x.parquet", columns=["age", "height", "member"], target="y")
    inputs = [(X, y), (pandas.DataFrame(X.to_dict(as_series=False)).astype(KINDS), y)]
    inputs += [(tmp_path / "x.parquet", "y"), (opened, None)]
    for rows, target in inputs:
        model = model_of(cls).fit(rows, target)
        assert model.feature_types_in_ == TYPES
        assert model.privacy_.public["column types"] == ", ".join(TYPES)
        model.save(tmp_path / "m.json")
        assert privem.load(tmp_path / "m.json").feature_types_in_ == TYPES
    assert model.fit(numbers(), y).feature_types_in_ == ["float64"] * 2
    assert "column types" not in model.privacy_.public


def test_types_of_the_other_two(tmp_path):
    frame = pl.DataFrame(table()).drop("y")
    model = model_of(SymmetricMixture, random_state=0).fit(frame)
    assert model.feature_types_in_ == TYPES
    drawn = model.sample_frame(50)
    assert drawn.schema == frame.schema
    assert (np.abs(drawn.cast(pl.Float64).to_numpy()) <= 5).all()
    # What an array or frame declares, and not what its values look like.
    classes = model_of(CategoricalMixture)
    assert classes.fit(numbers().astype(np.int8)).feature_types_in_ == ["int8", "int8"]
    assert classes.privacy_.public["column types"] == "all int8"
    # A list declares none: the type is that of the declared categories.
    assert classes.fit(numbers().tolist()).feature_types_in_ == ["int64", "int64"]


@pytest.mark.parametrize("cls", EVERY)
def test_a_statement_does_not_outlive_its_fit(cls):
    X = numbers() - numbers().min()  # some models are for counts
    model = model_of(cls).fit(X, np.linspace(-1, 1, N))
    assert model.privacy_.epsilon == 1.0
    private = ("privacy_", "bounds_", "target_bounds_", "structure_", "missing_probability_")
    model.set_params(epsilon=None, max_iter=2000).fit(X, np.linspace(-1, 1, N))
    assert not [name for name in private if hasattr(model, name)]
    model.set_params(epsilon=1.0).fit(X, np.linspace(-1, 1, N))
    assert not [name for name in ("lower_bound_", "converged_") if hasattr(model, name)]


@pytest.mark.parametrize("cls", EVERY)
def test_private_fits_say_of_weights_only_that_some_are_nan(cls):
    X, y, weight = numbers(), np.linspace(-1, 1, N), np.ones(N)
    for odd in (-1.0, np.inf):
        weight[7] = odd
        model = model_of(cls).fit(X, y, sample_weight=weight)
        assert np.isfinite(np.concatenate([np.ravel(v) for v in fitted(model)])).all()
        with pytest.raises(ValueError, match="row 7"):
            model_of(cls, epsilon=None).fit(X, y, sample_weight=weight)
    weight[7] = np.nan
    with pytest.raises(ValueError, match=r"^sample_weight contains NaN$"):
        model_of(cls).fit(X, y, sample_weight=weight)


def fitted(model):
    names = [name for name in model._needed if name not in ("categories_", "schema_")]
    for value in (getattr(model, name) for name in names):
        yield from value if isinstance(value, list) else [value]
