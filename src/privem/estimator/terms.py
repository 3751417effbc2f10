"""The keywords private fits share, checked and turned into a plan's terms beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..accounting import ACCOUNTANTS, NotValid
from ..blocks.count import MOST_ROWS
from ..blocks.preamble import Preamble
from ..blocks.region import Region
from ..budget import Allowance, Part
from ..data.table import People
from ..meter import Meter
from ..models.gaussian_mixture.query import RECIPES
from ..noise.discrete import NoSuchNoise, too_fine
from ..statement import Statement
from .advice import advise
from .limits import region_of
from .parameters import check_float, check_int, check_option, check_sizes

__all__ = ["ESTIMATED", "Terms", "failure_of", "forget_private", "say_region"]

# Accountants under which only the sum of 1/multiplier^2 matters, so that a plan may choose its
# number of iterations after the first release (docs/proofs/release.md, section 9): with Gaussian
# noise alone, and with Laplace noise too, where "auto" may price by the sum of epsilons instead.
_ADDITIVE = ("auto", "gdp", "zcdp", "zcdp-loose", "rdp", "pld", "moments")
_ADDITIVE_LAPLACE = ("zcdp", "zcdp-loose")
_LAPLACE = ("llg", "laplace", "ll", "dplloyd")
# Mechanisms without Gaussian noise, and accountants that know what delta = 0 costs.
_PURE = ("laplace", "ll", "dplloyd")
_PURE_ACCOUNTANTS = ("auto", "linear", "linear-classical")
_WHERE_PURE = (
    "delta=0 (pure differential privacy) works with KMeans (mechanism='dplloyd' or 'll'), "
    "GaussianMixture (mechanism='laplace') and private_mean, with bounds= (private_mean: tau=) and "
    "either neighbours='replace-one' or max_rows=, a public limit on the number of records"
)
# What a statement says of bounds that nobody gave.
ESTIMATED = "estimated from noisy histograms, paid for"
# The part of delta that covers the bound on the number of records failing.
_FAILURE = 1e-3
# Whoever publishes a few records at random keeps every promise with a delta above this.
_LARGE_DELTA = 1e-2
# A part of a smaller number may be zero, and its logarithm infinite.
_SMALL = 1e-300


@dataclass(frozen=True)
class Terms:
    """Epsilon, delta and all that goes with them, checked.

    Examples
    --------
    >>> Terms.check(1.0, 1e-6, None, "auto", "auto", "add-remove", 1.0, n_features=2).recipe
    'whitened'
    """

    epsilon: float
    delta: float
    region: Region | None
    mechanism: str
    accountant: str
    neighbours: str
    max_weight: float
    max_rows: int | None = None

    @classmethod
    def check(
        cls,
        epsilon: Any,
        delta: Any,
        bounds: Any,
        mechanism: Any,
        accountant: Any,
        neighbours: Any,
        max_weight: Any,
        n_features: int | None,
        isotropic: bool = False,
        mechanisms: tuple[str, ...] = ("auto", *RECIPES),
        max_rows: Any = None,
    ) -> Terms:
        """Check all of them; raises ValueError or TypeError that says what to change.

        ``n_features=None`` checks what can be checked before there are data, which is where every
        fit begins: what is only doubtful is said there, and so once.
        """
        epsilon = check_float("epsilon", epsilon, 0.0, strict=True)
        if epsilon < _SMALL:
            raise ValueError(f"epsilon must be at least {_SMALL:g}, got {epsilon}")
        delta = check_float("delta", delta, 0.0)
        if delta >= 1:
            raise ValueError(f"delta must be below 1, got {delta}; 1e-6 is a usual choice")
        if 0 < delta < _SMALL:
            raise ValueError(f"delta must be 0 or at least {_SMALL:g}, got {delta}")
        if delta > _LARGE_DELTA and n_features is None:
            advise(
                f"delta={delta:g} is large: the promise may fail altogether with that probability; "
                "below one over the number of records is usual",
            )
        check_option("mechanism", mechanism, mechanisms)
        check_option("accountant", accountant, tuple(ACCOUNTANTS))
        check_option("neighbours", neighbours, ("add-remove", "replace-one"))
        max_weight = check_float("max_weight", max_weight, 0.0, strict=True)
        check_sizes("max_weight", max_weight)
        if max_rows is not None and check_int("max_rows", max_rows, 1) > MOST_ROWS:
            raise ValueError(f"max_rows must be at most 2**36, got {max_rows}")
        if delta == 0:
            mechanism = _pure(mechanism, mechanisms, accountant)
            if neighbours == "add-remove" and max_rows is None:
                raise ValueError(f"delta=0 needs max_rows here: {_WHERE_PURE}")
        region = region_of(bounds, n_features, isotropic)
        return cls(epsilon, delta, region, mechanism, accountant, neighbours, max_weight, max_rows)

    @property
    def recipe(self) -> str:
        """The mechanism by name, ``"auto"`` resolved."""
        return "whitened" if self.mechanism == "auto" else self.mechanism

    @property
    def adaptive(self) -> bool:
        """Whether shares and iterations may be chosen after the count."""
        return self.accountant in (_ADDITIVE_LAPLACE if self.recipe in _LAPLACE else _ADDITIVE)

    @property
    def failure(self) -> float:
        """What of delta pays for the record count's upper bound."""
        return failure_of(self.delta) if self.max_rows is None else 0.0

    def preamble(self, people: People, d: int, isotropic: bool = False) -> Preamble:
        """The first stages; what nobody weighs counts one, whatever the cap on weights."""
        cap = self.max_weight if people.weighted else 1.0
        count, pure = people.public_count(self.neighbours), self.delta == 0
        if pure and self.region is None:
            raise ValueError(f"delta=0 needs bounds: {_WHERE_PURE}")
        if pure and count is None and self.max_rows is None:
            raise ValueError(
                "delta=0 needs max_rows here: records with weights, and rows that are streamed, "
                f"have no public number. {_WHERE_PURE}"
            )
        limit = None if self.max_rows is None else float(self.max_rows)
        return Preamble(d, count, self.region, isotropic, cap, limit, pure)

    def allowance(self, parts: list[Part], counted: bool) -> Allowance:
        """Share the budget out."""
        failure = self.failure if counted else 0.0
        try:
            allowance = Allowance.plan(
                parts, self.epsilon, self.delta, self.accountant, self.neighbours, failure
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

    @property
    def public_limit(self) -> dict[str, str]:
        """What the statement says of a limit on the number of records."""
        return {} if self.max_rows is None else {"number of records at most": f"{self.max_rows}"}

    def statement(
        self,
        meter: Meter,
        unit: str,
        public: dict[str, str],
        names: Sequence[str] | None = None,
    ) -> Statement:
        """The statement of an ended fit; ``names`` of the bounded columns, if they have any."""
        given = {"bounds": say_region(self.region, names)} if self.region is not None else {}
        given |= self.public_limit
        return Statement.of(meter, unit, self.neighbours, {**given, **public})


def _pure(mechanism: str, mechanisms: Sequence[str], accountant: str) -> str:
    """The mechanism of a fit with delta = 0, ``"auto"`` resolved; refuses what cannot be pure."""
    known = [name for name in mechanisms if name in _PURE]
    if mechanism == "auto" and known:
        mechanism = known[-1]
    if mechanism not in _PURE:
        raise ValueError(f"Gaussian noise needs a delta above 0; {_WHERE_PURE}")
    if accountant not in _PURE_ACCOUNTANTS:
        raise ValueError(f"accountant={accountant!r} needs a delta above 0; 'linear' does not")
    return mechanism


def failure_of(delta: float) -> float:
    """What of a delta pays for the record count's upper bound."""
    return delta * _FAILURE


def forget_private(model: Any) -> None:
    """A private fit's statement must not outlive it: an exact fit promises nothing."""
    for name in ("privacy_", "bounds_", "target_bounds_", "structure_"):
        if hasattr(model, name):
            delattr(model, name)


def say_region(region: Region, names: Sequence[str] | None = None) -> str:
    """A region in the words of a statement, its columns by name if they have any.

    Examples
    --------
    >>> box = Region.box(np.array([0, 0.5]), np.array([120, 2.5]))
    >>> say_region(box, ["age", "height"])
    'age [0, 120], height [0.5, 2.5]'
    """
    if region.ball and region.d > 1:
        return f"all records within {region.scale[0]:g} of the origin"
    low, high = region.to_data(-region.limit), region.to_data(region.limit)
    # To and from unit coordinates leaves rounding errors that nobody wants to read.
    low, high = (np.where(np.abs(v) < 1e-9 * region.scale, 0.0, v) for v in (low, high))
    sides = [f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True)]
    if names is not None:
        sides = [f"{name} {side}" for name, side in zip(names, sides, strict=True)]
    return ", ".join(sides)
