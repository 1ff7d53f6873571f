/* gpt_more: gpt_neox and phi (rotary positions over a part of each head, attention and MLP side by
 * side), bloom and falcon (ALiBi or rotary, attention of their own). See gpt.c.
 *
 * Rules: transformers 5.22, models/FAMILY/modeling_FAMILY.py.
 *
 * Left out: Bloom's slow_but_exact, which does not train. */
#include <math.h>

#include "import/families/gpt.h"

/* ---- gpt_neox, phi: rotary positions over a part of each head, attention and MLP side by side -
 */

void pl_gpt_read_rotary(pl_gpt *g, double usual) {
    const char *key = "rope_parameters.partial_rotary_factor|rotary_pct|partial_rotary_factor";
    double part = pl_hf_float(g->m, key, usual);
    if (!(part > 0 && part <= 1)) {
        pl_hf_refuse(g->m, key, "expected more than 0 and at most 1");
        part = 1;
    }
    g->rotary = (int64_t)((double)g->head_dim * part);
    if (g->rotary < 2 || g->rotary % 2 != 0)
        pl_hf_refuse(g->m, key, "makes %lld of %lld dimensions rotary: expected an even number",
                     (long long)g->rotary, (long long)g->head_dim);
}

static void read_neox(pl_gpt *g) {
    pl_gpt_read_rotary(g, 0.25);
    g->act = pl_hf_string(g->m, "hidden_act", "gelu");
    g->dropout = g->embed_dropout = pl_hf_float(g->m, "hidden_dropout", 0);
    g->attn_dropout = pl_hf_float(g->m, "attention_dropout", 0);
    g->bias = pl_hf_bool(g->m, "attention_bias", true);
}

static void read_phi(pl_gpt *g) {
    pl_gpt_read_rotary(g, 0.5);
    g->act = pl_hf_string(g->m, "hidden_act", "gelu_new");
    g->dropout = pl_hf_float(g->m, "resid_pdrop", 0);
    g->embed_dropout = pl_hf_float(g->m, "embd_pdrop", 0);
    g->attn_dropout = pl_hf_float(g->m, "attention_dropout", 0);
    g->kv_heads = pl_hf_int(g->m, "num_key_value_heads", g->heads);
    if (g->kv_heads < 1 || g->heads % g->kv_heads != 0) {
        pl_hf_refuse(g->m, "num_key_value_heads", "not a divisor of the %lld heads",
                     (long long)g->heads);
        g->kv_heads = g->heads;
    }
}

static int32_t embed_rotary(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    bool phi = g->is->separate;
    pl_line(b, "inputs_embeds = embed(input_ids)");
    int32_t x = pl_gpt_embedding(g, phi ? "embed_tokens" : "embed_in", g->vocab, g->hidden, ids,
                                 phi ? pl_hf_pad(g->m) : -1, &g->table);
    pl_gpt_positions(g);
    if (g->m->attn == PL_ATTN_EAGER) g->mask = pl_gpt_mask(g, x);
    pl_line(b, phi ? "inputs_embeds = embed_dropout(inputs_embeds)"
                   : "hidden_states = emb_dropout(inputs_embeds)");
    x = pl_hf_dropout(g->m, phi ? "embed_dropout" : "emb_dropout", x, g->embed_dropout);
    const char *type =
        pl_build_text(b, "transformers.models.%s.modeling_%s.%sRotaryEmbedding",
                      g->m->family->model_type, g->m->family->model_type, g->is->stem);
    pl_hf_rotary(g->m, "rotary_emb", type, g->rotary, g->positions, pl_built(b, x)->dtype, &g->cos,
                 &g->sin);
    return x;
}

void pl_gpt_turn(pl_gpt *g, int32_t *q, int32_t *k, const char *line, const char *const join[2]) {
    pl_builder *b = g->b;
    int32_t *both[2] = {q, k}, rot[2], pass[2];
    pl_line(b, join ? "" : line);
    for (int i = 0; i < 2; i++) {
        rot[i] = pl_aten_slice(b, *both[i], 3, 0, g->rotary);
        pass[i] = pl_aten_slice(b, *both[i], 3, g->rotary, INT64_MAX);
    }
    pl_line(b, line);
    int32_t cos = pl_aten_unsqueeze(b, g->cos, 1);
    int32_t sin = pl_aten_unsqueeze(b, g->sin, 1);
    for (int i = 0; i < 2; i++) rot[i] = pl_hf_rotate(g->m, rot[i], cos, sin);
    for (int i = 0; i < 2; i++) {
        if (join) pl_line(b, join[i]);
        *both[i] = pl_aten_cat(b, 2, (int32_t[]){rot[i], pass[i]}, -1);
    }
}

