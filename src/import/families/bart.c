/* bart: BART and its kin (mBART, PLBart, Pegasus, Marian, M2M100, Blenderbot) and Whisper: an
 * encoder and a decoder with positions of their own and plain layer norms.
 *
 * Rules: transformers 5.22, models/FAMILY/modeling_FAMILY.py; defaults of their configurations. The
 * rows of `styles` say what differs. Whisper takes spectrograms [batch, mel bins, 2 *
 * max_source_positions], so that --seq is the length of its labels. Layers are not dropped
 * (layerdrop is 0 in most published configs): the most that a step holds.
 *
 * Left out: clamps of float16 weights, caches, masking of spectrograms. */
#include <math.h>
#include <string.h>

#include "import/families/decoder.h"
#include "import/families/encoder.h"
#include "import/families/seq2seq.h"

enum { BART_POSITIONS = 1024, WHISPER_POSITIONS = 448 }; /* where the file does not say */

/* Where positions come from: a table learnt (behind two rows that are none), a frozen one, or a
 * buffer looked up by how many tokens are no padding. */
typedef enum places { LEARNT_BEHIND_TWO, LEARNT, FROZEN, COUNTED } places;

typedef struct style {
    const char *type; /* "transformers.models.bart.modeling_bart.Bart" */
    bool pre_norm, key_bias, scaled_queries;
    bool embed_norm;   /* words and positions are normalised; */
    bool words_normed; /* the decoder's words alone */
    bool last_norm;    /* behind the last layer */
    bool wraps;        /* decoders start with the labels' last token, which stands for a language */
    bool no_logit_bias;                /* no buffer is added to the logits */
    bool by_hand;                      /* attention is two batched products, of scaled queries */
    bool eager;                        /* no other attention is supported */
    bool own_head;                     /* of a decoder alone: not tied to its words */
    const char *bias;                  /* the key of attention's biases; NULL: it has them */
    const char *last_name, *head_name; /* of the last norm, of a decoder's head; NULL: the usual */
    places places;
    const char *head; /* the class with a head; NULL: ForConditionalGeneration */
} style;

#define TYPE(package, prefix) "transformers.models." package ".modeling_" package "." prefix

static const style bart = {.type = TYPE("bart", "Bart"), .key_bias = true, .embed_norm = true},
                   plbart = {.type = TYPE("plbart", "PLBart"),
                             .key_bias = true,
                             .embed_norm = true,
                             .wraps = true},
                   mbart = {.type = TYPE("mbart", "MBart"),
                            .key_bias = true,
                            .embed_norm = true,
                            .pre_norm = true,
                            .last_norm = true,
                            .wraps = true},
                   pegasus = {.type = TYPE("pegasus", "Pegasus"),
                              .key_bias = true,
                              .pre_norm = true,
                              .last_norm = true,
                              .places = FROZEN},
                   marian = {.type = TYPE("marian", "Marian"),
                             .key_bias = true,
                             .places = FROZEN,
                             .head = "MTModel"},
                   m2m_100 = {.type = TYPE("m2m_100", "M2M100"),
                              .key_bias = true,
                              .pre_norm = true,
                              .last_norm = true,
                              .no_logit_bias = true,
                              .places = COUNTED},
                   blenderbot = {.type = TYPE("blenderbot", "Blenderbot"),
                                 .key_bias = true,
                                 .pre_norm = true,
                                 .last_norm = true,
                                 .places = LEARNT},
                   blenderbot_small = {.type = TYPE("blenderbot_small", "BlenderbotSmall"),
                                       .key_bias = true,
                                       .embed_norm = true,
                                       .words_normed = true,
                                       .places = LEARNT},
                   mvp = {.type = TYPE("mvp", "Mvp"),
                          .key_bias = true,
                          .embed_norm = true,
                          .by_hand = true},
                   trocr = {.type = TYPE("trocr", "TrOCR"),
                            .key_bias = true,
                            .embed_norm = true,
                            .by_hand = true,
                            .head_name = "output_projection"},
                   bigbird_pegasus = {.type = TYPE("bigbird_pegasus", "BigBirdPegasus"),
                                      .key_bias = true,
                                      .pre_norm = true,
                                      .last_norm = true,
                                      .eager = true,
                                      .own_head = true,
                                      .bias = "use_bias",
                                      .last_name = "layernorm_embedding",
                                      .places = LEARNT},
                   whisper = {.type = TYPE("whisper", "Whisper"),
                              .head_name = "proj_out",
                              .pre_norm = true,
                              .scaled_queries = true};

/* Of the encoder or of the decoder. */
typedef struct side {
    pl_hf *m;
    pl_builder *b;
    const style *s;
    const char *name;
    int64_t width, heads, inner, layers, length; /* length: of its sequence */
    double drop, attn_drop, act_drop;
    const char *act;
    bool decoder;
    bool bias;      /* of attention's projections */
    int32_t mask;   /* of a decoder alone, where no kernel makes it; else PL_NONE */
    int32_t memory; /* what the encoder gave, [batch, memory_length, width]; PL_NONE: none ran */
    int64_t memory_length;
} side;

static const char *type_of(side *o, const char *what) {
    return pl_build_text(o->b, "%s%s", o->s->type, what);
}

/* nn.functional.dropout: called by the layer itself. */
static int32_t drop(side *o, int32_t x, double p) {
    pl_line(o->b, "hidden_states = nn.functional.dropout(hidden_states, p=self.dropout)");
    return pl_aten_dropout(o->b, x, p);
}

