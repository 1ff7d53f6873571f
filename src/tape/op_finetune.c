/* op_finetune: what fine-tuning adds to a graph (src/graph/finetune.c): PEFT's casts and
 * bitsandbytes' 4-bit linear layers.
 *
 * Rules: PEFT 0.21 (tuners/lora/layer.py, bnb.py); bitsandbytes 0.50 (nn/modules.py: Linear4bit,
 * Params4bit; functional.py: quantize_4bit, dequantize_4bit; backends/cuda/ops.py: gemm_4bit;
 * autograd/_functions.py: MatMul4Bit), nf4 in blocks of 64 with double quantisation, as QLoRA has
 * it, computing and quantised in bf16 (fp16 in fp16 jobs). Weights are dequantised whole for each
 * product, forward and backward; neither input nor dequantised weight is kept. Measured on an H200
 * on 2026-11-16 (tests/data/finetune.txt).
 *
 * Left out: the fused kernels that bitsandbytes takes on some cards for a few rows (5 to 1,536,
 * less on an H200) in place of dequantising, and what a checkpoint's loader holds for a moment. */
#include "tape/quantized.h"

#include <string.h>

#include "core/checked.h"

enum { BLOCK = 64, NESTED_BLOCK = 256, CODES = 16, NESTED_CODES = 256, FUSED_ROWS = 4 };

/* ---- PEFT's casts ---- */

/* self.to(the type of what the layer gives), which is autocast's or its weight's. */
void pl_run_to_result(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *self = pl_arg_value(e, node, "self"), *weight = pl_arg_value(e, node, "weight");
    if (!self || !weight) return;
    pl_dtype dtype = e->autocast ? (pl_dtype)e->autocast : (pl_dtype)weight->dtype;
    pl_set_output(e, node, 0, pl_to(e, self, dtype));
}

/* self.to(other.dtype), under autocast self as it is. */
void pl_run_to_unless_autocast(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *self = pl_arg_value(e, node, "self"), *other = pl_arg_value(e, node, "other");
    if (!self || !other) return;
    pl_dtype dtype = e->autocast ? (pl_dtype)self->dtype : (pl_dtype)other->dtype;
    pl_set_output(e, node, 0, pl_to(e, self, dtype));
}

/* self in the type of autocast, where there is any: what some models cast by themselves. */
void pl_run_to_autocast(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *self = pl_arg_value(e, node, "self");
    if (!self) return;
    pl_dtype dtype = e->autocast ? (pl_dtype)e->autocast : (pl_dtype)self->dtype;
    pl_set_output(e, node, 0, pl_to(e, self, dtype));
}

static void keep_gradient(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    (void)e;
    (void)fn;
    out[0] = pl_hold(grads[0]);
}

/* A leaf that is no parameter: gradients come together in its AccumulateGrad, which holds it (so
 * that it lives until then: hf-bert-large-2, hf-vit-base-2; 2026-11-15). */
void pl_run_requires_grad(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *self = pl_arg_value(e, node, "self");
    if (!self || self->needs_grad || !e->grad_enabled || !pl_dtype_is_float(self->dtype)) return;
    self->needs_grad = true;
    pl_fn *fn = pl_fn_new(e, "AccumulateGrad", keep_gradient, 1, &self, 1);
    pl_save(e, fn, self);
    pl_fn_output(fn, self, 0);
}

/* ---- 4-bit weights ---- */

static pl_dtype low_type(const pl_eager *e) {
    pl_precision p = e->job->precision;
    return p == PL_FP16 || p == PL_AMP_FP16 ? PL_DT_F16 : PL_DT_BF16;
}

pl_dtype pl_quantized_loaded(const pl_eager *e, pl_dtype dtype) {
    return dtype == PL_DT_F32 || pl_dtype_is_half(dtype) ? low_type(e) : dtype;
}

pl_value *pl_quantized_new(pl_eager *e, const pl_tensor *tensor) {
    int64_t packed = pl_tensor_elements(tensor), n = packed * 2;
    int64_t blocks = pl_div_up(n, BLOCK);
    pl_dtype low = low_type(e);
    pl_value *w = pl_new_flat(e, low, n);
    pl_value *absmax = pl_new_flat(e, PL_DT_F32, blocks);
    pl_value *result = pl_new(e, PL_DT_U8, tensor->dims, tensor->sizes, NULL);
    pl_block_new(e, CODES * 4); /* the 16 numbers of nf4 */
    pl_value *magnitudes = pl_new_flat(e, PL_DT_F32, CODES);
    pl_value *largest = pl_new_flat(e, PL_DT_F32, -1);
    pl_drop(e, magnitudes);
    pl_drop(e, largest);
    pl_block_new(e, 4); /* the mean of absmax */
    pl_reduce_scratch(e, absmax, 1, 4);
    pl_value *rest = pl_new_flat(e, PL_DT_F32, blocks);
    if (!e->nested_codes) pl_block_new(e, NESTED_CODES * 4); /* bitsandbytes' own, once */
    e->nested_codes = true;
    pl_block_new(e, pl_div_up(blocks, NESTED_BLOCK) * 4);
    pl_block_new(e, blocks);
    pl_block_new(e, NESTED_CODES * 4); /* one copy per weight */
    pl_drop(e, rest);
    pl_drop(e, absmax);
    pl_drop(e, w);
    return result;
}