static int32_t attention_neox(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    int32_t qkv[3];
    pl_gpt_enter(g, "attention", "Attention");
    pl_module_children(b, "query_key_value dense");
    pl_line(b, "qkv = query_key_value(hidden_states).view().transpose(1, 2)");
    x = pl_hf_linear(g->m, "query_key_value", x, 3 * g->hidden, g->bias);
    x = pl_gpt_heads(g, x, g->heads); /* [batch, heads, seq, 3 * head_dim] */
    pl_line(b, "query_states, key_states, value_states = qkv.chunk(3, dim=-1)");
    pl_aten_chunk(b, x, 3, -1, qkv);
    pl_gpt_turn(g, &qkv[0], &qkv[1], "query_states, key_states = apply_rotary_pos_emb()", NULL);
    x = pl_gpt_attend(g, qkv[0], qkv[1], qkv[2], g->scale, true);
    pl_line(b, "attn_output = dense(attn_output)");
    x = pl_hf_linear(g->m, "dense", x, g->hidden, g->bias);
    pl_module_leave(b);
    return x;
}

static int32_t block_neox(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    pl_module_children(b, "input_layernorm post_attention_layernorm post_attention_dropout "
                          "post_mlp_dropout attention mlp");
    bool parallel = pl_hf_bool(g->m, "use_parallel_residual", true);
    pl_line(b, "attn_output, _ = attention(input_layernorm(hidden_states))");
    int32_t y = pl_hf_layer_norm(g->m, "input_layernorm", x, g->eps, true);
    y = attention_neox(g, y);
    pl_line(b, "attn_output = post_attention_dropout(attn_output)");
    y = pl_hf_dropout(g->m, "post_attention_dropout", y, g->dropout);
    if (!parallel) {
        pl_line(b, "attn_output = attn_output + hidden_states");
        y = pl_aten_add(b, y, x);
    }
    pl_line(b, "mlp_output = mlp(post_attention_layernorm())");
    int32_t z = pl_hf_layer_norm(g->m, "post_attention_layernorm", parallel ? x : y, g->eps, true);
    pl_gpt_enter(g, "mlp", "MLP");
    pl_module_children(b, "dense_h_to_4h dense_4h_to_h act");
    z = pl_gpt_mlp(g, z, "dense_h_to_4h", "act", "dense_4h_to_h");
    pl_module_leave(b);
    pl_line(b, "mlp_output = post_mlp_dropout(mlp_output)");
    z = pl_hf_dropout(g->m, "post_mlp_dropout", z, g->dropout);
    pl_line(b, "hidden_states = mlp_output + attn_output + hidden_states");
    z = pl_aten_add(b, z, y);
    return parallel ? pl_aten_add(b, z, x) : z;
}

