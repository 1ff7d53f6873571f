/* decoder: see decoder.h.
 *
 * Rules: transformers 5.22, models/llama and those derived from it (modular_*.py says what each
 * changes), masking_utils.py, integrations/sdpa_attention.py. Lines name values as the code does,
 * since names keep tensors alive.
 *
 * Left out: caches of keys and values (training has none), packed sequences, tensor parallelism. */
#include "import/families/decoder.h"

#include "import/families/experts.h"
#include "import/families/latent.h"
#include "import/families/llama4.h"

#include <math.h>
#include <string.h>

const char *pl_decoder_type(pl_decoding *d, const char *what) {
    return pl_build_text(d->m->b, "transformers.models.%s.modeling_%s.%s%s", d->plan->package,
                         d->plan->package, d->plan->prefix, what);
}

/* ---- what the config says ---- */

static bool has_bias(pl_hf *m, const char *key) {
    return key && (!*key || pl_hf_bool(m, key, false));
}

/* A layer to an element of the list, or to a letter. */
static int64_t listed_layers(pl_hf *m) {
    int64_t count = pl_hf_list(m, "layers_block_type|layer_types");
    if (count < 1) count = (int64_t)strlen(pl_hf_string(m, "hybrid_override_pattern", ""));
    if (count > PL_HF_MAX_LAYERS)
        pl_hf_refuse(m, "layers_block_type|layer_types", "at most %d can be built",
                     PL_HF_MAX_LAYERS);
    return count > 0 ? count : pl_hf_layers(m, "num_hidden_layers");
}

void pl_decoder_read(pl_decoding *d, pl_hf *m, const pl_decoder *plan) {
    *d = (pl_decoding){.m = m, .plan = plan, .position_ids = PL_NONE};
    d->width = pl_hf_need(m, "hidden_size");
    d->layers = plan->listed ? listed_layers(m) : pl_hf_layers(m, "num_hidden_layers");
    d->heads = pl_hf_need(m, "num_attention_heads");
    d->kv_heads = pl_hf_int(m, "num_key_value_heads", d->heads);
    d->head_dim = d->width / d->heads;
    if (!plan->no_head_dim) d->head_dim = pl_hf_int(m, "head_dim", d->head_dim);
    bool own = plan->mixture && plan->mixture->inner; /* the experts' size has a key of its own */
    d->inner = pl_hf_list(m, "intermediate_size") > 0 ? pl_hf_list_int(m, "intermediate_size", 0, 1)
               : own || plan->inner_of                ? pl_hf_int(m, "intermediate_size", 1)
                                                      : pl_hf_need(m, "intermediate_size");
    if (plan->inner_of) d->inner = plan->inner_of(m, d->inner);
    if (d->kv_heads < 1 || d->heads % d->kv_heads != 0)
        pl_hf_refuse(m, "num_key_value_heads", "%lld does not divide num_attention_heads, %lld",
                     (long long)d->kv_heads, (long long)d->heads);
    if (d->head_dim < 2 || d->head_dim % 2 != 0)
        pl_hf_refuse(m, pl_hf_has(m, "head_dim") ? "head_dim" : "num_attention_heads",
                     "heads of %lld: expected an even number", (long long)d->head_dim);
    if (pl_build_failed(m->b)) d->kv_heads = d->heads = 1, d->head_dim = 2;
    d->rotary_dim = d->head_dim;
    if (plan->rotary_share > 0) {
        double share = pl_hf_float(m, "rope_parameters.partial_rotary_factor|partial_rotary_factor",
                                   plan->rotary_share);
        if (!(share > 0 && share <= 1))
            pl_hf_refuse(m, "rope_parameters.partial_rotary_factor|partial_rotary_factor",
                         "expected a number above 0 and up to 1");
        else
            d->rotary_dim = (int64_t)((double)d->head_dim * share) / 2 * 2;
    }
    d->eps = plan->eps ? pl_hf_float(m, plan->eps, 1e-6) : 1e-5;
    d->attention_dropout = pl_hf_float(m, "attention_dropout", 0);
    d->residual_dropout = pl_hf_float(m, "resid_pdrop|residual_dropout|hidden_dropout", 0);
    d->act = pl_hf_string(m, "hidden_act|hidden_activation", "silu");
    /* Gemma's first configs say gelu and mean its tanh form; the later key counts. */
    if (plan->norm == PL_NORM_RMS_ONE || plan->norm == PL_NORM_POW)
        d->act = pl_hf_string(m, "hidden_activation", "gelu_pytorch_tanh");
    d->qkv_bias = has_bias(m, plan->qkv_bias);
    d->out_bias = has_bias(m, plan->out_bias);
    d->mlp_bias = has_bias(m, plan->mlp_bias);
    d->parallel =
        plan->wiring == PL_WIRING_PARALLEL || pl_hf_bool(m, "use_parallel_residual", false);
    double per_head = pl_hf_float(m, "query_pre_attn_scalar", (double)d->head_dim);
    d->scale = per_head > 0 ? 1 / sqrt(per_head) : 1;
    if (plan->multipliers)
        d->scale = pl_hf_float(m, "attention_multiplier", plan->logits_times ? d->scale : 1);
    d->multiplier = plan->multipliers ? pl_hf_float(m, "residual_multiplier", 1) : 1;
    d->cap = plan->caps ? pl_hf_float(m, "attn_logit_softcapping", 0) : 0;
    const char *window =
        plan->window == PL_WINDOW_CHUNKS ? "attention_chunk_size" : "sliding_window";
    d->window = plan->window == PL_WINDOW_NONE ? 0 : pl_hf_int(m, window, 0);
    if (plan->window == PL_WINDOW_LAST && !pl_hf_bool(m, "use_sliding_window", false))
        d->window = 0;
    d->attention_type = pl_decoder_type(d, "Attention");
    d->mlp_type = pl_decoder_type(d, "MLP");
    d->layer_type = pl_decoder_type(d, "DecoderLayer");
    d->norm_type =
        pl_decoder_type(d, plan->norm == PL_NORM_BARE || plan->norm == PL_NORM_MEAN ? "LayerNorm"
                           : plan->norm == PL_NORM_LAYER_ONE                        ? "LayerNorm1P"
                                                                                    : "RMSNorm");
    d->wiring =
        plan->post_norm && !pl_hf_bool(m, plan->post_norm, true) ? PL_WIRING_PRE : plan->wiring;
    d->qk = plan->qk_key && !pl_hf_bool(m, plan->qk_key, false) ? PL_QK_NONE : plan->qk;
    d->head_bias = has_bias(m, plan->head_bias);
    d->dense_inner = d->inner;
    if (plan->latent) pl_latent_read(d);
    if (plan->mlp == PL_MLP_EXPERTS) pl_decoder_read_experts(d);
    for (int i = 0; i < 2; i++) d->ids = d->mask[i] = d->cos[i] = d->sin[i] = PL_NONE;
}

