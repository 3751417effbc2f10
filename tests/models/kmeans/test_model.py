"""The sums of k-means against a loop over records."""

import numpy as np
import pytest

from privem.core import Block, Scratch
from privem.linalg import smat
from privem.models.kmeans.model import Clusters, NearestQuery


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_sums_inertia_and_second_moments(weighted):
    rng = np.random.default_rng(0)
    X, origin = rng.normal(size=(200, 3)), np.array([0.5, -1.0, 2.0])
    centres = np.vstack([rng.normal(size=(4, 3)), np.full((1, 3), 99.0)])  # the last stays empty
    weight = rng.uniform(0, 2, 200) if weighted else None
    sums = NearestQuery(Clusters(centres), origin, second_moments=True)(Block(X, weight), Scratch())
    count, total, second, inertia = np.zeros(5), np.zeros((5, 3)), np.zeros((5, 3, 3)), 0.0
    for i, x in enumerate(X):
        w = 1.0 if weight is None else weight[i]
        distances = np.sum((x - centres) ** 2, axis=1)
        k = int(np.argmin(distances))
        count[k] += w
        total[k] += w * (x - origin)
        second[k] += w * np.outer(x - origin, x - origin)
        inertia += w * distances[k]
    np.testing.assert_allclose(sums.count, count, rtol=1e-12)
    np.testing.assert_allclose(sums.total, total, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(smat(sums.second, 3), second, rtol=1e-11, atol=1e-12)
    assert float(sums.inertia) == pytest.approx(inertia, rel=1e-11)
