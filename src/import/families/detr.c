/* detr: DETR: a frozen-norm ResNet, an encoder over its last map, a decoder of object queries.
 *
 * The order of operators, names and lines are those of transformers 5.22,
 * models/detr/modeling_detr.py, its backbone timm's ResNet (use_timm_backbone), of which all but the
 * norms learns; one of transformers' own is frozen whole, since the names that it looks for there
 * are not that network's. Called as model(pixel_values, labels) with images of image_size, where the
 * config has none of 800 x 1,066, all of one size, so that nothing is masked.
 *
 * Left out: what the matcher and the boxes' losses make, which is a few kilobytes an image (the
 * class loss and the distance of boxes are built), auxiliary losses, dilation, segmentation. */
#include <math.h>
#include <string.h>

#include "import/families/convnets.h"

enum { BOXES = 7 }; /* of an image: COCO's mean */

typedef struct model {
    pl_hf *m;
    pl_builder *b;
    int64_t width, queries;
    double drop, attn_drop, act_drop;
    const char *act;
} model;

static void enter(const model *o, const char *name, const char *class) {
    pl_hf_enter(o->m, name, "detr", pl_build_text(o->b, "Detr%s", class));
}

static int32_t dropped(const model *o, int32_t x, double p) {
    pl_line(o->b, "hidden_states = nn.functional.dropout(hidden_states, p=self.dropout)");
    return pl_aten_dropout(o->b, x, p);
}

/* ---- positions ---- */

/* Counts along a side, over the last of them: [batch, h, w]. */
static int32_t counted(const model *o, int32_t mask, int dim) {
    pl_builder *b = o->b;
    int32_t x = pl_aten_cumsum(b, mask, dim);
    int32_t last = pl_aten_slice(b, x, dim, pl_built_size(b, x, dim) - 1, INT64_MAX);
    last = pl_aten_scalar(b, "aten.add.Tensor", last, 1e-6);
    x = pl_aten_binary(b, "aten.div.Tensor", x, last);
    return pl_aten_scalar(b, "aten.mul.Tensor", x, 6.283185307179586);
}

static int32_t waves(const model *o, int32_t at, int32_t dims) {
    pl_builder *b = o->b;
    int32_t x = pl_aten_binary(b, "aten.div.Tensor", pl_aten_unsqueeze(b, at, -1), dims);
    int32_t parts[2] = {pl_aten_unary(b, "aten.sin.default", pl_hf_step_slice(o->m, x, 3, 0, 2)),
                        pl_aten_unary(b, "aten.cos.default", pl_hf_step_slice(o->m, x, 3, 1, 2))};
    return pl_aten_flatten(b, pl_aten_stack(b, 2, parts, 4), 3, -1);
}

/* mask: bool [batch, h, w], nothing hidden. [batch, h * w, width] */
static int32_t positions(const model *o, int32_t mask, int32_t like) {
    pl_builder *b = o->b;
    int64_t half = o->width / 2;
    enter(o, "position_embedding", "SinePositionEmbedding");
    mask = pl_aten_type_as(b, mask, like);
    int32_t y = counted(o, mask, 1), x = counted(o, mask, 2);
    int32_t dims = pl_aten_type_as(b, pl_aten_arange(b, half), like);
    dims = pl_aten_scalar(b, "aten.div.Tensor", dims, 2);
    dims = pl_aten_unary(b, "aten.exp.default", dims); /* stands for a power of 10,000 */
    int32_t parts[2];
    parts[1] = waves(o, x, dims);
    parts[0] = waves(o, y, dims);
    x = pl_aten_permute(b, pl_aten_cat(b, 2, parts, 3), PL_SIZES(0, 3, 1, 2));
    pl_module_leave(b);
    return pl_aten_transpose(b, pl_aten_flatten(b, x, 2, -1), 1, 2);
}

/* ---- layers ---- */

static int32_t attention(const model *o, const char *name, const char *class, int64_t heads,
                         int32_t x, int32_t query, int32_t key) {
    pl_builder *b = o->b;
    int64_t head = o->width / heads;
    enter(o, name, class);
    pl_module_children(b, "k_proj v_proj q_proj o_proj");
    pl_line(b, "query_states = self.q_proj(query_key_input).view(hidden_shape).transpose(1, 2)");
    int32_t q = pl_hf_heads(o->m, pl_hf_linear(o->m, "q_proj", query, o->width, true), head);
    pl_line(b, "key_states = self.k_proj(query_key_input).view(hidden_shape).transpose(1, 2)");
    int32_t k = pl_hf_heads(o->m, pl_hf_linear(o->m, "k_proj", key, o->width, true), head);
    pl_line(b, "value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)");
    int32_t v = pl_hf_heads(o->m, pl_hf_linear(o->m, "v_proj", x, o->width, true), head);
    pl_hf_attend how = {.scale = 1 / sqrt((double)head), .drop = o->attn_drop};
    x = pl_hf_attention_of(o->m, q, k, v, PL_NONE, how);
    pl_line(b, "attn_output = self.o_proj(attn_output)");
    x = pl_hf_linear(o->m, "o_proj", x, o->width, true);
    pl_module_leave(b);
    return x;
}

