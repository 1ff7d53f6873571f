/* deberta: DeBERTa v2 and v3 (model_type deberta-v2).
 *
 * Attention scores are a sum of content against content, content against position and position
 * against content (disentangled attention); there is no fused kernel, and the mask is always made.
 * The order of operators, names and lines are those of transformers 5.22,
 * models/deberta_v2/modeling_deberta_v2.py; defaults those of configuration_deberta_v2.py. Scales
 * are computed on the CPU there, so that they are plain numbers here.
 *
 * Left out: that TorchScript may fuse the few operators which sort distances into buckets. */
#include <math.h>
#include <string.h>

#include "import/families/encoder.h"

enum { POSITIONS = 512 }; /* where the file does not say */

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    int64_t vocab, hidden, layers, heads, head, inner, width, positions, types, pad, labels;
    int64_t buckets, farthest; /* of relative positions */
    int64_t span;              /* relative positions are -span .. span - 1 */
    bool relative, c2p, p2c, shared, norm, biased;
    double eps, drop, attn_drop;
    const char *act;
    int32_t word; /* the word embedding's weight, [vocab, width] */
    int32_t mask; /* ones, float32 [batch, seq] */
} model;

/* What all layers are given. */
typedef struct given {
    int32_t mask;      /* [batch, 1, seq, seq] */
    int32_t distances; /* int64 [1, seq, seq], PL_NONE: attention is not relative */
    int32_t table;     /* [2 * span, hidden] */
} given;

static void enter(const model *o, const char *name, const char *class) {
    pl_module_enter(
        o->b, name,
        pl_build_text(o->b, "transformers.models.deberta_v2.modeling_deberta_v2.%s", class));
    pl_line(o->b, "");
}

/* x.to(other.dtype) */
static int32_t type_as(const model *o, int32_t x, int32_t other) {
    const pl_tensor *t = pl_built(o->b, x);
    int64_t sizes[PL_MAX_DIMS];
    int dims = t->dims;
    for (int i = 0; i < dims; i++) sizes[i] = t->sizes[i];
    pl_dtype dtype = pl_built(o->b, other)->dtype;
    pl_call(o->b, "aten.type_as.default");
    pl_call_tensor(o->b, "self", x);
    pl_call_tensor(o->b, "other", other);
    return pl_call_result(o->b, dtype, dims, sizes);
}

/* ---- embeddings ---- */

static int32_t embed(const model *o, const char *name, int64_t rows, int32_t ids, int64_t pad,
                     int32_t *weight) {
    pl_module_enter(o->b, name, "torch.nn.modules.sparse.Embedding");
    int32_t w = pl_build_parameter(o->b, "weight", PL_SIZES(rows, o->width));
    int32_t x = pl_aten_embedding(o->b, w, ids, pad);
    pl_module_leave(o->b);
    if (weight) *weight = w;
    return x;
}