/* ---- attention ---- */

/* [batch, length, width] to [batch, heads, length, head]. */
static int32_t split(side *o, int32_t x, int64_t length) {
    x = pl_aten_view(o->b, x, PL_SIZES(o->m->batch, length, -1, o->width / o->heads));
    x = pl_aten_transpose(o->b, x, 1, 2);
    return o->s->scaled_queries ? pl_aten_contiguous(o->b, x) : x;
}

static int32_t attend(side *o, int32_t q, int32_t k, int32_t v, bool causal) {
    pl_builder *b = o->b;
    double scale = o->s->scaled_queries ? 1.0 : 1 / sqrt((double)(o->width / o->heads));
    if (o->m->attn != PL_ATTN_EAGER) {
        int32_t x = pl_aten_attention(b, q, k, v, PL_NONE, o->attn_drop, causal, scale, false);
        return pl_aten_contiguous(b, pl_aten_transpose(b, x, 1, 2));
    }
    pl_line(b, "attn_weights = torch.matmul(query, key.transpose(2, 3)) * scaling");
    int32_t w = pl_aten_matmul(b, q, pl_aten_transpose(b, k, 2, 3));
    w = pl_aten_scalar(b, "aten.mul.Tensor", w, scale);
    if (causal) {
        pl_line(b, "attn_weights = attn_weights + attention_mask");
        int64_t n = o->length;
        int32_t mask = o->mask;
        if (mask == PL_NONE)
            mask = pl_aten_make(b, "aten.full.default", pl_built(b, w)->dtype, PL_SIZES(1, 1, n, n),
                                -INFINITY);
        w = pl_aten_add(b, w, mask);
    }
    pl_line(b, "attn_weights = nn.functional.softmax(attn_weights, dim=-1)");
    w = pl_aten_softmax(b, w, -1, PL_DT_UNKNOWN);
    pl_line(b, "attn_weights = nn.functional.dropout(attn_weights, p=dropout)");
    w = pl_aten_dropout(b, w, o->attn_drop);
    pl_line(b, "attn_output = torch.matmul(attn_weights, value)");
    w = pl_aten_matmul(b, w, v);
    pl_line(b, "attn_output = attn_output.transpose(1, 2).contiguous()");
    return pl_aten_contiguous(b, pl_aten_transpose(b, w, 1, 2));
}

/* [batch, length, width] to [batch heads, length, head] */
static int32_t split_flat(side *o, int32_t x) {
    x = pl_aten_transpose(o->b, x, 1, 2);
    return pl_aten_reshape(o->b, x, PL_SIZES(o->m->batch * o->heads, -1, o->width / o->heads));
}

static int32_t heads_of(side *o, int32_t x) {
    return pl_aten_view(o->b, x, PL_SIZES(o->m->batch, -1, o->heads, o->width / o->heads));
}

/* Two batched products and a softmax, the mask added between. */
static int32_t attention_by_hand(side *o, const char *name, int32_t x) {
    pl_builder *b = o->b;
    int64_t batch = o->m->batch, n = o->length;
    pl_module_enter(b, name, type_of(o, "Attention"));
    pl_module_children(b, "k_proj v_proj q_proj out_proj");
    pl_line(b, "1: query_states = self.q_proj(hidden_states) * self.scaling");
    int32_t q = pl_hf_linear(o->m, "q_proj", x, o->width, true);
    q = pl_aten_scalar(b, "aten.mul.Tensor", q, 1 / sqrt((double)(o->width / o->heads)));
    pl_line(b, "1: key_states = self.k_proj(current_states)");
    int32_t k = pl_hf_linear(o->m, "k_proj", x, o->width, true);
    pl_line(b, "1: value_states = self.v_proj(current_states)");
    int32_t v = pl_hf_linear(o->m, "v_proj", x, o->width, true);
    pl_line(b, "2: key_states = key_states.view().transpose(1, 2).reshape(*proj_shape)");
    k = split_flat(o, heads_of(o, k));
    pl_line(b, "2: value_states = value_states.view().transpose(1, 2).reshape(*proj_shape)");
    v = split_flat(o, heads_of(o, v));
    pl_line(b, "2: query_states = query_states.view().transpose(1, 2).reshape(*proj_shape)");
    q = split_flat(o, heads_of(o, q));
    pl_line(b, "1: attn_weights = torch.bmm(query_states, key_states.transpose(1, 2))");
    int32_t w = pl_aten_bmm(b, q, pl_aten_transpose(b, k, 1, 2));
    pl_line(b, "2: attn_weights = attn_weights.view() + attention_mask");
    w = pl_aten_add(b, pl_aten_view(b, w, PL_SIZES(batch, o->heads, n, n)), o->mask);
    pl_line(b, "3: attn_weights = attn_weights.view(bsz * self.num_heads, tgt_len, src_len)");
    w = pl_aten_view(b, w, PL_SIZES(batch * o->heads, n, n));
    pl_line(b, "4: attn_weights = nn.functional.softmax(attn_weights, dim=-1)");
    w = pl_aten_softmax(b, w, -1, PL_DT_UNKNOWN);
    pl_line(b, "attn_probs = nn.functional.dropout(attn_weights, p=self.dropout)");
    w = pl_aten_dropout(b, w, o->attn_drop);
    pl_line(b, "1: attn_output = torch.bmm(attn_probs, value_states)");
    int32_t y = pl_aten_bmm(b, w, v);
    pl_line(b, "2: attn_output = attn_output.view().transpose(1, 2).reshape()");
    y = pl_aten_view(b, y, PL_SIZES(batch, o->heads, n, o->width / o->heads));
    y = pl_aten_reshape(b, pl_aten_transpose(b, y, 1, 2), PL_SIZES(batch, n, o->width));
    pl_line(b, "3: attn_output = self.out_proj(attn_output)");
    y = pl_hf_linear(o->m, "out_proj", y, o->width, true);
    pl_module_leave(b);
    return y;
}

