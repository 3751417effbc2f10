// Private sums about each component's mean, u = W (y - m), of rows of D numbers and K components.
//
// ``shares`` pulls records into a box and finds what each component has of them, a record to a
// thread; ``moments`` adds up s g u and s g u u', a component to a warp and a record to a thread,
// so that a component's sums stay in registers. Between them lie records and shares, of as many
// records as fit the memory set aside, 32 records to a tile and column by column within one.
// ``density`` gives log-densities. There are no atomic additions: every thread has places of its
// own in what is written.
//
// Behind ``rows.cu``. Defined beforehand: D, K, KIND (1 squares, 2 their sum, 3 all products), SUMS
// (of a component), IN, SHORT, DENSITY (whether that is what is wanted), FLAT, AT_ONCE (records of a
// thread), THREADS and BLOCKS (of a processor) of ``shares``, WARPS and RESIDENT (blocks of a
// processor) of ``moments``.
//
// Products and sums that both kernels need are written out as calls, so that they find the same u
// to the last bit.

#define ENTRIES (KIND == 3 ? D * (D + 1) / 2 : D)  // of a whitener
#define BOX ((3 * D + 1) / 2)                      // pairs of numbers that describe the box
#define STRIDE ((D + ENTRIES + 2) / 2)             // pairs of a component: m, W, its constant
#define PLACE(at, width, j) (((at) / 32 * (width) + (j)) * 32 + (at) % 32)
#define PAIRED(c, p) ((p) % 2 ? (c)[(p) / 2].y : (c)[(p) / 2].x)

// Whiten differences in place; c: a component's numbers.
__device__ __forceinline__ void whiten(const double2* c, double (&y)[D]) {
#if KIND == 3
#pragma unroll
    for (int i = D - 1; i >= 0; i--) {
        double v = __dmul_rn(PAIRED(c, D + i * (i + 1) / 2), y[0]);
#pragma unroll
        for (int j = 1; j <= i; j++) v = __fma_rn(PAIRED(c, D + i * (i + 1) / 2 + j), y[j], v);
        y[i] = v;
    }
#else
#pragma unroll
    for (int j = 0; j < D; j++) y[j] = __dmul_rn(PAIRED(c, D + j), y[j]);
#endif
}

#if !DENSITY

// Add a number to a sum in memory, and what that loses to another (Knuth's TwoSum).
__device__ __forceinline__ void collect(double part, double* high, double* low) {
    const double before = *high, total = before + part, seen = total - before;
    *low += (before - (total - seen)) + (part - seen);
    *high = total;
}

