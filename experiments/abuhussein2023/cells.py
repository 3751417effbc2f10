"""The pieces of work behind the claims, other than the attacks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tenseal

from privem import GaussianMixture

from .attacks import CIPHER
from .fits import BOUNDS, apart, clusters, dealt, federation, fitted, parkinsons, started

Row = dict[str, Any]


def row(n: int, k: int, clients: int, draw: int, encrypted: bool) -> Row:
    """A row of Table 1: federated EM in the clear (FEM) and, if encrypted, PPEM as printed."""
    X, _ = clusters(n, k, draw)
    found: Row = {}
    for name in ("fem", "ppem")[: 1 + encrypted]:
        model = fitted(X, k, draw, name, clients)
        found |= {
            name: model.lower_bound_ * n,
            f"{name} iterations": model.n_iter_,
            f"{name} seconds": model.seconds_,
        }
    return found


def voices(start: int, clients: int, k: int = 2) -> Row:
    """Parkinson's data: both protocols from the same start, and how far apart they are."""
    X = parkinsons()
    fem, ppem = (fitted(X, k, start, name, clients) for name in ("fem", "ppem"))
    central = fitted(X, k, start, "central", 1)
    return {
        "apart": apart(fem, ppem, X),
        "from central": apart(central, ppem, X),
        "fem": np.array(fem.lower_bounds_) * len(X),
        "ppem": np.array(ppem.lower_bounds_) * len(X),
        "weights": ppem.weights_,
        "means": ppem.means_,
        "covariances": ppem.covariances_,
    }


def curves(n: int, k: int, draw: int, clients: int, rounds: int) -> Row:
    """Log-likelihood of each record, in each iteration: all of FEM's, the first of PPEM's."""
    X, _ = clusters(n, k, draw)
    fem = fitted(X, k, draw, "fem", clients)
    ppem = fitted(X, k, draw, "ppem", clients, max_iter=rounds)
    return {"fem": fem.lower_bounds_, "ppem": ppem.lower_bounds_}


def found(n: int, k: int, clients: int, draw: int, rounds: int) -> Row:
    """Where PPEM ends after so many rounds, and how well EM finds the clusters in the end."""
    X, truth = clusters(n, k, draw)
    fem, ppem = (fitted(X, k, draw, name, clients, max_iter=rounds) for name in ("fem", "ppem"))
    end = fitted(X, k, draw, "central", 1)
    return {
        "apart": apart(fem, ppem, X),
        "iterations": ppem.n_iter_,
        "whole": end.n_iter_,
        "excess": likelihood(X, truth) - end.score(X),
        "excess here": likelihood(X, truth) - ppem.score(X),
        "means": ppem.means_,
        "covariances": ppem.covariances_,
    }


def likelihood(X: np.ndarray, truth: Mapping[str, np.ndarray]) -> float:
    """Of each record, on average, under the mixture that it comes from."""
    apart = (X[:, None] - truth["means"]) / truth["widths"]
    logs = np.log(truth["weights"] / (2 * np.pi * truth["widths"].prod(1))) - (apart**2).sum(2) / 2
    return float(np.logaddexp.reduce(logs, axis=1).mean())


class Counting:
    """A transport that counts the bytes of all messages, there and back."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.bytes = inner, 0

    def exchange(self, mail: Mapping[str, bytes]) -> dict[str, bytes]:
        """As the transport inside."""
        replies: dict[str, bytes] = self.inner.exchange(mail)
        self.bytes += sum(map(len, mail.values())) + sum(map(len, replies.values()))
        return replies


def cost(n: int, k: int, clients: int, protocol: str, repetition: int) -> Row:
    """CPU milliseconds and bytes of an iteration, of all clients and the server together.

    The difference of two fits, without what comes before the iterations (``before``, in
    milliseconds). Making keys takes much longer than an iteration of privem's encrypted sums, and
    not always as long, so that only PPEM has few of them.
    """
    X, _ = clusters(n, k, repetition)
    spent: list[tuple[float, int]] = []
    more = 3 if protocol == "ppem" else 60
    for iterations in (2, 2 + more):
        data = federation(dealt(X, clients), protocol)
        data.transport = transport = Counting(data.transport)
        began = time.process_time()
        started(X, k, repetition, max_iter=iterations, tol=0.0).fit(data)
        spent.append((time.process_time() - began, transport.bytes))
    (first, few), (second, many) = spent
    each = (second - first) / more
    return {
        "ms": 1e3 * each,
        "before": 1e3 * (first - 2 * each),
        "bytes": (many - few) / more / clients,
    }


def steps(repetition: int, rounds: int = 10) -> Row:
    """What a client does in a round of PPEM, as shares of its CPU time."""
    rng = np.random.default_rng(repetition)
    shares = {"keys": 0.0, "encrypt": 0.0, "write": 0.0, "read": 0.0, "decrypt": 0.0}
    for _ in range(rounds):
        clock = [time.process_time()]
        key = tenseal.context_from(CIPHER.keys())
        clock.append(time.process_time())
        vectors = [
            tenseal.ckks_vector(key, rng.normal(size=len(p)), 2.0**40) for p in CIPHER.places
        ]
        clock.append(time.process_time())
        sent = [vector.serialize() for vector in vectors]
        clock.append(time.process_time())
        back = [tenseal.ckks_vector_from(key, part) for part in sent]
        clock.append(time.process_time())
        for vector in back:
            vector.decrypt()
        clock.append(time.process_time())
        for name, took in zip(shares, np.diff(clock), strict=True):
            shares[name] += 1e3 * took / rounds
    return {"cell": "steps", **shares}


def quality(n: int, draw: int, method: str, epsilon: float | None = None, clients: int = 10) -> Row:
    """How much less likely new records are under a fit than under the truth."""
    X, truth = clusters(n, 3, draw)
    rng = np.random.default_rng([n, draw, 7])
    which = rng.choice(3, 20_000, p=truth["weights"])
    new = rng.normal(truth["means"][which], truth["widths"][which])
    if method == "fem":
        model = fitted(X, 3, draw, "fem", clients)
    else:
        data = {
            "alone": X[: n // clients],
            "central": X,
            "masked": federation(dealt(X, clients), "masked"),
        }[method]
        model = GaussianMixture(3, epsilon=epsilon, bounds=BOUNDS, random_state=draw).fit(data)
    return {"excess": likelihood(new, truth) - model.score(new)}


def exact(clients: int, draw: int, protection: str, n: int = 2000, k: int = 3) -> Row:
    """How far a fit with protected sums is from the fit of all rows in one place."""
    X, _ = clusters(n, k, draw)
    central, ours = (fitted(X, k, draw, name, clients) for name in ("central", protection))
    same = central.n_iter_ == ours.n_iter_
    return {"apart": apart(central, ours, X), "same iterations": same}
