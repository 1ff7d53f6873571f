/* gpt_old: gptj, codegen and gpt_neo, whose attention is plain products in float32 whatever
 * implementation is asked for (but flash2 where gptj and gpt_neo have it), and opt. See gpt.c.
 *
 * Rules: transformers 5.22, models/FAMILY/modeling_FAMILY.py.
 *
 * Left out: the difference between gpt_neo's local and global layers, which is in the mask's
 * numbers alone; OPT's layerdrop (no layer is dropped). */
#include "import/families/gpt.h"

static void read_old(pl_gpt *g) {
    g->act = pl_hf_string(g->m, "activation_function", "gelu_new");
    g->embed_dropout = pl_hf_float(g->m, "embd_pdrop|embed_dropout", 0);
    g->attn_dropout = pl_hf_float(g->m, "attn_pdrop|attention_dropout", 0);
    g->dropout = pl_hf_float(g->m, "resid_pdrop|resid_dropout", 0);
    g->rotary = pl_hf_int(g->m, "rotary_dim", 64);
    if (g->is == &pl_gpt_neo) return;
    if (g->rotary < 2 || g->rotary > g->head_dim || g->rotary % 2 != 0) {
        pl_hf_refuse(g->m, "rotary_dim", "expected an even number of 2 to %lld",
                     (long long)g->head_dim);
        g->rotary = 2;
    }
}

static void read_codegen(pl_gpt *g) {
    read_old(g);
    if (g->heads % 4 != 0) pl_hf_refuse(g->m, g->is->names->heads, "expected a multiple of 4");
}

static bool flash(const pl_gpt *g) {
    return g->m->attn == PL_ATTN_FLASH2 && g->is != &pl_gpt_codegen;
}

static int64_t positions_of(pl_gpt *g) {
    return pl_gpt_rows(g, "n_positions|max_position_embeddings", 2048);
}

static int32_t embed_old(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    int32_t table;
    pl_line(b, "inputs_embeds = wte(input_ids)");
    int32_t x = pl_gpt_embedding(g, "wte", g->vocab, g->hidden, ids, -1, &g->table);
    pl_gpt_positions(g);
    if (!flash(g)) g->mask = pl_gpt_mask(g, x);
    if (g->is == &pl_gpt_neo) {
        pl_line(b, "position_embeds = wpe(position_ids)");
        int32_t p =
            pl_gpt_embedding(g, "wpe", positions_of(g), g->hidden, g->positions, -1, &table);
        pl_line(b, "hidden_states = inputs_embeds + position_embeds");
        x = pl_aten_add(b, x, p);
    }
    pl_line(b, "hidden_states = drop(hidden_states)");
    return pl_hf_dropout(g->m, "drop", x, g->embed_dropout);
}

/* ---- attention ---- */

static int32_t permuted(pl_gpt *g, int32_t x) {
    return pl_aten_permute(g->b, x, PL_SIZES(0, 2, 1, 3));
}

/* _attn and _merge_heads: q, k, v [batch, heads, seq, d] to [batch, seq, hidden]. own: gpt_neo's
 * mask of its own, or PL_NONE. */
