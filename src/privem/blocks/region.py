"""The public region records are pulled into before anything is summed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core import Scratch
from ..linalg import Array, short_buffers
from . import conditions
from .conditions import need

# Far beyond any record, and still a number when squared.
_HUGE = 1e100
# Squared norms up to here are taken as they are: no square or sum on the way has overflowed.
_LARGEST = 1e300


@dataclass(frozen=True)
class Region:
    """A box or a ball, and the unit coordinates ``y = (x - centre) / scale`` used inside it.

    Parameters
    ----------
    centre, scale : array of shape (d,)
    limit : array of shape (d,)
        Largest |y_j|. A box with unequal sides and a common scale has limits below one.
    ball : bool
        Whether |y| <= 1 as well; limits are then one.
    """

    centre: Array
    scale: Array
    limit: Array
    ball: bool = False
    travels = ("centre", "scale", "limit", "ball")

    @classmethod
    def box(cls, low: Array, high: Array, isotropic: bool = False) -> Region:
        """A box; ``isotropic`` keeps distances in proportion, for k-means and spherical models."""
        half = (high - low) / 2
        scale = np.full_like(half, half.max()) if isotropic else half
        return cls((low + high) / 2, scale, half / scale)

    @classmethod
    def around_origin(cls, radius: float, d: int) -> Region:
        """A ball about zero."""
        return cls(np.zeros(d), np.full(d, float(radius)), np.ones(d), ball=True)

    @cached_property
    def reach(self) -> float:
        """The largest norm in unit coordinates, with a margin for the roundings of a projection."""
        return (1.0 if self.ball else float(np.linalg.norm(self.limit))) * (1 + 2.0**-36)

    @cached_property
    def radius(self) -> float:
        """The largest norm of a record in the data's own coordinates, rounded up."""
        if self.ball:
            size = float(np.linalg.norm(self.centre) + self.scale.max())
        else:
            size = float(np.linalg.norm(np.abs(self.centre) + self.limit * self.scale))
        return size * (1 + 2.0**-36)

    @cached_property
    def _columns(self) -> tuple[Array, Array, Array, Array]:
        """Centre, inverse scale, lower and upper limit, each (d, 1)."""
        columns = np.stack([self.centre, 1.0 / self.scale, -self.limit, self.limit])[:, :, None]
        return columns[0], columns[1], columns[2], columns[3]

    @property
    def d(self) -> int:
        """How many features."""
        return len(self.centre)

    def to_unit(self, rows: Array, scratch: Scratch) -> Array:
        """Records in unit coordinates, pulled into the region; (b, d), in working memory."""
        y = scratch.take("unit", rows.T.shape)
        with short_buffers(), np.errstate(over="ignore", invalid="ignore"):
            self.place(rows, y, scratch)
        return y.T

    def place(self, rows: Array, out: Array, scratch: Scratch) -> None:
        """Lay records (b, d) out in unit coordinates, features along the first axis of ``out``.

        In a box coordinates are clamped, in a ball records are pulled onto the sphere. NaN becomes
        the lower limit: a fixed public rule for rows that cannot be checked beforehand.

        Every operation is elementwise and correctly rounded, so a record's unit coordinates do not
        depend on where in a block it stands: what is summed may be defined by them.
        """
        centre, inverse, _, _ = self._columns
        if centre.any():
            np.subtract(rows.T, centre, out=out)
            out *= inverse
        else:  # the same number in one pass
            np.multiply(rows.T, inverse, out=out)
        if self.ball:
            self._project(out, scratch)
        else:
            self._clamp(out)

    def _clamp(self, y: Array) -> None:
        """Pull coordinates to their limits; NaN to the lower one."""
        _, _, low, high = self._columns
        np.clip(y, low, high, out=y)
        np.copyto(y, low, where=np.isnan(y))

    def _project(self, y: Array, scratch: Scratch) -> None:
        """Pull columns beyond norm one back onto the sphere.

        Records whose square is not a number or overflows are clamped first, each for itself.
        """
        square = _squares(y, scratch.take("ball", y.shape))
        if not np.maximum.reduce(square, initial=0.0) <= _LARGEST:
            odd = ~(square <= _LARGEST)
            clamped = y[:, odd]
            self._clamp(clamped)
            y[:, odd] = clamped
            square[odd] = _squares(clamped, np.empty_like(clamped))
        np.clip(square, 1.0, np.inf, out=square)
        np.sqrt(square, out=square)
        np.divide(1.0, square, out=square)
        y *= square

    def clamp(self, x: Array) -> None:
        """Pull records (d, b), in the data's coordinates, into the region, in place; NaN stays.

        Records inside stay as they are, to the last bit. Elementwise and correctly rounded, like
        :meth:`place`.
        """
        if not self.ball:
            low, high = (side[:, None] for side in self.sides)
            np.clip(x, low, high, out=x)
            return
        centre, scale = self.centre[:, None], self.scale[:, None]
        with np.errstate(over="ignore"):
            y = np.clip((x - centre) / scale, -_HUGE, _HUGE)
        norm = np.sqrt(_squares(y, np.empty_like(y)))
        outside = norm > 1
        x[:, outside] = centre + y[:, outside] / norm[outside] * scale

    @cached_property
    def log_volume(self) -> float:
        """Logarithm of the volume, in the data's coordinates.

        Examples
        --------
        >>> round(math.exp(Region.around_origin(1.0, 2).log_volume), 6)
        3.141593
        """
        if not self.ball:
            return float(np.sum(np.log(2 * self.limit * self.scale)))
        unit = 0.5 * self.d * math.log(math.pi) - math.lgamma(0.5 * self.d + 1)
        return unit + float(np.sum(np.log(self.scale)))

    def draw(self, size: int, rng: Any) -> Array:
        """Points (size, d) drawn uniformly, in the data's coordinates; ``rng``: a RandomState."""
        if not self.ball:
            return self.to_data(rng.uniform(-self.limit, self.limit, (size, self.d)))
        y = rng.standard_normal((size, self.d))
        y *= (rng.uniform(size=size) ** (1 / self.d) / np.linalg.norm(y, axis=1))[:, None]
        return self.to_data(y)

    def inside(self, y: Array) -> Array:
        """Points (K, d) in unit coordinates, pulled into the region."""
        if self.ball:
            return np.asarray(y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1.0))
        return np.clip(y, -self.limit, self.limit)

    def to_data(self, y: Array) -> Array:
        """Unit coordinates back to the data's."""
        return np.asarray(self.centre + y * self.scale)

    @property
    def sides(self) -> tuple[Array, Array]:
        """Lowest and highest value of each feature, in the data's coordinates."""
        return self.to_data(-self.limit), self.to_data(self.limit)

    def in_words(self, names: Sequence[str] | None = None) -> str:
        """The region as a statement says it, its columns by name if they have any.

        Examples
        --------
        >>> box = Region.box(np.array([0, 0.5]), np.array([120, 2.5]))
        >>> box.in_words(["age", "height"])
        'age [0, 120], height [0.5, 2.5]'
        """
        if self.ball and self.d > 1:
            return f"all records within {self.scale[0]:g} of the origin"
        # To and from unit coordinates leaves rounding errors that nobody wants to read.
        low, high = (np.where(np.abs(v) < 1e-9 * self.scale, 0.0, v) for v in self.sides)
        sides = [f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True)]
        if names is not None:
            sides = [f"{name} {side}" for name, side in zip(names, sides, strict=True)]
        return ", ".join(sides)

    def check(self, d: int, data: bool = False) -> None:
        """A region of d columns. ``data``: records are used in the data's coordinates as well."""
        conditions.shaped((d,), self.centre, self.scale, self.limit)
        need((self.scale > 0).all() and (self.limit >= 0).all())
        conditions.ordinary(float(self.limit.max()))
        if self.ball:  # about the origin, as all that plans use are
            need((self.limit == 1).all())
            need(not self.centre.any() and (self.scale == self.scale[0]).all())
        if data:
            conditions.magnitudes(self.centre)
            conditions.magnitudes(self.scale, positive=True)


