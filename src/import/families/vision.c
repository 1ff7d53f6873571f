/* vision: ViT and its kin: DeiT, ViT-MSN, BEiT, data2vec, DINOv2.
 *
 * An image is cut into patches by a convolution; the rest is an encoder with the norm before each
 * part. The rows of `styles` say what differs. The order of operators, names and lines are those of
 * transformers 5.22, models/FAMILY/modeling_FAMILY.py; defaults those of configuration_FAMILY.py.
 * Called as model(pixel_values, labels) with images of config.image_size.
 *
 * Left out: masked image modelling, segmentation, backbones, other sizes of image than the
 * config's. */
#include <math.h>

#include "import/families/encoder.h"

/* What a family has or does not have. */
enum {
    DISTILLED = 1,    /* a second token, for distillation */
    SCALED = 2,       /* lambda_1, lambda_2 of the layer's own, where layer_scale_init_value > 0 */
    SCALES = 4,       /* modules layer_scale1, layer_scale2 */
    RELATIVE = 8,     /* position biases, a mean for a pooler; positions only where asked for */
    KEY_BIAS = 16,    /* the keys' layer has a bias where the others have one */
    MASK_TOKEN = 32,  /* a parameter that only masked image modelling uses, where the config says */
    POOLERLESS = 128, /* the base model gives states alone */
    WIDE_SOFTMAX = 64, /* eager attention takes its softmax in float32 */
};

typedef struct style {
    const char *package, *prefix;
    int flags;
    int64_t patch;
    double eps;
    const char *norm1, *norm2; /* of a layer */
    const char *attribute;     /* of the base model in one with a head; NULL: the package's name */
} style;

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    const style *s;
    int64_t hidden, layers, heads, head, inner, labels, channels;
    int64_t image[2], patch[2]; /* height, width */
    int64_t registers;          /* tokens of no place, behind the first (DINOv2) */
    int64_t tokens;             /* of a sample: patches and what stands before them */
    double eps, drop, attn_drop, path_rate;
    const char *act;
    int32_t index; /* RELATIVE: which bias each pair of tokens has, [tokens * tokens] */
} model;

static bool has(const model *o, int flag) {
    return (o->s->flags & flag) != 0;
}

static void enter(const model *o, const char *name, const char *class) {
    pl_module_enter(o->b, name,
                    pl_build_text(o->b, "transformers.models.%s.modeling_%s.%s%s", o->s->package,
                                  o->s->package, o->s->prefix, class));
    pl_line(o->b, "");
}

/* x.to(other.dtype), x and other [batch, heads, tokens, ..] */
static int32_t type_as(const model *o, int32_t x, int32_t other) {
    pl_builder *b = o->b;
    pl_dtype dtype = pl_built(b, other)->dtype;
    pl_call(b, "aten.type_as.default");
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "other", other);
    return pl_call_result(b, dtype, PL_SIZES(o->m->batch, o->heads, o->tokens, o->tokens));
}

/* ---- embeddings ---- */

/* pixels [batch, channels, height, width] to [batch, patches, hidden]. */
static int32_t patches(const model *o) {
    pl_builder *b = o->b;
    const int64_t none[2] = {0, 0}, one[2] = {1, 1};
    int32_t x = pl_build_input(b, "pixel_values", o->m->dtype,
                               PL_SIZES(o->m->batch, o->channels, o->image[0], o->image[1]));
    enter(o, "patch_embeddings", "PatchEmbeddings");
    pl_line(b, "return self.projection(pixel_values).flatten(2).transpose(1, 2)");
    pl_module_enter(b, "projection", "torch.nn.modules.conv.Conv2d");
    int32_t w =
        pl_build_parameter(b, "weight", PL_SIZES(o->hidden, o->channels, o->patch[0], o->patch[1]));
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(o->hidden));
    x = pl_aten_conv(b, 2, x, w, bias, o->patch, none, one, 1);
    pl_module_leave(b);
    x = pl_aten_transpose(b, pl_aten_flatten(b, x, 2, -1), 1, 2);
    pl_module_leave(b);
    return x;
}

