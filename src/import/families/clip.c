/* clip: CLIP and SigLIP: an encoder of pictures and one of text, held against each other; either
 * alone (clip_vision_model, clip_text_model, siglip_vision_model, siglip_text_model).
 *
 * The order of operators, names and lines are those of transformers 5.22,
 * models/clip/modeling_clip.py and models/siglip/modeling_siglip.py. The two together are called as
 * model(input_ids, pixel_values, return_loss=True), as many texts as pictures; without padding, so
 * that text has no mask.
 *
 * Left out: interpolated positions, the projection of a tower called alone, texts and pictures of
 * other processes (a contrastive loss over all of them is the training script's). */
#include <math.h>
#include <string.h>

#include "import/families/encoder.h"

typedef struct style {
    const char *package, *prefix;
    bool clip; /* a class token, a norm before the layers, causal text, projections of both */
} style;

static const style clip = {"clip", "CLIP", true}, siglip = {"siglip", "Siglip", false};

/* Of one encoder. */
typedef struct tower {
    pl_hf *m;
    pl_builder *b;
    const style *s;
    int64_t hidden, layers, heads, inner;
    double eps, drop;
    const char *act;
    bool causal;
} tower;

static void enter(const tower *o, const char *name, const char *class) {
    pl_hf_enter(o->m, name, o->s->package, pl_build_text(o->b, "%s%s", o->s->prefix, class));
}

static tower read_tower(pl_hf *m, const style *s, bool text) {
    tower o = {.m = m, .b = m->b, .s = s, .causal = text && s->clip};
    o.hidden = pl_hf_size(m, "hidden_size", text && s->clip ? 512 : 768);
    o.layers = pl_hf_depth(m, "num_hidden_layers", 12);
    o.heads = pl_hf_size(m, "num_attention_heads", text && s->clip ? 8 : 12);
    o.inner = pl_hf_size(m, "intermediate_size", text && s->clip ? 2048 : 3072);
    o.eps = pl_hf_float(m, "layer_norm_eps", s->clip ? 1e-5 : 1e-6);
    o.drop = pl_hf_float(m, "attention_dropout", 0);
    o.act = pl_hf_string(m, "hidden_act", s->clip ? "quick_gelu" : "gelu_pytorch_tanh");
    pl_hf_divides(m, "num_attention_heads", o.hidden, o.heads);
    return o;
}

/* ---- layers ---- */

static int32_t attention(const tower *o, int32_t x, int32_t mask) {
    pl_builder *b = o->b;
    int64_t head = o->hidden / o->heads;
    enter(o, "self_attn", "Attention");
    pl_module_children(b, "k_proj v_proj q_proj out_proj");
    pl_line(b, "queries = self.q_proj(hidden_states)");
    int32_t q = pl_hf_linear(o->m, "q_proj", x, o->hidden, true);
    pl_line(b, "keys = self.k_proj(hidden_states)");
    int32_t k = pl_hf_linear(o->m, "k_proj", x, o->hidden, true);
    pl_line(b, "values = self.v_proj(hidden_states)");
    int32_t v = pl_hf_linear(o->m, "v_proj", x, o->hidden, true);
    pl_line(b, "queries = queries.view(hidden_shape).transpose(1, 2)");
    q = pl_hf_heads(o->m, q, head);
    pl_line(b, "keys = keys.view(hidden_shape).transpose(1, 2)");
    k = pl_hf_heads(o->m, k, head);
    pl_line(b, "values = values.view(hidden_shape).transpose(1, 2)");
    v = pl_hf_heads(o->m, v, head);
    pl_hf_attend how = {
        .scale = 1 / sqrt((double)head), .drop = o->drop, .causal = o->causal, .wide = true};
    x = pl_hf_attention_of(o->m, q, k, v, mask, how);
    pl_line(b, "attn_output = self.out_proj(attn_output)");
    x = pl_hf_linear(o->m, "out_proj", x, o->hidden, true);
    pl_module_leave(b);
    return x;
}

