/* modules: bytes alive at the peak summed along module paths, as the rows of a tree. */
#ifndef CLI_MODULES_H
#define CLI_MODULES_H

#include <plimsoll/plimsoll.h>

typedef struct module_row {
    const char *path; /* "layers.*.attn"; "" for what belongs to no module */
    const char *name; /* what it adds to the row above it: "attn", "layers.*" */
    int depth;        /* 0 at the top */
    size_t modules;   /* how many the numbers merged into one stand for; 1: none merged */
    int64_t bytes;
    int64_t kind[PL_FRAGMENTATION]; /* adds up to bytes */
} module_row;

typedef struct module_tree {
    module_row *rows; /* each below its parent, siblings largest first */
    size_t row_count;
    int64_t total;             /* of all that was given */
    struct module_node *nodes; /* what the rows' strings lie in */
    size_t node_count;
} module_tree;

/* rows: about how many to make. The tree owns its strings. */
void modules_gather(module_tree *tree, const pl_alive *alive, size_t count, size_t rows);
void modules_free(module_tree *tree);

#endif
