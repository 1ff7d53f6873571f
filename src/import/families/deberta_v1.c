/* deberta_v1: DeBERTa, the first one (model_type deberta).
 *
 * Disentangled attention as in deberta.c, with one product for queries, keys and values, and layer
 * norms spelt out in operators. The order of operators, names and lines are those of transformers
 * 5.22, models/deberta/modeling_deberta.py; scales are made on the CPU there, plain numbers here.
 *
 * Left out: talking heads, an embedding of another width than the layers. */
#include <math.h>
#include <string.h>

#include "import/families/encoder.h"

enum { POSITIONS = 512 }; /* where the file does not say */

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    int64_t vocab, hidden, layers, heads, head, inner, positions, types, span, farthest, pad;
    bool relative, c2p, p2c, biased;
    double eps, drop, attn_drop;
    const char *act;
    int32_t word, mask; /* mask: ones, float32 [batch, seq] */
} model;

/* What all layers are given: bool-like [batch, 1, seq, seq]; int64 [1, seq, seq]; the table. */
typedef struct given {
    int32_t mask, distances, table;
} given;

static void enter(const model *o, const char *name, const char *class) {
    pl_hf_enter(o->m, name, "deberta", class);
}

/* Mean, variance and quotient in float32, each an operator. */
static int32_t spelt_norm(const model *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "LayerNorm", "DebertaLayerNorm");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(o->hidden));
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(o->hidden));
    pl_line(b, "hidden_states = hidden_states.float()");
    int32_t wide = pl_aten_to(b, x, PL_DT_F32);
    pl_line(b, "mean = hidden_states.mean(-1, keepdim=True)");
    int32_t mean = pl_aten_reduce(b, "aten.mean.dim", wide, -1, true);
    pl_line(b, "variance = (hidden_states - mean).pow(2).mean(-1, keepdim=True)");
    int32_t y = pl_aten_binary(b, "aten.sub.Tensor", wide, mean);
    y = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", y, 2);
    int32_t variance = pl_aten_reduce(b, "aten.mean.dim", y, -1, true);
    pl_line(b, "hidden_states = (hidden_states - mean) / torch.sqrt(variance + eps)");
    y = pl_aten_binary(b, "aten.sub.Tensor", wide, mean);
    variance = pl_aten_scalar(b, "aten.add.Tensor", variance, o->eps);
    y = pl_aten_binary(b, "aten.div.Tensor", y, pl_aten_unary(b, "aten.sqrt.default", variance));
    pl_line(b, "hidden_states = hidden_states.to(input_type)");
    y = pl_aten_type_as(b, y, x);
    pl_line(b, "y = self.weight * hidden_states + self.bias");
    y = pl_aten_add(b, pl_aten_mul(b, w, y), bias);
    pl_module_leave(b);
    return y;
}

/* ---- attention ---- */

/* [rows, length, width] to [rows, heads, length, ..]. */
static int32_t heads_of(const model *o, int32_t x) {
    pl_builder *b = o->b;
    x = pl_aten_view(b, x, PL_SIZES(pl_built_size(b, x, 0), pl_built_size(b, x, 1), o->heads, -1));
    return pl_aten_permute(b, x, PL_SIZES(0, 2, 1, 3));
}

static int32_t bias_of(const model *o, const char *name) {
    int32_t w = pl_build_parameter(o->b, name, PL_SIZES(o->hidden));
    w = pl_aten_unsqueeze(o->b, pl_aten_unsqueeze(o->b, w, 0), 1);
    return heads_of(o, w);
}

static int32_t clamped(const model *o, int32_t x) {
    pl_builder *b = o->b;
    x = pl_aten_scalar(b, "aten.add.Tensor", x, (double)o->span);
    pl_call(b, "aten.clamp.default");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "min", 0);
    pl_call_int(b, "max", o->span * 2 - 1);
    return pl_call_result_like(b, x);
}

static int32_t taken(const model *o, int32_t scores, int32_t at) {
    at = pl_aten_expand(o->b, at, PL_SIZES(o->m->batch, o->heads, o->m->seq, o->m->seq));
    return pl_aten_gather(o->b, scores, -1, at);
}

