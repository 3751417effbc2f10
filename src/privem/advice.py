"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["advise", "advise_at_end", "at_end", "few"]

_waiting: ContextVar[list[tuple[str, type[Warning]]]] = ContextVar("_waiting")


def advise(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, naming the line outside privem that led here, however deep inside we are."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def advise_at_end(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn when the fit is complete: what was paid for is not lost where warnings are errors."""
    _waiting.get().append((message, category))


@contextmanager
def at_end() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Collect the warnings that wait for the end of a fit."""
    token = _waiting.set([])
    try:
        yield _waiting.get()
    finally:
        _waiting.reset(token)


def _ours(module: str) -> bool:
    return module.partition(".")[0] == "privem"


def few(names: Sequence[str]) -> str:
    """Names for a message: the first ten, and how many more."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more
