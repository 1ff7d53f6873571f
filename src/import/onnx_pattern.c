/* onnx_pattern: nodes that were one operator of PyTorch's before the export.
 *
 * Old exports (torch.onnx.export with dynamo=False) say nothing of the operators they came from and
 * take many apart; what they make of each is written in
 * torch/onnx/_internal/torchscript_exporter/symbolic_opset*.py (2.11) and is looked for here: a
 * linear layer (Transpose, MatMul, Add), gelu, silu, rsqrt, bernoulli, layer norm before opset 17,
 * group norm, and scaled_dot_product_attention, which differs from attention written out in Python
 * by the square root of the scale on both queries and keys. What belongs together becomes one step,
 * at its last node.
 *
 * Left out: nodes whose call the file names (onnx_fx.c), and what training code writes out itself.
 */
#include <math.h>
#include <string.h>

#include "import/onnx_plan.h"

typedef struct finder {
    onnx_plan *plan;
    const onnx_graph *g;
    int32_t *uses;     /* [value_count] by others than Shape and Size, which need no tensor */
    int32_t *consumer; /* [value_count] the last of them */
    bool no_memory;
} finder;

/* ---- looking around ---- */

/* The node that makes a value, where it is this operator; NULL: not. */
static const onnx_node *maker(const finder *f, int32_t value, const char *op) {
    int32_t at = value < 0 ? -1 : f->g->values[value].producer;
    if (at < 0 || f->g->nodes[at].fx || strcmp(f->g->nodes[at].op, op) != 0) return NULL;
    return f->plan->steps[at].kind == ONNX_ALONE ? &f->g->nodes[at] : NULL;
}

/* The one node that takes a value, where it is this operator. */
static const onnx_node *taker(const finder *f, int32_t value, const char *op) {
    if (value < 0 || f->uses[value] != 1 || f->consumer[value] < 0) return NULL;
    const onnx_node *n = &f->g->nodes[f->consumer[value]];
    return !n->fx && strcmp(n->op, op) == 0 ? n : NULL;
}

static int32_t input(const onnx_node *n, uint32_t i) {
    return n && i < n->input_count ? n->inputs[i] : -1;
}

static int32_t output(const onnx_node *n) {
    return n && n->output_count ? n->outputs[0] : -1;
}

static int32_t index_of(const finder *f, const onnx_node *n) {
    return (int32_t)(n - f->g->nodes);
}

static bool used_once(const finder *f, const onnx_node *n) {
    int32_t value = output(n);
    return value >= 0 && f->uses[value] == 1;
}

/* The other operand of a node with two. */
static int32_t other(const onnx_node *n, int32_t value) {
    return input(n, 0) == value ? input(n, 1) : input(n, 1) == value ? input(n, 0) : -1;
}

/* A single number, through casts and square roots. */
static bool constant(const finder *f, int32_t value, double *out) {
    bool root = false;
    for (int depth = 0; depth < 4 && value >= 0; depth++) {
        const onnx_value *v = &f->g->values[value];
        const onnx_tensor *t = v->initializer;
        if (!t && v->producer >= 0) {
            const onnx_node *n = &f->g->nodes[v->producer];
            if (strcmp(n->op, "Constant") == 0) {
                const onnx_attr *a = n->attr_count ? &n->attrs[0] : NULL;
                if (a && a->kind == ONNX_FLOAT) {
                    *out = root ? sqrt(a->f) : a->f;
                    return true;
                }
                t = a && a->kind == ONNX_TENSOR ? a->tensor : NULL;
                if (!t) return false;
            } else if (strcmp(n->op, "Sqrt") == 0 && !root) {
                root = true;
                value = input(n, 0);
                continue;
            } else if (strcmp(n->op, "Cast") == 0 || strcmp(n->op, "Identity") == 0) {
                value = input(n, 0);
                continue;
            } else {
                return false;
            }
        }
        if (!t || t->elements != 1 || !t->numbers) return false;
        *out = root ? sqrt(t->numbers[0]) : t->numbers[0];
        return true;
    }
    return false;
}

