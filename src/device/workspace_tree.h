/* workspace_tree: the shape of the tables in workspace_tree.c, which tools/workspace/fit.py writes.
 */
#ifndef PL_DEVICE_WORKSPACE_TREE_H
#define PL_DEVICE_WORKSPACE_TREE_H

#include <stdint.h>

enum { PL_WORKSPACE_TREES = 16, PL_WORKSPACE_DOUBTS = 7 };

typedef struct pl_workspace_node {
    double value;      /* a split's threshold */
    int16_t low, high; /* the next node at most / above it; a leaf: its class, and 0 */
    int8_t feature;    /* of workspace_conv.c's list; -1: a leaf */
} pl_workspace_node;

/* What to doubt when the trees' answers lie `spread` apart on average, both as shares of the
 * tensors' bytes. */
typedef struct pl_workspace_doubt {
    double spread, doubt;
} pl_workspace_doubt;

extern const int pl_workspace_tree_count; /* trees a pass, at most PL_WORKSPACE_TREES */
/* By pl_conv_pass: the workspace used, and 3 further on the largest that cudnn.benchmark tries. */
extern const int16_t pl_workspace_tree_roots[6][PL_WORKSPACE_TREES];
extern const pl_workspace_node pl_workspace_tree[];
extern const pl_workspace_doubt pl_workspace_doubts[2][PL_WORKSPACE_DOUBTS]; /* used, tried */

#endif
