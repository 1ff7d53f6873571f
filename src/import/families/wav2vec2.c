/* wav2vec2: wav2vec 2.0 and its kin (HuBERT, UniSpeech, UniSpeech-SAT): convolutions over samples
 * of sound and an encoder behind them.
 *
 * The order of operators, names and lines are those of transformers 5.22,
 * models/FAMILY/modeling_FAMILY.py. Called as model(input_values, labels): --seq is how many
 * samples a sound has (16 kHz: 160,000 are 10 s). Which frames are masked is drawn at random there,
 * with a number that follows from the length but for one span: the larger number is taken. Layers
 * that layerdrop leaves out at random are all counted.
 *
 * Left out: adapters, sound of unequal lengths, that the input itself gets a gradient. */
#include <math.h>
#include <string.h>

#include "import/families/encoder.h"

enum { SAMPLES = 160000 }; /* where the job does not say: 10 s */

typedef struct style {
    const char *package, *prefix;
    const char *base; /* the base model's attribute */
    bool hubert;      /* a norm before the projection only where asked for, batch norm of places */
} style;

static const style wav2vec2 = {"wav2vec2", "Wav2Vec2", "wav2vec2", false},
                   hubert = {"hubert", "Hubert", "hubert", true},
                   unispeech = {"unispeech", "UniSpeech", "unispeech", false},
                   unispeech_sat = {"unispeech_sat", "UniSpeechSat", "unispeech_sat", false};

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    const style *s;
    int64_t hidden, layers, heads, inner;
    double eps, drop, attn_drop, act_drop;
    const char *act, *conv_act;
    bool stable; /* the norm before each part */
} model;

static void enter(const model *o, const char *name, const char *class) {
    pl_hf_enter(o->m, name, o->s->package, pl_build_text(o->b, "%s%s", o->s->prefix, class));
}

/* ---- sound ---- */

/* [batch, samples] to [batch, channels, frames]. */
static int32_t feature_extractor(const model *o, int32_t x) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t count = pl_hf_list(m, "conv_dim");
    bool group = strcmp(pl_hf_string(m, "feat_extract_norm", "group"), "group") == 0,
         bias = pl_hf_bool(m, "conv_bias", false);
    enter(o, "feature_extractor", "FeatureEncoder");
    pl_line(b, "hidden_states = input_values[:, None]");
    x = pl_aten_unsqueeze(b, x, 1);
    for (int64_t i = 0; i < count && !pl_build_failed(b); i++) {
        pl_line(b, "hidden_states = conv_layer(hidden_states)");
        enter(o, pl_build_text(b, "conv_layers.%lld", (long long)i),
              !group   ? "LayerNormConvLayer"
              : i == 0 ? "GroupNormConvLayer"
                       : "NoLayerNormConvLayer");
        pl_line(b, "hidden_states = self.conv(hidden_states)");
        x = pl_hf_conv(m, "conv", x,
                       (pl_hf_kernel){.out = pl_hf_size_at(m, "conv_dim", i, 512),
                                      .size = pl_hf_size_at(m, "conv_kernel", i, 3),
                                      .stride = pl_hf_size_at(m, "conv_stride", i, 2),
                                      .bias = bias});
        if (!group) {
            pl_line(b, "hidden_states = hidden_states.transpose(-2, -1)");
            x = pl_aten_transpose(b, x, -2, -1);
            pl_line(b, "hidden_states = self.layer_norm(hidden_states)");
            x = pl_hf_norm(m, "layer_norm", x);
            pl_line(b, "hidden_states = hidden_states.transpose(-2, -1)");
            x = pl_aten_transpose(b, x, -2, -1);
        } else if (i == 0) {
            pl_line(b, "hidden_states = self.layer_norm(hidden_states)");
            x = pl_hf_group_norm(m, "layer_norm", x, pl_built_size(b, x, 1), 1e-5);
        }
        x = pl_hf_activation(m, "activation", o->conv_act, x);
        pl_module_leave(b);
    }
    pl_module_leave(b);
    return x;
}

/* How many of `length` places are masked, as _compute_mask_indices draws spans: the larger of two
 * numbers that chance decides between. */
static int64_t masked_of(pl_hf *m, const char *what, int64_t length) {
    pl_builder *b = m->b;
    const char *axis = strcmp(what, "time") == 0 ? "time" : "feature";
    double p = pl_hf_float(m, pl_build_text(b, "mask_%s_prob", axis), 0);
    int64_t span = pl_hf_int(m, pl_build_text(b, "mask_%s_length", axis), 10),
            least = pl_hf_int(m, pl_build_text(b, "mask_%s_min_masks", axis), 0);
    if (p <= 0 || span < 1) return 0;
    if (span > length) {
        pl_build_fail(b, PL_USAGE, "seq", "spans of %lld are masked, and there are %lld frames",
                      (long long)span, (long long)length);
        return 0;
    }
    int64_t spans = (int64_t)ceil(p * (double)length / (double)span);
    if (spans < least) spans = least;
    if (spans * span > length) spans = length / span;
    return spans * span;
}

