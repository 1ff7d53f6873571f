/* latent: see latent.h.
 *
 * Rules: transformers 5.22, models/deepseek_v3 and deepseek_v2. Keys of a head are its own part and one
 * part with positions that all heads share; they are copied side by side into an empty tensor.
 *
 * Left out: the cache, in which the narrow tensors lie. */
#include "import/families/latent.h"

#include <math.h>

void pl_latent_read(pl_decoding *d) {
    pl_hf *m = d->m;
    pl_latent_sizes *s = &d->latent;
    s->q_rank = pl_hf_int(m, "q_lora_rank", 0);
    s->kv_rank = pl_hf_need(m, "kv_lora_rank");
    s->plain = pl_hf_need(m, "qk_nope_head_dim");
    s->turned = pl_hf_need(m, "qk_rope_head_dim");
    s->value = pl_hf_need(m, "v_head_dim");
    if (s->turned % 2 != 0) {
        pl_hf_refuse(m, "qk_rope_head_dim", "%lld: expected an even number", (long long)s->turned);
        s->turned = 2;
    }
    d->kv_heads = d->heads;
    d->head_dim = s->plain + s->turned;
    d->rotary_dim = s->turned;
    d->scale = 1 / sqrt((double)d->head_dim);
}

/* ---- positions ---- */

/* cos + i sin of each position and frequency, [1,S,turned/2]. */
static int32_t complex_positions(pl_decoding *d, int32_t position_ids) {
    pl_builder *b = d->m->b;
    int64_t half = d->latent.turned / 2;
    int32_t frequency = pl_build_buffer(b, "inv_freq", PL_DT_F32, false, PL_SIZES(half));
    pl_build_buffer(b, "original_inv_freq", PL_DT_F32, false, PL_SIZES(half));
    pl_line(b, "freqs = position_ids[..., None].float() * self.inv_freq");
    int32_t at = pl_aten_to(b, pl_aten_unsqueeze(b, position_ids, 2), PL_DT_F32);
    at = pl_aten_mul(b, at, frequency);
    pl_line(b, "1: freqs_cis = torch.polar(torch.ones_like(freqs), freqs)");
    pl_call(b, "aten.ones_like.default");
    pl_call_tensor(b, "self", at);
    int32_t one = pl_call_result_like(b, at);
    pl_call(b, "aten.polar.default");
    pl_call_tensor(b, "abs", one);
    pl_call_tensor(b, "angle", at);
    int32_t turn = pl_call_result(b, PL_DT_C64, PL_SIZES(1, d->m->seq, half));
    pl_line(b, "2: freqs_cis = freqs_cis * self.attention_scaling");
    return pl_aten_scalar(b, "aten.mul.Tensor", turn, 1);
}

void pl_latent_rotary(pl_decoding *d, int32_t position_ids) {
    pl_builder *b = d->m->b;
    pl_module_enter(b, "rotary_emb", pl_decoder_type(d, "RotaryEmbedding"));
    bool grad = pl_build_no_grad(b, true);
    d->cos[0] = d->cos[1] = complex_positions(d, position_ids);
    pl_build_no_grad(b, grad);
    pl_module_leave(b);
}

static int32_t every_second(pl_builder *b, int32_t x, int64_t from) {
    pl_dtype type = pl_built(b, x)->dtype;
    int64_t n = pl_built_size(b, x, 0), heads = pl_built_size(b, x, 1);
    int64_t seq = pl_built_size(b, x, 2), half = pl_built_size(b, x, 3) / 2;
    pl_call(b, "aten.slice.Tensor");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", 3);
    pl_call_int(b, "start", from);
    pl_call_int(b, "end", INT64_MAX);
    pl_call_int(b, "step", 2);
    return pl_call_result(b, type, PL_SIZES(n, heads, seq, half));
}