/* Dropout, the sum, its norm. */
static int32_t finish(const model *o, const char *norm, int32_t x, int32_t residual, bool drops) {
    if (drops) x = dropped(o, x, o->drop);
    x = pl_hf_sum(o->m, "hidden_states = residual + hidden_states", residual, x);
    pl_line(o->b, "hidden_states = self.layer_norm(hidden_states)");
    return pl_hf_norm(o->m, norm, x);
}

static int32_t mlp(const model *o, int64_t inner, int32_t x) {
    pl_builder *b = o->b;
    enter(o, "mlp", "MLP");
    pl_line(b, "hidden_states = self.activation_fn(self.fc1(hidden_states))");
    x = pl_hf_linear(o->m, "fc1", x, inner, true);
    x = dropped(o, pl_hf_activation(o->m, "activation_fn", o->act, x), o->act_drop);
    pl_line(b, "hidden_states = self.fc2(hidden_states)");
    x = dropped(o, pl_hf_linear(o->m, "fc2", x, o->width, true), o->drop);
    pl_module_leave(b);
    return x;
}

static int32_t encoder(const model *o, int32_t x, int32_t place) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t layers = pl_hf_depth(m, "encoder_layers", 6),
            heads = pl_hf_size(m, "encoder_attention_heads", 8),
            inner = pl_hf_size(m, "encoder_ffn_dim", 2048);
    pl_hf_divides(m, "encoder_attention_heads", o->width, heads);
    if (pl_build_failed(b)) return PL_NONE;
    enter(o, "encoder", "Encoder");
    x = dropped(o, x, o->drop);
    for (int64_t i = 0; i < layers && !pl_build_failed(b); i++) {
        pl_line(b, "hidden_states = encoder_layer(");
        pl_hf_enter_at(m, "layers", i, "detr", "DetrEncoderLayer");
        pl_line(b, "query_key_input = hidden_states + position_embeddings");
        int32_t placed = pl_aten_add(b, x, place);
        int32_t y = attention(o, "self_attn", "SelfAttention", heads, x, placed, placed);
        x = finish(o, "self_attn_layer_norm", y, x, true);
        y = mlp(o, inner, x);
        x = finish(o, "final_layer_norm", y, x, false);
        pl_module_leave(b);
    }
    pl_module_leave(b);
    return x;
}

static int32_t decoder(const model *o, int32_t memory, int32_t place, int32_t queries) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    int64_t layers = pl_hf_depth(m, "decoder_layers", 6),
            heads = pl_hf_size(m, "decoder_attention_heads", 8),
            inner = pl_hf_size(m, "decoder_ffn_dim", 2048);
    pl_hf_divides(m, "decoder_attention_heads", o->width, heads);
    if (pl_build_failed(b)) return PL_NONE;
    pl_line(b, "queries = torch.zeros_like(object_queries_position_embeddings)");
    int32_t x = pl_aten_unary(b, "aten.zeros_like.default", queries);
    enter(o, "decoder", "Decoder");
    for (int64_t i = 0; i < layers && !pl_build_failed(b); i++) {
        pl_line(b, "hidden_states = decoder_layer(");
        pl_hf_enter_at(m, "layers", i, "detr", "DetrDecoderLayer");
        pl_line(b, "query_key_input = hidden_states + position_embeddings");
        int32_t placed = pl_aten_add(b, x, queries);
        int32_t y = attention(o, "self_attn", "SelfAttention", heads, x, placed, placed);
        x = finish(o, "self_attn_layer_norm", y, x, true);
        pl_line(b, "query_input = hidden_states + position_embeddings");
        placed = pl_aten_add(b, x, queries);
        pl_line(b, "key_input = key_value_states + encoder_position_embeddings");
        int32_t key = pl_aten_add(b, memory, place);
        y = attention(o, "encoder_attn", "CrossAttention", heads, memory, placed, key);
        x = finish(o, "encoder_attn_layer_norm", y, x, true);
        y = mlp(o, inner, x);
        x = finish(o, "final_layer_norm", y, x, false);
        pl_module_leave(b);
    }
    pl_line(b, "hidden_states = self.layernorm(hidden_states)");
    x = pl_hf_norm(m, "layernorm", x);
    pl_module_leave(b);
    return x;
}

