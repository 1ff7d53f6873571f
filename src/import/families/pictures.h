/* pictures: models of a tower for pictures and a language model: what they share. The features that
 * the tower and its projector make of a picture take the places of the tokens that stand for it. */
#ifndef PL_IMPORT_FAMILIES_PICTURES_H
#define PL_IMPORT_FAMILIES_PICTURES_H

#include "import/families/decoder.h"

/* Such a model being built. Keys of its parts: pl_hf_within(m, PL_HF_VISION). */
typedef struct pl_beside {
    pl_hf *m;
    const char *package, *prefix; /* transformers.models.PACKAGE.modeling_PACKAGE.PREFIXModel */
    pl_decoding text;
    int64_t vocab;
    int32_t ids, weight;  /* input_ids [B,S]; the table of its embedding */
    int32_t embeds;       /* [B,S,width]: of the tokens, then with the pictures' in their places */
    int32_t features;     /* [pictures' tokens, width]; PL_NONE: none were given */
    pl_hf_attention attn; /* of the text: some families have eager alone */
    bool pictures;        /* they are given: else text alone, and the tower is not called */
} pl_beside;

#define PL_HF_VISION "vision_config."
#define PL_HF_TEXT   "text_config."

/* Reads the language model's keys and makes input_ids. false: its family is not one that stands in
 * others, or its sequence is shorter than the picture's tokens. */
bool pl_beside_open(pl_beside *o, pl_hf *m, const char *package, const char *prefix);
/* "transformers.models.gemma3.modeling_gemma3.Gemma3" and what follows. */
const char *pl_beside_type(const pl_beside *o, const char *what);

/* In the order of forward: tokens to embeds; the features, [.., width] of all pictures, of the text's
 * type, into their places; the language model, to [B,S,width]. */
void pl_beside_embed(pl_beside *o);
void pl_beside_merge(pl_beside *o, int32_t features);
int32_t pl_beside_text(pl_beside *o);
/* A value that an object which the present call holds (mm_encoder_outputs) keeps until now. */
void pl_beside_hold(pl_beside *o, int32_t value);
/* lm_head, the loss, what is returned. */
void pl_beside_head(pl_beside *o, int32_t x);

/* The tower and its projector: pixels to features, called where pictures are given; else their
 * weights alone are there. children: of the model, in the order of its __init__. */
typedef struct pl_beside_plan {
    const char *package, *prefix;
    const char *children; /* "vision_tower multi_modal_projector language_model" */
    /* To the features as the text takes them. held: up to two values that stay for as long as the
     * model's forward runs, PL_NONE otherwise. */
    int32_t (*features)(pl_beside *o, int32_t held[2]);
    /* Masks and positions, where the model makes them for its language model; NULL: it does not. */
    void (*prepare)(pl_beside *o);
} pl_beside_plan;
void pl_beside_build(pl_hf *m, const pl_beside_plan *plan);

#endif
