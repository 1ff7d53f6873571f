/* aten: see aten.h. Pointwise operators, products, normalisation, reductions, losses; those that
 * look at a tensor in another way are in aten_view.c. */
#include "graph/aten.h"

#include <math.h>
#include <string.h>

#include "graph/aten_shape.h"

/* ---- types ---- */

/* bool, integers, floating point, complex. */
static int category(pl_dtype dtype) {
    if (dtype == PL_DT_BOOL) return 0;
    if (!pl_dtype_is_float(dtype)) return 1;
    return dtype >= PL_DT_C32 && dtype <= PL_DT_C128 ? 3 : 2;
}

static pl_dtype wider(pl_dtype a, pl_dtype b) {
    if (a == b) return a;
    if (category(a) != category(b)) return category(a) > category(b) ? a : b;
    if (pl_dtype_is_half(a) && pl_dtype_is_half(b)) return PL_DT_F32;
    return pl_dtype_size(a) >= pl_dtype_size(b) ? a : b;
}

/* c10's promotion: a 0-d tensor counts only where its category is higher. */
static pl_dtype promoted(const pl_tensor *x, const pl_tensor *y) {
    if ((x->dims == 0) == (y->dims == 0)) return wider(x->dtype, y->dtype);
    const pl_tensor *full = x->dims ? x : y, *number = x->dims ? y : x;
    return category(number->dtype) > category(full->dtype) ? wider(full->dtype, number->dtype)
                                                           : full->dtype;
}

/* "aten.le.Tensor": whether an operator's result is true or false. */
static bool compares(const char *target) {
    static const char *const names[] = {"aten.eq.", "aten.ne.", "aten.lt.",     "aten.le.",
                                        "aten.gt.", "aten.ge.", "aten.logical_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(target, names[i], strlen(names[i])) == 0) return true;
    return false;
}

/* ---- shapes ---- */

bool pl_shape_broadcast(pl_builder *b, const char *target, const pl_tensor *x, const pl_tensor *y,
                        pl_shape *out) {
    int dims = x->dims > y->dims ? x->dims : y->dims;
    out->dims = dims;
    for (int i = 0; i < dims; i++) {
        int at_x = i - (dims - x->dims), at_y = i - (dims - y->dims);
        int64_t n = at_x >= 0 ? x->sizes[at_x] : 1, m = at_y >= 0 ? y->sizes[at_y] : 1;
        if (n != m && n != 1 && m != 1) {
            pl_build_fail(b, PL_INPUT, target, "sizes %lld and %lld do not go together",
                          (long long)n, (long long)m);
            return false;
        }
        out->sizes[i] = n == 1 ? m : n;
    }
    return true;
}

bool pl_shape_dim(pl_builder *b, const char *target, int dims, int *dim) {
    int at = *dim < 0 ? *dim + dims : *dim;
    if (at < 0 || at >= dims) {
        pl_build_fail(b, PL_INPUT, target, "dimension %d of a tensor that has %d", *dim, dims);
        return false;
    }
    *dim = at;
    return true;
}

bool pl_shape_need(pl_builder *b, const char *target, bool good, const char *what) {
    if (!good) pl_build_fail(b, PL_INPUT, target, "%s", what);
    return good && !pl_build_failed(b);
}

static bool broadcast_with(pl_builder *b, const char *target, int32_t x, int32_t y, pl_shape *out) {
    return !pl_build_failed(b) &&
           pl_shape_broadcast(b, target, pl_built(b, x), pl_built(b, y), out);
}

/* ---- pointwise ---- */

int32_t pl_aten_unary(pl_builder *b, const char *target, int32_t x) {
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    return pl_call_result_like(b, x);
}

int32_t pl_aten_binary(pl_builder *b, const char *target, int32_t x, int32_t y) {
    pl_shape shape;
    if (!broadcast_with(b, target, x, y, &shape)) return PL_NONE;
    pl_dtype dtype = compares(target) ? PL_DT_BOOL : promoted(pl_built(b, x), pl_built(b, y));
    if (strncmp(target, "aten.div", 8) == 0 && !pl_dtype_is_float(dtype)) dtype = PL_DT_F32;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "other", y);
    return pl_call_result(b, dtype, shape.dims, shape.sizes);
}

