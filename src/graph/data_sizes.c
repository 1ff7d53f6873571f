/* data_sizes: see data_sizes.h. One pass to see which numbers are read out of a list (tolist) and
 * used as its pieces' ends, one over the nodes in the order they run: a symbol gets its value where
 * it comes up, of what data_facts.c knows of the operands then, or where a split by it says what the
 * pieces come to. */
#include "graph/data_sizes.h"

#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "graph/data_facts.h"
#include "graph/expr.h"

/* A range that the file gives, where it is one that somebody meant. */
#define MOST_MEANT (INT64_C(1) << 31)

/* Of a number that was read out of a tensor: the list that it stood in, and where. */
typedef struct origin {
    int32_t list; /* tensor of one dimension, or -1 */
    int64_t place;
} origin;

/* How a list's numbers are used: neighbours as ends of a piece (x[n0:n1]), the first as the end of
 * one (x[0:n0]). */
typedef struct ends {
    bool paired, to_first;
} ends;

typedef struct pass {
    pl_facts facts;
    const pl_graph *graph;
    pl_data_size *sizes;
    origin *of_symbol, *of_tensor;
    ends *ends;        /* [tensor_count] */
    bool *set;         /* [symbol_count]: has its value */
    int32_t *stamp;    /* [symbol_count]: the last split that had it */
    int64_t open_long; /* what takes the place of a bound */
} pass;

bool pl_symbol_is_data(const pl_symbol *symbol) {
    return symbol->hint == PL_UNKNOWN && symbol->role[0] == 0;
}

/* As long as the largest mask or input dimension, of those whose sizes are numbers. */
static int64_t open_length(const pl_graph *g) {
    int64_t most = 1;
    for (int32_t i = 0; i < g->tensor_count; i++) {
        const pl_tensor *t = &g->tensors[i];
        if (t->dtype == PL_DT_BOOL && t->dims > 0 && !t->size_expr &&
            pl_tensor_elements(t) > most && pl_tensor_elements(t) < MOST_MEANT)
            most = pl_tensor_elements(t);
        for (int k = 0; t->role == PL_ROLE_INPUT && k < t->dims; k++)
            if (t->sizes[k] > most) most = t->sizes[k];
    }
    return most;
}

/* The data's symbol that an expression is, and nothing else; -1: it is not. */
static int32_t symbol_of(const pass *p, const pl_expr *expr) {
    int32_t symbol = expr ? pl_expr_symbol(expr) : -1;
    return symbol >= 0 && pl_symbol_is_data(&p->graph->symbols[symbol]) ? symbol : -1;
}

static int64_t within(const pl_symbol *s, int64_t value) {
    if (value < s->least) value = s->least;
    return value < s->most ? value : s->most;
}

static void give(pass *p, int32_t symbol, pl_counted counted, int32_t node) {
    const pl_symbol *s = &p->graph->symbols[symbol];
    if (counted.kind == PL_DATA_OPEN || counted.value == INT64_MAX) {
        bool meant = s->most < MOST_MEANT;
        counted.kind = meant ? PL_DATA_LARGEST : PL_DATA_OPEN;
        counted.value = meant ? s->most : p->open_long;
    }
    p->facts.values[symbol] = within(s, counted.value);
    p->sizes[symbol] = (pl_data_size){(uint8_t)counted.kind, node, counted.whole, counted.parts};
    p->set[symbol] = true;
}

/* ---- numbers of a list as ends of pieces ---- */

static void note_list(pass *p, const pl_node *node, const char *name) {
    int32_t self = pl_node_tensor(node, "self");
    if (self < 0 || p->graph->tensors[self].dims != 1) return;
    if (strcmp(name, "unbind") == 0) {
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] >= 0) p->of_tensor[node->outputs[i]] = (origin){self, i};
    } else if (strcmp(name, "select") == 0 && node->output_count && node->outputs[0] >= 0) {
        p->of_tensor[node->outputs[0]] = (origin){self, pl_node_int(node, "index", -1)};
    }
}

