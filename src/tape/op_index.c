/* op_index: tables looked up by number, and what scatters a gradient back into them: embeddings and
 * bags of them, indexing, sort, topk and the like.
 *
 * Rules: aten/src/ATen/native/cuda/{EmbeddingBackwardKernel,EmbeddingBag,Indexing,Sort}.cu,
 * derivatives.yaml (2.11); the blocks of the sorted backward were read off allocator traces
 * (nhf-distilbert-1, nhf-opt-1, nops-tok-33, nops-tok-23, nops-tok-15; 2026-11-15, PyTorch 2.11,
 * H200). */
#include "tape/operator.h"

#include <string.h>

/* What cub's radix sort of n pairs of int64 asks for: two copies of keys and values, 16.5 KiB of
 * counters, and a KiB for each tile of 4,608 pairs; a single tile of up to 2,304 needs none. */
static int64_t sort_bytes(int64_t n) {
    return n <= 2304 ? 1 : 16 * n + 16895 + 1024 * ((n + 4607) / 4608);
}

/* n numbers 0, 1, .. and keys sorted with them: cub's radix sort takes eight of the keys' bits in a
 * pass. */
static void note_sort(pl_eager *e, int64_t n, int bits) {
    int passes = (bits + 7) / 8;
    double pairs = 16 * (double)n;
    pl_work_move(e, PL_WORK_FILL, PL_PASS_BACKWARD, 0, pairs / 2, NULL);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_SORT,
                                        .pass = PL_PASS_BACKWARD,
                                        .launches = n <= 2304 ? 1 : passes + 2,
                                        .read = (passes + 0.5) * pairs,
                                        .written = passes * pairs,
                                        .rows = 1,
                                        .columns = n,
                                        .dtype = PL_DT_I64});
}

/* The kernels of pl_sorted_gradient: the sort, zeros, where segments and their parts begin, then
 * the parts' sums and those of whole segments. */
static void note_sorted(pl_eager *e, const pl_edge *edge, int64_t count, int64_t parts,
                        const pl_value *result) {
    enum { PLACES = 7 }; /* kernels */
    int64_t width = edge->dims > 1 ? edge->sizes[1] : 1;
    double indices = 8 * (double)count, sums = 4 * (double)parts * (double)width;
    note_sort(e, count, 64);
    pl_work_fill(e, PL_PASS_BACKWARD, result);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_SORT,
                                        .pass = PL_PASS_BACKWARD,
                                        .launches = PLACES,
                                        .read = 3 * indices,
                                        .written = 3 * indices,
                                        .rows = 1,
                                        .columns = count,
                                        .dtype = PL_DT_I64});
    double rows = (double)count * (double)width * pl_dtype_size((pl_dtype)edge->dtype);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_GATHER,
                                        .pass = PL_PASS_BACKWARD,
                                        .launches = 2,
                                        .read = rows + indices + sums,
                                        .written = sums + rows,
                                        .rows = count,
                                        .columns = width,
                                        .dtype = (pl_dtype)edge->dtype});
}

/* A table's gradient by sorted indices: equal indices form segments, summed in parts of at most ten
 * rows. */
pl_value *pl_sorted_gradient(pl_eager *e, const pl_edge *edge, int64_t count) {
    int64_t rows = edge->sizes[0], width = edge->dims > 1 ? edge->sizes[1] : 1;
    int64_t segments = count < rows ? count : rows, parts = segments + count / 10;
    uint8_t kind = e->kind;
    e->kind = PL_WORKSPACE;
    int32_t sorted = pl_block_new(e, 8 * count), order = pl_block_new(e, 8 * count),
            range = pl_block_new(e, 8 * count);
    pl_scratch(e, sort_bytes(count));
    pl_block_gone(e, range);
    e->kind = kind;
    pl_value *result = pl_new(e, (pl_dtype)edge->dtype, edge->dims, edge->sizes, NULL);
    note_sorted(e, edge, count, parts, result);
    e->kind = PL_WORKSPACE;
    int32_t held[7] = {pl_block_new(e, 8 * count),
                       pl_block_new(e, 8)}; /* where segments begin, and how many */
    int32_t unique = pl_block_new(e, 8 * count);
    pl_scratch(e, 1279);
    pl_block_gone(e, unique);
    held[2] = pl_block_new(e, 8 * segments);
    held[3] = pl_block_new(e, 8 * segments);
    pl_scratch(e, 1279);
    held[4] = pl_block_new(e, 8);
    held[5] = pl_block_new(e, 8 * parts);
    held[6] = pl_block_new(e, 4 * parts * width);
    for (int i = 7; i-- > 0;) pl_block_gone(e, held[i]);
    pl_block_gone(e, order);
    pl_block_gone(e, sorted);
    e->kind = kind;
    return result;
}

