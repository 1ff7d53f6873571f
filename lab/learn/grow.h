/* grow: one tree after another from the same samples, by exact splits (CART).
 *
 * Columns are sorted once; every node keeps its rows in each column's order, so that a level of a
 * tree costs columns * rows, without sorting again. */
#ifndef PL_LAB_GROW_H
#define PL_LAB_GROW_H

#include "lab/learn/random.h"
#include "lend.h"

/* The samples by column; shared by growers, never changed. */
typedef struct pl_sorted {
    size_t count, columns, classes;
    float *values;   /* [columns, count] */
    uint32_t *order; /* [columns, count]: rows by ascending value, ties by row */
    double *targets; /* [count] less `centre`; NULL: classes */
    int32_t *labels; /* [count]; NULL: a regression */
    double centre;   /* the targets' mean: sums of squares keep their digits */
} pl_sorted;

bool pl_sorted_open(pl_sorted *sorted, const pl_samples *samples); /* false: out of memory */
void pl_sorted_close(pl_sorted *sorted);

typedef struct pl_grow_settings {
    uint32_t depth;     /* of the deepest leaf; 0: no limit */
    uint32_t min_split; /* rows of a node that may be split */
    uint32_t min_leaf;  /* rows of a leaf */
    uint32_t columns;   /* tried at a split, constant ones not counted; all: no chance in it */
    bool extra;         /* one random threshold per column (Geurts 2006) instead of the best */
    double min_gain;    /* least fall of the weighted impurity, as a share of all weight */
} pl_grow_settings;

typedef struct pl_grower pl_grower; /* one thread's working memory */

pl_grower *pl_grower_new(const pl_sorted *sorted,
                         const pl_grow_settings *settings); /* NULL: memory */
void pl_grower_free(pl_grower **grower);
/* Adds a tree. weights: [count], rows of weight 0 are not there; at least one is positive. A
 * regression's criterion is the squared error, a classifier's the Gini impurity. random: NULL with
 * all columns and not extra: ties then go to the lower column. false: out of memory. */
bool pl_grower_grow(pl_grower *grower, pl_trees *trees, const double *weights, pl_random *random);

#endif
