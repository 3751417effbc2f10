/* The pass of nearest.c for vectors of W numbers, V of them at a time. Included once per width. */

typedef double NAME(vec) __attribute__((vector_size(8 * W)));
typedef double NAME(anyvec) __attribute__((vector_size(8 * W), aligned(8), may_alias));
typedef int64_t NAME(whole) __attribute__((vector_size(8 * W)));
typedef int64_t NAME(anywhole) __attribute__((vector_size(8 * W), aligned(8), may_alias));
typedef int32_t NAME(narrow) __attribute__((vector_size(4 * W)));
#define vec NAME(vec)
#define anyvec NAME(anyvec)
#define whole NAME(whole)
#define LOAD(p) (*(const anyvec *)(p))
#define STORE(p) (*(anyvec *)(p))

/* ``mask`` is all ones or all zeros in each lane. NaN compares as false. */
TARGET INLINE vec NAME(choose)(whole mask, vec yes, vec no)
{
    return (vec)((mask & (whole)yes) | (~mask & (whole)no));
}

/* Scores x.c - |c|^2/2 of V W records for C clusters from k on. ``next``: rows to fetch ahead. */
TARGET INLINE void NAME(scores)(int C, const double *x, int64_t stride, const Task *task, int64_t k,
                                vec *best, whole *label, const char *next)
{
    const double *c = task->centres + k * task->d;
    const int64_t d = task->d;
    vec acc[4][V];
    for (int a = 0; a < C; a++)
        for (int v = 0; v < V; v++) acc[a][v] = (vec){0} - task->half[k + a];
    for (int64_t j = 0; j < d; j++) {
        vec xs[V];
        if (next)
            for (int line = 0; line < V * W / 8; line++)
                __builtin_prefetch(next + (j * (V * W / 8) + line) * 64);
        for (int v = 0; v < V; v++) xs[v] = LOAD(x + j * stride + v * W);
        for (int a = 0; a < C; a++)
            for (int v = 0; v < V; v++) acc[a][v] += xs[v] * c[a * d + j];
    }
    for (int a = 0; a < C; a++)
        for (int v = 0; v < V; v++) {
            whole better = acc[a][v] > best[v];
            best[v] = NAME(choose)(better, acc[a][v], best[v]);
            label[v] = (better & ((whole){0} + (k + a))) | (~better & label[v]);
        }
}

/* Labels and squared distances of a tile whose columns are ``stride`` apart.
 *
 * Not inlined: with all of the pass around it, a compiler has too few registers left. */
TARGET static __attribute__((noinline)) void NAME(assign)(
    const Task *task, const double *x, int64_t stride, int64_t b, int64_t *labels,
    double *distances, const char *next, int64_t row)
{
    const int64_t K = task->k, d = task->d;
    for (int64_t i = 0; i < b; i += V * W) {
        const char *ahead = next ? next + i * row : NULL;
        vec best[V], length[V];
        whole label[V];
        int64_t k = 0;
        for (int v = 0; v < V; v++) {
            best[v] = (vec){0} - INFINITY;
            length[v] = (vec){0};
            label[v] = (whole){0};
        }
        for (; K - k >= 4; k += 4, ahead = NULL)
            NAME(scores)(4, x + i, stride, task, k, best, label, ahead);
        if (K - k == 3) NAME(scores)(3, x + i, stride, task, k, best, label, ahead);
        if (K - k == 2) NAME(scores)(2, x + i, stride, task, k, best, label, ahead);
        if (K - k == 1) NAME(scores)(1, x + i, stride, task, k, best, label, ahead);
        for (int64_t j = 0; j < d; j++)
            for (int v = 0; v < V; v++) {
                vec t = LOAD(x + i + j * stride + v * W);
                length[v] += t * t;
            }
        for (int v = 0; v < V; v++) {
            vec distance = length[v] - 2 * best[v];
            STORE(distances + i + v * W) = NAME(choose)(distance < 0, (vec){0}, distance);
            *(NAME(anywhole) *)(labels + i + v * W) = label[v];
        }
    }
}

