"""What everywhere.py requires of private fits, as checks of its figures.

Each check yields :class:`Finding` s: what was looked at, by how much it misses the limit (positive:
it fails), and in words where. Everything here is offline and about public data; nothing inside a
fit may look at such a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
from fits import COMPONENTS, DELTA, EPSILONS, Fit, Row
from scipy.optimize import brentq
from scipy.stats import binom, norm
from sets import HEAVY, LARGE, Array, load, sizes

Cells = Mapping[Fit, Mapping[int, Row]]
"""Figures by cell and split."""
Before = Mapping[str, tuple[float, float, float]]
"""Median, its standard error and seconds, by a cell's name."""

KEPT = ("life", "gowalla", "plane")
# Background weights above this say that there are too few records for the model.
_LITTLE = 0.05
# Columns whose outermost octave holds this share are skewed (prices, delays), others heavy-tailed.
_SKEWED = 0.015
_WORST = -1e100


@dataclass(frozen=True)
class Finding:
    """One comparison."""

    where: str
    excess: float
    """By how much the limit is missed; negative: by how much it is kept."""
    said: str


def label(cell: Fit) -> str:
    """A cell's name."""
    budget = "" if cell.epsilon is None else f" eps {cell.epsilon:g}"
    return f"{cell.set} n {cell.n} {cell.bounds} K {cell.k}{budget} {cell.method}"


def columns(name: str) -> int:
    """How many columns a set has."""
    return load(name)[0].shape[1]


def scores(rows: Mapping[int, Row], field: str = "score") -> dict[int, float]:
    """A field by split; what is not a number, or has no limit, is as bad as can be."""
    found = {s: row[field] for s, row in rows.items() if field in row}
    return {s: value if value > _WORST else _WORST for s, value in found.items()}


def median(values: Mapping[int, float]) -> float:
    """The middle one; NaN of none."""
    return float(np.median(list(values.values()))) if values else math.nan


def deviation(values: Array) -> float:
    """Standard error of a median, from the median distance: one wild fit does not widen it."""
    distance = np.abs(values - np.median(values))
    return 1.2533 * 1.4826 * float(np.median(distance)) / math.sqrt(len(values))


def differences(one: Mapping[int, float], other: Mapping[int, float]) -> Array:
    """One minus other, on the splits that both have."""
    return np.array([one[s] - other[s] for s in sorted(one.keys() & other.keys())])


def stopped(rows: Mapping[int, Row]) -> bool:
    """Whether at least half of a cell's fits stopped because no bounds were found."""
    return 2 * sum("stopped" in row for row in rows.values()) >= max(len(rows), 1)


def slack(cell: Fit) -> float:
    """How far below the floor a fit may lie."""
    return 0.1 + 0.05 * columns(cell.set)


@dataclass(frozen=True)
class Gap:
    """A fit and the floor under it."""

    cell: Fit
    own: float
    below: float
    error: float
    better: str

    def finding(self, allowed: float) -> Finding:
        """Against what is allowed."""
        said = f"{self.below:.2f} below {self.better} ({self.own:.2f}), allowed {allowed:.2f}"
        return Finding(label(self.cell), self.below - allowed, said)


def gaps(cells: Cells) -> Iterator[Gap]:
    """Fits against the better of a uniform density and (mixtures) a private single Gaussian."""
    for cell, rows in cells.items():
        if cell.method != "default" or cell.epsilon not in EPSILONS or stopped(rows):
            continue
        own, uniform = scores(rows), scores(rows, "uniform")
        one = {} if cell.k == 1 else scores(cells.get(replace(cell, k=1), {}))
        name, other = "uniform", uniform
        if one and median(one) > median(uniform):
            name, other = "single", one
        gap = differences(own, other)
        if len(gap):
            yield Gap(cell, median(own), -float(np.median(gap)), deviation(gap), name)


def floor(cells: Cells, components: tuple[int, ...]) -> Iterator[Finding]:
    """No fit far below that."""
    for gap in gaps(cells):
        if gap.cell.k in components:
            yield gap.finding(slack(gap.cell) + 2 * gap.error)


def never_far(cells: Cells) -> Iterator[Finding]:
    """And none very far."""
    for gap in gaps(cells):
        yield gap.finding(1 + 0.05 * columns(gap.cell.set))


