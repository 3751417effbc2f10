// Private sums of the records nearest to each centre, of rows of D numbers and K centres.
//
// A record to a thread: it is pulled into a box and put on a lattice on which scores are exact, its
// centre is found, and what it counts is added to sums of that centre, which each thread has for
// itself in shared memory. There are no atomic additions: after FLUSH records a thread adds what it
// has to places of its own in what is written, by TwoSum.
//
// Behind ``rows.cu``. Defined beforehand: D, K, IN, SHORT, LOCAL (whether records are measured from
// their centre), THREADS, RESIDENT (blocks of a processor).

#define FLUSH 448
#define AHEAD 3
#define NUMBERS (K * (D + 1) + 1)  // count and sums of each centre, and the pooled square

__constant__ double box[3 * D];           // its centre, one over its scale, and its limits
__constant__ double table[K * (D + 1)];   // -|c|^2/2 and c of each centre

#ifdef __CUDA_ARCH__
extern __shared__ double shelf[];
#else
static double shelf[NUMBERS * THREADS];
#endif

// Add a thread's sums to those in memory, with what that loses to others (Knuth's TwoSum).
__device__ __forceinline__ void flush(double* mine, double* high, long long threads) {
#pragma unroll 1
    for (int i = 0; i < NUMBERS; i++, mine += THREADS, high += threads) {
        const double part = *mine, before = *high, total = before + part, seen = total - before;
        high[NUMBERS * threads] += (before - (total - seen)) + (part - seen);
        *high = total;
        *mine = 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    clusters(const IN* __restrict__ rows, double step, double spread, double reach,
             double* __restrict__ out, long long n) {
    __shared__ double held[K * (D + 1)];
    for (int i = threadIdx.x; i < K * (D + 1); i += THREADS) held[i] = table[i];
    double* mine = shelf + threadIdx.x;
    for (int i = 0; i < NUMBERS; i++) mine[i * THREADS] = 0;
    __syncthreads();
    const long long threads = gridDim.x * (long long)THREADS;
    const long long thread = blockIdx.x * (long long)THREADS + threadIdx.x;
    double next[D], pooled = 0;
    int since = 0;
    if (thread < n) load(rows, thread, next);
    for (long long at = thread; at < n; at += threads) {
        double x[D], square = 0;
#pragma unroll
        for (int j = 0; j < D; j++) {
            // As Region.place, operation by operation; fmax makes NaN the lower limit. Then towards
            // zero, to a multiple of the step, which is a power of two.
            const double y = (next[j] - box[j]) * box[D + j], limit = box[2 * D + j];
            x[j] = trunc(fmin(fmax(y, -limit), limit) * (1.0 / step)) * step;
            square += x[j] * x[j];
        }
        if (at + threads < n) load(rows, at + threads, next);
#ifdef __CUDA_ARCH__
        if (at + AHEAD * threads < n) {
            const IN* later = rows + (at + AHEAD * threads) * D;
#pragma unroll
            for (int j = 0; j < D; j += 128 / (int)sizeof(IN))
                asm volatile("prefetch.global.L2 [%0];" ::"l"(later + j));
        }
#endif
        double top = 0;
        int label = 0;
#pragma unroll
        for (int k = 0; k < K; k++) {
            double score = table[k * (D + 1)];
#pragma unroll
            for (int j = 0; j < D; j++) score += table[k * (D + 1) + 1 + j] * x[j];
            if (k == 0 || score > top) {
                top = score;
                label = k;
            }
        }
        double* to = mine + label * ((D + 1) * THREADS);
        *to += 1;
#if LOCAL
        const double* c = held + label * (D + 1) + 1;
        const double distance = fmax(square - 2 * top, 0.0);
        const double factor = (1.0 / spread) / fmax(sqrt(distance) / reach, 1.0);
        pooled += fmin(distance, reach * reach) / (spread * spread);
#pragma unroll
        for (int j = 0; j < D; j++) to[(1 + j) * THREADS] += (x[j] - c[j]) * factor;
#else
#pragma unroll
        for (int j = 0; j < D; j++) to[(1 + j) * THREADS] += x[j];
#endif
        if (++since == FLUSH) {
            mine[(NUMBERS - 1) * THREADS] = pooled;
            flush(mine, out + thread, threads);
            pooled = 0;
            since = 0;
        }
    }
    mine[(NUMBERS - 1) * THREADS] = pooled;
    flush(mine, out + thread, threads);
}
