"""Docstrings list what a parameter may be."""

import inspect

import pytest

import privem
from privem.accounting import ACCOUNTANTS

ESTIMATORS = [
    thing
    for thing in (getattr(privem, name) for name in privem.__all__)
    if hasattr(thing, "get_params")
]
TAKERS = [
    thing
    for thing in (*ESTIMATORS, privem.private_mean)
    if "accountant" in inspect.signature(thing).parameters
]


def test_all_of_them_are_here():
    assert len(TAKERS) == 9


@pytest.mark.parametrize("thing", TAKERS, ids=lambda thing: thing.__name__)
def test_accountants_are_listed(thing):
    assert [name for name in ACCOUNTANTS if f'"{name}"' not in thing.__doc__] == []