static int32_t mlp(const tower *o, int32_t x) {
    enter(o, "mlp", "MLP");
    pl_line(o->b, "hidden_states = self.fc1(hidden_states)");
    x = pl_hf_linear(o->m, "fc1", x, o->inner, true);
    x = pl_hf_activation(o->m, "activation_fn", o->act, x);
    pl_line(o->b, "hidden_states = self.fc2(hidden_states)");
    x = pl_hf_linear(o->m, "fc2", x, o->hidden, true);
    pl_module_leave(o->b);
    return x;
}

static int32_t layer(const tower *o, int64_t index, int32_t x, int32_t mask) {
    pl_builder *b = o->b;
    enter(o, pl_build_text(b, "layers.%lld", (long long)index), "EncoderLayer");
    pl_module_children(b, o->s->clip ? "self_attn layer_norm1 mlp layer_norm2"
                                     : "layer_norm1 self_attn layer_norm2 mlp");
    pl_line(b, "hidden_states = self.layer_norm1(hidden_states)");
    int32_t y = pl_hf_layer_norm(o->m, "layer_norm1", x, o->eps, true);
    y = attention(o, y, mask);
    x = pl_hf_sum(o->m, "hidden_states = residual + hidden_states", x, y);
    pl_line(b, "hidden_states = self.layer_norm2(hidden_states)");
    y = pl_hf_layer_norm(o->m, "layer_norm2", x, o->eps, true);
    y = mlp(o, y);
    x = pl_hf_sum(o->m, "hidden_states = residual + hidden_states", x, y);
    pl_module_leave(b);
    return x;
}

/* states: [layers + 1]. */
static int32_t encoder(const tower *o, int32_t x, int32_t mask, int32_t *states) {
    enter(o, "encoder", "Encoder");
    for (int64_t i = 0; i < o->layers && !pl_build_failed(o->b); i++) {
        states[i] = x;
        x = layer(o, i, x, mask);
    }
    states[o->layers] = x;
    pl_module_leave(o->b);
    return x;
}

/* ---- pictures ---- */

static int32_t picture_embeddings(const tower *o, int32_t pixels) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t patch = pl_hf_size(m, "patch_size", o->s->clip ? 32 : 16),
            grid = pl_built_size(b, pixels, 2) / patch, patches = grid * grid;
    enter(o, "embeddings", "VisionEmbeddings");
    pl_module_children(b, "class_embedding patch_embedding position_embedding");
    int32_t ids =
        pl_build_buffer(b, "position_ids", PL_DT_I64, false, PL_SIZES(1, patches + o->s->clip));
    pl_line(b, "patch_embeds = self.patch_embedding(pixel_values.to(dtype=target_dtype))");
    int32_t x = pl_hf_conv(
        m, "patch_embedding", pixels,
        (pl_hf_kernel){.out = o->hidden, .size = patch, .stride = patch, .bias = !o->s->clip});
    pl_line(b, "patch_embeds = patch_embeds.flatten(2).transpose(1, 2)");
    x = pl_aten_transpose(b, pl_aten_flatten(b, x, 2, -1), 1, 2);
    if (o->s->clip) {
        pl_line(b, "class_embeds = self.class_embedding.expand(batch_size, 1, -1)");
        int32_t token = pl_build_parameter(b, "class_embedding", PL_SIZES(o->hidden));
        int32_t parts[2] = {pl_aten_expand(b, token, PL_SIZES(m->batch, 1, -1)), x};
        pl_line(b, "embeddings = torch.cat([class_embeds, patch_embeds], dim=1)");
        x = pl_aten_cat(b, 2, parts, 1);
    }
    pl_line(b, "embeddings = embeddings + self.position_embedding(self.position_ids)");
    int32_t place =
        pl_hf_embedding(m, "position_embedding", patches + o->s->clip, o->hidden, ids, -1);
    x = pl_aten_add(b, x, place);
    pl_module_leave(b);
    return x;
}

/* SigLIP's pooler: attention of one learnt query over all patches. */
static int32_t attention_pool(const tower *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "head", "MultiheadAttentionPoolingHead");
    pl_module_children(b, "probe attention layernorm mlp");
    pl_line(b, "probe = self.probe.repeat(batch_size, 1, 1)");
    int32_t probe = pl_build_parameter(b, "probe", PL_SIZES(1, 1, o->hidden));
    probe = pl_aten_repeat(b, probe, PL_SIZES(o->m->batch, 1, 1));
    pl_line(b, "hidden_state = self.attention(probe, hidden_state, hidden_state)[0]");
    x = pl_hf_multihead(o->m, "attention", probe, x, o->heads, 0);
    pl_line(b, "hidden_state = self.layernorm(hidden_state)");
    int32_t y = pl_hf_layer_norm(o->m, "layernorm", x, o->eps, true);
    y = mlp(o, y);
    x = pl_hf_sum(o->m, "hidden_state = residual + self.mlp(hidden_state)", x, y);
    x = pl_aten_select(b, x, 1, 0);
    pl_module_leave(b);
    return x;
}