static int32_t attention(side *o, const char *name, int32_t x, bool cross) {
    pl_builder *b = o->b;
    if (o->s->by_hand) return attention_by_hand(o, name, x);
    int32_t from = cross ? o->memory : x;
    int64_t length = cross ? o->memory_length : o->length;
    pl_module_enter(b, name, type_of(o, "Attention"));
    pl_module_children(b, "k_proj v_proj q_proj out_proj");
    pl_line(b, "query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)");
    int32_t q = pl_hf_linear(o->m, "q_proj", x, o->width, o->bias);
    if (o->s->scaled_queries)
        q = pl_aten_scalar(b, "aten.mul.Tensor", q, 1 / sqrt((double)(o->width / o->heads)));
    q = split(o, q, o->length);
    int32_t k, v;
    if (o->s->scaled_queries) {
        pl_line(b, "key_states = self.k_proj(current_states).view(kv_shape).transpose(1, 2)");
        k = split(o, pl_hf_linear(o->m, "k_proj", from, o->width, o->s->key_bias && o->bias),
                  length);
        pl_line(b, "value_states = self.v_proj(current_states).view(kv_shape).transpose(1, 2)");
        v = split(o, pl_hf_linear(o->m, "v_proj", from, o->width, o->bias), length);
    } else {
        pl_line(b, "key_states = self.k_proj(current_states)");
        k = pl_hf_linear(o->m, "k_proj", from, o->width, o->s->key_bias && o->bias);
        pl_line(b, "value_states = self.v_proj(current_states)");
        v = pl_hf_linear(o->m, "v_proj", from, o->width, o->bias);
        pl_line(b, "key_states = key_states.view(kv_shape).transpose(1, 2)");
        k = split(o, k, length);
        pl_line(b, "value_states = value_states.view(kv_shape).transpose(1, 2)");
        v = split(o, v, length);
    }
    pl_line(b, "attn_output, attn_weights = attention_interface(");
    x = attend(o, q, k, v, o->decoder && !cross);
    pl_line(b, "attn_output = attn_output.reshape(*input_shape, -1).contiguous()");
    x = pl_aten_reshape(b, x, PL_SIZES(o->m->batch, o->length, -1));
    pl_line(b, "attn_output = self.out_proj(attn_output)");
    x = pl_hf_linear(o->m, "out_proj", x, o->width, o->bias);
    pl_module_leave(b);
    return x;
}

/* ---- layers ---- */

static int32_t norm(side *o, const char *name, int32_t x) {
    pl_line(o->b, "hidden_states = self.layer_norm(hidden_states)");
    return pl_hf_layer_norm(o->m, name, x, 1e-5, true);
}

static int32_t attention_block(side *o, const char *name, const char *norm_name, int32_t x,
                               bool cross) {
    pl_builder *b = o->b;
    int32_t y = o->s->pre_norm ? norm(o, norm_name, x) : x;
    y = drop(o, attention(o, name, y, cross), o->drop);
    pl_line(b, "hidden_states = residual + hidden_states");
    x = pl_aten_add(b, x, y);
    return o->s->pre_norm ? x : norm(o, norm_name, x);
}

static int32_t layer(side *o, int64_t index, int32_t x) {
    pl_builder *b = o->b;
    pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)index),
                    type_of(o, o->decoder ? "DecoderLayer" : "EncoderLayer"));
    pl_module_children(b, "self_attn activation_fn self_attn_layer_norm encoder_attn "
                          "encoder_attn_layer_norm fc1 fc2 final_layer_norm");
    x = attention_block(o, "self_attn", "self_attn_layer_norm", x, false);
    bool alone = o->decoder && o->memory == PL_NONE; /* its modules are there, not called */
    if (alone) {
        pl_build_uncalled(b, true);
        o->memory = x;
        o->memory_length = o->length;
    }
    int32_t crossed = x;
    if (o->decoder)
        crossed = attention_block(o, "encoder_attn", "encoder_attn_layer_norm", x, true);
    if (alone) {
        pl_build_uncalled(b, false);
        o->memory = PL_NONE;
    } else {
        x = crossed;
    }
    int32_t y = o->s->pre_norm ? norm(o, "final_layer_norm", x) : x;
    pl_line(b, "hidden_states = self.activation_fn(self.fc1(hidden_states))");
    y = pl_hf_linear(o->m, "fc1", y, o->inner, true);
    y = drop(o, pl_hf_activation(o->m, "activation_fn", o->act, y), o->act_drop);
    pl_line(b, "hidden_states = self.fc2(hidden_states)");
    y = drop(o, pl_hf_linear(o->m, "fc2", y, o->width, true), o->drop);
    pl_line(b, "hidden_states = residual + hidden_states");
    x = pl_aten_add(b, x, y);
    if (!o->s->pre_norm) x = norm(o, "final_layer_norm", x);
    pl_module_leave(b);
    return x;
}

