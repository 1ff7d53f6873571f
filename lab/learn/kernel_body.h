/* kernel_body: the loops of kernel.h, included by kernel.c once for each kind of machine.
 *
 * The includer defines NAME(x), TARGET (the functions' attribute), LANES (floats per vector), ROWS
 * (of a product's block), FMA(a, b, c) = a b + c, and ROOT(v). Vectors are the compiler's own
 * (vector_size), so that the same text serves every machine. exp is Cephes' polynomial (2 ulp), erf
 * Abramowitz and Stegun 7.1.26 (1.5e-7). */

typedef float NAME(V) __attribute__((vector_size(LANES * 4)));
typedef int32_t NAME(I) __attribute__((vector_size(LANES * 4)));
typedef uint32_t NAME(U) __attribute__((vector_size(LANES * 4)));
/* The same where they lie in memory, on any address. */
typedef float NAME(M) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
#define V           NAME(V)
#define I           NAME(I)
#define U           NAME(U)
#define M           NAME(M)
#define INLINE      TARGET static inline __attribute__((always_inline))
#define LOAD(p)     ((V)(*(const M *)(p)))
#define STORE(p, v) (*(M *)(p) = (v))
#define WIDE        (PL_PANEL / LANES) /* vectors across a panel */

INLINE V NAME(all)(float x) {
    return x - (V){0}; /* not x + 0: -0 stays what it is */
}
INLINE V NAME(pick)(I mask, V a, V b) {
    return (V)((mask & (I)a) | (~mask & (I)b));
}
INLINE V NAME(largest)(V a, V b) {
    return NAME(pick)(a > b, a, b);
}
/* The first n numbers (less than LANES), zeros behind. */
INLINE V NAME(load_part)(const float *p, size_t n) {
    float part[LANES] = {0};
    for (size_t i = 0; i < n; i++) part[i] = p[i];
    return LOAD(part);
}
INLINE void NAME(store_part)(float *p, V v, size_t n) {
    float part[LANES];
    STORE(part, v);
    for (size_t i = 0; i < n; i++) p[i] = part[i];
}
INLINE float NAME(sum)(V v) {
    float part[LANES], total = 0;
    STORE(part, v);
    for (size_t i = 0; i < LANES; i++) total += part[i];
    return total;
}
#define ALL        NAME(all)
#define PICK       NAME(pick)
#define LOAD_PART  NAME(load_part)
#define STORE_PART NAME(store_part)
/* Runs `body` for i = 0, LANES, ... and `part` once for the `left` numbers behind them. */
#define EACH(count, body, part)                                                                    \
    do {                                                                                           \
        size_t i = 0;                                                                              \
        for (; i + LANES <= (count); i += LANES) body;                                             \
        size_t left = (count)-i;                                                                   \
        if (left) part;                                                                            \
    } while (0)

/* ---- functions ---- */

INLINE V NAME(exp)(V x) {
    x = PICK(x > ALL(88.0f), ALL(88.0f), x);
    x = PICK(x < ALL(-87.0f), ALL(-87.0f), x);
    const V magic = ALL(12582912.0f); /* 1.5 * 2^23: rounds to a whole number */
    V n = FMA(x, ALL(1.44269504088896341f), magic) - magic;
    V r = FMA(n, ALL(-0.693359375f), x);
    r = FMA(n, ALL(2.12194440e-4f), r);
    V p = ALL(1.9875691500e-4f);
    p = FMA(p, r, ALL(1.3981999507e-3f));
    p = FMA(p, r, ALL(8.3334519073e-3f));
    p = FMA(p, r, ALL(4.1665795894e-2f));
    p = FMA(p, r, ALL(1.6666665459e-1f));
    p = FMA(p, r, ALL(5.0000001201e-1f));
    p = FMA(p, r * r, r + ALL(1.0f));
    I power = (__builtin_convertvector(n, I) + 127) << 23;
    return p * (V)power;
}
INLINE V NAME(sigmoid)(V x) {
    return ALL(1.0f) / (ALL(1.0f) + NAME(exp)(-x));
}
INLINE V NAME(tanh)(V x) {
    return ALL(1.0f) - ALL(2.0f) / (NAME(exp)(x + x) + ALL(1.0f));
}
/* The normal distribution's share below x; *density: its density there. */
INLINE V NAME(normal)(V x, V *density) {
    V bell = NAME(exp)(x * x * ALL(-0.5f));
    *density = bell * ALL(0.3989422804014327f);
    V z = PICK(x < ALL(0.0f), -x, x) * ALL(0.7071067811865476f);
    V t = ALL(1.0f) / FMA(ALL(0.3275911f), z, ALL(1.0f));
    V p = ALL(1.061405429f);
    p = FMA(p, t, ALL(-1.453152027f));
    p = FMA(p, t, ALL(1.421413741f));
    p = FMA(p, t, ALL(-0.284496736f));
    p = FMA(p, t, ALL(0.254829592f));
    V tail = p * t * bell * ALL(0.5f); /* (1 - erf(z)) / 2 */
    return PICK(x < ALL(0.0f), tail, ALL(1.0f) - tail);
}

