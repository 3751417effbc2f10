"""``categories=``: by position, by name, one list for all; anything else before it costs."""

import numpy as np
import polars as pl
import pytest

import privem
from privem import CategoricalMixture
from privem.data import LocalSource

N = 4000
rng = np.random.default_rng(0)
KIND = rng.random(N) < 0.3
FRAME = pl.DataFrame(
    {
        "sex": np.where(rng.random(N) < np.where(KIND, 0.9, 0.2), "m", "f"),
        "smokes": rng.random(N) < np.where(KIND, 0.8, 0.1),
        "visits": rng.binomial(2, np.where(KIND, 0.9, 0.1)).astype(np.int8),
    }
)
BY_NAME = {"visits": [0, 1, 2], "smokes": [False, True], "sex": ["f", "m"]}
IN_ORDER = [["f", "m"], [False, True], [0, 1, 2]]


def test_by_name_is_by_position(tmp_path):
    FRAME.write_parquet(tmp_path / "x.parquet")
    for X in (FRAME, tmp_path / "x.parquet"):
        model = CategoricalMixture(2, categories=BY_NAME, epsilon=20.0, random_state=0).fit(X)
        assert [part.tolist() for part in model.categories_] == IN_ORDER
        assert sorted(model.weights_) == pytest.approx([0.3, 0.7], abs=0.1)
    exact = CategoricalMixture(2, categories=BY_NAME, epsilon=None, random_state=0).fit(FRAME)
    same = CategoricalMixture(2, categories=IN_ORDER, epsilon=None, random_state=0).fit(FRAME)
    assert exact.score(FRAME) == same.score(FRAME)
    again = privem.load(model.save(tmp_path / "m.json") and tmp_path / "m.json")
    assert again.categories == BY_NAME


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sex": ["f", "m"]}, "without categories: column numbers 2, 3"),
        ({**BY_NAME, "age": [1]}, "no such column: age"),
        ({**BY_NAME, "sex": "fm"}, "categories of 'sex' must be a list"),
        ({**BY_NAME, "sex": {"f", "m"}}, "categories of 'sex' must be a list"),
        ({}, "there are none"),
        ({"f", "m"}, "must be a list of lists"),
        ("fm", "must be a list of lists"),
        (3, "must be a list of lists"),
        ([{"f", "m"}, {0, 1}, {0, 1}], "no single category"),
        ([["f", "m"], [0, 1], "012"], "must be a list of lists"),
        ([["f", "m"], [0, 1]], "has 2 lists, but there are 3 columns"),
    ],
)
def test_what_is_no_categories_is_refused_before_the_data_are_asked(given, words, monkeypatch):
    def explode(self, stage):
        raise AssertionError("the data were asked")

    monkeypatch.setattr(LocalSource, "release", explode)
    with pytest.raises(ValueError, match=words):
        CategoricalMixture(2, categories=given).fit(FRAME)


def test_names_need_names():
    with pytest.raises(ValueError, match="X has no column names"):
        CategoricalMixture(2, categories=BY_NAME).fit(FRAME.to_numpy())


def test_synthetic_records_have_the_types_of_the_columns():
    model = CategoricalMixture(2, categories=BY_NAME, epsilon=20.0, random_state=0).fit(FRAME)
    assert model.feature_types_in_ == ["string", "bool", "int8"]
    assert model.privacy_.public["column types"] == "string, bool, int8"
    drawn = model.sample_frame(5000)
    assert drawn.schema == FRAME.schema
    shares = [(f["sex"] == "m").mean() for f in (drawn, FRAME)]
    assert abs(shares[0] - shares[1]) < 0.06
    pandas = pytest.importorskip("pandas")
    assert isinstance(model.sample_frame(3, library="pandas"), pandas.DataFrame)
    with pytest.raises(ValueError, match="library"):
        model.sample_frame(3, library="arrow")
    unnamed = CategoricalMixture(2, categories=["f", "m"], epsilon=9.0).fit(
        FRAME[["sex"]].to_numpy()
    )
    assert unnamed.sample_frame(3).columns == ["x0"]


def test_types_survive_a_file(tmp_path):
    model = CategoricalMixture(2, categories=BY_NAME).fit(FRAME)
    again = privem.load(model.save(tmp_path / "m.json") and tmp_path / "m.json")
    assert again.feature_types_in_ == ["string", "bool", "int8"]
    assert again.sample_frame(5).schema == FRAME.schema


def test_private_fits_quote_no_values_of_a_flat_array():
    secret = np.array([12345.5, 6.0])
    for model in (CategoricalMixture(categories=[1, 2]), privem.GaussianMixture(bounds=3.0)):
        with pytest.raises(ValueError, match="Expected 2D array, got 1D array") as caught:
            model.fit(secret)
        assert "12345" not in str(caught.value)
        assert "Reshape your data" in str(caught.value)
    with pytest.raises(ValueError, match="Complex data not supported") as caught:
        privem.KMeans(2, bounds=3.0).fit(np.full((3, 2), 12345 + 1j))
    assert "12345" not in str(caught.value)
