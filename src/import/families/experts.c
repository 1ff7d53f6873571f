/* experts: the feed-forward layers of mixtures of experts: a router, stacked experts, in many a shared
 * one beside them. experts.h has what families' differ in, routers.c their routers.
 *
 * Rules: transformers 5.22, integrations/moe.py: tokens are sorted by expert and all experts run in
 * one grouped matrix product (grouped_mm, the default where the card is of compute capability 8 or
 * later). Its sizes do not depend on where tokens go, so even routing is no loss here.
 *
 * Left out: the loop over experts (experts_implementation "eager"), jitter of the router. */
#include "import/families/experts.h"

#include <string.h>

/* Weights of the experts, [experts, out, in] or turned; *shift: [experts, out] of their biases. */
static int32_t weights_of(pl_decoding *d, const char *name, int64_t in, int64_t out,
                          int32_t *shift) {
    pl_builder *b = d->m->b;
    const pl_experts_plan *plan = &d->plan->mixture->plan;
    int32_t weight = pl_build_parameter(b, name, 3,
                                        plan->turned ? (const int64_t[]){d->experts, in, out}
                                                     : (const int64_t[]){d->experts, out, in});
    *shift = PL_NONE;
    if (plan->biased)
        *shift =
            pl_build_parameter(b, pl_build_text(b, "%s_bias", name), PL_SIZES(d->experts, out));
    return weight;
}

/* [S, in] by the experts' weights; shift [S, out] of each row's expert, added in place */
static int32_t grouped(pl_builder *b, int32_t x, int32_t weight, bool turned, int32_t offsets,
                       int32_t shift) {
    int64_t rows = pl_built_size(b, x, 0), out = pl_built_size(b, weight, turned ? 2 : 1);
    pl_dtype type = pl_built(b, weight)->dtype;
    int32_t by = turned ? weight : pl_aten_transpose(b, weight, -2, -1);
    x = pl_aten_type_as(b, x, weight);
    pl_call(b, "transformers.grouped_mm_fallback.default");
    pl_call_tensor(b, "input", x);
    pl_call_tensor(b, "weight", by);
    pl_call_tensor(b, "offs", offsets);
    int32_t y = pl_call_result(b, type, PL_SIZES(rows, out));
    return shift == PL_NONE ? y : pl_aten_binary(b, "aten.add_.Tensor", y, shift);
}

/* Sorted experts' ids and where each came from: the line's values and indices. */
static int32_t sort(pl_builder *b, int32_t ids, int32_t *from) {
    int64_t count = pl_built_size(b, ids, 0);
    pl_call(b, "aten.sort.default");
    pl_call_tensor(b, "self", ids);
    int32_t sorted = pl_call_result(b, PL_DT_I64, PL_SIZES(count));
    *from = pl_call_result(b, PL_DT_I64, PL_SIZES(count));
    return sorted;
}

static int32_t offsets_of(pl_decoding *d, int32_t sorted) {
    pl_builder *b = d->m->b;
    pl_line(b, "histc_input = expert_ids_g.int()");
    int32_t ids = pl_aten_to(b, sorted, PL_DT_I32);
    pl_line(b, "tokens_per_expert = torch.histc(");
    pl_call(b, "aten.histc.default");
    pl_call_tensor(b, "self", ids);
    pl_call_int(b, "bins", d->experts);
    int32_t counts = pl_call_result(b, PL_DT_I32, PL_SIZES(d->experts));
    pl_line(b, "offsets = torch.cumsum(");
    pl_call(b, "aten.cumsum.default");
    pl_call_tensor(b, "self", counts);
    pl_call_int(b, "dim", 0);
    pl_call_dtype(b, "dtype", PL_DT_I32);
    return pl_call_result(b, PL_DT_I32, PL_SIZES(d->experts));
}

static int32_t back_in_order(pl_builder *b, int32_t x, int32_t from) {
    int64_t count = pl_built_size(b, from, 0);
    pl_line(b, "inv_perm = torch.empty_like(perm)");
    pl_call(b, "aten.empty_like.default");
    pl_call_tensor(b, "self", from);
    int32_t inverse = pl_call_result_like(b, from);
    pl_line(b, "");
    int32_t places = pl_aten_arange(b, count);
    pl_call(b, "aten.index_put_.default");
    pl_call_tensor(b, "self", inverse);
    pl_call_tensors(b, "indices", 1, &from);
    pl_call_tensor(b, "values", places);
    inverse = pl_call_result_like(b, inverse);
    pl_line(b, "2: weighted_out = weighted_out[inv_perm]");
    return pl_aten_index(b, x, 1, &inverse);
}

