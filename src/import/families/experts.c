/* experts: the feed-forward layer of Mixtral and Qwen's mixtures: a router, stacked experts, in
 * Qwen 2 a shared one beside them.
 *
 * Rules: transformers 5.22, integrations/moe.py: tokens are sorted by expert and all experts run in
 * one grouped matrix product (grouped_mm, the default where the card is of compute capability 8 or
 * later). Its sizes do not depend on where tokens go, so even routing is no loss here.
 *
 * Left out: the loop over experts (experts_implementation "eager"), jitter of the router. */
#include "import/families/decoder.h"

typedef struct routing {
    int32_t scores, chosen; /* [tokens, k] */
} routing;

/* x [tokens, width] */
static routing route(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    bool mixtral = !d->plan->qkv_bias && !d->plan->qk; /* normalises always, stays float32 */
    bool normed = mixtral || pl_hf_bool(d->m, "norm_topk_prob", false);
    int64_t tokens = pl_built_size(b, x, 0);
    pl_module_enter(b, "gate", pl_decoder_type(d, "TopKRouter"));
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(d->experts, d->width));
    pl_line(b, "hidden_states = hidden_states.reshape(-1, self.hidden_dim)");
    x = pl_aten_reshape(b, x, PL_SIZES(-1, d->width));
    pl_line(b, "router_logits = F.linear(hidden_states, self.weight)");
    int32_t logits = pl_aten_linear(b, x, weight, PL_NONE);
    pl_line(b, "router_probs = softmax(router_logits.float())");
    int32_t probs = mixtral ? pl_aten_softmax(b, pl_aten_to(b, logits, PL_DT_F32), -1, 0)
                            : pl_aten_softmax(b, logits, -1, PL_DT_F32);
    pl_line(b, "1: router_top_value, router_indices = torch.topk(");
    pl_call(b, "aten.topk.default");
    pl_call_tensor(b, "self", probs);
    pl_call_int(b, "k", d->chosen);
    int32_t scores = pl_call_result(b, PL_DT_F32, PL_SIZES(tokens, d->chosen));
    int32_t chosen = pl_call_result(b, PL_DT_I64, PL_SIZES(tokens, d->chosen));
    if (normed) {
        pl_line(b, "");
        int32_t sum = pl_aten_reduce(b, "aten.sum.dim_IntList", scores, -1, true);
        scores = pl_aten_binary(b, "aten.div_.Tensor", scores, sum);
    }
    if (!mixtral) {
        pl_line(b, "2: router_top_value = router_top_value.to(router_logits.dtype)");
        scores = pl_aten_type_as(b, scores, logits);
    }
    pl_module_leave(b);
    return (routing){scores, chosen};
}

