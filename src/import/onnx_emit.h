/* onnx_emit: a node on its way to an operator of PyTorch, and the functions that take it there.
 *
 * One function per kind of operator, in files by family: pointwise, layers, views. onnx_emit.c has
 * the table that says which function makes which of ONNX's operators. */
#ifndef PL_IMPORT_ONNX_EMIT_H
#define PL_IMPORT_ONNX_EMIT_H

#include "import/onnx_plan.h"

typedef struct onnx_emitter {
    onnx_build *c;
    const onnx_plan *plan;
    const onnx_node *n;
    int32_t at; /* the node's number */
} onnx_emitter;

/* Appends the operator; its first result, PL_NONE where its operands do not allow it. target: as
 * the table names it, "" where the node's operands decide. */
typedef int32_t onnx_emit(onnx_emitter *e, const char *target);

/* ---- operands and results ---- */

static inline int32_t emit_tensor(onnx_emitter *e, uint32_t i) {
    return i < e->n->input_count ? pl_onnx_tensor(e->c, e->n->inputs[i]) : PL_NONE;
}
static inline onnx_slot *emit_in(onnx_emitter *e, uint32_t i) {
    return onnx_in(e->c, e->n, i);
}
static inline onnx_slot *emit_out(onnx_emitter *e, uint32_t i) {
    return onnx_out(e->c, e->n, i);
}
/* A number that is no tensor of the model: PyTorch's code has it as a Python number. */
bool pl_onnx_number(onnx_emitter *e, uint32_t i, double *value);
/* A result of the call in the making, with the sizes of the node's output. */
int32_t pl_onnx_result(onnx_emitter *e, uint32_t i);

/* ---- functions of the table ---- */

/* onnx_emit_pointwise.c */
onnx_emit pl_onnx_emit_one, pl_onnx_emit_same, pl_onnx_emit_two, pl_onnx_emit_gelu,
    pl_onnx_emit_sloped, pl_onnx_emit_prelu, pl_onnx_emit_clip, pl_onnx_emit_where,
    pl_onnx_emit_cast, pl_onnx_emit_dropout, pl_onnx_emit_softmax;
/* onnx_emit_layer.c */
onnx_emit pl_onnx_emit_convolution, pl_onnx_emit_matmul, pl_onnx_emit_gemm, pl_onnx_emit_einsum,
    pl_onnx_emit_batch_norm, pl_onnx_emit_layer_norm, pl_onnx_emit_instance_norm,
    pl_onnx_emit_group_norm, pl_onnx_emit_pool, pl_onnx_emit_global_pool, pl_onnx_emit_recurrent,
    pl_onnx_emit_attention, pl_onnx_emit_reduce, pl_onnx_emit_along, pl_onnx_emit_top_k,
    pl_onnx_emit_loss;
/* onnx_emit_view.c */
onnx_emit pl_onnx_emit_reshape, pl_onnx_emit_transpose, pl_onnx_emit_concat, pl_onnx_emit_split,
    pl_onnx_emit_split_to_sequence, pl_onnx_emit_sequence_at, pl_onnx_emit_slice,
    pl_onnx_emit_gather, pl_onnx_emit_gather_elements, pl_onnx_emit_indexed, pl_onnx_emit_scatter,
    pl_onnx_emit_expand, pl_onnx_emit_tile, pl_onnx_emit_pad, pl_onnx_emit_resize,
    pl_onnx_emit_trilu, pl_onnx_emit_make;

#endif