/* ---- embedding ---- */

/* embedding_dense_backward: up to 3,072 indices go straight into the zeroed gradient. Saved:
 * indices. */
static void embedding_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *edge = &fn->edges[0];
    int64_t count = fn->saved[0]->elements;
    pl_value *dense = pl_is_contiguous(grads[0]) ? NULL
                                                 : pl_new(e, (pl_dtype)grads[0]->dtype,
                                                          grads[0]->dims, grads[0]->sizes, NULL);
    if (dense) pl_work_copy(e, PL_PASS_BACKWARD, grads[0], dense);
    if (count > 3072) {
        out[0] = pl_sorted_gradient(e, edge, count);
    } else {
        out[0] = pl_new(e, (pl_dtype)edge->dtype, edge->dims, edge->sizes, NULL);
        pl_work_fill(e, PL_PASS_BACKWARD, out[0]);
        double rows = pl_work_bytes(grads[0]);
        pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_GATHER,
                                            .pass = PL_PASS_BACKWARD,
                                            .read = 2 * rows + 8 * (double)count,
                                            .written = rows,
                                            .rows = count,
                                            .columns = count ? grads[0]->elements / count : 0,
                                            .dtype = (pl_dtype)edge->dtype});
    }
    pl_drop(e, dense);
}

void pl_run_embedding(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *weight = pl_arg_value(e, node, "weight"), *indices = pl_arg_value(e, node, "indices");
    if (!weight || !indices) return;
    /* index_select on the flat indices: non-contiguous ones are copied. */
    pl_value *flat = pl_is_contiguous(indices)
                         ? NULL
                         : pl_new(e, (pl_dtype)indices->dtype, indices->dims, indices->sizes, NULL);
    pl_value *result = pl_new_output(e, node, 0, (pl_dtype)weight->dtype, NULL);
    if (flat) pl_work_copy(e, PL_PASS_FORWARD, indices, flat);
    pl_drop(e, flat);
    pl_fn *fn = pl_fn_new(e, "EmbeddingBackward0", embedding_backward, 1, &weight, 1);
    if (fn) {
        fn->class = PL_KERNEL_EMBEDDING;
        pl_save(e, fn, indices);
        pl_fn_output(fn, result, 0);
    }
    pl_set_output(e, node, 0, result);
}

/* ---- embedding bag ---- */

enum { BAG_SUM, BAG_MEAN, BAG_MAX };

/* Saved: indices and what forward returned beside the result. numbers: mode. */
static void bag_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *edge = &fn->edges[0];
    if (!grads[0] || !edge->wanted) return;
    if (fn->numbers[0] == BAG_MAX)
        out[0] = pl_new(e, (pl_dtype)edge->dtype, edge->dims, edge->sizes, NULL);
    else
        out[0] = pl_sorted_gradient(e, edge, fn->saved[0]->elements);
}