static int32_t embeddings(model *o, int32_t ids, int32_t types) {
    pl_builder *b = o->b;
    enter(o, "embeddings", "DebertaV2Embeddings");
    int32_t at = pl_build_buffer(b, "position_ids", PL_DT_I64, false, PL_SIZES(1, o->positions));
    pl_line(b, "position_ids = self.position_ids[:, :seq_length]");
    at = pl_aten_slice(b, at, 1, 0, o->m->seq);
    pl_line(b, "inputs_embeds = self.word_embeddings(input_ids)");
    int32_t x = embed(o, "word_embeddings", o->vocab, ids, o->pad, &o->word), y;
    if (o->biased) {
        pl_line(b, "position_embeddings = self.position_embeddings(position_ids.long())");
        y = embed(o, "position_embeddings", o->positions, at, -1, NULL);
        pl_line(b, "embeddings = embeddings + position_embeddings");
        x = pl_aten_add(b, x, y);
    } else {
        pl_line(b, "position_embeddings = torch.zeros_like(inputs_embeds)");
        pl_aten_unary(b, "aten.zeros_like.default", x);
    }
    if (o->types > 0) {
        pl_line(b, "token_type_embeddings = self.token_type_embeddings(token_type_ids)");
        y = embed(o, "token_type_embeddings", o->types, types, -1, NULL);
        pl_line(b, "embeddings = embeddings + token_type_embeddings");
        x = pl_aten_add(b, x, y);
    }
    pl_line(b, "embeddings = self.embed_proj(embeddings)");
    if (o->width != o->hidden) x = pl_hf_linear(o->m, "embed_proj", x, o->hidden, false);
    pl_line(b, "embeddings = self.LayerNorm(embeddings)");
    x = pl_hf_layer_norm(o->m, "LayerNorm", x, o->eps, true);
    pl_line(b, "mask = mask.unsqueeze(2)");
    y = pl_aten_unsqueeze(b, o->mask, 2);
    pl_line(b, "mask = mask.to(embeddings.dtype)");
    y = type_as(o, y, x);
    pl_line(b, "embeddings = embeddings * mask");
    x = pl_aten_mul(b, x, y);
    pl_line(b, "embeddings = self.dropout(embeddings)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_module_leave(b);
    return x;
}

/* ---- relative positions ---- */

/* Distances beyond half the buckets, by their logarithm: int64 [seq, seq]. */
static int32_t into_buckets(const model *o, int32_t far) {
    pl_builder *b = o->b;
    double mid = (double)(o->buckets / 2);
    int32_t sign = pl_aten_unary(b, "aten.sign.default", far);
    int32_t near = pl_aten_scalar(b, "aten.lt.Scalar", far, mid);
    near = pl_aten_binary(b, "aten.__and__.Tensor", near,
                          pl_aten_scalar(b, "aten.gt.Scalar", far, -mid));
    int32_t least = pl_aten_make(b, "aten.full.default", PL_DT_I64, 0, NULL, mid - 1);
    int32_t size = pl_aten_where(b, near, least, pl_aten_unary(b, "aten.abs.default", far));
    int32_t x = pl_aten_scalar(b, "aten.div.Tensor", size, mid);
    x = pl_aten_unary(b, "aten.log.default", x);
    x = pl_aten_scalar(b, "aten.div.Tensor", x, log((double)(o->farthest - 1) / mid));
    x = pl_aten_scalar(b, "aten.mul.Tensor", x, mid - 1);
    x = pl_aten_scalar(b, "aten.add.Tensor", pl_aten_unary(b, "aten.ceil.default", x), mid);
    int32_t small = pl_aten_scalar(b, "aten.le.Scalar", size, mid);
    int32_t as_is = type_as(o, far, x);
    return pl_aten_where(b, small, as_is, pl_aten_mul(b, x, sign));
}

static int32_t distances(const model *o) {
    pl_builder *b = o->b;
    pl_line(b, "relative_pos = self.get_rel_pos(hidden_states, query_states, relative_pos)");
    int32_t q = pl_aten_arange(b, o->m->seq), k = pl_aten_arange(b, o->m->seq);
    q = pl_aten_unsqueeze(b, q, 1);
    int32_t x = pl_aten_binary(b, "aten.sub.Tensor", q, pl_aten_unsqueeze(b, k, 0));
    if (o->buckets > 0) x = pl_aten_to(b, into_buckets(o, x), PL_DT_I64);
    return pl_aten_unsqueeze(b, x, 0);
}

/* ---- attention ---- */

/* [n, rows, heads * head] to [n * heads, rows, head]. */
static int32_t heads_of(const model *o, const char *name, int32_t x) {
    pl_builder *b = o->b;
    int64_t n = pl_built_size(b, x, 0), rows = pl_built_size(b, x, 1);
    x = pl_hf_linear(o->m, name, x, o->heads * o->head, true);
    x = pl_aten_view(b, x, PL_SIZES(n, rows, o->heads, -1));
    x = pl_aten_contiguous(b, pl_aten_permute(b, x, PL_SIZES(0, 2, 1, 3)));
    return pl_aten_view(b, x, PL_SIZES(-1, rows, o->head));
}

/* Of all positions, repeated for every sample. */
static int32_t position_heads(const model *o, const char *name, int32_t table) {
    return pl_aten_repeat(o->b, heads_of(o, name, table), PL_SIZES(o->m->batch, 1, 1));
}

/* Scores of x [batch * heads, seq, head] against every position, of which those at the distances
 * `at` are taken: [batch * heads, seq, seq]. */
static int32_t scores_at(const model *o, int32_t scores, int32_t at) {
    pl_builder *b = o->b;
    at = pl_aten_expand(b, pl_aten_squeeze(b, at, 0),
                        PL_SIZES(o->m->batch * o->heads, o->m->seq, o->m->seq));
    return pl_aten_gather(b, scores, -1, at);
}

static int32_t shifted(const model *o, int32_t far) {
    pl_builder *b = o->b;
    int32_t x = pl_aten_scalar(b, "aten.add.Tensor", far, (double)o->span);
    pl_call(b, "aten.clamp.default");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "min", 0);
    pl_call_int(b, "max", o->span * 2 - 1);
    return pl_call_result_like(b, x);
}

