/* graph_check: see graph_check.h. The rules are those of PyTorch's operators of these names. */
#include "import/graph_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct checker {
    const pl_graph *graph;
    bool hinted; /* every symbol has a hint */
} checker;

/* A tensor of the node whose sizes are known, or NULL. */
static const pl_tensor *known(const checker *c, int32_t id) {
    if (id < 0) return NULL;
    const pl_tensor *t = &c->graph->tensors[id];
    return t->size_expr && !c->hinted ? NULL : t;
}

static const pl_tensor *arg(const checker *c, const pl_node *n, const char *name) {
    return known(c, pl_node_tensor(n, name));
}

static const pl_tensor *made(const checker *c, const pl_node *n) {
    return n->output_count == 1 ? known(c, n->outputs[0]) : NULL;
}

static int64_t last(const pl_tensor *t) {
    return t->dims ? t->sizes[t->dims - 1] : 1;
}

static bool same_sizes(const pl_tensor *a, const pl_tensor *b) {
    return a->dims == b->dims && !memcmp(a->sizes, b->sizes, a->dims * sizeof *a->sizes);
}

/* Each of them: false where the sizes cannot be. An argument that is missing says nothing. */

static bool linear(const checker *c, const pl_node *n) {
    const pl_tensor *x = arg(c, n, "input"), *w = arg(c, n, "weight"), *y = made(c, n);
    if (!w || w->dims != 2) return true;
    if (x && last(x) != w->sizes[1]) return false;
    return !y || (last(y) == w->sizes[0] && (!x || y->dims == x->dims));
}

static bool product(const checker *c, const pl_node *n, const pl_tensor *a, const pl_tensor *b) {
    const pl_tensor *y = made(c, n);
    if (!a || !b || a->dims < 2 || b->dims < 2) return true;
    if (last(a) != b->sizes[b->dims - 2]) return false;
    return !y || y->dims < 2 ||
           (last(y) == last(b) && y->sizes[y->dims - 2] == a->sizes[a->dims - 2]);
}

static bool matmul(const checker *c, const pl_node *n) {
    const pl_tensor *b = arg(c, n, "other");
    return product(c, n, arg(c, n, "self"), b ? b : arg(c, n, "mat2"));
}

static bool addmm(const checker *c, const pl_node *n) {
    return product(c, n, arg(c, n, "mat1"), arg(c, n, "mat2"));
}

static bool convolution(const checker *c, const pl_node *n) {
    const pl_tensor *x = arg(c, n, "input"), *w = arg(c, n, "weight"), *y = made(c, n);
    if (!x || !w || w->dims < 3 || pl_node_int(n, "transposed", 0)) return true;
    int64_t groups = pl_node_int(n, "groups", 1), channels;
    if (x->dims != w->dims && x->dims != w->dims - 1) return false;
    if (groups < 1 || __builtin_mul_overflow(groups, w->sizes[1], &channels)) return false;
    if (x->sizes[x->dims - w->dims + 1] != channels) return false;
    return !y || (y->dims == x->dims && y->sizes[y->dims - w->dims + 1] == w->sizes[0]);
}

static bool embedding(const checker *c, const pl_node *n) {
    const pl_tensor *w = arg(c, n, "weight"), *x = arg(c, n, "indices"), *y = made(c, n);
    if (!w || !x || !y || w->dims != 2) return true;
    return y->dims == x->dims + 1 && last(y) == w->sizes[1] &&
           !memcmp(y->sizes, x->sizes, x->dims * sizeof *x->sizes);
}

/* One tensor in, one of the same sizes out. */
static bool pointwise(const checker *c, const pl_node *n) {
    const pl_tensor *x = arg(c, n, "self"), *y = made(c, n);
    if (!x) x = arg(c, n, "input");
    return !x || !y || same_sizes(x, y);
}