static int32_t attention_phi(pl_gpt *g, int32_t x) {
    static const char *const join[2] = {"query_states = cat((query_rot, query_pass), dim=-1)",
                                        "key_states = cat((key_rot, key_pass), dim=-1)"};
    static const char *const names[3] = {"q_proj", "k_proj", "v_proj"};
    static const char *const lines[3] = {"query_states = q_proj(hidden_states)",
                                         "key_states = k_proj(hidden_states)",
                                         "value_states = v_proj(hidden_states)"};
    pl_builder *b = g->b;
    int32_t qkv[3];
    pl_gpt_enter(g, "self_attn", "Attention");
    pl_module_children(b, "q_proj k_proj v_proj dense q_layernorm k_layernorm");
    for (int i = 0; i < 3; i++) {
        int64_t heads = i ? g->kv_heads : g->heads;
        pl_line(b, lines[i]);
        qkv[i] = pl_hf_linear(g->m, names[i], x, heads * g->head_dim, true);
        qkv[i] = pl_gpt_heads(g, qkv[i], heads);
    }
    if (pl_hf_bool(g->m, "qk_layernorm", false)) {
        pl_line(b, "query_states = q_layernorm(query_states)");
        qkv[0] = pl_hf_layer_norm(g->m, "q_layernorm", qkv[0], g->eps, true);
        pl_line(b, "key_states = k_layernorm(key_states)");
        qkv[1] = pl_hf_layer_norm(g->m, "k_layernorm", qkv[1], g->eps, true);
    }
    pl_gpt_turn(g, &qkv[0], &qkv[1], "query_rot, key_rot = apply_rotary_pos_emb()", join);
    x = pl_gpt_attend(g, qkv[0], qkv[1], qkv[2], g->scale, true);
    pl_line(b, "attn_output = dense(attn_output)");
    x = pl_hf_linear(g->m, "dense", x, g->hidden, true);
    pl_module_leave(b);
    return x;
}

static int32_t block_phi(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    pl_module_children(b, "self_attn mlp input_layernorm resid_dropout");
    pl_line(b, "hidden_states = input_layernorm(hidden_states)");
    int32_t y = pl_hf_layer_norm(g->m, "input_layernorm", x, g->eps, true);
    int32_t z = attention_phi(g, y);
    pl_line(b, "attn_outputs = resid_dropout(attn_outputs)");
    z = pl_hf_dropout(g->m, "resid_dropout", z, g->dropout);
    pl_line(b, "feed_forward_hidden_states = resid_dropout(mlp(hidden_states))");
    pl_gpt_enter(g, "mlp", "MLP");
    pl_module_children(b, "activation_fn fc1 fc2");
    y = pl_gpt_mlp(g, y, "fc1", "activation_fn", "fc2");
    pl_module_leave(b);
    y = pl_hf_dropout(g->m, "resid_dropout", y, g->dropout);
    pl_line(b, "hidden_states = attn_outputs + feed_forward_hidden_states + residual");
    return pl_aten_add(b, pl_aten_add(b, z, y), x);
}

const pl_gpt_layout pl_gpt_neox = {
    .names = &pl_gpt_long,
    .stem = "GPTNeoX",
    .causal = "ForCausalLM",
    .base = "gpt_neox",
    .children = "embed_in emb_dropout layers final_layer_norm rotary_emb",
    .blocks = "layers",
    .block = "Layer",
    .norm = "final_layer_norm",
    .tokens = "classifier",
    .classifier_dropout = 0.1,
    .read = read_neox,
    .embed = embed_rotary,
    .run = block_neox,
    .last = pl_gpt_last,
};

const pl_gpt_layout pl_gpt_phi = {
    .names = &pl_gpt_long,
    .stem = "Phi",
    .causal = "ForCausalLM",
    .base = "model",
    .children = "embed_tokens layers rotary_emb embed_dropout final_layernorm",
    .blocks = "layers",
    .block = "DecoderLayer",
    .norm = "final_layernorm",
    .tokens = "score",
    .head_bias = true,
    .separate = true,
    .classifier_dropout = 0.1,
    .read = read_phi,
    .embed = embed_rotary,
    .run = block_phi,
    .last = pl_gpt_last,
};

/* ---- ALiBi ---- */

/* One slope per head, float32 [heads]: a power for each, and more of them where the heads are no
 * power of two. */
static int32_t slopes(pl_gpt *g) {
    pl_builder *b = g->b;
    int64_t power = 1;
    while (power * 2 <= g->heads) power *= 2;
    int32_t base = pl_aten_make(b, "aten.full.default", PL_DT_F32, 0, NULL, 0.5);
    int32_t x = pl_aten_arange(b, power);
    x = pl_aten_binary(b, "aten.pow.Tensor_Tensor", base, x);
    if (power == g->heads) return x;
    base = pl_aten_make(b, "aten.full.default", PL_DT_F32, 0, NULL, 0.5);
    int32_t more = pl_aten_arange(b, g->heads - power);
    more = pl_aten_binary(b, "aten.pow.Tensor_Tensor", base, more);
    return pl_aten_cat(b, 2, (int32_t[]){x, more}, 0);
}

