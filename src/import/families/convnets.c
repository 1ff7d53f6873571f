/* convnets: residual convolution networks: ResNet and RegNet.
 *
 * The order of operators, names and lines are those of transformers 5.22,
 * models/resnet/modeling_resnet.py and models/regnet/modeling_regnet.py; a frozen ResNet inside
 * another model is timm 1.0's, as that model takes it. Called as model(pixel_values, labels) with
 * images of 224 x 224 where the config has no image_size.
 *
 * Left out: backbones of their own. */
#include "import/families/convnets.h"

#include <math.h>
#include <string.h>

typedef struct style {
    const char *package, *prefix;
    bool regnet;
} style;

static const style resnet = {"resnet", "ResNet", false}, regnet = {"regnet", "RegNet", true};

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    const style *s;
    const char *act;
    bool squeezes, bottleneck, early; /* early: a bottleneck's first layer takes the stride */
} model;

static void enter(const model *o, const char *name, const char *class) {
    pl_hf_enter(o->m, name, o->s->package, pl_build_text(o->b, "%s%s", o->s->prefix, class));
}

/* Convolution, batch norm, activation (NULL: none). */
static int32_t conv_layer(const model *o, const char *name, int32_t x, pl_hf_kernel k,
                          const char *act) {
    enter(o, name, strcmp(name, "shortcut") == 0 ? "ShortCut" : "ConvLayer");
    k.padding = k.size / 2;
    pl_line(o->b, "hidden_state = self.convolution(hidden_state)");
    x = pl_hf_conv(o->m, "convolution", x, k);
    pl_line(o->b, "hidden_state = self.normalization(hidden_state)");
    x = pl_hf_batch_norm(o->m, "normalization", x, 0.1, 1e-5);
    pl_line(o->b, "hidden_state = self.activation(hidden_state)");
    if (act) x = pl_hf_activation(o->m, "activation", act, x);
    pl_module_leave(o->b);
    return x;
}

/* Channels weighted by what a small network makes of their means. */
static int32_t squeeze(const model *o, const char *name, int32_t x, int64_t reduced) {
    pl_builder *b = o->b;
    int64_t width = pl_built_size(b, x, 1);
    const int64_t one[2] = {1, 1};
    enter(o, name, "SELayer");
    pl_line(b, "pooled = self.pooler(hidden_state)");
    pl_module_enter(b, "pooler", "torch.nn.modules.pooling.AdaptiveAvgPool2d");
    int32_t y = pl_aten_adaptive_pool(b, "aten.adaptive_avg_pool2d.default", 2, x, one);
    pl_module_leave(b);
    pl_line(b, "attention = self.attention(pooled)");
    y = pl_hf_conv(o->m, "attention.0", y, (pl_hf_kernel){.out = reduced, .size = 1, .bias = true});
    y = pl_hf_activation(o->m, "attention.1", "relu", y);
    y = pl_hf_conv(o->m, "attention.2", y, (pl_hf_kernel){.out = width, .size = 1, .bias = true});
    y = pl_hf_activation(o->m, "attention.3", "sigmoid", y);
    pl_line(b, "hidden_state = hidden_state * attention");
    x = pl_aten_mul(b, x, y);
    pl_module_leave(b);
    return x;
}

static int32_t residual_layers(const model *o, int32_t x, int64_t out, int64_t stride) {
    int64_t in = pl_built_size(o->b, x, 1);
    if (o->s->regnet) {
        int64_t per = pl_hf_size(o->m, "groups_width", 64), groups = out / per > 1 ? out / per : 1;
        x = conv_layer(o, "layer.0", x, (pl_hf_kernel){.out = out, .size = 1}, o->act);
        x = conv_layer(o, "layer.1", x,
                       (pl_hf_kernel){.out = out, .size = 3, .stride = stride, .groups = groups},
                       o->act);
        if (o->squeezes) x = squeeze(o, "layer.2", x, (int64_t)nearbyint((double)in / 4));
        return conv_layer(o, o->squeezes ? "layer.3" : "layer.2", x,
                          (pl_hf_kernel){.out = out, .size = 1}, NULL);
    }
    if (!o->bottleneck) {
        x = conv_layer(o, "layer.0", x, (pl_hf_kernel){.out = out, .size = 3, .stride = stride},
                       "relu");
        return conv_layer(o, "layer.1", x, (pl_hf_kernel){.out = out, .size = 3}, NULL);
    }
    int64_t narrow = out / 4;
    x = conv_layer(o, "layer.0", x,
                   (pl_hf_kernel){.out = narrow, .size = 1, .stride = o->early ? stride : 1},
                   "relu");
    x = conv_layer(o, "layer.1", x,
                   (pl_hf_kernel){.out = narrow, .size = 3, .stride = o->early ? 1 : stride},
                   "relu");
    return conv_layer(o, "layer.2", x, (pl_hf_kernel){.out = out, .size = 1}, NULL);
}

