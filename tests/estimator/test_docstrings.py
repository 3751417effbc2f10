"""Docstrings list what a parameter may be."""

import pytest

import privem
from privem.accounting import ACCOUNTANTS
from privem.declaration import declarations

ESTIMATORS = [each.estimator for each in declarations()]
TAKERS = [*ESTIMATORS, privem.private_mean]


@pytest.mark.parametrize("thing", TAKERS, ids=lambda thing: thing.__name__)
def test_accountants_are_listed(thing):
    assert [name for name in ACCOUNTANTS if f'"{name}"' not in thing.__doc__] == []