/* disentangled_attention_bias; scale: what scores are divided by. */
static int32_t position_scores(const model *o, int32_t q, int32_t k, const given *g, double scale) {
    pl_builder *b = o->b;
    pl_line(b, "rel_embeddings = self.pos_dropout(rel_embeddings)");
    int32_t table = pl_hf_dropout(o->m, "pos_dropout", g->table, o->drop);
    pl_line(b, "rel_att = self.disentangled_attention_bias(");
    int32_t far = pl_aten_unsqueeze(b, g->distances, 1), sum = PL_NONE;
    table = pl_aten_unsqueeze(b, pl_aten_slice(b, table, 0, 0, o->span * 2), 0);
    int32_t pos_q = PL_NONE, pos_k = PL_NONE;
    if (o->shared) {
        pos_q = position_heads(o, "query_proj", table);
        pos_k = position_heads(o, "key_proj", table);
    } else {
        if (o->c2p) pos_k = position_heads(o, "pos_key_proj", table);
        if (o->p2c) pos_q = position_heads(o, "pos_query_proj", table);
    }
    if (o->c2p) {
        int32_t x = pl_aten_bmm(b, q, pl_aten_transpose(b, pos_k, -1, -2));
        x = scores_at(o, x, shifted(o, far));
        x = pl_aten_scalar(b, "aten.div.Tensor", x, scale);
        sum = pl_aten_scalar(b, "aten.add.Tensor", x, 0);
    }
    if (o->p2c) {
        int32_t at = shifted(o, pl_aten_unary(b, "aten.neg.default", far));
        int32_t x = pl_aten_bmm(b, k, pl_aten_transpose(b, pos_q, -1, -2));
        x = pl_aten_transpose(b, scores_at(o, x, at), -1, -2);
        x = pl_aten_scalar(b, "aten.div.Tensor", x, scale);
        sum = sum == PL_NONE ? pl_aten_scalar(b, "aten.add.Tensor", x, 0)
                             : pl_aten_binary(b, "aten.add_.Tensor", sum, x);
    }
    return sum;
}

