/* optimizer: see optimizer.h.
 *
 * Rules read in torch/optim (2.11): the default implementation on CUDA is foreach, which works on all
 * parameters at once and so holds whole sets of temporaries; fused works in place and keeps its step counters on
 * the card. Adam, AdamW, SGD, RMSprop and Adagrad were checked against allocator traces (2026-11-15).
 *
 *   state  p a tensor like the parameter   s a float32 scalar on the card   r c a row and a column factor for
 *          parameters of two and more dimensions, a whole tensor for vectors   f like p, made by cloning the
 *          gradient in the first step
 *   step   P a whole set of temporaries like the parameters, kept to the end of the step
 *          - frees the oldest set
 *          q one temporary like the parameter at a time */
#include "tape/optimizer.h"

#include <string.h>

static const pl_optimizer optimizers[] = {
    {"sgd", "", "", false, false, "sgd.py: _foreach_add_ in place"},
    {"sgd-fused", "", "", false, false, "sgd.py: _fused_sgd_"},
    {"sgd-momentum", "f", "", false, false, "sgd.py: the first momentum_buffer is the gradient's clone"},
    {"sgd-momentum-fused", "f", "", false, false, "sgd.py: _fused_sgd_"},
    {"adam", "pp", "P", false, false, "adam.py: exp_avg, exp_avg_sq; _foreach_sqrt"},
    {"adam-fused", "spp", "", false, false, "adam.py: _fused_adam_"},
    {"adamw", "pp", "P", false, false, "adam.py: exp_avg, exp_avg_sq; _foreach_sqrt"},
    {"adamw-fused", "spp", "", false, false, "adam.py: _fused_adamw_"},
    {"rmsprop", "p", "P", false, false, "rmsprop.py: square_avg; _foreach_sqrt"},
    {"adagrad", "p", "PP", true, false, "adagrad.py: sum, made with the optimizer; _foreach_sqrt, _foreach_mul"},
    {"adagrad-fused", "p", "", true, false, "adagrad.py: _fused_adagrad_"},
    {"adadelta", "pp", "PP", false, false, "adadelta.py: square_avg, acc_delta; two _foreach_add"},
    {"adamax", "pp", "P", false, false, "adamax.py: exp_avg, exp_inf; _foreach_abs"},
    {"nadam", "pp", "P", false, false, "nadam.py: exp_avg, exp_avg_sq; _foreach_sqrt"},
    {"radam", "pp", "P", false, false, "radam.py: exp_avg, exp_avg_sq; _foreach_sqrt"},
    {"adafactor", "rc", "q", false, true, "_adafactor.py: row_var and col_var or variance; one by one unless foreach is set"},
    {"asgd", "pss", "P-P-", false, false, "asgd.py: ax, mu, eta; _foreach_add, _foreach_sub"},
    {"rprop", "pp", "P-P", false, false, "rprop.py: prev, step_size; signs, then grad_signs"},
    {"lion", "p", "q", false, true, "Chen et al. 2023, the reference loop: one update tensor at a time"},
    {"none", "", "", false, false, "no training"},
};

enum { OPTIMIZER_COUNT = sizeof optimizers / sizeof *optimizers };

const pl_optimizer *pl_optimizer_find(const char *name) {
    for (size_t i = 0; i < OPTIMIZER_COUNT; i++)
        if (strcmp(optimizers[i].name, name) == 0) return &optimizers[i];
    return NULL;
}

const char *pl_optimizer_name(size_t index) {
    return index < OPTIMIZER_COUNT ? optimizers[index].name : NULL;
}

/* Row factor [.., m, 1] or column factor [.., 1, n] of a parameter; a vector has one whole tensor, in the row. */
static pl_value *factor(pl_eager *e, const pl_value *p, bool row) {
    if (p->dims < 2) return row ? pl_new_like(e, p, (pl_dtype)p->dtype) : NULL;
    int64_t sizes[PL_MAX_DIMS];
    memcpy(sizes, p->sizes, p->dims * sizeof *sizes);
    sizes[p->dims - (row ? 1 : 2)] = 1;
    return pl_new(e, (pl_dtype)p->dtype, p->dims, sizes, NULL);
}

static bool has_grad(const pl_leaf *leaf) {
    return leaf->grad || leaf->reduced;
}

/* Of the part this rank keeps. */
static int64_t leaf_bytes(const pl_leaf *leaf) {
    return leaf->shard_elements ? leaf->shard_elements * pl_dtype_size(leaf->shard_dtype) : pl_value_bytes(leaf->value);
}

/* State stays for ever: its storage is never dropped. */
static void make_state(pl_eager *e, const pl_optimizer *optimizer) {
    uint8_t kind = e->kind;
    e->kind = PL_OPTIMIZER;
    e->what = optimizer->name;
    for (int32_t i = 0; i < e->leaf_count; i++) {
        const pl_leaf *leaf = &e->leaves[i];
        if (!has_grad(leaf) && !optimizer->at_start) continue;
        for (const char *s = optimizer->state; *s; s++) {
            pl_value *made = *s == 's'                ? pl_new_flat(e, PL_DT_F32, -1)
                             : *s == 'r' || *s == 'c' ? factor(e, leaf->value, *s == 'r')
                             : leaf->shard_elements   ? pl_new_flat(e, leaf->shard_dtype, leaf->shard_elements)
                                                      : pl_new_like(e, leaf->value, (pl_dtype)leaf->value->dtype);
            if (made && made->storage->block) e->tape->blocks[made->storage->block].tensor = leaf->tensor;
        }
    }
    e->kind = kind;
}

void pl_optimizer_make(pl_eager *e, const pl_optimizer *optimizer) {
    if (optimizer->at_start) make_state(e, optimizer);
}

typedef struct set {
    int32_t *blocks; /* [leaf_count] */
} set;

static set take_set(pl_eager *e) {
    set s = {pl_arena_array(e->step_arena, (size_t)e->leaf_count + 1, sizeof *s.blocks)};
    if (!s.blocks) {
        e->failed = true;
        return s;
    }
    for (int32_t i = 0; i < e->leaf_count; i++)
        if (has_grad(&e->leaves[i])) s.blocks[i] = pl_block_new(e, leaf_bytes(&e->leaves[i]));
    return s;
}

/* Python frees a list from its end. */
static void free_set(pl_eager *e, set s) {
    for (int32_t i = e->leaf_count; s.blocks && i-- > 0;) pl_block_gone(e, s.blocks[i]);
}

void pl_optimizer_step(pl_eager *e, const pl_optimizer *optimizer, bool first) {
    if (first && !optimizer->at_start) make_state(e, optimizer);
    uint8_t kind = e->kind;
    e->kind = PL_TEMPORARY;
    e->what = optimizer->name;
    e->node = -1;
    set sets[4];
    int begin = 0, end = 0;
    for (const char *s = optimizer->step; *s; s++) {
        if (*s == 'P' && end < 4) sets[end++] = take_set(e);
        else if (*s == '-' && begin < end) free_set(e, sets[begin++]);
        else if (*s == 'q')
            for (int32_t i = 0; i < e->leaf_count; i++)
                if (has_grad(&e->leaves[i])) pl_block_gone(e, pl_block_new(e, leaf_bytes(&e->leaves[i])));
    }
    while (end > begin) free_set(e, sets[--end]);
    e->kind = kind;
}
