/* routers: which experts a token goes to, and with what weight: see experts.h.
 *
 * Rules: transformers 5.22, the TopKRouter classes of models/<package>/modeling_<package>.py. What
 * they compute is [tokens, experts] at the most, in float32 mostly; a function's names keep it until the
 * router returns.
 *
 * Left out: jitter. */
#include "import/families/experts.h"

#include <math.h>
#include <string.h>

/* Values and indices of the k largest of the last dimension. */
static int32_t top(pl_builder *b, int32_t x, int64_t k, bool sorted, int32_t *indices) {
    pl_dtype type = pl_built(b, x)->dtype;
    int64_t sizes[4];
    int dims = pl_built_dims(b, x);
    for (int i = 0; i < dims && i < 4; i++) sizes[i] = pl_built_size(b, x, i);
    if (dims < 1 || dims > 4) return *indices = PL_NONE;
    sizes[dims - 1] = k;
    pl_call(b, "aten.topk.default");
    pl_call_tensor(b, "self", x);
    pl_call_int(b, "k", k);
    pl_call_int(b, "dim", -1);
    pl_call_bool(b, "largest", true);
    pl_call_bool(b, "sorted", sorted);
    int32_t values = pl_call_result(b, type, dims, sizes);
    *indices = pl_call_result(b, PL_DT_I64, dims, sizes);
    return values;
}

/* x.zeros_like().scatter_(1, index, 1) */
static int32_t ones_at(pl_builder *b, int32_t x, int32_t index) {
    pl_line(b, "group_mask = torch.zeros_like(group_scores)");
    pl_call(b, "aten.zeros_like.default");
    pl_call_tensor(b, "self", x);
    int32_t mask = pl_call_result_like(b, x);
    pl_line(b, "group_mask.scatter_(1, group_idx, 1)");
    pl_call(b, "aten.scatter_.value");
    pl_call_tensor(b, "self", mask);
    pl_call_int(b, "dim", 1);
    pl_call_tensor(b, "index", index);
    pl_call_float(b, "value", 1);
    return pl_call_result_like(b, mask);
}

/* Scores of experts outside the best groups out of the race. scores [tokens, experts] */
static int32_t best_groups(pl_decoding *d, int32_t scores, pl_router_groups kind) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int64_t groups = pl_hf_int(m, "n_group", 1), kept = pl_hf_int(m, "topk_group", 1);
    int64_t each = groups > 0 ? d->experts / groups : 0;
    bool good = groups > 0 && kept > 0 && kept <= groups && each * groups == d->experts &&
                each >= (kind == PL_GROUPS_TOP2 ? 2 : 1);
    if (!good) {
        pl_hf_refuse(m, "n_group", "%lld experts in %lld groups, of which the best %lld",
                     (long long)d->experts, (long long)groups, (long long)kept);
        return scores;
    }
    int64_t tokens = pl_built_size(b, scores, 0);
    int32_t index;
    pl_line(b, "1: group_scores = scores_for_choice.view(-1, groups, each)");
    int32_t in_groups = pl_aten_view(b, scores, PL_SIZES(-1, groups, each)), sums;
    if (kind == PL_GROUPS_TOP2) {
        sums = pl_aten_reduce(b, "aten.sum.dim_IntList", top(b, in_groups, 2, true, &index), -1,
                              false);
    } else {
        pl_call(b, "aten.max.dim");
        pl_call_tensor(b, "self", in_groups);
        pl_call_int(b, "dim", -1);
        sums = pl_call_result(b, PL_DT_F32, PL_SIZES(tokens, groups));
        pl_call_result(b, PL_DT_I64, PL_SIZES(tokens, groups));
    }
    pl_line(b, "group_idx = torch.topk(group_scores, k=self.topk_group)[1]");
    top(b, sums, kept, false, &index);
    int32_t mask = ones_at(b, sums, index);
    pl_line(b, "score_mask = group_mask.unsqueeze(-1).expand().reshape()");
    mask = pl_aten_expand(b, pl_aten_unsqueeze(b, mask, -1), PL_SIZES(-1, groups, each));
    mask = pl_aten_reshape(b, mask, PL_SIZES(-1, d->experts));
    pl_line(b, "2: scores_for_choice = scores_for_choice.masked_fill(~score_mask.bool())");
    mask = pl_aten_unary(b, "aten.bitwise_not.default", pl_aten_to(b, mask, PL_DT_BOOL));
    return pl_aten_masked_fill(b, scores, mask, kind == PL_GROUPS_TOP2 ? -INFINITY : 0);
}