def monotone(cells: Cells) -> Iterator[Finding]:
    """More budget, no worse: steps of epsilon, where bounds are given.

    A fit that is better than exact EM may come down to it: it has to tend to it. (One Gaussian of
    Adult is: a background takes what heavy tails do to an exact one.)
    """
    ladders: dict[Fit, list[Fit]] = {}
    for cell in cells:
        if cell.method == "default" and cell.bounds == "given":
            ladders.setdefault(replace(cell, epsilon=None), []).append(cell)
    for ladder in ladders.values():
        ladder.sort(key=lambda cell: cell.epsilon or 0.0)
        for cell, after in pairwise(ladder):
            yield from _step(cell, after, cells)


def _step(cell: Fit, after: Fit, cells: Cells) -> Iterator[Finding]:
    exact = scores(cells.get(replace(cell, method="exact", epsilon=None), {}))
    one, other = (
        {s: min(value, exact.get(s, math.inf)) for s, value in scores(cells[c]).items()}
        for c in (cell, after)
    )
    gain = differences(other, one)
    if not len(gain):
        return
    weight = max(median(scores(cells[c], "weight")) for c in (cell, after))
    allowed = 0.05 if weight < _LITTLE else slack(cell)
    draws = np.random.default_rng(0).choice(gain, (500, len(gain)))
    best = float(np.quantile(np.median(draws, axis=1), 0.975))
    said = f"then {float(np.median(gain)):+.2f} (at best {best:+.2f}) at {after.epsilon:g}"
    yield Finding(label(cell), -best - allowed, f"{said}, allowed {-allowed:.2f}, w {weight:.2f}")


def tends_to_exact(cells: Cells) -> Iterator[Finding]:
    """At epsilon 20 and all records of a large set, the score of exact EM.

    Not for sets with atoms (one value in more than a twentieth of a column), nor for flat ones (a
    column is the sum of others, or stands there twice): the likelihood of exact EM has no limit
    there, and its score is what is added to variances by default.
    """
    for cell, rows in cells.items():
        whole = cell.n == sizes(cell.set)[-1] and cell.n * 1.25 >= LARGE
        if cell.method != "default" or cell.epsilon != 20.0 or not whole:
            continue
        if atoms(cell.set) or flat(cell.set):
            continue
        exact = cells.get(replace(cell, method="exact", epsilon=None), {})
        gap = differences(scores(rows), scores(exact))
        if len(gap):
            below, error = -float(np.median(gap)), deviation(gap)
            said = f"{below:.2f} below exact, allowed {slack(cell):.2f} + {2 * error:.2f}"
            yield Finding(label(cell), below - slack(cell) - 2 * error, said)


def optima(cells: Cells) -> Iterator[Finding]:
    """On the plane at epsilon 1, the worst fit against the median."""
    for cell, rows in cells.items():
        place = (cell.set, cell.n, cell.k, cell.epsilon, cell.method)
        if place == ("plane", sizes("plane")[-1], 3, 1.0, "default"):
            own = scores(rows)
            below = median(own) - min(own.values())
            yield Finding(label(cell), below - 0.1, f"the worst is {below:.2f} below the median")


def heavy_tails(cells: Cells) -> Iterator[Finding]:
    """A private single Gaussian against an exact one with as much background, epsilon 1."""
    for cell, rows in cells.items():
        place = (cell.n == sizes(cell.set)[-1], cell.k, cell.epsilon, cell.method, cell.bounds)
        if cell.set in HEAVY and place == (True, 1, 1.0, "default", "given"):
            below = -float(np.median(differences(scores(rows), scores(rows, "exact"))))
            yield Finding(label(cell), below - 0.2, f"{below:.2f} below exact, allowed 0.20")


def no_worse(cells: Cells, before: Before, kept: bool) -> Iterator[Finding]:
    """Against the figures of before: Life Sciences, Gowalla and the plane; or all, with slack.

    The second is for the floor's sake: it would also hold where the single Gaussian had become bad.
    """
    for cell, rows in cells.items():
        name, own = label(cell), scores(rows)
        chosen = not kept or (cell.set in KEPT and cell.n == sizes(cell.set)[-1])
        ours = cell.method == "default" and (kept or cell.bounds == "given")
        if chosen and ours and own and name in before:
            middle, error, _ = before[name]
            both = 2 * math.hypot(error, deviation(np.array(list(own.values()))))
            allowed = both + (0.02 if kept else slack(cell))
            said = f"{median(own):.3f}, before {middle:.3f}, allowed {allowed:.3f} less"
            yield Finding(name, middle - median(own) - allowed, said)


