/* encoder: see encoder.h.
 *
 * Rules: torch.nn of PyTorch 2.11 (the operators a layer's call becomes), transformers 5.22:
 * integrations/sdpa_attention.py and the eager attention that the families' files repeat. */
#include "import/families/encoder.h"

#include <math.h>

/* ---- keys ---- */

enum { MOST_SIZE = 1 << 30, MOST_SIDE = 1 << 20 };

int64_t pl_hf_size(pl_hf *m, const char *key, int64_t otherwise) {
    int64_t n = pl_hf_int(m, key, otherwise);
    if (n >= 1 && n <= MOST_SIZE) return n;
    pl_hf_refuse(m, key, "expected 1 to %d", MOST_SIZE);
    return 1;
}

void pl_hf_sides(pl_hf *m, const char *key, int64_t otherwise, int64_t sides[2]) {
    bool list = pl_hf_list(m, key) == 2;
    int64_t one = list ? 0 : pl_hf_int(m, key, otherwise);
    for (int i = 0; i < 2; i++) {
        sides[i] = list ? pl_hf_list_int(m, key, i, otherwise) : one;
        if (sides[i] >= 1 && sides[i] <= MOST_SIDE) continue;
        pl_hf_refuse(m, key, "expected 1 to %d", MOST_SIDE);
        sides[i] = 1;
    }
}

int64_t pl_hf_size_at(pl_hf *m, const char *key, int64_t index, int64_t otherwise) {
    int64_t count = pl_hf_list(m, key);
    if (count == 0) return pl_hf_size(m, key, otherwise);
    int64_t n = pl_hf_list_int(m, key, index, 0);
    if (n >= 1 && n <= MOST_SIZE) return n;
    pl_hf_refuse(m, key, "expected 1 to %d, and more than %lld of them", MOST_SIZE,
                 (long long)index);
    return 1;
}

int64_t pl_hf_depth(pl_hf *m, const char *key, int64_t otherwise) {
    int64_t n = pl_hf_int(m, key, otherwise);
    if (n <= PL_HF_MAX_LAYERS) return n;
    pl_hf_refuse(m, key, "at most %d can be built", PL_HF_MAX_LAYERS);
    return 1;
}

void pl_hf_divides(pl_hf *m, const char *key, int64_t width, int64_t heads) {
    if (heads > 0 && width % heads == 0) return;
    pl_hf_refuse(m, key, "the width, %lld, is no multiple of it", (long long)width);
}

/* ---- modules ---- */

void pl_hf_enter(pl_hf *m, const char *name, const char *package, const char *class) {
    pl_module_enter(
        m->b, name,
        pl_build_text(m->b, "transformers.models.%s.modeling_%s.%s", package, package, class));
    pl_line(m->b, "");
}

void pl_hf_enter_at(pl_hf *m, const char *list, int64_t index, const char *package,
                    const char *class) {
    pl_hf_enter(m, pl_build_text(m->b, "%s.%lld", list, (long long)index), package, class);
}

int32_t pl_hf_pixels(pl_hf *m, int64_t channels, int64_t height, int64_t width) {
    return pl_build_input(m->b, "pixel_values", m->dtype,
                          PL_SIZES(m->batch, channels, height, width));
}

int32_t pl_hf_conv(pl_hf *m, const char *name, int32_t x, pl_hf_kernel k) {
    pl_builder *b = m->b;
    int dims = pl_built_dims(b, x) == 3 ? 1 : 2;
    int64_t in = pl_built_size(b, x, 1), groups = k.groups ? k.groups : 1,
            stride = k.stride ? k.stride : 1, dilation = k.dilation ? k.dilation : 1;
    if (groups < 1 || in % groups != 0 || k.out % groups != 0) {
        pl_build_fail(b, PL_INPUT, name, "%lld groups of %lld and %lld channels", (long long)groups,
                      (long long)in, (long long)k.out);
        return PL_NONE;
    }
    pl_module_enter(b, name,
                    dims == 1 ? "torch.nn.modules.conv.Conv1d" : "torch.nn.modules.conv.Conv2d");
    int64_t sizes[4] = {k.out, in / groups, k.size, k.size}, strides[2] = {stride, stride},
            paddings[2] = {k.padding, k.padding}, dilations[2] = {dilation, dilation};
    int32_t w = pl_build_parameter(b, "weight", 2 + dims, sizes);
    int32_t bias = k.bias ? pl_build_parameter(b, "bias", PL_SIZES(k.out)) : PL_NONE;
    x = pl_aten_conv(b, dims, x, w, bias, strides, paddings, dilations, groups);
    pl_module_leave(b);
    return x;
}