bool pl_decoder_slides(pl_decoding *d, int64_t layer) {
    pl_hf *m = d->m;
    if (d->window < 1 || (d->plan->last_full && layer + 1 == d->layers)) return false;
    if (layer < pl_hf_list(m, "layer_types"))
        return strcmp(pl_hf_list_string(m, "layer_types", layer, ""),
                      d->plan->window == PL_WINDOW_CHUNKS ? "chunked_attention"
                                                          : "sliding_attention") == 0;
    switch (d->plan->window) {
    case PL_WINDOW_ALL: return true;
    case PL_WINDOW_LAST:
    case PL_WINDOW_FROM: return layer >= pl_hf_int(m, "max_window_layers", 28);
    case PL_WINDOW_CHUNKS: return pl_llama4_turns(d, layer);
    case PL_WINDOW_ALTERNATE: return layer % 2 == 0;
    case PL_WINDOW_PATTERN: {
        int64_t usual = d->plan->pattern ? d->plan->pattern : 6;
        int64_t every = pl_hf_int(m, "sliding_window_pattern|_sliding_window_pattern", usual);
        return every < 1 || (layer + 1) % every != 0;
    }
    case PL_WINDOW_FIRST: return layer % d->plan->pattern != 0;
    default: return false;
    }
}

/* ---- norms ---- */

#define MUL "aten.mul.Tensor"

/* x * rsqrt(mean(x^2) + eps), x float32 */
static int32_t root_mean_square(pl_builder *b, int32_t x, double eps, bool lines) {
    if (lines) pl_line(b, "variance = hidden_states.pow(2).mean(-1, keepdim=True)");
    int32_t square = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", x, 2);
    int32_t variance = pl_aten_reduce(b, "aten.mean.dim", square, -1, true);
    if (lines) pl_line(b, "hidden_states = hidden_states * torch.rsqrt(variance + eps)");
    int32_t root =
        pl_aten_unary(b, "aten.rsqrt.default", pl_aten_scalar(b, "aten.add.Tensor", variance, eps));
    return pl_aten_mul(b, x, root);
}