int32_t pl_aten_scalar(pl_builder *b, const char *target, int32_t x, double value) {
    const pl_tensor *t = pl_built(b, x);
    bool whole = value == floor(value) && fabs(value) < 1e15;
    pl_dtype dtype = t->dtype;
    if (!pl_dtype_is_float(dtype) && (!whole || strncmp(target, "aten.div", 8) == 0))
        dtype = PL_DT_F32;
    if (compares(target)) dtype = PL_DT_BOOL;
    bool power = strncmp(target, "aten.pow.", 9) == 0 || strncmp(target, "aten.pow_", 9) == 0;
    const char *name = power ? "exponent" : "other";
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    if (whole && (power || !pl_dtype_is_float(t->dtype)))
        pl_call_int(b, name, (int64_t)value);
    else
        pl_call_float(b, name, value);
    t = pl_built(b, x);
    return pl_call_result(b, dtype, t->dims, t->sizes);
}

int32_t pl_aten_add(pl_builder *b, int32_t x, int32_t y) {
    return pl_aten_binary(b, "aten.add.Tensor", x, y);
}

int32_t pl_aten_mul(pl_builder *b, int32_t x, int32_t y) {
    return pl_aten_binary(b, "aten.mul.Tensor", x, y);
}

int32_t pl_aten_gelu(pl_builder *b, int32_t x, bool tanh) {
    pl_call(b, "aten.gelu.default");
    pl_call_tensor(b, "self", x);
    if (tanh) pl_call_string(b, "approximate", "tanh");
    return pl_call_result_like(b, x);
}

int32_t pl_aten_where(pl_builder *b, int32_t condition, int32_t x, int32_t y) {
    pl_shape both, all;
    if (!broadcast_with(b, "aten.where.self", x, y, &both)) return PL_NONE;
    pl_dtype dtype = promoted(pl_built(b, x), pl_built(b, y));
    pl_tensor values = {.dims = (uint8_t)both.dims, .sizes = both.sizes};
    if (!pl_shape_broadcast(b, "aten.where.self", pl_built(b, condition), &values, &all))
        return PL_NONE;
    pl_call(b, "aten.where.self");
    pl_call_tensor(b, "condition", condition);
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "other", y);
    return pl_call_result(b, dtype, all.dims, all.sizes);
}

int32_t pl_aten_masked_fill(pl_builder *b, int32_t x, int32_t mask, double value) {
    pl_shape shape;
    if (!broadcast_with(b, "aten.masked_fill.Scalar", x, mask, &shape)) return PL_NONE;
    pl_call(b, "aten.masked_fill.Scalar");
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "mask", mask);
    pl_call_float(b, "value", value);
    return pl_call_result(b, pl_built(b, x)->dtype, shape.dims, shape.sizes);
}

int32_t pl_aten_dropout(pl_builder *b, int32_t x, double p) {
    pl_call(b, "aten.dropout.default");
    pl_call_tensor(b, "input", x);
    pl_call_float(b, "p", p);
    pl_call_bool(b, "train", true);
    return pl_call_result_like(b, x);
}

int32_t pl_aten_to(pl_builder *b, int32_t x, pl_dtype dtype) {
    pl_call(b, "aten.to.dtype");
    pl_call_tensor(b, "self", x);
    pl_call_dtype(b, "dtype", dtype);
    const pl_tensor *t = pl_built(b, x);
    return pl_call_result(b, dtype, t->dims, t->sizes);
}

int32_t pl_aten_type_as(pl_builder *b, int32_t x, int32_t other) {
    pl_dtype dtype = pl_built(b, other)->dtype;
    pl_call(b, "aten.type_as.default");
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "other", other);
    const pl_tensor *t = pl_built(b, x);
    return pl_call_result(b, dtype, t->dims, t->sizes);
}