int32_t pl_hf_batch_norm(pl_hf *m, const char *name, int32_t x, double momentum, double eps) {
    pl_builder *b = m->b;
    int64_t n = pl_built_size(b, x, 1);
    pl_module_enter(b, name,
                    pl_built_dims(b, x) == 4 ? "torch.nn.modules.batchnorm.BatchNorm2d"
                                             : "torch.nn.modules.batchnorm.BatchNorm1d");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(n));
    int32_t v = pl_build_parameter(b, "bias", PL_SIZES(n));
    int32_t mean = pl_build_buffer(b, "running_mean", PL_DT_F32, true, PL_SIZES(n));
    int32_t variance = pl_build_buffer(b, "running_var", PL_DT_F32, true, PL_SIZES(n));
    int32_t count = pl_build_buffer(b, "num_batches_tracked", PL_DT_I64, true, 0, NULL);
    pl_aten_scalar(b, "aten.add_.Tensor", count, 1);
    x = pl_aten_batch_norm(b, x, w, v, mean, variance, momentum, eps);
    pl_module_leave(b);
    return x;
}

int32_t pl_hf_group_norm(pl_hf *m, const char *name, int32_t x, int64_t groups, double eps) {
    pl_builder *b = m->b;
    int64_t n = pl_built_size(b, x, 1);
    pl_module_enter(b, name, "torch.nn.modules.normalization.GroupNorm");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(n));
    int32_t v = pl_build_parameter(b, "bias", PL_SIZES(n));
    x = pl_aten_group_norm(b, x, groups, w, v, eps);
    pl_module_leave(b);
    return x;
}

int32_t pl_hf_norm(pl_hf *m, const char *name, int32_t x) {
    return pl_hf_layer_norm(m, name, x, 1e-5, true);
}

int32_t pl_hf_max_pool(pl_hf *m, const char *name, int32_t x, int64_t kernel, int64_t stride,
                       int64_t padding, bool ceil) {
    const int64_t kernels[2] = {kernel, kernel}, strides[2] = {stride, stride},
                  paddings[2] = {padding, padding}, one[2] = {1, 1};
    pl_module_enter(m->b, name, "torch.nn.modules.pooling.MaxPool2d");
    x = pl_aten_pool(m->b, "aten.max_pool2d.default", 2, x, kernels, strides, paddings, one, ceil);
    pl_module_leave(m->b);
    return x;
}

int32_t pl_hf_drop_path(pl_hf *m, const char *package, const char *class, int32_t x, double rate) {
    pl_builder *b = m->b;
    if (rate <= 0) return x;
    int dims = pl_built_dims(b, x);
    int64_t sizes[PL_MAX_DIMS] = {pl_built_size(b, x, 0)};
    for (int i = 1; i < dims; i++) sizes[i] = 1;
    pl_dtype dtype = pl_built(b, x)->dtype;
    pl_hf_enter(m, "drop_path", package, class);
    pl_line(b, "random_tensor = torch.rand(shape, dtype=hidden_states.dtype)");
    pl_call(b, "aten.new_empty.default"); /* of the type that x turns out to have */
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "size", dims, sizes);
    int32_t keep = pl_call_result(b, dtype, dims, sizes);
    pl_line(b, "random_tensor = torch.floor(random_tensor + keep_prob)");
    keep = pl_aten_scalar(b, "aten.add.Tensor", keep, 1 - rate);
    keep = pl_aten_unary(b, "aten.floor.default", keep);
    pl_line(b, "return hidden_states.div(keep_prob) * random_tensor");
    x = pl_aten_mul(b, pl_aten_scalar(b, "aten.div.Tensor", x, 1 - rate), keep);
    pl_module_leave(b);
    return x;
}

int32_t pl_hf_resize(pl_hf *m, int32_t x, int64_t height, int64_t width) {
    pl_builder *b = m->b;
    pl_dtype dtype = pl_built(b, x)->dtype;
    int64_t n = pl_built_size(b, x, 0), c = pl_built_size(b, x, 1);
    pl_call(b, "aten.upsample_bilinear2d.vec");
    pl_call_tensor(b, "input", x);
    pl_call_ints(b, "output_size", 2, (const int64_t[]){height, width});
    pl_call_bool(b, "align_corners", false);
    return pl_call_result(b, dtype, PL_SIZES(n, c, height, width));
}