/* cat(x1 cos - x2 sin, x2 cos + x1 sin) of x's even and odd columns */
static int32_t turn_pairs(pl_builder *b, const int32_t *x, int32_t cos, int32_t sin) {
    int32_t first =
        pl_aten_binary(b, "aten.sub.Tensor", pl_aten_mul(b, x[0], cos), pl_aten_mul(b, x[1], sin));
    int32_t second = pl_aten_add(b, pl_aten_mul(b, x[1], cos), pl_aten_mul(b, x[0], sin));
    return pl_aten_cat(b, 2, (int32_t[]){first, second}, -1);
}

static void turn_interleaved(pl_decoding *d, int32_t *q, int32_t *k) {
    pl_builder *b = d->m->b;
    int64_t half = d->latent.turned / 2;
    int32_t cos = pl_aten_unsqueeze(b, pl_aten_slice(b, d->cos[0], 2, 0, half), 1);
    int32_t sin = pl_aten_unsqueeze(b, pl_aten_slice(b, d->sin[0], 2, 0, half), 1);
    int32_t pairs[4] = {every_second(b, *q, 0), every_second(b, *q, 1), every_second(b, *k, 0),
                        every_second(b, *k, 1)};
    *q = turn_pairs(b, pairs, cos, sin);
    *k = turn_pairs(b, pairs + 2, cos, sin);
}

static int32_t as_complex(pl_builder *b, int32_t x) {
    int64_t n = pl_built_size(b, x, 0), heads = pl_built_size(b, x, 1);
    int64_t seq = pl_built_size(b, x, 2), half = pl_built_size(b, x, 3) / 2;
    x = pl_aten_reshape(b, pl_aten_to(b, x, PL_DT_F32), PL_SIZES(n, heads, seq, half, 2));
    pl_call(b, "aten.view_as_complex.default");
    pl_call_tensor(b, "self", x);
    return pl_call_result(b, PL_DT_C64, PL_SIZES(n, heads, seq, half));
}

static int32_t as_real(pl_builder *b, int32_t x, int32_t like) {
    int64_t n = pl_built_size(b, x, 0), heads = pl_built_size(b, x, 1);
    int64_t seq = pl_built_size(b, x, 2), half = pl_built_size(b, x, 3);
    pl_call(b, "aten.view_as_real.default");
    pl_call_tensor(b, "self", x);
    x = pl_call_result(b, PL_DT_F32, PL_SIZES(n, heads, seq, half, 2));
    return pl_aten_type_as(b, pl_aten_flatten(b, x, 3, 4), like);
}

static void turn_complex(pl_decoding *d, int32_t *q, int32_t *k) {
    pl_builder *b = d->m->b;
    int32_t like[2] = {*q, *k}, x = as_complex(b, *q), y = as_complex(b, *k);
    int32_t by = pl_aten_unsqueeze(b, d->cos[0], 1);
    *q = as_real(b, pl_aten_mul(b, x, by), like[0]);
    *k = as_real(b, pl_aten_mul(b, y, by), like[1]);
}

static void turn(pl_decoding *d, int32_t *q, int32_t *k) {
    pl_builder *b = d->m->b;
    pl_line(b, "2: q_rot, k_rot = apply_rotary_pos_emb(q_rot, k_rot, cos, sin)");
    if (d->plan->latent->complex) {
        turn_complex(d, q, k);
    } else if (pl_hf_bool(d->m, "rope_interleave", d->plan->latent->interleaved)) {
        turn_interleaved(d, q, k);
    } else {
        int32_t cos = pl_aten_unsqueeze(b, d->cos[0], 1), sin = pl_aten_unsqueeze(b, d->sin[0], 1);
        *q = pl_hf_rotate(d->m, *q, cos, sin);
        *k = pl_hf_rotate(d->m, *k, cos, sin);
    }
}

/* ---- projections ---- */

