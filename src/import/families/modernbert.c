/* modernbert: ModernBERT: rotary positions, gated layers, and attention over a window in all
 * layers but every third.
 *
 * The order of operators, names and lines are those of transformers 5.22,
 * models/modernbert/modeling_modernbert.py; a file without layer_types has
 * global_attn_every_n_layers.
 *
 * Left out: sequences without padding packed into one (flash attention), sparse_prediction, which
 * depends on how many tokens are masked: as many as there are would be the most. */
#include <math.h>
#include <string.h>

#include "import/families/encoder.h"

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    int64_t vocab, hidden, layers, heads, head, inner, window;
    double eps, attn_drop;
    bool norm_bias, attn_bias, mlp_bias;
    int32_t word;
    int32_t masks[2], cos[2], sin[2]; /* of layers with full attention, with a window */
} model;

static void enter(const model *o, const char *name, const char *class) {
    pl_hf_enter(o->m, name, "modernbert", pl_build_text(o->b, "ModernBert%s", class));
}

static bool windowed(const model *o, int64_t index) {
    if (pl_hf_list(o->m, "layer_types"))
        return strcmp(pl_hf_list_string(o->m, "layer_types", index, "full_attention"),
                      "sliding_attention") == 0;
    int64_t every = pl_hf_int(o->m, "global_attn_every_n_layers", 3);
    return every > 0 && index % every != 0;
}

/* What each kind of layer is given: cos and sin [1, seq, head], and of windows narrower than the
 * sequence a mask [batch, 1, seq, seq]: bool, eager attention's in the embeddings' type. */
static void masks(model *o, int32_t x) {
    pl_builder *b = o->b;
    int64_t seq = o->m->seq, batch = o->m->batch;
    bool eager = o->m->attn == PL_ATTN_EAGER;
    for (int kind = 0; kind < 2; kind++) {
        o->masks[kind] = PL_NONE;
        if (!kind || seq <= o->window) continue; /* nothing is hidden */
        pl_line(b, "attention_mask_mapping = create_bidirectional_sliding_window_mask(");
        int32_t at = pl_aten_arange(b, seq);
        int32_t q = pl_aten_unsqueeze(b, at, -1),
                k = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, at, 0), 0);
        int32_t far = pl_aten_binary(b, "aten.sub.Tensor", q, k);
        far = pl_aten_unary(b, "aten.abs.default", far);
        int32_t mask = pl_aten_scalar(b, "aten.le.Scalar", far, (double)o->window);
        mask = pl_aten_expand(b, mask, PL_SIZES(batch, 1, seq, seq));
        if (eager) {
            pl_dtype dtype = pl_built(b, x)->dtype;
            int32_t none = pl_aten_make(b, "aten.full.default", dtype, 0, NULL, 0);
            int32_t least = pl_aten_make(b, "aten.full.default", dtype, 0, NULL, -3.4e38);
            mask = pl_aten_where(b, mask, none, least);
        }
        o->masks[kind] = mask;
    }
}

static void rotary(model *o, int kind, int32_t position_ids, pl_dtype like) {
    pl_builder *b = o->b;
    const char *name = kind ? "sliding_attention_" : "full_attention_";
    enter(o, "rotary_emb", "RotaryEmbedding");
    int32_t freq = pl_build_buffer(b, pl_build_text(b, "%sinv_freq", name), PL_DT_F32, false,
                                   PL_SIZES(o->head / 2));
    pl_build_buffer(b, pl_build_text(b, "%soriginal_inv_freq", name), PL_DT_F32, false,
                    PL_SIZES(o->head / 2));
    bool grad = pl_build_no_grad(b, true);
    pl_line(b, "freqs = position_ids[..., None].float() * inv_freq");
    int32_t at = pl_aten_to(b, pl_aten_unsqueeze(b, position_ids, -1), PL_DT_F32);
    int32_t x = pl_aten_mul(b, at, freq);
    pl_line(b, "emb = torch.cat((freqs, freqs), dim=-1)");
    x = pl_aten_cat(b, 2, (int32_t[]){x, x}, -1);
    pl_line(b, "cos = emb.cos() * attention_scaling");
    int32_t c = pl_aten_unary(b, "aten.cos.default", x);
    c = pl_aten_scalar(b, "aten.mul.Tensor", c, 1.0);
    pl_line(b, "sin = emb.sin() * attention_scaling");
    int32_t s = pl_aten_unary(b, "aten.sin.default", x);
    s = pl_aten_scalar(b, "aten.mul.Tensor", s, 1.0);
    pl_line(b, "return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)");
    o->cos[kind] = pl_aten_to(b, c, like);
    o->sin[kind] = pl_aten_to(b, s, like);
    pl_build_no_grad(b, grad);
    pl_module_leave(b);
}

