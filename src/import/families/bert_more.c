/* bert_more: further kin of BERT as language models (AutoModelForCausalLM): Megatron BERT, BERT generation,
 * RemBERT, RoFormer, RoCBERT, RoBERTa with norms before its blocks, XLM-RoBERTa XL, BigBird.
 *
 * What they differ in is a row: embeddings, where norms stand, whether attention is written out, the
 * head. Order of operators, names and lines are those of transformers 5.22, models/<package>/
 * modeling_<package>.py. Without is_decoder they see all tokens, and train so.
 *
 * Left out: other heads, cross attention, decoders whose attention is written out, BigBird's
 * sparse attention, which longer sequences take. */
#include <math.h>
#include <string.h>

#include "import/families/encoder.h"

typedef enum positions {
    POSITIONS_TABLE,
    POSITIONS_COUNTED, /* over tokens that are no padding: RoBERTa */
    POSITIONS_TURNED,  /* none: queries and keys are turned: RoFormer */
} positions;

typedef enum types { TYPES_BUFFER, TYPES_ZEROS, TYPES_NONE } types;

typedef enum head {
    HEAD_BERT,
    HEAD_ROBERTA,
    HEAD_NARROW, /* through a width of its own, untied: RemBERT */
    HEAD_BARE,   /* the decoder alone: BERT generation */
} head;

typedef struct kin {
    const char *package, *prefix, *attribute;
    const char *width; /* key of the embeddings' width; NULL: hidden_size */
    positions positions;
    types types;
    head head;
    bool mapped;    /* a layer to hidden_size always, in the encoder: RemBERT */
    bool no_norm;   /* of the embeddings */
    bool in_place;  /* positions are added so */
    bool by_hand;   /* attention of products */
    bool before;    /* norms stand before the blocks, and behind the last */
    bool drop_once; /* no dropout behind the feed-forward block: XLM-RoBERTa XL */
    bool glyphs;    /* pronunciations and shapes beside words: RoCBERT */
    bool norm_last; /* dropout before the norm, of the embeddings: BigBird */
    bool sparse;    /* sequences beyond some blocks are attended to sparsely: BigBird */
} kin;

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    const kin *k;
    int64_t vocab, hidden, layers, heads, inner, width, pad, positions, types;
    double eps, drop, attn_drop;
    const char *act;
    bool causal;
    int32_t word, sin, cos;
} model;

static void enter(const model *o, const char *name, const char *what) {
    pl_module_enter(o->b, name,
                    pl_build_text(o->b, "transformers.models.%s.modeling_%s.%s%s", o->k->package,
                                  o->k->package, o->k->prefix, what));
    pl_line(o->b, "");
}

/* ---- embeddings ---- */

static int32_t embed(const model *o, const char *name, int64_t rows, int64_t width, int32_t ids,
                     int64_t pad, int32_t *weight) {
    pl_module_enter(o->b, name, "torch.nn.modules.sparse.Embedding");
    int32_t w = pl_build_parameter(o->b, "weight", PL_SIZES(rows, width));
    int32_t x = pl_aten_embedding(o->b, w, ids, pad);
    pl_module_leave(o->b);
    if (weight) *weight = w;
    return x;
}

/* [batch, seq], from pad + 1 on; padding stays pad. */
static int32_t counted(const model *o, int32_t ids) {
    pl_builder *b = o->b;
    pl_line(b, "position_ids = self.create_position_ids_from_input_ids(");
    int32_t mask =
        pl_aten_to(b, pl_aten_scalar(b, "aten.ne.Scalar", ids, (double)o->pad), PL_DT_I32);
    int32_t x = pl_aten_to(b, pl_aten_cumsum(b, mask, 1), PL_DT_I32);
    x = pl_aten_mul(b, pl_aten_scalar(b, "aten.add.Tensor", x, 0), mask);
    return pl_aten_scalar(b, "aten.add.Tensor", pl_aten_to(b, x, PL_DT_I64), (double)o->pad);
}

