"""The tightest bound that is proved for the given noise.

Candidates: `gdp` and tight `zcdp` where all noise is Gaussian; tight `zcdp` where Laplace noise is
present, and `linear` where there is nothing else (it is then pure differential privacy, and works
at delta = 0). Each candidate that is valid gives a true upper bound and the choice looks at the
event alone, never at data, so the smallest is a true bound too. `pld` is not a candidate: its
convolutions round without a proved bound.
"""

from __future__ import annotations

from types import ModuleType

from . import gdp, zcdp
from .classic import linear
from .events import Event, Tally, tally
from .verbs import NotValid, check_delta, check_epsilon


def _candidates(bill: Tally) -> dict[str, ModuleType]:
    if bill.exact or not bill.laplaces:
        return {"gdp": gdp, "zcdp": zcdp}
    return {"zcdp": zcdp} if bill.gaussians else {"linear": linear, "zcdp": zcdp}


def _best(event: Event, verb: str, value: float) -> tuple[float, str]:
    answers: list[tuple[float, str]] = []
    for name, accountant in _candidates(tally(event)).items():
        try:
            answers.append((float(getattr(accountant, verb)(event, value)), name))
        except NotValid:
            continue
    # zcdp is valid for every event, so there is always an answer; ties go to the first candidate.
    return min(answers, key=lambda answer: answer[0])


def epsilon(event: Event, delta: float) -> float:
    """Epsilon at a given delta.

    Examples
    --------
    >>> from privem.accounting.events import Composed, Laplace
    >>> round(epsilon(Composed(((Laplace(10.0), 5),)), 0.0), 6)
    0.5
    """
    delta = check_delta(delta)
    return _best(event, "epsilon", delta)[0]


def delta(event: Event, epsilon: float) -> float:
    """Delta at a given epsilon.

    Examples
    --------
    >>> from privem.accounting.events import Gaussian
    >>> round(delta(Gaussian(1.0, steps=2**24), 1.0), 6)
    0.126937
    """
    return _best(event, "delta", check_epsilon(epsilon, zero=True))[0]


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
    delta = check_delta(delta)
    return _best(event, "epsilon", delta)[1]
