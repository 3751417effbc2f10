"""``groups=`` by name: a person in a file or a frame counts exactly as one in an array."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from privem import (
    CategoricalMixture,
    GaussianMixture,
    KMeans,
    RegressionMixture,
    SymmetricMixture,
    private_mean,
)
from privem.data import read_file
from privem.data.persons import identifiers, owners, per_person
from privem.federation import Party

from ..examples import PLAIN

# As numbers in double precision, the first two would be one person.
PERSONS = np.array([2**60, 2**60 + 1, 7, 9])
WHO = np.array([0, 0, 0, 1, 2, 3, 3])


def table(**more) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, len(WHO)))
    return pl.DataFrame({"person": PERSONS[WHO], "a": a, "b": b} | more)


def pandas_of(frame: pl.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(frame.to_dict(as_series=False))


def opened(X, groups, **fit):
    model = GaussianMixture(bounds=9.0, max_weight=2.0)
    table = model._open_table(X, None, fit.get("sample_weight"), groups)
    return model, table.source(None), table.people


def sums(source):
    """Everything that a query may see of the rows: values and weights, and persons' rows."""
    blocks = list(source.rows.blocks(100))
    X = np.concatenate([block.X for block in blocks])
    weight = np.concatenate([block.weight for block in blocks])
    persons = np.concatenate([block.X for block in source.persons.blocks(3)])
    return X, weight, persons


@pytest.fixture(params=["csv", "parquet", "folder", "polars", "pandas", "rows"])
def held(request, tmp_path):
    frame = table()
    match request.param:
        case "csv":
            frame.write_csv(tmp_path / "t.csv")
            return tmp_path / "t.csv", "person"
        case "parquet":
            frame.write_parquet(tmp_path / "t.parquet")
            return tmp_path / "t.parquet", "person"
        case "folder":
            frame[:2].write_parquet(tmp_path / "a.parquet")
            frame[2:].write_parquet(tmp_path / "b.parquet")
            return tmp_path, "person"
        case "rows":
            frame.write_csv(tmp_path / "t.csv")
            return read_file(tmp_path / "t.csv", groups="person"), None
        case "polars":
            return frame, "person"
    return pandas_of(frame), "person"


def test_a_person_counts_as_in_an_array(held):
    X, groups = held
    values = table().select("a", "b").to_numpy()
    model, source, people = opened(X, groups)
    _, other, others = opened(values, WHO)
    assert (people.unit, people.count) == (others.unit, others.count) == ("person", 4)
    assert list(model.feature_names_in_) == ["a", "b"]
    for found, expected in zip(sums(source)[:2], sums(other)[:2], strict=True):
        np.testing.assert_array_equal(found, expected)
    # Numbers differ, but persons are told apart in the same way.
    same = source.owner[:, None] == source.owner
    np.testing.assert_array_equal(same, WHO[:, None] == WHO)
    # One row of each person, and it is theirs.
    _, _, picked = sums(source)
    whose = [WHO[np.flatnonzero((values == row).all(axis=1))[0]] for row in picked]
    assert sorted(whose) == [0, 1, 2, 3]


def test_every_row_of_a_person_is_picked_some_time(tmp_path):
    table().write_parquet(tmp_path / "t.parquet")
    seen = set()
    for _ in range(60):  # misses one of three with probability 3 (2/3)^60 < 1e-9
        _, source, _ = opened(tmp_path / "t.parquet", "person")
        seen |= {float(x) for x in sums(source)[2][:, 0]}
    assert seen == set(table()["a"].to_list())


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_weights_of_a_file_are_capped_before_they_are_averaged(tmp_path, kind):
    frame = table(w=[9.0, 1.0, -3.0, 0.5, -np.inf, 2.0, 1.0])
    getattr(frame, f"write_{kind}")(tmp_path / f"t.{kind}")
    model, source, people = opened(tmp_path / f"t.{kind}", "person", sample_weight="w")
    assert people.weighted
    assert list(model.feature_names_in_) == ["a", "b"]
    expected = [2 / 3, 1 / 3, 0, 0.5, 0, 1.0, 0.5]
    np.testing.assert_array_equal(sums(source)[1], expected)


