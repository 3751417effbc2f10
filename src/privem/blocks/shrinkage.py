"""What is done to noisy moments after their release: free, and needed for valid parameters.

*Eigenvalues.* A released second moment is M = S + E, where E is symmetric Gaussian noise of known
size. Noise spreads eigenvalues: those of E alone lie on a semicircle of radius sqrt(2 d)
deviations. And it turns eigenvectors, so that S has less variance along an eigenvector v of M than
the eigenvalue says. What a covariance needs there is v' S v. For noise that prefers no direction,
that is, in the limit of many features (Ledoit and Peche 2011; Bun, Allez, Bouchaud and Potters
2016),

    v_i' S v_i = x_i - 2 t H(x_i),    H(x) = (1/d) sum_j 1 / (x - x_j),

where x_1 .. x_d are the eigenvalues of M and t = d deviation^2 / 2 is the variance of the
semicircle. No guess of how many eigenvalues are signal is needed: pure noise comes out at zero, an
eigenvalue alone at distance x from the noise at sqrt(x^2 - 4 t), and without noise nothing changes.
The sum of the eigenvalues, the total variance, is kept.

*Merging.* Components of a mixture that are most alike are merged, so that fewer are left.
Components i and j of weights w_i and w_j are replaced by one of both weights that has the mean
parameters of both together. By the convexity of the Kullback-Leibler divergence the mixture loses
at most

    (w_i + w_j) H(ij) - w_i H(i) - w_j H(j)

nats a record, where H is the entropy of a component, up to what is linear in its mean parameters
(Runnalls 2007, "Kullback-Leibler approach to Gaussian mixture reduction"). The pair for which that
is least is merged, again and again. All of it is arithmetic on a mixture that was released.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import chi2

from ..linalg import Array

Groups = list[list[int]]

_WIDEST = 1e4  # clip radius squared, over the least one


def clip_radius(
    d: int, tail: float = 3.0, noise: float = math.inf, tolerated: float = 0.0
) -> float:
    """How far whitened records may lie from their component.

    A Gaussian record lies further out with a probability of about exp(-tail). ``noise`` is the
    relative noise of the second moments at that radius; it grows with the radius squared, so where
    it is below what is ``tolerated`` the radius is widened until it is not, and with no noise at
    all nothing is clipped.
    """
    least = d + 2 * math.sqrt(tail * d) + 2 * tail
    return math.sqrt(least * min(max(1.0, tolerated / noise), _WIDEST))


@lru_cache(maxsize=256)
def consistency(d: int, radius: float) -> float:
    """Mean squared coordinate of a standard Gaussian pulled onto a ball; at most one."""
    inside = chi2.cdf(radius**2, d + 2)
    return float(inside + radius**2 / d * chi2.sf(radius**2, d))


def james_stein(moves: Array, variance: Array) -> Array:
    """Shrink each row of ``moves`` (K, d) towards zero by what its noise explains.

    ``variance`` (K,): of the noise on each entry. Without this, noise moves the means a little in
    every iteration and low-epsilon fits collapse.
    """
    explained = moves.shape[1] * variance / np.maximum(np.sum(moves**2, axis=1), 1e-300)
    return np.asarray(moves * np.maximum(0.0, 1.0 - explained)[:, None])


def stands_out(step: Array, variance: float, size: float) -> Array:
    """A step less what its noise, of this variance in each entry, explains or may explain.

    James and Stein take off the expected squared length of the noise. Where that is larger than
    ``size``, the square of what a step may sensibly be (the residuals' variance), whatever is left
    over is likely to be noise too: up to two deviations more are taken off.
    """
    d = step.size
    doubt = min(2.0, d * variance / max(size, 1e-300))
    explained = variance * (d + doubt * math.sqrt(2 * d))
    return np.asarray(step * max(0.0, 1.0 - explained / max(float(np.sum(step**2)), 1e-300)))


def kept_share(away: Array, numbers: int, deviation: float) -> float:
    """James' and Stein's factor for so many numbers with noise of this deviation."""
    return max(0.0, 1.0 - numbers * deviation**2 / max(float(np.sum(away**2)), 1e-300))


def multiples(
    counts: Array, level: Array, times: Array, first: Array, rounds: int, before: Array | float = 0
) -> Array:
    """How likely each of many counts is each multiple of its level, (counts, multiples).

    The law of the multiples is whatever it is: the likeliest is found by EM (Kiefer and Wolfowitz
    1956), and each count then has its own by Bayes.

    Parameters
    ----------
    counts, level : array of shape (n,)
        Noisy counts and their levels, in deviations of the noise.
    times : array of shape (m,)
        The multiples.
    first : array of shape (m,)
        Their probabilities at first.
    rounds : int
    before : array of shape (m,), optional
        Counts of each multiple that are there before any is seen.

    Examples
    --------
    >>> import numpy as np
    >>> counts, level = np.array([0.1, -1.2, 0.7, 9.2, 10.4, 11.0]), np.full(6, 10.0)
    >>> multiples(counts, level, np.array([0.0, 1.0]), np.full(2, 0.5), 20).argmax(axis=1)
    array([0, 0, 0, 1, 1, 1])
    """
    away = counts[:, None] - level[:, None] * times
    away *= away
    away -= away.min(axis=1, keepdims=True)
    likely = np.exp(-0.5 * away)
    law = first
    for _ in range(rounds):
        law = law * ((1 / np.maximum(likely @ law, 1e-300)) @ likely) + before
        law = law / law.sum()
    likely *= law
    return np.asarray(likely / np.maximum(likely.sum(axis=1, keepdims=True), 1e-300))


def rounder(matrix: Array, deviation: float) -> tuple[Array, float]:
    """A symmetric matrix shrunk towards a multiple of the identity by what its noise explains.

    James' and Stein's estimator for what is left of it without its trace, which is an average and
    has the least noise. ``deviation``: of the noise on an svec entry. Also returns the part of the
    matrix, and so of its noise, that was kept.
    """
    d = len(matrix)
    level = np.trace(matrix) / d * np.eye(d)
    away = matrix - level
    kept = kept_share(away, d * (d + 1) // 2 - 1, deviation)
    return level + kept * away, kept


def operator_noise(d: int, deviation: Array | float) -> Array:
    """Typical operator norm of a symmetric noise matrix whose svec entries have this deviation."""
    return np.asarray(2 * math.sqrt(d / 2) * np.asarray(deviation))


def soften(matrix: Array, low: Array | float, noise: Array | float, high: Array | float) -> Array:
    """Eigenvalues kept between bounds, and smoothly away from zero at the size of their noise.

    Of one symmetric matrix, or of a stack of them, each with its own limits or all with the same.
    """
    values, vectors = np.linalg.eigh((matrix + np.swapaxes(matrix, -1, -2)) / 2)
    low, noise, high = (np.asarray(x)[..., None] for x in (low, noise, high))
    values = soften_each(values, low, noise, high)
    return np.asarray((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def soften_each(
    values: Array, low: Array | float, noise: Array | float, high: Array | float
) -> Array:
    """As :func:`soften`, for variances."""
    return np.clip(0.5 * (values + np.sqrt(values**2 + np.square(noise))), low, high)


_ROWS = 256  # of the d x d differences of eigenvalues at a time


def clean_eigenvalues(values: Array, deviation: float) -> tuple[Array, Array]:
    """What the eigenvalues would be without noise, and about how far off each may still be.

    Parameters
    ----------
    values : array of shape (d,)
        Eigenvalues of the released matrix, ascending.
    deviation : float
        Of the noise on each :func:`privem.linalg.svec` entry.

    Returns
    -------
    cleaned, error : arrays of shape (d,)
        ``cleaned`` ascends as well, with the same sum. It may be negative.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(200, 200)) / 2
    >>> values = np.linalg.eigvalsh(noise + noise.T)  # deviation 1: up to 20
    >>> cleaned, _ = clean_eigenvalues(values, 1.0)
    >>> bool(values[-1] > 19), bool(np.abs(cleaned).max() < 5)
    (True, True)
    """
    d = len(values)
    # Blurred at the distance between neighbours, below which the limit says nothing.
    blur = deviation**2 / 2
    pull = np.empty(d)
    for start in range(0, d, _ROWS):
        apart = values[start : start + _ROWS, None] - values
        pull[start : start + _ROWS] = (apart / (apart**2 + blur)).sum(axis=1)
    # The order of variances along eigenvectors is that of the eigenvalues; blocks of equals average
    # out chance, and a mean over b of them errs sqrt(b) times less.
    ordered = isotonic_regression(values - deviation**2 * pull)
    sizes = np.diff(ordered.blocks)
    return np.asarray(ordered.x), deviation / np.sqrt(np.repeat(sizes, sizes))


def clean(matrix: Array, deviation: float, typical: float, low: float, high: float) -> Array:
    """The matrix with cleaned eigenvalues, between bounds and away from zero by their errors.

    Total: any finite symmetric matrix gives a positive definite one.

    Parameters
    ----------
    matrix : array of shape (d, d)
    deviation : float
        Of the noise on each :func:`privem.linalg.svec` entry.
    typical : float
        A variance to expect before looking: what the noise leaves unknown is drawn to it.
    low, high : float
        Between which eigenvalues end.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    cleaned, error = clean_eigenvalues(values, deviation)
    # As the mean of two guesses: what was released, and `typical` give or take as much again.
    cleaned = cleaned + (typical - cleaned) * error**2 / (error**2 + typical**2)
    error = error * typical / np.hypot(error, typical)
    return np.asarray((vectors * soften_each(cleaned, low, 2 * error, high)) @ vectors.T)