static int32_t attention(const model *o, int32_t x, const given *g) {
    pl_builder *b = o->b;
    int64_t batch = o->m->batch, seq = o->m->seq;
    double scale = sqrt((double)o->head * (1 + o->c2p + o->p2c));
    enter(o, "self", "DisentangledSelfAttention");
    pl_module_children(b, "query_proj key_proj value_proj pos_key_proj pos_query_proj");
    pl_line(b, "query_layer = self.transpose_for_scores(self.query_proj(query_states))");
    int32_t q = heads_of(o, "query_proj", x);
    pl_line(b, "key_layer = self.transpose_for_scores(self.key_proj(hidden_states))");
    int32_t k = heads_of(o, "key_proj", x);
    pl_line(b, "value_layer = self.transpose_for_scores(self.value_proj(hidden_states))");
    int32_t v = heads_of(o, "value_proj", x);
    pl_line(b, "attention_scores = torch.bmm(query_layer, key_layer.transpose(-1, -2) / scale)");
    int32_t y = pl_aten_scalar(b, "aten.div.Tensor", pl_aten_transpose(b, k, -1, -2), scale);
    y = pl_aten_bmm(b, q, y);
    int32_t more = o->relative ? position_scores(o, q, k, g, scale) : PL_NONE;
    pl_line(b, "attention_scores = attention_scores + rel_att");
    if (more != PL_NONE) y = pl_aten_add(b, y, more);
    pl_line(b, "attention_scores = attention_scores.view(");
    y = pl_aten_view(b, y, PL_SIZES(-1, o->heads, seq, seq));
    pl_line(b, "attention_mask = attention_mask.bool()");
    int32_t mask = pl_aten_to(b, g->mask, PL_DT_BOOL);
    pl_line(b, "attention_scores = attention_scores.masked_fill(~(attention_mask), min)");
    mask = pl_aten_unary(b, "aten.bitwise_not.default", mask);
    y = pl_aten_masked_fill(b, y, mask, -3.4028234663852886e38);
    pl_line(b, "attention_probs = nn.functional.softmax(attention_scores, dim=-1)");
    y = pl_aten_softmax(b, y, -1, PL_DT_UNKNOWN);
    pl_line(b, "attention_probs = self.dropout(attention_probs)");
    y = pl_hf_dropout(o->m, "dropout", y, o->attn_drop);
    pl_line(b, "context_layer = torch.bmm(attention_probs.view(-1, q, k), value_layer)");
    y = pl_aten_bmm(b, pl_aten_view(b, y, PL_SIZES(-1, seq, seq)), v);
    pl_line(b, "context_layer = context_layer.view().permute(0, 2, 1, 3).contiguous()");
    y = pl_aten_permute(b, pl_aten_view(b, y, PL_SIZES(-1, o->heads, seq, o->head)),
                        PL_SIZES(0, 2, 1, 3));
    y = pl_aten_contiguous(b, y);
    pl_line(b, "context_layer = context_layer.view(new_context_layer_shape)");
    y = pl_aten_view(b, y, PL_SIZES(batch, seq, -1));
    pl_module_leave(b);
    return y;
}

/* ---- a layer ---- */

static int32_t output(const model *o, const char *class, int32_t x, int32_t residual) {
    enter(o, "output", class);
    x = pl_hf_residual_output(o->m, x, residual, o->drop, o->eps);
    pl_module_leave(o->b);
    return x;
}

static int32_t layer(const model *o, int64_t index, int32_t x, const given *g) {
    pl_builder *b = o->b;
    enter(o, pl_build_text(b, "layer.%lld", (long long)index), "DebertaV2Layer");
    enter(o, "attention", "DebertaV2Attention");
    x = output(o, "DebertaV2SelfOutput", attention(o, x, g), x);
    pl_module_leave(b);
    enter(o, "intermediate", "DebertaV2Intermediate");
    pl_line(b, "hidden_states = self.dense(hidden_states)");
    int32_t y = pl_hf_linear(o->m, "dense", x, o->inner, true);
    y = pl_hf_activation(o->m, "intermediate_act_fn", o->act, y);
    pl_module_leave(b);
    x = output(o, "DebertaV2Output", y, x);
    pl_module_leave(b);
    return x;
}