static int32_t project_queries(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    const pl_latent_sizes *s = &d->latent;
    int64_t wide = d->heads * d->head_dim;
    pl_line(b, "1: q_states = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(hidden_states)))");
    if (s->q_rank < 1) {
        x = pl_hf_linear(m, "q_proj", x, wide, false);
    } else {
        x = pl_hf_linear(m, "q_a_proj", x, s->q_rank, d->qkv_bias);
        x = pl_hf_linear(m, "q_b_proj", pl_decoder_norm(d, "q_a_layernorm", x), wide, false);
    }
    pl_line(b, "2: q_states = q_states.view(query_shape).transpose(1, 2)");
    x = pl_aten_view(b, x, PL_SIZES(m->batch, m->seq, -1, d->head_dim));
    return pl_aten_transpose(b, x, 1, 2);
}

/* expand_kv: the heads' own keys and values, and the keys' turned part copied behind the first. */
static void expand(pl_decoding *d, int32_t narrow, int32_t turned, int32_t *k, int32_t *v) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    const pl_latent_sizes *s = &d->latent;
    int64_t each = s->plain + s->value;
    pl_line(b, "1: key_states, value_states = self.expand_kv(kv_nope, k_rot)");
    int32_t kv = pl_hf_linear(m, "kv_b_proj", narrow, d->heads * each, false), parts[2];
    kv = pl_aten_view(b, kv, PL_SIZES(m->batch, m->seq, -1, each));
    kv = pl_aten_transpose(b, kv, 1, 2);
    pl_aten_split(b, kv, 2, (const int64_t[]){s->plain, s->value}, -1, parts);
    turned = pl_aten_expand(b, turned, PL_SIZES(-1, d->heads, -1, -1));
    const int64_t sizes[] = {m->batch, d->heads, m->seq, d->head_dim};
    pl_dtype type = pl_built(b, kv)->dtype;
    pl_call(b, "aten.new_empty.default");
    pl_call_tensor(b, "self", kv);
    pl_call_ints(b, "size", 4, sizes);
    *k = pl_call_result(b, type, 4, sizes);
    int32_t pieces[2] = {parts[0], turned};
    for (int i = 0; i < 2; i++) {
        int32_t place = pl_aten_slice(b, *k, 3, i ? s->plain : 0, i ? INT64_MAX : s->plain);
        pl_call(b, "aten.copy_.default");
        pl_call_tensor(b, "self", place);
        pl_call_tensor(b, "src", pieces[i]);
        pl_call_result_like(b, place);
    }
    *v = parts[1];
}

void pl_latent_project(pl_decoding *d, int32_t x, int32_t *q, int32_t *k, int32_t *v) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    const pl_latent_sizes *s = &d->latent;
    int32_t parts[2], narrow[2];
    int32_t states = project_queries(d, x);
    pl_line(b, "q_pass, q_rot = torch.split(q_states)");
    pl_aten_split(b, states, 2, (const int64_t[]){s->plain, s->turned}, -1, parts);
    pl_line(b, "compressed_kv = self.kv_a_proj_with_mqa(hidden_states)");
    int32_t both = pl_hf_linear(m, "kv_a_proj_with_mqa", x, s->kv_rank + s->turned, d->qkv_bias);
    pl_line(b, "1: kv_nope, k_rot = torch.split(compressed_kv)");
    pl_aten_split(b, both, 2, (const int64_t[]){s->kv_rank, s->turned}, -1, narrow);
    pl_line(b, "2: kv_nope = self.kv_a_layernorm(kv_nope)");
    narrow[0] = pl_decoder_norm(d, "kv_a_layernorm", narrow[0]);
    pl_line(b, "3: kv_nope = kv_nope.view(batch_size, 1, seq_length, self.kv_lora_rank)");
    narrow[0] = pl_aten_view(b, narrow[0], PL_SIZES(m->batch, 1, m->seq, s->kv_rank));
    pl_line(b, "1: k_rot = k_rot.view(batch_size, 1, seq_length, self.qk_rope_head_dim)");
    narrow[1] = pl_aten_view(b, narrow[1], PL_SIZES(m->batch, 1, m->seq, s->turned));
    turn(d, &parts[1], &narrow[1]);
    pl_line(b, "query_states = torch.cat((q_pass, q_rot), dim=-1)");
    *q = pl_aten_cat(b, 2, parts, -1);
    expand(d, narrow[0], narrow[1], k, v);
}