/* [S, in] by the experts' [experts, out, in] */
static int32_t grouped(pl_builder *b, int32_t x, int32_t weight, int32_t offsets) {
    int64_t rows = pl_built_size(b, x, 0), out = pl_built_size(b, weight, 1);
    pl_dtype type = pl_built(b, weight)->dtype;
    int32_t turned = pl_aten_transpose(b, weight, -2, -1);
    x = pl_aten_type_as(b, x, weight);
    pl_call(b, "transformers.grouped_mm_fallback.default");
    pl_call_tensor(b, "input", x);
    pl_call_tensor(b, "weight", turned);
    pl_call_tensor(b, "offs", offsets);
    return pl_call_result(b, type, PL_SIZES(rows, out));
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

/* x [tokens, width] to the same */
static int32_t run_experts(pl_decoding *d, int32_t x, routing r) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t tokens = pl_built_size(b, x, 0);
    pl_module_enter(b, "experts", d->experts_type);
    int32_t gate_up =
        pl_build_parameter(b, "gate_up_proj", PL_SIZES(d->experts, 2 * d->expert_inner, d->width));
    int32_t down =
        pl_build_parameter(b, "down_proj", PL_SIZES(d->experts, d->width, d->expert_inner));
    int32_t from, parts[2];
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
    pl_line(b, "1: proj_out = _grouped_linear(");
    y = grouped(b, y, gate_up, offsets);
    pl_line(b, "2: proj_out = self._apply_gate(proj_out)");
    pl_aten_chunk(b, y, 2, -1, parts);
    y = pl_aten_mul(b, pl_hf_activation(m, "act_fn", d->act, parts[0]), parts[1]);
    pl_line(b, "3: proj_out = _grouped_linear(");
    y = grouped(b, y, down, offsets);
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

static int32_t shared_expert(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_module_enter(m->b, "shared_expert", d->mlp_type);
    pl_line(m->b, "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))");
    int32_t gate = pl_hf_linear(m, "gate_proj", x, d->shared_inner, false);
    gate = pl_hf_activation(m, "act_fn", d->act, gate);
    int32_t up = pl_hf_linear(m, "up_proj", x, d->shared_inner, false);
    int32_t y = pl_hf_linear(m, "down_proj", pl_aten_mul(m->b, gate, up), d->width, false);
    pl_module_leave(m->b);
    return y;
}

int32_t pl_decoder_experts(pl_decoding *d, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t shared = PL_NONE;
    pl_module_enter(b, "mlp", pl_decoder_type(d, "SparseMoeBlock"));
    pl_module_children(b, d->plan->qk ? "experts gate"
                                      : "gate experts shared_expert shared_expert_gate");
    pl_line(b, "1: hidden_states = hidden_states.view(-1, hidden_dim)");
    int32_t y = pl_aten_view(b, x, PL_SIZES(-1, d->width)), flat = y;
    if (d->shared_inner > 0) shared = shared_expert(d, flat);
    routing r = route(d, flat);
    y = run_experts(d, flat, r);
    if (d->shared_inner > 0) {
        pl_line(b, "2: shared_expert_output = F.sigmoid(self.shared_expert_gate(x)) * shared");
        int32_t gate = pl_hf_linear(m, "shared_expert_gate", flat, 1, false);
        shared = pl_aten_mul(b, pl_aten_unary(b, "aten.sigmoid.default", gate), shared);
        pl_line(b, "1: expert_output = expert_output + shared_expert_output");
        y = pl_aten_add(b, y, shared);
    }
    pl_line(b, "2: hidden_states = hidden_states.reshape(batch_size, sequence_length, hidden_dim)");
    y = pl_aten_reshape(b, y, PL_SIZES(m->batch, m->seq, d->width));
    pl_module_leave(b);
    return y;
}

void pl_decoder_read_experts(pl_decoding *d) {
    pl_hf *m = d->m;
    d->experts = pl_hf_need(m, PL_HF_EXPERTS);
    d->chosen = pl_hf_int(m, PL_HF_CHOSEN, 2);
    if (d->chosen < 1 || d->chosen > d->experts)
        pl_hf_refuse(m, PL_HF_CHOSEN, "%lld of %lld experts", (long long)d->chosen,
                     (long long)d->experts);
    d->expert_inner = d->inner;
    if (m->guessed)
        d->expert_inner = pl_hf_int(m, "moe_intermediate_size", d->inner);
    else if (d->plan->own_expert_size)
        d->expert_inner = pl_hf_need(m, "moe_intermediate_size");
    if (d->expert_inner < 1) pl_hf_refuse(m, "moe_intermediate_size", "expected at least 1");
    d->shared_inner = pl_hf_int(m, "shared_expert_intermediate_size|shared_intermediate_size", 0);
    d->experts_type = pl_decoder_type(d, "Experts");
    for (int64_t i = 0, count = pl_hf_list(m, "mlp_only_layers"); i < count; i++) {
        int64_t layer = pl_hf_list_int(m, "mlp_only_layers", i, -1);
        if (layer >= 0 && layer < PL_HF_MAX_LAYERS) d->dense[layer / 64] |= 1ull << layer % 64;
    }
}

/* Whether a layer has experts: all, or each decoder_sparse_step-th less those in mlp_only_layers.
 */
bool pl_decoder_has_experts(pl_decoding *d, int64_t layer) {
    pl_hf *m = d->m;
    int64_t step = pl_hf_int(m, "decoder_sparse_step", 1);
    if (d->dense[layer / 64] >> layer % 64 & 1) return false;
    return step < 1 || (layer + 1) % step == 0;
}