static int32_t layers_of(side *o, int32_t x) {
    for (int64_t i = 0; i < o->layers && !pl_build_failed(o->b); i++) x = layer(o, i, x);
    return x;
}

static side read_side(pl_hf *m, const style *s, bool decoder) {
    side o = {.m = m,
              .b = m->b,
              .s = s,
              .decoder = decoder,
              .memory = PL_NONE,
              .mask = PL_NONE,
              .length = m->seq};
    bool small = s->scaled_queries; /* Whisper's defaults are those of its smallest model */
    o.name = decoder ? "decoder" : "encoder";
    const char *heads = decoder ? "decoder_attention_heads" : "encoder_attention_heads",
               *layers = decoder ? "decoder_layers" : "encoder_layers";
    o.width = pl_hf_size(m, "d_model", small ? 384 : 1024);
    o.heads = pl_hf_size(m, heads, small ? 6 : 16);
    o.inner = pl_hf_size(m, decoder ? "decoder_ffn_dim" : "encoder_ffn_dim", small ? 1536 : 4096);
    o.layers = pl_hf_int(m, layers, small ? 4 : 12);
    o.drop = pl_hf_float(m, "dropout", small ? 0.0 : 0.1);
    o.attn_drop = pl_hf_float(m, "attention_dropout", 0);
    o.act_drop = pl_hf_float(m, "activation_dropout", 0);
    o.act = pl_hf_string(m, "activation_function", "gelu");
    o.bias = !s->bias || pl_hf_bool(m, s->bias, false);
    if (o.width % o.heads != 0)
        pl_hf_refuse(m, heads, "d_model, %lld, is no multiple of it", (long long)o.width);
    if (o.layers > PL_HF_MAX_LAYERS)
        pl_hf_refuse(m, layers, "at most %d can be built", PL_HF_MAX_LAYERS);
    return o;
}

/* ---- BART ---- */

/* Positions counted over what is no padding, from the padding's number on: int64 [batch, length]. */
static int32_t counted_positions(side *o, int32_t ids, int64_t pad) {
    pl_builder *b = o->b;
    pl_line(b, "position_ids = self.create_position_ids_from_input_ids(");
    int32_t mask = pl_aten_to(b, pl_aten_scalar(b, "aten.ne.Scalar", ids, (double)pad), PL_DT_I32);
    int32_t x = pl_aten_to(b, pl_aten_cumsum(b, mask, 1), PL_DT_I32);
    x = pl_aten_mul(b, pl_aten_scalar(b, "aten.add.Tensor", x, 0), mask);
    return pl_aten_scalar(b, "aten.add.Tensor", pl_aten_to(b, x, PL_DT_I64), (double)pad);
}

/* [1 or batch, length, width] */
static int32_t places_of(side *o, int32_t ids, int64_t pad, int64_t positions) {
    pl_builder *b = o->b;
    bool offset = o->s->places == LEARNT_BEHIND_TWO;
    if (o->s->places == COUNTED) {
        pl_module_enter(b, "embed_positions", type_of(o, "SinusoidalPositionalEmbedding"));
        int32_t table =
            pl_build_buffer(b, "weights", PL_DT_F32, false, PL_SIZES(positions + 2, o->width));
        bool grad = pl_build_no_grad(b, true);
        int32_t at = pl_aten_view(b, counted_positions(o, ids, pad), PL_SIZES(-1));
        pl_line(b, "return self.weights.index_select(0, position_ids.view(-1)).view(bsz, seq_len)");
        int32_t x = pl_aten_index_select(b, table, 0, at);
        x = pl_aten_view(b, x, PL_SIZES(o->m->batch, o->length, -1));
        pl_build_no_grad(b, grad);
        pl_module_leave(b);
        return x;
    }
    int32_t at = PL_NONE;
    if (o->decoder) at = pl_aten_scalar(b, "aten.add.Tensor", pl_aten_arange(b, o->length), 0);
    pl_module_enter(b, "embed_positions",
                    type_of(o, o->s->places == FROZEN ? "SinusoidalPositionalEmbedding"
                                                      : "LearnedPositionalEmbedding"));
    if (offset) {
        pl_line(b, "position_ids = torch.arange(seq_len).expand(bsz, -1)");
        at = o->decoder ? pl_aten_unsqueeze(b, at, 0)
                        : pl_aten_expand(b, pl_aten_arange(b, o->length),
                                         PL_SIZES(o->m->batch, o->length));
        pl_line(b, "return super().forward(position_ids + self.offset)");
        at = pl_aten_scalar(b, "aten.add.Tensor", at, 2);
    } else {
        pl_line(b, "position_ids = torch.arange(seq_len)");
        if (!o->decoder) at = pl_aten_arange(b, o->length);
        pl_line(b, "return super().forward(position_ids)");
    }
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(positions + 2 * offset, o->width));
    if (o->s->places == FROZEN) pl_build_freeze(b, w);
    int32_t x = pl_aten_embedding(b, w, at, -1);
    pl_module_leave(b);
    return x;
}

