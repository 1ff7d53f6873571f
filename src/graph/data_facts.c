/* data_facts: see data_facts.h. A table of operators by name; each row's function makes the first
 * output's fact of the operands'. Shapes and meanings are those of PyTorch's operators
 * (native_functions.yaml, 2.11). */
#include "graph/data_facts.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "graph/expr.h"

#define NOT_ASKED INT64_MIN
/* Sums are followed up to this, far from overflow. */
#define MOST_SUM PL_MAX_BYTES

static const pl_fact nothing = {.sum = -1, .places = -1, .base = -1};

/* ---- numbers ---- */

int64_t pl_data_part(pl_data_case which, int64_t whole, int64_t parts, int64_t index,
                     int64_t each) {
    if (parts < 1) return whole;
    if (which == PL_DATA_EXPECTED) return whole / parts + (index < whole % parts);
    int64_t later = pl_times(each > 0 ? each : 0, parts - 1 - index);
    int64_t left = later < whole ? whole - later : 0;
    return left < each ? left : each;
}

/* Of `draws` numbers, each one of `range`: how many differ. */
static int64_t differing(pl_data_case which, int64_t draws, int64_t range) {
    int64_t most = draws < range ? draws : range;
    if (which == PL_DATA_WORST || most < 2) return most;
    double n = (double)range,
           expected = n * -expm1((double)draws * log1p(-1 / n)); /* n (1 - (1 - 1/n)^draws) */
    int64_t whole = (int64_t)ceil(expected);
    return whole < most ? whole : most;
}

/* ---- what is known ---- */

bool pl_facts_open(pl_facts *facts, const pl_graph *graph, pl_data_case which, int64_t *values,
                   pl_arena *arena) {
    size_t tensors = (size_t)graph->tensor_count, exprs = (size_t)graph->expr_count;
    *facts = (pl_facts){.graph = graph, .which = which, .values = values};
    facts->known = pl_arena_array(arena, exprs, sizeof *facts->known);
    facts->of = pl_arena_array(arena, tensors, sizeof *facts->of);
    facts->written = pl_arena_array(arena, tensors, sizeof *facts->written);
    if (!facts->known || !facts->of || !facts->written) return false;
    for (size_t i = 0; i < exprs; i++) facts->known[i] = NOT_ASKED;
    for (size_t i = 0; i < tensors; i++) {
        facts->of[i] = nothing;
        facts->of[i].base = (int32_t)i;
        facts->of[i].born = -1;
        facts->written[i] = -1;
    }
    return true;
}

pl_fact pl_fact_of(const pl_facts *facts, int32_t tensor) {
    if (tensor < 0) return nothing;
    pl_fact fact = facts->of[tensor];
    if (fact.born >= facts->written[fact.base]) return fact;
    pl_fact lost = nothing;
    lost.base = fact.base;
    return lost;
}

/* Each expression is evaluated once, when its symbols have got their values. */
int64_t pl_facts_value(pl_facts *facts, const pl_expr *expr, int64_t otherwise) {
    if (!expr) return otherwise;
    int64_t *known = &facts->known[pl_expr_index(expr)];
    const char *failure;
    if (*known == NOT_ASKED && (!pl_expr_value(expr, facts->values, known, &failure) || *known < 0))
        *known = *known < 0 && *known != NOT_ASKED ? 0 : INT64_MAX;
    return *known;
}

int64_t pl_facts_size(pl_facts *facts, int32_t tensor, int64_t dim) {
    const pl_tensor *t = &facts->graph->tensors[tensor];
    if (dim < 0) dim += t->dims;
    if (dim < 0 || dim >= t->dims) return 1;
    return pl_facts_value(facts, t->size_expr ? t->size_expr[dim] : NULL, t->sizes[dim]);
}

int64_t pl_facts_elements(pl_facts *facts, int32_t tensor) {
    int64_t n = 1;
    for (int k = 0; k < facts->graph->tensors[tensor].dims; k++)
        n = pl_times(n, pl_facts_size(facts, tensor, k));
    return n;
}

/* Of the dimensions in bits, the size of the longest. */
static int64_t longest(pl_facts *facts, int32_t tensor, uint16_t bits) {
    int64_t most = 1;
    for (int k = 0; k < facts->graph->tensors[tensor].dims; k++) {
        int64_t size = bits >> k & 1 ? pl_facts_size(facts, tensor, k) : 1;
        if (size > most) most = size;
    }
    return most;
}

/* At most so many elements are other than 0. */
static int64_t places_bound(pl_facts *facts, int32_t tensor, const pl_fact *fact) {
    int64_t n = pl_facts_elements(facts, tensor);
    if (n != INT64_MAX && fact->once) n /= longest(facts, tensor, fact->once);
    return fact->places >= 0 && fact->places < n ? fact->places : n;
}

