"""Neighbouring data sets that attack weak points.

All lie in (or are pulled into) the box [-1, 1]^d. Each pair differs in one unit of privacy: one
record, or one person with all their rows; present or absent (``"add-remove"``), or replaced by
another (``"replace-one"``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils import get_tags

from ..data import ArrayRows, LocalSource
from ..data.persons import owners, per_person
from ..declaration import declared
from ..linalg import Array

_RELATIONS = ("add-remove", "replace-one")


@dataclass(frozen=True)
class Dataset:
    """Rows, and optionally whose they are and what they weigh. Secret, if real.

    Examples
    --------
    >>> Dataset.of([[0.0], [1.0]]).X.shape
    (2, 1)
    """

    X: Array
    groups: NDArray[Any] | None = None
    weight: Array | None = None

    @classmethod
    def of(cls, data: Any) -> Dataset:
        """An array as a data set."""
        return data if isinstance(data, cls) else cls(np.asarray(data, dtype=np.float64))

    def source(self, cap_weight: float = 1.0) -> LocalSource:
        """The source a private fit would make of it."""
        rows = ArrayRows(self.X, self.weight)
        if self.groups is None:
            return LocalSource(rows, 1)
        weight, chosen = per_person(self.groups, len(self.X))
        persons = rows.take(chosen)
        if self.weight is not None:
            weight = weight * np.clip(self.weight, 0.0, cap_weight)
        return LocalSource(replace(rows, weight=weight), 1, persons, owners(self.groups))

    def fit(self, estimator: Any) -> Any:
        """Fit an estimator on it; the last column is the target of one that needs a target."""
        X, y = self.X, None
        if get_tags(estimator).target_tags.required:
            X, y = X[:, :-1], X[:, -1]
        if estimator.ledger is None:
            estimator.set_params(ledger=False)  # these people need no budget
        return estimator.fit(X, y, sample_weight=self.weight, groups=self.groups)


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets and what they attack.

    Examples
    --------
    >>> pair = Pair("one more", Dataset.of([[0.0], [1.0]]), Dataset.of([[0.0]]))
    >>> many = pair.among(10)
    >>> len(many.data.X), len(many.neighbour.X)
    (22, 21)
    """

    name: str
    data: Dataset
    neighbour: Dataset

    def among(self, times: int) -> Pair:
        """The two with the first one's records so many times besides; without owners or weights."""
        others = np.tile(self.data.X, (times, 1))
        both = (Dataset(np.concatenate([others, each.X])) for each in (self.data, self.neighbour))
        return Pair(f"{self.name}, among many", *both)


def attacks(
    neighbours: str = "add-remove", d: int = 2, n: int = 24, seed: int = 0, finite: bool = False
) -> list[Pair]:
    """Pairs of neighbouring data sets, each aimed at a weak point.

    Parameters
    ----------
    neighbours : {"add-remove", "replace-one"}
    d : int
        Number of features.
    n : int
        About how many records both data sets share.
    seed : int
        For the records that both share.
    finite : bool
        Leave out the pair with infinite records, which estimators refuse in arrays.

    Examples
    --------
    >>> [pair.name for pair in attacks("replace-one", d=1, finite=True)]  # doctest: +ELLIPSIS
    ['empty component', 'outlier at the bound', 'duplicated record', ...]
    >>> pair = attacks("add-remove")[0]
    >>> len(pair.data.X) - len(pair.neighbour.X)
    1
    """
    rng = np.random.default_rng(seed)
    # Everyone in one corner: whatever sits in the opposite one is empty but for the target.
    cluster = np.clip(rng.normal(-0.6, 0.1, (n, d)), -1, 1)
    both = np.where(np.arange(n)[:, None] % 2 == 0, cluster, -cluster)
    corner, middle = np.ones(d), np.zeros(d)
    # A coordinate on the edge of a lattice cell, and its neighbour number on the other side of it.
    edge = np.full(d, 0.25)
    beside = np.nextafter(edge, -1.0)
    same = np.full((n, d), 0.5)
    alternating = np.where(np.arange(d) % 2 == 0, 1.0, -1.0)
    # What both share, the target, and what it is replaced by.
    cases: dict[str, tuple[Array, Array, Array]] = {
        "empty component": (cluster, corner, cluster[0]),
        "outlier at the bound": (both, corner, -corner),
        "duplicated record": (np.vstack([both, both[:1], both[:1]]), both[0], -corner),
        "record at the grid's edge": (both, edge, beside),
        "far outlier": (both, 1e308 * corner, -1e308 * corner),
        "all records identical": (same, same[0], -corner),
        "opposite records": (both, alternating, -alternating),
        "a record in the middle": (both, middle, corner),
    }
    if d > 1:
        # Where the last column is a target, these turn a residual round.
        last = np.eye(d)[-1]
        cases["last column in the middle"] = (both, corner, corner - last)
        cases["last column mirrored"] = (both, corner, corner - 2 * last)
    if not finite:
        cases["infinite record"] = (both, np.inf * corner, -np.inf * corner)
    pairs = [_pair(name, *case, neighbours) for name, case in cases.items()]
    return [*pairs, _person(both, corner, neighbours)]


