/* encoder: what the families of encoders, of pictures, sound or text, share: torch.nn's layers with
 * their parameters, attention as transformers' interface runs it, and towers that other models have
 * inside. */
#ifndef PL_IMPORT_FAMILIES_ENCODER_H
#define PL_IMPORT_FAMILIES_ENCODER_H

#include "import/hf.h"

/* A size; no larger than that products of two are numbers. */
int64_t pl_hf_size(pl_hf *m, const char *key, int64_t otherwise);
/* Height and width: a number for both, or a list of two. */
void pl_hf_sides(pl_hf *m, const char *key, int64_t otherwise, int64_t sides[2]);
/* An element of a list of sizes, of a number for all of them. */
int64_t pl_hf_size_at(pl_hf *m, const char *key, int64_t index, int64_t otherwise);
/* A key of layers that are built one by one; 0 is none. */
int64_t pl_hf_depth(pl_hf *m, const char *key, int64_t otherwise);
/* heads > 0 and width a multiple of it; the key is named where not. */
void pl_hf_divides(pl_hf *m, const char *key, int64_t width, int64_t heads);

/* A module of transformers.models.PACKAGE.modeling_PACKAGE, without a line. */
void pl_hf_enter(pl_hf *m, const char *name, const char *package, const char *class);
/* A layer of a list: "layers.3". */
void pl_hf_enter_at(pl_hf *m, const char *list, int64_t index, const char *package,
                    const char *class);

/* The input "pixel_values" [batch, channels, height, width], in the type of the weights. */
int32_t pl_hf_pixels(pl_hf *m, int64_t channels, int64_t height, int64_t width);

/* nn.Conv1d or nn.Conv2d by the input's dimensions, the same in height and width; groups, stride
 * and dilation: 0 is 1. */
typedef struct pl_hf_kernel {
    int64_t out, size, stride, padding, dilation, groups;
    bool bias;
} pl_hf_kernel;
int32_t pl_hf_conv(pl_hf *m, const char *name, int32_t x, pl_hf_kernel k);
int32_t pl_hf_batch_norm(pl_hf *m, const char *name, int32_t x, double momentum, double eps);
int32_t pl_hf_group_norm(pl_hf *m, const char *name, int32_t x, int64_t groups, double eps);
/* Over the last dimension, as F.layer_norm or nn.LayerNorm with eps 1e-5 and a bias. */
int32_t pl_hf_norm(pl_hf *m, const char *name, int32_t x);
int32_t pl_hf_max_pool(pl_hf *m, const char *name, int32_t x, int64_t kernel, int64_t stride,
                       int64_t padding, bool ceil);
/* Stochastic depth of whole samples: x of any dimensions; class: of the package's file. */
int32_t pl_hf_drop_path(pl_hf *m, const char *package, const char *class, int32_t x, double rate);

/* ForMaskedLMLoss: in float32. */
void pl_hf_masked_loss(pl_hf *m, int32_t logits);
/* Cross entropy of all tokens in the logits' own type; loss and logits become the outputs. */
void pl_hf_own_token_loss(pl_hf *m, int32_t logits);

/* Semantic segmentation: logits [n, classes, h, w] brought to the pixels' size (config.image_size),
 * cross entropy against a class for each; loss and logits become the outputs. */
void pl_hf_pixel_loss(pl_hf *m, int32_t logits, int64_t ignored);
/* F.interpolate(mode="bilinear", align_corners=False) of [n, c, ..]. */
int32_t pl_hf_resize(pl_hf *m, int32_t x, int64_t height, int64_t width);
/* x[.., start::step, ..] in one dimension. */
int32_t pl_hf_step_slice(pl_hf *m, int32_t x, int dim, int64_t start, int64_t step);
/* x.mean([-2, -1]): [n, c, h, w] to [n, c]. */
int32_t pl_hf_mean_places(pl_hf *m, int32_t x);

/* x + y, with the line of Python that does it. */
int32_t pl_hf_sum(pl_hf *m, const char *line, int32_t x, int32_t y);

/* [batch, length, heads * head] to [batch, heads, length, head]. */
int32_t pl_hf_heads(pl_hf *m, int32_t x, int64_t head);

/* What ALL_ATTENTION_FUNCTIONS runs. */
typedef struct pl_hf_attend {
    double scale, drop;
    bool causal;
    bool wide;     /* eager: softmax in float32, then the queries' type */
    bool unscaled; /* eager: no product with scale (the queries are scaled already) */
} pl_hf_attend;
/* q, k, v [batch, heads, length, head]; mask added to the scores, PL_NONE: none.
 * [batch, length, heads * head]. */
int32_t pl_hf_attention_of(pl_hf *m, int32_t q, int32_t k, int32_t v, int32_t mask, pl_hf_attend a);

/* nn.MultiheadAttention(batch_first=True) called for output and weights, of a query and what stands
 * for keys and values: [batch, queries, width]. */
int32_t pl_hf_multihead(pl_hf *m, const char *name, int32_t query, int32_t memory, int64_t heads,
                        double drop);

/* ---- towers (clip.c): an encoder of pictures or text inside a model, its keys those of pl_hf_within */

typedef struct pl_hf_tower {
    int32_t last;   /* last_hidden_state */
    int32_t pooled; /* PL_NONE: it has none */
    int64_t layers;
    int32_t *
        states; /* [layers + 1], hidden_states: what each layer was given, and what the last gave */
} pl_hf_tower;
/* model_type: "clip_vision_model", "siglip_vision_model"; name: of the module. What failed has no
 * states. */
pl_hf_tower pl_hf_picture_tower(pl_hf *m, const char *model_type, const char *name, int32_t pixels);

#endif
