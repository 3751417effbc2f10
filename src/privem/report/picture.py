"""A figure that a notebook shows, whatever matplotlib was told there."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class Picture(Figure):
    """A figure of matplotlib that shows itself; others do so once pyplot was imported."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", metadata={"Software": None})
        return out.getvalue()