static int32_t attend(pl_gpt *g, int32_t q, int32_t k, int32_t v, int32_t own) {
    pl_builder *b = g->b;
    bool codegen = g->is == &pl_gpt_codegen;
    int32_t x;
    pl_line(b, "attn_output, attn_weights = _attn(query, key, value)");
    if (flash(g)) {
        x = pl_aten_attention(b, q, k, v, PL_NONE, g->attn_dropout, g->seq > 1,
                              own < 0 ? g->scale : 1, false);
    } else {
        q = pl_aten_to(b, q, PL_DT_F32);
        k = pl_aten_to(b, k, PL_DT_F32);
        x = pl_aten_matmul(b, q, pl_aten_transpose(b, k, -1, -2));
        if (own >= 0) {
            own = pl_aten_slice(b, pl_aten_slice(b, own, 2, 0, g->seq), 3, 0, g->seq);
            int32_t least = pl_aten_make(b, "aten.full.default", PL_DT_F32, 0, NULL, 0);
            x = pl_aten_where(b, own, x, least);
        } else if (!codegen) {
            x = pl_aten_scalar(b, "aten.div.Tensor", x, 1 / g->scale);
        }
        x = pl_aten_add(b, x, g->mask);
        if (codegen) x = pl_aten_scalar(b, "aten.div.Tensor", x, 1 / g->scale);
        x = pl_aten_type_as(g->b, pl_aten_softmax(b, x, -1, PL_DT_UNKNOWN), v);
        x = pl_hf_dropout(g->m, "attn_dropout", x, g->attn_dropout);
        x = pl_aten_matmul(b, x, v);
    }
    pl_line(b, "attn_output = _merge_heads(attn_output)");
    x = pl_aten_contiguous(b, permuted(g, x));
    return pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, g->hidden));
}

static int32_t project(pl_gpt *g, int32_t x, bool bias) {
    pl_line(g->b, "attn_output = out_proj(attn_output)");
    x = pl_hf_linear(g->m, "out_proj", x, g->hidden, bias);
    pl_line(g->b, "attn_output = resid_dropout(attn_output)");
    return pl_hf_dropout(g->m, "resid_dropout", x, g->dropout);
}

/* x[.., start::2] of the last of four dimensions. */
static int32_t every_two(pl_gpt *g, int32_t x, int64_t start) {
    const pl_tensor *t = pl_built(g->b, x);
    pl_dtype dtype = t->dtype;
    int64_t half = pl_built_size(g->b, x, 3) / 2, heads = pl_built_size(g->b, x, 2);
    pl_call(g->b, "aten.slice.Tensor");
    pl_call_tensor(g->b, "self", x);
    pl_call_int(g->b, "dim", 3);
    pl_call_int(g->b, "start", start);
    pl_call_int(g->b, "end", INT64_MAX);
    pl_call_int(g->b, "step", 2);
    return pl_call_result(g->b, dtype, PL_SIZES(g->batch, g->seq, heads, half));
}

/* [1, seq, n] to [1, seq, 1, 2 n] */
static int32_t twice(pl_gpt *g, int32_t x) {
    pl_dtype dtype = pl_built(g->b, x)->dtype;
    x = pl_aten_unsqueeze(g->b, x, 2);
    pl_call(g->b, "aten.repeat_interleave.self_int");
    pl_call_tensor(g->b, "self", x);
    pl_call_int(g->b, "repeats", 2);
    pl_call_int(g->b, "dim", 3);
    return pl_call_result(g->b, dtype, PL_SIZES(1, g->seq, 1, g->rotary));
}

/* apply_rotary_pos_emb: neighbours turned, [batch, seq, heads, rotary]. */
static int32_t turn(pl_gpt *g, int32_t x, int32_t sin, int32_t cos) {
    pl_builder *b = g->b;
    sin = twice(g, sin);
    cos = twice(g, cos);
    int32_t straight = pl_aten_mul(b, x, cos);
    int32_t x1 = every_two(g, x, 0);
    int32_t x2 = pl_aten_unary(b, "aten.neg.default", every_two(g, x, 1));
    int32_t turned = pl_aten_stack(b, 2, (int32_t[]){x2, x1}, -1);
    turned = pl_aten_flatten(b, turned, -2, -1);
    return pl_aten_add(b, straight, pl_aten_mul(b, turned, sin));
}

