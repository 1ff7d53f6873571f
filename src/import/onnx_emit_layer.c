/* onnx_emit_layer: products, norms, pools, recurrent layers, attention, reductions and losses.
 *
 * A convolution that a batch norm was folded into gets its norm back. Pads that PyTorch's operator
 * cannot take are an operator of their own.
 *
 * Sources: torch/onnx/_internal/torchscript_exporter/symbolic_opset*.py (PyTorch 2.11). */
#include "import/onnx_emit.h"

#include <math.h>
#include <string.h>

/* ---- products ---- */

void pl_onnx_count_batch(onnx_build *c, int32_t at) {
    int32_t count = c->made[at];
    if (count == PL_NONE || pl_built_dims(c->b, count) != 0) return;
    pl_call(c->b, "aten.add_.Tensor");
    pl_call_tensor(c->b, "self", count);
    pl_call_int(c->b, "other", 1);
    pl_call_result(c->b, PL_DT_I64, 0, NULL);
}

static int32_t norm_behind(onnx_emitter *e, int32_t x) {
    int32_t first = e->c->made[e->at];
    if (!e->n->folded_norm || first == PL_NONE) return x;
    pl_call(e->c->b, "aten.add_.Tensor");
    pl_call_tensor(e->c->b, "self", first + 4);
    pl_call_int(e->c->b, "other", 1);
    pl_call_result(e->c->b, PL_DT_I64, 0, NULL);
    return pl_aten_batch_norm(e->c->b, x, first, first + 1, first + 2, first + 3, 0.1, 1e-5);
}

/* Pads that differ at the two ends are a constant_pad_nd of their own. */
static int32_t padded(onnx_emitter *e, int32_t x, int dims, int64_t *pads) {
    int64_t pairs[ONNX_SPATIAL * 2];
    bool even = true;
    for (int i = 0; i < dims; i++) even = even && pads[i] == pads[i + dims];
    if (even) return x;
    for (int i = 0; i < dims; i++) {
        pairs[i * 2] = pads[dims - 1 - i];
        pairs[i * 2 + 1] = pads[dims * 2 - 1 - i];
    }
    x = pl_aten_pad(e->c->b, x, dims * 2, pairs);
    memset(pads, 0, (size_t)dims * 2 * sizeof *pads);
    return x;
}

int32_t pl_onnx_emit_convolution(onnx_emitter *e, const char *target) {
    const onnx_slot *x = emit_in(e, 0), *w = emit_in(e, 1);
    bool transposed = e->n->op[4] == 'T';
    int dims = x ? x->dims - 2 : 0;
    (void)target;
    if (!x || !w || dims < 1 || dims > ONNX_SPATIAL || w->dims != x->dims ||
        !onnx_known(emit_out(e, 0)))
        return PL_NONE;
    int64_t stride[ONNX_SPATIAL], dilation[ONNX_SPATIAL], pads[ONNX_SPATIAL * 2],
        more[ONNX_SPATIAL] = {0};
    pl_onnx_window(e->n, dims, x->sizes + 2, w->sizes + 2, stride, pads, dilation);
    const onnx_attr *extra = onnx_ints(e->n, "output_padding");
    for (int i = 0; extra && extra->count == (uint32_t)dims && i < dims; i++)
        more[i] = extra->ints[i];
    int64_t groups = pl_onnx_int(e->n, "group", 1);
    int32_t input = emit_tensor(e, 0), weight = emit_tensor(e, 1), bias = PL_NONE;
    const onnx_slot *given = emit_in(e, 2);
    /* a bias of zeros that the exporter made is none */
    bool trained = given && (given->tensor != PL_NONE || !given->numbers);
    if (trained && !e->n->folded_norm) bias = emit_tensor(e, 2);
    if (transposed)
        return norm_behind(e, pl_aten_conv_transpose(e->c->b, dims, input, weight, bias, stride,
                                                     pads, more, groups, dilation));
    input = padded(e, input, dims, pads);
    return norm_behind(
        e, pl_aten_conv(e->c->b, dims, input, weight, bias, stride, pads, dilation, groups));
}

