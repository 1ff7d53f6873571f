/* segformer: SegFormer: stages of attention whose keys are fewer than its queries, and a head that
 * brings all stages to the first one's size.
 *
 * The order of operators, names and lines are those of transformers 5.22,
 * models/segformer/modeling_segformer.py. Called as model(pixel_values, labels), for segmentation
 * with labels of a class per pixel, for images of config.image_size.
 *
 * Left out: other sizes of image than the config's. */
#include <math.h>

#include "import/families/encoder.h"

enum { MOST_STAGES = 8 };

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    int64_t stages, depth;
    double drop, attn_drop, path_rate;
    const char *act;
    bool reshapes_last;
    int32_t states[MOST_STAGES]; /* of each stage, [batch, width, h, w] where it is reshaped */
    int64_t grids[MOST_STAGES][2];
} model;

/* Of one stage. */
typedef struct place {
    int64_t width, heads, inner, ratio, h, w;
} place;

static void enter(const model *o, const char *name, const char *class) {
    pl_hf_enter(o->m, name, "segformer", pl_build_text(o->b, "Segformer%s", class));
}

/* [batch, h * w, width] to [batch, width, h, w]. */
static int32_t as_picture(const model *o, const place *p, int32_t x, bool view) {
    pl_builder *b = o->b;
    int64_t c = pl_built_size(b, x, -1);
    x = pl_aten_transpose(b, x, 1, 2);
    return view ? pl_aten_view(b, x, PL_SIZES(o->m->batch, c, p->h, p->w))
                : pl_aten_reshape(b, x, PL_SIZES(o->m->batch, c, p->h, p->w));
}

static int32_t as_tokens(const model *o, int32_t x) {
    return pl_aten_transpose(o->b, pl_aten_flatten(o->b, x, 2, -1), 1, 2);
}

static int32_t reduced(const model *o, const place *p, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "sequence_reduction", "SequenceReduction");
    pl_line(b, "hidden_states = hidden_states.transpose(1, 2).reshape(batch_size, num_channels)");
    x = as_picture(o, p, x, false);
    pl_line(b, "hidden_states = self.sequence_reduction(hidden_states)");
    x = pl_hf_conv(
        o->m, "sequence_reduction", x,
        (pl_hf_kernel){.out = p->width, .size = p->ratio, .stride = p->ratio, .bias = true});
    pl_line(b, "hidden_states = hidden_states.reshape(batch_size, num_channels, -1)");
    x = pl_aten_reshape(b, x, PL_SIZES(o->m->batch, p->width, -1));
    x = pl_aten_transpose(b, x, 1, 2);
    pl_line(b, "hidden_states = self.layer_norm(hidden_states)");
    x = pl_hf_norm(o->m, "layer_norm", x);
    pl_module_leave(b);
    return x;
}

static int32_t attention(const model *o, const place *p, int32_t x) {
    pl_builder *b = o->b;
    int64_t head = p->width / p->heads;
    enter(o, "attention", "Attention");
    pl_module_children(b, "q_proj k_proj v_proj o_proj sequence_reduction");
    pl_line(b, "query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)");
    int32_t q = pl_hf_heads(o->m, pl_hf_linear(o->m, "q_proj", x, p->width, true), head);
    pl_line(b, "kv_hidden_states = self.sequence_reduction(hidden_states, height, width)");
    if (p->ratio > 1) x = reduced(o, p, x);
    pl_line(b, "key_states = self.k_proj(kv_hidden_states).view(kv_hidden_shape).transpose(1, 2)");
    int32_t k = pl_hf_heads(o->m, pl_hf_linear(o->m, "k_proj", x, p->width, true), head);
    pl_line(b, "value_states = self.v_proj(kv_hidden_states).view(kv_hidden_shape)");
    int32_t v = pl_hf_heads(o->m, pl_hf_linear(o->m, "v_proj", x, p->width, true), head);
    pl_hf_attend how = {.scale = 1 / sqrt((double)head), .drop = o->attn_drop, .wide = true};
    x = pl_hf_attention_of(o->m, q, k, v, PL_NONE, how);
    pl_line(b, "attn_output = self.o_proj(attn_output)");
    x = pl_hf_linear(o->m, "o_proj", x, p->width, true);
    pl_module_leave(b);
    return x;
}