/* Queries and keys [batch, seq, heads, d] turned and permuted. sincos: [1, seq, rotary]. */
static void rotate(pl_gpt *g, int32_t sincos, int32_t *q, int32_t *k) {
    static const char *const cut[2][2] = {
        {"k_rot = key[:rotary_dim]", "k_pass = key[rotary_dim:]"},
        {"q_rot = query[:rotary_dim]", "q_pass = query[rotary_dim:]"}};
    static const char *const turns[2] = {"k_rot = apply_rotary_pos_emb(k_rot)",
                                         "q_rot = apply_rotary_pos_emb(q_rot)"};
    static const char *const joins[2] = {"key = cat([k_rot, k_pass], dim=-1)",
                                         "query = cat([q_rot, q_pass], dim=-1)"};
    static const char *const permutes[2] = {"key = key.permute(0, 2, 1, 3)",
                                            "query = query.permute(0, 2, 1, 3)"};
    pl_builder *b = g->b;
    int32_t *both[2] = {k, q}, rot[2], pass[2], halves[2];
    pl_line(b, "sin, cos = split(sincos)");
    pl_aten_split(b, sincos, 2, (int64_t[]){g->rotary / 2, g->rotary / 2}, -1, halves);
    for (int i = 0; i < 2; i++) {
        pl_line(b, cut[i][0]);
        rot[i] = pl_aten_slice(b, *both[i], 3, 0, g->rotary);
        pl_line(b, cut[i][1]);
        pass[i] = pl_aten_slice(b, *both[i], 3, g->rotary, INT64_MAX);
    }
    for (int i = 0; i < 2; i++) {
        pl_line(b, turns[i]);
        rot[i] = turn(g, rot[i], halves[0], halves[1]);
    }
    for (int i = 0; i < 2; i++) {
        pl_line(b, joins[i]);
        *both[i] = pl_aten_cat(b, 2, (int32_t[]){rot[i], pass[i]}, -1);
    }
    for (int i = 0; i < 2; i++) {
        pl_line(b, permutes[i]);
        *both[i] = permuted(g, *both[i]);
    }
}

static int32_t positions_buffer(pl_gpt *g) {
    return pl_build_buffer(g->b, "embed_positions", g->m->dtype, false,
                           PL_SIZES(positions_of(g), g->rotary));
}

static const char *const names[3] = {"q_proj", "k_proj", "v_proj"};
static const char *const projects[3] = {"query = q_proj(hidden_states)",
                                        "key = k_proj(hidden_states)",
                                        "value = v_proj(hidden_states)"};
static const char *const splits[3] = {"query = _split_heads(query)", "key = _split_heads(key)",
                                      "value = _split_heads(value)"};

static int32_t attention_gptj(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    int32_t qkv[3];
    pl_gpt_enter(g, "attn", "Attention");
    pl_module_children(b, "attn_dropout resid_dropout k_proj v_proj q_proj out_proj");
    int32_t table = positions_buffer(g);
    for (int i = 0; i < 3; i++) {
        pl_line(b, projects[i]);
        qkv[i] = pl_hf_linear(g->m, names[i], x, g->hidden, false);
    }
    for (int i = 0; i < 3; i++) {
        pl_line(b, splits[i]);
        qkv[i] = pl_aten_view(b, qkv[i], PL_SIZES(g->batch, g->seq, g->heads, g->head_dim));
        if (i == 2) qkv[i] = permuted(g, qkv[i]);
    }
    pl_line(b, "embed_positions = _get_embed_positions(position_ids)");
    int32_t p = pl_aten_repeat(b, table, PL_SIZES(1, 1, 1));
    pl_line(b, "repeated_position_ids = position_ids.unsqueeze(-1).repeat()");
    int32_t at = pl_aten_unsqueeze(b, g->positions, -1);
    at = pl_aten_repeat(b, at, PL_SIZES(1, 1, g->rotary));
    pl_line(b, "sincos = gather(embed_positions, 1, repeated_position_ids).to(key.dtype)");
    p = pl_aten_type_as(g->b, pl_aten_gather(b, p, 1, at), qkv[1]);
    rotate(g, p, &qkv[0], &qkv[1]);
    x = project(g, attend(g, qkv[0], qkv[1], qkv[2], PL_NONE), false);
    pl_module_leave(b);
    return x;
}

