/* bert: BERT and its kin: ERNIE, RoBERTa (and XLM-RoBERTa, CamemBERT, data2vec), ELECTRA, ALBERT,
 * DistilBERT.
 *
 * A family is a row of classes and defaults, a function for a layer and a function for each head.
 * The order of operators, the names of modules and the lines are those of transformers 5.22,
 * models/FAMILY/ modeling_FAMILY.py; defaults are those of configuration_FAMILY.py, since a
 * config.json may leave out what equals them. Called as model(input_ids, labels): without padding
 * there is no mask.
 *
 * Left out: cross attention, chunked feed-forward layers, decoders with eager attention. */
#include <math.h>

#include "import/families/encoder.h"

typedef struct model model;

/* What a family has. */
enum {
    POOLS = 1,       /* the base model has a pooler */
    HEAD_POOLED = 2, /* the classifier takes what it gives */
    COUNTED = 4,     /* positions are counted over tokens that are no padding */
    HEAD_TANH = 8,   /* the classifier has tanh where others have gelu */
};

enum { POSITIONS = 512 }; /* where the file does not say */

typedef struct style {
    const char *package, *prefix; /* "bert", "Bert": of module paths and of class names */
    int64_t vocab, hidden, layers, heads, inner, width, pad; /* width: of embeddings; 0: hidden */
    const char *act;
    double drop;
    int flags;
    int32_t (*base)(model *o, bool pooler, int32_t *pooled);
    int32_t (*masked)(model *o, int32_t x);
    int32_t (*classify)(model *o, int32_t x, int32_t pooled);
    const char *attribute; /* of the base model in one with a head; NULL: the package's name */
} style;

struct model {
    pl_hf *m;
    pl_builder *b;
    const style *s;
    int64_t vocab, hidden, layers, heads, inner, width, pad, positions, types, labels;
    double eps, drop, attn_drop, head_drop;
    const char *act;
    bool causal, tied;
    int32_t word; /* the word embedding's weight, [vocab, width] */
};

static bool has(const model *o, int flag) {
    return (o->s->flags & flag) != 0;
}