static bool is_number(const finder *f, int32_t value, double wanted) {
    double x;
    return constant(f, value, &x) && fabs(x - wanted) <= 1e-3 * fabs(wanted);
}

/* The operand of a node that is not this number; -1: neither is. */
static int32_t beside(const finder *f, const onnx_node *n, double number) {
    if (is_number(f, input(n, 1), number)) return input(n, 0);
    if (is_number(f, input(n, 0), number)) return input(n, 1);
    return -1;
}

static const onnx_tensor *weight(const finder *f, int32_t value, int dims) {
    const onnx_tensor *t = value < 0 ? NULL : f->g->values[value].initializer;
    return t && t->dims == dims && pl_dtype_is_float(t->dtype) ? t : NULL;
}

static void inside(const finder *f, const onnx_node *n) {
    if (n) f->plan->steps[index_of(f, n)].kind = ONNX_INSIDE;
}

static onnx_step *head(const finder *f, const onnx_node *n, onnx_shape_of kind, int32_t a,
                       int32_t b, int32_t c) {
    onnx_step *s = &f->plan->steps[index_of(f, n)];
    *s = (onnx_step){.kind = (uint8_t)kind, .a = a, .b = b, .c = c, .d = -1, .turn = -1};
    return s;
}

/* ---- linear layers ---- */

static void find_linear(finder *f, const onnx_node *product) {
    const onnx_node *turn = maker(f, input(product, 1), "Transpose");
    const onnx_attr *perm = turn ? onnx_ints(turn, "perm") : NULL;
    int32_t w = -1;
    if (turn && weight(f, input(turn, 0), 2) && perm && perm->count == 2 && perm->ints[0] == 1)
        w = input(turn, 0);
    /* folded: the transposed weight has a name of the exporter's */
    int32_t folded = input(product, 1);
    if (w < 0 && weight(f, folded, 2) &&
        strncmp(f->g->values[folded].name, "onnx::MatMul_", 13) == 0) {
        f->plan->graph.values[folded].turned = true;
        w = folded;
    }
    if (w < 0) return;
    if (turn && used_once(f, turn)) inside(f, turn);
    const onnx_node *sum = taker(f, output(product), "Add");
    int32_t bias = sum ? other(sum, output(product)) : -1;
    if (sum && weight(f, bias, 1)) {
        inside(f, product);
        head(f, sum, ONNX_LINEAR, input(product, 0), w, bias);
    } else {
        head(f, product, ONNX_LINEAR, input(product, 0), w, -1);
    }
}

/* Whether w [in, out] is e [out, in] transposed, by a sample of their numbers. */
static bool is_transposed(const onnx_tensor *w, const onnx_tensor *e) {
    if (w == e || w->dims != 2 || e->dims != 2 || w->dtype != e->dtype || !w->raw || !e->raw ||
        w->sizes[0] != e->sizes[1] || w->sizes[1] != e->sizes[0] || e->elements < 1)
        return false;
    size_t wide = (size_t)pl_dtype_size(w->dtype), rows = (size_t)e->sizes[0],
           columns = (size_t)e->sizes[1];
    bool some = false;
    for (size_t k = 0; k < 512; k++) {
        size_t i = k * 7919 % rows, j = k * 104729 % columns;
        const uint8_t *x = e->raw + (i * columns + j) * wide, *y = w->raw + (j * rows + i) * wide;
        if (memcmp(x, y, wide) != 0) return false;
        for (size_t b = 0; b < wide; b++) some |= x[b] != 0;
    }
    return some;
}

