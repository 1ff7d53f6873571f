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

#include <stdlib.h>
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

/* A module whose path ends in a number, and what its siblings share: parent, path but for the
 * number, type. */
typedef struct numbered {
    const char *path, *type;
    size_t stem; /* bytes of the path before the number */
    int32_t parent, module;
} numbered;

static int compare_kin(const numbered *a, const numbered *b) {
    if (a->parent != b->parent) return a->parent < b->parent ? -1 : 1;
    if (a->stem != b->stem) return a->stem < b->stem ? -1 : 1;
    int order = strncmp(a->path, b->path, a->stem);
    return order ? order : strcmp(a->type, b->type);
}

static int compare_numbered(const void *x, const void *y) {
    const numbered *a = x, *b = y;
    int order = compare_kin(a, b);
    return order ? order : strcmp(a->path, b->path);
}

/* Of each module whether its parent has another child of the same type, and of the same path but
 * for the number; NULL: out of memory. */
static bool *find_siblings(const pl_graph *g, pl_arena *arena) {
    bool *has = pl_arena_array(arena, (size_t)g->module_count + 1, sizeof *has);
    numbered *all = pl_arena_array(arena, (size_t)g->module_count + 1, sizeof *all);
    size_t count = 0;
    if (!has || !all) return NULL;
    for (int32_t m = 0; m < g->module_count; m++) {
        const char *path = g->modules[m].path, *digits = trailing_number(path);
        if (digits && g->modules[m].parent >= 0)
            all[count++] = (numbered){.path = path,
                                      .type = g->modules[m].type,
                                      .stem = (size_t)(digits - path),
                                      .parent = g->modules[m].parent,
                                      .module = m};
    }
    qsort(all, count, sizeof *all, compare_numbered);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && compare_kin(&all[i], &all[end]) == 0;) end++;
        bool several = strcmp(all[i].path, all[end - 1].path) != 0;
        for (size_t k = i; k < end; k++) has[all[k].module] = several;
    }
    return has;
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
    bool *siblings = find_siblings(g, arena);
    bool *inner = pl_arena_array(arena, (size_t)g->module_count + 1, sizeof *inner);
    if (!out->of || !siblings || !inner) return false; /* inner: it has children */
    for (int32_t m = 0; m < g->module_count; m++)
        if (g->modules[m].parent >= 0) inner[g->modules[m].parent] = true;
    /* A module's parent has a smaller index, so one pass finds the outermost blocks. */
    for (int32_t m = 0; m < g->module_count; m++) {
        int32_t parent = g->modules[m].parent;
        int32_t outer = parent >= 0 ? out->of[parent] : -1;
        bool block = outer < 0 && inner[m] && trailing_number(g->modules[m].path) &&
                     (in_module_list(g, m) || siblings[m]);
        out->of[m] = outer >= 0 ? outer : block ? m : -1;
        out->count += block;
    }
    return true;
}

int32_t pl_blocks_at(const pl_repeats *blocks, const pl_graph *g, int32_t node) {
    int32_t m = node >= 0 ? g->nodes[node].module : -1;
    return m >= 0 ? blocks->of[m] : -1;
}
