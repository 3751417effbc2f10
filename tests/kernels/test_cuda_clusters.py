"""``clusters.cu`` run by a processor."""

import ctypes

import numpy as np
import pytest

from privem.blocks.region import Region
from privem.data.sums import ArrayRows, LocalSource
from privem.kernels import cuda_clusters
from privem.kernels.cuda_clusters import Clusters
from privem.linalg import ravel
from privem.models.kmeans.query import (
    BoundedClusterQuery,
    BoundedClusterSums,
    whitened_weights,
)

from .emulated import compiled, needs_compiler, pointers, spoilt

AFTER = """
extern "C" void go(const IN* rows, const double* sides, const double* centres, double step,
                   double spread, double reach, double* out, long long n, int blocks) {
    memcpy(box, sides, sizeof(box));
    memcpy(table, centres, sizeof(table));
    run(blocks, 1, THREADS, [=] { clusters(rows, step, spread, reach, out, n); });
}
"""
BLOCKS = 2


def launched(folder, shape, X, query):
    """Sums (K, 1 + d) and the pooled square, by two blocks of two threads."""
    library = compiled(folder, shape.source() + AFTER)
    region, centres = query.region, query.lattice_centres
    half = -0.5 * (centres**2).sum(axis=1, keepdims=True)
    out = np.zeros((2, shape.numbers, BLOCKS * cuda_clusters._THREADS))
    sides = np.stack([region.centre, 1 / region.scale, region.limit])
    given = [X, sides, np.concatenate([half, centres], axis=1)]
    scalars = (query.step, query.spread, query.spread * query.weights.radius)
    library.go(
        *pointers(*given),
        *(ctypes.c_double(v) for v in scalars),
        *pointers(out),
        ctypes.c_longlong(len(X)),
        BLOCKS,
    )
    found = out.sum(axis=(0, 2))
    return found[:-1].reshape(shape.k, 1 + shape.d), found[-1]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("recipe", ["whitened", "joint"])
@pytest.mark.parametrize(("d", "k"), [(10, 10), (3, 4)])
def test_private_sums_are_within_the_charged_rounding(d, k, recipe, short, tmp_path, monkeypatch):
    monkeypatch.setattr(cuda_clusters, "_THREADS", 2)
    rng = np.random.default_rng(3)
    X = spoilt(3 * rng.standard_normal((2777, d)), short)
    region = Region.box(np.full(d, -8.0), np.full(d, 9.0))
    centres = rng.uniform(-0.5, 0.5, (k, d))
    centres[2] = centres[1]  # a tie goes to the lowest index
    query = BoundedClusterQuery(centres, region, whitened_weights(d, 2.0), 0.1, recipe)
    shape = Clusters(d, k, short, query.local)
    (found, square), w = launched(tmp_path, shape, X, query), query.weights
    released = np.asarray([w.w2 * square]) if query.local else None
    ours = BoundedClusterSums(w.w0 * found[:, 0], w.w1 * found[:, 1:], released)
    theirs = LocalSource(ArrayRows(X)).total(query, private=True)
    assert (ours.count == theirs.count).all()
    assert ours.count[2] == 0
    assert np.linalg.norm(ravel(ours) - ravel(theirs)) <= 2 * query.rounding(len(X))
    assert np.linalg.norm(ravel(theirs)) > 1.0


def test_what_does_not_fit_shared_memory_has_no_kernel():
    assert Clusters(10, 10, False, True).resident == 2
    assert Clusters(10, 15, False, True).resident == 1
    assert Clusters(10, 40, False, True).lanes == Clusters(41, 2, False, True).lanes == 0
