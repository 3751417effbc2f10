"""What the noise of a private fit supports: which structure, and how many iterations."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...blocks.shrinkage import operator_noise

# More iterations than this never helped.
MOST_ITERATIONS = 30
# Relative noise on a covariance, all budget in one release, beyond which a simpler one is better.
_MOST_NOISE = 0.6
# The same of a pooled one, beyond which one Gaussian with all of the budget is better.
MOST_POOLED = 0.2
# Relative noise on a covariance in one iteration: as much as it bears where many iterations are
# needed; and less where EM starts near its end, and noise is all that later ones add.
FAR, NEAR = 0.7, 0.45


@dataclass(frozen=True)
class Structure:
    """What the noise supports: ``single``, ``tied`` or the type asked for; iterations.

    ``beaten``: it is single because a contest said so. ``lost``: components that noise has
    swallowed.
    """

    covariance_type: str
    single: bool
    iterations: int
    beaten: bool = False
    lost: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """In a word: what the fit really has."""
        return "single" if self.single else self.covariance_type


def choose(
    covariance_type: str,
    components: int,
    d: int,
    count: float,
    sensitivity: float,
    n_iter: int | None,
    max_iter: int = MOST_ITERATIONS,
    noise: float = FAR,
    pooled_noise: float = _MOST_NOISE,
) -> Structure:
    """Choose structure and iterations (at most ``max_iter``) from the noise level alone.

    ``sensitivity``: noise deviation of a second-moment entry if the whole EM budget went into one
    release. ``noise``: what an iteration bears; ``pooled_noise``: what a pooled covariance bears in
    one release.
    """
    full = float(operator_noise(d, sensitivity)) / (count / components)
    if covariance_type in ("diag", "spherical"):
        full /= math.sqrt(d / 2) * 2
    pooled = full / components
    tied = covariance_type == "full" and full > _MOST_NOISE
    level = pooled if tied else full
    iterations = n_iter or min(int(np.clip((noise / level) ** 2, 3, MOST_ITERATIONS)), max_iter)
    return Structure("tied" if tied else covariance_type, pooled > pooled_noise, iterations)
