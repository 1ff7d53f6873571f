/* t5: encoder and decoder with relative positions as a learned bias of the attention's scores.
 *
 * Rules: transformers 5.22, models/t5/modeling_t5.py; defaults of configuration_t5.py. Called as
 * model(input_ids, labels), both [batch, seq]: the decoder's input is the labels, shifted. Without
 * padding the encoder's attention gets the bias as it is, the decoder's the bias with what lies
 * ahead masked, once for all samples; both are made in the first block and shared by the others.
 *
 * Left out: the clamps of float16 weights, caches. */
#include <math.h>
#include <string.h>

#include "import/families/seq2seq.h"

/* mT5 is the same with gated layers. */
typedef struct style {
    const char *type; /* "transformers.models.t5.modeling_t5.T5" */
    const char *act;  /* feed_forward_proj, where the file does not say */
    bool scales;      /* the decoder's output, where the file ties the embeddings */
    int64_t vocab, inner, layers, heads;
} style;

static const style
    t5_style = {"transformers.models.t5.modeling_t5.T5", "relu", true, 32128, 2048, 6, 8},
    mt5_style = {
        "transformers.models.mt5.modeling_mt5.MT5", "gated-gelu", false, 250112, 1024, 8, 6};

typedef struct t5 {
    const style *s;
    pl_hf *m;
    pl_builder *b;
    int64_t width, head, heads, inner, buckets, distance;
    double drop, eps;
    const char *act;
    bool gated;
    int32_t bias[2]; /* of self and of cross attention, [1, heads, seq, seq]; PL_NONE: not yet */
    int32_t ahead;   /* decoder: which keys a query may see, [1, 1, seq, seq] bool */
    int32_t memory;  /* decoder: what the encoder gave */
} t5;

static const char *type_of(t5 *o, const char *what) {
    return pl_build_text(o->b, "%s%s", o->s->type, what);
}

/* ---- pieces ---- */

/* RMS norm; the weight's product is in float32 where the weight is. */
static int32_t norm(t5 *o, const char *name, int32_t x) {
    pl_builder *b = o->b;
    pl_module_enter(b, name, type_of(o, "LayerNorm"));
    int32_t w = pl_build_parameter(b, "weight", PL_SIZES(o->width));
    pl_dtype weight = pl_built(b, w)->dtype;
    pl_line(b, "variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)");
    int32_t v = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", pl_aten_to(b, x, PL_DT_F32), 2);
    v = pl_aten_reduce(b, "aten.mean.dim", v, -1, true);
    pl_line(b, "hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)");
    v = pl_aten_scalar(b, "aten.add.Tensor", v, o->eps);
    x = pl_aten_mul(b, x, pl_aten_unary(b, "aten.rsqrt.default", v));
    if (pl_dtype_is_half(weight)) {
        pl_line(b, "hidden_states = hidden_states.to(self.weight.dtype)");
        x = pl_aten_to(b, x, weight);
    }
    pl_line(b, "return self.weight * hidden_states");
    x = pl_aten_mul(b, w, x);
    pl_module_leave(b);
    return x;
}

/* [seq, seq] int64: which bucket the distance from query to key falls into. */
static int32_t bucket_of(t5 *o, bool decoder) {
    pl_builder *b = o->b;
    int64_t seq = o->m->seq, buckets = decoder ? o->buckets : o->buckets / 2, exact = buckets / 2;
    int32_t q = pl_aten_unsqueeze(b, pl_aten_arange(b, seq), 1);
    q = pl_aten_scalar(b, "aten.add.Tensor", q, 0);
    int32_t k = pl_aten_unsqueeze(b, pl_aten_arange(b, seq), 0);
    int32_t far = pl_aten_binary(b, "aten.sub.Tensor", k, q), sum = PL_NONE;
    if (decoder) {
        int32_t zero = pl_aten_unary(b, "aten.zeros_like.default", far);
        far = pl_aten_unary(b, "aten.neg.default", pl_aten_binary(b, "aten.min.other", far, zero));
    } else {
        sum = pl_aten_to(b, pl_aten_scalar(b, "aten.gt.Scalar", far, 0), PL_DT_I64);
        sum = pl_aten_scalar(b, "aten.mul.Tensor", sum, (double)buckets);
        sum = pl_aten_scalar(b, "aten.add.Tensor", sum, 0);
        far = pl_aten_unary(b, "aten.abs.default", far);
    }
    int32_t near = pl_aten_scalar(b, "aten.lt.Scalar", far, (double)exact);
    int32_t large = pl_aten_to(b, far, PL_DT_F32);
    large = pl_aten_scalar(b, "aten.div.Tensor", large, (double)exact);
    large = pl_aten_unary(b, "aten.log.default", large);
    large = pl_aten_scalar(b, "aten.div.Tensor", large, log((double)o->distance / (double)exact));
    large = pl_aten_scalar(b, "aten.mul.Tensor", large, (double)(buckets - exact));
    large = pl_aten_scalar(b, "aten.add.Tensor", pl_aten_to(b, large, PL_DT_I64), (double)exact);
    pl_call(b, "aten.full_like.default");
    pl_call_tensor(b, "self", large);
    pl_call_int(b, "fill_value", buckets - 1);
    int32_t most = pl_call_result_like(b, large);
    large = pl_aten_binary(b, "aten.min.other", large, most);
    far = pl_aten_where(b, near, far, large);
    return sum >= 0 ? pl_aten_binary(b, "aten.add_.Tensor", sum, far)
                    : pl_aten_scalar(b, "aten.add.Tensor", far, 0);
}

