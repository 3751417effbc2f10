// One pass of EM over rows of D numbers, for K components; compiled for each (D, K, kind, type).
//
// LANES neighbouring threads share a record, each with KS of the components: its features are made
// in registers, its log joint densities (or scores) are exchanged by shuffles, and each thread adds
// responsibility times feature to sums of its own. There are no atomic additions and no shared sums:
// every thread writes its own, and whoever launched this adds them up.
//
// Defined beforehand: D, K, P (features), LANES, KS, THREADS, MOST (threads of a processor), and
//   IN      the type of the rows: float or double; SHORT 1 where it is float
//   T       the type that is computed in
//   SINGLE  1 where T is float: sums go to double every FLUSH records
//   KIND    0 linear, 1 squares, 2 their sum, 3 all products by circular offset
//   HARD    1 where a record belongs to the nearest centre, and the constant is -|c|^2/2
//   SHELVED 1 where sums lie in shared memory, a thread's own: only those of the nearest are touched
//   BOUNDED 1 for private sums: records are pulled into a box, and count less beyond a radius; T is
//           double, and sums of FLUSH records are collected with their rounding errors

#define ALL 0xffffffffu
#define FLUSH (BOUNDED ? 512 : 1024)
#define AHEAD 3  // records that are on their way to the cache; measured
#define SUMS (P + BOUNDED)  // of a component; the last is its count, where records are clipped

__constant__ T table[LANES * KS * P];  // component by component; padded components cannot win
__constant__ T middle[2 * D];          // the origin, and what float leaves of it; or the centre of
                                       // a box, and one over its scale
#if BOUNDED
__constant__ T limit[D];
__constant__ T far[1 + LANES * KS];    // half the squared radius; log joint densities at the means
#endif

#if SINGLE
#define EXP expf
#define LARGE 1e30f
#else
#define EXP exp
#define LARGE 1e150
#endif
#if SHELVED
#ifdef __CUDA_ARCH__
extern __shared__ T shelf[];
#else
static T shelf[K * P * THREADS];
#endif
#endif

struct Row {
    IN x[D];
};

__device__ __forceinline__ Row load(const IN* __restrict__ rows, long long at) {
    Row row;
    const IN* from = rows + at * D;
#if D % 4 == 0 && SHORT
#pragma unroll
    for (int j = 0; j < D; j += 4) {
        const float4 v = *reinterpret_cast<const float4*>(from + j);
        row.x[j] = v.x;
        row.x[j + 1] = v.y;
        row.x[j + 2] = v.z;
        row.x[j + 3] = v.w;
    }
#elif D % 2 == 0 && SHORT
#pragma unroll
    for (int j = 0; j < D; j += 2) {
        const float2 v = *reinterpret_cast<const float2*>(from + j);
        row.x[j] = v.x;
        row.x[j + 1] = v.y;
    }
#elif D % 2 == 0
#pragma unroll
    for (int j = 0; j < D; j += 2) {
        const double2 v = *reinterpret_cast<const double2*>(from + j);
        row.x[j] = v.x;
        row.x[j + 1] = v.y;
    }
#else
#pragma unroll
    for (int j = 0; j < D; j++) row.x[j] = from[j];
#endif
    return row;
}

// f(place, value) of every feature.
template <class F>
__device__ __forceinline__ void each(const T (&x)[D], F f) {
    f(0, (T)1);
#pragma unroll
    for (int j = 0; j < D; j++) f(1 + j, x[j]);
#if KIND == 1
#pragma unroll
    for (int j = 0; j < D; j++) f(1 + D + j, x[j] * x[j]);
#elif KIND == 2
    T square = 0;
#pragma unroll
    for (int j = 0; j < D; j++) square += x[j] * x[j];
    f(1 + D, square);
#elif KIND == 3
#pragma unroll
    for (int o = 0; o <= D / 2; o++) {
#pragma unroll
        for (int i = 0; i < D; i++) {
            // With D even the last offset meets each pair twice: the first half is kept.
            if (o == 0 || 2 * o != D || i < D / 2) f(1 + D + o * D + i, x[i] * x[(i + o) % D]);
        }
    }
#endif
}

