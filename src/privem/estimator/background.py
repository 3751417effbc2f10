"""Estimators whose density may have a background: a uniform density on the bounds."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ..blocks.region import Background, Region
from ..budget import Terms
from ..data.table import Table
from ..parameters import check_option, check_samples, is_ball, region_of
from ..tree import Array
from .density import Density
from .synthetic import Synthetic
from .warnings import advise, advise_at_end, few

# Above this weight, the background is all but the whole model.
_MUCH, _MOST = 0.3, 0.9


class WithBackground(Synthetic, Density):
    """Abstract base of such estimators; they have the parameters ``background`` and ``bounds``."""

    if TYPE_CHECKING:
        background: Any
        bounds: Any
        bounds_: tuple[Array, Array]
        background_weight_: float

    @abstractmethod
    def _draw(self, n_samples: int, rng: Any) -> tuple[Array, NDArray[np.int64]]:
        """Records drawn from the model without its background, and the component of each."""

    def _background(self) -> Background | None:
        # A model that was put together by hand has none.
        weight = getattr(self, "background_weight_", 0.0)
        if not weight:
            return None
        low, high = self.bounds_
        ball = is_ball(self.bounds)
        region = Region.around_origin(float(high[0]), len(high)) if ball else Region.box(low, high)
        return Background(weight, region)

    def _check_background(self) -> None:
        check_option("background", self.background, ("auto", True, False))
        if self.epsilon is None and self._asks_for_background:
            region_of(self.bounds, None, self._isotropic)

    @property
    def _asks_for_background(self) -> bool:
        """Whether an exact fit has one."""
        return self.background not in ("auto", False)

    def _exact_region(self, table: Table) -> Region | None:
        """The region of an exact fit's background, if it has one: the bounds given, or the range.

        The range is that of all records with a weight above zero.
        """
        if not self._asks_for_background:
            return None
        given = self._region(self.n_features_in_)
        if given is not None:
            return given
        if not table.single_rows:
            raise ValueError(
                "background=True needs bounds here: these rows can be summed, but their range "
                "cannot be looked up"
            )
        low = np.full(self.n_features_in_, np.inf)
        high = -low
        for block in table.rows.blocks(8184):
            rows = np.asarray(block.X, dtype=np.float64)
            # Values that are not finite are refused by the fit, in words of its own.
            counts = np.isfinite(rows).all(axis=1)
            if block.weight is not None:
                counts &= block.weight > 0
            low = np.minimum(low, rows[counts].min(axis=0, initial=np.inf))
            high = np.maximum(high, rows[counts].max(axis=0, initial=-np.inf))
        constant = [name for name, flat in zip(self._called(), low == high, strict=True) if flat]
        if constant:
            raise ValueError(
                "background=True: a uniform density on the range of the data needs columns that "
                f"vary, and these do not: {few(constant)}; leave them out, or give bounds"
            )
        # Without a record that counts there is no fit.
        return Region.box(low, high) if (low < high).all() else None

    def _set_exact_background(self, background: Background | None) -> None:
        """Set what an exact fit has found."""
        self.background_weight_ = 0.0 if background is None else background.weight
        if background is not None:
            self.bounds_ = self._sides(background.region, self.bounds is not None)

    def _set_private_background(self, weight: float) -> None:
        """Set what a private fit has found; say where noise hides much."""
        self.background_weight_ = float(weight)
        if weight > _MUCH:
            advise_at_end(
                "noise hides much of the data in this model: its background, a uniform density "
                f"on the bounds, has weight {weight:.3g}; use more records, fewer features, "
                "narrower bounds or a larger epsilon"
            )

    def _known(self, plan: Any, terms: Terms) -> dict[str, str]:
        known = super()._known(plan, terms)
        if self.background_weight_:
            known["background"] = (
                f"a uniform density on the bounds of weight {self.background_weight_:.3g}, which "
                "follows from the releases"
            )
        return known

    def _without_background(self) -> Self:
        background = self._background()
        if background is not None and background.weight > _MOST:
            advise(
                f"the background has weight {background.weight:.3g}: what is left without it "
                "says little about the data"
            )
        alone = copy.copy(self)
        alone.background_weight_ = 0.0
        return alone

    def _draws(self, n_samples: int, rng: Any) -> tuple[Array, NDArray[np.int64]]:
        check_samples(n_samples)
        background = self._background()
        if background is None:
            return self._draw(n_samples, rng)
        flat = rng.binomial(n_samples, background.weight)
        X, component = self._draw(n_samples - flat, rng)
        rows = np.vstack([X, background.region.draw(flat, rng)])
        return rows, np.concatenate([component, np.full(flat, -1)])
