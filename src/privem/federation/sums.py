"""What a party puts into a sum, and what the driver reads out of it.

Private: the party's own sum, rounded once onto the release's lattice, plus its noise, as integers
modulo 2^64. Exact: doubles, or integers on a grid fixed by public bounds. Proof of what rounding
per party and noise per party cost: ``docs/proofs/federation.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Block, Query, Release, Scratch, Spent
from ..data import LocalSource
from ..noise.discrete import draw, lattice
from ..noise.entropy import Entropy
from ..tree import Array, leaves, ravel, unravel
from .agreement import Agreement
from .errors import FederationError
from .protections.encrypted.bfv import Whole
from .protections.encrypted.shared_key import largest

__all__ = [
    "Question",
    "Unanswerable",
    "answer",
    "empty",
    "grid_of",
    "noise_of",
    "on_grid",
    "read",
    "refuse_beforehand",
    "sizes",
]


class Unanswerable(ValueError):
    """A party cannot answer, for a reason that may be told."""


@dataclass(frozen=True)
class Question:
    """One stage, as it travels."""

    name: str
    query: Any
    noise: Any
    prices: tuple[Spent, ...]
    """What the driver charged; empty when exact."""


def on_grid(question: Question, agreement: Agreement) -> bool:
    """Whether integers are added, rather than doubles."""
    if question.prices or agreement.kind.masks:
        return True
    # Encrypted doubles take three slots, integers on a grid that bounds allow one.
    bounded = agreement.low is not None and agreement.rows is not None
    return agreement.kind.encrypts and bounded


def grid_of(question: Question, agreement: Agreement) -> tuple[Array, Array]:
    """Largest total and lattice step of each number of an exact sum.

    A party's own sum is at most the largest total, so that of P parties is at most P times that:
    the step leaves room for it, and a total that is too large is seen instead of wrapping.
    """
    if agreement.low is None or agreement.high is None or agreement.rows is None:
        raise Unanswerable(
            f"protection={agreement.protection!r} adds integers: an exact fit needs the public "
            "bounds= and rows= of the federation, or sums could wrap unnoticed; give both, or "
            "fit with epsilon"
        )
    low, high = np.asarray(agreement.low), np.asarray(agreement.high)
    parties = len(agreement.members)
    bits = Whole.of(parties).bits - 3 if agreement.kind.encrypts else 61
    room = (parties - 1).bit_length()
    return _exact_grid(question.query, low, high, agreement.rows, bits - room)


def _exact_grid(query: Any, low: Array, high: Array, rows: float, bits: int) -> tuple[Array, Array]:
    """Largest total and lattice step (a power of two) of each number of an exact sum.

    Each record adds at most ``query.largest(low, high)``, so a total is below 2^bits steps, before
    each party's rounding adds half a step.
    """
    if not hasattr(query, "largest"):
        raise TypeError(f"exact sums of {type(query).__name__} have no public bound")
    with np.errstate(over="ignore"):
        most = rows * query.largest(low, high) * (1 + 2.0**-20)
    if not np.isfinite(most).all():
        raise ValueError("sums under these bounds overflow double precision; rescale the data")
    exponent = np.frexp(np.maximum(most, 1e-300))[1]
    return most, np.ldexp(1.0, exponent - bits)


def answer(
    question: Question,
    source: LocalSource,
    agreement: Agreement,
    noise: Callable[[NDArray[np.int64]], Entropy],
) -> NDArray[Any]:
    """A party's numbers: uint64 (integers modulo 2^64) or float64.

    ``noise`` says where the noise on a sum comes from, given the sum in whole lattice steps.

    The source's ``key`` is what its records draw their cells from: secret, and the same throughout
    a run.
    """
    if not source.key and getattr(question.query, "cell", None) is not None:
        raise Unanswerable("a question about a cell belongs to a run")
    sums = ravel(source.total(question.query, bool(question.prices)))
    if question.prices:
        return _noisy(sums, question, agreement.share, noise).view(np.uint64)
    if not np.isfinite(sums).all():
        raise Unanswerable("the rows hold values that are not finite, or too large to add")
    if not on_grid(question, agreement):
        return sums
    most, grid = grid_of(question, agreement)
    if (np.abs(sums) > most).any():
        raise Unanswerable("the rows exceed the bounds that the federation agreed on")
    return np.rint(sums / grid).astype(np.int64).view(np.uint64)


def _noisy(
    sums: Array,
    question: Question,
    share: int,
    noise: Callable[[NDArray[np.int64]], Entropy],
) -> NDArray[np.int64]:
    groups = question.query.groups(question.noise.neighbours)
    edges = [0, *(group.where.stop for group in groups)]
    if [group.where.start for group in groups] != edges[:-1] or edges[-1] != sums.size:
        raise ValueError("the groups of a query must cut its numbers, in order, into pieces")
    out = np.empty(sums.size, dtype=np.int64)
    for group, spent in zip(groups, question.prices, strict=True):
        out[group.where] = lattice(sums[group.where], spent)
    entropy = noise(out)
    for group, spent in zip(groups, question.prices, strict=True):
        out[group.where] += draw(spent, group.dimension, entropy, share)
    return out


def empty(query: Query[Any], features: int) -> Any:
    """The statistic of no rows: its kind and shapes."""
    return query(Block(np.empty((0, features))), Scratch())


def sizes(query: Any, features: int) -> tuple[tuple[str, int], ...]:
    """Names and sizes of the leaves of a query's statistic."""
    return tuple((name, leaf.size) for name, leaf in leaves(empty(query, features)).items())


