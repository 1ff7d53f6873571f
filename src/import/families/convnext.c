/* convnext: ConvNeXt, the first and V2: depthwise convolutions, and linear layers over channels.
 *
 * The order of operators, names and lines are those of transformers 5.22,
 * models/convnext/modeling_convnext.py and models/convnextv2/modeling_convnextv2.py. Called as
 * model(pixel_values, labels) with images of config.image_size.
 *
 * Left out: backbones. */
#include "import/families/encoder.h"

typedef struct style {
    const char *package, *prefix;
    bool grn; /* a norm over all places instead of a scale */
} style;

static const style first = {"convnext", "ConvNext", false},
                   second = {"convnextv2", "ConvNextV2", true};

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    const style *s;
    int64_t stages, depth;
    double path_rate, scale;
    const char *act;
} model;

static void enter(const model *o, const char *name, const char *class) {
    pl_hf_enter(o->m, name, o->s->package, pl_build_text(o->b, "%s%s", o->s->prefix, class));
}

/* ConvNextLayerNorm of channels first: [n, c, h, w], viewed as channels last and back. */
static int32_t norm_first(const model *o, const char *name, int32_t x) {
    pl_builder *b = o->b;
    enter(o, name, "LayerNorm");
    pl_line(b, "features = features.permute(0, 2, 3, 1)");
    x = pl_aten_permute(b, x, PL_SIZES(0, 2, 3, 1));
    int64_t c = pl_built_size(b, x, -1);
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(c));
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(c));
    pl_line(b, "features = super().forward(features)");
    x = pl_aten_layer_norm(b, x, 1, w, bias, 1e-6);
    pl_line(b, "features = features.permute(0, 3, 1, 2)");
    x = pl_aten_permute(b, x, PL_SIZES(0, 3, 1, 2));
    pl_module_leave(b);
    return x;
}

/* Global response: x times its length over all places, by the channels' mean of it. */
static int32_t response(const model *o, int32_t x) {
    pl_builder *b = o->b;
    int64_t c = pl_built_size(b, x, -1);
    pl_hf_enter(o->m, "grn", o->s->package, "ConvNextV2GRN");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(1, 1, 1, c));
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(1, 1, 1, c));
    pl_line(b, "global_features = torch.linalg.vector_norm(hidden_states, ord=2, dim=(1, 2))");
    pl_dtype dtype = pl_built(b, x)->dtype;
    const int64_t dims[2] = {1, 2};
    pl_call(b, "aten.linalg_vector_norm.default");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "ord", 2);
    pl_call_ints(b, "dim", 2, dims);
    pl_call_bool(b, "keepdim", true);
    int32_t length = pl_call_result(b, dtype, PL_SIZES(o->m->batch, 1, 1, c));
    pl_line(b, "norm_features = global_features / (global_features.mean(dim=-1) + 1e-6)");
    int32_t mean = pl_aten_reduce(b, "aten.mean.dim", length, -1, true);
    mean = pl_aten_scalar(b, "aten.add.Tensor", mean, 1e-6);
    int32_t y = pl_aten_binary(b, "aten.div.Tensor", length, mean);
    pl_line(b, "hidden_states = self.weight * (hidden_states * norm_features) + self.bias + x");
    y = pl_aten_mul(b, w, pl_aten_mul(b, x, y));
    y = pl_aten_add(b, pl_aten_add(b, y, bias), x);
    pl_module_leave(b);
    return y;
}

static int32_t layer(const model *o, int64_t index, int32_t x, double rate) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t c = pl_built_size(b, x, 1);
    enter(o, pl_build_text(b, "layers.%lld", (long long)index), "Layer");
    pl_module_children(b, "layer_scale_parameter dwconv layernorm pwconv1 grn pwconv2");
    int32_t scale = PL_NONE;
    if (!o->s->grn && o->scale > 0)
        scale = pl_build_parameter(b, "layer_scale_parameter", PL_SIZES(c));
    pl_line(b, "features = self.dwconv(features)");
    int32_t y =
        pl_hf_conv(m, "dwconv", x,
                   (pl_hf_kernel){.out = c, .size = 7, .padding = 3, .groups = c, .bias = true});
    pl_line(b, "features = features.permute(0, 2, 3, 1)");
    y = pl_aten_permute(b, y, PL_SIZES(0, 2, 3, 1));
    pl_line(b, "features = self.layernorm(features)");
    enter(o, "layernorm", "LayerNorm");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(c));
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(c));
    y = pl_aten_layer_norm(b, y, 1, w, bias, 1e-6);
    pl_module_leave(b);
    pl_line(b, "features = self.pwconv1(features)");
    y = pl_hf_linear(m, "pwconv1", y, 4 * c, true);
    y = pl_hf_activation(m, "act", o->act, y);
    if (o->s->grn) y = response(o, y);
    pl_line(b, "features = self.pwconv2(features)");
    y = pl_hf_linear(m, "pwconv2", y, c, true);
    pl_line(b, "features = self.layer_scale_parameter * features");
    if (scale != PL_NONE) y = pl_aten_mul(b, scale, y);
    pl_line(b, "features = features.permute(0, 3, 1, 2)");
    y = pl_aten_permute(b, y, PL_SIZES(0, 3, 1, 2));
    y = pl_hf_drop_path(m, o->s->package, pl_build_text(b, "%sDropPath", o->s->prefix), y, rate);
    x = pl_hf_sum(m, "features = residual + self.drop_path(features)", x, y);
    pl_module_leave(b);
    return x;
}

