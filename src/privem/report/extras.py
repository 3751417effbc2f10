"""Heavy libraries that are optional."""

from __future__ import annotations

__all__ = ["MissingExtra"]


class MissingExtra(ImportError):
    """An optional library is not installed; the message says how to install it.

    Examples
    --------
    >>> print(MissingExtra("matplotlib", "plot"))
    matplotlib is not installed; for pictures: pip install "privem[plot]"
    """

    def __init__(self, library: str, extra: str, purpose: str = "pictures") -> None:
        super().__init__(
            f'{library} is not installed; for {purpose}: pip install "privem[{extra}]"',
            name=library,
        )