static int32_t attention_codegen(pl_gpt *g, int32_t x) {
    static const char *const lines[3] = {"query = _split_heads(query)",
                                         "value = _split_heads(value)", "key = _split_heads(key)"};
    static const int order[3] = {0, 2, 1}; /* query, key, value of query, value, key */
    pl_builder *b = g->b;
    int64_t local = g->hidden / 4; /* mp_num, of the machine it was trained on */
    int32_t qvk[3];
    pl_gpt_enter(g, "attn", "Attention");
    pl_module_children(b, "attn_dropout resid_dropout qkv_proj out_proj");
    int32_t table = positions_buffer(g);
    pl_line(b, "qkv = qkv_proj(hidden_states)");
    x = pl_hf_linear(g->m, "qkv_proj", x, 3 * g->hidden, false);
    pl_line(b, "qkv_split = qkv.reshape()");
    x = pl_aten_reshape(b, x, PL_SIZES(g->batch, g->seq, 4, -1));
    pl_line(b, "query, value, key = split(qkv_split, local_dim, dim=-1)");
    pl_aten_split(b, x, 3, (int64_t[]){local, local, local}, -1, qvk);
    for (int i = 0; i < 3; i++) {
        int at = order[i];
        pl_line(b, lines[at]);
        x = pl_aten_reshape(b, qvk[at], PL_SIZES(g->batch, g->seq, 4, g->heads / 4, g->head_dim));
        qvk[at] = pl_aten_reshape(b, x, PL_SIZES(g->batch, g->seq, -1, g->head_dim));
    }
    pl_line(b, "value = value.permute(0, 2, 1, 3)");
    qvk[1] = permuted(g, qvk[1]);
    pl_line(b, "sincos = embed_positions[position_ids]");
    int32_t p = pl_aten_index(b, table, 1, (int32_t[]){g->positions});
    rotate(g, p, &qvk[0], &qvk[2]);
    x = project(g, attend(g, qvk[0], qvk[2], qvk[1], PL_NONE), false);
    pl_module_leave(b);
    return x;
}

static int32_t attention_neo(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    int64_t rows = positions_of(g);
    int32_t qkv[3];
    pl_gpt_enter(g, "attn", "Attention");
    pl_gpt_enter(g, "attention", "SelfAttention");
    pl_module_children(b, "attn_dropout resid_dropout k_proj v_proj q_proj out_proj");
    int32_t own = pl_build_buffer(b, "bias", PL_DT_BOOL, false, PL_SIZES(1, 1, rows, rows));
    for (int i = 0; i < 3; i++) {
        pl_line(b, projects[i]);
        qkv[i] = pl_hf_linear(g->m, names[i], x, g->hidden, false);
    }
    for (int i = 0; i < 3; i++) {
        pl_line(b, splits[i]);
        qkv[i] = pl_aten_view(b, qkv[i], PL_SIZES(g->batch, g->seq, g->heads, g->head_dim));
        qkv[i] = permuted(g, qkv[i]);
    }
    x = project(g, attend(g, qkv[0], qkv[1], qkv[2], own), true);
    pl_module_leave(b);
    pl_module_leave(b);
    return x;
}

/* ---- blocks ---- */

static int32_t mlp(pl_gpt *g, int32_t x, const char *first, const char *second) {
    pl_gpt_enter(g, "mlp", "MLP");
    pl_module_children(g->b, pl_build_text(g->b, "%s %s act dropout", first, second));
    x = pl_gpt_mlp(g, x, first, "act", second);
    pl_line(g->b, "hidden_states = dropout(hidden_states)");
    x = pl_hf_dropout(g->m, "dropout", x, g->dropout);
    pl_module_leave(g->b);
    return x;
}

