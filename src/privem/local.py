"""Local differential privacy: each person's own device adds noise; the server only sums.

In a round the server publishes a :class:`~privem.core.Stage`: a query, which is a public frozen
value, and its noise. A device answers with :func:`message`, which depends on that person's record,
the stage and fresh random bytes, and on nothing else. Each person draws one round
(:mod:`privem.data.sampling`), so everyone sends once. The server adds messages up (:class:`Server`)
and goes on as any fit does.

:class:`Crowd` simulates all of it in one process: a source whose rows are people.

Privacy: a message is an integer vector plus exact discrete Gaussian noise calibrated for *any two
records* (``neighbours="replace-one"`` with one record), rounded per person. It is
(epsilon, delta)-differentially private on its own, against everyone, the server included.

Any private plan can be carried out this way (:class:`Rounds`). Each of its stages becomes a round
of its own: one in so many people, drawn at random, answer it, each with noise of their own, and
spend all of their budget on that one message. The plan is handed what the sum over everyone would
be, the cell's times the number of rounds, with the noise that is on it. It does not know who added
the noise. A device computes the stage's own query on a block of its one record (:class:`Personal`).

Examples
--------
>>> import numpy as np
>>> from privem.blocks.bounding import Clip
>>> from privem.blocks.robust_mean import RobustMeanQuery
>>> from privem.noise.discrete import Discrete
>>> query = RobustMeanQuery(np.zeros(2), np.ones(2), Clip(1.0))
>>> stage = Stage(query, Discrete(0.5, "replace-one", 1.0))
>>> server = Server(stage)
>>> for person in ([0.3, 0.1], [9.0, -2.0]):
...     server.add(message(stage, np.array(person)))
>>> server.people, server.release().statistics.total.shape
(2, (2,))
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from .blocks.bounded_sums import Cell
from .budget import Allowance, Part, Terms
from .core import Block, Group, Plan, Release, Rows, Scratch, Stage
from .data.sampling import cell_rows, fresh_key
from .data.sums import contributions
from .linalg import Array, map_leaves, ravel, unravel
from .noise.discrete import Discrete, encode

Result = TypeVar("Result")


# Numbers noised at a time: working memory of some tens of megabytes.
_BATCH = 2**18


def messages(stage: Stage, records: Array) -> NDArray[np.int64]:
    """What several people's devices send, one row each; a row depends on its record alone."""
    noise = _device_noise(stage)
    query: Any = stage.query
    exact = contributions(query, Block(np.asarray(records, dtype=np.float64)), Scratch())
    (spent,) = noise.price(query)  # one group, at the price of one record
    return encode(np.ascontiguousarray(exact.T), spent, noise.entropy)


def message(stage: Stage, record: Array) -> NDArray[np.int64]:
    """What one person's device sends in one round: integers, in steps of the stage's grid."""
    sent: NDArray[np.int64] = messages(stage, np.asarray(record, dtype=np.float64)[None])[0]
    return sent


def _device_noise(stage: Stage) -> Discrete:
    noise = stage.noise
    if not isinstance(noise, Discrete) or noise.neighbours != "replace-one" or noise.rows != 1:
        raise ValueError(
            "a device adds noise for its one record: Discrete(multiplier, 'replace-one', rows=1)"
        )
    return noise


class Server:
    """Adds up messages. It only ever sees these integers, never records."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.people = stage, 0
        self._total: NDArray[np.int64] | None = None

    def add(self, message: NDArray[np.int64]) -> None:
        """Add one message, or several (one per row)."""
        rows = np.atleast_2d(message)
        self.people += len(rows)
        total = rows.sum(axis=0)
        self._total = total if self._total is None else self._total + total

    def release(self) -> Release[Any]:
        """The sum, as a release. Its noise is the sum of all devices' noise."""
        query: Any = self.stage.query
        spent = self.stage.noise.price(query)
        total = np.zeros(query.size, dtype=np.int64) if self._total is None else self._total
        deviation = np.full(query.size, spent[0].deviation * math.sqrt(max(self.people, 1)))
        value = total.astype(np.float64) * spent[0].grid
        return Release(query, query.unravel(value), query.unravel(deviation), spent)


