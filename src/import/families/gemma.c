/* gemma: the later Gemmas' text models: 3n and 4, whose layers are given inputs of their own, share
 * keys and values, and, in 3n, carry several streams. decoder.c has what they share with Llama's kin.
 *
 * Rules: transformers 5.22, models/gemma3n/modeling_gemma3n.py, models/gemma4/modeling_gemma4.py,
 * models/gemma4_unified.
 *
 * Left out: attention to later tokens (use_bidirectional_attention), which text alone has none of;
 * the clamp of AltUp's weights (altup_coef_clip), which are a few numbers; what a checkpointed layer,
 * run again, leaves in the keys and values that later layers share (that layer's recomputed
 * tensors live on: up to 10 % of a model of six layers). */
#include "import/families/experts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/hf_config.h"

#define MUL "aten.mul.Tensor"

/* Of a model being built. */
typedef struct gemma {
    pl_decoding *d;
    int64_t shared_from; /* the first layer that takes another's keys and values */
    int64_t width;       /* of a layer's own input; 0: none */
    int32_t inputs;      /* [B,S,layers,width] */
    int32_t k[2], v[2];  /* of the last layer with its own: [0] full, [1] sliding */
    int64_t streams, active;
} gemma;

/* ---- rotary ---- */

static void make_rotary(pl_decoding *d, const int64_t widths[2]) {
    static const char *const names[] = {"full_attention_", "sliding_attention_"};
    for (int i = 0; i < 2; i++) {
        bool any = false;
        for (int64_t layer = 0; layer < d->layers; layer++)
            any |= pl_decoder_slides(d, layer) == (i == 1);
        if (!any) continue;
        pl_module_enter(d->m->b, "rotary_emb", pl_decoder_type(d, "TextRotaryEmbedding"));
        pl_hf_rotary_of(d->m, names[i], widths[i], d->position_ids, d->m->dtype, &d->cos[i],
                        &d->sin[i]);
        pl_module_leave(d->m->b);
    }
}

/* x [B,S,H,D] */
static int32_t turn(gemma *g, int32_t x, bool sliding) {
    pl_builder *b = g->d->m->b;
    int32_t cos = pl_aten_unsqueeze(b, g->d->cos[sliding], 2);
    int32_t sin = pl_aten_unsqueeze(b, g->d->sin[sliding], 2);
    return pl_hf_rotate(g->d->m, x, cos, sin);
}

/* ---- attention ---- */

/* What per_layer_config, or the keys it was made of, say of a layer that does not slide. */
static int64_t full_layer(gemma *g, int64_t layer, const char *key, const char *usual_key,
                          int64_t usual) {
    pl_hf *m = g->d->m;
    char name[64];
    snprintf(name, sizeof name, "per_layer_config.%lld.%s", (long long)layer, key);
    if (pl_hf_has(m, name)) return pl_hf_need(m, name);
    return pl_hf_has(m, usual_key) ? pl_hf_need(m, usual_key) : usual;
}

/* [B,S,n D] to [B,S,n,D] */
static int32_t heads_of(gemma *g, int32_t x) {
    return pl_aten_view(g->d->m->b, x, PL_SIZES(g->d->m->batch, g->d->m->seq, -1, g->d->head_dim));
}

static void keys_and_values(gemma *g, int32_t x, bool sliding, bool same) {
    pl_decoding *d = g->d;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t narrow = d->kv_heads * d->head_dim;
    pl_line(b, "1: key_states = self.k_proj(hidden_states).view(hidden_shape)");
    int32_t k = heads_of(g, pl_hf_linear(m, "k_proj", x, narrow, d->qkv_bias)), v = k;
    if (!same) {
        pl_line(b, "1: value_states = self.v_proj(hidden_states).view(hidden_shape)");
        v = heads_of(g, pl_hf_linear(m, "v_proj", x, narrow, d->qkv_bias));
    }
    pl_line(b, "2: key_states = self.k_norm(key_states)");
    k = pl_decoder_norm(d, "k_norm", k);
    pl_line(b, "3: key_states = apply_rotary_pos_emb(key_states)");
    k = turn(g, k, sliding);
    pl_line(b, "4: key_states = key_states.transpose(1, 2)");
    g->k[sliding] = pl_aten_transpose(b, k, 1, 2);
    pl_line(b, "2: value_states = self.v_norm(value_states)");
    v = pl_decoder_norm_as(d, PL_NORM_POW_BARE, "v_norm", v);
    pl_line(b, "3: value_states = value_states.transpose(1, 2)");
    g->v[sliding] = pl_aten_transpose(b, v, 1, 2);
}

