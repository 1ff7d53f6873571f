/* llava: pictures of one size beside text: a tower of CLIP's or SigLIP's, a projector, a language
 * model: LLaVA, VipLLaVA, PaliGemma, Gemma 3.
 *
 * Rules: transformers 5.22, models/<package>/modeling_<package>.py; masking_utils.py (blocks of
 * tokens that see each other). Processors give PaliGemma and Gemma 3 the kinds of tokens too
 * (token_type_ids), with which they make their masks.
 *
 * Left out: pictures cut into several (pan and scan), other sizes than the tower's. */
#include <string.h>

#include "import/families/encoder.h"
#include "import/families/pictures.h"

/* ---- the tower ---- */

static void grid_of(pl_hf *m, int64_t sides[2]) {
    int64_t side = pl_hf_size(m, "image_size", 224), patch = pl_hf_size(m, "patch_size", 16);
    if (side > 1 << 16 || patch > side)
        pl_hf_refuse(m, patch > side ? "patch_size" : "image_size",
                     "expected a side of up to %d, and patches within it", 1 << 16);
    sides[0] = side;
    sides[1] = pl_build_failed(m->b) ? 1 : side / patch;
}

static bool has_class_token(pl_hf *m) {
    return strcmp(pl_hf_string(m, "model_type", ""), "clip_vision_model") == 0;
}

static pl_hf_tower tower(pl_beside *o) {
    pl_hf *m = o->m;
    int64_t sides[2];
    const char *outer = pl_hf_within(m, PL_HF_VISION);
    grid_of(m, sides);
    int32_t pixels = pl_hf_pixels(m, pl_hf_size(m, "num_channels", 3), sides[0], sides[0]);
    pl_line(m->b, "");
    pl_hf_tower t =
        pl_hf_picture_tower(m, pl_hf_string(m, "model_type", ""), "vision_tower", pixels);
    pl_hf_within(m, outer);
    return t;
}

/* The tower's last state: [B, patches, width]. */
static int32_t last_state(pl_beside *o, int32_t held[2]) {
    return held[0] = tower(o).last;
}

/* ---- LLaVA, VipLLaVA ---- */

static bool whole_state(pl_hf *m) {
    return strcmp(pl_hf_string(m, "vision_feature_select_strategy", "default"), "default") != 0;
}

static pl_hf_picture llava_picture(pl_hf *m) {
    int64_t sides[2];
    const char *outer = pl_hf_within(m, PL_HF_VISION);
    grid_of(m, sides);
    int64_t states = sides[1] * sides[1] + has_class_token(m);
    pl_hf_within(m, outer);
    return (pl_hf_picture){sides[0], sides[0], states - !whole_state(m)};
}

/* States of one or more layers side by side, without the first token: [B, tokens, widths]. */
static int32_t chosen_states(pl_beside *o, const char *key, bool whole, int32_t held[2]) {
    pl_hf *m = o->m;
    pl_builder *b = m->b;
    enum { MOST = 64 };
    int32_t parts[MOST];
    int64_t count = pl_hf_list(m, key);
    bool several = count > 0;
    pl_hf_tower t = tower(o);
    if (count > MOST) pl_hf_refuse(m, key, "more than %d are not built", MOST);
    if (!t.states || pl_build_failed(b)) return PL_NONE;
    held[0] = t.states[t.layers];
    pl_line(b, "1: selected_image_feature = image_outputs.hidden_states[vision_feature_layer]");
    for (int64_t i = 0; i < (several ? count : 1); i++) {
        int32_t x = t.states[pl_hf_from_end(m, key, i, t.layers + 1, -2)];
        parts[i] = whole ? x : pl_aten_slice(b, x, 1, 1, INT64_MAX);
    }
    return several ? pl_aten_cat(b, (int)count, parts, -1) : parts[0];
}

static int32_t two_layers(pl_beside *o, int32_t x, bool bias) {
    pl_hf *m = o->m;
    x = pl_hf_linear(m, "linear_1", x, o->text.width, bias);
    x = pl_hf_activation(m, "act", pl_hf_string(m, "projector_hidden_act", "gelu"), x);
    return pl_hf_linear(m, "linear_2", x, o->text.width, bias);
}