/* ---- bloom: attention in plain products with ALiBi as their bias, whatever is asked for ---- */

static void read_bloom(pl_gpt *g) {
    g->dropout = pl_hf_float(g->m, "hidden_dropout", 0);
    g->attn_dropout = pl_hf_float(g->m, "attention_dropout", 0);
    g->inner = 4 * g->hidden;
}

static int32_t embed_bloom(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    pl_line(b, "inputs_embeds = word_embeddings(input_ids)");
    int32_t x = pl_gpt_embedding(g, "word_embeddings", g->vocab, g->hidden, ids, -1, &g->table);
    pl_line(b, "hidden_states = word_embeddings_layernorm(inputs_embeds)");
    x = pl_hf_layer_norm(g->m, "word_embeddings_layernorm", x, g->eps, true);
    pl_line(b, "slopes = _get_alibi_slopes()");
    int32_t s = slopes(g);
    pl_line(b, "alibi = slopes * arange");
    s = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, s, 1), 2);
    s = pl_aten_mul(b, s, pl_aten_arange(b, g->seq)); /* [heads, 1, seq] */
    pl_line(b, "alibi = alibi.repeat(batch_size, 1, 1)");
    s = pl_aten_repeat(b, s, PL_SIZES(g->batch, 1, 1));
    g->alibi = pl_aten_type_as(g->b, s, x);
    g->mask = pl_gpt_mask(g, x);
    return x;
}

static int32_t attention_bloom(pl_gpt *g, int32_t x, int32_t residual) {
    static const char *const lines[3] = {"query_layer = query_layer.reshape()",
                                         "key_layer = key_layer.reshape().transpose(-1, -2)",
                                         "value_layer = value_layer.reshape()"};
    pl_builder *b = g->b;
    int64_t all = g->batch * g->heads, d = g->head_dim;
    int32_t qkv[3];
    pl_gpt_enter(g, "self_attention", "Attention");
    pl_module_children(b, "query_key_value dense attention_dropout");
    pl_line(b, "fused_qkv = query_key_value(hidden_states)");
    x = pl_hf_linear(g->m, "query_key_value", x, 3 * g->hidden, true);
    pl_line(b, "query_layer, key_layer, value_layer = _reshape(fused_qkv)");
    x = pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, g->heads, 3, d));
    for (int i = 0; i < 3; i++) qkv[i] = pl_aten_transpose(b, pl_aten_select(b, x, 3, i), 1, 2);
    for (int i = 0; i < 3; i++) {
        pl_line(b, lines[i]);
        qkv[i] = pl_aten_reshape(b, qkv[i], PL_SIZES(all, -1, d));
        if (i == 1) qkv[i] = pl_aten_transpose(b, qkv[i], -1, -2);
    }
    pl_line(b, "attention_scores = alibi.baddbmm()");
    x = pl_aten_baddbmm(b, g->alibi, qkv[0], qkv[1], 1, g->scale);
    pl_line(b, "attn_weights = attention_scores.view()");
    x = pl_aten_view(b, x, PL_SIZES(g->batch, g->heads, g->seq, -1));
    pl_line(b, "attn_weights = attn_weights + attention_mask");
    x = pl_aten_add(b, x, g->mask);
    pl_line(b, "attention_probs = softmax(attn_weights).to(query_layer.dtype)");
    x = pl_aten_type_as(g->b, pl_aten_softmax(b, x, -1, PL_DT_F32), qkv[0]);
    pl_line(b, "attention_probs = attention_dropout(attention_probs)");
    x = pl_hf_dropout(g->m, "attention_dropout", x, g->attn_dropout);
    pl_line(b, "attention_probs_reshaped = attention_probs.view()");
    x = pl_aten_view(b, x, PL_SIZES(all, g->seq, -1));
    pl_line(b, "context_layer = bmm(attention_probs_reshaped, value_layer)");
    x = pl_aten_bmm(b, x, qkv[2]);
    pl_line(b, "context_layer = _merge_heads(context_layer)");
    x = pl_aten_view(b, x, PL_SIZES(g->batch, g->heads, g->seq, d));
    x = pl_aten_permute(b, x, PL_SIZES(0, 2, 1, 3));
    x = pl_aten_reshape(b, x, PL_SIZES(g->batch, g->seq, g->hidden));
    pl_line(b, "output_tensor = dense(context_layer)");
    x = pl_hf_linear(g->m, "dense", x, g->hidden, true);
    pl_line(b, "output_tensor = dropout_add(output_tensor, residual)");
    x = pl_aten_add(b, residual, pl_aten_dropout(b, x, g->dropout));
    pl_module_leave(b);
    return x;
}

