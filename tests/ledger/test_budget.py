"""Budgets: what they may be, and what an event of another relation costs them."""

import itertools
from dataclasses import FrozenInstanceError

import pytest

from privem import Budget
from privem.ledger import WrongRelation

RELATIONS = list(itertools.product(("add-remove", "replace-one"), ("record", "person")))


def test_a_budget_is_frozen_and_checked():
    budget = Budget(3, 1e-6)
    with pytest.raises(FrozenInstanceError):
        budget.epsilon = 9.0
    assert budget == Budget(3.0, 1e-6, "add-remove", "record") == Budget(3.0)
    assert str(budget) == "epsilon 3 at delta 1e-06 per record (add-remove)"
    assert Budget(1.0, 0).delta == 0
    for wrong in ({"epsilon": 0}, {"epsilon": 31}, {"epsilon": float("nan")}, {"delta": 1}):
        with pytest.raises(ValueError, match=r"epsilon|delta"):
            Budget(**{"epsilon": 1.0, "delta": 1e-6} | wrong)
    for wrong in ({"delta": 1e-40}, {"neighbours": "both"}, {"unit": "household"}):
        with pytest.raises(ValueError, match=r"delta|neighbours|unit"):
            Budget(**{"epsilon": 1.0, "delta": 1e-6} | wrong)


@pytest.mark.parametrize(("event", "own"), list(itertools.product(RELATIONS, RELATIONS)))
def test_events_of_another_relation_are_converted_or_refused(event, own):
    """Replacing is removing and adding; a record of a person is a change of that person."""
    allowed = {
        (("add-remove", "record"), ("replace-one", "record")): 2,
        (("add-remove", "person"), ("replace-one", "person")): 2,
        (("add-remove", "person"), ("add-remove", "record")): 2,
    } | {(each, each): 1 for each in RELATIONS}
    budget = Budget(1.0, 1e-6, *own)
    if (event, own) in allowed:
        assert budget.steps(*event) == allowed[event, own]
    else:
        with pytest.raises(WrongRelation, match="promises nothing: "):
            budget.steps(*event)