/* Attention and MLP side by side behind one norm. */
static int32_t block_gptj(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    pl_module_children(b, "ln_1 attn mlp");
    pl_line(b, "hidden_states = ln_1(hidden_states)");
    int32_t y = pl_hf_layer_norm(g->m, "ln_1", x, g->eps, true);
    int32_t z = g->is == &pl_gpt_codegen ? attention_codegen(g, y) : attention_gptj(g, y);
    y = mlp(g, y, "fc_in", "fc_out");
    pl_line(b, "hidden_states = attn_outputs + feed_forward_hidden_states + residual");
    z = pl_aten_add(b, z, y);
    return pl_aten_add(b, z, x);
}

static int32_t block_neo(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    pl_module_children(b, "ln_1 attn ln_2 mlp");
    pl_line(b, "hidden_states = ln_1(hidden_states)");
    int32_t y = pl_hf_layer_norm(g->m, "ln_1", x, g->eps, true);
    y = attention_neo(g, y);
    pl_line(b, "hidden_states = attn_output + residual");
    x = pl_aten_add(b, y, x);
    pl_line(b, "hidden_states = ln_2(hidden_states)");
    y = pl_hf_layer_norm(g->m, "ln_2", x, g->eps, true);
    y = mlp(g, y, "c_fc", "c_proj");
    pl_line(b, "hidden_states = residual + feed_forward_hidden_states");
    return pl_aten_add(b, x, y);
}

const pl_gpt_layout pl_gpt_gptj = {
    .names = &pl_gpt_short,
    .stem = "GPTJ",
    .causal = "ForCausalLM",
    .base = "transformer",
    .children = "wte drop h ln_f",
    .blocks = "h",
    .block = "Block",
    .norm = "ln_f",
    .tokens = "classifier",
    .head_bias = true,
    .last_view = true,
    .read = read_old,
    .embed = embed_old,
    .run = block_gptj,
    .last = pl_gpt_last,
};

const pl_gpt_layout pl_gpt_codegen = {
    .names = &pl_gpt_short,
    .stem = "CodeGen",
    .causal = "ForCausalLM",
    .base = "transformer",
    .children = "wte drop h ln_f",
    .blocks = "h",
    .block = "Block",
    .norm = "ln_f",
    .tokens = "classifier",
    .head_bias = true,
    .last_view = true,
    .read = read_codegen,
    .embed = embed_old,
    .run = block_gptj,
    .last = pl_gpt_last,
};

static const pl_gpt_names neo_names = {"hidden_size|n_embd", "num_layers|num_hidden_layers|n_layer",
                                       "num_heads|num_attention_heads|n_head",
                                       "intermediate_size|n_inner|ffn_dim|ffn_hidden_size"};

const pl_gpt_layout pl_gpt_neo = {
    .names = &neo_names,
    .stem = "GPTNeo",
    .causal = "ForCausalLM",
    .base = "transformer",
    .children = "wte wpe drop h ln_f",
    .blocks = "h",
    .block = "Block",
    .norm = "ln_f",
    .tokens = "classifier",
    .tied = true,
    .last_view = true,
    .classifier_dropout = 0.1,
    .read = read_old,
    .embed = embed_old,
    .run = block_neo,
    .last = pl_gpt_last,
};

/* ---- opt: learnt positions behind an offset of two, dropout by function ---- */

static void read_opt(pl_gpt *g) {
    g->act = pl_hf_string(g->m, "activation_function", "relu");
    g->dropout = pl_hf_float(g->m, "dropout", 0.1);
    g->attn_dropout = pl_hf_float(g->m, "attention_dropout", 0);
    g->bias = pl_hf_bool(g->m, "enable_bias", true);
    g->eps = 1e-5; /* nn.LayerNorm's own */
}

static int64_t width_opt(pl_gpt *g) {
    int64_t width = pl_hf_int(g->m, "word_embed_proj_dim", g->hidden);
    return width > 0 ? width : g->hidden;
}

