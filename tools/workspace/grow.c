/* grow: the trees of fit.py, which builds this file with cc and calls pl_grow through ctypes.
 *
 * Rows have a cost for every class; a leaf answers with the class of least cost. Splits are not
 * chosen by that least cost: where one class is best on both sides of every split nothing would be
 * gained by any, and the tree would stop there. They are chosen by a smooth minimum of the class
 * costs, (sum of cost^-4)^(-1/4), which is concave, so that any split that separates rows of
 * different kinds gains. Pruning goes by the true cost and a penalty per leaf. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 32 }; /* classes at most: one row of costs */

typedef struct pl_grown {
    double value; /* a split's threshold */
    int32_t low, high, feature, best;
} pl_grown; /* feature -1: a leaf; best: the class of least cost */

typedef struct forest {
    int32_t rows, features, classes, least;
    double penalty;
    const float *cost; /* [rows][WIDTH] */
    const double *x;   /* [features][rows] */
    int32_t *order;    /* [features][rows]: rows by value; a node is the same range of each */
    int32_t *moved;    /* [rows]: scratch of partition */
    char *below;       /* [rows] */
    pl_grown *nodes;
    int32_t count;
} forest;

typedef struct cut {
    double value, score;
    int32_t feature;
} cut;

static float smooth_least(const float *cost) {
    float sum = 0;
    for (int j = 0; j < WIDTH; j++) {
        float inverse = 1.0F / (cost[j] + 1e-6F);
        sum += inverse * inverse * inverse * inverse;
    }
    return 1.0F / sqrtf(sqrtf(sum));
}

static void try_feature(const forest *f, int32_t feature, int32_t from, int32_t to,
                        const float *total, cut *best) {
    const int32_t *order = f->order + (size_t)feature * (size_t)f->rows;
    const double *x = f->x + (size_t)feature * (size_t)f->rows;
    float left[WIDTH], right[WIDTH];
    for (int j = 0; j < WIDTH; j++) left[j] = j < f->classes ? 0 : 1e9F;
    for (int32_t i = from; i < to - f->least; i++) {
        const float *cost = f->cost + (size_t)order[i] * WIDTH;
        for (int j = 0; j < WIDTH; j++) left[j] += cost[j];
        double low = x[order[i]], high = x[order[i + 1]];
        if (i + 1 - from < f->least || high <= low) continue;
        for (int j = 0; j < WIDTH; j++) right[j] = fmaxf(total[j] - left[j], 0);
        for (int j = f->classes; j < WIDTH; j++) right[j] = 1e9F;
        double score = (double)smooth_least(left) + (double)smooth_least(right);
        if (score < best->score - 1e-5)
            *best =
                (cut){high - low < 2 ? (low + high) / 2 : floor((low + high) / 2), score, feature};
    }
}

/* Brings the rows at most the cut's value to the front of every feature's range; their number. */
static int32_t partition(forest *f, int32_t from, int32_t to, const cut *at) {
    const double *x = f->x + (size_t)at->feature * (size_t)f->rows;
    int32_t below = 0;
    for (int32_t i = from; i < to; i++) {
        f->below[f->order[i]] = x[f->order[i]] <= at->value;
        below += f->below[f->order[i]];
    }
    for (int32_t feature = 0; feature < f->features; feature++) {
        int32_t *order = f->order + (size_t)feature * (size_t)f->rows, front = from, back = 0;
        for (int32_t i = from; i < to; i++) {
            if (f->below[order[i]])
                order[front++] = order[i];
            else
                f->moved[back++] = order[i];
        }
        memcpy(order + front, f->moved, (size_t)back * sizeof *order);
    }
    return below;
}

/* Grows the node of rows from..to and returns its cost, a penalty per leaf included. */
static double grow(forest *f, int32_t from, int32_t to, int32_t depth) {
    double total[WIDTH] = {0};
    float rounded[WIDTH];
    for (int32_t i = from; i < to; i++)
        for (int j = 0; j < WIDTH; j++)
            total[j] += (double)f->cost[(size_t)f->order[i] * WIDTH + (size_t)j];
    int32_t least = 0, me = f->count++;
    for (int32_t j = 1; j < f->classes; j++)
        if (total[j] < total[least]) least = j;
    for (int j = 0; j < WIDTH; j++) rounded[j] = (float)total[j];
    f->nodes[me] = (pl_grown){0, 0, 0, -1, least};
    double as_leaf = total[least] + f->penalty;
    if (depth == 0 || to - from < 2 * f->least || total[least] <= f->penalty) return as_leaf;
    cut best = {0, INFINITY, -1};
    for (int32_t feature = 0; feature < f->features; feature++)
        try_feature(f, feature, from, to, rounded, &best);
    if (best.feature < 0) return as_leaf;
    int32_t middle = from + partition(f, from, to, &best), low = f->count;
    double cost = grow(f, from, middle, depth - 1);
    int32_t high = f->count;
    cost += grow(f, middle, to, depth - 1);
    if (cost >= as_leaf - 1e-9) {
        f->count = me + 1;
        return as_leaf;
    }
    f->nodes[me] = (pl_grown){best.value, low, high, best.feature, least};
    return cost;
}

/* The number of nodes, the root first; -1 without memory. nodes: room for 2 * rows. */
int32_t pl_grow(int32_t rows, int32_t features, int32_t classes, const float *cost, const double *x,
                int32_t *order, int32_t depth, int32_t least, double penalty, pl_grown *nodes);
int32_t pl_grow(int32_t rows, int32_t features, int32_t classes, const float *cost, const double *x,
                int32_t *order, int32_t depth, int32_t least, double penalty, pl_grown *nodes) {
    if (rows < 1 || classes < 1 || classes > WIDTH) return -1;
    forest f = {.rows = rows,
                .features = features,
                .classes = classes,
                .least = least,
                .penalty = penalty,
                .cost = cost,
                .x = x,
                .order = order,
                .nodes = nodes,
                .moved = malloc((size_t)rows * sizeof(int32_t)),
                .below = malloc((size_t)rows)};
    if (f.moved && f.below) grow(&f, 0, rows, depth);
    free(f.moved);
    free(f.below);
    return f.count ? f.count : -1;
}