static int32_t block_bloom(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    bool post = pl_hf_bool(g->m, "apply_residual_connection_post_layernorm", false);
    pl_module_children(b, "input_layernorm self_attention post_attention_layernorm mlp");
    pl_line(b, "layernorm_output = input_layernorm(hidden_states)");
    int32_t y = pl_hf_layer_norm(g->m, "input_layernorm", x, g->eps, true);
    x = attention_bloom(g, y, post ? y : x);
    pl_line(b, "layernorm_output = post_attention_layernorm(attention_output)");
    y = pl_hf_layer_norm(g->m, "post_attention_layernorm", x, g->eps, true);
    int32_t residual = post ? y : x;
    pl_gpt_enter(g, "mlp", "MLP");
    pl_module_children(b, "dense_h_to_4h gelu_impl dense_4h_to_h");
    pl_line(b, "hidden_states = gelu_impl(dense_h_to_4h(hidden_states))");
    y = pl_hf_linear(g->m, "dense_h_to_4h", y, g->inner, true);
    pl_gpt_enter(g, "gelu_impl", "Gelu"); /* an autograd function that saves its input */
    y = pl_aten_unary(b, "transformers.bloom_gelu.default", y);
    pl_module_leave(b);
    pl_line(b, "intermediate_output = dense_4h_to_h(hidden_states)");
    y = pl_hf_linear(g->m, "dense_4h_to_h", y, g->hidden, true);
    pl_line(b, "output = dropout_add(intermediate_output, residual)");
    y = pl_aten_add(b, residual, pl_aten_dropout(b, y, g->dropout));
    pl_module_leave(b);
    return y;
}

static const pl_gpt_names bloom_names = {
    "hidden_size|n_embed|n_embd", "n_layer|num_hidden_layers|num_layers",
    "n_head|num_attention_heads|num_heads", "n_inner|intermediate_size"};

const pl_gpt_layout pl_gpt_bloom = {
    .names = &bloom_names,
    .stem = "Bloom",
    .causal = "ForCausalLM",
    .base = "transformer",
    .children = "word_embeddings word_embeddings_layernorm h ln_f",
    .blocks = "h",
    .block = "Block",
    .norm = "ln_f",
    .tokens = "classifier",
    .tied = true,
    .read = read_bloom,
    .embed = embed_bloom,
    .run = block_bloom,
    .last = pl_gpt_last,
};

/* ---- falcon: one key and value for all heads, or a few; its mask is always made ---- */

static bool falcon_new(pl_gpt *g) {
    return pl_hf_bool(g->m, "new_decoder_architecture", false);
}

static void read_falcon(pl_gpt *g) {
    pl_hf *m = g->m;
    g->dropout = pl_hf_float(m, "hidden_dropout", 0);
    g->attn_dropout = pl_hf_float(m, "attention_dropout", 0);
    g->bias = pl_hf_bool(m, "bias", false);
    g->act = pl_hf_string(m, "activation", "gelu");
    g->rotary = g->head_dim;
    if (g->head_dim % 2 != 0)
        pl_hf_refuse(m, "num_attention_heads|n_head",
                     "makes heads of %lld: expected an even number", (long long)g->head_dim);
    bool multi = pl_hf_bool(m, "multi_query", true);
    g->kv_heads = multi && !falcon_new(g) ? 1 : pl_hf_int(m, "num_kv_heads|n_head_kv", g->heads);
    if (!multi && !falcon_new(g)) g->kv_heads = g->heads;
    if (g->kv_heads < 1 || g->heads % g->kv_heads != 0) {
        pl_hf_refuse(m, "num_kv_heads|n_head_kv", "not a divisor of the %lld heads",
                     (long long)g->heads);
        g->kv_heads = g->heads;
    }
}