/* [B, tokens, width], a list of its samples joined to [B tokens, width]. */
static int32_t joined(pl_beside *o, int32_t x) {
    pl_builder *b = o->m->b;
    int64_t batch = o->m->batch, tokens = pl_built_size(b, x, 1), width = pl_built_size(b, x, -1);
    int32_t *parts = pl_build_array(b, batch, sizeof *parts);
    if (!parts) return PL_NONE;
    pl_dtype dtype = pl_built(b, x)->dtype;
    pl_line(b, "");
    pl_call(b, "aten.unbind.int");
    pl_call_tensor(b, "self", x);
    for (int64_t i = 0; i < batch; i++)
        parts[i] = pl_call_result(b, dtype, PL_SIZES(tokens, width));
    pl_call_list(b);
    pl_line(b, "2: image_features = torch.cat(image_features, dim=0)");
    return pl_aten_cat(b, (int)batch, parts, 0);
}

static int32_t llava_features(pl_beside *o, int32_t held[2]) {
    pl_hf *m = o->m;
    int32_t x = chosen_states(o, "vision_feature_layer", whole_state(m), held);
    pl_line(m->b, "");
    pl_module_enter(m->b, "multi_modal_projector", pl_beside_type(o, "MultiModalProjector"));
    pl_line(m->b, "hidden_states = self.linear_2(self.act(self.linear_1(image_features)))");
    x = two_layers(o, x, pl_hf_bool(m, "multimodal_projector_bias", true));
    pl_module_leave(m->b);
    return joined(o, held[1] = x);
}

static pl_hf_picture vipllava_picture(pl_hf *m) {
    int64_t sides[2];
    const char *outer = pl_hf_within(m, PL_HF_VISION);
    grid_of(m, sides);
    int64_t tokens = sides[1] * sides[1] + has_class_token(m) - 1;
    pl_hf_within(m, outer);
    return (pl_hf_picture){sides[0], sides[0], tokens};
}

static int32_t vipllava_features(pl_beside *o, int32_t held[2]) {
    pl_hf *m = o->m;
    int32_t x = chosen_states(o, "vision_feature_layers", false, held);
    pl_line(m->b, "");
    pl_module_enter(m->b, "multi_modal_projector", pl_beside_type(o, "MultiModalProjector"));
    pl_line(m->b, "hidden_states = self.projector_layernorm(hidden_states)");
    x = pl_hf_layer_norm(m, "projector_layernorm", x,
                         pl_hf_float(m, "projector_layernorm_eps", 1e-5), true);
    x = two_layers(o, x, true);
    pl_module_leave(m->b);
    return held[1] = x;
}

/* ---- masks of tokens that see each other ---- */

/* [B,1,S,S]: of what is before, and of tokens of the same block (block [B,S], -1: of none); within
 * the window, where it slides. */
static int32_t block_mask(pl_beside *o, int32_t block, bool sliding) {
    pl_hf *m = o->m;
    pl_builder *b = m->b;
    int64_t seq = m->seq;
    pl_line(b, sliding ? "sliding_mask = create_causal_mask(" : "full_mask = create_causal_mask(");
    int32_t at = pl_aten_arange(b, seq), rows = pl_aten_arange(b, m->batch);
    int32_t q = pl_aten_unsqueeze(b, at, 1), kv = pl_aten_unsqueeze(b, at, 0);
    int32_t row = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, rows, -1), -1); /* [B,1,1] */
    int32_t mask = pl_aten_binary(b, "aten.le.Tensor", kv, q);
    int32_t of_q = pl_aten_index(b, block, 2, (int32_t[]){row, pl_aten_unsqueeze(b, q, 0)});
    int32_t of_kv = pl_aten_index(b, block, 2, (int32_t[]){row, pl_aten_unsqueeze(b, kv, 0)});
    int32_t same = pl_aten_binary(b, "aten.eq.Tensor", of_q, of_kv);
    same = pl_aten_binary(b, "aten.__and__.Tensor", same,
                          pl_aten_scalar(b, "aten.ge.Scalar", of_q, 0));
    mask = pl_aten_binary(b, "aten.__or__.Tensor", mask, same);
    if (sliding) {
        int32_t from = pl_aten_scalar(b, "aten.sub.Tensor", q, (double)o->text.window);
        mask = pl_aten_binary(b, "aten.__and__.Tensor", mask,
                              pl_aten_binary(b, "aten.gt.Tensor", kv, from));
    }
    mask = pl_aten_unsqueeze(b, mask, 1);
    if (o->attn == PL_ATTN_EAGER) {
        pl_dtype dtype = pl_built(b, o->embeds)->dtype;
        int32_t zero = pl_aten_make(b, "aten.zeros.default", dtype, 0, NULL, 0);
        int32_t least = pl_aten_make(b, "aten.full.default", dtype, 0, NULL, -3e38);
        mask = pl_aten_where(b, mask, pl_aten_type_as(b, zero, o->embeds),
                             pl_aten_type_as(b, least, o->embeds));
    }
    return mask;
}

