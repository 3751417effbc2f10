"""Checks of noise: every number has its own, of the size and the shape that were charged.

They count signs and sizes. Under the exact noise both are fair coins, so their distribution is
binomial whatever the scale, and a false-alarm rate can be stated.
"""

from __future__ import annotations

import math
import multiprocessing
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, poisson

from ..core import Group, Noise, Stage
from ..linalg import Array, map_leaves, ravel
from .fits import Transcript
from .neighbours import Dataset
from .releases import Layout, exact_sum, random_sum
from .report import Finding

# Numbers of one release whose pairs are compared.
_MOST = 64
# The fair coin of sizes is fair up to the lattice: a median lies within a step of 2^-24.
_COIN = 1e-6


def groups_of(stage: Stage) -> list[Group]:
    """The groups of numbers of a stage's query."""
    query: Any = stage.query
    return list(query.groups(getattr(stage.noise, "neighbours", "add-remove")))


def _limit(repeats: int, alpha: float, tests: int) -> int:
    """A fair coin exceeds this many heads in ``repeats`` w.p. <= alpha / tests, either way."""
    return int(binom.isf(alpha / (2 * max(tests, 1)), repeats, 0.5 + _COIN))


def check_noise(
    query: Any,
    noise: Noise,
    data: Any,
    repeats: int = 200,
    alpha: float = 1e-6,
    name: str = "release",
) -> Finding:
    """Repeat a release on the same data and on none, and look at each number's noise.

    Too small, one-sided, missing, the same in two numbers, or the same twice in a row: each is a
    count that a fair coin would not give.

    Examples
    --------
    >>> from privem.blocks.histograms import CountQuery
    >>> from privem.noise.discrete import Discrete
    >>> noise = Discrete(1.0, "add-remove", 100.0)
    >>> check_noise(CountQuery(), noise, np.zeros((5, 1))).passed
    True
    """
    total = exact_sum(query, data)
    wrong: list[str] = []
    totals = {"": total, " where nothing is": map_leaves(np.zeros_like, total)}
    for where, sums in totals.items():
        exact = ravel(sums)
        at = Layout(query, noise, noise.price(query), exact.size)
        median = at.scale * np.where(at.laplace > 0, math.log(2.0), 0.6744897501960817)
        centre = np.rint(exact / at.grid) * at.grid
        drawn = np.stack([ravel(noise.release(query, sums).statistics) for _ in range(repeats)])
        found = _faults(drawn - centre, median, repeats, alpha / len(totals))
        wrong += [fault + where for fault in found]
    good = f"{exact.size} numbers, each with noise of its own in {repeats} repeats"
    return Finding(f"noise of {name}", not wrong, "; ".join(wrong) or good, {"repeats": repeats})


def _faults(noise: Array, median: Array, repeats: int, alpha: float) -> list[str]:
    size = noise.shape[1]
    few = np.linspace(0, size - 1, min(size, _MOST)).astype(int)
    # Sizes, signs, signs against the last repeat, and signs of pairs of numbers.
    tests = 3 * size + len(few) ** 2
    limit = _limit(repeats, alpha, tests)
    signs = np.sign(noise)
    small = np.count_nonzero(np.abs(noise) < median, axis=0)
    positive = np.count_nonzero(signs > 0, axis=0)
    negative = np.count_nonzero(signs < 0, axis=0)
    # Repeats in disjoint pairs, so that comparisons are independent.
    half = repeats // 2
    again = np.count_nonzero(signs[0 : 2 * half : 2] == signs[1 : 2 * half : 2], axis=0)
    shared = signs[:, few].T @ signs[:, few]
    agree = (repeats + shared) / 2
    np.fill_diagonal(agree, repeats / 2)
    faults = {
        "too little noise": small > limit,
        "too much noise": small < repeats - limit,
        "one-sided noise": np.maximum(positive, negative) > limit,
        "the same noise again": again > _limit(half, alpha, tests),
        "the same noise in two numbers": np.maximum(agree, repeats - agree) > limit,
    }
    return [f"{what} ({_some(bad)})" for what, bad in faults.items() if bad.any()]


