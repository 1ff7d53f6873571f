/* xlm: XLM as a language model (AutoModelForCausalLM): post-norm layers whose padding is zeroed in place.
 *
 * Rules: transformers 5.22, models/xlm/modeling_xlm.py. The loss is of all tokens, not shifted.
 *
 * Left out: adaptive softmax (asm), languages of tokens, other heads. */
#include <math.h>

#include "import/families/encoder.h"

#define MODULE "transformers.models.xlm.modeling_xlm."

typedef struct xlm {
    pl_hf *m;
    pl_builder *b;
    int64_t width, heads, layers, vocab, positions;
    double eps, drop, attn_drop;
    int32_t mask; /* [B,S] bool */
} xlm;

/* An empty tensor of the cache before x, which is copied. */
static int32_t cached(xlm *o, int32_t x) {
    int32_t none = pl_aten_make(o->b, "aten.zeros.default", pl_built(o->b, x)->dtype,
                                PL_SIZES(o->m->batch, o->heads, 0, o->width / o->heads), 0);
    return pl_aten_cat(o->b, 2, (int32_t[]){none, x}, 2);
}

static int32_t heads_of(xlm *o, const char *name, const char *line, int32_t x) {
    pl_builder *b = o->b;
    pl_line(b, line);
    x = pl_hf_linear(o->m, name, x, o->width, true);
    x = pl_aten_view(b, x, PL_SIZES(o->m->batch, -1, o->heads, o->width / o->heads));
    return pl_aten_transpose(b, x, 1, 2);
}

static int32_t attention(xlm *o, int64_t index, int32_t x) {
    pl_hf *m = o->m;
    pl_builder *b = o->b;
    pl_module_enter(b, pl_build_text(b, "attentions.%lld", (long long)index),
                    MODULE "MultiHeadAttention");
    int32_t q = heads_of(o, "q_lin", "1: q = self.q_lin(input)", x);
    int32_t k = heads_of(o, "k_lin", "1: k = self.k_lin(current_states)", x);
    int32_t v = heads_of(o, "v_lin", "1: v = self.v_lin(current_states)", x);
    pl_line(b, "2: k = cache.update(k, v)");
    k = cached(o, k);
    pl_line(b, "2: v = cache.update(k, v)");
    v = cached(o, v);
    pl_line(b, "2: q = q / math.sqrt(self.head_dim)");
    q = pl_aten_scalar(b, "aten.div.Tensor", q, sqrt((double)(o->width / o->heads)));
    pl_line(b, "scores = torch.matmul(q, k.transpose(2, 3))");
    int32_t scores = pl_aten_matmul(b, q, pl_aten_transpose(b, k, 2, 3));
    pl_line(b, "mask = (mask == 0).view(mask_reshape).expand_as(scores)");
    int32_t hidden = pl_aten_scalar(b, "aten.eq.Scalar", o->mask, 0);
    hidden = pl_aten_view(b, hidden, PL_SIZES(m->batch, 1, 1, m->seq));
    hidden = pl_aten_expand(b, hidden, PL_SIZES(-1, o->heads, m->seq, -1));
    pl_line(b, "");
    pl_call(b, "aten.masked_fill_.Scalar");
    pl_call_tensor(b, "self", scores);
    pl_call_tensor(b, "mask", hidden);
    pl_call_float(b, "value", -3e38);
    scores = pl_call_result_like(b, scores);
    pl_line(b, "1: weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)");
    int32_t w = pl_aten_softmax(b, pl_aten_to(b, scores, PL_DT_F32), -1, PL_DT_UNKNOWN);
    w = pl_aten_type_as(b, w, scores);
    pl_line(b, "2: weights = nn.functional.dropout(weights)");
    w = pl_aten_dropout(b, w, o->attn_drop);
    pl_line(b, "1: context = torch.matmul(weights, v)");
    x = pl_aten_matmul(b, w, v);
    pl_line(b, "2: context = context.transpose(1, 2).contiguous().view(bs, -1, dim)");
    x = pl_aten_contiguous(b, pl_aten_transpose(b, x, 1, 2));
    x = pl_aten_view(b, x, PL_SIZES(m->batch, m->seq, -1));
    pl_line(b, "outputs = self.out_lin(context)");
    x = pl_hf_linear(m, "out_lin", x, o->width, true);
    pl_module_leave(b);
    return x;
}