int32_t pl_aten_clone(pl_builder *b, int32_t x) {
    return pl_aten_unary(b, "aten.clone.default", x);
}

int32_t pl_aten_softmax(pl_builder *b, int32_t x, int dim, pl_dtype dtype) {
    pl_call(b, "aten.softmax.int");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", dim);
    if (dtype) pl_call_dtype(b, "dtype", dtype);
    const pl_tensor *t = pl_built(b, x);
    return pl_call_result(b, dtype ? dtype : t->dtype, t->dims, t->sizes);
}

/* ---- products ---- */

int32_t pl_aten_linear(pl_builder *b, int32_t x, int32_t weight, int32_t bias) {
    const pl_tensor *t = pl_built(b, x), *w = pl_built(b, weight);
    if (!pl_shape_need(b, "aten.linear.default",
                       t->dims >= 1 && w->dims == 2 && t->sizes[t->dims - 1] == w->sizes[1],
                       "an input whose last size is not the layer's"))
        return PL_NONE;
    pl_shape out = pl_shape_of(t);
    out.sizes[out.dims - 1] = w->sizes[0];
    pl_dtype dtype = t->dtype;
    pl_call(b, "aten.linear.default");
    pl_call_tensor(b, "input", x);
    pl_call_tensor(b, "weight", weight);
    if (bias >= 0) pl_call_tensor(b, "bias", bias);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_matmul(pl_builder *b, int32_t x, int32_t y) {
    const pl_tensor *t = pl_built(b, x), *u = pl_built(b, y);
    if (!pl_shape_need(b, "aten.matmul.default", t->dims >= 1 && u->dims >= 1,
                       "a number where a matrix is needed"))
        return PL_NONE;
    int64_t inner = u->sizes[u->dims >= 2 ? u->dims - 2 : 0];
    if (!pl_shape_need(b, "aten.matmul.default", t->sizes[t->dims - 1] == inner,
                       "inner sizes that differ"))
        return PL_NONE;
    /* Batch dimensions broadcast; then rows of x, columns of y. */
    pl_tensor left = {.dims = (uint8_t)(t->dims > 2 ? t->dims - 2 : 0), .sizes = t->sizes};
    pl_tensor right = {.dims = (uint8_t)(u->dims > 2 ? u->dims - 2 : 0), .sizes = u->sizes};
    pl_shape out;
    if (!pl_shape_broadcast(b, "aten.matmul.default", &left, &right, &out)) return PL_NONE;
    if (t->dims >= 2) out.sizes[out.dims++] = t->sizes[t->dims - 2];
    if (u->dims >= 2) out.sizes[out.dims++] = u->sizes[u->dims - 1];
    pl_dtype dtype = wider(t->dtype, u->dtype);
    pl_call(b, "aten.matmul.default");
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "other", y);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_bmm(pl_builder *b, int32_t x, int32_t y) {
    const pl_tensor *t = pl_built(b, x), *u = pl_built(b, y);
    if (!pl_shape_need(b, "aten.bmm.default",
                       t->dims == 3 && u->dims == 3 && t->sizes[0] == u->sizes[0] &&
                           t->sizes[2] == u->sizes[1],
                       "batches of matrices that do not go together"))
        return PL_NONE;
    int64_t sizes[] = {t->sizes[0], t->sizes[1], u->sizes[2]};
    pl_dtype dtype = t->dtype;
    pl_call(b, "aten.bmm.default");
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "mat2", y);
    return pl_call_result(b, dtype, 3, sizes);
}

int32_t pl_aten_addmm(pl_builder *b, int32_t bias, int32_t x, int32_t y) {
    const pl_tensor *t = pl_built(b, x), *u = pl_built(b, y);
    if (!pl_shape_need(b, "aten.addmm.default",
                       t->dims == 2 && u->dims == 2 && t->sizes[1] == u->sizes[0],
                       "matrices that do not go together"))
        return PL_NONE;
    int64_t sizes[] = {t->sizes[0], u->sizes[1]};
    pl_dtype dtype = t->dtype;
    pl_call(b, "aten.addmm.default");
    pl_call_tensor(b, "self", bias);
    pl_call_tensor(b, "mat1", x);
    pl_call_tensor(b, "mat2", y);
    return pl_call_result(b, dtype, 2, sizes);
}