static int32_t embeddings(const model *o) {
    pl_builder *b = o->b;
    enter(o, "embeddings", "Embeddings");
    pl_module_children(b, "cls_token mask_token register_tokens position_embeddings "
                          "distillation_token");
    int32_t parts[3], place = PL_NONE;
    int count = 0;
    int32_t token = pl_build_parameter(b, "cls_token", PL_SIZES(1, 1, o->hidden));
    if (has(o, MASK_TOKEN) && pl_hf_bool(o->m, "use_mask_token", !has(o, RELATIVE))) {
        const int64_t sizes[3] = {1, has(o, SCALES) ? o->hidden : 1, o->hidden};
        pl_build_parameter(b, "mask_token", has(o, SCALES) ? 2 : 3, sizes);
    }
    if (!has(o, RELATIVE) || pl_hf_bool(o->m, "use_absolute_position_embeddings", false))
        place = pl_build_parameter(b, "position_embeddings",
                                   PL_SIZES(1, o->tokens - o->registers, o->hidden));
    int32_t x = patches(o);
    pl_line(b, "cls_tokens = self.cls_token.expand(batch_size, -1, -1)");
    parts[count++] = pl_aten_expand(b, token, PL_SIZES(o->m->batch, -1, -1));
    if (has(o, DISTILLED)) {
        token = pl_build_parameter(b, "distillation_token", PL_SIZES(1, 1, o->hidden));
        pl_line(b, "distillation_tokens = self.distillation_token.expand(batch_size, -1, -1)");
        parts[count++] = pl_aten_expand(b, token, PL_SIZES(o->m->batch, -1, -1));
    }
    parts[count++] = x;
    pl_line(b, "embeddings = torch.cat((cls_tokens, embeddings), dim=1)");
    x = pl_aten_cat(b, count, parts, 1);
    pl_line(b, "embeddings = embeddings + self.position_embeddings");
    if (place != PL_NONE) x = pl_aten_add(b, x, place);
    if (o->registers > 0) {
        token = pl_build_parameter(b, "register_tokens", PL_SIZES(1, o->registers, o->hidden));
        pl_line(b,
                "embeddings = torch.cat((embeddings[:, :1], register_tokens, embeddings[:, 1:]))");
        parts[0] = pl_aten_slice(b, x, 1, 0, 1);
        parts[1] = pl_aten_expand(b, token, PL_SIZES(o->m->batch, -1, -1));
        parts[2] = pl_aten_slice(b, x, 1, 1, INT64_MAX);
        x = pl_aten_cat(b, 3, parts, 1);
    }
    pl_line(b, "embeddings = self.dropout(embeddings)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_module_leave(b);
    return x;
}

/* BEiT's bias of each head for each pair of tokens, [1, heads, tokens, tokens], looked up in a
 * table that is first brought (bilinear) to the size of the window, which is its own. The index
 * lies on the CPU and is copied at each use: a buffer stands for that copy. */
static int32_t position_bias(const model *o, const char *name) {
    pl_builder *b = o->b;
    int64_t high = 2 * (o->image[0] / o->patch[0]) - 1, wide = 2 * (o->image[1] / o->patch[1]) - 1,
            rows = high * wide;
    enter(o, name, "RelativePositionBias");
    int32_t table =
        pl_build_parameter(b, "relative_position_bias_table", PL_SIZES(rows + 3, o->heads));
    pl_line(b, "old_sub_table = old_relative_position_bias_table[: old_num_relative_distance - 3]");
    int32_t x = pl_aten_slice(b, table, 0, 0, rows);
    pl_line(b, "old_sub_table = old_sub_table.reshape(1, width, height, -1).permute(0, 3, 1, 2)");
    x = pl_aten_permute(b, pl_aten_reshape(b, x, PL_SIZES(1, wide, high, -1)),
                        PL_SIZES(0, 3, 1, 2));
    pl_line(b, "new_sub_table = nn.functional.interpolate(");
    pl_call(b, "aten.upsample_bilinear2d.vec");
    pl_call_tensor(b, "input", x);
    pl_call_ints(b, "output_size", 2, (const int64_t[]){high, wide});
    pl_call_bool(b, "align_corners", false);
    x = pl_call_result(b, pl_built(b, table)->dtype, PL_SIZES(1, o->heads, high, wide));
    pl_line(b, "new_sub_table = new_sub_table.permute(0, 2, 3, 1).reshape(distance - 3, -1)");
    x = pl_aten_reshape(b, pl_aten_permute(b, x, PL_SIZES(0, 2, 3, 1)), PL_SIZES(rows, -1));
    pl_line(b,
            "new_relative_position_bias_table = torch.cat([new_sub_table, table[distance - 3 :]])");
    int32_t parts[2] = {x, pl_aten_slice(b, table, 0, rows, INT64_MAX)};
    x = pl_aten_cat(b, 2, parts, 0);
    pl_line(b, "relative_position_bias = new_relative_position_bias_table[index.view(-1)]");
    x = pl_aten_index(b, x, 1, &o->index);
    pl_line(b, "relative_position_bias = relative_position_bias.view(");
    x = pl_aten_view(b, x, PL_SIZES(o->tokens, o->tokens, -1));
    pl_line(b, "relative_position_bias = relative_position_bias.permute(2, 0, 1).contiguous()");
    x = pl_aten_contiguous(b, pl_aten_permute(b, x, PL_SIZES(2, 0, 1)));
    pl_line(b, "return relative_position_bias.unsqueeze(0)");
    x = pl_aten_unsqueeze(b, x, 0);
    pl_module_leave(b);
    return x;
}

/* ---- a layer ---- */

/* To [batch, heads, tokens, head]. */
static int32_t heads_of(const model *o, const char *name, const char *line, int32_t x, bool bias) {
    pl_line(o->b, line);
    x = pl_hf_linear(o->m, name, x, o->heads * o->head, bias);
    x = pl_aten_view(o->b, x, PL_SIZES(o->m->batch, o->tokens, -1, o->head));
    return pl_aten_transpose(o->b, x, 1, 2);
}

static int32_t attention(const model *o, int32_t x, int32_t mask) {
    pl_builder *b = o->b;
    double scale = 1 / sqrt((double)o->head);
    bool bias = has(o, RELATIVE) || pl_hf_bool(o->m, "qkv_bias", true);
    enter(o, "attention", "Attention");
    int32_t q = heads_of(o, "q_proj", "query_states = self.q_proj(hidden_states)", x, bias);
    int32_t k = heads_of(o, "k_proj", "key_states = self.k_proj(hidden_states)", x,
                         bias && has(o, KEY_BIAS));
    int32_t v = heads_of(o, "v_proj", "value_states = self.v_proj(hidden_states)", x, bias);
    pl_line(b, "attn_output, attn_weights = attention_interface(");
    if (o->m->attn == PL_ATTN_EAGER) {
        int32_t w = pl_aten_matmul(b, q, pl_aten_transpose(b, k, 2, 3));
        w = pl_aten_scalar(b, "aten.mul.Tensor", w, scale);
        if (mask != PL_NONE) w = pl_aten_add(b, w, mask);
        w = pl_aten_softmax(b, w, -1, has(o, WIDE_SOFTMAX) ? PL_DT_F32 : PL_DT_UNKNOWN);
        if (has(o, WIDE_SOFTMAX)) w = type_as(o, w, q);
        x = pl_aten_matmul(b, pl_aten_dropout(b, w, o->attn_drop), v);
    } else {
        x = pl_aten_attention(b, q, k, v, mask, o->attn_drop, false, scale, false);
    }
    x = pl_aten_contiguous(b, pl_aten_transpose(b, x, 1, 2));
    pl_line(b, "attn_output = attn_output.reshape(*input_shape, -1).contiguous()");
    x = pl_aten_reshape(b, x, PL_SIZES(o->m->batch, o->tokens, -1));
    pl_line(b, "attn_output = self.o_proj(attn_output)");
    x = pl_hf_linear(o->m, "o_proj", x, o->hidden, true);
    pl_module_leave(b);
    return x;
}

static int32_t mlp(const model *o, int32_t x) {
    pl_builder *b = o->b;
    if (has(o, SCALES) && pl_hf_bool(o->m, "use_swiglu_ffn", false)) {
        int64_t wide = (o->inner * 2 / 3 + 7) / 8 * 8;
        enter(o, "mlp", "SwiGLUFFN");
        pl_line(b, "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))");
        int32_t gate = pl_hf_linear(o->m, "gate_proj", x, wide, true);
        gate = pl_hf_activation(o->m, "act_fn", "silu", gate);
        x = pl_aten_mul(b, gate, pl_hf_linear(o->m, "up_proj", x, wide, true));
        x = pl_hf_linear(o->m, "down_proj", x, o->hidden, true);
    } else {
        enter(o, "mlp", "MLP");
        pl_line(b, "hidden_states = self.fc1(hidden_states)");
        x = pl_hf_linear(o->m, "fc1", x, o->inner, true);
        x = pl_hf_activation(o->m, "activation_fn", o->act, x);
        pl_line(b, "hidden_states = self.fc2(hidden_states)");
        x = pl_hf_linear(o->m, "fc2", x, o->hidden, true);
    }
    pl_module_leave(b);
    return x;
}

/* Stochastic depth: whole samples are dropped. */
static int32_t drop_path(const model *o, int32_t x, double rate) {
    pl_builder *b = o->b;
    if (rate <= 0) return x;
    enter(o, "drop_path", "DropPath");
    pl_line(b, "random_tensor = torch.rand(shape, dtype=hidden_states.dtype)");
    pl_call(b, "aten.new_empty.default"); /* of the type that x turns out to have */
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "size", 3, (const int64_t[]){o->m->batch, 1, 1});
    int32_t keep = pl_call_result(b, pl_built(b, x)->dtype, PL_SIZES(o->m->batch, 1, 1));
    pl_line(b, "random_tensor = torch.floor(random_tensor + keep_prob)");
    keep = pl_aten_scalar(b, "aten.add.Tensor", keep, 1 - rate);
    keep = pl_aten_unary(b, "aten.floor.default", keep);
    pl_line(b, "return hidden_states.div(keep_prob) * random_tensor");
    x = pl_aten_mul(b, pl_aten_scalar(b, "aten.div.Tensor", x, 1 - rate), keep);
    pl_module_leave(b);
    return x;
}

