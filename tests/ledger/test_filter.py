"""The filter: no course of reservations and outcomes exceeds the budget."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privem import Budget, BudgetExceeded
from privem.accounting import Composed, Failure, Gaussian, Laplace, NoPrivacy, compose, mu_for
from privem.accounting.accountant import hockey_stick
from privem.budget import Allowance, Part
from privem.core import Spent
from privem.ledger import Asked, Ledger, WrongRelation
from privem.ledger.chain import State, opening, problems
from privem.ledger.filter import AS_GAUSSIAN, Cost, Limits, chosen, event_of_run
from privem.meter import Meter


class Memory:
    """Rows in a list: a store without a database."""

    name = "memory"

    def __init__(self, first):
        self.rows = [first]

    def append(self, dataset, make):
        row = make(self.rows[-1], self)
        self.rows.append(row)
        return row

    def number(self, sequence):
        return self.rows[sequence]

    def outcome(self, sequence):
        return next((row for row in self.rows if row.settles == sequence), None)


def in_memory(budget):
    ledger = Ledger.__new__(Ledger)
    ledger.dataset, ledger.budget, ledger._who = "x", budget, "somebody"
    ledger.store = Memory(opening("x", budget, "somebody", "now"))
    return ledger


def planned(kind, multiplier, failure):
    part = Part("noise", 1.0, [(kind, 3)])
    return Allowance((part,), multiplier, "add-remove", failure)


RUNS = st.tuples(
    st.sampled_from(["gaussian", "laplace", "laplace"]),
    st.floats(1.0, 200.0),
    st.sampled_from([0.0, 1e-10, 1e-8, 2e-7]),
    st.sampled_from(["add-remove", "replace-one"]),
)
COURSES = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), RUNS),
        st.tuples(st.sampled_from(["released", "void", "abandoned"]), st.integers(0, 9)),
    ),
    max_size=40,
)


@given(
    COURSES,
    st.sampled_from([0.3, 1.0, 6.0]),
    st.sampled_from([0.0, 1e-6]),
    st.sampled_from(["add-remove", "replace-one"]),
)
def test_no_course_exceeds_the_budget(course, epsilon, delta, neighbours):
    """The oracle prices events, as a federation's party does; not the totals that rows carry."""
    budget = Budget(epsilon, delta, neighbours)
    ledger = in_memory(budget)
    pending, spent = [], []
    for kind, what in course:
        if kind == "reserve":
            noise, multiplier, failure, relation = what
            meter = Meter(1.0, 1e-6, "auto", failure)
            asked = Asked("Model", ("noise",), 1.0, 1e-6, relation, "record")
            if (relation, neighbours) == ("replace-one", "add-remove"):
                with pytest.raises(WrongRelation, match="promises nothing"):
                    ledger.reserve(asked, planned(noise, multiplier, failure), meter)
                continue
            steps = 1 if relation == neighbours else 2
            event = (Gaussian(multiplier / steps) if noise == "gaussian" else None) or Laplace(
                multiplier / steps
            )
            event = compose(event, *[Failure(failure)] * steps)
            try:
                entry = ledger.reserve(asked, planned(noise, multiplier, failure), meter)
            except BudgetExceeded:
                continue
            # One release of the planned noise, exactly.
            scale = Spent("noise", noise, 3, 1.0, 0.0, multiplier * 2.0**-24, 2**24)
            pending.append((entry, event, scale))
        elif pending:
            entry, event, scale = pending.pop(what % len(pending))
            if kind == "released":
                wide = Spent("noise", scale.kind, 3, 1.0, 0.0, scale.grid * 1.01, 2**24)
                entry.meter.releases.append(("noise", (wide,)))
                entry.failed()
            elif kind == "void":
                entry.failed()
                event = None
            else:
                ledger.settle(entry.row, "abandoned", entry.reserve)
            if event is not None:
                spent.append(event)
        events = [*spent, *(event for _, event, _ in pending)]
        assert events == [] or chosen(events, delta) <= epsilon * (1 + 1e-6)
    assert problems(ledger.store.rows, "x") == []
    # How delta is divided stays as it is while anything is spent or reserved.
    for before, after in pairwise(map(State.of, ledger.store.rows)):
        assert after.limits == before.limits or before.totals == Cost()
        assert before.limits is None or before.limits.allow(before.totals)


