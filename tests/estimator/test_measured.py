"""Means and scores pass for numbers, and print as what they are."""

import numpy as np
import polars as pl
import pytest

from privem import GaussianMixture, private_mean
from privem.estimator.measured import say_measured

X = np.random.default_rng(0).normal(48_000, 9000, 20_000)


@pytest.fixture(scope="module")
def mean():
    return private_mean(X, tau=3e9)


@pytest.fixture(scope="module")
def score():
    rows = np.random.default_rng(1).normal(size=(4000, 2))
    return GaussianMixture(bounds=6.0).fit(rows).private_score(rows)


@pytest.mark.parametrize("which", ["mean", "score"])
def test_they_pass_for_numbers(which, request):
    m = request.getfixturevalue(which)
    value = m.value
    assert float(m) == value
    assert f"{m:.2f}" == f"{value:.2f}"
    assert round(m, 1) == round(value, 1)
    assert m * 2 == 2 * m == value * 2
    assert m - m == 0
    assert -m == -value
    assert m > value - 1
    assert not m > value + 1
    assert np.isclose(np.array([1.0, 2.0]) + m, [1 + value, 2 + value]).all()
    assert isinstance(m - 1, float)
    assert sum([m, m]) == 2 * value


def test_several_columns_pass_for_an_array():
    frame = pl.DataFrame({"age": X[:5000] / 1000, "height": X[5000:10_000] / 30_000})
    m = private_mean(frame, tau=[3000.0, 3.0])
    np.testing.assert_array_equal(m - m, [0, 0])
    np.testing.assert_array_equal(round(m, 2), np.round(m.value, 2))
    lines = str(m).splitlines()
    assert lines[0] == f"age: {say_measured(m.value[0], m.deviation[0])}"
    assert lines[2].startswith("bias at most ")
    with pytest.raises(TypeError, match="there are 2 numbers"):
        f"{m:.2f}"


def test_what_is_printed(mean, score):
    line, statement = str(mean).splitlines()
    assert (
        line == f"{mean.value:,.0f} ± {mean.deviation:,.0f} (noise), bias at most {mean.bias:,.0f}"
    )
    assert statement == str(mean.privacy)
    assert repr(mean) == f"<PrivateMean: {line}>"
    assert str(score).splitlines()[1] == str(score.privacy)
    assert "Spent" not in str(score) + repr(score)
    assert say_measured(0.123456, 0.00456) == "0.12346 ± 0.00456 (noise)"


def test_a_score_of_persons_asks_whose_records_they_are():
    rows, who = np.random.default_rng(1).normal(size=(4000, 2)), np.arange(4000) // 4
    model = GaussianMixture(bounds=6.0).fit(rows, groups=who)
    with pytest.warns(UserWarning, match="the fit hid persons, and this score hides single"):
        assert model.private_score(rows).privacy.unit == "record"
    assert model.private_score(rows, groups=who).privacy.unit == "person"  # warnings are errors


def test_statements_name_their_subject_and_their_accountant(mean, score):
    assert str(mean.privacy).startswith("This mean is (1, 1e-06)-differentially private")
    assert str(score.privacy).startswith("This score is ")
    assert "by the gdp accountant, the tightest that is proved" in str(mean.privacy)
    assert "auto" not in str(mean.privacy)
    assert mean.privacy.accountant == "auto"  # as asked for: what a recount goes by
    assert mean.privacy.recount(mean.privacy.priced_by) == mean.privacy.recount()
    assert type(mean.privacy).from_dict(mean.privacy.to_dict()) == mean.privacy
    chosen = private_mean(X, tau=3e9, accountant="zcdp").privacy
    assert "by the zcdp accountant. " in str(chosen)
    local = str(private_mean(X, tau=3e9, trust="local").privacy)
    assert "1 round asked for 1 number;" in local
    found = private_mean(X).privacy
    assert "second moments about the bulk estimated from noisy histograms, paid for" in str(found)


def test_statements_of_models_name_columns_and_how_bounds_came():
    frame = pl.DataFrame({"age": X[:5000] / 1000, "bmi": X[5000:10_000] / 2000})
    given = GaussianMixture(bounds={"bmi": (10, 60), "age": (0, 120)}).fit(frame).privacy_
    assert "bounds age [0, 120], bmi [10, 60]" in str(given)
    assert "subject" not in given.to_dict()
    assert str(given).startswith("This model is ")
    found = GaussianMixture().fit(frame).privacy_
    assert "bounds estimated from noisy histograms, paid for" in str(found)