static int32_t embed_opt(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    int32_t table;
    int64_t width = width_opt(g);
    pl_line(b, "input_ids = input_ids.view()");
    ids = pl_aten_view(b, ids, PL_SIZES(-1, g->seq));
    pl_line(b, "inputs_embeds = embed_tokens(input_ids)");
    int32_t x = pl_gpt_embedding(g, "embed_tokens", g->vocab, width, ids,
                                 pl_hf_has(g->m, "pad_token_id") ? pl_hf_pad(g->m) : 1, &g->table);
    pl_line(b, "position_attention_mask = ones()");
    int32_t ones = pl_aten_make(b, "aten.ones.default", PL_DT_F32, PL_SIZES(g->batch, g->seq), 1);
    pl_line(b, "position_ids = cumsum(position_attention_mask, dim=1)");
    int32_t p = pl_aten_cumsum(b, ones, 1);
    pl_line(b, "position_ids = (position_ids * position_attention_mask - 1).long()");
    p = pl_aten_scalar(b, "aten.sub.Tensor", pl_aten_mul(b, p, ones), 1);
    p = pl_aten_to(b, p, PL_DT_I64);
    if (g->m->attn == PL_ATTN_EAGER) g->mask = pl_gpt_mask(g, x);
    pl_line(b, "pos_embeds = embed_positions(position_ids)");
    pl_gpt_enter(g, "embed_positions", "LearnedPositionalEmbedding");
    pl_line(b, "return super().forward(position_ids + self.offset)");
    p = pl_aten_scalar(b, "aten.add.Tensor", p, 2);
    int64_t rows = pl_gpt_rows(g, "max_position_embeddings", 2048) + 2;
    table = pl_build_parameter(b, "weight", PL_SIZES(rows, g->hidden));
    p = pl_aten_embedding(b, table, p, -1);
    pl_module_leave(b);
    if (width != g->hidden) {
        pl_line(b, "inputs_embeds = project_in(inputs_embeds)");
        x = pl_hf_linear(g->m, "project_in", x, g->hidden, false);
    }
    pl_line(b, "hidden_states = inputs_embeds + pos_embeds");
    return pl_aten_add(b, x, p);
}

static int32_t norm_opt(pl_gpt *g, const char *name, int32_t x) {
    if (pl_hf_bool(g->m, "layer_norm_elementwise_affine", true))
        return pl_hf_layer_norm(g->m, name, x, g->eps, true);
    pl_module_enter(g->b, name, "torch.nn.modules.normalization.LayerNorm");
    x = pl_aten_layer_norm(g->b, x, 1, PL_NONE, PL_NONE, g->eps);
    pl_module_leave(g->b);
    return x;
}

static int32_t attention_opt(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    pl_gpt_enter(g, "self_attn", "Attention");
    pl_module_children(b, "k_proj v_proj q_proj out_proj");
    pl_line(b, "query_states = q_proj(hidden_states) * scaling");
    int32_t q = pl_hf_linear(g->m, "q_proj", x, g->hidden, g->bias);
    q = pl_aten_scalar(b, "aten.mul.Tensor", q, g->scale);
    pl_line(b, "query_states = query_states.view().transpose(1, 2)");
    q = pl_gpt_heads(g, q, g->heads);
    pl_line(b, "key_states = k_proj(hidden_states)");
    int32_t k = pl_hf_linear(g->m, "k_proj", x, g->hidden, g->bias);
    pl_line(b, "value_states = v_proj(hidden_states)");
    int32_t v = pl_hf_linear(g->m, "v_proj", x, g->hidden, g->bias);
    pl_line(b, "key_states = key_states.view().transpose(1, 2)");
    k = pl_gpt_heads(g, k, g->heads);
    pl_line(b, "value_states = value_states.view().transpose(1, 2)");
    v = pl_gpt_heads(g, v, g->heads);
    x = pl_gpt_attend(g, q, k, v, 1, true);
    pl_line(b, "attn_output = out_proj(attn_output)");
    x = pl_hf_linear(g->m, "out_proj", x, g->hidden, g->bias);
    pl_module_leave(b);
    return x;
}