// Copies to shared memory that go on while the thread works; and waiting for them.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ void fetch(double* to, const double* from) {
    const unsigned there = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(there), "l"(from) : "memory");
}
__device__ __forceinline__ void fetched() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void all_but_last() {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
}
#else
inline void fetch(double* to, const double* from) { *to = *from; }
inline void fetched() {}
inline void all_but_last() {}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    shares(const IN* __restrict__ rows, const double2* __restrict__ given, double square,
           double cap, double* __restrict__ placed, double* __restrict__ parts,
           double* __restrict__ counts, long long n) {
    __shared__ double2 held[BOX + K * STRIDE];
    __shared__ double joint[K * AT_ONCE * THREADS];
    __shared__ double found[K * THREADS];
    const long long threads = gridDim.x * (long long)THREADS;
    const long long thread = blockIdx.x * (long long)THREADS + threadIdx.x;
    for (int i = threadIdx.x; i < BOX + K * STRIDE; i += THREADS) held[i] = given[i];
    for (int k = 0; k < K; k++) found[k * THREADS + threadIdx.x] = 0;
    __syncthreads();
#define JOINT(k, a) joint[((k) * AT_ONCE + (a)) * THREADS + threadIdx.x]

    for (long long base = thread; base < n; base += AT_ONCE * threads) {
        double x[AT_ONCE][D], top[AT_ONCE], total[AT_ONCE];
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++) {
            const long long at = base + a * threads;
            load(rows, at < n ? at : n - 1, x[a]);
#pragma unroll
            for (int j = 0; j < D; j++) {
                // As Region.place, operation by operation; fmax makes NaN the lower limit.
                const double y = (x[a][j] - PAIRED(held, j)) * PAIRED(held, D + j);
                const double limit = PAIRED(held, 2 * D + j);
                x[a][j] = fmin(fmax(y, -limit), limit);
                if (at < n) placed[PLACE(at, D, j)] = x[a][j];
            }
            top[a] = -1e300;
            total[a] = 0;
        }
#pragma unroll 1
        for (int k = 0; k < K; k++) {
            const double2* c = held + BOX + k * STRIDE;
#pragma unroll
            for (int a = 0; a < AT_ONCE; a++) {
                double y[D], q = 0;
#pragma unroll
                for (int j = 0; j < D; j++) y[j] = x[a][j] - PAIRED(c, j);
                whiten(c, y);
#pragma unroll
                for (int j = 0; j < D; j++) q = __fma_rn(y[j], y[j], q);
                JOINT(k, a) = q;
                // Half of a number is exact: fused or not, this has the same bits below.
                top[a] = fmax(top[a], PAIRED(c, D + ENTRIES) - 0.5 * fmin(q, cap));
            }
        }
#pragma unroll 1
        for (int k = 0; k < K; k++) {
            const double level = PAIRED(held + BOX + k * STRIDE, D + ENTRIES);
#pragma unroll
            for (int a = 0; a < AT_ONCE; a++) {
                const long long at = base + a * threads;
                const double q = JOINT(k, a);
                const double e = exp(fmax(level - 0.5 * fmin(q, cap) - top[a], -600.0));
                total[a] += e;
                JOINT(k, a) = e;
                if (at < n) parts[PLACE(at, K + 1, k)] = e * (square / fmax(q, square));
            }
        }
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++) {
            const long long at = base + a * threads;
            total[a] = at < n ? 1.0 / total[a] : 0.0;
            if (at < n) parts[PLACE(at, K + 1, K)] = total[a];
        }
#pragma unroll 1
        for (int k = 0; k < K; k++) {
            double mine = found[k * THREADS + threadIdx.x];
#pragma unroll
            for (int a = 0; a < AT_ONCE; a++) mine += JOINT(k, a) * total[a];
            found[k * THREADS + threadIdx.x] = mine;
        }
    }
    for (int k = 0; k < K; k++) {
        double* high = counts + k * threads + thread;
        collect(found[k * THREADS + threadIdx.x], high, high + K * threads);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT)
    moments(const double* __restrict__ placed, const double* __restrict__ parts,
            const double2* __restrict__ given, double* __restrict__ out, long long n) {
    __shared__ double2 held[WARPS * STRIDE];
    __shared__ double ahead[2][D + 2][32 * WARPS];
    const int first = blockIdx.y * WARPS, k = first + threadIdx.x / 32;
    const int many = (K - first < WARPS ? K - first : WARPS) * STRIDE;
    for (int i = threadIdx.x; i < many; i += 32 * WARPS) held[i] = given[BOX + first * STRIDE + i];
    __syncthreads();
    if (k >= K) return;
    const double2* c = held + (k - first) * STRIDE;
    const long long thread = blockIdx.x * 32LL + threadIdx.x % 32, threads = gridDim.x * 32LL;

    double kept[SUMS];
#pragma unroll
    for (int p = 0; p < SUMS; p++) kept[p] = 0;
    // The next record travels while this one is worked on; each thread has room for two.
    auto fetch_record = [&](int turn, long long at) {
        if (at < n) {
#pragma unroll
            for (int j = 0; j < D; j++)
                fetch(&ahead[turn][j][threadIdx.x], placed + PLACE(at, D, j));
            fetch(&ahead[turn][D][threadIdx.x], parts + PLACE(at, K + 1, k));
            fetch(&ahead[turn][D + 1][threadIdx.x], parts + PLACE(at, K + 1, K));
        }
        fetched();
    };
    fetch_record(0, thread);
    int turn = 0;
    for (long long at = thread; at < n; at += threads, turn ^= 1) {
        fetch_record(turn ^ 1, at + threads);
        all_but_last();  // parameters are read anew after it: registers are for the sums
        double y[D];
#pragma unroll
        for (int j = 0; j < D; j++) y[j] = ahead[turn][j][threadIdx.x];
        const double part = ahead[turn][D][threadIdx.x] * ahead[turn][D + 1][threadIdx.x];
#pragma unroll
        for (int j = 0; j < D; j++) y[j] -= PAIRED(c, j);
        whiten(c, y);
#if KIND == 2
        double square = 0;
#pragma unroll
        for (int j = 0; j < D; j++) {
            square += y[j] * y[j];
            kept[j] += part * y[j];
        }
        kept[D] += part * square;
#else
#pragma unroll
        for (int i = 0; i < D; i++) {
            const double scaled = part * y[i];
            kept[i] += scaled;
#if KIND == 1
            kept[D + i] += scaled * y[i];
#else
#pragma unroll
            for (int j = 0; j <= i; j++) kept[D + i * (i + 1) / 2 + j] += scaled * y[j];
#endif
        }
#endif
    }
#pragma unroll
    for (int p = 0; p < SUMS; p++) {
        double* high = out + (p * K + k) * threads + thread;
        collect(kept[p], high, high + SUMS * K * threads);
    }
}

