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

/* Whether another module has the same type, and the same path but for the number. */
static bool has_sibling(const pl_graph *g, int32_t m) {
    const char *path = g->modules[m].path, *digits = trailing_number(path);
    size_t stem = (size_t)(digits - path);
    for (int32_t i = 0; i < g->module_count; i++) {
        const char *other = g->modules[i].path, *number = trailing_number(other);
        if (i != m && number && (size_t)(number - other) == stem &&
            strncmp(path, other, stem) == 0 && strcmp(path, other) != 0 &&
            strcmp(g->modules[m].type, g->modules[i].type) == 0)
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

/* Single operators are no blocks: a block has children of its own. */
static bool has_children(const pl_graph *g, int32_t m) {
    for (int32_t i = 0; i < g->module_count; i++)
        if (g->modules[i].parent == m) return true;
    return false;
}

bool pl_blocks_find(pl_blocks *out, const pl_graph *g, pl_arena *arena) {
    *out = (pl_blocks){.of = pl_arena_array(arena, (size_t)g->module_count + 1, sizeof *out->of)};
    if (!out->of) return false;
    /* A module's parent has a smaller index, so one pass finds the outermost blocks. */
    for (int32_t m = 0; m < g->module_count; m++) {
        int32_t parent = g->modules[m].parent;
        int32_t outer = parent >= 0 ? out->of[parent] : -1;
        bool block = outer < 0 && trailing_number(g->modules[m].path) && has_children(g, m) &&
                     (in_module_list(g, m) || has_sibling(g, m));
        out->of[m] = outer >= 0 ? outer : block ? m : -1;
        out->count += block;
    }
    return true;
}

int32_t pl_blocks_at(const pl_blocks *blocks, const pl_graph *g, int32_t node) {
    int32_t m = node >= 0 ? g->nodes[node].module : -1;
    return m >= 0 ? blocks->of[m] : -1;
}