pl_counted pl_facts_places(pl_facts *facts, int32_t tensor) {
    pl_fact fact = pl_fact_of(facts, tensor);
    int64_t bound = places_bound(facts, tensor, &fact);
    if (fact.sum < 0 || fact.running) return (pl_counted){.value = bound, .kind = PL_DATA_LARGEST};
    int64_t n = fact.most <= 1
                    ? fact.sum
                    : differing(facts->which, fact.sum, pl_facts_elements(facts, tensor));
    return (pl_counted){.value = n < bound ? n : bound,
                        .kind = fact.parts ? PL_DATA_PART : PL_DATA_COUNT,
                        .whole = fact.parts ? fact.whole : pl_facts_elements(facts, tensor),
                        .parts = fact.parts};
}

pl_counted pl_facts_sum(pl_facts *facts, int32_t tensor) {
    pl_fact fact = pl_fact_of(facts, tensor);
    if (fact.sum < 0 || fact.running) return (pl_counted){.kind = PL_DATA_OPEN};
    return (pl_counted){.value = fact.sum,
                        .kind = fact.parts ? PL_DATA_PART : PL_DATA_COUNT,
                        .whole = fact.parts ? fact.whole : fact.sum,
                        .parts = fact.parts};
}

pl_counted pl_facts_item(pl_facts *facts, int32_t tensor) {
    pl_fact fact = pl_fact_of(facts, tensor);
    if (fact.sum >= 0 && pl_facts_elements(facts, tensor) == 1) return pl_facts_sum(facts, tensor);
    if (fact.range > 0) return (pl_counted){.value = fact.range - 1, .kind = PL_DATA_LARGEST};
    return (pl_counted){.kind = PL_DATA_OPEN};
}

pl_counted pl_facts_differ(pl_facts *facts, int32_t tensor, int64_t draws) {
    int64_t range = pl_fact_of(facts, tensor).range;
    if (!range) return (pl_counted){.value = draws, .kind = PL_DATA_LARGEST};
    return (pl_counted){
        .value = differing(facts->which, draws, range), .kind = PL_DATA_COUNT, .whole = range};
}

/* ---- rules ---- */

/* One call of a rule: the operands, and the first output with its fact to be filled. */
typedef struct call {
    pl_facts *p;
    const pl_node *node;
    int32_t self, out; /* tensors, or -1 */
    pl_fact in;        /* of self */
    pl_fact *fact;     /* of the output */
    int32_t number;    /* the node's */
} call;

static int64_t argument(call *c, const char *name, int64_t otherwise) {
    const pl_arg *arg = pl_node_arg(c->node, name);
    if (!arg || (arg->kind != PL_ARG_INT && arg->kind != PL_ARG_BOOL)) return otherwise;
    return arg->expr ? pl_facts_value(c->p, arg->expr, otherwise) : arg->i;
}

static int dims_of(const call *c, int32_t tensor) {
    return c->p->graph->tensors[tensor].dims;
}

/* A dimension of tensor by an argument; -1: it has none such. */
static int dimension(call *c, const char *name, int64_t otherwise, int32_t tensor) {
    int dims = dims_of(c, tensor);
    int64_t dim = argument(c, name, otherwise);
    if (dim < 0) dim += dims;
    return dim >= 0 && dim < dims ? (int)dim : -1;
}

static int64_t elements(call *c, int32_t tensor) {
    return pl_facts_elements(c->p, tensor);
}

static void set_sum(pl_fact *fact, int64_t sum, int64_t most) {
    if (sum < 0 || sum > MOST_SUM) return;
    fact->sum = sum;
    fact->most = most < sum ? most : sum;
}

/* What a pass over single elements leaves as it was. */
static void copy_numbers(pl_fact *to, const pl_fact *from) {
    to->range = from->range;
    to->sum = from->sum;
    to->most = from->most;
    to->places = from->places;
    to->whole = from->whole;
    to->parts = from->parts;
}

/* The same elements in the same order, perhaps in other dimensions: those that have the same size,
 * counted from the front or from the back, are the same. */
static void rule_same(call *c) {
    copy_numbers(c->fact, &c->in);
    c->fact->base = c->in.base;
    int from = dims_of(c, c->self), to = dims_of(c, c->out);
    c->fact->running = c->in.running && from == to;
    uint16_t bits[2] = {c->in.once, c->in.distinct};
    if (!bits[0] && !bits[1]) return;
    uint16_t kept[2] = {0, 0};
    for (int side = 0; side < 2; side++) {
        for (int k = 0; k < from && k < to; k++) {
            int a = side ? from - 1 - k : k, b = side ? to - 1 - k : k;
            if (pl_facts_size(c->p, c->self, a) != pl_facts_size(c->p, c->out, b)) break;
            for (int i = 0; i < 2; i++)
                if (bits[i] >> a & 1) kept[i] = (uint16_t)(kept[i] | 1 << b);
        }
    }
    c->fact->once = kept[0];
    c->fact->distinct = kept[1];
}