static int32_t feed_forward(xlm *o, int64_t index, int32_t x) {
    pl_hf *m = o->m;
    pl_builder *b = o->b;
    pl_module_enter(b, pl_build_text(b, "ffns.%lld", (long long)index), MODULE "TransformerFFN");
    pl_line(b, "1: x = self.lin1(input)");
    x = pl_hf_linear(m, "lin1", x, 4 * o->width, true);
    pl_line(b, "2: x = self.act(x)");
    x = pl_hf_activation(m, "act", pl_hf_bool(m, "gelu_activation", true) ? "gelu" : "relu", x);
    pl_line(b, "3: x = self.lin2(x)");
    x = pl_hf_linear(m, "lin2", x, o->width, true);
    pl_line(b, "4: x = nn.functional.dropout(x)");
    x = pl_aten_dropout(b, x, o->drop);
    pl_module_leave(b);
    return x;
}

/* tensor *= mask.unsqueeze(-1).to(tensor.dtype) */
static int32_t masked(xlm *o, int32_t x) {
    pl_builder *b = o->b;
    int32_t mask = pl_aten_type_as(b, pl_aten_unsqueeze(b, o->mask, -1), x);
    return pl_aten_binary(b, "aten.mul_.Tensor", x, mask);
}

/* The tokens before each sample's length, which is how many are no padding. */
static int32_t mask_of(xlm *o, int32_t ids) {
    pl_hf *m = o->m;
    pl_builder *b = o->b;
    int32_t kept =
        pl_aten_scalar(b, "aten.ne.Scalar", ids, (double)pl_hf_int(m, "pad_index|pad_token_id", 2));
    pl_call(b, "aten.sum.dim_IntList");
    pl_call_tensor(b, "self", kept);
    pl_call_ints(b, "dim", 1, (int64_t[]){1});
    int32_t lengths = pl_call_result(b, PL_DT_I64, PL_SIZES(m->batch));
    return pl_aten_binary(b, "aten.lt.Tensor", pl_aten_arange(b, m->seq),
                          pl_aten_unsqueeze(b, lengths, 1));
}

