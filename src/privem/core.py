"""The vocabulary of privem: what is secret, what is public, and the one way between them.

EM needs the data only through a *sum over records*. A fit is a plan of releases; each release is
one sum over secret rows, perturbed by its noise (:class:`~privem.noise.exact.Exact` perturbs
nothing), and everything after it is arithmetic on public numbers::

    Plan  --Stage(query, noise)-->  Source  --Release-->  Plan  ...  result

Secret: :class:`Block`, and sums before their noise. They never leave a :class:`Source`.
Public: everything else. A :class:`Plan` sees releases only, so whatever it computes may be printed,
saved or sent. The loop between plan and source is :func:`privem.run.run`, written once.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from .linalg import Array, Scratch, ravel

__all__ = [
    "Array",
    "Block",
    "ExactModel",
    "Group",
    "Model",
    "Noise",
    "Plan",
    "PrivateQuery",
    "Query",
    "Release",
    "Rows",
    "Scratch",
    "Source",
    "Spent",
    "Stage",
]

State = TypeVar("State")
Result = TypeVar("Result", covariant=True)
Statistics = TypeVar("Statistics")
Statistics_co = TypeVar("Statistics_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive rows. Secret."""

    X: Array
    """The records, shape (rows, features); any real dtype and memory order."""
    weight: Array | None = None
    """How much each record counts; ``None`` is one each."""
    start: int = 0
    """Position of the first row in the whole."""


class Query(Protocol[Statistics_co]):
    """What is summed per record. Public: a frozen value that knows the current parameters.

    Calling it on a block gives the block's sum, a frozen dataclass of arrays (see
    :mod:`privem.linalg`). Sums over blocks add up to the sum over their union, however rows are
    split: that is what a source, a cluster or a federation relies on.

    A query that a federation may send to its parties also says which of its fields are sent
    (``travels``), checks the conditions of its own proof (``check(d, private)``, with
    :mod:`privem.blocks.conditions`) and, if it is exact, bounds what one record between public
    bounds adds to each number (``largest(low, high)``).
    """

    @property
    def block_rows(self) -> int:
        """Rows per call at which it runs best."""

    def __call__(self, block: Block, scratch: Scratch) -> Statistics_co:
        """The sum over the block's records."""


@dataclass(frozen=True)
class Group:
    """Numbers that are released together: their place in the raveled statistic and sensitivity.

    ``sensitivity`` is that of the exact sum over records, before rounding of any kind: in L2 for
    ``"gaussian"`` noise, in L1 for ``"laplace"``.
    """

    name: str
    where: slice
    sensitivity: float
    kind: str = "gaussian"

    @property
    def dimension(self) -> int:
        """How many numbers."""
        return int(self.where.stop - self.where.start)


class PrivateQuery(Query[Statistics_co], Protocol[Statistics_co]):
    """A query whose contribution per record is bounded, so that noise can hide it."""

    def groups(self, neighbours: str) -> Sequence[Group]:
        """A partition of the raveled statistic, with sensitivities; derived beside the code."""

    def rounding(self, rows: float) -> float:
        """A bound on the L2 distance of the computed sum from the exact one.

        ``rows`` bounds the number of records, or the sum of their weights if they have any.
        """


@dataclass(frozen=True)
class Spent:
    """What one group of a release cost, as data: enough to price it again years later."""

    name: str
    kind: str
    dimension: int
    sensitivity: float
    slack: float
    grid: float
    steps: int
    cell: int | None = None
    """The cell of a random partition it was about; ``None``: about everyone."""
    failure: float = 0.0
    """The probability, charged to delta, that the noise hides nothing: that of a threshold."""

    @property
    def scale(self) -> float:
        """Sigma of the Gaussian, or scale of the Laplace noise."""
        return self.steps * self.grid

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on each number."""
        return self.scale * (math.sqrt(2.0) if self.kind == "laplace" else 1.0)

    @property
    def multiplier(self) -> float:
        """Noise scale over the sensitivity, widened by all rounding errors; rounded down."""
        unit = math.sqrt(self.dimension) if self.kind == "gaussian" else self.dimension
        return self.scale / (self.sensitivity + self.slack + self.grid * unit) * (1 - 2.0**-48)


@dataclass(frozen=True)
class Release(Generic[Statistics]):
    """What left the source: the sums after their noise, and the query they answer. Public."""

    query: Any
    """The query, which carries the frame (origin, means) the sums were taken about."""
    statistics: Statistics
    deviation: Statistics | None = None
    """Standard deviation of the noise on each number; ``None`` when exact."""
    spent: tuple[Spent, ...] = ()

    @property
    def spread(self) -> float:
        """Standard deviation of the noise on each number, where all are one group.

        It may exceed what :attr:`spent` says, because each party of a federation adds noise.
        """
        return 0.0 if self.deviation is None else float(ravel(self.deviation)[0])


class Noise(Protocol):
    """How a sum becomes a release."""

    @property
    def private(self) -> bool:
        """Whether the release is private."""

    def price(self, query: Any) -> tuple[Spent, ...]:
        """What releasing this query costs. Data-free; raises where it cannot be done.

        Private noise needs a :class:`PrivateQuery`.
        """

    def release(self, query: Any, total: Statistics) -> Release[Statistics]:
        """Perturb a total and make it public."""


@dataclass(frozen=True)
class Stage:
    """A request for one release: a query, its noise, and a name for progress and statements."""

    query: Query[Any]
    noise: Noise
    name: str = "release"
    progress: str = field(default="", compare=False)
    """A public remark for progress reports, such as the lower bound so far."""


class Plan(Protocol[Result]):
    """A fit, as the generator of its stages.

    ``release = yield stage`` hands a stage out and receives its release; the return value is the
    result. Because nothing else comes in, a plan fed from recorded releases gives the same result
    again, bit for bit, with the data gone.
    """

    def stages(self) -> Generator[Stage, Release[Any], Result]:
        """Generate the stages."""


class Model(Protocol[State, Statistics]):
    """A latent-variable model: the E-step as a query, the M-step on its release.

    Exact and private fits have the same shape. A private model's queries are bounded
    (:class:`PrivateQuery`), and its M-step knows the noise from ``release.deviation``.
    """

    def query(self, state: State, round: int = 0) -> Query[Statistics]:
        """The expected statistics under ``state``, as iteration ``round`` asks for them."""

    def m_step(self, state: State, release: Release[Statistics]) -> State:
        """New parameters. Total: any finite release gives valid ones.

        Sums are about what ``release.query`` holds. A private fit that is played again with other
        noise (:class:`privem.run.Tape`) has another ``state``: what its steps are shrunk towards.
        """


class ExactModel(Model[State, Statistics], Protocol):
    """A model whose exact fits climb an objective."""

    def objective(self, state: State, release: Release[Statistics]) -> float:
        """Mean log-likelihood (or log-posterior) of ``state``, from an exact release under it."""


class Rows(Protocol):
    """Rows on this machine, read in blocks as often as asked."""

    @property
    def n_features(self) -> int:
        """How many columns."""

    @property
    def names(self) -> Sequence[str] | None:
        """Column names, if they have any."""

    def blocks(self, rows: int) -> Iterator[Block]:
        """All rows in order, at most ``rows`` at a time."""


class Source(Protocol):
    """Holds rows and answers stages: this process, a cluster, a federation."""

    def release(self, stage: Stage) -> Release[Any]:
        """Sum the stage's query over all records, apply its noise, publish."""