static int32_t position_scores(const model *o, int32_t q, int32_t k, const given *g) {
    pl_builder *b = o->b;
    pl_line(b, "rel_embeddings = self.pos_dropout(rel_embeddings)");
    int32_t table = pl_hf_dropout(o->m, "pos_dropout", g->table, o->drop), sum = PL_NONE;
    pl_line(b, "rel_att = self.disentangled_att_bias(");
    int32_t far = pl_aten_unsqueeze(b, g->distances, 1);
    table = pl_aten_slice(b, table, 0, o->farthest - o->span, o->farthest + o->span);
    table = pl_aten_unsqueeze(b, table, 0);
    if (o->c2p) {
        int32_t p = heads_of(o, pl_hf_linear(o->m, "pos_proj", table, o->hidden, false));
        int32_t x = pl_aten_matmul(b, q, pl_aten_transpose(b, p, -1, -2));
        x = taken(o, x, clamped(o, far));
        sum = pl_aten_scalar(b, "aten.add.Tensor", x, 0);
    }
    if (o->p2c) {
        int32_t p = heads_of(o, pl_hf_linear(o->m, "pos_q_proj", table, o->hidden, true));
        p = pl_aten_scalar(b, "aten.div_.Tensor", p, sqrt((double)o->head * (1 + o->c2p + o->p2c)));
        int32_t at = clamped(o, pl_aten_unary(b, "aten.neg.default", far));
        p = pl_aten_transpose(b, p, -1, -2);
        int32_t x = pl_aten_matmul(b, k, pl_aten_type_as(b, p, k));
        x = pl_aten_transpose(b, taken(o, x, at), -1, -2);
        sum = sum == PL_NONE ? pl_aten_scalar(b, "aten.add.Tensor", x, 0)
                             : pl_aten_binary(b, "aten.add_.Tensor", sum, x);
    }
    return sum;
}

static int32_t attention(const model *o, int32_t x, const given *g) {
    pl_builder *b = o->b;
    int32_t parts[3];
    enter(o, "self", "DisentangledSelfAttention");
    pl_module_children(b, "q_bias v_bias in_proj pos_dropout pos_proj pos_q_proj dropout");
    pl_line(b, "qp = self.in_proj(hidden_states)");
    x = pl_hf_linear(o->m, "in_proj", x, 3 * o->hidden, false);
    pl_line(b, "query_layer, key_layer, value_layer = self.transpose_for_scores(qp).chunk(3)");
    pl_aten_chunk(b, heads_of(o, x), 3, -1, parts);
    pl_line(b, "query_layer = query_layer + self.transpose_for_scores(self.q_bias[None, None, :])");
    int32_t q = pl_aten_add(b, parts[0], bias_of(o, "q_bias")), k = parts[1];
    pl_line(b, "value_layer = value_layer + self.transpose_for_scores(self.v_bias[None, None, :])");
    int32_t v = pl_aten_add(b, parts[2], bias_of(o, "v_bias"));
    pl_line(b, "query_layer = query_layer / scale.to(dtype=query_layer.dtype)");
    q = pl_aten_scalar(b, "aten.div.Tensor", q, sqrt((double)o->head * (1 + o->c2p + o->p2c)));
    pl_line(b, "attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))");
    int32_t y = pl_aten_matmul(b, q, pl_aten_transpose(b, k, -1, -2));
    int32_t more = o->relative ? position_scores(o, q, k, g) : PL_NONE;
    pl_line(b, "attention_scores = attention_scores + rel_att");
    if (more != PL_NONE)
        y = pl_aten_add(b, y, more);
    else
        y = pl_aten_scalar(b, "aten.add.Tensor", y, 0);
    pl_line(b, "attention_mask = attention_mask.bool()");
    int32_t mask = pl_aten_to(b, g->mask, PL_DT_BOOL);
    pl_line(b, "attention_scores = attention_scores.masked_fill(~(attention_mask), min)");
    mask = pl_aten_unary(b, "aten.bitwise_not.default", mask);
    y = pl_aten_masked_fill(b, y, mask, -3.4028234663852886e38);
    pl_line(b, "attention_probs = nn.functional.softmax(attention_scores, dim=-1)");
    y = pl_aten_softmax(b, y, -1, PL_DT_UNKNOWN);
    pl_line(b, "attention_probs = self.dropout(attention_probs)");
    y = pl_hf_dropout(o->m, "dropout", y, o->attn_drop);
    pl_line(b, "context_layer = torch.matmul(attention_probs, value_layer)");
    y = pl_aten_matmul(b, y, v);
    pl_line(b, "context_layer = context_layer.permute(0, 2, 1, 3).contiguous()");
    y = pl_aten_contiguous(b, pl_aten_permute(b, y, PL_SIZES(0, 2, 1, 3)));
    pl_line(b, "context_layer = context_layer.view(new_context_layer_shape)");
    y = pl_aten_view(b, y, PL_SIZES(o->m->batch, o->m->seq, -1));
    pl_module_leave(b);
    return y;
}

