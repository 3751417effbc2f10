"""What a party puts into a sum, and the release that the server reads out of the total.

Private sums leave a party as they leave a central fit: rounded once onto the release's lattice,
with noise (:func:`privem.noise.discrete.encode`), as integers modulo 2^64. Exact sums are doubles,
or integers on a grid fixed by public bounds. What rounding and noise per party cost:
``docs/proofs/federation.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Block, Query, Release, Scratch, Spent
from ..data import LocalSource
from ..linalg import Array, leaves, ravel, unravel
from ..noise.discrete import encode, lattice, pieces, released
from ..noise.sampler import Entropy
from .agreement import Agreement
from .errors import FederationError, Unanswerable
from .wire.messages import Question


def on_grid(question: Question, agreement: Agreement) -> bool:
    """Whether integers are added, rather than doubles."""
    bounded = agreement.low is not None and agreement.rows is not None
    return agreement.kind.adds_integers(bool(question.prices), bounded)


def grid_of(question: Question, agreement: Agreement) -> tuple[Array, Array]:
    """Largest total and lattice step (a power of two) of each number of an exact sum.

    Each record adds at most ``query.largest(low, high)``. A party's own sum is at most the largest
    total, so the sum over P parties is at most P times that. The step leaves room for it, before
    each party's rounding adds half a step: a total that is too large is noticed, and never wraps.
    """
    if agreement.low is None or agreement.high is None or agreement.rows is None:
        raise Unanswerable(
            f"protection={agreement.protection!r} adds integers: an exact fit needs the public "
            "bounds= and rows= of the federation, or sums could wrap unnoticed; give both, or "
            "fit with epsilon"
        )
    query, parties = question.query, len(agreement.members)
    if not hasattr(query, "largest"):
        raise TypeError(f"exact sums of {type(query).__name__} have no public bound")
    with np.errstate(over="ignore"):
        each = query.largest(np.asarray(agreement.low), np.asarray(agreement.high))
        most = agreement.rows * each * (1 + 2.0**-20)
    if not np.isfinite(most).all():
        raise ValueError("sums under these bounds overflow double precision; rescale the data")
    bits = agreement.kind.exact_bits(parties) - (parties - 1).bit_length()
    return most, np.ldexp(1.0, np.frexp(np.maximum(most, 1e-300))[1] - bits)


def answer(
    question: Question,
    source: LocalSource,
    agreement: Agreement,
    noise: Callable[[NDArray[np.int64]], Entropy],
) -> NDArray[Any]:
    """A party's numbers: uint64 (integers modulo 2^64) or float64.

    ``noise`` gives the entropy of the noise on a sum, from the sum in whole lattice steps. The
    source's ``key`` is what its records draw their cells from: secret, and the same throughout a
    run.
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
    parts = pieces(question.query, question.noise.neighbours, question.prices, sums.size)
    entropy = noise(np.concatenate([lattice(sums[where], spent) for where, spent in parts]))
    return np.concatenate([encode(sums[where], spent, entropy, share) for where, spent in parts])


def empty(query: Query[Any], features: int) -> Any:
    """The statistic of no rows: its type and shapes."""
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
    """The release of an opened sum over so many parties."""
    like = empty(question.query, features)
    if question.prices:
        steps = numbers.view(np.int64).astype(np.float64)
        parts = pieces(question.query, question.noise.neighbours, question.prices, steps.size)
        noisy = [steps[where] * spent.grid for where, spent in parts]
        spread = [noise_of(spent, agreement.share, parties) for _, spent in parts]
        return released(question.query, like, noisy, parts, spread)
    if numbers.dtype == np.uint64:
        most, grid = grid_of(question, agreement)
        numbers = numbers.view(np.int64) * grid
        if (np.abs(numbers) > most + parties * grid).any():
            raise FederationError(
                f"the parties' rows together exceed rows={agreement.rows:g} within the bounds "
                "that the federation agreed on; rows= is about all parties together"
            )
    if not np.isfinite(numbers).all():
        raise FederationError("the parties' sums are too large to add")
    return Release(question.query, unravel(like, numbers))


def noise_of(spent: Spent, share: int, parties: int) -> float:
    """Standard deviation of a number: every party's noise, and its rounding on top.

    A party's rounding moves a number by half a step at most; plans that bound the number of records
    from a noisy count rely on the deviation covering it (``docs/proofs/federation.md``, section 3).
    """
    one = float(-(-(spent.steps**2) // share)) if spent.kind == "gaussian" else 2.0 * spent.steps**2
    return spent.grid * (math.sqrt(parties * one) + parties / 2)


def check_possible(question: Question, agreement: Agreement) -> None:
    """Refuse what the agreement or its protection cannot do, before anybody is asked."""
    if question.prices:
        parties = len(agreement.members)
        agreement.kind.check_private(question.name, question.prices, question.noise, parties)
    elif agreement.no_exact:
        raise ValueError(agreement.no_exact)
    elif on_grid(question, agreement):
        grid_of(question, agreement)