#if !SHELVED
// Add a thread's sums to those in memory, or write them, and begin anew. Bounded ones with what
// their addition loses (Knuth's TwoSum), which lies behind them.
__device__ __forceinline__ void flush(T (&kept)[KS][SUMS], double* to, long long threads,
                                      bool first) {
#pragma unroll
    for (int s = 0; s < KS; s++)
#pragma unroll
        for (int p = 0; p < SUMS; p++) {
            const double part = (double)kept[s][p];
            kept[s][p] = 0;
#if BOUNDED
            double* lost = to + KS * SUMS * threads;
            const double high = first ? 0.0 : *to;
            const double total = high + part, seen = total - high;
            *lost = (first ? 0.0 : *lost) + ((high - (total - seen)) + (part - seen));
            *to = total;
#else
            *to = (first ? 0.0 : *to) + part;
#endif
            to += threads;
        }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, MOST / THREADS)
    sums(const IN* __restrict__ rows, const T* __restrict__ given, double* __restrict__ out,
         double* __restrict__ evidence, long long n) {
    const int lane = threadIdx.x % LANES;
    const long long each_of = gridDim.x * (long long)(THREADS / LANES);
    const long long thread = blockIdx.x * (long long)THREADS + threadIdx.x;
    const long long threads = gridDim.x * (long long)THREADS;
    out += thread;  // places of one thread lie so many threads apart
    // All threads of a warp go round together: shuffles need them all.
    long long base = blockIdx.x * (long long)(THREADS / LANES) + (threadIdx.x & ~31) / LANES;
    const int mine = (threadIdx.x & 31) / LANES;

#if SHELVED
    T* mine_there = shelf + threadIdx.x;
    for (int i = 0; i < K * P; i++) mine_there[i * THREADS] = 0;
#else
    T kept[KS][SUMS];
#pragma unroll
    for (int s = 0; s < KS; s++)
#pragma unroll
        for (int p = 0; p < SUMS; p++) kept[s][p] = 0;
#endif
#if LANES > 1 && SINGLE
    T own[KS][P];
#pragma unroll
    for (int s = 0; s < KS; s++)
#pragma unroll
        for (int p = 0; p < P; p++) own[s][p] = given[(lane * KS + s) * P + p];
#define ENTRY(s, p) own[s][p]
#elif LANES > 1
    __shared__ T held[KS * P * LANES];
    for (int i = threadIdx.x; i < KS * P * LANES; i += THREADS)
        held[i] = given[(i % LANES) * KS * P + i / LANES];
    __syncthreads();
#define ENTRY(s, p) held[((s) * P + (p)) * LANES + lane]
#else
#define ENTRY(s, p) table[(s) * P + (p)]
#endif

    double likelihood = 0;
#if !HARD && !BOUNDED
    T product = 1;  // of totals: its logarithm is taken when it is large, not for each record
#endif
    int since = 0;
    bool first = true;
    Row next;
    if (base < n) next = load(rows, min(base + mine, n - 1));
    for (; base < n; base += each_of) {
        const long long at = base + mine;
        const bool counts = at < n;
        T x[D];
#pragma unroll
        for (int j = 0; j < D; j++) {
            x[j] = next.x[j] - middle[j];
#if BOUNDED
            // As Region.place, operation by operation; fmax makes NaN the lower limit.
            x[j] = fmin(fmax(x[j] * middle[D + j], -limit[j]), limit[j]);
#elif SINGLE
            x[j] -= middle[D + j];
#endif
        }
        if (base + each_of < n) next = load(rows, min(at + each_of, n - 1));
#ifdef __CUDA_ARCH__
        // Registers are for one record more; those after it come nearer, into the cache.
        if (at + AHEAD * each_of < n) {
            const IN* later = rows + (at + AHEAD * each_of) * D;
#pragma unroll
            for (int j = 0; j < D; j += 128 / (int)sizeof(IN))
                asm volatile("prefetch.global.L2 [%0];" ::"l"(later + j));
        }
#endif

        T score[KS];
#pragma unroll
        for (int s = 0; s < KS; s++) score[s] = 0;
        each(x, [&](int p, T value) {
#pragma unroll
            for (int s = 0; s < KS; s++) score[s] += ENTRY(s, p) * value;
        });
        T top = score[0];
#if HARD
        int label = lane * KS;
#pragma unroll
        for (int s = 1; s < KS; s++) {
            if (score[s] > top) {
                top = score[s];
                label = lane * KS + s;
            }
        }
#pragma unroll
        for (int off = 1; off < LANES; off *= 2) {
            const T other = __shfl_xor_sync(ALL, top, off);
            const int its = __shfl_xor_sync(ALL, label, off);
            if (other > top || (other == top && its < label)) {
                top = other;
                label = its;
            }
        }
        if (!counts) label = -1;
        T square = 0;
#pragma unroll
        for (int j = 0; j < D; j++) square += x[j] * x[j];
        const T away = square - 2 * top;
        if (counts && lane == 0 && away > 0) likelihood += (double)away;
#if SHELVED
        if (counts) {
            T* to = mine_there + label * (P * THREADS);
            each(x, [&](int p, T value) { to[p * THREADS] += value; });
        }
#else
#pragma unroll
        for (int s = 0; s < KS; s++) score[s] = label == lane * KS + s ? (T)1 : (T)0;
#endif
#else
#pragma unroll
        for (int s = 1; s < KS; s++) top = max(top, score[s]);
#pragma unroll
        for (int off = 1; off < LANES; off *= 2) top = max(top, __shfl_xor_sync(ALL, top, off));
        T total = 0;
#if BOUNDED
        T beyond[KS];
#endif
#pragma unroll
        for (int s = 0; s < KS; s++) {
#if BOUNDED
            beyond[s] = fmax(far[1 + lane * KS + s] - score[s], far[0]);
            score[s] = EXP(fmax(score[s] - top, -600.0));
#else
            score[s] = EXP(score[s] - top);
#endif
            total += score[s];
        }
#pragma unroll
        for (int off = 1; off < LANES; off *= 2) total += __shfl_xor_sync(ALL, total, off);
#if !BOUNDED
        if (counts && lane == 0) {
            likelihood += (double)top;
            product *= total;
            if (product > LARGE) {
                likelihood += log((double)product);
                product = 1;
            }
        }
#endif
        const T part = counts ? (T)1 / total : (T)0;
#pragma unroll
        for (int s = 0; s < KS; s++) {
            score[s] *= part;
#if BOUNDED
            kept[s][P] += score[s];
            score[s] /= beyond[s];
#endif
        }
#endif
#if !SHELVED
        each(x, [&](int p, T value) {
#pragma unroll
            for (int s = 0; s < KS; s++) kept[s][p] += score[s] * value;
        });
        if ((SINGLE || BOUNDED) && ++since == FLUSH) {
            flush(kept, out, threads, first);
            since = 0;
            first = false;
        }
#endif
    }
#if SHELVED
    for (int i = 0; i < K * P; i++) out[i * threads] = mine_there[i * THREADS];
#else
    flush(kept, out, threads, first);
#endif
#if !HARD && !BOUNDED
    likelihood += log((double)product);
#endif
    evidence[thread] = likelihood;
}
