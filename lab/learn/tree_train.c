/* tree_train: trees put together node by node, and what every tree learner asks of its samples. */
#include "lab/learn/tree_train.h"

#include "lend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- building ---- */

/* Room for `more` elements behind the first `count`. */
static bool reserve(void **array, size_t *room, size_t count, size_t more, size_t size) {
    if (more > PL_TREES_NODES || count > PL_TREES_NODES - more) return false;
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

/* Trees that grow own their arrays. */
static bool reserve_roots(pl_trees *t, size_t more) {
    void *array = (void *)t->roots;
    bool done = reserve(&array, &t->root_room, t->count, more, sizeof *t->roots);
    t->roots = array;
    return done;
}
static bool reserve_nodes(pl_trees *t, size_t more) {
    void *array = (void *)t->nodes;
    bool done = reserve(&array, &t->node_room, t->node_count, more, sizeof *t->nodes);
    t->nodes = array;
    return done;
}
static bool reserve_shares(pl_trees *t, size_t more) {
    void *array = (void *)t->shares;
    bool done = reserve(&array, &t->share_room, t->share_count, more, sizeof *t->shares);
    t->shares = array;
    return done;
}

bool pl_trees_begin(pl_trees *trees) {
    if (!reserve_roots(trees, 1)) return false;
    ((pl_tree_root *)trees->roots)[trees->count++] =
        (pl_tree_root){(uint32_t)trees->node_count, (uint32_t)trees->share_count};
    return true;
}

static bool add_node(pl_trees *trees, float value, uint32_t further, uint32_t column) {
    if (!reserve_nodes(trees, 1)) return false;
    ((pl_tree_node *)trees->nodes)[trees->node_count++] =
        (pl_tree_node){value, further << PL_TREE_COLUMN_BITS | column};
    return true;
}

bool pl_trees_add_split(pl_trees *trees, uint32_t column, float threshold) {
    return add_node(trees, threshold, 0, column);
}

bool pl_trees_add_leaf(pl_trees *trees, float value) {
    return add_node(trees, value, 0, PL_TREE_LEAF);
}

void pl_trees_set_right(pl_trees *trees, size_t split) {
    pl_tree_node *node = (pl_tree_node *)&trees->nodes[split];
    uint32_t further = (uint32_t)(trees->node_count - split);
    node->link = further << PL_TREE_COLUMN_BITS | pl_tree_column(node);
}

bool pl_trees_add_shares(pl_trees *trees, const double *weights) {
    double sum = 0;
    for (size_t k = 0; k < trees->classes; k++) sum += weights[k];
    if (!reserve_shares(trees, trees->classes)) return false;
    pl_tree_share *shares = (pl_tree_share *)trees->shares;
    size_t first = trees->share_count;
    size_t most = 0;
    for (size_t k = 0; k < trees->classes; k++) {
        if (weights[k] > weights[most]) most = k;
        uint16_t share = (uint16_t)lrint(weights[k] / sum * PL_TREE_ONE);
        if (share > 0) shares[trees->share_count++] = (pl_tree_share){(uint16_t)k, share};
    }
    if (trees->share_count == first) /* more classes than shares of 1 / 65,535 */
        shares[trees->share_count++] = (pl_tree_share){(uint16_t)most, 1};
    shares[trees->share_count - 1].label |= PL_TREE_LAST_SHARE;
    uint32_t own = (uint32_t)first - trees->roots[trees->count - 1].share;
    return add_node(trees, 0, own, PL_TREE_LEAF);
}

bool pl_trees_append(pl_trees *to, const pl_trees *from) {
    if (!reserve_roots(to, from->count) || !reserve_nodes(to, from->node_count) ||
        !reserve_shares(to, from->share_count))
        return false;
    for (size_t t = 0; t < from->count; t++)
        ((pl_tree_root *)to->roots)[to->count + t] =
            (pl_tree_root){from->roots[t].node + (uint32_t)to->node_count,
                           from->roots[t].share + (uint32_t)to->share_count};
    memcpy((pl_tree_node *)to->nodes + to->node_count, from->nodes,
           from->node_count * sizeof *to->nodes);
    if (from->share_count)
        memcpy((pl_tree_share *)to->shares + to->share_count, from->shares,
               from->share_count * sizeof *to->shares);
    to->count += from->count;
    to->node_count += from->node_count;
    to->share_count += from->share_count;
    return true;
}

void pl_trees_truncate(pl_trees *trees, size_t count) {
    if (count >= trees->count) return;
    trees->node_count = trees->roots[count].node;
    trees->share_count = trees->roots[count].share;
    trees->count = count;
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
            return pl_fail(err, PL_INPUT, learner, -1, "sample %zu has the weight %s", i,
                           PL_REAL("g", (double)s->weights[i]));
        sum += (double)s->weights[i];
    }
    if (!(sum > 0)) return pl_fail(err, PL_INPUT, learner, -1, "every sample has the weight 0");
    return PL_OK;
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
