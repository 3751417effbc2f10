// Products of small matrices by a warp, on tensor cores, in float or double; for ``products.cu``.
//
// A matrix lies in the registers of 32 lanes. Of the left one, 16 x 8, a lane has rows g = lane / 4
// and g + 8 of columns t = lane % 4, then of column t + 4; of the right one, 8 x 8, column g of rows
// t and t + 4; of the product, 16 x 8, columns 2 t and 2 t + 1 of row g, then of row g + 8.
//
// In float each number is split into two of eleven bits, whose products tensor cores form exactly:
// low high + high low + high high, "3xTF32". What they cut off of a sum they do not round, so sums
// have to be short.
//
// Defined beforehand: T (float or double), SINGLE (1 where it is float), GROUP (warps of a group).

#ifdef __CUDA_ARCH__
// 16 bytes to shared memory, while the thread works on; and waiting for all of them.
__device__ __forceinline__ void copy(void* to, const void* from) {
    const unsigned there = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(from) : "memory");
}
__device__ __forceinline__ void copied() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Waiting for all warps of a group.
__device__ __forceinline__ void together(int group) {
#if GROUP == 1
    __syncwarp();
#else
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(32 * GROUP) : "memory");
#endif
}

// c += a b of 16 x 8 numbers and 8 x 8.
#if SINGLE
__device__ __forceinline__ float power(float exponent) {
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(exponent));
    return value;
}
__device__ __forceinline__ void mma(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
    const unsigned* u = reinterpret_cast<const unsigned*>(a);
    const unsigned* v = reinterpret_cast<const unsigned*>(b);
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(u[0]), "r"(u[1]), "r"(u[2]), "r"(u[3]), "r"(v[0]), "r"(v[1]));
}
#else
__device__ __forceinline__ void mma(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}
#endif
#endif

#if SINGLE
#define LARGE 1e30f
#define OVER(total) __fdividef(1.0f, total)
// Numbers of one side of a product, as two of eleven bits each.
template <int N>
struct Side {
    float high[N], low[N];
    __device__ __forceinline__ void put(int i, float value) {
        const unsigned bits = (__float_as_uint(value) + 0x1000u) & 0xffffe000u;
        high[i] = __uint_as_float(bits);
        low[i] = value - high[i];
    }
};
struct __align__(16) Entry {
    float high[2], low[2];
};
__device__ __forceinline__ void take(Side<2>& side, const Entry& e) {
    side.high[0] = e.high[0], side.high[1] = e.high[1];
    side.low[0] = e.low[0], side.low[1] = e.low[1];
}
#else
#define LARGE 1e150
#define OVER(total) (1.0 / (total))
#define power exp2
template <int N>
struct Side {
    double all[N];
    __device__ __forceinline__ void put(int i, double value) { all[i] = value; }
};
struct __align__(16) Entry {
    double all[2];
};
__device__ __forceinline__ void take(Side<2>& side, const Entry& e) {
    side.all[0] = e.all[0], side.all[1] = e.all[1];
}
#endif

// c[i][first + j] += a[i] b[j]. Products with small halves come first; a sum waits for its last
// product, so that these go round all of them.
template <int A, int B, int N>
__device__ __forceinline__ void multiply(T (&c)[A][N][4], const Side<4> (&a)[A],
                                         const Side<2> (&b)[B], int first) {
#define EVERY(left, right)                                                 \
    _Pragma("unroll") for (int j = 0; j < B; j++)                          \
    _Pragma("unroll") for (int i = 0; i < A; i++) if (first + j < N)       \
        mma(c[i][first + j < N ? first + j : 0], a[i].left, b[j].right);
#if SINGLE
    EVERY(low, high)
    EVERY(high, low)
    EVERY(high, high)
#else
    EVERY(all, all)
#endif
}

template <int A, int N>
__device__ __forceinline__ void clear(T (&c)[A][N][4]) {
#pragma unroll
    for (int i = 0; i < A; i++)
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) c[i][j][e] = 0;
}

template <int A, int N>
__device__ __forceinline__ void add(T (&to)[A][N][4], T (&from)[A][N][4]) {
#pragma unroll
    for (int i = 0; i < A; i++)
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) to[i][j][e] += from[i][j][e];
}
