/* tree: nodes, walks, their bytes in a file; and the learner of a single tree.
 *
 * The single tree is CART (Breiman et al. 1984) with scikit-learn's defaults: grown until its
 * leaves are pure, squared error or Gini impurity. It leaves out pruning, missing values (samples
 * have none) and categories (they come as numbers). Reading trusts nothing: a tree's shape follows
 * from the order of its nodes, so there are no child indices that could go astray. */
#include "learn/tree.h"

#include "core/checked.h"
#include "learn/grow.h"
#include "learn/learner.h"
#include "learn/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- building ---- */

void pl_trees_free(pl_trees *trees) {
    free(trees->roots);
    free(trees->nodes);
    free(trees->shares);
    *trees = (pl_trees){.columns = trees->columns, .classes = trees->classes};
}

/* Room for `more` elements behind the first `count`. */
static bool reserve(void **array, size_t *room, size_t count, size_t more, size_t size) {
    if (more > PL_TREE_NODES || count > PL_TREE_NODES - more) return false;
    size_t need = count + more;
    if (need <= *room) return true;
    size_t wanted = need < 64 ? 64 : need + need / 2, bytes;
    if (!pl_mul_size(wanted, size, &bytes)) return false;
    void *moved = realloc(*array, bytes);
    if (!moved) return false;
    *array = moved;
    *room = wanted;
    return true;
}

static bool reserve_roots(pl_trees *t, size_t more) {
    void *array = t->roots;
    bool done = reserve(&array, &t->root_room, t->count, more, sizeof *t->roots);
    t->roots = array;
    return done;
}
static bool reserve_nodes(pl_trees *t, size_t more) {
    void *array = t->nodes;
    bool done = reserve(&array, &t->node_room, t->node_count, more, sizeof *t->nodes);
    t->nodes = array;
    return done;
}
static bool reserve_shares(pl_trees *t, size_t more) {
    void *array = t->shares;
    bool done = reserve(&array, &t->share_room, t->share_count, more, sizeof *t->shares);
    t->shares = array;
    return done;
}

bool pl_trees_begin(pl_trees *trees) {
    if (!reserve_roots(trees, 1)) return false;
    trees->roots[trees->count++] = (uint32_t)trees->node_count;
    return true;
}

bool pl_trees_add(pl_trees *trees, pl_node node) {
    if (!reserve_nodes(trees, 1)) return false;
    trees->nodes[trees->node_count++] = node;
    return true;
}

bool pl_trees_add_shares(pl_trees *trees, const double *weights) {
    double sum = 0;
    for (size_t k = 0; k < trees->classes; k++) sum += weights[k];
    if (!reserve_shares(trees, trees->classes)) return false;
    size_t first = trees->share_count;
    size_t most = 0;
    for (size_t k = 0; k < trees->classes; k++) {
        if (weights[k] > weights[most]) most = k;
        uint16_t share = (uint16_t)lrint(weights[k] / sum * PL_TREE_ONE);
        if (share > 0) trees->shares[trees->share_count++] = (pl_share){(uint16_t)k, share};
    }
    if (trees->share_count == first) /* more classes than shares of 1 / 65,535 */
        trees->shares[trees->share_count++] = (pl_share){(uint16_t)most, 1};
    trees->shares[trees->share_count - 1].label |= PL_TREE_LAST_SHARE;
    return pl_trees_add(trees, (pl_node){0, (uint32_t)first, PL_TREE_LEAF});
}

bool pl_trees_append(pl_trees *to, const pl_trees *from) {
    if (!reserve_roots(to, from->count) || !reserve_nodes(to, from->node_count) ||
        !reserve_shares(to, from->share_count))
        return false;
    for (size_t t = 0; t < from->count; t++)
        to->roots[to->count + t] = from->roots[t] + (uint32_t)to->node_count;
    for (size_t i = 0; i < from->node_count; i++) {
        pl_node node = from->nodes[i];
        if (node.column == PL_TREE_LEAF && to->classes) node.right += (uint32_t)to->share_count;
        to->nodes[to->node_count + i] = node;
    }
    if (from->share_count)
        memcpy(to->shares + to->share_count, from->shares, from->share_count * sizeof *to->shares);
    to->count += from->count;
    to->node_count += from->node_count;
    to->share_count += from->share_count;
    return true;
}

