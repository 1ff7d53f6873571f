/* tree: decision trees in one array of nodes, as forests and boosting keep them.
 *
 * A tree stands in preorder: a split's left child is the next node, its right child further on. So
 * a walk only goes forward, and ends. Samples with value <= threshold go left. A leaf holds a
 * number, or (classifiers) the classes that occur in it with their shares.
 *
 * In a file the arrays stand as they do in memory, aligned to 8 bytes and little-endian: u32 trees,
 * u32 nodes, u32 shares, u32 0, then the roots, the nodes and the shares as they are below. So they
 * can be used where they lie, by all processes at once, and nothing is read before it is asked for.
 * Where the bytes do not outlive the trees, are not aligned or the machine is big-endian, the
 * arrays are copies. */
#ifndef PL_LEARN_TREE_H
#define PL_LEARN_TREE_H

#include "core/error.h"
#include "learn/file.h"
#include "learn/samples.h"

enum {
    PL_TREE_LEAF = 0x3ff,        /* a leaf's column */
    PL_TREE_COLUMNS = 0x3fe,     /* most columns */
    PL_TREE_COLUMN_BITS = 10,    /* of a node's link */
    PL_TREE_NODES = 1 << 22,     /* most nodes of a tree, and most shares */
    PL_TREE_CLASSES = 0x7fff,    /* most classes */
    PL_TREE_LAST_SHARE = 0x8000, /* beside the class: no more shares in this leaf */
    PL_TREE_ONE = 0xffff,        /* a share of 1 */
    PL_TREES_NODES = 1 << 28,    /* most nodes of a model */
};

/* link: the column, PL_TREE_LEAF for a leaf, in the low bits; above them, of a split: nodes from
 * here to its right child; of a classifier's leaf: its first share, from the tree's first. */
typedef struct pl_tree_node {
    float value; /* a split's threshold, a leaf's number */
    uint32_t link;
} pl_tree_node;

static inline uint32_t pl_tree_column(const pl_tree_node *node) {
    return node->link & PL_TREE_LEAF;
}
static inline uint32_t pl_tree_further(const pl_tree_node *node) {
    return node->link >> PL_TREE_COLUMN_BITS;
}

typedef struct pl_tree_share {
    uint16_t label; /* and PL_TREE_LAST_SHARE */
    uint16_t share; /* of PL_TREE_ONE */
} pl_tree_share;

/* Where a tree begins. */
typedef struct pl_tree_root {
    uint32_t node, share; /* its first ones */
} pl_tree_root;

/* Starts as {.columns = n, .classes = n}. */
typedef struct pl_trees {
    size_t columns;
    size_t classes; /* 0: leaves hold numbers */
    size_t count;
    const pl_tree_root *roots; /* [count] */
    const pl_tree_node *nodes;
    const pl_tree_share *shares;
    size_t node_count, share_count;
    bool borrowed;                           /* the arrays are a file's; else malloc'ed */
    size_t root_room, node_room, share_room; /* of trees that grow (tree_train.c) */
} pl_trees;

void pl_trees_free(pl_trees *trees); /* takes an empty one */
/* The leaf in which a row, [columns], ends. */
static inline const pl_tree_node *pl_tree_leaf(const pl_trees *trees, size_t tree,
                                               const float *row) {
    const pl_tree_node *node = trees->nodes + trees->roots[tree].node;
    for (uint32_t column; (column = pl_tree_column(node)) != PL_TREE_LEAF;)
        node += row[column] <= node->value ? 1 : pl_tree_further(node);
    return node;
}

/* The trees' mean; of a classifier the logarithm of the mean share. out: [count, 1 or classes]. */
void pl_trees_predict_mean(const pl_trees *trees, const pl_samples *samples, float *out);
/* Of a classifier: the sums of the trees' shares of each class for one row, [classes], in units of
 * 1 / (count * PL_TREE_ONE); and the logarithm that a prediction has of such a sum. */
void pl_trees_sum_shares(const pl_trees *trees, const float *row, float *sums);
float pl_trees_log_share(const pl_trees *trees, float sum);
/* The sum of the trees, from base: [outputs]; tree t adds to the output t % outputs. Numbers in the
 * leaves only. out: [count, outputs]. */
void pl_trees_predict_sum(const pl_trees *trees, const pl_samples *samples, size_t outputs,
                          const float *base, float *out);

void pl_trees_write(const pl_trees *trees, pl_writer *writer);
/* trees: {.columns, .classes}. false: failed, the reader says why and trees is empty. Trusted bytes
 * are not looked at; others are checked, every node and share. */
bool pl_trees_read(pl_trees *trees, pl_reader *reader);

/* For predicting: as many columns as were learnt from. */
pl_status pl_tree_check_columns(const pl_samples *samples, size_t columns, const char *learner,
                                pl_error *err);

#endif
