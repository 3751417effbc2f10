"""Checks of one fit: replay, lattice, charges, and that every number has its own noise.

The checks of noise count signs and sizes. Under the exact noise both are fair coins, so their
distribution is binomial whatever the scale, and a false-alarm rate can be stated.
"""

from __future__ import annotations

import math
import multiprocessing
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, poisson
from sklearn.base import clone

from ..core import Group, Noise, Release, Stage
from ..data import LocalSource
from ..linalg import Array, map_leaves, ravel
from ..run import Recorded
from .fits import Transcript, watched_fit
from .neighbours import Dataset
from .releases import Layout, exact_sum, random_sum
from .report import AuditReport, Finding

# Numbers of one release whose pairs are compared.
_MOST = 64
# The fair coin of sizes is fair up to the lattice: a median lies within a step of 2^-24.
_COIN = 1e-6


@contextmanager
def _answering(source: Any) -> Iterator[None]:
    """While entered, fits of this thread get their releases from ``source`` instead of from rows.

    Estimators make their own source, so the one way in is the source's class; other threads are
    answered as ever.
    """
    original, owner = LocalSource.release, threading.get_ident()

    def release(self: LocalSource, stage: Stage) -> Release[Any]:
        mine = threading.get_ident() == owner
        answer: Release[Any] = source.release(stage) if mine else original(self, stage)
        return answer

    LocalSource.release = release  # type: ignore[method-assign]
    try:
        yield
    finally:
        LocalSource.release = original  # type: ignore[method-assign]