def coverage(cells: Cells) -> Iterator[Finding]:
    """Bounds that nobody gave: where they are promised, they hold 99% and are not too wide."""
    together: dict[Fit, list[Row]] = {}
    for cell, rows in cells.items():
        if cell.bounds == "none":
            # Bounds are found in the same way for any number of components.
            together.setdefault(replace(cell, k=0), []).extend(rows.values())
    for cell, fits in together.items():
        yield from _covered(cell, fits)


def _covered(cell: Fit, fits: list[Row]) -> Iterator[Finding]:
    assert cell.epsilon is not None
    d = columns(cell.set)
    least, light = needed(d, cell.epsilon), edges(cell.set) >= _SKEWED
    promised = light & (cell.n >= least / 0.03) | np.full(d, cell.n >= least / 0.004)
    if promised.all():
        failed = sum("stopped" in row for row in fits)
        said = f"{failed} of {len(fits)} fits found no bounds"
        yield Finding(label(cell), failed - _rare(len(fits)), said)
    inside = np.array([row["inside"] for row in fits if "inside" in row])
    if not promised.any() or not len(inside):
        return
    inside = inside[:, promised]
    missed = int((inside < 0.99).sum())
    said = f"{missed} of {inside.size} columns cut, the worst to {inside.min():.3f}"
    yield Finding(label(cell), missed - _rare(inside.size), said)
    if cell.n >= least / 0.004:
        wide = np.median([row["wide"] for row in fits if "wide" in row], axis=0)
        column = int(wide.argmax())
        said = f"column {column} is {wide[column]:.1f} times as wide as its central 99.2%"
        yield Finding(label(cell), float(wide[column]) - 4, said)


def _rare(trials: int) -> float:
    """How often what happens once in a hundred may happen, but for one time in a thousand."""
    return float(binom.ppf(0.999, trials, 0.01))


def needed(d: int, epsilon: float) -> float:
    """How many records a cell of a histogram must hold to stand out of a tenth of the budget."""

    def missing(mu: float) -> float:
        far = norm.cdf(-epsilon / mu + mu / 2)
        return float(far - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2) - DELTA)

    mu = brentq(missing, 1e-4, 20.0)
    return math.sqrt(d / 0.1) / mu * math.sqrt(2 * math.log(202 * d / 0.01))


@cache
def edges(name: str) -> Array:
    """Per column, the share of the outermost signed octave that must be found to hold 99%."""
    X, lost = load(name)[0], np.linspace(0, 0.01, 11)  # At the lower end; the rest at the upper.
    with np.errstate(divide="ignore"):
        octaves = np.sign(X) * np.maximum(np.floor(np.log2(np.abs(X))) + 101, 0)
    found = []
    for column in octaves.T:
        _, counts = np.unique(column, return_counts=True)
        shares = counts / len(column)
        ends = ((_outermost(shares, a), _outermost(shares[::-1], 0.01 - a)) for a in lost)
        found.append(max(min(pair) for pair in ends))
    return np.array(found)


def _outermost(shares: Array, lost: float) -> float:
    """The share of the first cell that cannot be lost."""
    return float(shares[min(np.searchsorted(np.cumsum(shares), lost, "right"), len(shares) - 1)])


@cache
def atoms(name: str) -> bool:
    """Whether one value makes up more than a twentieth of a column."""
    X = load(name)[0]
    return any(np.unique(x, return_counts=True)[1].max() > len(x) / 20 for x in X.T)


@cache
def flat(name: str) -> bool:
    """Whether records have no variance in some direction, but for roundings."""
    return float(np.linalg.eigvalsh(np.corrcoef(load(name)[0].T))[0]) < 1e-6


@dataclass(frozen=True)
class Requirement:
    """A check, and the share of its findings that must hold."""

    title: str
    check: Callable[[Cells], Iterator[Finding]]
    share: float = 1.0


def requirements(before: Before) -> list[Requirement]:
    """All that must hold."""
    return [
        Requirement("Mixtures above the floor", lambda c: floor(c, COMPONENTS), 0.9),
        Requirement("Single Gaussians above the floor", lambda c: floor(c, (1,)), 0.9),
        Requirement("Nowhere far below the floor", never_far),
        Requirement("Monotone in epsilon", monotone),
        Requirement("Tends to exact EM", tends_to_exact),
        Requirement("Optima on the plane", optima),
        Requirement("Heavy tails", heavy_tails),
        Requirement("Kept sets no worse than before", lambda c: no_worse(c, before, True)),
        Requirement("Others no worse than before", lambda c: no_worse(c, before, False), 0.9),
        Requirement("Bounds found", coverage),
    ]
