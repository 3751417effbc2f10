"""Checks of one fit: replay, lattice, charges, and those of its noise (:mod:`.noises`)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from sklearn.base import clone

from ..core import Release, Stage
from ..data import LocalSource
from ..linalg import ravel
from ..run import Recorded
from .fits import Transcript, watched_fit
from .neighbours import Dataset
from .noises import check_fork, check_noise, check_residuals, groups_of
from .report import AuditReport, Finding


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


def check_lattice(transcript: Transcript, name: str = "lattice") -> Finding:
    """Every released number is an integer multiple of its grid, every one belongs to a group.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import KMeans
    >>> from privem.audit.fits import watched_fit
    >>> data = Dataset.of(np.linspace(-1, 1, 40)[:, None])
    >>> model, transcript = watched_fit(KMeans(2, bounds=(-1, 1), n_iter=2), data)
    >>> check_lattice(transcript).passed
    True
    """
    wrong, numbers = [], 0
    for stage, release in transcript.entries:
        x = ravel(release.statistics)
        groups = groups_of(stage)
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
    >>> model, transcript = watched_fit(KMeans(2, bounds=(-1, 1), n_iter=2), data)
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