#if W == 4
#define STAGES {{{0, 4, 2, 6}, {1, 5, 3, 7}}, {{0, 1, 4, 5}, {2, 3, 6, 7}}}
#else
#define STAGES {{{0, 2}, {1, 3}}}
#endif

/* A square of W x W numbers: rows ``from`` apart become columns ``to`` apart. */
TARGET INLINE void NAME(transpose)(const double *x, int64_t from, double *out, int64_t to)
{
#if defined(__clang__)
    for (int i = 0; i < W; i++)
        for (int j = 0; j < W; j++) out[j * to + i] = x[i * from + j];
#else
    static const whole stages[][2] = STAGES;
    vec r[W];
    for (int i = 0; i < W; i++) r[i] = LOAD(x + i * from);
#pragma GCC unroll 4
    for (int h = 1, stage = 0; h < W; h *= 2, stage++) {
#pragma GCC unroll 4
        for (int i = 0; i < W; i++)
            if (!(i & h)) {
                vec a = r[i], b = r[i + h];
                r[i] = __builtin_shuffle(a, b, stages[stage][0]);
                r[i + h] = __builtin_shuffle(a, b, stages[stage][1]);
            }
    }
    for (int i = 0; i < W; i++) STORE(out + i * to) = r[i];
#endif
}
#undef STAGES

/* Records ``dp`` apart, laid out with columns ``stride`` apart. */
TARGET INLINE void NAME(turn)(const double *x, int64_t b, int64_t d, int64_t dp, double *lanes,
                              int64_t stride)
{
    if (d <= 4) {
        for (int64_t j = 0; j < d; j++)
            for (int64_t i = 0; i < b; i++) lanes[j * stride + i] = x[i * dp + j];
        return;
    }
    for (int64_t i = 0; i < b; i += W)
        for (int64_t j = 0; j < d; j += W)
            NAME(transpose)(x + i * dp + j, dp, lanes + j * stride + i, stride);
}

/* ``b`` rows about the origin, one after the other, ``dp`` apart. ``size``: of a number.
 * ``lanes`` (or NULL): the same laid out as by turn. */
TARGET INLINE void NAME(load)(int size, const Rows *rows, int64_t start, int64_t b, int64_t d,
                              int64_t dp, const double *origin, double *out, double *lanes,
                              int64_t stride)
{
    const char *first = rows->rows + start * rows->row_stride;
    const int64_t down = rows->row_stride, across = rows->column_stride;
#define NUMBER(at) (size == 4 ? (double)*(const float *)(at) : *(const double *)(at))
    if (across != size) {
        for (int64_t j = 0; j < d; j++)
            for (int64_t i = 0; i < b; i++)
                out[i * dp + j] = NUMBER(first + i * down + j * across) - origin[j];
        if (lanes) NAME(turn)(out, b, d, dp, lanes, stride);
        return;
    }
    if (lanes) {
        for (int64_t i = 0; i < b; i++, first += down, out += dp)
            for (int64_t j = 0; j < d; j++)
                lanes[j * stride + i] = out[j] = NUMBER(first + size * j) - origin[j];
        return;
    }
    for (int64_t i = 0; i < b; i++, first += down, out += dp) {
        int64_t j = 0;
        if (size == 8)
            for (; j + W <= d; j += W) STORE(out + j) = LOAD(first + 8 * j) - LOAD(origin + j);
        for (; j < d; j++) out[j] = NUMBER(first + size * j) - origin[j];
    }
#undef NUMBER
}

/* Scores of four records ``dp`` apart, with Q vectors of clusters, from column ``from`` to ``to``;
 * ``c`` and ``score`` are those of the first cluster. */