int32_t pl_aten_baddbmm(pl_builder *b, int32_t self, int32_t x, int32_t y, double beta,
                        double alpha) {
    const pl_tensor *t = pl_built(b, x), *u = pl_built(b, y);
    if (!pl_shape_need(b, "aten.baddbmm.default",
                       t->dims == 3 && u->dims == 3 && t->sizes[0] == u->sizes[0] &&
                           t->sizes[2] == u->sizes[1],
                       "batches of matrices that do not go together"))
        return PL_NONE;
    int64_t sizes[] = {t->sizes[0], t->sizes[1], u->sizes[2]};
    pl_dtype dtype = t->dtype;
    pl_call(b, "aten.baddbmm.default");
    pl_call_tensor(b, "self", self);
    pl_call_tensor(b, "batch1", x);
    pl_call_tensor(b, "batch2", y);
    pl_call_float(b, "beta", beta);
    pl_call_float(b, "alpha", alpha);
    return pl_call_result(b, dtype, 3, sizes);
}

/* ---- convolution ---- */

/* Places of a kernel along one dimension; -1: none, or numbers that make no sense. */
static int64_t places(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                      int64_t dilation, bool ceil_mode) {
    const int64_t most = INT64_C(1) << 40;
    if (kernel < 1 || stride < 1 || padding < 0 || dilation < 1 || kernel > most || stride > most ||
        padding > most || dilation > most || size > most || (kernel - 1) > most / dilation)
        return -1;
    int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    if (room < 0) return -1;
    int64_t out = (ceil_mode ? room + stride - 1 : room) / stride + 1;
    if (ceil_mode && (out - 1) * stride >= size + padding) out--;
    return out;
}

int32_t pl_aten_conv(pl_builder *b, int dims, int32_t x, int32_t weight, int32_t bias,
                     const int64_t *stride, const int64_t *padding, const int64_t *dilation,
                     int64_t groups) {
    static const char *const targets[] = {"aten.conv1d.default", "aten.conv2d.default",
                                          "aten.conv3d.default"};
    const char *target = targets[dims >= 1 && dims <= 3 ? dims - 1 : 1];
    const pl_tensor *t = pl_built(b, x), *w = pl_built(b, weight);
    bool good = dims >= 1 && dims <= 3 && t->dims == dims + 2 && w->dims == dims + 2 &&
                groups > 0 && groups <= t->sizes[1] && t->sizes[1] == w->sizes[1] * groups;
    if (!pl_shape_need(b, target, good, "an input whose channels are not the layer's"))
        return PL_NONE;
    pl_shape out = pl_shape_of(t);
    out.sizes[1] = w->sizes[0];
    for (int i = 0; i < dims; i++) {
        out.sizes[i + 2] =
            places(t->sizes[i + 2], w->sizes[i + 2], stride[i], padding[i], dilation[i], false);
        good = good && out.sizes[i + 2] > 0;
    }
    if (!pl_shape_need(b, target, good, "an input smaller than the kernel")) return PL_NONE;
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "input", x);
    pl_call_tensor(b, "weight", weight);
    pl_call_tensor(b, "bias", bias);
    pl_call_ints(b, "stride", dims, stride);
    pl_call_ints(b, "padding", dims, padding);
    pl_call_ints(b, "dilation", dims, dilation);
    pl_call_int(b, "groups", groups);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_conv_transpose(pl_builder *b, int dims, int32_t x, int32_t weight, int32_t bias,
                               const int64_t *stride, const int64_t *padding,
                               const int64_t *output_padding, int64_t groups,
                               const int64_t *dilation) {
    static const char *const targets[] = {"aten.conv_transpose1d.default",
                                          "aten.conv_transpose2d.input",
                                          "aten.conv_transpose3d.input"};
    const char *target = targets[dims >= 1 && dims <= 3 ? dims - 1 : 1];
    const pl_tensor *t = pl_built(b, x), *w = pl_built(b, weight);
    const int64_t most = INT64_C(1) << 20;
    bool good = dims >= 1 && dims <= 3 && t->dims == dims + 2 && w->dims == dims + 2 &&
                groups > 0 && t->sizes[1] == w->sizes[0];
    if (!pl_shape_need(b, target, good, "an input whose channels are not the layer's"))
        return PL_NONE;
    pl_shape out = pl_shape_of(t);
    good = !__builtin_mul_overflow(w->sizes[1], groups, &out.sizes[1]);
    for (int i = 0; i < dims && good; i++) {
        int64_t n = t->sizes[i + 2], k = w->sizes[i + 2];
        good = stride[i] > 0 && stride[i] < most && padding[i] >= 0 && padding[i] < most &&
               dilation[i] > 0 && dilation[i] < most && output_padding[i] >= 0 &&
               output_padding[i] < most && n > 0 && n < most && k > 0 && k < most;
        if (good)
            out.sizes[i + 2] = (n - 1) * stride[i] - 2 * padding[i] + dilation[i] * (k - 1) +
                               output_padding[i] + 1;
        good = good && out.sizes[i + 2] > 0;
    }
    if (!pl_shape_need(b, target, good, "sizes that make no sense")) return PL_NONE;
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "input", x);
    pl_call_tensor(b, "weight", weight);
    pl_call_tensor(b, "bias", bias);
    pl_call_ints(b, "stride", dims, stride);
    pl_call_ints(b, "padding", dims, padding);
    pl_call_ints(b, "output_padding", dims, output_padding);
    pl_call_int(b, "groups", groups);
    pl_call_ints(b, "dilation", dims, dilation);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

