"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

__all__ = ["advise", "few"]


def advise(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, naming the line outside privem that led here, however deep inside we are."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _ours(module: str) -> bool:
    return module.partition(".")[0] == "privem"


def few(names: Sequence[str]) -> str:
    """Names for a message: the first ten, and how many more."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more
