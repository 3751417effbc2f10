"""``products.cu`` run by a processor.

Products of tensor cores are formed from the same parts of numbers, eleven bits of each in float32.
"""

import ctypes
from math import log

import numpy as np
import pytest

from privem.core import Scratch
from privem.kernels.cuda_products import Cut, Products, by_tensor_cores, plan
from privem.kernels.mixture import Features, responsibility_sums
from privem.kernels.tensor_mixture import _responsibility_sums
from privem.kernels.tensors import Tensors, Work

from .emulated import compiled, needs_compiler, pointers

# Warps and groups of them have barriers of their own.
WARPS = """
#undef __shared__
#define __shared__
#define __align__(bytes) __attribute__((aligned(bytes)))
unsigned char memory[1 << 18];
struct Warp {
    std::barrier<> all{32};
    double slots[32], a[32][4], b[32][2];
};
static Warp warps[32];
static std::vector<std::unique_ptr<std::barrier<>>> groups;
inline unsigned __float_as_uint(float v) { unsigned u; memcpy(&u, &v, 4); return u; }
inline float __uint_as_float(unsigned u) { float v; memcpy(&v, &u, 4); return v; }
inline void together(int group) { groups[group]->arrive_and_wait(); }
inline void copy(void* to, const void* from) { memcpy(to, from, 16); }
inline void copied() {}
inline float power(float exponent) { return std::exp2(exponent); }
inline float __fdividef(float a, float b) { return a / b; }
inline double seen(float v) { return __uint_as_float(__float_as_uint(v) & 0xffffe000u); }
inline double seen(double v) { return v; }
template <class V> V __shfl_xor_sync(unsigned, V value, int off) {
    Warp& warp = warps[threadIdx.x / 32];
    const int lane = threadIdx.x & 31;
    warp.slots[lane] = (double)value;
    warp.all.arrive_and_wait();
    const V other = (V)warp.slots[lane ^ off];
    warp.all.arrive_and_wait();
    return other;
}
template <class V> void mma(V (&c)[4], const V (&a)[4], const V (&b)[2]) {
    Warp& warp = warps[threadIdx.x / 32];
    const int lane = threadIdx.x & 31;
    for (int i = 0; i < 4; i++) warp.a[lane][i] = seen(a[i]);
    for (int i = 0; i < 2; i++) warp.b[lane][i] = seen(b[i]);
    warp.all.arrive_and_wait();
    for (int e = 0; e < 4; e++) {
        const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        double sum = c[e];
        for (int k = 0; k < 8; k++)
            sum += warp.a[row % 8 * 4 + k % 4][row / 8 + k / 4 * 2] *
                   warp.b[column * 4 + k % 4][k / 4];
        c[e] = (V)sum;
    }
    warp.all.arrive_and_wait();
}
"""
AFTER = """
extern "C" void go(const T* rows, const T* middle, const Entry* table, T* given, double* out,
                   double* evidence, long long n, int blocks, int across) {
    run(blocks, across, OF_GROUP * GROUPS,
        [=] { ENTRY(rows, middle, table, given, out, evidence, n); },
        [] {
            groups.clear();
            for (int g = 0; g < GROUPS; g++)
                groups.push_back(std::make_unique<std::barrier<>>(OF_GROUP));
            memset(memory, 0xff, sizeof(memory));
        });
}
"""
BLOCKS = 2


def library(folder, shape):
    """The kernel, compiled for this processor; its shared memory is what Python counts."""
    check = f"""
extern "C" int size() {{
    const int each = STAGED + ROWS * PITCH + SHARED + KEPT;
    return COEFFICIENTS * (int)sizeof(Entry) + (MIDDLE + GROUPS * each) * (int)sizeof(T);
}}
static_assert(STEPS == {shape.steps} && WIDE == {shape.wide});
"""
    loaded = compiled(folder, WARPS + shape.source() + AFTER + check, shape.entry)
    assert loaded.size() == shape.shared
    return loaded


def launched(folder, kernels, X, coefficients, origin):
    """Sums (K, p) and the log-likelihood, by two blocks."""
    first, last = kernels[0], kernels[-1]
    T = np.float32 if first.single else np.float64
    rough = origin.astype(T)
    table = first.table(coefficients).astype(T)
    shares = np.full((len(X), first.columns), np.nan, dtype=T)
    out = np.full((BLOCKS * last.cut.groups, last.steps * 8, last.wide), np.nan)
    evidence = np.full(BLOCKS * first.threads, np.nan)
    given = [X, np.stack([rough, origin - rough]).astype(T), table, shares, out, evidence]
    for shape in kernels:
        loaded = library(folder, shape)
        loaded.go(*pointers(*given), ctypes.c_longlong(len(X)), BLOCKS, shape.across)
    return last.collected(out.sum(axis=0)), evidence.sum() * log(2.0)