static int32_t mlp(const model *o, const place *p, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "mlp", "MixMLP");
    pl_line(b, "hidden_states = self.fc1(hidden_states)");
    x = pl_hf_linear(o->m, "fc1", x, p->inner, true);
    enter(o, "dwconv", "DepthWiseConv");
    pl_line(b, "hidden_states = hidden_states.transpose(1, 2).view(batch_size, num_channels)");
    x = as_picture(o, p, x, true);
    pl_line(b, "hidden_states = self.dwconv(hidden_states)");
    x = pl_hf_conv(
        o->m, "dwconv", x,
        (pl_hf_kernel){.out = p->inner, .size = 3, .padding = 1, .groups = p->inner, .bias = true});
    pl_line(b, "hidden_states = hidden_states.flatten(2).transpose(1, 2)");
    x = as_tokens(o, x);
    pl_module_leave(b);
    x = pl_hf_activation(o->m, "activation_fn", o->act, x);
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_line(b, "hidden_states = self.fc2(hidden_states)");
    x = pl_hf_linear(o->m, "fc2", x, p->width, true);
    x = pl_hf_dropout(o->m, "dropout", x, o->drop);
    pl_module_leave(b);
    return x;
}

static int32_t layer(const model *o, const place *p, int64_t index, int32_t x, double rate) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    pl_hf_enter_at(m, "blocks", index, "segformer", "SegformerLayer");
    pl_line(b, "hidden_states = self.layernorm_before(hidden_states)");
    int32_t y = pl_hf_norm(m, "layernorm_before", x);
    y = attention(o, p, y);
    pl_line(b, "hidden_states = self.hidden_dropout(hidden_states)");
    y = pl_hf_dropout(m, "hidden_dropout", y, o->drop);
    y = pl_hf_drop_path(m, "segformer", "SegformerDropPath", y, rate);
    x = pl_hf_sum(m, "hidden_states = self.drop_path(hidden_states) + residual", y, x);
    pl_line(b, "hidden_states = self.layernorm_after(hidden_states)");
    y = pl_hf_norm(m, "layernorm_after", x);
    y = mlp(o, p, y);
    y = pl_hf_drop_path(m, "segformer", "SegformerDropPath", y, rate);
    x = pl_hf_sum(m, "hidden_states = self.drop_path(hidden_states) + residual", y, x);
    pl_module_leave(b);
    return x;
}

