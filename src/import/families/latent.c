/* latent: see latent.h.
 *
 * Rules: transformers 5.22, models/deepseek_v3 and deepseek_v2. Keys of a head are its own part and one
 * part with positions that all heads share; they are copied side by side into an empty tensor.
 *
 * Left out: the cache, in which the narrow tensors lie. */
#include "import/families/latent.h"

#include <math.h>
#include <string.h>

void pl_latent_read(pl_decoding *d) {
    pl_hf *m = d->m;
    pl_latent_sizes *s = &d->latent;
    s->q_rank = pl_hf_int(m, "q_lora_rank", 0);
    s->kv_rank = pl_hf_need(m, "kv_lora_rank");
    s->plain = pl_hf_need(m, "qk_nope_head_dim");
    s->turned = pl_hf_need(m, "qk_rope_head_dim");
    s->value = pl_hf_int(m, "v_head_dim", d->width / d->heads);
    s->best = s->narrow = PL_NONE;
    if (d->plan->latent->indexer != PL_INDEXER_NONE && s->q_rank < 1)
        pl_hf_refuse(m, "q_lora_rank", "the indexer needs the queries' narrow projection");
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
    int64_t half = d->rotary_dim / 2;
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

/* heads: the dimension of q and k that counts them */
static void turn_interleaved(pl_decoding *d, int32_t *q, int32_t *k, int heads) {
    pl_builder *b = d->m->b;
    int64_t half = d->latent.turned / 2;
    int32_t cos = pl_aten_unsqueeze(b, pl_aten_slice(b, d->cos[0], 2, 0, half), heads);
    int32_t sin = pl_aten_unsqueeze(b, pl_aten_slice(b, d->sin[0], 2, 0, half), heads);
    int32_t pairs[4] = {every_second(b, *q, 0), every_second(b, *q, 1), every_second(b, *k, 0),
                        every_second(b, *k, 1)};
    *q = turn_pairs(b, pairs, cos, sin);
    *k = turn_pairs(b, pairs + 2, cos, sin);
}

static void turn_halves(pl_decoding *d, int32_t *q, int32_t *k, int heads) {
    pl_builder *b = d->m->b;
    int32_t cos = pl_aten_unsqueeze(b, d->cos[0], heads);
    int32_t sin = pl_aten_unsqueeze(b, d->sin[0], heads);
    *q = pl_hf_rotate(d->m, *q, cos, sin);
    *k = pl_hf_rotate(d->m, *k, cos, sin);
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

void pl_latent_turn_complex(pl_builder *b, int32_t *q, int32_t *k, int32_t by) {
    int32_t like[2] = {*q, *k}, x = as_complex(b, *q), y = as_complex(b, *k);
    *q = as_real(b, pl_aten_mul(b, x, by), like[0]);
    *k = as_real(b, pl_aten_mul(b, y, by), like[1]);
}

static void turn(pl_decoding *d, int32_t *q, int32_t *k) {
    pl_builder *b = d->m->b;
    pl_line(b, "2: q_rot, k_rot = apply_rotary_pos_emb(q_rot, k_rot, cos, sin)");
    if (d->plan->rotary == PL_ROTARY_COMPLEX) {
        pl_latent_turn_complex(b, q, k, pl_aten_unsqueeze(b, d->cos[0], 1));
    } else if (pl_hf_bool(d->m, "rope_interleave", d->plan->latent->interleaved)) {
        turn_interleaved(d, q, k, 1);
    } else {
        turn_halves(d, q, k, 1);
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
        d->latent.narrow = pl_decoder_norm(d, "q_a_layernorm", x);
        x = pl_hf_linear(m, "q_b_proj", d->latent.narrow, wide, false);
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

/* ---- the indexer ---- */

/* [B,S,heads,width], its first part turned with the other's. */
static void turn_first(pl_decoding *d, int32_t *q, int32_t *k, int64_t width) {
    pl_builder *b = d->m->b;
    int64_t turned = d->latent.turned, sizes[2] = {turned, width - turned};
    int32_t of_q[2], of_k[2];
    pl_line(b, "1: q_rot, q_pass = torch.split(q)");
    pl_aten_split(b, *q, 2, sizes, -1, of_q);
    pl_line(b, "1: k_rot, k_pass = torch.split(k)");
    pl_aten_split(b, *k, 2, sizes, -1, of_k);
    pl_line(b, "2: q_rot, k_rot = apply_rotary_pos_emb(q_rot, k_rot, cos, sin, unsqueeze_dim=2)");
    if (d->plan->latent->indexer == PL_INDEXER_PAIRS)
        turn_interleaved(d, &of_q[0], &of_k[0], 2);
    else
        turn_halves(d, &of_q[0], &of_k[0], 2);
    pl_line(b, "3: q = torch.cat([q_rot, q_pass], dim=-1)");
    *q = pl_aten_cat(b, 2, of_q, -1);
    pl_line(b, "3: k = torch.cat([k_rot, k_pass], dim=-1).squeeze(2)");
    *k = pl_aten_squeeze(b, pl_aten_cat(b, 2, of_k, -1), 2);
}

/* Places of the keys that score best for each query, int32 [B,S,topk]. */
static int32_t run_indexer(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t heads = pl_hf_need(m, "index_n_heads"), width = pl_hf_need(m, "index_head_dim");
    int64_t most = pl_hf_need(m, "index_topk");
    if (most > m->seq) most = m->seq;
    if (width <= d->latent.turned) {
        pl_hf_refuse(m, "index_head_dim", "%lld: no more than qk_rope_head_dim, %lld",
                     (long long)width, (long long)d->latent.turned);
        return PL_NONE;
    }
    pl_module_enter(b, "indexer", pl_decoder_type(d, "Indexer"));
    pl_module_children(b, "wq_b wk k_norm weights_proj");
    bool grad = pl_build_no_grad(b, true);
    pl_line(b, "1: q = self.wq_b(q_resid)");
    int32_t q = pl_hf_linear(m, "wq_b", d->latent.narrow, heads * width, false);
    pl_line(b, "2: q = q.view(batch_size, seq_len, self.n_heads, self.head_dim)");
    q = pl_aten_view(b, q, PL_SIZES(m->batch, m->seq, heads, width));
    pl_line(b, "2: k = self.k_norm(self.wk(hidden_states)).unsqueeze(2)");
    int32_t k = pl_hf_layer_norm(m, "k_norm", pl_hf_linear(m, "wk", x, width, false), 1e-6, true);
    k = pl_aten_unsqueeze(b, k, 2);
    turn_first(d, &q, &k, width);
    pl_line(b, "1: scores = torch.matmul(q.float(), k.transpose(-1, -2).float().unsqueeze(1))");
    k = pl_aten_to(b, pl_aten_transpose(b, k, -1, -2), PL_DT_F32);
    int32_t scores = pl_aten_matmul(b, pl_aten_to(b, q, PL_DT_F32), pl_aten_unsqueeze(b, k, 1));
    scores = pl_aten_scalar(b, "aten.mul.Tensor", scores, 1 / sqrt((double)width));
    pl_line(b, "2: scores = F.relu(scores)");
    scores = pl_aten_unary(b, "aten.relu.default", scores); /* [B,S,heads,S] */
    pl_line(b, "weights = self.weights_proj(hidden_states).float() * self.n_heads**-0.5");
    int32_t weights = pl_aten_to(b, pl_hf_linear(m, "weights_proj", x, heads, false), PL_DT_F32);
    weights = pl_aten_scalar(b, "aten.mul.Tensor", weights, 1 / sqrt((double)heads));
    pl_line(b, "1: index_scores = torch.matmul(weights.unsqueeze(-2), scores).squeeze(-2)");
    scores = pl_aten_matmul(b, pl_aten_unsqueeze(b, weights, -2), scores);
    scores = pl_aten_squeeze(b, scores, -2); /* [B,S,S] */
    pl_line(b, "2: index_scores = index_scores.masked_fill(~attention_mask)");
    int32_t mask = d->mask[0];
    if (mask != PL_NONE) mask = pl_aten_select(b, mask, 1, 0);
    if (mask != PL_NONE && pl_built(b, mask)->dtype == PL_DT_BOOL) {
        mask = pl_aten_unary(b, "aten.bitwise_not.default", mask);
        scores = pl_aten_masked_fill(b, scores, mask, -INFINITY);
    } else if (mask != PL_NONE) {
        scores = pl_aten_add(b, scores, mask);
    }
    pl_line(b, "return index_scores.topk(topk, dim=-1).indices.to(torch.int32)");
    pl_dtype type = pl_built(b, scores)->dtype;
    pl_call(b, "aten.topk.default");
    pl_call_tensor(b, "self", scores);
    pl_call_int(b, "k", most);
    pl_call_int(b, "dim", -1);
    pl_call_result(b, type, PL_SIZES(m->batch, m->seq, most));
    int32_t places = pl_call_result(b, PL_DT_I64, PL_SIZES(m->batch, m->seq, most));
    places = pl_aten_to(b, places, PL_DT_I32);
    pl_build_no_grad(b, grad);
    pl_module_leave(b);
    return places;
}

void pl_latent_choose(pl_decoding *d, int64_t layer, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    pl_indexer kind = d->plan->latent->indexer;
    if (kind == PL_INDEXER_NONE) return;
    bool shared = kind == PL_INDEXER_PAIRS && d->latent.best != PL_NONE &&
                  strcmp(pl_hf_list_string(m, "indexer_types", layer, "full"), "shared") == 0;
    pl_line(b, "topk_indices = self.indexer(");
    if (!shared) d->latent.best = run_indexer(d, x);
    if (d->mask[0] == PL_NONE) return; /* the kernel is given the places */
    pl_line(b, "index_mask = topk_indices.new_ones().scatter(-1, topk_indices.long(), False)");
    pl_call(b, "aten.new_ones.default");
    pl_call_tensor(b, "self", d->latent.best);
    pl_call_ints(b, "size", PL_SIZES(m->batch, m->seq, m->seq));
    pl_call_dtype(b, "dtype", PL_DT_BOOL);
    int32_t mask = pl_call_result(b, PL_DT_BOOL, PL_SIZES(m->batch, m->seq, m->seq));
    int32_t places = pl_aten_to(b, d->latent.best, PL_DT_I64);
    pl_call(b, "aten.scatter.value");
    pl_call_tensor(b, "self", mask);
    pl_call_int(b, "dim", -1);
    pl_call_tensor(b, "index", places);
    pl_call_float(b, "value", 0);
    mask = pl_aten_unsqueeze(b, pl_call_result_like(b, mask), 1);
    pl_line(b, "attention_mask = attention_mask & ~index_mask");
    if (pl_built(b, d->mask[0])->dtype == PL_DT_BOOL)
        d->mask[0] = pl_aten_binary(b, "aten.__and__.Tensor", d->mask[0],
                                    pl_aten_unary(b, "aten.bitwise_not.default", mask));
    else
        d->mask[0] = pl_aten_masked_fill(b, d->mask[0], mask, -3e38);
}