INLINE V NAME(value)(pl_activation f, V x) {
    const V zero = ALL(0.0f);
    V density;
    switch (f) {
    case PL_RELU: return PICK(x > zero, x, zero);
    case PL_LEAKY: return PICK(x > zero, x, x * ALL(0.01f));
    case PL_ELU: return PICK(x > zero, x, NAME(exp)(x) - ALL(1.0f));
    case PL_GELU: return x * NAME(normal)(x, &density);
    case PL_SILU: return x * NAME(sigmoid)(x);
    case PL_TANH: return NAME(tanh)(x);
    case PL_SIGMOID: return NAME(sigmoid)(x);
    }
    return x;
}
INLINE V NAME(slope)(pl_activation f, V x) {
    const V zero = ALL(0.0f), one = ALL(1.0f);
    V y, density;
    switch (f) {
    case PL_RELU: return PICK(x > zero, one, zero);
    case PL_LEAKY: return PICK(x > zero, one, ALL(0.01f));
    case PL_ELU: return PICK(x > zero, one, NAME(exp)(x));
    case PL_GELU: y = NAME(normal)(x, &density); return y + x * density;
    case PL_SILU: y = NAME(sigmoid)(x); return y + x * y * (one - y);
    case PL_TANH: y = NAME(tanh)(x); return one - y * y;
    case PL_SIGMOID: y = NAME(sigmoid)(x); return y * (one - y);
    }
    return one;
}

/* f is a constant in each branch, so that the loop inside has no switch. */
#define BY_ACTIVATION(call)                                                                        \
    switch (f) {                                                                                   \
    case PL_RELU: call(PL_RELU); break;                                                            \
    case PL_LEAKY: call(PL_LEAKY); break;                                                          \
    case PL_ELU: call(PL_ELU); break;                                                              \
    case PL_GELU: call(PL_GELU); break;                                                            \
    case PL_SILU: call(PL_SILU); break;                                                            \
    case PL_TANH: call(PL_TANH); break;                                                            \
    case PL_SIGMOID: call(PL_SIGMOID); break;                                                      \
    }

TARGET static void NAME(activate)(pl_activation f, const float *x, float *y, size_t count){
#define CALL(F)                                                                                    \
    EACH(count, STORE(y + i, NAME(value)(F, LOAD(x + i))),                                         \
         STORE_PART(y + i, NAME(value)(F, LOAD_PART(x + i, left)), left))
    BY_ACTIVATION(CALL)
#undef CALL
}

TARGET static void NAME(activate_back)(pl_activation f, const float *x, const float *dy, float *dx,
                                       size_t count){
#define CALL(F)                                                                                    \
    EACH(count, STORE(dx + i, LOAD(dy + i) * NAME(slope)(F, LOAD(x + i))),                         \
         STORE_PART(dx + i, LOAD_PART(dy + i, left) * NAME(slope)(F, LOAD_PART(x + i, left)),      \
                    left))
    BY_ACTIVATION(CALL)
#undef CALL
}