@pytest.mark.parametrize(
    "column",
    [["x", None, "y", "x", "x", "z", "z"], [1.0, 2.0, float("nan"), 1.0, 1.0, 1.0, 1.0]],
)
def test_rows_of_nobody_are_refused_without_a_word_about_them(tmp_path, column):
    frame = table().with_columns(person=pl.Series(column, strict=False))
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_csv(tmp_path / "t.csv")
    for X in (tmp_path / "t.parquet", tmp_path / "t.csv", frame, pandas_of(frame)):
        with pytest.raises(ValueError, match="groups contains missing values") as caught:
            GaussianMixture(bounds=9.0).fit(X, groups="person")
        assert not any(character.isdigit() for character in str(caught.value))


@pytest.mark.parametrize("kind", PLAIN)
def test_private_fits_of_files_say_person(tmp_path, kind):
    table().write_csv(tmp_path / "t.csv")
    model = kind(bounds=9.0).fit(tmp_path / "t.csv", groups="person")
    assert model.privacy_.unit == "person"
    assert model.n_features_in_ == 2


def test_regressions_and_means(tmp_path):
    table().write_csv(tmp_path / "t.csv")
    for X, y in ((tmp_path / "t.csv", "b"), (table().drop("b"), table()["b"].to_numpy())):
        model = RegressionMixture(1, bounds=5.0, target_bounds=5.0).fit(X, y, groups="person")
        assert model.privacy_.unit == "person"
        assert list(model.feature_names_in_) == ["a"]
    for x in (tmp_path / "t.csv", table(), read_file(tmp_path / "t.csv", groups="person")):
        named = None if hasattr(x, "blocks") else "person"
        mean = private_mean(x, tau=1.0, groups=named, neighbours="replace-one")
        assert mean.privacy.unit == "person"
        assert mean.names == ("a", "b")
        assert mean.privacy.public["number of persons"] == "4"


def test_an_exact_fit_leaves_the_column_out(tmp_path):
    table().write_csv(tmp_path / "t.csv")
    for X in (tmp_path / "t.csv", table(), pandas_of(table())):
        exact = GaussianMixture(epsilon=None).fit(X, groups="person")
        assert list(exact.feature_names_in_) == ["a", "b"]
        np.testing.assert_allclose(exact.means_[0], table().select("a", "b").mean().row(0))


def test_what_cannot_be_meant(tmp_path):
    table().write_csv(tmp_path / "t.csv")
    np.save(tmp_path / "t.npy", table().select("a", "b").to_numpy())
    model = GaussianMixture(bounds=9.0)
    with pytest.raises(ValueError, match="has no column 'who'"):
        model.fit(tmp_path / "t.csv", groups="who")
    with pytest.raises(ValueError, match="X has none"):
        model.fit(table(), groups="who")
    with pytest.raises(TypeError, match="give its name"):
        model.fit(tmp_path / "t.csv", groups=WHO)
    with pytest.raises(TypeError, match="pass the values"):
        model.fit(table().to_numpy(), groups="person")
    with pytest.raises(ValueError, match="weight or the target"):
        model.fit(tmp_path / "t.csv", sample_weight="person", groups="person")
    with pytest.raises(ValueError, match=r"\.npy file has no column"):
        model.fit(tmp_path / "t.npy", groups="person")
    assert model.fit(tmp_path / "t.npy", groups=WHO).privacy_.unit == "person"
    with pytest.raises(TypeError, match="when opening the rows"):
        model.fit(read_file(tmp_path / "t.csv"), groups="person")
    nested = table().with_columns(person=pl.Series([[1]] * len(WHO)))
    with pytest.raises(ValueError, match="not identifiers"):
        model.fit(nested, groups="person")
    crowd = SymmetricMixture(bounds=9.0, trust="local", n_iter=1)
    with pytest.raises(ValueError, match="no groups"):
        crowd.fit(read_file(tmp_path / "t.csv", groups="person"))
    with pytest.raises(ValueError, match="no groups"):
        private_mean(read_file(tmp_path / "t.csv", groups="person"), tau=1.0, trust="local")


def test_pandas_identifiers_of_any_kind():
    frame = pandas_of(table()).assign(person=pd.Categorical(WHO.astype(str)))
    _, source, people = opened(frame, "person")
    assert people.count == 4
    np.testing.assert_array_equal(source.owner, WHO)