static int32_t layer(const model *o, int64_t index, int32_t x, int64_t out, int64_t stride) {
    pl_builder *b = o->b;
    bool changes = pl_built_size(b, x, 1) != out || stride != 1;
    enter(o, pl_build_text(b, "layers.%lld", (long long)index),
          o->s->regnet    ? (o->squeezes ? "YLayer" : "XLayer")
          : o->bottleneck ? "BottleNeckLayer"
                          : "BasicLayer");
    pl_module_children(b, "shortcut layer");
    pl_line(b, "hidden_state = self.layer(hidden_state)");
    int32_t y = residual_layers(o, x, out, stride);
    pl_line(b, "residual = self.shortcut(residual)");
    if (changes)
        x = conv_layer(o, "shortcut", x, (pl_hf_kernel){.out = out, .size = 1, .stride = stride},
                       NULL);
    pl_line(b, "hidden_state += residual");
    y = pl_aten_binary(b, "aten.add_.Tensor", y, x);
    pl_line(b, "hidden_state = self.activation(hidden_state)");
    y = pl_hf_activation(o->m, "activation", o->act, y);
    pl_module_leave(b);
    return y;
}

static int32_t base(const model *o, int32_t *pooled) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t sides[2], stages = pl_hf_list(m, "depths");
    const int64_t one[2] = {1, 1};
    pl_hf_sides(m, "image_size", 224, sides);
    if (stages < 1 || stages > 8) pl_hf_refuse(m, "depths", "expected 1 to 8 stages");
    if (pl_build_failed(b)) return PL_NONE;
    int32_t x = pl_hf_pixels(m, pl_hf_size(m, "num_channels", 3), sides[0], sides[1]);
    enter(o, "embedder", "Embeddings");
    x = conv_layer(o, "embedder", x,
                   (pl_hf_kernel){.out = pl_hf_size(m, "embedding_size", 64),
                                  .size = o->s->regnet ? 3 : 7,
                                  .stride = 2},
                   o->act);
    if (!o->s->regnet) x = pl_hf_max_pool(m, "pooler", x, 3, 2, 1, false);
    pl_module_leave(b);
    bool halves = pl_hf_bool(m, "downsample_in_first_stage", o->s->regnet);
    enter(o, "encoder", "Encoder");
    for (int64_t i = 0; i < stages && !pl_build_failed(b); i++) {
        int64_t depth = pl_hf_size_at(m, "depths", i, 2),
                width = pl_hf_size_at(m, "hidden_sizes", i, 256);
        if (depth > PL_HF_MAX_LAYERS)
            pl_hf_refuse(m, "depths", "more than %d layers", PL_HF_MAX_LAYERS);
        pl_line(b, "hidden_state = stage_module(hidden_state)");
        enter(o, pl_build_text(b, "stages.%lld", (long long)i), "Stage");
        pl_line(b, "hidden_state = layer(hidden_state)");
        for (int64_t k = 0; k < depth && !pl_build_failed(b); k++)
            x = layer(o, k, x, width, k == 0 && (i > 0 || halves) ? 2 : 1);
        pl_module_leave(b);
    }
    pl_module_leave(b);
    pl_line(b, "pooled_output = self.pooler(last_hidden_state)");
    pl_module_enter(b, "pooler", "torch.nn.modules.pooling.AdaptiveAvgPool2d");
    *pooled = pl_aten_adaptive_pool(b, "aten.adaptive_avg_pool2d.default", 2, x, one);
    pl_module_leave(b);
    return x;
}

static void build(pl_hf *m) {
    pl_builder *b = m->b;
    model o = {.m = m, .b = b, .s = m->family->plan};
    const char *type = pl_hf_string(m, "layer_type", o.s->regnet ? "y" : "bottleneck");
    int32_t pooled = PL_NONE;
    o.act = pl_hf_string(m, "hidden_act", "relu");
    o.squeezes = strcmp(type, "y") == 0;
    o.bottleneck = strcmp(type, "bottleneck") == 0;
    o.early = pl_hf_bool(m, "downsample_in_bottleneck", false);
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
    pl_module_enter(b, "classifier.0", "torch.nn.modules.flatten.Flatten");
    int32_t x = pl_aten_flatten(b, pooled, 1, -1);
    pl_module_leave(b);
    x = pl_hf_linear(m, "classifier.1", x, pl_hf_labels(m), true);
    pl_hf_classification_loss(m, x);
    pl_module_leave(b);
}

/* ---- a frozen backbone ---- */