void pl_hf_pixel_loss(pl_hf *m, int32_t logits, int64_t ignored) {
    pl_builder *b = m->b;
    int64_t sides[2];
    pl_hf_sides(m, "image_size", 224, sides);
    int32_t labels = pl_build_input(b, "labels", PL_DT_I64, PL_SIZES(m->batch, sides[0], sides[1]));
    pl_line(b, "upsampled_logits = nn.functional.interpolate(");
    int32_t x = pl_hf_resize(m, logits, sides[0], sides[1]);
    pl_line(b, "loss = loss_fct(upsampled_logits, labels)");
    pl_build_output(b, pl_aten_cross_entropy(b, x, labels, ignored));
    pl_build_output(b, logits);
}

int32_t pl_hf_step_slice(pl_hf *m, int32_t x, int dim, int64_t start, int64_t step) {
    pl_builder *b = m->b;
    const pl_tensor *t = pl_built(b, x);
    int64_t sizes[PL_MAX_DIMS];
    int dims = t->dims;
    pl_dtype dtype = t->dtype;
    for (int i = 0; i < dims; i++) sizes[i] = t->sizes[i];
    if (dim >= dims || start < 0 || step < 1) return PL_NONE;
    sizes[dim] = start < sizes[dim] ? (sizes[dim] - start + step - 1) / step : 0;
    pl_call(b, "aten.slice.Tensor");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", dim);
    pl_call_int(b, "start", start);
    pl_call_int(b, "end", INT64_MAX);
    pl_call_int(b, "step", step);
    return pl_call_result(b, dtype, dims, sizes);
}

int32_t pl_hf_mean_places(pl_hf *m, int32_t x) {
    pl_builder *b = m->b;
    const int64_t dims[2] = {-2, -1}, sizes[2] = {pl_built_size(b, x, 0), pl_built_size(b, x, 1)};
    pl_dtype dtype = pl_built(b, x)->dtype;
    pl_call(b, "aten.mean.dim");
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "dim", 2, dims);
    return pl_call_result(b, dtype, 2, sizes);
}

int32_t pl_hf_sum(pl_hf *m, const char *line, int32_t x, int32_t y) {
    pl_line(m->b, line);
    return pl_aten_add(m->b, x, y);
}

void pl_hf_masked_loss(pl_hf *m, int32_t logits) {
    pl_builder *b = m->b;
    int32_t labels = pl_build_input(b, "labels", PL_DT_I64, PL_SIZES(m->batch, m->seq));
    pl_line(b, "loss = self.loss_function(logits, labels, vocab_size=self.config.vocab_size)");
    int32_t x = pl_aten_to(b, logits, PL_DT_F32);
    x = pl_aten_view(b, x, PL_SIZES(-1, pl_built_size(b, logits, -1)));
    int32_t loss = pl_aten_cross_entropy(b, x, pl_aten_view(b, labels, PL_SIZES(-1)), -100);
    pl_build_output(b, loss);
    pl_build_output(b, logits);
}

void pl_hf_own_token_loss(pl_hf *m, int32_t logits) {
    pl_builder *b = m->b;
    int32_t labels = pl_build_input(b, "labels", PL_DT_I64, PL_SIZES(m->batch, m->seq));
    pl_line(b, "loss = loss_fct(logits.view(-1, self.num_labels), labels.view(-1))");
    int32_t x = pl_aten_view(b, logits, PL_SIZES(-1, pl_built_size(b, logits, -1)));
    int32_t loss = pl_aten_cross_entropy(b, x, pl_aten_view(b, labels, PL_SIZES(-1)), -100);
    pl_build_output(b, loss);
    pl_build_output(b, logits);
}

/* ---- attention ---- */

int32_t pl_hf_heads(pl_hf *m, int32_t x, int64_t head) {
    pl_builder *b = m->b;
    x = pl_aten_view(b, x, PL_SIZES(pl_built_size(b, x, 0), pl_built_size(b, x, 1), -1, head));
    return pl_aten_transpose(b, x, 1, 2);
}