/* ---- scores ---- */

static int32_t linear_weight(pl_decoding *d, const pl_router *r, int32_t *shift) {
    pl_builder *b = d->m->b;
    if (r->linear) pl_module_enter(b, r->linear, "torch.nn.modules.linear.Linear");
    int32_t weight = pl_build_parameter(b, "weight", PL_SIZES(d->experts, d->width));
    *shift = r->weight_bias ? pl_build_parameter(b, "bias", PL_SIZES(d->experts)) : PL_NONE;
    if (r->linear) pl_module_leave(b);
    return weight;
}

static int32_t logits_of(pl_decoding *d, const pl_router *r, int32_t x) {
    pl_builder *b = d->m->b;
    int32_t shift, weight = linear_weight(d, r, &shift);
    pl_line(b, "1: router_logits = F.linear(hidden_states, self.weight)");
    if (r->logits == PL_LOGITS_FLOAT)
        return pl_aten_linear(b, pl_aten_to(b, x, PL_DT_F32), pl_aten_to(b, weight, PL_DT_F32),
                              shift);
    int32_t logits = pl_aten_linear(b, x, weight, shift);
    return r->logits == PL_LOGITS_AFTER ? pl_aten_to(b, logits, PL_DT_F32) : logits;
}

static int32_t capped(pl_decoding *d, const pl_router *r, int32_t logits) {
    pl_builder *b = d->m->b;
    double cap = r->cap ? pl_hf_float(d->m, r->cap, 0) : 0;
    if (!(cap > 0)) return logits;
    pl_line(b, "2: router_logits = torch.tanh(router_logits / cap) * cap");
    logits = pl_aten_scalar(b, "aten.div.Tensor", logits, cap);
    return pl_aten_scalar(b, "aten.mul.Tensor", pl_aten_unary(b, "aten.tanh.default", logits), cap);
}

static int32_t scores_of(pl_decoding *d, const pl_router *r, int32_t logits) {
    pl_builder *b = d->m->b;
    pl_line(b, "scores = router_logits.softmax()");
    switch (r->scores) {
    case PL_SCORES_SOFTMAX: return pl_aten_softmax(b, logits, -1, PL_DT_F32);
    case PL_SCORES_FLOATED: return pl_aten_softmax(b, pl_aten_to(b, logits, PL_DT_F32), -1, 0);
    case PL_SCORES_SIGMOID: return pl_aten_unary(b, "aten.sigmoid.default", logits);
    case PL_SCORES_SIGMOID_FLOAT:
        return pl_aten_unary(b, "aten.sigmoid.default", pl_aten_to(b, logits, PL_DT_F32));
    default: return logits;
    }
}

static int32_t bias_of(pl_decoding *d, const pl_router *r) {
    pl_builder *b = d->m->b;
    int32_t bias;
    switch (r->bias) {
    case PL_BIAS_STATICS:
        pl_module_enter(b, "moe_statics", pl_decoder_type(d, "Statics"));
        bias = pl_build_parameter(b, "e_score_correction_bias", PL_SIZES(1, d->experts));
        pl_build_freeze(b, bias);
        bias = pl_aten_squeeze(b, bias, 0);
        pl_module_leave(b);
        return bias;
    case PL_BIAS_FROZEN:
        bias = pl_build_parameter(b, "e_score_correction_bias", PL_SIZES(d->experts));
        pl_build_freeze(b, bias);
        return bias;
    case PL_BIAS_BUFFER:
        return pl_build_buffer(b, "e_score_correction_bias", PL_DT_F32, true, PL_SIZES(d->experts));
    default: return d->router_bias;
    }
}

/* ---- weights ---- */