/* ---- a layer ---- */

static int32_t output(const model *o, const char *class, int32_t x, int32_t residual) {
    enter(o, "output", class);
    pl_line(o->b, "hidden_states = self.dense(hidden_states)");
    x = pl_hf_linear(o->m, "dense", x, o->hidden, true);
    pl_line(o->b, "hidden_states = self.dropout(hidden_states)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_line(o->b, "hidden_states = self.LayerNorm(hidden_states + input_tensor)");
    x = spelt_norm(o, pl_aten_add(o->b, x, residual));
    pl_module_leave(o->b);
    return x;
}

static int32_t layer(const model *o, int64_t index, int32_t x, const given *g) {
    pl_builder *b = o->b;
    enter(o, pl_build_text(b, "layer.%lld", (long long)index), "DebertaLayer");
    enter(o, "attention", "DebertaAttention");
    x = output(o, "DebertaSelfOutput", attention(o, x, g), x);
    pl_module_leave(b);
    enter(o, "intermediate", "DebertaIntermediate");
    pl_line(b, "hidden_states = self.dense(hidden_states)");
    int32_t y = pl_hf_linear(o->m, "dense", x, o->inner, true);
    y = pl_hf_activation(o->m, "intermediate_act_fn", o->act, y);
    pl_module_leave(b);
    x = output(o, "DebertaOutput", y, x);
    pl_module_leave(b);
    return x;
}

/* ---- the model ---- */

static int32_t embeddings(model *o, int32_t ids, int32_t types) {
    pl_builder *b = o->b;
    enter(o, "embeddings", "DebertaEmbeddings");
    int32_t at = pl_build_buffer(b, "position_ids", PL_DT_I64, false, PL_SIZES(1, o->positions));
    pl_line(b, "position_ids = self.position_ids[:, :seq_length]");
    at = pl_aten_slice(b, at, 1, 0, o->m->seq);
    pl_line(b, "inputs_embeds = self.word_embeddings(input_ids)");
    pl_module_enter(b, "word_embeddings", "torch.nn.modules.sparse.Embedding");
    o->word = pl_build_parameter(b, "weight", PL_SIZES(o->vocab, o->hidden));
    int32_t x = pl_aten_embedding(b, o->word, ids, o->pad), y;
    pl_module_leave(b);
    if (o->biased) {
        pl_line(b, "position_embeddings = self.position_embeddings(position_ids.long())");
        y = pl_hf_embedding(o->m, "position_embeddings", o->positions, o->hidden, at, -1);
        x = pl_hf_sum(o->m, "embeddings = embeddings + position_embeddings", x, y);
    } else {
        pl_line(b, "position_embeddings = torch.zeros_like(inputs_embeds)");
        pl_aten_unary(b, "aten.zeros_like.default", x);
    }
    if (o->types > 0) {
        pl_line(b, "token_type_embeddings = self.token_type_embeddings(token_type_ids)");
        y = pl_hf_embedding(o->m, "token_type_embeddings", o->types, o->hidden, types, -1);
        x = pl_hf_sum(o->m, "embeddings = embeddings + token_type_embeddings", x, y);
    }
    pl_line(b, "embeddings = self.LayerNorm(embeddings)");
    x = spelt_norm(o, x);
    pl_line(b, "mask = mask.to(embeddings.dtype)");
    y = pl_aten_type_as(b, pl_aten_unsqueeze(b, o->mask, 2), x);
    pl_line(b, "embeddings = embeddings * mask");
    x = pl_aten_mul(b, x, y);
    pl_line(b, "embeddings = self.dropout(embeddings)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_module_leave(b);
    return x;
}

static int32_t distances(const model *o) {
    pl_builder *b = o->b;
    int64_t seq = o->m->seq;
    pl_line(b, "relative_pos = self.get_rel_pos(hidden_states, query_states, relative_pos)");
    int32_t q = pl_aten_arange(b, seq), k = pl_aten_arange(b, seq);
    q = pl_aten_unsqueeze(b, q, 1);
    k = pl_aten_repeat(b, pl_aten_view(b, k, PL_SIZES(1, -1)), PL_SIZES(seq, 1));
    int32_t x = pl_aten_binary(b, "aten.sub.Tensor", q, k);
    return pl_aten_unsqueeze(b, pl_aten_slice(b, x, 0, 0, seq), 0);
}

static int32_t base(model *o) {
    pl_builder *b = o->b;
    int64_t batch = o->m->batch, seq = o->m->seq;
    given g = {PL_NONE, PL_NONE, PL_NONE};
    int32_t ids = pl_hf_input_ids(o->m);
    pl_line(b, "attention_mask = torch.ones(input_shape, device=device)");
    o->mask = pl_aten_make(b, "aten.ones.default", PL_DT_F32, PL_SIZES(batch, seq), 1);
    pl_line(b, "token_type_ids = torch.zeros(input_shape, dtype=torch.long, device=device)");
    int32_t types = pl_aten_make(b, "aten.zeros.default", PL_DT_I64, PL_SIZES(batch, seq), 0);
    int32_t x = embeddings(o, ids, types);
    enter(o, "encoder", "DebertaEncoder");
    pl_module_children(b, "layer rel_embeddings");
    pl_line(b, "attention_mask = self.get_attention_mask(attention_mask)");
    int32_t row = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, o->mask, 1), 2);
    g.mask = pl_aten_mul(b, row, pl_aten_unsqueeze(b, pl_aten_squeeze(b, row, -2), -1));
    if (o->relative) {
        g.distances = distances(o);
        g.table =
            pl_build_parameter(b, "rel_embeddings.weight", PL_SIZES(o->farthest * 2, o->hidden));
    }
    for (int64_t i = 0; i < o->layers && !pl_build_failed(b); i++) x = layer(o, i, x, &g);
    pl_module_leave(b);
    return x;
}