/* Token types, all zero: looked up by position in a buffer, or made. */
static int32_t types_of(const model *o, int32_t at, int32_t zero) {
    pl_builder *b = o->b;
    pl_line(b, "token_type_ids = torch.zeros(input_shape, dtype=torch.long)");
    if (o->k->types == TYPES_ZEROS)
        return pl_aten_make(b, "aten.zeros.default", PL_DT_I64, PL_SIZES(o->m->batch, o->m->seq),
                            0);
    pl_line(b, "buffered_token_type_ids = torch.gather(buffered_token_type_ids, 1, position_ids)");
    int32_t x = pl_aten_expand(b, zero, PL_SIZES(pl_built_size(b, at, 0), -1));
    x = pl_aten_gather(b, x, 1, at);
    return pl_aten_expand(b, x, PL_SIZES(o->m->batch, o->m->seq));
}

/* Words with what they sound and look like, of zeros, side by side. */
static int32_t glyphs(const model *o, int32_t words) {
    pl_hf *m = o->m;
    pl_builder *b = o->b;
    static const struct {
        const char *key, *rows, *width, *name, *line;
        int64_t usual_rows, usual_width;
    } more[] = {{"enable_shape", "shape_vocab_size", "shape_embed_dim", "shape_embed",
                 "1: embedding_in = torch.cat((embedding_in, embedding_shape), -1)", 24858, 512},
                {"enable_pronunciation", "pronunciation_vocab_size", "pronunciation_embed_dim",
                 "pronunciation_embed",
                 "2: embedding_in = torch.cat((embedding_in, embedding_pronunciation), -1)", 910,
                 768}};
    pl_line(b, "embedding_in = torch.clone(inputs_embeds)");
    int32_t x = pl_aten_clone(b, words);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        bool on = pl_hf_bool(m, more[i].key, true);
        int64_t rows = pl_hf_size(m, more[i].rows, more[i].usual_rows),
                width = pl_hf_size(m, more[i].width, more[i].usual_width);
        if (!on) pl_build_uncalled(b, true);
        pl_line(b, i ? "input_pronunciation_ids = torch.zeros(input_shape)"
                     : "input_shape_ids = torch.zeros(input_shape)");
        int32_t ids =
            pl_aten_make(b, "aten.zeros.default", PL_DT_I64, PL_SIZES(m->batch, m->seq), 0);
        pl_line(b, i ? "embedding_pronunciation = self.pronunciation_embed("
                     : "embedding_shape = self.shape_embed(input_shape_ids)");
        int32_t y = embed(o, more[i].name, rows, width, ids, o->pad, NULL);
        if (!on) pl_build_uncalled(b, false);
        pl_line(b, more[i].line);
        if (on) x = pl_aten_cat(b, 2, (int32_t[]){x, y}, -1);
    }
    pl_line(b, "3: embedding_in = self.map_inputs_layer(embedding_in)");
    return pl_hf_linear(m, "map_inputs_layer", x, o->hidden, true);
}

static int32_t plus(const model *o, int32_t x, int32_t y) {
    return o->k->in_place ? pl_aten_binary(o->b, "aten.add_.Tensor", x, y)
                          : pl_aten_add(o->b, x, y);
}