int32_t pl_onnx_emit_matmul(onnx_emitter *e, const char *target) {
    (void)target;
    int32_t x = emit_tensor(e, 0), y = emit_tensor(e, 1);
    return pl_aten_matmul(e->c->b, x, y);
}

int32_t pl_onnx_emit_gemm(onnx_emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    int32_t x = emit_tensor(e, 0), w = emit_tensor(e, 1), bias = emit_tensor(e, 2);
    (void)target;
    if (pl_onnx_int(e->n, "transA", 0)) x = pl_aten_transpose(b, x, 0, 1);
    if (pl_onnx_int(e->n, "transB", 0)) return pl_aten_linear(b, x, w, bias);
    return bias == PL_NONE ? pl_aten_matmul(b, x, w) : pl_aten_addmm(b, bias, x, w);
}

int32_t pl_onnx_emit_einsum(onnx_emitter *e, const char *target) {
    int32_t list[8];
    uint32_t count = e->n->input_count < 8 ? e->n->input_count : 8;
    for (uint32_t i = 0; i < count; i++) list[i] = emit_tensor(e, i);
    pl_call(e->c->b, target);
    pl_call_string(e->c->b, "equation", pl_onnx_copy(e->c, pl_onnx_string(e->n, "equation", "")));
    pl_call_tensors(e->c->b, "tensors", (int)count, list);
    return pl_onnx_result(e, 0);
}

/* ---- layers ---- */

int32_t pl_onnx_emit_batch_norm(onnx_emitter *e, const char *target) {
    int32_t t[5];
    (void)target;
    for (uint32_t i = 0; i < 5; i++) t[i] = emit_tensor(e, i);
    pl_onnx_count_batch(e->c, e->at);
    return pl_aten_batch_norm(e->c->b, t[0], t[1], t[2], t[3], t[4],
                              1 - pl_onnx_float(e->n, "momentum", 0.9),
                              pl_onnx_float(e->n, "epsilon", 1e-5));
}

int32_t pl_onnx_emit_layer_norm(onnx_emitter *e, const char *target) {
    const onnx_slot *x = emit_in(e, 0);
    int64_t axis = pl_onnx_int(e->n, "axis", -1);
    int dims = !x || x->dims < 0 ? 1 : (int)(axis < 0 ? -axis : x->dims - axis);
    double eps = pl_onnx_float(e->n, "epsilon", 1e-5);
    int32_t input = emit_tensor(e, 0), weight = emit_tensor(e, 1), bias = emit_tensor(e, 2);
    (void)target;
    if (e->n->op[0] == 'R') return pl_aten_rms_norm(e->c->b, input, dims, weight, eps);
    return pl_aten_layer_norm(e->c->b, input, dims, weight, bias, eps);
}

int32_t pl_onnx_emit_instance_norm(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0), weight = emit_tensor(e, 1), bias = emit_tensor(e, 2);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "input", x);
    pl_call_tensor(e->c->b, "weight", weight);
    pl_call_tensor(e->c->b, "bias", bias);
    pl_call_tensor(e->c->b, "running_mean", PL_NONE);
    pl_call_tensor(e->c->b, "running_var", PL_NONE);
    pl_call_bool(e->c->b, "use_input_stats", true);
    pl_call_float(e->c->b, "momentum", 0.1);
    pl_call_float(e->c->b, "eps", pl_onnx_float(e->n, "epsilon", 1e-5));
    pl_call_bool(e->c->b, "cudnn_enabled", true);
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_group_norm(onnx_emitter *e, const char *target) {
    (void)target;
    int32_t x = emit_tensor(e, 0), weight = emit_tensor(e, 1), bias = emit_tensor(e, 2);
    return pl_aten_group_norm(e->c->b, x, pl_onnx_int(e->n, "num_groups", 1), weight, bias,
                              pl_onnx_float(e->n, "epsilon", 1e-5));
}

