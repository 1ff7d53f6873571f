/* tree: decision trees in one array of nodes, as forests and boosting keep them.
 *
 * A tree stands in preorder: a split's left child is the next node, its right child further on. So
 * a walk only goes forward, and a file needs no child indices. Samples with value <= threshold go
 * left. A leaf holds a number, or (classifiers) the classes that occur in it with their shares.
 *
 * In a file: u32 trees, u32 nodes, u32 shares, then every node of every tree in order. A node: its
 * column, u8 where there are at most 254 columns, else u16 (all bits set: a leaf); a split then has
 * its threshold, f32; a leaf its number, f32, or its shares, each u16 class (highest bit: the last
 * one) and u16 share of 65,535. That is 5 bytes a node for most models. */
#ifndef PL_LEARN_TREE_H
#define PL_LEARN_TREE_H

#include "core/error.h"
#include "learn/file.h"
#include "learn/samples.h"

enum {
    PL_TREE_LEAF = 0xffff,       /* a leaf's column */
    PL_TREE_COLUMNS = 0xfffe,    /* most columns */
    PL_TREE_CLASSES = 0x7fff,    /* most classes */
    PL_TREE_LAST_SHARE = 0x8000, /* beside the class: no more shares in this leaf */
    PL_TREE_ONE = 0xffff,        /* a share of 1 */
    PL_TREE_NODES = 1 << 28,     /* most nodes of a model */
};

typedef struct pl_tree_node {
    float value;     /* a split's threshold, a leaf's number */
    uint32_t right;  /* a split: nodes from here to its right child; a classifier's leaf: its first
                        share */
    uint16_t column; /* PL_TREE_LEAF: a leaf */
} pl_tree_node;

typedef struct pl_share {
    uint16_t label; /* and PL_TREE_LAST_SHARE */
    uint16_t share; /* of PL_TREE_ONE */
} pl_share;

/* Starts as {.columns = n, .classes = n}. */
typedef struct pl_trees {
    size_t columns;
    size_t classes; /* 0: leaves hold numbers */
    size_t count;
    uint32_t *roots; /* [count] a tree's first node */
    pl_tree_node *nodes;
    pl_share *shares;
    size_t node_count, share_count;
    size_t root_room, node_room, share_room;
} pl_trees;

void pl_trees_free(pl_trees *trees); /* takes an empty one */
/* The leaf in which a row, [columns], ends. */
static inline const pl_tree_node *pl_tree_leaf(const pl_trees *trees, size_t tree, const float *row) {
    const pl_tree_node *node = trees->nodes + trees->roots[tree];
    while (node->column != PL_TREE_LEAF) node += row[node->column] <= node->value ? 1 : node->right;
    return node;
}

/* The trees' mean; of a classifier the logarithm of the mean share. out: [count, 1 or classes]. */
void pl_trees_predict_mean(const pl_trees *trees, const pl_samples *samples, float *out);
/* The sum of the trees, from base: [outputs]; tree t adds to the output t % outputs. Numbers in the
 * leaves only. out: [count, outputs]. */
void pl_trees_predict_sum(const pl_trees *trees, const pl_samples *samples, size_t outputs,
                          const float *base, float *out);

void pl_trees_write(const pl_trees *trees, pl_writer *writer);
/* trees: {.columns, .classes}. false: failed, the reader says why and trees is empty. */
bool pl_trees_read(pl_trees *trees, pl_reader *reader);

/* For predicting: as many columns as were learnt from. */
pl_status pl_tree_check_columns(const pl_samples *samples, size_t columns, const char *learner,
                                pl_error *err);

#endif
