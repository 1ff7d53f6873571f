/* experts: what sets families' mixtures of experts apart: a router, experts, what runs beside them,
 * and which layers have them. A family's row points at one (mixtures.c); experts.c has the blocks,
 * routers.c the routers. */
#ifndef PL_IMPORT_FAMILIES_EXPERTS_H
#define PL_IMPORT_FAMILIES_EXPERTS_H

#include "import/families/decoder.h"

/* Where tokens go: weights and numbers of experts, [tokens, k] each. */
typedef struct pl_routing {
    int32_t scores, chosen;
} pl_routing;

typedef enum pl_router_logits {
    PL_LOGITS_PLAIN, /* F.linear(x, weight) */
    PL_LOGITS_AFTER, /* the same, .float() */
    PL_LOGITS_FLOAT, /* of x and weight in float32 */
} pl_router_logits;

typedef enum pl_router_scores {
    PL_SCORES_SOFTMAX, /* softmax(logits, dtype=float32) */
    PL_SCORES_FLOATED, /* softmax(logits.float()): Mixtral */
    PL_SCORES_SIGMOID,
    PL_SCORES_SIGMOID_FLOAT, /* of logits.float() */
    PL_SCORES_LATE,          /* softmax of the chosen logits: Granite */
    PL_SCORES_LATE_SIGMOID,
    PL_SCORES_LATE_CHOSEN, /* either, as expert_selection_fn says: Cohere 2 */
} pl_router_scores;

typedef enum pl_router_bias { /* added to the scores that experts are chosen by */
                              PL_BIAS_NONE,
                              PL_BIAS_BUFFER,
                              PL_BIAS_FROZEN,  /* a parameter without gradient */
                              PL_BIAS_STATICS, /* in a module of its own: Ernie 4.5 */
                              PL_BIAS_BLOCK,   /* a buffer of the block's: MiniMax M2 */
                              PL_BIAS_BLOCK_FROZEN,
} pl_router_bias;

typedef enum pl_router_groups { /* experts of the best groups alone: n_group, topk_group */
                                PL_GROUPS_NONE,
                                PL_GROUPS_TOP2, /* by the sum of a group's two best: DeepSeek V3 */
                                PL_GROUPS_MAX, /* by its best, where topk_method says so: DeepSeek V2 */
} pl_router_groups;

typedef enum pl_router_sum { /* the chosen weights over their sum */
                             PL_SUM_NONE,
                             PL_SUM_ASKED, /* where norm_topk_prob */
                             PL_SUM_ALWAYS,
} pl_router_sum;

typedef enum pl_router_cast {
    PL_CAST_NONE,
    PL_CAST_LOGITS, /* the weights in the logits' type */
    PL_CAST_INPUT,  /* in the tokens' */
} pl_router_cast;

typedef struct pl_router {
    const char *type, *name; /* class behind the family's prefix; module, NULL: "gate" */
    const char *linear;      /* the weight is in a linear layer of this name; NULL: the router's */
    pl_router_logits logits;
    pl_router_scores scores;
    pl_router_bias bias;
    pl_router_groups groups;
    pl_router_sum sum;
    double least;      /* added to the sum */
    bool sum_clamped;  /* the sum is clamped: Ernie 4.5 */
    bool sum_copied;   /* weights / sum, not weights /= sum */
    const char *scale; /* key of a factor; NULL: none */
    pl_router_cast cast;
    bool weight_bias; /* of the linear product: gpt-oss */
    bool no_autocast;
    const char *cap; /* key of a soft cap of the logits */
} pl_router;

typedef enum pl_beside { /* a feed-forward layer for every token beside the experts */
                         PL_BESIDE_NONE,
                         PL_BESIDE_GATED,  /* run first, times the sigmoid of a gate: Qwen 2 */
                         PL_BESIDE_AFTER,  /* run last, on [B,S,width]: DeepSeek */
                         PL_BESIDE_BEFORE, /* run first, on [tokens,width]: Ernie 4.5 */
                         PL_BESIDE_WHOLE,  /* run first, on [B,S,width]: Hunyuan */
                         PL_BESIDE_LAST,   /* run last, on [tokens,width]: Cohere 2 */
                         PL_BESIDE_LAYER, /* run last, by the layer: gate and up in one matrix: Granite */
} pl_beside;

typedef enum pl_sparse { /* the layers that have experts */
                         PL_SPARSE_ALL,
                         PL_SPARSE_STEP, /* each decoder_sparse_step-th, none of mlp_only_layers: Qwen */
                         PL_SPARSE_FIRST, /* from `first` on */
                         PL_SPARSE_TYPES, /* mlp_layer_types, else from `first` on, each moe_layer_freq-th */
                         PL_SPARSE_PERIOD, /* each expert_layer_period-th from expert_layer_offset: Jamba */
                         PL_SPARSE_RANGE, /* moe_layer_start_index .. moe_layer_end_index, moe_layer_interval */
} pl_sparse;

typedef struct pl_experts_plan {
    bool turned, biased; /* weights [experts, in, out]; with biases: gpt-oss */
    bool clamped;        /* gate and up between limits, gate * sigmoid(alpha gate): gpt-oss */
    bool limited;        /* silu(gate between limits) * up between limits */
    bool plain;          /* no gate: act(up): Nemotron H */
} pl_experts_plan;

struct pl_mixture {
    const char *type, *name;      /* class behind the prefix; module of the layer, NULL: "mlp" */
    const char *children;         /* in the order of __init__ */
    const char *experts, *chosen; /* keys; NULL: the usual ones */
    const char *inner;            /* key of the experts' size; NULL: intermediate_size */
    pl_router router;
    pl_experts_plan plan;
    pl_beside beside;
    const char *beside_name;
    const char *beside_inner, *beside_count; /* keys whose product is its size; count NULL: 1 */
    const char *scale;                       /* key of a factor of the experts' sum */
    const char *wide;                        /* key: whether both are added in float32 */
    const char *after;                       /* a norm of the sum */
    const char *dense_inner; /* key of layers without experts; NULL: intermediate_size */
    const char *halved;      /* key that says "average": the sum is halved */
    pl_sparse sparse;
    const char *first; /* key of PL_SPARSE_FIRST's and TYPES' first sparse layer */
    int64_t usual_first;
};

/* x [tokens, width], by the experts it goes to */
int32_t pl_decoder_run_experts(pl_decoding *d, int32_t x, pl_routing r);
/* routers.c: x [tokens, width] */
pl_routing pl_decoder_route(pl_decoding *d, int32_t x);

#endif