static int32_t embeddings(model *o) {
    pl_hf *m = o->m;
    pl_builder *b = o->b;
    const kin *k = o->k;
    enter(o, "embeddings", "Embeddings");
    pl_module_children(b, "word_embeddings pronunciation_embed shape_embed position_embeddings "
                          "token_type_embeddings map_inputs_layer LayerNorm");
    int32_t ids = pl_hf_input_ids(m), at = PL_NONE, zero = PL_NONE, y;
    if (k->positions != POSITIONS_TURNED)
        at = pl_build_buffer(b, "position_ids", PL_DT_I64, false, PL_SIZES(1, o->positions));
    if (k->types == TYPES_BUFFER)
        zero = pl_build_buffer(b, "token_type_ids", PL_DT_I64, false, PL_SIZES(1, o->positions));
    pl_line(b, "position_ids = self.position_ids[:, :seq_length]");
    if (k->positions == POSITIONS_COUNTED)
        at = counted(o, ids);
    else if (k->positions == POSITIONS_TABLE)
        at = pl_aten_slice(b, at, 1, 0, m->seq);
    int32_t types = k->types == TYPES_NONE ? PL_NONE : types_of(o, at, zero);
    pl_line(b, "inputs_embeds = self.word_embeddings(input_ids)");
    int32_t x = embed(o, "word_embeddings", o->vocab, o->width, ids, o->pad, &o->word);
    if (k->glyphs) x = glyphs(o, x);
    if (types != PL_NONE) {
        pl_line(b, "token_type_embeddings = self.token_type_embeddings(token_type_ids)");
        y = embed(o, "token_type_embeddings", o->types, o->width, types, -1, NULL);
        pl_line(b, "1: embeddings = inputs_embeds + token_type_embeddings");
        x = k->glyphs ? plus(o, x, y) : pl_aten_add(b, x, y);
    }
    if (k->positions != POSITIONS_TURNED) {
        pl_line(b, "position_embeddings = self.position_embeddings(position_ids)");
        y = embed(o, "position_embeddings", o->positions, o->width, at,
                  k->positions == POSITIONS_COUNTED ? o->pad : -1, NULL);
        pl_line(b, "2: embeddings = embeddings + position_embeddings");
        x = plus(o, x, y);
    }
    if (k->norm_last) {
        pl_line(b, "3: embeddings = self.dropout(embeddings)");
        x = pl_hf_dropout(m, "dropout", x, o->drop);
    }
    pl_line(b, "4: embeddings = self.LayerNorm(embeddings)");
    if (!k->no_norm) x = pl_hf_layer_norm(m, "LayerNorm", x, o->eps, true);
    pl_line(b, "5: embeddings = self.dropout(embeddings)");
    if (!k->norm_last) x = pl_hf_dropout(m, "dropout", x, o->drop);
    pl_module_leave(b);
    return x;
}

/* ---- layers ---- */

static int32_t heads_of(const model *o, const char *name, const char *line, int32_t x) {
    pl_builder *b = o->b;
    pl_line(b, line);
    x = pl_hf_linear(o->m, name, x, o->hidden, pl_hf_bool(o->m, "use_bias", true));
    x = pl_aten_view(b, x, PL_SIZES(o->m->batch, o->m->seq, -1, o->hidden / o->heads));
    return pl_aten_transpose(b, x, 1, 2);
}

/* A half of the table, each number twice: [1,1,S,d/2] to [1,1,S,d] */
static int32_t doubled(const model *o, int32_t x) {
    int32_t y = pl_aten_stack(o->b, 2, (int32_t[]){x, x}, -1);
    return pl_aten_reshape(o->b, y, PL_SIZES(1, 1, o->m->seq, 2 * pl_built_size(o->b, x, -1)));
}

/* x cos + (-odd, even) sin. x [B,heads,S,d] */
static int32_t turn(const model *o, int32_t x, int32_t sin, int32_t cos) {
    pl_builder *b = o->b;
    pl_dtype type = pl_built(b, x)->dtype;
    int64_t d = pl_built_size(b, x, -1);
    int32_t part[2];
    for (int i = 0; i < 2; i++) {
        pl_call(b, "aten.slice.Tensor");
        pl_call_tensor(b, "self", x);
        pl_call_int(b, "dim", 3);
        pl_call_int(b, "start", 1 - i);
        pl_call_int(b, "end", INT64_MAX);
        pl_call_int(b, "step", 2);
        part[i] = pl_call_result(b, type, PL_SIZES(o->m->batch, o->heads, o->m->seq, d / 2));
    }
    pl_line(b, "rotate_half = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape_as(x)");
    part[0] = pl_aten_unary(b, "aten.neg.default", part[0]);
    int32_t y = pl_aten_stack(b, 2, part, -1);
    y = pl_aten_reshape(b, y, PL_SIZES(o->m->batch, o->heads, o->m->seq, d));
    pl_line(b, "x = x * cos_pos + rotate_half * sin_pos");
    return pl_aten_add(b, pl_aten_mul(b, x, cos), pl_aten_mul(b, y, sin));
}

static void turn_both(const model *o, int32_t *q, int32_t *k, int32_t *v) {
    pl_builder *b = o->b;
    pl_module_enter(b, "apply_rotary_position_embeddings", "apply_rotary_position_embeddings");
    pl_line(b, "sin_pos = torch.stack([sin, sin], dim=-1).reshape_as(sinusoidal_pos)");
    int32_t sin = doubled(o, o->sin);
    pl_line(b, "cos_pos = torch.stack([cos, cos], dim=-1).reshape_as(sinusoidal_pos)");
    int32_t cos = doubled(o, o->cos);
    *q = turn(o, *q, sin, cos);
    *k = turn(o, *k, sin, cos);
    if (pl_hf_bool(o->m, "rotary_value", false)) *v = turn(o, *v, sin, cos);
    pl_module_leave(b);
}