/* MatMul4Bit: grad [.., out] times the weight, dequantised again; its absmax is summed in place.
 * numbers: out, in. */
static void linear_4bit_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    if (!fn->edges[0].wanted) return;
    int64_t sizes[2] = {fn->numbers[0], fn->numbers[1]};
    pl_value *absmax = pl_new_flat(e, PL_DT_F32, pl_div_up(sizes[0] * sizes[1], BLOCK));
    pl_value *weight = pl_new(e, low_type(e), 2, sizes, NULL);
    pl_drop(e, absmax);
    weight = pl_cast_raw(e, weight, (pl_dtype)grads[0]->dtype);
    out[0] = pl_matmul(e, grads[0], weight);
    pl_drop(e, weight);
}

/* x [.., in] times the weight [out, in], without autograd. */
static pl_value *multiply(pl_eager *e, pl_value *x, int64_t rows, int64_t columns, pl_value *bias) {
    bool grad_enabled = e->grad_enabled;
    e->grad_enabled = false;
    pl_value *result;
    if (x->elements <= FUSED_ROWS * columns) {
        int64_t sizes[PL_MAX_DIMS];
        memcpy(sizes, x->sizes, x->dims * sizeof *sizes);
        sizes[x->dims - 1] = rows;
        result = pl_new(e, (pl_dtype)x->dtype, x->dims, sizes, NULL);
    } else {
        int64_t blocks = pl_div_up(rows * columns, BLOCK);
        pl_value *absmax = pl_new_flat(e, PL_DT_F32, blocks), /* less its mean */
            *sum = pl_new_flat(e, PL_DT_F32, blocks);
        pl_value *weight = pl_new(e, (pl_dtype)x->dtype, 2, (const int64_t[]){rows, columns}, NULL);
        result = pl_linear(e, x, weight, bias);
        pl_drop(e, sum);
        pl_drop(e, absmax);
        pl_drop(e, weight);
    }
    e->grad_enabled = grad_enabled;
    return result;
}

/* Linear4bit.forward: a bias of another type than the input is cast for good. */
static pl_value *bias_of(pl_eager *e, const pl_node *node) {
    pl_value *bias = pl_arg_value(e, node, "bias");
    if (!bias || bias->dtype == low_type(e) || bias->needs_grad)
        return bias ? pl_to(e, bias, low_type(e)) : NULL;
    pl_arena *step = e->step_arena;
    uint8_t kind = e->kind;
    e->step_arena = e->tape->arena; /* it outlives the step */
    e->kind = PL_WEIGHTS;
    int32_t id = pl_node_tensor(node, "bias");
    e->env[id] = pl_cast_raw(e, bias, low_type(e));
    e->step_arena = step;
    e->kind = kind;
    if (e->env[id]->storage->block) e->tape->blocks[e->env[id]->storage->block].tensor = id;
    return pl_hold(e->env[id]);
}

void pl_run_linear_4bit(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *input = pl_arg_value(e, node, "input");
    const pl_tensor *to = pl_output_tensor(e, node, 0);
    if (!input || !to || input->dims == 0 || to->dims != input->dims) return;
    int64_t columns = input->sizes[input->dims - 1], rows = to->sizes[to->dims - 1], elements;
    if (!pl_mul_i64(rows, columns, &elements) || elements > PL_MAX_BYTES) return;
    pl_value *x = pl_to(e, input, low_type(e));
    pl_value *b = bias_of(e, node);
    pl_value *product = multiply(e, x, rows, columns, b);
    pl_fn *fn = pl_fn_new(e, "MatMul4Bit", linear_4bit_backward, 1, &x, 1);
    if (fn && pl_fn_numbers(e, fn, 2)) {
        fn->numbers[0] = rows;
        fn->numbers[1] = columns;
        product->base = NULL; /* a function's result is no view */
        pl_fn_output(fn, product, 0);
    }
    pl_drop(e, b);
    pl_drop(e, x);
    pl_set_output(e, node, 0, pl_to(e, product, (pl_dtype)input->dtype));
    pl_drop(e, product);
}
