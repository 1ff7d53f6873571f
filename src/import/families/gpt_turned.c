/* gpt_turned: decoders with rotary positions and one product for queries, keys and values:
 * gpt_neox_japanese (scores by baddbmm), persimmon. See gpt.c, gpt_more.c.
 *
 * Rules: transformers 5.22, models/FAMILY/modeling_FAMILY.py. */
#include "import/families/gpt.h"

static int32_t embed(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    bool persimmon = g->is->separate;
    pl_line(b, "inputs_embeds = embed(input_ids)");
    int32_t x = pl_gpt_embedding(g, persimmon ? "embed_tokens" : "embed_in", g->vocab, g->hidden,
                                 ids, persimmon ? pl_hf_pad(g->m) : -1, &g->table);
    pl_gpt_positions(g);
    if (g->m->attn == PL_ATTN_EAGER) g->mask = pl_gpt_mask(g, x);
    const char *type =
        pl_build_text(b, "transformers.models.%s.modeling_%s.%sRotaryEmbedding",
                      g->m->family->model_type, g->m->family->model_type, g->is->stem);
    pl_hf_rotary(g->m, "rotary_emb", type, g->rotary, g->positions, pl_built(b, x)->dtype, &g->cos,
                 &g->sin);
    return x;
}

static int32_t plain_mlp(pl_gpt *g, int32_t x, bool bias) {
    pl_builder *b = g->b;
    pl_gpt_enter(g, "mlp", "MLP");
    pl_module_children(b, "dense_h_to_4h dense_4h_to_h act");
    pl_line(b, "hidden_states = self.dense_h_to_4h(hidden_states)");
    x = pl_hf_linear(g->m, "dense_h_to_4h", x, g->inner, bias);
    pl_line(b, bias ? "hidden_states = self.act(hidden_states)"
                    : "intermediate = self.act(intermediate)");
    x = pl_hf_activation(g->m, "act", g->act, x);
    pl_line(b, bias ? "hidden_states = self.dense_4h_to_h(hidden_states)"
                    : "output = self.dense_4h_to_h(intermediate)");
    x = pl_hf_linear(g->m, "dense_4h_to_h", x, g->hidden, bias);
    pl_module_leave(b);
    return x;
}

/* ---- gpt_neox_japanese ---- */

static void read_japanese(pl_gpt *g) {
    g->m->attn = PL_ATTN_EAGER;
    pl_gpt_read_rotary(g, 1);
    g->act = pl_hf_string(g->m, "hidden_act", "gelu");
    g->dropout = pl_hf_float(g->m, "hidden_dropout", 0);
    g->attn_dropout = pl_hf_float(g->m, "attention_dropout", 0.1);
    g->inner = g->hidden * pl_hf_int(g->m, "intermediate_multiple_size", 4);
}

