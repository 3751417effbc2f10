"""The loops of Expectation Maximization, exact and private, each written once.

A model gives the E-step as a query and the M-step on its release (:class:`privem.core.Model`).
Exact EM stops when its objective stands still. Private EM takes a number of iterations that is
fixed beforehand, and a :class:`Path` says where its noisy steps lead: how far beyond an M-step to
go while searching, and which iterates are averaged in the end.

*Streams* (:class:`OnlineEM`). Exact EM can also take in records block by block and look at each
once (Cappé and Moulines 2009, "On-line expectation-maximization algorithm for latent data models").
The sums of a block, per unit of weight, move running sums s by a step: s becomes (1 - g) s + g s'.
The M-step is that of any fit, on the running sums. With a block of weight w that brings the stream
to weight N, g = (w/N)^a: for equal blocks, the t-th step is t^-a. Steps must add up to infinity,
so that a start is forgotten, and their squares must not, so that the parameters settle: any a above
1/2 and up to 1 will do, and 0.6 is what that paper recommends. a = 1 would keep all sums that were
made under parameters of long ago: for k-means it is MacQueen's algorithm, and scikit-learn's
``MiniBatchKMeans``. Sums that depend on no parameters are added up (a = 1): nothing is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from .blocks.moments import Frame, FramePlan
from .core import ExactModel, Model, Noise, Release, Stage
from .linalg import Array, leaves, map_leaves
from .noise.exact import Exact
from .run import held

State = TypeVar("State")

# The exponent of the steps of online EM, see above; experiments/minibatch has others.
_DECAY = 0.6


@dataclass(frozen=True)
class Fit(Generic[State]):
    """Where EM ended, and how it got there."""

    state: State
    objective: float
    """The objective before the last M-step, as scikit-learn's ``lower_bound_``."""
    n_iter: int
    converged: bool
    history: list[float] = field(default_factory=list)
    previous: State | None = None
    """The state before the last M-step."""
    release: Release[Any] | None = None
    """The last sums."""


@dataclass(frozen=True)
class ExactEM(Generic[State]):
    """EM from ``start`` until ``stop`` says so, or ``max_iter`` iterations.

    Parameters
    ----------
    model : ExactModel
    start : state
    max_iter : int
    stop : callable
        ``stop(change of the objective, old state, new state)``.
    name : str
        Shown with the progress.
    before : float
        The objective to compare the first one with; minus infinity but for warm starts.
    """

    model: ExactModel[State, Any]
    start: State
    max_iter: int
    stop: Callable[[float, State, State], bool]
    name: str = "EM"
    before: float = float("-inf")

    def stages(self) -> Generator[Stage, Release[Any], Fit[State]]:
        """Generate the stages."""
        old = state = self.start
        history, converged, release = [], False, None
        value, remark = self.before, ""
        for iteration in range(1, self.max_iter + 1):
            query = self.model.query(state, iteration - 1)
            release = yield Stage(query, Exact(), f"{self.name} {iteration}", progress=remark)
            before, value = value, self.model.objective(state, release)
            history.append(value)
            old, state = state, self.model.m_step(state, release)
            remark = f"objective {value:.6g}"
            if self.stop(value - before, old, state):
                converged = True
                break
        return Fit(state, value, len(history), converged, history, old, release)


def gains_less(tol: float) -> Callable[[float, Any, Any], bool]:
    """Stop where the objective changes by less than ``tol``."""
    return lambda change, old, new: abs(change) < tol


@dataclass(frozen=True)
class Stream:
    """The sums that EM holds of a stream, as large as if made over all of its records at once.

    Parameters
    ----------
    count : float
        The weight of all records so far.
    sums : mapping
        The model's sums by name; empty where moments say it all.
    origins : array or None
        What these are about, where that changes: see :class:`OnlineEM`.
    frame : Frame or None
        Moments of all records about the first block's mean, where the model asks for them.
    blocks : int
        How many blocks were taken in one by one; a fit of all records is none.
    fixed : mapping
        Parameters of the estimator that these sums go with.
    """

    count: float
    sums: Mapping[str, Array]
    origins: Array | None = None
    frame: Frame | None = None
    blocks: int = 0
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def after(cls, release: Release[Any] | None, frame: Frame | None = None) -> Stream | None:
        """What a fit leaves to go on from; without an iteration nothing."""
        if release is None:
            return None
        sums = leaves(release.statistics)
        count = float(sums["count"].sum()) if frame is None else frame.count
        return cls(count, sums, _origins(release.query), frame)

    def to_dict(self) -> dict[str, Any]:
        """As numbers, arrays and mappings of them."""
        frame = None if self.frame is None else _fields(self.frame)
        return _fields(self) | {"frame": frame}

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> Stream:
        """The inverse of :meth:`to_dict`."""
        frame = None if known["frame"] is None else Frame(**known["frame"])
        stream = cls(**{**known, "frame": frame})
        arrays = [*stream.sums.values(), *([] if frame is None else [frame.total, frame.second])]
        if not (stream.count > 0 and all(np.isfinite(array).all() for array in arrays)):
            raise ValueError("the sums of a stream must be finite")
        return stream


