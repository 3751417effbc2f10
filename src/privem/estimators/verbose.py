"""Printed progress for ``verbose=``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core import Release, Stage

if TYPE_CHECKING:
    from .base import Estimator

__all__ = ["Verbose"]


class Verbose:
    """While entered, prints a line for every so many releases of an estimator's fit."""

    def __init__(self, estimator: Estimator, level: int, interval: int) -> None:
        self._estimator, self._level, self._interval = estimator, level, interval
        self._before = estimator._watch
        self._seen = 0

    def __enter__(self) -> Verbose:
        if self._level:
            self._estimator._watch = self._show
        return self

    def __exit__(self, *exc: object) -> None:
        if self._level:
            del self._estimator._watch
            if self._before is not None:
                self._estimator._watch = self._before

    def _show(self, stage: Stage, release: Release[Any]) -> None:
        if self._before is not None:
            self._before(stage, release)
        self._seen += 1
        if self._level > 1 or self._seen % self._interval == 0:
            print(f"{stage.name:>12}  {stage.progress}".rstrip())