/* ---- attention, recurrence ---- */

int32_t pl_aten_attention(pl_builder *b, int32_t q, int32_t k, int32_t v, int32_t mask,
                          double dropout, bool causal, double scale, bool grouped) {
    const char *target = "aten.scaled_dot_product_attention.default";
    const pl_tensor *t = pl_built(b, q), *u = pl_built(b, k), *w = pl_built(b, v);
    bool good = t->dims >= 3 && u->dims == t->dims && w->dims == t->dims &&
                t->sizes[t->dims - 1] == u->sizes[u->dims - 1] &&
                u->sizes[u->dims - 2] == w->sizes[w->dims - 2];
    if (!pl_shape_need(b, target, good, "queries, keys and values that do not go together"))
        return PL_NONE;
    pl_shape out = pl_shape_of(t);
    out.sizes[out.dims - 1] = w->sizes[w->dims - 1];
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "query", q);
    pl_call_tensor(b, "key", k);
    pl_call_tensor(b, "value", v);
    pl_call_tensor(b, "attn_mask", mask);
    pl_call_float(b, "dropout_p", dropout);
    pl_call_bool(b, "is_causal", causal);
    if (!isnan(scale)) pl_call_float(b, "scale", scale);
    if (grouped) pl_call_bool(b, "enable_gqa", true);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_recurrent(pl_builder *b, const char *mode, int32_t x, const int32_t *state,
                          int param_count, const int32_t *params, bool bias, int64_t layers,
                          double dropout, bool bidirectional, bool batch_first,
                          int32_t *out_state) {
    static const char *const modes[][2] = {{"lstm", "aten.lstm.input"},
                                           {"gru", "aten.gru.input"},
                                           {"rnn_tanh", "aten.rnn_tanh.input"},
                                           {"rnn_relu", "aten.rnn_relu.input"}};
    const char *target = NULL;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i][0], mode) == 0) target = modes[i][1];
    const pl_tensor *t = pl_built(b, x), *h = pl_built(b, state[0]);
    if (!pl_shape_need(b, mode, target && t->dims == 3 && h->dims == 3,
                       "an input or a state that is not three-dimensional"))
        return PL_NONE;
    bool lstm = strcmp(mode, "lstm") == 0;
    pl_dtype dtype = t->dtype;
    int64_t directions = bidirectional ? 2 : 1;
    int64_t sizes[] = {t->sizes[0], t->sizes[1], directions * h->sizes[2]};
    pl_call(b, target);
    pl_call_tensor(b, "input", x);
    if (lstm)
        pl_call_tensors(b, "hx", 2, state);
    else
        pl_call_tensor(b, "hx", state[0]);
    pl_call_tensors(b, "params", param_count, params);
    pl_call_bool(b, "has_biases", bias);
    pl_call_int(b, "num_layers", layers);
    pl_call_float(b, "dropout", dropout);
    pl_call_bool(b, "train", true);
    pl_call_bool(b, "bidirectional", bidirectional);
    pl_call_bool(b, "batch_first", batch_first);
    int32_t out = pl_call_result(b, dtype, 3, sizes);
    for (int i = 0; i < (lstm ? 2 : 1); i++) {
        int32_t last = pl_call_result_like(b, state[i]);
        if (out_state) out_state[i] = last;
    }
    return out;
}