def test_costs_are_those_of_the_accountants():
    event = compose(Gaussian(4.0, 3, 2**24), Laplace(10.0), Laplace(10.0), Failure(1e-9))
    cost = Cost.of(event, 1.0)
    assert cost.mu_squared == pytest.approx(1 / 16 + 2 * (math.pi / 2) / 100, rel=1e-6)
    assert cost.epsilon == pytest.approx(0.2)
    assert cost.failures == pytest.approx(1e-9)
    # What discrete noise adds.
    assert cost.failure > Cost.of(Failure(1e-9), 1.0).failure
    twice = Cost.of(event, 1.0, steps=2)
    assert twice.mu_squared == pytest.approx(4 * cost.mu_squared)
    assert twice.epsilon == pytest.approx(2 * cost.epsilon)
    assert cost + twice - twice == cost
    with pytest.raises(ValueError, match="exact release"):
        Cost.of(NoPrivacy(), 1.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_limits_are_private_at_the_budget(epsilon, delta):
    budget = Budget(epsilon, delta)
    usual = Limits.of(budget, Cost())
    noise = hockey_stick(math.sqrt(usual.squares / 2**120), epsilon)
    assert noise + (usual.failure + usual.apart) / 2**120 <= delta * (1 + 1e-9)
    assert noise + (usual.failure + usual.apart) / 2**120 > delta * (1 - 1e-6)
    # A first fit may have the whole budget: noise, and a thousandth of delta for its failure.
    whole = Cost.of(
        compose(Gaussian(1 / mu_for(epsilon, delta * (1 - 1e-3))), Failure(delta * 1e-3)), epsilon
    )
    first = Limits.of(budget, whole)
    assert first.allow(whole)
    assert not usual.allow(whole)
    noise = hockey_stick(math.sqrt(first.squares / 2**120), epsilon)
    assert noise + (first.failure + first.apart) / 2**120 <= delta * (1 + 1e-9)
    more = Cost.of(Gaussian(1 / mu_for(epsilon * 1.01, delta)), epsilon)
    assert not Limits.of(budget, more).allow(more)


def test_trading_noise_for_failures_on_the_way_would_exceed_delta():
    """Why failures have a fixed part of delta: a spender who sees the noise could gain.

    Whoever stops and takes the rest of delta as failures, where a large likelihood ratio is out of
    reach, and goes on otherwise, gains on both; computed exactly on a grid.
    """
    epsilon, delta = 1.0, 1e-3
    whole = mu_for(epsilon, delta) ** 2
    half = whole / 2
    at = np.linspace(-8, 8, 4001) * math.sqrt(half) - half / 2  # log-ratio under Q, at half time
    chance = np.exp(-((at + half / 2) ** 2) / (2 * half))
    chance /= chance.sum()
    # Worth of going on from there to the end, as a hockey stick; of stopping: now, and failures.
    going = np.array([_reach(start, half, epsilon) for start in at])
    early = delta - hockey_stick(math.sqrt(half), epsilon)
    stopping = np.maximum(np.exp(at) - math.exp(epsilon), 0) + early * np.exp(at)
    assert (chance * going).sum() == pytest.approx(delta, rel=1e-3)
    assert (chance * np.maximum(going, stopping)).sum() > 1.3 * delta


def _reach(start, square, epsilon):
    """E_Q (e^(start + L) - e^epsilon)+ after a Gaussian release of mu^2 = square."""
    mu = math.sqrt(square)
    a = (start - epsilon) / mu
    phi = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))  # noqa: E731
    return math.exp(start) * phi(a + mu / 2) - math.exp(epsilon) * phi(a - mu / 2)