/* A convolution over the embeddings x, added behind the first layer. */
static int32_t convolution(const model *o, int32_t x, int32_t residual) {
    pl_builder *b = o->b;
    int64_t width = pl_hf_int(o->m, "conv_kernel_size", 3),
            groups = pl_hf_int(o->m, "conv_groups", 1), one = 1, pad = (width - 1) / 2;
    if (groups < 1 || o->hidden % groups != 0) {
        pl_hf_refuse(o->m, "conv_groups", "hidden_size is no multiple of it");
        groups = 1;
    }
    enter(o, "conv", "ConvLayer");
    pl_line(b, "out = self.conv(hidden_states.permute(0, 2, 1).contiguous()).permute(0, 2, 1)");
    x = pl_aten_contiguous(b, pl_aten_permute(b, x, PL_SIZES(0, 2, 1)));
    pl_module_enter(b, "conv", "torch.nn.modules.conv.Conv1d");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(o->hidden, o->hidden / groups, width));
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(o->hidden));
    x = pl_aten_conv(b, 1, x, w, bias, &one, &pad, &one, groups);
    pl_module_leave(b);
    x = pl_aten_contiguous(b, pl_aten_permute(b, x, PL_SIZES(0, 2, 1)));
    pl_line(b, "rmask = (1 - input_mask).bool()");
    int32_t mask = pl_aten_to(b, pl_aten_scalar(b, "aten.rsub.Scalar", o->mask, 1), PL_DT_BOOL);
    pl_line(b, "out.masked_fill_(rmask.unsqueeze(-1).expand(out.size()), 0)");
    mask = pl_aten_expand(b, pl_aten_unsqueeze(b, mask, -1),
                          PL_SIZES(o->m->batch, o->m->seq, o->hidden));
    pl_call(b, "aten.masked_fill_.Scalar");
    pl_call_tensor(b, "self", x);
    pl_call_tensor(b, "mask", mask);
    pl_call_int(b, "value", 0);
    x = pl_call_result_like(b, x);
    pl_line(b, "out = ACT2FN[self.conv_act](self.dropout(out))");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    x = pl_hf_activation(o->m, "conv_act", pl_hf_string(o->m, "conv_act", "tanh"), x);
    pl_line(b, "layer_norm_input = residual_states + out");
    int32_t sum = pl_aten_add(b, residual, x);
    pl_line(b, "output = self.LayerNorm(layer_norm_input).to(layer_norm_input)");
    x = type_as(o, pl_hf_layer_norm(o->m, "LayerNorm", sum, o->eps, true), sum);
    pl_line(b, "input_mask = input_mask.unsqueeze(2)");
    mask = pl_aten_unsqueeze(b, o->mask, 2);
    pl_line(b, "input_mask = input_mask.to(output.dtype)");
    mask = type_as(o, mask, x);
    pl_line(b, "output_states = output * input_mask");
    x = pl_aten_mul(b, x, mask);
    pl_module_leave(b);
    return x;
}

static int32_t encoder(const model *o, int32_t x) {
    pl_builder *b = o->b;
    bool convolves = pl_hf_int(o->m, "conv_kernel_size", 0) > 0;
    int32_t first = x;
    given g = {PL_NONE, PL_NONE, PL_NONE};
    enter(o, "encoder", "DebertaV2Encoder");
    pl_module_children(b, "layer rel_embeddings LayerNorm conv");
    pl_line(b, "attention_mask = self.get_attention_mask(attention_mask)");
    int32_t row = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, o->mask, 1), 2);
    g.mask = pl_aten_mul(b, row, pl_aten_unsqueeze(b, pl_aten_squeeze(b, row, -2), -1));
    if (o->relative) {
        g.distances = distances(o);
        pl_line(b, "rel_embeddings = self.get_rel_embedding()");
        g.table = pl_build_parameter(b, "rel_embeddings.weight", PL_SIZES(o->span * 2, o->hidden));
        if (o->norm) g.table = pl_hf_layer_norm(o->m, "LayerNorm", g.table, o->eps, true);
    }
    for (int64_t i = 0; i < o->layers && !pl_build_failed(b); i++) {
        x = layer(o, i, x, &g);
        if (i == 0 && convolves) x = convolution(o, first, x);
    }
    pl_module_leave(b);
    return x;
}