TARGET INLINE void NAME(scores_wide)(int Q, const double *x, int64_t dp, const double *c,
                                     int64_t across, int64_t from, int64_t to, double *score,
                                     const char *next)
{
    vec acc[4][3];
    for (int r = 0; r < 4; r++)
        for (int q = 0; q < Q; q++) acc[r][q] = LOAD(score + r * across + q * W);
    for (int64_t j = from; j < to; j++) {
        vec cs[3];
        for (int q = 0; q < Q; q++) cs[q] = LOAD(c + j * across + q * W);
        if (next && j % 2 == 0) __builtin_prefetch(next + j * 32);
        for (int r = 0; r < 4; r++)
            for (int q = 0; q < Q; q++) acc[r][q] += cs[q] * x[r * dp + j];
    }
    for (int r = 0; r < 4; r++)
        for (int q = 0; q < Q; q++) STORE(score + r * across + q * W) = acc[r][q];
}

/* As assign, with a cluster in each lane. Records are used as they are; columns are taken in parts
 * so that those of the centres stay in the first-level cache. Measured: above 32 columns this costs
 * less than laying records out. */
TARGET static __attribute__((noinline)) void NAME(assign_wide)(
    const Task *task, const double *x, int64_t dp, int64_t b, int64_t *labels, double *distances,
    double *scores, const char *next, int64_t row)
{
    const int64_t d = task->d, across = (task->k + 3) / 4 * 4, vectors = across / W;
    for (int64_t i = 0; i < b; i++)
        for (int64_t k = 0; k < across; k++) scores[i * across + k] = -task->half[k];
    for (int64_t from = 0; from < d; from += 256) {
        const int64_t to = d - from < 256 ? d : from + 256;
        for (int64_t q = 0; q < vectors; q += 3)
            for (int64_t i = 0; i < b; i += 4) {
                const double *c = task->turned + q * W, *here = x + i * dp;
                const char *ahead = next && !q ? next + i * row : NULL;
                double *score = scores + i * across + q * W;
                if (vectors - q == 1)
                    NAME(scores_wide)(1, here, dp, c, across, from, to, score, ahead);
                else if (vectors - q == 2)
                    NAME(scores_wide)(2, here, dp, c, across, from, to, score, ahead);
                else
                    NAME(scores_wide)(3, here, dp, c, across, from, to, score, ahead);
            }
    }
    for (int64_t i = 0; i < b; i++, x += dp) {
        const double *score = scores + i * across;
        vec best = LOAD(score), length[4] = {{0}};
        whole label, lane;
        for (int w = 0; w < W; w++) label[w] = lane[w] = w;
        for (int64_t q = 1; q < vectors; q++) {
            const vec other = LOAD(score + q * W);
            const whole better = other > best;
            best = NAME(choose)(better, other, best);
            label = (better & (lane + q * W)) | (~better & label);
        }
        int64_t j = 0;
        for (; j + 4 * W <= d; j += 4 * W)
            for (int q = 0; q < 4; q++) length[q] += LOAD(x + j + q * W) * LOAD(x + j + q * W);
        for (; j + W <= d; j += W) length[0] += LOAD(x + j) * LOAD(x + j);
        length[0] += length[1] + length[2] + length[3];
        double top = best[0], square = length[0][0];
        int64_t first = label[0];
        for (int w = 1; w < W; w++) {
            /* Of lanes that tie the one with the lowest index. */
            if (best[w] > top || (best[w] == top && label[w] < first)) {
                top = best[w];
                first = label[w];
            }
            square += length[0][w];
        }
        for (; j < d; j++) square += x[j] * x[j];
        square -= 2 * top;
        distances[i] = square < 0 ? 0 : square;
        labels[i] = first;
    }
}

TARGET INLINE vec NAME(clamp)(vec y, vec low, vec high)
{
    y = NAME(choose)(y > low, y, low); /* NaN: the lower limit */
    return NAME(choose)(y < high, y, high);
}

/* The squared length as Region.place computes it: halves are added, number by number.
 *
 * The barrier keeps squares and sums apart: a compiler may not make one rounding of the two. */