static int32_t attention(gemma *g, int64_t layer, int32_t x) {
    pl_decoding *d = g->d, whole = *d;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    bool sliding = pl_decoder_slides(d, layer), same = false;
    if (g->streams == 0 && !sliding) { /* Gemma 4 */
        same = pl_hf_bool(m, "attention_k_eq_v", false);
        d->head_dim = full_layer(g, layer, "head_dim", "global_head_dim", 512);
        d->kv_heads = full_layer(g, layer, "num_key_value_heads",
                                 same ? "num_global_key_value_heads" : "", d->kv_heads);
    }
    if (d->kv_heads < 1 || d->heads % d->kv_heads != 0) {
        pl_hf_refuse(m, "num_key_value_heads", "%lld does not divide the heads, %lld",
                     (long long)d->kv_heads, (long long)d->heads);
        d->kv_heads = 1;
    }
    pl_module_enter(b, "self_attn", d->attention_type);
    pl_module_children(b, "q_proj q_norm k_norm v_norm k_proj v_proj o_proj");
    pl_line(b, "1: query_states = self.q_proj(hidden_states).view(hidden_shape)");
    int32_t q = pl_hf_linear(m, "q_proj", x, d->heads * d->head_dim, d->qkv_bias);
    q = heads_of(g, q);
    pl_line(b, "2: query_states = self.q_norm(query_states)");
    q = pl_decoder_norm(d, "q_norm", q);
    pl_line(b, "3: query_states = apply_rotary_pos_emb(query_states)");
    q = turn(g, q, sliding);
    pl_line(b, "4: query_states = query_states.transpose(1, 2)");
    q = pl_aten_transpose(b, q, 1, 2);
    if (layer < g->shared_from || g->k[sliding] == PL_NONE) keys_and_values(g, x, sliding, same);
    int32_t y = pl_decoder_attend(d, q, g->k[sliding], g->v[sliding], sliding);
    pl_line(b, "2: attn_output = attn_output.reshape(*input_shape, -1).contiguous()");
    y = pl_aten_reshape(b, y, PL_SIZES(m->batch, m->seq, -1));
    pl_line(b, "3: attn_output = self.o_proj(attn_output)");
    y = pl_hf_linear(m, "o_proj", y, d->width, d->out_bias);
    pl_module_leave(b);
    d->head_dim = whole.head_dim;
    d->kv_heads = whole.kv_heads;
    return y;
}

/* ---- what each layer is given ---- */

static void make_inputs(gemma *g) {
    pl_decoding *d = g->d;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    g->width = pl_hf_int(m, "hidden_size_per_layer_input", 0);
    g->inputs = PL_NONE;
    if (g->width < 1) return;
    int64_t all = d->layers * g->width, rows = pl_hf_need(m, "vocab_size_per_layer_input");
    int32_t ids = d->ids;
    if (ids == PL_NONE) {
        pl_hf_refuse(m, "hidden_size_per_layer_input", "a model without tokens is not built");
        return;
    }
    if (g->streams > 0) {
        pl_line(b, "input_ids = torch.where(in_table, input_ids, 0)");
        int32_t in = pl_aten_binary(b, "aten.logical_and.default",
                                    pl_aten_scalar(b, "aten.ge.Scalar", ids, 0),
                                    pl_aten_scalar(b, "aten.lt.Scalar", ids, (double)rows));
        pl_call(b, "aten.where.ScalarOther");
        pl_call_tensor(b, "condition", in);
        pl_call_tensor(b, "self", ids);
        pl_call_int(b, "other", 0);
        ids = pl_call_result(b, PL_DT_I64, PL_SIZES(m->batch, m->seq));
    }
    pl_line(b, "1: per_layer_inputs = self.get_per_layer_inputs(input_ids)");
    pl_module_enter(b, "embed_tokens_per_layer", pl_decoder_type(d, "TextScaledWordEmbedding"));
    int32_t table = pl_build_parameter(b, "weight", PL_SIZES(rows, all));
    int32_t scale = pl_build_buffer(b, "embed_scale", PL_DT_F32, false, 0, NULL);
    pl_line(b, "return embedding * self.embed_scale.to(self.weight.dtype)");
    int32_t x = pl_aten_embedding(b, table, ids, pl_hf_pad(m));
    x = pl_aten_mul(b, x, pl_aten_to(b, scale, m->dtype));
    pl_module_leave(b);
    x = pl_aten_reshape(b, x, PL_SIZES(m->batch, m->seq, d->layers, g->width));
    pl_line(b, "1: per_layer_projection = self.per_layer_model_projection(inputs_embeds)");
    int32_t y = pl_hf_linear(m, "per_layer_model_projection", d->embeds, all, false);
    y = pl_aten_scalar(b, g->streams > 0 ? "aten.mul_.Tensor" : MUL, y, 1);
    pl_line(b, "2: per_layer_projection = per_layer_projection.reshape(");
    y = pl_aten_reshape(b, y, PL_SIZES(m->batch, m->seq, d->layers, g->width));
    pl_line(b, "3: per_layer_projection = self.per_layer_projection_norm(per_layer_projection)");
    y = pl_decoder_norm(d, "per_layer_projection_norm", y);
    pl_line(b, "2: per_layer_inputs = self.project_per_layer_inputs(");
    g->inputs = pl_aten_scalar(b, MUL, pl_aten_add(b, y, x), sqrt(0.5));
}