/* The symbols of a slice's ends, -1: numbers. start_zero: it begins with the tensor. */
static void slice_ends(const pass *p, const pl_node *node, int32_t *start, int32_t *end,
                       bool *start_zero) {
    const pl_arg *a = pl_node_arg(node, "start"), *b = pl_node_arg(node, "end");
    *start = a && a->kind == PL_ARG_INT ? symbol_of(p, a->expr) : -1;
    *end = b && b->kind == PL_ARG_INT ? symbol_of(p, b->expr) : -1;
    *start_zero = !a || a->kind == PL_ARG_NONE || (a->kind == PL_ARG_INT && !a->expr && a->i == 0);
}

static void note_slice(pass *p, const pl_node *node) {
    int32_t start, end;
    bool zero;
    slice_ends(p, node, &start, &end, &zero);
    origin b = end >= 0 ? p->of_symbol[end] : (origin){-1, 0};
    origin a = start >= 0 ? p->of_symbol[start] : (origin){-1, 0};
    if (b.list >= 0 && zero && b.place == 0) p->ends[b.list].to_first = true;
    if (b.list < 0 || a.list != b.list || b.place != a.place + 1) return;
    p->ends[b.list].paired = true;
}

static void look_ahead(pass *p) {
    char name[64];
    for (int32_t i = 0; i < p->graph->node_count; i++) {
        const pl_node *node = &p->graph->nodes[i];
        if (!pl_aten_base(node->target, name)) continue;
        int32_t symbol = symbol_of(p, node->number);
        int32_t self = pl_node_tensor(node, "self");
        if (symbol >= 0 && self >= 0) p->of_symbol[symbol] = p->of_tensor[self];
        if (strcmp(name, "slice") == 0)
            note_slice(p, node);
        else
            note_list(p, node, name);
    }
}

/* A number of a list that cuts `whole` into pieces. False: it does not. */
static bool give_end(pass *p, int32_t symbol, int64_t whole, int32_t node) {
    origin o = p->of_symbol[symbol];
    if (o.list < 0 || !p->ends[o.list].paired || whole == INT64_MAX) return false;
    bool first_is_end = p->ends[o.list].to_first; /* x[0:n0] */
    int64_t n = pl_facts_size(&p->facts, o.list, 0), parts = first_is_end ? n : n - 1;
    int64_t done = o.place + first_is_end;
    if (parts < 1 || done < 0 || done > parts) return false;
    int64_t value = p->facts.which == PL_DATA_WORST
                        ? (done == parts ? whole : 0)
                        : whole / parts * done + (done < whole % parts ? done : whole % parts);
    give(p, symbol, (pl_counted){value, PL_DATA_PART, whole, parts}, node);
    return true;
}

/* Ends of a slice that nothing was known of when they were read. */
static void settle_slice(pass *p, const pl_node *node, int32_t number) {
    int32_t start, end, self = pl_node_tensor(node, "self");
    bool zero;
    if (self < 0) return;
    slice_ends(p, node, &start, &end, &zero);
    int64_t dim = pl_node_int(node, "dim", 0), whole = pl_facts_size(&p->facts, self, dim);
    pl_counted none = {.value = 0, .kind = PL_DATA_LARGEST}, all = {whole, PL_DATA_LARGEST, 0, 0};
    if (start >= 0 && !p->set[start] && !give_end(p, start, whole, number))
        give(p, start, none, number);
    if (end >= 0 && !p->set[end] && !give_end(p, end, whole, number)) give(p, end, all, number);
}

/* How long a slice is whose length has a symbol of its own. */
static pl_counted slice_length(pass *p, const pl_node *node) {
    const pl_arg *ends[2] = {pl_node_arg(node, "start"), pl_node_arg(node, "end")};
    int32_t self = pl_node_tensor(node, "self");
    int64_t whole =
        self < 0 ? INT64_MAX : pl_facts_size(&p->facts, self, pl_node_int(node, "dim", 0));
    int64_t at[2] = {0, whole};
    pl_counted counted = {.kind = PL_DATA_LARGEST};
    for (int i = 0; i < 2; i++) {
        if (!ends[i] || ends[i]->kind != PL_ARG_INT) continue;
        at[i] = pl_facts_value(&p->facts, ends[i]->expr, ends[i]->i);
        if (at[i] < 0) at[i] = at[i] + whole > 0 ? at[i] + whole : 0;
        if (at[i] > whole) at[i] = whole;
        int32_t symbol = symbol_of(p, ends[i]->expr);
        if (symbol < 0) continue;
        const pl_data_size *of = &p->sizes[symbol];
        counted = (pl_counted){0, (pl_data_kind)of->kind, of->whole, of->parts};
    }
    counted.value = at[1] > at[0] ? at[1] - at[0] : 0;
    return counted;
}