/* Another type: of truth values, whether a number is other than 0. */
static void rule_cast(call *c) {
    rule_same(c);
    if (c->p->graph->tensors[c->out].dtype != PL_DT_BOOL || c->in.most <= 1 || c->in.sum < 0)
        return;
    set_sum(c->fact, pl_facts_places(c->p, c->self).value, 1);
    c->fact->range = 0;
    c->fact->parts = 0;
}

static uint16_t moved(uint16_t bits, const int *from, int dims) {
    uint16_t out = 0;
    for (int k = 0; k < dims; k++)
        if (bits >> from[k] & 1) out = (uint16_t)(out | 1 << k);
    return out;
}

static void rule_permute(call *c) {
    const pl_arg *list = pl_node_arg(c->node, "dims");
    int dims = dims_of(c, c->self), from[PL_MAX_DIMS];
    for (int k = 0; k < dims; k++) from[k] = k;
    if (list) { /* permute, movedim's is not followed */
        if (list->kind != PL_ARG_INTS || list->count != (uint32_t)dims) return;
        for (int k = 0; k < dims; k++) {
            int64_t d = list->ints[k] < 0 ? list->ints[k] + dims : list->ints[k];
            if (d < 0 || d >= dims) return;
            from[k] = (int)d;
        }
    } else { /* transpose, t */
        int a = dims < 2 ? 0 : dimension(c, "dim0", 0, c->self),
            b = dims < 2 ? 0 : dimension(c, "dim1", 1, c->self);
        if (a < 0 || b < 0) return;
        from[a] = b;
        from[b] = a;
    }
    copy_numbers(c->fact, &c->in);
    c->fact->base = c->in.base;
    c->fact->once = moved(c->in.once, from, dims);
    c->fact->distinct = moved(c->in.distinct, from, dims);
}

static void fill(call *c, int64_t value) {
    int64_t n = elements(c, c->out);
    if (value >= 0 && n != INT64_MAX) set_sum(c->fact, pl_times(n, value), value);
}

static void rule_zeros(call *c) {
    fill(c, 0);
}

static void rule_ones(call *c) {
    fill(c, 1);
}

/* full(size, fill_value), full_like(self, fill_value), new_full */
static void rule_full(call *c) {
    const pl_arg *value = pl_node_arg(c->node, "fill_value");
    if (!value) return;
    if (value->kind == PL_ARG_INT || value->kind == PL_ARG_BOOL)
        fill(c, value->i);
    else if (value->kind == PL_ARG_FLOAT && value->f == 0)
        fill(c, 0);
}

static void rule_arange(call *c) {
    const pl_arg *start = pl_node_arg(c->node, "start"), *step = pl_node_arg(c->node, "step");
    if ((start && (start->kind != PL_ARG_INT || start->i)) || step) return;
    c->fact->range = elements(c, c->out);
    c->fact->distinct = 1;
}

/* argmax, argmin: places along a dimension, or in all. */
static void rule_place(call *c) {
    const pl_arg *dim = pl_node_arg(c->node, "dim");
    int d = dim && dim->kind == PL_ARG_INT ? dimension(c, "dim", 0, c->self) : -1;
    c->fact->range = d >= 0 ? pl_facts_size(c->p, c->self, d) : elements(c, c->self);
}

/* Values, and places that differ along the dimension: topk, sort. argsort: the places alone. */
static void ranked(call *c, int64_t otherwise, bool values, bool all) {
    int d = dimension(c, "dim", otherwise, c->self);
    int32_t id = values ? (c->node->output_count > 1 ? c->node->outputs[1] : -1) : c->out;
    if (values && all) {
        c->fact->range = c->in.range;
        c->fact->distinct = d >= 0 ? c->in.distinct & (uint16_t)(1 << d) : 0;
        c->fact->sum = c->in.sum;
        c->fact->most = c->in.most;
    }
    if (d < 0 || id < 0) return;
    pl_fact fact = nothing;
    fact.range = pl_facts_size(c->p, c->self, d);
    fact.distinct = (uint16_t)(1 << d);
    fact.base = id;
    fact.born = c->number;
    if (values)
        c->p->of[id] = fact;
    else
        *c->fact = fact;
}

static void rule_topk(call *c) {
    ranked(c, -1, true, false);
}

static void rule_sort(call *c) {
    ranked(c, -1, true, true);
}

static void rule_argsort(call *c) {
    ranked(c, -1, false, true);
}