void pl_trees_truncate(pl_trees *trees, size_t count) {
    if (count >= trees->count) return;
    trees->node_count = trees->roots[count];
    trees->count = count;
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
                const pl_node *leaf =
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
        const pl_node *node = &trees->nodes[i];
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
        pl_node *node = &t->nodes[t->node_count];
        size_t here = t->node_count++;
        if (column != leaf) {
            if (column >= t->columns) return refuse(b, "a split of one of the columns", r);
            b->at += wide;
            *node = (pl_node){.column = (uint16_t)column, .right = (uint32_t)waiting};
            if (!read_number(&node->value, b, r)) return false;
            waiting = here + 1;
            continue;
        }
        b->at += wide;
        *node = (pl_node){.column = PL_TREE_LEAF, .right = (uint32_t)t->share_count};
        if (t->classes ? !read_shares(t, most_shares, b, r) : !read_number(&node->value, b, r))
            return false;
        if (!t->classes) node->right = 0;
        if (waiting == 0) return true;
        pl_node *parent = &t->nodes[waiting - 1];
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
    if (!reserve_roots(t, count) || !reserve_nodes(t, nodes) || !reserve_shares(t, shares))
        pl_read_fail(r, "enough memory");
    bytes b = {r->bytes + r->at, r->bytes + r->size};
    while (!r->failure && t->count < count)
        if (!read_tree(t, nodes, shares, &b, r)) break;
    if (!r->failure) r->at = (size_t)(b.at - r->bytes);
    if (!r->failure && (t->node_count != nodes || t->share_count != shares))
        pl_read_fail(r, "no more nodes and shares than the trees have");
    if (r->failure) pl_trees_free(t);
    return !r->failure;
}

/* ---- what learners share ---- */

pl_status pl_tree_check_samples(const pl_samples *s, const char *learner, pl_error *err) {
    if (s->count == 0 || s->columns == 0)
        return pl_fail(err, PL_INPUT, learner, -1, "there are no samples to learn from");
    if (s->columns > PL_TREE_COLUMNS || s->count > PL_TREE_NODES / 2)
        return pl_fail(err, PL_INPUT, learner, -1,
                       "%zu samples of %zu columns: at most %d of %d are allowed", s->count,
                       s->columns, PL_TREE_NODES / 2, PL_TREE_COLUMNS);
    if (s->class_count == 0 && !s->targets)
        return pl_fail(err, PL_INPUT, learner, -1, "the samples have no target");
    if (s->class_count > 0) {
        if (!s->classes) return pl_fail(err, PL_INPUT, learner, -1, "the samples have no classes");
        if (s->class_count > PL_TREE_CLASSES)
            return pl_fail(err, PL_INPUT, learner, -1, "%zu classes: at most %d are allowed",
                           s->class_count, PL_TREE_CLASSES);
        for (size_t i = 0; i < s->count; i++)
            if (s->classes[i] < 0 || (size_t)s->classes[i] >= s->class_count)
                return pl_fail(err, PL_INPUT, learner, -1,
                               "sample %zu is of class %d, not 0 to %zu", i, (int)s->classes[i],
                               s->class_count - 1);
    }
    if (!s->weights) return PL_OK;
    double sum = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (!(s->weights[i] >= 0) || !isfinite(s->weights[i]))
            return pl_fail(err, PL_INPUT, learner, -1, "sample %zu has the weight %g", i,
                           (double)s->weights[i]);
        sum += (double)s->weights[i];
    }
    if (!(sum > 0)) return pl_fail(err, PL_INPUT, learner, -1, "every sample has the weight 0");
    return PL_OK;
}

pl_status pl_tree_check_columns(const pl_samples *samples, size_t columns, const char *learner,
                                pl_error *err) {
    if (samples->columns == columns) return PL_OK;
    return pl_fail(err, PL_INPUT, learner, -1, "%zu columns, but %zu were learnt from",
                   samples->columns, columns);
}

pl_status pl_tree_check_valid(const pl_samples *valid, const pl_samples *samples, pl_error *err) {
    if (!valid) return PL_OK;
    pl_status status = pl_tree_check_samples(valid, "validation", err);
    if (status == PL_OK) status = pl_tree_check_columns(valid, samples->columns, "validation", err);
    if (status == PL_OK && valid->class_count != samples->class_count)
        status = pl_fail(err, PL_INPUT, "validation", -1, "%zu classes, but %zu are learnt",
                         valid->class_count, samples->class_count);
    return status;
}

