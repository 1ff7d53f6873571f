/* latent: multi-head latent attention: queries, keys and values out of narrow projections, of each head a part
 * with rotary positions and one without. */
#ifndef PL_IMPORT_FAMILIES_LATENT_H
#define PL_IMPORT_FAMILIES_LATENT_H

#include "import/families/decoder.h"

struct pl_latent {
    bool complex;     /* positions are complex numbers: DeepSeek V2 */
    bool interleaved; /* pairs lie side by side, where rope_interleave does not say otherwise */
};

void pl_latent_read(pl_decoding *d);
/* The rotary module whose positions are complex: cos[0] holds them. */
void pl_latent_rotary(pl_decoding *d, int32_t position_ids);
/* Inside self_attn: x [B,S,width] to the projected queries, keys and values, [B,heads,S,..]. */
void pl_latent_project(pl_decoding *d, int32_t x, int32_t *q, int32_t *k, int32_t *v);

#endif