/* A folded weight that is an embedding's, transposed: tied before the export. */
static void tie_embeddings(onnx_plan *plan) {
    onnx_graph *g = &plan->graph;
    int32_t tables[8];
    int count = 0;
    for (size_t i = 0; i < g->node_count && count < 8; i++) {
        int32_t id = strcmp(g->nodes[i].op, "Gather") == 0 ? input(&g->nodes[i], 0) : -1;
        if (id >= 0 && g->values[id].initializer && g->values[id].initializer->dims == 2)
            tables[count++] = id;
    }
    for (size_t i = 0; i < g->node_count; i++) {
        onnx_step *s = &plan->steps[i];
        if (s->kind != ONNX_LINEAR || s->b < 0 || !g->values[s->b].turned) continue;
        for (int k = 0; k < count; k++)
            if (is_transposed(g->values[s->b].initializer, g->values[tables[k]].initializer)) {
                g->values[s->b].uses--;
                g->values[tables[k]].uses++;
                s->b = tables[k];
                break;
            }
    }
}

/* ---- activations ---- */

/* x * 0.5 * (1 + erf(x / sqrt 2)), in either order of the products. */
static void find_gelu(finder *f, const onnx_node *erf) {
    const onnx_node *scale = maker(f, input(erf, 0), "Div");
    int32_t x = scale && is_number(f, input(scale, 1), 1.41421356) ? input(scale, 0) : -1;
    if (!scale && (scale = maker(f, input(erf, 0), "Mul"))) x = beside(f, scale, 0.70710678);
    const onnx_node *sum = taker(f, output(erf), "Add");
    if (x < 0 || !sum || beside(f, sum, 1) != output(erf) || !used_once(f, scale)) return;
    const onnx_node *product = taker(f, output(sum), "Mul"), *half = NULL, *last = product;
    int32_t with = product ? other(product, output(sum)) : -1;
    if (with < 0) return;
    if (with == x) {
        last = taker(f, output(product), "Mul");
        if (!last || beside(f, last, 0.5) != output(product)) return;
        inside(f, product);
    } else {
        half = maker(f, with, "Mul");
        if (!half || beside(f, half, 0.5) != x || !used_once(f, half)) return;
        inside(f, half);
    }
    inside(f, scale);
    inside(f, erf);
    inside(f, sum);
    head(f, last, ONNX_GELU, x, -1, -1);
}

static void find_silu(finder *f, const onnx_node *sigmoid) {
    const onnx_node *product = taker(f, output(sigmoid), "Mul");
    if (!product || other(product, output(sigmoid)) != input(sigmoid, 0)) return;
    inside(f, sigmoid);
    head(f, product, ONNX_SILU, input(sigmoid, 0), -1, -1);
}

static void find_rsqrt(finder *f, const onnx_node *root) {
    const onnx_node *over = taker(f, output(root), "Div");
    if (over && (input(over, 1) != output(root) || !is_number(f, input(over, 0), 1))) over = NULL;
    if (!over) over = taker(f, output(root), "Reciprocal");
    if (!over) return;
    inside(f, root);
    head(f, over, ONNX_RSQRT, input(root, 0), -1, -1);
}

/* cast(rand_like(x) < p): x.bernoulli_(p), the noise of stochastic depth. */
static void find_bernoulli(finder *f, const onnx_node *random) {
    const onnx_node *less = taker(f, output(random), "Less");
    const onnx_node *last = less ? taker(f, output(less), "Cast") : NULL;
    double p;
    if (!last || input(less, 0) != output(random) || !constant(f, input(less, 1), &p)) return;
    inside(f, random);
    inside(f, less);
    head(f, last, ONNX_BERNOULLI, input(random, 0), -1, -1)->number = p;
}

/* ---- norms ---- */