/* ---- splits ---- */

/* The pieces of a split come to the dimension that is split. Those that have no value yet, or values
 * that come to something else, share what the others leave. */
static void settle_split(pass *p, const pl_node *node, int32_t number) {
    const pl_arg *list = pl_node_arg(node, "split_sizes");
    if (!list) list = pl_node_arg(node, "split_size");
    int32_t self = pl_node_tensor(node, "self");
    if (!list || list->kind != PL_ARG_INTS || !list->list_expr || self < 0) return;
    int64_t whole = pl_facts_size(&p->facts, self, pl_node_int(node, "dim", 0)), rest = whole;
    int64_t members = 0, sum = 0, least = 0;
    bool fits = whole != INT64_MAX, complete = true;
    for (uint32_t i = 0; i < list->count && fits; i++) {
        int32_t symbol = symbol_of(p, list->list_expr[i]);
        if (symbol < 0) {
            rest -= pl_facts_value(&p->facts, list->list_expr[i], list->ints[i]);
            fits = rest >= 0;
            continue;
        }
        if (p->stamp[symbol] == number) return; /* twice in one list: not a share */
        p->stamp[symbol] = number;
        members++;
        complete = complete && p->set[symbol];
        fits = pl_add_i64(sum, p->facts.values[symbol], &sum) &&
               pl_add_i64(least, p->graph->symbols[symbol].least, &least);
    }
    if (!members || !fits || (complete && sum == rest) || least > rest) return;
    /* evenly, or each its least; then the difference, to or from the last first */
    int64_t missing = rest;
    for (int round = 0; round < 2; round++) {
        int64_t index = members;
        for (uint32_t k = list->count; k-- > 0;) {
            int32_t symbol = symbol_of(p, list->list_expr[k]);
            if (symbol < 0) continue;
            const pl_symbol *s = &p->graph->symbols[symbol];
            index--;
            int64_t value = p->facts.which == PL_DATA_WORST
                                ? s->least
                                : within(s, rest / members + (index < rest % members));
            if (round) {
                value = p->facts.values[symbol];
                int64_t more = missing > 0 ? s->most - value : s->least - value;
                bool less = missing > 0 ? missing < more : missing > more;
                value += less ? missing : more;
                missing -= less ? missing : more;
            } else {
                missing -= value;
            }
            give(p, symbol, (pl_counted){value, PL_DATA_PART, rest, members}, number);
        }
    }
}

/* ---- where symbols come up ---- */

static pl_counted masked(pass *p, const pl_node *node) {
    const pl_arg *indices = pl_node_arg(node, "indices");
    pl_counted open = {.kind = PL_DATA_OPEN};
    if (!indices || indices->kind != PL_ARG_TENSORS) return open;
    for (uint32_t i = 0; i < indices->count; i++) {
        int32_t id = indices->list[i];
        pl_dtype dtype = id >= 0 ? p->graph->tensors[id].dtype : PL_DT_UNKNOWN;
        if (dtype == PL_DT_BOOL || dtype == PL_DT_U8) return pl_facts_places(&p->facts, id);
    }
    return open;
}

static pl_counted selected(pass *p, const pl_node *node) {
    int32_t mask = pl_node_tensor(node, "mask"), self = pl_node_tensor(node, "self");
    if (mask < 0 || self < 0) return (pl_counted){.kind = PL_DATA_OPEN};
    pl_counted count = pl_facts_places(&p->facts, mask);
    int64_t elements = pl_facts_elements(&p->facts, self),
            places = pl_facts_elements(&p->facts, mask);
    if (places > 0 && places < elements) count.value = pl_times(count.value, elements / places);
    return count;
}

static pl_counted places(pass *p, const pl_node *node) {
    int32_t self = node->arg_count ? node->args[0].tensor : -1;
    if (!node->arg_count || node->args[0].kind != PL_ARG_TENSOR)
        return (pl_counted){.kind = PL_DATA_OPEN};
    return pl_facts_places(&p->facts, self);
}

