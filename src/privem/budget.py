"""The budget of a private fit: its terms, the parts of a plan, and how it is shared out over them.

:class:`Terms` are the checked keywords: epsilon, delta and all that goes with them. A plan lists
its own releases as :class:`Part` objects. :meth:`Terms.allowance` calibrates the noise of all parts
together before any data is touched, and :meth:`Terms.meter` gives the meter that prices every stage
again before it runs.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from .accounting import (
    ACCOUNTANTS,
    Event,
    Failure,
    Gaussian,
    Laplace,
    NotValid,
    calibrate,
    compose,
)
from .accounting.events import Composed
from .blocks.histograms import MOST_ROWS
from .core import Release, Stage
from .meter import Meter
from .noise.discrete import Discrete, NoSuchNoise, too_fine
from .noise.sampler import Entropy, os_entropy
from .parameters import check_float, check_int, check_option, check_sizes

Result = TypeVar("Result", covariant=True)

# Every release uses at least this many lattice steps per sigma; the event is priced with it.
_STEPS = 2**24
_HAIR = 1 - 1e-9
# Accountants under which only the sum of 1/multiplier^2 matters, so that a plan may choose its
# number of iterations after the first release (docs/proofs/release.md, section 9): with Gaussian
# noise alone, and with Laplace noise too, where "auto" may price by the sum of epsilons instead.
_ADDITIVE = ("auto", "gdp", "zcdp", "zcdp-loose", "rdp", "pld", "moments")
_ADDITIVE_LAPLACE = ("zcdp", "zcdp-loose")
# Accountants that know what delta = 0 costs.
_PURE_ACCOUNTANTS = ("auto", "linear", "linear-classical")
WHERE_PURE = (
    "delta=0 (pure differential privacy) works with KMeans (mechanism='dplloyd' or 'll'), "
    "GaussianMixture (mechanism='laplace') and private_mean, with bounds= (private_mean: tau=) and "
    "either neighbours='replace-one' or max_rows=, a public limit on the number of records"
)
# The part of delta that covers the bound on the number of records failing.
_FAILURE = 1e-3
# A part of a smaller number may be zero, and its logarithm infinite.
_SMALL = 1e-300


@dataclass(frozen=True)
class Part:
    """Some releases of a plan.

    Parameters
    ----------
    name : str
    share : float
        Of the whole budget; shares sum to one. (Of mu^2 or rho: what Gaussian noise adds up in.)
    releases : sequence of (kind, dimension)
        The releases among which the share is divided evenly.
    failure : float
        What they add to delta: the probability that their noise hides nothing, as that of a
        threshold (:mod:`privem.blocks.thresholds`).
    """

    name: str
    share: float
    releases: Sequence[tuple[str, int]]
    failure: float = 0.0


@dataclass(frozen=True)
class Allowance:
    """How much noise each part needs so that all of them together cost epsilon at delta."""

    parts: tuple[Part, ...]
    base: float
    neighbours: str
    failure: float = 0.0
    entropy: Entropy = os_entropy
    adaptive: bool = False
    """Whether shares and iterations may be chosen after the first release."""
    rounds: int = 1
    """On people's own devices: over how many rounds they are spread, answering in one each."""

    @classmethod
    def plan(
        cls,
        parts: Sequence[Part],
        epsilon: float,
        delta: float,
        accountant: str,
        neighbours: str,
        failure: float = 0.0,
        entropy: Entropy = os_entropy,
        adaptive: bool = False,
    ) -> Allowance:
        """Calibrate the noise of all parts at once."""

        def event(base: float) -> Event:
            return _whole(parts, base, failure)

        # A hair less than the budget: sharing it out anew rounds, and the meter forgives nothing.
        base = calibrate(event, epsilon * _HAIR, delta, accountant)
        return cls(tuple(parts), base, neighbours, failure, entropy, adaptive)

    def event(self) -> Event:
        """What all parts cost together."""
        return _whole(self.parts, self.base, self.failure)

    def multiplier(self, name: str, releases: float | None = None) -> float:
        """Noise multiplier of one release of a part.

        ``releases`` divides the part's share anew; only where the accountant adds up 1/multiplier^2
        does that cost the same, and the meter checks that it does.
        """
        part = next(part for part in self.parts if part.name == name)
        count = len(part.releases) if releases is None else releases
        return self.base * math.sqrt(count / part.share)

    def reshared(self, parts: Sequence[Part]) -> Allowance:
        """The same noise in all, with ``parts`` in place of their namesakes.

        Together they have the share that these had: other parts may be spent already. Costs the
        same only where the accountant adds up 1/multiplier^2, and the meter checks that it does.
        """
        names = {part.name for part in parts}
        before = sum(part.share for part in self.parts if part.name in names)
        if abs(sum(part.share for part in parts) - before) > 1e-12:
            raise ValueError("shares may only move among the parts that are given")
        others = [part for part in self.parts if part.name not in names]
        return replace(self, parts=(*others, *parts))

    def merged(self, into: str, *names: str) -> Allowance:
        """The same noise in all, with the shares of some parts, not yet spent, given to another.

        Costs the same only where the accountant adds up 1/multiplier^2, and the meter checks that
        it does.
        """
        more = sum(part.share for part in self.parts if part.name in names)
        parts = [
            replace(part, share=part.share + more) if part.name == into else part
            for part in self.parts
            if part.name not in names
        ]
        return replace(self, parts=tuple(parts))

    def noise(self, name: str, rows: float, releases: float | None = None) -> Discrete:
        """The noise of one release of a part."""
        return Discrete(self.multiplier(name, releases), self.neighbours, rows, self.entropy)