def test_a_party_takes_persons_from_the_rows(tmp_path):
    table().write_csv(tmp_path / "t.csv")
    assert Party(read_file(tmp_path / "t.csv", groups="person"), "here").persons
    assert not Party(read_file(tmp_path / "t.csv", without="person"), "here").persons


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_identifiers_keep_step_with_the_rows(tmp_path, kind):
    """Over many batches and two files, a row's weight is that of its own person."""
    person = np.random.default_rng(0).integers(0, 30_000, 90_001)
    frame = pl.DataFrame({"a": person.astype(float), "person": person})
    for name, part in (("1", frame[:50_000]), ("2", frame[50_000:])):
        getattr(part, f"write_{kind}")(tmp_path / f"{name}.{kind}")
    _, source, people = opened(tmp_path, "person")
    X, weight, picked = sums(source)
    count = np.bincount(person)
    np.testing.assert_array_equal(weight, 1 / count[X[:, 0].astype(int)])
    assert sorted(picked[:, 0]) == sorted(set(person))
    assert people.count == len(picked)


def test_labels_of_the_rows_fitted(tmp_path):
    table().write_csv(tmp_path / "t.csv")
    for kind in (GaussianMixture, KMeans):
        for X in (tmp_path / "t.csv", table(), pandas_of(table())):
            assert len(kind(2, bounds=9.0, epsilon=50.0).fit_predict(X, groups="person")) == 7


def test_categories(tmp_path):
    frame = pl.DataFrame({"pet": list("cdcdcdc"), "person": PERSONS[WHO], "w": [1.0] * 7})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    model = CategoricalMixture(1, categories=["c", "d"], neighbours="replace-one")
    for X in (tmp_path / "t.csv", tmp_path / "t.parquet", frame.drop("w")):
        weight = None if isinstance(X, pl.DataFrame) else "w"
        model.fit(X, groups="person", sample_weight=weight)
        assert model.privacy_.unit == "person"
        assert list(model.feature_names_in_) == ["pet"]
        if weight is None:
            assert model.privacy_.public["number of persons"] == "4"
    frame.with_columns(person=pl.Series(["x", "NA", "x", "x", "y", "z", "z"])).write_csv(
        tmp_path / "t.csv"
    )
    with pytest.raises(ValueError, match="groups contains missing values"):
        model.fit(tmp_path / "t.csv", groups="person", sample_weight="w")


@pytest.mark.parametrize(
    "ids",
    [[2**53, 2**53 + 1, 0.5], [2**63 + 1, 2**63 + 2, -1], [10**30, 10**30 + 1, 0]],
    ids=str,
)
def test_a_list_is_not_rounded(ids):
    """NumPy would make two persons of the first list one, for the sake of its last entry."""
    weight, _ = per_person(ids, 3)
    assert weight.tolist() == [1.0] * 3
    assert sorted(owners(ids)) == [0, 1, 2]


def test_a_list_is_not_made_text():
    with pytest.raises(TypeError, match="mixes values that cannot be compared"):
        per_person([1, "1"], 2)
    with pytest.raises(ValueError, match="missing values"):
        per_person(["ann", float("nan"), float("nan")], 3)


def test_times_are_not_rounded():
    times = pl.Series([3723000004000, 3723000005000]).cast(pl.Time)
    assert len(set(identifiers(times).tolist())) == 2
    assert len(set(identifiers(pl.Series([1, 2]).cast(pl.Duration("us"))).tolist())) == 2


@pytest.mark.parametrize("nobody", ["null", "None", "N/A", "NULL", "nan ", "NA"])
def test_words_for_nobody_are_missing(nobody, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"person,a\nann,1\n{nobody},2\n{nobody},3\n")
    with pytest.raises(ValueError, match="groups contains missing values"):
        GaussianMixture(bounds=9.0).fit(path, groups="person")


def test_a_mean_has_no_weights(tmp_path):
    frame = table(w=np.ones(len(WHO)))
    frame.write_parquet(tmp_path / "t.parquet")
    rows = read_file(tmp_path / "t.parquet", columns=["a"], weight="w")
    with pytest.raises(ValueError, match="private_mean has no weights"):
        private_mean(rows)


def test_a_column_of_text_may_be_whose_records_they_are(tmp_path):
    frame = table().with_columns(person=pl.Series([f"p{i}" for i in WHO]))
    frame.write_csv(tmp_path / "t.csv")
    for X in (tmp_path / "t.csv", frame, pandas_of(frame)):
        with pytest.raises(ValueError, match="whose record it is, name it as groups="):
            GaussianMixture(bounds=9.0).fit(X)
        assert GaussianMixture(bounds=9.0).fit(X, groups="person").privacy_.unit == "person"