/* Rotated in float32, then the type of the product. */
static int32_t rotate(const model *o, int32_t x, int32_t cos, int32_t sin) {
    pl_builder *b = o->b;
    int32_t wide = pl_aten_to(b, x, PL_DT_F32);
    int32_t y = pl_aten_mul(b, wide, cos);
    wide = pl_aten_to(b, x, PL_DT_F32);
    int32_t first = pl_aten_slice(b, wide, 3, 0, o->head / 2);
    int32_t second = pl_aten_slice(b, wide, 3, o->head / 2, INT64_MAX);
    second = pl_aten_unary(b, "aten.neg.default", second);
    int32_t turned = pl_aten_cat(b, 2, (int32_t[]){second, first}, -1);
    return pl_aten_add(b, y, pl_aten_mul(b, turned, sin));
}

static int32_t attention(const model *o, int32_t x, int kind) {
    pl_builder *b = o->b;
    int64_t batch = o->m->batch, seq = o->m->seq;
    int32_t parts[3];
    enter(o, "attn", "Attention");
    pl_line(b, "qkv = self.Wqkv(hidden_states)");
    x = pl_hf_linear(o->m, "Wqkv", x, 3 * o->hidden, o->attn_bias);
    pl_line(b, "qkv = qkv.view(*input_shape, 3, -1, self.head_dim)");
    x = pl_aten_view(b, x, PL_SIZES(batch, seq, 3, -1, o->head));
    pl_line(b, "query_states, key_states, value_states = qkv.unbind(dim=-3)");
    pl_call(b, "aten.unbind.int");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", -3);
    pl_dtype dtype = pl_built(b, x)->dtype;
    for (int i = 0; i < 3; i++)
        parts[i] = pl_call_result(b, dtype, PL_SIZES(batch, seq, o->heads, o->head));
    pl_call_list(b);
    for (int i = 0; i < 3; i++) parts[i] = pl_aten_transpose(b, parts[i], 1, 2);
    pl_line(b, "query_states, key_states = apply_rotary_pos_emb(query_states, key_states)");
    int32_t cos = pl_aten_unsqueeze(b, o->cos[kind], 1),
            sin = pl_aten_unsqueeze(b, o->sin[kind], 1);
    int32_t q = rotate(o, parts[0], cos, sin), k = rotate(o, parts[1], cos, sin);
    q = pl_aten_type_as(b, q, parts[0]);
    k = pl_aten_type_as(b, k, parts[1]);
    pl_hf_attend how = {.scale = 1 / sqrt((double)o->head), .drop = o->attn_drop, .wide = true};
    x = pl_hf_attention_of(o->m, q, k, parts[2], o->masks[kind], how);
    pl_line(b, "attn_output = self.out_drop(self.Wo(attn_output))");
    x = pl_hf_linear(o->m, "Wo", x, o->hidden, o->attn_bias);
    if (o->attn_drop > 0) x = pl_hf_dropout(o->m, "out_drop", x, o->attn_drop);
    pl_module_leave(b);
    return x;
}

static int32_t mlp(const model *o, int32_t x) {
    pl_builder *b = o->b;
    int32_t parts[2];
    enter(o, "mlp", "MLP");
    pl_line(b, "input, gate = self.Wi(hidden_states).chunk(2, dim=-1)");
    x = pl_hf_linear(o->m, "Wi", x, 2 * o->inner, o->mlp_bias);
    pl_aten_chunk(b, x, 2, -1, parts);
    pl_line(b, "return self.Wo(self.drop(self.act(input) * gate))");
    x = pl_hf_activation(o->m, "act", pl_hf_string(o->m, "hidden_activation", "gelu"), parts[0]);
    x = pl_aten_mul(b, x, parts[1]);
    x = pl_hf_dropout(o->m, "drop", x, pl_hf_float(o->m, "mlp_dropout", 0));
    x = pl_hf_linear(o->m, "Wo", x, o->hidden, o->mlp_bias);
    pl_module_leave(b);
    return x;
}