def read(
    question: Question,
    agreement: Agreement,
    numbers: NDArray[Any],
    parties: int,
    features: int,
) -> Release[Any]:
    """The release that an opened sum over so many parties is."""
    like = empty(question.query, features)
    if not question.prices:
        exact = numbers
        if numbers.dtype == np.uint64:
            most, grid = grid_of(question, agreement)
            exact = numbers.view(np.int64) * grid
            if (np.abs(exact) > most + parties * grid).any():
                raise FederationError(
                    f"the parties' rows together exceed rows={agreement.rows:g} within the bounds "
                    "that the federation agreed on; rows= is about all parties together"
                )
        if not np.isfinite(exact).all():
            raise FederationError("the parties' sums are too large to add")
        return Release(question.query, unravel(like, exact))
    steps = numbers.view(np.int64).astype(np.float64)
    noisy, deviation = np.empty(steps.size), np.empty(steps.size)
    groups = question.query.groups(question.noise.neighbours)
    for group, spent in zip(groups, question.prices, strict=True):
        noisy[group.where] = steps[group.where] * spent.grid
        deviation[group.where] = noise_of(spent, agreement.share, parties)
    return Release(question.query, unravel(like, noisy), unravel(like, deviation), question.prices)


def noise_of(spent: Spent, share: int, parties: int) -> float:
    """Standard deviation of a number: every party's noise, and its rounding on top.

    A party's rounding moves a number by half a step at most; plans that bound the number of records
    from a noisy count rely on the deviation covering it (``docs/proofs/federation.md``, section 3).
    """
    one = float(-(-(spent.steps**2) // share)) if spent.kind == "gaussian" else 2.0 * spent.steps**2
    return spent.grid * (math.sqrt(parties * one) + parties / 2)


def refuse_beforehand(question: Question, agreement: Agreement) -> None:
    """What cannot work is refused before anybody is asked."""
    if not question.prices and agreement.no_exact:
        raise ValueError(agreement.no_exact)
    if on_grid(question, agreement) and not question.prices:
        grid_of(question, agreement)
    kind = agreement.kind
    if question.prices and not kind.noise:
        raise ValueError(
            f"protection={agreement.protection!r} is paper 001's own, which has no noise: "
            "it is for exact fits; use 'masked' or 'encrypted'"
        )
    if question.prices and kind.encrypts:
        parties = len(agreement.members)
        size = largest(question.prices, question.noise, parties)
        if not size < Whole.of(parties).prime / 4:
            raise ValueError(
                f"{question.name}: sums of {question.noise.rows:.3g} records do not fit the "
                "encryption's plaintext at this epsilon; use protection='masked'"
            )