static int32_t stage(model *o, int64_t index, int64_t before, int32_t x) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t depth = pl_hf_size_at(m, "depths", index, 2),
            patch = pl_hf_size_at(m, "patch_sizes", index, 3);
    place p = {.width = pl_hf_size_at(m, "hidden_sizes", index, 32),
               .heads = pl_hf_size_at(m, "num_attention_heads", index, 1),
               .ratio = pl_hf_size_at(m, "sr_ratios", index, 1)};
    p.inner = p.width * pl_hf_size_at(m, "mlp_ratios", index, 4);
    pl_hf_divides(m, "num_attention_heads", p.width, p.heads);
    if (p.inner > 1 << 30) pl_hf_refuse(m, "mlp_ratios", "expected up to 2^30 in all");
    if (pl_build_failed(b)) return PL_NONE;
    pl_hf_enter_at(m, "stages", index, "segformer", "SegformerStage");
    pl_module_children(b, "patch_embeddings blocks layer_norm");
    enter(o, "patch_embeddings", "OverlapPatchEmbeddings");
    pl_line(b, "embeddings = self.proj(pixel_values)");
    x = pl_hf_conv(m, "proj", x,
                   (pl_hf_kernel){.out = p.width,
                                  .size = patch,
                                  .stride = pl_hf_size_at(m, "strides", index, 2),
                                  .padding = patch / 2,
                                  .bias = true});
    o->grids[index][0] = p.h = pl_built_size(b, x, 2);
    o->grids[index][1] = p.w = pl_built_size(b, x, 3);
    pl_line(b, "embeddings = embeddings.flatten(2).transpose(1, 2)");
    x = as_tokens(o, x);
    pl_line(b, "embeddings = self.layer_norm(embeddings)");
    x = pl_hf_norm(m, "layer_norm", x);
    pl_module_leave(b);
    for (int64_t i = 0; i < depth && !pl_build_failed(b); i++) {
        double last = o->depth > 1 ? (double)(o->depth - 1) : 1;
        pl_line(b, "hidden_states = block(hidden_states, height, width)");
        x = layer(o, &p, i, x, o->path_rate * (double)(before + i) / last);
    }
    pl_line(b, "hidden_states = self.layer_norm(hidden_states)");
    x = pl_hf_norm(m, "layer_norm", x);
    if (index + 1 < o->stages || o->reshapes_last) {
        pl_line(b, "hidden_states = hidden_states.reshape(batch_size, height, width, -1)");
        x = pl_aten_reshape(b, x, PL_SIZES(m->batch, p.h, p.w, -1));
        x = pl_aten_contiguous(b, pl_aten_permute(b, x, PL_SIZES(0, 3, 1, 2)));
    }
    pl_module_leave(b);
    return x;
}

static int32_t base(model *o) {
    pl_hf *m = o->m;
    int64_t sides[2], before = 0;
    pl_hf_sides(m, "image_size", 224, sides);
    int32_t x = pl_hf_pixels(m, pl_hf_size(m, "num_channels", 3), sides[0], sides[1]);
    for (int64_t i = 0; i < o->stages && !pl_build_failed(o->b); i++) {
        pl_line(o->b, "hidden_states = stage(hidden_states)");
        x = o->states[i] = stage(o, i, before, x);
        before += pl_hf_size_at(m, "depths", i, 2);
    }
    return x;
}

static int32_t decode_head(model *o) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t width = pl_hf_size(m, "decoder_hidden_size", 256), count = o->stages;
    int32_t parts[MOST_STAGES];
    enter(o, "decode_head", "DecodeHead");
    for (int64_t i = 0; i < count && !pl_build_failed(b); i++) {
        int32_t x = o->states[i];
        int64_t h = o->grids[i][0], w = o->grids[i][1];
        if (pl_built_dims(b, x) == 3) {
            pl_line(b, "encoder_hidden_state = encoder_hidden_state.reshape(batch_size, height)");
            x = pl_aten_reshape(b, x, PL_SIZES(m->batch, h, w, -1));
            x = pl_aten_contiguous(b, pl_aten_permute(b, x, PL_SIZES(0, 3, 1, 2)));
        }
        pl_hf_enter_at(m, "linear_projections", i, "segformer", "SegformerMLP");
        x = pl_hf_linear(m, "proj", as_tokens(o, x), width, true);
        pl_module_leave(b);
        pl_line(b, "encoder_hidden_state = encoder_hidden_state.transpose(1, 2)");
        x = pl_aten_transpose(b, x, 1, 2);
        pl_line(b, "encoder_hidden_state = encoder_hidden_state.reshape(batch_size, -1, height)");
        x = pl_aten_reshape(b, x, PL_SIZES(m->batch, -1, h, w));
        pl_line(b, "encoder_hidden_state = nn.functional.interpolate(");
        parts[count - 1 - i] = pl_hf_resize(m, x, o->grids[0][0], o->grids[0][1]);
    }
    pl_line(b, "hidden_states = self.linear_fuse(torch.cat(all_hidden_states[::-1], dim=1))");
    int32_t x = pl_aten_cat(b, (int)count, parts, 1);
    x = pl_hf_conv(m, "linear_fuse", x, (pl_hf_kernel){.out = width, .size = 1});
    pl_line(b, "hidden_states = self.batch_norm(hidden_states)");
    x = pl_hf_batch_norm(m, "batch_norm", x, 0.1, 1e-5);
    pl_line(b, "hidden_states = self.activation(hidden_states)");
    x = pl_hf_activation(m, "activation", "relu", x);
    pl_line(b, "hidden_states = self.dropout(hidden_states)");
    x = pl_hf_dropout(m, "dropout", x, pl_hf_float(m, "classifier_dropout_prob", 0.1));
    pl_line(b, "logits = self.classifier(hidden_states)");
    x = pl_hf_conv(m, "classifier", x,
                   (pl_hf_kernel){.out = pl_hf_labels(m), .size = 1, .bias = true});
    pl_module_leave(b);
    return x;
}