/* kinds: "token_type_ids" [B,S]. */
static void block_masks(pl_beside *o, int32_t kinds) {
    pl_builder *b = o->m->b;
    if (o->attn == PL_ATTN_FLASH2) return;
    pl_line(b, "block_sequence_ids = torch.where(token_type_ids == 0, 0, -1)");
    int32_t none = pl_aten_make(b, "aten.full.default", PL_DT_I64, 0, NULL, -1),
            zero = pl_aten_make(b, "aten.full.default", PL_DT_I64, 0, NULL, 0);
    int32_t block = pl_aten_where(b, pl_aten_scalar(b, "aten.eq.Scalar", kinds, 0), zero, none);
    bool full = false, sliding = false;
    for (int64_t i = 0; i < o->text.layers; i++)
        *(pl_decoder_slides(&o->text, i) ? &sliding : &full) = true;
    o->text.masked = true;
    if (full) o->text.mask[0] = block_mask(o, block, false);
    if (sliding) o->text.mask[1] = block_mask(o, block, true);
}

static int32_t kinds_of_tokens(pl_hf *m) {
    return pl_build_input(m->b, "token_type_ids", PL_DT_I64, PL_SIZES(m->batch, m->seq));
}

/* ---- PaliGemma ---- */

static pl_hf_picture paligemma_picture(pl_hf *m) {
    int64_t sides[2];
    const char *outer = pl_hf_within(m, PL_HF_VISION);
    grid_of(m, sides);
    pl_hf_within(m, outer);
    return (pl_hf_picture){sides[0], sides[0], sides[1] * sides[1]};
}

static int32_t paligemma_features(pl_beside *o, int32_t held[2]) {
    pl_hf *m = o->m;
    int32_t x = last_state(o, held);
    pl_line(m->b, "");
    pl_module_enter(m->b, "multi_modal_projector", pl_beside_type(o, "MultiModalProjector"));
    pl_line(m->b, "hidden_states = self.linear(image_features)");
    x = pl_hf_linear(m, "linear", x, o->text.width, true);
    pl_module_leave(m->b);
    return x;
}

/* Positions count from 1; what stands before the text's answer sees all of itself. */
static void paligemma_prepare(pl_beside *o) {
    pl_hf *m = o->m;
    pl_builder *b = m->b;
    pl_line(b, "1: position_ids = torch.arange(inputs_embeds.shape[1]) + past_seen_tokens");
    int32_t at = pl_aten_scalar(b, "aten.add.Tensor", pl_aten_arange(b, m->seq), 0);
    pl_line(b, "2: position_ids = position_ids.unsqueeze(0) + 1");
    o->text.position_ids = pl_aten_scalar(b, "aten.add.Tensor", pl_aten_unsqueeze(b, at, 0), 1);
    if (o->pictures) block_masks(o, kinds_of_tokens(m));
}

/* ---- Gemma 3 ---- */

static pl_hf_picture gemma3_picture(pl_hf *m) {
    int64_t sides[2];
    const char *outer = pl_hf_within(m, PL_HF_VISION);
    grid_of(m, sides);
    pl_hf_within(m, outer);
    int64_t tokens = pl_hf_size(m, "mm_tokens_per_image", 256), side = 0;
    while ((side + 1) * (side + 1) <= tokens) side++;
    if (m->task != PL_TASK_PICTURES && side > sides[1]) side = sides[1]; /* it is not run */
    if (side < 1 || side > sides[1]) {
        pl_hf_refuse(m, "mm_tokens_per_image", "a picture has %lld x %lld patches",
                     (long long)sides[1], (long long)sides[1]);
        return (pl_hf_picture){0};
    }
    int64_t kernel = sides[1] / side, got = (sides[1] - kernel) / kernel + 1;
    return (pl_hf_picture){sides[0], sides[0], got * got};
}

