/* lifetime: see lifetime.h.
 *
 * A value lives from its node to its last use; one that was handed to a module lives until that
 * module returns, since the caller's frame holds it; one that a line of Python assigns to a name
 * lives until the name is assigned again or the call ends; what was gathered in a list that has a
 * name lives to the end of the call. Modules and lines of code come from the graph. The rules are
 * Python's own: a frame's locals hold references.
 *
 * Left out: what code holds in ways that no line of the graph shows (attributes, closures, caches).
 */
#include "tape/lifetime.h"

#include <string.h>

typedef struct finder {
    const pl_graph *graph;
    pl_arena *arena;
    int32_t *last_use;                   /* [tensor_count] node, -1: held by the caller */
    int32_t *module_first, *module_last; /* [module_count] nodes of the module's call */
} finder;

/* ---- uses ---- */

/* First and last node of each module's call. */
static bool find_module_ends(finder *f) {
    const pl_graph *g = f->graph;
    f->module_first =
        pl_arena_array(f->arena, (size_t)g->module_count + 1, sizeof *f->module_first);
    f->module_last = pl_arena_array(f->arena, (size_t)g->module_count + 1, sizeof *f->module_last);
    if (!f->module_first || !f->module_last) return false;
    for (int32_t m = 0; m < g->module_count; m++) f->module_first[m] = -1;
    for (int32_t i = 0; i < g->node_count; i++) {
        int32_t m = g->nodes[i].module;
        if (m < 0) continue;
        if (f->module_first[m] < 0) f->module_first[m] = i;
        f->module_last[m] = i;
    }
    /* a module's parent has a smaller index */
    for (int32_t m = g->module_count; m-- > 0;) {
        int32_t parent = g->modules[m].parent;
        if (parent < 0 || f->module_first[m] < 0) continue;
        int32_t *first = &f->module_first[parent], *last = &f->module_last[parent];
        if (*first < 0 || f->module_first[m] < *first) *first = f->module_first[m];
        if (f->module_last[m] > *last) *last = f->module_last[m];
    }
    return true;
}

static void use(finder *f, int32_t tensor, int32_t node) {
    const pl_graph *g = f->graph;
    if (tensor < 0 || g->tensors[tensor].role != PL_ROLE_VALUE) return;
    int32_t last = node, made = g->tensors[tensor].producer;
    for (int32_t m = g->nodes[node].module; m >= 0 && f->module_first[m] > made;
         m = g->modules[m].parent)
        last = f->module_last[m];
    if (last > f->last_use[tensor]) f->last_use[tensor] = last;
}

/* ---- Python's names ---- */

/* Behind "if causal: " or "else: ": what a line does under its condition. */
static const char *past_condition(const char *code) {
    static const char *const words[] = {"if ", "elif ", "else:"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(code, words[i], strlen(words[i])) == 0) {
            const char *colon = strstr(code, ": ");
            return colon ? colon + 2 : code;
        }
    return code;
}

/* The code in "modeling_gpt2.py:682: a = q @ k"; lines of built graphs have no file before them,
 * and a number at the most ("2: a = q @ k", a second line of the same text). */
static const char *code_of(const char *source) {
    const char *end = strstr(source, ": "), *at = end;
    while (at && at > source && at[-1] >= '0' && at[-1] <= '9') at--;
    bool placed = at && at < end && (at == source || at[-1] == ':');
    return past_condition(placed ? end + 2 : source);
}

/* The module whose forward holds a node's line: sources leave PyTorch's own frames out, so not one
 * of torch.nn. */
static int32_t owner_of(const pl_graph *g, const pl_node *n) {
    int32_t m = n->module;
    while (m >= 0 && g->modules[m].parent >= 0 && strncmp(g->modules[m].type, "torch.nn.", 9) == 0)
        m = g->modules[m].parent;
    return m;
}

/* The name on the left of a line's "=", or false: "a = q @ k" gives "a", "x, _ = .." its first,
 * "x", "x: Tensor = .." too "x". */