/* [1, heads, seq, seq] from the table of buckets, or zeros where the layer has none. */
static int32_t bias_of(t5 *o, bool decoder, bool cross, pl_dtype dtype) {
    pl_builder *b = o->b;
    int64_t seq = o->m->seq;
    if (cross) {
        pl_line(b, "position_bias = torch.zeros(");
        return pl_aten_make(b, "aten.zeros.default", dtype, PL_SIZES(1, o->heads, seq, seq), 0);
    }
    pl_line(b, "position_bias = self.compute_bias(");
    int32_t bucket = bucket_of(o, decoder);
    int32_t x = pl_hf_embedding(o->m, "relative_attention_bias", o->buckets, o->heads, bucket, -1);
    return pl_aten_unsqueeze(b, pl_aten_permute(b, x, PL_SIZES(2, 0, 1)), 0);
}

/* ---- attention ---- */

static int32_t project(t5 *o, const char *name, const char *line, int32_t x) {
    pl_line(o->b, line);
    x = pl_hf_linear(o->m, name, x, o->heads * o->head, false);
    x = pl_aten_view(o->b, x, PL_SIZES(o->m->batch, o->m->seq, -1, o->head));
    return pl_aten_transpose(o->b, x, 1, 2);
}

static int32_t attend(t5 *o, int32_t q, int32_t k, int32_t v, int32_t bias) {
    pl_builder *b = o->b;
    if (o->m->attn != PL_ATTN_EAGER) {
        int32_t x = pl_aten_attention(b, q, k, v, bias, o->drop, false, 1.0, false);
        return pl_aten_contiguous(b, pl_aten_transpose(b, x, 1, 2));
    }
    int32_t scores = pl_aten_matmul(b, q, pl_aten_transpose(b, k, 2, 3));
    scores = pl_aten_scalar(b, "aten.mul.Tensor", scores, 1.0);
    scores = pl_aten_add(b, scores, bias);
    scores = pl_aten_softmax(b, scores, -1, PL_DT_UNKNOWN);
    scores = pl_aten_dropout(b, scores, o->drop);
    return pl_aten_contiguous(b, pl_aten_transpose(b, pl_aten_matmul(b, scores, v), 1, 2));
}

/* x [batch, seq, width]; keys and values of the encoder's output where cross. */
static int32_t attention(t5 *o, int32_t x, bool decoder, bool cross, bool first) {
    pl_builder *b = o->b;
    pl_module_enter(b, cross ? "EncDecAttention" : "SelfAttention", type_of(o, "Attention"));
    pl_module_children(b, "q k v o relative_attention_bias");
    int32_t from = cross ? o->memory : x;
    int32_t q = project(o, "q", "query_states = self.q(hidden_states)", x);
    int32_t k = project(o, "k", "key_states = self.k(current_states)", from);
    int32_t v = project(o, "v", "value_states = self.v(current_states)", from);
    if (first) o->bias[cross] = bias_of(o, decoder, cross, pl_built(b, q)->dtype);
    pl_line(b, "attn_output, attn_weights = attention_interface(");
    int32_t bias = o->bias[cross];
    if (decoder && !cross) { /* what lies ahead, in each block anew */
        pl_call(b, "aten.where.ScalarOther");
        pl_call_tensor(b, "condition", o->ahead);
        pl_call_tensor(b, "self", bias);
        pl_call_float(b, "other", -3.4028234663852886e+38);
        bias = pl_call_result_like(b, bias);
    }
    x = attend(o, q, k, v, bias);
    pl_line(b, "attn_output = attn_output.reshape(*input_shape, -1).contiguous()");
    x = pl_aten_reshape(b, x, PL_SIZES(o->m->batch, o->m->seq, -1));
    pl_line(b, "attn_output = self.o(attn_output)");
    x = pl_hf_linear(o->m, "o", x, o->width, false);
    pl_module_leave(b);
    return x;
}