static pl_hf_tower picture_tower(pl_hf *m, const style *s, const char *name, int32_t pixels) {
    pl_builder *b = m->b;
    tower o = read_tower(m, s, false);
    pl_hf_tower out = {.last = PL_NONE, .pooled = PL_NONE, .layers = o.layers};
    int32_t *states = pl_build_array(b, o.layers + 1, sizeof *states);
    if (!states) return out;
    enter(&o, name, "VisionModel");
    pl_module_children(b, "embeddings pre_layrnorm encoder post_layernorm head");
    pl_line(b, "hidden_states = self.embeddings(pixel_values)");
    int32_t x = picture_embeddings(&o, pixels);
    pl_line(b, "hidden_states = self.pre_layrnorm(hidden_states)");
    if (s->clip) x = pl_hf_layer_norm(m, "pre_layrnorm", x, o.eps, true);
    pl_line(b, "encoder_outputs = self.encoder(");
    x = encoder(&o, x, PL_NONE, states);
    if (s->clip) {
        pl_line(b, "pooled_output = last_hidden_state[:, 0, :]");
        int32_t y = pl_aten_select(b, x, 1, 0);
        pl_line(b, "pooled_output = self.post_layernorm(pooled_output)");
        out.pooled = pl_hf_layer_norm(m, "post_layernorm", y, o.eps, true);
    } else {
        pl_line(b, "last_hidden_state = self.post_layernorm(last_hidden_state)");
        x = pl_hf_layer_norm(m, "post_layernorm", x, o.eps, true);
        pl_line(b, "pooler_output = self.head(last_hidden_state)");
        if (pl_hf_bool(m, "vision_use_head", true)) out.pooled = attention_pool(&o, x);
    }
    out.last = x;
    pl_module_leave(b);
    if (!pl_build_failed(b)) out.states = states;
    return out;
}

static int32_t pixels_of(pl_hf *m, const style *s) {
    int64_t side = pl_hf_size(m, "image_size", 224),
            patch = pl_hf_size(m, "patch_size", s->clip ? 32 : 16);
    if (side > 1 << 16 || patch > side)
        pl_hf_refuse(m, patch > side ? "patch_size" : "image_size",
                     "expected a side of up to %d, and patches within it", 1 << 16);
    return pl_hf_pixels(m, pl_hf_size(m, "num_channels", 3), side, side);
}

pl_hf_tower pl_hf_picture_tower(pl_hf *m, const char *model_type, const char *name,
                                int32_t pixels) {
    return picture_tower(m, strncmp(model_type, "clip", 4) == 0 ? &clip : &siglip, name, pixels);
}

/* ---- text ---- */

/* The causal mask that eager attention adds, [batch, 1, seq, seq]. */
static int32_t causal_mask(const tower *o, int32_t like) {
    pl_builder *b = o->b;
    pl_line(b, "attention_mask = create_causal_mask(");
    int32_t at = pl_aten_arange(b, o->m->seq);
    int32_t keep =
        pl_aten_binary(b, "aten.le.Tensor", pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, at, 0), 0),
                       pl_aten_unsqueeze(b, at, -1));
    keep = pl_aten_expand(b, keep, PL_SIZES(o->m->batch, 1, o->m->seq, o->m->seq));
    pl_dtype dtype = pl_built(b, like)->dtype;
    int32_t none = pl_aten_make(b, "aten.full.default", dtype, 0, NULL, 0);
    int32_t least = pl_aten_make(b, "aten.full.default", dtype, 0, NULL, -3.4e38);
    return pl_aten_where(b, keep, none, least);
}

