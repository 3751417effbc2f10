"""Figures that a notebook shows, whatever matplotlib was told there."""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def picture() -> type[Figure]:
    """The class of figures that show themselves; others do so once pyplot was imported."""
    from matplotlib.figure import Figure

    return _shown(Figure)


@cache
def _shown(figure: type[Figure]) -> type[Figure]:
    class Picture(figure):  # type: ignore[misc, valid-type]
        def _repr_png_(self) -> bytes:
            out = io.BytesIO()
            self.savefig(out, format="png", metadata={"Software": None})
            return out.getvalue()

    Picture.__qualname__ = "Picture"  # so that pickle asks this module for it
    return Picture


def __getattr__(name: str) -> Any:
    if name == "Picture":
        return picture()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