static int32_t gemma3_features(pl_beside *o, int32_t held[2]) {
    pl_hf *m = o->m;
    pl_builder *b = m->b;
    int64_t sides[2];
    const char *outer = pl_hf_within(m, PL_HF_VISION);
    grid_of(m, sides);
    double eps = pl_hf_float(m, "layer_norm_eps", 1e-6);
    pl_hf_within(m, outer);
    int64_t tokens = gemma3_picture(m).tokens, side = 1;
    while (side * side < tokens) side++;
    int32_t x = last_state(o, held);
    if (pl_build_failed(b)) return PL_NONE;
    int64_t width = pl_built_size(b, x, -1);
    int64_t kernel[2] = {sides[1] / side, sides[1] / side}, none[2] = {0, 0}, one[2] = {1, 1};
    pl_line(b, "");
    pl_module_enter(b, "multi_modal_projector", pl_beside_type(o, "MultiModalProjector"));
    pl_module_children(b, "mm_input_projection_weight mm_soft_emb_norm avg_pool");
    int32_t weight =
        pl_build_parameter(b, "mm_input_projection_weight", PL_SIZES(width, o->text.width));
    pl_line(b, "1: reshaped_vision_outputs = vision_outputs.transpose(1, 2)");
    int32_t y = pl_aten_reshape(b, pl_aten_transpose(b, x, 1, 2),
                                PL_SIZES(m->batch, width, sides[1], sides[1]));
    pl_line(b, "2: reshaped_vision_outputs = reshaped_vision_outputs.contiguous()");
    y = pl_aten_contiguous(b, y);
    pl_line(b, "1: pooled_vision_outputs = self.avg_pool(reshaped_vision_outputs)");
    pl_module_enter(b, "avg_pool", "torch.nn.modules.pooling.AvgPool2d");
    y = pl_aten_pool(b, "aten.avg_pool2d.default", 2, y, kernel, kernel, none, one, false);
    pl_module_leave(b);
    pl_line(b, "2: pooled_vision_outputs = pooled_vision_outputs.flatten(2).transpose(1, 2)");
    y = pl_aten_transpose(b, pl_aten_flatten(b, y, 2, -1), 1, 2);
    pl_line(b, "normed_vision_outputs = self.mm_soft_emb_norm(pooled_vision_outputs)");
    double own = o->text.eps;
    o->text.eps = eps;
    y = pl_decoder_norm(&o->text, "mm_soft_emb_norm", y);
    o->text.eps = own;
    pl_line(b, "projected_vision_outputs = torch.matmul(normed_vision_outputs, weight)");
    y = pl_aten_matmul(b, y, weight);
    pl_line(b, "return projected_vision_outputs.type_as(vision_outputs)");
    y = pl_aten_type_as(b, y, x);
    pl_module_leave(b);
    return y;
}

static void gemma3_prepare(pl_beside *o) {
    if (o->pictures) block_masks(o, kinds_of_tokens(o->m));
}

/* ---- the families ---- */

#define CHILDREN "vision_tower multi_modal_projector language_model"

static const pl_beside_plan llava = {"llava", "Llava", CHILDREN, llava_features, NULL},
                            vipllava = {"vipllava", "VipLlava", CHILDREN, vipllava_features, NULL},
                            paligemma = {"paligemma", "PaliGemma", CHILDREN, paligemma_features,
                                         paligemma_prepare},
                            gemma3 = {"gemma3", "Gemma3", CHILDREN, gemma3_features,
                                      gemma3_prepare};

static void build(pl_hf *m) {
    pl_beside_build(m, m->family->plan);
}

#define ROW(type, how, size, inner)                                                                \
    .model_type = type, .tasks = 1u << PL_TASK_PICTURES | 1u << PL_TASK_CAUSAL,                    \
    .usual = PL_TASK_PICTURES, .build = build, .plan = &(how), .picture = size, .version = "5.22", \
    .positions = "text_config.max_position_embeddings", .text = inner,                             \
    .towers = " clip_vision_model siglip_vision_model "

const pl_hf_family pl_hf_llava[] = {
    {ROW("llava", llava, llava_picture, "llama")},
    {ROW("vipllava", vipllava, vipllava_picture, "llama")},
    {ROW("paligemma", paligemma, paligemma_picture, "gemma")},
    {ROW("gemma3", gemma3, gemma3_picture, "gemma3_text")},
    {0},
};