def _pair(
    name: str, shared: Array, target: Any, other: Any, neighbours: str, rows: int = 1
) -> Pair:
    """Both have the shared records; above one row, the target is a person with so many."""
    if neighbours not in _RELATIONS:
        raise ValueError(f"neighbours must be one of {_RELATIONS}, got {neighbours!r}")
    replaced = [other] * rows if neighbours == "replace-one" else []
    both = [np.array([*shared, *more]) for more in ([target] * rows, replaced)]
    if rows == 1:
        return Pair(name, Dataset(both[0]), Dataset(both[1]))
    first, second = (Dataset(X, np.minimum(np.arange(len(X)), len(shared))) for X in both)
    return Pair(name, first, second)


def _person(shared: Array, corner: Array, neighbours: str, rows: int = 400) -> Pair:
    """One person with many rows among others who have one each, and one who has two."""
    groups = np.arange(len(shared))
    groups[1] = groups[0]

    def joined(record: Array, count: int) -> Dataset:
        X = np.vstack([shared, np.repeat(record[None], count, axis=0)])
        return Dataset(X, np.append(groups, np.full(count, len(shared))))

    other = joined(-corner, rows // 2 if neighbours == "replace-one" else 0)
    return Pair("one person with many rows", joined(corner, rows), other)


def _samples(size: int = 49) -> SimpleNamespace:
    """Samples without a seed, for the audit cases of models."""
    order = np.arange(size)
    normal = ndtri((order + 0.5) / size)
    return SimpleNamespace(
        order=order,
        normal=normal,
        shuffled=normal[5 * order % size],
        spread=np.linspace(-1.0, 1.0, size),
        signs=np.where(order % 2 == 0, 1.0, -1.0),
        # Left of the middle: a target at the other end has a component to itself.
        cluster=-0.5 + 0.2 * normal[:, None],
        columns=lambda *columns: np.stack(columns, axis=1),
    )


SAMPLES = _samples()


def weak_point(name: str, neighbours: str = "add-remove", rows: int = 1) -> Pair:
    """The neighbouring data sets on which fits of an estimator move most, as it declares them.

    Parameters
    ----------
    name : str
        Of an estimator. Where it has a target, that is the last column.
    neighbours : {"add-remove", "replace-one"}
        Whether the target record is absent from the second data set, or another.
    rows : int
        If above one, the target is a person with this many identical rows.

    Examples
    --------
    >>> pair = weak_point("KMeans", rows=10)
    >>> pair.data.X.shape, pair.neighbour.X.shape, len(set(pair.data.groups))
    ((59, 1), (49, 1), 50)
    """
    case = declared(name).audit_case(SAMPLES)
    return _pair("weak point", case.shared, case.target, case.other, neighbours, rows)