/* What a part of the layer ends with: dropout, a scale, stochastic depth, the residual. */
static int32_t finish(const model *o, int part, int32_t x, int32_t residual, int32_t scale,
                      double rate) {
    pl_builder *b = o->b;
    if (has(o, SCALES)) {
        enter(o, part == 1 ? "layer_scale1" : "layer_scale2", "LayerScale");
        pl_line(b, "return hidden_state * self.lambda1");
        x = pl_aten_mul(b, x, pl_build_parameter(b, "lambda1", PL_SIZES(o->hidden)));
        pl_module_leave(b);
    } else {
        pl_line(b, "hidden_states = self.dropout(hidden_states)");
        x = pl_hf_dropout(o->m, "dropout", x, o->drop);
        pl_line(b, "hidden_states = self.lambda * hidden_states");
        if (scale != PL_NONE) x = pl_aten_mul(b, scale, x);
    }
    x = drop_path(o, x, rate);
    pl_line(b, "hidden_states = self.drop_path(hidden_states) + residual");
    return pl_aten_add(b, x, residual);
}

static int32_t layer(const model *o, int64_t index, int32_t x, int32_t mask) {
    pl_builder *b = o->b;
    double rate = o->path_rate;
    if (has(o, RELATIVE)) /* grows with the depth */
        rate = o->path_rate * (double)index / (o->layers > 1 ? (double)(o->layers - 1) : 1);
    const char *name = has(o, SCALES) ? "layer.%lld" : "layers.%lld";
    pl_module_enter(b, pl_build_text(b, name, (long long)index),
                    pl_build_text(b, "transformers.models.%s.modeling_%s.%sLayer", o->s->package,
                                  o->s->package, o->s->prefix));
    pl_module_children(b, has(o, SCALES)
                              ? "norm1 attention layer_scale1 norm2 mlp layer_scale2"
                              : "lambda_1 lambda_2 attention layernorm_before layernorm_after mlp");
    int32_t scales[2] = {PL_NONE, PL_NONE};
    if (has(o, SCALED) && pl_hf_float(o->m, "layer_scale_init_value", 0.1) > 0) {
        scales[0] = pl_build_parameter(b, "lambda_1", PL_SIZES(o->hidden));
        scales[1] = pl_build_parameter(b, "lambda_2", PL_SIZES(o->hidden));
    }
    if (has(o, RELATIVE) && pl_hf_bool(o->m, "use_relative_position_bias", false)) {
        int32_t own = position_bias(o, "relative_position_bias");
        pl_line(b, "attention_mask = relative_position_bias + attention_mask");
        mask = mask == PL_NONE ? own : pl_aten_add(b, own, mask);
    }
    int32_t residual = x;
    pl_line(b, "hidden_states = self.layernorm_before(hidden_states)");
    x = pl_hf_layer_norm(o->m, o->s->norm1, x, o->eps, true);
    x = finish(o, 1, attention(o, x, mask), residual, scales[0], rate);
    residual = x;
    pl_line(b, "hidden_states = self.layernorm_after(hidden_states)");
    x = pl_hf_layer_norm(o->m, o->s->norm2, x, o->eps, true);
    x = finish(o, 2, mlp(o, x), residual, scales[1], rate);
    pl_module_leave(b);
    return x;
}

