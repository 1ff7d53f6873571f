/* qwen_vl: Qwen2-VL: pictures of any size, in patches of a grid.
 *
 * The processor brings a picture to a multiple of the patches that the merger makes one token of, its
 * area within bounds, and lays its patches in rows: [patches, channels * frames * patch * patch].
 * Rules: transformers 5.22, models/qwen2_vl/modeling_qwen2_vl.py, image_processing_qwen2_vl.py
 * (sizes), vision_utils.py (positions).
 *
 * Left out: videos; positions' small tensors are made as zeros of their sizes. */
#include <math.h>

#include "import/families/pictures.h"

/* A picture, where none is asked for: that of COCO, of which LLaVA's instructions are. */
enum { USUAL_HEIGHT = 480, USUAL_WIDTH = 640 };

typedef struct plan {
    pl_beside_plan beside;
    double least, most; /* bounds of a picture's area */
} plan;

/* Of the tower. */
typedef struct tower {
    pl_beside *o;
    pl_hf *m;
    pl_builder *b;
    int64_t width, heads, depth, inner, patch, merge, frames, channels, out;
    int64_t patches;  /* of a picture */
    int32_t cos, sin; /* [all patches, head] */
    const char *act;
} tower;

/* ---- sizes ---- */

static int64_t size_of(pl_hf *m, const char *key, int64_t otherwise, int64_t most) {
    int64_t n = pl_hf_int(m, key, otherwise);
    if (n >= 1 && n <= most) return n;
    pl_hf_refuse(m, key, "expected 1 to %lld", (long long)most);
    return 1;
}

static double to_multiple(double side, double factor, double (*rounding)(double)) {
    double n = rounding(side / factor);
    return (n < 1 ? 1 : n) * factor;
}

static pl_hf_picture picture(pl_hf *m) {
    const plan *p = m->family->plan;
    const char *outer = pl_hf_within(m, PL_HF_VISION);
    int64_t patch = size_of(m, "patch_size|spatial_patch_size", 14, 1024);
    int64_t merge = size_of(m, "spatial_merge_size", 2, 64);
    pl_hf_within(m, outer);
    double height = m->picture[0] ? (double)m->picture[0] : USUAL_HEIGHT,
           width = m->picture[1] ? (double)m->picture[1] : USUAL_WIDTH,
           factor = (double)(patch * merge);
    double h = to_multiple(height, factor, rint), w = to_multiple(width, factor, rint);
    if (h * w > p->most) {
        double shrink = sqrt(height * width / p->most);
        h = to_multiple(height / shrink, factor, floor);
        w = to_multiple(width / shrink, factor, floor);
    } else if (h * w < p->least) {
        double grow = sqrt(p->least / (height * width));
        h = to_multiple(height * grow, factor, ceil);
        w = to_multiple(width * grow, factor, ceil);
    }
    if (height > 200 * width || width > 200 * height)
        pl_build_fail(m->b, PL_USAGE, "task",
                      "a picture of %lld x %lld is longer than the processor takes",
                      (long long)width, (long long)height);
    return (pl_hf_picture){.height = (int64_t)h,
                           .width = (int64_t)w,
                           .tokens = (int64_t)(h / factor) * (int64_t)(w / factor)};
}

static bool read_tower(tower *t, pl_beside *o) {
    pl_hf *m = o->m;
    *t = (tower){.o = o, .m = m, .b = m->b};
    t->width = size_of(m, "embed_dim", 1280, 1 << 20);
    t->heads = size_of(m, "num_heads", 16, 1 << 16);
    t->depth = pl_hf_layers(m, "depth");
    t->inner = (int64_t)((double)t->width * pl_hf_float(m, "mlp_ratio", 4));
    t->patch = size_of(m, "patch_size|spatial_patch_size", 14, 1024);
    t->merge = size_of(m, "spatial_merge_size", 2, 64);
    t->frames = size_of(m, "temporal_patch_size", 2, 1024);
    t->channels = size_of(m, "in_channels|in_chans", 3, 1 << 16);
    t->out = size_of(m, "hidden_size", 3584, 1 << 20);
    t->act = pl_hf_string(m, "hidden_act", "quick_gelu");
    if (t->width % t->heads != 0 || t->width / t->heads % 4 != 0)
        pl_hf_refuse(m, "num_heads",
                     "heads of embed_dim, %lld, over this: expected a multiple of 4",
                     (long long)t->width);
    if (t->inner < 1 || t->inner > 1 << 24) pl_hf_refuse(m, "mlp_ratio", "expected a usual number");
    return !pl_build_failed(m->b);
}

/* ---- positions ---- */

