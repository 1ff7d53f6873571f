/* swin: Swin Transformer: attention inside windows of patches, shifted in every second layer, and
 * stages that halve the grid.
 *
 * The order of operators, names and lines are those of transformers 5.22,
 * models/swin/modeling_swin.py. Called as model(pixel_values, labels) with images of
 * config.image_size.
 *
 * Left out: masked image modelling, backbones, other sizes of image than the config's. */
#include <math.h>

#include "import/families/encoder.h"

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    int64_t width, stages, window, image[2], patch[2], depth; /* depth: layers of all stages */
    double eps, drop, attn_drop, path_rate, ratio;
    const char *act;
    bool bias;
} model;

/* Of one layer. */
typedef struct place {
    int64_t width, heads, grid[2], window, shift;
    double path_rate;
} place;

static void enter(const model *o, const char *name, const char *class) {
    pl_hf_enter(o->m, name, "swin", pl_build_text(o->b, "Swin%s", class));
}

/* ---- windows ---- */

/* [n, h, w, c] to [n * windows, window, window, c]. */
static int32_t partition(const model *o, int32_t x, int64_t window) {
    pl_builder *b = o->b;
    int64_t h = pl_built_size(b, x, 1), w = pl_built_size(b, x, 2), c = pl_built_size(b, x, 3);
    pl_line(b, "input_feature = input_feature.view(batch_size, height // window_size, ..)");
    x = pl_aten_view(b, x,
                     PL_SIZES(pl_built_size(b, x, 0), h / window, window, w / window, window, c));
    pl_line(b, "windows = input_feature.transpose(2, 3).contiguous().view(-1, ..)");
    x = pl_aten_contiguous(b, pl_aten_transpose(b, x, 2, 3));
    return pl_aten_view(b, x, PL_SIZES(-1, window, window, c));
}

static int32_t unpartition(const model *o, int32_t x, int64_t window, int64_t h, int64_t w) {
    pl_builder *b = o->b;
    int64_t c = pl_built_size(b, x, 3);
    pl_line(b, "windows = windows.view(-1, height // window_size, ..)");
    x = pl_aten_view(b, x, PL_SIZES(-1, h / window, w / window, window, window, c));
    pl_line(b, "windows = windows.transpose(2, 3).contiguous().view(-1, height, width)");
    x = pl_aten_contiguous(b, pl_aten_transpose(b, x, 2, 3));
    return pl_aten_view(b, x, PL_SIZES(-1, h, w, c));
}

static int32_t roll(const model *o, int32_t x, int64_t shift) {
    pl_builder *b = o->b;
    if (shift == 0) return x;
    const int64_t shifts[2] = {shift, shift}, dims[2] = {1, 2};
    pl_line(b, "hidden_states = torch.roll(hidden_states, shifts=(shift, shift), dims=(1, 2))");
    pl_call(b, "aten.roll.default");
    pl_call_tensor(b, "self", x);
    pl_call_ints(b, "shifts", 2, shifts);
    pl_call_ints(b, "dims", 2, dims);
    return pl_call_result_like(b, x);
}

/* Which of three regions each row or column lies in: int64 [n]. */
static int32_t regions(const model *o, int64_t n, const place *p) {
    pl_builder *b = o->b;
    int32_t at = pl_aten_arange(b, n);
    int32_t first = pl_aten_scalar(b, "aten.ge.Scalar", at, (double)(n - p->window));
    first = pl_aten_to(b, first, PL_DT_I64);
    int32_t second = pl_aten_scalar(b, "aten.ge.Scalar", at, (double)(n - p->shift));
    return pl_aten_add(b, first, pl_aten_to(b, second, PL_DT_I64));
}