/* ALiBi of falcon: positions by the sum of a mask of ones, in bfloat16, joined to the causal mask:
 * [batch, heads, seq, seq]. */
static void falcon_alibi(pl_gpt *g, int32_t like) {
    pl_builder *b = g->b;
    pl_line(b, "mask = ones()");
    int32_t ones = pl_aten_make(b, "aten.ones.default", PL_DT_I64, PL_SIZES(g->batch, g->seq), 1);
    pl_line(b, "alibi = build_alibi_tensor(mask)");
    int32_t s = slopes(g);
    int32_t at = pl_aten_scalar(b, "aten.sub.Tensor", pl_aten_cumsum(b, ones, -1), 1);
    at = pl_aten_unsqueeze(b, pl_aten_mul(b, at, ones), 1);
    s = pl_aten_to(b, pl_aten_unsqueeze(b, s, 1), PL_DT_BF16);
    s = pl_aten_mul(b, s, at);
    s = pl_aten_type_as(g->b, pl_aten_reshape(b, s, PL_SIZES(-1, 1, g->seq)), like);
    pl_gpt_positions(g);
    int32_t mask = pl_gpt_mask(g, like);
    pl_line(b, "alibi = alibi.reshape()");
    s = pl_aten_reshape(b, s, PL_SIZES(g->batch, -1, 1, g->seq));
    pl_line(b, "causal_mask = masked_fill(alibi / sqrt(), causal_mask < -1)");
    s = pl_aten_scalar(b, "aten.div.Tensor", s, sqrt((double)g->head_dim));
    mask = pl_aten_scalar(b, "aten.lt.Scalar", mask, -1);
    g->alibi = g->mask = pl_aten_masked_fill(b, s, mask, -3.4028234663852886e+38);
}

static int32_t embed_falcon(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    pl_line(b, "inputs_embeds = word_embeddings(input_ids)");
    int32_t x = pl_gpt_embedding(g, "word_embeddings", g->vocab, g->hidden, ids, -1, &g->table);
    pl_dtype dtype = pl_built(b, x)->dtype;
    if (pl_hf_bool(g->m, "alibi", false)) {
        falcon_alibi(g, x);
    } else {
        pl_gpt_positions(g);
        if (g->m->attn != PL_ATTN_FLASH2)
            g->mask = pl_gpt_mask(g, g->m->attn == PL_ATTN_EAGER ? x : PL_NONE);
    }
    pl_hf_rotary(g->m, "rotary_emb",
                 "transformers.models.falcon.modeling_falcon.FalconRotaryEmbedding", g->rotary,
                 g->positions, dtype, &g->cos, &g->sin);
    return x;
}

/* FalconLinear: a product and a sum, not fused. */
static int32_t linear_falcon(pl_gpt *g, const char *name, int32_t x, int64_t out) {
    pl_builder *b = g->b;
    int64_t in = pl_built_size(b, x, -1);
    pl_gpt_enter(g, name, "Linear");
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(out, in));
    int32_t bias = g->bias ? pl_build_parameter(b, "bias", PL_SIZES(out)) : PL_NONE;
    pl_line(b, "hidden_states = input @ weight.T");
    pl_call(b, "aten.numpy_T.default");
    pl_call_tensor(b, "self", weight);
    weight = pl_call_result(b, pl_built(b, x)->dtype, PL_SIZES(in, out));
    x = pl_aten_matmul(b, x, weight);
    pl_line(b, "return hidden_states + bias");
    if (g->bias) x = pl_aten_add(b, x, bias);
    pl_module_leave(b);
    return x;
}

/* x[.., [i], :] of the dimension before the last: a list as an index copies. */
static int32_t pick(pl_gpt *g, int32_t x) {
    int32_t indices[4] = {PL_NONE, PL_NONE, PL_NONE, PL_NONE};
    int count = pl_built_dims(g->b, x) - 1;
    if (count < 1 || count > 4) return x;
    indices[count - 1] = pl_aten_arange(g->b, 1);
    return pl_aten_index(g->b, x, count, indices);
}