/* gate, act, times the layer's input, projection, norm; each under the name given. */
static int32_t give_input(gemma *g, int64_t layer, int32_t x, const char *const lines[5]) {
    pl_decoding *d = g->d;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t own = pl_aten_select(b, g->inputs, 2, layer);
    pl_line(b, lines[0]);
    x = pl_hf_linear(m, "per_layer_input_gate", x, g->width, false);
    pl_line(b, lines[1]);
    x = pl_hf_activation(m, "act_fn", d->act, x);
    pl_line(b, lines[2]);
    x = pl_aten_mul(b, x, own);
    pl_line(b, lines[3]);
    x = pl_hf_linear(m, "per_layer_projection", x, d->width, false);
    pl_line(b, lines[4]);
    return pl_decoder_norm(d, "post_per_layer_input_norm", x);
}

/* ---- Gemma 4 ---- */

static int32_t feed_forward(gemma *g, int64_t layer, int32_t x) {
    pl_decoding *d = g->d;
    bool shared = g->shared_from > 0 && layer >= g->shared_from;
    bool twice = shared && pl_hf_bool(d->m, "use_double_wide_mlp", false);
    pl_module_enter(d->m->b, "mlp", d->mlp_type);
    int32_t y = pl_decoder_gated(d, x, twice ? 2 * d->inner : d->inner);
    pl_module_leave(d->m->b);
    return y;
}

/* x [tokens,width] */
static pl_routing route(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    int64_t tokens = pl_built_size(b, x, 0);
    pl_module_enter(b, "router", pl_decoder_type(d, "TextRouter"));
    pl_module_children(b, "norm proj");
    int32_t scale = pl_build_parameter(b, "scale", PL_SIZES(d->width));
    int32_t per_expert = pl_build_parameter(b, "per_expert_scale", PL_SIZES(d->experts));
    pl_line(b, "1: hidden_states = self.norm(hidden_states)");
    x = pl_decoder_norm_as(d, PL_NORM_POW_BARE, "norm", x);
    pl_line(b, "2: hidden_states = hidden_states * self.scale * self.scalar_root_size");
    x = pl_aten_scalar(b, MUL, pl_aten_mul(b, x, scale), 1 / sqrt((double)d->width));
    pl_line(b, "expert_scores = self.proj(hidden_states)");
    x = pl_hf_linear(d->m, "proj", x, d->experts, false);
    pl_line(b, "router_probabilities = nn.functional.softmax(expert_scores)");
    x = pl_aten_softmax(b, x, -1, PL_DT_F32);
    pl_line(b, "1: top_k_weights, top_k_index = torch.topk(");
    pl_call(b, "aten.topk.default");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "k", d->chosen);
    int32_t scores = pl_call_result(b, PL_DT_F32, PL_SIZES(tokens, d->chosen));
    int32_t chosen = pl_call_result(b, PL_DT_I64, PL_SIZES(tokens, d->chosen));
    pl_line(b, "2: top_k_weights /= top_k_weights.sum(dim=-1, keepdim=True)");
    int32_t sum = pl_aten_reduce(b, "aten.sum.dim_IntList", scores, -1, true);
    scores = pl_aten_binary(b, "aten.div_.Tensor", scores, sum);
    pl_line(b, "3: top_k_weights = top_k_weights * self.per_expert_scale[top_k_index]");
    scores = pl_aten_mul(b, scores, pl_aten_index(b, per_expert, 1, &chosen));
    pl_module_leave(b);
    return (pl_routing){scores, chosen};
}