/* A module of the family's own file; '*' stands for the family's prefix. */
static void enter(const model *o, const char *name, const char *class) {
    bool star = *class == '*';
    pl_module_enter(o->b, name,
                    pl_build_text(o->b, "transformers.models.%s.modeling_%s.%s%s", o->s->package,
                                  o->s->package, star ? o->s->prefix : "", class + star));
    pl_line(o->b, "");
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

/* RoBERTa's positions: [batch, seq], from pad + 1 on, padding stays pad. */
static int32_t positions_of(const model *o, int32_t ids) {
    pl_builder *b = o->b;
    pl_line(b, "position_ids = self.create_position_ids_from_input_ids(");
    int32_t mask = pl_aten_scalar(b, "aten.ne.Scalar", ids, (double)o->pad);
    mask = pl_aten_to(b, mask, PL_DT_I32);
    int32_t x = pl_aten_to(b, pl_aten_cumsum(b, mask, 1), PL_DT_I32);
    x = pl_aten_mul(b, pl_aten_scalar(b, "aten.add.Tensor", x, 0), mask);
    return pl_aten_scalar(b, "aten.add.Tensor", pl_aten_to(b, x, PL_DT_I64), (double)o->pad);
}

/* [batch, seq, width]: words, token types (all zero, looked up by position) and positions. */
static int32_t embeddings(model *o) {
    pl_builder *b = o->b;
    int64_t batch = o->m->batch, seq = o->m->seq;
    enter(o, "embeddings", "*Embeddings");
    pl_module_children(
        b, has(o, COUNTED) ? "word_embeddings token_type_embeddings LayerNorm position_embeddings"
                           : "word_embeddings position_embeddings token_type_embeddings LayerNorm");
    int32_t ids = pl_hf_input_ids(o->m);
    int32_t at = pl_build_buffer(b, "position_ids", PL_DT_I64, false, PL_SIZES(1, o->positions));
    int32_t zero =
        pl_build_buffer(b, "token_type_ids", PL_DT_I64, false, PL_SIZES(1, o->positions));
    if (has(o, COUNTED)) {
        at = positions_of(o, ids);
    } else {
        pl_line(b, "position_ids = self.position_ids[:, :seq_length]");
        at = pl_aten_slice(b, at, 1, 0, seq);
    }
    int64_t rows = pl_built_size(b, at, 0);
    pl_line(b, "buffered_token_type_ids = self.token_type_ids.expand(position_ids.shape[0], -1)");
    int32_t types = pl_aten_expand(b, zero, PL_SIZES(rows, -1));
    pl_line(b, "buffered_token_type_ids = torch.gather(buffered_token_type_ids, 1, position_ids)");
    types = pl_aten_gather(b, types, 1, at);
    pl_line(b, "token_type_ids = buffered_token_type_ids.expand(batch_size, seq_length)");
    types = pl_aten_expand(b, types, PL_SIZES(batch, seq));
    pl_line(b, "inputs_embeds = self.word_embeddings(input_ids)");
    int32_t x = embed(o, "word_embeddings", o->vocab, ids, o->pad, &o->word);
    pl_line(b, "token_type_embeddings = self.token_type_embeddings(token_type_ids)");
    int32_t y = embed(o, "token_type_embeddings", o->types, types, -1, NULL);
    pl_line(b, "embeddings = inputs_embeds + token_type_embeddings");
    x = pl_aten_add(b, x, y);
    pl_line(b, "position_embeddings = self.position_embeddings(position_ids)");
    y = embed(o, "position_embeddings", o->positions, at, has(o, COUNTED) ? o->pad : -1, NULL);
    pl_line(b, "embeddings = embeddings + position_embeddings");
    x = pl_aten_add(b, x, y);
    if (pl_hf_bool(o->m, "use_task_id", false)) { /* ERNIE's: all zero */
        pl_line(b, "task_type_ids = torch.zeros(input_shape, dtype=torch.long)");
        types = pl_aten_make(b, "aten.zeros.default", PL_DT_I64, PL_SIZES(batch, seq), 0);
        pl_line(b, "task_type_embeddings = self.task_type_embeddings(task_type_ids)");
        y = embed(o, "task_type_embeddings", pl_hf_int(o->m, "task_type_vocab_size", 3), types, -1,
                  NULL);
        pl_line(b, "embeddings += task_type_embeddings");
        x = pl_aten_binary(b, "aten.add_.Tensor", x, y);
    }
    pl_line(b, "embeddings = self.LayerNorm(embeddings)");
    x = pl_hf_layer_norm(o->m, "LayerNorm", x, o->eps, true);
    pl_line(b, "embeddings = self.dropout(embeddings)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_module_leave(b);
    return x;
}

/* ---- attention ---- */

/* [batch, seq, hidden] to [batch, heads, seq, head]. */
static int32_t heads_of(const model *o, const char *name, const char *line, int32_t x) {
    pl_builder *b = o->b;
    pl_line(b, line);
    x = pl_hf_linear(o->m, name, x, o->hidden, true);
    x = pl_aten_view(b, x, PL_SIZES(o->m->batch, o->m->seq, -1, o->hidden / o->heads));
    return pl_aten_transpose(b, x, 1, 2);
}

/* q, k, v [batch, heads, seq, head] to [batch, seq, hidden]. */
static int32_t attend(const model *o, int32_t q, int32_t k, int32_t v) {
    pl_builder *b = o->b;
    double scale = 1 / sqrt((double)(o->hidden / o->heads));
    int32_t x;
    pl_line(b, "attn_output, attn_weights = attention_interface(");
    if (o->m->attn == PL_ATTN_EAGER) {
        int32_t w = pl_aten_matmul(b, q, pl_aten_transpose(b, k, 2, 3));
        w = pl_aten_scalar(b, "aten.mul.Tensor", w, scale);
        w = pl_aten_dropout(b, pl_aten_softmax(b, w, -1, PL_DT_UNKNOWN), o->attn_drop);
        x = pl_aten_matmul(b, w, v);
    } else {
        x = pl_aten_attention(b, q, k, v, PL_NONE, o->attn_drop, o->causal, scale, false);
    }
    x = pl_aten_contiguous(b, pl_aten_transpose(b, x, 1, 2));
    pl_line(b, "attn_output = attn_output.reshape(*input_shape, -1).contiguous()");
    return pl_aten_reshape(b, x, PL_SIZES(o->m->batch, o->m->seq, -1));
}

static int32_t self_attention(const model *o, const char *query, const char *key, const char *value,
                              int32_t x) {
    int32_t q =
        heads_of(o, query, "query_layer = self.query(hidden_states).view(*hidden_shape)", x);
    int32_t k = heads_of(o, key, "key_layer = self.key(hidden_states).view(*hidden_shape)", x);
    int32_t v =
        heads_of(o, value, "value_layer = self.value(hidden_states).view(*hidden_shape)", x);
    return attend(o, q, k, v);
}

/* ---- BERT, RoBERTa, ELECTRA ---- */

static int32_t bert_output(const model *o, const char *class, int32_t x, int32_t residual) {
    enter(o, "output", class);
    x = pl_hf_residual_output(o->m, x, residual, o->drop, o->eps);
    pl_module_leave(o->b);
    return x;
}

static int32_t bert_layer(const model *o, int64_t index, int32_t x) {
    pl_builder *b = o->b;
    enter(o, pl_build_text(b, "layer.%lld", (long long)index), "*Layer");
    enter(o, "attention", "*Attention");
    enter(o, "self", "*SelfAttention");
    int32_t y = self_attention(o, "query", "key", "value", x);
    pl_module_leave(b);
    x = bert_output(o, "*SelfOutput", y, x);
    pl_module_leave(b);
    enter(o, "intermediate", "*Intermediate");
    pl_line(b, "hidden_states = self.dense(hidden_states)");
    y = pl_hf_linear(o->m, "dense", x, o->inner, true);
    y = pl_hf_activation(o->m, "intermediate_act_fn", o->act, y);
    pl_module_leave(b);
    x = bert_output(o, "*Output", y, x);
    pl_module_leave(b);
    return x;
}

static int32_t bert_pooler(const model *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "pooler", "*Pooler");
    pl_line(b, "first_token_tensor = hidden_states[:, 0]");
    x = pl_aten_select(b, x, 1, 0);
    pl_line(b, "pooled_output = self.dense(first_token_tensor)");
    x = pl_hf_linear(o->m, "dense", x, o->hidden, true);
    pl_line(b, "pooled_output = self.activation(pooled_output)");
    pl_module_enter(b, "activation", "torch.nn.modules.activation.Tanh");
    x = pl_aten_unary(b, "aten.tanh.default", x);
    pl_module_leave(b);
    pl_module_leave(b);
    return x;
}

static int32_t bert_base(model *o, bool pooler, int32_t *pooled) {
    int32_t x = embeddings(o);
    if (o->width != o->hidden) { /* ELECTRA alone */
        pl_line(o->b, "embedding_output = self.embeddings_project(embedding_output)");
        x = pl_hf_linear(o->m, "embeddings_project", x, o->hidden, true);
    }
    enter(o, "encoder", "*Encoder");
    for (int64_t i = 0; i < o->layers && !pl_build_failed(o->b); i++) x = bert_layer(o, i, x);
    pl_module_leave(o->b);
    if (pooler) *pooled = bert_pooler(o, x);
    return x;
}

/* The last product of a masked head: the word embedding's weight and, where shared is set, a bias
 * that the head's own module names too. */
static int32_t decoder(const model *o, const char *name, bool shared, int32_t x) {
    pl_builder *b = o->b;
    int32_t bias = shared ? pl_build_parameter(b, "bias", PL_SIZES(o->vocab)) : PL_NONE;
    pl_module_enter(b, name, "torch.nn.modules.linear.Linear");
    int32_t w = o->tied ? pl_build_tied(b, "weight", o->word)
                        : pl_build_parameter(b, "weight", PL_SIZES(o->vocab, o->width));
    bias = shared && o->tied ? pl_build_tied(b, "bias", bias)
                             : pl_build_parameter(b, "bias", PL_SIZES(o->vocab));
    x = pl_aten_linear(b, x, w, bias);
    pl_module_leave(b);
    return x;
}

static int32_t bert_masked(model *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "cls", "*OnlyMLMHead");
    enter(o, "predictions", "*LMPredictionHead");
    enter(o, "transform", "*PredictionHeadTransform");
    pl_line(b, "hidden_states = self.dense(hidden_states)");
    x = pl_hf_linear(o->m, "dense", x, o->hidden, true);
    x = pl_hf_activation(o->m, "transform_act_fn", o->act, x);
    pl_line(b, "hidden_states = self.LayerNorm(hidden_states)");
    x = pl_hf_layer_norm(o->m, "LayerNorm", x, o->eps, true);
    pl_module_leave(b);
    pl_line(b, "hidden_states = self.decoder(hidden_states)");
    x = decoder(o, "decoder", true, x);
    pl_module_leave(b);
    pl_module_leave(b);
    return x;
}

