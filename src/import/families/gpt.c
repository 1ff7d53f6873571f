/* gpt: decoder-only models before and beside Llama: the skeleton that all share (embedding, blocks,
 * last norm, heads), and the blocks of gpt2 and gpt_bigcode; the others are in gpt_more.c and
 * gpt_old.c.
 *
 * Rules: transformers 5.22, models/FAMILY/modeling_FAMILY.py, with use_cache off and no
 * attention_mask, as a training loop over packed sequences calls them. Lines of code are shortened
 * to what names a value.
 *
 * Left out: cross attention, caches. */
#include "import/families/gpt.h"

#include <math.h>

/* ---- what all share ---- */

void pl_gpt_enter(pl_gpt *g, const char *name, const char *class) {
    pl_module_enter(g->b, name,
                    pl_build_text(g->b, "transformers.models.%s.modeling_%s.%s%s",
                                  g->m->family->model_type, g->m->family->model_type, g->is->stem,
                                  class));
    pl_line(g->b, "");
}

int32_t pl_gpt_embedding(pl_gpt *g, const char *name, int64_t rows, int64_t width, int32_t indices,
                         int64_t padding, int32_t *weight) {
    pl_module_enter(g->b, name, "torch.nn.modules.sparse.Embedding");
    *weight = pl_build_parameter(g->b, "weight", PL_SIZES(rows, width));
    int32_t x = pl_aten_embedding(g->b, *weight, indices, padding);
    pl_module_leave(g->b);
    return x;
}

void pl_gpt_positions(pl_gpt *g) {
    pl_line(g->b, "position_ids = arange + past_seen_tokens");
    int32_t x = pl_aten_scalar(g->b, "aten.add.Tensor", pl_aten_arange(g->b, g->seq), 0);
    pl_line(g->b, "position_ids = position_ids.unsqueeze(0)");
    g->positions = pl_aten_unsqueeze(g->b, x, 0);
}

int64_t pl_gpt_rows(pl_gpt *g, const char *key, int64_t otherwise) {
    int64_t rows = pl_hf_int(g->m, key, otherwise);
    if (rows < g->seq)
        pl_hf_refuse(g->m, key, "%lld positions, fewer than the sequence of %lld", (long long)rows,
                     (long long)g->seq);
    return rows;
}

int32_t pl_gpt_mask(pl_gpt *g, int32_t like) {
    pl_builder *b = g->b;
    pl_line(b, "causal_mask = create_causal_mask()");
    int32_t q = pl_aten_scalar(b, "aten.add.Tensor", pl_aten_arange(b, g->seq), 0);
    int32_t k = pl_aten_scalar(b, "aten.add.Tensor", pl_aten_arange(b, g->seq), 0);
    q = pl_aten_view(b, q, PL_SIZES(1, 1, g->seq, 1));
    k = pl_aten_view(b, k, PL_SIZES(1, 1, 1, g->seq));
    int32_t mask = pl_aten_binary(b, "aten.le.Tensor", k, q);
    mask = pl_aten_expand(b, mask, PL_SIZES(g->batch, -1, g->seq, g->seq));
    if (like < 0) return mask;
    pl_dtype dtype = pl_built(b, like)->dtype;
    int32_t zero = pl_aten_make(b, "aten.zeros.default", dtype, 0, NULL, 0);
    zero = pl_aten_type_as(g->b, zero, like);
    pl_call(b, "aten.where.ScalarOther");
    pl_call_tensor(b, "condition", mask);
    pl_call_tensor(b, "self", zero);
    pl_call_float(b, "other", -3.4028234663852886e+38);
    return pl_call_result(b, dtype, PL_SIZES(g->batch, 1, g->seq, g->seq));
}

int32_t pl_gpt_heads(pl_gpt *g, int32_t x, int64_t heads) {
    x = pl_aten_view(g->b, x, PL_SIZES(g->batch, g->seq, heads, -1));
    return pl_aten_transpose(g->b, x, 1, 2);
}