/* Two tensors in, broadcast. */
static bool broadcast(const checker *c, const pl_node *n) {
    const pl_tensor *in[2] = {arg(c, n, "self"), arg(c, n, "other")}, *y = made(c, n);
    for (int i = 0; i < 2 && y; i++) {
        if (!in[i]) continue;
        if (in[i]->dims > y->dims) return false;
        for (int k = 0; k < in[i]->dims; k++) {
            int64_t size = in[i]->sizes[k], out = y->sizes[y->dims - in[i]->dims + k];
            if (size != out && size != 1) return false;
        }
    }
    return true;
}

/* The same elements seen otherwise. */
static bool view(const checker *c, const pl_node *n) {
    const pl_tensor *x = arg(c, n, "self"), *y = made(c, n);
    return !x || !y || pl_tensor_elements(x) == pl_tensor_elements(y);
}

static const struct row {
    const char *name; /* between "aten." and the overload */
    bool (*holds)(const checker *c, const pl_node *n);
} rows[] = {
    {"linear", linear},
    {"matmul", matmul},
    {"mm", matmul},
    {"bmm", matmul},
    {"addmm", addmm},
    {"conv1d", convolution},
    {"conv2d", convolution},
    {"conv3d", convolution},
    {"convolution", convolution},
    {"embedding", embedding},
    {"relu", pointwise},
    {"relu_", pointwise},
    {"gelu", pointwise},
    {"silu", pointwise},
    {"tanh", pointwise},
    {"sigmoid", pointwise},
    {"dropout", pointwise},
    {"softmax", pointwise},
    {"_softmax", pointwise},
    {"clone", pointwise},
    {"contiguous", pointwise},
    {"layer_norm", pointwise},
    {"rms_norm", pointwise},
    {"batch_norm", pointwise},
    {"group_norm", pointwise},
    {"log_softmax", pointwise},
    {"_log_softmax", pointwise},

    {"rsqrt", pointwise},
    {"neg", pointwise},
    {"add", broadcast},
    {"sub", broadcast},
    {"mul", broadcast},
    {"div", broadcast},
    {"view", view},
    {"_unsafe_view", view},
    {"reshape", view},
    {"permute", view},
    {"transpose", view},
    {"t", view},
    {"flatten", view},
    {"unflatten", view},
    {"squeeze", view},
    {"unsqueeze", view},
};

static const struct row *row_of(const char *target) {
    if (strncmp(target, "aten.", 5) != 0) return NULL;
    size_t length = strcspn(target + 5, ".");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strncmp(rows[i].name, target + 5, length) && !rows[i].name[length]) return &rows[i];
    return NULL;
}

/* "[2, 3]"; room for 16 sizes of 64 bits. */
static void write_sizes(char *text, size_t room, const pl_tensor *t) {
    size_t at = (size_t)snprintf(text, room, "[");
    for (int k = 0; k < t->dims && at < room; k++)
        at += (size_t)snprintf(text + at, room - at, "%s%" PRId64, k ? ", " : "", t->sizes[k]);
    if (at < room) snprintf(text + at, room - at, "]");
}

bool pl_graph_sizes_match(const pl_graph *g, char *message, size_t room) {
    checker c = {.graph = g, .hinted = true};
    char one[64], two[64];
    for (int32_t i = 0; i < g->symbol_count; i++) c.hinted &= g->symbols[i].hint >= 0;
    for (int32_t i = 0; i < g->tensor_count; i++) {
        const pl_tensor *t = &g->tensors[i], *other = t->tied < 0 ? NULL : &g->tensors[t->tied];
        if (!other || (same_sizes(t, other) && t->dtype == other->dtype)) continue;
        write_sizes(one, sizeof one, t);
        write_sizes(two, sizeof two, other);
        snprintf(message, room, "tensor %d is tied to tensor %d, of another size or type: %s, %s",
                 i, t->tied, one, two);
        return false;
    }
    for (int32_t i = 0; i < g->node_count; i++) {
        const pl_node *n = &g->nodes[i];
        const struct row *row = row_of(n->target);
        if (!row || row->holds(&c, n)) continue;
        snprintf(message, room, "node %d (%.60s): its tensors' sizes do not go together", i,
                 n->target);
        return false;
    }
    return true;
}