/* (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias */
static void find_layer_norm(finder *f, const onnx_node *over) {
    const onnx_node *centre = maker(f, input(over, 0), "Sub"),
                    *root = maker(f, input(over, 1), "Sqrt");
    const onnx_node *sum = root ? maker(f, input(root, 0), "Add") : NULL;
    double eps;
    if (!centre || !sum || !constant(f, input(sum, 1), &eps)) return;
    const onnx_node *mean = maker(f, input(sum, 0), "ReduceMean"),
                    *square = mean ? maker(f, input(mean, 0), "Pow") : NULL,
                    *first = maker(f, input(centre, 1), "ReduceMean");
    const onnx_attr *axes = mean ? pl_onnx_attr(mean, "axes") : NULL;
    if (!square || !first || input(square, 0) != output(centre) ||
        input(first, 0) != input(centre, 0) || !is_number(f, input(square, 1), 2) || !axes ||
        axes->count != 1)
        return;
    const onnx_node *product = taker(f, output(over), "Mul");
    int32_t w = product ? other(product, output(over)) : -1;
    if (!product || !weight(f, w, 1)) return;
    const onnx_node *shift = taker(f, output(product), "Add");
    int32_t bias = shift ? other(shift, output(product)) : -1;
    if (shift && !weight(f, bias, 1)) shift = NULL;
    const onnx_node *parts[] = {centre, root, sum, mean, square, first, over};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) inside(f, parts[i]);
    if (shift) inside(f, product);
    head(f, shift ? shift : product, ONNX_LAYER_NORM, input(centre, 0), w, shift ? bias : -1)
        ->second = eps;
}

/* Past an Unsqueeze: the weight of a norm is given trailing dimensions. */
static int32_t bare_weight(const finder *f, int32_t value) {
    const onnx_node *n = maker(f, value, "Unsqueeze");
    if (n) value = input(n, 0);
    return weight(f, value, 1) || weight(f, value, 3) ? value : -1;
}

/* Reshape to [N, groups, -1], InstanceNormalization, Reshape back, Mul, Add. */
static void find_group_norm(finder *f, const onnx_node *norm) {
    const onnx_node *before = maker(f, input(norm, 0), "Reshape"),
                    *after = taker(f, output(norm), "Reshape");
    const onnx_node *product = after ? taker(f, output(after), "Mul") : NULL;
    int32_t w = product ? bare_weight(f, other(product, output(after))) : -1;
    const onnx_node *shift = product ? taker(f, output(product), "Add") : NULL;
    int32_t bias = shift ? bare_weight(f, other(shift, output(product))) : -1;
    int32_t ones = input(norm, 1);
    const onnx_tensor *scale = ones < 0 ? NULL : f->g->values[ones].initializer;
    if (!scale && ones >= 0 && f->g->values[ones].producer >= 0) {
        const onnx_node *made = &f->g->nodes[f->g->values[ones].producer];
        scale =
            made->attr_count && made->attrs[0].kind == ONNX_TENSOR ? made->attrs[0].tensor : NULL;
    }
    if (!before || w < 0 || bias < 0 || !scale || scale->dims != 1 || !used_once(f, before) ||
        !weight(f, w, 1) || !weight(f, bias, 1))
        return;
    inside(f, before);
    inside(f, norm);
    inside(f, after);
    inside(f, product);
    onnx_step *s = head(f, shift, ONNX_GROUP_NORM, input(before, 0), w, bias);
    s->number = (double)scale->sizes[0];
    s->second = pl_onnx_float(norm, "epsilon", 1e-5);
}

/* ---- attention ---- */

/* A number, or a square root that is worked out from sizes (the scale that attention takes of
 * itself; 0 then). */
static bool scale_of(const finder *f, int32_t value, double *out) {
    *out = 0;
    if (constant(f, value, out)) return true;
    const onnx_node *n = maker(f, value, "Cast");
    return maker(f, n ? input(n, 0) : value, "Sqrt") != NULL;
}

/* softmax((q * s) @ (k^T * s) + mask) @ v with s the square root of the scale: nobody writes that
 * by hand. */
