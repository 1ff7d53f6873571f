/* latent: multi-head latent attention: queries, keys and values out of narrow projections, of each head a part
 * with rotary positions and one without. */
#ifndef PL_IMPORT_FAMILIES_LATENT_H
#define PL_IMPORT_FAMILIES_LATENT_H

#include "import/families/decoder.h"

typedef enum pl_indexer { /* chooses the places that each query attends to: index_topk */
                          PL_INDEXER_NONE,
                          PL_INDEXER_HALVES, /* halves turn each other: DeepSeek V3.2 */
                          PL_INDEXER_PAIRS, /* neighbours do; not in layers that indexer_types calls shared: GLM 5 */
} pl_indexer;

struct pl_latent {
    bool interleaved; /* pairs lie side by side, where rope_interleave does not say otherwise */
    pl_indexer indexer;
};

void pl_latent_read(pl_decoding *d);
/* The rotary module whose positions are complex: cos[0] holds them. */
void pl_latent_rotary(pl_decoding *d, int32_t position_ids);
/* q and k, of even last sizes, as complex numbers times `by`. */
void pl_latent_turn_complex(pl_builder *b, int32_t *q, int32_t *k, int32_t by);
/* Inside self_attn: x [B,S,width] to the projected queries, keys and values, [B,heads,S,..]. */
void pl_latent_project(pl_decoding *d, int32_t x, int32_t *q, int32_t *k, int32_t *v);

/* The indexer, where there is one: masks of this layer are what it chose. */
void pl_latent_choose(pl_decoding *d, int64_t layer, int32_t x);

#endif