/* The result, each index's bag, each bag's size, and for max the winning rows. */
void pl_run_embedding_bag(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *weight = pl_arg_at(e, node, 0), *indices = pl_arg_at(e, node, 1),
             *offsets = pl_arg_at(e, node, 2);
    if (!weight || !indices) return;
    int64_t mode = pl_node_int(node, "mode", BAG_SUM);
    pl_value *results[4] = {0};
    uint32_t count = node->output_count < 4 ? node->output_count : 4;
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    int64_t bags = out && out->dims > 0 ? out->sizes[0] : 0;
    if (mode == BAG_MAX) results[2] = pl_new_flat(e, (pl_dtype)indices->dtype, bags);
    results[1] = pl_new_flat(e, (pl_dtype)indices->dtype, indices->elements);
    if (mode != BAG_MAX) results[2] = pl_new_flat(e, (pl_dtype)indices->dtype, bags);
    results[0] = pl_new_output(e, node, 0, (pl_dtype)weight->dtype, NULL);
    if (mode == BAG_MAX)
        results[3] = pl_new(e, (pl_dtype)indices->dtype, results[0]->dims, results[0]->sizes, NULL);
    pl_fn *fn = pl_fn_new(e, "EmbeddingBagBackward0", bag_backward, 1, &weight, 1);
    if (fn) {
        fn->class = PL_KERNEL_EMBEDDING;
        if (pl_fn_numbers(e, fn, 1)) fn->numbers[0] = mode;
        pl_save(e, fn, indices);
        if (offsets) pl_save(e, fn, offsets);
        for (int i = 1; i < 4; i++)
            if (results[i]) pl_save(e, fn, results[i]);
        pl_fn_output(fn, results[0], 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        if (i < count && results[i])
            pl_set_output(e, node, i, results[i]);
        else
            pl_drop(e, results[i]);
    }
}

/* ---- indexing ---- */

/* The kernels of index_put with accumulation into a table of `most` elements: an index wrapped,
 * scaled and added to the others, the sum divided; the sort, then rows added by one. */
static void note_index_put(pl_eager *e, const pl_value *values, int indices, int64_t count,
                           int64_t most) {
    int bits = 1;
    while (most >>= 1) bits++;
    if (!pl_is_contiguous(values))
        pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_COPY,
                                            .pass = PL_PASS_BACKWARD,
                                            .read = pl_work_bytes(values),
                                            .written = (double)pl_value_bytes(values),
                                            .strided = true,
                                            .dtype = (pl_dtype)values->dtype});
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_POINTWISE,
                                        .pass = PL_PASS_BACKWARD,
                                        .launches = indices ? 3 * indices : 1,
                                        .read = 8 * (double)count * (3 * indices),
                                        .written = 8 * (double)count * (3 * indices),
                                        .dtype = PL_DT_I64});
    note_sort(e, count, bits);
    double rows = pl_work_bytes(values);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_GATHER,
                                        .pass = PL_PASS_BACKWARD,
                                        .read = 2 * rows + 16 * (double)count,
                                        .written = rows,
                                        .rows = count,
                                        .columns = count ? values->elements / count : 0,
                                        .dtype = (pl_dtype)values->dtype});
}

/* index_put with accumulation: each index is wrapped and multiplied by its stride, products are
 * added to one linear index, which is sorted. */
void pl_index_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_edge *edge = &fn->edges[0];
    out[0] = pl_new(e, (pl_dtype)grads[0]->dtype, edge->dims, edge->sizes, NULL);
    int64_t count = 0;
    for (int i = 0; i < fn->saved_count; i++)
        if (fn->saved[i]->elements > count) count = fn->saved[i]->elements;
    pl_work_fill(e, PL_PASS_BACKWARD, out[0]);
    note_index_put(e, grads[0], fn->saved_count, count, edge->dims ? edge->sizes[0] : 1);
    uint8_t kind = e->kind;
    e->kind = PL_WORKSPACE;
    int32_t linear = 0;
    for (int i = 0; i < fn->saved_count; i++) {
        int32_t wrapped = pl_block_new(e, 8 * fn->saved[i]->elements),
                scaled = pl_block_new(e, 8 * fn->saved[i]->elements);
        pl_block_gone(e, wrapped);
        if (!linear) {
            linear = scaled;
            continue;
        }
        int32_t sum = pl_block_new(e, 8 * count);
        pl_block_gone(e, linear);
        pl_block_gone(e, scaled);
        linear = sum;
    }
    int32_t sorted = pl_block_new(e, 8 * count), order = pl_block_new(e, 8 * count),
            range = pl_block_new(e, 8 * count);
    pl_scratch(e, sort_bytes(count));
    pl_block_gone(e, range);
    pl_block_gone(e, order);
    pl_block_gone(e, sorted);
    pl_block_gone(e, linear);
    e->kind = kind;
}