def _fields(record: Any) -> dict[str, Any]:
    """The fields of a dataclass by name."""
    return {each.name: getattr(record, each.name) for each in fields(record)}


def _origins(query: Any) -> Array | None:
    origins = getattr(query, "origins", None)
    return None if origins is None else np.array(origins)


@dataclass(frozen=True)
class OnlineEM(Generic[State]):
    """Another block of a stream: one step of online EM.

    Parameters
    ----------
    model : callable or None
        From a frame to the model. Its queries and M-step are those of a fit. Where its sums are
        about ``query.origins`` that may differ from one query to the next, its method ``carried``
        gives the same sums about others. ``None``: the frame is all there is to know, and is the
        new state.
    state : state
        The parameters before the block.
    stream : Stream
    names : sequence of str
        One per column, for error messages.
    """

    model: Callable[[Frame | None], ExactModel[State, Any]] | None
    state: State
    stream: Stream
    names: Sequence[str]

    def stages(self) -> Generator[Stage, Release[Any], tuple[Any, Stream]]:
        """Generate the stages."""
        before, plan = self.stream, FramePlan(self.names)
        rows = yield from plan.sums()
        weight = float(rows.count)
        count, step = before.count + weight, weight / (before.count + weight)
        if self.model is not None:
            step = step**_DECAY

        def blend(old: Array, new: Array) -> Array:
            return np.asarray(count * ((1 - step) * old / before.count + step * new / weight))

        frame = before.frame
        if frame is not None:
            diagonal = len(frame.second) == len(frame.origin)
            new = yield from plan.about(frame.origin, rows, diagonal)
            total, second = blend(frame.total, new.total), blend(frame.second, new.second)
            frame = Frame(frame.rows + new.rows, count, frame.origin, total, second)
        after = replace(before, count=count, frame=frame, blocks=before.blocks + 1)
        if self.model is None:
            return frame, after
        model = self.model(frame)
        query = model.query(self.state, before.blocks)
        release = yield Stage(query, Exact(), f"block {after.blocks}")
        old = type(release.statistics)(**before.sums)
        if before.origins is not None:
            carried: Any = self.model(before.frame)
            old = carried.carried(old, before.origins, query)
        sums = map_leaves(blend, old, release.statistics)
        after = replace(after, sums=leaves(sums), origins=_origins(query))
        return model.m_step(self.state, replace(release, statistics=sums)), after


class Path(Protocol[State]):
    """Where the noisy steps of a private fit lead. All of it is arithmetic after the releases."""

    def step(self, t: int, before: State, found: State) -> State:
        """The state to go on from, after the M-step of iteration ``t`` has found one."""

    def end(self, state: State) -> State:
        """The result, when all iterations are done."""


class LateMean(Generic[State]):
    """EM as it is, and the mean of the iterates of its second half, where noise averages out.

    ``fields`` of the state are averaged; the start counts where no iteration follows it.
    """

    def __init__(self, start: State, iterations: int, *fields: str) -> None:
        self._first, self._fields, self._late = iterations // 2, fields, [start]

    def step(self, t: int, before: State, found: State) -> State:
        """The M-step's own state."""
        self._late = [*self._late, found] if t > self._first else [found]
        return found

    def end(self, state: State) -> State:
        """The mean of the late iterates."""
        late = self._late
        means = {name: np.mean([getattr(s, name) for s in late], axis=0) for name in self._fields}
        return replace(state, **means)  # type: ignore[type-var]


class Moving(Protocol):
    """A state that remembers the step that led to it."""

    def beyond(self, factor: float) -> Self:
        """A step ``factor`` times as long."""

    def towards(self, new: Self, terms: int) -> Self:
        """The running mean over ``terms`` iterates, ``new`` being the last."""

    def restarted(self) -> Self:
        """What is lost in noise, elsewhere."""


Moved = TypeVar("Moved", bound=Moving)