static int32_t roberta_masked(model *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "lm_head", "*LMHead");
    pl_line(b, "x = self.dense(features)");
    x = pl_hf_linear(o->m, "dense", x, o->hidden, true);
    pl_line(b, "return self.act(input)");
    x = pl_aten_gelu(b, x, false);
    pl_line(b, "x = self.layer_norm(x)");
    x = pl_hf_layer_norm(o->m, "layer_norm", x, o->eps, true);
    pl_line(b, "x = self.decoder(x)");
    x = decoder(o, "decoder", true, x);
    pl_module_leave(b);
    return x;
}

static int32_t electra_masked(model *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "generator_predictions", "*GeneratorPredictions");
    pl_module_children(b, "LayerNorm dense");
    pl_line(b, "hidden_states = self.dense(generator_hidden_states)");
    x = pl_hf_linear(o->m, "dense", x, o->width, true);
    x = pl_hf_activation(o->m, "activation", "gelu", x);
    pl_line(b, "hidden_states = self.LayerNorm(hidden_states)");
    x = pl_hf_layer_norm(o->m, "LayerNorm", x, o->eps, true);
    pl_module_leave(b);
    pl_line(b, "prediction_scores = self.generator_lm_head(prediction_scores)");
    return decoder(o, "generator_lm_head", false, x);
}

