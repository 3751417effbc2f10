"""What noise costs: events, accountants and calibration.

An event says how much noise was added; an accountant turns it into (epsilon, delta); `calibrate`
goes the other way. Accountants are pure functions, always round to the safe side and raise
`NotValid` where no theorem covers the noise.

Examples
--------
>>> release = Composed(((Gaussian(20.0, dimension=65, steps=2**24), 20), (Laplace(50.0), 1)))
>>> epsilon(release, delta=1e-6) < 1.2
True
"""

from __future__ import annotations

from .accountant import Accountant, NotValid
from .events import (
    Composed,
    Event,
    Failure,
    Gaussian,
    Laplace,
    NoPrivacy,
    Nothing,
    compose,
    flatten,
    from_dict,
    to_dict,
)
from .registry import ACCOUNTANTS, calibrate, delta, epsilon, mu_for, mu_total, which

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "Composed",
    "Event",
    "Failure",
    "Gaussian",
    "Laplace",
    "NoPrivacy",
    "NotValid",
    "Nothing",
    "calibrate",
    "compose",
    "delta",
    "epsilon",
    "flatten",
    "from_dict",
    "mu_for",
    "mu_total",
    "to_dict",
    "which",
]
