"""``differences.cu`` run by a processor."""

import ctypes

import numpy as np
import pytest

from privem.blocks.region import Region
from privem.blocks.sensitivity import MomentWeights
from privem.core import Scratch
from privem.kernels.cuda_differences import Differences
from privem.kernels.whitened import by_differences
from privem.models.gaussian_mixture.density import GaussianLogDensity
from privem.models.gaussian_mixture.model import Mixture
from privem.models.gaussian_mixture.query import BoundedQuery
from privem.models.gaussian_mixture.rounding import CAP

from .emulated import compiled, needs_compiler, pointers, spoilt

# A compiler takes seconds for each shape.
pytestmark = [needs_compiler, pytest.mark.slow]

CALLS = """
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
"""
AFTER = """
#if DENSITY
extern "C" void density_of(const IN* rows, const double2* given, double* out, long long n) {
    run(2, 1, THREADS, [=] { density(rows, given, out, n); });
}
#else
extern "C" void sums_of(const IN* rows, const double2* given, double square, double cap,
                        double* placed, double* parts, double* counts, double* out, long long n,
                        long long chunk) {
    for (long long at = 0; at < n; at += chunk) {
        const long long b = n - at < chunk ? n - at : chunk;
        run(2, 1, THREADS, [=] {
            shares(rows + at * D, given, square, cap, placed, parts, counts, b);
        });
        run(3, (K + WARPS - 1) / WARPS, 32 * WARPS,
            [=] { moments(placed, parts, given, out, b); });
    }
}
#endif
"""


def built(folder, shape):
    return compiled(folder, CALLS + shape.source() + AFTER)


def a_mixture(kind, d, k):
    rng = np.random.default_rng(2)
    covariances = rng.uniform(0.03, 0.08, (k, d))
    if kind == "full":
        covariances = np.stack([np.diag(row) + 0.01 for row in covariances])
    if kind == "spherical":
        covariances = covariances[:, 0]
    return Mixture(kind, np.full(k, 1 / k), rng.uniform(-0.5, 0.5, (k, d)), covariances)


def some_rows(d, short):
    return spoilt(2 * np.random.default_rng(3).standard_normal((1777, d)), short)


SHAPES = [
    ("full", 10, 10, False),
    ("full", 3, 4, True),
    ("diag", 6, 3, True),
    ("spherical", 5, 3, False),
]


@pytest.mark.parametrize(("kind", "d", "k", "short"), SHAPES)
def test_sums_are_within_the_charged_rounding(kind, d, k, short, tmp_path):
    X, m = some_rows(d, short), a_mixture(kind, d, k)
    region = Region.box(np.full(d, -8.0), np.full(d, 9.0))
    w = MomentWeights.balanced(d, 1.2 * np.sqrt(d), diagonal=kind != "full")
    query = BoundedQuery(m, region, w, "whitened", 1e4)
    shape = Differences(query.kind, d, k, short)
    place = np.stack([region.centre, 1.0 / region.scale, region.limit])
    given = shape.given(place, m.means, m.whiteners, m.constants)
    chunk = 700
    placed, parts = np.full((704, d), np.nan), np.full((704, k + 1), np.nan)
    counts, out = np.zeros((2, k, 2 * shape.threads)), np.zeros((2, shape.sums, k, 96))
    library = built(tmp_path, shape)
    library.sums_of(
        *pointers(X, given),
        *(ctypes.c_double(v) for v in (w.radius**2, CAP)),
        *pointers(placed, parts, counts, out),
        ctypes.c_longlong(len(X)),
        ctypes.c_longlong(chunk),
    )
    found = (counts.sum(axis=(0, 2)), *shape.expanded(out.sum(axis=(0, 3))))
    expected = by_differences(
        m.means,
        m.whiteners,
        m.constants,
        X,
        lambda rows, to: region.place(rows, to, Scratch()),
        w.radius,
        CAP,
        None,
        query.kind,
        Scratch(),
    )
    ours, theirs = (
        np.concatenate([np.ravel(part) for part in (s.count, s.total, s.second)])
        for s in (query.of_sums(*query.of_differences(*sums)) for sums in (found, expected))
    )
    assert np.abs(theirs).max() > 1.0
    assert np.linalg.norm(ours - theirs) <= 2 * len(X) * query.errors.by_differences()


@pytest.mark.parametrize(("kind", "d", "k", "short"), SHAPES)
def test_log_densities_have_the_bits_of_numpy_but_for_exp_and_log(kind, d, k, short, tmp_path):
    X, m = some_rows(d, short), a_mixture(kind, d, k)
    X[:4] *= 3
    low, high = np.full(d, -2.5), np.full(d, 2.0)
    form, flat, level = "full" if kind == "full" else "square", k == 3, -4.0
    shape = Differences(form, d, k, short, entry="density", flat=flat)
    box = np.stack([low, high, np.full(d, level)])
    given = shape.given(box, m.means, m.whiteners, m.constants)
    found, n = np.full(len(X), 7.0), ctypes.c_longlong(len(X))
    built(tmp_path, shape).density_of(*pointers(X, given, found), n)
    pulled = np.clip(X.astype(np.float64), low, high)
    joint = GaussianLogDensity(m).log_joint(pulled, Scratch())
    if flat:
        joint = np.concatenate([joint, np.full((1, len(X)), level)])
    top = joint.max(axis=0)
    expected = np.log(np.exp(joint - top).sum(axis=0)) + top
    assert np.isnan(expected[5])
    assert np.isnan(found[5])
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)


def test_what_does_not_fit_has_no_kernel():
    assert Differences("full", 20, 10, False).lanes == 0
    assert Differences("square", 10, 4000, False).lanes == 0
    for kind, d, k, short in SHAPES:
        kind = {"diag": "square", "spherical": "norm"}.get(kind, kind)
        shape = Differences(kind, d, k, short)
        assert shape.lanes == 1
        for n in (1, 10**6, 10**9):
            cut = shape.launches(n, 132)
            # No thread adds up more than that before sums are collected.
            assert cut.chunk <= 1024 * min(32 * cut.across, cut.grid * shape.threads)
            assert cut.parts < 2**26