#else

// Log-densities, number by number in the order of GaussianLogDensity.log_joint, nothing fused. The
// box is its sides here, in the data's coordinates; NaN stays. With FLAT there is one more component,
// whose log-density is the same everywhere.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    density(const IN* __restrict__ rows, const double2* __restrict__ given,
            double* __restrict__ out, long long n) {
    __shared__ double2 held[BOX + K * STRIDE];
    __shared__ double joint[K * THREADS];
    for (int i = threadIdx.x; i < BOX + K * STRIDE; i += THREADS) held[i] = given[i];
    __syncthreads();
    const long long threads = gridDim.x * (long long)THREADS;
    for (long long at = blockIdx.x * (long long)THREADS + threadIdx.x; at < n; at += threads) {
        double x[D], top = 0, total = 0;
        load(rows, at, x);
#pragma unroll
        for (int j = 0; j < D; j++) {
            const double low = PAIRED(held, j), high = PAIRED(held, D + j);
            x[j] = x[j] < low ? low : x[j] > high ? high : x[j];
        }
#pragma unroll 1
        for (int k = 0; k < K; k++) {
            const double2* c = held + BOX + k * STRIDE;
            double y[D], square = 0;
#pragma unroll
            for (int j = 0; j < D; j++) y[j] = x[j] - PAIRED(c, j);
#pragma unroll
            for (int i = 0; i < D; i++) {
#if KIND == 3
                double z = 0;
#pragma unroll
                for (int j = 0; j <= i; j++)
                    z = __dadd_rn(z, __dmul_rn(PAIRED(c, D + i * (i + 1) / 2 + j), y[j]));
#else
                const double z = __dmul_rn(PAIRED(c, D + i), y[i]);
#endif
                square = __dadd_rn(square, __dmul_rn(z, z));
            }
            const double value = __dadd_rn(__dmul_rn(square, -0.5), PAIRED(c, D + ENTRIES));
            joint[k * THREADS + threadIdx.x] = value;
            top = k == 0 ? value : fmax(top, value);
        }
#if FLAT
        const double flat = PAIRED(held, 2 * D);
        top = fmax(top, flat);
#endif
#pragma unroll 1
        for (int k = 0; k < K; k++)
            total = __dadd_rn(total, exp(joint[k * THREADS + threadIdx.x] - top));
#if FLAT
        total = __dadd_rn(total, exp(flat - top));
#endif
        out[at] = __dadd_rn(log(total), top);
    }
}

#endif