/* ---- the model ---- */

/* timm's ResNets by name, or the sizes that the file has for transformers' own. */
static pl_hf_backbone read_backbone(pl_hf *m) {
    static const struct {
        const char *name;
        int64_t depths[4];
        bool bottleneck;
    } known[] = {{"resnet18", {2, 2, 2, 2}, false},
                 {"resnet34", {3, 4, 6, 3}, false},
                 {"resnet50", {3, 4, 6, 3}, true},
                 {"resnet101", {3, 4, 23, 3}, true},
                 {"resnet152", {3, 8, 36, 3}, true}};
    pl_hf_backbone k = {.stem = 64};
    const char *type = pl_hf_string(m, "backbone_config.model_type", "timm_backbone");
    if (strcmp(type, "resnet") == 0) {
        k.frozen = true;
        k.stem = pl_hf_size(m, "backbone_config.embedding_size", 64);
        k.bottleneck =
            strcmp(pl_hf_string(m, "backbone_config.layer_type", "bottleneck"), "bottleneck") == 0;
        for (int64_t i = 0; i < 4; i++) {
            k.depths[i] = pl_hf_size_at(m, "backbone_config.depths", i, 3);
            k.widths[i] = pl_hf_size_at(m, "backbone_config.hidden_sizes", i, 256 << i);
        }
        return k;
    }
    const char *name = pl_hf_string(m, "backbone_config.backbone|backbone", "resnet50");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        k.bottleneck = known[i].bottleneck;
        for (int s = 0; s < 4; s++) {
            k.depths[s] = known[i].depths[s];
            k.widths[s] = (k.bottleneck ? 256 : 64) << s;
        }
        return k;
    }
    pl_hf_refuse(m, "backbone", "%.40s: only ResNets are built", name);
    return k;
}

static int32_t base(const model *o) {
    pl_builder *b = o->b;
    pl_hf *m = o->m;
    pl_hf_backbone k = read_backbone(m);
    int64_t sides[2] = {800, 1066};
    if (pl_hf_has(m, "image_size")) pl_hf_sides(m, "image_size", 800, sides);
    if (pl_hf_bool(m, "dilation", false)) pl_hf_refuse(m, "dilation", "this is not built");
    if (strcmp(pl_hf_string(m, "position_embedding_type", "sine"), "sine") != 0)
        pl_hf_refuse(m, "position_embedding_type", "only sine is built");
    if (pl_build_failed(b)) return PL_NONE;
    pl_module_children(b, "backbone query_position_embeddings input_projection encoder decoder");
    int32_t x = pl_hf_pixels(m, pl_hf_size(m, "num_channels", 3), sides[0], sides[1]), maps[4];
    int32_t like = x;
    pl_line(b, "pixel_mask = torch.ones(((batch_size, height, width)), device=device)");
    int32_t mask =
        pl_aten_make(b, "aten.ones.default", PL_DT_F32, PL_SIZES(m->batch, sides[0], sides[1]), 1);
    enter(o, "backbone", "ConvEncoder");
    pl_line(b, "features = self.model(pixel_values)");
    pl_module_enter(b, "model", "timm.models._features.FeatureListNet");
    pl_hf_resnet_maps(m, &k, x, maps);
    pl_module_leave(b);
    x = maps[3];
    int64_t h = pl_built_size(b, x, 2), w = pl_built_size(b, x, 3);
    pl_line(b, "mask = nn.functional.interpolate(pixel_mask[None].float()).to(torch.bool)[0]");
    pl_call(b, "aten.upsample_nearest2d.vec");
    pl_call_tensor(b, "input", pl_aten_unsqueeze(b, mask, 0));
    pl_call_ints(b, "output_size", 2, (const int64_t[]){h, w});
    mask = pl_call_result(b, PL_DT_F32, PL_SIZES(1, m->batch, h, w));
    mask = pl_aten_select(b, pl_aten_to(b, mask, PL_DT_BOOL), 0, 0);
    pl_module_leave(b);
    pl_line(b, "projected_feature_map = self.input_projection(feature_map)");
    x = pl_hf_conv(m, "input_projection", x,
                   (pl_hf_kernel){.out = o->width, .size = 1, .bias = true});
    pl_line(b, "flattened_features = projected_feature_map.flatten(2).transpose(1, 2)");
    x = pl_aten_transpose(b, pl_aten_flatten(b, x, 2, -1), 1, 2);
    pl_line(b, "spatial_position_embeddings = self.position_embedding(");
    int32_t place = positions(o, mask, like);
    pl_line(b, "encoder_outputs = self.encoder(");
    x = encoder(o, x, place);
    pl_line(b, "object_queries_position_embeddings = self.query_position_embeddings.weight");
    int32_t queries =
        pl_build_parameter(b, "query_position_embeddings.weight", PL_SIZES(o->queries, o->width));
    queries = pl_aten_repeat(b, pl_aten_unsqueeze(b, queries, 0), PL_SIZES(m->batch, 1, 1));
    pl_line(b, "decoder_outputs = self.decoder(");
    return decoder(o, x, place, queries);
}

