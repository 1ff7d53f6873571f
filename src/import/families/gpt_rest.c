/* gpt_rest: decoders beside GPT-2 with blocks of their own: biogpt, xglm, ctrl, openai-gpt, mpt,
 * gpt_neox_japanese, persimmon. See gpt.c.
 *
 * Rules: transformers 5.22, models/FAMILY/modeling_FAMILY.py, in training mode, without a mask of
 * the caller's.
 *
 * Left out: layerdrop (every layer runs), CTRL's and OpenAI GPT's token types, XGLM's cross
 * attention, MPT's clip_qkv. */
#include "import/families/gpt.h"

#include <math.h>

#define MUL "aten.mul.Tensor"
#define ADD "aten.add.Tensor"

static const char *const names[3] = {"q_proj", "k_proj", "v_proj"};
static const char *const lines[3] = {"query_states = q_proj(hidden_states)",
                                     "key_states = k_proj(hidden_states)",
                                     "value_states = v_proj(hidden_states)"};

/* Its scores are not those of a kernel: eager whatever is asked for. */
static void eager_alone(pl_gpt *g) {
    g->m->attn = PL_ATTN_EAGER;
}

static int32_t scaled_embedding(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    double scale = pl_hf_bool(g->m, "scale_embedding", true) ? sqrt((double)g->hidden) : 1;
    pl_line(b, "inputs_embeds = embed_tokens(input_ids)");
    pl_gpt_enter(g, "embed_tokens", "ScaledWordEmbedding");
    g->table = pl_build_parameter(b, "weight", PL_SIZES(g->vocab, g->hidden));
    pl_line(b, "return super().forward(input_ids) * self.embed_scale");
    int32_t x = pl_aten_embedding(b, g->table, ids, pl_hf_pad(g->m));
    x = pl_aten_scalar(b, MUL, x, scale);
    pl_module_leave(b);
    return x;
}

/* fc1, act, dropout, fc2, dropout, and what went in, behind a norm. */
static int32_t feed_forward(pl_gpt *g, int32_t x, double inner_dropout) {
    pl_builder *b = g->b;
    pl_line(b, "hidden_states = final_layer_norm(hidden_states)");
    int32_t y = pl_hf_layer_norm(g->m, "final_layer_norm", x, g->eps, true);
    pl_line(b, "hidden_states = fc1(hidden_states)");
    y = pl_hf_linear(g->m, "fc1", y, g->inner, true);
    pl_line(b, "hidden_states = activation_fn(hidden_states)");
    y = pl_hf_activation(g->m, "activation_fn", g->act, y);
    pl_line(b, "hidden_states = dropout(hidden_states)");
    y = pl_aten_dropout(b, y, inner_dropout);
    pl_line(b, "hidden_states = fc2(hidden_states)");
    y = pl_hf_linear(g->m, "fc2", y, g->hidden, true);
    pl_line(b, "hidden_states = dropout(hidden_states) # second");
    y = pl_aten_dropout(b, y, g->dropout);
    pl_line(b, "hidden_states = residual + hidden_states");
    return pl_aten_add(b, x, y);
}

/* ---- biogpt ---- */

static void read_biogpt(pl_gpt *g) {
    g->act = pl_hf_string(g->m, "hidden_act", "gelu");
    g->dropout = pl_hf_float(g->m, "hidden_dropout_prob", 0.1);
    g->attn_dropout = pl_hf_float(g->m, "attention_probs_dropout_prob", 0.1);
    g->eps = 1e-5; /* nn.LayerNorm's own */
}

static int32_t embed_biogpt(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    int32_t x = scaled_embedding(g, ids);
    if (g->m->attn == PL_ATTN_EAGER) g->mask = pl_gpt_mask(g, x);
    pl_gpt_positions(g);
    pl_line(b, "positions = embed_positions(attention_mask)");
    pl_gpt_enter(g, "embed_positions", "LearnedPositionalEmbedding");
    int64_t rows = pl_gpt_rows(g, "max_position_embeddings", 1024) + 2;
    int32_t table = pl_build_parameter(b, "weight", PL_SIZES(rows, g->hidden));
    pl_line(b, "return super().forward(position_ids + self.offset)");
    int32_t p = pl_aten_embedding(b, table, pl_aten_scalar(b, ADD, g->positions, 2), -1);
    pl_module_leave(b);
    pl_line(b, "hidden_states = inputs_embeds + positions");
    x = pl_aten_add(b, x, p);
    pl_line(b, "hidden_states = dropout(hidden_states)");
    return pl_aten_dropout(b, x, g->dropout);
}