def fused(d, k, single, *cut, **more):
    return (Products(d, k, single, "sums", Cut(*cut, **more)),)


def apart(d, k, single, shares, moments):
    return (Products(d, k, single, "shares", shares), Products(d, k, single, "moments", moments))


KERNELS = {
    "a warp alone": fused(10, 10, True, 3, 1, 1, 2, 32, own=2, slices=3, held=True),
    "a warp alone, double": fused(10, 10, False, 3, 1, 1, 2, 16, slices=3),
    "two slices": fused(7, 3, True, 2, 2, 2, 1, 64, own=2, slices=2),
    "more places than slices": fused(3, 20, False, 2, 1, 2, 1, 32, held=True),
    "shares first": apart(9, 5, False, Cut(3, 1, 2, 1, 64, 2), Cut(3, 1, 2, 1, 16)),
    "slices by blocks": apart(13, 18, True, Cut(2, 2, 1, 2, 16), Cut(2, 2, 2, 1, 32, slices=2)),
}


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", KERNELS)
def test_expected_sums(name, tmp_path):
    kernels = KERNELS[name]
    d, k, single = kernels[0].d, kernels[0].k, kernels[0].single
    rng, features = np.random.default_rng(0), Features("full", d)
    X = 1.5 * rng.standard_normal((403, d)) + 3
    X = X.astype(np.float32 if single else np.float64)
    origin = np.full(d, 3.1)
    coefficients = 0.3 * rng.standard_normal((k, features.size))
    found, evidence = launched(tmp_path, kernels, X, coefficients, origin)
    expected, likelihood = responsibility_sums(
        features, coefficients, X.astype(np.float64), origin, None, Scratch()
    )
    close = 2e-6 if single else 1e-13
    assert np.abs(found - expected).max() <= close * np.abs(expected).max()
    assert evidence == pytest.approx(likelihood, rel=close)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("d", [1, 2, 5, 10, 11, 20, 33, 50, 64, 99, 100])
def test_plans_fit_the_processor_and_leave_nothing_out(d, single):
    for k in range(1, 65):
        kernels = plan(d, k, single)
        assert [kernel.entry for kernel in kernels] in (["sums"], ["shares", "moments"])
        for kernel in kernels:
            cut = kernel.cut
            assert kernel.shared <= 227 * 1024
            assert kernel.threads <= 512
            assert cut.group == 1 or cut.groups < 16  # barriers of a block
            assert kernel.entry == "moments" or cut.rows == 16 * cut.own * cut.group
            assert cut.rows % 16 == 0
        last = kernels[-1]
        assert last.across * last.cut.group * last.cut.slices * last.cut.run >= last.steps
        assert len(set(last.places)) == (d + 1) * (d + 2) // 2
        assert max(last.places) < 8 * last.steps
        assert len(set(last.dealt)) == k
        assert max(last.dealt) < last.columns


def test_more_columns_or_components_have_no_kernel():
    assert plan(101, 3, True) == plan(3, 65, False) == ()


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize(("d", "k"), [(11, 5), (20, 32), (50, 10), (64, 20)])
def test_on_a_cuda_device(d, k, single):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("cupy", reason="CuPy is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    rng, features = np.random.default_rng(0), Features("full", d)
    X = rng.standard_normal((250_007, d)).astype(np.float32 if single else np.float64)
    origin, there = np.full(d, 0.1), torch.from_numpy(X).cuda()
    coefficients = 0.3 / np.sqrt(d) * rng.standard_normal((k, features.size))
    records = Tensors(there, None, Work(there.device, there.dtype))
    never = pytest.fail  # once the kernel is trusted, torch has nothing to sum

    def sums(portable):
        return by_tensor_cores(records, features, coefficients, origin, portable)

    first = sums(lambda some: _responsibility_sums(some, features, coefficients, origin))
    again = sums(never)
    expected, likelihood = responsibility_sums(
        features, coefficients, X.astype(np.float64), origin, None, Scratch()
    )
    close = 1e-5 if single else 1e-12
    assert np.abs(first[0] - expected).max() <= close * np.abs(expected).max()
    assert first[1] == pytest.approx(likelihood, rel=close)
    assert (first[0] == again[0]).all()
    assert first[1] == again[1]