int32_t pl_gpt_attend(pl_gpt *g, int32_t q, int32_t k, int32_t v, double scale, bool upcast) {
    pl_builder *b = g->b;
    int32_t y;
    pl_line(b, "attn_output, attn_weights = attention_interface()");
    if (g->m->attn != PL_ATTN_EAGER) {
        y = pl_aten_attention(b, q, k, v, PL_NONE, g->attn_dropout, g->seq > 1, scale,
                              g->kv_heads != g->heads);
        y = pl_aten_contiguous(b, pl_aten_transpose(b, y, 1, 2));
    } else {
        k = pl_hf_repeat_heads(g->m, k, g->heads);
        v = pl_hf_repeat_heads(g->m, v, g->heads);
        int32_t w = pl_aten_matmul(b, q, pl_aten_transpose(b, k, -1, -2));
        w = pl_aten_add(b, pl_aten_scalar(b, "aten.mul.Tensor", w, scale), g->mask);
        w = pl_aten_softmax(b, w, -1, upcast ? PL_DT_F32 : PL_DT_UNKNOWN);
        w = pl_aten_dropout(b, pl_aten_type_as(g->b, w, upcast ? q : v), g->attn_dropout);
        y = pl_aten_transpose(b, pl_aten_matmul(b, w, v), 1, 2);
        if (upcast) y = pl_aten_contiguous(b, y);
    }
    pl_line(b, "attn_output = attn_output.reshape()");
    return pl_aten_reshape(b, y, PL_SIZES(g->batch, g->seq, -1));
}

int32_t pl_gpt_mlp(pl_gpt *g, int32_t x, const char *first, const char *act, const char *second) {
    pl_line(g->b, "hidden_states = first(hidden_states)");
    x = pl_hf_linear(g->m, first, x, g->inner, true);
    pl_line(g->b, "hidden_states = act(hidden_states)");
    x = pl_hf_activation(g->m, act, g->act, x);
    pl_line(g->b, "hidden_states = second(hidden_states)");
    return pl_hf_linear(g->m, second, x, g->hidden, true);
}

/* ---- heads ---- */

static int32_t pool(pl_gpt *g, int32_t ids, int32_t logits) {
    int64_t pad = pl_hf_pad(g->m);
    if (pad >= 0) return pl_hf_last_token(g->m, ids, pad, logits);
    /* of one sample alone: more are refused by transformers */
    pl_line(g->b, "pooled_logits = logits[arange, -1]");
    return pl_aten_select(g->b, logits, 1, g->seq - 1);
}

static void head(pl_gpt *g, int32_t ids, int32_t x) {
    pl_hf *m = g->m;
    pl_builder *b = g->b;
    switch (m->task) {
    case PL_TASK_CAUSAL:
        pl_line(b, "logits = lm_head(hidden_states)");
        if (pl_hf_bool(m, "tie_word_embeddings", g->is->tied))
            x = pl_hf_tied_linear(m, "lm_head", x, g->table, g->vocab, g->is->head_bias);
        else
            x = pl_hf_linear(m, "lm_head", x, g->vocab, g->is->head_bias);
        pl_hf_causal_loss(m, x);
        return;
    case PL_TASK_CLASSIFY:
        pl_line(b, "logits = score(hidden_states)");
        x = pl_hf_linear(m, "score", x, pl_hf_labels(m), false);
        pl_hf_classification_loss(m, pool(g, ids, x));
        return;
    case PL_TASK_TOKENS:
        pl_line(b, "hidden_states = dropout(hidden_states)");
        x = pl_hf_dropout(
            m, "dropout", x,
            pl_hf_float(m, "classifier_dropout|hidden_dropout", g->is->classifier_dropout));
        pl_line(b, "logits = classifier(hidden_states)");
        x = pl_hf_linear(m, g->is->tokens, x, pl_hf_labels(m), true);
        pl_hf_token_loss(m, x);
        return;
    default: pl_build_output(b, x);
    }
}

/* ---- the whole model ---- */