static int32_t base(model *o) {
    pl_builder *b = o->b;
    int64_t batch = o->m->batch, seq = o->m->seq;
    int32_t ids = pl_hf_input_ids(o->m);
    pl_line(b, "attention_mask = torch.ones(input_shape, device=device)");
    o->mask = pl_aten_make(b, "aten.ones.default", PL_DT_F32, PL_SIZES(batch, seq), 1);
    pl_line(b, "token_type_ids = torch.zeros(input_shape, dtype=torch.long, device=device)");
    int32_t types = pl_aten_make(b, "aten.zeros.default", PL_DT_I64, PL_SIZES(batch, seq), 0);
    return encoder(o, embeddings(o, ids, types));
}

/* ---- heads ---- */

static int32_t transform(const model *o, int32_t x, int64_t width) {
    pl_line(o->b, "hidden_states = self.dense(hidden_states)");
    x = pl_hf_linear(o->m, "dense", x, width, true);
    x = pl_hf_activation(o->m, "transform_act_fn", o->act, x);
    pl_line(o->b, "hidden_states = self.LayerNorm(hidden_states)");
    return pl_hf_layer_norm(o->m, "LayerNorm", x, o->eps, true);
}

static int32_t legacy_masked(const model *o, int32_t x) {
    pl_builder *b = o->b;
    bool tied = pl_hf_bool(o->m, "tie_word_embeddings", true);
    enter(o, "cls", "LegacyDebertaV2OnlyMLMHead");
    enter(o, "predictions", "LegacyDebertaV2LMPredictionHead");
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(o->vocab));
    enter(o, "transform", "LegacyDebertaV2PredictionHeadTransform");
    x = transform(o, x, o->width);
    pl_module_leave(b);
    pl_line(b, "hidden_states = self.decoder(hidden_states)");
    pl_module_enter(b, "decoder", "torch.nn.modules.linear.Linear");
    int32_t w = tied ? pl_build_tied(b, "weight", o->word)
                     : pl_build_parameter(b, "weight", PL_SIZES(o->vocab, o->width));
    bias =
        tied ? pl_build_tied(b, "bias", bias) : pl_build_parameter(b, "bias", PL_SIZES(o->vocab));
    x = pl_aten_linear(b, x, w, bias);
    pl_module_leave(b);
    pl_module_leave(b);
    pl_module_leave(b);
    return x;
}

/* The word embedding's weight by hand. */
static int32_t masked(const model *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "lm_predictions", "DebertaV2OnlyMLMHead");
    enter(o, "lm_head", "DebertaV2LMPredictionHead");
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(o->vocab));
    x = transform(o, x, o->hidden);
    pl_line(b, "hidden_states = torch.matmul(hidden_states, word_embeddings.weight.t()) + bias");
    pl_call(b, "aten.t.default");
    pl_call_tensor(b, "self", o->word);
    int32_t w = pl_call_result(b, pl_built(b, o->word)->dtype, PL_SIZES(o->width, o->vocab));
    x = pl_aten_add(b, pl_aten_matmul(b, x, w), bias);
    pl_module_leave(b);
    pl_module_leave(b);
    return x;
}

static void token_loss(const model *o, int32_t logits) {
    pl_builder *b = o->b;
    int32_t labels = pl_build_input(b, "labels", PL_DT_I64, PL_SIZES(o->m->batch, o->m->seq));
    pl_line(b, "loss = loss_fct(logits.view(-1, self.num_labels), labels.view(-1))");
    int32_t x = pl_aten_view(b, logits, PL_SIZES(-1, pl_built_size(b, logits, -1)));
    int32_t loss = pl_aten_cross_entropy(b, x, pl_aten_view(b, labels, PL_SIZES(-1)), -100);
    pl_build_output(b, loss);
    pl_build_output(b, logits);
}

