"""Taking known noise out of the eigenvalues of a released matrix: free post-processing.

A released second moment is M = S + E, where E is symmetric Gaussian noise of known size. Noise
spreads eigenvalues: those of E alone lie on a semicircle of radius sqrt(2 d) deviations. And it
turns eigenvectors, so that S has less variance along an eigenvector v of M than the eigenvalue
says. What a covariance needs there is v' S v. For noise that prefers no direction, that is, in the
limit of many features (Ledoit and Peche 2011; Bun, Allez, Bouchaud and Potters 2016),

    v_i' S v_i = x_i - 2 t H(x_i),    H(x) = (1/d) sum_j 1 / (x - x_j),

where x_1 .. x_d are the eigenvalues of M and t = d deviation^2 / 2 is the variance of the
semicircle. No guess of how many eigenvalues are signal is needed: pure noise comes out at zero, an
eigenvalue alone at distance x from the noise at sqrt(x^2 - 4 t), and without noise nothing changes.
The sum of the eigenvalues, the total variance, is kept.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import isotonic_regression

from ..tree import Array
from .shrink import soften_each

__all__ = ["clean", "clean_eigenvalues"]

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