const pl_gpt_names pl_gpt_short = {"n_embd|hidden_size|n_embed",
                                   "n_layer|num_hidden_layers|num_layers",
                                   "n_head|num_attention_heads|num_heads",
                                   "n_inner|intermediate_size|ffn_dim|ffn_hidden_size"},
                   pl_gpt_long = {"hidden_size|n_embd|n_embed",
                                  "num_hidden_layers|n_layer|num_layers",
                                  "num_attention_heads|n_head|num_heads",
                                  "intermediate_size|n_inner|ffn_dim|ffn_hidden_size"};

static void read_config(pl_gpt *g) {
    pl_hf *m = g->m;
    g->vocab = pl_hf_need(m, "vocab_size");
    const pl_gpt_names *names = g->is->names;
    g->hidden = pl_hf_need(m, names->width);
    g->layers = pl_hf_layers(m, names->layers);
    g->heads = pl_hf_need(m, names->heads);
    g->kv_heads = g->heads;
    g->inner = pl_hf_int(m, names->inner, 4 * g->hidden);
    if (g->inner < 1) pl_hf_refuse(m, names->inner, "expected at least 1");
    g->eps = pl_hf_float(m, "layer_norm_epsilon|layer_norm_eps", 1e-5);
    if (g->heads < 1 || g->hidden % g->heads != 0) {
        pl_hf_refuse(m, names->heads, "not a divisor of the width %lld", (long long)g->hidden);
        g->heads = g->kv_heads = 1;
    }
    g->head_dim = g->hidden / g->heads;
    g->scale = 1 / sqrt((double)g->head_dim);
    g->bias = true;
    if (g->is->read) g->is->read(g);
}

static const char *head_class(const pl_gpt *g) {
    switch (g->m->task) {
    case PL_TASK_CAUSAL: return g->is->causal;
    case PL_TASK_CLASSIFY: return "ForSequenceClassification";
    case PL_TASK_TOKENS: return "ForTokenClassification";
    default: return "Model";
    }
}

static void build(pl_hf *m) {
    const pl_gpt_layout *layout = m->family->plan;
    pl_gpt state = {.m = m,
                    .b = m->b,
                    .is = layout,
                    .batch = m->batch,
                    .seq = m->seq,
                    .mask = PL_NONE,
                    .alibi = PL_NONE,
                    .positions = PL_NONE};
    pl_gpt *g = &state;
    pl_builder *b = m->b;
    read_config(g);
    if (pl_build_failed(b)) return;
    bool headed = m->task != PL_TASK_BASE;
    pl_gpt_enter(g, "", head_class(g));
    if (headed)
        pl_module_children(
            b, pl_build_text(b, "%s lm_head dropout %s score", layout->base, layout->tokens));
    int32_t ids = pl_hf_input_ids(m);
    if (headed) pl_gpt_enter(g, layout->base, "Model");
    if (layout->decoder) pl_gpt_enter(g, layout->decoder, "Decoder");
    pl_module_children(b, layout->children);
    int32_t x = layout->embed(g, ids);
    for (g->layer = 0; g->layer < g->layers && !pl_build_failed(b); g->layer++) {
        pl_gpt_enter(g, pl_build_text(b, "%s.%lld", layout->blocks, (long long)g->layer),
                     layout->block);
        x = layout->run(g, x);
        pl_module_leave(b);
    }
    x = layout->last(g, x);
    if (layout->decoder) pl_module_leave(b);
    if (headed) pl_module_leave(b);
    head(g, ids, x);
    pl_module_leave(b);
}

int32_t pl_gpt_last(pl_gpt *g, int32_t x) {
    pl_line(g->b, "hidden_states = last_norm(hidden_states)");
    x = pl_hf_layer_norm(g->m, g->is->norm, x, g->eps, true);
    if (!g->is->last_view) return x;
    pl_line(g->b, "hidden_states = hidden_states.view(output_shape)");
    return pl_aten_view(g->b, x, PL_SIZES(-1, g->seq, g->hidden));
}

/* ---- gpt2, gpt_bigcode: learnt positions, one product for queries, keys and values ---- */

static void read_gpt2(pl_gpt *g) {
    g->embed_dropout = pl_hf_float(g->m, "embd_pdrop", 0.1);
    g->attn_dropout = pl_hf_float(g->m, "attn_pdrop", 0.1);
    g->dropout = pl_hf_float(g->m, "resid_pdrop", 0.1);
    g->act = pl_hf_string(g->m, "activation_function", "gelu_new");
    if (!pl_hf_bool(g->m, "scale_attn_weights", true)) g->scale = 1;
}