/* ---- heads ---- */

static int32_t transformed(const model *o, int32_t x) {
    pl_line(o->b, "hidden_states = self.dense(hidden_states)");
    x = pl_hf_linear(o->m, "dense", x, o->hidden, true);
    x = pl_hf_activation(o->m, "transform_act_fn", o->act, x);
    pl_line(o->b, "hidden_states = self.LayerNorm(hidden_states)");
    return pl_hf_layer_norm(o->m, "LayerNorm", x, o->eps, true);
}

static int32_t masked(const model *o, int32_t x) {
    pl_builder *b = o->b;
    if (pl_hf_bool(o->m, "legacy", true)) {
        bool tied = pl_hf_bool(o->m, "tie_word_embeddings", true);
        enter(o, "cls", "LegacyDebertaOnlyMLMHead");
        enter(o, "predictions", "LegacyDebertaLMPredictionHead");
        int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(o->vocab));
        enter(o, "transform", "LegacyDebertaPredictionHeadTransform");
        x = transformed(o, x);
        pl_module_leave(b);
        pl_line(b, "hidden_states = self.decoder(hidden_states)");
        pl_module_enter(b, "decoder", "torch.nn.modules.linear.Linear");
        int32_t w = tied ? pl_build_tied(b, "weight", o->word)
                         : pl_build_parameter(b, "weight", PL_SIZES(o->vocab, o->hidden));
        bias = tied ? pl_build_tied(b, "bias", bias)
                    : pl_build_parameter(b, "bias", PL_SIZES(o->vocab));
        x = pl_aten_linear(b, x, w, bias);
        pl_module_leave(b);
    } else {
        enter(o, "lm_predictions", "DebertaOnlyMLMHead");
        enter(o, "lm_head", "DebertaLMPredictionHead");
        int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(o->vocab));
        x = transformed(o, x);
        pl_line(b, "hidden_states = torch.matmul(hidden_states, word_embeddings.weight.t())");
        x = pl_aten_matmul(b, x, pl_aten_transpose(b, o->word, 0, 1));
        x = pl_aten_add(b, x, bias);
    }
    pl_module_leave(b);
    pl_module_leave(b);
    return x;
}

static int32_t pool(const model *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "pooler", "ContextPooler");
    pl_line(b, "context_token = hidden_states[:, 0]");
    x = pl_aten_select(b, x, 1, 0);
    pl_line(b, "context_token = self.dropout(context_token)");
    x = pl_hf_dropout(o->m, "dropout", x, pl_hf_float(o->m, "pooler_dropout", 0));
    pl_line(b, "pooled_output = self.dense(context_token)");
    x = pl_hf_linear(o->m, "dense", x, pl_hf_size(o->m, "pooler_hidden_size", o->hidden), true);
    x = pl_hf_activation(o->m, "activation", pl_hf_string(o->m, "pooler_hidden_act", "gelu"), x);
    pl_module_leave(b);
    return x;
}

/* "p2c|c2p", or a list of them. */
static bool has_type(pl_hf *m, const char *type) {
    int64_t count = pl_hf_list(m, "pos_att_type");
    for (int64_t i = 0; i < count; i++)
        if (strcmp(pl_hf_list_string(m, "pos_att_type", i, ""), type) == 0) return true;
    return count == 0 && strstr(pl_hf_string(m, "pos_att_type", ""), type) != NULL;
}