static int32_t norm_rms(pl_decoding *d, int32_t x, int32_t weight) {
    pl_builder *b = d->m->b;
    pl_dtype type = pl_built(b, x)->dtype;
    pl_line(b, "hidden_states = hidden_states.to(torch.float32)");
    int32_t y = root_mean_square(b, pl_aten_to(b, x, PL_DT_F32), d->eps, true);
    if (d->plan->norm == PL_NORM_RMS_WIDE) weight = pl_aten_to(b, weight, PL_DT_F32);
    if (d->plan->norm != PL_NORM_RMS) {
        pl_line(b, "return (self.weight * hidden_states).to(input_dtype)");
        return pl_aten_to(b, pl_aten_mul(b, weight, y), type);
    }
    pl_line(b, "return self.weight * hidden_states.to(input_dtype)");
    return pl_aten_mul(b, weight, pl_aten_to(b, y, type));
}

static int32_t norm_one(pl_decoding *d, int32_t x, int32_t weight) {
    pl_builder *b = d->m->b;
    pl_line(b, "1: output = self._norm(x.float())");
    int32_t y = root_mean_square(b, pl_aten_to(b, x, PL_DT_F32), d->eps, false);
    pl_line(b, "2: output = output * (1.0 + self.weight.float())");
    int32_t w = pl_aten_scalar(b, "aten.add.Tensor", pl_aten_to(b, weight, PL_DT_F32), 1.0);
    y = pl_aten_mul(b, y, w);
    pl_line(b, "return output.type_as(x)");
    return pl_aten_type_as(b, y, x);
}

static int32_t norm_pow(pl_decoding *d, int32_t x, int32_t weight) {
    pl_builder *b = d->m->b;
    pl_line(b, "1: normed_output = self._norm(hidden_states.float())");
    int32_t y = pl_aten_to(b, x, PL_DT_F32);
    int32_t square = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", y, 2);
    square = pl_aten_reduce(b, "aten.mean.dim", square, -1, true);
    square = pl_aten_scalar(b, "aten.add.Tensor", square, d->eps);
    y = pl_aten_mul(b, y, pl_aten_scalar(b, "aten.pow.Tensor_Scalar", square, -0.5));
    if (weight != PL_NONE) {
        pl_line(b, "2: normed_output = normed_output * self.weight.float()");
        y = pl_aten_mul(b, y, pl_aten_to(b, weight, PL_DT_F32));
    }
    pl_line(b, "return normed_output.type_as(hidden_states)");
    return pl_aten_type_as(b, y, x);
}

static int32_t norm_rms_bare(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    pl_line(b, "return self._norm(x.float()).type_as(x)");
    int32_t y = root_mean_square(b, pl_aten_to(b, x, PL_DT_F32), d->eps, false);
    return pl_aten_type_as(b, y, x);
}

static int32_t cast_if_autocast(pl_builder *b, int32_t x) {
    pl_call(b, "transformers.cast_if_autocast.default");
    pl_call_tensor(b, "self", x);
    return pl_call_result_like(b, x);
}

static int32_t norm_layer_one(pl_decoding *d, int32_t x, int32_t weight) {
    pl_builder *b = d->m->b;
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(pl_built_size(b, x, -1)));
    pl_line(b, "args = _cast_if_autocast_enabled(");
    weight = pl_aten_scalar(b, "aten.add.Tensor", weight, 1.0);
    x = cast_if_autocast(b, x);
    weight = cast_if_autocast(b, weight);
    bias = cast_if_autocast(b, bias);
    pl_autocast region = pl_build_autocast(b, PL_AUTOCAST_OFF);
    pl_line(b, "return F.layer_norm(*args)");
    x = pl_aten_layer_norm(b, x, 1, weight, bias, d->eps);
    pl_build_autocast(b, region);
    return x;
}

static int32_t norm_bare(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    pl_dtype type = pl_built(b, x)->dtype;
    pl_line(b, "1: return hidden_states.to(dtype=torch.float32)");
    int32_t y = pl_aten_to(b, x, PL_DT_F32);
    y = pl_aten_layer_norm(b, y, 1, PL_NONE, PL_NONE, d->eps);
    pl_line(b, "2: return layer_norm.to(orig_dtype)");
    return pl_aten_to(b, y, type);
}

