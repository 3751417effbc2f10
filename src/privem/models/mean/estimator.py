"""``private_mean``: one number per column, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.region import Region
from ...blocks.robust_mean import RobustMeanQuery, best_clip, bias_bound, papers_scale
from ...bounds import estimated
from ...budget import Allowance, Part, Terms
from ...core import Release, Stage
from ...data import Policy, Table, open_table
from ...estimator.measured import Measured, say_measured
from ...fit import asking, entered, fund, limits, pay, settle
from ...ground import Preamble
from ...linalg import Array
from ...local import Crowd
from ...meter import Statement
from ...parameters import check_float, check_jobs, check_option, check_sizes

_METHODS = ("auto", "theorem 2", "lemma 1")


@dataclass(frozen=True, eq=False, repr=False)
class PrivateMean(Measured):
    """A private mean with its privacy statement.

    It can be used as a number or an array: ``float(mean)``, ``f"{mean:.2f}"``,
    ``round(mean, 1)``, ``2 * mean``, ``np.asarray(mean)``; columns are found by position or name:
    ``mean["age"]``. Printed, it is the mean with its noise and the bound on its bias, and the
    statement.

    Parameters
    ----------
    value : float or ndarray of shape (n_columns,)
        A number where x had one dimension.
    privacy : Statement
    deviation : float or ndarray
        Standard deviation of what noise did to the mean, that on the count included: it is smaller
        than this two times in three, and than twice as much 95 times in 100.
    bias : float
        Bound on the bias from clipping (its length over all columns), if ``tau`` holds. Noise is
        added to it; the actual bias is usually far smaller.
    names : tuple of str or None
        Names of the columns.

    Examples
    --------
    >>> import polars as pl
    >>> from privem import private_mean
    >>> people = pl.DataFrame({"age": [31.0, 47.0] * 5000, "height": [1.7, 1.8] * 5000})
    >>> mean = private_mean(people, epsilon=1.0, tau=[2000.0, 4.0])
    >>> 30 < mean["age"] < 48, sorted(mean.to_dict())
    (True, ['age', 'height'])
    """

    value: Any
    privacy: Statement
    deviation: Any
    bias: float
    names: tuple[str, ...] | None = None

    def _lines(self) -> list[str]:
        """The mean and the noise of each column, and the bound on the bias."""
        values, noise = np.ravel(self.value), np.ravel(self.deviation)
        said = [say_measured(float(v), float(s)) for v, s in zip(values, noise, strict=True)]
        if len(said) == 1:
            return [f"{said[0]}, {self._bias(float(noise[0]))}"]
        lines = [f"{name}: {text}" for name, text in zip(self.to_dict(), said, strict=True)]
        return [*lines, f"{self._bias(float(noise.min()))} (its length, over all columns)"]

    def _bias(self, noise: float) -> str:
        digits = max(0, 2 - math.floor(math.log10(noise))) if 1e-12 < noise < 1e15 else 3
        small = self.bias < 1e15
        return f"bias at most {self.bias:,.{digits}f}" if small else f"bias at most {self.bias:g}"

    def __getitem__(self, which: int | str) -> float:
        """The mean of a column, by position or name."""
        if isinstance(which, str):
            if self.names is None or which not in self.names:
                raise KeyError(f"no column {which!r}; there are {self.names or 'no names'}")
            which = self.names.index(which)
        return float(np.ravel(self.value)[which])

    def to_dict(self) -> dict[str, float]:
        """Column names (or positions) and their means."""
        names = self.names or tuple(str(j) for j in range(np.size(self.value)))
        return dict(zip(names, np.ravel(self.value).tolist(), strict=True))


def private_mean(
    x: Any,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    tau: Any = None,
    centre: Any = 0.0,
    method: str = "auto",
    failure: float = 0.05,
    accountant: str = "auto",
    neighbours: str = "add-remove",
    trust: str = "central",
    groups: Any = None,
    max_rows: int | None = None,
    n_jobs: int | None = None,
    ledger: Any = None,
) -> PrivateMean:
    """The mean of records, however heavy their tails, under differential privacy.

    Parameters
    ----------
    x : array-like of shape (n,) or (n, d), frame, column of a frame, path or Federation
        The records. NaN is refused; infinities are clipped like any outlier.
    epsilon, delta : float
        The whole budget. ``delta=0`` is pure differential privacy, with Laplace noise: it needs
        ``tau``, and either ``neighbours="replace-one"`` or ``max_rows``.
    tau : float or array-like of shape (d,), optional
        A public bound on the second moment of each column about ``centre``. ``None``: scale and
        location of the bulk are found privately, within the same budget; the bound on the bias is
        then based on what was found.
    centre : float or array-like of shape (d,), default=0
        A public guess of the mean; ignored where ``tau`` is None.
    method : {"auto", "theorem 2", "lemma 1"}, default="auto"
        How records are bounded. ``"auto"`` clips them to half the ball at which the worst bias
        equals the noise: within a quarter of the smallest proved error, and better where tails are
        lighter than the worst. The others are the smoothed truncation of Wang et al. 2023 with its
        printed parameters.
    failure : float, default=0.05
        The failure probability (zeta) of the paper's parameters; ``"auto"`` needs none.
    accountant : str, default="auto"
        ``"auto"`` takes the tightest valid one. The others raise an error where they are not valid:
        ``"gdp" "zcdp" "zcdp-loose" "rdp" "pld" "moments" "advanced" "advanced-classical" "linear"
        "linear-classical"``.
    neighbours : see :class:`privem.GaussianMixture`
    trust : {"central", "local"}, default="central"
        ``"local"``: every person's own device adds the noise, and nobody needs to be trusted; any
        two records are neighbours and the number of people is public. It needs ``tau``. The error
        is larger by the square root of the number of people.
    groups : array-like of shape (n,) or str, optional
        The person that each record belongs to. The person becomes the unit of privacy and counts
        once, as the average of their records. With a frame or a file, the name of a
        column, which is then left out. Not with ``trust="local"``.
    max_rows : see :class:`privem.GaussianMixture`
    n_jobs : int, optional
        Threads over blocks of rows.
    ledger : see :class:`privem.GaussianMixture`

    Returns
    -------
    PrivateMean
        The mean with its statement (``.privacy``), the standard deviation of its noise
        (``.deviation``) and a bound on its bias (``.bias``); usable as a number or an array.

    Examples
    --------
    >>> import numpy as np
    >>> from privem import private_mean
    >>> x = np.random.default_rng(0).standard_t(3, size=100_000) + 1.0
    >>> mean = private_mean(x, epsilon=1.0, tau=4.0)
    >>> abs(float(mean) - 1.0) < 0.1
    True
    >>> mean.privacy.epsilon, mean.privacy.delta
    (1.0, 1e-06)
    """
    check_option("trust", trust, ("central", "local"))
    check_option("method", method, _METHODS)
    failure = check_float("failure", failure, 0.0, strict=True)
    if not 1e-300 <= failure < 1:
        raise ValueError(f"failure is a probability from 1e-300 to below 1, got {failure}")
    check_jobs(n_jobs)
    relation = "replace-one" if trust == "local" else neighbours
    known = {"clip": "gaussian", "laplace": "laplace"}
    terms = Terms.check(epsilon, delta, accountant, relation, "auto", known, max_rows=max_rows)
    check_option("neighbours", neighbours, ("add-remove", "replace-one"))
    if trust == "local" and (tau is None or groups is not None):
        raise ValueError(
            "trust='local' needs tau, a public bound on the second moment, and has no groups: "
            "every person sends one message about one record"
        )
    if delta == 0 and (trust == "local" or method == "theorem 2"):
        raise ValueError("delta=0 is for trust='central' and for methods other than 'theorem 2'")
    told = {"epsilon": epsilon, "delta": delta, "tau": tau, "centre": centre, "method": method}
    told |= {"failure": failure, "accountant": accountant, "neighbours": neighbours}
    told |= {"trust": trust} | ({} if max_rows is None else {"max_rows": max_rows})
    devices = Crowd if trust == "local" else None
    policy = Policy("private_mean", told, private=True, devices=devices)
    table = open_table(x, groups=groups, policy=policy)
    people, d = table.people, table.n_features
    if d == 0:
        raise ValueError("x has no columns")
    if people.weighted:
        raise ValueError("private_mean has no weights: open the rows without")
    moment = None if tau is None else _per_column("tau", tau, d)
    if moment is not None and not (moment > 0).all():
        raise ValueError("tau must be above 0: it bounds a second moment")
    if moment is not None:
        check_sizes("the root of tau", np.sqrt(moment))
    origin = _per_column("centre", centre, d)
    check_sizes("centre", origin, least=0.0)
    region = None if moment is None else Region.around_origin(1.0, d)
    plan = PrivateMeanPlan(
        replace(Preamble.of(terms, people, d, region, names=_called(table)), give="tau="),
        origin,
        moment,
        method,
        (terms.epsilon, terms.delta, failure),
    )
    funded, meter = fund(plan, terms, d if trust == "local" else None)
    asked = asking("private_mean", plan, terms, people.unit, trust)
    with entered(ledger, asked, funded, meter) as entry:
        mean, noise, bias, outside = pay(funded, meter, table.source(n_jobs), entry=entry)
        public = people.public(relation) | limits(terms, weighted=False)
        if moment is not None:
            public["second moments about the centre"] = ", ".join(f"{t:g}" for t in moment)
            public["centre"] = ", ".join(f"{c:g}" for c in origin)
        else:
            public["second moments about the bulk"] = estimated(outside or 0.0)
        statement = Statement.of(meter, people.unit, relation, public, trust=trust, subject="mean")
        statement = settle(entry, people.signed(statement))
    names = None if table.names is None else tuple(table.names)
    flat = d == 1 and np.ndim(x) == 1
    value, deviation = (float(v[0]) if flat else v for v in (mean, noise))
    return PrivateMean(value, statement, deviation, bias, names)


def _per_column(name: str, value: Any, d: int) -> Array:
    try:
        numbers = np.broadcast_to(np.asarray(value, dtype=np.float64), (d,))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, or one per column ({d} of them)") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite")
    return np.array(numbers)


@dataclass(frozen=True)
class PrivateMeanPlan:
    """Count, bounds, and the sum.

    Parameters
    ----------
    preamble : Preamble
        With a (dummy) region where ``tau`` is given.
    centre, tau : array of shape (d,)
        Public origin, and bounds on the second moment about it; ``tau=None``: found privately.
    method : {"auto", "theorem 2", "lemma 1"}
    terms : (epsilon, delta, failure)
        For the papers' choices.
    """

    preamble: Preamble
    centre: Array
    tau: Array | None
    method: str
    terms: tuple[float, float, float]

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        first = self.preamble
        return [*first.parts(), Part("mean", 1.0 - first.share(), [(first.kind, first.d)])]

    def stages(
        self, allowance: Allowance
    ) -> Generator[Stage, Release[Any], tuple[Array, Array, float, float | None]]:
        """The mean; deviation of its noise; a bound on its bias in L2 if tau holds. All public.

        And, where second moments had to be found, what share of the records they may leave out.
        """
        d, centre = self.preamble.d, self.centre
        ground = yield from self.preamble.stages(allowance)
        count, noise = ground.count, ground.allowance.noise("mean", ground.rows)
        moment, tau = self.tau, 1.0
        if ground.bulk is not None:
            centre, moment = ground.bulk
        assert moment is not None
        unit = np.sqrt(moment)
        factor = 2.0 if noise.neighbours == "replace-one" else 1.0
        factor *= math.sqrt(2 * d) if self.preamble.pure else 1.0
        if self.method == "auto":
            bounding: Any = best_clip(tau, count, noise.multiplier, d, factor)
        else:
            bounding = papers_scale(self.method, tau, count, *self.terms)
        cap, kind = self.preamble.cap_weight, self.preamble.kind
        query = RobustMeanQuery(centre, unit, bounding, cap, kind=kind)
        release = yield Stage(query, noise, "mean")
        away = unit * release.statistics.total / count
        assert release.deviation is not None
        deviation = unit * release.deviation.total / count
        # To first order the noise on the count moves a mean by its distance from the centre.
        deviation = np.hypot(deviation, away * ground.count_deviation / count)
        bias = bias_bound(bounding, tau, d) * float(unit.max())
        return centre + away, deviation, bias, ground.outside


def _called(table: Table) -> list[str]:
    """A name for each column in messages: its number, if nobody has confirmed the header."""
    header = table.header
    return [
        name if header is None or header.quotes(name) else f"number {j + 1}"
        for j, name in enumerate(table.names or ())
    ]