static int32_t block_biogpt(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    int32_t qkv[3];
    pl_module_children(b, "self_attn activation_fn self_attn_layer_norm fc1 fc2 final_layer_norm");
    pl_line(b, "hidden_states = self_attn_layer_norm(hidden_states)");
    int32_t y = pl_hf_layer_norm(g->m, "self_attn_layer_norm", x, g->eps, true);
    pl_gpt_enter(g, "self_attn", "Attention");
    pl_module_children(b, "k_proj v_proj q_proj out_proj");
    for (int i = 0; i < 3; i++) {
        pl_line(b, lines[i]);
        qkv[i] = pl_gpt_heads(g, pl_hf_linear(g->m, names[i], y, g->hidden, true), g->heads);
    }
    y = pl_gpt_attend(g, qkv[0], qkv[1], qkv[2], g->scale, false);
    pl_line(b, "attn_output = out_proj(attn_output)");
    y = pl_hf_linear(g->m, "out_proj", y, g->hidden, true);
    pl_module_leave(b);
    pl_line(b, "hidden_states = dropout(hidden_states)");
    y = pl_aten_dropout(b, y, g->dropout);
    pl_line(b, "hidden_states = residual + hidden_states");
    return feed_forward(g, pl_aten_add(b, x, y), pl_hf_float(g->m, "activation_dropout", 0));
}

const pl_gpt_layout pl_gpt_biogpt = {
    .names = &pl_gpt_long,
    .stem = "BioGpt",
    .causal = "ForCausalLM",
    .base = "biogpt",
    .children = "embed_tokens embed_positions layers layer_norm",
    .blocks = "layers",
    .block = "DecoderLayer",
    .norm = "layer_norm",
    .tokens = "classifier",
    .tied = true,
    .classifier_dropout = 0.1,
    .read = read_biogpt,
    .embed = embed_biogpt,
    .run = block_biogpt,
    .last = pl_gpt_last,
};

/* ---- xglm: sines for positions, scores by bmm ---- */

static void read_xglm(pl_gpt *g) {
    eager_alone(g);
    g->act = pl_hf_string(g->m, "activation_function", "gelu");
    g->dropout = pl_hf_float(g->m, "dropout", 0.1);
    g->attn_dropout = pl_hf_float(g->m, "attention_dropout", 0.1);
    g->eps = 1e-5; /* nn.LayerNorm's own */
}

static int32_t embed_xglm(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    int32_t x = scaled_embedding(g, ids);
    g->mask = pl_gpt_mask(g, x);
    pl_gpt_positions(g);
    pl_line(b, "hidden_states = inputs_embeds + embed_positions(position_ids)");
    pl_gpt_enter(g, "embed_positions", "SinusoidalPositionalEmbedding");
    int64_t rows = pl_hf_int(g->m, "max_position_embeddings", 2048) + 2;
    if (rows < g->seq + 2) rows = g->seq + 2; /* made anew then */
    int32_t table = pl_build_buffer(b, "weights", g->m->dtype, false, PL_SIZES(rows, g->hidden));
    bool grad = pl_build_no_grad(b, true);
    pl_line(b, "position_ids = position_ids + self.offset");
    int32_t p = pl_aten_scalar(b, ADD, g->positions, 2);
    pl_line(b, "return self.weights.index_select(0, position_ids.view(-1)).view()");
    p = pl_aten_index_select(b, table, 0, pl_aten_view(b, p, PL_SIZES(-1)));
    p = pl_aten_view(b, p, PL_SIZES(1, g->seq, g->hidden));
    pl_build_no_grad(b, grad);
    pl_module_leave(b);
    x = pl_aten_add(b, x, p);
    pl_line(b, "hidden_states = dropout(hidden_states)");
    return pl_aten_dropout(b, x, g->dropout);
}