static int32_t attention_japanese(pl_gpt *g, int32_t x, int32_t *bias) {
    static const char *const join[2] = {"query = torch.cat((query, query_pass), dim=-1)",
                                        "key = torch.cat((key, key_pass), dim=-1)"};
    pl_builder *b = g->b;
    int64_t all = g->batch * g->heads, d = g->head_dim;
    int32_t qkv[3];
    pl_gpt_enter(g, "attention", "Attention");
    pl_module_children(b, "attention_dropout query_key_value dense");
    *bias = g->layer + 1 == g->layers ? pl_build_parameter(b, "dense_bias", PL_SIZES(g->hidden))
                                      : PL_NONE;
    pl_line(b, "qkv = self.query_key_value(hidden_states).view()");
    x = pl_hf_linear(g->m, "query_key_value", x, 3 * g->hidden, false);
    x = pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, g->heads, 3 * d));
    static const char *const parts[3] = {"query = qkv[..., : self.head_size]",
                                         "key = qkv[..., self.head_size : 2 * self.head_size]",
                                         "value = qkv[..., 2 * self.head_size :]"};
    for (int i = 0; i < 3; i++) {
        pl_line(b, parts[i]);
        qkv[i] = pl_aten_slice(b, x, 3, i * d, (i + 1) * d);
        qkv[i] = pl_aten_permute(b, qkv[i], PL_SIZES(0, 2, 1, 3));
    }
    pl_gpt_turn(g, &qkv[0], &qkv[1], "query, key = apply_rotary_pos_emb()", join);
    pl_line(b, "attn_scores = torch.zeros(");
    int32_t w = pl_aten_make(b, "aten.zeros.default", pl_built(b, qkv[0])->dtype,
                             PL_SIZES(all, g->seq, g->seq), 0);
    int32_t q = pl_aten_view(b, qkv[0], PL_SIZES(all, g->seq, d));
    int32_t k = pl_aten_view(b, qkv[1], PL_SIZES(all, g->seq, d));
    pl_line(b, "attention_scores = torch.baddbmm(");
    w = pl_aten_baddbmm(b, w, q, pl_aten_transpose(b, k, 1, 2), 1, g->scale);
    w = pl_aten_view(b, w, PL_SIZES(g->batch, g->heads, g->seq, g->seq));
    pl_line(b, "attention_scores = attention_scores + attention_mask");
    w = pl_aten_add(b, w, g->mask);
    pl_line(b, "attn_weights = softmax(attention_scores, dim=-1)");
    w = pl_aten_softmax(b, w, -1, PL_DT_UNKNOWN);
    pl_line(b, "attn_weights = self.attention_dropout(attn_weights)");
    w = pl_hf_dropout(g->m, "attention_dropout", w, g->attn_dropout);
    pl_line(b, "attn_weights = attn_weights.to(value.dtype)");
    w = pl_aten_type_as(b, w, qkv[2]);
    pl_line(b, "attn_output = torch.matmul(attn_weights, value)");
    x = pl_aten_matmul(b, w, qkv[2]);
    pl_line(b, "attn_output = self._merge_heads(attn_output)");
    x = pl_aten_contiguous(b, pl_aten_permute(b, x, PL_SIZES(0, 2, 1, 3)));
    x = pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, g->hidden));
    pl_line(b, "attn_output = self.dense(attn_output)");
    x = pl_hf_linear(g->m, "dense", x, g->hidden, false);
    pl_module_leave(b);
    return x;
}

static int32_t block_japanese(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    int32_t bias;
    pl_module_children(b, "input_layernorm post_attention_layernorm attention mlp");
    pl_line(b, "ln_out = self.input_layernorm(hidden_states)");
    int32_t y = pl_hf_layer_norm(g->m, "input_layernorm", x, g->eps, true);
    pl_line(b, "attn_output, attn_weights, attn_bias = self.attention(");
    y = attention_japanese(g, y, &bias);
    pl_line(b, "attn_output = bias_dropout_add(");
    if (bias != PL_NONE)
        y = pl_aten_add(b, y, pl_aten_expand(b, bias, PL_SIZES(g->batch, g->seq, g->hidden)));
    x = pl_aten_add(b, x, pl_aten_dropout(b, y, g->dropout));
    pl_line(b, "mlp_output = self.mlp(self.post_attention_layernorm(attn_output))");
    y = pl_hf_layer_norm(g->m, "post_attention_layernorm", x, g->eps, true);
    y = plain_mlp(g, y, false);
    pl_line(b, "attn_output = bias_dropout_add(mlp_output)");
    return pl_aten_add(b, x, pl_aten_dropout(b, y, g->dropout));
}

const pl_gpt_layout pl_gpt_japanese = {
    .names = &pl_gpt_long,
    .stem = "GPTNeoXJapanese",
    .causal = "ForCausalLM",
    .base = "gpt_neox_japanese",
    .children = "embed_in layers final_layer_norm rotary_emb",
    .blocks = "layers",
    .block = "Layer",
    .norm = "final_layer_norm",
    .tokens = "classifier",
    .tied = true,
    .read = read_japanese,
    .embed = embed,
    .run = block_japanese,
    .last = pl_gpt_last,
};