/* max and min by dimension: their second output is a place. */
static void rule_extreme(call *c) {
    if (pl_node_tensor(c->node, "other") >= 0) return;
    if (c->node->output_count < 2) {
        c->fact->range = c->in.range;
        return;
    }
    int d = dimension(c, "dim", 0, c->self);
    int32_t id = c->node->outputs[1];
    c->fact->range = c->in.range;
    if (d < 0 || id < 0) return;
    pl_fact fact = nothing;
    fact.range = pl_facts_size(c->p, c->self, d);
    fact.base = id;
    fact.born = c->number;
    c->p->of[id] = fact;
}

static void rule_multinomial(call *c) {
    c->fact->range = pl_facts_size(c->p, c->self, -1);
    if (!argument(c, "replacement", 0))
        c->fact->distinct = (uint16_t)(1 << (dims_of(c, c->out) - 1));
}

/* A 1 for each number, at its place in a further dimension. */
static void rule_one_hot(call *c) {
    set_sum(c->fact, elements(c, c->self), 1);
    c->fact->once = (uint16_t)(c->in.distinct | 1 << (dims_of(c, c->out) - 1));
}

/* ---- truth values ---- */

/* Numbers of a range that are this one: one of as many parts as the range has. */
static void equal_to(call *c, int64_t value) {
    int64_t n = elements(c, c->self), range = c->in.range;
    if (n > MOST_SUM) return;
    int64_t each = n / longest(c->p, c->self, c->in.distinct);
    int64_t sum =
        value < 0 || value >= range ? 0 : pl_data_part(c->p->which, n, range, value, each);
    set_sum(c->fact, sum, 1);
    c->fact->once = c->in.distinct;
    c->fact->whole = n;
    c->fact->parts = range;
}

/* Those that are other than 0. */
static void positive(call *c) {
    pl_counted count = pl_facts_places(c->p, c->self);
    c->fact->once = c->in.once;
    c->fact->places = c->in.places;
    if (c->in.sum < 0 || c->in.running) return;
    set_sum(c->fact, count.value, 1);
    if (c->in.most <= 1) {
        c->fact->whole = c->in.whole;
        c->fact->parts = c->in.parts;
    }
}

static void negate(call *c, const pl_fact *yes) {
    int64_t n = elements(c, c->out);
    if (yes->sum >= 0 && yes->most <= 1 && n <= MOST_SUM && yes->sum <= n)
        set_sum(c->fact, n - yes->sum, 1);
}

/* A whole number that is compared with; INT64_MIN: none. */
static int64_t compared(call *c) {
    const pl_arg *other = pl_node_arg(c->node, "other");
    if (!other) return INT64_MIN;
    if (other->kind == PL_ARG_INT || other->kind == PL_ARG_BOOL) return other->i;
    bool whole =
        other->kind == PL_ARG_FLOAT && fabs(other->f) < 1e15 && other->f == floor(other->f);
    return whole ? (int64_t)other->f : INT64_MIN;
}

/* Each number against all of its range, along a dimension of their own: one is equal. */
static void equal_to_all(call *c, int32_t numbers, const pl_fact *a, int32_t all) {
    int64_t n = elements(c, numbers), range = elements(c, all);
    if (n > MOST_SUM || a->range < 1 || a->range > range ||
        elements(c, c->out) != pl_times(n, range))
        return;
    set_sum(c->fact, n, 1);
    int dims = dims_of(c, c->out), offset = dims - dims_of(c, all);
    for (int k = 0; k < dims_of(c, all); k++)
        if (pl_facts_size(c->p, all, k) == range && offset + k >= 0 && range > 1)
            c->fact->once = (uint16_t)(c->fact->once | 1 << (offset + k));
    offset = dims - dims_of(c, numbers);
    if (offset >= 0) c->fact->once = (uint16_t)(c->fact->once | a->distinct << offset);
}

static bool is_all_of_range(call *c, int32_t tensor, const pl_fact *fact) {
    return fact->distinct && fact->range == elements(c, tensor) && fact->range > 0;
}

static void rule_eq(call *c) {
    int64_t value = compared(c);
    int32_t other = pl_node_tensor(c->node, "other");
    if (value != INT64_MIN && c->in.range > 0) {
        equal_to(c, value);
    } else if (value == 0) {
        call no = *c;
        pl_fact yes = nothing;
        no.fact = &yes;
        positive(&no);
        negate(c, &yes);
    } else if (other >= 0) {
        pl_fact b = pl_fact_of(c->p, other);
        if (is_all_of_range(c, other, &b) && c->in.range)
            equal_to_all(c, c->self, &c->in, other);
        else if (is_all_of_range(c, c->self, &c->in) && b.range)
            equal_to_all(c, other, &b, c->self);
        else if (c->in.range > 0 && elements(c, other) == 1)
            set_sum(c->fact,
                    pl_data_part(c->p->which, elements(c, c->self), c->in.range, 0,
                                 elements(c, c->self)),
                    1);
    }
}