@dataclass(frozen=True)
class Crowd:
    """A source whose rows are people with devices: each answers the rounds of its own cell.

    Memory does not grow with the number of people.

    Parameters
    ----------
    rows : Rows
        One person per row, without weights.
    """

    rows: Rows
    key: bytes = field(default_factory=fresh_key, repr=False, compare=False)

    def release(self, stage: Stage) -> Release[Any]:
        """Sum the messages of everyone whose round it is."""
        query: Any = stage.query
        server, rows = Server(stage), self.rows
        if query.cell is not None:
            rows = cell_rows(rows, self.key, query.cell.index, query.cell.count)
        for block in rows.blocks(max(1, min(query.block_rows, _BATCH // query.size))):
            if block.weight is not None:
                raise ValueError("local privacy has no sample weights: every person sends once")
            if len(block.X):
                server.add(messages(stage, block.X))
        return server.release()


@dataclass(frozen=True)
class Personal:
    """``query``, for the people of a cell, each on a device of their own.

    Sensitivity: any two records are replace-one neighbours in data of one record, so the query's
    own bound for ``"replace-one"``, and its ``rounding(1)``, hold for the message.

    Parameters
    ----------
    query : PrivateQuery
        Of one group of numbers.
    n_features : int
        Columns of a record.
    cell : Cell, optional
        Whose round it is; ``None``: everyone's.
    """

    query: Any
    n_features: int
    cell: Cell | None = None

    @property
    def block_rows(self) -> int:
        """People at a time."""
        return int(self.query.block_rows)

    @property
    def size(self) -> int:
        """How many numbers a message has."""
        return int(self.query.groups("replace-one")[-1].where.stop)

    def contributions(self, block: Block, scratch: Scratch) -> Array:
        """What each record adds, (size, b): the query of it alone, up to its rounding.

        A query that can tell what each record of a block adds is asked once.
        """
        if hasattr(self.query, "contributions") and self.query.cap_weight >= 1:
            return np.asarray(self.query.contributions(block, scratch))
        found = np.empty((self.size, len(block.X)))
        for i in range(len(block.X)):
            found[:, i] = ravel(self.query(Block(block.X[i : i + 1]), scratch))
        return found

    def __call__(self, block: Block, scratch: Scratch) -> Any:
        """The sum over a block, as for any query."""
        return self.query(block, scratch)

    def unravel(self, vector: Array) -> Any:
        """Numbers as the query's statistics."""
        return unravel(self.query(Block(np.empty((0, self.n_features))), Scratch()), vector)

    def groups(self, neighbours: str) -> list[Group]:
        """The query's own."""
        return list(self.query.groups(neighbours))

    def rounding(self, rows: float) -> float:
        """The query's own."""
        return float(self.query.rounding(rows))


@dataclass(frozen=True)
class Rounds:
    """People spread evenly over the releases of a plan, a round each.

    Parameters
    ----------
    parts : sequence of Part
        Of the plan; what counts is how many releases they have.
    message : Allowance
        With the part ``"message"``: what one message may cost (:meth:`message_part`).
    people : float
        How many there are; public.
    """

    parts: Sequence[Part]
    message: Allowance
    people: float

    @classmethod
    def of(cls, parts: Sequence[Part], terms: Terms, people: float) -> Rounds:
        """A round for each release; refuses more rounds than there are people."""
        rounds = cls(parts, terms.allowance([cls.message_part(parts)], counted=False), people)
        if rounds.count > people:
            raise ValueError(
                f"{rounds.count} rounds are more than n_samples={int(people)} people, of whom each "
                "answers one: use more people, or fewer iterations"
            )
        return rounds

    @staticmethod
    def message_part(parts: Sequence[Part]) -> Part:
        """The budget where everyone answers one release: whichever it is, all of it."""
        kinds = {kind for part in parts for kind, _ in part.releases}
        if kinds != {"gaussian"}:
            raise ValueError(f"devices add Gaussian noise, the plan asks for {sorted(kinds)}")
        return Part("message", 1.0, [("gaussian", max(s for p in parts for _, s in p.releases))])

    @property
    def count(self) -> int:
        """How many rounds."""
        return sum(len(part.releases) for part in self.parts)

    def allowance(self) -> Allowance:
        """What a plan needs to know of the noise, as if it were added to sums over everyone.

        n/T people who add noise of deviation m D make m D sqrt(n/T), times T on what is taken for
        the sum over all: a multiplier of m sqrt(n T) for each of T releases.
        """
        parts = tuple(
            Part(part.name, len(part.releases) / self.count, part.releases) for part in self.parts
        )
        base = self.message.multiplier("message") * math.sqrt(self.people)
        entropy = self.message.entropy
        return Allowance(parts, base, "replace-one", 0.0, entropy, rounds=self.count)

    def ask(self, plan: Plan[Result], n_features: int) -> OnDevices[Result]:
        """The plan, asked of people."""
        multiplier = self.message.multiplier("message")
        noise = Discrete(multiplier, "replace-one", 1.0, self.message.entropy)
        return OnDevices(plan, self.count, noise, n_features)


@dataclass(frozen=True)
class OnDevices(Generic[Result]):
    """A plan whose stages are rounds.

    Parameters
    ----------
    plan : Plan
        Has at most ``rounds`` stages.
    rounds : int
    noise : Discrete
        Of one message.
    n_features : int
        Columns of a record.
    """

    plan: Plan[Result]
    rounds: int
    noise: Discrete
    n_features: int

    @property
    def allowance(self) -> Allowance:
        """What a person's one message may cost."""
        part = Part("message", 1.0, [("gaussian", 1)])
        return Allowance((part,), self.noise.multiplier, self.noise.neighbours)

    def stages(self) -> Generator[Stage, Release[Any], Result]:
        """Generate the stages."""
        inner = self.plan.stages()
        try:
            stage = next(inner)
            for index in range(self.rounds):
                cell = Cell(index, self.rounds) if self.rounds > 1 else None
                query = Personal(stage.query, self.n_features, cell)
                release = yield Stage(query, self.noise, stage.name)
                stage = inner.send(self._of_all(release))
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            inner.close()
        raise RuntimeError(f"stage {stage.name!r} comes after the last of {self.rounds} rounds")

    def _of_all(self, release: Release[Any]) -> Release[Any]:
        """What a cell's sum says of the sum over everyone."""
        sums, noise = (
            map_leaves(lambda leaf: leaf * self.rounds, part)
            for part in (release.statistics, release.deviation)
        )
        return Release(release.query.query, sums, noise, release.spent)