static int32_t norm_mean(pl_decoding *d, int32_t x, int32_t weight) {
    pl_builder *b = d->m->b;
    pl_dtype type = pl_built(b, x)->dtype;
    pl_line(b, "1: hidden_states = hidden_states.to(torch.float32)");
    int32_t y = pl_aten_to(b, x, PL_DT_F32);
    pl_line(b, "mean = hidden_states.mean(-1, keepdim=True)");
    int32_t mean = pl_aten_reduce(b, "aten.mean.dim", y, -1, true);
    pl_line(b, "variance = (hidden_states - mean).pow(2).mean(-1, keepdim=True)");
    int32_t centred = pl_aten_binary(b, "aten.sub.Tensor", y, mean);
    int32_t square = pl_aten_scalar(b, "aten.pow.Tensor_Scalar", centred, 2);
    int32_t variance = pl_aten_reduce(b, "aten.mean.dim", square, -1, true);
    pl_line(b, "2: hidden_states = (hidden_states - mean) * torch.rsqrt(variance + eps)");
    centred = pl_aten_binary(b, "aten.sub.Tensor", y, mean);
    int32_t root = pl_aten_unary(b, "aten.rsqrt.default",
                                 pl_aten_scalar(b, "aten.add.Tensor", variance, d->eps));
    y = pl_aten_mul(b, centred, root);
    pl_line(b, "3: hidden_states = self.weight.to(torch.float32) * hidden_states");
    y = pl_aten_mul(b, pl_aten_to(b, weight, PL_DT_F32), y);
    pl_line(b, "return hidden_states.to(input_dtype)");
    return pl_aten_to(b, y, type);
}

int32_t pl_decoder_norm(pl_decoding *d, const char *name, int32_t x) {
    return pl_decoder_norm_as(d, d->plan->norm, name, x);
}

int32_t pl_decoder_norm_as(pl_decoding *d, pl_norm_kind kind, const char *name, int32_t x) {
    pl_builder *b = d->m->b;
    const char *bias = d->plan->norm_bias;
    if (kind == PL_NORM_LAYER)
        return pl_hf_layer_norm(d->m, name, x, d->eps, !bias || pl_hf_bool(d->m, bias, false));
    pl_module_enter(b, name, d->norm_type);
    int32_t y, weight = PL_NONE;
    if (kind != PL_NORM_BARE && kind != PL_NORM_RMS_BARE && kind != PL_NORM_POW_BARE)
        weight = pl_build_parameter(b, "weight", PL_SIZES(pl_built_size(b, x, -1)));
    switch (kind) {
    case PL_NORM_POW:
    case PL_NORM_POW_BARE: y = norm_pow(d, x, weight); break;
    case PL_NORM_RMS_ONE: y = norm_one(d, x, weight); break;
    case PL_NORM_RMS_BARE: y = norm_rms_bare(d, x); break;
    case PL_NORM_LAYER_ONE: y = norm_layer_one(d, x, weight); break;
    case PL_NORM_BARE: y = norm_bare(d, x); break;
    case PL_NORM_MEAN: y = norm_mean(d, x, weight); break;
    default: y = norm_rms(d, x, weight);
    }
    pl_module_leave(b);
    return y;
}

/* ---- masks ---- */

static int32_t positions(pl_builder *b, int64_t count, int row, int column) {
    int32_t p = pl_aten_scalar(b, "aten.add.Tensor", pl_aten_arange(b, count), 0);
    p = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, p, 0), row);
    return pl_aten_unsqueeze(b, p, column);
}

int32_t pl_decoder_mask(pl_decoding *d, bool sliding) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t seq = m->seq;
    if (m->attn == PL_ATTN_FLASH2) return PL_NONE;
    bool needed = sliding && seq >= d->window;
    if (m->attn == PL_ATTN_SDPA && !needed && !d->plan->always_masked) return PL_NONE;
    pl_line(b, sliding ? "sliding_mask = create_sliding_window_causal_mask("
                       : "causal_mask = create_causal_mask(");
    int32_t q = positions(b, seq, 1, 3), kv = positions(b, seq, 1, 2); /* [1,1,S,1] [1,1,1,S] */
    int32_t mask = PL_NONE;
    if (sliding) {
        int32_t all = pl_aten_make(b, "aten.ones.default", PL_DT_BOOL, 0, NULL, 1);
        int32_t from = pl_aten_scalar(b, "aten.sub.Tensor", q, (double)d->window);
        mask = pl_aten_binary(b, "aten.__and__.Tensor", all,
                              pl_aten_binary(b, "aten.gt.Tensor", kv, from));
    }
    int32_t causal = pl_aten_binary(b, "aten.le.Tensor", kv, q);
    mask = sliding ? pl_aten_binary(b, "aten.__and__.Tensor", mask, causal) : causal;
    mask = pl_aten_expand(b, mask, PL_SIZES(m->batch, -1, seq, seq));
    if (m->attn == PL_ATTN_EAGER) {
        int32_t zero = pl_aten_make(b, "aten.zeros.default", m->dtype, 0, NULL, 0);
        int32_t least = pl_aten_make(b, "aten.full.default", m->dtype, 0, NULL, -3e38);
        mask = pl_aten_where(b, mask, pl_aten_type_as(b, zero, d->embeds),
                             pl_aten_type_as(b, least, d->embeds));
    }
    return mask;
}

/* ---- attention ---- */

