/* rotary: how decoders of Llama's plan turn queries and keys by their positions.
 *
 * Rules: transformers 5.22, RotaryEmbedding and apply_rotary_pos_emb of models/<package>. Whether the
 * halves of a head turn each other (Llama) or its neighbours do (Cohere, GLM) is no matter of
 * sizes: what differs is what is doubled, widened and left as it is. */
#include "import/families/decoder.h"
#include "import/families/latent.h"

#include <string.h>

/* position_ids [3,B,S], or [1,S] for all three; cos and sin [B,S,rotary_dim]. The angles of frames,
 * rows and columns stand side by side in mrope_section's parts. */
static void grid_rotary(pl_decoding *d, const char *type, int32_t position_ids) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t half = d->rotary_dim / 2, sections[3] = {half - 2 * (half * 3 / 8), half * 3 / 8, 0};
    sections[2] = sections[1];
    for (int i = 0; i < 3; i++)
        sections[i] = pl_hf_list_int(m, "rope_parameters.mrope_section|rope_scaling.mrope_section",
                                     i, sections[i]);
    if (sections[0] + sections[1] + sections[2] != half)
        pl_hf_refuse(m, "rope_parameters.mrope_section|rope_scaling.mrope_section",
                     "its parts should make half a head, %lld", (long long)half);
    pl_module_enter(b, "rotary_emb", type);
    int32_t freq = pl_build_buffer(b, "inv_freq", PL_DT_F32, false, PL_SIZES(half));
    pl_build_buffer(b, "original_inv_freq", PL_DT_F32, false, PL_SIZES(half));
    bool grad = pl_build_no_grad(b, true);
    pl_line(b, "position_ids = position_ids.expand(3, -1, -1)");
    if (pl_built_dims(b, position_ids) < 3) position_ids = pl_aten_unsqueeze(b, position_ids, 0);
    int32_t f = pl_aten_expand(b, position_ids, PL_SIZES(3, m->batch, m->seq));
    pl_line(b, "freqs = position_ids[..., None].float() * self.inv_freq");
    f = pl_aten_mul(b, pl_aten_to(b, pl_aten_unsqueeze(b, f, -1), PL_DT_F32), freq);
    static const char *const lines[2][2] = {{"1: cos = freqs.cos() * self.attention_scaling",
                                             "2: cos = self.recomposition_frequencies(cos)"},
                                            {"1: sin = freqs.sin() * self.attention_scaling",
                                             "2: sin = self.recomposition_frequencies(sin)"}};
    int32_t angle[2];
    for (int i = 0; i < 2; i++) {
        pl_line(b, lines[i][0]);
        angle[i] = pl_aten_unary(b, i ? "aten.sin.default" : "aten.cos.default", f);
        angle[i] = pl_aten_scalar(b, "aten.mul.Tensor", angle[i], 1);
    }
    for (int i = 1; i >= 0; i--) {
        int32_t parts[3], one[3];
        pl_line(b, lines[i][1]);
        pl_aten_split(b, angle[i], 3, sections, -1, parts);
        for (int k = 0; k < 3; k++) one[k] = pl_aten_select(b, parts[k], 0, k);
        int32_t freqs = pl_aten_cat(b, 3, one, -1);
        angle[i] = pl_aten_cat(b, 2, (int32_t[]){freqs, freqs}, -1);
    }
    pl_line(b, "return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)");
    d->cos[0] = d->cos[1] = pl_aten_type_as(b, angle[0], d->embeds);
    d->sin[0] = d->sin[1] = pl_aten_type_as(b, angle[1], d->embeds);
    pl_build_no_grad(b, grad);
    pl_module_leave(b);
}