/* ---- normalisation ---- */

static bool last_sizes(pl_builder *b, const char *target, int32_t x, int dims) {
    return pl_shape_need(b, target, dims >= 1 && dims <= pl_built_dims(b, x),
                         "more dimensions to normalise than there are");
}

/* Adds normalized_shape: the last sizes of x. */
static void call_shape(pl_builder *b, int32_t x, int dims) {
    const pl_tensor *t = pl_built(b, x);
    pl_call_ints(b, "normalized_shape", dims, t->sizes + t->dims - dims);
}

int32_t pl_aten_layer_norm(pl_builder *b, int32_t x, int dims, int32_t weight, int32_t bias,
                           double eps) {
    if (!last_sizes(b, "aten.layer_norm.default", x, dims)) return PL_NONE;
    pl_call(b, "aten.layer_norm.default");
    pl_call_tensor(b, "input", x);
    call_shape(b, x, dims);
    pl_call_tensor(b, "weight", weight);
    pl_call_tensor(b, "bias", bias);
    pl_call_float(b, "eps", eps);
    return pl_call_result_like(b, x);
}

int32_t pl_aten_rms_norm(pl_builder *b, int32_t x, int dims, int32_t weight, double eps) {
    if (!last_sizes(b, "aten.rms_norm.default", x, dims)) return PL_NONE;
    pl_call(b, "aten.rms_norm.default");
    pl_call_tensor(b, "input", x);
    call_shape(b, x, dims);
    pl_call_tensor(b, "weight", weight);
    if (!isnan(eps)) pl_call_float(b, "eps", eps);
    return pl_call_result_like(b, x);
}

int32_t pl_aten_group_norm(pl_builder *b, int32_t x, int64_t groups, int32_t weight, int32_t bias,
                           double eps) {
    pl_call(b, "aten.group_norm.default");
    pl_call_tensor(b, "input", x);
    pl_call_int(b, "num_groups", groups);
    pl_call_tensor(b, "weight", weight);
    pl_call_tensor(b, "bias", bias);
    pl_call_float(b, "eps", eps);
    return pl_call_result_like(b, x);
}

int32_t pl_aten_batch_norm(pl_builder *b, int32_t x, int32_t weight, int32_t bias, int32_t mean,
                           int32_t variance, double momentum, double eps) {
    pl_call(b, "aten.batch_norm.default");
    pl_call_tensor(b, "input", x);
    pl_call_tensor(b, "weight", weight);
    pl_call_tensor(b, "bias", bias);
    pl_call_tensor(b, "running_mean", mean);
    pl_call_tensor(b, "running_var", variance);
    pl_call_bool(b, "training", true);
    pl_call_float(b, "momentum", momentum);
    pl_call_float(b, "eps", eps);
    pl_call_bool(b, "cudnn_enabled", true);
    return pl_call_result_like(b, x);
}

