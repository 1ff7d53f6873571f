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

/* The module whose forward holds a line of module m: sources leave PyTorch's own frames out, so not
 * one of torch.nn. */
static int32_t owner_of(const pl_graph *g, int32_t m) {
    while (m >= 0 && g->modules[m].parent >= 0 && pl_module_is_torch(&g->modules[m]))
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

typedef struct name_slot {
    const char *name, *source;
    size_t length;
    int32_t first, last; /* the line's nodes */
    struct name_slot *next;
} name_slot;

/* Of one module's call: the line that is being run, and the names it has given so far. */
typedef struct frame {
    const char *line; /* NULL: none */
    int32_t first, last;
    int32_t child, child_last; /* the first module that the line calls, -1: none, and its end */
    name_slot *names;
} frame;

/* Whether a line that calls modules is one of a loop: x = block(x), not x = self.fc(self.pool(x)). */
static bool loops(const char *code) {
    const char *at = strstr(code, " = ");
    at = at ? at + 3 : code;
    if (strncmp(at, "self.", 5) != 0) return true;
    const char *end = at + strcspn(at, "([");
    return *end == '[';
}

static void keep_until(finder *f, const name_slot *line, int32_t until) {
    const pl_graph *g = f->graph;
    for (int32_t i = line->first; i <= line->last; i++)
        for (uint32_t k = 0; k < g->nodes[i].output_count; k++) {
            int32_t id = g->nodes[i].outputs[k];
            if (id >= 0 && f->last_use[id] > line->last && f->last_use[id] < until)
                f->last_use[id] = until;
        }
}

/* The frame's line is done: what it assigns to a name replaces what the name held. */
static bool end_line(finder *f, frame *at) {
    size_t length;
    const char *code = at->line ? code_of(at->line) : "";
    const name_slot line = {code, at->line, 0, at->first, at->last, NULL};
    at->line = NULL;
    if (!assigned_name(code, &length)) return true;
    name_slot *place = at->names;
    while (place && !(place->length == length && strncmp(place->name, code, length) == 0))
        place = place->next;
    if (place) { /* the same line again: a Sequential with blocks between, whose own name moves on */
        bool first = at->child >= 0 && loops(code); /* the loop's first time round */
        if (strcmp(place->source, line.source) != 0)
            keep_until(f, place, first ? at->child_last : line.last);
    } else {
        place = pl_arena_alloc(f->arena, sizeof *place);
        if (!place) return false;
        place->next = at->names;
        at->names = place;
    }
    name_slot *next = place->next;
    *place = line;
    place->length = length;
    place->next = next;
    return true;
}

/* What a line of a module's code assigns to a name is held until the name is assigned again or the
 * call ends. Lines come from the graph's stack traces: that of the innermost forward, and those
 * that called the modules around it, each in its own frame. */
static bool find_names(finder *f) {
    const pl_graph *g = f->graph;
    frame *frames = pl_arena_array(f->arena, (size_t)g->module_count + 1, sizeof *frames);
    if (!frames) return false;
    for (int32_t i = 0; i < g->node_count; i++) {
        const char *line = g->nodes[i].source;
        int32_t inner = g->nodes[i].module, owner = owner_of(g, inner);
        for (; owner >= 0; owner = owner_of(g, g->modules[owner].parent)) {
            frame *at = &frames[owner];
            int32_t child = -1; /* of the owner */
            for (; inner != owner; inner = g->modules[inner].parent) child = inner;
            bool same = line && at->line && strcmp(at->line, line) == 0;
            if (!same) {
                if (!end_line(f, at)) return false;
                at->line = line && *line ? line : NULL;
                at->first = at->child_last = i;
                at->child = child;
            }
            if (child == at->child && at->child_last == at->last) at->child_last = i;
            at->last = i;
            line = g->modules[owner].line;
        }
    }
    for (int32_t m = 0; m < g->module_count; m++) {
        if (!end_line(f, &frames[m])) return false;
        for (const name_slot *slot = frames[m].names; slot; slot = slot->next)
            keep_until(f, slot, f->module_last[m]);
    }
    return true;
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
    if (!find_names(f)) return false;
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