/* ---- products ---- */

/* Rows (a constant) by one panel. */
INLINE void NAME(block)(size_t rows, size_t k, const float *a, size_t a_row, size_t a_column,
                        const float *b, const float *bias, bool add, float *c, size_t c_row,
                        size_t columns) {
    V sum[ROWS][WIDE];
    float edge[PL_PANEL] = {0};
    if (bias && columns < PL_PANEL) {
        for (size_t j = 0; j < columns; j++) edge[j] = bias[j];
        bias = edge;
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (size_t w = 0; w < WIDE; w++) sum[r][w] = bias ? LOAD(bias + w * LANES) : ALL(0.0f);
    }
    for (size_t i = 0; i < k; i++) {
        V column[WIDE];
#pragma GCC unroll 4
        for (size_t w = 0; w < WIDE; w++) column[w] = LOAD(b + w * LANES);
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
            V x = ALL(a[r * a_row]);
#pragma GCC unroll 4
            for (size_t w = 0; w < WIDE; w++) sum[r][w] = FMA(x, column[w], sum[r][w]);
        }
        a += a_column;
        b += PL_PANEL;
    }
    if (columns == PL_PANEL) {
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
            for (size_t w = 0; w < WIDE; w++) {
                float *to = c + r * c_row + w * LANES;
                STORE(to, add ? LOAD(to) + sum[r][w] : sum[r][w]);
            }
        }
        return;
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (size_t w = 0; w < WIDE; w++) STORE(edge + w * LANES, sum[r][w]);
        float *to = c + r * c_row;
        for (size_t j = 0; j < columns; j++) to[j] = add ? to[j] + edge[j] : edge[j];
    }
}

/* One row by four whole panels at once: enough sums in flight to hide a multiplication's latency.
 */
INLINE void NAME(four)(size_t k, const float *a, size_t a_column, const float *b, const float *bias,
                       bool add, float *c) {
    V sum[4][WIDE];
#pragma GCC unroll 4
    for (size_t p = 0; p < 4; p++) {
#pragma GCC unroll 4
        for (size_t w = 0; w < WIDE; w++)
            sum[p][w] = bias ? LOAD(bias + p * PL_PANEL + w * LANES) : ALL(0.0f);
    }
    size_t apart = k * PL_PANEL;
    for (size_t i = 0; i < k; i++) {
        V x = ALL(*a);
#pragma GCC unroll 4
        for (size_t p = 0; p < 4; p++) {
#pragma GCC unroll 4
            for (size_t w = 0; w < WIDE; w++)
                sum[p][w] = FMA(x, LOAD(b + p * apart + w * LANES), sum[p][w]);
        }
        a += a_column;
        b += PL_PANEL;
    }
#pragma GCC unroll 4
    for (size_t p = 0; p < 4; p++) {
#pragma GCC unroll 4
        for (size_t w = 0; w < WIDE; w++) {
            float *to = c + p * PL_PANEL + w * LANES;
            STORE(to, add ? LOAD(to) + sum[p][w] : sum[p][w]);
        }
    }
}

TARGET static void NAME(multiply)(size_t m, size_t n, size_t k, const float *a, size_t a_row,
                                  size_t a_column, const float *panels, const float *bias, bool add,
                                  float *c, size_t c_row) {
    size_t done = 0; /* columns */
    if (m == 1)
        for (; done + 4 * PL_PANEL <= n; done += 4 * PL_PANEL)
            NAME(four)(k, a, a_column, panels + done * k, bias ? bias + done : NULL, add, c + done);
    for (; done < n; done += PL_PANEL) {
        const float *b = panels + done * k, *shift = bias ? bias + done : NULL;
        size_t columns = n - done < PL_PANEL ? n - done : PL_PANEL;
        for (size_t r = 0; r < m; r += ROWS) {
            const float *from = a + r * a_row;
            float *to = c + r * c_row + done;
#define ROWS_OF(R) NAME(block)(R, k, from, a_row, a_column, b, shift, add, to, c_row, columns)
            switch (m - r) {
            case 1: ROWS_OF(1); break;
#if ROWS > 2
            case 2: ROWS_OF(2); break;
            case 3: ROWS_OF(3); break;
            case 4: ROWS_OF(4); break;
            case 5: ROWS_OF(5); break;
#endif
            default: ROWS_OF(ROWS); break;
            }
#undef ROWS_OF
        }
    }
}