static int32_t attend_by_hand(const model *o, int32_t q, int32_t k, int32_t v) {
    pl_builder *b = o->b;
    pl_line(b, "1: attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))");
    int32_t w = pl_aten_matmul(b, q, pl_aten_transpose(b, k, -1, -2));
    pl_line(b, "2: attention_scores = attention_scores / math.sqrt(self.attention_head_size)");
    w = pl_aten_scalar(b, "aten.div.Tensor", w, sqrt((double)(o->hidden / o->heads)));
    pl_line(b, "1: attention_probs = nn.functional.softmax(attention_scores, dim=-1)");
    w = pl_aten_softmax(b, w, -1, PL_DT_UNKNOWN);
    pl_line(b, "2: attention_probs = self.dropout(attention_probs)");
    w = pl_hf_dropout(o->m, "dropout", w, o->attn_drop);
    pl_line(b, "1: context_layer = torch.matmul(attention_probs, value_layer)");
    int32_t x = pl_aten_matmul(b, w, v);
    pl_line(b, "2: context_layer = context_layer.permute(0, 2, 1, 3).contiguous()");
    x = pl_aten_contiguous(b, pl_aten_permute(b, x, 4, (int64_t[]){0, 2, 1, 3}));
    pl_line(b, "3: context_layer = context_layer.view(new_context_layer_shape)");
    return pl_aten_view(b, x, PL_SIZES(o->m->batch, o->m->seq, -1));
}

static int32_t self_attention(const model *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "self", "SelfAttention");
    int32_t q = heads_of(o, "query", "query_layer = self.query(hidden_states)", x);
    int32_t k = heads_of(o, "key", "key_layer = self.key(hidden_states)", x);
    int32_t v = heads_of(o, "value", "value_layer = self.value(hidden_states)", x);
    pl_line(b, "1: query_layer, key_layer = self.apply_rotary_position_embeddings(");
    if (o->k->positions == POSITIONS_TURNED) turn_both(o, &q, &k, &v);
    if (o->k->by_hand) {
        x = attend_by_hand(o, q, k, v);
    } else {
        double scale = 1 / sqrt((double)(o->hidden / o->heads));
        pl_line(b, "1: attn_output, attn_weights = attention_interface(");
        x = pl_aten_attention(b, q, k, v, PL_NONE, o->attn_drop, o->causal, scale, false);
        x = pl_aten_contiguous(b, pl_aten_transpose(b, x, 1, 2));
        pl_line(b, "2: attn_output = attn_output.reshape(*input_shape, -1).contiguous()");
        x = pl_aten_reshape(b, x, PL_SIZES(o->m->batch, o->m->seq, -1));
    }
    pl_module_leave(b);
    return x;
}

/* dense, dropout, the sum, and a norm where it stands behind. */
static int32_t output(const model *o, const char *type, int32_t x, int32_t residual, bool drop) {
    pl_builder *b = o->b;
    enter(o, "output", type);
    pl_line(b, "1: hidden_states = self.dense(hidden_states)");
    x = pl_hf_linear(o->m, "dense", x, o->hidden, true);
    pl_line(b, "2: hidden_states = self.dropout(hidden_states)");
    if (drop) x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_line(b, "3: hidden_states = hidden_states + input_tensor");
    x = pl_aten_add(b, x, residual);
    pl_line(b, "4: hidden_states = self.LayerNorm(hidden_states)");
    if (!o->k->before) x = pl_hf_layer_norm(o->m, "LayerNorm", x, o->eps, true);
    pl_module_leave(b);
    return x;
}