static void read_bigcode(pl_gpt *g) {
    read_gpt2(g);
    g->act = pl_hf_string(g->m, "activation_function", "gelu_pytorch_tanh");
    if (pl_hf_bool(g->m, "multi_query", true)) g->kv_heads = 1;
}

static int32_t embed_gpt2(pl_gpt *g, int32_t ids) {
    pl_builder *b = g->b;
    int32_t table;
    pl_line(b, "input_ids = input_ids.view()");
    ids = pl_aten_view(b, ids, PL_SIZES(-1, g->seq));
    pl_line(b, "inputs_embeds = wte(input_ids)");
    int32_t x = pl_gpt_embedding(g, "wte", g->vocab, g->hidden, ids, -1, &g->table);
    pl_gpt_positions(g);
    pl_line(b, "position_embeds = wpe(position_ids)");
    int64_t rows = pl_gpt_rows(g, "n_positions|max_position_embeddings", 1024);
    int32_t p = pl_gpt_embedding(g, "wpe", rows, g->hidden, g->positions, -1, &table);
    pl_line(b, "hidden_states = inputs_embeds + position_embeds");
    x = pl_aten_add(b, x, p);
    if (!g->is->conv1d) /* gpt_bigcode's own mask, which nothing uses */
        pl_build_buffer(b, "bias", PL_DT_BOOL, false, PL_SIZES(rows, rows));
    if (g->m->attn == PL_ATTN_EAGER) g->mask = pl_gpt_mask(g, x);
    pl_line(b, "hidden_states = drop(hidden_states)");
    return pl_hf_dropout(g->m, "drop", x, g->embed_dropout);
}

/* transformers' Conv1D: a linear layer whose weight [in, out] is not transposed. */
int32_t pl_gpt_conv1d(pl_gpt *g, const char *name, int32_t x, int64_t out) {
    pl_builder *b = g->b;
    int64_t in = pl_built_size(b, x, -1);
    pl_module_enter(b, name, "transformers.pytorch_utils.Conv1D");
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(in, out));
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(out));
    pl_line(b, "x = addmm(bias, x, weight)");
    x = pl_aten_addmm(b, bias, pl_aten_view(b, x, PL_SIZES(-1, in)), weight);
    pl_line(b, "x = x.view(size_out)");
    x = pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, out));
    pl_module_leave(b);
    return x;
}

static int32_t attention_gpt2(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    int32_t qkv[3];
    double scale = g->scale;
    if (pl_hf_bool(g->m, "scale_attn_by_inverse_layer_idx", false)) scale /= (double)(g->layer + 1);
    pl_gpt_enter(g, "attn", "Attention");
    pl_module_children(b, "c_attn c_proj attn_dropout resid_dropout");
    pl_line(b, "query_states, key_states, value_states = c_attn(hidden_states).split()");
    x = pl_gpt_conv1d(g, "c_attn", x, 3 * g->hidden);
    pl_aten_split(b, x, 3, (int64_t[]){g->hidden, g->hidden, g->hidden}, 2, qkv);
    pl_line(b, "key_states = key_states.view().transpose(1, 2)");
    qkv[1] = pl_gpt_heads(g, qkv[1], g->heads);
    pl_line(b, "value_states = value_states.view().transpose(1, 2)");
    qkv[2] = pl_gpt_heads(g, qkv[2], g->heads);
    pl_line(b, "query_states = query_states.view().transpose(1, 2)");
    qkv[0] = pl_gpt_heads(g, qkv[0], g->heads);
    x = pl_gpt_attend(g, qkv[0], qkv[1], qkv[2], scale, false);
    pl_line(b, "attn_output = c_proj(attn_output)");
    x = pl_gpt_conv1d(g, "c_proj", x, g->hidden);
    pl_line(b, "attn_output = resid_dropout(attn_output)");
    x = pl_hf_dropout(g->m, "resid_dropout", x, g->dropout);
    pl_module_leave(b);
    return x;
}

