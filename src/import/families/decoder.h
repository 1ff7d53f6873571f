/* decoder: the blocks of decoders of Llama's plan: norms, attention with rotary positions,
 * feed-forward layers and experts. A family is a row that says which of them it has (llama.c). */
#ifndef PL_IMPORT_FAMILIES_DECODER_H
#define PL_IMPORT_FAMILIES_DECODER_H

#include "import/hf.h"

typedef enum pl_norm_kind {
    PL_NORM_RMS,       /* weight * (x in float32, normalised).to(x's type) */
    PL_NORM_RMS_FLOAT, /* (weight * x in float32).to(x's type): OLMo 2 */
    PL_NORM_RMS_WIDE,  /* (weight in float32 * x in float32).to(x's type): Helium */
    PL_NORM_RMS_ONE,   /* (x in float32) * (1 + weight): Gemma */
    PL_NORM_RMS_BARE,  /* without weights: NanoChat */
    PL_NORM_POW,       /* (x in float32) * weight, by pow(.., -0.5): Gemma 3n */
    PL_NORM_POW_BARE,  /* the same without weights */
    PL_NORM_LAYER,     /* nn.LayerNorm */
    PL_NORM_LAYER_ONE, /* layer norm by 1 + weight: Nemotron */
    PL_NORM_BARE,      /* layer norm in float32 without weights: OLMo */
    PL_NORM_MEAN,      /* layer norm by hand, in float32, no bias: Cohere */
} pl_norm_kind;

typedef enum pl_wiring {
    PL_WIRING_PRE,      /* x + f(norm(x)) */
    PL_WIRING_POST,     /* x + norm(f(x)) */
    PL_WIRING_SANDWICH, /* x + norm(f(norm(x))) */
    PL_WIRING_PARALLEL, /* x + attention(norm(x)) + mlp(norm(x)) */
} pl_wiring;

typedef enum pl_mlp_kind {
    PL_MLP_GATED, /* down(act(gate(x)) * up(x)) */
    PL_MLP_FUSED, /* gate and up in one matrix: Phi 3 */
    PL_MLP_PLAIN, /* c_proj(act(c_fc(x))): StarCoder 2 */
    PL_MLP_EXPERTS,
} pl_mlp_kind;

typedef enum pl_qk_norm {
    PL_QK_NONE,
    PL_QK_VIEW,  /* of each head, before the transpose: Qwen 3 */
    PL_QK_HEADS, /* of each head, after it: Gemma 3 */
    PL_QK_WHOLE, /* of all heads at once: OLMo 2 */
    PL_QK_AFTER, /* of each head, once turned: HunYuan */
} pl_qk_norm;

typedef enum pl_rotary_kind {
    PL_ROTARY_HALVES,  /* cos and sin as wide as what they turn: Llama */
    PL_ROTARY_TWICE,   /* each layer doubles half of them: GLM */
    PL_ROTARY_HALF,    /* cos and sin of half the width, for both halves: gpt-oss */
    PL_ROTARY_COMPLEX, /* complex numbers: DeepSeek V2, Llama 4 */
} pl_rotary_kind;

/* The layers whose queries and keys are turned. */
typedef enum pl_rotary_layers {
    PL_ROTARY_ALL,
    PL_ROTARY_LISTED,    /* where no_rope_layers says so: SmolLM 3 */
    PL_ROTARY_SLIDING,   /* those that slide: Cohere 2 */
    PL_ROTARY_SLIDING_4, /* those that slide, all where none has a window: EXAONE 4 */
    PL_ROTARY_THETA,     /* layer_rope_theta is not 0: Granite with windows */
    PL_ROTARY_NONE,      /* none, nor are there angles: Jamba */
    PL_ROTARY_ASKED,     /* where position_embedding_type is "rope", else none: Granite's hybrids */
} pl_rotary_layers;