static int32_t layer(const model *o, int64_t index, int32_t x) {
    pl_builder *b = o->b;
    enter(o, pl_build_text(b, "layers.%lld", (long long)index), "EncoderLayer");
    pl_module_children(b, "attn_norm attn mlp_norm mlp");
    pl_line(b, "attn_output, _ = self.attn(self.attn_norm(hidden_states))");
    int32_t y = x;
    if (index > 0) y = pl_hf_layer_norm(o->m, "attn_norm", x, o->eps, o->norm_bias);
    y = attention(o, y, windowed(o, index));
    x = pl_hf_sum(o->m, "hidden_states = hidden_states + attn_output", x, y);
    pl_line(b, "hidden_states = hidden_states + self.mlp(self.mlp_norm(hidden_states))");
    y = mlp(o, pl_hf_layer_norm(o->m, "mlp_norm", x, o->eps, o->norm_bias));
    x = pl_aten_add(b, x, y);
    pl_module_leave(b);
    return x;
}

static int32_t base(model *o) {
    pl_builder *b = o->b;
    pl_module_children(b, "embeddings layers final_norm rotary_emb");
    int32_t ids = pl_hf_input_ids(o->m);
    pl_line(b, "position_ids = torch.arange(seq_len, device=device).unsqueeze(0)");
    int32_t at = pl_aten_unsqueeze(b, pl_aten_arange(b, o->m->seq), 0);
    enter(o, "embeddings", "Embeddings");
    pl_module_enter(b, "tok_embeddings", "torch.nn.modules.sparse.Embedding");
    o->word = pl_build_parameter(b, "weight", PL_SIZES(o->vocab, o->hidden));
    int32_t x = pl_aten_embedding(b, o->word, ids, pl_hf_pad(o->m));
    pl_module_leave(b);
    x = pl_hf_layer_norm(o->m, "norm", x, o->eps, o->norm_bias);
    x = pl_hf_dropout(o->m, "drop", x, pl_hf_float(o->m, "embedding_dropout", 0));
    pl_module_leave(b);
    masks(o, x);
    bool kinds[2] = {false, false};
    for (int64_t i = 0; i < o->layers; i++) kinds[windowed(o, i)] = true;
    pl_dtype dtype = pl_built(b, x)->dtype;
    for (int kind = 0; kind < 2; kind++)
        if (kinds[kind]) rotary(o, kind, at, dtype);
    for (int64_t i = 0; i < o->layers && !pl_build_failed(b); i++) x = layer(o, i, x);
    pl_line(b, "hidden_states = self.final_norm(hidden_states)");
    return pl_hf_layer_norm(o->m, "final_norm", x, o->eps, o->norm_bias);
}

static int32_t head_of(const model *o, int32_t x) {
    enter(o, "head", "PredictionHead");
    pl_line(o->b, "return self.norm(self.act(self.dense(hidden_states)))");
    x = pl_hf_linear(o->m, "dense", x, o->hidden, pl_hf_bool(o->m, "classifier_bias", false));
    x = pl_hf_activation(o->m, "act", pl_hf_string(o->m, "classifier_activation", "gelu"), x);
    x = pl_hf_layer_norm(o->m, "norm", x, o->eps, o->norm_bias);
    pl_module_leave(o->b);
    return x;
}