/* Keeps the index tensors of an index or index_put for backward. */
static void save_indices(pl_eager *e, pl_fn *fn, const pl_node *node) {
    const pl_arg *indices = pl_node_arg(node, "indices");
    if (!indices || indices->kind != PL_ARG_TENSORS) return;
    for (uint32_t i = 0; i < indices->count; i++)
        if (indices->list[i] >= 0 && e->env[indices->list[i]])
            pl_save(e, fn, e->env[indices->list[i]]);
}

void pl_run_index(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *x = pl_arg_at(e, node, 0);
    if (!x) return;
    pl_value *result = pl_new_output(e, node, 0, (pl_dtype)x->dtype, NULL);
    pl_fn *fn = pl_fn_new(e, "IndexBackward0", pl_index_backward, 1, &x, 1);
    if (fn) {
        save_indices(e, fn, node);
        pl_fn_output(fn, result, 0);
    }
    pl_set_output(e, node, 0, result);
}

/* index_put: the gradient of self is the gradient with zeros put in, that of the values is looked
 * up. Saved: indices. */
static void index_put_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    if (fn->edges[0].wanted) {
        out[0] = pl_new_like(e, grads[0], (pl_dtype)grads[0]->dtype);
        pl_work_copy(e, PL_PASS_BACKWARD, grads[0], out[0]);
    }
    if (fn->edges[1].wanted)
        out[1] = pl_new(e, (pl_dtype)grads[0]->dtype, fn->edges[1].dims, fn->edges[1].sizes, NULL);
}

void pl_run_index_put(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *inputs[2] = {pl_arg_at(e, node, 0), pl_arg_value(e, node, "values")};
    if (!inputs[0]) return;
    pl_value *result = pl_operator_in_place(node->target)
                           ? pl_alias_like(e, inputs[0])
                           : pl_new_output(e, node, 0, (pl_dtype)inputs[0]->dtype, NULL);
    pl_fn *fn = pl_fn_new(e, "IndexPutBackward0", index_put_backward, 2, inputs, 1);
    if (fn) {
        save_indices(e, fn, node);
        pl_fn_output(fn, result, 0);
    }
    pl_set_output(e, node, 0, result);
}

/* ---- values with their places ---- */

/* max over a dimension, sort, topk: values and their indices, which backward scatters by. */
static void scatter_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    if (grads[0])
        out[0] = pl_new(e, (pl_dtype)grads[0]->dtype, fn->edges[0].dims, fn->edges[0].sizes, NULL);
    if (grads[0])
        pl_work_move(e, PL_WORK_FILL, PL_PASS_BACKWARD, 0, (double)pl_value_bytes(out[0]), NULL);
}

void pl_run_values_and_indices(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *x = pl_arg_at(e, node, 0);
    if (!x || node->output_count < 1) return;
    bool sorts = strstr(op->name, "sort") != NULL,
         places = strstr(op->name, "arg") != NULL; /* argsort: only the places */
    pl_value *values = places ? pl_new_like(e, x, (pl_dtype)x->dtype)
                              : pl_new_output(e, node, 0, (pl_dtype)x->dtype, NULL);
    pl_value *indices = pl_new(e, PL_DT_I64, values->dims, values->sizes, NULL);
    if (sorts && x->dims > 0) { /* places 0, 1, .. along the dimension, copied into the indices */
        int64_t dim = pl_wrap_dim(pl_node_int(node, "dim", -1), x->dims);
        if (dim >= 0 && dim < x->dims) pl_scratch(e, 8 * x->sizes[dim]);
    }
    if (places) {
        pl_drop(e, values);
        pl_set_output(e, node, 0, indices);
        return;
    }
    pl_fn *fn = pl_fn_new(e, "IndexedBackward0", scatter_backward, 1, &x, 1);
    if (fn) {
        fn->work = PL_WORK_GATHER;
        pl_save(e, fn, indices);
        pl_fn_output(fn, values, 0);
    }
    pl_set_output(e, node, 0, values);
    if (node->output_count > 1)
        pl_set_output(e, node, 1, indices);
    else
        pl_drop(e, indices);
}