/* Experts beside the feed-forward layer, fed by what it was fed, unnormed. */
static int32_t with_experts(gemma *g, int32_t x, int32_t y) {
    pl_decoding *d = g->d;
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    pl_line(b, "hidden_states_1 = self.post_feedforward_layernorm_1(hidden_states)");
    y = pl_decoder_norm(d, "post_feedforward_layernorm_1", y);
    pl_line(b, "hidden_states_flat = residual.reshape(-1, residual.shape[-1])");
    int32_t flat = pl_aten_reshape(b, x, PL_SIZES(-1, d->width));
    pl_line(b, "_, top_k_weights, top_k_index = self.router(hidden_states_flat)");
    pl_routing r = route(d, flat);
    pl_line(b, "1: hidden_states_2 = self.pre_feedforward_layernorm_2(hidden_states_flat)");
    int32_t z = pl_decoder_norm(d, "pre_feedforward_layernorm_2", flat);
    pl_line(b, "2: hidden_states_2 = self.experts(hidden_states_2)");
    z = pl_decoder_run_experts(d, z, r);
    pl_line(b, "3: hidden_states_2 = hidden_states_2.reshape(residual.shape)");
    z = pl_aten_reshape(b, z, PL_SIZES(m->batch, m->seq, d->width));
    pl_line(b, "4: hidden_states_2 = self.post_feedforward_layernorm_2(hidden_states_2)");
    z = pl_decoder_norm(d, "post_feedforward_layernorm_2", z);
    pl_line(b, "hidden_states = hidden_states_1 + hidden_states_2");
    return pl_aten_add(b, y, z);
}

static int32_t layer_4(gemma *g, int64_t layer, int32_t x) {
    static const char *const lines[5] = {"7: hidden_states = self.per_layer_input_gate()",
                                         "8: hidden_states = self.act_fn(hidden_states)",
                                         "9: hidden_states = hidden_states * per_layer_input",
                                         "10: hidden_states = self.per_layer_projection()",
                                         "11: hidden_states = self.post_per_layer_input_norm()"};
    pl_decoding *d = g->d;
    pl_builder *b = d->m->b;
    pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)layer), d->layer_type);
    pl_module_children(b, "self_attn mlp input_layernorm post_attention_layernorm "
                          "pre_feedforward_layernorm post_feedforward_layernorm");
    int32_t scalar = pl_build_buffer(b, "layer_scalar", d->m->dtype, true, PL_SIZES(1));
    pl_line(b, "1: hidden_states = self.input_layernorm(hidden_states)");
    int32_t y = pl_decoder_norm(d, "input_layernorm", x);
    pl_line(b, "2: hidden_states = self.self_attn(hidden_states)");
    y = attention(g, layer, y);
    pl_line(b, "3: hidden_states = self.post_attention_layernorm(hidden_states)");
    y = pl_decoder_norm(d, "post_attention_layernorm", y);
    pl_line(b, "1: residual = residual + hidden_states");
    x = pl_aten_add(b, x, y);
    pl_line(b, "4: hidden_states = self.pre_feedforward_layernorm(hidden_states)");
    y = pl_decoder_norm(d, "pre_feedforward_layernorm", x);
    pl_line(b, "5: hidden_states = self.mlp(hidden_states)");
    y = feed_forward(g, layer, y);
    if (d->experts > 0) y = with_experts(g, x, y);
    pl_line(b, "6: hidden_states = self.post_feedforward_layernorm(hidden_states)");
    y = pl_decoder_norm(d, "post_feedforward_layernorm", y);
    pl_line(b, "2: residual = residual + hidden_states");
    x = pl_aten_add(b, x, y);
    if (g->width > 0) {
        y = give_input(g, layer, x, lines);
        pl_line(b, "3: residual = residual + hidden_states");
        x = pl_aten_add(b, x, y);
    }
    pl_line(b, "residual *= self.layer_scalar");
    x = pl_aten_binary(b, "aten.mul_.Tensor", x, scalar);
    pl_module_leave(b);
    return x;
}

static void begin(gemma *g, pl_decoding *d) {
    int64_t shared = pl_hf_int(d->m, "num_kv_shared_layers", 0);
    *g = (gemma){.d = d, .shared_from = shared < d->layers ? d->layers - shared : d->layers};
    for (int i = 0; i < 2; i++) g->k[i] = g->v[i] = PL_NONE;
    d->scale = 1;
    d->mlp_type = pl_decoder_type(d, "TextMLP");
    d->attention_type = pl_decoder_type(d, "TextAttention");
    d->layer_type = pl_decoder_type(d, "TextDecoderLayer");
}