int32_t pl_hf_attention_of(pl_hf *m, int32_t q, int32_t k, int32_t v, int32_t mask,
                           pl_hf_attend a) {
    pl_builder *b = m->b;
    int64_t rows = pl_built_size(b, q, 0), length = pl_built_size(b, q, 2);
    int32_t x;
    pl_line(b, "attn_output, attn_weights = attention_interface(");
    if (m->attn == PL_ATTN_EAGER) {
        int32_t w = pl_aten_matmul(b, q, pl_aten_transpose(b, k, 2, 3));
        if (!a.unscaled) w = pl_aten_scalar(b, "aten.mul.Tensor", w, a.scale);
        if (mask != PL_NONE) w = pl_aten_add(b, w, mask);
        w = pl_aten_softmax(b, w, -1, a.wide ? PL_DT_F32 : PL_DT_UNKNOWN);
        if (a.wide) w = pl_aten_type_as(b, w, q);
        x = pl_aten_matmul(b, pl_aten_dropout(b, w, a.drop), v);
    } else {
        x = pl_aten_attention(b, q, k, v, mask, a.drop, a.causal, a.scale, false);
    }
    x = pl_aten_contiguous(b, pl_aten_transpose(b, x, 1, 2));
    pl_line(b, "attn_output = attn_output.reshape(*input_shape, -1).contiguous()");
    return pl_aten_reshape(b, x, PL_SIZES(rows, length, -1));
}

/* torch.nn.functional.multi_head_attention_forward with need_weights, keys and values the same. */
int32_t pl_hf_multihead(pl_hf *m, const char *name, int32_t query, int32_t memory, int64_t heads,
                        double drop) {
    pl_builder *b = m->b;
    int64_t width = pl_built_size(b, query, -1), rows = pl_built_size(b, query, 0),
            queries = pl_built_size(b, query, 1), keys = pl_built_size(b, memory, 1),
            head = heads > 0 ? width / heads : 1;
    pl_module_enter(b, name, "torch.nn.modules.activation.MultiheadAttention");
    int32_t w = pl_build_parameter(b, "in_proj_weight", PL_SIZES(3 * width, width));
    int32_t bias = pl_build_parameter(b, "in_proj_bias", PL_SIZES(3 * width)), ws[2], bs[2];
    int32_t out = pl_build_parameter(b, "out_proj.weight", PL_SIZES(width, width));
    int32_t out_bias = pl_build_parameter(b, "out_proj.bias", PL_SIZES(width));
    int32_t q = pl_aten_transpose(b, query, 1, 0), x = pl_aten_transpose(b, memory, 1, 0);
    const int64_t sizes[2] = {width, 2 * width};
    pl_aten_split(b, w, 2, sizes, 0, ws);
    pl_aten_split(b, bias, 2, sizes, 0, bs);
    q = pl_aten_linear(b, q, ws[0], bs[0]);
    x = pl_aten_linear(b, x, ws[1], bs[1]);
    x = pl_aten_view(b, x, PL_SIZES(keys, rows, 2, width));
    x = pl_aten_transpose(b, pl_aten_unsqueeze(b, x, 0), 0, -2);
    x = pl_aten_contiguous(b, pl_aten_squeeze(b, x, -2));
    int32_t k = pl_aten_select(b, x, 0, 0), v = pl_aten_select(b, x, 0, 1);
    q = pl_aten_transpose(b, pl_aten_view(b, q, PL_SIZES(queries, rows * heads, head)), 0, 1);
    k = pl_aten_transpose(b, pl_aten_view(b, k, PL_SIZES(keys, rows * heads, head)), 0, 1);
    v = pl_aten_transpose(b, pl_aten_view(b, v, PL_SIZES(keys, rows * heads, head)), 0, 1);
    q = pl_aten_scalar(b, "aten.mul.Tensor", q, sqrt(1.0 / (double)head));
    int32_t scores = pl_aten_bmm(b, q, pl_aten_transpose(b, k, -2, -1));
    scores = pl_aten_softmax(b, scores, -1, PL_DT_UNKNOWN);
    if (drop > 0) scores = pl_aten_dropout(b, scores, drop);
    x = pl_aten_contiguous(b, pl_aten_transpose(b, pl_aten_bmm(b, scores, v), 0, 1));
    x = pl_aten_linear(b, pl_aten_view(b, x, PL_SIZES(queries * rows, width)), out, out_bias);
    x = pl_aten_view(b, x, PL_SIZES(queries, rows, width));
    scores = pl_aten_view(b, scores, PL_SIZES(rows, heads, queries, keys));
    pl_aten_reduce(b, "aten.mean.dim", scores, 1, false);
    x = pl_aten_transpose(b, x, 1, 0);
    pl_module_leave(b);
    return x;
}
