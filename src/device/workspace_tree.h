/* workspace_tree: the shape of the table in workspace_tree.c, which tools/workspace/fit.py writes.
 */
#ifndef PL_DEVICE_WORKSPACE_TREE_H
#define PL_DEVICE_WORKSPACE_TREE_H

#include <stdint.h>

typedef struct pl_workspace_node {
    double value; /* a split's threshold; a leaf's doubt, as a share of the tensors' bytes */
    int16_t low,
        high;       /* the next node at most / above it; a leaf: its class, the rows it stands on */
    int8_t feature; /* of workspace_conv.c's list; -1: a leaf */
} pl_workspace_node;

/* By pl_conv_pass: the workspace used, and 3 further on the largest that cudnn.benchmark tries. */
extern const int16_t pl_workspace_tree_roots[6];
extern const pl_workspace_node pl_workspace_tree[];

#endif