static int32_t attend_eager(pl_decoding *d, int32_t q, int32_t k, int32_t v, int32_t mask) {
    pl_builder *b = d->m->b;
    k = pl_hf_repeat_heads(d->m, k, d->heads);
    v = pl_hf_repeat_heads(d->m, v, d->heads);
    int32_t w = pl_aten_matmul(b, q, pl_aten_transpose(b, k, 2, 3));
    w = pl_aten_scalar(b, MUL, w, d->scale);
    if (d->cap > 0) {
        w = pl_aten_scalar(b, "aten.div.Tensor", w, d->cap);
        w = pl_aten_unary(b, "aten.tanh.default", w);
        w = pl_aten_scalar(b, MUL, w, d->cap);
    }
    if (mask != PL_NONE) w = pl_aten_add(b, w, mask);
    w = pl_aten_type_as(b, pl_aten_softmax(b, w, -1, PL_DT_F32), q);
    w = pl_aten_dropout(b, w, d->attention_dropout);
    return pl_aten_matmul(b, w, v);
}

int32_t pl_decoder_attend(pl_decoding *d, int32_t q, int32_t k, int32_t v, bool sliding) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t mask = d->mask[sliding], y;
    if (m->attn == PL_ATTN_EAGER || (d->plan->eager_only && m->attn == PL_ATTN_SDPA)) {
        pl_line(b, "attn_output, attn_weights = eager_attention_forward(");
        y = attend_eager(d, q, k, v, mask);
    } else {
        pl_line(b, "attn_output, attn_weights = attention_interface(");
        bool grouped = d->heads != d->kv_heads && mask == PL_NONE && d->head_dim <= 256;
        if (!grouped) {
            k = pl_hf_repeat_heads(d->m, k, d->heads);
            v = pl_hf_repeat_heads(d->m, v, d->heads);
        }
        y = pl_aten_attention(b, q, k, v, mask, d->attention_dropout, mask == PL_NONE && m->seq > 1,
                              d->scale, grouped);
    }
    return pl_aten_contiguous(b, pl_aten_transpose(b, y, 1, 2));
}

/* [B,S,heads D] to [B,S,heads,D] */
static int32_t heads_of(pl_decoding *d, int32_t x) {
    return pl_aten_view(d->m->b, x, PL_SIZES(d->m->batch, d->m->seq, -1, d->head_dim));
}

static int32_t turned(pl_decoding *d, int32_t x) {
    return pl_aten_transpose(d->m->b, x, 1, 2);
}

/* One matrix for all three: the parts are views of its result. */
static void split_qkv(pl_decoding *d, int32_t x, int32_t *q, int32_t *k, int32_t *v) {
    pl_builder *b = d->m->b;
    int64_t wide = d->heads * d->head_dim, narrow = d->kv_heads * d->head_dim;
    pl_line(b, "qkv = self.qkv_proj(hidden_states)");
    int32_t qkv = pl_hf_linear(d->m, "qkv_proj", x, wide + 2 * narrow, d->qkv_bias);
    pl_line(b, "1: query_states = qkv");
    *q = pl_aten_slice(b, qkv, 2, 0, wide);
    pl_line(b, "1: key_states = qkv");
    *k = pl_aten_slice(b, qkv, 2, wide, wide + narrow);
    pl_line(b, "1: value_states = qkv");
    *v = pl_aten_slice(b, qkv, 2, wide + narrow, INT64_MAX);
}

static void norm_qk(pl_decoding *d, int32_t *q, int32_t *k) {
    const char *const *names = d->plan->qk_names;
    pl_line(d->m->b, "query_states = self.q_norm(query_states)");
    *q = pl_decoder_norm(d, names[0] ? names[0] : "q_norm", *q);
    pl_line(d->m->b, "key_states = self.k_norm(key_states)");
    *k = pl_decoder_norm(d, names[1] ? names[1] : "k_norm", *k);
}

/* Queries [B,S,heads,D], and d->gate as wide as all heads. */
static int32_t gated_query(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t parts[2];
    pl_line(b, "query_states, gate = torch.chunk(self.q_proj(hidden_states).view(), 2, dim=-1)");
    int32_t both = pl_hf_linear(m, "q_proj", x, 2 * d->heads * d->head_dim, d->qkv_bias);
    both = pl_aten_view(b, both, PL_SIZES(m->batch, m->seq, -1, 2 * d->head_dim));
    pl_aten_chunk(b, both, 2, -1, parts);
    pl_line(b, "gate = gate.reshape(*input_shape, -1)");
    d->gate = pl_aten_reshape(b, parts[1], PL_SIZES(m->batch, m->seq, -1));
    pl_line(b, "2: query_states = self.q_norm(query_states.view(hidden_shape)).transpose(1, 2)");
    return parts[0];
}