/* CLIP's state of a text is that of its end token: the largest id, or the first that is it. */
static int32_t at_end_token(const tower *o, int32_t ids, int32_t x) {
    pl_builder *b = o->b;
    int64_t end = pl_hf_int(o->m, "eos_token_id", 49407);
    pl_line(b, "pooled_output = last_hidden_state[");
    int32_t rows = pl_aten_arange(b, o->m->batch), at = pl_aten_to(b, ids, PL_DT_I32);
    if (end != 2) {
        at = pl_aten_scalar(b, "aten.eq.Scalar", at, (double)end);
        at = pl_aten_to(b, at, PL_DT_I32);
    }
    pl_call(b, "aten.argmax.default");
    pl_call_tensor(b, "self", at);
    pl_call_int(b, "dim", -1);
    at = pl_call_result(b, PL_DT_I64, PL_SIZES(o->m->batch));
    return pl_aten_index(b, x, 2, (int32_t[]){rows, at});
}

static pl_hf_tower text_tower(pl_hf *m, const style *s, const char *name) {
    pl_builder *b = m->b;
    tower o = read_tower(m, s, true);
    int64_t vocab = pl_hf_size(m, "vocab_size", s->clip ? 49408 : 32000),
            positions = pl_hf_size(m, "max_position_embeddings", s->clip ? 77 : 64);
    pl_hf_tower out = {.last = PL_NONE, .pooled = PL_NONE, .layers = o.layers};
    int32_t *states = pl_build_array(b, o.layers + 1, sizeof *states);
    if (m->seq > positions)
        pl_build_fail(b, PL_USAGE, "seq", "the model takes texts of up to %lld",
                      (long long)positions);
    if (!states || pl_build_failed(b)) return out;
    enter(&o, name, "TextModel");
    pl_module_children(b, "embeddings encoder final_layer_norm head");
    int32_t ids = pl_hf_input_ids(m);
    pl_line(b, "hidden_states = self.embeddings(input_ids=input_ids)");
    enter(&o, "embeddings", "TextEmbeddings");
    pl_module_children(b, "token_embedding position_embedding");
    int32_t at = pl_build_buffer(b, "position_ids", PL_DT_I64, false, PL_SIZES(1, positions));
    pl_line(b, "position_ids = self.position_ids[:, :seq_length]");
    at = pl_aten_slice(b, at, 1, 0, m->seq);
    pl_line(b, "inputs_embeds = self.token_embedding(input_ids)");
    int32_t x = pl_hf_embedding(m, "token_embedding", vocab, o.hidden, ids, -1);
    pl_line(b, "position_embeddings = self.position_embedding(position_ids)");
    at = pl_hf_embedding(m, "position_embedding", positions, o.hidden, at, -1);
    x = pl_hf_sum(m, "embeddings = inputs_embeds + position_embeddings", x, at);
    pl_module_leave(b);
    int32_t mask = s->clip && m->attn == PL_ATTN_EAGER ? causal_mask(&o, x) : PL_NONE;
    pl_line(b, "encoder_outputs = self.encoder(");
    x = encoder(&o, x, mask, states);
    pl_line(b, "last_hidden_state = self.final_layer_norm(last_hidden_state)");
    x = pl_hf_layer_norm(m, "final_layer_norm", x, o.eps, true);
    out.last = x;
    if (s->clip) {
        out.pooled = at_end_token(&o, ids, x);
    } else {
        pl_line(b, "pooled_output = last_hidden_state[:, -1, :]");
        x = pl_aten_select(b, x, 1, -1);
        pl_line(b, "pooled_output = self.head(pooled_output)");
        out.pooled = pl_hf_linear(m, "head", x, pl_hf_size(m, "projection_size", o.hidden), true);
    }
    pl_module_leave(b);
    return out;
}

/* ---- both ---- */

static int32_t length_of(pl_hf *m, int32_t x, bool spelt) {
    pl_builder *b = m->b;
    if (spelt) {
        x = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", x, 2);
        x = pl_aten_reduce(b, "aten.sum.dim_IntList", x, -1, true);
        return pl_aten_scalar(b, "aten.pow.Tensor_Scalar", x, 0.5);
    }
    pl_dtype dtype = pl_built(b, x)->dtype;
    int64_t last = -1;
    pl_call(b, "aten.linalg_vector_norm.default");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "ord", 2);
    pl_call_ints(b, "dim", 1, &last);
    pl_call_bool(b, "keepdim", true);
    return pl_call_result(b, dtype, PL_SIZES(m->batch, 1));
}