/* ---- rows ---- */

TARGET static void NAME(softmax)(float *x, size_t count, float scale) {
    V high = ALL(-INFINITY);
    float part[LANES], most = -INFINITY;
    EACH(count, high = NAME(largest)(LOAD(x + i), high),
         for (size_t j = i; j < count; j++) most = x[j] > most ? x[j] : most);
    STORE(part, high);
    for (size_t j = 0; j < LANES; j++) most = part[j] > most ? part[j] : most;
    most *= scale; /* above 0 */
    V total = ALL(0.0f);
    EACH(
        count,
        {
            V e = NAME(exp)(FMA(LOAD(x + i), ALL(scale), ALL(-most)));
            STORE(x + i, e);
            total += e;
        },
        {
            STORE_PART(x + i, NAME(exp)(FMA(LOAD_PART(x + i, left), ALL(scale), ALL(-most))), left);
            total += LOAD_PART(x + i, left);
        });
    V by = ALL(1.0f / NAME(sum)(total));
    EACH(count, STORE(x + i, LOAD(x + i) * by),
         STORE_PART(x + i, LOAD_PART(x + i, left) * by, left));
}

TARGET static void NAME(softmax_back)(const float *p, const float *dp, float *dx, size_t count,
                                      float scale) {
    V total = ALL(0.0f);
    EACH(count, total = FMA(LOAD(p + i), LOAD(dp + i), total),
         total = FMA(LOAD_PART(p + i, left), LOAD_PART(dp + i, left), total));
    V dot = ALL(NAME(sum)(total)), by = ALL(scale);
    EACH(count, STORE(dx + i, LOAD(p + i) * (LOAD(dp + i) - dot) * by),
         STORE_PART(dx + i, LOAD_PART(p + i, left) * (LOAD_PART(dp + i, left) - dot) * by, left));
}

TARGET static void NAME(normalize)(const float *x, const float *gain, const float *shift, float *y,
                                   float stats[2], size_t width) {
    V total = ALL(0.0f);
    EACH(width, total += LOAD(x + i), total += LOAD_PART(x + i, left));
    float mean = NAME(sum)(total) / (float)width;
    V middle = ALL(mean), squares = ALL(0.0f);
    EACH(
        width,
        {
            V d = LOAD(x + i) - middle;
            squares = FMA(d, d, squares);
        },
        for (size_t j = i; j < i + left; j++) squares[0] += (x[j] - mean) * (x[j] - mean));
    float by = 1.0f / sqrtf(NAME(sum)(squares) / (float)width + 1e-5f);
    V times = ALL(by);
    EACH(width, STORE(y + i, FMA((LOAD(x + i) - middle) * times, LOAD(gain + i), LOAD(shift + i))),
         STORE_PART(y + i,
                    FMA((LOAD_PART(x + i, left) - middle) * times, LOAD_PART(gain + i, left),
                        LOAD_PART(shift + i, left)),
                    left));
    stats[0] = mean;
    stats[1] = by;
}