/* ---- persimmon ---- */

static void read_persimmon(pl_gpt *g) {
    pl_gpt_read_rotary(g, 0.5);
    g->act = pl_hf_string(g->m, "hidden_act", "relu2");
    g->dropout = pl_hf_float(g->m, "hidden_dropout", 0);
    g->attn_dropout = pl_hf_float(g->m, "attention_dropout", 0);
}

static int32_t attention_persimmon(pl_gpt *g, int32_t x) {
    static const char *const join[2] = {"query_states = torch.cat((query_rot, query_pass), dim=-1)",
                                        "key_states = torch.cat((key_rot, key_pass), dim=-1)"};
    static const char *const norms[2] = {"q_layernorm", "k_layernorm"};
    static const char *const parts[3] = {"query_states = query_states.transpose(1, 2)",
                                         "key_states = key_states.transpose(1, 2)",
                                         "value_states = value_states.transpose(1, 2)"};
    pl_builder *b = g->b;
    int32_t qkv[3];
    pl_gpt_enter(g, "self_attn", "Attention");
    pl_module_children(b, "query_key_value dense q_layernorm k_layernorm");
    pl_line(b, "fused_qkv = self.query_key_value(hidden_states)");
    x = pl_hf_linear(g->m, "query_key_value", x, 3 * g->hidden, true);
    pl_line(b, "query_states, key_states, value_states = self._split_heads(fused_qkv)");
    x = pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, g->heads, 3, g->head_dim));
    for (int i = 0; i < 3; i++) qkv[i] = pl_aten_select(b, x, 3, i);
    bool normed = pl_hf_bool(g->m, "qk_layernorm", true);
    for (int i = 0; i < 3; i++) {
        pl_line(b, parts[i]);
        if (normed && i < 2) qkv[i] = pl_hf_layer_norm(g->m, norms[i], qkv[i], g->eps, true);
        qkv[i] = pl_aten_transpose(b, qkv[i], 1, 2);
    }
    pl_gpt_turn(g, &qkv[0], &qkv[1], "query_rot, key_rot = apply_rotary_pos_emb()", join);
    x = pl_gpt_attend(g, qkv[0], qkv[1], qkv[2], g->scale, true);
    pl_line(b, "attn_output = self.dense(attn_output)");
    x = pl_hf_linear(g->m, "dense", x, g->hidden, true);
    pl_module_leave(b);
    return x;
}

static int32_t block_persimmon(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    pl_module_children(b, "self_attn mlp input_layernorm post_attention_layernorm dropout");
    pl_line(b, "hidden_states = self.input_layernorm(hidden_states)");
    int32_t y = pl_hf_layer_norm(g->m, "input_layernorm", x, g->eps, true);
    y = attention_persimmon(g, y);
    pl_line(b, "hidden_states = residual + hidden_states");
    x = pl_aten_add(b, x, y);
    pl_line(b, "hidden_states = self.post_attention_layernorm(hidden_states)");
    y = pl_hf_layer_norm(g->m, "post_attention_layernorm", x, g->eps, true);
    y = plain_mlp(g, y, true);
    pl_line(b, "hidden_states = self.dropout(hidden_states)");
    y = pl_hf_dropout(g->m, "dropout", y, g->dropout);
    pl_line(b, "hidden_states = hidden_states + residual");
    return pl_aten_add(b, y, x);
}

const pl_gpt_layout pl_gpt_persimmon = {
    .names = &pl_gpt_long,
    .stem = "Persimmon",
    .causal = "ForCausalLM",
    .base = "model",
    .children = "embed_tokens layers final_layernorm rotary_emb",
    .blocks = "layers",
    .block = "DecoderLayer",
    .norm = "final_layernorm",
    .tokens = "score",
    .separate = true,
    .classifier_dropout = 0.1,
    .read = read_persimmon,
    .embed = embed,
    .run = block_persimmon,
    .last = pl_gpt_last,
};