/* SpecAugment: some frames become a learnt vector, in place. */
static int32_t mask_frames(const model *o, int32_t x) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t frames = pl_built_size(b, x, 1);
    bool used = pl_hf_float(m, "mask_time_prob", 0.05) > 0;
    if (!used && pl_hf_float(m, "mask_feature_prob", 0) <= 0) return x;
    int32_t vector = pl_build_parameter(b, "masked_spec_embed", PL_SIZES(o->hidden));
    if (!pl_hf_bool(m, "apply_spec_augment", true)) return x;
    int64_t count = masked_of(m, "time", frames) * m->batch;
    if (!used || count < 1) return x;
    pl_line(b, "hidden_states[mask_time_indices] = self.masked_spec_embed.to(hidden_states.dtype)");
    pl_aten_make(b, "aten.zeros.default", PL_DT_BOOL, PL_SIZES(m->batch, frames), 0);
    int32_t at[2];
    for (int i = 0; i < 2; i++)
        at[i] = pl_aten_make(b, "aten.zeros.default", PL_DT_I64, PL_SIZES(count), 0);
    vector = pl_aten_type_as(b, vector, x);
    pl_call(b, "aten.index_put_.default");
    pl_call_tensor(b, "self", x);
    pl_call_tensors(b, "indices", 2, at);
    pl_call_tensor(b, "values", vector);
    return pl_call_result_like(b, x);
}

static int32_t feature_projection(const model *o, int32_t x) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    enter(o, "feature_projection", "FeatureProjection");
    pl_line(b, "norm_hidden_states = self.layer_norm(hidden_states)");
    if (!o->s->hubert || pl_hf_bool(m, "feat_proj_layer_norm", true))
        x = pl_hf_layer_norm(m, "layer_norm", x, o->eps, true);
    pl_line(b, "hidden_states = self.projection(norm_hidden_states)");
    x = pl_hf_linear(m, "projection", x, o->hidden, true);
    pl_line(b, "hidden_states = self.dropout(hidden_states)");
    x = pl_hf_dropout(m, "dropout", x, pl_hf_float(m, "feat_proj_dropout", 0));
    pl_module_leave(b);
    return x;
}

/* A wide convolution over frames, its weight a direction and a length. */
static int32_t places(const model *o, int32_t x) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t size = pl_hf_size(m, "num_conv_pos_embeddings", 128),
            groups = pl_hf_size(m, "num_conv_pos_embedding_groups", 16), one = 1, pad = size / 2,
            frames = pl_built_size(b, x, 1);
    pl_hf_divides(m, "num_conv_pos_embedding_groups", o->hidden, groups);
    if (pl_build_failed(b)) return PL_NONE;
    bool normed = o->s->hubert && pl_hf_bool(m, "conv_pos_batch_norm", false);
    enter(o, "pos_conv_embed", "PositionalConvEmbedding");
    pl_module_children(b, normed ? "batch_norm conv" : "conv");
    pl_line(b, "hidden_states = hidden_states.transpose(1, 2)");
    x = pl_aten_transpose(b, x, 1, 2);
    if (normed) x = pl_hf_batch_norm(m, "batch_norm", x, 0.1, 1e-5);
    pl_line(b, "hidden_states = self.conv(hidden_states)");
    pl_module_enter(b, "conv", "torch.nn.utils.parametrize.ParametrizedConv1d");
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(o->hidden)), w;
    if (normed) {
        w = pl_build_parameter(b, "weight", PL_SIZES(o->hidden, o->hidden / groups, size));
    } else {
        int32_t g =
            pl_build_parameter(b, "parametrizations.weight.original0", PL_SIZES(1, 1, size));
        int32_t v = pl_build_parameter(b, "parametrizations.weight.original1",
                                       PL_SIZES(o->hidden, o->hidden / groups, size));
        pl_call(b, "aten._weight_norm.default");
        pl_call_tensor(b, "v", v);
        pl_call_tensor(b, "g", g);
        pl_call_int(b, "dim", 2);
        w = pl_call_result_like(b, v);
    }
    x = pl_aten_conv(b, 1, x, w, bias, &one, &pad, &one, groups);
    pl_module_leave(b);
    pl_line(b, "hidden_states = hidden_states[:, :, : -self.num_pad_remove]");
    if (size % 2 == 0) x = pl_aten_slice(b, x, 2, 0, frames);
    x = pl_hf_activation(m, "activation", o->conv_act, x);
    pl_line(b, "hidden_states = hidden_states.transpose(1, 2)");
    x = pl_aten_transpose(b, x, 1, 2);
    pl_module_leave(b);
    return x;
}