static void build(pl_hf *m) {
    pl_builder *b = m->b;
    model o = {.m = m, .b = b};
    o.stages = pl_hf_int(m, "num_encoder_blocks", 4);
    o.drop = pl_hf_float(m, "hidden_dropout_prob", 0);
    o.attn_drop = pl_hf_float(m, "attention_probs_dropout_prob", 0);
    o.path_rate = pl_hf_float(m, "drop_path_rate", 0.1);
    o.act = pl_hf_string(m, "hidden_act", "gelu");
    o.reshapes_last = pl_hf_bool(m, "reshape_last_stage", true);
    if (o.stages < 1 || o.stages > MOST_STAGES) {
        pl_hf_refuse(m, "num_encoder_blocks", "expected 1 to %d stages", MOST_STAGES);
        return;
    }
    for (int64_t i = 0; i < o.stages; i++) o.depth += pl_hf_size_at(m, "depths", i, 2);
    if (o.depth > PL_HF_MAX_LAYERS)
        pl_hf_refuse(m, "depths", "more than %d layers", PL_HF_MAX_LAYERS);
    if (pl_build_failed(b)) return;
    if (m->task == PL_TASK_BASE) {
        enter(&o, "", "Model");
        pl_build_output(b, base(&o));
        pl_module_leave(b);
        return;
    }
    bool segments = m->task == PL_TASK_SEGMENT;
    enter(&o, "", segments ? "ForSemanticSegmentation" : "ForImageClassification");
    enter(&o, "segformer", "Model");
    int32_t x = base(&o);
    pl_module_leave(b);
    if (segments) {
        x = decode_head(&o);
        pl_hf_pixel_loss(m, x, pl_hf_int(m, "semantic_loss_ignore_index", 255));
    } else {
        pl_line(b, "sequence_output = sequence_output.permute(0, 2, 3, 1)");
        int64_t width = pl_hf_size_at(m, "hidden_sizes", o.stages - 1, 256);
        if (o.reshapes_last) x = pl_aten_permute(b, x, PL_SIZES(0, 2, 3, 1));
        pl_line(b, "sequence_output = sequence_output.reshape(batch_size, -1, hidden_size)");
        x = pl_aten_reshape(b, x, PL_SIZES(m->batch, -1, width));
        pl_line(b, "sequence_output = sequence_output.mean(dim=1)");
        x = pl_aten_reduce(b, "aten.mean.dim", x, 1, false);
        pl_line(b, "logits = self.classifier(sequence_output)");
        pl_hf_classification_loss(m, pl_hf_linear(m, "classifier", x, pl_hf_labels(m), true));
    }
    pl_module_leave(b);
}

const pl_hf_family pl_hf_segformer[] = {
    {.model_type = "segformer",
     .tasks = 1u << PL_TASK_SEGMENT | 1u << PL_TASK_CLASSIFY | 1u << PL_TASK_BASE,
     .usual = PL_TASK_SEGMENT,
     .build = build,
     .version = "5.22",
     .no_seq = true},
    {0},
};