/* [batch, seq, n] into queries, keys and values [batch, seq, heads, d]. */
static void split_falcon(pl_gpt *g, int32_t x, int32_t qkv[3]) {
    pl_builder *b = g->b;
    int64_t d = g->head_dim, group = g->heads / g->kv_heads;
    pl_line(b, "(query_layer, key_layer, value_layer) = _split_heads(fused_qkv)");
    if (falcon_new(g)) {
        x = pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, -1, group + 2, d));
        qkv[0] = pl_aten_slice(b, x, 3, 0, group);
        qkv[1] = pick(g, x);
        qkv[2] = pick(g, x);
        for (int i = 1; i < 3; i++)
            qkv[i] = pl_aten_expand(b, qkv[i], PL_SIZES(g->batch, g->seq, g->kv_heads, group, d));
        for (int i = 0; i < 3; i++) qkv[i] = pl_aten_flatten(b, qkv[i], 2, 3);
    } else if (g->kv_heads == 1) {
        x = pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, g->heads + 2, d));
        qkv[0] = pl_aten_slice(b, x, 2, 0, g->heads);
        qkv[1] = pick(g, x);
        qkv[2] = pick(g, x);
    } else {
        x = pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, g->heads, 3, d));
        for (int i = 0; i < 3; i++) qkv[i] = pl_aten_select(b, x, 3, i);
    }
}

/* Attention in plain products: [batch, heads, seq, d]. */
static int32_t plain_falcon(pl_gpt *g, const int32_t qkv[3], int32_t hidden) {
    pl_builder *b = g->b;
    pl_line(b, "attention_scores = query_layer @ key_layer");
    int32_t x = pl_aten_matmul(b, qkv[0], pl_aten_transpose(b, qkv[1], -1, -2));
    if (g->alibi < 0) {
        pl_line(b, "attention_scores /= sqrt()");
        x = pl_aten_scalar(b, "aten.div_.Tensor", x, 1 / g->scale);
        pl_line(b, "attention_scores = softmax(attention_scores + attention_mask)");
        x = pl_aten_type_as(g->b, pl_aten_add(b, x, g->mask), hidden);
        x = pl_aten_softmax(b, x, -1, PL_DT_UNKNOWN);
        pl_line(b, "attn_output = attention_scores @ value_layer");
        return pl_aten_matmul(b, x, qkv[2]);
    }
    pl_line(b, "attention_scores = attention_scores.to()");
    x = pl_aten_to(b, x, PL_DT_F32);
    pl_line(b, "attention_logits = attention_scores + alibi");
    int32_t row = pl_aten_slice(b, g->alibi, 2, 0, 1); /* [batch, heads, 1, seq] */
    x = pl_aten_scalar(b, "aten.mul_.Tensor", pl_aten_add(b, x, row), g->scale);
    pl_line(b, "attention_probs = softmax(attention_logits + attention_mask)");
    x = pl_aten_type_as(g->b, pl_aten_add(b, x, g->mask), hidden);
    x = pl_aten_softmax(b, x, -1, PL_DT_UNKNOWN);
    pl_line(b, "attention_probs = attention_dropout(attention_probs)");
    x = pl_hf_dropout(g->m, "attention_dropout", x, g->attn_dropout);
    pl_line(b, "attn_output = attention_probs @ value_layer");
    return pl_aten_matmul(b, x, qkv[2]);
}

