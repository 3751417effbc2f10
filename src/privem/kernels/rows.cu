// How a thread reads a row; for ``clusters.cu`` and ``differences.cu``.
//
// Defined beforehand: D, IN (the type of the rows), SHORT (whether that is float).

__device__ __forceinline__ void load(const IN* __restrict__ rows, long long at, double (&x)[D]) {
    const IN* from = rows + at * D;
#if D % 2 == 0
#if SHORT
#define PAIR float2
#else
#define PAIR double2
#endif
#pragma unroll
    for (int j = 0; j < D; j += 2) {
        const PAIR v = *reinterpret_cast<const PAIR*>(from + j);
        x[j] = v.x;
        x[j + 1] = v.y;
    }
#else
#pragma unroll
    for (int j = 0; j < D; j++) x[j] = from[j];
#endif
}