static void rule_ne(call *c) {
    int64_t value = compared(c);
    if (value != INT64_MIN && c->in.range > 0) {
        call same = *c;
        pl_fact yes = nothing;
        same.fact = &yes;
        same.p = c->p;
        equal_to(&same, value);
        negate(c, &yes);
    } else if (value == 0) {
        positive(c);
    }
}

static void rule_gt(call *c) {
    if (compared(c) == 0 && c->in.sum >= 0) positive(c);
}

static void rule_ge(call *c) {
    if (compared(c) == 1 && c->in.sum >= 0) positive(c);
}

static void rule_not(call *c) {
    negate(c, &c->in);
}

static bool is_truth(const pl_fact *fact) {
    return fact->sum >= 0 && fact->most <= 1 && !fact->running;
}

/* Both: no more than the fewer; all of one where the other is all true. */
static void rule_and(call *c) {
    int32_t other = pl_node_tensor(c->node, "other");
    if (other < 0) return;
    pl_fact b = pl_fact_of(c->p, other);
    int64_t n = elements(c, c->out);
    if (elements(c, c->self) != n || elements(c, other) != n) return;
    if (is_truth(&b) && b.sum == n)
        copy_numbers(c->fact, &c->in);
    else if (is_truth(&c->in) && c->in.sum == n)
        copy_numbers(c->fact, &b);
    c->fact->once = c->in.once | b.once;
    int64_t first = places_bound(c->p, c->self, &c->in), second = places_bound(c->p, other, &b);
    if (is_truth(&c->in) && c->in.sum < first && !c->in.parts) first = c->in.sum;
    if (is_truth(&b) && b.sum < second && !b.parts) second = b.sum;
    c->fact->places = first < second ? first : second;
}

static void rule_or(call *c) {
    int32_t other = pl_node_tensor(c->node, "other");
    if (other < 0) return;
    pl_fact b = pl_fact_of(c->p, other);
    int64_t n = elements(c, c->out);
    if (elements(c, c->self) != n || elements(c, other) != n) return;
    int64_t sum;
    if (pl_add_i64(places_bound(c->p, c->self, &c->in), places_bound(c->p, other, &b), &sum))
        c->fact->places = sum;
}

/* ---- reductions ---- */

/* Dimensions that a reduction takes together, as bits. */
static uint16_t reduced(call *c) {
    const pl_arg *dim = pl_node_arg(c->node, "dim");
    int dims = dims_of(c, c->self);
    uint16_t all = (uint16_t)((1u << dims) - 1), bits = 0;
    if (!dim) return all;
    if (dim->kind == PL_ARG_INT) {
        int d = dimension(c, "dim", 0, c->self);
        return d < 0 ? all : (uint16_t)(1 << d);
    }
    if (dim->kind != PL_ARG_INTS || !dim->count) return all;
    for (uint32_t k = 0; k < dim->count; k++) {
        int64_t d = dim->ints[k] < 0 ? dim->ints[k] + dims : dim->ints[k];
        if (d >= 0 && d < dims) bits = (uint16_t)(bits | 1 << d);
    }
    return bits;
}

/* How many elements come together in one of the result. */
static int64_t together(call *c, uint16_t bits) {
    int64_t n = 1;
    for (int k = 0; k < dims_of(c, c->self); k++)
        if (bits >> k & 1) n = pl_times(n, pl_facts_size(c->p, c->self, k));
    return n;
}

/* Bits of the dimensions that are left. */
static uint16_t without(uint16_t bits, uint16_t gone, int dims) {
    uint16_t out = 0;
    for (int k = 0, place = 0; k < dims; k++) {
        if (gone >> k & 1) continue;
        if (bits >> k & 1) out = (uint16_t)(out | 1 << place);
        place++;
    }
    return out;
}

static void rule_sum(call *c) {
    if (c->in.sum < 0 || c->in.running) return;
    uint16_t bits = reduced(c);
    int64_t each = together(c, bits);
    if (each != INT64_MAX) each /= longest(c->p, c->self, c->in.once & bits);
    set_sum(c->fact, c->in.sum, pl_times(c->in.most, each > 0 ? each : 1));
    c->fact->whole = c->in.whole;
    c->fact->parts = c->in.parts;
    if (!argument(c, "keepdim", 0)) c->fact->once = without(c->in.once, bits, dims_of(c, c->self));
}

/* Whether any is other than 0; where at most one is, as many as there were. */
static void rule_any(call *c) {
    if (c->in.sum < 0 || c->in.running) return;
    uint16_t bits = reduced(c);
    int64_t n = elements(c, c->out), each = together(c, bits);
    int64_t count = pl_facts_places(c->p, c->self).value;
    bool alone = longest(c->p, c->self, c->in.once & bits) >= each;
    set_sum(c->fact, alone ? count : differing(c->p->which, count, n), 1);
    if (alone && c->in.most <= 1) {
        c->fact->whole = c->in.whole;
        c->fact->parts = c->in.parts;
    }
    if (!argument(c, "keepdim", 0)) c->fact->once = without(c->in.once, bits, dims_of(c, c->self));
}

