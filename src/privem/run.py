"""The one loop of the library, and a fit played again: the same, or with more noise.

A plan sees nothing but releases (:class:`privem.core.Plan`). Recorded (:class:`Record`) and given
back in order (:class:`Recorded`), they lead to the same result without the data.

Their noise has a known size, so a fit can also be repeated with other noise (:class:`Tape`): every
release gets noise of its own size once more, and how far results scatter is what the noise of the
fit has done to its result.

The same questions are asked again: nobody could answer others. What a question is about, such as
the mixture that says whose record is whose, is held by the release's query, and a plan says what
else counts as given when noise is added: choices of structure, radii and bounds, starts.
:func:`held` keeps the result of a computation, :func:`given` that of some stages; when the fit is
played again they return it without computing anything. :func:`settled` goes on from where a search
has ended. What is left is arithmetic after the releases, which takes milliseconds.

Outside a recording all three do nothing but what they are handed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from .core import Plan, Release, Source, Stage

__all__ = [
    "NotAsRecorded",
    "Record",
    "Recorded",
    "Tape",
    "drive",
    "given",
    "held",
    "run",
    "settled",
]

Result = TypeVar("Result")
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
T = TypeVar("T")
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


class NotAsRecorded(RuntimeError):
    """A plan that, with other noise, does something else than it did."""


@dataclass(frozen=True)
class _Held:
    """What a plan has computed once and for all."""

    value: Any


class Tape:
    """What was released in a fit and what counts as given, in order. All public."""

    def __init__(self) -> None:
        self._entries: list[Release[Any] | _Held] = []
        self._playing: Iterator[Release[Any] | _Held] | None = None

    @contextmanager
    def recording(self, source: Source) -> Iterator[Source]:
        """The source, while a plan runs on it once."""
        self._entries.clear()
        with self._used():
            yield _Recording(source, self._entries)

    @contextmanager
    def playing(self, changed: Callable[[Release[Any]], Release[Any]]) -> Iterator[Source]:
        """A source without rows that answers the same plan with every release changed."""
        self._playing = iter(self._entries)
        try:
            with self._used():
                yield _Playing(self, changed)
        finally:
            self._playing = None

    def hold(self, compute: Callable[[], T], again: Callable[[T], T]) -> T:
        """Compute while the fit is recorded; then ``again`` of what was computed."""
        if self._playing is not None:
            return again(self._given())
        value = compute()
        self._entries.append(_Held(value))
        return value

    def stages(self, asked: Generator[Stage, Release[Any], T]) -> Generator[Stage, Release[Any], T]:
        """The same of some stages, whose own releases are then of no further use."""
        if self._playing is not None:
            kept: T = self._given()
            return kept
        before = len(self._entries)
        value = yield from asked
        self._entries[before:] = [_Held(value)]
        return value

    def next(self) -> Release[Any] | _Held:
        """The next entry while playing."""
        assert self._playing is not None
        try:
            return next(self._playing)
        except StopIteration:
            raise NotAsRecorded("the recording has ended") from None

    def _given(self) -> Any:
        entry = self.next()
        if not isinstance(entry, _Held):
            raise NotAsRecorded("a release where something given was expected")
        return entry.value

    @contextmanager
    def _used(self) -> Iterator[None]:
        token = _in_use.set(self)
        try:
            yield
        finally:
            _in_use.reset(token)


_in_use: ContextVar[Tape | None] = ContextVar("_in_use", default=None)


@dataclass(frozen=True)
class _Recording:
    source: Source
    entries: list[Any]

    def release(self, stage: Stage) -> Release[Any]:
        release = self.source.release(stage)
        self.entries.append(release)
        return release


@dataclass(frozen=True)
class _Playing:
    tape: Tape
    changed: Callable[[Release[Any]], Release[Any]]

    def release(self, stage: Stage) -> Release[Any]:
        entry = self.tape.next()
        if not isinstance(entry, Release):
            raise NotAsRecorded(f"something given where {stage.name!r} is asked")
        return self.changed(entry)


def held(compute: Callable[[], T]) -> T:
    """What ``compute`` returns, given when the noise is drawn anew.

    Examples
    --------
    >>> held(lambda: 2 + 2)
    4
    """
    return settled(compute, lambda value: value)


def settled(search: Callable[[], T], again: Callable[[T], T]) -> T:
    """What ``search`` returns; ``again`` of what it did return when the noise is drawn anew."""
    tape = _in_use.get()
    return search() if tape is None else tape.hold(search, again)


def given(asked: Generator[Stage, Release[Any], T]) -> Generator[Stage, Release[Any], T]:
    """What some stages return, given when the noise is drawn anew."""
    tape = _in_use.get()
    return asked if tape is None else tape.stages(asked)