static int32_t clamp(pl_builder *b, int32_t x, double low, double high) {
    pl_call(b, "aten.clamp.default");
    pl_call_tensor(b, "self", x);
    if (low < high) pl_call_float(b, "min", low);
    pl_call_float(b, "max", high);
    return pl_call_result_like(b, x);
}

/* Every second of the last dimension, from `from` on. */
static int32_t every_second(pl_builder *b, int32_t x, int64_t from) {
    pl_dtype type = pl_built(b, x)->dtype;
    int64_t rows = pl_built_size(b, x, 0), half = pl_built_size(b, x, 1) / 2;
    pl_call(b, "aten.slice.Tensor");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "dim", 1);
    pl_call_int(b, "start", from);
    pl_call_int(b, "end", INT64_MAX);
    pl_call_int(b, "step", 2);
    return pl_call_result(b, type, PL_SIZES(rows, half));
}

/* (up + 1) * gate * sigmoid(alpha gate), both between limits; a method, whose names die with it. */
static int32_t gate_clamped(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    double limit = pl_hf_float(d->m, "swiglu_limit", 7);
    int32_t parts[2];
    if (d->plan->mixture->plan.turned)
        parts[0] = every_second(b, x, 0), parts[1] = every_second(b, x, 1);
    else
        pl_aten_chunk(b, x, 2, -1, parts);
    int32_t gate = clamp(b, parts[0], limit, limit), up = clamp(b, parts[1], -limit, limit);
    int32_t share =
        pl_aten_scalar(b, "aten.mul.Tensor", gate, pl_hf_float(d->m, "swiglu_alpha", 1.702));
    share = pl_aten_mul(b, gate, pl_aten_unary(b, "aten.sigmoid.default", share));
    return pl_aten_mul(b, pl_aten_scalar(b, "aten.add.Tensor", up, 1), share);
}

static int32_t gate_limited(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    double limit = pl_hf_float(d->m, "swiglu_limit", 7);
    int32_t parts[2];
    pl_aten_chunk(b, x, 2, -1, parts);
    int32_t gate = clamp(b, parts[0], limit, limit), up = clamp(b, parts[1], -limit, limit);
    return pl_aten_mul(b, pl_aten_unary(b, "aten.silu.default", gate), up);
}

static int32_t gate(pl_decoding *d, int32_t x) {
    int32_t parts[2];
    pl_line(d->m->b, "2: proj_out = self._apply_gate(proj_out)");
    if (d->plan->mixture->plan.plain) return pl_hf_activation(d->m, "act_fn", d->act, x);
    if (d->plan->mixture->plan.clamped) return gate_clamped(d, x);
    if (d->plan->mixture->plan.limited) return gate_limited(d, x);
    pl_aten_chunk(d->m->b, x, 2, -1, parts);
    return pl_aten_mul(d->m->b, pl_hf_activation(d->m, "act_fn", d->act, parts[0]), parts[1]);
}

