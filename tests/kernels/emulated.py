"""CUDA C++ run by a processor: a thread for each thread of a block. Needs a C++ compiler only.

What CUDA's own compiler makes of a kernel is compared with torch's sums whenever it is first used.
"""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")

# ``run`` runs a kernel on a grid, a block after the other; ``before``: what a block begins with.
BEFORE = """
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>
using std::exp; using std::fmax; using std::fmin; using std::log; using std::max; using std::min;
using std::sqrt; using std::trunc;
#define __constant__ static
#define __device__
#define __forceinline__ inline
#define __global__
#define __launch_bounds__(a, b)
#define __restrict__
#define __shared__ static
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct double2 { double x, y; };
struct Index { unsigned x, y; };
static thread_local Index threadIdx, blockIdx;
static Index gridDim;
static std::barrier<>* everybody;
inline void __syncthreads() { everybody->arrive_and_wait(); }
template <class F, class G>
void run(unsigned across, unsigned down, int threads, F kernel, G before) {
    gridDim = {across, down};
    for (unsigned b = 0; b < across * down; b++) {
        std::barrier<> all(threads);
        everybody = &all;
        before();
        std::vector<std::thread> running;
        for (unsigned t = 0; t < (unsigned)threads; t++)
            running.emplace_back([=, &all] {
                threadIdx = {t, 0};
                blockIdx = {b % across, b / across};
                kernel();
                all.arrive_and_drop();
            });
        for (auto& thread : running) thread.join();
    }
}
template <class F> void run(unsigned across, unsigned down, int threads, F kernel) {
    run(across, down, threads, kernel, [] {});
}
"""


def compiled(folder, source, name="kernel"):
    """A kernel with what calls it as a library of this processor."""
    text, library = folder / f"{name}.cpp", folder / f"{name}.so"
    text.write_text(BEFORE + source)
    options = ["-O1", "-std=c++20", "-fPIC", "-shared", "-pthread", "-w", "-ffp-contract=off"]
    subprocess.run(["g++", *options, text, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def pointers(*arrays):
    """Arrays as C takes them; whoever calls must hold on to them."""
    return [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]


def spoilt(X, short):
    """Rows some of which hold what is no number, in float32 or float64."""
    X[5], X[6, 0], X[7], X[8, -1] = np.nan, np.inf, 1e30, -np.inf
    return X.astype(np.float32 if short else np.float64)
