"""Printed progress for ``verbose=``."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ..core import Release, Stage

if TYPE_CHECKING:
    from .base import Estimator

__all__ = ["Verbose", "VerboseLloyd"]


class _Watching(ABC):
    """While entered, sees each stage of an estimator's fit."""

    def __init__(self, estimator: Estimator, level: int) -> None:
        self._estimator, self._level = estimator, level
        self._before = estimator._watch

    def __enter__(self) -> None:
        self._estimator._watch = self._watch

    def __exit__(self, *exc: object) -> None:
        del self._estimator._watch
        if self._before is not None:
            self._estimator._watch = self._before

    def _watch(self, stage: Stage, release: Release[Any]) -> None:
        if self._before is not None:
            self._before(stage, release)
        self._show(stage, release)

    @abstractmethod
    def _show(self, stage: Stage, release: Release[Any]) -> None:
        """Print what there is to say."""


class Verbose(_Watching):
    """Prints a line for every so many iterations of EM, or of what ``word`` names.

    Level 1 says when a run begins and how far it is; level 2 adds what each iteration gained and,
    of an exact fit, how long it took. How long a private fit takes depends on its rows.
    """

    def __init__(self, estimator: Estimator, level: int, interval: int, word: str = "EM") -> None:
        super().__init__(estimator, level)
        self._interval, self._word = interval, word
        self._run = 0
        self._clock = time.perf_counter()

    def _show(self, stage: Stage, release: Release[Any]) -> None:
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


class VerboseLloyd(_Watching):
    """Prints the inertia at each iteration of an exact k-means, and why it stopped.

    The words are scikit-learn's; iterations are counted from one.
    """

    def _show(self, stage: Stage, release: Release[Any]) -> None:
        word, _, iteration = stage.name.rpartition(" ")
        if stage.name == "k-means 1":
            print("Initialization complete")
        if word == "k-means":
            print(f"Iteration {iteration}, inertia {float(release.statistics.inertia):.6g}.")
        if stage.name == "inertia":
            print(stage.progress)