/* x [tokens, width] to the same */
int32_t pl_decoder_run_experts(pl_decoding *d, int32_t x, pl_routing r) {
    pl_builder *b = d->m->b;
    bool turned = d->plan->mixture->plan.turned;
    int64_t tokens = pl_built_size(b, x, 0);
    pl_module_enter(b, "experts", d->experts_type);
    int32_t from, shift[2];
    bool plain = d->plan->mixture->plan.plain;
    int32_t gate_up = weights_of(d, plain ? "up_proj" : "gate_up_proj", d->width,
                                 plain ? d->expert_inner : 2 * d->expert_inner, &shift[0]);
    int32_t down = weights_of(d, "down_proj", d->expert_inner, d->width, &shift[1]);
    pl_line(b, "sample_weights = top_k_weights.reshape(-1)");
    int32_t weights = pl_aten_reshape(b, r.scores, PL_SIZES(-1));
    pl_line(b, "expert_ids = top_k_index.reshape(-1)");
    int32_t ids = pl_aten_reshape(b, r.chosen, PL_SIZES(-1));
    pl_line(b, "expert_ids_g, perm = torch.sort(expert_ids)");
    int32_t sorted = sort(b, ids, &from);
    pl_line(b, "selected_hidden_states_g = hidden_states[perm // num_top_k]");
    int32_t tokens_of = pl_aten_scalar(b, "aten.floor_divide.default", from, (double)d->chosen);
    int32_t y = pl_aten_index(b, x, 1, &tokens_of);
    pl_line(b, "sample_weights_g = sample_weights[perm]");
    weights = pl_aten_index(b, weights, 1, &from);
    int32_t offsets = offsets_of(d, sorted);
    pl_line(b, "1: selected_biases = self.gate_up_proj_bias[expert_ids_g]");
    if (shift[0] != PL_NONE) shift[0] = pl_aten_index(b, shift[0], 1, &sorted);
    pl_line(b, "1: proj_out = _grouped_linear(");
    y = gate(d, grouped(b, y, gate_up, turned, offsets, shift[0]));
    pl_line(b, "2: selected_biases = self.down_proj_bias[expert_ids_g]");
    if (shift[1] != PL_NONE) shift[1] = pl_aten_index(b, shift[1], 1, &sorted);
    pl_line(b, "3: proj_out = _grouped_linear(");
    y = grouped(b, y, down, turned, offsets, shift[1]);
    pl_line(b, "1: weighted_out = proj_out * sample_weights_g.unsqueeze(-1)");
    y = pl_aten_mul(b, y, pl_aten_unsqueeze(b, weights, -1));
    y = back_in_order(b, y, from);
    pl_line(b, "final_hidden_states = weighted_out.view().sum(dim=1)");
    y = pl_aten_view(b, y, PL_SIZES(tokens, d->chosen, d->width));
    y = pl_aten_reduce(b, "aten.sum.dim_IntList", y, 1, false);
    pl_line(b, "return final_hidden_states.to(hidden_states.dtype)");
    y = pl_aten_type_as(b, y, x);
    pl_module_leave(b);
    return y;
}

/* ---- the block ---- */

static int32_t run_beside(pl_decoding *d, int32_t x) {
    const char *name = d->plan->mixture->beside_name;
    pl_module_enter(d->m->b, name ? name : "shared_expert", d->mlp_type);
    int32_t y = pl_decoder_gated(d, x, d->shared_inner);
    pl_module_leave(d->m->b);
    return y;
}

/* output_linear(act(gate) * up), both of one matrix */
static int32_t run_fused(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t parts[2];
    pl_module_enter(b, d->plan->mixture->beside_name, d->mlp_type);
    pl_line(b, "1: hidden_states = self.input_linear(hidden_states)");
    x = pl_hf_linear(m, "input_linear", x, 2 * d->shared_inner, false);
    pl_line(b, "chunked_hidden_states = hidden_states.chunk(2, dim=-1)");
    pl_aten_chunk(b, x, 2, -1, parts);
    pl_line(b, "2: hidden_states = self.activation(chunked[0]) * chunked[1]");
    x = pl_aten_mul(b, pl_hf_activation(m, "activation", d->act, parts[0]), parts[1]);
    pl_line(b, "3: hidden_states = self.output_linear(hidden_states)");
    x = pl_hf_linear(m, "output_linear", x, d->width, false);
    pl_module_leave(b);
    return x;
}

/* What the experts and the layer beside them made. */
static int32_t add_up(pl_decoding *d, int32_t y, int32_t beside, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    const pl_mixture *mix = d->plan->mixture;
    if (mix->wide && pl_hf_bool(m, mix->wide, false)) {
        y = pl_aten_add(b, pl_aten_to(b, y, PL_DT_F32), pl_aten_to(b, beside, PL_DT_F32));
        return pl_aten_type_as(b, y, x);
    }
    y = pl_aten_add(b, y, beside);
    bool halved = mix->halved && strcmp(pl_hf_string(m, mix->halved, ""), "average") == 0;
    return halved ? pl_aten_scalar(b, "aten.div.Tensor", y, 2) : y;
}

