/* mamba: the mixers of state space models, as transformers runs them in plain PyTorch: Mamba's loop over
 * the sequence (mamba.c) and Mamba 2's chunks (mamba2.c). A family says where its config has their
 * sizes. */
#ifndef PL_IMPORT_FAMILIES_MAMBA_H
#define PL_IMPORT_FAMILIES_MAMBA_H

#include "import/hf.h"

/* What a family's norm of the heads' output is. */
typedef enum pl_mamba2_norm {
    PL_MAMBA2_NORM_GATED,  /* of x silu(gate), over all of it */
    PL_MAMBA2_NORM_GROUPS, /* the same over each group */
    PL_MAMBA2_NORM_BEFORE, /* over each group, then times silu(gate): Falcon H1 */
    PL_MAMBA2_NORM_AFTER,  /* of x silu(gate), over each group: Falcon H1 */
    PL_MAMBA2_NORM_NONE,   /* x silu(gate) */
} pl_mamba2_norm;

/* A mixer of x [B,S,width]. */
typedef struct pl_mamba2 {
    const char *name, *type; /* the module */
    const char *norm_type;   /* of its norm */
    int64_t width, inner;    /* inner: heads * head_dim */
    int64_t heads, head_dim; /* of the states */
    int64_t groups, state;   /* B and C are [B,S,groups,state] */
    int64_t kernel, chunk;   /* of the convolution, of the scan */
    bool bias, conv_bias, out_bias;
    bool multiplied; /* x by a number, what is projected by a buffer: Falcon H1 */
    const char *act;
    double eps;
    pl_mamba2_norm norm;
} pl_mamba2;

/* Refuses what does not go together; keys: those of the heads' number and of their size. */
bool pl_mamba2_fits(pl_hf *m, const pl_mamba2 *s, const char *heads_key, const char *groups_key);
int32_t pl_mamba2_mix(pl_hf *m, const pl_mamba2 *s, int32_t x);

typedef struct pl_mamba_sizes {
    const char *name, *type;
    int64_t width, inner, state, rank, kernel;
    int64_t heads;  /* whose own B, C and dt each has: Zamba; 0: there are none */
    int64_t layers; /* of this kind: how finely the loop is built */
    bool bias, conv_bias;
    const char *act;
    /* Norms of dt, B and C: modules of this type (Jamba); bare: without weights (Falcon Mamba);
     * NULL: none. */
    const char *norm_type;
    bool bare;
    double eps;
} pl_mamba_sizes;

bool pl_mamba_fits(pl_hf *m, const pl_mamba_sizes *s, const char *state_key,
                   const char *kernel_key);
int32_t pl_mamba_mix(pl_hf *m, const pl_mamba_sizes *s, int32_t x);

#endif