/* Buffers for a batch norm that does not learn: x * scale + shift, each an operator. */
static int32_t frozen_norm(pl_hf *m, const char *name, int32_t x) {
    pl_builder *b = m->b;
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    int32_t t[4];
    pl_module_enter(b, name, "transformers.models.detr.modeling_detr.DetrFrozenBatchNorm2d");
    for (int i = 0; i < 4; i++) {
        t[i] = pl_build_buffer(b, names[i], PL_DT_F32, true, PL_SIZES(pl_built_size(b, x, 1)));
        t[i] = pl_aten_reshape(b, t[i], PL_SIZES(1, -1, 1, 1));
    }
    pl_line(b, "scale = weight * (running_var + epsilon).rsqrt()");
    int32_t scale = pl_aten_scalar(b, "aten.add.Tensor", t[3], 1e-5);
    scale = pl_aten_mul(b, t[0], pl_aten_unary(b, "aten.rsqrt.default", scale));
    pl_line(b, "bias = bias - running_mean * scale");
    int32_t shift = pl_aten_binary(b, "aten.sub.Tensor", t[1], pl_aten_mul(b, t[2], scale));
    pl_line(b, "return x * scale + bias");
    x = pl_aten_add(b, pl_aten_mul(b, x, scale), shift);
    pl_module_leave(b);
    return x;
}

/* Convolution and frozen norm of timm's names; act: a ReLU, timm's in place, not so that of
 * transformers' own network, whose parameters are all frozen. */
static int32_t frozen_conv(pl_hf *m, const char *names[2], int32_t x, pl_hf_kernel k, bool freeze,
                           bool act) {
    pl_builder *b = m->b;
    int64_t in = pl_built_size(b, x, 1);
    const int64_t stride[2] = {k.stride ? k.stride : 1, k.stride ? k.stride : 1},
                  padding[2] = {k.size / 2, k.size / 2}, one[2] = {1, 1};
    pl_line(b, "x = self.conv(x)");
    pl_module_enter(b, names[0], "torch.nn.modules.conv.Conv2d");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(k.out, in, k.size, k.size));
    if (freeze) pl_build_freeze(b, w);
    x = pl_aten_conv(b, 2, x, w, PL_NONE, stride, padding, one, 1);
    pl_module_leave(b);
    pl_line(b, "x = self.bn(x)");
    x = frozen_norm(m, names[1], x);
    pl_line(b, "x = self.act(x)");
    if (!act) return x;
    return pl_aten_unary(b, freeze ? "aten.relu.default" : "aten.relu_.default", x);
}

static int32_t frozen_block(pl_hf *m, const pl_hf_backbone *k, int32_t x, int64_t out,
                            int64_t stride, bool freeze) {
    pl_builder *b = m->b;
    int64_t narrow = k->bottleneck ? out / 4 : out;
    const char *first[2] = {"conv1", "bn1"}, *second[2] = {"conv2", "bn2"},
               *third[2] = {"conv3", "bn3"}, *down[2] = {"downsample.0", "downsample.1"};
    bool wide = k->bottleneck;
    int32_t y = frozen_conv(
        m, first, x,
        (pl_hf_kernel){.out = narrow, .size = wide ? 1 : 3, .stride = wide ? 1 : stride}, freeze,
        true);
    y = frozen_conv(m, second, y,
                    (pl_hf_kernel){.out = narrow, .size = 3, .stride = wide ? stride : 1}, freeze,
                    wide);
    if (wide) y = frozen_conv(m, third, y, (pl_hf_kernel){.out = out, .size = 1}, freeze, false);
    if (pl_built_size(b, x, 1) != out || stride != 1)
        x = frozen_conv(m, down, x, (pl_hf_kernel){.out = out, .size = 1, .stride = stride}, freeze,
                        false);
    pl_line(b, "x += shortcut");
    y = pl_aten_binary(b, "aten.add_.Tensor", y, x);
    pl_line(b, "x = self.act3(x)");
    return pl_aten_unary(b, freeze ? "aten.relu.default" : "aten.relu_.default", y);
}

void pl_hf_resnet_maps(pl_hf *m, const pl_hf_backbone *k, int32_t pixels, int32_t maps[4]) {
    pl_builder *b = m->b;
    const char *stem[2] = {"conv1", "bn1"};
    int32_t x = frozen_conv(m, stem, pixels, (pl_hf_kernel){.out = k->stem, .size = 7, .stride = 2},
                            k->frozen, true);
    x = pl_hf_max_pool(m, "maxpool", x, 3, 2, 1, false);
    for (int i = 0; i < 4; i++) {
        for (int64_t j = 0; j < k->depths[i] && !pl_build_failed(b); j++) {
            pl_module_enter(b, pl_build_text(b, "layer%d.%lld", i + 1, (long long)j),
                            k->bottleneck ? "timm.models.resnet.Bottleneck"
                                          : "timm.models.resnet.BasicBlock");
            x = frozen_block(m, k, x, k->widths[i], j == 0 && i > 0 ? 2 : 1, k->frozen);
            pl_module_leave(b);
        }
        maps[i] = x;
    }
}

#define ROW(type, style)                                                                           \
    {                                                                                              \
        .model_type = type, .tasks = 1u << PL_TASK_CLASSIFY | 1u << PL_TASK_BASE,                  \
        .usual = PL_TASK_CLASSIFY, .build = build, .plan = &(style), .no_seq = true,               \
        .version = "5.22", .warning = "images are 224 x 224 where the config has no image_size"    \
    }

const pl_hf_family pl_hf_convnets[] = {
    ROW("resnet", resnet),
    ROW("regnet", regnet),
    {0},
};
