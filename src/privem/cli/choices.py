"""Options that take one of a few words.

Written here and not read from the library, so that help loads none of it; a test compares the two.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "ACCOUNTANTS",
    "Batch",
    "Covariance",
    "Method",
    "Neighbours",
    "PriorKind",
    "Protection",
    "Trust",
]

ACCOUNTANTS = (
    "gdp, zcdp, zcdp-loose, rdp, pld, moments, advanced, advanced-classical, linear, "
    "linear-classical"
)


class Covariance(StrEnum):
    """Shapes of a mixture's covariances."""

    full = "full"
    tied = "tied"
    diag = "diag"
    spherical = "spherical"


class Neighbours(StrEnum):
    """Which change privacy hides."""

    add_remove = "add-remove"
    replace_one = "replace-one"


class Method(StrEnum):
    """How the papers' regressions are fitted."""

    auto = "auto"
    moments = "moments"
    gradient = "gradient"


class PriorKind(StrEnum):
    """Priors of a mixture."""

    map = "map"


class Trust(StrEnum):
    """Who adds the noise."""

    central = "central"
    local = "local"


class Protection(StrEnum):
    """What hides a party's sums from the server."""

    masked = "masked"
    encrypted = "encrypted"
    plain = "plain"
    ckks = "ckks"


class Batch(StrEnum):
    """Which records a step of gradient EM looks at."""

    full = "full"
    parted = "partition"