static int32_t attention_xglm(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    int64_t all = g->batch * g->heads;
    int32_t qkv[3];
    pl_gpt_enter(g, "self_attn", "Attention");
    pl_module_children(b, "k_proj v_proj q_proj out_proj");
    for (int i = 0; i < 3; i++) {
        pl_line(b, lines[i]);
        qkv[i] = pl_hf_linear(g->m, names[i], x, g->hidden, true);
        if (i == 0) qkv[0] = pl_aten_scalar(b, MUL, qkv[0], g->scale);
    }
    static const char *const shaped[3] = {"query_states = query_states.view().reshape()",
                                          "key_states = key_states.view().reshape()",
                                          "value_states = value_states.view().reshape()"};
    for (int i = 0; i < 3; i++) {
        pl_line(b, shaped[i]);
        qkv[i] = pl_gpt_heads(g, qkv[i], g->heads);
        qkv[i] = pl_aten_reshape(b, qkv[i], PL_SIZES(all, -1, g->head_dim));
    }
    pl_line(b, "attn_weights = torch.bmm(query_states, key_states.transpose(1, 2))");
    int32_t w = pl_aten_bmm(b, qkv[0], pl_aten_transpose(b, qkv[1], 1, 2));
    pl_line(b, "attn_weights = attn_weights.view() + attention_mask");
    w = pl_aten_view(b, w, PL_SIZES(g->batch, g->heads, g->seq, g->seq));
    w = pl_aten_add(b, w, g->mask);
    pl_line(b, "attn_weights = torch.max(attn_weights, torch.full(()))");
    int32_t least = pl_aten_make(b, "aten.full.default", PL_DT_F32, 0, NULL, -3e38);
    w = pl_aten_binary(b, "aten.max.other", w, least);
    pl_line(b, "attn_weights = softmax(attn_weights.view())");
    w = pl_aten_view(b, w, PL_SIZES(all, g->seq, g->seq));
    w = pl_aten_softmax(b, w, -1, PL_DT_UNKNOWN);
    pl_line(b, "attn_probs = dropout(attn_weights)");
    w = pl_aten_dropout(b, w, g->attn_dropout);
    pl_line(b, "attn_output = torch.bmm(attn_probs, value_states)");
    x = pl_aten_bmm(b, w, qkv[2]);
    pl_line(b, "attn_output = attn_output.view().transpose(1, 2).reshape()");
    x = pl_aten_view(b, x, PL_SIZES(g->batch, g->heads, g->seq, g->head_dim));
    x = pl_aten_reshape(b, pl_aten_transpose(b, x, 1, 2), PL_SIZES(g->batch, g->seq, g->hidden));
    pl_line(b, "attn_output = out_proj(attn_output)");
    x = pl_hf_linear(g->m, "out_proj", x, g->hidden, true);
    pl_module_leave(b);
    return x;
}

static int32_t block_xglm(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    pl_module_children(b, "self_attn activation_fn self_attn_layer_norm fc1 fc2 final_layer_norm");
    pl_line(b, "hidden_states = self_attn_layer_norm(hidden_states)");
    int32_t y = pl_hf_layer_norm(g->m, "self_attn_layer_norm", x, g->eps, true);
    y = attention_xglm(g, y);
    pl_line(b, "hidden_states = dropout(hidden_states)");
    y = pl_aten_dropout(b, y, g->dropout);
    pl_line(b, "hidden_states = residual + hidden_states");
    return feed_forward(g, pl_aten_add(b, x, y), pl_hf_float(g->m, "activation_dropout", 0));
}

static const pl_gpt_names xglm_names = {"d_model|hidden_size", "num_layers|num_hidden_layers",
                                        "attention_heads|num_attention_heads", "ffn_dim"};

const pl_gpt_layout pl_gpt_xglm = {
    .names = &xglm_names,
    .stem = "XGLM",
    .causal = "ForCausalLM",
    .base = "model",
    .children = "embed_tokens embed_positions layers layer_norm",
    .blocks = "layers",
    .block = "DecoderLayer",
    .norm = "layer_norm",
    .tokens = "classifier",
    .tied = true,
    .read = read_xglm,
    .embed = embed_xglm,
    .run = block_xglm,
    .last = pl_gpt_last,
};

/* ---- ctrl ---- */

static void read_ctrl(pl_gpt *g) {
    g->embed_dropout = pl_hf_float(g->m, "embd_pdrop", 0.1);
    g->dropout = pl_hf_float(g->m, "resid_pdrop", 0.1);
    g->act = "relu";
}