/* With u = (x - mean) by and g = dy gain: dx = by (g - mean(g) - u mean(g u)). */
TARGET static void NAME(normalize_back)(const float *x, const float stats[2], const float *gain,
                                        const float *dy, float *dx, float *dgain, float *dshift,
                                        size_t width) {
    V middle = ALL(stats[0]), times = ALL(stats[1]), sum_g = ALL(0.0f), sum_gu = ALL(0.0f);
#define ADD(L, S)                                                                                  \
    {                                                                                              \
        V d = L(dy), u = (L(x) - middle) * times, g = d * L(gain);                                 \
        S(dgain, FMA(d, u, L(dgain)));                                                             \
        S(dshift, L(dshift) + d);                                                                  \
        sum_g += g;                                                                                \
        sum_gu = FMA(g, u, sum_gu);                                                                \
    }
#define PUT(L, S)                                                                                  \
    {                                                                                              \
        V u = (L(x) - middle) * times;                                                             \
        S(dx, times *(FMA(L(dy), L(gain), -mean_g) - u * mean_gu));                                \
    }
#define L_ALL(p)     LOAD(p + i)
#define S_ALL(p, v)  STORE(p + i, v)
#define L_LEFT(p)    LOAD_PART(p + i, left)
#define S_LEFT(p, v) STORE_PART(p + i, v, left)
    /* Behind the end dy and gain are 0, and so are g and g u. */
    EACH(width, ADD(L_ALL, S_ALL), ADD(L_LEFT, S_LEFT));
    V mean_g = ALL(NAME(sum)(sum_g) / (float)width),
      mean_gu = ALL(NAME(sum)(sum_gu) / (float)width);
    EACH(width, PUT(L_ALL, S_ALL), PUT(L_LEFT, S_LEFT));
#undef ADD
#undef PUT
}

/* A number's hash (Wellons' lowbias32, public domain) decides. */
INLINE V NAME(mask)(U index, uint32_t key, int32_t limit, float scale) {
    U h = index * 0x9e3779b1u + key;
    h ^= h >> 16;
    h *= 0x7feb352du;
    h ^= h >> 15;
    h *= 0x846ca68bu;
    h ^= h >> 16;
    I high = (I)(h >> 8); /* 24 bits */
    return PICK(high >= limit, ALL(scale), ALL(0.0f));
}

TARGET static void NAME(drop)(uint32_t key, float rate, const float *x, float *y, size_t count) {
    int32_t limit = (int32_t)(rate * 16777216.0f);
    float scale = 1.0f / (1.0f - rate);
    U index;
    for (size_t j = 0; j < LANES; j++) index[j] = (uint32_t)j;
    EACH(
        count,
        {
            STORE(y + i, LOAD(x + i) * NAME(mask)(index, key, limit, scale));
            index += LANES;
        },
        STORE_PART(y + i, LOAD_PART(x + i, left) * NAME(mask)(index, key, limit, scale), left));
}

TARGET static void NAME(gru)(const float *gx, const float *gh, const float *h, float *h_next,
                             float *gates, size_t width) {
#define STEP(L, S)                                                                                 \
    {                                                                                              \
        V r = NAME(sigmoid)(L(gx) + L(gh));                                                        \
        V z = NAME(sigmoid)(L(gx + width) + L(gh + width));                                        \
        V inner = L(gh + 2 * width);                                                               \
        V n = NAME(tanh)(FMA(r, inner, L(gx + 2 * width)));                                        \
        S(h_next, FMA(z, L(h) - n, n));                                                            \
        if (gates) {                                                                               \
            S(gates, r);                                                                           \
            S(gates + width, z);                                                                   \
            S(gates + 2 * width, n);                                                               \
            S(gates + 3 * width, inner);                                                           \
        }                                                                                          \
    }
    EACH(width, STEP(L_ALL, S_ALL), STEP(L_LEFT, S_LEFT));
#undef STEP
}

TARGET static void NAME(gru_back)(const float *gates, const float *h, float *dh, float *dgx,
                                  float *dgh, size_t width) {
    const V one = ALL(1.0f);
#define STEP(L, S)                                                                                 \
    {                                                                                              \
        V r = L(gates), z = L(gates + width), n = L(gates + 2 * width);                            \
        V d = L(dh), dn = d * (one - z) * (one - n * n);                                           \
        V dz = d * (L(h) - n) * z * (one - z);                                                     \
        V dr = dn * L(gates + 3 * width) * r * (one - r);                                          \
        S(dgx, dr);                                                                                \
        S(dgx + width, dz);                                                                        \
        S(dgx + 2 * width, dn);                                                                    \
        S(dgh, dr);                                                                                \
        S(dgh + width, dz);                                                                        \
        S(dgh + 2 * width, dn * r);                                                                \
        S(dh, d *z);                                                                               \
    }
    EACH(width, STEP(L_ALL, S_ALL), STEP(L_LEFT, S_LEFT));
#undef STEP
}

