"""Accountants by name, and the tightest bound that is proved for the given noise.

`auto` chooses among `gdp` and tight `zcdp` where all noise is Gaussian; tight `zcdp` where Laplace
noise is present, and `linear` where there is nothing else (it is then pure differential privacy,
and works at delta = 0). Each candidate that is valid gives a true upper bound and the choice looks
at the event alone, never at data, so the smallest is a true bound too. `pld` is not a candidate:
its convolutions round without a proved bound.

Examples
--------
>>> from privem.accounting.events import Composed, Gaussian, Laplace
>>> round(AUTO.epsilon(Composed(((Laplace(10.0), 5),)), 0.0), 6)
0.5
>>> round(AUTO.delta(Gaussian(1.0, steps=2**24), 1.0), 6)
0.126937
"""

from __future__ import annotations

from .accountant import Accountant, NotValid, check_delta, check_epsilon
from .classic import ADVANCED, ADVANCED_CLASSICAL, LINEAR, LINEAR_CLASSICAL, MOMENTS
from .events import Event, tally
from .gdp import GDP
from .pld import PLD
from .rdp import RDP
from .zcdp import ZCDP, ZCDP_LOOSE


def _best(event: Event, verb: str, value: float) -> tuple[float, str]:
    bill = tally(event)
    if bill.exact or not bill.laplaces:
        candidates = [GDP, ZCDP]
    else:
        candidates = [ZCDP] if bill.gaussians else [LINEAR, ZCDP]
    answers: list[tuple[float, str]] = []
    for accountant in candidates:
        try:
            answers.append((float(getattr(accountant, verb)(event, value)), accountant.name))
        except NotValid:
            continue
    # zcdp is valid for every event, so there is always an answer; ties go to the first candidate.
    return min(answers, key=lambda answer: answer[0])


def which(event: Event, delta: float) -> str:
    """Name of the accountant whose epsilon `auto` reports at `delta`.

    Examples
    --------
    >>> from privem.accounting.events import Gaussian, Laplace
    >>> which(Gaussian(5.0, steps=2**24), 1e-6), which(Gaussian(5.0, steps=4), 1e-6)
    ('gdp', 'zcdp')
    >>> which(Laplace(5.0), 0.0)
    'linear'
    """
    return _best(event, "epsilon", check_delta(delta))[1]


AUTO = Accountant(
    "auto",
    lambda event, delta: _best(event, "epsilon", check_delta(delta))[0],
    lambda event, epsilon: _best(event, "delta", check_epsilon(epsilon, zero=True))[0],
)
_CLASSIC = (MOMENTS, ADVANCED, ADVANCED_CLASSICAL, LINEAR, LINEAR_CLASSICAL)
ACCOUNTANTS: dict[str, Accountant] = {
    accountant.name: accountant for accountant in (AUTO, GDP, ZCDP, ZCDP_LOOSE, RDP, PLD, *_CLASSIC)
}


def accountant_named(name: str) -> Accountant:
    """The accountant called `name`, or a ValueError that lists them all.

    Examples
    --------
    >>> accountant_named("gdp").name
    'gdp'
    """
    try:
        return ACCOUNTANTS[name]
    except (KeyError, TypeError):
        raise ValueError(
            f"unknown accountant {name!r}; choose one of {', '.join(ACCOUNTANTS)}"
        ) from None