/* Hides windows' parts from each other that the shift brought together: [windows, n, n]. */
static int32_t shift_mask(const model *o, int64_t h, int64_t w, const place *p, int32_t like) {
    pl_builder *b = o->b;
    int64_t area = p->window * p->window;
    if (p->shift == 0) return PL_NONE;
    pl_line(b, "h_region = (h_idx >= height - self.window_size).long() + ..");
    int32_t rows = regions(o, h, p);
    pl_line(b, "w_region = (w_idx >= width - self.window_size).long() + ..");
    int32_t columns = regions(o, w, p);
    pl_line(b, "img_mask = (h_region[None, :, None, None] * 3 + w_region[None, None, :, None])");
    rows = pl_aten_view(b, rows, PL_SIZES(1, h, 1, 1));
    columns = pl_aten_view(b, columns, PL_SIZES(1, 1, w, 1));
    int32_t x = pl_aten_add(b, pl_aten_scalar(b, "aten.mul.Tensor", rows, 3), columns);
    x = pl_aten_type_as(b, x, like);
    x = pl_aten_view(b, partition(o, x, p->window), PL_SIZES(-1, area));
    pl_line(b, "attn_mask = mask_windows.unsqueeze(1) - mask_windows.unsqueeze(2)");
    x = pl_aten_binary(b, "aten.sub.Tensor", pl_aten_unsqueeze(b, x, 1),
                       pl_aten_unsqueeze(b, x, 2));
    pl_line(b, "attn_mask = attn_mask.masked_fill(attn_mask != 0, -100.0).masked_fill(..)");
    int32_t other = pl_aten_scalar(b, "aten.ne.Scalar", x, 0);
    int32_t same = pl_aten_scalar(b, "aten.eq.Scalar", x, 0);
    return pl_aten_masked_fill(b, pl_aten_masked_fill(b, x, other, -100), same, 0);
}

/* ---- a layer ---- */

/* [1, heads, n, n] */
static int32_t position_bias(const model *o, const place *p) {
    pl_builder *b = o->b;
    int64_t area = p->window * p->window, side = 2 * p->window - 1;
    enter(o, "relative_position_bias", "RelativePositionBias");
    int32_t table =
        pl_build_parameter(b, "relative_position_bias_table", PL_SIZES(side * side, p->heads));
    int32_t index =
        pl_build_buffer(b, "relative_position_index", PL_DT_I64, false, PL_SIZES(area * area));
    pl_line(b, "relative_position_bias = self.relative_position_bias_table[self.index]");
    int32_t x = pl_aten_index(b, table, 1, &index);
    x = pl_aten_view(b, x, PL_SIZES(area, area, -1));
    x = pl_aten_contiguous(b, pl_aten_permute(b, x, PL_SIZES(2, 0, 1)));
    x = pl_aten_unsqueeze(b, x, 0);
    pl_module_leave(b);
    return x;
}

/* x [batch * windows, n, width]; mask [windows, n, n] */
static int32_t attention(const model *o, const place *p, int32_t x, int32_t mask) {
    pl_builder *b = o->b;
    int64_t head = p->width / p->heads, area = p->window * p->window, batch = o->m->batch;
    enter(o, "attention", "Attention");
    pl_module_children(b, "q_proj k_proj v_proj o_proj relative_position_bias");
    pl_line(b, "query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)");
    int32_t q = pl_hf_heads(o->m, pl_hf_linear(o->m, "q_proj", x, p->width, o->bias), head);
    pl_line(b, "key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)");
    int32_t k = pl_hf_heads(o->m, pl_hf_linear(o->m, "k_proj", x, p->width, o->bias), head);
    pl_line(b, "value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)");
    int32_t v = pl_hf_heads(o->m, pl_hf_linear(o->m, "v_proj", x, p->width, o->bias), head);
    pl_line(b, "relative_position_bias = self.relative_position_bias()");
    int32_t bias = position_bias(o, p);
    if (mask != PL_NONE) {
        pl_line(b, "attention_mask = attention_mask.unsqueeze(1).unsqueeze(0).expand(..)");
        int64_t windows = pl_built_size(b, mask, 0);
        mask = pl_aten_unsqueeze(b, pl_aten_unsqueeze(b, mask, 1), 0);
        mask = pl_aten_expand(b, mask, PL_SIZES(batch, -1, -1, -1, -1));
        mask = pl_aten_reshape(b, mask, PL_SIZES(batch * windows, 1, area, area));
        pl_line(b, "combined_mask = relative_position_bias + attention_mask");
        bias = pl_aten_add(b, bias, mask);
    }
    pl_hf_attend how = {.scale = 1 / sqrt((double)head), .drop = o->attn_drop, .wide = true};
    x = pl_hf_attention_of(o->m, q, k, v, bias, how);
    pl_line(b, "attn_output = self.o_proj(attn_output)");
    x = pl_hf_linear(o->m, "o_proj", x, p->width, true);
    pl_module_leave(b);
    return x;
}