TARGET static void NAME(add)(float *y, const float *x, size_t count) {
    EACH(count, STORE(y + i, LOAD(y + i) + LOAD(x + i)),
         STORE_PART(y + i, LOAD_PART(y + i, left) + LOAD_PART(x + i, left), left));
}

TARGET static void NAME(add_scaled)(float *y, const float *x, float by, size_t count) {
    V times = ALL(by);
    EACH(count, STORE(y + i, FMA(times, LOAD(x + i), LOAD(y + i))),
         STORE_PART(y + i, FMA(times, LOAD_PART(x + i, left), LOAD_PART(y + i, left)), left));
}

TARGET static void NAME(maximum)(float *y, const float *x, size_t count) {
    EACH(count, STORE(y + i, NAME(largest)(LOAD(x + i), LOAD(y + i))),
         STORE_PART(y + i, NAME(largest)(LOAD_PART(x + i, left), LOAD_PART(y + i, left)), left));
}

TARGET static void NAME(column_sums)(float *y, const float *x, size_t rows, size_t width) {
    EACH(
        width,
        {
            V total = ALL(0.0f);
            for (size_t r = 0; r < rows; r++) total += LOAD(x + r * width + i);
            STORE(y + i, LOAD(y + i) + total);
        },
        {
            V total = ALL(0.0f);
            for (size_t r = 0; r < rows; r++) total += LOAD_PART(x + r * width + i, left);
            STORE_PART(y + i, LOAD_PART(y + i, left) + total, left);
        });
}

TARGET static void NAME(adam)(const pl_adam_step *step, float *weights, const float *gradients,
                              float *mean, float *square, size_t count) {
    const V b1 = ALL(step->beta1), b2 = ALL(step->beta2), c1 = ALL(1.0f - step->beta1),
            c2 = ALL(1.0f - step->beta2), scale = ALL(step->scale), l2 = ALL(step->l2),
            shrink = ALL(step->shrink), rate = ALL(step->rate), bias = ALL(1.0f / step->root_bias),
            epsilon = ALL(step->epsilon);
#define STEP(L, S)                                                                                 \
    {                                                                                              \
        V w = L(weights), g = FMA(l2, w, L(gradients) * scale);                                    \
        V m = FMA(b1, L(mean), c1 * g), v = FMA(b2, L(square), c2 * g * g);                        \
        S(mean, m);                                                                                \
        S(square, v);                                                                              \
        S(weights, w *shrink - rate * m / FMA(ROOT(v), bias, epsilon));                            \
    }
    EACH(count, STEP(L_ALL, S_ALL), STEP(L_LEFT, S_LEFT));
#undef STEP
}

static const pl_kernels NAME(kernels) = {
    .name = KERNELS_NAME,
    .multiply = NAME(multiply),
    .activate = NAME(activate),
    .activate_back = NAME(activate_back),
    .softmax = NAME(softmax),
    .softmax_back = NAME(softmax_back),
    .normalize = NAME(normalize),
    .normalize_back = NAME(normalize_back),
    .drop = NAME(drop),
    .gru = NAME(gru),
    .gru_back = NAME(gru_back),
    .add = NAME(add),
    .add_scaled = NAME(add_scaled),
    .maximum = NAME(maximum),
    .column_sums = NAME(column_sums),
    .adam = NAME(adam),
};

#undef L_ALL
#undef S_ALL
#undef L_LEFT
#undef S_LEFT
#undef BY_ACTIVATION
#undef EACH
#undef STORE_PART
#undef LOAD_PART
#undef PICK
#undef ALL
#undef WIDE
#undef STORE
#undef LOAD
#undef INLINE
#undef M
#undef U
#undef I
#undef V
#undef KERNELS_NAME
#undef ROOT
#undef FMA
#undef ROWS
#undef LANES
#undef TARGET
#undef NAME