/* ---- layers ---- */

static int32_t attention(const model *o, int32_t x) {
    pl_builder *b = o->b;
    int64_t head = o->hidden / o->heads;
    enter(o, "attention", "Attention");
    pl_module_children(b, "k_proj v_proj q_proj out_proj");
    pl_line(b, "query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)");
    int32_t q = pl_hf_heads(o->m, pl_hf_linear(o->m, "q_proj", x, o->hidden, true), head);
    pl_line(b, "key_states = self.k_proj(current_states).view(kv_shape).transpose(1, 2)");
    int32_t k = pl_hf_heads(o->m, pl_hf_linear(o->m, "k_proj", x, o->hidden, true), head);
    pl_line(b, "value_states = self.v_proj(current_states).view(kv_shape).transpose(1, 2)");
    int32_t v = pl_hf_heads(o->m, pl_hf_linear(o->m, "v_proj", x, o->hidden, true), head);
    pl_hf_attend how = {.scale = 1 / sqrt((double)head), .drop = o->attn_drop};
    x = pl_hf_attention_of(o->m, q, k, v, PL_NONE, how);
    pl_line(b, "attn_output = self.out_proj(attn_output)");
    x = pl_hf_linear(o->m, "out_proj", x, o->hidden, true);
    pl_module_leave(b);
    return x;
}

static int32_t feed_forward(const model *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "feed_forward", "FeedForward");
    pl_line(b, "hidden_states = self.intermediate_dense(hidden_states)");
    x = pl_hf_linear(o->m, "intermediate_dense", x, o->inner, true);
    x = pl_hf_activation(o->m, "intermediate_act_fn", o->act, x);
    x = pl_hf_dropout(o->m, "intermediate_dropout", x, o->act_drop);
    pl_line(b, "hidden_states = self.output_dense(hidden_states)");
    x = pl_hf_linear(o->m, "output_dense", x, o->hidden, true);
    x = pl_hf_dropout(o->m, "output_dropout", x, o->drop);
    pl_module_leave(b);
    return x;
}

static int32_t layer(const model *o, int64_t index, int32_t x) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    enter(o, pl_build_text(b, "layers.%lld", (long long)index),
          o->stable ? "EncoderLayerStableLayerNorm" : "EncoderLayer");
    pl_module_children(b, "attention layer_norm feed_forward final_layer_norm");
    pl_line(b, "hidden_states = self.layer_norm(hidden_states)");
    int32_t y = o->stable ? pl_hf_layer_norm(m, "layer_norm", x, o->eps, true) : x;
    pl_line(b, "hidden_states, _ = self.attention(hidden_states)");
    y = attention(o, y);
    pl_line(b, "hidden_states = self.dropout(hidden_states)");
    y = pl_hf_dropout(m, "dropout", y, o->drop);
    x = pl_hf_sum(m, "hidden_states = attn_residual + hidden_states", x, y);
    pl_line(b, "hidden_states = self.layer_norm(hidden_states)");
    if (!o->stable) x = pl_hf_layer_norm(m, "layer_norm", x, o->eps, true);
    pl_line(b, "hidden_states = hidden_states + self.feed_forward(hidden_states)");
    y = o->stable ? pl_hf_layer_norm(m, "final_layer_norm", x, o->eps, true) : x;
    x = pl_aten_add(b, x, feed_forward(o, y));
    pl_line(b, "hidden_states = self.final_layer_norm(hidden_states)");
    if (!o->stable) x = pl_hf_layer_norm(m, "final_layer_norm", x, o->eps, true);
    pl_module_leave(b);
    return x;
}