static int32_t layers_4(pl_decoding *d, int32_t x) {
    gemma g;
    begin(&g, d);
    d->experts = 0;
    if (pl_hf_bool(d->m, "enable_moe_block", false)) pl_decoder_read_experts(d);
    make_inputs(&g);
    int64_t full = d->layers - 1; /* the last layer never slides */
    make_rotary(d,
                (int64_t[]){full_layer(&g, full, "head_dim", "global_head_dim", 512), d->head_dim});
    for (int64_t i = 0; i < d->layers && !pl_build_failed(d->m->b); i++) x = layer_4(&g, i, x);
    return x;
}

/* ---- Gemma 3n ---- */

/* x [B,S,width] to [B,S,streams] */
static int32_t modalities(gemma *g, int32_t x) {
    pl_decoding *d = g->d;
    pl_builder *b = d->m->b;
    pl_line(b, "router_inputs = self.router_norm(x) * self.router_input_scale");
    int32_t y = pl_decoder_norm(d, "router_norm", x);
    y = pl_aten_scalar(b, MUL, y, 1 / (double)d->width);
    pl_line(b, "routed = self.modality_router(router_inputs)");
    y = pl_hf_linear(d->m, "modality_router", y, g->streams, false);
    pl_line(b, "modalities = torch.tanh(routed.float()).type_as(x)");
    y = pl_aten_unary(b, "aten.tanh.default", pl_aten_to(b, y, PL_DT_F32));
    return pl_aten_type_as(b, y, x);
}

static void enter_altup(gemma *g) {
    pl_module_enter(g->d->m->b, "altup", pl_decoder_type(g->d, "TextAltUp"));
    pl_module_children(g->d->m->b, "correction_coefs prediction_coefs modality_router router_norm");
}

/* x [streams,B,S,width] to the same: every stream out of all. */
static int32_t predict(gemma *g, int32_t x) {
    pl_hf *m = g->d->m;
    pl_builder *b = m->b;
    int64_t n = g->streams;
    enter_altup(g);
    pl_build_parameter(b, "correct_output_scale", PL_SIZES(g->d->width));
    int32_t coefs = modalities(g, pl_aten_select(b, x, 0, g->active));
    pl_line(b, "all_coefs = self.prediction_coefs(modalities).reshape().permute(0, 1, 3, 2)");
    coefs = pl_hf_linear(m, "prediction_coefs", coefs, n * n, false);
    coefs = pl_aten_reshape(b, coefs, PL_SIZES(m->batch, m->seq, n, n));
    coefs = pl_aten_permute(b, coefs, PL_SIZES(0, 1, 3, 2));
    pl_line(b, "1: predictions = torch.matmul(hidden_states.permute(1, 2, 3, 0), all_coefs)");
    int32_t y = pl_aten_matmul(b, pl_aten_permute(b, x, PL_SIZES(1, 2, 3, 0)), coefs);
    pl_line(b, "2: predictions = predictions.permute(3, 0, 1, 2)");
    y = pl_aten_permute(b, y, PL_SIZES(3, 0, 1, 2));
    pl_line(b, "3: predictions += hidden_states");
    y = pl_aten_binary(b, "aten.add_.Tensor", y, x);
    pl_line(b, "return predictions.contiguous().type_as(hidden_states)");
    y = pl_aten_type_as(b, pl_aten_contiguous(b, y), x);
    pl_module_leave(b);
    return y;
}

/* What the layer changed in one stream, given to all. */
static int32_t correct(gemma *g, int32_t predictions, int32_t activated) {
    pl_hf *m = g->d->m;
    pl_builder *b = m->b;
    int64_t n = g->streams;
    enter_altup(g);
    int32_t coefs = modalities(g, activated);
    pl_line(b, "1: innovation = activated - predictions[self.config.altup_active_idx]");
    int32_t y = pl_aten_binary(b, "aten.sub.Tensor", activated,
                               pl_aten_select(b, predictions, 0, g->active));
    pl_line(b, "2: innovation = innovation.repeat(self.config.altup_num_inputs, 1, 1, 1)");
    y = pl_aten_repeat(b, y, PL_SIZES(n, 1, 1, 1));
    pl_line(b, "1: all_coefs = torch.nn.functional.linear(modalities, weight, bias=None) + 1.0");
    coefs = pl_hf_linear(m, "correction_coefs", coefs, n, false);
    coefs = pl_aten_scalar(b, "aten.add.Tensor", coefs, 1);
    pl_line(b, "2: all_coefs = all_coefs.permute(2, 0, 1).unsqueeze(-1)");
    coefs = pl_aten_unsqueeze(b, pl_aten_permute(b, coefs, PL_SIZES(2, 0, 1)), -1);
    pl_line(b, "1: corrected = torch.mul(innovation, all_coefs)");
    y = pl_aten_mul(b, y, coefs);
    pl_line(b, "2: corrected += predictions");
    y = pl_aten_binary(b, "aten.add_.Tensor", y, predictions);
    pl_line(b, "return corrected.contiguous().type_as(activated)");
    y = pl_aten_type_as(b, pl_aten_contiguous(b, y), activated);
    pl_module_leave(b);
    return y;
}

