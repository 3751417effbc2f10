"""The one loop of the library."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol, TypeVar

from .core import Plan, Release, Source, Stage

__all__ = ["Record", "Recorded", "drive", "run"]

Result = TypeVar("Result")
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Watch = Callable[[Stage, Release[Any]], None]


class Charge(Protocol):
    """Prices a stage before it runs, and may refuse it."""

    def charge(self, stage: Stage) -> None:
        """Add the stage's cost, or raise."""


def run(
    plan: Plan[Result],
    source: Source,
    watch: Watch | None = None,
    meter: Charge | None = None,
) -> Result:
    """Run a plan on a source.

    Parameters
    ----------
    plan : Plan
        Generates the stages; sees nothing but releases.
    source : Source
        Answers them. Nothing else sees rows.
    watch : callable, optional
        Called with each stage and its release, both public: progress bars, recordings.
    meter : Charge, optional
        Charged for each stage before any row is read; private fits always have one.

    Returns
    -------
    object
        What the plan returns.

    Examples
    --------
    >>> import numpy as np
    >>> from privem.blocks.moments import FramePlan
    >>> from privem.data import LocalSource, read_rows
    >>> source = LocalSource(read_rows(np.array([[1.0], [2.0], [6.0]])))
    >>> float(run(FramePlan(["height"]), source).mean[0])
    3.0
    """

    def answer(stage: Stage) -> Release[Any]:
        if meter is not None:
            meter.charge(stage)
        release = source.release(stage)
        if watch is not None:
            watch(stage, release)
        return release

    return drive(plan.stages(), answer)


def drive(questions: Generator[Asked, Answer, Result], answer: Callable[[Asked], Answer]) -> Result:
    """Answer a generator's questions until it returns, and return its result.

    Only the generator ends the loop. A ``StopIteration`` raised by ``answer`` is an error and
    becomes a ``RuntimeError``.
    """
    reply: Any = None  # what a generator is started with
    try:
        while True:
            try:
                question = questions.send(reply)
            except StopIteration as end:
                result: Result = end.value
                return result
            try:
                reply = answer(question)
            except StopIteration as leak:
                raise RuntimeError(
                    "a question was left without an answer (StopIteration)"
                ) from leak
    finally:
        questions.close()


class Record:
    """A ``watch`` function that keeps every release, for :class:`Recorded` to replay."""

    def __init__(self) -> None:
        self.releases: list[Release[Any]] = []

    def __call__(self, stage: Stage, release: Release[Any]) -> None:
        """Keep one."""
        self.releases.append(release)


class Recorded:
    """A source that holds no rows: it answers from recorded releases, in order."""

    def __init__(self, releases: Iterable[Release[Any]]) -> None:
        self._releases = iter(releases)

    def release(self, stage: Stage) -> Release[Any]:
        """The next recorded release."""
        try:
            return next(self._releases)
        except StopIteration:
            raise RuntimeError(f"the recording ended before stage {stage.name!r}") from None