static int32_t attention_bigcode(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    int64_t kv = g->kv_heads * g->head_dim;
    int32_t q, k, v, parts[3];
    pl_gpt_enter(g, "attn", "Attention");
    pl_module_children(b, "c_attn c_proj attn_dropout resid_dropout");
    pl_line(b, g->kv_heads == 1 ? "query, key, value = (c_attn(hidden_states).split())"
                                : "query, key, value = (c_attn(hidden_states).view().split())");
    x = pl_hf_linear(g->m, "c_attn", x, g->hidden + 2 * kv, true);
    if (g->kv_heads == 1) {
        x = pl_aten_unsqueeze(b, x, 1);
        pl_aten_split(b, x, 3, (int64_t[]){g->hidden, kv, kv}, 3, parts);
        q = parts[0], k = parts[1], v = parts[2];
        pl_line(b, "query = query.view().transpose(1, 2)");
        q = pl_gpt_heads(g, q, g->heads);
    } else {
        x = pl_aten_view(b, x, PL_SIZES(g->batch, g->seq, g->heads, 3 * g->head_dim));
        x = pl_aten_transpose(b, x, 1, 2);
        pl_aten_split(b, x, 3, (int64_t[]){g->head_dim, g->head_dim, g->head_dim}, 3, parts);
        q = parts[0], k = parts[1], v = parts[2];
    }
    x = pl_gpt_attend(g, q, k, v, g->scale, true);
    pl_line(b, "attn_output = c_proj(attn_output)");
    x = pl_hf_linear(g->m, "c_proj", x, g->hidden, true);
    pl_line(b, "attn_output = resid_dropout(attn_output)");
    x = pl_hf_dropout(g->m, "resid_dropout", x, g->dropout);
    pl_module_leave(b);
    return x;
}

static int32_t block_gpt2(pl_gpt *g, int32_t x) {
    pl_builder *b = g->b;
    bool conv = g->is->conv1d;
    pl_module_children(b, "ln_1 attn ln_2 mlp");
    pl_line(b, "hidden_states = ln_1(hidden_states)");
    int32_t y = pl_hf_layer_norm(g->m, "ln_1", x, g->eps, true);
    y = conv ? attention_gpt2(g, y) : attention_bigcode(g, y);
    pl_line(b, "hidden_states = attn_output + residual");
    x = pl_aten_add(b, y, x);
    pl_line(b, "hidden_states = ln_2(hidden_states)");
    y = pl_hf_layer_norm(g->m, "ln_2", x, g->eps, true);
    pl_gpt_enter(g, "mlp", "MLP");
    pl_module_children(b, "c_fc c_proj act dropout");
    if (conv) {
        pl_line(b, "hidden_states = c_fc(hidden_states)");
        y = pl_gpt_conv1d(g, "c_fc", y, g->inner);
        pl_line(b, "hidden_states = act(hidden_states)");
        y = pl_hf_activation(g->m, "act", g->act, y);
        pl_line(b, "hidden_states = c_proj(hidden_states)");
        y = pl_gpt_conv1d(g, "c_proj", y, g->hidden);
    } else {
        y = pl_gpt_mlp(g, y, "c_fc", "act", "c_proj");
    }
    pl_line(b, "hidden_states = dropout(hidden_states)");
    y = pl_hf_dropout(g->m, "dropout", y, g->dropout);
    pl_module_leave(b);
    pl_line(b, "hidden_states = residual + feed_forward_hidden_states");
    return pl_aten_add(b, x, y);
}

/* ---- rows ---- */

static const pl_gpt_layout gpt2 = {
    .names = &pl_gpt_short,
    .stem = "GPT2",
    .causal = "LMHeadModel",
    .base = "transformer",
    .children = "wte wpe drop h ln_f",
    .blocks = "h",
    .block = "Block",
    .norm = "ln_f",
    .tokens = "classifier",
    .tied = true,
    .last_view = true,
    .conv1d = true,
    .classifier_dropout = 0.1,
    .read = read_gpt2,
    .embed = embed_gpt2,
    .run = block_gpt2,
    .last = pl_gpt_last,
};

