"""The public region records are pulled into before anything is summed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core import Scratch
from ..tree import Array

__all__ = ["Region"]


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

    @property
    def d(self) -> int:
        """How many features."""
        return len(self.centre)

    def to_unit(self, rows: Array, scratch: Scratch) -> Array:
        """Records in unit coordinates, pulled into the region; (b, d), in working memory.

        Coordinates are clamped first, so that 1e308 and infinities cannot break the arithmetic. NaN
        becomes the lower limit: a fixed public rule for rows that cannot be checked beforehand.

        Every operation is elementwise and correctly rounded, so a record's unit coordinates do not
        depend on where in a block it stands: what is summed may be defined by them.
        """
        # Features along the first axis: long rows run fast, and the kernels want them so.
        y = scratch.take("unit", rows.T.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            np.subtract(rows.T, self.centre[:, None], out=y)
            y /= self.scale[:, None]
        np.fmax(y, -self.limit[:, None], out=y)
        np.minimum(y, self.limit[:, None], out=y)
        if self.ball:
            square, term = scratch.take("ball", (2, y.shape[1]))
            square[:] = 0.0
            for feature in y:  # one after the other: a sum over them may be ordered in any way
                np.multiply(feature, feature, out=term)
                square += term
            np.sqrt(square, out=square)
            y /= np.maximum(square, 1.0, out=square)
        return y.T

    def inside(self, y: Array) -> Array:
        """Points (K, d) in unit coordinates, pulled into the region."""
        if self.ball:
            return np.asarray(y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1.0))
        return np.clip(y, -self.limit, self.limit)

    def to_data(self, y: Array) -> Array:
        """Unit coordinates back to the data's."""
        return np.asarray(self.centre + y * self.scale)