static int32_t block_opt(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    bool before = pl_hf_bool(g->m, "do_layer_norm_before", true);
    pl_module_children(b, "self_attn activation_fn self_attn_layer_norm fc1 fc2 final_layer_norm");
    int32_t y = x;
    if (before) {
        pl_line(b, "hidden_states = self_attn_layer_norm(hidden_states)");
        y = norm_opt(g, "self_attn_layer_norm", y);
    }
    y = attention_opt(g, y);
    pl_line(b, "hidden_states = dropout(hidden_states)");
    y = pl_aten_dropout(b, y, g->dropout);
    pl_line(b, "hidden_states = residual + hidden_states");
    x = pl_aten_add(b, x, y);
    if (!before) {
        pl_line(b, "hidden_states = self_attn_layer_norm(hidden_states)");
        x = norm_opt(g, "self_attn_layer_norm", x);
    }
    pl_line(b, "hidden_states = hidden_states.reshape()");
    x = pl_aten_reshape(b, x, PL_SIZES(-1, g->hidden));
    y = x;
    if (before) {
        pl_line(b, "hidden_states = final_layer_norm(hidden_states)");
        y = norm_opt(g, "final_layer_norm", y);
    }
    pl_line(b, "hidden_states = fc1(hidden_states)");
    y = pl_hf_linear(g->m, "fc1", y, g->inner, g->bias);
    pl_line(b, "hidden_states = activation_fn(hidden_states)");
    y = pl_hf_activation(g->m, "activation_fn", g->act, y);
    pl_line(b, "hidden_states = fc2(hidden_states)");
    y = pl_hf_linear(g->m, "fc2", y, g->hidden, g->bias);
    pl_line(b, "hidden_states = dropout(hidden_states) # second");
    y = pl_aten_dropout(b, y, g->dropout);
    pl_line(b, "hidden_states = (residual + hidden_states).view()");
    x = pl_aten_view(b, pl_aten_add(b, x, y), PL_SIZES(g->batch, g->seq, g->hidden));
    if (before) return x;
    pl_line(b, "hidden_states = final_layer_norm(hidden_states)");
    return norm_opt(g, "final_layer_norm", x);
}

static int32_t last_opt(pl_gpt *g, int32_t x) {
    if (pl_hf_bool(g->m, "do_layer_norm_before", true) &&
        !pl_hf_bool(g->m, "_remove_final_layer_norm", false)) {
        pl_line(g->b, "hidden_states = final_layer_norm(hidden_states)");
        x = norm_opt(g, "final_layer_norm", x);
    }
    if (width_opt(g) != g->hidden) {
        pl_line(g->b, "hidden_states = project_out(hidden_states)");
        x = pl_hf_linear(g->m, "project_out", x, width_opt(g), false);
    }
    return x;
}

static const pl_gpt_names opt_names = {"hidden_size|n_embd", "num_hidden_layers|n_layer|num_layers",
                                       "num_attention_heads|n_head|num_heads",
                                       "ffn_dim|intermediate_size|n_inner|ffn_hidden_size"};

const pl_gpt_layout pl_gpt_opt = {
    .names = &opt_names,
    .stem = "OPT",
    .causal = "ForCausalLM",
    .base = "model",
    .decoder = "decoder",
    .children = "embed_tokens embed_positions project_out project_in final_layer_norm layers",
    .blocks = "layers",
    .block = "DecoderLayer",
    .norm = "final_layer_norm",
    .tokens = "classifier",
    .tied = true,
    .read = read_opt,
    .embed = embed_opt,
    .run = block_opt,
    .last = last_opt,
};
