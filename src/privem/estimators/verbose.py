"""Printed progress for ``verbose=``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..core import Release, Stage

if TYPE_CHECKING:
    from .base import Estimator

__all__ = ["Verbose"]


class Verbose:
    """While entered, prints a line for every so many iterations of an estimator's fit.

    Level 1 says when a run begins and how far it is; level 2 adds what each iteration gained and,
    of an exact fit, how long it took. How long a private fit takes depends on its rows.
    """

    def __init__(self, estimator: Estimator, level: int, interval: int, word: str = "EM") -> None:
        self._estimator, self._level, self._interval = estimator, level, interval
        self._word = word
        self._before = estimator._watch
        self._run = 0
        self._clock = time.perf_counter()

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
        word, _, last = stage.name.rpartition(" ")
        if word != self._word:
            return  # Passes that look for a start are not iterations.
        iteration = int(last)
        if iteration == 1:
            self._run += 1
            print(f"Initialization {self._run}")
        if iteration % self._interval == 0:
            line = f"  Iteration {iteration}"
            if self._level > 1:
                line += f"  {stage.progress}"
                if not stage.noise.private:
                    now = time.perf_counter()
                    line += f"  {now - self._clock:.3f} s"
                    self._clock = now
            print(line.rstrip())
