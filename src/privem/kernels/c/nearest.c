/* One pass over rows for k-means: nearest centre, counts, sums, squared distances.
 *
 * Optional: privem/kernels/nearest.py does the same in NumPy, and gives the same answers. Plain C
 * without Python's headers, called by ctypes, which releases the lock of the interpreter. It keeps
 * no state, takes working memory from the caller and starts no threads.
 *
 * Rows are taken in tiles that stay in the first-level cache. A tile is laid out with a record in
 * each lane of a vector (lanes.h), so that scores, and which is the largest, need no sums across
 * lanes; clusters are tried from the lowest index, and a later one must be strictly better.
 *
 * Sums: records are added one after the other in pieces of PIECE, and pieces to the total. Scores:
 * columns one after the other. Neither order depends on anything but the number of rows, the
 * columns and the clusters.
 *
 * The pass is compiled for processors with and without AVX2; which one runs is found out by the
 * call. Measured: vectors of eight numbers (AVX-512) gain nothing below 32 columns or above.
 */
#include <math.h>
#include <stdint.h>
#include <stddef.h>

/* Proofs rest on IEEE arithmetic, each operation rounded to double (docs/proofs/release.md). */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "privem must not be compiled with -ffast-math or parts of it"
#endif
#if defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 2 || __FLT_EVAL_METHOD__ < 0)
#error "privem needs a processor, or flags, that round to double: -msse2 -mfpmath=sse"
#endif

/* Of which sources a library was made: hatch_build.py says it, and compiled.py compares. */
#ifndef VERSION
#define VERSION 0
#endif
#define PIECE 256
/* Above so many columns clusters, not records, are laid out along a vector; see lanes.h. */
#define WIDE 32

/* What does not change from block to block. All matrices are contiguous, (K, d). */
typedef struct {
    int64_t d, k;
    const double *origin;  /* exact: subtracted first. private: centre of the region */
    const double *centres; /* about the origin; private: on the lattice, in unit coordinates */
    const double *turned;  /* the same as (d, K), K rounded up to whole fours */
    const double *half;    /* half the squared length of each; as many, the rest infinite */
    /* private only: unit coordinates, and what a record is measured in */
    const double *inverse; /* NULL: exact */
    const double *low, *high;
    int64_t ball, local;
    double step, reach, scale, most, area; /* scale = 1/spread, most = reach^2, area = spread^2 */
} Task;

typedef struct {
    const char *rows;
    int64_t n, row_stride, column_stride; /* strides in bytes */
    int64_t single;                       /* float rather than double */
    const double *weight;                 /* NULL: one each */
    int32_t *label;                       /* NULL: not wanted */
    double *count, *total, *square;       /* (K,), (K, d), one number; added to */
    double *work;                         /* privem_nearest_work() numbers */
} Rows;

#define TILE 32
static int64_t tile(int64_t d) { return d > 256 ? 8 : TILE; }

/* Rows are padded to whole vectors of at most four numbers, and hold one number more. */
static int64_t padded(int64_t d) { return d / 4 * 4 + 4; }

int64_t privem_nearest_version(void) { return VERSION; }

/* Numbers of working memory: records twice, sums, centres and counts, five rows, and of each record
 * of a tile its distance and label. */
int64_t privem_nearest_work(int64_t d, int64_t k)
{
    const int64_t scores = tile(d) * (k / 4 * 4 + 4), lanes = padded(d) * (tile(d) + 8);
    return padded(d) * (tile(d) + 2 * k + 5) + (scores > lanes ? scores : lanes) + k + 2 * TILE + 8;
}

#define INLINE static inline __attribute__((always_inline))

#define W 2
#define V 2
#define NAME(x) x##_narrow
#define TARGET
#include "lanes.h"

#if defined(__x86_64__)
#define W 4
#define V 2
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#include "lanes.h"
#endif

/* ``narrow``: as on a processor without wide vectors, for tests. */
void privem_nearest(const Task *task, const Rows *rows, int64_t narrow)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!narrow && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        nearest_avx2(task, rows);
        return;
    }
#endif
    (void)narrow;
    nearest_narrow(task, rows);
}