static void find_attention(finder *f, const onnx_node *softmax) {
    const onnx_node *sum = maker(f, input(softmax, 0), "Add"), *where = NULL;
    const onnx_node *scores = maker(f, sum ? input(sum, 0) : input(softmax, 0), "MatMul");
    if (!scores && sum) scores = maker(f, input(sum, 1), "MatMul");
    if (!scores || !used_once(f, scores) || (sum && !used_once(f, sum))) return;
    const onnx_node *q = maker(f, input(scores, 0), "Mul"), *k = maker(f, input(scores, 1), "Mul");
    double s, t;
    if (!q || !k || !scale_of(f, input(q, 1), &s) || !scale_of(f, input(k, 1), &t) ||
        !used_once(f, q) || !used_once(f, k) || fabs(s - t) > 1e-3 * fabs(s))
        return;
    const onnx_node *turn = maker(f, input(k, 0), "Transpose");
    if (!turn || !used_once(f, turn)) return;
    /* where(isnan(p), 0, p), which newer versions put behind the softmax */
    int32_t p = output(softmax);
    const onnx_node *nan = NULL, *clean = NULL;
    if (p >= 0 && f->uses[p] == 2 && f->consumer[p] >= 0) {
        clean = &f->g->nodes[f->consumer[p]];
        nan = strcmp(clean->op, "Where") == 0 ? maker(f, input(clean, 0), "IsNaN") : NULL;
        if (!nan || input(nan, 0) != p || input(clean, 2) != p) return;
        p = output(clean);
    }
    const onnx_node *drop = taker(f, p, "Dropout");
    double dropped = 0;
    if (drop) {
        dropped = pl_onnx_float(drop, "ratio", 0.5);
        constant(f, input(drop, 1), &dropped);
        p = output(drop);
    }
    const onnx_node *last = taker(f, p, "MatMul");
    if (!last || input(last, 0) != p) return;
    int32_t mask = sum ? other(sum, output(scores)) : -1;
    /* a mask of truth values was turned into 0 and minus infinity */
    where = mask < 0 ? NULL : maker(f, mask, "Where");
    double zero, low;
    if (where && constant(f, input(where, 1), &zero) && constant(f, input(where, 2), &low) &&
        zero == 0 && low < -1e30) {
        mask = input(where, 0);
        if (used_once(f, where)) inside(f, where);
    }
    const onnx_node *parts[] = {sum, scores, q, k, turn, softmax, nan, clean, drop};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) inside(f, parts[i]);
    onnx_step *step = head(f, last, ONNX_ATTENTION, input(q, 0), input(turn, 0), input(last, 1));
    step->d = mask;
    step->turn = index_of(f, turn);
    step->number = s * s;
    step->second = dropped;
}

/* ---- recurrent layers ---- */

enum { MOST_PARTS = 8 };

/* The weights that a value is put together from (gates are reordered by Slice and Concat), in
 * order. */
static int sources(const finder *f, int32_t value, int32_t *out, int count, int depth) {
    if (value < 0 || depth > 8 || count < 0) return -1;
    if (weight(f, value, 1) || weight(f, value, 2)) {
        for (int i = 0; i < count; i++)
            if (out[i] == value) return count;
        if (count == MOST_PARTS) return -1;
        out[count] = value;
        return count + 1;
    }
    int32_t at = f->g->values[value].producer;
    if (at < 0 || f->g->nodes[at].fx) return -1;
    const onnx_node *n = &f->g->nodes[at];
    bool all = strcmp(n->op, "Concat") == 0;
    if (!all && strcmp(n->op, "Slice") != 0 && strcmp(n->op, "Unsqueeze") != 0) return -1;
    for (uint32_t i = 0; i < (all ? n->input_count : 1) && i < 16; i++)
        count = sources(f, n->inputs[i], out, count, depth + 1);
    if (count >= 0) f->plan->steps[at].kind = ONNX_INSIDE;
    return count;
}

