/* onnx_shape: the rules that give an ONNX node's results their types and sizes.
 *
 * One function per rule, in files by family: layers, views; onnx_shape.c has the table that says
 * which rule is whose, and the rules for results that are like an operand. A rule that cannot say
 * leaves the output's dims at -1. */
#ifndef PL_IMPORT_ONNX_SHAPE_H
#define PL_IMPORT_ONNX_SHAPE_H

#include "import/onnx_build.h"

typedef void onnx_infer(onnx_build *c, const onnx_node *n);

/* A dimension from the start; -1: out of range. */
static inline int onnx_axis(int64_t axis, int dims) {
    if (axis < 0) axis += dims;
    return axis >= 0 && axis < dims ? (int)axis : -1;
}
/* Nothing where s is NULL or dims out of range. */
void pl_onnx_set(onnx_slot *s, pl_dtype dtype, int dims, const int64_t *sizes);
/* Sizes that two operands share, a's type; false: they do not fit, or are not known. */
bool pl_onnx_broadcast(const onnx_slot *a, const onnx_slot *b, onnx_slot *out);
/* TensorProto.DataType of a `to` attribute. */
pl_dtype pl_onnx_dtype(int64_t number, pl_dtype otherwise);

/* onnx_shape.c: the first output is like the first input. */
onnx_infer pl_onnx_infer_same;
/* onnx_shape_layer.c */
onnx_infer pl_onnx_infer_batch_norm, pl_onnx_infer_layer_norm, pl_onnx_infer_matmul,
    pl_onnx_infer_gemm, pl_onnx_infer_convolution, pl_onnx_infer_convolution_transposed,
    pl_onnx_infer_pool, pl_onnx_infer_global_pool, pl_onnx_infer_recurrent, pl_onnx_infer_attention,
    pl_onnx_infer_einsum, pl_onnx_infer_reduce, pl_onnx_infer_arg_reduce, pl_onnx_infer_top_k,
    pl_onnx_infer_loss;
/* onnx_shape_view.c */
onnx_infer pl_onnx_infer_reshape, pl_onnx_infer_flatten, pl_onnx_infer_transpose,
    pl_onnx_infer_squeeze, pl_onnx_infer_unsqueeze, pl_onnx_infer_concat, pl_onnx_infer_split,
    pl_onnx_infer_split_to_sequence, pl_onnx_infer_sequence_at, pl_onnx_infer_slice,
    pl_onnx_infer_gather, pl_onnx_infer_gather_elements, pl_onnx_infer_gather_nd,
    pl_onnx_infer_expand, pl_onnx_infer_tile, pl_onnx_infer_shape, pl_onnx_infer_size,
    pl_onnx_infer_constant, pl_onnx_infer_constant_of_shape, pl_onnx_infer_range, pl_onnx_infer_pad,
    pl_onnx_infer_resize, pl_onnx_infer_depth_to_space, pl_onnx_infer_one_hot,
    pl_onnx_infer_random_shape, pl_onnx_infer_random_like;

#endif