/* ---- the learner ---- */

typedef struct single {
    pl_learned learned;
    pl_trees trees; /* one */
} single;

static const pl_option options[] = {
    {"depth", 0, 0, 1e6, true}, /* 0: no limit */
    {"min_split", 2, 2, 1e9, true},   {"min_leaf", 1, 1, 1e9, true},
    {"features", 1, 0.001, 1, false}, /* share of the columns tried at a split */
    {"min_gain", 0, 0, 1e30, false},
};
enum { OPTIONS = sizeof options / sizeof *options };

static void close_single(pl_learned **learned) {
    if (!learned || !*learned) return;
    single *model = (single *)*learned;
    pl_trees_free(&model->trees);
    free(model);
    *learned = NULL;
}

static single *new_single(size_t columns, size_t classes) {
    single *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    model->learned = (pl_learned){&pl_learner_tree, classes ? classes : 1};
    model->trees = (pl_trees){.columns = columns, .classes = classes};
    return model;
}

static pl_status train_single(pl_learned **out, const pl_samples *samples,
                              const pl_learn_settings *settings, pl_error *err) {
    const char *text = settings->options ? settings->options : "";
    *out = NULL;
    pl_status status = pl_options_check(text, options, OPTIONS, err);
    if (status == PL_OK) status = pl_tree_check_samples(samples, "tree", err);
    if (status != PL_OK) return status;
    double share = pl_options_number(text, options, OPTIONS, "features");
    pl_grow_settings grow = {
        .depth = (uint32_t)pl_options_number(text, options, OPTIONS, "depth"),
        .min_split = (uint32_t)pl_options_number(text, options, OPTIONS, "min_split"),
        .min_leaf = (uint32_t)pl_options_number(text, options, OPTIONS, "min_leaf"),
        .columns = (uint32_t)fmax(1, share * (double)samples->columns),
        .min_gain = pl_options_number(text, options, OPTIONS, "min_gain"),
    };
    pl_random random = pl_random_seed(settings->seed, 0);
    pl_sorted sorted;
    pl_grower *grower = NULL;
    double *weights = calloc(samples->count, sizeof *weights);
    single *model = new_single(samples->columns, samples->class_count);
    bool done = pl_sorted_open(&sorted, samples) && weights && model;
    for (size_t i = 0; done && i < samples->count; i++)
        weights[i] = samples->weights ? (double)samples->weights[i] : 1;
    if (done) done = (grower = pl_grower_new(&sorted, &grow)) != NULL;
    if (done)
        done = pl_grower_grow(grower, &model->trees, weights,
                              grow.columns < samples->columns ? &random : NULL);
    pl_grower_free(&grower);
    pl_sorted_close(&sorted);
    free(weights);
    *out = model ? &model->learned : NULL;
    if (done) return PL_OK;
    close_single(out);
    return pl_fail(err, PL_MISSING, "tree", -1, "out of memory");
}

static pl_status predict_single(const pl_learned *learned, const pl_samples *samples, float *out,
                                pl_error *err) {
    const single *model = (const single *)learned;
    pl_status status = pl_tree_check_columns(samples, model->trees.columns, "tree", err);
    if (status == PL_OK) pl_trees_predict_mean(&model->trees, samples, out);
    return status;
}

static void save_single(const pl_learned *learned, pl_writer *writer) {
    const single *model = (const single *)learned;
    pl_write_u32(writer, (uint32_t)model->trees.classes);
    pl_trees_write(&model->trees, writer);
}

static pl_learned *load_single(pl_reader *reader, size_t columns, size_t channels) {
    (void)channels; /* a tree sees columns only */
    size_t classes = pl_read_u32_in(reader, 0, PL_TREE_CLASSES, "a number of classes");
    if (columns == 0 || columns > PL_TREE_COLUMNS) pl_read_fail(reader, "1 to 65,534 columns");
    if (reader->failure) return NULL;
    single *model = new_single(columns, classes);
    if (!model) pl_read_fail(reader, "enough memory");
    if (!model || pl_trees_read(&model->trees, reader)) return model ? &model->learned : NULL;
    pl_learned *learned = &model->learned;
    close_single(&learned);
    return NULL;
}

const pl_learner pl_learner_tree = {
    .name = "tree",
    .scaled = "as-is",
    .train = train_single,
    .predict = predict_single,
    .save = save_single,
    .load = load_single,
    .close = close_single,
};
