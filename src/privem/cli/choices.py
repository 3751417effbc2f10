"""Options that take one of a few words."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Batch", "Covariance", "Method", "Neighbours", "PriorKind", "Trust"]


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


class Batch(StrEnum):
    """Which records a step of gradient EM looks at."""

    full = "full"
    parted = "partition"