static void rule_cumsum(call *c) {
    if (c->in.sum < 0 || c->in.running || dims_of(c, c->self) != 1) return;
    set_sum(c->fact, c->in.sum, c->in.most);
    c->fact->running = true;
}

/* As many as there are numbers, by value: bincount, histc. */
static void rule_count(call *c) {
    if (pl_node_tensor(c->node, "weights") >= 0) return;
    set_sum(c->fact, elements(c, c->self), elements(c, c->self));
}

/* ---- parts ---- */

/* The fact of one index of a dimension. */
static pl_fact slice_of(call *c, int d, int64_t index) {
    pl_fact part = nothing;
    int64_t n = pl_facts_size(c->p, c->self, d);
    if (index < 0) index += n;
    part.base = c->in.base;
    part.born = c->number;
    part.range = c->in.range;
    if (n < 1 || index < 0 || index >= n) return part;
    uint16_t gone = (uint16_t)(1 << d);
    part.once = without(c->in.once, gone, dims_of(c, c->self));
    part.distinct = without(c->in.distinct, gone, dims_of(c, c->self));
    if (c->in.sum < 0) return part;
    if (c->in.running) { /* the sum so far */
        int64_t sum = c->p->which == PL_DATA_EXPECTED
                          ? (int64_t)((double)c->in.sum * (double)(index + 1) / (double)n)
                          : pl_data_part(PL_DATA_WORST, c->in.sum, n, index, c->in.sum);
        set_sum(&part, index == n - 1 ? c->in.sum : sum, c->in.sum);
        part.whole = c->in.sum;
        part.parts = n;
        return part;
    }
    int64_t rest = elements(c, c->self);
    if (rest == INT64_MAX) return part;
    rest = rest / n / longest(c->p, c->self, c->in.once & (uint16_t)~gone);
    int64_t each = pl_times(c->in.most, rest > 0 ? rest : 1);
    set_sum(&part, pl_data_part(c->p->which, c->in.sum, n, index, each), c->in.most);
    part.whole = c->in.sum;
    part.parts = n;
    return part;
}

static void rule_select(call *c) {
    int d = dimension(c, "dim", 0, c->self);
    if (d >= 0) *c->fact = slice_of(c, d, argument(c, "index", 0));
}

static void rule_unbind(call *c) {
    int d = dimension(c, "dim", 0, c->self);
    for (uint32_t i = 0; d >= 0 && i < c->node->output_count; i++)
        if (c->node->outputs[i] >= 0) c->p->of[c->node->outputs[i]] = slice_of(c, d, i);
}

/* Some of the elements, as they were. */
static void rule_some(call *c) {
    c->fact->range = c->in.range;
    c->fact->base = c->in.base;
}

static void rule_slice(call *c) {
    rule_some(c);
    int64_t n = elements(c, c->self), kept = elements(c, c->out);
    c->fact->once = c->in.once;
    c->fact->distinct = c->in.distinct;
    if (kept == n && !c->in.running)
        copy_numbers(c->fact, &c->in);
    else if (c->in.sum >= 0 && n > 0 && n <= MOST_SUM && kept <= n && !c->in.running)
        set_sum(c->fact,
                c->p->which == PL_DATA_WORST
                    ? (pl_times(c->in.most, kept) < c->in.sum ? c->in.most * kept : c->in.sum)
                    : (int64_t)((double)c->in.sum * (double)kept / (double)n),
                c->in.most);
}

/* Looked up by other numbers: index, gather, take. */
static void rule_lookup(call *c) {
    c->fact->range = c->in.range;
}

static void rule_expand(call *c) {
    int64_t from = elements(c, c->self), to = elements(c, c->out);
    c->fact->range = c->in.range;
    c->fact->base = c->in.base;
    if (c->in.sum >= 0 && !c->in.running && from > 0 && from <= MOST_SUM && to <= MOST_SUM)
        set_sum(c->fact, pl_times(c->in.sum, to / from), c->in.most);
}

static void rule_cat(call *c) {
    uint32_t count;
    const pl_arg *list = c->node->arg_count ? &c->node->args[0] : NULL;
    if (!list) return;
    const int32_t *ids = pl_arg_tensors(list, &count);
    int64_t sum = 0, most = 0, range = 0;
    bool summed = true, ranged = true;
    for (uint32_t i = 0; i < count; i++) {
        pl_fact f = pl_fact_of(c->p, ids[i]);
        summed = summed && f.sum >= 0 && !f.running && pl_add_i64(sum, f.sum, &sum);
        ranged = ranged && f.range > 0;
        if (f.most > most) most = f.most;
        if (f.range > range) range = f.range;
    }
    if (summed) set_sum(c->fact, sum, most);
    if (ranged) c->fact->range = range;
}