/* RoBERTa's and ELECTRA's heads are modules that pool by themselves. */
static int32_t head_classify(model *o, int32_t x, int32_t pooled) {
    pl_builder *b = o->b;
    (void)pooled;
    enter(o, "classifier", "*ClassificationHead");
    pl_line(b, "x = features[:, 0, :]");
    x = pl_aten_select(b, x, 1, 0);
    pl_line(b, "x = self.dropout(x)");
    x = pl_hf_dropout(o->m, "dropout", x, o->head_drop);
    pl_line(b, "x = self.dense(x)");
    x = pl_hf_linear(o->m, "dense", x, o->hidden, true);
    pl_line(b, "x = torch.tanh(x)");
    x = has(o, HEAD_TANH) ? pl_aten_unary(b, "aten.tanh.default", x)
                          : pl_hf_activation(o->m, "activation", "gelu", x);
    pl_line(b, "x = self.dropout(x)");
    x = pl_hf_dropout(o->m, "dropout", x, o->head_drop);
    pl_line(b, "x = self.out_proj(x)");
    x = pl_hf_linear(o->m, "out_proj", x, o->labels, true);
    pl_module_leave(b);
    return x;
}

static int32_t bert_classify(model *o, int32_t x, int32_t pooled) {
    (void)x;
    pl_line(o->b, "pooled_output = self.dropout(pooled_output)");
    pooled = pl_hf_dropout(o->m, "dropout", pooled, o->head_drop);
    pl_line(o->b, "logits = self.classifier(pooled_output)");
    return pl_hf_linear(o->m, "classifier", pooled, o->labels, true);
}

/* ---- ALBERT: groups of layers, each called again and again ---- */

static int32_t albert_layer(const model *o, int64_t index, int32_t x) {
    pl_builder *b = o->b;
    enter(o, pl_build_text(b, "albert_layers.%lld", (long long)index), "*Layer");
    pl_module_children(b, "full_layer_layer_norm attention ffn ffn_output");
    enter(o, "attention", "*Attention");
    int32_t y = self_attention(o, "query", "key", "value", x);
    pl_line(b, "attn_output = self.dense(attn_output)");
    y = pl_hf_linear(o->m, "dense", y, o->hidden, true);
    pl_line(b, "attn_output = self.output_dropout(attn_output)");
    y = pl_hf_dropout(o->m, "output_dropout", y, o->drop);
    pl_line(b, "attn_output = self.LayerNorm(hidden_states + attn_output)");
    x = pl_hf_layer_norm(o->m, "LayerNorm", pl_aten_add(b, x, y), o->eps, true);
    pl_module_leave(b);
    pl_line(b, "ffn_output = apply_chunking_to_forward(");
    y = pl_hf_linear(o->m, "ffn", x, o->inner, true);
    y = pl_hf_activation(o->m, "activation", o->act, y);
    y = pl_hf_linear(o->m, "ffn_output", y, o->hidden, true);
    pl_line(b, "hidden_states = self.full_layer_layer_norm(ffn_output + attention_output)");
    x = pl_hf_layer_norm(o->m, "full_layer_layer_norm", pl_aten_add(b, y, x), o->eps, true);
    pl_module_leave(b);
    return x;
}

