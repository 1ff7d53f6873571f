/* tree: nodes, walks, their bytes in a file.
 *
 * Reading trusts nothing: a tree's shape follows from the order of its nodes, so there are no child
 * indices that could go astray. Growing is tree_train.c's. */
#include "learn/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void pl_trees_free(pl_trees *trees) {
    if (!trees->borrowed) {
        free((void *)trees->roots);
        free((void *)trees->nodes);
        free((void *)trees->shares);
    }
    *trees = (pl_trees){.columns = trees->columns, .classes = trees->classes};
}

pl_status pl_tree_check_columns(const pl_samples *samples, size_t columns, const char *learner,
                                pl_error *err) {
    if (samples->columns == columns) return PL_OK;
    return pl_fail(err, PL_INPUT, learner, -1, "%zu columns, but %zu were learnt from",
                   samples->columns, columns);
}

/* ---- predicting ---- */

enum { BLOCK = 64 }; /* samples walked through a tree while it is in the cache */

void pl_trees_predict_sum(const pl_trees *trees, const pl_samples *samples, size_t outputs,
                          const float *base, float *out) {
    for (size_t first = 0; first < samples->count; first += BLOCK) {
        size_t block = samples->count - first < BLOCK ? samples->count - first : BLOCK;
        for (size_t k = 0; k < outputs; k++) {
            double sums[BLOCK];
            for (size_t i = 0; i < block; i++) sums[i] = (double)base[k];
            for (size_t t = k; t < trees->count; t += outputs) {
                const float *row = samples->values + first * samples->columns;
                for (size_t i = 0; i < block; i++, row += samples->columns)
                    sums[i] += (double)pl_tree_leaf(trees, t, row)->value;
            }
            for (size_t i = 0; i < block; i++) out[(first + i) * outputs + k] = (float)sums[i];
        }
    }
}

/* A class that no tree knows here gets this probability, so that its logarithm is a number. */
#define LEAST_PROBABILITY 1e-6f

static void add_shares(const pl_trees *trees, size_t tree, const float *row, float *sums) {
    const pl_tree_node *leaf = pl_tree_leaf(trees, tree, row);
    const pl_tree_share *share = trees->shares + trees->roots[tree].share + pl_tree_further(leaf);
    for (;; share++) {
        sums[share->label & PL_TREE_CLASSES] += (float)share->share;
        if (share->label & PL_TREE_LAST_SHARE) break;
    }
}

void pl_trees_sum_shares(const pl_trees *trees, const float *row, float *sums) {
    memset(sums, 0, trees->classes * sizeof *sums);
    for (size_t t = 0; t < trees->count; t++) add_shares(trees, t, row, sums);
}

float pl_trees_log_share(const pl_trees *trees, float sum) {
    const float scale = 1 / ((float)PL_TREE_ONE * (float)trees->count);
    return logf(sum * scale + LEAST_PROBABILITY);
}

static void predict_shares(const pl_trees *trees, const pl_samples *samples, float *out) {
    const size_t classes = trees->classes;
    memset(out, 0, samples->count * classes * sizeof *out);
    for (size_t first = 0; first < samples->count; first += BLOCK) {
        size_t block = samples->count - first < BLOCK ? samples->count - first : BLOCK;
        for (size_t t = 0; t < trees->count; t++)
            for (size_t i = first; i < first + block; i++)
                add_shares(trees, t, samples->values + i * samples->columns, out + i * classes);
    }
    for (size_t i = 0; i < samples->count * classes; i++)
        out[i] = pl_trees_log_share(trees, out[i]);
}

void pl_trees_predict_mean(const pl_trees *trees, const pl_samples *samples, float *out) {
    if (trees->classes) {
        predict_shares(trees, samples, out);
        return;
    }
    for (size_t first = 0; first < samples->count; first += BLOCK) {
        size_t block = samples->count - first < BLOCK ? samples->count - first : BLOCK;
        double sums[BLOCK] = {0};
        for (size_t t = 0; t < trees->count; t++) {
            const float *row = samples->values + first * samples->columns;
            for (size_t i = 0; i < block; i++, row += samples->columns)
                sums[i] += (double)pl_tree_leaf(trees, t, row)->value;
        }
        for (size_t i = 0; i < block; i++) out[first + i] = (float)(sums[i] / (double)trees->count);
    }
}

/* ---- bytes ---- */

enum { ALIGN = 8 };
_Static_assert(sizeof(pl_tree_root) == 8 && sizeof(pl_tree_node) == 8 && sizeof(pl_tree_share) == 4,
               "as the file has them");

void pl_trees_write(const pl_trees *trees, pl_writer *w) {
    pl_write_align(w, ALIGN);
    pl_write_u32(w, (uint32_t)trees->count);
    pl_write_u32(w, (uint32_t)trees->node_count);
    pl_write_u32(w, (uint32_t)trees->share_count);
    pl_write_u32(w, 0);
    for (size_t t = 0; t < trees->count; t++) {
        pl_write_u32(w, trees->roots[t].node);
        pl_write_u32(w, trees->roots[t].share);
    }
    for (size_t i = 0; i < trees->node_count; i++) {
        pl_write_f32(w, trees->nodes[i].value);
        pl_write_u32(w, trees->nodes[i].link);
    }
    for (size_t i = 0; i < trees->share_count; i++)
        pl_write_u32(w, trees->shares[i].label | (uint32_t)trees->shares[i].share << 16);
}