static pl_counted differing(pass *p, const pl_node *node) {
    int32_t self = pl_node_tensor(node, "self");
    const pl_arg *dim = pl_node_arg(node, "dim");
    if (self < 0) return (pl_counted){.kind = PL_DATA_OPEN};
    bool rows = dim && dim->kind == PL_ARG_INT && p->graph->tensors[self].dims > 1;
    if (rows)
        return (pl_counted){.value = pl_facts_size(&p->facts, self, dim->i),
                            .kind = PL_DATA_LARGEST};
    return pl_facts_differ(&p->facts, self, pl_facts_elements(&p->facts, self));
}

static pl_counted repeated(pass *p, const pl_node *node) {
    int32_t repeats = pl_node_tensor(node, "repeats");
    const pl_arg *said = pl_node_arg(node, "output_size");
    if (said && said->kind == PL_ARG_INT && !said->expr)
        return (pl_counted){.value = said->i, .kind = PL_DATA_COUNT, .whole = said->i};
    return repeats < 0 ? (pl_counted){.kind = PL_DATA_OPEN} : pl_facts_sum(&p->facts, repeats);
}

static pl_counted counts(pass *p, const pl_node *node) {
    int32_t self = pl_node_tensor(node, "self");
    int64_t least = pl_node_int(node, "minlength", 0);
    int64_t range = self < 0 ? 0 : pl_fact_of(&p->facts, self).range;
    if (!range && !least) return (pl_counted){.kind = PL_DATA_OPEN};
    return (pl_counted){.value = range > least ? range : least, .kind = PL_DATA_LARGEST};
}

static pl_counted kept_boxes(pass *p, const pl_node *node) {
    int32_t boxes =
        node->arg_count && node->args[0].kind == PL_ARG_TENSOR ? node->args[0].tensor : -1;
    if (boxes < 0) return (pl_counted){.kind = PL_DATA_OPEN};
    return (pl_counted){.value = pl_facts_size(&p->facts, boxes, 0), .kind = PL_DATA_LARGEST};
}

static const struct source {
    const char *name; /* of ATen, or the whole target */
    pl_counted (*count)(pass *p, const pl_node *node);
} sources[] = {
    {"nonzero", places},
    {"where", places},
    {"nonzero_numpy", places},
    {"argwhere", places},
    {"index", masked},
    {"masked_select", selected},
    {"_unique2", differing},
    {"_unique", differing},
    {"unique_dim", differing},
    {"unique_consecutive", differing},
    {"repeat_interleave", repeated},
    {"bincount", counts},
    {"slice", slice_length},
    {"torchvision.nms.default", kept_boxes},
};

/* Sizes that are a symbol without a value yet: it comes up here. */
static void settle_outputs(pass *p, const pl_node *node, int32_t number, const char *name) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        const pl_tensor *t = node->outputs[i] >= 0 ? &p->graph->tensors[node->outputs[i]] : NULL;
        int32_t offset = t ? symbol_of(p, t->offset_expr) : -1;
        if (offset >= 0 && !p->set[offset])
            give(p, offset, (pl_counted){.kind = PL_DATA_GIVEN}, number);
        for (int k = 0; t && t->size_expr && k < t->dims; k++) {
            int32_t symbol = symbol_of(p, t->size_expr[k]);
            if (symbol < 0 || p->set[symbol]) continue;
            pl_counted counted = {.kind = PL_DATA_OPEN};
            for (size_t s = 0; s < sizeof sources / sizeof *sources; s++)
                if (strcmp(name, sources[s].name) == 0) counted = sources[s].count(p, node);
            give(p, symbol, counted, number);
        }
    }
}

static void settle_node(pass *p, int32_t number) {
    const pl_node *node = &p->graph->nodes[number];
    char room[64];
    const char *name = pl_aten_base(node->target, room) ? room : node->target;
    int32_t read = symbol_of(p, node->number), self = pl_node_tensor(node, "self");
    if (read >= 0 && !p->set[read] && self >= 0) {
        pl_counted counted = pl_facts_item(&p->facts, self);
        /* what nothing is known of may yet be cut into pieces with */
        if (counted.kind != PL_DATA_OPEN) give(p, read, counted, number);
        p->sizes[read].node = number;
    }
    if (strncmp(name, "split", 5) == 0 || strncmp(name, "unsafe_split", 12) == 0)
        settle_split(p, node, number);
    if (strcmp(name, "slice") == 0) settle_slice(p, node, number);
    settle_outputs(p, node, number, name);
    pl_facts_learn(&p->facts, number);
}