/* ---- the model ---- */

static int32_t pooler(const model *o, int32_t x) {
    pl_builder *b = o->b;
    if (has(o, SCALES)) {
        pl_line(b, "pooled_output = sequence_output[:, 0, :]");
        return pl_aten_select(b, x, 1, 0);
    }
    enter(o, "pooler", "Pooler");
    if (has(o, RELATIVE)) {
        pl_line(b, "return self.layernorm(hidden_states[:, 1:, :].mean(1))");
        if (pl_hf_bool(o->m, "use_mean_pooling", true)) {
            x = pl_aten_slice(b, x, 1, 1, INT64_MAX);
            x = pl_aten_reduce(b, "aten.mean.dim", x, 1, false);
            x = pl_hf_layer_norm(o->m, "layernorm", x, o->eps, true);
        } else {
            x = pl_aten_select(b, x, 1, 0);
        }
    } else {
        pl_line(b, "first_token_tensor = hidden_states[:, 0]");
        x = pl_aten_select(b, x, 1, 0);
        pl_line(b, "pooled_output = self.dense(first_token_tensor)");
        x = pl_hf_linear(o->m, "dense", x, pl_hf_size(o->m, "pooler_output_size", o->hidden), true);
        pl_line(b, "pooled_output = self.activation(pooled_output)");
        x = pl_hf_activation(o->m, "activation", pl_hf_string(o->m, "pooler_act", "tanh"), x);
    }
    pl_module_leave(b);
    return x;
}