@dataclass(frozen=True)
class Background:
    """A uniform density on a region, beneath a model's own: weight, in (0, 1), and region.

    With weight w and volume V, the density of a record x in the region is
    ``(1 - w) p(x) + w / V``. It is the noise component of Banfield and Raftery 1993 (and of
    mclust): records that no component explains are explained by the background, and no record in
    the region is impossible.

    Outside the region a uniform density is zero, so records are clamped to the region first.

    Examples
    --------
    >>> half = Background(0.5, Region.box(np.zeros(2), np.full(2, 2.0)))
    >>> np.exp(half.beneath(np.array([0.0, -np.inf]))).round(3).tolist()
    [0.625, 0.125]
    """

    weight: float
    region: Region
    travels = ("weight", "region")

    @cached_property
    def level(self) -> float:
        """Its log joint density, the same everywhere: log(w / V)."""
        return math.log(self.weight) - self.region.log_volume

    @cached_property
    def log_rest(self) -> float:
        """What it leaves to the model: log(1 - w)."""
        return math.log1p(-self.weight)

    def beneath(self, log_density: Array) -> Array:
        """Log-densities of records in the region, from those under the model alone."""
        return np.asarray(np.logaddexp(log_density + self.log_rest, self.level))

    def clamped(self, rows: Array, scratch: Scratch) -> Array:
        """Records (b, d) pulled into the region, in working memory."""
        x = scratch.take("clamped", rows.T.shape)
        x[:] = rows.T
        self.region.clamp(x)
        return x.T

    def check(self, d: int) -> None:
        """A weight, and a region of d columns."""
        need(0 < self.weight < 1)
        self.region.check(d, data=True)


def farthest(low: Array, high: Array, about: Array | float = 0.0) -> Array:
    """How far from ``about`` each coordinate of a record between ``low`` and ``high`` can be."""
    return np.asarray(np.maximum(np.abs(low - about), np.abs(high - about)))


def _squares(y: Array, square: Array) -> Array:
    """Squared norms of the columns of y, in the first row of ``square``, which is overwritten."""
    np.multiply(y, y, out=square)
    while len(square) > 1:
        # Halves are added, number by number: np.sum may order its terms in any way, and differently
        # for a record that comes alone.
        half = len(square) // 2
        square[:half] += square[-half:]
        square = square[: len(square) - half]
    return np.asarray(square[0])
