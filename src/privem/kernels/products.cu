// One pass of EM for full covariances on tensor cores; compiled for each (D, K, type).
//
// With y = (1, x) the features of a record are the products y_i y_j: a log joint density is one sum
// of them, and so is what a record adds to the sums. Both are matrix products over tiles of records,
// whose features are made in registers from records in shared memory. Pairs are cut by circular
// offset: y_i y_(i + o), o up to half of D + 1, four i and two o to a step of eight features.
//
// A group of GROUP warps shares a tile of ROWS records. Each warp finds the shares of its own
// records (SCORES), and then adds up features of its own over all of them (MOMENTS). The same kernel
// does both, or one does the one and another the other. There are no atomic additions: every group
// writes sums of its own, and whoever launched this adds them up.
//
// Sums of tensor cores are short in float: LONGEST steps of a density, FLUSH records of a moment.
//
// Defined beforehand: D, K, what ``tensor_cores.cu`` needs and has, ENTRY (the kernel's name),
// SCORES, MOMENTS, RUN and PARTS (pairs of offsets of a slice, and slices of the same i),
// GROUPS (of a block, the only one of a processor), ROWS, OWN (times 16 records of a warp),
// SLICES (of a warp), HELD (whether coefficients lie in shared memory).

#define ALL 0xffffffffu
#define LONGEST 12
#define FLUSH 128
#define DIM (D + 1)
#define CHUNKS ((DIM + 3) / 4)
#define PAIRS (RUN * PARTS)  // of offsets
#define STEPS (CHUNKS * PAIRS)
#define TILES ((K + 7) / 8)
#define HALVES ((K + 15) / 16)
#define WIDE (16 * HALVES)
// Columns of a record, y again and again; rows lie so that a warp's reads do not collide.
#define REACH (4 * CHUNKS + 2 * PAIRS - 1)
#define PITCH ((REACH + 3) / 8 * 8 + 4)
#define SHARE_PITCH (WIDE + 4)
#define OF_GROUP (32 * GROUP)
// The records that a lane has in a product of eight.
#define RECORD(t, half) (SINGLE ? 2 * (t) + (half) : (t) + 4 * (half))

// Log joint densities, by 2 as the base, of a warp's records; a lane has rows g and g + 8 of each 16.
__device__ __forceinline__ void densities(T (&score)[OWN][TILES][4], const T* y, const Entry* table,
                                          int lane) {
    const T* row = y + lane / 4 * PITCH + lane % 4;
    table += lane;
    clear(score);
#pragma unroll 1
    for (int c = 0; c < CHUNKS; c++, row += 4, table += PAIRS * TILES * 32) {
#if SINGLE
        T part[OWN][TILES][4];
        clear(part);
#else
#define part score
#endif
#pragma unroll
        for (int s = 0; s < PAIRS; s++) {
            Side<4> a[OWN];
            Side<2> b[TILES];
#pragma unroll
            for (int m = 0; m < OWN; m++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const T* from = row + (16 * m + i % 2 * 8) * PITCH;
                    a[m].put(i, from[0] * from[2 * s + i / 2]);
                }
#pragma unroll
            for (int k = 0; k < TILES; k++) take(b[k], table[(s * TILES + k) * 32]);
            multiply(part, a, b, 0);
#if SINGLE
            if (s % LONGEST == LONGEST - 1 || s == PAIRS - 1) {
                add(score, part);
                clear(part);
            }
#endif
        }
    }
#undef part
}

// Densities to shares, in place; four lanes have a record. The evidence is ``found`` and the
// logarithm of ``product``, which is taken when that is large: less often than for each record.
__device__ __forceinline__ void softmax(T (&score)[OWN][TILES][4], long long left, int lane,
                                        double& found, T& product) {
#pragma unroll
    for (int m = 0; m < OWN; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            T top = score[m][0][2 * half];
#pragma unroll
            for (int k = 0; k < TILES; k++)
                top = max(top, max(score[m][k][2 * half], score[m][k][2 * half + 1]));
            top = max(top, __shfl_xor_sync(ALL, top, 1));
            top = max(top, __shfl_xor_sync(ALL, top, 2));
            T total = 0;
#pragma unroll
            for (int k = 0; k < TILES; k++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    T& value = score[m][k][2 * half + e];
                    // Columns are dealt so that few components leave the second of two empty.
                    value = e == 0 || K - 8 * k > 4 ? power(value - top) : (T)0;
                    total += value;
                }
            total += __shfl_xor_sync(ALL, total, 1);
            total += __shfl_xor_sync(ALL, total, 2);
            const bool counts = 16 * m + 8 * half + lane / 4 < left;
            const T part = counts ? OVER(total) : (T)0;
            if (counts) {
                found += (double)top;
                product *= total;
            }
#pragma unroll
            for (int k = 0; k < TILES; k++) {
                score[m][k][2 * half] *= part;
                score[m][k][2 * half + 1] *= part;
            }
        }
    if (product > LARGE) {
        found += log2((double)product);
        product = 1;
    }
}