typedef enum pl_window {
    PL_WINDOW_NONE,
    PL_WINDOW_ALL,       /* sliding_window, where there is one, holds for every layer */
    PL_WINDOW_LAST,      /* from max_window_layers on, where use_sliding_window: Qwen */
    PL_WINDOW_ALTERNATE, /* every second layer, the first included: Gemma 2 */
    PL_WINDOW_PATTERN,   /* all but each sixth, or `pattern`th: Gemma 3 */
    PL_WINDOW_FIRST,     /* all but the first of each `pattern`: CWM */
    PL_WINDOW_FROM,      /* from max_window_layers on, where there is one: dots.llm1 */
    PL_WINDOW_CHUNKS,    /* chunks of attention_chunk_size, where positions turn: Llama 4 */
} pl_window;

typedef struct pl_mixture pl_mixture; /* experts.h */
typedef struct pl_latent pl_latent;   /* latent.h */
typedef struct pl_decoding pl_decoding;

/* What a family has; keys name what its config says, NULL: it does not. */
typedef struct pl_decoder {
    const char *package, *prefix; /* transformers.models.PACKAGE.modeling_PACKAGE.PREFIXAttention */
    pl_norm_kind norm;
    const char *eps;
    pl_wiring wiring;
    pl_mlp_kind mlp;
    pl_qk_norm qk;
    pl_window window;
    const pl_mixture *mixture; /* of PL_MLP_EXPERTS */
    const pl_latent *latent;   /* multi-head latent attention; NULL: attention as Llama's */
    bool tied;                 /* tie_word_embeddings, where the file does not say */
    bool fused_qkv;
    const char *qkv_bias, *out_bias, *mlp_bias; /* keys; "" : always; NULL: never */
    bool scaled_embedding;                      /* times sqrt(hidden_size), a buffer */
    bool multipliers;  /* granite's embedding_multiplier, residual_multiplier, logits_scaling */
    bool logit_scale;  /* cohere's */
    bool caps;         /* attn_logit_softcapping, final_logit_softcapping */
    bool eager_only;   /* sdpa is not supported */
    bool float_rotary; /* cos and sin stay float32 */
    bool two_rotaries; /* of sliding and of full layers */
    bool grid_rotary;  /* three positions to a token, each with its share of the angles: Qwen2-VL */
    pl_rotary_kind rotary;
    pl_rotary_layers rotary_layers;
    double rotary_share; /* partial_rotary_factor, where the file does not say; 0: no such thing */
    bool dropouts;       /* residual dropout modules: Phi 3 */
    bool mlp_dropouts;   /* nn.functional.dropout behind both blocks: StarCoder 2 */
    bool one_dropout;    /* a module behind the feed-forward block alone: StableLM */
    bool last_full;      /* the last layer never slides: Gemma 4 */
    int64_t pattern;     /* of windows; 0: six */
    bool no_head_dim;    /* hidden_size / num_attention_heads, whatever head_dim says */
    bool norm_first;     /* the last norm runs on the embeddings too: NanoChat */
    bool logits_times;   /* multipliers' logits_scaling multiplies: HyperCLOVA X */
    bool wide_turn;      /* queries and keys are float32 while they are turned: Ernie 4.5 */
    bool query_scale;    /* queries are scaled by their positions: Ministral 3 */
    const char *post_norm; /* the key of sandwich wiring, where it is not always so */
    /* Names, where they are others: norms before and after attention, before and after the
     * feed-forward layer (NULL: as the wiring has them); the plain layer's up, act, down; of
     * queries and keys; norms before the last matrices of attention and feed-forward (BitNet). */
    const char *norms[4], *plain[3], *qk_names[2], *inner_norms[2];
    /* In place of the layers and what makes their positions. */
    int32_t (*layers)(pl_decoding *d, int32_t x);
    const char *qk_key;    /* that says whether queries and keys are normalised; NULL: they are */
    const char *head_bias; /* as qkv_bias, of lm_head */
    bool always_masked;    /* masks are made where the kernel needs none too */
    /* In place of the layer of this plan. */
    int32_t (*layer)(pl_decoding *d, int64_t index, int32_t x);
    /* In place of the attention of layers that layer_types calls linear_attention, or that
     * full_attention_interval leaves without; module mix_name (scan.h). */
    int32_t (*mix)(pl_decoding *d, int64_t layer, int32_t x);
    bool (*mixes)(pl_decoding *d, int64_t layer); /* which layers those are; NULL: as said there */
    const char *norm_bias;                        /* key of PL_NORM_LAYER's; NULL: it has one */
    bool residual_times;   /* what blocks give is times a number: MiniCPM 3 */
    bool states_over;      /* the head takes states over a number: MiniCPM 3 */
    bool residual_weights; /* and what goes past a block times a weight: Doge */
    bool mixed_pre;        /* those layers' wiring is PL_WIRING_PRE: OLMo hybrid */
    bool key_times;        /* keys are times a number before they are turned: Falcon H1 */
    bool listed;           /* as many layers as layers_block_type or hybrid_override_pattern say */
    const char *last_norm; /* NULL: "norm" */
    int64_t (*inner_of)(pl_hf *m, int64_t inner); /* another size of the feed-forward layer */
    bool query_gate; /* q_proj gives a gate beside each query, whose sigmoid the heads are times */
    /* In place of the attention between heads; gives [B,S,heads,D]. */
    int32_t (*attend)(pl_decoding *d, int64_t layer, int32_t q, int32_t k, int32_t v, bool sliding);
} pl_decoder;