static int32_t laurel(gemma *g, int32_t x) {
    pl_decoding *d = g->d;
    pl_builder *b = d->m->b;
    pl_module_enter(b, "laurel", pl_decoder_type(d, "TextLaurelBlock"));
    pl_line(b, "1: laurel_hidden_states = self.linear_left(hidden_states)");
    int32_t y = pl_hf_linear(d->m, "linear_left", x, pl_hf_need(d->m, "laurel_rank"), false);
    pl_line(b, "2: laurel_hidden_states = self.linear_right(laurel_hidden_states)");
    y = pl_hf_linear(d->m, "linear_right", y, d->width, false);
    pl_line(b, "normed_laurel_hidden_states = self.post_laurel_norm(laurel_hidden_states)");
    y = pl_decoder_norm(d, "post_laurel_norm", y);
    pl_line(b, "return hidden_states + normed_laurel_hidden_states");
    y = pl_aten_add(b, x, y);
    pl_module_leave(b);
    return y;
}

/* relu(x - (mean + a std)): the share of a normal distribution that stays. */
static int32_t sparse(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    pl_line(b, "2: gate_proj = self._gaussian_topk(gate_proj)");
    int32_t mean = pl_aten_reduce(b, "aten.mean.dim", x, -1, true);
    pl_call(b, "aten.std.dim");
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "dim", PL_SIZES(-1));
    pl_call_bool(b, "unbiased", false);
    pl_call_bool(b, "keepdim", true);
    int32_t std = pl_call_result(b, pl_built(b, x)->dtype, PL_SIZES(d->m->batch, d->m->seq, 1));
    int32_t cutoff = pl_aten_add(b, mean, pl_aten_scalar(b, MUL, std, 1.6));
    return pl_aten_unary(b, "aten.relu.default", pl_aten_binary(b, "aten.sub.Tensor", x, cutoff));
}

static int32_t feed_forward_3n(pl_decoding *d, int64_t layer, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    bool listed = pl_hf_list(m, "activation_sparsity_pattern") > 0;
    double share = listed ? pl_hf_list_float(m, "activation_sparsity_pattern", layer, 0)
                          : (d->layers > 10 && layer < 10 ? 0.95 : 0);
    int64_t inner = pl_hf_list_int(m, "intermediate_size", layer, d->inner);
    if (inner < 1) pl_hf_refuse(m, "intermediate_size", "expected at least 1");
    pl_module_enter(b, "mlp", d->mlp_type);
    pl_module_children(b, "gate_proj up_proj down_proj");
    pl_line(b, "1: gate_proj = self.gate_proj(hidden_states)");
    int32_t gate = pl_hf_linear(m, "gate_proj", x, inner, false);
    if (share > 0) gate = sparse(d, gate);
    pl_line(b, "activations = self.act_fn(gate_proj)");
    gate = pl_hf_activation(m, "act_fn", d->act, gate);
    pl_line(b, "up_proj = self.up_proj(hidden_states)");
    int32_t up = pl_hf_linear(m, "up_proj", x, inner, false);
    pl_line(b, "down_proj = self.down_proj(activations * up_proj)");
    int32_t y = pl_hf_linear(m, "down_proj", pl_aten_mul(b, gate, up), d->width, false);
    pl_module_leave(b);
    return y;
}