/* Lines are numbered where a name is assigned more than once. */
static void project(pl_decoding *d, int32_t x, int32_t *q, int32_t *k, int32_t *v) {
    pl_builder *b = d->m->b;
    pl_hf *m = d->m;
    int64_t wide = d->heads * d->head_dim, narrow = d->kv_heads * d->head_dim;
    pl_qk_norm qk = d->qk;
    if (d->plan->fused_qkv) {
        split_qkv(d, x, q, k, v);
        pl_line(b, "2: query_states = query_states.view(hidden_shape).transpose(1, 2)");
        *q = turned(d, heads_of(d, *q));
        pl_line(b, "2: key_states = key_states.view(hidden_shape).transpose(1, 2)");
        *k = turned(d, heads_of(d, *k));
        pl_line(b, "2: value_states = value_states.view(hidden_shape).transpose(1, 2)");
        *v = turned(d, heads_of(d, *v));
        return;
    }
    pl_line(b, "1: query_states = self.q_proj(hidden_states)");
    if (d->plan->query_gate)
        *q = gated_query(d, x);
    else
        *q = pl_hf_linear(m, "q_proj", x, wide, d->qkv_bias);
    if (qk == PL_QK_WHOLE) *q = pl_decoder_norm(d, "q_norm", *q);
    if (qk != PL_QK_WHOLE) *q = heads_of(d, *q);
    if (qk == PL_QK_VIEW) *q = pl_decoder_norm(d, "q_norm", *q);
    if (qk != PL_QK_WHOLE) *q = turned(d, *q);
    pl_line(b, "1: key_states = self.k_proj(hidden_states)");
    *k = pl_hf_linear(m, "k_proj", x, narrow, d->qkv_bias);
    if (qk == PL_QK_WHOLE) *k = pl_decoder_norm(d, "k_norm", *k);
    if (qk != PL_QK_WHOLE) *k = heads_of(d, *k);
    if (qk == PL_QK_VIEW) *k = pl_decoder_norm(d, "k_norm", *k);
    if (qk != PL_QK_WHOLE) *k = turned(d, *k);
    if (d->plan->key_times) *k = pl_aten_scalar(b, MUL, *k, 1);
    pl_line(b, "1: value_states = self.v_proj(hidden_states)");
    *v = pl_hf_linear(m, "v_proj", x, narrow, d->qkv_bias);
    if (qk != PL_QK_WHOLE) {
        *v = turned(d, heads_of(d, *v));
    } else {
        pl_line(b, "2: query_states = query_states.view(hidden_shape).transpose(1, 2)");
        *q = turned(d, heads_of(d, *q));
        pl_line(b, "2: key_states = key_states.view(hidden_shape).transpose(1, 2)");
        *k = turned(d, heads_of(d, *k));
        pl_line(b, "2: value_states = value_states.view(hidden_shape).transpose(1, 2)");
        *v = turned(d, heads_of(d, *v));
    }
    if (qk == PL_QK_HEADS) norm_qk(d, q, k);
}

/* times 1 + beta log(1 + floor(position / original length)), [1,1,S,1] */
static int32_t scaled_by_position(pl_decoding *d, int32_t q) {
    pl_builder *b = d->m->b;
    pl_line(b, "query_states = query_states * get_llama_4_attn_scale(");
    int32_t p = pl_aten_scalar(b, "aten.div.Tensor", d->position_ids, 16384.0);
    p = pl_aten_unary(b, "aten.floor.default", p);
    p = pl_aten_scalar(b, "aten.add.Tensor", p, 1);
    p = pl_aten_scalar(b, MUL, pl_aten_unary(b, "aten.log.default", p), 0.1);
    p = pl_aten_scalar(b, "aten.add.Tensor", p, 1);
    p = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, p, 1), 3);
    return pl_aten_mul(b, q, pl_aten_type_as(b, p, q));
}