/* Samples whose label is not negative, here all of them, are gathered. */
static void class_loss(const model *o, int32_t logits) {
    pl_builder *b = o->b;
    int64_t batch = o->m->batch;
    int32_t labels = pl_build_input(b, "labels", PL_DT_I64, PL_SIZES(batch));
    pl_line(b, "label_index = (labels >= 0).nonzero()");
    pl_call(b, "aten.nonzero.default");
    pl_call_tensor(b, "self", pl_aten_scalar(b, "aten.ge.Scalar", labels, 0));
    int32_t index = pl_call_result(b, PL_DT_I64, PL_SIZES(batch, 1));
    pl_line(b, "labeled_logits = torch.gather(logits, 0, label_index.expand(n, logits.size(1)))");
    int32_t x = pl_aten_gather(b, logits, 0, pl_aten_expand(b, index, PL_SIZES(batch, o->labels)));
    pl_line(b, "labels = torch.gather(labels, 0, label_index.view(-1))");
    labels = pl_aten_gather(b, labels, 0, pl_aten_view(b, index, PL_SIZES(-1)));
    pl_line(b,
            "loss = loss_fct(labeled_logits.view(-1, self.num_labels).float(), labels.view(-1))");
    x = pl_aten_to(b, pl_aten_view(b, x, PL_SIZES(-1, o->labels)), PL_DT_F32);
    int32_t loss = pl_aten_cross_entropy(b, x, pl_aten_view(b, labels, PL_SIZES(-1)), -100);
    pl_build_output(b, loss);
    pl_build_output(b, logits);
}

static void classify(const model *o, int32_t x) {
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
    pl_line(b, "pooled_output = self.dropout(pooled_output)");
    x = pl_hf_dropout(o->m, "dropout", x, pl_hf_float(o->m, "cls_dropout", o->drop));
    pl_line(b, "logits = self.classifier(pooled_output)");
    x = pl_hf_linear(o->m, "classifier", x, o->labels, true);
    if (o->labels > 1 && !pl_hf_has(o->m, "problem_type"))
        class_loss(o, x);
    else
        pl_hf_classification_loss(o->m, x);
}

/* ---- the model ---- */

/* "p2c|c2p", or a list of them. */
static bool has_type(const model *o, const char *type) {
    int64_t count = pl_hf_list(o->m, "pos_att_type");
    for (int64_t i = 0; i < count; i++)
        if (strcmp(pl_hf_list_string(o->m, "pos_att_type", i, ""), type) == 0) return true;
    return count == 0 && strstr(pl_hf_string(o->m, "pos_att_type", ""), type) != NULL;
}

static void read_keys(model *o) {
    pl_hf *m = o->m;
    o->vocab = pl_hf_size(m, "vocab_size", 128100);
    o->hidden = pl_hf_size(m, "hidden_size", 1536);
    o->layers = pl_hf_int(m, "num_hidden_layers", 24);
    o->heads = pl_hf_size(m, "num_attention_heads", 24);
    o->inner = pl_hf_size(m, "intermediate_size", 6144);
    o->width = pl_hf_size(m, "embedding_size", o->hidden);
    o->positions = pl_hf_size(m, "max_position_embeddings", POSITIONS);
    o->types = pl_hf_int(m, "type_vocab_size", 0);
    o->pad = pl_hf_has(m, "pad_token_id") ? pl_hf_pad(m) : 0;
    o->labels = pl_hf_labels(m);
    o->eps = pl_hf_float(m, "layer_norm_eps", 1e-7);
    o->drop = pl_hf_float(m, "hidden_dropout_prob", 0.1);
    o->attn_drop = pl_hf_float(m, "attention_probs_dropout_prob", 0.1);
    o->act = pl_hf_string(m, "hidden_act", "gelu");
    o->relative = pl_hf_bool(m, "relative_attention", false);
    o->biased = pl_hf_bool(m, "position_biased_input", true);
    o->shared = pl_hf_bool(m, "share_att_key", false);
    o->norm = strstr(pl_hf_string(m, "norm_rel_ebd", "none"), "layer_norm") != NULL;
    o->c2p = has_type(o, "c2p");
    o->p2c = has_type(o, "p2c");
}