static model read_keys(pl_hf *m) {
    model o = {.m = m, .b = m->b, .word = PL_NONE};
    o.vocab = pl_hf_size(m, "vocab_size", 50265);
    o.hidden = pl_hf_size(m, "hidden_size", 768);
    o.layers = pl_hf_depth(m, "num_hidden_layers", 12);
    o.heads = pl_hf_size(m, "num_attention_heads", 12);
    o.inner = pl_hf_size(m, "intermediate_size", 3072);
    o.positions = pl_hf_size(m, "max_position_embeddings", POSITIONS);
    o.types = pl_hf_int(m, "type_vocab_size", 0);
    o.pad = pl_hf_has(m, "pad_token_id") ? pl_hf_pad(m) : 0;
    o.eps = pl_hf_float(m, "layer_norm_eps", 1e-7);
    o.drop = pl_hf_float(m, "hidden_dropout_prob", 0.1);
    o.attn_drop = pl_hf_float(m, "attention_probs_dropout_prob", 0.1);
    o.act = pl_hf_string(m, "hidden_act", "gelu");
    o.relative = pl_hf_bool(m, "relative_attention", false);
    o.biased = pl_hf_bool(m, "position_biased_input", true);
    o.c2p = has_type(m, "c2p");
    o.p2c = has_type(m, "p2c");
    double farthest = pl_hf_float(m, "max_relative_positions", -1);
    o.farthest = farthest >= 1 && farthest <= 1 << 24 ? (int64_t)farthest : o.positions;
    o.span = m->seq < o.farthest ? m->seq : o.farthest;
    pl_hf_divides(m, "num_attention_heads", o.hidden, o.heads);
    o.head = o.hidden / o.heads;
    if (m->seq > o.positions)
        pl_build_fail(o.b, PL_USAGE, "seq", "the model takes sequences of up to %lld",
                      (long long)o.positions);
    if (pl_hf_bool(m, "talking_head", false))
        pl_hf_refuse(m, "talking_head", "talking heads are not built");
    if (pl_hf_int(m, "embedding_size", o.hidden) != o.hidden)
        pl_hf_refuse(m, "embedding_size", "another width than hidden_size is not built");
    return o;
}

static void build(pl_hf *m) {
    model o = read_keys(m);
    pl_builder *b = m->b;
    if (pl_build_failed(b)) return;
    if (m->task == PL_TASK_BASE) {
        enter(&o, "", "DebertaModel");
        pl_build_output(b, base(&o));
        pl_module_leave(b);
        return;
    }
    enter(&o, "",
          m->task == PL_TASK_MASKED     ? "DebertaForMaskedLM"
          : m->task == PL_TASK_CLASSIFY ? "DebertaForSequenceClassification"
                                        : "DebertaForTokenClassification");
    enter(&o, "deberta", "DebertaModel");
    int32_t x = base(&o);
    pl_module_leave(b);
    if (m->task == PL_TASK_MASKED) {
        pl_hf_own_token_loss(m, masked(&o, x));
    } else if (m->task == PL_TASK_CLASSIFY) {
        x = pool(&o, x);
        pl_line(b, "pooled_output = self.dropout(pooled_output)");
        x = pl_hf_dropout(m, "dropout", x, pl_hf_float(m, "cls_dropout", o.drop));
        pl_line(b, "logits = self.classifier(pooled_output)");
        x = pl_hf_linear(m, "classifier", x, pl_hf_labels(m), true);
        pl_hf_classification_loss(m, x);
    } else {
        pl_line(b, "sequence_output = self.dropout(sequence_output)");
        x = pl_hf_dropout(m, "dropout", x, o.drop);
        pl_line(b, "logits = self.classifier(sequence_output)");
        pl_hf_own_token_loss(m, pl_hf_linear(m, "classifier", x, pl_hf_labels(m), true));
    }
    pl_module_leave(b);
}

const pl_hf_family pl_hf_deberta_v1[] = {
    {.model_type = "deberta",
     .tasks =
         1u << PL_TASK_MASKED | 1u << PL_TASK_CLASSIFY | 1u << PL_TASK_TOKENS | 1u << PL_TASK_BASE,
     .usual = PL_TASK_MASKED,
     .build = build,
     .version = "5.22",
     .learnt_positions = true,
     .usual_positions = POSITIONS,
     .no_attention = 1u << PL_ATTN_SDPA | 1u << PL_ATTN_FLASH2},
    {0},
};