static int32_t attention_falcon(pl_gpt *g, int32_t x) {
    static const char *const lines[3] = {"query_layer = query_layer.transpose(1, 2).reshape()",
                                         "key_layer = key_layer.transpose(1, 2).reshape()",
                                         "value_layer = value_layer.transpose(1, 2).reshape()"};
    pl_builder *b = g->b;
    int64_t kv = falcon_new(g) ? g->heads : g->kv_heads;
    int32_t qkv[3], hidden = x;
    pl_gpt_enter(g, "self_attention", "Attention");
    pl_module_children(b, "query_key_value dense attention_dropout");
    x = linear_falcon(g, "query_key_value", x, g->hidden + 2 * g->kv_heads * g->head_dim);
    split_falcon(g, x, qkv);
    for (int i = 0; i < 3; i++) {
        pl_line(b, lines[i]);
        qkv[i] = pl_aten_transpose(b, qkv[i], 1, 2);
        qkv[i] = pl_aten_reshape(b, qkv[i], PL_SIZES(g->batch, i ? kv : g->heads, g->seq, -1));
    }
    if (g->alibi < 0) {
        pl_line(b, "query_layer, key_layer = apply_rotary_pos_emb()");
        int32_t cos = pl_aten_unsqueeze(b, g->cos, 1);
        int32_t sin = pl_aten_unsqueeze(b, g->sin, 1);
        qkv[0] = pl_hf_rotate(g->m, qkv[0], cos, sin);
        qkv[1] = pl_hf_rotate(g->m, qkv[1], cos, sin);
    }
    if (g->m->attn == PL_ATTN_EAGER) {
        x = plain_falcon(g, qkv, hidden);
    } else {
        pl_line(b, "attn_output = scaled_dot_product_attention()");
        bool grouped = g->m->attn == PL_ATTN_FLASH2 && kv != g->heads;
        x = pl_aten_attention(b, qkv[0], qkv[1], qkv[2], g->mask,
                              g->alibi < 0 ? 0 : g->attn_dropout, g->mask < 0 && g->seq > 1, NAN,
                              grouped);
    }
    pl_line(b, "attn_output = attn_output.permute(0, 2, 1, 3)");
    x = pl_aten_permute(b, x, PL_SIZES(0, 2, 1, 3));
    pl_line(b, "attn_output = attn_output.reshape()");
    x = pl_aten_reshape(b, x, PL_SIZES(g->batch, g->seq, g->hidden));
    x = linear_falcon(g, "dense", x, g->hidden);
    pl_module_leave(b);
    return x;
}

static int32_t block_falcon(pl_gpt *g, int32_t x) {
    pl_hf *m = g->m;
    pl_builder *b = g->b;
    bool parallel = pl_hf_bool(m, "parallel_attn", true), newer = falcon_new(g);
    bool two = parallel && pl_hf_int(m, "num_ln_in_parallel_attn", newer ? 2 : 1) == 2;
    pl_module_children(b, "self_attention mlp post_attention_layernorm input_layernorm ln_attn "
                          "ln_mlp");
    pl_line(b, "attention_layernorm_out = norm(hidden_states)");
    int32_t y = pl_hf_layer_norm(m, two ? "ln_attn" : "input_layernorm", x, g->eps, true), z = y;
    if (two) {
        pl_line(b, "mlp_layernorm_out = ln_mlp(hidden_states)");
        z = pl_hf_layer_norm(m, "ln_mlp", x, g->eps, true);
    }
    y = attention_falcon(g, y);
    if (!parallel && !newer) {
        pl_line(b, "residual = dropout_add(attention_output, residual)");
        x = pl_aten_add(b, x, pl_aten_dropout(b, y, g->attn_dropout));
        pl_line(b, "mlp_layernorm_out = post_attention_layernorm(residual)");
        z = pl_hf_layer_norm(m, "post_attention_layernorm", x, g->eps, true);
    }
    pl_gpt_enter(g, "mlp", "MLP");
    pl_module_children(b, "dense_h_to_4h act dense_4h_to_h");
    z = linear_falcon(g, "dense_h_to_4h", z, g->inner);
    pl_line(b, "x = act(x)");
    z = pl_hf_activation(m, "act", g->act, z);
    z = linear_falcon(g, "dense_4h_to_h", z, g->hidden);
    pl_module_leave(b);
    if (parallel || newer) {
        pl_line(b, "mlp_output += attention_output");
        z = pl_aten_binary(b, "aten.add_.Tensor", z, y);
    }
    pl_line(b, "output = dropout_add(mlp_output, residual)");
    return pl_aten_add(b, x, pl_aten_dropout(b, z, g->dropout));
}

const pl_gpt_layout pl_gpt_falcon = {
    .names = &pl_gpt_long,
    .stem = "Falcon",
    .causal = "ForCausalLM",
    .base = "transformer",
    .children = "word_embeddings h ln_f rotary_emb",
    .blocks = "h",
    .block = "DecoderLayer",
    .norm = "ln_f",
    .tokens = "classifier",
    .tied = true,
    .read = read_falcon,
    .embed = embed_falcon,
    .run = block_falcon,
    .last = pl_gpt_last,
};