static int32_t base(const model *o) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    pl_module_children(b, "masked_spec_embed feature_extractor feature_projection encoder");
    int32_t x = pl_build_input(b, "input_values", m->dtype, PL_SIZES(m->batch, m->seq));
    pl_line(b, "extract_features = self.feature_extractor(input_values)");
    x = feature_extractor(o, x);
    pl_line(b, "extract_features = extract_features.transpose(1, 2)");
    x = pl_aten_transpose(b, x, 1, 2);
    pl_line(b, "hidden_states, extract_features = self.feature_projection(extract_features)");
    x = feature_projection(o, x);
    x = mask_frames(o, x);
    enter(o, "encoder", o->stable ? "EncoderStableLayerNorm" : "Encoder");
    pl_module_children(b, "pos_conv_embed layer_norm layers");
    pl_line(b, "position_embeddings = self.pos_conv_embed(hidden_states)");
    int32_t y = places(o, x);
    x = pl_hf_sum(m, "hidden_states = hidden_states + position_embeddings", x, y);
    pl_line(b, "hidden_states = self.layer_norm(hidden_states)");
    if (!o->stable) x = pl_hf_layer_norm(m, "layer_norm", x, o->eps, true);
    pl_line(b, "hidden_states = self.dropout(hidden_states)");
    x = pl_hf_dropout(m, "dropout", x, o->drop);
    pl_line(b, "hidden_states = layer(hidden_states)");
    for (int64_t i = 0; i < o->layers && !pl_build_failed(b); i++) x = layer(o, i, x);
    pl_line(b, "hidden_states = self.layer_norm(hidden_states)");
    if (o->stable) x = pl_hf_layer_norm(m, "layer_norm", x, o->eps, true);
    pl_module_leave(b);
    return x;
}

/* ---- heads ---- */

static void classify(const model *o, int32_t x) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    pl_line(b, "hidden_states = self.projector(hidden_states)");
    x = pl_hf_linear(m, "projector", x, pl_hf_size(m, "classifier_proj_size", 256), true);
    pl_line(b, "pooled_output = hidden_states.mean(dim=1)");
    x = pl_aten_reduce(b, "aten.mean.dim", x, 1, false);
    pl_line(b, "logits = self.classifier(pooled_output)");
    pl_hf_classification_loss(m, pl_hf_linear(m, "classifier", x, pl_hf_labels(m), true));
}

static model read_keys(pl_hf *m) {
    model o = {.m = m, .b = m->b, .s = m->family->plan};
    o.hidden = pl_hf_size(m, "hidden_size", 768);
    o.layers = pl_hf_depth(m, "num_hidden_layers", 12);
    o.heads = pl_hf_size(m, "num_attention_heads", 12);
    o.inner = pl_hf_size(m, "intermediate_size", 3072);
    o.eps = pl_hf_float(m, "layer_norm_eps", 1e-5);
    o.drop = pl_hf_float(m, "hidden_dropout", 0.1);
    o.attn_drop = pl_hf_float(m, "attention_dropout", 0.1);
    o.act_drop = pl_hf_float(m, "activation_dropout", 0.1);
    o.act = pl_hf_string(m, "hidden_act", "gelu");
    o.conv_act = pl_hf_string(m, "feat_extract_activation", "gelu");
    o.stable = pl_hf_bool(m, "do_stable_layer_norm", false);
    pl_hf_divides(m, "num_attention_heads", o.hidden, o.heads);
    if (pl_hf_list(m, "conv_dim") < 1 || pl_hf_list(m, "conv_dim") > 64)
        pl_hf_refuse(m, "conv_dim", "expected a list of 1 to 64 sizes");
    static const char *const adapters[] = {"add_adapter", "use_weighted_layer_sum"};
    for (size_t i = 0; i < sizeof adapters / sizeof *adapters; i++)
        if (pl_hf_bool(m, adapters[i], false)) pl_hf_refuse(m, adapters[i], "this is not built");
    if (pl_hf_has(m, "adapter_attn_dim"))
        pl_hf_refuse(m, "adapter_attn_dim", "adapters are not built");
    return o;
}

static void build(pl_hf *m) {
    pl_builder *b = m->b;
    model o = read_keys(m);
    if (pl_build_failed(b)) return;
    if (m->task == PL_TASK_BASE) {
        enter(&o, "", "Model");
        pl_build_output(b, base(&o));
        pl_module_leave(b);
        return;
    }
    enter(&o, "", "ForSequenceClassification");
    enter(&o, o.s->base, "Model");
    int32_t x = base(&o);
    pl_module_leave(b);
    classify(&o, x);
    pl_module_leave(b);
}

#define ROW(type, style)                                                                           \
    {                                                                                              \
        .model_type = type, .tasks = 1u << PL_TASK_CLASSIFY | 1u << PL_TASK_BASE,                  \
        .usual = PL_TASK_CLASSIFY, .build = build, .plan = &(style), .version = "5.22",            \
        .usual_seq = SAMPLES,                                                                      \
        .warning = "a sequence is samples of sound; layers dropped at random (layerdrop) "         \
                   "are all counted, and of frames masked at random the most"                      \
    }

const pl_hf_family pl_hf_wav2vec2[] = {
    ROW("wav2vec2", wav2vec2),
    ROW("hubert", hubert),
    ROW("unispeech", unispeech),
    ROW("unispeech-sat", unispeech_sat),
    {0},
};