static int32_t layer_3n(gemma *g, int64_t layer, int32_t x) {
    static const char *const lines[5] = {"3: first_prediction = self.per_layer_input_gate()",
                                         "4: first_prediction = self.act_fn(first_prediction)",
                                         "5: first_prediction = torch.multiply(first_prediction)",
                                         "6: first_prediction = self.per_layer_projection()",
                                         "7: first_prediction = self.post_per_layer_input_norm()"};
    pl_decoding *d = g->d;
    pl_builder *b = d->m->b;
    pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)layer), d->layer_type);
    pl_module_children(b, "self_attn mlp input_layernorm post_attention_layernorm "
                          "pre_feedforward_layernorm post_feedforward_layernorm altup laurel "
                          "per_layer_input_gate per_layer_projection post_per_layer_input_norm");
    pl_line(b, "predictions = self.altup.predict(hidden_states)");
    int32_t predictions = predict(g, x);
    pl_line(b, "active_prediction = predictions[self.config.altup_active_idx]");
    x = pl_aten_select(b, predictions, 0, g->active);
    pl_line(b, "active_prediction_normed = self.input_layernorm(active_prediction)");
    int32_t normed = pl_decoder_norm(d, "input_layernorm", x);
    pl_line(b, "laurel_output = self.laurel(active_prediction_normed)");
    int32_t side = laurel(g, normed);
    pl_line(b, "1: attn = self.self_attn(");
    int32_t y = attention(g, layer, normed);
    pl_line(b, "2: attn = self.post_attention_layernorm(attn)");
    y = pl_decoder_norm(d, "post_attention_layernorm", y);
    pl_line(b, "attn_gated = active_prediction + attn");
    y = pl_aten_add(b, x, y);
    pl_line(b, "attn_laurel = (attn_gated + laurel_output) / math.sqrt(2)");
    x = pl_aten_scalar(b, "aten.div.Tensor", pl_aten_add(b, y, side), sqrt(2));
    pl_line(b, "attn_norm = self.pre_feedforward_layernorm(attn_laurel)");
    y = pl_decoder_norm(d, "pre_feedforward_layernorm", x);
    pl_line(b, "attn_ffw = self.mlp(attn_norm)");
    y = feed_forward_3n(d, layer, y);
    pl_line(b, "attn_ffw_norm = self.post_feedforward_layernorm(attn_ffw)");
    y = pl_decoder_norm(d, "post_feedforward_layernorm", y);
    pl_line(b, "attn_ffw_laurel_gated = attn_laurel + attn_ffw_norm");
    y = pl_aten_add(b, x, y);
    pl_line(b, "corrected_predictions = self.altup.correct(");
    int32_t corrected = correct(g, predictions, y);
    pl_line(b, "1: first_prediction = corrected_predictions[altup_active_idx].clone()");
    int32_t first = pl_aten_clone(b, pl_aten_select(b, corrected, 0, g->active));
    if (pl_hf_bool(d->m, "altup_correct_scale", true)) {
        pl_line(b, "2: first_prediction = self.altup.scale_corrected_output(first_prediction)");
        enter_altup(g);
        int32_t scale = pl_build_parameter(b, "correct_output_scale", PL_SIZES(d->width));
        int32_t y1 = pl_aten_mul(b, pl_aten_type_as(b, first, scale), scale);
        first = pl_aten_type_as(b, y1, first);
        pl_module_leave(b);
    }
    first = give_input(g, layer, first, lines);
    pl_line(b, "corrected_predictions[1:] += first_prediction");
    int32_t others = pl_aten_slice(b, corrected, 0, 1, INT64_MAX);
    others = pl_aten_binary(b, "aten.add_.Tensor", others, first);
    int32_t place = pl_aten_slice(b, corrected, 0, 1, INT64_MAX);
    pl_call(b, "aten.copy_.default");
    pl_call_tensor(b, "self", place);
    pl_call_tensor(b, "src", others);
    pl_call_result_like(b, others);
    pl_module_leave(b);
    return corrected;
}

/* mean(x x)^0.5 over the width */
static int32_t magnitude(pl_builder *b, int32_t x) {
    int32_t y = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", x, 2);
    return pl_aten_reduce(b, "aten.mean.dim", y, -1, true);
}

/* A projection of x, as large as target says. */
static int32_t stream(gemma *g, const char *name, int32_t x, int32_t target) {
    pl_decoding *d = g->d;
    pl_builder *b = d->m->b;
    pl_line(b, "altup_proj = self.altup_projections[i - 1](hidden_states_0)");
    int32_t y = pl_hf_linear(d->m, name, x, d->width, false);
    pl_line(b, "1: current_hidden_state = altup_proj.to(dtype=hidden_states_0.dtype)");
    y = pl_aten_type_as(b, y, d->embeds);
    pl_line(b, "1: new_magnitude = torch.mean(current_hidden_state**2, dim=-1, keepdim=True)");
    int32_t size = magnitude(b, y);
    pl_line(b, "2: new_magnitude = torch.sqrt(torch.maximum(new_magnitude, epsilon_tensor))");
    int32_t least = pl_aten_make(b, "aten.full.default", PL_DT_F32, 0, NULL, 1e-5);
    size = pl_aten_unary(b, "aten.sqrt.default",
                         pl_aten_binary(b, "aten.maximum.default", size, least));
    pl_line(b, "2: current_hidden_state = current_hidden_state * target_magnitude / new_magnitude");
    y = pl_aten_mul(b, y, target);
    return pl_aten_binary(b, "aten.div.Tensor", y, size);
}