TARGET INLINE double NAME(halved)(const double *y, int64_t d, int64_t dp, double *square)
{
    for (int64_t j = 0; j < dp; j += W) STORE(square + j) = LOAD(y + j) * LOAD(y + j);
    __asm__ volatile("" ::: "memory");
    while (d > 1) {
        const int64_t half = d / 2;
        for (int64_t j = 0; j < half; j++) square[j] += square[d - half + j];
        d -= half;
    }
    return square[0];
}

/* Unit coordinates on the lattice, from rows about the centre, bit for bit those of NumPy. */
TARGET INLINE void NAME(place)(const Task *task, const double *inverse, const double *low,
                               const double *high, int64_t b, int64_t dp, double *y, double *spare)
{
    for (int64_t i = 0; i < b; i++, y += dp) {
        for (int64_t j = 0; j < dp; j += W) STORE(y + j) = LOAD(y + j) * LOAD(inverse + j);
        if (task->ball) {
            double square = NAME(halved)(y, task->d, dp, spare);
            if (!(square <= 1e300)) {
                for (int64_t j = 0; j < dp; j += W)
                    STORE(y + j) = NAME(clamp)(LOAD(y + j), LOAD(low + j), LOAD(high + j));
                square = NAME(halved)(y, task->d, dp, spare);
            }
            if (square > 1) {
                const double shrink = 1 / sqrt(square);
                for (int64_t j = 0; j < dp; j += W) STORE(y + j) = LOAD(y + j) * shrink;
            }
        } else
            for (int64_t j = 0; j < dp; j += W)
                STORE(y + j) = NAME(clamp)(LOAD(y + j), LOAD(low + j), LOAD(high + j));
        for (int64_t j = 0; j < dp; j += W) {
            /* Towards the centre; below 2^26 in size, so that 32 bits hold it. */
            NAME(narrow) cells = __builtin_convertvector(LOAD(y + j) * (1 / task->step),
                                                         NAME(narrow));
            STORE(y + j) = __builtin_convertvector(cells, vec) * task->step;
        }
        y[task->d] = 1; /* counts */
    }
}

/* Add ``b`` records to the sums of their clusters; column d of a record is one.
 *
 * ``centres`` (NULL: not local): what is added is measured from the record's centre, in units of
 * the spread, and pulled into the ball of the reach; then ``counts`` are kept apart. */
TARGET INLINE void NAME(gather)(const Task *task, const double *x, int64_t b, int64_t dp,
                                const double *weight, const int64_t *labels,
                                const double *distances, const double *centres, double *sums,
                                double *counts)
{
    for (int64_t i = 0; i < b; i++, x += dp) {
        double *sum = sums + labels[i] * dp;
        const double w = weight ? weight[i] : 1;
        if (centres) {
            const double beyond = sqrt(distances[i]) / task->reach;
            const double share = w * (beyond > 1 ? task->scale / beyond : task->scale);
            const double *c = centres + labels[i] * dp;
            counts[labels[i]] += w;
            for (int64_t j = 0; j < dp; j += W)
                STORE(sum + j) += (LOAD(x + j) - LOAD(c + j)) * share;
        } else if (weight)
            for (int64_t j = 0; j < dp; j += W) STORE(sum + j) += LOAD(x + j) * w;
        else
            for (int64_t j = 0; j < dp; j += W) STORE(sum + j) += LOAD(x + j);
    }
}

/* Rows of d numbers, ``dp`` apart, the rest zero. */
TARGET INLINE void NAME(pad)(const double *from, int64_t rows, int64_t d, int64_t dp, double *to)
{
    for (int64_t k = 0; k < rows; k++)
        for (int64_t j = 0; j < dp; j++) to[k * dp + j] = j < d ? from[k * d + j] : 0;
}