/* -1 is what these keys say for "none"; other negative numbers mean the same. */
static int64_t positive(model *o, const char *key) {
    double value = pl_hf_float(o->m, key, -1);
    return value >= 1 && value <= 1 << 24 ? (int64_t)value : 0;
}

static void check_keys(model *o) {
    pl_hf *m = o->m;
    if (o->hidden % o->heads != 0)
        pl_hf_refuse(m, "num_attention_heads", "hidden_size %lld is no multiple of it",
                     (long long)o->hidden);
    o->head = pl_hf_size(m, "attention_head_size", o->hidden / o->heads);
    if (m->batch > 1 << 30) pl_build_fail(o->b, PL_USAGE, "batch", "expected at most 2^30");
    if (o->layers > PL_HF_MAX_LAYERS)
        pl_hf_refuse(m, "num_hidden_layers", "at most %d can be built", PL_HF_MAX_LAYERS);
    if (o->m->seq > o->positions)
        pl_build_fail(o->b, PL_USAGE, "seq", "the model takes sequences of up to %lld",
                      (long long)o->positions);
    o->buckets = positive(o, "position_buckets");
    o->farthest = positive(o, "max_relative_positions");
    if (o->farthest == 0) o->farthest = o->positions;
    o->span = o->buckets > 0 ? o->buckets : o->farthest;
}

static void build_deberta(pl_hf *m) {
    model o = {.m = m, .b = m->b};
    read_keys(&o);
    check_keys(&o);
    pl_builder *b = m->b;
    if (m->task == PL_TASK_BASE) {
        enter(&o, "", "DebertaV2Model");
        pl_build_output(b, base(&o));
        pl_module_leave(b);
        return;
    }
    enter(&o, "",
          m->task == PL_TASK_MASKED     ? "DebertaV2ForMaskedLM"
          : m->task == PL_TASK_CLASSIFY ? "DebertaV2ForSequenceClassification"
                                        : "DebertaV2ForTokenClassification");
    enter(&o, "deberta", "DebertaV2Model");
    int32_t x = base(&o);
    pl_module_leave(b);
    if (m->task == PL_TASK_MASKED) {
        token_loss(&o, pl_hf_bool(m, "legacy", true) ? legacy_masked(&o, x) : masked(&o, x));
    } else if (m->task == PL_TASK_CLASSIFY) {
        classify(&o, x);
    } else {
        pl_line(b, "sequence_output = self.dropout(sequence_output)");
        x = pl_hf_dropout(m, "dropout", x, o.drop);
        pl_line(b, "logits = self.classifier(sequence_output)");
        token_loss(&o, pl_hf_linear(m, "classifier", x, o.labels, true));
    }
    pl_module_leave(b);
}

const pl_hf_family pl_hf_deberta[] = {
    {.model_type = "deberta-v2",
     .tasks = 1 << PL_TASK_MASKED | 1 << PL_TASK_CLASSIFY | 1 << PL_TASK_TOKENS | 1 << PL_TASK_BASE,
     .usual = PL_TASK_MASKED,
     .build = build_deberta,
     .version = "5.22",
     .learnt_positions = true,
     .usual_positions = POSITIONS,
     .no_attention = 1u << PL_ATTN_SDPA | 1u << PL_ATTN_FLASH2},
    {0},
};