/* Words and positions: [batch, length, width]. */
static int32_t bart_embed(side *o, int32_t ids, int32_t table, int64_t pad, int64_t positions,
                          double scale) {
    pl_builder *b = o->b;
    pl_line(b, "inputs_embeds = self.embed_tokens(input_ids)");
    pl_module_enter(b, "embed_tokens", type_of(o, "ScaledWordEmbedding"));
    int32_t x = pl_aten_embedding(b, pl_build_tied(b, "weight", table), ids, pad);
    x = pl_aten_scalar(b, "aten.mul.Tensor", x, scale);
    pl_module_leave(b);
    if (o->decoder && o->memory == PL_NONE && (o->s->by_hand || o->m->attn == PL_ATTN_EAGER)) {
        const pl_decoder plain = {.package = "bart"};
        pl_decoding d = {.m = o->m, .plan = &plain, .embeds = x};
        pl_hf_attention attn = o->m->attn;
        o->m->attn = PL_ATTN_EAGER;
        o->mask = pl_decoder_mask(&d, false);
        o->m->attn = attn;
    }
    bool early = o->s->words_normed && o->decoder;
    pl_line(b, "inputs_embeds = self.layernorm_embedding(inputs_embeds)");
    if (early) x = pl_hf_layer_norm(o->m, "layernorm_embedding", x, 1e-5, true);
    pl_line(b, "embed_pos = self.embed_positions(input)");
    int32_t y = places_of(o, ids, pad, positions);
    pl_line(b, "hidden_states = inputs_embeds + embed_pos");
    x = pl_aten_add(b, x, y);
    pl_line(b, "hidden_states = self.layernorm_embedding(hidden_states)");
    if (o->s->embed_norm && !early)
        x = pl_hf_layer_norm(o->m, "layernorm_embedding", x, 1e-5, true);
    return drop(o, x, o->drop);
}

static int32_t bart_side(side *o, int32_t ids, int32_t table, int64_t pad, int64_t positions,
                         double scale) {
    pl_module_enter(o->b, o->name, type_of(o, o->decoder ? "Decoder" : "Encoder"));
    pl_module_children(o->b, "embed_tokens embed_positions layers layernorm_embedding layer_norm");
    int32_t x = layers_of(o, bart_embed(o, ids, table, pad, positions, scale));
    if (o->s->last_norm) x = norm(o, o->s->last_name ? o->s->last_name : "layer_norm", x);
    pl_module_leave(o->b);
    return x;
}

/* mBART's shift_tokens_right: the labels' last token that is no padding goes to the front. */
static int32_t wrap_right(pl_hf *m, int32_t labels, int64_t pad) {
    pl_builder *b = m->b;
    int64_t seq = pl_built_size(b, labels, 1);
    int32_t ids = pl_aten_clone(b, labels);
    int32_t hidden = pl_aten_scalar(b, "aten.eq.Scalar", ids, -100);
    pl_call(b, "aten.masked_fill_.Scalar");
    pl_call_tensor(b, "self", ids);
    pl_call_tensor(b, "mask", hidden);
    pl_call_int(b, "value", pad);
    ids = pl_call_result_like(b, ids);
    int32_t at = pl_aten_scalar(b, "aten.ne.Scalar", ids, (double)pad);
    at = pl_aten_reduce(b, "aten.sum.dim_IntList", at, 1, false);
    at = pl_aten_unsqueeze(b, pl_aten_scalar(b, "aten.sub.Tensor", at, 1), -1);
    pl_aten_squeeze(b, pl_aten_gather(b, ids, 1, at), 1);
    int32_t part = pl_aten_clone(b, pl_aten_slice(b, ids, 1, 0, seq - 1));
    int32_t rest = pl_aten_slice(b, ids, 1, 1, INT64_MAX);
    pl_call(b, "aten.copy_.default");
    pl_call_tensor(b, "self", rest);
    pl_call_tensor(b, "src", part);
    pl_call_result_like(b, rest);
    return ids;
}

/* Of the last token of each sample, which ends it. */
static void bart_classify(side *o, int32_t x) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    pl_line(b, "sentence_representation = selected.view(-1)[:, -1, :]");
    x = pl_aten_select(b, x, 1, m->seq - 1);
    pl_module_enter(b, "classification_head", type_of(o, "ClassificationHead"));
    pl_module_children(b, "dense dropout out_proj");
    double p = pl_hf_float(m, "classifier_dropout", 0);
    pl_line(b, "hidden_states = self.dropout(hidden_states)");
    x = pl_hf_dropout(m, "dropout", x, p);
    pl_line(b, "hidden_states = self.dense(hidden_states)");
    x = pl_hf_linear(m, "dense", x, o->width, true);
    pl_line(b, "hidden_states = torch.tanh(hidden_states)");
    x = pl_aten_unary(b, "aten.tanh.default", x);
    pl_line(b, "hidden_states = self.dropout(hidden_states)");
    x = pl_hf_dropout(m, "dropout", x, p);
    pl_line(b, "hidden_states = self.out_proj(hidden_states)");
    int64_t labels = o->s == &bart ? pl_hf_int(m, "num_labels", 3) : pl_hf_labels(m);
    x = pl_hf_linear(m, "out_proj", x, labels, true);
    pl_module_leave(b);
    pl_hf_classification_loss(m, x);
}

static void build_alone(pl_hf *m, const style *s);