// sums += features of a warp's slices times the shares of ROWS records.
#if MOMENTS
#define BATCH (SINGLE ? 6 : 4)
#define BATCHES ((RUN + BATCH - 1) / BATCH)
#define AT_ONCE ((RUN + BATCHES - 1) / BATCHES)
__device__ __forceinline__ void gather(T (&sums)[SLICES][HALVES][RUN][4], const T* y,
                                        const T* shares, const int (&place)[SLICES],
                                        const int (&other)[SLICES], int lane) {
    const int g = lane / 4, t = lane % 4;
    const T* row[2] = {y + RECORD(t, 0) * PITCH, y + RECORD(t, 1) * PITCH};
    const T* share[2] = {shares + RECORD(t, 0) * SHARE_PITCH + g,
                         shares + RECORD(t, 1) * SHARE_PITCH + g};
#pragma unroll 1
    for (int q = 0; q < ROWS / 8; q++) {
        Side<4> a[HALVES];
#pragma unroll
        for (int m = 0; m < HALVES; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) a[m].put(i, share[i / 2][16 * m + i % 2 * 8]);
#pragma unroll
        for (int o = 0; o < SLICES; o++) {
            const T left[2] = {row[0][place[o]], row[1][place[o]]};
#pragma unroll
            for (int s = 0; s < RUN; s += AT_ONCE) {
                Side<2> b[AT_ONCE];
#pragma unroll
                for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
                    for (int i = 0; i < 2; i++)
                        if (s + j < RUN) b[j].put(i, left[i] * row[i][other[o] + 2 * (s + j)]);
                multiply(sums[o], a, b, s);
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            row[i] += 8 * PITCH;
            share[i] += 8 * SHARE_PITCH;
        }
    }
}
#endif

extern "C" __global__ void __launch_bounds__(OF_GROUP* GROUPS, 1)
    ENTRY(const T* __restrict__ rows, const T* __restrict__ middle, const Entry* __restrict__ table,
          T* __restrict__ given, double* __restrict__ out, double* __restrict__ evidence,
          long long n) {
    extern __shared__ __align__(16) unsigned char memory[];
    const int group = threadIdx.x / OF_GROUP, mine = threadIdx.x % OF_GROUP;
    const int lane = threadIdx.x % 32, w = GROUP == 1 ? 0 : mine / 32;
    const int g = lane / 4, t = lane % 4;

    // Shared memory: coefficients and the middle, of all groups; then of each its records as they
    // were and as they are laid out, shares, and float sums.
#define COEFFICIENTS (SCORES && HELD ? STEPS * TILES * 32 : 0)
#define MIDDLE (2 * D + 3 & ~3)
#define STAGED (ROWS * D)
#define SHARED (MOMENTS ? (SCORES ? 1 : 2) * ROWS * SHARE_PITCH : 0)
#define KEPT (MOMENTS && SINGLE ? OF_GROUP * SLICES * HALVES * RUN * 4 : 0)
    Entry* held = reinterpret_cast<Entry*>(memory);
    T* origin = reinterpret_cast<T*>(held + COEFFICIENTS);
    T* staged = origin + MIDDLE + group * (STAGED + ROWS * PITCH + SHARED + KEPT);
    T *laid = staged + STAGED, *shares = laid + ROWS * PITCH, *kept = shares + SHARED + 4 * mine;
    for (int i = threadIdx.x; i < COEFFICIENTS; i += OF_GROUP * GROUPS) held[i] = table[i];
    for (int i = threadIdx.x; i < 2 * D; i += OF_GROUP * GROUPS) origin[i] = middle[i];
    for (int r = mine; r < ROWS; r += OF_GROUP)
        for (int j = 0; j < REACH; j += DIM) laid[r * PITCH + j] = 1;
    for (int i = mine; i < SHARED; i += OF_GROUP) shares[i] = 0;  // columns that nobody has
    for (int i = 0; i < KEPT; i += 4 * OF_GROUP)
        for (int e = 0; e < 4; e++) kept[i + e] = 0;
    __syncthreads();

#define ENOUGH (16 / (int)sizeof(T))
    const long long tiles = (n + ROWS - 1) / ROWS;
    const long long place_of_group = blockIdx.x * (long long)GROUPS + group;
    const long long stride = gridDim.x * (long long)GROUPS;
    auto fetch = [&](long long tile, T* to) {
        const long long base = tile * STAGED;
        if (base + STAGED <= n * D) {
            for (int i = mine * ENOUGH; i < STAGED; i += OF_GROUP * ENOUGH)
                copy(staged + i, rows + base + i);
        } else {
            for (int i = mine; i < STAGED; i += OF_GROUP)
                staged[i] = base + i < n * D ? rows[base + i] : (T)0;
        }
#if !SCORES
        for (int i = mine * ENOUGH; i < ROWS * 8 * TILES; i += OF_GROUP * ENOUGH) {
            const int r = i / (8 * TILES), k = i % (8 * TILES);
            T* here = to + r * SHARE_PITCH + k;
            if (tile * ROWS + r < n) {
                copy(here, given + (tile * ROWS + r) * 8 * TILES + k);
            } else {
                for (int e = 0; e < ENOUGH; e++) here[e] = 0;
            }
        }
#endif
    };

#if MOMENTS
    // The slices of this warp; one too many is added up like the last, and not written.
    const int first = ((int)blockIdx.y * GROUP + w) * SLICES;
    int place[SLICES], other[SLICES];
#pragma unroll
    for (int o = 0; o < SLICES; o++) {
        const int slice = min(first + o, CHUNKS * PARTS - 1);
        place[o] = slice / PARTS * 4 + g % 4;
        other[o] = place[o] + slice % PARTS * 2 * RUN + g / 4;
    }
    T sums[SLICES][HALVES][RUN][4];
#pragma unroll
    for (int o = 0; o < SLICES; o++) clear(sums[o]);
    auto flush = [&]() {
#if SINGLE
        float4* to = reinterpret_cast<float4*>(kept);
#pragma unroll
        for (int o = 0; o < SLICES; o++) {
#pragma unroll
            for (int m = 0; m < HALVES; m++)
#pragma unroll
                for (int s = 0; s < RUN; s++, to += OF_GROUP) {
                    float4 all = *to;
                    all.x += sums[o][m][s][0];
                    all.y += sums[o][m][s][1];
                    all.z += sums[o][m][s][2];
                    all.w += sums[o][m][s][3];
                    *to = all;
                }
            clear(sums[o]);
        }
#endif
    };
    int since = 0;
#endif
#if SCORES
    double found = 0;
    T product = 1;
#endif
    int turn = 0;
    if (place_of_group < tiles) fetch(place_of_group, shares);
    for (long long tile = place_of_group; tile < tiles; tile += stride) {
        copied();
        together(group);
        for (int i = mine; i < STAGED; i += OF_GROUP) {
            const int r = i / D, j = i % D;
#if SINGLE
            const T x = staged[i] - origin[j] - origin[D + j];
#else
            const T x = staged[i] - origin[j];
#endif
#pragma unroll
            for (int m = 0; m * DIM + 1 < REACH; m++)
                if (m * DIM + 1 + j < REACH) laid[r * PITCH + m * DIM + 1 + j] = x;
        }
        together(group);
        T* of_tile = shares + turn * ROWS * SHARE_PITCH;
        turn ^= !SCORES;
        if (tile + stride < tiles) fetch(tile + stride, shares + turn * ROWS * SHARE_PITCH);
#if SCORES
        const int own = w * OWN * 16;
        const long long before = tile * ROWS + own;
        T score[OWN][TILES][4];
        densities(score, laid + own * PITCH, HELD ? held : table, lane);
        softmax(score, n - before, lane, found, product);
#pragma unroll
        for (int m = 0; m < OWN; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int r = 16 * m + 8 * half + g;
                struct __align__(2 * sizeof(T)) Two {
                    T a, b;
                };
#if MOMENTS
                T* to = shares + (own + r) * SHARE_PITCH + 2 * t;
#else
                T* to = given + (before + r) * 8 * TILES + 2 * t;
                if (before + r < n)
#endif
#pragma unroll
                    for (int k = 0; k < TILES; k++)
                        *reinterpret_cast<Two*>(to + 8 * k) =
                            Two{score[m][k][2 * half], score[m][k][2 * half + 1]};
            }
#if MOMENTS
        together(group);
#endif
#endif
#if MOMENTS
        gather(sums, laid, of_tile, place, other, lane);
        if (++since * ROWS >= FLUSH) {
            flush();
            since = 0;
        }
#endif
    }
#if SCORES
    const bool speaks = lane % 4 == 0;  // for the four lanes of a record
    evidence[blockIdx.x * (long long)(OF_GROUP * GROUPS) + threadIdx.x] =
        speaks ? found + log2((double)product) : 0;
#endif
#if MOMENTS
    flush();
#pragma unroll
    for (int o = 0; o < SLICES; o++)
#pragma unroll
        for (int m = 0; m < HALVES; m++)
#pragma unroll
            for (int s = 0; s < RUN; s++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const long long step = place_of_group * STEPS + (first + o) * RUN + s;
                    const int feature = 2 * t + e % 2, component = 16 * m + g + e / 2 * 8;
#if SINGLE
                    const T value = kept[((o * HALVES + m) * RUN + s) * 4 * OF_GROUP + e];
#else
                    const T value = sums[o][m][s][e];
#endif
                    if (first + o < CHUNKS * PARTS)
                        out[(step * 8 + feature) * WIDE + component] = (double)value;
                }
#endif
}