static bool assigned_name(const char *source, size_t *length) {
    const char *at = source;
    while (*at &&
           (*at == '_' || *at == ',' || *at == ' ' || *at == '.' || (*at >= '0' && *at <= '9') ||
            (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z')))
        at++;
    if (at > source && at[0] == ':' && at[1] == ' ') { /* what it is annotated with */
        const char *equals = strstr(at, " = ");
        if (!equals || memchr(at, '(', (size_t)(equals - at))) return false;
        at = equals + 1;
    }
    if (at == source || at[0] != '=' || at[1] == '=' || at[-1] != ' ') return false;
    *length = strcspn(source, ", =:");
    return *length > 0;
}

enum { NAMES = 32 };

typedef struct name_slot {
    const char *name, *source;
    size_t length;
    int32_t module, first, last; /* the line's nodes */
} name_slot;

static void keep_until(finder *f, const name_slot *line, int32_t until) {
    const pl_graph *g = f->graph;
    for (int32_t i = line->first; i <= line->last; i++)
        for (uint32_t k = 0; k < g->nodes[i].output_count; k++) {
            int32_t id = g->nodes[i].outputs[k];
            if (id >= 0 && f->last_use[id] > line->last && f->last_use[id] < until)
                f->last_use[id] = until;
        }
}

static bool is_name(char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The one name that a line reads ("scaled = self.scale(enc).mul_(255)": enc), besides attributes,
 * numbers, what is called and what is between quotes. NULL: none, or several. */
static const char *only_name(const char *code, size_t *length) {
    const char *at = strstr(code, " = "), *found = NULL;
    for (at = at ? at + 3 : code; *at;) {
        if (*at == '"' || *at == '\'') return NULL;
        if (!is_name(*at)) {
            at++;
            continue;
        }
        size_t n = 0;
        while (is_name(at[n])) n++;
        bool attribute = at > code && at[-1] == '.', number = *at >= '0' && *at <= '9';
        bool called = at[n] == '(', held = at[n] == '.' && strncmp(at, "self.", 5) == 0;
        bool module = at[n] == '.' && (strncmp(at, "torch.", 6) == 0 || strncmp(at, "F.", 2) == 0);
        bool named = at[n] == '=' && at[n + 1] != '='; /* an argument's */
        if (!attribute && !number && !called && !held && !module && !named) {
            if (found && (n != *length || strncmp(found, at, n) != 0)) return NULL;
            found = at;
            *length = n;
        }
        at += n;
    }
    return found;
}

/* What another call returned and a line reads by a name of its own is held by that name until the
 * call ends. Which lines of code named it is not in the graph, since they made nothing: so of the
 * model's own forward alone, which names most things once. */
static void hold_read(finder *f, int32_t first, int32_t last, int32_t owner) {
    const pl_graph *g = f->graph;
    size_t length = 0, assigned = 0;
    const char *code = code_of(g->nodes[first].source), *name = only_name(code, &length);
    if (!name || !assigned_name(code, &assigned)) return;
    if (assigned == length && strncmp(code, name, length) == 0) return;
    int32_t read = -1;
    for (int32_t i = first; i <= last; i++)
        for (uint32_t k = 0; k < g->nodes[i].arg_count; k++) {
            const pl_arg *arg = &g->nodes[i].args[k];
            if (arg->kind == PL_ARG_TENSORS) return;
            if (arg->kind != PL_ARG_TENSOR || arg->tensor < 0) continue;
            const pl_tensor *t = &g->tensors[arg->tensor];
            if (t->role != PL_ROLE_VALUE || t->producer >= first) continue;
            if (read >= 0 && read != arg->tensor) return;
            read = arg->tensor;
        }
    int32_t maker = read >= 0 ? g->tensors[read].producer : -1;
    if (maker < 0 || owner_of(g, &g->nodes[maker]) == owner) return;
    if (f->last_use[read] < f->module_last[owner]) f->last_use[read] = f->module_last[owner];
}

/* What a line of a module's code assigns to a name is held until the name is assigned again or the
 * call ends. Lines come from the graph's stack traces; a ring of the newest names is kept, older
 * ones end with their call. */
static void find_names(finder *f) {
    const pl_graph *g = f->graph;
    name_slot ring[NAMES] = {0};
    int32_t newest = 0;
    for (int32_t i = 0; i < g->node_count;) {
        const pl_node *n = &g->nodes[i];
        int32_t last = i, owner = owner_of(g, n);
        while (last + 1 < g->node_count && strcmp(g->nodes[last + 1].source, n->source) == 0 &&
               owner_of(g, &g->nodes[last + 1]) == owner)
            last++;
        size_t length;
        const char *code = code_of(n->source);
        if (owner >= 0 && g->modules[owner].parent < 0) hold_read(f, i, last, owner);
        if (owner >= 0 && assigned_name(code, &length)) {
            name_slot line = {code, n->source, length, owner, i, last};
            name_slot *place = NULL;
            for (int k = 0; k < NAMES && !place; k++)
                if (ring[k].name && ring[k].module == owner && ring[k].length == length &&
                    strncmp(ring[k].name, code, length) == 0)
                    place = &ring[k];
            if (place) { /* the same line again: a Sequential with blocks between, whose own name
                            moves on */
                if (strcmp(place->source, n->source) != 0) keep_until(f, place, last);
            } else {
                place = &ring[newest++ % NAMES];
                if (place->name) keep_until(f, place, f->module_last[place->module]);
            }
            *place = line;
        }
        i = last + 1;
    }
    for (int k = 0; k < NAMES; k++)
        if (ring[k].name) keep_until(f, &ring[k], f->module_last[ring[k].module]);
}

/* Whether a line hands cat or stack a list that has a name: the list, and all in it, lives to the
 * end of the call. */
static bool takes_named_list(const char *source) {
    const char *at = strstr(source, "cat(");
    if (!at) at = strstr(source, "stack(");
    if (!at) return false;
    at = strchr(at, '(') + 1;
    return *at == '_' || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
}

static void hold_list(finder *f, const pl_arg *list, int32_t node) {
    int32_t m = f->graph->nodes[node].module;
    for (uint32_t j = 0; m >= 0 && j < list->count; j++) {
        int32_t id = list->list[j];
        if (id >= 0 && f->last_use[id] < f->module_last[m]) f->last_use[id] = f->module_last[m];
    }
}

/* Fills last_use from the nodes' arguments and results, lists and names. */
static bool find_last_uses(finder *f) {
    const pl_graph *g = f->graph;
    f->last_use = pl_arena_array(f->arena, (size_t)g->tensor_count + 1, sizeof *f->last_use);
    if (!f->last_use || !find_module_ends(f)) return false;
    for (int32_t i = 0; i < g->tensor_count; i++) f->last_use[i] = -1;
    for (int32_t i = 0; i < g->node_count; i++) {
        const pl_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->output_count; k++)
            if (n->outputs[k] >= 0 && f->last_use[n->outputs[k]] < i)
                f->last_use[n->outputs[k]] = i;
        for (uint32_t k = 0; k < n->arg_count; k++) {
            const pl_arg *arg = &n->args[k];
            if (arg->kind == PL_ARG_TENSOR) use(f, arg->tensor, i);
            for (uint32_t j = 0; arg->kind == PL_ARG_TENSORS && j < arg->count; j++)
                use(f, arg->list[j], i);
            if (arg->kind == PL_ARG_TENSORS && takes_named_list(n->source)) hold_list(f, arg, i);
        }
    }
    find_names(f);
    for (int32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] >= 0) f->last_use[g->outputs[i]] = -1; /* held by the caller */
    return true;
}

bool pl_lifetimes_find(pl_lifetimes *out, const pl_graph *g, pl_arena *arena) {
    finder f = {.graph = g, .arena = arena};
    out->first_dying = pl_arena_array(arena, (size_t)g->node_count + 2, sizeof *out->first_dying);
    out->dying = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *out->dying);
    int32_t *at = pl_arena_array(arena, (size_t)g->node_count + 1, sizeof *at);
    if (!out->first_dying || !out->dying || !at || !find_last_uses(&f)) return false;
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (f.last_use[i] >= 0 && g->tensors[i].role == PL_ROLE_VALUE)
            out->first_dying[f.last_use[i] + 1]++;
    for (int32_t i = 0; i < g->node_count; i++) out->first_dying[i + 1] += out->first_dying[i];
    memcpy(at, out->first_dying, (size_t)g->node_count * sizeof *at);
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (f.last_use[i] >= 0 && g->tensors[i].role == PL_ROLE_VALUE)
            out->dying[at[f.last_use[i]]++] = i;
    return true;
}
