"""The paper's data, its start, and fits of it by every protocol."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from privem import GaussianMixture
from privem.datasets import load_parkinsons
from privem.federation import Federation, Party

# Largest change of the whole log-likelihood at which EM stops. The paper does not say which; this
# is the last digit that its table prints.
STOP = 1e-3
MOST_ITERATIONS = 500  # the paper's
BOUNDS = (-20.0, 20.0)


def clusters(n: int, k: int, draw: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Random points of random clusters in the plane, and the mixture that they come from."""
    rng = np.random.default_rng([n, k, draw])
    centres, widths = rng.uniform(-10, 10, (k, 2)), rng.uniform(0.5, 2.5, (k, 2))
    which = rng.permutation(np.arange(n) % k)
    truth = {"means": centres, "widths": widths, "weights": np.bincount(which) / n}
    return rng.normal(centres[which], widths[which]), truth


@cache
def parkinsons() -> np.ndarray:
    """195 recordings of voices, 22 features each: their two principal components."""
    return np.asarray(PCA(2).fit_transform(load_parkinsons().drop("name", "status").to_numpy()))


def started(X: np.ndarray, k: int, start: int, **more: Any) -> GaussianMixture:
    """The paper's start: random means, unit covariances (of the data's size), equal weights."""
    rng = np.random.default_rng([k, start])
    spread = X.std(axis=0)
    return GaussianMixture(
        k,
        epsilon=None,
        weights_init=np.full(k, 1 / k),
        means_init=X.mean(axis=0) + rng.uniform(-2, 2, (k, 2)) * spread,
        precisions_init=np.stack([np.diag(1 / spread**2)] * k),
        **{"tol": STOP / len(X), "max_iter": MOST_ITERATIONS, **more},
    )


def federation(pieces: Sequence[np.ndarray], protocol: str, **terms: Any) -> Federation:
    """Clients with these rows; protocols as of :func:`fitted`."""
    protection = {"fem": "plain", "ppem": "ckks"}.get(protocol, protocol)
    parties = [Party(rows, f"client {i}") for i, rows in enumerate(pieces)]
    if protection == "masked":
        terms = {"bounds": BOUNDS, "rows": 10_000, **terms}
    return Federation(parties, protection=protection, minimum=min(3, len(parties)), **terms)


def dealt(X: np.ndarray, clients: int) -> list[np.ndarray]:
    """Rows dealt to clients."""
    return [X[i::clients] for i in range(clients)]


def fitted(X: np.ndarray, k: int, start: int, protocol: str, clients: int, **more: Any) -> Any:
    """A fit, and what an iteration of it costs: CPU seconds of all clients and the server.

    ``protocol`` is ``"central"`` (all rows in one place), ``"fem"`` (federated EM in the clear),
    ``"ppem"`` (as printed) or a protection of privem.
    """
    data = X if protocol == "central" else federation(dealt(X, clients), protocol)
    began = time.process_time()
    model = started(X, k, start, **more).fit(data)
    # Two more rounds find the mean and the scale of the data.
    model.seconds_ = (time.process_time() - began) / (model.n_iter_ + 2)
    return model


def apart(one: Any, other: Any, X: np.ndarray) -> float:
    """Largest difference of two fits: weights, means and covariances in units of the data."""
    spread = X.std(axis=0)
    return max(
        np.abs(one.weights_ - other.weights_).max(),
        np.abs((one.means_ - other.means_) / spread).max(),
        np.abs((one.covariances_ - other.covariances_) / np.outer(spread, spread)).max(),
    )