static int32_t layer(const model *o, const place *p, int64_t index, int32_t x) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t h = p->grid[0], w = p->grid[1], c = p->width,
            right = (p->window - w % p->window) % p->window,
            bottom = (p->window - h % p->window) % p->window, high = h + bottom, wide = w + right;
    pl_hf_enter_at(m, "blocks", index, "swin", "SwinLayer");
    pl_module_children(b, "attention layernorm_before layernorm_after mlp");
    int32_t shortcut = x;
    pl_line(b, "hidden_states = self.layernorm_before(hidden_states)");
    x = pl_hf_layer_norm(m, "layernorm_before", x, o->eps, true);
    pl_line(b, "hidden_states = hidden_states.view(batch_size, height, width, channels)");
    x = pl_aten_view(b, x, PL_SIZES(m->batch, h, w, c));
    pl_line(b, "hidden_states = nn.functional.pad(hidden_states, pad_values)");
    x = pl_aten_pad(b, x, PL_SIZES(0, 0, 0, right, 0, bottom));
    int32_t y = roll(o, x, -p->shift);
    pl_line(b, "hidden_states_windows = window_partition(self.cyclic_shift(hidden_states))");
    y = partition(o, y, p->window);
    y = pl_aten_view(b, y, PL_SIZES(-1, p->window * p->window, c));
    int32_t mask = shift_mask(o, high, wide, p, x);
    y = attention(o, p, y, mask);
    pl_line(b, "attention_output = self.dropout(attention_output)");
    y = pl_hf_dropout(m, "dropout", y, o->drop);
    y = pl_aten_view(b, y, PL_SIZES(-1, p->window, p->window, c));
    y = roll(o, unpartition(o, y, p->window, high, wide), p->shift);
    if (right > 0 || bottom > 0) {
        pl_line(b, "attention_windows = attention_windows[:, :height, :width, :].contiguous()");
        y = pl_aten_slice(b, pl_aten_slice(b, y, 1, 0, h), 2, 0, w);
        y = pl_aten_contiguous(b, y);
    }
    pl_line(b, "attention_windows = attention_windows.view(batch_size, height * width, channels)");
    y = pl_aten_view(b, y, PL_SIZES(m->batch, h * w, c));
    y = pl_hf_drop_path(m, "swin", "SwinDropPath", y, p->path_rate);
    x = pl_hf_sum(m, "hidden_states = shortcut + self.drop_path(attention_windows)", shortcut, y);
    pl_line(b, "hidden_states = self.layernorm_after(hidden_states)");
    y = pl_hf_layer_norm(m, "layernorm_after", x, o->eps, true);
    enter(o, "mlp", "MLP");
    pl_line(b, "hidden_states = self.fc1(hidden_states)");
    y = pl_hf_linear(m, "fc1", y, (int64_t)(o->ratio * (double)c), true);
    y = pl_hf_activation(m, "activation_fn", o->act, y);
    pl_line(b, "hidden_states = self.fc2(hidden_states)");
    y = pl_hf_linear(m, "fc2", y, c, true);
    pl_module_leave(b);
    pl_line(b, "hidden_states = self.dropout(hidden_states) + residual");
    y = pl_hf_dropout(m, "dropout", y, o->drop);
    x = pl_aten_add(b, y, x);
    pl_module_leave(b);
    return x;
}

/* ---- stages ---- */

/* Four neighbours into one of twice the width: [batch, h * w, c] to [batch, h / 2 * w / 2, 2 c]. */
static int32_t merge(const model *o, int32_t x, const place *p) {
    pl_builder *b = o->b;
    int64_t h = p->grid[0], w = p->grid[1], c = p->width;
    int32_t parts[4];
    enter(o, "downsample", "PatchMerging");
    pl_module_children(b, "reduction norm");
    pl_line(b, "input_feature = input_feature.view(batch_size, height, width, num_channels)");
    x = pl_aten_view(b, x, PL_SIZES(o->m->batch, h, w, c));
    if (h % 2 == 1 || w % 2 == 1) {
        pl_line(b, "input_feature = nn.functional.pad(input_feature, ..)");
        x = pl_aten_pad(b, x, PL_SIZES(0, 0, 0, w % 2, 0, h % 2));
    }
    pl_line(b, "input_feature = torch.cat([input_feature[:, row::2, col::2, :] ..], dim=-1)");
    for (int i = 0; i < 4; i++) {
        int32_t y = pl_hf_step_slice(o->m, x, 1, i % 2, 2);
        parts[i] = pl_hf_step_slice(o->m, y, 2, i / 2, 2);
    }
    x = pl_aten_cat(b, 4, parts, -1);
    pl_line(b, "input_feature = input_feature.view(batch_size, -1, 4 * num_channels)");
    x = pl_aten_view(b, x, PL_SIZES(o->m->batch, -1, 4 * c));
    pl_line(b, "input_feature = self.norm(input_feature)");
    x = pl_hf_norm(o->m, "norm", x);
    pl_line(b, "input_feature = self.reduction(input_feature)");
    x = pl_hf_linear(o->m, "reduction", x, 2 * c, false);
    pl_module_leave(b);
    return x;
}