def _whole(parts: Sequence[Part], base: float, failure: float) -> Event:
    found = [_event(part, base) for part in parts]
    return compose(*found, Failure(failure)) if failure else compose(*found)


def _event(part: Part, base: float) -> Event:
    multiplier = base * math.sqrt(len(part.releases) / part.share)
    counts: dict[tuple[str, int], int] = {}
    for release in part.releases:
        counts[release] = counts.get(release, 0) + 1
    noise: list[tuple[Event, int]] = [
        (
            Gaussian(multiplier, dimension, _STEPS)
            if kind == "gaussian"
            else Laplace(multiplier, dimension),
            count,
        )
        for (kind, dimension), count in counts.items()
    ]
    return Composed((*noise, (Failure(part.failure), 1)) if part.failure else tuple(noise))


@dataclass(frozen=True)
class Terms:
    """Epsilon, delta and all that goes with them, checked.

    ``recipe`` is the mechanism by name, ``"auto"`` resolved to the model's first; ``noise`` is the
    kind of noise it uses: ``"gaussian"``, ``"laplace"`` or ``"mixed"``.

    Examples
    --------
    >>> Terms.check(1.0, 1e-6).neighbours
    'add-remove'
    """

    epsilon: float
    delta: float
    accountant: str
    neighbours: str
    mechanism: str
    recipe: str
    noise: str
    max_weight: float
    max_rows: int | None

    @classmethod
    def check(
        cls,
        epsilon: Any,
        delta: Any,
        accountant: Any = "auto",
        neighbours: Any = "add-remove",
        mechanism: Any = "auto",
        mechanisms: Mapping[str, str] | None = None,
        max_weight: Any = 1.0,
        max_rows: Any = None,
    ) -> Terms:
        """Check all of them; raises ValueError or TypeError that says what to change.

        ``mechanisms``: the names a model knows, and the kind of noise of each.
        """
        known = mechanisms or {}
        epsilon = check_float("epsilon", epsilon, 0.0, strict=True)
        if epsilon < _SMALL:
            raise ValueError(f"epsilon must be at least {_SMALL:g}, got {epsilon}")
        delta = check_float("delta", delta, 0.0)
        if delta >= 1:
            raise ValueError(f"delta must be below 1, got {delta}; 1e-6 is a usual choice")
        if 0 < delta < _SMALL:
            raise ValueError(f"delta must be 0 or at least {_SMALL:g}, got {delta}")
        check_option("mechanism", mechanism, ("auto", *known))
        check_option("accountant", accountant, tuple(ACCOUNTANTS))
        check_option("neighbours", neighbours, ("add-remove", "replace-one"))
        max_weight = check_float("max_weight", max_weight, 0.0, strict=True)
        check_sizes("max_weight", max_weight)
        if max_rows is not None and check_int("max_rows", max_rows, 1) > MOST_ROWS:
            raise ValueError(f"max_rows must be at most 2**36, got {max_rows}")
        if delta == 0:
            mechanism = _pure(mechanism, known, accountant)
            if neighbours == "add-remove" and max_rows is None:
                raise ValueError(f"delta=0 needs max_rows here: {WHERE_PURE}")
        recipe = next(iter(known), "auto") if mechanism == "auto" else mechanism
        noise = known.get(recipe, "gaussian")
        return cls(
            epsilon, delta, accountant, neighbours, mechanism, recipe, noise, max_weight, max_rows
        )

    @property
    def adaptive(self) -> bool:
        """Whether shares and iterations may be chosen after the count."""
        return self.accountant in (_ADDITIVE if self.noise == "gaussian" else _ADDITIVE_LAPLACE)

    @property
    def failure(self) -> float:
        """What of delta pays for the record count's upper bound."""
        return failure_of(self.delta) if self.max_rows is None else 0.0

    def allowance(self, parts: Sequence[Part], counted: bool) -> Allowance:
        """Share the budget out; ``counted``: the number of records is released, not public."""
        failure = self.failure if counted else 0.0
        try:
            allowance = Allowance.plan(
                parts,
                self.epsilon,
                self.delta,
                self.accountant,
                self.neighbours,
                failure,
                adaptive=self.adaptive,
            )
        except NotValid as problem:
            raise NotValid(
                f"accountant={self.accountant!r} does not fit mechanism={self.mechanism!r}: "
                f"{problem}"
            ) from None
        self._refuse_many_rows(allowance)
        return allowance

    def _refuse_many_rows(self, allowance: Allowance) -> None:
        """A limit on the number of rows at which some later release would have to be refused."""
        limit = self.max_rows
        for part in allowance.parts if limit is not None else ():
            # A plan may choose to make one release of a part.
            least = allowance.multiplier(part.name, 1)
            if any(too_fine(least, *release, float(limit or 0)) for release in part.releases):
                raise NoSuchNoise(
                    f"max_rows={limit} is too large for epsilon={self.epsilon:g}: so little noise "
                    "cannot be added exactly to a sum over so many records. Use a smaller one of "
                    "either"
                )

    def meter(self, counted: bool) -> Meter:
        """A meter for the budget."""
        failure = self.failure if counted else 0.0
        return Meter(self.epsilon, self.delta, self.accountant, failure)