int32_t pl_decoder_experts(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    const pl_mixture *mix = d->plan->mixture;
    pl_beside how = d->shared_inner < 1 ? PL_BESIDE_NONE
                    : m->guessed        ? PL_BESIDE_GATED
                                        : mix->beside;
    int32_t beside = PL_NONE;
    if (d->experts < 1) return run_fused(d, x);
    pl_module_enter(b, mix->name ? mix->name : "mlp", pl_decoder_type(d, mix->type));
    pl_module_children(b, mix->children);
    if (mix->router.bias == PL_BIAS_BLOCK)
        d->router_bias =
            pl_build_buffer(b, "e_score_correction_bias", PL_DT_F32, true, PL_SIZES(d->experts));
    if (mix->router.bias == PL_BIAS_BLOCK_FROZEN) {
        d->router_bias = pl_build_parameter(b, "expert_bias", PL_SIZES(d->experts));
        pl_build_freeze(b, d->router_bias);
    }
    pl_line(b, "shared_output = self.shared_experts(hidden_states)");
    if (how == PL_BESIDE_WHOLE) beside = run_beside(d, x);
    pl_line(b, "1: hidden_states = hidden_states.view(-1, hidden_dim)");
    int32_t y = pl_aten_view(b, x, PL_SIZES(-1, d->width)), flat = y;
    pl_line(b, "shared_output = self.shared_experts(hidden_states)");
    if (how == PL_BESIDE_GATED || how == PL_BESIDE_BEFORE) beside = run_beside(d, flat);
    y = pl_decoder_run_experts(d, flat, pl_decoder_route(d, flat));
    if (mix->scale) {
        pl_line(b, "2: hidden_states = hidden_states * self.routed_scaling_factor");
        y = pl_aten_scalar(b, "aten.mul.Tensor", y, pl_hf_float(m, mix->scale, 1));
    }
    if (how == PL_BESIDE_GATED) {
        pl_line(b, "2: shared_expert_output = F.sigmoid(self.shared_expert_gate(x)) * shared");
        int32_t share = pl_hf_linear(m, "shared_expert_gate", flat, 1, false);
        beside = pl_aten_mul(b, pl_aten_unary(b, "aten.sigmoid.default", share), beside);
    }
    bool whole = how == PL_BESIDE_WHOLE || how == PL_BESIDE_AFTER;
    pl_line(b, "3: hidden_states = hidden_states.reshape(batch_size, sequence_length, hidden_dim)");
    if (whole) y = pl_aten_reshape(b, y, PL_SIZES(m->batch, m->seq, d->width));
    pl_line(b, "4: hidden_states = hidden_states + self.shared_experts(residuals)");
    if (how == PL_BESIDE_AFTER || how == PL_BESIDE_LAST)
        beside = run_beside(d, how == PL_BESIDE_LAST ? flat : x);
    if (beside != PL_NONE) y = add_up(d, y, beside, x);
    pl_line(b, "5: hidden_states = hidden_states.reshape(batch_size, sequence_length, hidden_dim)");
    if (!whole) y = pl_aten_reshape(b, y, PL_SIZES(m->batch, m->seq, d->width));
    pl_line(b, "6: hidden_states = self.post_mlp_layernorm(hidden_states)");
    if (mix->after) y = pl_decoder_norm(d, mix->after, y);
    pl_module_leave(b);
    return how == PL_BESIDE_LAYER ? pl_aten_add(b, y, run_fused(d, x)) : y;
}

/* ---- what the config says ---- */

static void set(uint64_t *bits, int64_t layer) {
    if (layer >= 0 && layer < PL_HF_MAX_LAYERS) bits[layer / 64] |= 1ull << layer % 64;
}

/* The first layer with experts, as the family's key says. */
static int64_t first_sparse(pl_decoding *d) {
    const pl_mixture *mix = d->plan->mixture;
    return pl_hf_int(d->m, mix->first ? mix->first : "first_k_dense_replace", mix->usual_first);
}