static int32_t stage(const model *o, int64_t index, int64_t before, int32_t x) {
    pl_builder *b = o->b;
    int64_t width = pl_hf_size_at(o->m, "hidden_sizes", index, 96),
            depth = pl_hf_size_at(o->m, "depths", index, 3);
    enter(o, pl_build_text(b, "stages.%lld", (long long)index), "Stage");
    if (index > 0) {
        pl_line(b, "features = layer(features)");
        x = norm_first(o, "downsampling_layer.0", x);
        x = pl_hf_conv(o->m, "downsampling_layer.1", x,
                       (pl_hf_kernel){.out = width, .size = 2, .stride = 2, .bias = true});
    }
    for (int64_t i = 0; i < depth && !pl_build_failed(b); i++) {
        double last = o->depth > 1 ? (double)(o->depth - 1) : 1;
        x = layer(o, i, x, o->path_rate * (double)(before + i) / last);
    }
    pl_module_leave(b);
    return x;
}

static int32_t base(const model *o, int32_t *pooled) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t patch = pl_hf_size(m, "patch_size", 4), sides[2], before = 0;
    pl_hf_sides(m, "image_size", 224, sides);
    int32_t x = pl_hf_pixels(m, pl_hf_size(m, "num_channels", 3), sides[0], sides[1]);
    enter(o, "embeddings", "Embeddings");
    pl_line(b, "embeddings = self.patch_embeddings(pixel_values)");
    x = pl_hf_conv(m, "patch_embeddings", x,
                   (pl_hf_kernel){.out = pl_hf_size_at(m, "hidden_sizes", 0, 96),
                                  .size = patch,
                                  .stride = patch,
                                  .bias = true});
    pl_line(b, "embeddings = self.layernorm(embeddings)");
    x = norm_first(o, "layernorm", x);
    pl_module_leave(b);
    enter(o, "encoder", "Encoder");
    for (int64_t i = 0; i < o->stages && !pl_build_failed(b); i++) {
        pl_line(b, "hidden_states = layer_module(hidden_states)");
        x = stage(o, i, before, x);
        before += pl_hf_size_at(m, "depths", i, 3);
    }
    pl_module_leave(b);
    pl_line(b, "pooled_output = self.layernorm(last_hidden_state.mean([-2, -1]))");
    int32_t y = pl_hf_mean_places(m, x);
    *pooled = pl_hf_layer_norm(m, "layernorm", y, pl_hf_float(m, "layer_norm_eps", 1e-12), true);
    return x;
}

static void build(pl_hf *m) {
    pl_builder *b = m->b;
    model o = {.m = m, .b = b, .s = m->family->plan};
    int32_t pooled = PL_NONE;
    o.stages = pl_hf_int(m, "num_stages", 4);
    o.path_rate = pl_hf_float(m, "drop_path_rate", 0);
    o.scale = pl_hf_float(m, "layer_scale_init_value", 1e-6);
    o.act = pl_hf_string(m, "hidden_act", "gelu");
    if (o.stages < 1 || o.stages > 8) {
        pl_hf_refuse(m, "num_stages", "expected 1 to 8 stages");
        o.stages = 1;
    }
    for (int64_t i = 0; i < o.stages; i++) o.depth += pl_hf_size_at(m, "depths", i, 3);
    if (o.depth > PL_HF_MAX_LAYERS)
        pl_hf_refuse(m, "depths", "more than %d layers", PL_HF_MAX_LAYERS);
    if (pl_build_failed(b)) return;
    if (m->task == PL_TASK_BASE) {
        enter(&o, "", "Model");
        pl_build_output(b, base(&o, &pooled));
        pl_build_output(b, pooled);
        pl_module_leave(b);
        return;
    }
    enter(&o, "", "ForImageClassification");
    enter(&o, o.s->package, "Model");
    base(&o, &pooled);
    pl_module_leave(b);
    pl_line(b, "logits = self.classifier(pooled_output)");
    int32_t x = pl_hf_linear(m, "classifier", pooled, pl_hf_labels(m), true);
    pl_hf_classification_loss(m, x);
    pl_module_leave(b);
}

#define ROW(type, style)                                                                           \
    {                                                                                              \
        .model_type = type, .tasks = 1u << PL_TASK_CLASSIFY | 1u << PL_TASK_BASE,                  \
        .usual = PL_TASK_CLASSIFY, .build = build, .plan = &(style), .no_seq = true,               \
        .version = "5.22"                                                                          \
    }

const pl_hf_family pl_hf_convnext[] = {
    ROW("convnext", first),
    ROW("convnextv2", second),
    {0},
};