/* Rows and columns of the patches, and their angles: [patches, head] each. */
static void rotary(tower *t, int64_t rows) {
    pl_builder *b = t->b;
    int64_t head = t->width / t->heads;
    pl_line(b, "position_ids = get_vision_position_ids(grid_thw, self.spatial_merge_size)");
    int32_t ids = pl_aten_make(b, "aten.zeros.default", PL_DT_I64, PL_SIZES(rows, 2), 0);
    pl_module_enter(b, "rotary_pos_emb", pl_beside_type(t->o, "VisionRotaryEmbedding"));
    int32_t freq = pl_build_buffer(b, "inv_freq", PL_DT_F32, false, PL_SIZES(head / 4));
    pl_build_buffer(b, "original_inv_freq", PL_DT_F32, false, PL_SIZES(head / 4));
    bool grad = pl_build_no_grad(b, true);
    pl_line(b, "freqs = position_ids[..., None].float() * self.inv_freq");
    int32_t f = pl_aten_to(b, pl_aten_unsqueeze(b, ids, -1), PL_DT_F32);
    f = pl_aten_mul(b, f, freq); /* [rows, 2, head / 4] */
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
    for (int i = 0; i < 2; i++) {
        pl_line(b, lines[i][1]);
        int32_t parts[2] = {pl_aten_select(b, angle[i], 1, 0), pl_aten_select(b, angle[i], 1, 1)};
        int32_t both = pl_aten_cat(b, 2, parts, -1);
        angle[i] = pl_aten_cat(b, 2, (int32_t[]){both, both}, -1);
    }
    pl_build_no_grad(b, grad);
    pl_module_leave(b);
    t->cos = angle[0];
    t->sin = angle[1];
}

/* In float32, whatever the layer's type: x [rows, heads, head]. */
static int32_t turn(const tower *t, int32_t x, int32_t cos, int32_t sin) {
    pl_builder *b = t->b;
    int64_t half = t->width / t->heads / 2;
    int32_t y = pl_aten_mul(b, x, cos);
    int32_t first = pl_aten_slice(b, x, 2, 0, half);
    int32_t second = pl_aten_slice(b, x, 2, half, INT64_MAX);
    second = pl_aten_unary(b, "aten.neg.default", second);
    int32_t turned = pl_aten_cat(b, 2, (int32_t[]){second, first}, -1);
    return pl_aten_add(b, y, pl_aten_mul(b, turned, sin));
}

static void apply_rotary(const tower *t, int32_t *q, int32_t *k, int32_t like) {
    pl_builder *b = t->b;
    pl_line(b, "1: q, k = q.float(), k.float()");
    int32_t x = pl_aten_to(b, *q, PL_DT_F32), y = pl_aten_to(b, *k, PL_DT_F32);
    int32_t cos = pl_aten_unsqueeze(b, t->cos, -2), sin = pl_aten_unsqueeze(b, t->sin, -2);
    pl_line(b, "q_embed = (q * cos) + (rotate_half(q) * sin)");
    x = turn(t, x, cos, sin);
    pl_line(b, "k_embed = (k * cos) + (rotate_half(k) * sin)");
    y = turn(t, y, cos, sin);
    pl_line(b, "query_states = q_embed.to(orig_q_dtype)");
    *q = pl_aten_type_as(b, x, like);
    pl_line(b, "key_states = k_embed.to(orig_k_dtype)");
    *k = pl_aten_type_as(b, y, like);
}

/* ---- a block ---- */