static int32_t embed_ctrl(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    pl_line(b, "inputs_embeds = w(input_ids)");
    int32_t x = pl_gpt_embedding(g, "w", g->vocab, g->hidden, ids, -1, &g->table);
    pl_gpt_positions(g);
    if (g->m->attn == PL_ATTN_EAGER) g->mask = pl_gpt_mask(g, x);
    pl_line(b, "inputs_embeds *= np.sqrt(self.d_model_size)");
    x = pl_aten_scalar(b, "aten.mul_.Tensor", x, sqrt((double)g->hidden));
    pl_line(b, "pos_embeds = self.pos_encoding[position_ids, :]");
    int64_t rows = pl_gpt_rows(g, "n_positions|max_position_embeddings", 256);
    int32_t table =
        pl_build_buffer(b, "pos_encoding", g->m->dtype, false, PL_SIZES(rows, g->hidden));
    int32_t p = pl_aten_index(b, table, 2, (int32_t[]){g->positions, PL_NONE});
    pl_line(b, "hidden_states = inputs_embeds + pos_embeds + token_type_embeds");
    x = pl_aten_scalar(b, ADD, pl_aten_add(b, x, p), 0);
    pl_line(b, "hidden_states = dropout(hidden_states)");
    return pl_hf_dropout(g->m, "dropout", x, g->embed_dropout);
}

static int32_t block_ctrl(pl_gpt *g, int32_t x) {
    static const char *const own[3] = {"Wq", "Wk", "Wv"};
    pl_builder *b = g->b;
    int32_t qkv[3];
    pl_module_children(b, "multi_head_attention ffn layernorm1 layernorm2 dropout1 dropout2");
    pl_line(b, "normed = layernorm1(x)");
    int32_t y = pl_hf_layer_norm(g->m, "layernorm1", x, 1e-6, true);
    pl_gpt_enter(g, "multi_head_attention", "MultiHeadAttention");
    pl_module_children(b, "Wq Wk Wv dense");
    for (int i = 0; i < 3; i++) {
        pl_line(b, lines[i]);
        qkv[i] = pl_gpt_heads(g, pl_hf_linear(g->m, own[i], y, g->hidden, true), g->heads);
    }
    y = pl_gpt_attend(g, qkv[0], qkv[1], qkv[2], g->scale, false);
    pl_line(b, "attn_output = dense(attn_output)");
    y = pl_hf_linear(g->m, "dense", y, g->hidden, true);
    pl_module_leave(b);
    pl_line(b, "attn_output = dropout1(attn_output)");
    y = pl_hf_dropout(g->m, "dropout1", y, g->dropout);
    pl_line(b, "out1 = x + attn_output");
    x = pl_aten_add(b, x, y);
    pl_line(b, "out2 = layernorm2(out1)");
    y = pl_hf_layer_norm(g->m, "layernorm2", x, 1e-6, true);
    pl_line(b, "ffn_output = ffn(out2)");
    y = pl_hf_linear(g->m, "ffn.0", y, g->inner, true);
    y = pl_hf_activation(g->m, "ffn.1", g->act, y);
    y = pl_hf_linear(g->m, "ffn.2", y, g->hidden, true);
    pl_line(b, "ffn_output = dropout2(ffn_output)");
    y = pl_hf_dropout(g->m, "dropout2", y, g->dropout);
    pl_line(b, "out2 = out1 + ffn_output");
    return pl_aten_add(b, x, y);
}

static const pl_gpt_names ctrl_names = {"n_embd|hidden_size", "n_layer|num_hidden_layers",
                                        "n_head|num_attention_heads", "dff"};

const pl_gpt_layout pl_gpt_ctrl = {
    .names = &ctrl_names,
    .stem = "CTRL",
    .causal = "LMHeadModel",
    .base = "transformer",
    .children = "w dropout h layernorm",
    .blocks = "h",
    .block = "EncoderLayer",
    .norm = "layernorm",
    .tokens = "classifier",
    .tied = true,
    .head_bias = true,
    .read = read_ctrl,
    .embed = embed_ctrl,
    .run = block_ctrl,
    .last = pl_gpt_last,
};

/* ---- openai-gpt: norms behind the sums, a triangle of floats in each layer ---- */

