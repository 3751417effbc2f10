"""Federated EM in the clear as the paper prints it (its equations 1, 5 and 6). It is not private.

Its encrypted protocol is ``protection="ckks"`` of :class:`privem.federation.Federation`; here are
the vectors that go through it (equations 15 to 17).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

Updates = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Model:
    """Weights (beta), means and covariances of a mixture, or of many: leading axes."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def logs(self, x: np.ndarray) -> np.ndarray:
        """Log of weight times density, of records (last axis but one) and components (last)."""
        apart = x[:, None, :] - self.means[..., None, :, :]
        precisions = np.linalg.inv(self.covariances)
        lengths = np.einsum("...nki,...kij,...nkj->...nk", apart, precisions, apart)
        scale = np.log(self.weights) - np.linalg.slogdet(2 * np.pi * self.covariances)[1] / 2
        return np.asarray(scale[..., None, :] - lengths / 2)

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """What each client tells the server in the clear, of its records."""
        return np.asarray(logsumexp(self.logs(x), axis=-1).sum(-1))

    def updates(self, x: np.ndarray) -> Updates:
        """A client's E-step, and the a, b and C that it sends (equation 5)."""
        logs = self.logs(x)
        shares = np.exp(logs - logsumexp(logs, axis=-1, keepdims=True))
        apart = x[:, None, :] - self.means[..., None, :, :]
        b = np.einsum("...nk,ni->...ki", shares, x)
        return shares.sum(-2), b, np.einsum("...nk,...nki,...nkj->...kij", shares, apart, apart)


def m_step(found: Sequence[Updates], n: int) -> Model:
    """The server's M-step (equation 6): covariances about the means before the step."""
    a, b, c = (np.sum(each, axis=0) for each in zip(*found, strict=True))
    return Model(a / n, b / a[:, None], c / a[:, None, None])


def rounds(clients: Sequence[np.ndarray], model: Model, count: int) -> list[Model]:
    """The models that so many rounds begin with, the first one being this."""
    n, found = sum(map(len, clients)), [model]
    for _ in range(count - 1):
        found.append(m_step([found[-1].updates(x) for x in clients], n))
    return found