def swapped(data: Dataset, neighbours: str) -> Dataset:
    """Quite different data of the same form; under add-remove their number differs too."""
    X = 0.11 - 0.37 * np.roll(data.X[::-1], 1, axis=1)
    weight = None if data.weight is None else data.weight[::-1] * 0.5
    if neighbours == "replace-one":
        return Dataset(X, data.groups, weight)
    keep = max(1, (2 * len(X)) // 3)
    groups = None if data.groups is None else data.groups[:keep]
    return Dataset(X[:keep], groups, None if weight is None else weight[:keep])


def check_replay(
    estimator: Any, model: Any, transcript: Transcript, other: Dataset, name: str = "replay"
) -> Finding:
    """Fit other data with the recorded releases: nothing that is public may change.

    Anything else that the fit read (a bound, a start, a weight, the true number of records) shows
    as an attribute or a query that differs.

    Parameters
    ----------
    estimator : estimator
        Unfitted, with an integer ``random_state``.
    model, transcript
        Of a fit of the same estimator.
    other : Dataset
        Anything but the data it was fitted on.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import KMeans
    >>> from privem.audit.fits import watched_fit
    >>> data = Dataset.of(np.linspace(-1, 1, 40)[:, None])
    >>> make = lambda: KMeans(2, bounds=(-1, 1), n_iter=2, random_state=0)
    >>> model, transcript = watched_fit(make(), data)
    >>> check_replay(make(), model, transcript, swapped(data, "add-remove")).passed
    True
    """
    again = clone(estimator)
    try:
        with _answering(Recorded(release for _, release in transcript.entries)):
            again, asked = watched_fit(again, other)
    except Exception as problem:  # whatever goes wrong, the fit depended on more than its releases
        return Finding(name, False, f"replaying failed: {type(problem).__name__}: {problem}")
    before, after = _fitted(model), _fitted(again)
    changed = [key for key in sorted(before | after) if not same(before.get(key), after.get(key))]
    stages = [
        one.name
        for (one, _), (two, _) in zip(transcript.entries, asked.entries, strict=False)
        if not same(_question(one), _question(two))
    ]
    if len(transcript.entries) != len(asked.entries):
        stages.append(f"{len(asked.entries)} stages instead of {len(transcript.entries)}")
    wrong = [f"attributes {', '.join(changed)} changed"] if changed else []
    wrong += [f"questions {', '.join(stages)} changed"] if stages else []
    good = f"{len(before)} attributes, {len(asked.entries)} questions: the same to the bit"
    return Finding(name, not wrong, "; ".join(wrong) or good, {"attributes": sorted(before)})


def _fitted(model: Any) -> dict[str, Any]:
    return {k: v for k, v in vars(model).items() if k.endswith("_") and not k.startswith("_")}


def _question(stage: Stage) -> tuple[Any, ...]:
    noise = {f.name: getattr(stage.noise, f.name) for f in fields(stage.noise)}  # type: ignore[arg-type]
    noise.pop("entropy", None)
    return stage.name, stage.query, noise


def same(one: Any, two: Any) -> bool:
    """Whether two public values are identical to the last bit.

    Examples
    --------
    >>> same((np.zeros(2), "a"), (np.zeros(2), "a")), same(np.zeros(2), -np.zeros(2))
    (True, False)
    """
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        alike = one.shape == two.shape and one.dtype == two.dtype
        if one.dtype.kind == "O":
            return alike and bool(np.all(one == two))
        return alike and bool(one.tobytes() == two.tobytes())
    if is_dataclass(one):
        return all(same(getattr(one, f.name), getattr(two, f.name)) for f in fields(one))
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    return bool(one == two) or (one != one and two != two)


def _groups(stage: Stage) -> list[Group]:
    query: Any = stage.query
    return list(query.groups(getattr(stage.noise, "neighbours", "add-remove")))


def check_lattice(transcript: Transcript, name: str = "lattice") -> Finding:
    """Every released number is an integer multiple of its grid, every one belongs to a group.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import KMeans
    >>> from privem.audit.fits import watched_fit
    >>> data = Dataset.of(np.linspace(-1, 1, 40)[:, None])
    >>> make = lambda: KMeans(2, bounds=(-1, 1), n_iter=2, random_state=0)
    >>> model, transcript = watched_fit(make(), data)
    >>> check_lattice(transcript).passed
    True
    """
    wrong, numbers = [], 0
    for stage, release in transcript.entries:
        x = ravel(release.statistics)
        groups = _groups(stage)
        cover = np.zeros(x.size, dtype=int)
        numbers += x.size
        for group, spent in zip(groups, release.spent, strict=False):
            cover[group.where] += 1
            steps = x[group.where] / spent.grid if spent.grid > 0 else np.full(1, np.nan)
            if not np.array_equal(steps, np.rint(steps)):
                wrong.append(f"{stage.name} / {group.name} is off its grid of {spent.grid:g}")
        if not (cover == 1).all() or len(groups) != len(release.spent):
            wrong.append(
                f"{stage.name}: {int((cover != 1).sum())} numbers are in no group, or in two"
            )
        if release.deviation is None or not (ravel(release.deviation) > 0).all():
            wrong.append(f"{stage.name}: some numbers have no noise by their own account")
    good = f"{numbers} numbers of {len(transcript.entries)} releases are multiples of their grids"
    return Finding(name, not wrong, "; ".join(wrong) or good, {"numbers": numbers})


def check_charged(model: Any, transcript: Transcript, name: str = "charges") -> Finding:
    """What left the data is what the statement lists: each release, at its price, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import KMeans
    >>> from privem.audit.fits import watched_fit
    >>> data = Dataset.of(np.linspace(-1, 1, 40)[:, None])
    >>> make = lambda: KMeans(2, bounds=(-1, 1), n_iter=2, random_state=0)
    >>> model, transcript = watched_fit(make(), data)
    >>> check_charged(model, transcript).passed
    True
    >>> del transcript.entries[0]  # as if something had been charged that never left
    >>> check_charged(model, transcript).passed
    False
    """
    listed = [(record.name, tuple(record.groups)) for record in model.privacy_.releases]
    left = [(stage.name, tuple(release.spent)) for stage, release in transcript.entries]
    both = enumerate(zip_longest(left, listed, fillvalue=("nothing", ())), start=1)
    wrong = [
        f"release {position}: {one[0]} left, {two[0]} was charged"
        for position, (one, two) in both
        if one != two
    ]
    wrong += [
        f"{stage.name}: the price asked before is not the one recorded after"
        for stage, release in transcript.entries
        if tuple(stage.noise.price(stage.query)) != tuple(release.spent)
    ]
    good = f"all {len(left)} releases were charged at their price"
    return Finding(name, not wrong, "; ".join(wrong[:3]) or good, {"released": len(left)})


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
    >>> make = lambda: KMeans(2, bounds=(-1, 1), n_iter=2, random_state=0)
    >>> model, transcript = watched_fit(make(), data)
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
        for group, spent in zip(_groups(stage), release.spent, strict=False):
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


def structure_checks(
    estimator: Any, data: Any, other: Any = None, *, alpha: float = 1e-6, repeats: int = 200
) -> AuditReport:
    """All structural checks of one estimator on one data set.

    Parameters
    ----------
    estimator : estimator
        A private one; it is cloned, not changed.
    data : array or Dataset
        To fit.
    other : array or Dataset, optional
        For the replay; generated by default.
    alpha : float
        A correct estimator fails any of them with at most this probability.
    repeats : int
        How often each release is repeated to look at its noise.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import KMeans
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> report = structure_checks(KMeans(2, epsilon=2.0, bounds=(-1, 1), n_iter=2), X)
    >>> report.passed, [finding.name for finding in report.findings][:3]
    (True, ['lattice', 'charges', 'replay'])
    """
    data = Dataset.of(data)
    estimator = clone(estimator)
    if "random_state" in estimator.get_params():
        # A random start is public, but two fits must draw the same one to be compared.
        estimator.set_params(random_state=0)
    model, transcript = watched_fit(clone(estimator), data)
    elsewhere = swapped(data, estimator.neighbours) if other is None else Dataset.of(other)
    findings = [
        check_lattice(transcript),
        check_charged(model, transcript),
        check_replay(estimator, model, transcript, elsewhere),
        check_residuals(transcript, data, alpha / 2),
    ]
    each = alpha / (2 * max(1, len(transcript.entries)))
    for stage, _ in transcript.entries:
        findings.append(check_noise(stage.query, stage.noise, data, repeats, each, stage.name))
    if transcript.entries:
        first = transcript.entries[0][0]
        findings.append(check_fork(first.query, first.noise, data))
    return AuditReport(type(estimator).__name__, tuple(findings), alpha)