/* cos and sin [1,S,rotary_dim / 2]: the angles once. */
static void half_rotary(pl_decoding *d, const char *type, int32_t position_ids) {
    pl_builder *b = d->m->b;
    int64_t half = d->rotary_dim / 2;
    pl_module_enter(b, "rotary_emb", type);
    int32_t freq = pl_build_buffer(b, "inv_freq", PL_DT_F32, false, PL_SIZES(half));
    pl_build_buffer(b, "original_inv_freq", PL_DT_F32, false, PL_SIZES(half));
    bool grad = pl_build_no_grad(b, true);
    pl_line(b, "freqs = position_ids[..., None].float() * self.inv_freq");
    int32_t f = pl_aten_to(b, pl_aten_unsqueeze(b, position_ids, -1), PL_DT_F32), angle[2];
    f = pl_aten_mul(b, f, freq);
    for (int i = 0; i < 2; i++) {
        pl_line(b, i ? "sin = emb.sin() * scaling" : "cos = emb.cos() * scaling");
        angle[i] = pl_aten_unary(b, i ? "aten.sin.default" : "aten.cos.default", f);
        angle[i] = pl_aten_scalar(b, "aten.mul.Tensor", angle[i], 1);
    }
    pl_line(b, "return cos.to(dtype=x.dtype), sin.to(dtype=x.dtype)");
    d->cos[0] = d->cos[1] = pl_aten_to(b, angle[0], d->m->dtype);
    d->sin[0] = d->sin[1] = pl_aten_to(b, angle[1], d->m->dtype);
    pl_build_no_grad(b, grad);
    pl_module_leave(b);
}

void pl_decoder_make_rotary(pl_decoding *d, int32_t position_ids) {
    pl_hf *m = d->m;
    const char *type = pl_decoder_type(d, "RotaryEmbedding");
    pl_dtype like = d->plan->float_rotary ? PL_DT_UNKNOWN : m->dtype;
    if (d->plan->rotary == PL_ROTARY_COMPLEX) {
        pl_latent_rotary(d, position_ids);
        return;
    }
    if (d->plan->rotary == PL_ROTARY_HALF) {
        half_rotary(d, type, position_ids);
        return;
    }
    if (d->plan->grid_rotary) {
        grid_rotary(d, type, position_ids);
        return;
    }
    if (!d->plan->two_rotaries) {
        pl_hf_rotary(m, "rotary_emb", type, d->rotary_dim, position_ids, like, &d->cos[0],
                     &d->sin[0]);
        d->cos[1] = d->cos[0];
        d->sin[1] = d->sin[0];
        return;
    }
    static const char *const names[] = {"full_attention_", "sliding_attention_"};
    for (int i = 0; i < 2; i++) {
        pl_module_enter(m->b, "rotary_emb", type);
        pl_hf_rotary_of(m, names[i], d->rotary_dim, position_ids, like, &d->cos[i], &d->sin[i]);
        pl_module_leave(m->b);
    }
}

bool pl_decoder_has_angles(pl_decoding *d) {
    if (d->plan->rotary_layers == PL_ROTARY_ASKED)
        return strcmp(pl_hf_string(d->m, "position_embedding_type", ""), "rope") == 0;
    return d->plan->rotary_layers != PL_ROTARY_NONE;
}

bool pl_decoder_turns(pl_decoding *d, int64_t layer) {
    switch (d->plan->rotary_layers) {
    case PL_ROTARY_LISTED: return pl_hf_list_int(d->m, "no_rope_layers", layer, 1) != 0;
    case PL_ROTARY_SLIDING: return pl_decoder_slides(d, layer);
    case PL_ROTARY_SLIDING_4: return d->window < 1 || pl_decoder_slides(d, layer);
    case PL_ROTARY_NONE: return false;
    case PL_ROTARY_ASKED: return pl_decoder_has_angles(d);
    case PL_ROTARY_THETA: return pl_hf_list_float(d->m, "layer_rope_theta", layer, 1) > 0;
    default: return true;
    }
}

/* [1,1,S,D], of which half is kept and written twice. */
static int32_t twice(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    pl_dtype dtype = pl_built(b, x)->dtype;
    x = pl_aten_slice(b, x, 3, 0, d->rotary_dim / 2);
    pl_call(b, "aten.repeat_interleave.self_int");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "repeats", 2);
    pl_call_int(b, "dim", -1);
    return pl_call_result(b, dtype, PL_SIZES(1, 1, d->m->seq, d->rotary_dim / 2 * 2));
}

