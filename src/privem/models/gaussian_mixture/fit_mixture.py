"""The whole private fit of a mixture, from nothing to parameters in the data's coordinates."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.region import Region
from ...budget import Allowance, Part
from ...core import Release, Stage
from ...ground import Ground, Preamble
from ...tree import Array
from .gaussian import frame_size, only_variances
from .model import Mixture
from .prior import Prior
from .private_plan import MOST_ITERATIONS, PrivateMixture, Structure
from .query import releases

_FRAME_SHARE = (0.045, 0.105)
# Iterations reserved for when neither the caller nor the noise level can say.
_ITERATIONS = 10
# Variances of a given start, in unit coordinates.
_NARROWEST, _WIDEST = 1e-12, 1e12


@dataclass(frozen=True)
class PrivateMixtureFit:
    """A fitted mixture in the data's coordinates, and how it came about. All public."""

    mixture: Mixture
    structure: Structure
    ground: Ground


@dataclass(frozen=True)
class PrivateMixturePlan:
    """Count, bounds, frame, EM."""

    preamble: Preamble
    components: int
    covariance_type: str
    recipe: str
    n_iter: int | None
    rng: np.random.Generator
    start: Mixture | None = None
    prior: Prior | None = None
    choose_structure: bool = True
    max_iter: int = MOST_ITERATIONS

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        d = self.preamble.d
        parts = self.preamble.parts()
        left = 1.0 - self.preamble.share()
        if self.start is None and not self.preamble.pure:
            size = frame_size(d, only_variances(self.covariance_type, d))
            parts += [
                Part(f"frame {i}", left * share, [("gaussian", size)])
                for i, share in enumerate(_FRAME_SHARE, start=1)
            ]
            left *= 1 - sum(_FRAME_SHARE)
        each = releases(self.recipe, self.covariance_type, self.components, d)
        return [*parts, Part("em", left, each * self._planned)]

    @property
    def _planned(self) -> int:
        """Iterations where their number may not depend on the count."""
        return self.n_iter or min(_ITERATIONS, self.max_iter)

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateMixtureFit]:
        """Generate the stages."""
        ground = yield from self.preamble.stages(allowance)
        start = None if self.start is None else to_unit(self.start, ground.region)
        plan = PrivateMixture(
            ground.region,
            self.components,
            self.covariance_type,
            self.recipe,
            ground.count,
            ground.rows,
            self.preamble.count is not None,
            ground.allowance,
            self.n_iter if allowance.adaptive else self._planned,
            self.rng,
            self.preamble.cap_weight,
            start,
            None if self.prior is None else _prior_in_unit(self.prior, ground.region),
            self.choose_structure,
            allowance.adaptive,
            self.max_iter,
            self.preamble.pure,
        )
        mixture, structure = yield from plan.stages()
        return PrivateMixtureFit(to_data(mixture, ground.region), structure, ground)


def _scaled(mixture: Mixture, means: Array, factor: Array) -> Mixture:
    match mixture.covariance_type:
        case "full" | "tied":
            covariances = mixture.covariances * np.outer(factor, factor)
        case "diag":
            covariances = mixture.covariances * factor**2
        case _:
            covariances = mixture.covariances * factor[0] ** 2
    return replace(mixture, means=means, covariances=covariances)


def _prior_in_unit(prior: Prior, region: Region) -> Prior:
    scatter = prior.scatter / np.outer(region.scale, region.scale)
    return replace(prior, mean=(prior.mean - region.centre) / region.scale, scatter=scatter)


def to_data(mixture: Mixture, region: Region) -> Mixture:
    """A mixture in unit coordinates as one in the data's."""
    return _scaled(mixture, region.to_data(mixture.means), region.scale)


def to_unit(mixture: Mixture, region: Region) -> Mixture:
    """The inverse of :func:`to_data`, pulled into the region, deviations within public limits.

    A start that is off by more says nothing, and rounding would have no bound under it.
    """
    means = region.inside((mixture.means - region.centre) / region.scale)
    scaled = _scaled(mixture, means, 1.0 / region.scale)
    if mixture.covariance_type in ("diag", "spherical"):
        return replace(scaled, covariances=np.clip(scaled.covariances, _NARROWEST, _WIDEST))
    values, vectors = np.linalg.eigh(scaled.covariances)
    if values.min() >= _NARROWEST and values.max() <= _WIDEST:
        return scaled
    values = np.clip(values, _NARROWEST, _WIDEST)[..., None, :]
    return replace(scaled, covariances=(vectors * values) @ np.swapaxes(vectors, -1, -2))
