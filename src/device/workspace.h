/* workspace: the temporary memory that CUDA's libraries take from PyTorch's allocator, as PyTorch
 * asks for it.
 *
 * Bytes are those asked of the allocator, before its rounding. Calibrated on an H200 (compute
 * capability 9.0) with PyTorch 2.11, cuDNN 9.19, CUDA 13.0; each file says how good it is and what
 * is assumed of other cards. Everything here is arithmetic on its arguments: no state, no
 * allocation, safe from any thread. */
#ifndef PL_DEVICE_WORKSPACE_H
#define PL_DEVICE_WORKSPACE_H

#include "tape/workspace_request.h"

/* ---- convolutions (workspace_conv.c) ---- */

/* Bytes of the workspace held during one pass, 0 where none is asked for, INT64_MAX where they do
 * not fit. With conv->benchmark: of the algorithm that is kept; see pl_workspace_conv_tried for the
 * first call. relative_uncertainty (may be NULL): the 90th percentile of |error| as a share of the
 * bytes of input, output and weight together (plus 1 MiB), from shapes that were not fitted on; 1.0
 * on a request that makes no sense. */
int64_t pl_workspace_conv(const pl_conv *conv, pl_conv_pass pass, int cc_major, int cc_minor,
                          double *relative_uncertainty);

/* The first call of a shape with cudnn.benchmark: PyTorch takes one block as large as the largest
 * workspace of any plan cuDNN offers, times every plan in it, frees it, empties the allocator's
 * cache, and then runs the fastest (aten/src/ATen/native/cudnn/Conv_v8.cpp). The bytes of that one
 * block; never less than pl_workspace_conv's. */
int64_t pl_workspace_conv_tried(const pl_conv *conv, pl_conv_pass pass, int cc_major, int cc_minor,
                                double *relative_uncertainty);

/* Whether PyTorch runs its own depthwise kernel instead of cuDNN's: no workspace, no layout copies.
 */
bool pl_workspace_conv_native(const pl_conv *conv);

/* What the choice is made from and among, for whoever makes it otherwise than the trees here. */
enum { PL_CONV_FEATURES = 41, PL_CONV_FORMULAS = 25 };
typedef struct pl_conv_choices {
    pl_conv_pass pass; /* as a plain convolution: a transposed one's forward is backward-data */
    int64_t tensors;   /* bytes of input, output and weight together */
    float features[PL_CONV_FEATURES];
    int64_t bytes[PL_CONV_FORMULAS]; /* each formula's answer; INT64_MAX: does not fit */
} pl_conv_choices;
extern const char *const pl_workspace_conv_features[PL_CONV_FEATURES]; /* their names */
/* false: a request that makes no sense, or one that takes no workspace (conv_native). */
bool pl_workspace_conv_choices(const pl_conv *conv, pl_conv_pass pass, int cc_major, int cc_minor,
                               pl_conv_choices *out);

/* ---- cuBLAS (workspace.c) ---- */

/* The workspace of a cuBLAS handle and stream, taken at its first use and kept; one for the thread
 * of the forward pass, one for autograd's. */
int64_t pl_workspace_cublas(int cc_major, int cc_minor);
/* cuBLASLt's (linear layers with a bias run there), likewise kept. */
int64_t pl_workspace_cublaslt(int cc_major, int cc_minor);

/* ---- recurrent layers (workspace_rnn.c) ---- */

/* false: a request that makes no sense, or sizes that do not fit. */
bool pl_workspace_rnn(const pl_rnn *rnn, int cc_major, int cc_minor, pl_rnn_memory *out);

/* ---- attention (workspace.c) ---- */

/* Bytes held inside the kernel call beyond its outputs; 0 where none. relative_uncertainty may be
 * NULL. */
int64_t pl_workspace_attention(const pl_attention *attention, bool backward, int cc_major,
                               int cc_minor, double *relative_uncertainty);

#endif
