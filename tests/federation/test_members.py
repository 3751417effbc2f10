"""What a fit promises against its own parties, each of whom knows its share of the noise."""

import json
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from privem import GaussianMixture, KMeans, private_mean
from privem.accounting import Failure, Gaussian, compose, epsilon
from privem.federation import Agreement, Card, Federation, Party
from privem.meter import Statement

from .conftest import federate, split

CARDS = tuple(Card(name) for name in "abcd")


def parts(X, parties):
    return [X[i::parties] for i in range(parties)]


def fit(federation, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KMeans(2, epsilon=1.0, n_iter=2, bounds=(-20.0, 20.0), **more)
        return model.fit(federation).privacy_


def priced(statement, left, cohort):
    """From the record, apart from the code under test: noise of ``left`` shares of 1/cohort."""
    events = [
        Gaussian(g.multiplier * math.sqrt(Fraction(left, cohort)), g.dimension, g.steps)
        for record in statement.releases
        for g in record.groups
    ]
    return epsilon(
        compose(Failure(statement.failure), *events), statement.delta, statement.accountant
    )


@pytest.mark.parametrize(
    ("terms", "colluders"),
    [
        ({"protection": "masked"}, 1),
        ({"protection": "encrypted", "collusion": "none"}, 1),
        ({"protection": "encrypted"}, 0),
        ({"protection": "plain"}, 0),
        ({"protection": "masked", "colluders": 0}, 0),
        ({"protection": "masked", "colluders": 2}, 2),
    ],
    ids=repr,
)
def test_one_party_is_reckoned_with_wherever_noise_is_shared(blobs, terms, colluders):
    agreement = Agreement(CARDS, **terms)
    assert agreement.colluders == colluders
    assert agreement.share == (4 - colluders if agreement.shared else 1)
    assert federate(split(blobs, "even"), **terms).agreement.colluders == colluders


def test_the_stated_epsilon_holds_against_every_member(blobs):
    """Three parties: a member knows a third of the noise, and the rest is what was charged."""
    statement = fit(federate(parts(blobs, 3), "masked"))
    shares = statement.shares
    assert (shares.cohort, shares.present, shares.colluders) == (2, 3, 1)
    assert shares.members == pytest.approx(statement.spent, rel=1e-6)
    assert shares.members <= 1.0
    assert shares.outsiders == pytest.approx(priced(statement, 3, 2), rel=1e-6)
    assert shares.outsiders < 0.85 * shares.members
    text = str(statement)
    assert f"epsilon = {shares.outsiders:.4f} against outsiders" in text
    assert f"and {shares.members:.4f} against a member" in text
    assert "for all but the parties" not in text
    values = json.loads(json.dumps(statement.to_dict()))
    assert values["shares"]["outsiders"] == shares.outsiders
    assert values["shares"]["members"] == shares.members
    assert Statement.from_dict(values).shares == shares


def test_without_colluders_nothing_is_claimed_against_members(blobs):
    """The figure of the issue: 1.245 rather than 1 with three parties."""
    statement = fit(federate(parts(blobs, 3), "masked", colluders=0))
    assert statement.shares.outsiders == pytest.approx(statement.spent, rel=1e-6)
    assert statement.shares.members == pytest.approx(priced(statement, 2, 3), rel=1e-6)
    assert 1.24 < statement.shares.members < 1.26
    first = str(statement).split(". ")[0]
    assert "for all but the parties that fitted it" in first
    assert f"it is ({statement.shares.members:.4f}, 1e-06)" in str(statement)
    assert "against a party the promise is weaker" in statement.parties


def test_a_party_that_is_missing_takes_its_noise_along(blobs):
    federation = federate(parts(blobs, 7), "masked", dropouts=2, colluders=2)

    class Losing(type(federation.transport)):
        def exchange(self, mail):
            replies = super().exchange(mail)
            return {k: v for k, v in replies.items() if k != "party 3"}

    federation.transport = Losing(federation.transport.parties.values())
    statement = fit(federation)
    assert (statement.shares.cohort, statement.shares.present) == (3, 6)
    for known in range(4):
        expected = priced(statement, 6 - known, 3)
        assert statement.against(known) == pytest.approx(expected, rel=1e-6)
    assert statement.against(3) == pytest.approx(statement.spent, rel=1e-6)
    assert statement.against(6) == math.inf
    assert f"against 2 of them together {statement.against(2):.4f}" in str(statement)


@pytest.mark.parametrize("protection", ["plain", "masked"])
def test_laplace_noise_is_everybodys_own(blobs, protection):
    federation = federate(parts(blobs, 4), protection)
    statement = fit(federation, mechanism="ll")
    kinds = {g.kind for record in statement.releases for g in record.groups}
    assert kinds == {"laplace", "gaussian"} or kinds == {"laplace"}
    assert statement.shares.members <= statement.spent * (1 + 1e-9)


def test_full_noise_holds_against_everybody(blobs):
    statement = fit(federate(parts(blobs, 3), "plain"))
    assert statement.shares.members == pytest.approx(priced(statement, 2, 1), rel=1e-6)
    assert statement.shares.outsiders < statement.shares.members < statement.spent <= 1.0
    # Not against the server, which sees each party's numbers: a statement that left it out said
    # 0.55 of somebody who faces 1.
    said = f"The server may see more than totals: against it the cost is the {statement.spent:.4f}"
    assert said in str(statement)


@pytest.mark.parametrize("model", ["mixture", "mean"])
def test_every_statement_says_it(blobs, model):
    federation = federate(parts(blobs, 3), "masked")
    if model == "mean":
        statement = private_mean(federation, epsilon=1.0, tau=50.0).privacy
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mixture = GaussianMixture(2, bounds=(-20.0, 20.0), n_iter=1)
            statement = mixture.fit(federation).privacy_
    assert "against a member" in str(statement)


def test_too_few_parties_for_it_are_told_what_works():
    with pytest.raises(ValueError, match=r"colluders=1 .*together they may be 1 at most"):
        Agreement(CARDS[:2], "encrypted", 1, minimum=1, collusion="none")
    assert Agreement(CARDS[:2], "encrypted", 1, 0, 1, collusion="none").cohort == 1
    keyed = [Party(np.zeros((1, 1)), str(i)) for i in range(10)]
    with pytest.raises(ValueError, match="at most 3 colluders, not 4"):
        Federation(keyed, protection="masked", dropouts=3, colluders=4)


def test_a_central_statement_is_as_it_was(blobs):
    statement = fit(blobs)
    assert statement.shares is None
    assert "shares" not in statement.to_dict()
    with pytest.raises(ValueError, match="not added by parties"):
        statement.against(1)