static void read_openai(pl_gpt *g) {
    eager_alone(g);
    g->embed_dropout = pl_hf_float(g->m, "embd_pdrop", 0.1);
    g->attn_dropout = pl_hf_float(g->m, "attn_pdrop", 0.1);
    g->dropout = pl_hf_float(g->m, "resid_pdrop", 0.1);
    g->inner = 4 * g->hidden;
    g->act = pl_hf_string(g->m, "afn", "gelu");
    if (g->act[0] == 'g') g->act = "gelu_new"; /* its gelu is the tanh form, operator by operator */
}

static int32_t embed_openai(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    int32_t table;
    int64_t rows = pl_gpt_rows(g, "n_positions|max_position_embeddings", 512);
    int32_t p = pl_build_buffer(b, "position_ids", PL_DT_I64, false, PL_SIZES(rows));
    pl_line(b, "position_ids = self.position_ids[None, : input_shape[-1]]");
    p = pl_aten_slice(b, pl_aten_unsqueeze(b, p, 0), 1, 0, g->seq);
    pl_line(b, "inputs_embeds = tokens_embed(input_ids)");
    int32_t x = pl_gpt_embedding(g, "tokens_embed", g->vocab, g->hidden, ids, -1, &g->table);
    pl_line(b, "position_embeds = positions_embed(position_ids)");
    p = pl_gpt_embedding(g, "positions_embed", rows, g->hidden, p, -1, &table);
    pl_line(b, "hidden_states = inputs_embeds + position_embeds + token_type_embeds");
    x = pl_aten_scalar(b, ADD, pl_aten_add(b, x, p), 0);
    pl_line(b, "hidden_states = drop(hidden_states)");
    return pl_hf_dropout(g->m, "drop", x, g->embed_dropout);
}

static int32_t attention_openai(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    int32_t qkv[3];
    int64_t rows = pl_hf_int(g->m, "n_positions|max_position_embeddings", 512);
    pl_gpt_enter(g, "attn", "Attention");
    pl_module_children(b, "c_attn c_proj attn_dropout resid_dropout");
    int32_t triangle = pl_build_buffer(b, "bias", g->m->dtype, false, PL_SIZES(1, 1, rows, rows));
    pl_line(b, "x = self.c_attn(x)");
    x = pl_gpt_conv1d(g, "c_attn", x, 3 * g->hidden);
    pl_line(b, "query, key, value = x.split(self.split_size, dim=2)");
    pl_aten_split(b, x, 3, (int64_t[]){g->hidden, g->hidden, g->hidden}, 2, qkv);
    for (int i = 0; i < 3; i++) {
        qkv[i] = pl_aten_view(b, qkv[i], PL_SIZES(g->batch, g->seq, g->heads, g->head_dim));
        qkv[i] = i == 1 ? pl_aten_permute(b, qkv[i], PL_SIZES(0, 2, 3, 1))
                        : pl_aten_permute(b, qkv[i], PL_SIZES(0, 2, 1, 3));
    }
    pl_line(b, "w = torch.matmul(q, k)");
    int32_t w = pl_aten_matmul(b, qkv[0], qkv[1]);
    pl_line(b, "w = w / math.sqrt(v.size(-1))");
    w = pl_aten_scalar(b, "aten.div.Tensor", w, sqrt((double)g->head_dim));
    pl_line(b, "b = self.bias[:, :, : w.size(-2), : w.size(-1)]");
    triangle = pl_aten_slice(b, triangle, 2, 0, g->seq);
    triangle = pl_aten_slice(b, triangle, 3, 0, g->seq);
    pl_line(b, "w = w * b + -1e4 * (1 - b)");
    w = pl_aten_mul(b, w, triangle);
    int32_t rest = pl_aten_scalar(b, "aten.rsub.Scalar", triangle, 1);
    w = pl_aten_add(b, w, pl_aten_scalar(b, MUL, rest, -10000.0));
    pl_line(b, "w = softmax(w, dim=-1)");
    w = pl_aten_softmax(b, w, -1, PL_DT_UNKNOWN);
    pl_line(b, "w = self.attn_dropout(w)");
    w = pl_hf_dropout(g->m, "attn_dropout", w, g->attn_dropout);
    pl_line(b, "a = torch.matmul(w, v)");
    x = pl_aten_matmul(b, w, qkv[2]);
    pl_line(b, "a = self.merge_heads(a)");
    x = pl_aten_contiguous(b, pl_aten_permute(b, x, PL_SIZES(0, 2, 1, 3)));
    x = pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, g->hidden));
    pl_line(b, "a = self.c_proj(a)");
    x = pl_gpt_conv1d(g, "c_proj", x, g->hidden);
    pl_line(b, "a = self.resid_dropout(a)");
    x = pl_hf_dropout(g->m, "resid_dropout", x, g->dropout);
    pl_module_leave(b);
    return x;
}

