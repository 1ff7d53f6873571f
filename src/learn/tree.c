/* tree: nodes, walks, their bytes in a file.
 *
 * Reading trusts nothing: a tree's shape follows from the order of its nodes, so there are no child
 * indices that could go astray. Growing is tree_train.c's. */
#include "learn/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void pl_trees_free(pl_trees *trees) {
    free(trees->roots);
    free(trees->nodes);
    free(trees->shares);
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

static void predict_shares(const pl_trees *trees, const pl_samples *samples, float *out) {
    const size_t classes = trees->classes;
    memset(out, 0, samples->count * classes * sizeof *out);
    for (size_t first = 0; first < samples->count; first += BLOCK) {
        size_t block = samples->count - first < BLOCK ? samples->count - first : BLOCK;
        for (size_t t = 0; t < trees->count; t++) {
            for (size_t i = first; i < first + block; i++) {
                const pl_tree_node *leaf =
                    pl_tree_leaf(trees, t, samples->values + i * samples->columns);
                const pl_share *share = trees->shares + leaf->right;
                float *sums = out + i * classes;
                for (;; share++) {
                    sums[share->label & PL_TREE_CLASSES] += (float)share->share;
                    if (share->label & PL_TREE_LAST_SHARE) break;
                }
            }
        }
    }
    const float scale = 1 / ((float)PL_TREE_ONE * (float)trees->count);
    for (size_t i = 0; i < samples->count * classes; i++)
        out[i] = logf(out[i] * scale + LEAST_PROBABILITY);
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

static bool narrow(const pl_trees *trees) {
    return trees->columns <= 0xfe;
}

static void write_u16(pl_writer *w, uint16_t value) {
    pl_write_u8(w, (uint8_t)(value & 0xff));
    pl_write_u8(w, (uint8_t)(value >> 8));
}

void pl_trees_write(const pl_trees *trees, pl_writer *w) {
    pl_write_u32(w, (uint32_t)trees->count);
    pl_write_u32(w, (uint32_t)trees->node_count);
    pl_write_u32(w, (uint32_t)trees->share_count);
    for (size_t i = 0; i < trees->node_count; i++) {
        const pl_tree_node *node = &trees->nodes[i];
        if (narrow(trees))
            pl_write_u8(w, (uint8_t)node->column); /* a leaf's low byte is 0xff */
        else
            write_u16(w, node->column);
        if (node->column != PL_TREE_LEAF || !trees->classes) {
            pl_write_f32(w, node->value);
            continue;
        }
        for (const pl_share *share = trees->shares + node->right;; share++) {
            write_u16(w, share->label);
            write_u16(w, share->share);
            if (share->label & PL_TREE_LAST_SHARE) break;
        }
    }
}

/* Reading goes over bytes of its own, since forests have hundreds of thousands of nodes: a call a
 * number, as the reader makes it, took 20 ns of each. */
typedef struct bytes {
    const unsigned char *at, *end;
} bytes;

static bool has(const bytes *b, size_t count, pl_reader *r) {
    if ((size_t)(b->end - b->at) >= count) return true;
    r->at = (size_t)(b->at - r->bytes);
    pl_read_fail(r, "as many bytes as the nodes take");
    return false;
}

static bool refuse(const bytes *b, const char *expected, pl_reader *r) {
    r->at = (size_t)(b->at - r->bytes);
    pl_read_fail(r, expected);
    return false;
}

static unsigned u16_at(const unsigned char *at) {
    return at[0] | (unsigned)at[1] << 8;
}

static float f32_at(const unsigned char *at) {
    uint32_t bits = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A leaf's shares: classes ascending, so that none comes twice. */
static bool read_shares(pl_trees *t, size_t most, bytes *b, pl_reader *r) {
    int before = -1;
    for (;;) {
        if (!has(b, 4, r)) return false;
        pl_share share = {.label = (uint16_t)u16_at(b->at), .share = (uint16_t)u16_at(b->at + 2)};
        int label = share.label & PL_TREE_CLASSES;
        if (t->share_count >= most || label <= before || (size_t)label >= t->classes)
            return refuse(b, "a leaf's classes, ascending", r);
        b->at += 4;
        t->shares[t->share_count++] = share;
        if (share.label & PL_TREE_LAST_SHARE) return true;
        before = label;
    }
}

static bool read_number(float *out, bytes *b, pl_reader *r) {
    if (!has(b, 4, r)) return false;
    *out = f32_at(b->at);
    if (!isfinite(*out)) return refuse(b, "a finite number", r);
    b->at += 4;
    return true;
}

/* One tree in preorder. A split waits for its right child, which comes when the left side is done;
 * those that wait are a list through their own `right`, the latest first, counted from 1. */
static bool read_tree(pl_trees *t, size_t most, size_t most_shares, bytes *b, pl_reader *r) {
    size_t waiting = 0, wide = narrow(t) ? 1 : 2;
    const unsigned leaf = narrow(t) ? 0xff : PL_TREE_LEAF;
    t->roots[t->count++] = (uint32_t)t->node_count;
    for (;;) {
        if (t->node_count >= most) return refuse(b, "as many nodes as the trees have", r);
        if (!has(b, wide, r)) return false;
        unsigned column = wide == 1 ? b->at[0] : u16_at(b->at);
        pl_tree_node *node = &t->nodes[t->node_count];
        size_t here = t->node_count++;
        if (column != leaf) {
            if (column >= t->columns) return refuse(b, "a split of one of the columns", r);
            b->at += wide;
            *node = (pl_tree_node){.column = (uint16_t)column, .right = (uint32_t)waiting};
            if (!read_number(&node->value, b, r)) return false;
            waiting = here + 1;
            continue;
        }
        b->at += wide;
        *node = (pl_tree_node){.column = PL_TREE_LEAF, .right = (uint32_t)t->share_count};
        if (t->classes ? !read_shares(t, most_shares, b, r) : !read_number(&node->value, b, r))
            return false;
        if (!t->classes) node->right = 0;
        if (waiting == 0) return true;
        pl_tree_node *parent = &t->nodes[waiting - 1];
        size_t next = parent->right;
        parent->right = (uint32_t)(t->node_count - (waiting - 1));
        waiting = next;
    }
}

bool pl_trees_read(pl_trees *t, pl_reader *r) {
    size_t count = pl_read_u32_in(r, 1, PL_TREE_NODES, "a number of trees");
    size_t nodes = pl_read_u32_in(r, 1, PL_TREE_NODES, "a number of nodes");
    size_t shares = pl_read_u32_in(r, 0, PL_TREE_NODES, "a number of shares");
    if (r->failure) return false;
    if (count > nodes) pl_read_fail(r, "a node or more in each tree");
    if (!t->classes && shares) pl_read_fail(r, "no shares without classes");
    /* A node is 5 bytes and more, a classifier's split too; its leaf 1 and its shares. */
    if (!pl_read_has(r, nodes, t->classes ? 1 : 5) || !pl_read_has(r, shares, 4))
        pl_read_fail(r, "as many bytes as the nodes take");
    if (r->failure) return false;
    t->roots = malloc(count * sizeof *t->roots);
    t->nodes = malloc(nodes * sizeof *t->nodes);
    t->shares = malloc((shares ? shares : 1) * sizeof *t->shares);
    if (!t->roots || !t->nodes || !t->shares) pl_read_fail(r, "enough memory");
    bytes b = {r->bytes + r->at, r->bytes + r->size};
    while (!r->failure && t->count < count)
        if (!read_tree(t, nodes, shares, &b, r)) break;
    if (!r->failure) r->at = (size_t)(b.at - r->bytes);
    if (!r->failure && (t->node_count != nodes || t->share_count != shares))
        pl_read_fail(r, "no more nodes and shares than the trees have");
    if (r->failure) pl_trees_free(t);
    return !r->failure;
}