/* The base model; *pooled where its pooler is called. */
static int32_t base(model *o, bool pools, int32_t *pooled) {
    pl_builder *b = o->b;
    int32_t mask = PL_NONE;
    if (has(o, RELATIVE) && (pl_hf_bool(o->m, "use_relative_position_bias", false) ||
                             pl_hf_bool(o->m, "use_shared_relative_position_bias", false)))
        o->index = pl_build_buffer(b, "relative_position_index", PL_DT_I64, false,
                                   PL_SIZES(o->tokens * o->tokens));
    int32_t x = embeddings(o);
    if (has(o, RELATIVE) && pl_hf_bool(o->m, "use_shared_relative_position_bias", false))
        mask = position_bias(o, "shared_position_bias");
    if (has(o, SCALES)) enter(o, "encoder", "Encoder");
    for (int64_t i = 0; i < o->layers && !pl_build_failed(b); i++) x = layer(o, i, x, mask);
    if (has(o, SCALES)) pl_module_leave(b);
    pl_line(b, "sequence_output = self.layernorm(hidden_states)");
    if (!has(o, RELATIVE) || !pl_hf_bool(o->m, "use_mean_pooling", true))
        x = pl_hf_layer_norm(o->m, "layernorm", x, o->eps, true);
    if (pools) *pooled = pooler(o, x);
    return x;
}

