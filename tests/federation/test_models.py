"""Exact fits with targets, missing entries or categories: the central fit, however split."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from privem import CategoricalMixture, GaussianMixture, SymmetricMixture, private_mean
from privem.data import ArrayRows, read_file
from privem.federation import Federation, Party, PartyRefused
from privem.federation.agreement import Agreement

from .models import CASES, EXACT, WORDS, columns_of, cut, fitted

SYMMETRIC, CLASSES = CASES["SymmetricMixture"], CASES["CategoricalMixture"]
SIGNED, SLOPES = CASES["SymmetricRegressionMixture"], CASES["RegressionMixture"]
GAPS = CASES["MissingCovariateRegression"]
MASKED = {"bounds": (-15.0, 15.0), "rows": 1000}
PROTECTED = {"encrypted": {}, "encrypted on a grid": MASKED, "masked": MASKED}


def fit(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitted(model.fit(*data))


def assert_same(central, other, tolerance=1e-9):
    assert set(other) == set(central)
    assert other["n_iter_"] == central["n_iter_"]
    for name, value in central.items():
        size = max(1.0, float(np.abs(value).max()))
        assert np.abs(other[name] - value).max() <= tolerance * size, name


@pytest.mark.parametrize("how", ["even", "one row each", "one empty", "unequal"])
@pytest.mark.parametrize("case", EXACT, ids=str)
def test_plain_is_the_central_fit(case, how):
    n = 60 if how == "one row each" else 600
    central = fit(case.model(epsilon=None), *case.data(n))
    assert_same(central, fit(case.model(epsilon=None), case.federate(cut(n, how), n=n)))


@pytest.mark.parametrize("how", ["even", "one empty"])
@pytest.mark.parametrize("protection", PROTECTED)
@pytest.mark.parametrize("case", EXACT, ids=str)
def test_protected_is_the_central_fit(case, protection, how):
    """Far closer than the three decimals of the log-likelihood of Abu Hussein and Rodel 2023."""
    central = fit(case.model(epsilon=None), *case.data())
    terms = PROTECTED[protection]
    federation = case.federate(cut(600, how), protection.split()[0], **terms)
    assert_same(central, fit(case.model(epsilon=None), federation))


@pytest.mark.parametrize("case", EXACT, ids=str)
def test_weights_stay_with_their_rows(case):
    weight = np.linspace(0.1, 3.0, 600)
    X, *y = case.data()
    central = fit_weighted(case, X, y, weight)
    more = columns_of(case.declared)
    parties = [
        Party(ArrayRows(X[i::3], weight[i::3]), f"party {i}", *(part[i::3] for part in y), **more)
        for i in range(3)
    ]
    federation = Federation(parties, protection="plain")
    assert_same(central, fit(case.model(epsilon=None), federation))


def test_weights_of_arrays_and_files(tmp_path):
    """They are given with the rows, or by themselves, or as the name of a column."""
    weight, X = np.linspace(0.1, 3.0, 600), SYMMETRIC.data()[0]
    frame = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(w=weight)
    for i in range(3):
        frame[i::3].write_parquet(tmp_path / f"{i}.parquet")
    found = []
    for given in (
        [Party(ArrayRows(X[i::3], weight[i::3]), f"{i}") for i in range(3)],
        [Party(X[i::3], f"{i}", sample_weight=weight[i::3]) for i in range(3)],
        [Party(tmp_path / f"{i}.parquet", f"{i}", sample_weight="w") for i in range(3)],
    ):
        assert all(party.weighted for party in given)
        found.append(SYMMETRIC.model(epsilon=None).fit(Federation(given, protection="plain")))
    for model in found[1:]:
        np.testing.assert_array_equal(model.mean_, found[0].mean_)


def fit_weighted(case, X, y, weight):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitted(case.model(epsilon=None).fit(X, *y, sample_weight=weight))


def test_targets_come_as_values_or_by_name(tmp_path):
    X, y = SIGNED.data()
    table = pd.DataFrame(X, columns=list("abc")).assign(outcome=y)[["a", "outcome", "b", "c"]]
    table.to_csv(tmp_path / "rows.csv", index=False)
    others = pl.DataFrame(table)
    parties = [
        Party(tmp_path / "rows.csv", "file", "outcome"),
        Party(table, "pandas", "outcome"),
        Party(others, "polars", "outcome"),
        Party(table[["a", "b", "c"]], "values", table["outcome"]),
        Party(
            read_file(tmp_path / "rows.csv", columns=["a", "b", "c", "outcome"]), "rows", "outcome"
        ),
    ]
    assert {party.columns for party in parties} == {("a", "b", "c", "outcome")}
    model = SIGNED.model(epsilon=None)
    federated = fit(model, Federation(parties, protection="plain"))
    assert model.feature_names_in_.tolist() == list("abc")
    X, y = np.tile(X, (5, 1)), np.tile(y, 5)
    assert_same(fit(SIGNED.model(epsilon=None), X, y), federated)


@pytest.mark.parametrize(
    ("rows", "y", "words"),
    [
        (np.zeros((3, 2)), np.zeros(2), "shape"),
        (np.zeros((3, 2)), np.array(list("abc")), "numbers"),
        (np.zeros((3, 2)), "outcome", "which arrays do not have"),
        (pd.DataFrame({"a": [1.0]}), "outcome", "names a column 'outcome', and X has none"),
    ],
    ids=str,
)
def test_targets_that_are_none_are_refused_at_once(rows, y, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Party(rows, "a", y)


def parties(y, **more):
    X = SIGNED.data()[0]
    return [Party(X[i::3], f"party {i}", None if y is None else y[i::3], **more) for i in range(3)]


def test_a_target_is_agreed_on():
    X, y = SIGNED.data()
    mixed = [*parties(y)[:2], Party(X, "party 2")]
    with pytest.raises(ValueError, match="no target"):
        Federation(mixed, protection="plain")
    with pytest.raises(ValueError, match="Party\\(rows, name, y\\)"):
        SIGNED.model(epsilon=None).fit(Federation(parties(None), protection="plain"))
    federation = Federation(parties(y), protection="plain")
    with pytest.raises(ValueError, match="without y"):
        GaussianMixture(2).fit(federation)
    with pytest.raises(ValueError, match="without y"):
        private_mean(federation)
    with pytest.raises(TypeError, match="with the parties"):
        SIGNED.model(epsilon=None).fit(federation, y)
    again = Agreement.from_dict(federation.agreement.to_dict())
    assert again.target
    assert again.hash == federation.agreement.hash


def test_bounds_of_the_target():
    _, y = SIGNED.data()
    terms = {"bounds": ([-6.0] * 3, [6.0] * 3), "target_bounds": (-15.0, 15.0), "rows": 600}
    federation = Federation(parties(y), protection="masked", **terms)
    assert federation.agreement.high == (6.0, 6.0, 6.0, 15.0)
    assert_same(
        fit(
            SIGNED.model(epsilon=None),
            *SIGNED.data(),
        ),
        fit(SIGNED.model(epsilon=None), federation),
    )
    with pytest.raises(ValueError, match="go with bounds"):
        Federation(parties(None), protection="masked", **terms)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_rows_arguments_and_local_trust_are_refused(epsilon):
    for case in EXACT:
        federation = case.federate(cut(600, "even"))
        with pytest.raises(TypeError, match="belong to rows"):
            case.model(epsilon=epsilon).fit(federation, groups=np.zeros(600))
        with pytest.raises(TypeError, match="belong to rows"):
            case.model(epsilon=epsilon).fit(federation, sample_weight=np.ones(600))
        if epsilon is not None and "trust" in case.model().get_params():
            with pytest.raises(ValueError, match="parties that sum"):
                case.model(epsilon=epsilon, trust="local").fit(federation)
    with pytest.raises(ValueError, match="parties that sum"):
        private_mean(SYMMETRIC.federate(cut(600, "even")), trust="local", tau=1.0)
    with pytest.raises(TypeError, match="belong to rows"):
        private_mean(SYMMETRIC.federate(cut(600, "even")), groups=np.zeros(600))


def test_categories_are_declared_by_every_party(tmp_path):
    (X,) = CLASSES.data()
    model = CLASSES.model(epsilon=None)
    plain = Federation([Party(np.zeros((3, 4)), f"{i}") for i in range(3)], protection="plain")
    with pytest.raises(ValueError, match="over a federation are public"):
        model.fit(plain)
    with pytest.raises(ValueError, match="other categories"):
        Federation(
            [Party(X, f"{i}", categories=[WORDS, ["yes", "no"]][i == 2]) for i in range(3)],
            protection="plain",
        )
    federation = CLASSES.federate(cut(600, "even"))
    other = CategoricalMixture(2, categories=["yes", "no"], epsilon=None)
    with pytest.raises(ValueError, match="not those that the parties have agreed on"):
        other.fit(federation)
    with pytest.raises(ValueError, match="hold categories"):
        SymmetricMixture(epsilon=None).fit(federation)
    # What the parties have declared is enough.
    assert_same(fit(model, X), fit(CategoricalMixture(2, epsilon=None, random_state=0), federation))
    with pytest.raises(TypeError, match="stay with the parties"):
        model.predict(federation)
    pl.DataFrame(X, schema=list("abc")).write_csv(tmp_path / "rows.csv")
    files = [Party(tmp_path / "rows.csv", f"{i}", categories=WORDS) for i in range(3)]
    found = fit(model, Federation(files, protection="plain"))
    assert_same(fit(model, np.tile(X, (3, 1))), found)


def test_undeclared_values_are_refused_exactly_and_nothing_is_said_privately():
    (X,) = CLASSES.data()
    odd = X.astype(object)
    odd[17, 2] = "perhaps"
    federation = Federation(
        [Party(odd[i::3], f"{i}", categories=WORDS) for i in range(3)], protection="plain"
    )
    with pytest.raises(PartyRefused) as caught:
        CLASSES.model(epsilon=None).fit(federation)
    assert "not among those agreed on" in str(caught.value)
    assert "perhaps" not in str(caught.value)
    assert CLASSES.model(epsilon=4.0, n_iter=2).fit(federation).privacy_.spent <= 4.0


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # the party's own
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_values_are_refused_without_a_word_about_them(bad):
    for case, column in (
        (SIGNED, 0),
        (GAPS, 3),
        (SLOPES, 3),
    ):
        X, y = (np.array(part) for part in case.data())
        (y if column == 3 else X[:, column])[17] = bad
        federation = Federation(
            [Party(X[i::3], f"party {i}", y[i::3]) for i in range(3)], protection="plain"
        )
        with pytest.raises(PartyRefused) as caught:
            case.model(epsilon=None).fit(federation)
        assert "not finite" in str(caught.value)
        assert "17" not in str(caught.value)
