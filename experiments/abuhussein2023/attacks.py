"""What the messages of federated EM tell about records, read off them by really doing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tenseal
from scipy.optimize import least_squares, linear_sum_assignment

from privem import GaussianMixture
from privem.federation.protections.ckks import Vectors

from . import fits, printed

K, ROUNDS = 2, 10
# A record counts as recovered if it is found to a thousandth of the data's standard deviation.
FOUND = 1e-3
ATTACKERS = ("server of federated EM", "other client of PPEM")


def records() -> np.ndarray:
    """Parkinson's data, in units of its standard deviation, so that errors can be told."""
    X = fits.parkinsons()
    return np.asarray((X - X.mean(0)) / X.std(0))


def begun(X: np.ndarray, start: int) -> printed.Model:
    """The paper's start."""
    at = fits.started(X, K, start)
    return printed.Model(at.weights_init, at.means_init, np.linalg.inv(at.precisions_init))


def split(m: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """A client with m records, and everybody else's."""
    X = records()
    chosen = np.isin(np.arange(len(X)), np.random.default_rng([m, start]).choice(len(X), m, False))
    return X[chosen], X[~chosen]


def read_off(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The record of a client that has one: b = a x (the paper's section 3.2)."""
    return np.asarray(b.sum(0) / a.sum())


def solve(
    told: np.ndarray, says: Callable[[np.ndarray], np.ndarray], m: int, rng: np.random.Generator
) -> np.ndarray:
    """The m records of which ``says`` is what was told, by least squares from random guesses."""

    def misses(flat: np.ndarray) -> np.ndarray:
        return (says(flat.reshape(m, 2)) - told).ravel()

    best: Any = None
    for _ in range(40):
        found = least_squares(
            misses, rng.normal(size=2 * m), xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=200
        )
        best = found if best is None or found.cost < best.cost else best
        if best.cost < 1e-11:
            break
    return np.asarray(best.x.reshape(m, 2))


def error(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """How far each record is from what was found, whatever the order: largest difference."""
    apart = np.abs(np.atleast_2d(found)[:, None] - np.atleast_2d(true)).max(2)
    return np.asarray(apart[linear_sum_assignment(apart)])


def flat(updates: printed.Updates) -> np.ndarray:
    """Updates of one model (a vector) or of many (rows)."""
    leading = updates[0].shape[:-1]
    return np.concatenate([part.reshape(*leading, -1) for part in updates], axis=-1)


CIPHER = Vectors((("count", K), ("total", 2 * K), ("second", 4 * K)))


class Encrypted:
    """One round of PPEM: the same key for all clients, a sum of ciphertexts."""

    def __init__(self) -> None:
        self.key = tenseal.context_from(CIPHER.keys())

    def upload(self, updates: printed.Updates) -> tuple[bytes, ...]:
        """What a client sends."""
        return CIPHER.encrypt(self.key, flat(updates))

    def added(self, uploads: Sequence[tuple[bytes, ...]]) -> tuple[bytes, ...]:
        """What the server sends back."""
        opened = [[tenseal.ckks_vector_from(self.key, part) for part in each] for each in uploads]
        return tuple(sum(parts[1:], parts[0]).serialize() for parts in zip(*opened, strict=True))

    def opened(self, sealed: tuple[bytes, ...]) -> np.ndarray:
        """What anybody reads who has the key, which every client has."""
        return np.asarray(CIPHER.decrypt(self.key, sealed, 7 * K))


def each_alone(start: int) -> dict[str, Any]:
    """The server of federated EM, 195 clients with one record each, one round."""
    X = records()
    model = begun(X, start)
    found = np.array([read_off(*model.updates(x[None])[:2]) for x in X])
    errors = np.abs(found - X).max(1)
    rows = {"cell": "each_alone", "recovered": int((errors < FOUND).sum()), "error": errors.max()}
    return rows | ({"found": found.round(4)} if start == 0 else {})


def several(m: int, start: int, attacker: str) -> dict[str, Any]:
    """A client with m records, read by the server of federated EM or the other client of PPEM."""
    mine, others = split(m, start)
    models = printed.rounds([mine, others], begun(records(), start), ROUNDS)
    many = printed.Model(*(np.stack([getattr(q, f) for q in models]) for f in vars(models[0])))
    told = flat(many.updates(mine))
    if attacker == ATTACKERS[1]:
        totals = []
        for model in models:
            ppem = Encrypted()  # New keys in every round.
            both = [ppem.upload(model.updates(x)) for x in (mine, others)]
            totals.append(ppem.opened(ppem.added(both)) - flat(model.updates(others)))
        told = np.array(totals)
    rng = np.random.default_rng([m, start, 1])
    errors = error(solve(told, lambda x: flat(many.updates(x)), m, rng), mine)
    return {"error": errors.max(), "recovered": (errors < FOUND).mean()}


def with_the_key(start: int) -> dict[str, Any]:
    """The server of PPEM and one client: they open what another client has sent."""
    mine = split(1, start)[0]
    model, ppem = begun(records(), start), Encrypted()
    seen = ppem.opened(ppem.upload(model.updates(mine)))
    found = read_off(seen[:K], seen[K : 3 * K].reshape(K, 2))
    return {"cell": "with_the_key", "error": error(found, mine).max()}


def by_likelihood(m: int, start: int) -> dict[str, Any]:
    """Log-likelihoods that a client tells in the clear, and the models, which all clients know."""
    mine, others = split(m, start)
    models = printed.rounds([mine, others], begun(records(), start), ROUNDS)
    many = printed.Model(*(np.stack([getattr(q, f) for q in models]) for f in vars(models[0])))
    rng = np.random.default_rng([m, start, 2])
    errors = error(solve(many.log_likelihood(mine), many.log_likelihood, m, rng), mine)
    return {"cell": "by_likelihood", "error": errors.max(), "recovered": (errors < FOUND).mean()}


def from_the_model(protocol: str, start: int, epsilon: float | None) -> dict[str, Any]:
    """The finished model, read by people who know every record but one.

    After any M-step of EM the mixture's mean is the mean of all records, whatever carried the sums.
    """
    mine, others = split(1, start)
    X = np.concatenate([mine, others])
    if epsilon is None:
        model = fits.started(X, K, start, max_iter=1)
    else:
        model = GaussianMixture(K, epsilon=epsilon, bounds=fits.BOUNDS, random_state=start)
    members = [mine, *fits.dealt(others, 4)]
    model.fit(fits.federation(members, protocol))
    found = len(X) * model.weights_ @ model.means_ - others.sum(0)
    return {"error": error(found, mine).max(), "guess": error(others.mean(0), mine).max()}