/* A number for both sides, or a list of height and width. */
static void read_sides(model *o, const char *key, int64_t otherwise, int64_t sides[2]) {
    bool list = pl_hf_list(o->m, key) == 2;
    int64_t one = list ? 0 : pl_hf_int(o->m, key, otherwise);
    for (int i = 0; i < 2; i++) {
        sides[i] = list ? pl_hf_list_int(o->m, key, i, otherwise) : one;
        if (sides[i] < 1 || sides[i] > 1 << 20) {
            pl_hf_refuse(o->m, key, "expected 1 to %d", 1 << 20);
            sides[i] = 1;
        }
    }
}

static void read_keys(model *o) {
    pl_hf *m = o->m;
    const style *s = o->s;
    o->hidden = pl_hf_size(m, "hidden_size", 768);
    o->layers = pl_hf_int(m, "num_hidden_layers", 12);
    o->heads = pl_hf_size(m, "num_attention_heads", 12);
    o->channels = pl_hf_size(m, "num_channels", 3);
    o->eps = pl_hf_float(m, "layer_norm_eps", s->eps);
    o->drop = pl_hf_float(m, "hidden_dropout_prob", 0);
    o->attn_drop = pl_hf_float(m, "attention_probs_dropout_prob", 0);
    o->act = pl_hf_string(m, "hidden_act", "gelu");
    o->labels = pl_hf_labels(m);
    if (has(o, RELATIVE) || has(o, SCALES))
        o->path_rate = pl_hf_float(m, "drop_path_rate", has(o, RELATIVE) ? 0.1 : 0);
    read_sides(o, "image_size", 224, o->image);
    read_sides(o, "patch_size", s->patch, o->patch);
    if (o->layers > PL_HF_MAX_LAYERS)
        pl_hf_refuse(m, "num_hidden_layers", "at most %d can be built", PL_HF_MAX_LAYERS);
    if (!pl_hf_has(m, "head_dim") && o->hidden % o->heads != 0)
        pl_hf_refuse(m, "num_attention_heads", "hidden_size %lld is no multiple of it",
                     (long long)o->hidden);
    o->head = pl_hf_size(m, "head_dim", o->hidden / o->heads);
    if (has(o, SCALES)) {
        double inner = (double)o->hidden * pl_hf_float(m, "mlp_ratio", 4);
        o->inner = inner >= 1 && inner < 0x1p40 ? (int64_t)inner : 0;
    } else {
        o->inner = pl_hf_size(m, "intermediate_size", 3072);
    }
    if (o->inner < 1) pl_hf_refuse(m, "mlp_ratio", "expected a layer of at least 1");
    if (has(o, SCALES)) o->registers = pl_hf_int(m, "num_register_tokens", 0);
    if (o->registers > 1 << 16) pl_hf_refuse(m, "num_register_tokens", "expected up to 65536");
    o->tokens = (o->image[0] / o->patch[0]) * (o->image[1] / o->patch[1]) + 1 + has(o, DISTILLED) +
                o->registers;
    if (o->image[0] < o->patch[0] || o->image[1] < o->patch[1])
        pl_hf_refuse(m, "patch_size", "larger than image_size");
    if (o->tokens > 1 << 24) {
        pl_hf_refuse(m, "patch_size", "more than %d patches", 1 << 24);
        o->tokens = 1;
    }
}