int32_t pl_decoder_attention(pl_decoding *d, int64_t layer, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    bool sliding = pl_decoder_slides(d, layer);
    int32_t q, k, v;
    d->input = x;
    pl_module_enter(b, "self_attn", d->attention_type);
    pl_module_children(b, d->plan->fused_qkv ? "o_proj qkv_proj"
                                             : "q_proj k_proj v_proj o_proj q_norm k_norm");
    if (d->plan->latent)
        pl_latent_project(d, x, &q, &k, &v); /* which turns them too */
    else
        project(d, x, &q, &k, &v);
    if (!d->plan->latent && pl_decoder_turns(d, layer)) pl_decoder_turn(d, &q, &k, v, sliding);
    if (d->qk == PL_QK_AFTER) norm_qk(d, &q, &k);
    if (d->plan->query_scale) q = scaled_by_position(d, q);
    int32_t masks[2] = {d->mask[0], d->mask[1]};
    if (d->plan->latent) pl_latent_choose(d, layer, x);
    int32_t y = d->plan->attend ? d->plan->attend(d, layer, q, k, v, sliding)
                                : pl_decoder_attend(d, q, k, v, sliding);
    for (int i = 0; i < 2; i++) d->mask[i] = masks[i];
    pl_line(b, "2: attn_output = attn_output.reshape(*input_shape, -1).contiguous()");
    y = pl_aten_reshape(b, y, PL_SIZES(m->batch, m->seq, -1));
    if (d->plan->query_gate) {
        pl_line(b, "3: attn_output = attn_output * torch.sigmoid(gate)");
        y = pl_aten_mul(b, y, pl_aten_unary(b, "aten.sigmoid.default", d->gate));
    }
    if (d->plan->inner_norms[0]) {
        pl_line(b, "3: attn_output = self.attn_sub_norm(attn_output)");
        y = pl_decoder_norm(d, d->plan->inner_norms[0], y);
    }
    pl_line(b, "4: attn_output = self.o_proj(attn_output)");
    y = pl_hf_linear(m, "o_proj", y, d->width, d->out_bias);
    if (d->plan->mlp_dropouts) {
        pl_line(b, "5: attn_output = dropout(attn_output)");
        y = pl_aten_dropout(b, y, d->residual_dropout);
    }
    pl_module_leave(b);
    return y;
}

/* ---- feed-forward ---- */

int32_t pl_decoder_gated(pl_decoding *d, int32_t x, int64_t inner) {
    pl_hf *m = d->m;
    pl_line(m->b, "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))");
    int32_t gate = pl_hf_linear(m, "gate_proj", x, inner, d->mlp_bias);
    gate = pl_hf_activation(m, "act_fn", d->act, gate);
    int32_t up = pl_hf_linear(m, "up_proj", x, inner, d->mlp_bias);
    int32_t y = pl_aten_mul(m->b, gate, up);
    if (d->plan->inner_norms[1]) y = pl_decoder_norm(d, d->plan->inner_norms[1], y);
    y = pl_hf_linear(m, "down_proj", y, d->width, d->mlp_bias);
    if (!d->plan->mlp_dropouts) return y;
    pl_line(m->b, "2: down_proj = dropout(down_proj)");
    return pl_aten_dropout(m->b, y, d->residual_dropout);
}

static int32_t mlp_fused(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    int32_t parts[2];
    pl_line(m->b, "1: up_states = self.gate_up_proj(hidden_states)");
    int32_t both = pl_hf_linear(m, "gate_up_proj", x, 2 * d->inner, false);
    pl_line(m->b, "gate, up_states = up_states.chunk(2, dim=-1)");
    pl_aten_chunk(m->b, both, 2, -1, parts);
    pl_line(m->b, "2: up_states = up_states * self.activation_fn(gate)");
    int32_t gate = pl_hf_activation(m, "activation_fn", d->act, parts[0]);
    int32_t up = pl_aten_mul(m->b, parts[1], gate);
    pl_line(m->b, "return self.down_proj(up_states)");
    return pl_hf_linear(m, "down_proj", up, d->width, false);
}

int32_t pl_decoder_plain(pl_decoding *d, int32_t x, int64_t inner) {
    pl_hf *m = d->m;
    static const char *const usual[3] = {"up_proj", "act_fn", "down_proj"};
    const char *const *names = d->plan->plain[0] ? d->plan->plain : usual;
    bool one_line = names == usual;
    pl_line(m->b, one_line ? "return self.down_proj(self.act_fn(self.up_proj(x)))"
                           : "1: hidden_states = self.c_fc(hidden_states)");
    x = pl_hf_linear(m, names[0], x, inner, d->mlp_bias);
    x = pl_hf_activation(m, names[1], d->act, x);
    if (!one_line) pl_line(m->b, "2: hidden_states = self.c_proj(hidden_states)");
    x = pl_hf_linear(m, names[2], x, d->width, d->mlp_bias);
    if (!d->plan->mlp_dropouts) return x;
    pl_line(m->b, "3: hidden_states = dropout(hidden_states)");
    return pl_aten_dropout(m->b, x, d->residual_dropout);
}

int32_t pl_decoder_feed_forward(pl_decoding *d, int64_t layer, int32_t x) {
    pl_builder *b = d->m->b;
    if (d->plan->mlp == PL_MLP_EXPERTS && pl_decoder_has_experts(d, layer))
        return pl_decoder_experts(d, x);
    pl_module_enter(b, "mlp", d->mlp_type);
    int32_t y = d->plan->mlp == PL_MLP_FUSED   ? mlp_fused(d, x)
                : d->plan->mlp == PL_MLP_PLAIN ? pl_decoder_plain(d, x, d->inner)
                                               : pl_decoder_gated(d, x, d->dense_inner);
    pl_module_leave(b);
    return y;
}