static int32_t albert_base(model *o, bool pooler, int32_t *pooled) {
    pl_builder *b = o->b;
    int64_t groups = pl_hf_int(o->m, "num_hidden_groups", 1),
            inner = pl_hf_int(o->m, "inner_group_num", 1);
    if (groups < 1 || groups > o->layers)
        pl_hf_refuse(o->m, "num_hidden_groups", "expected 1 to num_hidden_layers");
    if (inner < 1 || inner > PL_HF_MAX_LAYERS / (o->layers > 0 ? o->layers : 1))
        pl_hf_refuse(o->m, "inner_group_num", "at most %d layers can be built", PL_HF_MAX_LAYERS);
    int32_t x = embeddings(o);
    enter(o, "encoder", "*Transformer");
    pl_line(b, "hidden_states = self.embedding_hidden_mapping_in(hidden_states)");
    x = pl_hf_linear(o->m, "embedding_hidden_mapping_in", x, o->hidden, true);
    for (int64_t i = 0; i < o->layers && !pl_build_failed(b); i++) {
        /* int(i / (layers / groups)), in floating point as there */
        int64_t group = (int64_t)((double)i / ((double)o->layers / (double)groups));
        enter(o, pl_build_text(b, "albert_layer_groups.%lld", (long long)group), "*LayerGroup");
        for (int64_t k = 0; k < inner && !pl_build_failed(b); k++) x = albert_layer(o, k, x);
        pl_module_leave(b);
    }
    pl_module_leave(b);
    if (pooler) {
        pl_line(b, "pooled_output = self.pooler_activation(self.pooler(sequence_output[:, 0]))");
        int32_t y = pl_hf_linear(o->m, "pooler", pl_aten_select(b, x, 1, 0), o->hidden, true);
        pl_module_enter(b, "pooler_activation", "torch.nn.modules.activation.Tanh");
        *pooled = pl_aten_unary(b, "aten.tanh.default", y);
        pl_module_leave(b);
    }
    return x;
}

static int32_t albert_masked(model *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "predictions", "*MLMHead");
    pl_module_children(b, "bias LayerNorm dense decoder");
    pl_line(b, "hidden_states = self.dense(hidden_states)");
    x = pl_hf_linear(o->m, "dense", x, o->width, true);
    x = pl_hf_activation(o->m, "activation", o->act, x);
    pl_line(b, "hidden_states = self.LayerNorm(hidden_states)");
    x = pl_hf_layer_norm(o->m, "LayerNorm", x, o->eps, true);
    pl_line(b, "hidden_states = self.decoder(hidden_states)");
    x = decoder(o, "decoder", true, x);
    pl_module_leave(b);
    return x;
}

/* ---- DistilBERT ---- */

static int32_t distilbert_layer(const model *o, int64_t index, int32_t x) {
    pl_builder *b = o->b;
    enter(o, pl_build_text(b, "layer.%lld", (long long)index), "TransformerBlock");
    enter(o, "attention", "*SelfAttention");
    int32_t y = self_attention(o, "q_lin", "k_lin", "v_lin", x);
    pl_line(b, "attn_output = self.out_lin(attn_output)");
    y = pl_hf_linear(o->m, "out_lin", y, o->hidden, true);
    pl_module_leave(b);
    pl_line(b, "attention_output = self.sa_layer_norm(attention_output + hidden_states)");
    x = pl_hf_layer_norm(o->m, "sa_layer_norm", pl_aten_add(b, y, x), o->eps, true);
    enter(o, "ffn", "FFN");
    pl_line(b, "x = self.lin1(input)");
    y = pl_hf_linear(o->m, "lin1", x, o->inner, true);
    y = pl_hf_activation(o->m, "activation", o->act, y);
    pl_line(b, "x = self.lin2(x)");
    y = pl_hf_linear(o->m, "lin2", y, o->hidden, true);
    pl_line(b, "x = self.dropout(x)");
    y = pl_hf_dropout(o->m, "dropout", y, o->drop);
    pl_module_leave(b);
    pl_line(b, "ffn_output = self.output_layer_norm(ffn_output + attention_output)");
    x = pl_hf_layer_norm(o->m, "output_layer_norm", pl_aten_add(b, y, x), o->eps, true);
    pl_module_leave(b);
    return x;
}

