/* aten_shape: sizes in the making, for the files that append operators. */
#ifndef PL_GRAPH_ATEN_SHAPE_H
#define PL_GRAPH_ATEN_SHAPE_H

#include <string.h>

#include "graph/build.h"

typedef struct pl_shape {
    int dims;
    int64_t sizes[PL_MAX_DIMS * 2]; /* room for a step too many: pl_call_result refuses it */
} pl_shape;

static inline pl_shape pl_shape_of(const pl_tensor *t) {
    pl_shape shape = {.dims = t->dims};
    memcpy(shape.sizes, t->sizes, t->dims * sizeof *t->sizes);
    return shape;
}

/* Both make the builder fail with the operator's name, and return false. */
bool pl_shape_broadcast(pl_builder *b, const char *target, const pl_tensor *x, const pl_tensor *y,
                        pl_shape *out);
bool pl_shape_dim(pl_builder *b, const char *target, int dims,
                  int *dim); /* counted from the start */
/* good, and nothing has failed before. */
bool pl_shape_need(pl_builder *b, const char *target, bool good, const char *what);

#endif