/* Copies of the arrays, which stand one behind another from `at` on. */
static bool copy(pl_trees *t, const unsigned char *at) {
    pl_tree_root *roots = malloc(t->count * sizeof *roots);
    pl_tree_node *nodes = malloc(t->node_count * sizeof *nodes);
    pl_tree_share *shares = malloc((t->share_count + 1) * sizeof *shares);
    t->roots = roots;
    t->nodes = nodes;
    t->shares = shares;
    if (!roots || !nodes || !shares) return false;
    for (size_t i = 0; i < t->count; i++, at += 8)
        roots[i] = (pl_tree_root){pl_u32_at(at), pl_u32_at(at + 4)};
    for (size_t i = 0; i < t->node_count; i++, at += 8)
        nodes[i] = (pl_tree_node){pl_f32_at(at), pl_u32_at(at + 4)};
    for (size_t i = 0; i < t->share_count; i++, at += 4) {
        uint32_t both = pl_u32_at(at);
        shares[i] = (pl_tree_share){(uint16_t)(both & 0xffff), (uint16_t)(both >> 16)};
    }
    return true;
}

static void borrow(pl_trees *t, const unsigned char *at) {
    t->borrowed = true;
    t->roots = (const void *)at;
    t->nodes = (const void *)(at + t->count * sizeof *t->roots);
    t->shares = (const void *)(at + t->count * sizeof *t->roots + t->node_count * sizeof *t->nodes);
}

/* Runs of shares: classes ascending, so that none comes twice; the last one is marked. */
static const char *check_shares(const pl_trees *t) {
    int before = -1;
    for (size_t i = 0; i < t->share_count; i++) {
        int label = t->shares[i].label & PL_TREE_CLASSES;
        if (label <= before || (size_t)label >= t->classes) return "a leaf's classes, ascending";
        if (t->shares[i].share == 0) return "shares above 0";
        before = t->shares[i].label & PL_TREE_LAST_SHARE ? -1 : label;
    }
    return before < 0 ? NULL : "a last share in the last leaf";
}

/* One tree, whose nodes end before `end` and whose shares end before share_end. Children lie
 * further on and before the end, so that no walk runs in circles or out of its tree. */
static const char *check_tree(const pl_trees *t, size_t tree, size_t end, size_t share_end) {
    const pl_tree_root *root = &t->roots[tree];
    for (size_t i = root->node; i < end; i++) {
        const pl_tree_node *node = &t->nodes[i];
        size_t column = pl_tree_column(node), further = pl_tree_further(node);
        if (!isfinite(node->value)) return "a finite number";
        if (column != PL_TREE_LEAF) {
            if (column >= t->columns) return "a split of one of the columns";
            if (further < 2 || further >= end - i) return "children further on in the tree";
        } else if (t->classes) {
            size_t first = root->share + further;
            if (first >= share_end ||
                (first > root->share && !(t->shares[first - 1].label & PL_TREE_LAST_SHARE)))
                return "a leaf's first share";
        } else if (further) {
            return "a leaf that leads nowhere";
        }
    }
    return NULL;
}

static const char *check_all(const pl_trees *t) {
    const char *wrong = check_shares(t);
    if (t->roots[0].node || t->roots[0].share) return "a first tree that begins at 0";
    for (size_t k = 0; !wrong && k < t->count; k++) {
        bool last = k + 1 == t->count;
        size_t end = last ? t->node_count : t->roots[k + 1].node,
               share_end = last ? t->share_count : t->roots[k + 1].share;
        if (end <= t->roots[k].node || end > t->node_count || share_end > t->share_count ||
            share_end < t->roots[k].share || (t->classes > 0) != (share_end > t->roots[k].share))
            return "trees one behind another";
        /* a tree's shares end with a leaf's */
        if (t->classes && !(t->shares[share_end - 1].label & PL_TREE_LAST_SHARE))
            return "trees whose shares end with a leaf";
        wrong = check_tree(t, k, end, share_end);
    }
    return wrong;
}

bool pl_trees_read(pl_trees *t, pl_reader *r) {
    pl_read_align(r, ALIGN);
    size_t from = r->at;
    t->count = pl_read_u32_in(r, 1, PL_TREES_NODES, "a number of trees");
    t->node_count = pl_read_u32_in(r, 1, PL_TREES_NODES, "a number of nodes");
    t->share_count = pl_read_u32_in(r, 0, PL_TREES_NODES, "a number of shares");
    pl_read_u32_in(r, 0, 0, "0");
    size_t size = (t->count + t->node_count) * 8 + t->share_count * 4;
    const unsigned char *at = r->failure ? NULL : pl_read_bytes(r, size);
    if (at && r->kept && PL_LITTLE_ENDIAN && (uintptr_t)at % ALIGN == 0)
        borrow(t, at);
    else if (at && !copy(t, at))
        pl_read_no_memory(r);
    const char *wrong = r->failure || r->trusted ? NULL : check_all(t);
    if (wrong) {
        r->at = from;
        pl_read_fail(r, wrong);
    }
    if (r->failure) pl_trees_free(t);
    return !r->failure;
}
