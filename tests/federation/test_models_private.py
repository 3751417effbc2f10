"""Private fits with targets, missing entries or categories: noise, statement, cells, replay."""

import math
import warnings

import numpy as np
import pytest

from privem import private_mean
from privem.federation import Federation, Party
from privem.federation.party.account import Account, dearest
from privem.meter import event_of
from privem.run import Record, Recorded

from .models import CASES, PRIVATE, cut, fitted
from .test_noise import deviations

SHARED = {"plain": False, "encrypted": False, "masked": True}


def fit(model, federation):
    record = Record()
    model._watch = record
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(federation)
    del model._watch
    return model, record.releases


@pytest.mark.parametrize("protection", SHARED)
@pytest.mark.parametrize("case", PRIVATE, ids=str)
def test_the_statement_accounts_for_every_release(case, protection):
    federation = case.federate(cut(600, "even"), protection)
    model, releases = fit(case.model(epsilon=4.0), federation)
    statement = model.privacy_
    assert statement.spent <= 4.0
    assert statement.recount() == statement.spent
    assert len(statement.releases) == len(releases)
    assert statement.parties == federation.statement()
    assert statement.parties in str(statement)
    assert type(statement).from_dict(statement.to_dict()) == statement
    # Shared noise: as much as a central fit's without one party; else each of four adds all of it.
    times = math.sqrt(4 / 3) if SHARED[protection] else 2.0
    for reported, alone, _ in deviations(releases):
        assert reported == pytest.approx(times * alone, rel=1e-5)
    # Each party comes to the same cost by itself, cells of a partition included.
    spent = [party.spent for party in federation.transport.parties.values()]
    assert spent == pytest.approx([statement.spent] * 4, rel=1e-6)


@pytest.mark.parametrize("case", PRIVATE, ids=str)
def test_shared_noise_of_ten_honest_parties_is_central_noise(case):
    """One of twelve may drop out and one collude: at most sqrt(1.2) times the central noise."""
    index = [np.arange(600)[i::12] for i in range(12)]
    federation = case.federate(index, "masked", dropouts=1, colluders=1)
    _, releases = fit(case.model(epsilon=4.0), federation)
    assert all(1.0 <= reported / alone <= 1.1 for reported, alone, _ in deviations(releases))


# Cells are drawn at random.
FIXED = [c for c in PRIVATE if c.parameters.get("batch") != "partition"]


@pytest.mark.parametrize("case", FIXED, ids=str)
def test_without_noise_it_is_the_central_fit(case, monkeypatch):
    """The same releases as one table's, but for what rounding per party moves."""
    zero = lambda spent, size, *rest: np.zeros(size, np.int64)  # noqa: E731
    monkeypatch.setattr("privem.noise.discrete.draw", zero)
    federated, _ = fit(
        case.model(epsilon=4.0), case.federate(cut(600, "unequal"), "masked", colluders=0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        central = case.model(epsilon=4.0).fit(*case.data())
    for name, value in fitted(central).items():
        assert np.allclose(fitted(federated)[name], value, rtol=1e-3, atol=1e-3), name


class Played(Federation):
    """Answers from a record; there are no parties."""

    def __init__(self, federation, releases):
        self._set(federation.agreement, None)
        self._features, self._columns = federation.n_features, federation.names
        self._active = federation.present
        self._record = Recorded(releases)

    def begin(self, terms, failure=0.0, private=None, budget=None):
        self.run = "played"

    def release(self, stage):
        return self._record.release(stage)


@pytest.mark.parametrize("protection", ["plain", "masked"])
@pytest.mark.parametrize("case", PRIVATE, ids=str)
def test_releases_are_all_there_is(case, protection):
    federation = case.federate(cut(600, "even"), protection)
    model, releases = fit(case.model(epsilon=3.0), federation)
    again, _ = fit(case.model(epsilon=3.0), Played(federation, releases))
    for name, value in fitted(model).items():
        assert np.array_equal(fitted(again)[name], value)
    assert again.privacy_ == model.privacy_


@pytest.mark.parametrize("tau", [None, 4.0])
@pytest.mark.parametrize("protection", SHARED)
def test_a_private_mean(protection, tau):
    X = np.tile(CASES["SymmetricMixture"].data()[0], (10, 1))
    parties = [Party(X[i::4], f"party {i}") for i in range(4)]
    federation = Federation(parties, protection=protection)
    mean = private_mean(federation, epsilon=8.0, tau=tau)
    assert mean.privacy.spent <= 8.0
    assert mean.privacy.parties == federation.statement()
    assert mean.privacy.recount() == mean.privacy.spent
    spent = [party.spent for party in parties]
    assert spent == pytest.approx([mean.privacy.spent] * 4, rel=1e-6)
    central = private_mean(X, epsilon=8.0, tau=tau)
    if tau is not None:
        times = 1.0 if SHARED[protection] else 2.0
        # The noisy count decides a little of the clip.
        assert np.allclose(mean.deviation, times * central.deviation, rtol=0.2)


def test_a_known_number_of_records_is_said_to_be_public():
    case = next(case for case in PRIVATE if "bounds" in case.parameters)
    federation = case.federate(cut(600, "even"), "masked", rows=600)
    model, _ = fit(case.model(epsilon=4.0, neighbours="replace-one"), federation)
    assert model.privacy_.public["number of records"] == "600"
    assert model.privacy_.releases[0].name != "count"


def test_a_partition_costs_each_person_one_cell():
    case = next(case for case in PRIVATE if case.parameters.get("batch") == "partition")
    federation = case.federate(cut(600, "even"), "masked")
    model, releases = fit(case.model(epsilon=4.0), federation)
    cells = [group.cell for record in model.privacy_.releases for group in record.groups]
    assert sorted(cell for cell in cells if cell is not None) == [0, 1, 2]
    # A second run draws new cells and costs as much again, not more.
    party = federation.transport.parties["party 0"]
    once = party.spent
    fit(case.model(epsilon=4.0), federation)
    assert once < party.spent < 2 * once
    per_run = [[s for run, s in party._budget.spent if run == number] for number in (1, 2)]
    assert [len(run) for run in per_run] == [len(releases)] * 2


def test_the_dearest_cell_is_no_cheaper_than_any():
    rng = np.random.default_rng(3)
    budget = Account(None, 1e-6)
    (spent,) = _prices()

    def random_cell(index):
        from dataclasses import replace

        count = rng.integers(1, 4)
        steps = rng.integers(2**24, 2**26, count)
        return [replace(spent, steps=int(s), cell=index) for s in steps]

    for _ in range(20):
        cells = [random_cell(i) for i in range(4)]
        budget.spent = tuple((1, s) for cell in cells for s in cell)
        total = budget.epsilon
        for cell in cells:
            alone = Account(None, 1e-6)
            alone.spent = tuple((1, s) for s in cell)
            assert alone.epsilon <= total * (1 + 1e-12)
        everything = Account(None, 1e-6)
        everything.spent = tuple((i, s) for i, cell in enumerate(cells) for s in cell)
        assert total < everything.epsilon
    one = random_cell(0)[:1]
    assert dearest([one, one]) == [event_of(one[0])]
    assert math.isfinite(total)


def _prices():
    from privem.blocks.histograms import CountQuery
    from privem.noise.discrete import Discrete

    return Discrete(10.0, "add-remove", 1000.0).price(CountQuery())