TARGET static void NAME(nearest)(const Task *task, const Rows *rows)
{
    const int64_t d = task->d, K = task->k, T = tile(d), dp = (d / W + 1) * W, stride = T + 8;
    const int private = task->inverse != NULL, local = private && task->local, wide = d > WIDE;
    /* Vectors that span two lines of the cache are slow. */
    double *x = (double *)(((uintptr_t)rows->work + 63) & ~(uintptr_t)63);
    double *lanes = x + T * dp; /* or scores */
    double *sums = lanes + (wide ? T * (K / 4 * 4 + 4) : dp * stride), *centres = sums + K * dp;
    double *side = centres + K * dp; /* five rows */
    double *distances = side + 5 * dp, *counts = distances + 2 * TILE;
    int64_t *labels = (int64_t *)(distances + TILE);
    const int ahead = rows->row_stride == 8 * d && rows->column_stride == 8;
    double square = 0, *both = private || d >= 8 ? NULL : lanes;

    NAME(pad)(task->origin, 1, d, dp, side);
    if (private) {
        NAME(pad)(task->inverse, 1, d, dp, side + dp);
        NAME(pad)(task->low, 1, d, dp, side + 2 * dp);
        NAME(pad)(task->high, 1, d, dp, side + 3 * dp);
    }
    if (local) NAME(pad)(task->centres, K, d, dp, centres);
    for (int64_t i = 0; i < T; i++)
        for (int64_t j = 0; j < dp; j++) x[i * dp + j] = j == d;
    for (int64_t i = 0; i < (wide ? 0 : d * stride); i++) lanes[i] = 0;
    for (int64_t piece = 0; piece < rows->n; piece += PIECE) {
        const int64_t end = rows->n - piece < PIECE ? rows->n : piece + PIECE;
        vec squares = {0};
        double rest = 0;
        for (int64_t i = 0; i < K * dp; i++) sums[i] = 0;
        for (int64_t k = 0; k < K; k++) counts[k] = 0;
        for (int64_t start = piece; start < end; start += T) {
            const int64_t b = end - start < T ? end - start : T;
            const double *weight = rows->weight ? rows->weight + start : NULL;
            const char *next = ahead ? rows->rows + (start + T) * rows->row_stride : NULL;
            if (rows->single)
                NAME(load)(4, rows, start, b, d, dp, side, x, both, stride);
            else
                NAME(load)(8, rows, start, b, d, dp, side, x, both, stride);
            if (private) NAME(place)(task, side + dp, side + 2 * dp, side + 3 * dp, b, dp, x,
                                     side + 4 * dp);
            if (!both && !wide) NAME(turn)(x, T, d, dp, lanes, stride);
            if (wide)
                NAME(assign_wide)(task, x, dp, T, labels, distances, lanes, next,
                                  rows->row_stride);
            else
                NAME(assign)(task, lanes, stride, b, labels, distances, next, rows->row_stride);
            NAME(gather)(task, x, b, dp, weight, labels, distances, local ? centres : NULL, sums,
                         counts);
            if (rows->label)
                for (int64_t i = 0; i < b; i++) rows->label[start + i] = (int32_t)labels[i];
            if (local)
                for (int64_t i = 0; i < b; i++)
                    if (distances[i] > task->most) distances[i] = task->most;
            for (int64_t i = 0; i < b; i += W) {
                if (i + W > b)
                    for (; i < b; i++) rest += weight ? distances[i] * weight[i] : distances[i];
                else if (weight)
                    squares += LOAD(distances + i) * LOAD(weight + i);
                else
                    squares += LOAD(distances + i);
            }
        }
        for (int w = 0; w < W; w++) rest += squares[w];
        square += rest;
        for (int64_t k = 0; k < K; k++) {
            rows->count[k] += local ? counts[k] : sums[k * dp + d];
            for (int64_t j = 0; j < d; j++) rows->total[k * d + j] += sums[k * dp + j];
        }
    }
    *rows->square += local ? square / task->area : square;
}

#undef vec
#undef anyvec
#undef whole
#undef LOAD
#undef STORE
#undef W
#undef V
#undef NAME
#undef TARGET