static void build_bart(pl_hf *m) {
    pl_builder *b = m->b;
    const style *s = m->family->plan;
    if (m->task == PL_TASK_CAUSAL) {
        build_alone(m, s);
        return;
    }
    side encoder = read_side(m, s, false), decoder = read_side(m, s, true);
    int64_t vocab = pl_hf_size(m, "vocab_size", 50265),
            positions = pl_hf_size(m, "max_position_embeddings", BART_POSITIONS),
            pad = pl_hf_int(m, "pad_token_id", 1);
    double scale = pl_hf_bool(m, "scale_embedding", false) ? sqrt((double)encoder.width) : 1.0;
    bool head = m->task == PL_TASK_SEQ2SEQ, classify = m->task == PL_TASK_CLASSIFY;
    if (!pl_hf_bool(m, "share_encoder_decoder_embeddings", true))
        pl_hf_refuse(m, "share_encoder_decoder_embeddings", "two vocabularies are not built");
    if (!pl_hf_bool(m, "tie_word_embeddings", true))
        pl_hf_refuse(m, "tie_word_embeddings", "a head of its own is not built");
    if (pl_build_failed(b)) return;
    if (m->seq > positions) {
        pl_build_fail(b, PL_USAGE, "seq", "the model takes sequences of up to %lld",
                      (long long)positions);
        return;
    }
    const char *with_head = s->head ? s->head : "ForConditionalGeneration";
    pl_module_enter(b, "",
                    type_of(&encoder, head       ? with_head
                                      : classify ? "ForSequenceClassification"
                                                 : "Model"));
    pl_module_children(b, head ? "final_logits_bias model lm_head" : "model classification_head");
    bool inside = head || classify;
    if (inside) pl_module_enter(b, "model", type_of(&encoder, "Model"));
    pl_module_children(b, "shared encoder decoder");
    int32_t table = pl_build_parameter(b, "shared.weight", PL_SIZES(vocab, encoder.width));
    int32_t ids = pl_hf_input_ids(m), labels = PL_NONE, shifted;
    if (head) labels = pl_build_input(b, "labels", PL_DT_I64, PL_SIZES(m->batch, m->seq));
    pl_line(b, "decoder_input_ids = shift_tokens_right(");
    if (head) pl_module_leave(b);
    shifted = s->wraps ? wrap_right(m, head ? labels : ids, pad)
                       : pl_hf_shift_right(m, head ? labels : ids);
    if (head) pl_module_enter(b, "model", type_of(&encoder, "Model"));
    decoder.memory = bart_side(&encoder, ids, table, pad, positions, scale);
    decoder.memory_length = m->seq;
    int32_t x = bart_side(&decoder, shifted, table, pad, positions, scale);
    if (inside) pl_module_leave(b);
    if (head) {
        pl_line(b, "lm_logits = self.lm_head(outputs[0])");
        x = pl_hf_tied_linear(m, "lm_head", x, table, vocab, false);
        pl_line(b, "lm_logits = lm_logits + self.final_logits_bias.to(lm_logits.device)");
        if (!s->no_logit_bias) {
            int32_t bias =
                pl_build_buffer(b, "final_logits_bias", PL_DT_F32, true, PL_SIZES(1, vocab));
            x = pl_aten_add(b, x, bias);
        }
        pl_hf_seq2seq_loss(m, x, labels);
    } else if (classify) {
        bart_classify(&encoder, x);
    } else {
        pl_build_output(b, x);
    }
}

/* The decoder by itself: its words are no other's, and attention to an encoder is there and not
 * called. */
static void build_alone(pl_hf *m, const style *s) {
    pl_builder *b = m->b;
    if (s->eager) m->attn = PL_ATTN_EAGER;
    side decoder = read_side(m, s, true);
    int64_t vocab = pl_hf_size(m, "vocab_size", 50265),
            positions = pl_hf_size(m, "max_position_embeddings", BART_POSITIONS),
            pad = pl_hf_int(m, "pad_token_id", 1);
    double scale = pl_hf_bool(m, "scale_embedding", false) ? sqrt((double)decoder.width) : 1.0;
    const char *head = s->head_name ? s->head_name : "lm_head";
    if (pl_build_failed(b)) return;
    pl_module_enter(b, "", type_of(&decoder, "ForCausalLM"));
    pl_module_children(b, pl_build_text(b, "model %s", head));
    int32_t ids = pl_hf_input_ids(m), table;
    pl_module_enter(b, "model", type_of(&decoder, "DecoderWrapper"));
    pl_module_enter(b, "decoder", type_of(&decoder, "Decoder"));
    pl_module_children(b, "embed_tokens embed_positions layers layernorm_embedding layer_norm");
    pl_module_enter(b, "embed_tokens", type_of(&decoder, "ScaledWordEmbedding"));
    table = pl_build_parameter(b, "weight", PL_SIZES(vocab, decoder.width));
    pl_module_leave(b);
    pl_module_leave(b);
    int32_t x = bart_side(&decoder, ids, table, pad < vocab ? pad : -1, positions, scale);
    pl_module_leave(b);
    pl_line(b, "logits = self.lm_head(hidden_states)");
    x = s->own_head ? pl_hf_linear(m, head, x, vocab, false)
                    : pl_hf_tied_linear(m, head, x, table, vocab, false);
    pl_hf_seq2seq_loss(m, x, pl_build_input(b, "labels", PL_DT_I64, PL_SIZES(m->batch, m->seq)));
    pl_module_leave(b);
}

/* ---- Whisper ---- */

static int32_t convolution(side *o, const char *name, int32_t x, int64_t stride) {
    pl_builder *b = o->b;
    pl_module_enter(b, name, "torch.nn.modules.conv.Conv1d");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(o->width, pl_built_size(b, x, 1), 3));
    int32_t c = pl_build_parameter(b, "bias", PL_SIZES(o->width));
    x = pl_aten_conv(b, 1, x, w, c, (int64_t[]){stride}, (int64_t[]){1}, (int64_t[]){1}, 1);
    pl_module_leave(b);
    return pl_aten_gelu(b, x, false);
}