@pytest.mark.parametrize("whole", [False, True])
def test_courses_with_failures_and_courses_with_coarse_noise_add_up_to_delta(whole):
    """A spender may take failures where the likelihood ratio is large, and coarse noise elsewhere.

    Failures count by their probability with the record, and by e^epsilon what discrete noise adds
    without it. So the most that any course has of one and the most of the other add up.
    """
    budget, epsilon, delta = Budget(1.0, 1e-6), 1.0, 1e-6
    first = Cost.of(Gaussian(1 / mu_for(epsilon, delta * 0.99)), epsilon) if whole else Cost()
    limits = Limits.of(budget, first)
    failure = Cost.of(Failure(1e-12), epsilon)
    # A number with noise of 256 lattice steps: a total variation of 9.3e-13.
    coarse, drift = Cost.of(Gaussian(1e9, 1, 256), epsilon), 1 / (250 * 256**4)
    many = [
        max(k for k in range(50_000) if limits.allow(Cost(*(k * part for part in each._all))))
        for each in (failure, coarse)
    ]
    noise = hockey_stick(math.sqrt(limits.squares / 2**120), epsilon)
    assert min(many) > 0
    assert noise + many[0] * 1e-12 + many[1] * drift * math.exp(epsilon) <= delta * (1 + 1e-9)


def test_cells_of_a_partition_cost_the_dearest():
    def spent(cell, scale, failure=0.0):
        return Spent("x", "gaussian", 1, 1.0, 0.0, scale * 2.0**-24, 2**24, cell, failure)

    run = [spent(None, 50.0), spent(0, 10.0), spent(1, 8.0), spent(1, 20.0, 1e-9)]
    cost = Cost.of(event_of_run(run, 1e-10), 1.0)
    assert cost.mu_squared == pytest.approx(1 / 50**2 + 1 / 8**2 + 1 / 20**2, rel=1e-5)
    assert cost.failures == pytest.approx(1.1e-9)


def test_a_reserve_covers_what_it_was_granted_for():
    laplace, gaussian = Cost.of(Laplace(10.0), 1.0), Cost.of(Gaussian(5.0), 1.0)
    many = Cost.of(Composed(((Laplace(100.0), 90),)), 1.0)
    assert many.squares < laplace.squares < gaussian.squares
    assert not many.within(laplace)  # more by the sum of epsilons
    assert many.within(gaussian)
    assert not Cost.of(Gaussian(1000.0), 1.0).within(laplace)
    assert not Cost(failure=1).within(gaussian)
    assert not Cost(apart=1).within(gaussian)
    assert laplace.within(laplace)
    assert laplace.mu_squared == pytest.approx(1 / (10 * AS_GAUSSIAN) ** 2)


def test_limits_are_chosen_anew_while_nothing_is_spent():
    budget = Budget(1.0, 1e-6)
    ledger = in_memory(budget)
    meter = Meter(1.0, 1e-6, "auto", 1e-9)
    asked = Asked("Model", (), 1.0, 1e-6, "add-remove", "record")
    whole = planned("gaussian", 1 / mu_for(1.0, 1e-6 * (1 - 1e-3)) * (1 + 1e-8), 1e-9)
    ledger.reserve(asked, whole, meter).failed()
    first = State.of(ledger.store.rows[-1]).limits
    assert first.failure + first.apart < 2e-9 * 2**120
    entry = ledger.reserve(asked, planned("gaussian", 20.0, 1e-9), meter)
    limits = State.of(entry.row).limits
    assert limits.failure + limits.apart == pytest.approx(0.25e-6 * 2**120)
    # Now they are fixed, though most of the budget is left.
    with pytest.raises(BudgetExceeded):
        ledger.reserve(asked, whole, meter)