static void build(pl_hf *m) {
    const style *s = m->family->plan;
    model o = {.m = m, .b = m->b, .s = s, .index = PL_NONE};
    read_keys(&o);
    pl_builder *b = m->b;
    int32_t pooled = PL_NONE;
    if (m->task == PL_TASK_BASE) {
        enter(&o, "", "Model");
        int32_t x = base(&o, !has(&o, POOLERLESS), &pooled);
        pl_build_output(b, x);
        if (pooled != PL_NONE) pl_build_output(b, pooled);
        pl_module_leave(b);
        return;
    }
    enter(&o, "", "ForImageClassification");
    enter(&o, s->attribute ? s->attribute : s->package, "Model");
    int32_t x = base(&o, has(&o, RELATIVE), &pooled);
    pl_module_leave(b);
    if (has(&o, SCALES)) {
        pl_line(b, "cls_token = sequence_output[:, 0]");
        int32_t parts[2] = {pl_aten_select(b, x, 1, 0)};
        pl_line(b, "patch_tokens = sequence_output[:, 1:]");
        x = pl_aten_slice(b, x, 1, 1 + o.registers, INT64_MAX);
        pl_line(b, "linear_input = torch.cat([cls_token, patch_tokens.mean(dim=1)], dim=1)");
        parts[1] = pl_aten_reduce(b, "aten.mean.dim", x, 1, false);
        x = pl_aten_cat(b, 2, parts, 1);
    } else if (has(&o, RELATIVE)) {
        x = pooled;
    } else {
        pl_line(b, "pooled_output = sequence_output[:, 0, :]");
        x = pl_aten_select(b, x, 1, 0);
    }
    pl_line(b, "logits = self.classifier(pooled_output)");
    pl_hf_classification_loss(m, pl_hf_linear(m, "classifier", x, o.labels, true));
    pl_module_leave(b);
}

static const style
    vit = {"vit", "ViT", KEY_BIAS | WIDE_SOFTMAX, 16, 1e-12, "layernorm_before", "layernorm_after",
           NULL},
    vit_msn = {"vit_msn",
               "ViTMSN",
               KEY_BIAS | WIDE_SOFTMAX | POOLERLESS,
               16,
               1e-6,
               "layernorm_before",
               "layernorm_after",
               "vit"},
    deit = {"deit",
            "DeiT",
            KEY_BIAS | WIDE_SOFTMAX | DISTILLED,
            16,
            1e-12,
            "layernorm_before",
            "layernorm_after",
            NULL},
    beit = {"beit",
            "Beit",
            SCALED | RELATIVE | MASK_TOKEN | WIDE_SOFTMAX,
            16,
            1e-12,
            "layernorm_before",
            "layernorm_after",
            NULL},
    dinov2 = {"dinov2", "Dinov2", SCALES | KEY_BIAS | MASK_TOKEN, 14, 1e-6, "norm1", "norm2", NULL},
    dinov2_registers = {"dinov2_with_registers",
                        "Dinov2WithRegisters",
                        SCALES | KEY_BIAS | MASK_TOKEN,
                        14,
                        1e-6,
                        "norm1",
                        "norm2",
                        NULL};

enum { TASKS = 1 << PL_TASK_CLASSIFY | 1 << PL_TASK_BASE };

#define ROW(type, style, missing)                                                                  \
    {                                                                                              \
        .model_type = type, .tasks = TASKS, .usual = PL_TASK_CLASSIFY, .build = build,             \
        .plan = &(style), .no_seq = true, .version = "5.22", .no_attention = missing               \
    }

const pl_hf_family pl_hf_vision[] = {
    ROW("vit", vit, 0),
    ROW("deit", deit, 0),
    ROW("beit", beit, 1u << PL_ATTN_FLASH2),
    ROW("dinov2", dinov2, 0),
    ROW("vit_msn", vit_msn, 0),
    ROW("dinov2_with_registers", dinov2_registers, 0),
    {0},
};