int32_t pl_onnx_emit_pool(onnx_emitter *e, const char *target) {
    static const char *const targets[2][ONNX_SPATIAL] = {
        {"aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default"},
        {"aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default"}};
    const onnx_slot *x = emit_in(e, 0);
    const onnx_attr *kernel = onnx_ints(e->n, "kernel_shape");
    int dims = x ? x->dims - 2 : 0;
    (void)target;
    if (!x || dims < 1 || dims > ONNX_SPATIAL || !kernel || kernel->count != (uint32_t)dims ||
        !onnx_known(emit_out(e, 0)))
        return PL_NONE;
    int64_t stride[ONNX_SPATIAL], dilation[ONNX_SPATIAL], pads[ONNX_SPATIAL * 2];
    pl_onnx_window(e->n, dims, x->sizes + 2, kernel->ints, stride, pads, dilation);
    int32_t input = padded(e, emit_tensor(e, 0), dims, pads);
    return pl_aten_pool(e->c->b, targets[e->n->op[0] == 'A'][dims - 1], dims, input, kernel->ints,
                        stride, pads, dilation, pl_onnx_int(e->n, "ceil_mode", 0) != 0);
}

int32_t pl_onnx_emit_global_pool(onnx_emitter *e, const char *target) {
    static const char *const targets[2][ONNX_SPATIAL] = {
        {"aten.adaptive_max_pool1d.default", "aten.adaptive_max_pool2d.default",
         "aten.adaptive_max_pool3d.default"},
        {"aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool2d.default",
         "aten.adaptive_avg_pool3d.default"}};
    static const int64_t ones[ONNX_SPATIAL] = {1, 1, 1};
    const onnx_slot *x = emit_in(e, 0);
    int dims = x ? x->dims - 2 : 0;
    (void)target;
    if (dims < 1 || dims > ONNX_SPATIAL) return PL_NONE;
    return pl_aten_adaptive_pool(e->c->b, targets[e->n->op[6] == 'A'][dims - 1], dims,
                                 emit_tensor(e, 0), ones);
}

/* One layer of an nn.LSTM; Y is [seq, ways, batch, hidden] here and [seq, batch, ways * hidden]
 * there. */
int32_t pl_onnx_emit_recurrent(onnx_emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    const onnx_slot *y = emit_out(e, 0) && emit_out(e, 0)->dims == 4 ? emit_out(e, 0) : NULL;
    const onnx_slot *x = emit_in(e, 0), *r = emit_in(e, 2);
    int32_t first = e->c->made[e->at], state[2] = {PL_NONE, PL_NONE}, params[8],
            last[2] = {PL_NONE, PL_NONE};
    (void)target;
    const onnx_step *step = &e->plan->steps[e->at];
    if (!x || !r || x->dims != 3 || r->dims != 3 || (first == PL_NONE && !step->list) ||
        pl_onnx_int(e->n, "layout", 0)) {
        pl_build_fail(b, PL_INPUT, e->c->g->name,
                      "node %.80s (%.10s): expected weights in the file and "
                      "the sequence first",
                      e->n->name, e->n->op);
        return PL_NONE;
    }
    bool lstm = e->n->op[0] == 'L', bias = emit_in(e, 3) != NULL;
    int ways = r->sizes[0] == 2 ? 2 : 1, count = ways * (bias ? 4 : 2);
    int64_t sizes[3] = {ways, x->sizes[1], r->sizes[2]};
    int32_t input = emit_tensor(e, 0);
    for (uint32_t k = 0; k < (lstm ? 2 : 1); k++) {
        /* numbers: nn.LSTM makes zeros itself where it is given no state */
        const onnx_slot *given = emit_in(e, 5 + k);
        bool zeros = given && given->numbers && given->tensor == PL_NONE && onnx_known(given);
        state[k] =
            zeros ? pl_aten_make(b, "aten.full.default", given->dtype, given->dims, given->sizes, 0)
                  : emit_tensor(e, 5 + k);
        if (state[k] == PL_NONE)
            state[k] = pl_aten_make(b, "aten.zeros.default", x->dtype, 3, sizes, 0);
    }
    if (step->list && step->list_count != count) return PL_NONE;
    for (int k = 0; k < count; k++)
        params[k] = step->list ? pl_onnx_tensor(e->c, step->list[k]) : first + k;
    int32_t whole =
        pl_aten_recurrent(b,
                          lstm                 ? "lstm"
                          : e->n->op[0] == 'G' ? "gru"
                                               : "rnn_tanh",
                          input, state, count, params, bias, 1, 0, ways == 2, false, last);
    for (uint32_t k = 0; k < 2; k++)
        if (emit_out(e, 1 + k)) emit_out(e, 1 + k)->tensor = last[k];
    if (!y) return whole;
    int64_t parts[4] = {y->sizes[0], y->sizes[2], ways, y->sizes[3]};
    static const int64_t order[4] = {0, 2, 1, 3};
    return pl_aten_permute(b, pl_aten_view(b, whole, 4, parts), 4, order);
}