static int32_t stage(const model *o, int64_t index, int64_t before, place p, int32_t x) {
    pl_builder *b = o->b;
    int64_t depth = pl_hf_size_at(o->m, "depths", index, 2);
    pl_hf_enter_at(o->m, "layers", index, "swin", "SwinStage");
    for (int64_t i = 0; i < depth && !pl_build_failed(b); i++) {
        int64_t last = o->depth > 1 ? o->depth - 1 : 1;
        p.path_rate = o->path_rate * (double)(before + i) / (double)last;
        p.shift = i % 2 == 0 || (p.grid[0] < p.grid[1] ? p.grid[0] : p.grid[1]) <= o->window
                      ? 0
                      : o->window / 2;
        pl_line(b, "hidden_states = layer_module(");
        x = layer(o, &p, i, x);
    }
    bool halves = index + 1 < o->stages;
    pl_line(b, "hidden_states = self.downsample(hidden_states_before_downsampling)");
    if (halves) x = merge(o, x, &p);
    pl_line(b, "reshaped_hidden_states = self.get_reshaped_hidden_states(");
    int64_t h = halves ? (p.grid[0] + 1) / 2 : p.grid[0],
            w = halves ? (p.grid[1] + 1) / 2 : p.grid[1];
    int32_t y = pl_aten_view(b, x, PL_SIZES(o->m->batch, h, w, -1));
    pl_aten_contiguous(b, pl_aten_permute(b, y, PL_SIZES(0, 3, 1, 2)));
    pl_module_leave(b);
    return x;
}

/* Patches, as maybe_pad makes the picture a multiple of them: [batch, patches, width]. */
static int32_t embeddings(const model *o, place *p) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int32_t x = pl_hf_pixels(m, pl_hf_size(m, "num_channels", 3), o->image[0], o->image[1]);
    enter(o, "embeddings", "Embeddings");
    pl_module_children(b, "position_embeddings patch_embeddings norm");
    enter(o, "patch_embeddings", "PatchEmbeddings");
    for (int i = 1; i >= 0; i--) {
        int64_t more = (o->patch[i] - o->image[i] % o->patch[i]) % o->patch[i];
        const int64_t pads[4] = {i ? more : 0, 0, 0, i ? 0 : more};
        const int64_t across[2] = {0, more};
        if (more > 0) x = pl_aten_pad(b, x, i ? 2 : 4, i ? across : pads);
        p->grid[i] = (o->image[i] + more) / o->patch[i];
    }
    pl_line(b, "embeddings = self.projection(pixel_values)");
    pl_module_enter(b, "projection", "torch.nn.modules.conv.Conv2d");
    int32_t w = pl_build_parameter(
        b, "weight", PL_SIZES(o->width, pl_built_size(b, x, 1), o->patch[0], o->patch[1]));
    int32_t bias = pl_build_parameter(b, "bias", PL_SIZES(o->width));
    const int64_t none[2] = {0, 0}, one[2] = {1, 1};
    x = pl_aten_conv(b, 2, x, w, bias, o->patch, none, one, 1);
    pl_module_leave(b);
    pl_line(b, "embeddings = embeddings.flatten(2).transpose(1, 2)");
    x = pl_aten_transpose(b, pl_aten_flatten(b, x, 2, -1), 1, 2);
    pl_module_leave(b);
    pl_line(b, "embeddings = self.norm(embeddings)");
    x = pl_hf_norm(m, "norm", x);
    if (pl_hf_bool(m, "use_absolute_embeddings", false)) {
        int32_t place = pl_build_parameter(b, "position_embeddings",
                                           PL_SIZES(1, p->grid[0] * p->grid[1], o->width));
        x = pl_hf_sum(m, "embeddings = embeddings + self.position_embeddings", x, place);
    }
    pl_line(b, "embeddings = self.dropout(embeddings)");
    x = pl_hf_dropout(m, "dropout", x, o->drop);
    pl_module_leave(b);
    return x;
}

