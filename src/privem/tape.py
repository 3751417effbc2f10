"""A fit played again with more noise: what its noise does to the result.

A plan sees nothing but releases (:class:`privem.core.Plan`), and the size of their noise is known.
So a fit can be repeated without the data: every release gets noise of its own size once more, and
how far results scatter is what the noise of the fit has done to its result.

The same questions are asked again: nobody could answer others. What a question is about, such as
the mixture that says whose record is whose, is held by the release's query, and a plan says what
else counts as given when noise is added: choices of structure, radii and bounds, starts.
:func:`held` keeps the result of a computation, :func:`given` that of some stages; when the fit is
played again they return it without computing anything. :func:`settled` goes on from where a search
has ended. What is left is arithmetic after the releases, which takes milliseconds.

Outside a recording all three do nothing but what they are handed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from .core import Release, Source, Stage

T = TypeVar("T")


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