bool pl_data_sizes(const pl_graph *graph, pl_data_case which, int64_t *values, pl_data_size *sizes,
                   pl_arena *scratch) {
    size_t symbols = (size_t)graph->symbol_count, tensors = (size_t)graph->tensor_count;
    pass p = {.graph = graph, .sizes = sizes, .open_long = open_length(graph)};
    p.of_symbol = pl_arena_array(scratch, symbols, sizeof *p.of_symbol);
    p.of_tensor = pl_arena_array(scratch, tensors, sizeof *p.of_tensor);
    p.ends = pl_arena_array(scratch, tensors, sizeof *p.ends);
    p.set = pl_arena_array(scratch, symbols, sizeof *p.set);
    p.stamp = pl_arena_array(scratch, symbols, sizeof *p.stamp);
    if (!p.of_symbol || !p.of_tensor || !p.ends || !p.set || !p.stamp ||
        !pl_facts_open(&p.facts, graph, which, values, scratch))
        return false;
    for (size_t i = 0; i < tensors; i++) {
        p.of_tensor[i] = (origin){-1, 0};
        p.ends[i] = (ends){0};
    }
    for (int32_t i = 0; i < graph->symbol_count; i++) {
        bool data = pl_symbol_is_data(&graph->symbols[i]);
        p.of_symbol[i] = (origin){-1, 0};
        p.set[i] = !data;
        p.stamp[i] = -1;
        sizes[i] = (pl_data_size){.kind = PL_DATA_GIVEN, .node = -1};
        if (data) values[i] = graph->symbols[i].least > 1 ? graph->symbols[i].least : 1;
    }
    look_ahead(&p);
    for (int32_t i = 0; i < graph->node_count; i++) settle_node(&p, i);
    for (int32_t i = 0; i < graph->symbol_count; i++)
        if (!p.set[i]) give(&p, i, (pl_counted){.kind = PL_DATA_OPEN}, sizes[i].node);
    return true;
}

/* ---- what is told ---- */

int pl_data_sizes_told(const pl_graph *graph, const int64_t *values, const pl_data_size *sizes,
                       pl_arena *arena, const char *texts[PL_DATA_KINDS]) {
    int count = 0;
    for (int kind = PL_DATA_PART; kind < PL_DATA_KINDS; kind++) {
        int64_t number = 0;
        int32_t shown = -1;
        for (int32_t i = 0; i < graph->symbol_count; i++) {
            if (sizes[i].kind != kind) continue;
            number++;
            if (shown < 0 || values[i] > values[shown]) shown = i;
        }
        if (!number) continue;
        const pl_data_size *s = &sizes[shown];
        const char *target = s->node >= 0 ? graph->nodes[s->node].target : "the inputs",
                   *module = s->node >= 0 ? pl_node_module(graph, s->node) : "";
        char what[200], text[600];
        snprintf(what, sizeof what, "%.20s, %.60s%s%.80s", graph->symbols[shown].name, target,
                 *module ? " in " : "", module);
        const char *many = number == 1 ? "size that depends" : "sizes that depend";
        long long n = number, value = values[shown], whole = s->whole, parts = s->parts;
        if (kind == PL_DATA_PART)
            snprintf(text, sizeof text,
                     "%lld %s on the data: a known total is assumed to be shared evenly, %lld of "
                     "%lld in %lld parts (%s)",
                     n, many, value, whole, parts, what);
        else if (kind == PL_DATA_COUNT)
            snprintf(
                text, sizeof text,
                "%lld %s on the data: the count that is expected is assumed, %lld of %lld (%s)", n,
                many, value, whole, what);
        else if (kind == PL_DATA_LARGEST)
            snprintf(text, sizeof text,
                     "%lld %s on the data: the largest is assumed, up to %lld (%s); it may be less",
                     n, many, value, what);
        else
            snprintf(text, sizeof text,
                     "%lld %s on the data without a bound: as long as the largest mask or input "
                     "dimension is assumed, up to %lld (%s); it may be more",
                     n, many, value, what);
        if (!(texts[count++] = pl_arena_string(arena, text, strlen(text)))) return -1;
    }
    return count;
}
