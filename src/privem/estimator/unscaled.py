"""Public bounds that a model's assumption cannot meet: said before a fit, from the bounds alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..blocks.region import Region

# Within this much of its mean lie two thirds of a standard normal: bounds must leave room for it.
_ROOM = 1.0
# Nothing standard normal is ever as large: bounds as wide are those of columns in their own units.
_WIDE = 20.0


def unlike_standard_normal(region: Region | None, names: Sequence[str]) -> list[str]:
    """The columns whose bounds say that they are not standard normal; none if bounds are found.

    Bounds must hold the middle of a standard normal, lie about zero rather than to one side of it,
    and not be in other units altogether. It looks at public numbers only, so it costs nothing.

    Examples
    --------
    >>> box = Region.box(np.array([-5.0, 10.0]), np.array([6.0, 60.0]))
    >>> unlike_standard_normal(box, ["z", "bmi"])
    ["'bmi' (10 to 60)"]
    """
    if region is None:
        return []
    low, high = region.sides
    centred = (low <= -_ROOM) & (high >= _ROOM) & ~off_centre(region)
    # A ball about many columns is as large as they are together.
    wide = _WIDE * np.sqrt(region.d) if region.ball else _WIDE
    odd = ~centred | ((high - low) / 2 > wide)
    if region.ball:
        return [f"all (within {region.scale[0]:g} of the origin)"] if odd.any() else []
    return [
        f"{name!r} ({a:g} to {b:g})"
        for name, a, b, is_odd in zip(names, low, high, odd, strict=True)
        if is_odd
    ]


def off_centre(region: Region) -> NDArray[np.bool_]:
    """Which columns' bounds lie to one side of zero, by more than half their half width."""
    low, high = region.sides
    return np.asarray(np.abs(low + high) > (high - low) / 2)