/* As pl_hf_rotate, the products in float32: x alone is turned in its own type. */
static int32_t rotate_wide(pl_decoding *d, int32_t x, int32_t cos, int32_t sin) {
    pl_builder *b = d->m->b;
    int64_t half = pl_built_size(b, x, -1) / 2;
    int32_t y = pl_aten_mul(b, pl_aten_to(b, x, PL_DT_F32), cos);
    int32_t first = pl_aten_slice(b, x, 3, 0, half);
    int32_t second = pl_aten_slice(b, x, 3, half, INT64_MAX);
    second = pl_aten_unary(b, "aten.neg.default", second);
    int32_t turned = pl_aten_cat(b, 2, (int32_t[]){second, first}, -1);
    return pl_aten_add(b, y, pl_aten_mul(b, pl_aten_to(b, turned, PL_DT_F32), sin));
}

/* The rotary part of each head alone, the rest put behind it. */
static int32_t rotate_part(pl_decoding *d, int32_t x, int32_t cos, int32_t sin) {
    pl_builder *b = d->m->b;
    int32_t turn = pl_aten_slice(b, x, 3, 0, d->rotary_dim);
    int32_t rest = pl_aten_slice(b, x, 3, d->rotary_dim, INT64_MAX);
    turn = pl_hf_rotate(d->m, turn, cos, sin);
    return pl_aten_cat(b, 2, (int32_t[]){turn, rest}, -1);
}

/* cat(x1 cos - x2 sin, x2 cos + x1 sin) of x's halves */
static int32_t rotate_halves(pl_decoding *d, int32_t x, int32_t cos, int32_t sin) {
    pl_builder *b = d->m->b;
    int32_t part[2];
    pl_aten_chunk(b, x, 2, -1, part);
    int32_t first = pl_aten_binary(b, "aten.sub.Tensor", pl_aten_mul(b, part[0], cos),
                                   pl_aten_mul(b, part[1], sin));
    int32_t second = pl_aten_add(b, pl_aten_mul(b, part[1], cos), pl_aten_mul(b, part[0], sin));
    return pl_aten_cat(b, 2, (int32_t[]){first, second}, -1);
}

void pl_decoder_turn(pl_decoding *d, int32_t *q, int32_t *k, int32_t v, bool sliding) {
    pl_builder *b = d->m->b;
    int of = sliding && d->plan->two_rotaries;
    pl_line(b, "query_states, key_states = apply_rotary_pos_emb(");
    bool widened = d->plan->norm == PL_NORM_MEAN; /* Cohere turns in float32 */
    if (widened) {
        *q = pl_aten_to(b, *q, PL_DT_F32);
        *k = pl_aten_to(b, *k, PL_DT_F32);
    }
    int32_t cos = pl_aten_unsqueeze(b, d->cos[of], 1), sin = pl_aten_unsqueeze(b, d->sin[of], 1);
    if (d->plan->rotary == PL_ROTARY_TWICE) {
        cos = twice(d, cos);
        sin = twice(d, sin);
    }
    if (d->plan->rotary == PL_ROTARY_HALF) {
        *q = rotate_halves(d, *q, cos, sin);
        *k = rotate_halves(d, *k, cos, sin);
        return;
    }
    if (d->plan->rotary_share > 0) {
        *q = rotate_part(d, *q, cos, sin);
        *k = rotate_part(d, *k, cos, sin);
        return;
    }
    bool wide = d->plan->wide_turn;
    *q = wide ? rotate_wide(d, *q, cos, sin) : pl_hf_rotate(d->m, *q, cos, sin);
    *k = wide ? rotate_wide(d, *k, cos, sin) : pl_hf_rotate(d->m, *k, cos, sin);
    if (!widened && !d->plan->float_rotary) return;
    *q = pl_aten_type_as(b, *q, v); /* v has the type that q had */
    *k = pl_aten_type_as(b, *k, v);
}
