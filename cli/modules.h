/* modules: what belongs to modules (bytes at the peak, time of a step) summed along their paths, as
 * the rows of a tree. */
#ifndef CLI_MODULES_H
#define CLI_MODULES_H

#include <plimsoll/plimsoll.h>

enum { MODULE_PARTS = PL_FRAGMENTATION };

/* Something of one module: how large, and what it is made of. */
typedef struct module_item {
    const char *module; /* NULL: of none */
    int64_t size;
    int64_t parts[MODULE_PARTS]; /* summed up beside it; of bytes, by pl_kind */
} module_item;

typedef struct module_row {
    const char *path; /* "layers.*.attn"; "" for what belongs to no module */
    const char *name; /* what it adds to the row above it: "attn", "layers.*" */
    int depth;        /* 0 at the top */
    size_t modules;   /* how many the numbers merged into one stand for; 1: none merged */
    int64_t size, parts[MODULE_PARTS];
} module_row;

typedef struct module_tree {
    module_row *rows; /* each below its parent, siblings largest first */
    size_t row_count;
    int64_t total;             /* of all that was given */
    struct module_node *nodes; /* what the rows' strings lie in */
    size_t node_count;
} module_tree;

/* rows: about how many to make. The tree owns its strings. */
void modules_gather(module_tree *tree, const module_item *items, size_t count, size_t rows);
void modules_free(module_tree *tree);

#endif