/* weight_ih, weight_hh, bias_ih, bias_hh of each direction. */
static void find_recurrent(finder *f, const onnx_node *n) {
    int32_t w[MOST_PARTS], r[MOST_PARTS], b[MOST_PARTS];
    int ways = sources(f, input(n, 1), w, 0, 0), same = sources(f, input(n, 2), r, 0, 0);
    int biases = input(n, 3) < 0 ? 0 : sources(f, input(n, 3), b, 0, 0);
    if (ways < 1 || ways > 2 || same != ways || (biases != 0 && biases != ways * 2)) return;
    int32_t *list = pl_arena_array(f->g->arena, MOST_PARTS, sizeof *list);
    onnx_step *s = &f->plan->steps[index_of(f, n)];
    if (!list) {
        f->no_memory = true;
        return;
    }
    for (int way = 0; way < ways; way++) {
        list[s->list_count++] = w[way];
        list[s->list_count++] = r[way];
        for (int k = 0; k < (biases ? 2 : 0); k++) list[s->list_count++] = b[way * 2 + k];
    }
    s->list = list;
}

/* ---- all ---- */

static const struct {
    const char *op;
    void (*find)(finder *f, const onnx_node *n);
} finders[] = {
    {"Softmax", find_attention},
    {"Erf", find_gelu},
    {"Div", find_layer_norm},
    {"Sigmoid", find_silu},
    {"Sqrt", find_rsqrt},
    {"InstanceNormalization", find_group_norm},
    {"MatMul", find_linear},
    {"LSTM", find_recurrent},
    {"GRU", find_recurrent},
    {"RNN", find_recurrent},
    {"RandomUniformLike", find_bernoulli},
};

bool pl_onnx_patterns(onnx_plan *plan, pl_arena *scratch) {
    const onnx_graph *g = &plan->graph;
    finder f = {.plan = plan, .g = g};
    plan->steps = pl_arena_array(g->arena, g->node_count + 1, sizeof *plan->steps);
    f.uses = pl_arena_array(scratch, g->value_count + 1, sizeof *f.uses);
    f.consumer = pl_arena_array(scratch, g->value_count + 1, sizeof *f.consumer);
    if (!plan->steps || !f.uses || !f.consumer) return false;
    for (size_t i = 0; i < g->value_count; i++) f.consumer[i] = -1;
    for (size_t i = 0; i < g->node_count; i++) {
        const onnx_node *n = &g->nodes[i];
        if (strcmp(n->op, "Shape") == 0 || strcmp(n->op, "Size") == 0) continue;
        for (uint32_t k = 0; k < n->input_count; k++)
            if (n->inputs[k] >= 0) {
                f.uses[n->inputs[k]]++;
                f.consumer[n->inputs[k]] = (int32_t)i;
            }
    }
    for (size_t i = 0; i < g->output_count; i++) {
        f.uses[g->outputs[i]] += 2; /* never inside of anything */
        f.consumer[g->outputs[i]] = -1;
    }
    for (size_t k = 0; k < sizeof finders / sizeof *finders; k++)
        for (size_t i = 0; i < g->node_count; i++) {
            const onnx_node *n = &g->nodes[i];
            if (!n->fx && plan->steps[i].kind == ONNX_ALONE && strcmp(n->op, finders[k].op) == 0)
                finders[k].find(&f, n);
        }
    /* an initializer that stands turned for one layer and as it is for another is left as it is */
    for (size_t i = 0; i < g->node_count; i++)
        for (uint32_t k = 0; k < g->nodes[i].input_count; k++) {
            int32_t id = g->nodes[i].inputs[k];
            bool linear = strcmp(g->nodes[i].op, "MatMul") == 0 && k == 1;
            if (id >= 0 && !linear && !g->nodes[i].fx) plan->graph.values[id].turned = false;
        }
    for (size_t i = 0; i < g->node_count; i++) {
        onnx_step *s = &plan->steps[i];
        if (s->kind == ONNX_LINEAR && s->b >= 0 && g->values[s->b].producer < 0 &&
            !g->values[s->b].turned && strncmp(g->values[s->b].name, "onnx::MatMul_", 13) == 0)
            s->kind = ONNX_ALONE;
    }
    tie_embeddings(plan);
    return !f.no_memory;
}