static int32_t layer(const model *o, int64_t index, int32_t x) {
    pl_hf *m = o->m;
    pl_builder *b = o->b;
    int32_t y = x;
    enter(o, pl_build_text(b, "layer.%lld", (long long)index), "Layer");
    pl_module_children(b, "attention intermediate output LayerNorm");
    enter(o, "attention", "Attention");
    pl_line(b, "ln_outputs = self.ln(hidden_states)");
    if (o->k->before) y = pl_hf_layer_norm(m, "LayerNorm", x, o->eps, true);
    pl_line(b, "attention_output = self.self(ln_outputs)");
    y = self_attention(o, y);
    x = output(o, "SelfOutput", y, x, true);
    pl_module_leave(b);
    pl_line(b, "ln_output = self.LayerNorm(attention_output)");
    y = o->k->before ? pl_hf_layer_norm(m, "LayerNorm", x, o->eps, true) : x;
    enter(o, "intermediate", "Intermediate");
    pl_line(b, "1: hidden_states = self.dense(hidden_states)");
    y = pl_hf_linear(m, "dense", y, o->inner, true);
    pl_line(b, "2: hidden_states = self.intermediate_act_fn(hidden_states)");
    y = pl_hf_activation(m, "intermediate_act_fn", o->act, y);
    pl_module_leave(b);
    x = output(o, "Output", y, x, !o->k->drop_once);
    pl_module_leave(b);
    return x;
}

/* The table of sines, of which each layer doubles what it turns by. */
static void make_angles(model *o) {
    pl_builder *b = o->b;
    int64_t d = o->hidden / o->heads;
    int32_t halves[2];
    enter(o, "embed_positions", "SinusoidalPositionalEmbedding");
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(o->positions, d));
    pl_build_freeze(b, weight);
    pl_line(b, "position_ids = torch.arange(");
    int32_t x = pl_aten_embedding(b, weight, pl_aten_arange(b, o->m->seq), -1);
    pl_module_leave(b);
    x = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, x, 0), 0);
    pl_aten_chunk(b, x, 2, -1, halves);
    o->sin = halves[0];
    o->cos = halves[1];
}

static int32_t encode(model *o) {
    pl_hf *m = o->m;
    pl_builder *b = o->b;
    int32_t x = embeddings(o);
    if (!o->k->mapped && o->width != o->hidden) {
        pl_line(b, "embedding_output = self.embeddings_project(embedding_output)");
        x = pl_hf_linear(m, "embeddings_project", x, o->hidden, true);
    }
    enter(o, "encoder", "Encoder");
    pl_line(b, "0: hidden_states = self.embedding_hidden_mapping_in(hidden_states)");
    if (o->k->mapped) x = pl_hf_linear(m, "embedding_hidden_mapping_in", x, o->hidden, true);
    pl_line(b, "sinusoidal_pos = self.embed_positions(hidden_states.shape[:-1])");
    if (o->k->positions == POSITIONS_TURNED) make_angles(o);
    pl_line(b, "");
    for (int64_t i = 0; i < o->layers && !pl_build_failed(b); i++) x = layer(o, i, x);
    pl_line(b, "1: hidden_states = self.LayerNorm(hidden_states)");
    if (o->k->before) x = pl_hf_layer_norm(m, "LayerNorm", x, o->eps, true);
    pl_module_leave(b);
    return x;
}

/* ---- heads ---- */

static int32_t decoder(const model *o, int32_t x, bool tied, bool shared) {
    pl_builder *b = o->b;
    int32_t bias = shared ? pl_build_parameter(b, "bias", PL_SIZES(o->vocab)) : PL_NONE;
    pl_module_enter(b, "decoder", "torch.nn.modules.linear.Linear");
    int32_t w = tied ? pl_build_tied(b, "weight", o->word)
                     : pl_build_parameter(b, "weight", PL_SIZES(o->vocab, pl_built_size(b, x, -1)));
    bias = shared && tied ? pl_build_tied(b, "bias", bias)
                          : pl_build_parameter(b, "bias", PL_SIZES(o->vocab));
    x = pl_aten_linear(b, x, w, bias);
    pl_module_leave(b);
    return x;
}

