"""Watching a fit: printed progress for ``verbose=``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..core import Release, Stage


@contextmanager
def watching(estimator: Any, watch: Callable[[Stage, Release[Any]], None]) -> Iterator[None]:
    """While entered, ``watch`` sees each stage of an estimator's fit, after whoever did before."""
    before = estimator._watch

    def both(stage: Stage, release: Release[Any]) -> None:
        if before is not None:
            before(stage, release)
        watch(stage, release)

    estimator._watch = both
    try:
        yield
    finally:
        del estimator._watch
        if before is not None:
            estimator._watch = before


class Verbose:
    """Prints a line for every so many iterations of EM, or of what ``word`` names.

    Level 1 says when a run begins and how far it is; level 2 adds what each iteration gained and,
    of an exact fit, how long it took. How long a private fit takes depends on its rows.
    """

    def __init__(self, level: int, interval: int, word: str = "EM") -> None:
        self._level, self._interval, self._word = level, interval, word
        self._run = 0
        self._clock = time.perf_counter()

    def __call__(self, stage: Stage, release: Release[Any]) -> None:
        """Print what there is to say of a stage."""
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


def verbose_lloyd(stage: Stage, release: Release[Any]) -> None:
    """Print the inertia at each iteration of an exact k-means, and why it stopped.

    The words are scikit-learn's; iterations are counted from one.
    """
    word, _, iteration = stage.name.rpartition(" ")
    if stage.name == "k-means 1":
        print("Initialization complete")
    if word == "k-means":
        print(f"Iteration {iteration}, inertia {float(release.statistics.inertia):.6g}.")
    if stage.name == "inertia":
        print(stage.progress)