static int32_t distilbert_base(model *o, bool pooler, int32_t *pooled) {
    pl_builder *b = o->b;
    (void)pooler, (void)pooled;
    enter(o, "embeddings", "Embeddings");
    int32_t ids = pl_hf_input_ids(o->m);
    int32_t at = pl_build_buffer(b, "position_ids", PL_DT_I64, false, PL_SIZES(1, o->positions));
    pl_line(b, "inputs_embeds = self.word_embeddings(input_ids)");
    int32_t x = embed(o, "word_embeddings", o->vocab, ids, o->pad, &o->word);
    pl_line(b, "position_ids = self.position_ids[:, :seq_length]");
    at = pl_aten_slice(b, at, 1, 0, o->m->seq);
    pl_line(b, "position_embeddings = self.position_embeddings(position_ids)");
    int32_t weight, y = embed(o, "position_embeddings", o->positions, at, -1, &weight);
    if (pl_hf_bool(o->m, "sinusoidal_pos_embds", false)) pl_build_freeze(b, weight);
    pl_line(b, "embeddings = inputs_embeds + position_embeddings");
    x = pl_aten_add(b, x, y);
    pl_line(b, "embeddings = self.LayerNorm(embeddings)");
    x = pl_hf_layer_norm(o->m, "LayerNorm", x, o->eps, true);
    pl_line(b, "embeddings = self.dropout(embeddings)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_module_leave(b);
    enter(o, "transformer", "Transformer");
    for (int64_t i = 0; i < o->layers && !pl_build_failed(b); i++) x = distilbert_layer(o, i, x);
    pl_module_leave(b);
    return x;
}

static int32_t distilbert_masked(model *o, int32_t x) {
    pl_builder *b = o->b;
    pl_line(b, "prediction_logits = self.vocab_transform(hidden_states)");
    x = pl_hf_linear(o->m, "vocab_transform", x, o->hidden, true);
    x = pl_hf_activation(o->m, "activation", o->act, x);
    pl_line(b, "prediction_logits = self.vocab_layer_norm(prediction_logits)");
    x = pl_hf_layer_norm(o->m, "vocab_layer_norm", x, o->eps, true);
    pl_line(b, "prediction_logits = self.vocab_projector(prediction_logits)");
    return decoder(o, "vocab_projector", false, x);
}

static int32_t distilbert_classify(model *o, int32_t x, int32_t pooled) {
    pl_builder *b = o->b;
    (void)pooled;
    pl_line(b, "pooled_output = hidden_state[:, 0]");
    x = pl_aten_select(b, x, 1, 0);
    pl_line(b, "pooled_output = self.pre_classifier(pooled_output)");
    x = pl_hf_linear(o->m, "pre_classifier", x, o->hidden, true);
    pl_line(b, "pooled_output = nn.ReLU()(pooled_output)");
    x = pl_aten_unary(b, "aten.relu.default", x);
    pl_line(b, "pooled_output = self.dropout(pooled_output)");
    x = pl_hf_dropout(o->m, "dropout", x, o->head_drop);
    pl_line(b, "logits = self.classifier(pooled_output)");
    return pl_hf_linear(o->m, "classifier", x, o->labels, true);
}

/* ---- the model ---- */

/* Cross entropy over all tokens, in the logits' own type. */
static void token_loss(const model *o, int32_t logits) {
    pl_builder *b = o->b;
    int32_t labels = pl_build_input(b, "labels", PL_DT_I64, PL_SIZES(o->m->batch, o->m->seq));
    pl_line(b, "loss = loss_fct(logits.view(-1, self.num_labels), labels.view(-1))");
    int32_t x = pl_aten_view(b, logits, PL_SIZES(-1, pl_built_size(b, logits, -1)));
    int32_t loss = pl_aten_cross_entropy(b, x, pl_aten_view(b, labels, PL_SIZES(-1)), -100);
    pl_build_output(b, loss);
    pl_build_output(b, logits);
}

static const char *layers_key(const model *o) {
    return o->s->base == distilbert_base ? "n_layers|num_hidden_layers" : "num_hidden_layers";
}

static const char *heads_key(const model *o) {
    return o->s->base == distilbert_base ? "n_heads|num_attention_heads" : "num_attention_heads";
}

static void read_keys(model *o) {
    pl_hf *m = o->m;
    const style *s = o->s;
    bool distil = s->base == distilbert_base;
    o->vocab = pl_hf_size(m, "vocab_size", s->vocab);
    o->hidden = pl_hf_size(m, distil ? "dim|hidden_size" : "hidden_size", s->hidden);
    o->layers = pl_hf_int(m, layers_key(o), s->layers);
    o->heads = pl_hf_size(m, heads_key(o), s->heads);
    o->inner = pl_hf_size(m, distil ? "hidden_dim" : "intermediate_size", s->inner);
    o->width = s->width ? pl_hf_size(m, "embedding_size", s->width) : o->hidden;
    o->positions = pl_hf_size(m, "max_position_embeddings", POSITIONS);
    o->types = pl_hf_int(m, "type_vocab_size", 2);
    o->pad = pl_hf_has(m, "pad_token_id") ? pl_hf_pad(m) : s->pad;
    o->labels = pl_hf_labels(m);
    o->eps = distil ? 1e-12 : pl_hf_float(m, "layer_norm_eps", 1e-12);
    o->act = pl_hf_string(m, distil ? "activation" : "hidden_act", s->act);
    o->drop = pl_hf_float(m, distil ? "dropout" : "hidden_dropout_prob", s->drop);
    o->attn_drop =
        pl_hf_float(m, distil ? "attention_dropout" : "attention_probs_dropout_prob", s->drop);
    if (s->base == albert_base) /* its own key, and its own default */
        o->head_drop = pl_hf_float(m, "classifier_dropout_prob", 0.1);
    else if (distil)
        o->head_drop =
            m->task == PL_TASK_CLASSIFY ? pl_hf_float(m, "seq_classif_dropout", 0.2) : o->drop;
    else
        o->head_drop = pl_hf_float(m, "classifier_dropout", o->drop);
    o->tied = pl_hf_bool(m, "tie_word_embeddings", true);
    o->causal = pl_hf_bool(m, "is_decoder", false);
}

/* What PyTorch or transformers would refuse. */
static void check_keys(model *o) {
    pl_hf *m = o->m;
    if (o->hidden % o->heads != 0)
        pl_hf_refuse(m, heads_key(o), "the width, %lld, is no multiple of it",
                     (long long)o->hidden);
    if (o->layers > PL_HF_MAX_LAYERS)
        pl_hf_refuse(m, layers_key(o), "at most %d can be built", PL_HF_MAX_LAYERS);
    int64_t most = o->positions - (has(o, COUNTED) ? o->pad + 1 : 0);
    if (m->seq > most)
        pl_build_fail(o->b, PL_USAGE, "seq", "the model takes sequences of up to %lld",
                      (long long)most);
    if (pl_hf_bool(m, "add_cross_attention", false))
        pl_hf_refuse(m, "add_cross_attention", "cross attention is not built");
    if (o->causal && m->attn == PL_ATTN_EAGER)
        pl_hf_refuse(m, "is_decoder", "a decoder with eager attention is not built");
}

static void build(pl_hf *m) {
    const style *s = m->family->plan;
    model o = {.m = m, .b = m->b, .s = s};
    read_keys(&o);
    check_keys(&o);
    pl_builder *b = m->b;
    int32_t pooled = PL_NONE;
    if (m->task == PL_TASK_BASE) {
        enter(&o, "", "*Model");
        int32_t x = s->base(&o, has(&o, POOLS), &pooled);
        pl_build_output(b, x);
        if (pooled != PL_NONE) pl_build_output(b, pooled);
        pl_module_leave(b);
        return;
    }
    bool classify = m->task == PL_TASK_CLASSIFY, masked = m->task == PL_TASK_MASKED,
         causal = m->task == PL_TASK_CAUSAL;
    enter(&o, "",
          masked ? "*ForMaskedLM"
          : causal
              ? (s->base == bert_base && has(&o, HEAD_POOLED) ? "*LMHeadModel" : "*ForCausalLM")
          : classify ? "*ForSequenceClassification"
                     : "*ForTokenClassification");
    enter(&o, s->attribute ? s->attribute : s->package, "*Model");
    int32_t x = s->base(&o, classify && has(&o, HEAD_POOLED), &pooled);
    pl_module_leave(b);
    if (masked) {
        token_loss(&o, s->masked(&o, x));
    } else if (causal) { /* without is_decoder as with it, but for the mask */
        pl_hf_causal_loss(m, s->masked(&o, x));
    } else if (classify) {
        pl_hf_classification_loss(m, s->classify(&o, x, pooled));
    } else {
        pl_line(b, "sequence_output = self.dropout(sequence_output)");
        x = pl_hf_dropout(m, "dropout", x, o.head_drop);
        pl_line(b, "logits = self.classifier(sequence_output)");
        token_loss(&o, pl_hf_linear(m, "classifier", x, o.labels, true));
    }
    pl_module_leave(b);
}

/* clang-format off */
static const style
    bert = {"bert", "Bert", 30522, 768, 12, 12, 3072, 0, 0, "gelu", 0.1, POOLS | HEAD_POOLED,
            bert_base, bert_masked, bert_classify, NULL},
    roberta = {"roberta", "Roberta", 50265, 768, 12, 12, 3072, 0, 1, "gelu", 0.1,
               POOLS | COUNTED | HEAD_TANH, bert_base, roberta_masked, head_classify, NULL},
    xlm_roberta = {"xlm_roberta", "XLMRoberta", 30522, 768, 12, 12, 3072, 0, 1, "gelu", 0.1,
                   POOLS | COUNTED | HEAD_TANH, bert_base, roberta_masked, head_classify, "roberta"},
    camembert = {"camembert", "Camembert", 30522, 768, 12, 12, 3072, 0, 1, "gelu", 0.1,
                 POOLS | COUNTED | HEAD_TANH, bert_base, roberta_masked, head_classify, "roberta"},
    ernie = {"ernie", "Ernie", 30522, 768, 12, 12, 3072, 0, 0, "gelu", 0.1, POOLS | HEAD_POOLED,
             bert_base, bert_masked, bert_classify, NULL},
    data2vec = {"data2vec_text", "Data2VecText", 30522, 768, 12, 12, 3072, 0, 1, "gelu", 0.1,
                POOLS | COUNTED | HEAD_TANH, bert_base, roberta_masked, head_classify, NULL},
    electra = {"electra", "Electra", 30522, 256, 12, 4, 1024, 128, 0, "gelu", 0.1, 0,
               bert_base, electra_masked, head_classify, NULL},
    albert = {"albert", "Albert", 30000, 4096, 12, 64, 16384, 128, 0, "gelu_new", 0,
              POOLS | HEAD_POOLED, albert_base, albert_masked, bert_classify, NULL},
    distilbert = {"distilbert", "DistilBert", 30522, 768, 6, 12, 3072, 0, 0, "gelu", 0.1, 0,
                  distilbert_base, distilbert_masked, distilbert_classify, NULL};
/* clang-format on */

enum {
    TASKS = 1 << PL_TASK_MASKED | 1 << PL_TASK_CLASSIFY | 1 << PL_TASK_TOKENS | 1 << PL_TASK_BASE,
    CAUSAL = 1 << PL_TASK_CAUSAL
};

#define ROW(type, style, kept, more)                                                               \
    {                                                                                              \
        .model_type = type, .tasks = TASKS | (more), .usual = PL_TASK_MASKED, .build = build,      \
        .plan = &(style), .version = "5.22", .learnt_positions = true, .kept_positions = kept,     \
        .usual_positions = POSITIONS                                                               \
    }

const pl_hf_family pl_hf_bert[] = {
    ROW("bert", bert, 0, CAUSAL),
    ROW("roberta", roberta, 2, CAUSAL),
    ROW("xlm-roberta", xlm_roberta, 2, CAUSAL),
    ROW("camembert", camembert, 2, CAUSAL),
    ROW("ernie", ernie, 0, CAUSAL),
    ROW("data2vec-text", data2vec, 2, CAUSAL),
    ROW("electra", electra, 0, CAUSAL),
    ROW("albert", albert, 0, 0),
    ROW("distilbert", distilbert, 0, 0),
    {0},
};