static int32_t head_bert(const model *o, int32_t x, bool tied) {
    pl_builder *b = o->b;
    enter(o, "cls", "OnlyMLMHead");
    enter(o, "predictions", "LMPredictionHead");
    enter(o, "transform", "PredictionHeadTransform");
    pl_line(b, "1: hidden_states = self.dense(hidden_states)");
    x = pl_hf_linear(o->m, "dense", x, o->width, true);
    pl_line(b, "2: hidden_states = self.transform_act_fn(hidden_states)");
    x = pl_hf_activation(o->m, "transform_act_fn", o->act, x);
    pl_line(b, "3: hidden_states = self.LayerNorm(hidden_states)");
    x = pl_hf_layer_norm(o->m, "LayerNorm", x, o->eps, true);
    pl_module_leave(b);
    pl_line(b, "hidden_states = self.decoder(hidden_states)");
    x = decoder(o, x, tied, true);
    pl_module_leave(b);
    pl_module_leave(b);
    return x;
}

static int32_t head_narrow(const model *o, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "cls", "OnlyMLMHead");
    enter(o, "predictions", "LMPredictionHead");
    pl_module_children(b, "dense decoder LayerNorm");
    pl_line(b, "1: hidden_states = self.dense(hidden_states)");
    x = pl_hf_linear(o->m, "dense", x, pl_hf_size(o->m, "output_embedding_size", 1664), true);
    pl_line(b, "2: hidden_states = self.activation(hidden_states)");
    x = pl_hf_activation(o->m, "activation", o->act, x);
    pl_line(b, "3: hidden_states = self.LayerNorm(hidden_states)");
    x = pl_hf_layer_norm(o->m, "LayerNorm", x, o->eps, true);
    pl_line(b, "4: hidden_states = self.decoder(hidden_states)");
    x = decoder(o, x, false, false);
    pl_module_leave(b);
    pl_module_leave(b);
    return x;
}

static int32_t head_roberta(const model *o, int32_t x, bool tied) {
    pl_builder *b = o->b;
    bool bare = o->k->head == HEAD_BARE;
    enter(o, "lm_head", bare ? "OnlyLMHead" : "LMHead");
    if (!bare) {
        pl_line(b, "x = self.dense(features)");
        x = pl_hf_linear(o->m, "dense", x, o->hidden, true);
        pl_line(b, "x = gelu(x)");
        x = pl_aten_gelu(b, x, false);
        pl_line(b, "x = self.layer_norm(x)");
        x = pl_hf_layer_norm(o->m, "layer_norm", x, o->eps, true);
    }
    pl_line(b, "x = self.decoder(x)");
    x = decoder(o, x, tied, true);
    pl_module_leave(b);
    return x;
}

static void read_keys(model *o) {
    pl_hf *m = o->m;
    o->vocab = pl_hf_need(m, "vocab_size");
    o->hidden = pl_hf_need(m, "hidden_size");
    o->layers = pl_hf_layers(m, "num_hidden_layers");
    o->heads = pl_hf_need(m, "num_attention_heads");
    o->inner = pl_hf_need(m, "intermediate_size");
    o->width = o->k->width ? pl_hf_size(m, o->k->width, o->hidden) : o->hidden;
    o->positions = pl_hf_need(m, "max_position_embeddings");
    o->types = pl_hf_int(m, "type_vocab_size", 2);
    o->pad = pl_hf_pad(m);
    o->eps = pl_hf_float(m, "layer_norm_eps", 1e-12);
    o->act = pl_hf_string(m, "hidden_act", "gelu");
    o->drop = pl_hf_float(m, "hidden_dropout_prob", 0.1);
    o->attn_drop = pl_hf_float(m, "attention_probs_dropout_prob", 0.1);
    o->causal = pl_hf_bool(m, "is_decoder", false);
    if (o->hidden % o->heads != 0)
        pl_hf_refuse(m, "num_attention_heads", "the width, %lld, is no multiple of it",
                     (long long)o->hidden);
    if (pl_hf_bool(m, "add_cross_attention", false))
        pl_hf_refuse(m, "add_cross_attention", "cross attention is not built");
    if (o->causal && (o->k->by_hand || m->attn == PL_ATTN_EAGER))
        pl_hf_refuse(m, "is_decoder", "a decoder with eager attention is not built");
    int64_t most = (5 + 2 * pl_hf_int(m, "num_random_blocks", 3)) * pl_hf_int(m, "block_size", 64);
    bool full = strcmp(pl_hf_string(m, "attention_type", "block_sparse"), "original_full") == 0;
    if (o->k->sparse && !full && m->seq > most)
        pl_build_fail(o->b, PL_USAGE, "seq",
                      "sparse attention is not built: sequences of up to %lld are",
                      (long long)most);
    if (o->k->glyphs && !pl_hf_bool(m, "concat_input", true))
        pl_hf_refuse(m, "concat_input", "only embeddings side by side are built");
}