def alike(members: Iterable[int], components: int, part: Callable[[list[int]], float]) -> Groups:
    """Components in so many groups; ``part``: the weight of a group times its entropy.

    Examples
    --------
    >>> rates = np.array([1.0, 9.0, 1.1])
    >>> alike(range(3), 2, lambda group: len(group) * float(np.log(np.mean(rates[group]))))
    [[0, 2], [1]]
    """
    groups = [[k] for k in members]
    parts = [part(group) for group in groups]
    while len(groups) > components:
        together = {
            (i, j): part(groups[i] + groups[j]) for j in range(len(groups)) for i in range(j)
        }
        i, j = min(together, key=lambda pair: together[pair] - parts[pair[0]] - parts[pair[1]])
        parts[i] = together[i, j]
        groups[i] = groups[i] + groups.pop(j)
        parts.pop(j)
    return groups


def weights_of(weights: Array, groups: Groups) -> Array:
    """What groups weigh, in all one."""
    found = np.array([weights[group].sum() for group in groups])
    return np.asarray(found / found.sum())


def means_of(weights: Array, values: Array, groups: Groups) -> Array:
    """The mean of each group's rows.

    Examples
    --------
    >>> means_of(np.array([0.2, 0.2, 0.6]), np.array([[1.0], [3.0], [9.0]]), [[0, 1], [2]])
    array([[2.],
           [9.]])
    """
    return np.stack([weights[group] @ values[group] / weights[group].sum() for group in groups])
