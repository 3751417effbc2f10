"""``sums.cu`` run by a processor."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from privem.blocks.region import Region
from privem.core import Scratch
from privem.kernels import cuda
from privem.kernels.cuda import Shape
from privem.kernels.mixture import by_products, responsibility_sums
from privem.models.gaussian_mixture.model import Mixture, MixtureQuery

from .emulated import compiled, needs_compiler, pointers, spoilt

# A compiler takes seconds for each shape.
pytestmark = [needs_compiler, pytest.mark.slow]

# 32 threads and a barrier are a warp.
WARP = """
static double slots[32];
template <class V> V __shfl_xor_sync(unsigned, V value, int off) {
    const int lane = threadIdx.x & 31;
    slots[lane] = (double)value;
    __syncthreads();
    const V other = (V)slots[lane ^ off];
    __syncthreads();
    return other;
}
"""
AFTER = """
extern "C" void go(const IN* rows, const T* given, const T* placed, const T* limits, const T* fars,
                   double* out, double* evidence, long long n, int blocks) {
    memcpy(table, given, sizeof(table));
    memcpy(middle, placed, sizeof(middle));
#if BOUNDED
    memcpy(limit, limits, sizeof(limit));
    memcpy(far, fars, sizeof(far));
#endif
    run(blocks, 1, 32, [=] { sums(rows, given, out, evidence, n); });
}
"""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(cuda, "_THREADS", 32)


def launched(folder, shape, X, coefficients, middle, limit=None, far=None):
    """Sums (parts, K, p) and the evidence, by three blocks of one warp."""
    library = compiled(folder, WARP + shape.source() + AFTER)
    T = np.float32 if shape.single else np.float64
    lanes, each = shape.lanes, shape.each
    table = np.zeros((lanes * each, shape.features.size), dtype=T)
    table[:, 0] = -1e30
    table[: shape.k] = coefficients
    blocks, parts = 3, 1 + shape.bounded
    out = np.full((parts, each * shape.sums, blocks * 32 // lanes, lanes), np.nan)
    evidence = np.full(blocks * 32, np.nan)
    given = [X, table, middle, *(np.zeros(1) if v is None else v for v in (limit, far))]
    given = [X, *(np.ascontiguousarray(v, dtype=T) for v in given[1:]), out, evidence]
    library.go(*pointers(*given), ctypes.c_longlong(len(X)), blocks)
    return [cuda._of_lanes(shape, part.sum(axis=1)) for part in out], evidence.sum()


EXACT = [
    Shape("square", 10, 3, False, True, True),
    Shape("square", 3, 3, False, False, False),
    Shape("norm", 4, 3, False, False, False),
    Shape("linear", 5, 1, False, False, False),
    Shape("full", 10, 10, False, True, True),
    Shape("full", 7, 3, False, False, False),
]


@pytest.mark.parametrize("shape", EXACT, ids=lambda shape: f"{shape.kind}{shape.d}")
def test_expected_sums(shape, tmp_path):
    rng = np.random.default_rng(0)
    X = 1.5 * rng.standard_normal((1777, shape.d)) + 3
    X = X.astype(np.float32 if shape.short else np.float64)
    origin = np.full(shape.d, 3.1)
    rough = origin.astype(np.float32) if shape.single else origin
    coefficients = 0.3 * rng.standard_normal((shape.k, shape.features.size))
    middle = np.stack([rough, origin - rough])
    (found,), evidence = launched(tmp_path, shape, X, coefficients, middle)
    expected, likelihood = responsibility_sums(
        shape.features, coefficients, X.astype(np.float64), origin, None, Scratch()
    )
    apart = 2e-6 if shape.single else 1e-13
    assert np.abs(found - expected).max() <= apart * np.abs(expected).max()
    assert evidence == pytest.approx(likelihood, rel=apart)


@pytest.mark.parametrize(("d", "k", "single"), [(10, 10, True), (10, 10, False), (3, 40, False)])
def test_nearest_centres(d, k, single, tmp_path):
    rng = np.random.default_rng(1)
    shape = Shape("linear", d, k, True, single, single)
    assert (shape.lanes == 1) == (d == 10)
    assert (shape.shelved > 0) == (d == 10 and not single)
    X = rng.standard_normal((1777, d)).astype(np.float32 if single else np.float64)
    centres = rng.standard_normal((k, d))
    half = 0.5 * (centres**2).sum(axis=1, keepdims=True)
    scores = np.concatenate([-half, centres], axis=1)
    (found,), inertia = launched(tmp_path, shape, X, scores, np.zeros((2, d)))
    best = X @ centres.T - half.T
    member = best.argmax(axis=1) == np.arange(k)[:, None]
    expected = np.concatenate([member.sum(axis=1, keepdims=True), member @ X], axis=1)
    apart = 2e-6 if single else 1e-13
    assert np.abs(found - expected).max() <= apart * np.abs(expected).max()
    assert inertia == pytest.approx(((X**2).sum(axis=1) - 2 * best.max(axis=1)).sum(), rel=1e-5)


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize(("kind", "d", "k"), [("full", 10, 10), ("full", 3, 4), ("diag", 6, 3)])
def test_private_sums_are_within_the_charged_rounding(kind, d, k, short, tmp_path):
    from privem.blocks.sensitivity import MomentWeights
    from privem.models.gaussian_mixture.query import BoundedQuery

    rng = np.random.default_rng(2)
    X = spoilt(2 * rng.standard_normal((1777, d)), short)
    region = Region.box(np.full(d, -8.0), np.full(d, 9.0))
    covariances = rng.uniform(0.03, 0.08, (k, d))
    if kind == "full":
        covariances = np.stack([np.diag(row) + 0.01 for row in covariances])
    mixture = Mixture(kind, np.full(k, 1 / k), rng.uniform(-0.5, 0.5, (k, d)), covariances)
    w = MomentWeights.balanced(d, 1.2 * np.sqrt(d), diagonal=kind == "diag")
    query = BoundedQuery(mixture, region, w, "whitened", 1e4)
    linear = MixtureQuery(mixture, np.zeros(d))
    shape = Shape(linear.features.kind, d, k, False, False, short, True)
    far = np.zeros(1 + shape.lanes * shape.each)
    far[0], far[1 : 1 + k] = 0.5 * w.radius**2, mixture.constants
    middle = np.stack([region.centre, 1 / region.scale])
    (high, low), _ = launched(tmp_path, shape, X, linear.coefficients, middle, region.limit, far)
    found, size = high + low, linear.features.size
    count, sums = found[:, size], found[:, :size] * far[0]

    def place(rows, out):
        region.place(rows, out, Scratch())

    expected = by_products(
        linear.features,
        linear.coefficients,
        mixture.constants,
        X,
        place,
        w.radius,
        None,
        Scratch(),
    )
    ours, theirs = (
        np.concatenate([np.ravel(part) for part in (s.count, s.total, s.second)])
        for s in (
            query.of_sums(*query.of_products(count, sums)),
            query.of_sums(*query.of_products(*expected)),
        )
    )
    error = query.errors.by_products(linear.features, linear.coefficients, True)
    assert np.linalg.norm(ours - theirs) <= 2 * len(X) * error
    assert np.abs(theirs).max() > 1.0


def test_what_does_not_fit_the_registers_has_no_kernel():
    assert Shape("full", 20, 32, False, True, True).lanes == 0
    assert replace(EXACT[0], k=1000).lanes == 0
    for shape in EXACT:
        assert shape.lanes * shape.each >= shape.k
        assert shape.each * shape.sums <= cuda._MOST