static bool is_sparse(pl_decoding *d, int64_t layer) {
    pl_hf *m = d->m;
    int64_t step, end;
    switch (d->plan->mixture->sparse) {
    case PL_SPARSE_STEP:
        step = pl_hf_int(m, "decoder_sparse_step", 1);
        return step < 1 || (layer + 1) % step == 0;
    case PL_SPARSE_FIRST: return layer >= first_sparse(d);
    case PL_SPARSE_TYPES:
        if (layer < pl_hf_list(m, "mlp_layer_types"))
            return strcmp(pl_hf_list_string(m, "mlp_layer_types", layer, ""), "dense") != 0;
        step = pl_hf_int(m, "moe_layer_freq", 1);
        return layer >= first_sparse(d) && (step < 1 || layer % step == 0);
    case PL_SPARSE_PERIOD:
        step = pl_hf_int(m, "expert_layer_period", 2);
        return d->experts > 1 &&
               (step < 1 || layer % step == pl_hf_int(m, "expert_layer_offset", 1));
    case PL_SPARSE_RANGE:
        step = pl_hf_int(m, "moe_layer_interval", 1);
        end = (int64_t)pl_hf_float(m, "moe_layer_end_index", -1);
        return (step < 1 || (layer + 1) % step == 0) &&
               layer >= pl_hf_int(m, "moe_layer_start_index", 1) && (end < 0 || layer <= end);
    default: return true;
    }
}

static void read_layers(pl_decoding *d) {
    pl_hf *m = d->m;
    for (int64_t i = 0; i < d->layers; i++)
        if (is_sparse(d, i)) set(d->sparse, i);
    for (int64_t i = 0, count = pl_hf_list(m, "mlp_only_layers"); i < count; i++) {
        int64_t layer = pl_hf_list_int(m, "mlp_only_layers", i, -1);
        if (layer >= 0 && layer < PL_HF_MAX_LAYERS) d->sparse[layer / 64] &= ~(1ull << layer % 64);
    }
}

static int64_t size_of_beside(pl_decoding *d) {
    const pl_mixture *mix = d->plan->mixture;
    if (d->m->guessed)
        return pl_hf_int(d->m, "shared_expert_intermediate_size|shared_intermediate_size", 0);
    if (mix->beside == PL_BESIDE_NONE) return 0;
    int64_t count = mix->beside_count ? pl_hf_int(d->m, mix->beside_count, 0) : 1;
    int64_t size = mix->beside_inner ? pl_hf_int(d->m, mix->beside_inner, 0) : d->inner, product;
    if (__builtin_mul_overflow(count, size, &product) || product > (int64_t)1 << 40) {
        pl_hf_refuse(d->m, mix->beside_count ? mix->beside_count : mix->beside_inner,
                     "%lld shared experts are too many", (long long)count);
        return 0;
    }
    return product;
}

static void check_chosen(pl_decoding *d, const char *key) {
    if (d->chosen < 1 || d->chosen > d->experts)
        pl_hf_refuse(d->m, key, "%lld of %lld experts", (long long)d->chosen,
                     (long long)d->experts);
}

void pl_decoder_read_experts(pl_decoding *d) {
    pl_hf *m = d->m;
    const pl_mixture *mix = d->plan->mixture;
    const char *experts = mix->experts ? mix->experts : PL_HF_EXPERTS;
    const char *chosen = mix->chosen ? mix->chosen : PL_HF_CHOSEN;
    bool may_lack = mix->beside == PL_BESIDE_LAYER; /* Granite's hybrids may have none */
    d->experts = may_lack ? pl_hf_int(m, experts, 0) : pl_hf_need(m, experts);
    d->chosen = d->experts ? pl_hf_int(m, chosen, 2) : 0;
    if (d->experts > 0) check_chosen(d, chosen);
    d->expert_inner = d->inner;
    if (m->guessed)
        d->expert_inner = pl_hf_int(m, "moe_intermediate_size", d->inner);
    else if (mix->inner)
        d->expert_inner = pl_hf_need(m, mix->inner);
    if (d->expert_inner < 1) pl_hf_refuse(m, "moe_intermediate_size", "expected at least 1");
    d->shared_inner = size_of_beside(d);
    if (mix->dense_inner) d->dense_inner = pl_hf_int(m, mix->dense_inner, d->inner);
    d->experts_type = pl_decoder_type(d, "Experts");
    read_layers(d);
}

bool pl_decoder_has_experts(pl_decoding *d, int64_t layer) {
    return d->sparse[layer / 64] >> layer % 64 & 1;
}
