"""Any private plan, carried out on people's own devices (local privacy).

The plan is asked for its stages as ever. Each becomes a round of its own: one in so many people,
drawn at random, answer it (:class:`~privem.blocks.personal.Personal`), each with noise of their
own, and spend all of their budget on that one message. The plan is handed what the sum over
everyone would be, the cell's times the number of rounds, with the noise that is on it; so it need
not know who added the noise.

Everyone sends once, whatever the plan does: a round has a cell, and a cell one round.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..budget import Allowance, Part
from ..core import Plan, Release, Stage
from ..noise.discrete import Discrete
from ..tree import map_leaves
from .cells import Cell
from .personal import Personal

__all__ = ["OnDevices", "Rounds"]

Result = TypeVar("Result")


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
        return Allowance(parts, base, "replace-one", 0.0, self.message.entropy)

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

    def stages(self) -> Generator[Stage, Release[Any], Result]:
        """Generate the stages."""
        inner = self.plan.stages()
        try:
            stage = next(inner)
            for index in range(self.rounds):
                query = Personal(stage.query, self.n_features, Cell(index, self.rounds))
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