/* ---- reductions, pooling ---- */

int32_t pl_aten_reduce(pl_builder *b, const char *target, int32_t x, int dim, bool keep) {
    const pl_tensor *t = pl_built(b, x);
    if (pl_build_failed(b) || !pl_shape_dim(b, target, t->dims, &dim)) return PL_NONE;
    pl_shape out = {.dims = 0};
    for (int i = 0; i < t->dims; i++)
        if (i != dim || keep) out.sizes[out.dims++] = i == dim ? 1 : t->sizes[i];
    pl_dtype dtype = t->dtype;
    bool sums = strncmp(target, "aten.sum", 8) == 0 || strncmp(target, "aten.cumsum", 11) == 0;
    if (sums && !pl_dtype_is_float(dtype)) dtype = PL_DT_I64;
    int64_t at = dim;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "dim", 1, &at);
    if (keep) pl_call_bool(b, "keepdim", true);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_pool(pl_builder *b, const char *target, int dims, int32_t x, const int64_t *kernel,
                     const int64_t *stride, const int64_t *padding, const int64_t *dilation,
                     bool ceil) {
    const pl_tensor *t = pl_built(b, x);
    if (!pl_shape_need(b, target, dims >= 1 && dims <= 3 && t->dims >= dims + 1,
                       "an input with too few dimensions"))
        return PL_NONE;
    pl_shape out = pl_shape_of(t);
    bool good = true;
    for (int i = 0; i < dims; i++) {
        int at = t->dims - dims + i;
        out.sizes[at] = places(t->sizes[at], kernel[i], stride[i], padding[i],
                               dilation ? dilation[i] : 1, ceil);
        good = good && out.sizes[at] > 0;
    }
    if (!pl_shape_need(b, target, good, "an input smaller than the window")) return PL_NONE;
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "kernel_size", dims, kernel);
    pl_call_ints(b, "stride", dims, stride);
    pl_call_ints(b, "padding", dims, padding);
    if (dilation) pl_call_ints(b, "dilation", dims, dilation);
    if (ceil) pl_call_bool(b, "ceil_mode", true);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

int32_t pl_aten_adaptive_pool(pl_builder *b, const char *target, int dims, int32_t x,
                              const int64_t *sizes) {
    const pl_tensor *t = pl_built(b, x);
    if (!pl_shape_need(b, target, dims >= 1 && dims <= 3 && t->dims >= dims + 1,
                       "an input with too few dimensions"))
        return PL_NONE;
    pl_shape out = pl_shape_of(t);
    for (int i = 0; i < dims; i++) out.sizes[t->dims - dims + i] = sizes[i];
    pl_dtype dtype = t->dtype;
    pl_call(b, target);
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "output_size", dims, sizes);
    return pl_call_result(b, dtype, out.dims, out.sizes);
}

/* ---- losses ---- */

int32_t pl_aten_cross_entropy(pl_builder *b, int32_t logits, int32_t target, int64_t ignore_index) {
    const pl_tensor *t = pl_built(b, logits), *u = pl_built(b, target);
    if (!pl_shape_need(b, "aten.cross_entropy_loss.default",
                       t->dims >= 1 && (u->dims == t->dims - 1 || u->dims == t->dims),
                       "targets that do not go with the logits"))
        return PL_NONE;
    pl_dtype dtype = t->dtype;
    pl_call(b, "aten.cross_entropy_loss.default");
    pl_call_tensor(b, "self", logits);
    pl_call_tensor(b, "target", target);
    if (ignore_index != -100) pl_call_int(b, "ignore_index", ignore_index);
    return pl_call_result(b, dtype, 0, NULL);
}

int32_t pl_aten_mse_loss(pl_builder *b, int32_t x, int32_t target) {
    pl_dtype dtype = pl_built(b, x)->dtype;
    pl_call(b, "aten.mse_loss.default");
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "target", target);
    return pl_call_result(b, dtype, 0, NULL);
}