static int32_t block_openai(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    pl_module_children(b, "attn ln_1 mlp ln_2");
    pl_line(b, "a = self.attn(x)");
    int32_t a = attention_openai(g, x);
    pl_line(b, "n = self.ln_1(x + a)");
    int32_t n = pl_hf_layer_norm(g->m, "ln_1", pl_aten_add(b, x, a), g->eps, true);
    pl_line(b, "m = self.mlp(n)");
    pl_gpt_enter(g, "mlp", "MLP");
    pl_module_children(b, "c_fc c_proj act dropout");
    pl_line(b, "h = self.act(self.c_fc(x))");
    int32_t h = pl_gpt_conv1d(g, "c_fc", n, g->inner);
    h = pl_hf_activation(g->m, "act", g->act, h);
    pl_line(b, "h2 = self.c_proj(h)");
    h = pl_gpt_conv1d(g, "c_proj", h, g->hidden);
    pl_line(b, "return self.dropout(h2)");
    h = pl_hf_dropout(g->m, "dropout", h, g->dropout);
    pl_module_leave(b);
    pl_line(b, "h = self.ln_2(n + m)");
    return pl_hf_layer_norm(g->m, "ln_2", pl_aten_add(b, n, h), g->eps, true);
}

static int32_t last_openai(pl_gpt *g, int32_t x) {
    pl_line(g->b, "hidden_states = hidden_states.view(*output_shape)");
    return pl_aten_view(g->b, x, PL_SIZES(g->batch, g->seq, g->hidden));
}

const pl_gpt_layout pl_gpt_openai = {
    .names = &pl_gpt_short,
    .stem = "OpenAIGPT",
    .causal = "LMHeadModel",
    .base = "transformer",
    .children = "tokens_embed positions_embed drop h",
    .blocks = "h",
    .block = "Block",
    .tokens = "classifier",
    .tied = true,
    .read = read_openai,
    .embed = embed_openai,
    .run = block_openai,
    .last = last_openai,
};

/* ---- mpt: ALiBi, no bias anywhere ---- */

static void read_mpt(pl_gpt *g) {
    eager_alone(g);
    g->dropout = g->attn_dropout = pl_hf_float(g->m, "attn_config.attn_pdrop", 0);
    g->inner = 4 * g->hidden;
    g->act = "gelu";
    g->bias = false;
}

static int32_t embed_mpt(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    int64_t most = pl_gpt_rows(g, "max_seq_len", 2048);
    pl_line(b, "inputs_embeds = wte(input_ids)");
    int32_t x = pl_gpt_embedding(g, "wte", g->vocab, g->hidden, ids, -1, &g->table);
    pl_line(b, "alibi = self.build_mpt_alibi_tensor(");
    int32_t steps = pl_aten_to(b, pl_aten_arange(b, most), PL_DT_I32);
    steps = pl_aten_view(b, steps, PL_SIZES(1, 1, 1, most));
    int32_t slopes = pl_aten_to(b, pl_aten_arange(b, g->heads), PL_DT_F32);
    slopes = pl_aten_view(b, slopes, PL_SIZES(1, g->heads, 1, 1));
    int32_t alibi = pl_aten_mul(b, steps, slopes);
    g->alibi = pl_aten_squeeze(b, alibi, 0); /* [heads, 1, max_seq_len] */
    int32_t mask = pl_gpt_mask(g, x);
    pl_line(b, "causal_mask = causal_mask.to(torch.bool)");
    g->mask = pl_aten_to(b, mask, PL_DT_BOOL);
    return x;
}