/* Each picture attends to itself: [rows, width] to the same. */
static int32_t attention(const tower *t, int32_t x) {
    pl_builder *b = t->b;
    pl_hf *m = t->m;
    int64_t head = t->width / t->heads, rows = pl_built_size(b, x, 0), pictures = rows / t->patches;
    int32_t part[3];
    pl_module_enter(b, "attn", pl_beside_type(t->o, "VisionAttention"));
    pl_line(b, "1: query_states, key_states, value_states = self.qkv(hidden_states)");
    int32_t qkv = pl_hf_linear(m, "qkv", x, 3 * t->width, true);
    qkv = pl_aten_reshape(b, qkv, PL_SIZES(rows, 3, t->heads, head));
    qkv = pl_aten_permute(b, qkv, PL_SIZES(1, 0, 2, 3));
    pl_call(b, "aten.unbind.int");
    pl_call_tensor(b, "self", qkv);
    for (int i = 0; i < 3; i++)
        part[i] = pl_call_result(b, pl_built(b, qkv)->dtype, PL_SIZES(rows, t->heads, head));
    pl_call_list(b);
    apply_rotary(t, &part[0], &part[1], part[2]);
    static const char *const lines[] = {
        "2: query_states = query_states.transpose(0, 1).unsqueeze(0)",
        "2: key_states = key_states.transpose(0, 1).unsqueeze(0)",
        "2: value_states = value_states.transpose(0, 1).unsqueeze(0)"};
    for (int i = 0; i < 3; i++) {
        pl_line(b, lines[i]);
        part[i] = pl_aten_unsqueeze(b, pl_aten_transpose(b, part[i], 0, 1), 0);
    }
    int32_t *out = pl_build_array(b, pictures, sizeof *out);
    for (int64_t i = 0; out && i < pictures; i++) {
        int32_t one[3];
        pl_line(b, "splits = torch.split(tensor, lengths.tolist(), dim=2)");
        for (int k = 0; k < 3; k++)
            one[k] = pl_aten_slice(b, part[k], 2, i * t->patches, (i + 1) * t->patches);
        pl_line(b, "");
        double scale = 1 / sqrt((double)head);
        int32_t y;
        if (m->attn == PL_ATTN_EAGER) {
            y = pl_aten_matmul(b, one[0], pl_aten_transpose(b, one[1], 2, 3));
            y = pl_aten_scalar(b, "aten.mul.Tensor", y, scale);
            y = pl_aten_type_as(b, pl_aten_softmax(b, y, -1, PL_DT_F32), one[0]);
            y = pl_aten_matmul(b, pl_aten_dropout(b, y, 0), one[2]);
        } else {
            y = pl_aten_attention(b, one[0], one[1], one[2], PL_NONE, 0, false, scale, false);
        }
        out[i] = pl_aten_contiguous(b, pl_aten_transpose(b, y, 1, 2));
    }
    pl_line(b, "1: attn_output = torch.cat(attn_outputs, dim=1)");
    x = out ? pl_aten_cat(b, (int)pictures, out, 1) : x;
    pl_line(b, "2: attn_output = attn_output.reshape(seq_length, -1).contiguous()");
    x = pl_aten_reshape(b, x, PL_SIZES(rows, -1));
    pl_line(b, "3: attn_output = self.proj(attn_output)");
    x = pl_hf_linear(m, "proj", x, t->width, true);
    pl_module_leave(b);
    return x;
}

static int32_t block(const tower *t, int64_t index, int32_t x) {
    pl_builder *b = t->b;
    pl_hf *m = t->m;
    pl_module_enter(b, pl_build_text(b, "blocks.%lld", (long long)index),
                    pl_beside_type(t->o, "VisionBlock"));
    pl_module_children(b, "norm1 norm2 attn mlp");
    pl_line(b, "1: hidden_states = hidden_states + self.attn(");
    int32_t y = attention(t, pl_hf_layer_norm(m, "norm1", x, 1e-6, true));
    x = pl_aten_add(b, x, y);
    pl_line(b, "2: hidden_states = hidden_states + self.mlp(self.norm2(hidden_states))");
    y = pl_hf_layer_norm(m, "norm2", x, 1e-6, true);
    pl_module_enter(b, "mlp", "transformers.models.qwen2_vl.modeling_qwen2_vl.VisionMlp");
    pl_line(b, "");
    y = pl_hf_linear(m, "fc1", y, t->inner, true);
    y = pl_hf_linear(m, "fc2", pl_hf_activation(m, "act", t->act, y), t->width, true);
    pl_module_leave(b);
    x = pl_aten_add(b, x, y);
    pl_module_leave(b);
    return x;
}

/* merge x merge patches to one token: [patches, width] to [tokens, out]. */
static int32_t merger(const tower *t, int32_t x) {
    pl_builder *b = t->b;
    pl_hf *m = t->m;
    int64_t wide = t->width * t->merge * t->merge;
    pl_module_enter(b, "merger", "transformers.models.qwen2_vl.modeling_qwen2_vl.PatchMerger");
    pl_module_children(b, "ln_q mlp");
    pl_line(b, "x = self.mlp(self.ln_q(x).view(-1, self.hidden_size))");
    x = pl_aten_view(b, pl_hf_layer_norm(m, "ln_q", x, 1e-6, true), PL_SIZES(-1, wide));
    x = pl_hf_linear(m, "mlp.0", x, wide, true);
    pl_module_enter(b, "mlp.1", "torch.nn.modules.activation.GELU");
    x = pl_aten_gelu(b, x, false);
    pl_module_leave(b);
    x = pl_hf_linear(m, "mlp.2", x, t->out, true);
    pl_module_leave(b);
    return x;
}

