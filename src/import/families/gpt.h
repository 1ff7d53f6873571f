/* gpt: what the decoder-only families of gpt.c, gpt_more.c and gpt_old.c share. A family is a row
 * of names and three functions: what it reads of the config, how it embeds, and its block. */
#ifndef PL_IMPORT_FAMILIES_GPT_H
#define PL_IMPORT_FAMILIES_GPT_H

#include "import/hf.h"

typedef struct pl_gpt_layout pl_gpt_layout;

/* What a family calls the keys that all have, its own name first: transformers takes others too
 * (attribute_map), and files have them. */
typedef struct pl_gpt_names {
    const char *width, *layers, *heads, *inner;
} pl_gpt_names;

extern const pl_gpt_names pl_gpt_short, pl_gpt_long; /* n_layer .., num_hidden_layers .. */

/* A model being built: the config's numbers, and what all blocks are handed. */
typedef struct pl_gpt {
    pl_hf *m;
    pl_builder *b;
    const pl_gpt_layout *is;
    int64_t batch, seq, vocab, hidden, layers, heads, head_dim, kv_heads, inner, rotary;
    double eps, scale;
    double embed_dropout, attn_dropout, dropout; /* dropout: behind attention and MLP */
    const char *act;
    int64_t layer;     /* the block being built, from 0 */
    int32_t table;     /* the embedding's weight [vocab, width] */
    int32_t positions; /* int64 [1, seq] */
    int32_t mask;      /* PL_NONE: attention takes is_causal */
    int32_t alibi;     /* of Bloom [batch * heads, 1, seq] */
    int32_t cos, sin;  /* of rotary families */
    bool bias;         /* linear layers have one */
} pl_gpt;

struct pl_gpt_layout {
    const pl_gpt_names *names; /* of its keys */
    const char *stem;          /* its classes are GPT2Block, GPT2Attention, .. */
    const char *causal;        /* the class with the language head, less the stem */
    const char *base;          /* the base model's name in models with a head */
    const char *decoder;       /* what it wraps the blocks in: OPT's "decoder"; else NULL */
    const char *children;      /* of what holds the blocks, as __init__ makes them */
    const char *blocks;        /* the blocks' list: "h" */
    const char *block;         /* a block's class, less the stem */
    const char *norm;          /* the last layer norm */
    const char *tokens;        /* the token classifier's linear layer */
    bool tied;                 /* tie_word_embeddings, where the file does not say */
    bool head_bias;            /* of the language head */
    bool last_view;            /* hidden_states.view(output_shape) behind the last norm */
    bool conv1d;               /* linear layers are transformers' Conv1D */
    bool separate;             /* queries, keys and values have a layer each */
    double classifier_dropout; /* where the file does not say */
    void (*read)(pl_gpt *g);   /* keys beyond those that all have */
    int32_t (*embed)(pl_gpt *g, int32_t ids);
    int32_t (*run)(pl_gpt *g, int32_t x);  /* one block, inside its module */
    int32_t (*last)(pl_gpt *g, int32_t x); /* behind the blocks */
};

/* Enters a module of the family's own class: stem + class. */
void pl_gpt_enter(pl_gpt *g, const char *name, const char *class);
/* An nn.Embedding; *weight: its parameter. */
int32_t pl_gpt_embedding(pl_gpt *g, const char *name, int64_t rows, int64_t width, int32_t indices,
                         int64_t padding, int32_t *weight);
void pl_gpt_positions(pl_gpt *g); /* position_ids [1, seq] */
/* Rows of a table of positions; refused where the sequence is longer. */
int64_t pl_gpt_rows(pl_gpt *g, const char *key, int64_t otherwise);
/* masking_utils.py's mask [batch, 1, seq, seq]: boolean (expanded) where like is PL_NONE, else 0
 * and the least number of like's type. */
int32_t pl_gpt_mask(pl_gpt *g, int32_t like);
/* x [.., n] as heads [batch, heads, seq, head_dim]. */
int32_t pl_gpt_heads(pl_gpt *g, int32_t x, int64_t heads);
/* config._attn_implementation's function: q, k, v [batch, heads, seq, d] to [batch, seq, heads *
 * d]. upcast: eager mode's softmax is of float32. */
int32_t pl_gpt_attend(pl_gpt *g, int32_t q, int32_t k, int32_t v, double scale, bool upcast);

/* act(first(x)), then second: an MLP's three lines. */
int32_t pl_gpt_mlp(pl_gpt *g, int32_t x, const char *first, const char *act, const char *second);
/* The usual `last`: a norm, and where the layout says so a view. */
int32_t pl_gpt_last(pl_gpt *g, int32_t x);

/* transformers' Conv1D: a linear layer whose weight [in, out] is not transposed. */
int32_t pl_gpt_conv1d(pl_gpt *g, const char *name, int32_t x, int64_t out);

/* gpt_more.c */
void pl_gpt_read_rotary(pl_gpt *g, double usual); /* how much of a head is turned */
/* Queries and keys [batch, heads, seq, d]: their first dimensions turned, the others joined to them
 * again. line: of code that turns them; join: lines that join them, NULL: that one too. */
void pl_gpt_turn(pl_gpt *g, int32_t *q, int32_t *k, const char *line, const char *const join[2]);
extern const pl_gpt_layout pl_gpt_neox, pl_gpt_phi, pl_gpt_bloom, pl_gpt_falcon;
/* gpt_old.c */
extern const pl_gpt_layout pl_gpt_gptj, pl_gpt_codegen, pl_gpt_neo, pl_gpt_opt;
/* gpt_rest.c */
extern const pl_gpt_layout pl_gpt_biogpt, pl_gpt_xglm, pl_gpt_ctrl, pl_gpt_openai, pl_gpt_mpt;
/* gpt_turned.c */
extern const pl_gpt_layout pl_gpt_japanese, pl_gpt_persimmon;

#endif
