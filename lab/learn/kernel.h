/* kernel: the inner loops of the networks, over rows of 32-bit numbers.
 *
 * Written once (kernel_body.h) and compiled twice: for any machine, and for x86-64 with AVX2 and
 * FMA; which one runs is asked of the processor once. On one machine results are always the same.
 * A product's sum runs over k upwards, whatever the number of rows: a sample's prediction does not
 * depend on the samples beside it. */
#ifndef PL_LAB_KERNEL_H
#define PL_LAB_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A matrix to multiply with lies in panels: [(columns + 15) / 16, rows, 16], zeros behind the last
 * column. */
enum { PL_PANEL = 16 };

typedef enum pl_activation {
    PL_RELU,
    PL_LEAKY, /* 0.01 x below 0 */
    PL_ELU,   /* exp(x) - 1 below 0 */
    PL_GELU,  /* x Phi(x), by erf */
    PL_SILU,  /* x sigmoid(x) */
    PL_TANH,
    PL_SIGMOID,
} pl_activation;

/* One step of Adam, in the form that its loop wants. */
typedef struct pl_adam_step {
    float scale;        /* of the gradient: clipping */
    float l2;           /* added to the gradient, times the weight */
    float shrink;       /* the weight times this first: decoupled decay */
    float beta1, beta2; /* 0.9, 0.999 */
    float rate;         /* rate / (1 - beta1^t) */
    float root_bias;    /* sqrt(1 - beta2^t) */
    float epsilon;      /* 1e-8 */
} pl_adam_step;

typedef struct pl_kernels {
    const char *name; /* "avx2" or "plain" */

    /* c [m, n] = a [m, k] times the panels of a [k, n], plus bias [n] (NULL: none), plus what c
     * holds where `add`. a(i, j) lies at a[i * a_row + j * a_column]; c's rows are c_row apart. */
    void (*multiply)(size_t m, size_t n, size_t k, const float *a, size_t a_row, size_t a_column,
                     const float *panels, const float *bias, bool add, float *c, size_t c_row);

    /* y = f(x), x and y may be the same; dx = dy f'(x), dx and dy may be the same. [count] */
    void (*activate)(pl_activation f, const float *x, float *y, size_t count);
    void (*activate_back)(pl_activation f, const float *x, const float *dy, float *dx,
                          size_t count);

    /* x [count] becomes softmax(x * scale). */
    void (*softmax)(float *x, size_t count, float scale);
    /* dx = scale p (dp - sum(dp p)); dx and dp may be the same. */
    void (*softmax_back)(const float *p, const float *dp, float *dx, size_t count, float scale);

    /* A row of a layer norm: y = (x - mean) / sqrt(variance + 1e-5) gain + shift. stats: mean,
     * 1 / sqrt. */
    void (*normalize)(const float *x, const float *gain, const float *shift, float *y,
                      float stats[2], size_t width);
    /* dx is written; the gradients of gain and shift are added to. */
    void (*normalize_back)(const float *x, const float stats[2], const float *gain, const float *dy,
                           float *dx, float *dgain, float *dshift, size_t width);

    /* y = x / (1 - rate) where kept, else 0; a number is kept or not by its index and key alone, so
     * that the way back needs no mask. y and x may be the same. */
    void (*drop)(uint32_t key, float rate, const float *x, float *y, size_t count);

    /* A GRU's step for one sample (see layer_gru.c). gx, gh: [3, width], r z n; h: [width]. gates:
     * [4, width], r z n and gh's n part, NULL: not kept. */
    void (*gru)(const float *gx, const float *gh, const float *h, float *h_next, float *gates,
                size_t width);
    /* dh: the gradient of h_next on entry, its direct share of h's on return. dgx, dgh: [3, width].
     */
    void (*gru_back)(const float *gates, const float *h, float *dh, float *dgx, float *dgh,
                     size_t width);

    void (*add)(float *y, const float *x, size_t count);                      /* y += x */
    void (*add_scaled)(float *y, const float *x, float by, size_t count);     /* y += by x */
    void (*maximum)(float *y, const float *x, size_t count);                  /* y = max(y, x) */
    void (*column_sums)(float *y, const float *x, size_t rows, size_t width); /* y += x's rows */
    void (*adam)(const pl_adam_step *step, float *weights, const float *gradients, float *mean,
                 float *square, size_t count);
} pl_kernels;

const pl_kernels *pl_kernels_here(void);  /* the fastest that runs here */
const pl_kernels *pl_kernels_plain(void); /* for any machine */

#endif