def _some(bad: NDArray[np.bool_]) -> str:
    where = [tuple(int(i) for i in at) for at in np.argwhere(bad)[:3]]
    found = ", ".join("-".join(map(str, at)) for at in where)
    return f"number {found}{', ...' if np.count_nonzero(bad) > 3 else ''}"


def check_residuals(
    transcript: Transcript, data: Any, alpha: float = 1e-6, name: str = "noise of the fit itself"
) -> Finding:
    """Take the exact sums off a fit's releases: what is left must be noise, never twice the same.

    A residual of exactly zero has probability of about 2^-25, two groups with the same residuals
    still less, and one far beyond its deviation less again: there the fit did not sum what the
    auditor summed, such as rows that should have been weighted.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import KMeans
    >>> from privem.audit.fits import watched_fit
    >>> data = Dataset.of(np.linspace(-1, 1, 40)[:, None])
    >>> model, transcript = watched_fit(KMeans(2, bounds=(-1, 1), n_iter=2), data)
    >>> check_residuals(transcript, data).passed
    True
    """
    data = Dataset.of(data)
    zeros, numbers, wrong = 0, 0, []
    seen: dict[tuple[float, float], str] = {}
    for stage, release in transcript.entries:
        query: Any = stage.query
        if random_sum(query, data):
            continue
        left = ravel(release.statistics) - ravel(exact_sum(query, data))
        for group, spent in zip(groups_of(stage), release.spent, strict=False):
            where, noise = f"{stage.name} / {group.name}", left[group.where]
            steps = np.rint(noise / spent.grid)
            zeros += int(np.count_nonzero(np.abs(noise) < spent.grid))
            numbers += steps.size
            # Beyond 12 deviations: 1e-32 for a Gaussian; beyond 60 scales: e^-60 for a Laplace.
            if not np.all(np.abs(steps) < (60 if spent.kind == "laplace" else 12) * spent.steps):
                wrong.append(f"{where} is not the sum of these data plus noise")
            for key in zip(steps[::2], steps[1::2], strict=False):
                if key in seen:
                    wrong.append(f"{where} has the noise of {seen[key]}")
                seen[key] = where
    # P(|noise| < a step) < 3 * 0.4 / 2^24 for a Gaussian, 3 * 0.5 / 2^24 for a Laplace.
    if zeros > poisson.isf(alpha / 2, 1.5 * numbers * 2.0**-24):
        wrong.append(f"{zeros} of {numbers} numbers have no noise")
    good = f"{numbers} numbers, no two with the same noise, none without"
    return Finding(name, not wrong, "; ".join(wrong[:3]) or good, {"numbers": numbers})


def check_fork(query: Any, noise: Noise, data: Any, name: str = "noise across fork") -> Finding:
    """A forked child must not draw the noise that its parent draws.

    Examples
    --------
    >>> import numpy as np
    >>> from privem.blocks.histograms import CountQuery
    >>> from privem.noise.discrete import Discrete
    >>> check_fork(CountQuery(), Discrete(1.0, "add-remove", 100.0), np.zeros((5, 1))).passed
    True
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        return Finding(name, True, "this system has no fork")
    total = exact_sum(query, data)
    # Once before: a buffer that is filled now is what both would share.
    noise.release(query, total)
    context = multiprocessing.get_context("fork")
    pipe, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(_several(query, noise, total)))
    with warnings.catch_warnings():
        # Newer Pythons warn of forking with threads about; the child only draws and leaves.
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    child.join()
    mine = _several(query, noise, total)
    if not pipe.poll():
        return Finding(name, False, "the child drew nothing")
    theirs = pipe.recv()
    shared = np.count_nonzero(mine == theirs)
    detail = f"{shared} of {mine.size} numbers alike in parent and child"
    # Equal by chance: 2^-25 each; two of sixteen, once in 10^13.
    return Finding(name, bool(shared < 2), detail)


def _several(query: Any, noise: Noise, total: Any, numbers: int = 16) -> Array:
    """A few released numbers, small enough for a pipe."""
    draws = np.empty(0)
    while len(draws) < numbers:
        draws = np.append(draws, ravel(noise.release(query, total).statistics)[:numbers])
    return draws[:numbers]
