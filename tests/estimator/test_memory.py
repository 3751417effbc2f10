"""Working memory does not grow with the rows (n = 1e7 is in the benchmarks)."""

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from privem import FactorAnalysis, GaussianMixture, KMeans

MB = 2**20
ESTIMATORS = {
    "full": GaussianMixture(5, max_iter=2, tol=0, epsilon=None),
    "direct": GaussianMixture(5, max_iter=2, tol=0, means_init=1e4 * np.eye(5, 10), epsilon=None),
    "random": GaussianMixture(
        5, max_iter=2, tol=0, init_params="random", random_state=0, epsilon=None
    ),
    "KMeans": KMeans(5, max_iter=3, tol=0, epsilon=None),
    "FactorAnalysis": FactorAnalysis(3, epsilon=None),
}


def traced_peak(estimator, X):
    """Bytes allocated at the highest point of a fit, outputs included."""
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("name", ESTIMATORS)
def test_working_memory_is_small_and_constant(name):
    estimator = ESTIMATORS[name].set_params(n_jobs=2)
    X = np.random.default_rng(0).normal(size=(400_000, 10)).astype(np.float32)
    peaks = [traced_peak(estimator, X[:n]) for n in (100_000, 400_000)]
    assert max(peaks) < 32 * MB
    assert abs(peaks[1] - peaks[0]) < 2 * MB