/* Of latent attention: ranks of the narrow projections (0: queries have none), and of a head the
 * parts without positions and with them, and its values. */
typedef struct pl_latent_sizes {
    int64_t q_rank, kv_rank, plain, turned, value;
    int32_t narrow; /* queries before their second projection, of this layer */
    int32_t best;   /* the places that the last indexer chose; PL_NONE: none has run */
} pl_latent_sizes;

/* Sizes and module types, read once per build. */
struct pl_decoding {
    pl_hf *m;
    const pl_decoder *plan;
    int64_t width, inner, heads, kv_heads, head_dim, rotary_dim, layers;
    double eps, attention_dropout, residual_dropout, scale, cap, multiplier;
    const char *act;
    bool qkv_bias, out_bias, mlp_bias, parallel;
    pl_wiring wiring;
    pl_qk_norm qk;
    bool head_bias;
    int64_t window; /* of sliding layers; 0: none */
    const char *attention_type, *mlp_type, *layer_type, *norm_type, *experts_type;
    /* tensors shared by the layers; [0] of full attention, [1] of sliding */
    int32_t mask[2], cos[2], sin[2];
    int32_t ids;    /* [B,S]; PL_NONE: embeddings alone are known */
    int32_t embeds; /* [B,S,width]: its type is the masks' */
    int32_t input;  /* of the attention being built, [B,S,width] */
    int32_t gate;   /* of query_gate, [B,S,heads D] */
    /* inside another model, which may make these for it */
    bool masked;          /* mask[] is made */
    int32_t position_ids; /* PL_NONE: 0, 1, .. */
    pl_latent_sizes latent;
    /* experts */
    int64_t experts, chosen, expert_inner, shared_inner; /* shared_inner 0: no shared expert */
    int32_t router_bias;                                 /* the block's own, for its router */
    int64_t dense_inner;                                 /* of layers without experts */
    uint64_t sparse[PL_HF_MAX_LAYERS / 64 + 1];          /* a bit per layer that has experts */
};

/* "transformers.models.llama.modeling_llama.Llama" and what follows. */
const char *pl_decoder_type(pl_decoding *d, const char *what);
void pl_decoder_read(pl_decoding *d, pl_hf *m, const pl_decoder *plan);
bool pl_decoder_slides(pl_decoding *d, int64_t layer);

