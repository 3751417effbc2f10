"""The fits of everywhere.py: which there are, and one fit's figures."""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy.stats import multivariate_normal
from sets import HEAVY, Array, load, sizes, split

import privem
from privem import GaussianMixture

EPSILONS = (0.1, 0.5, 1.0, 4.0)
LADDER = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 10.0, 20.0)
COMPONENTS = (3, 8)
DELTA = 1e-6
GGG: dict[str, Any] = {
    "mechanism": "ggg",
    "prior": "map",
    "n_iter": 10,
}  # As Park et al. 2016 and 2017 run it.

Row = dict[str, Any]


@dataclass(frozen=True)
class Fit:
    """One fit: "exact", "default" (with one component: the private single Gaussian) or "ggg"."""

    set: str
    n: int
    k: int
    epsilon: float | None
    bounds: str
    """"given" or "none"."""
    method: str
    split: int

    @property
    def cell(self) -> Fit:
        """The same for all splits."""
        return replace(self, split=-1)


def code() -> str:
    """What tells one state of the library's code from another."""
    folder = Path(privem.__file__).parent
    files = sorted(folder.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:10]


def grid(name: str, splits: int, quick: bool) -> Iterator[Fit]:
    """All fits of a set; without ``ggg`` and the ladder of epsilons where it must be quick."""
    every = sizes(name)
    for n in every:
        for seed in range(splits):
            start = Fit(name, n, 1, None, "given", "exact", seed)
            for k in (1, *COMPONENTS):
                fit = replace(start, k=k)
                yield fit
                for epsilon in EPSILONS if quick or n < every[-1] else LADDER:
                    given = replace(fit, method="default", epsilon=epsilon)
                    yield given
                    if epsilon not in EPSILONS:
                        continue
                    yield replace(given, bounds="none")
                    if k > 1 and not quick:
                        yield replace(given, method="ggg")


def key(row: Fit | Row) -> tuple[Any, ...]:
    """What a fit is remembered by, beside the code."""
    values = asdict(row) if isinstance(row, Fit) else row
    return tuple(values[name] for name in Fit.__dataclass_fields__)


def run(fits: Iterable[Fit]) -> list[Row]:
    """Fit them."""
    warnings.simplefilter("ignore")
    return [measure(fit) for fit in fits]


def measure(fit: Fit) -> Row:
    """Held-out log-likelihood per record of one fit, and what the requirements look at besides.

    A fit that stops because it found no bounds has ``stopped``; another error is kept as ``error``.
    """
    row: Row = asdict(fit)
    try:
        row |= _figures(fit)
    except Exception as error:
        # By name, so that older code runs too.
        row["stopped" if "Bounds" in type(error).__name__ else "error"] = repr(error)[:300]
    return row


def _fitted(fit: Fit, model: GaussianMixture, train: Array) -> tuple[GaussianMixture, Row]:
    """Fit, and say how long it took the processor.

    Fits that are compared on a split have the same stream of random bytes for their noise, so that
    they differ by what they do and less by luck: where a mixture becomes the plan of one Gaussian,
    it is that very fit. That is for public data alone: noise from a seed hides nothing.
    """
    seed = hashlib.sha256(f"{fit.set} {fit.n} {fit.bounds} {fit.split}".encode()).digest()
    noise = np.random.default_rng(list(seed))
    started = time.process_time()
    with mock.patch("os.urandom", noise.bytes):
        model.fit(train)
    return model, {"seconds": round(time.process_time() - started, 4)}


def _figures(fit: Fit) -> Row:
    train, test = split(fit.set, fit.n, fit.split)
    _, low, high = load(fit.set)
    if fit.method == "exact":
        exact = GaussianMixture(
            fit.k, epsilon=None, init_params="k-means++", n_init=3, random_state=fit.split
        )
        exact, found = _fitted(fit, exact, train)
        return found | {"score": float(exact.score(test))}
    budget: dict[str, Any] = {"epsilon": fit.epsilon, "delta": DELTA, "random_state": fit.split}
    if fit.method == "ggg":
        # Its prior is meant for records in the unit box.
        half, centre = (high - low) / 2, (low + high) / 2
        model = GaussianMixture(fit.k, bounds=(-1.0, 1.0), **GGG, **budget)
        model, found = _fitted(fit, model, (train - centre) / half)
        score = float(model.score((test - centre) / half))
        return found | {"score": score - float(np.log(half).sum())}
    bounds = (low, high) if fit.bounds == "given" else None
    model, found = _fitted(fit, GaussianMixture(fit.k, bounds=bounds, **budget), train)
    weight = float(getattr(model, "background_weight_", 0.0))
    found |= {
        "score": float(model.score(test)),
        "uniform": _uniform(model.bounds_),
        "weight": weight,
        "structure": model.structure_,
    }
    if fit.set in HEAVY and fit.k == 1:
        found["exact"] = _exact_single(train, test, weight, found["uniform"])
    if fit.bounds == "none":
        found |= _coverage(model.bounds_, train)
    return found


def _uniform(bounds: Any) -> float:
    return -float(np.log(np.subtract(*bounds[::-1])).sum())


def _exact_single(train: Array, test: Array, weight: float, uniform: float) -> float:
    """An exact Gaussian's score, with as much background as the private one has."""
    exact = multivariate_normal(train.mean(axis=0), np.cov(train.T, ddof=0)).logpdf(test)
    if weight > 0:
        exact = np.logaddexp(math.log1p(-weight) + exact, math.log(weight) + uniform)
    return float(exact.mean())


def _coverage(bounds: Any, train: Array) -> Row:
    """The share of each column inside the bounds, and their width over that of its bulk.

    The bulk leaves out 0.4% at either end: where widths are required to be small, so much can be
    seen, and a fit that sees such an end must not cut it off.
    """
    low, high = bounds
    inside = ((train >= low) & (train <= high)).mean(axis=0)
    ends = np.quantile(train, [0.004, 0.996], axis=0)
    central = ends[1] - ends[0]
    wide = np.divide(high - low, central, out=np.ones_like(central), where=central > 0)
    return {"inside": inside.round(4).tolist(), "wide": wide.round(2).tolist()}