static int32_t patches(const tower *t, int32_t pixels) {
    pl_builder *b = t->b;
    const int64_t kernel[3] = {t->frames, t->patch, t->patch}, none[3] = {0}, one[3] = {1, 1, 1};
    pl_module_enter(b, "patch_embed", "transformers.models.qwen2_vl.modeling_qwen2_vl.PatchEmbed");
    pl_line(b, "1: hidden_states = hidden_states.view(");
    int32_t x = pl_aten_view(b, pixels, PL_SIZES(-1, t->channels, t->frames, t->patch, t->patch));
    pl_line(b, "2: hidden_states = self.proj(hidden_states).view(-1, self.embed_dim)");
    pl_module_enter(b, "proj", "torch.nn.modules.conv.Conv3d");
    int32_t w = pl_build_parameter(b, "weight",
                                   PL_SIZES(t->width, t->channels, t->frames, t->patch, t->patch));
    x = pl_aten_conv(b, 3, x, w, PL_NONE, kernel, none, one, 1);
    pl_module_leave(b);
    x = pl_aten_view(b, x, PL_SIZES(-1, t->width));
    pl_module_leave(b);
    return x;
}

/* ---- the model ---- */

static int32_t features(pl_beside *o, int32_t held[2]) {
    pl_hf *m = o->m;
    pl_builder *b = m->b;
    tower t;
    pl_hf_picture size = picture(m);
    const char *outer = pl_hf_within(m, PL_HF_VISION);
    if (!read_tower(&t, o)) return PL_NONE;
    t.patches = (size.height / t.patch) * (size.width / t.patch);
    int64_t rows = m->batch * t.patches;
    int32_t pixels = pl_build_input(b, "pixel_values", m->dtype,
                                    PL_SIZES(rows, t.channels * t.frames * t.patch * t.patch));
    pl_build_input(b, "image_grid_thw", PL_DT_I64, PL_SIZES(m->batch, 3));
    pl_build_input(b, "mm_token_type_ids", PL_DT_I64, PL_SIZES(m->batch, m->seq));
    pl_module_enter(b, "visual",
                    pl_build_text(b, "transformers.models.%s.modeling_%s.%s", o->package,
                                  o->package, "Qwen2VisionTransformerPretrainedModel"));
    pl_module_children(b, "patch_embed rotary_pos_emb blocks merger");
    pl_line(b, "");
    int32_t x = patches(&t, pixels);
    rotary(&t, rows);
    for (int64_t i = 0; i < t.depth && !pl_build_failed(b); i++) x = block(&t, i, x);
    held[0] = x;
    int32_t merged = merger(&t, x);
    pl_module_leave(b);
    pl_hf_within(m, outer);
    int64_t tokens = size.tokens;
    int32_t *parts = pl_build_array(b, m->batch, sizeof *parts);
    int64_t *sizes = pl_build_array(b, m->batch, sizeof *sizes);
    if (!parts || !sizes) return PL_NONE;
    for (int64_t i = 0; i < m->batch; i++) sizes[i] = tokens;
    pl_line(b, "");
    pl_aten_split(b, merged, (int)m->batch, sizes, 0, parts);
    held[1] = merged;
    pl_line(b, "image_embeds = torch.cat(mm_encoder_outputs[\"image\"].pooler_output, dim=0)");
    return pl_aten_cat(b, (int)m->batch, parts, 0);
}

/* Three numbers for each token: its frame, row and column. */
static void prepare(pl_beside *o) {
    pl_hf *m = o->m;
    if (!o->pictures) return;
    pl_line(m->b, "position_ids = self.compute_3d_position_ids(");
    o->text.position_ids =
        pl_aten_make(m->b, "aten.zeros.default", PL_DT_I64, PL_SIZES(3, m->batch, m->seq), 0);
}

static void build(pl_hf *m) {
    const plan *p = m->family->plan;
    pl_beside_build(m, &p->beside);
}

#define CHILDREN "visual language_model"
static const plan qwen2 = {
    {"qwen2_vl", "Qwen2VL", CHILDREN, features, prepare}, .least = 56 * 56, .most = 28 * 28 * 1280};

const pl_hf_family pl_hf_qwen_vl[] = {
    {.model_type = "qwen2_vl",
     .tasks = 1u << PL_TASK_PICTURES | 1u << PL_TASK_CAUSAL,
     .usual = PL_TASK_PICTURES,
     .build = build,
     .plan = &qwen2,
     .version = "5.22",
     .positions = "text_config.max_position_embeddings",
     .picture = picture,
     .any_size = true,
     .text = "qwen2_vl_text"},
    {0},
};