static int32_t attention_layer(t5 *o, const char *name, int32_t x, bool decoder, bool cross,
                               bool first) {
    pl_builder *b = o->b;
    pl_module_enter(b, name, type_of(o, cross ? "LayerCrossAttention" : "LayerSelfAttention"));
    pl_module_children(b, cross ? "EncDecAttention layer_norm dropout"
                                : "SelfAttention layer_norm dropout");
    int32_t y = attention(o, norm(o, "layer_norm", x), decoder, cross, first);
    pl_line(b, cross ? "layer_output = hidden_states + self.dropout(attention_output[0])"
                     : "hidden_states = hidden_states + self.dropout(attention_output[0])");
    y = pl_hf_dropout(o->m, "dropout", y, o->drop);
    x = pl_aten_add(b, x, y);
    pl_module_leave(b);
    return x;
}

/* ---- the rest of a block ---- */

static int32_t dense(t5 *o, int32_t x) {
    pl_builder *b = o->b;
    pl_module_enter(b, "DenseReluDense",
                    type_of(o, o->gated ? "DenseGatedActDense" : "DenseActDense"));
    pl_module_children(b, "wi wi_0 wi_1 wo dropout act");
    if (o->gated) {
        pl_line(b, "hidden_gelu = self.act(self.wi_0(hidden_states))");
        int32_t gate = pl_hf_linear(o->m, "wi_0", x, o->inner, false);
        gate = pl_hf_activation(o->m, "act", o->act, gate);
        pl_line(b, "hidden_linear = self.wi_1(hidden_states)");
        x = pl_hf_linear(o->m, "wi_1", x, o->inner, false);
        pl_line(b, "hidden_states = hidden_gelu * hidden_linear");
        x = pl_aten_mul(b, gate, x);
    } else {
        pl_line(b, "hidden_states = self.wi(hidden_states)");
        x = pl_hf_linear(o->m, "wi", x, o->inner, false);
        pl_line(b, "hidden_states = self.act(hidden_states)");
        x = pl_hf_activation(o->m, "act", o->act, x);
    }
    pl_line(b, "hidden_states = self.dropout(hidden_states)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_line(b, "hidden_states = self.wo(hidden_states)");
    x = pl_hf_linear(o->m, "wo", x, o->width, false);
    pl_module_leave(b);
    return x;
}

static int32_t block(t5 *o, int64_t index, int32_t x, bool decoder) {
    pl_builder *b = o->b;
    pl_module_enter(b, pl_build_text(b, "block.%lld", (long long)index), type_of(o, "Block"));
    x = attention_layer(o, "layer.0", x, decoder, false, index == 0);
    if (decoder) x = attention_layer(o, "layer.1", x, decoder, true, index == 0);
    pl_module_enter(b, decoder ? "layer.2" : "layer.1", type_of(o, "LayerFF"));
    pl_module_children(b, "DenseReluDense layer_norm dropout");
    int32_t y = dense(o, norm(o, "layer_norm", x));
    pl_line(b, "hidden_states = hidden_states + self.dropout(forwarded_states)");
    y = pl_hf_dropout(o->m, "dropout", y, o->drop);
    x = pl_aten_add(b, x, y);
    pl_module_leave(b);
    pl_module_leave(b);
    return x;
}

/* ---- the model ---- */

static int32_t stack(t5 *o, const char *name, int32_t ids, int32_t table, int64_t layers,
                     bool decoder) {
    pl_builder *b = o->b;
    int64_t seq = o->m->seq;
    pl_module_enter(b, name, type_of(o, "Stack"));
    pl_module_children(b, "embed_tokens block final_layer_norm dropout");
    pl_line(b, "inputs_embeds = self.embed_tokens(input_ids)");
    int32_t x = pl_hf_tied_embedding(o->m, "embed_tokens", table, ids, -1);
    if (decoder) {
        pl_line(b, "attention_mask = create_causal_mask(");
        int32_t q = pl_aten_view(b, pl_aten_arange(b, seq), PL_SIZES(1, 1, seq, 1));
        int32_t k = pl_aten_view(b, pl_aten_arange(b, seq), PL_SIZES(1, 1, 1, seq));
        o->ahead = pl_aten_binary(b, "aten.le.Tensor", k, q);
    }
    pl_line(b, "hidden_states = self.dropout(inputs_embeds)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    for (int64_t i = 0; i < layers && !pl_build_failed(b); i++) x = block(o, i, x, decoder);
    pl_line(b, "hidden_states = self.final_layer_norm(hidden_states)");
    x = norm(o, "final_layer_norm", x);
    pl_line(b, "hidden_states = self.dropout(hidden_states)");
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_module_leave(b);
    return x;
}

static void build(pl_hf *m) {
    const style *s = m->family->plan;
    pl_builder *b = m->b;
    t5 o = {
        .s = s, .m = m, .b = b, .bias = {PL_NONE, PL_NONE}, .ahead = PL_NONE, .memory = PL_NONE};
    const char *act = pl_hf_string(m, "feed_forward_proj", s->act);
    o.width = pl_hf_int(m, "d_model", 512);
    o.head = pl_hf_int(m, "d_kv", 64);
    o.heads = pl_hf_int(m, "num_heads", s->heads);
    o.inner = pl_hf_int(m, "d_ff", s->inner);
    o.buckets = pl_hf_int(m, "relative_attention_num_buckets", 32);
    o.distance = pl_hf_int(m, "relative_attention_max_distance", 128);
    o.drop = pl_hf_float(m, "dropout_rate", 0.1);
    o.eps = pl_hf_float(m, "layer_norm_epsilon", 1e-6);
    o.gated = strncmp(act, "gated-", 6) == 0;
    o.act = strcmp(act, "gated-gelu") == 0 ? "gelu_new" : o.gated ? act + 6 : act;
    int64_t layers = pl_hf_int(m, "num_layers", s->layers),
            decoder_layers = pl_hf_int(m, "num_decoder_layers", layers),
            vocab = pl_hf_int(m, "vocab_size", s->vocab);
    if (o.buckets < 4) pl_hf_refuse(m, "relative_attention_num_buckets", "expected at least 4");
    const struct {
        const char *key;
        int64_t value;
    } least[] = {{"d_model", o.width},
                 {"d_kv", o.head},
                 {"num_heads", o.heads},
                 {"d_ff", o.inner},
                 {"vocab_size", vocab}};
    for (size_t i = 0; i < sizeof least / sizeof *least; i++)
        if (least[i].value < 1) pl_hf_refuse(m, least[i].key, "expected at least 1");
    if (layers > PL_HF_MAX_LAYERS || decoder_layers > PL_HF_MAX_LAYERS)
        pl_hf_refuse(m, layers > PL_HF_MAX_LAYERS ? "num_layers" : "num_decoder_layers",
                     "at most %d can be built", PL_HF_MAX_LAYERS);
    if (pl_build_failed(b)) return;
    /* Always tied, whatever the file says: what it says decides whether the output is scaled. */
    bool head = m->task != PL_TASK_BASE,
         scaled = s->scales && pl_hf_bool(m, "scale_decoder_outputs",
                                          pl_hf_bool(m, "tie_word_embeddings", true));
    pl_module_enter(b, "", type_of(&o, head ? "ForConditionalGeneration" : "Model"));
    pl_module_children(b, "shared encoder decoder lm_head");
    int32_t table = pl_build_parameter(b, "shared.weight", PL_SIZES(vocab, o.width));
    int32_t ids = pl_hf_input_ids(m);
    int32_t labels = pl_build_input(b, head ? "labels" : "decoder_input_ids", PL_DT_I64,
                                    PL_SIZES(m->batch, m->seq));
    o.memory = stack(&o, "encoder", ids, table, layers, false);
    int32_t shifted = labels;
    if (head) {
        pl_line(b, "decoder_input_ids = self._shift_right(labels)");
        shifted = pl_hf_shift_right(m, labels);
    }
    int32_t x = stack(&o, "decoder", shifted, table, decoder_layers, true);
    if (!head) {
        pl_build_output(b, x);
        return;
    }
    if (scaled) {
        pl_line(b, "sequence_output = sequence_output * (self.model_dim**-0.5)");
        x = pl_aten_scalar(b, "aten.mul.Tensor", x, 1 / sqrt((double)o.width));
    }
    pl_line(b, "lm_logits = self.lm_head(sequence_output)");
    x = pl_hf_tied_linear(m, "lm_head", x, table, vocab, false);
    pl_hf_seq2seq_loss(m, x, labels);
}

const pl_hf_family pl_hf_t5[] = {
    {.model_type = "t5",
     .tasks = 1u << PL_TASK_SEQ2SEQ | 1u << PL_TASK_BASE,
     .usual = PL_TASK_SEQ2SEQ,
     .build = build,
     .plan = &t5_style,
     .version = "5.22",
     .no_attention = 1u << PL_ATTN_FLASH2},
    {.model_type = "mt5",
     .tasks = 1u << PL_TASK_SEQ2SEQ | 1u << PL_TASK_BASE,
     .usual = PL_TASK_SEQ2SEQ,
     .build = build,
     .plan = &mt5_style,
     .version = "5.22",
     .no_attention = 1u << PL_ATTN_FLASH2},
    {0},
};