static int32_t whisper_encoder(side *o, int64_t mels) {
    pl_builder *b = o->b;
    pl_module_enter(b, "encoder", type_of(o, "Encoder"));
    pl_module_children(b, "conv1 conv2 embed_positions layers layer_norm");
    int32_t x = pl_build_input(b, "input_features", o->m->dtype,
                               PL_SIZES(o->m->batch, mels, 2 * o->length));
    pl_line(b, "inputs_embeds = nn.functional.gelu(self.conv1(input_features))");
    x = convolution(o, "conv1", x, 1);
    pl_line(b, "inputs_embeds = nn.functional.gelu(self.conv2(inputs_embeds))");
    x = convolution(o, "conv2", x, 2);
    pl_line(b, "inputs_embeds = inputs_embeds.permute(0, 2, 1)");
    x = pl_aten_permute(b, x, PL_SIZES(0, 2, 1));
    pl_line(b, "all_positions = torch.arange(self.embed_positions.num_embeddings)");
    int32_t at = pl_aten_arange(b, o->length);
    pl_line(b, "hidden_states = inputs_embeds + self.embed_positions(all_positions)");
    pl_module_enter(b, "embed_positions", "torch.nn.modules.sparse.Embedding");
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(o->length, o->width));
    pl_build_freeze(b, w);
    at = pl_aten_embedding(b, w, at, -1);
    pl_module_leave(b);
    x = layers_of(o, drop(o, pl_aten_add(b, x, at), o->drop));
    pl_line(b, "hidden_states = self.layer_norm(hidden_states)");
    x = pl_hf_layer_norm(o->m, "layer_norm", x, 1e-5, true);
    pl_module_leave(b);
    return x;
}

static int32_t whisper_decoder(side *o, int32_t ids, int64_t vocab, int64_t positions, int64_t pad,
                               int32_t *table) {
    pl_builder *b = o->b;
    pl_module_enter(b, "decoder", type_of(o, "Decoder"));
    pl_module_children(b, "embed_tokens embed_positions layers layer_norm");
    pl_line(b, "inputs_embeds = self.embed_tokens(input_ids)");
    pl_module_enter(b, "embed_tokens", "torch.nn.modules.sparse.Embedding");
    *table = pl_build_parameter(b, "weight", PL_SIZES(vocab, o->width));
    int32_t x = pl_aten_embedding(b, *table, ids, pad);
    pl_module_leave(b);
    pl_line(b, "position_ids = position_ids.unsqueeze(0).repeat(inputs_embeds.shape[0], 1)");
    int32_t at = pl_aten_scalar(b, "aten.add.Tensor", pl_aten_arange(b, o->length), 0);
    at = pl_aten_repeat(b, pl_aten_unsqueeze(b, at, 0), PL_SIZES(o->m->batch, 1));
    pl_line(b, "positions = self.embed_positions(");
    pl_module_enter(b, "embed_positions", type_of(o, "PositionalEmbedding"));
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(positions, o->width));
    int32_t y = pl_aten_index(b, w, 1, &at);
    pl_module_leave(b);
    pl_line(b, "hidden_states = inputs_embeds + positions.to(inputs_embeds.device)");
    x = layers_of(o, drop(o, pl_aten_add(b, x, y), o->drop));
    pl_line(b, "hidden_states = self.layer_norm(hidden_states)");
    x = pl_hf_layer_norm(o->m, "layer_norm", x, 1e-5, true);
    pl_module_leave(b);
    return x;
}

static void whisper_alone(side *o, int64_t vocab, int64_t positions, int64_t pad) {
    pl_builder *b = o->b;
    pl_module_enter(b, "", type_of(o, "ForCausalLM"));
    pl_module_children(b, "model proj_out");
    int32_t ids = pl_hf_input_ids(o->m), table;
    pl_module_enter(b, "model", type_of(o, "DecoderWrapper"));
    int32_t x = whisper_decoder(o, ids, vocab, positions, pad, &table);
    pl_module_leave(b);
    pl_line(b, "logits = self.proj_out(outputs[0])");
    x = pl_hf_tied_linear(o->m, "proj_out", x, table, vocab, false);
    int32_t labels = pl_build_input(b, "labels", PL_DT_I64, PL_SIZES(o->m->batch, o->m->seq));
    pl_hf_seq2seq_loss(o->m, x, labels);
    pl_module_leave(b);
}

