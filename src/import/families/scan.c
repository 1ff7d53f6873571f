/* scan: see scan.h.
 *
 * Rules: transformers 5.17 to 5.22, the functions of these names in models/qwen3_next and models/mamba2:
 * what runs where neither causal-conv1d nor flash-linear-attention is installed. */
#include "import/families/scan.h"

int32_t pl_scan_to_type_of(pl_builder *b, int32_t x, int32_t like) {
    const pl_tensor *t = pl_built(b, x);
    pl_dtype dtype = pl_built(b, like)->dtype;
    pl_call(b, "aten.to.other");
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "other", like);
    return pl_call_result(b, dtype, t->dims, t->sizes);
}

int32_t pl_scan_float_contiguous(pl_builder *b, int32_t x) {
    const pl_tensor *t = pl_built(b, x);
    pl_call(b, "aten.to.dtype");
    pl_call_tensor(b, "self", x);
    pl_call_dtype(b, "dtype", PL_DT_F32);
    pl_call_string(b, "memory_format", "contiguous");
    return pl_call_result(b, PL_DT_F32, t->dims, t->sizes);
}

int32_t pl_scan_contiguous_as(pl_builder *b, int32_t x, int32_t like) {
    const pl_tensor *t = pl_built(b, x);
    pl_dtype dtype = pl_built(b, like)->dtype;
    pl_call(b, "aten.to.other");
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "other", like);
    pl_call_string(b, "memory_format", "contiguous");
    return pl_call_result(b, dtype, t->dims, t->sizes);
}

void pl_scan_put(pl_builder *b, int32_t whole, int dim, int64_t index, int32_t part) {
    int32_t place = pl_aten_select(b, whole, dim, index);
    pl_call(b, "aten.copy_.default");
    pl_call_tensor(b, "self", place);
    pl_call_tensor(b, "src", part);
    pl_call_result_like(b, place);
}

int32_t pl_scan_conv_weight(pl_builder *b, const char *name, int64_t channels, int64_t kernel,
                            bool with_bias, int32_t *bias) {
    pl_module_enter(b, name, "torch.nn.modules.conv.Conv1d");
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(channels, 1, kernel));
    *bias = with_bias ? pl_build_parameter(b, "bias", PL_SIZES(channels)) : PL_NONE;
    pl_module_leave(b);
    return weight;
}

int32_t pl_scan_conv(pl_hf *m, int32_t x, int32_t weight, int32_t bias, const char *act) {
    pl_builder *b = m->b;
    int64_t channels = pl_built_size(b, weight, 0), kernel = pl_built_size(b, weight, -1);
    int32_t y = pl_scan_to_type_of(b, x, weight);
    y = pl_aten_conv(b, 1, y, weight, bias, (int64_t[]){1}, (int64_t[]){kernel - 1}, (int64_t[]){1},
                     channels);
    y = pl_aten_slice(b, y, 2, 0, m->seq);
    if (act) y = pl_hf_activation(m, "act", act, y);
    return pl_scan_to_type_of(b, y, x);
}