/* ---- numbers put in ---- */

/* A value at places of what was all 0. */
static void rule_scatter(call *c) {
    int32_t index = pl_node_tensor(c->node, "index"), src = pl_node_tensor(c->node, "src");
    const pl_arg *value = pl_node_arg(c->node, "value");
    if (index < 0 || c->in.sum != 0) return;
    int64_t most = 1, n = elements(c, index);
    if (src >= 0) {
        pl_fact s = pl_fact_of(c->p, src);
        if (!is_truth(&s) || s.sum != elements(c, src)) return;
    } else if (value && (value->kind == PL_ARG_INT || value->kind == PL_ARG_BOOL)) {
        most = value->i;
    } else if (!value || value->kind != PL_ARG_FLOAT || value->f != 1) {
        return;
    }
    int d = dimension(c, "dim", 0, c->self);
    if (d < 0 || most != 1 || n > MOST_SUM) return;
    pl_fact at = pl_fact_of(c->p, index);
    int64_t along = pl_facts_size(c->p, index, d), range = pl_facts_size(c->p, c->self, d);
    if (!(at.distinct >> d & 1) && along > 1) /* the same place again adds none */
        n = along > 0 ? n / along * differing(c->p->which, along, range) : 0;
    set_sum(c->fact, n, 1);
    if (along == 1) c->fact->once = (uint16_t)(1 << d);
}

/* Sums of both: scatter_add, index_add. */
static void rule_add_into(call *c) {
    int32_t src = pl_node_tensor(c->node, "src");
    if (src < 0) src = pl_node_tensor(c->node, "source");
    if (src < 0 || c->in.sum < 0 || c->in.running) return;
    pl_fact s = pl_fact_of(c->p, src);
    int64_t sum;
    if (s.sum >= 0 && !s.running && pl_add_i64(c->in.sum, s.sum, &sum)) set_sum(c->fact, sum, sum);
}

/* ---- arithmetic on places ---- */

static void rule_divide(call *c) {
    const pl_arg *mode = pl_node_arg(c->node, "rounding_mode");
    bool whole = (mode && mode->kind == PL_ARG_STRING) ||
                 strncmp(c->node->target, "aten.floor_divide", 17) == 0;
    int64_t by = compared(c);
    if (whole && by > 0 && c->in.range > 0) c->fact->range = (c->in.range - 1) / by + 1;
}

static void rule_remainder(call *c) {
    int64_t by = compared(c);
    if (by > 0) c->fact->range = c->in.range > 0 && c->in.range < by ? c->in.range : by;
}

/* nonzero and where: of a mask of one dimension places that differ. */
static void rule_nonzero(call *c) {
    if (c->node->arg_count > 1) return; /* where with a choice */
    if (dims_of(c, c->self) == 1) c->fact->distinct = 1;
    for (uint32_t i = 0; i < c->node->output_count; i++) {
        int32_t id = c->node->outputs[i];
        if (id < 0 || c->node->output_count != (uint32_t)dims_of(c, c->self)) continue;
        pl_fact fact = nothing;
        fact.range = pl_facts_size(c->p, c->self, i);
        fact.distinct = c->node->output_count == 1;
        fact.base = id;
        fact.born = c->number;
        c->p->of[id] = fact;
    }
}