/* [batch, seq, hidden] to [batch, hidden]: the first token, or the mean over a mask of ones. */
static int32_t pool(const model *o, int32_t x) {
    pl_builder *b = o->b;
    if (strcmp(pl_hf_string(o->m, "classifier_pooling", "cls"), "mean") != 0) {
        pl_line(b, "last_hidden_state = last_hidden_state[:, 0]");
        return pl_aten_select(b, x, 1, 0);
    }
    pl_line(b, "attention_mask = torch.ones(last_hidden_state.shape[:2], dtype=torch.bool)");
    int32_t mask =
        pl_aten_make(b, "aten.ones.default", PL_DT_BOOL, PL_SIZES(o->m->batch, o->m->seq), 1);
    pl_line(b, "last_hidden_state = (last_hidden_state * attention_mask).sum(dim=1) / count");
    x = pl_aten_mul(b, x, pl_aten_unsqueeze(b, mask, -1));
    x = pl_aten_reduce(b, "aten.sum.dim_IntList", x, 1, false);
    mask = pl_aten_reduce(b, "aten.sum.dim_IntList", mask, 1, true);
    return pl_aten_binary(b, "aten.div.Tensor", x, mask);
}

static model read_keys(pl_hf *m) {
    model o = {.m = m, .b = m->b, .word = PL_NONE};
    o.vocab = pl_hf_size(m, "vocab_size", 50368);
    o.hidden = pl_hf_size(m, "hidden_size", 768);
    o.layers = pl_hf_depth(m, "num_hidden_layers", 22);
    o.heads = pl_hf_size(m, "num_attention_heads", 12);
    o.inner = pl_hf_size(m, "intermediate_size", 1152);
    o.window = pl_hf_int(m, "local_attention", 128) / 2;
    o.eps = pl_hf_float(m, "norm_eps", 1e-5);
    o.norm_bias = pl_hf_bool(m, "norm_bias", false);
    o.attn_bias = pl_hf_bool(m, "attention_bias", false);
    o.mlp_bias = pl_hf_bool(m, "mlp_bias", false);
    o.attn_drop = pl_hf_float(m, "attention_dropout", 0);
    pl_hf_divides(m, "num_attention_heads", o.hidden, o.heads);
    o.head = o.hidden / o.heads;
    if (o.head % 2 != 0)
        pl_hf_refuse(m, "num_attention_heads", "heads of %lld: rotary positions go in pairs",
                     (long long)o.head);
    if (pl_hf_bool(m, "sparse_prediction", false) && m->task == PL_TASK_MASKED)
        pl_hf_refuse(m, "sparse_prediction", "the head of masked tokens alone is not built");
    return o;
}

static void build(pl_hf *m) {
    pl_builder *b = m->b;
    model o = read_keys(m);
    if (pl_build_failed(b)) return;
    bool masked = m->task == PL_TASK_MASKED, classify = m->task == PL_TASK_CLASSIFY;
    if (m->task == PL_TASK_BASE) {
        enter(&o, "", "Model");
        pl_build_output(b, base(&o));
        pl_module_leave(b);
        return;
    }
    enter(&o, "",
          masked     ? "ForMaskedLM"
          : classify ? "ForSequenceClassification"
                     : "ForTokenClassification");
    enter(&o, "model", "Model");
    int32_t x = base(&o);
    pl_module_leave(b);
    if (classify) x = pool(&o, x);
    x = head_of(&o, x);
    if (masked) {
        pl_line(b, "logits = self.decoder(self.head(last_hidden_state))");
        bool bias = pl_hf_bool(m, "decoder_bias", true);
        if (pl_hf_bool(m, "tie_word_embeddings", true))
            x = pl_hf_tied_linear(m, "decoder", x, o.word, o.vocab, bias);
        else
            x = pl_hf_linear(m, "decoder", x, o.vocab, bias);
        pl_hf_masked_loss(m, x);
    } else {
        pl_line(b, "last_hidden_state = self.drop(last_hidden_state)");
        x = pl_hf_dropout(m, "drop", x, pl_hf_float(m, "classifier_dropout", 0));
        pl_line(b, "logits = self.classifier(last_hidden_state)");
        x = pl_hf_linear(m, "classifier", x, pl_hf_labels(m), true);
        if (classify)
            pl_hf_classification_loss(m, x);
        else
            pl_hf_own_token_loss(m, x);
    }
    pl_module_leave(b);
}

const pl_hf_family pl_hf_modernbert[] = {
    {.model_type = "modernbert",
     .tasks =
         1u << PL_TASK_MASKED | 1u << PL_TASK_CLASSIFY | 1u << PL_TASK_TOKENS | 1u << PL_TASK_BASE,
     .usual = PL_TASK_MASKED,
     .build = build,
     .version = "5.22"},
    {0},
};