class SearchThenMean(Generic[Moved]):
    """Longer steps than EM's, which is slow to converge, and then the running mean of iterates.

    Parameters
    ----------
    search : int
        The iteration that is the first of the mean.
    overstep : float
        How long steps are until then, but for the first, which is long anyway; in EM's own.
    restarts : int
        For so many iterations, whatever noise has swallowed gets another try.
    """

    def __init__(self, search: int, overstep: float = 1.0, restarts: int = 0) -> None:
        self._search, self._overstep, self._restarts = search, overstep, restarts
        self._mean: Moved | None = None

    def step(self, t: int, before: Moved, found: Moved) -> Moved:
        """Further than found, or the mean so far."""
        if self._mean is None or t <= self._search:
            self._mean = found
            longer = self._overstep != 1.0 and 0 < t < self._search
            ahead = found.beyond(self._overstep) if longer else found
            return ahead.restarted() if t < self._restarts else ahead
        self._mean = self._mean.towards(found, t - self._search + 1)
        return self._mean

    def end(self, state: Moved) -> Moved:
        """The mean, which is where the last step led."""
        return state


@dataclass(frozen=True)
class PrivateEM(Generic[State]):
    """Private EM from ``start``: so many iterations, each a noisy release.

    Where their noise is drawn anew (:class:`privem.run.Tape`), the same is asked as before.

    Parameters
    ----------
    model : Model
        Its queries are bounded, its M-step is total.
    start : state
    iterations : int
    noise : callable
        From the number of an iteration, counted from zero, to its noise.
    path : Path
    name : str
        Of the stages: ``"EM 1"``, ``"EM 2"``, ...
    """

    model: Model[State, Any]
    start: State
    iterations: int
    noise: Callable[[int], Noise]
    path: Path[State]
    name: str = "EM"

    def stages(self) -> Generator[Stage, Release[Any], State]:
        """Generate the stages."""
        state = yield from self.steps(self.start, range(self.iterations))
        return self.path.end(state)

    def steps(self, state: State, rounds: range) -> Generator[Stage, Release[Any], State]:
        """Some of the iterations, from a state on."""
        for t in rounds:
            query = held(partial(self.model.query, state, t))
            release = yield Stage(query, self.noise(t), f"{self.name} {t + 1}")
            state = self.path.step(t, state, self.model.m_step(state, release))
        return state


@dataclass(frozen=True)
class PooledEM(Generic[State]):
    """Private EM whose late iterations pool their releases: the result is the M-step of their mean.

    For M-steps that are far from linear in their noise, such as those that raise probabilities to
    a floor: what noise does to the mean of several releases is less than what it does to each. All
    M-steps of pooled releases start from the state at which pooling began, whose noise is another.

    Parameters
    ----------
    model, start, iterations, noise, name : as those of :class:`PrivateEM`
    first : int
        The iteration from which on releases are pooled, at least one before ``iterations``.
    """

    model: Model[State, Any]
    start: State
    iterations: int
    noise: Callable[[int], Noise]
    first: int
    name: str = "EM"

    def stages(self) -> Generator[Stage, Release[Any], tuple[State, Release[Any]]]:
        """Generate the stages; the last state, and the mean of the releases that it is made of."""
        search = PrivateEM(self.model, self.start, self.first, self.noise, _Search(), self.name)
        before = state = yield from search.stages()
        releases: list[Release[Any]] = []
        for t in range(self.first, self.iterations):
            query = held(partial(self.model.query, state, t))
            releases.append((yield Stage(query, self.noise(t), f"{self.name} {t + 1}")))
            state = self.model.m_step(before, pooled(releases))
        return state, pooled(releases)


class _Search(Generic[State]):
    """EM as it is, which ends where it has got to."""

    def step(self, t: int, before: State, found: State) -> State:
        return found

    def end(self, state: State) -> State:
        return state


def pooled(releases: Sequence[Release[Any]]) -> Release[Any]:
    """The mean of releases of the same numbers, with less noise; it answers the last query."""
    last, n = releases[-1], len(releases)

    def mean(*leaves: Array) -> Array:
        return np.asarray(np.mean(leaves, axis=0))

    def spread(*leaves: Array) -> Array:
        return np.asarray(np.sqrt(np.mean(np.square(leaves), axis=0) / n))

    statistics = map_leaves(mean, *(release.statistics for release in releases))
    deviation = map_leaves(spread, *(release.deviation for release in releases))
    return Release(last.query, statistics, deviation, last.spent)
