/* convs: measured convolutions, what a workspace forest is trained from. */
#ifndef PL_LAB_CONVS_H
#define PL_LAB_CONVS_H

#include "lend.h"

/* One configuration, measured alone: what its three passes asked of the allocator. */
typedef struct pl_measured_conv {
    pl_conv conv;
    int64_t bytes[PL_CONV_PASSES]; /* workspaces; PL_UNKNOWN: not measured */
    int64_t tried[PL_CONV_PASSES]; /* the largest that cudnn.benchmark tried; PL_UNKNOWN likewise */
    float weight;                  /* how much it counts, by where its layer comes from */
} pl_measured_conv;

typedef struct pl_convs {
    pl_measured_conv *items;
    size_t count, capacity;
} pl_convs;

/* Whether a line of JSON is a convolution, and not a job: it has a member "cin". */
bool pl_convs_line(const char *line, size_t length);
/* One line of tools/measure/convs.py, added; those that another library than cuDNN or PyTorch's own
 * depthwise kernels ran are left out. from: the line's place in the file. */
pl_status pl_convs_read(pl_convs *convs, pl_arena *arena, const char *path, const char *line,
                        size_t length, size_t from, pl_error *err);

/* A layer, whatever its batch, type and layout. */
typedef struct pl_conv_layer {
    int64_t in_channels, out_channels, groups;
    int64_t in[3], kernel[3], stride[3]; /* 0 beyond dims */
    int dims;
    bool transposed;
} pl_conv_layer;

pl_conv_layer pl_conv_layer_of(const pl_conv *conv);
/* Sorts them and drops doubles; the new count. */
size_t pl_conv_layers_sort(pl_conv_layer *layers, size_t count);
/* Whether the convolution is one of the sorted layers, or as good as one: plain and
 * two-dimensional, of the same height and kernel, with channels within 9 of it on both sides (most
 * measured layers were made so, around those of measured jobs). */
bool pl_conv_layers_near(const pl_conv_layer *layers, size_t count, const pl_conv *conv);

#endif