static int32_t attention_mpt(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    int32_t qkv[3];
    pl_gpt_enter(g, "attn", "Attention");
    pl_module_children(b, "Wqkv out_proj");
    pl_line(b, "mixed_qkv = self.Wqkv(hidden_states)");
    x = pl_hf_linear(g->m, "Wqkv", x, 3 * g->hidden, false);
    pl_line(b, "query_states, key_states, value_states = mixed_qkv.chunk(3, dim=2)");
    pl_aten_chunk(b, x, 3, 2, qkv);
    for (int i = 0; i < 3; i++) qkv[i] = pl_gpt_heads(g, qkv[i], g->heads);
    pl_line(b, "attention_scores = torch.matmul(query_states, key_states) * self.softmax_scale");
    int32_t w = pl_aten_matmul(b, qkv[0], pl_aten_transpose(b, qkv[1], -1, -2));
    w = pl_aten_scalar(b, MUL, w, g->scale);
    pl_line(b, "attention_scores = attention_scores + position_bias");
    int64_t most = pl_built_size(b, g->alibi, 2);
    w = pl_aten_add(b, w, pl_aten_slice(b, g->alibi, 2, most - g->seq, most));
    pl_line(b, "attention_scores = attention_scores.masked_fill(attention_mask)");
    w = pl_aten_masked_fill(b, w, g->mask, -3e38);
    pl_line(b, "attn_weights = softmax(attention_scores.float(), dim=-1).to(value_states.dtype)");
    w = pl_aten_softmax(b, pl_aten_to(b, w, PL_DT_F32), -1, PL_DT_UNKNOWN);
    w = pl_aten_type_as(b, w, qkv[2]);
    pl_line(b, "attn_weights = dropout(attn_weights)");
    w = pl_aten_dropout(b, w, g->attn_dropout);
    pl_line(b, "context_states = torch.matmul(attn_weights, value_states)");
    x = pl_aten_matmul(b, w, qkv[2]);
    pl_line(b, "context_states = context_states.permute(0, 2, 1, 3).contiguous().view()");
    x = pl_aten_contiguous(b, pl_aten_permute(b, x, PL_SIZES(0, 2, 1, 3)));
    x = pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, g->hidden));
    pl_line(b, "attn_output = self.out_proj(context_states)");
    x = pl_hf_linear(g->m, "out_proj", x, g->hidden, false);
    pl_module_leave(b);
    return x;
}

static int32_t block_mpt(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    pl_module_children(b, "norm_1 attn norm_2 ffn resid_attn_dropout");
    pl_line(b, "layernorm_output = self.norm_1(hidden_states)");
    int32_t y = pl_hf_layer_norm(g->m, "norm_1", x, g->eps, false);
    pl_line(b, "attn_outputs = self.attn()");
    y = attention_mpt(g, y);
    pl_line(b, "hidden_states = self.resid_attn_dropout(attn_outputs) + residual");
    x = pl_aten_add(b, pl_hf_dropout(g->m, "resid_attn_dropout", y, g->dropout), x);
    pl_line(b, "layernorm_output = self.norm_2(hidden_states)");
    y = pl_hf_layer_norm(g->m, "norm_2", x, g->eps, false);
    pl_gpt_enter(g, "ffn", "MLP");
    pl_module_children(b, "up_proj act down_proj");
    pl_line(b, "hidden_states = self.act(self.up_proj(hidden_states))");
    y = pl_hf_linear(g->m, "up_proj", y, g->inner, false);
    y = pl_aten_gelu(b, y, false);
    pl_line(b, "intermediate_output = self.down_proj(hidden_states)");
    y = pl_hf_linear(g->m, "down_proj", y, g->hidden, false);
    pl_line(b, "output = F.dropout(intermediate_output)");
    y = pl_aten_dropout(b, y, g->dropout);
    pl_line(b, "output = output + residual");
    y = pl_aten_add(b, y, x);
    pl_module_leave(b);
    return y;
}

static int32_t last_mpt(pl_gpt *g, int32_t x) {
    pl_line(g->b, "hidden_states = self.norm_f(hidden_states)");
    return pl_hf_layer_norm(g->m, "norm_f", x, g->eps, false);
}

static const pl_gpt_names mpt_names = {"d_model|hidden_size", "n_layers|num_hidden_layers",
                                       "n_heads|num_attention_heads", "intermediate_size"};

const pl_gpt_layout pl_gpt_mpt = {
    .names = &mpt_names,
    .stem = "Mpt",
    .causal = "ForCausalLM",
    .base = "transformer",
    .children = "wte blocks norm_f",
    .blocks = "blocks",
    .block = "Block",
    .norm = "norm_f",
    .tokens = "classifier",
    .tied = true,
    .classifier_dropout = 0.1,
    .read = read_mpt,
    .embed = embed_mpt,
    .run = block_mpt,
    .last = last_mpt,
};