/* CLIP: cross entropy of both directions, each text's own picture being its class. */
static int32_t contrastive_loss(pl_hf *m, int32_t logits) {
    pl_builder *b = m->b;
    int32_t losses[2];
    for (int i = 0; i < 2; i++) {
        pl_line(b, i ? "image_loss = contrastive_loss(similarity.T)"
                     : "caption_loss = contrastive_loss(similarity)");
        int32_t x = i ? pl_aten_transpose(b, logits, 0, 1) : logits;
        losses[i] = pl_aten_cross_entropy(b, x, pl_aten_arange(b, m->batch), -100);
    }
    pl_line(b, "loss = (caption_loss + image_loss) / 2.0");
    return pl_aten_scalar(b, "aten.div.Tensor", pl_aten_add(b, losses[0], losses[1]), 2);
}

/* SigLIP: each pair on its own is right or wrong. */
static int32_t pairwise_loss(pl_hf *m, int32_t logits) {
    pl_builder *b = m->b;
    int64_t n = m->batch;
    pl_line(b, "eye = torch.eye(logits_per_text.size(0))");
    int32_t eye = pl_aten_make(b, "aten.zeros.default", PL_DT_F32, PL_SIZES(n, n), 0);
    pl_line(b, "m1_diag1 = -torch.ones_like(logits_per_text) + 2 * eye");
    int32_t x = pl_aten_unary(b, "aten.ones_like.default", logits);
    x = pl_aten_unary(b, "aten.neg.default", x);
    x = pl_aten_add(b, x, pl_aten_scalar(b, "aten.mul.Tensor", eye, 2));
    pl_line(b, "loglik = torch.nn.functional.logsigmoid(m1_diag1 * logits_per_text)");
    x = pl_aten_unary(b, "aten.log_sigmoid.default", pl_aten_mul(b, x, logits));
    pl_line(b, "nll = -torch.sum(loglik, dim=-1)");
    x = pl_aten_reduce(b, "aten.sum.dim_IntList", x, -1, false);
    x = pl_aten_unary(b, "aten.neg.default", x);
    pl_line(b, "loss = nll.mean()");
    pl_dtype dtype = pl_built(b, x)->dtype;
    pl_call(b, "aten.mean.default");
    pl_call_tensor(b, "self", x);
    return pl_call_result(b, dtype, 0, NULL);
}

static void build_both(pl_hf *m) {
    pl_builder *b = m->b;
    const style *s = m->family->plan;
    int64_t width = s->clip ? pl_hf_size(m, "projection_dim", 512) : 0;
    tower o = {.m = m, .b = b, .s = s};
    enter(&o, "", "Model");
    pl_module_children(
        b, "logit_scale logit_bias text_model vision_model visual_projection text_projection");
    int64_t one = 1;
    int32_t scale = pl_build_parameter(b, "logit_scale", s->clip ? 0 : 1, &one);
    int32_t bias = s->clip ? PL_NONE : pl_build_parameter(b, "logit_bias", PL_SIZES(1));
    pl_hf_within(m, "vision_config.");
    pl_line(b, "vision_outputs = self.vision_model(");
    pl_hf_tower pictures = picture_tower(m, s, "vision_model", pixels_of(m, s));
    if (s->clip)
        pictures.pooled = pl_hf_linear(m, "visual_projection", pictures.pooled, width, false);
    pl_hf_within(m, "text_config.");
    pl_line(b, "text_outputs = self.text_model(");
    pl_hf_tower texts = text_tower(m, s, "text_model");
    if (s->clip) texts.pooled = pl_hf_linear(m, "text_projection", texts.pooled, width, false);
    pl_hf_within(m, "");
    if (pictures.pooled == PL_NONE || texts.pooled == PL_NONE) {
        pl_hf_refuse(m, "vision_config", "a tower without a pooled state has no contrastive loss");
        return;
    }
    pl_line(b, "image_embeds = image_embeds / image_embeds.norm(p=2, dim=-1, keepdim=True)");
    int32_t image = pictures.pooled, text = texts.pooled;
    image = pl_aten_binary(b, "aten.div.Tensor", image, length_of(m, image, s->clip));
    pl_line(b, "text_embeds = text_embeds / text_embeds.norm(p=2, dim=-1, keepdim=True)");
    text = pl_aten_binary(b, "aten.div.Tensor", text, length_of(m, text, s->clip));
    pl_line(b, "logits_per_text = torch.matmul(text_embeds, image_embeds.t())");
    int32_t x = pl_aten_matmul(b, text, pl_aten_transpose(b, image, 0, 1));
    pl_line(b, "logits_per_text = logits_per_text * logit_scale.exp() + logit_bias");
    x = pl_aten_mul(b, x, pl_aten_unary(b, "aten.exp.default", scale));
    if (bias != PL_NONE) x = pl_aten_add(b, x, bias);
    int32_t loss = s->clip ? contrastive_loss(m, x) : pairwise_loss(m, x);
    pl_build_output(b, loss);
    pl_build_output(b, x);
    pl_build_output(b, text);
    pl_build_output(b, image);
    pl_build_output(b, texts.last);
    pl_build_output(b, pictures.last);
    pl_module_leave(b);
}

