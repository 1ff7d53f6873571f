/* pictures: see pictures.h.
 *
 * Rules: transformers 5.22, forward of models/<package>/modeling_<package>.py's Model and
 * ForConditionalGeneration, which are all of one plan: embed the tokens, run the tower, put its
 * features in the tokens' places (masked_scatter), run the language model, cross entropy over
 * all its tokens. Called as processors have it: one picture to a sample, no padding.
 *
 * Left out: videos, several pictures to a sample, features given ready made. */
#include "import/families/pictures.h"

const char *pl_beside_type(const pl_beside *o, const char *what) {
    return pl_build_text(o->m->b, "transformers.models.%s.modeling_%s.%s%s", o->package, o->package,
                         o->prefix, what);
}

bool pl_beside_open(pl_beside *o, pl_hf *m, const char *package, const char *prefix) {
    *o = (pl_beside){.m = m,
                     .package = package,
                     .prefix = prefix,
                     .features = PL_NONE,
                     .weight = PL_NONE,
                     .pictures = m->task == PL_TASK_PICTURES};
    const char *outer = pl_hf_within(m, PL_HF_TEXT);
    const pl_decoder *plan = pl_decoder_plan(pl_hf_string(m, "model_type", ""));
    if (!plan) {
        pl_hf_refuse(m, "model_type", "no language model that is built inside another");
        pl_hf_within(m, outer);
        return false;
    }
    o->attn = plan->eager_only && m->attn == PL_ATTN_SDPA ? PL_ATTN_EAGER : m->attn;
    pl_decoder_read(&o->text, m, plan);
    o->vocab = pl_hf_need(m, "vocab_size");
    pl_hf_within(m, outer);
    if (o->pictures) {
        int64_t tokens = m->family->picture(m).tokens;
        if (tokens > m->seq)
            pl_build_fail(m->b, PL_USAGE, "seq",
                          "%lld is shorter than the %lld tokens that stand for a picture",
                          (long long)m->seq, (long long)tokens);
    }
    o->ids = pl_hf_input_ids(m);
    return !pl_build_failed(m->b);
}

void pl_beside_embed(pl_beside *o) {
    const char *outer = pl_hf_within(o->m, PL_HF_TEXT);
    pl_line(o->m->b, "1: inputs_embeds = self.get_input_embeddings()(input_ids)");
    o->embeds = pl_decoder_embed(&o->text, "language_model.embed_tokens", o->ids, &o->weight);
    pl_hf_within(o->m, outer);
}

void pl_beside_merge(pl_beside *o, int32_t features) {
    pl_builder *b = o->m->b;
    o->features = features;
    pl_line(b, "1: special_image_mask = input_ids == self.config.image_token_id");
    int32_t mask = pl_aten_scalar(b, "aten.eq.Scalar", o->ids, 0);
    pl_line(b, "2: special_image_mask = special_image_mask.unsqueeze(-1)");
    mask = pl_aten_unsqueeze(b, mask, -1);
    pl_line(b, "2: inputs_embeds = inputs_embeds.masked_scatter(special_image_mask, features)");
    pl_call(b, "aten.masked_scatter.default");
    pl_call_tensor(b, "self", o->embeds);
    pl_call_tensor(b, "mask", mask);
    pl_call_tensor(b, "source", features);
    o->embeds = pl_call_result_like(b, o->embeds);
}

int32_t pl_beside_text(pl_beside *o) {
    const char *outer = pl_hf_within(o->m, PL_HF_TEXT);
    pl_hf_attention of_tower = o->m->attn;
    o->m->attn = o->attn;
    int32_t x = pl_decoder_model(&o->text, "language_model", o->embeds);
    o->m->attn = of_tower;
    pl_hf_within(o->m, outer);
    return x;
}

/* An alias of it, which takes no memory, made after what it outlives. */
void pl_beside_hold(pl_beside *o, int32_t value) {
    if (value == PL_NONE) return;
    pl_line(o->m->b, "return");
    pl_aten_unary(o->m->b, "aten.detach.default", value);
}

/* The whole model's own head: what the family alone does to its logits (soft caps, scales) is not
 * done here. */
void pl_beside_head(pl_beside *o, int32_t x) {
    pl_hf *m = o->m;
    bool tied = pl_hf_bool(m, "tie_word_embeddings", o->text.plan->tied);
    pl_line(m->b, "logits = self.lm_head(hidden_states)");
    pl_hf_causal_loss(m, tied ? pl_hf_tied_linear(m, "lm_head", x, o->weight, o->vocab, false)
                              : pl_hf_linear(m, "lm_head", x, o->vocab, false));
    if (o->features != PL_NONE) pl_build_output(m->b, o->features); /* image_hidden_states */
}

void pl_beside_build(pl_hf *m, const pl_beside_plan *plan) {
    pl_builder *b = m->b;
    pl_beside o;
    if (!pl_beside_open(&o, m, plan->package, plan->prefix)) return;
    int32_t held[2] = {PL_NONE, PL_NONE};
    pl_module_enter(b, "", pl_beside_type(&o, "ForConditionalGeneration"));
    pl_module_children(b, "model lm_head");
    pl_module_enter(b, "model", pl_beside_type(&o, "Model"));
    pl_module_children(b, plan->children);
    pl_beside_embed(&o);
    if (!o.pictures) pl_build_uncalled(b, true);
    int32_t features = plan->features(&o, held);
    if (o.pictures)
        pl_beside_merge(&o, features);
    else
        pl_build_uncalled(b, false);
    if (plan->prepare) plan->prepare(&o);
    int32_t x = pl_beside_text(&o);
    for (int i = 0; o.pictures && i < 2; i++) pl_beside_hold(&o, held[i]);
    pl_module_leave(b);
    pl_beside_head(&o, x);
    pl_module_leave(b);
}
