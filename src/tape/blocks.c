/* blocks: see blocks.h.
 *
 * A block is a module that has children of its own and whose path ends in a number, where it stands
 * in a ModuleList, or beside another of the same type (layers.0, layers.1, ...): what Hugging
 * Face's gradient_checkpointing_enable, a hand-written checkpoint over the layers, and fully_shard
 * on each layer take.
 *
 * Left out: blocks inside blocks (the outermost counts), and models whose repeated parts have names
 * of their own. */
#include "tape/blocks.h"

#include <string.h>

/* "layers.7": the number at the end of a path, or NULL. */
static const char *trailing_number(const char *path) {
    const char *dot = strrchr(path, '.');
    const char *digits = dot ? dot + 1 : path;
    if (!*digits) return NULL;
    for (const char *c = digits; *c; c++)
        if (*c < '0' || *c > '9') return NULL;
    return digits;
}

/* The children of each module: first[m] and, from it, next[]; -1 ends a list. */
typedef struct children {
    const pl_graph *graph;
    int32_t *first, *next;
} children;

static bool find_children(children *f, pl_arena *arena) {
    int32_t count = f->graph->module_count;
    f->first = pl_arena_array(arena, (size_t)count + 1, sizeof *f->first);
    f->next = pl_arena_array(arena, (size_t)count + 1, sizeof *f->next);
    if (!f->first || !f->next) return false;
    for (int32_t m = 0; m < count; m++) f->first[m] = -1;
    for (int32_t m = count; m-- > 0;) {
        int32_t parent = f->graph->modules[m].parent;
        f->next[m] = parent >= 0 ? f->first[parent] : -1;
        if (parent >= 0) f->first[parent] = m;
    }
    return true;
}

/* Whether its parent has another child of the same type, and of the same path but for the number.
 */
static bool has_sibling(const children *f, int32_t m) {
    const pl_module *modules = f->graph->modules;
    const char *path = modules[m].path, *digits = trailing_number(path);
    size_t stem = (size_t)(digits - path);
    int32_t parent = modules[m].parent;
    for (int32_t i = parent >= 0 ? f->first[parent] : -1; i >= 0; i = f->next[i]) {
        const char *other = modules[i].path, *number = trailing_number(other);
        if (i != m && number && (size_t)(number - other) == stem &&
            strncmp(path, other, stem) == 0 && strcmp(path, other) != 0 &&
            strcmp(modules[m].type, modules[i].type) == 0)
            return true;
    }
    return false;
}

/* A ModuleList is never called, a Sequential is: its path is that of a called module. */
static bool in_module_list(const pl_graph *g, int32_t m) {
    const char *path = g->modules[m].path, *digits = trailing_number(path);
    size_t stem = digits > path ? (size_t)(digits - path) - 1 : 0;
    int32_t parent = g->modules[m].parent;
    return stem > 0 && (parent < 0 || strlen(g->modules[parent].path) != stem ||
                        strncmp(g->modules[parent].path, path, stem) != 0);
}

bool pl_blocks_find(pl_repeats *out, const pl_graph *g, pl_arena *arena) {
    *out = (pl_repeats){.of = pl_arena_array(arena, (size_t)g->module_count + 1, sizeof *out->of)};
    children f = {.graph = g};
    if (!out->of || !find_children(&f, arena)) return false;
    /* A module's parent has a smaller index, so one pass finds the outermost blocks. */
    for (int32_t m = 0; m < g->module_count; m++) {
        int32_t parent = g->modules[m].parent;
        int32_t outer = parent >= 0 ? out->of[parent] : -1;
        bool block = outer < 0 && f.first[m] >= 0 && trailing_number(g->modules[m].path) &&
                     (in_module_list(g, m) || has_sibling(&f, m));
        out->of[m] = outer >= 0 ? outer : block ? m : -1;
        out->count += block;
    }
    return true;
}

int32_t pl_blocks_at(const pl_repeats *blocks, const pl_graph *g, int32_t node) {
    int32_t m = node >= 0 ? g->nodes[node].module : -1;
    return m >= 0 ? blocks->of[m] : -1;
}