/* ---- one alone ---- */

static void build_pictures(pl_hf *m) {
    pl_builder *b = m->b;
    const style *s = m->family->plan;
    pl_hf_tower t = picture_tower(m, s, "", pixels_of(m, s));
    pl_build_output(b, t.last);
    if (t.pooled != PL_NONE) pl_build_output(b, t.pooled);
}

static void build_texts(pl_hf *m) {
    pl_hf_tower t = text_tower(m, m->family->plan, "");
    pl_build_output(m->b, t.last);
    pl_build_output(m->b, t.pooled);
}

/* ForImageClassification: the tower of the vision_config, a mean of its patches. */
static void build_classify(pl_hf *m) {
    pl_builder *b = m->b;
    const style *s = m->family->plan;
    tower o = {.m = m, .b = b, .s = s};
    enter(&o, "", "ForImageClassification");
    pl_hf_within(m, "vision_config.");
    pl_line(b, "outputs = self.vision_model(");
    pl_hf_tower t = picture_tower(m, s, "vision_model", pixels_of(m, s));
    pl_hf_within(m, "");
    pl_line(b, "sequence_output = torch.mean(sequence_output[:, 1:, :], dim=1)");
    int32_t x = s->clip ? pl_aten_slice(b, t.last, 1, 1, INT64_MAX) : t.last;
    x = pl_aten_reduce(b, "aten.mean.dim", x, 1, false);
    pl_line(b, "logits = self.classifier(sequence_output)");
    pl_hf_classification_loss(m, pl_hf_linear(m, "classifier", x, pl_hf_labels(m), true));
    pl_module_leave(b);
}

static void build(pl_hf *m) {
    if (m->task == PL_TASK_CLASSIFY)
        build_classify(m);
    else
        build_both(m);
}

#define BOTH(type, style)                                                                          \
    {                                                                                              \
        .model_type = type, .tasks = 1u << PL_TASK_CLASSIFY | 1u << PL_TASK_BASE,                  \
        .usual = PL_TASK_BASE, .build = build, .plan = &(style), .version = "5.22",                \
        .learnt_positions = true, .positions = "text_config.max_position_embeddings",              \
        .whole = true                                                                              \
    }
#define PICTURES(type, style)                                                                      \
    {                                                                                              \
        .model_type = type, .tasks = 1u << PL_TASK_BASE, .usual = PL_TASK_BASE,                    \
        .build = build_pictures, .plan = &(style), .version = "5.22", .no_seq = true               \
    }
#define TEXTS(type, style)                                                                         \
    {                                                                                              \
        .model_type = type, .tasks = 1u << PL_TASK_BASE, .usual = PL_TASK_BASE,                    \
        .build = build_texts, .plan = &(style), .version = "5.22", .learnt_positions = true        \
    }

const pl_hf_family pl_hf_clip[] = {
    BOTH("clip", clip),
    PICTURES("clip_vision_model", clip),
    TEXTS("clip_text_model", clip),
    BOTH("siglip", siglip),
    PICTURES("siglip_vision_model", siglip),
    TEXTS("siglip_text_model", siglip),
    {0},
};