static void build_whisper(pl_hf *m) {
    pl_builder *b = m->b;
    side encoder = read_side(m, &whisper, false), decoder = read_side(m, &whisper, true);
    int64_t vocab = pl_hf_size(m, "vocab_size", 51865),
            positions = pl_hf_size(m, "max_target_positions", WHISPER_POSITIONS),
            pad = pl_hf_int(m, "pad_token_id", 50256), mels = pl_hf_size(m, "num_mel_bins", 80);
    encoder.length = decoder.memory_length = pl_hf_size(m, "max_source_positions", 1500);
    bool head = m->task == PL_TASK_SEQ2SEQ;
    if (pl_build_failed(b)) return;
    if (m->seq > positions) {
        pl_build_fail(b, PL_USAGE, "seq", "%lld labels; max_target_positions is %lld",
                      (long long)m->seq, (long long)positions);
        return;
    }
    if (m->task == PL_TASK_CAUSAL) {
        whisper_alone(&decoder, vocab, positions, pad < vocab ? pad : -1);
        return;
    }
    pl_module_enter(b, "", type_of(&encoder, head ? "ForConditionalGeneration" : "Model"));
    pl_module_children(b, head ? "model proj_out" : "encoder decoder");
    int32_t labels = pl_build_input(b, head ? "labels" : "decoder_input_ids", PL_DT_I64,
                                    PL_SIZES(m->batch, m->seq)),
            table, ids = labels;
    if (head) {
        pl_line(b, "decoder_input_ids = shift_tokens_right(");
        ids = pl_hf_shift_right(m, labels);
        pl_module_enter(b, "model", type_of(&encoder, "Model"));
    }
    decoder.memory = whisper_encoder(&encoder, mels);
    int32_t x = whisper_decoder(&decoder, ids, vocab, positions, pad < vocab ? pad : -1, &table);
    if (!head) {
        pl_build_output(b, x);
        return;
    }
    pl_module_leave(b);
    pl_line(b, "lm_logits = self.proj_out(outputs.last_hidden_state)");
    x = pl_hf_tied_linear(m, "proj_out", x, table, vocab, false);
    pl_hf_seq2seq_loss(m, x, labels);
}

/* ---- what encoders with decoders share ---- */

int32_t pl_hf_shift_right(pl_hf *m, int32_t labels) {
    pl_builder *b = m->b;
    int64_t seq = pl_built_size(b, labels, 1);
    int32_t ids = pl_aten_make(b, "aten.zeros.default", PL_DT_I64, PL_SIZES(m->batch, seq), 0);
    int32_t part = pl_aten_clone(b, pl_aten_slice(b, labels, 1, 0, seq - 1));
    int32_t rest = pl_aten_slice(b, ids, 1, 1, INT64_MAX);
    pl_call(b, "aten.copy_.default");
    pl_call_tensor(b, "self", rest);
    pl_call_tensor(b, "src", part);
    pl_call_result_like(b, rest);
    int32_t hidden = pl_aten_scalar(b, "aten.eq.Scalar", ids, -100);
    pl_call(b, "aten.masked_fill_.Scalar");
    pl_call_tensor(b, "self", ids);
    pl_call_tensor(b, "mask", hidden);
    pl_call_int(b, "value", 0);
    return pl_call_result_like(b, ids);
}

int32_t pl_hf_tied_embedding(pl_hf *m, const char *name, int32_t table, int32_t ids,
                             int64_t padding_idx) {
    pl_module_enter(m->b, name, "torch.nn.modules.sparse.Embedding");
    int32_t x = pl_aten_embedding(m->b, pl_build_tied(m->b, "weight", table), ids, padding_idx);
    pl_module_leave(m->b);
    return x;
}

void pl_hf_seq2seq_loss(pl_hf *m, int32_t logits, int32_t labels) {
    pl_builder *b = m->b;
    pl_line(b, "loss = loss_fct(lm_logits.view(-1, vocab_size), labels.view(-1))");
    int32_t x = pl_aten_view(b, logits, PL_SIZES(-1, pl_built_size(b, logits, -1)));
    labels = pl_aten_view(b, labels, PL_SIZES(-1));
    pl_build_output(b, pl_aten_cross_entropy(b, x, labels, -100));
    pl_build_output(b, logits);
}

#define BART(type, style, more, ...)                                                               \
    {                                                                                              \
        .model_type = type, .tasks = 1u << PL_TASK_SEQ2SEQ | 1u << PL_TASK_BASE | CAUSAL | (more), \
        .usual = PL_TASK_SEQ2SEQ, .build = build_bart, .plan = &(style), .learnt_positions = true, \
        .usual_positions = BART_POSITIONS, .version = "5.22", __VA_ARGS__                          \
    }
#define CLASSIFY 1u << PL_TASK_CLASSIFY
#define CAUSAL   1u << PL_TASK_CAUSAL
#define ALONE(type, style)                                                                         \
    {                                                                                              \
        .model_type = type, .tasks = CAUSAL, .usual = PL_TASK_CAUSAL, .build = build_bart,         \
        .plan = &(style), .learnt_positions = true, .usual_positions = BART_POSITIONS,             \
        .version = "5.17"                                                                          \
    }

const pl_hf_family pl_hf_bart[] = {
    BART("bart", bart, CLASSIFY, .warning = NULL),
    BART("mbart", mbart, CLASSIFY, .warning = NULL),
    BART("plbart", plbart, CLASSIFY, .warning = NULL),
    BART("pegasus", pegasus, 0u, .warning = NULL),
    BART("marian", marian, 0u, .warning = NULL),
    BART("m2m_100", m2m_100, 0u,
         .warning = "layers that training drops at random (layerdrop) are all counted"),
    BART("blenderbot", blenderbot, 0u, .warning = NULL),
    BART("blenderbot-small", blenderbot_small, 0u, .warning = NULL),
    ALONE("mvp", mvp),
    ALONE("trocr", trocr),
    ALONE("bigbird_pegasus", bigbird_pegasus),
    {.model_type = "whisper",
     .tasks = 1u << PL_TASK_SEQ2SEQ | 1u << PL_TASK_BASE | CAUSAL,
     .usual = PL_TASK_SEQ2SEQ,
     .build = build_whisper,
     .positions = "max_target_positions",
     .learnt_positions = true,
     .usual_positions = WHISPER_POSITIONS,
     .version = "5.22"},
    {0},
};