static void build(pl_hf *m) {
    model o = {.m = m, .b = m->b, .k = m->family->plan};
    const kin *k = o.k;
    read_keys(&o);
    if (pl_build_failed(m->b)) return;
    bool tied = pl_hf_bool(m, "tie_word_embeddings", true);
    enter(&o, "", k->head == HEAD_BARE ? "Decoder" : "ForCausalLM");
    enter(&o, k->attribute, k->head == HEAD_BARE ? "Encoder" : "Model");
    int32_t x = encode(&o);
    pl_module_leave(m->b);
    pl_line(m->b, "logits = self.cls(hidden_states)");
    switch (k->head) {
    case HEAD_BERT: x = head_bert(&o, x, tied); break;
    case HEAD_NARROW: x = head_narrow(&o, x); break;
    default: x = head_roberta(&o, x, tied);
    }
    pl_hf_causal_loss(m, x);
    pl_module_leave(m->b);
}

static const kin megatron = {.package = "megatron_bert",
                             .prefix = "MegatronBert",
                             .attribute = "bert",
                             .types = TYPES_ZEROS,
                             .no_norm = true,
                             .in_place = true,
                             .by_hand = true,
                             .before = true},
                 generation = {.package = "bert_generation",
                               .prefix = "BertGeneration",
                               .attribute = "bert",
                               .types = TYPES_NONE,
                               .head = HEAD_BARE},
                 rembert = {.package = "rembert",
                            .prefix = "RemBert",
                            .attribute = "rembert",
                            .width = "input_embedding_size",
                            .types = TYPES_ZEROS,
                            .head = HEAD_NARROW,
                            .mapped = true,
                            .in_place = true,
                            .by_hand = true},
                 roformer = {.package = "roformer",
                             .prefix = "RoFormer",
                             .attribute = "roformer",
                             .width = "embedding_size",
                             .positions = POSITIONS_TURNED,
                             .types = TYPES_ZEROS,
                             .by_hand = true},
                 roc = {.package = "roc_bert",
                        .prefix = "RoCBert",
                        .attribute = "roc_bert",
                        .in_place = true,
                        .glyphs = true},
                 before = {.package = "roberta_prelayernorm",
                           .prefix = "RobertaPreLayerNorm",
                           .attribute = "roberta_prelayernorm",
                           .positions = POSITIONS_COUNTED,
                           .head = HEAD_ROBERTA,
                           .before = true},
                 large = {.package = "xlm_roberta_xl",
                          .prefix = "XLMRobertaXL",
                          .attribute = "roberta",
                          .positions = POSITIONS_COUNTED,
                          .head = HEAD_ROBERTA,
                          .no_norm = true,
                          .before = true,
                          .drop_once = true},
                 big_bird = {.package = "big_bird",
                             .prefix = "BigBird",
                             .attribute = "bert",
                             .in_place = true,
                             .by_hand = true,
                             .norm_last = true,
                             .sparse = true};

#define ROW(type, kin, kept, length)                                                               \
    {                                                                                              \
        .model_type = type, .tasks = 1u << PL_TASK_CAUSAL, .usual = PL_TASK_CAUSAL,                \
        .build = build, .plan = &(kin), .version = "5.22", .learnt_positions = true,               \
        .kept_positions = kept, .usual_positions = 512, .usual_seq = length                        \
    }

const pl_hf_family pl_hf_bert_more[] = {
    ROW("megatron-bert", megatron, 0, 0),
    ROW("bert-generation", generation, 0, 0),
    ROW("rembert", rembert, 0, 0),
    ROW("roformer", roformer, 0, 0),
    ROW("roc_bert", roc, 0, 0),
    ROW("roberta-prelayernorm", before, 2, 0),
    ROW("xlm-roberta-xl", large, 2, 0),
    ROW("big_bird", big_bird, 0, 512),
    {0},
};