/* ---- layers ---- */

static int32_t scaled(pl_decoding *d, int32_t x) {
    bool times = d->plan->multipliers || d->plan->residual_times;
    return times ? pl_aten_scalar(d->m->b, MUL, x, d->multiplier) : x;
}

/* What goes past a block. */
static int32_t past(pl_decoding *d, const char *weight, int32_t x) {
    if (!d->plan->residual_weights) return x;
    return pl_aten_mul(d->m->b, pl_build_parameter(d->m->b, weight, PL_SIZES(d->width)), x);
}

/* Of the norms before and after attention, before and after the feed-forward layer; NULL: none. */
static void name_norms(const pl_decoding *d, const char **names) {
    static const char *const usual[][4] = {
        [PL_WIRING_PRE] = {"input_layernorm", NULL, "post_attention_layernorm", NULL},
        [PL_WIRING_POST] = {NULL, "post_attention_layernorm", NULL, "post_feedforward_layernorm"},
        [PL_WIRING_SANDWICH] = {"input_layernorm", "post_attention_layernorm",
                                "pre_feedforward_layernorm", "post_feedforward_layernorm"},
        [PL_WIRING_PARALLEL] = {"input_layernorm"},
    };
    for (int i = 0; i < 4; i++)
        names[i] = !usual[d->wiring][i] ? NULL
                   : d->plan->norms[i]  ? d->plan->norms[i]
                                        : usual[d->wiring][i];
}

/* Whether something else stands in attention's place. */
static bool is_mixed(pl_decoding *d, int64_t index) {
    pl_hf *m = d->m;
    if (!d->plan->mix) return false;
    if (d->plan->mixes) return d->plan->mixes(d, index);
    if (index < pl_hf_list(m, "layer_types"))
        return strcmp(pl_hf_list_string(m, "layer_types", index, ""), "linear_attention") == 0;
    int64_t every = pl_hf_int(m, "full_attention_interval", 4);
    return every < 1 || (index + 1) % every != 0;
}

int32_t pl_decoder_layer(pl_decoding *d, int64_t index, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    const char *names[4];
    if (d->plan->layer) return d->plan->layer(d, index, x);
    bool mixed = is_mixed(d, index);
    pl_wiring wiring = d->wiring;
    if (mixed && d->plan->mixed_pre) d->wiring = PL_WIRING_PRE;
    name_norms(d, names);
    d->wiring = wiring;
    pl_module_enter(b, pl_build_text(b, "layers.%lld", (long long)index), d->layer_type);
    pl_module_children(b, "linear_attn self_attn mlp input_layernorm post_attention_layernorm "
                          "pre_feedforward_layernorm post_feedforward_layernorm");
    pl_line(b, "");
    int32_t normed = names[0] ? pl_decoder_norm(d, names[0], x) : x;
    pl_line(b, "");
    int32_t y = mixed ? d->plan->mix(d, index, normed) : pl_decoder_attention(d, index, normed);
    if (d->parallel) {
        int32_t z = pl_decoder_feed_forward(d, index, normed);
        if (d->plan->one_dropout) z = pl_hf_dropout(m, "dropout", z, d->residual_dropout);
        pl_line(b, "1: hidden_states = residual + attention + mlp");
        x = pl_aten_add(b, pl_aten_add(b, x, y), z);
        pl_module_leave(b);
        return x;
    }
    if (names[1]) y = pl_decoder_norm(d, names[1], y);
    pl_line(b, "1: hidden_states = residual + hidden_states");
    if (d->plan->dropouts) y = pl_hf_dropout(m, "resid_attn_dropout", y, d->residual_dropout);
    x = pl_aten_add(b, past(d, "input_residual", x), scaled(d, y));
    pl_line(b, "");
    normed = names[2] ? pl_decoder_norm(d, names[2], x) : x;
    pl_line(b, "");
    y = pl_decoder_feed_forward(d, index, normed);
    if (names[3]) y = pl_decoder_norm(d, names[3], y);
    pl_line(b, "2: hidden_states = residual + hidden_states");
    if (d->plan->dropouts) y = pl_hf_dropout(m, "resid_mlp_dropout", y, d->residual_dropout);
    if (d->plan->one_dropout) y = pl_hf_dropout(m, "dropout", y, d->residual_dropout);
    x = pl_aten_add(b, past(d, "post_attention_residual", x), scaled(d, y));
    pl_module_leave(b);
    return x;
}