static int32_t over_sum(pl_decoding *d, const pl_router *r, int32_t weights) {
    pl_builder *b = d->m->b;
    bool named = r->least > 0;
    pl_line(b, named ? "denominator = topk_weights.sum(dim=-1, keepdim=True) + 1e-20" : "");
    int32_t sum = pl_aten_reduce(b, "aten.sum.dim_IntList", weights, -1, true);
    if (r->sum_clamped) {
        pl_call(b, "aten.clamp.default");
        pl_call_tensor(b, "self", sum);
        pl_call_float(b, "min", 1e-12);
        sum = pl_call_result_like(b, sum);
    }
    if (named) sum = pl_aten_scalar(b, "aten.add.Tensor", sum, r->least);
    pl_line(b, "3: topk_weights = topk_weights / denominator");
    return pl_aten_binary(b, r->sum_copied ? "aten.div.Tensor" : "aten.div_.Tensor", weights, sum);
}

/* Of the chosen logits, where the scores are taken of them alone. */
static int32_t late_scores(pl_decoding *d, const pl_router *r, int32_t weights) {
    pl_builder *b = d->m->b;
    bool chosen = r->scores == PL_SCORES_LATE_CHOSEN;
    bool sigmoid =
        r->scores == PL_SCORES_LATE_SIGMOID ||
        (chosen && strcmp(pl_hf_string(d->m, "expert_selection_fn", "softmax"), "sigmoid") == 0);
    pl_line(b, "2: topk_weights = torch.softmax(top_k_logits)");
    if (sigmoid) {
        weights = pl_aten_unary(b, "aten.sigmoid.default", weights);
        return chosen && pl_hf_bool(d->m, "norm_topk_prob", true) ? over_sum(d, r, weights)
                                                                  : weights;
    }
    if (r->scores != PL_SCORES_LATE && !chosen) return weights;
    return pl_aten_softmax(b, weights, -1, chosen ? PL_DT_F32 : 0);
}

static pl_routing choose(pl_decoding *d, const pl_router *r, int32_t x) {
    pl_hf *m = d->m;
    pl_builder *b = m->b;
    int32_t logits = capped(d, r, logits_of(d, r, x)), scores = scores_of(d, r, logits), chosen;
    int32_t by = scores, weights;
    bool gathered = r->bias != PL_BIAS_NONE;
    if (gathered) {
        pl_line(b, "1: scores_for_choice = scores + self.e_score_correction_bias");
        by = pl_aten_binary(b, "aten.add.Tensor", scores, bias_of(d, r));
    }
    bool limited = r->groups == PL_GROUPS_MAX &&
                   strcmp(pl_hf_string(m, "topk_method", "greedy"), "group_limited_greedy") == 0;
    if (r->groups == PL_GROUPS_TOP2 || limited) by = best_groups(d, by, r->groups);
    pl_line(b, "1: topk_weights, topk_indices = torch.topk(");
    weights = top(b, by, d->chosen, false, &chosen);
    if (gathered) {
        pl_line(b, "2: topk_weights = scores.gather(1, topk_indices)");
        weights = pl_aten_gather(b, scores, 1, chosen);
    }
    weights = late_scores(d, r, weights);
    if (r->sum == PL_SUM_ALWAYS ||
        (r->sum == PL_SUM_ASKED && pl_hf_bool(m, "norm_topk_prob", false)))
        weights = over_sum(d, r, weights);
    if (r->scale) {
        pl_line(b, "4: topk_weights = topk_weights * self.routed_scaling_factor");
        weights = pl_aten_scalar(b, "aten.mul.Tensor", weights, pl_hf_float(m, r->scale, 1));
    }
    pl_line(b, "5: topk_weights = topk_weights.to(dtype)");
    if (r->cast != PL_CAST_NONE)
        weights = pl_aten_type_as(b, weights, r->cast == PL_CAST_LOGITS ? logits : x);
    return (pl_routing){weights, chosen};
}

pl_routing pl_decoder_route(pl_decoding *d, int32_t x) {
    pl_builder *b = d->m->b;
    const pl_router *r = &d->plan->mixture->router;
    pl_module_enter(b, r->name ? r->name : "gate", pl_decoder_type(d, r->type));
    pl_line(b, "hidden_states = hidden_states.reshape(-1, self.hidden_dim)");
    x = pl_aten_reshape(b, x, PL_SIZES(-1, d->width));
    pl_autocast region = PL_AUTOCAST_OFF;
    if (r->no_autocast) region = pl_build_autocast(b, PL_AUTOCAST_OFF);
    pl_routing chosen = choose(d, r, x);
    if (r->no_autocast) pl_build_autocast(b, region);
    pl_module_leave(b);
    return chosen;
}
