"""quality: where the default start leads, on real data, against scikit-learn's over ten seeds.

GaussianMixture: mean log-likelihood at convergence (tol 1e-5, 300 iterations; higher is better).
KMeans: inertia per row (lower is better), against k-means++ with one start. privem's start is
deterministic: one number against a spread. "beaten": share of the seeds it is at least as good as,
give or take 1e-4 of the value.
Data: the folder PRIVEM_DATA, or ../shared/data beside the repository.
"""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.cluster
import sklearn.mixture

import privem

from .data import Array

__all__ = ["COLUMNS", "load", "rows"]

COLUMNS = {
    "case": "<26",
    "privem": ">12.5f",
    "sk worst": ">12.5f",
    "median": ">12.5f",
    "sk best": ">12.5f",
    "beaten": ">6.0%",
    "iter": ">4",
    "sk iter": ">7.0f",
    "CPU s": ">6.2f",
    "sk CPU": ">6.2f",
}
# Data set, K of mixtures, K of k-means.
CASES = [
    ("old_faithful", (2,), (2,)),
    ("gvhd", (5, 8), (5, 8)),
    ("lifesci", (3, 8), (3, 8)),
    ("adult", (3,), (3, 8)),
    ("s1", (15,), (15,)),
    ("a3", (), (50,)),
    ("birch1", (), (100,)),
    ("birch2", (), (100,)),
]


def _folder() -> Path:
    beside = Path(__file__).parents[2] / "shared" / "data"
    return Path(os.environ.get("PRIVEM_DATA", beside))


def load(name: str) -> Array:
    """One of the real data sets; columns scaled to unit variance where their units differ."""
    folder = _folder()
    match name:
        case "old_faithful":
            return np.loadtxt(folder / "old_faithful.csv", delimiter=",", skiprows=1)
        case "gvhd":
            path = folder / "GvHD_flow_cytometry.csv.gz"
            return np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(4))
        case "lifesci":
            path = folder / "lifesci_ds1.10.csv.gz"
            return np.loadtxt(path, delimiter=",", usecols=range(10))
        case "adult":  # age, fnlwgt, education-num, hours-per-week
            with gzip.open(folder / "adult.data.gz", "rt") as file:
                records = [line.split(",") for line in file if line.count(",") == 14]
            table = np.array([[float(r[j]) for j in (0, 2, 4, 12)] for r in records])
            return table / table.std(axis=0)
    with np.load(folder / "sipu_benchmarks.npz") as file:
        return file[name].astype(float) / 1e5


def rows(quick: bool) -> Iterator[dict[str, Any]]:
    if not _folder().exists():
        yield {"case": f"no data in {_folder()}"}
        return
    seeds = range(3 if quick else 10)
    limits: dict[str, Any] = {"tol": 1e-5, "max_iter": 300}
    for name, mixtures, clusterings in CASES[:2] if quick else CASES:
        X = load(name)
        for k in mixtures:
            theirs = [sklearn.mixture.GaussianMixture(k, random_state=s, **limits) for s in seeds]
            ours = privem.GaussianMixture(k, n_jobs=1, epsilon=None, **limits)
            yield _compare(f"mixture {name} K={k}", X, ours, theirs)
        for k in clusterings:
            theirs = [sklearn.cluster.KMeans(k, n_init=1, random_state=s) for s in seeds]
            yield _compare(
                f"k-means {name} K={k}", X, privem.KMeans(k, n_jobs=1, epsilon=None), theirs
            )


def _compare(case: str, X: Array, ours: Any, theirs: list[Any]) -> dict[str, Any]:
    """Scores are compared as higher-is-better and shown with the sign of the measure."""
    sign = -1.0 if case.startswith("k-means") else 1.0
    mine, seconds = _timed(ours, X)
    pairs = [_timed(model, X) for model in theirs]
    scores = np.array([value for value, _ in pairs])
    return {
        "case": case,
        "privem": sign * mine,
        "sk worst": sign * scores.min(),
        "median": sign * float(np.median(scores)),
        "sk best": sign * scores.max(),
        "beaten": float(np.mean(mine >= scores - 1e-4 * abs(scores))),
        "iter": ours.n_iter_,
        "sk iter": float(np.median([model.n_iter_ for model in theirs])),
        "CPU s": seconds,
        "sk CPU": float(np.median([seconds for _, seconds in pairs])),
    }


def _timed(model: Any, X: Array) -> tuple[float, float]:
    began = time.process_time()
    model.fit(X)
    seconds = time.process_time() - began
    return model.score(X) / (len(X) if hasattr(model, "inertia_") else 1), seconds