/* Sorted by name. */
static const struct rule {
    const char *name;
    void (*learn)(call *c);
} rules[] = {
    {"__and__", rule_and},
    {"__or__", rule_or},
    {"_reshape_alias", rule_same},
    {"_to_copy", rule_cast},
    {"_unsafe_view", rule_same},
    {"abs", rule_same},
    {"alias", rule_same},
    {"any", rule_any},
    {"arange", rule_arange},
    {"argmax", rule_place},
    {"argmin", rule_place},
    {"argsort", rule_argsort},
    {"argwhere", rule_nonzero},
    {"bincount", rule_count},
    {"bitwise_and", rule_and},
    {"bitwise_not", rule_not},
    {"bitwise_or", rule_or},
    {"cat", rule_cat},
    {"clone", rule_same},
    {"concat", rule_cat},
    {"contiguous", rule_same},
    {"cumsum", rule_cumsum},
    {"detach", rule_same},
    {"div", rule_divide},
    {"eq", rule_eq},
    {"expand", rule_expand},
    {"flatten", rule_same},
    {"floor_divide", rule_divide},
    {"full", rule_full},
    {"full_like", rule_full},
    {"gather", rule_lookup},
    {"ge", rule_ge},
    {"greater", rule_gt},
    {"greater_equal", rule_ge},
    {"gt", rule_gt},
    {"histc", rule_count},
    {"index", rule_lookup},
    {"index_add", rule_add_into},
    {"index_select", rule_lookup},
    {"lift_fresh_copy", rule_same},
    {"logical_and", rule_and},
    {"logical_not", rule_not},
    {"logical_or", rule_or},
    {"masked_select", rule_lookup},
    {"max", rule_extreme},
    {"min", rule_extreme},
    {"mul", rule_and},
    {"multinomial", rule_multinomial},
    {"ne", rule_ne},
    {"new_full", rule_full},
    {"new_ones", rule_ones},
    {"new_zeros", rule_zeros},
    {"nonzero", rule_nonzero},
    {"nonzero_numpy", rule_nonzero},
    {"not_equal", rule_ne},
    {"one_hot", rule_one_hot},
    {"ones", rule_ones},
    {"ones_like", rule_ones},
    {"permute", rule_permute},
    {"remainder", rule_remainder},
    {"reshape", rule_same},
    {"scatter", rule_scatter},
    {"scatter_add", rule_add_into},
    {"select", rule_select},
    {"slice", rule_slice},
    {"sort", rule_sort},
    {"squeeze", rule_same},
    {"sum", rule_sum},
    {"t", rule_permute},
    {"take", rule_lookup},
    {"to", rule_cast},
    {"topk", rule_topk},
    {"transpose", rule_permute},
    {"type_as", rule_cast},
    {"unbind", rule_unbind},
    {"unflatten", rule_same},
    {"unsqueeze", rule_same},
    {"view", rule_same},
    {"view_as", rule_same},
    {"where", rule_nonzero},
    {"zeros", rule_zeros},
    {"zeros_like", rule_zeros},
};

bool pl_aten_base(const char *target, char *room) {
    if (strncmp(target, "aten.", 5) != 0) return false;
    const char *name = target + 5, *dot = strchr(name, '.');
    size_t length = dot ? (size_t)(dot - name) : strlen(name);
    if (length >= 64) return false;
    memcpy(room, name, length);
    room[length] = 0;
    bool dunder = length > 4 && room[0] == '_' && room[1] == '_';
    if (length > 1 && room[length - 1] == '_' && !dunder) room[length - 1] = 0;
    return true;
}

/* Writes into its first operand: a name that ends in "_" before the overload's. */
static bool writes(const char *target) {
    const char *name = strncmp(target, "aten.", 5) == 0 ? target + 5 : target;
    const char *dot = strchr(name, '.');
    size_t length = dot ? (size_t)(dot - name) : strlen(name);
    return length > 1 && name[length - 1] == '_' && name[length - 2] != '_';
}

static const struct rule *rule_named(const char *name) {
    size_t low = 0, high = sizeof rules / sizeof *rules;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, rules[middle].name);
        if (order == 0) return &rules[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* An operand that was written into has what came out. */
static void settle_write(pl_facts *facts, int32_t number, int32_t self, int32_t out) {
    int32_t base = facts->of[self].base;
    facts->written[base] = number;
    if (out < 0) return;
    facts->of[out].base = base;
    facts->of[out].born = number;
    pl_fact fact = facts->of[out];
    if (facts->graph->tensors[self].dims == facts->graph->tensors[out].dims) facts->of[self] = fact;
}

void pl_facts_learn(pl_facts *facts, int32_t number) {
    const pl_node *node = &facts->graph->nodes[number];
    char name[64];
    if (!pl_aten_base(node->target, name)) return;
    int32_t self =
        node->arg_count && node->args[0].kind == PL_ARG_TENSOR ? node->args[0].tensor : -1;
    int32_t out = node->output_count ? node->outputs[0] : -1;
    const struct rule *rule = out >= 0 ? rule_named(name) : NULL;
    bool made = !rule || self >= 0 || rule->learn == rule_zeros || rule->learn == rule_ones ||
                rule->learn == rule_full || rule->learn == rule_arange || rule->learn == rule_cat;
    if (rule && made) {
        pl_fact fact = nothing;
        fact.base = out;
        fact.born = number;
        facts->of[out] = fact;
        call c = {facts, node, self, out, pl_fact_of(facts, self), &fact, number};
        rule->learn(&c);
        /* these fill their outputs themselves */
        bool several = rule->learn == rule_unbind ||
                       (rule->learn == rule_nonzero && self >= 0 &&
                        node->output_count == (uint32_t)dims_of(&c, self) && node->arg_count == 1);
        if (!several) facts->of[out] = fact;
    } else if (self >= 0) { /* perhaps a view */
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] >= 0) facts->of[node->outputs[i]].base = facts->of[self].base;
    }
    if (self >= 0 && writes(node->target)) settle_write(facts, number, self, out);
}