int32_t pl_decoder_norm(pl_decoding *d, const char *name, int32_t x);
int32_t pl_decoder_norm_as(pl_decoding *d, pl_norm_kind kind, const char *name, int32_t x);
/* Masks that eager mode makes: PL_NONE where the kernel needs none. */
int32_t pl_decoder_mask(pl_decoding *d, bool sliding);
int32_t pl_decoder_layer(pl_decoding *d, int64_t index, int32_t x);
/* Its parts, of layers that are wired otherwise. */
int32_t pl_decoder_attention(pl_decoding *d, int64_t layer, int32_t x);
int32_t pl_decoder_feed_forward(pl_decoding *d, int64_t layer, int32_t x);
/* up, act, down within the present module. */
int32_t pl_decoder_plain(pl_decoding *d, int32_t x, int64_t inner);
/* mixtures.c's and llama_more.c's: eager attention, scaled by what a sink of each head leaves. */
int32_t pl_decoder_attend_sinks(pl_decoding *d, int64_t layer, int32_t q, int32_t k, int32_t v,
                                bool sliding);
/* Scaled products of heads [B,H,S,D] by the implementation asked for: [B,S,heads,D]. */
int32_t pl_decoder_attend(pl_decoding *d, int32_t q, int32_t k, int32_t v, bool sliding);

/* rotary.c */
void pl_decoder_make_rotary(pl_decoding *d, int32_t position_ids);
bool pl_decoder_turns(pl_decoding *d, int64_t layer);
bool pl_decoder_has_angles(pl_decoding *d);
void pl_decoder_turn(pl_decoding *d, int32_t *q, int32_t *k, int32_t v, bool sliding);

/* llama.c: the language model of a family inside another model, whose keys are asked for within
 * "text_config." (pl_hf_within).
 *
 *     const pl_decoder *plan = pl_decoder_plan("llama"); ...
 *     pl_decoder_read(&d, m, plan);
 *     x = pl_decoder_embed(&d, "language_model.embed_tokens", ids, &weight);
 *     x = pl_decoder_model(&d, "language_model", x); */
const pl_decoder *pl_decoder_plan(const char *model_type); /* NULL: not of Llama's plan */
/* [B,S] to [B,S,width]; name: the module's; *weight: for a head that is tied to it. */
int32_t pl_decoder_embed(pl_decoding *d, const char *name, int32_t ids, int32_t *weight);
/* Masks, positions, layers and the last norm; the caller's module has been told of its children. */
int32_t pl_decoder_model(pl_decoding *d, const char *name, int32_t embeds);
/* lm_head and what the family does to its logits; tied to weight or with one of its own. */
int32_t pl_decoder_head(pl_decoding *d, int32_t x, bool tied, int32_t weight);

/* Inside a module: down(act(gate(x)) * up(x)), of this size. */
int32_t pl_decoder_gated(pl_decoding *d, int32_t x, int64_t inner);
/* A family's build: its row's plan. */
void pl_decoder_build(pl_hf *m);

/* Rows of families that are built by it: PL_DECODER_ROW("llama", PL_DECODER_HEADS),
 * PL_DECODER_PLAN(.package = ..). */
#define PL_DECODER_CAUSAL (1u << PL_TASK_CAUSAL | 1u << PL_TASK_BASE)
#define PL_DECODER_HEADS  (PL_DECODER_CAUSAL | 1u << PL_TASK_CLASSIFY | 1u << PL_TASK_TOKENS)
#define PL_DECODER_ROW(type, which)                                                                \
    .model_type = type, .tasks = which, .usual = PL_TASK_CAUSAL, .build = pl_decoder_build,        \
    .version = "5.22"
#define PL_DECODER_PLAN(...)                                                                       \
    .plan = &(const pl_decoder) {                                                                  \
        __VA_ARGS__                                                                                \
    }

/* experts.c */
void pl_decoder_read_experts(pl_decoding *d);
bool pl_decoder_has_experts(pl_decoding *d, int64_t layer);
int32_t pl_decoder_experts(pl_decoding *d, int32_t x);

#endif