static int32_t body(xlm *o, int32_t *table) {
    pl_hf *m = o->m;
    pl_builder *b = o->b;
    int32_t ids = pl_hf_input_ids(m), weight;
    pl_line(b, "mask, attn_mask = get_masks(slen, lengths)");
    o->mask = mask_of(o, ids);
    int32_t at = pl_build_buffer(b, "position_ids", PL_DT_I64, false, PL_SIZES(1, o->positions));
    pl_line(b, "position_ids = self.position_ids[:, :slen]");
    at = pl_aten_slice(b, at, 1, 0, m->seq);
    pl_line(b, "inputs_embeds = self.embeddings(input_ids)");
    pl_module_enter(b, "embeddings", "torch.nn.modules.sparse.Embedding");
    *table = pl_build_parameter(b, "weight", PL_SIZES(o->vocab, o->width));
    int32_t x = pl_aten_embedding(b, *table, ids, -1);
    pl_module_leave(b);
    pl_line(b, "0: tensor = inputs_embeds + self.position_embeddings(position_ids)");
    pl_module_enter(b, "position_embeddings", "torch.nn.modules.sparse.Embedding");
    weight = pl_build_parameter(b, "weight", PL_SIZES(o->positions, o->width));
    if (pl_hf_bool(m, "sinusoidal_embeddings", false)) pl_build_freeze(b, weight);
    int32_t y = pl_aten_embedding(b, weight, at, -1);
    pl_module_leave(b);
    x = pl_aten_add(b, x, y);
    pl_line(b, "1: tensor = self.layer_norm_emb(tensor)");
    x = pl_hf_layer_norm(m, "layer_norm_emb", x, o->eps, true);
    pl_line(b, "2: tensor = nn.functional.dropout(tensor)");
    x = masked(o, pl_aten_dropout(b, x, o->drop));
    for (int64_t i = 0; i < o->layers && !pl_build_failed(b); i++) {
        long long at_layer = (long long)i;
        pl_line(b, pl_build_text(b, "%lldc: attn = self.attentions[i](tensor)", at_layer));
        y = attention(o, i, x);
        y = pl_aten_dropout(b, y, o->drop);
        pl_line(b, pl_build_text(b, "%lldc: tensor = tensor + attn", at_layer));
        x = pl_aten_add(b, x, y);
        pl_line(b, pl_build_text(b, "%lldd: tensor = self.layer_norm1[i](tensor)", at_layer));
        x = pl_hf_layer_norm(m, pl_build_text(b, "layer_norm1.%lld", at_layer), x, o->eps, true);
        pl_line(b, pl_build_text(b, "%llde: tensor = tensor + self.ffns[i](tensor)", at_layer));
        x = pl_aten_add(b, x, feed_forward(o, i, x));
        pl_line(b, pl_build_text(b, "%lldf: tensor = self.layer_norm2[i](tensor)", at_layer));
        x = pl_hf_layer_norm(m, pl_build_text(b, "layer_norm2.%lld", at_layer), x, o->eps, true);
        x = masked(o, x);
    }
    return x;
}

static void build_xlm(pl_hf *m) {
    xlm o = {.m = m,
             .b = m->b,
             .width = pl_hf_size(m, "emb_dim|hidden_size|d_model", 2048),
             .heads = pl_hf_size(m, "n_heads|num_attention_heads", 16),
             .layers = pl_hf_layers(m, "n_layers|num_hidden_layers"),
             .vocab = pl_hf_size(m, "vocab_size|n_words", 30145),
             .positions = pl_hf_size(m, "max_position_embeddings", 512),
             .eps = pl_hf_float(m, "layer_norm_eps", 1e-12),
             .drop = pl_hf_float(m, "dropout", 0.1),
             .attn_drop = pl_hf_float(m, "attention_dropout", 0.1)};
    pl_builder *b = m->b;
    if (o.width % o.heads != 0)
        pl_hf_refuse(m, "n_heads|num_attention_heads", "the width, %lld, is no multiple of it",
                     (long long)o.width);
    if (pl_hf_bool(m, "asm", false)) pl_hf_refuse(m, "asm", "adaptive softmax is not built");
    if (pl_build_failed(b)) return;
    int32_t table;
    pl_module_enter(b, "", MODULE "XLMWithLMHeadModel");
    pl_module_enter(b, "transformer", MODULE "XLMModel");
    int32_t x = body(&o, &table);
    pl_module_leave(b);
    pl_line(b, "outputs = self.pred_layer(output, labels)");
    pl_module_enter(b, "pred_layer", MODULE "XLMPredLayer");
    pl_line(b, "scores = self.proj(x)");
    x = pl_hf_bool(m, "tie_word_embeddings", true)
            ? pl_hf_tied_linear(m, "proj", x, table, o.vocab, true)
            : pl_hf_linear(m, "proj", x, o.vocab, true);
    pl_module_leave(b);
    pl_hf_own_token_loss(m, x);
    pl_module_leave(b);
}

const pl_hf_family pl_hf_xlm[] = {
    {.model_type = "xlm",
     .tasks = 1u << PL_TASK_CAUSAL,
     .usual = PL_TASK_CAUSAL,
     .build = build_xlm,
     .version = "5.22",
     .learnt_positions = true,
     .usual_positions = 512,
     .no_attention = 1u << PL_ATTN_SDPA | 1u << PL_ATTN_FLASH2},
    {0},
};