/* last_hidden_state, and its mean over all patches. */
static int32_t base(const model *o, int32_t *pooled) {
    pl_builder *b = o->b;
    place p = {.width = o->width, .window = o->window};
    int64_t before = 0;
    int32_t x = embeddings(o, &p);
    enter(o, "encoder", "Encoder");
    for (int64_t i = 0; i < o->stages && !pl_build_failed(b); i++) {
        p.heads = pl_hf_size_at(o->m, "num_heads", i, 3);
        pl_hf_divides(o->m, "num_heads", p.width, p.heads);
        if (p.grid[0] < o->window || p.grid[1] < o->window)
            pl_hf_refuse(o->m, "window_size", "stage %lld has %lld x %lld patches",
                         (long long)i + 1, (long long)p.grid[0], (long long)p.grid[1]);
        if (pl_build_failed(b)) break;
        pl_line(b, "hidden_states, reshaped_hidden_state, _ = layer_module(");
        x = stage(o, i, before, p, x);
        before += pl_hf_size_at(o->m, "depths", i, 2);
        p.width *= 2;
        for (int k = 0; k < 2; k++) p.grid[k] = (p.grid[k] + 1) / 2;
    }
    pl_module_leave(b);
    pl_line(b, "sequence_output = self.layernorm(sequence_output)");
    x = pl_hf_layer_norm(o->m, "layernorm", x, o->eps, true);
    pl_line(b, "pooled_output = self.pooler(sequence_output.transpose(1, 2))");
    int64_t one = 1;
    int32_t y = pl_aten_transpose(b, x, 1, 2);
    pl_module_enter(b, "pooler", "torch.nn.modules.pooling.AdaptiveAvgPool1d");
    y = pl_aten_adaptive_pool(b, "aten.adaptive_avg_pool1d.default", 1, y, &one);
    pl_module_leave(b);
    pl_line(b, "pooled_output = torch.flatten(pooled_output, 1)");
    *pooled = pl_aten_flatten(b, y, 1, -1);
    return x;
}

static model read_keys(pl_hf *m) {
    model o = {.m = m, .b = m->b};
    o.width = pl_hf_size(m, "embed_dim", 96);
    o.stages = pl_hf_list(m, "depths");
    o.window = pl_hf_size(m, "window_size", 7);
    o.eps = pl_hf_float(m, "layer_norm_eps", 1e-5);
    o.drop = pl_hf_float(m, "hidden_dropout_prob", 0);
    o.attn_drop = pl_hf_float(m, "attention_probs_dropout_prob", 0);
    o.path_rate = pl_hf_float(m, "drop_path_rate", 0.1);
    o.ratio = pl_hf_float(m, "mlp_ratio", 4);
    o.act = pl_hf_string(m, "hidden_act", "gelu");
    o.bias = pl_hf_bool(m, "qkv_bias", true);
    pl_hf_sides(m, "image_size", 224, o.image);
    pl_hf_sides(m, "patch_size", 4, o.patch);
    if (o.stages < 1 || o.stages > 8) {
        pl_hf_refuse(m, "depths", "expected 1 to 8 stages");
        o.stages = 1;
    }
    for (int64_t i = 0; i < o.stages; i++) o.depth += pl_hf_size_at(m, "depths", i, 2);
    if (o.depth > PL_HF_MAX_LAYERS)
        pl_hf_refuse(m, "depths", "more than %d layers", PL_HF_MAX_LAYERS);
    if (!(o.ratio * (double)o.width >= 1 && o.ratio < 1e4))
        pl_hf_refuse(m, "mlp_ratio", "expected a layer of at least 1");
    if (o.window > 1 << 10) pl_hf_refuse(m, "window_size", "expected up to %d", 1 << 10);
    return o;
}

static void build(pl_hf *m) {
    pl_builder *b = m->b;
    model o = read_keys(m);
    int32_t pooled = PL_NONE;
    if (pl_build_failed(b)) return;
    if (m->task == PL_TASK_BASE) {
        enter(&o, "", "Model");
        pl_build_output(b, base(&o, &pooled));
        pl_build_output(b, pooled);
        pl_module_leave(b);
        return;
    }
    enter(&o, "", "ForImageClassification");
    enter(&o, "swin", "Model");
    base(&o, &pooled);
    pl_module_leave(b);
    pl_line(b, "logits = self.classifier(pooled_output)");
    int32_t x = pl_hf_linear(m, "classifier", pooled, pl_hf_labels(m), true);
    pl_hf_classification_loss(m, x);
    pl_module_leave(b);
}

const pl_hf_family pl_hf_swin[] = {
    {.model_type = "swin",
     .tasks = 1u << PL_TASK_CLASSIFY | 1u << PL_TASK_BASE,
     .usual = PL_TASK_CLASSIFY,
     .build = build,
     .version = "5.22",
     .no_seq = true,
     .no_attention = 1u << PL_ATTN_FLASH2},
    {0},
};