static const pl_gpt_layout bigcode = {
    .names = &pl_gpt_short,
    .stem = "GPTBigCode",
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
    .read = read_bigcode,
    .embed = embed_gpt2,
    .run = block_gpt2,
    .last = pl_gpt_last,
};

#define HEADS  (1u << PL_TASK_CAUSAL | 1u << PL_TASK_CLASSIFY | 1u << PL_TASK_BASE)
#define TOKENS (1u << PL_TASK_TOKENS)
#define ROW(type, heads, layout)                                                                   \
    {                                                                                              \
        .model_type = type, .tasks = heads, .usual = PL_TASK_CAUSAL, .build = build,               \
        .plan = &(layout), .version = "5.22"                                                       \
    }
/* With a table of positions, of as many rows as key says, or count. */
#define LEARNT(type, heads, layout, key, count, missing)                                           \
    {                                                                                              \
        .model_type = type, .tasks = heads, .usual = PL_TASK_CAUSAL, .build = build,               \
        .plan = &(layout), .version = "5.22", .learnt_positions = true, .positions = key,          \
        .usual_positions = count, .no_attention = missing                                          \
    }

/* Attention of its own alone. */
#define OWN(type, heads, layout)                                                                   \
    {                                                                                              \
        .model_type = type, .tasks = heads, .usual = PL_TASK_CAUSAL, .build = build,               \
        .plan = &(layout), .version = "5.22", .no_attention = NO_SDPA | NO_FLASH                   \
    }

#define CAUSAL    (1u << PL_TASK_CAUSAL | 1u << PL_TASK_BASE)
#define POSITIONS "n_positions|max_position_embeddings"
#define NO_SDPA   (1u << PL_ATTN_SDPA)
#define NO_FLASH  (1u << PL_ATTN_FLASH2)

const pl_hf_family pl_hf_gpt[] = {
    LEARNT("gpt2", HEADS | TOKENS, gpt2, POSITIONS, 1024, 0),
    LEARNT("gpt_bigcode", HEADS | TOKENS, bigcode, POSITIONS, 1024, 0),
    LEARNT("opt", HEADS, pl_gpt_opt, "max_position_embeddings", 2048, 0),
    ROW("gpt_neox", HEADS | TOKENS, pl_gpt_neox),
    ROW("phi", HEADS | TOKENS, pl_gpt_phi),
    {.model_type = "bloom",
     .tasks = HEADS | TOKENS,
     .usual = PL_TASK_CAUSAL,
     .build = build,
     .plan = &pl_gpt_bloom,
     .version = "5.22",
     .no_attention = NO_SDPA | NO_FLASH},
    ROW("falcon", HEADS | TOKENS, pl_gpt_falcon),
    LEARNT("gptj", HEADS, pl_gpt_gptj, POSITIONS, 2048, NO_SDPA),
    LEARNT("codegen", 1u << PL_TASK_CAUSAL | 1u << PL_TASK_BASE, pl_gpt_codegen, POSITIONS, 2048,
           NO_SDPA | NO_FLASH),
    LEARNT("gpt_neo", HEADS | TOKENS, pl_gpt_neo, "max_position_embeddings", 2048, NO_SDPA),
    LEARNT("gpt-sw3", HEADS | TOKENS, gpt2, POSITIONS, 1024, 0),
    LEARNT("biogpt", HEADS | TOKENS, pl_gpt_biogpt, "max_position_embeddings", 1024, 0),
    LEARNT("ctrl", CAUSAL, pl_gpt_ctrl, POSITIONS, 256, 0),
    LEARNT("openai-gpt", HEADS, pl_gpt_openai, POSITIONS, 512, NO_SDPA | NO_FLASH),
    LEARNT("mpt", HEADS | TOKENS, pl_gpt_mpt, "max_seq_len", 2048, NO_SDPA | NO_FLASH),
    OWN("xglm", CAUSAL, pl_gpt_xglm),
    OWN("gpt_neox_japanese", CAUSAL, pl_gpt_japanese),
    ROW("persimmon", HEADS | TOKENS, pl_gpt_persimmon),
    {0},
};