def _pure(mechanism: str, mechanisms: Mapping[str, str], accountant: str) -> str:
    """The mechanism of a fit with delta = 0, ``"auto"`` resolved; refuses what cannot be pure."""
    pure = [name for name, noise in mechanisms.items() if noise == "laplace"]
    if mechanism == "auto" and pure:
        mechanism = pure[-1]
    if mechanism not in pure:
        raise ValueError(f"Gaussian noise needs a delta above 0; {WHERE_PURE}")
    if accountant not in _PURE_ACCOUNTANTS:
        raise ValueError(f"accountant={accountant!r} needs a delta above 0; 'linear' does not")
    return mechanism


def failure_of(delta: float) -> float:
    """What of a delta pays for the record count's upper bound."""
    return delta * _FAILURE


class PrivatePlan(Protocol[Result]):
    """A private fit: the parts it spends, and its stages once it is told how much noise they need.

    ``preamble`` counts the records and finds their region (:mod:`privem.ground`).
    """

    @property
    def preamble(self) -> Any:
        """What the fit does first."""

    def parts(self) -> list[Part]:
        """All releases, with their shares of the budget."""

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], Result]:
        """Generate the stages."""


class Iterated:
    """Mixin of private plans that iterate: ``n_iter`` times, or ``usual``, at most ``max_iter``."""

    usual: ClassVar[int] = 10
    n_iter: int | None
    max_iter: int

    @property
    def planned(self) -> int:
        """Iterations where their number may not depend on the count."""
        return self.n_iter or min(self.usual, self.max_iter)


@dataclass(frozen=True)
class Funded(Generic[Result]):
    """A private plan with its allowance: a plan like any other."""

    plan: PrivatePlan[Result]
    allowance: Allowance

    def stages(self) -> Generator[Stage, Release[Any], Result]:
        """Generate the stages."""
        return self.plan.stages(self.allowance)