/* Attention of opset 23 in its 4-d form is scaled_dot_product_attention. */
int32_t pl_onnx_emit_attention(onnx_emitter *e, const char *target) {
    const onnx_slot *q = emit_in(e, 0), *k = emit_in(e, 1);
    if (!q || !k || q->dims != 4 || k->dims != 4) return pl_onnx_emit_one(e, target);
    int32_t query = emit_tensor(e, 0), key = emit_tensor(e, 1), value = emit_tensor(e, 2),
            mask = emit_tensor(e, 3);
    return pl_aten_attention(e->c->b, query, key, value, mask, 0,
                             pl_onnx_int(e->n, "is_causal", 0) != 0,
                             pl_onnx_float(e->n, "scale", NAN), q->sizes[1] != k->sizes[1]);
}

/* ---- reductions ---- */

int32_t pl_onnx_emit_reduce(onnx_emitter *e, const char *target) {
    pl_builder *b = e->c->b;
    int64_t axes[PL_MAX_DIMS];
    int count = pl_onnx_list(e->c, e->n, "axes", 1, axes, PL_MAX_DIMS);
    const onnx_slot *x = emit_in(e, 0);
    int32_t input = emit_tensor(e, 0);
    if (count <= 0 && x)
        for (count = 0; count < x->dims; count++) axes[count] = count;
    pl_call(b, target);
    pl_call_tensor(b, "self", input);
    if (strcmp(target, "aten.linalg_vector_norm.default") == 0)
        pl_call_float(b, "ord", e->n->op[7] == '1' ? 1 : 2);
    pl_call_ints(b, "dim", count, axes);
    pl_call_bool(b, "keepdim", pl_onnx_int(e->n, "keepdims", 1) != 0);
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_along(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0);
    double axis = (double)pl_onnx_int(e->n, "axis", 0);
    pl_onnx_number(e, 1, &axis);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "dim", pl_onnx_integer(axis));
    return pl_onnx_result(e, 0);
}

int32_t pl_onnx_emit_top_k(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0);
    double k = 1;
    const onnx_slot *s = emit_in(e, 1);
    if (s && s->numbers && pl_onnx_elements(s) == 1) k = s->numbers[0];
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_int(e->c->b, "k", pl_onnx_integer(k));
    pl_call_int(e->c->b, "dim", pl_onnx_int(e->n, "axis", -1));
    int32_t values = pl_onnx_result(e, 0);
    int32_t places = pl_onnx_result(e, 1);
    if (emit_out(e, 1)) emit_out(e, 1)->tensor = places;
    return values;
}

int32_t pl_onnx_emit_loss(onnx_emitter *e, const char *target) {
    int32_t x = emit_tensor(e, 0), t = emit_tensor(e, 1);
    int64_t ignored = pl_onnx_int(e->n, "ignore_index", -100);
    if (emit_out(e, 0) && emit_out(e, 0)->dims == 0 && e->n->op[0] == 'S')
        return pl_aten_cross_entropy(e->c->b, x, t, ignored);
    pl_call(e->c->b, target);
    pl_call_tensor(e->c->b, "self", x);
    pl_call_tensor(e->c->b, "target", t);
    pl_call_tensor(e->c->b, "weight", PL_NONE);
    pl_call_int(e->c->b, "reduction", emit_out(e, 0) && emit_out(e, 0)->dims == 0 ? 1 : 0);
    pl_call_int(e->c->b, "ignore_index", ignored);
    return pl_onnx_result(e, 0);
}