/* Each query's class, and the boxes of those that an object of the labels was given to. */
static void loss(const model *o, int32_t logits, int32_t boxes) {
    pl_builder *b = o->b;
    int64_t batch = o->m->batch, count = batch * BOXES;
    int32_t labels = pl_build_input(b, "labels", PL_DT_I64, PL_SIZES(batch, o->queries));
    int32_t wanted = pl_build_input(b, "boxes", o->m->dtype, PL_SIZES(count, 4));
    pl_line(b, "loss_ce = nn.functional.cross_entropy(source_logits.transpose(1, 2), classes)");
    int32_t sum = pl_aten_cross_entropy(b, pl_aten_transpose(b, logits, 1, 2), labels, -100);
    pl_line(b, "source_boxes = outputs[\"pred_boxes\"][idx]");
    int32_t at = pl_aten_make(b, "aten.zeros.default", PL_DT_I64, PL_SIZES(count), 0);
    int32_t x = pl_aten_index(b, boxes, 2, (int32_t[]){at, at});
    pl_line(b, "loss_bbox = nn.functional.l1_loss(source_boxes, target_boxes)");
    x = pl_aten_mse_loss(b, x, wanted);
    pl_line(b, "loss = sum(loss_dict[k] * weight_dict[k] for k in loss_dict)");
    sum = pl_aten_add(b, sum, pl_aten_scalar(b, "aten.mul.Tensor", x, 5));
    pl_build_output(b, sum);
    pl_build_output(b, logits);
    pl_build_output(b, boxes);
}

static void build(pl_hf *m) {
    pl_builder *b = m->b;
    model o = {.m = m, .b = b};
    o.width = pl_hf_size(m, "d_model", 256);
    o.queries = pl_hf_size(m, "num_queries", 100);
    o.drop = pl_hf_float(m, "dropout", 0.1);
    o.attn_drop = pl_hf_float(m, "attention_dropout", 0);
    o.act_drop = pl_hf_float(m, "activation_dropout", 0);
    o.act = pl_hf_string(m, "activation_function", "relu");
    if (o.width % 4) pl_hf_refuse(m, "d_model", "expected a multiple of 4");
    if (pl_hf_bool(m, "auxiliary_loss", false))
        pl_hf_refuse(m, "auxiliary_loss", "losses of every layer are not built");
    if (pl_build_failed(b)) return;
    if (m->task == PL_TASK_BASE) {
        enter(&o, "", "Model");
        pl_build_output(b, base(&o));
        pl_module_leave(b);
        return;
    }
    enter(&o, "", "ForObjectDetection");
    pl_module_children(b, "model class_labels_classifier bbox_predictor");
    enter(&o, "model", "Model");
    int32_t x = base(&o);
    pl_module_leave(b);
    pl_line(b, "logits = self.class_labels_classifier(sequence_output)");
    int32_t logits = pl_hf_linear(m, "class_labels_classifier", x, pl_hf_labels(m) + 1, true);
    pl_line(b, "pred_boxes = self.bbox_predictor(sequence_output).sigmoid()");
    enter(&o, "bbox_predictor", "MLPPredictionHead");
    for (int i = 0; i < 3; i++) {
        x = pl_hf_linear(m, pl_build_text(b, "layers.%d", i), x, i < 2 ? o.width : 4, true);
        if (i < 2) x = pl_aten_unary(b, "aten.relu.default", x);
    }
    pl_module_leave(b);
    loss(&o, logits, pl_aten_unary(b, "aten.sigmoid.default", x));
    pl_module_leave(b);
}

const pl_hf_family pl_hf_detr[] = {
    {.model_type = "detr",
     .tasks = 1u << PL_TASK_DETECT | 1u << PL_TASK_BASE,
     .usual = PL_TASK_DETECT,
     .build = build,
     .version = "5.22",
     .no_seq = true,
     .warning = "images are taken to be 800 x 1066 where the config has no image_size, all of one "
                "size, with 7 boxes each"},
    {0},
};