enum { MOST_STREAMS = 16 };

static int32_t layers_3n(pl_decoding *d, int32_t x) {
    gemma g;
    pl_builder *b = d->m->b;
    int32_t parts[MOST_STREAMS];
    begin(&g, d);
    g.streams = pl_hf_need(d->m, "altup_num_inputs");
    g.active = pl_hf_int(d->m, "altup_active_idx", 0);
    if (g.streams > MOST_STREAMS || g.active >= g.streams)
        pl_hf_refuse(d->m, "altup_num_inputs", "expected at most %d, and above altup_active_idx",
                     MOST_STREAMS);
    if (pl_build_failed(b)) return x;
    make_inputs(&g);
    pl_line(b, "target_magnitude = torch.mean(hidden_states_0**2, dim=-1, keepdim=True) ** 0.5");
    int32_t target = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", magnitude(b, x), 0.5);
    parts[0] = x;
    for (int64_t i = 1; i < g.streams; i++)
        parts[i] =
            stream(&g, pl_build_text(b, "altup_projections.%lld", (long long)i - 1), x, target);
    pl_line(b, "hidden_states = torch.stack(temp_hidden_states, dim=0)");
    x = pl_aten_stack(b, (int)g.streams, parts, 0);
    pl_line(b, "");
    make_rotary(d, (int64_t[]){d->head_dim, d->head_dim});
    for (int64_t i = 0; i < d->layers && !pl_build_failed(b); i++) x = layer_3n(&g, i, x);
    pl_line(b, "target_magnitude = torch.mean(hidden_states[0] ** 2, dim=-1, keepdim=True) ** 0.5");
    parts[0] = pl_aten_select(b, x, 0, 0);
    target = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", magnitude(b, parts[0]), 0.5);
    for (int64_t i = 1; i < g.streams; i++)
        parts[i] = stream(&g, pl_build_text(b, "altup_unembed_projections.%lld", (long long)i - 1),
                          pl_aten_select(b, x, 0, i), target);
    pl_line(b, "hidden_states = torch.mean(torch.stack(temp_hidden_states), dim=0)");
    return pl_aten_reduce(b, "aten.mean.dim", pl_aten_stack(b, (int)g.streams, parts, 0), 0, false);
}

/* ---- rows ---- */

static const pl_mixture gemma4_mixture = {.type = "TextExperts",
                                          .experts = "num_experts",
                                          .chosen = "top_k_experts",
                                          .inner = "moe_intermediate_size"};

#define GEMMA(of, stem, run, every)                                                                \
    PL_DECODER_PLAN(.package = of, .prefix = stem, .norm = PL_NORM_POW, .eps = "rms_norm_eps",     \
                    .wiring = PL_WIRING_SANDWICH, .window = PL_WINDOW_PATTERN, .pattern = every,   \
                    .last_full = (every) == 6, .tied = true, .scaled_embedding = true,             \
                    .caps = true, .two_rotaries = true, .qkv_bias = "attention_bias",              \
                    .out_bias = "attention_bias", .mixture = &gemma4_mixture, .layers = run)

const pl_hf_family pl_hf_gemma[] = {
    {PL_DECODER_ROW("gemma3n_text", PL_DECODER_CAUSAL), GEMMA("gemma3n", "Gemma3n", layers_3n, 5)},
    {PL_DECODER_ROW("gemma3n", PL_DECODER_CAUSAL), GEMMA("gemma3n", "Gemma3n", layers_3n, 5)},
    {PL_DECODER_ROW("gemma4_text", PL_DECODER_CAUSAL), GEMMA("gemma4", "Gemma4", layers_4, 6)},
    {PL_DECODER_ROW("gemma4", PL_DECODER_CAUSAL), GEMMA("gemma4", "Gemma4", layers_4, 6)},
    {PL_DECODER_ROW("gemma4_unified_text", PL_DECODER_CAUSAL),
     GEMMA("gemma4_unified", "Gemma4Unified", layers_4, 6)},
    {PL_DECODER_ROW("gemma4_unified", PL_DECODER_CAUSAL),
     GEMMA("gemma4_unified", "Gemma4Unified", layers_4, 6)},
    {0},
};
