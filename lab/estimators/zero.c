/* zero: what DeepSpeed says a model's states take: parameters, gradients and Adam's state.
 *
 * DeepSpeed 0.19.6 (2026), docs/code-docs/source/memory.rst and the functions it documents,
 * estimate_zero2_model_states_mem_needs and estimate_zero3_model_states_mem_needs, without offload:
 * a parameter costs 2 bytes for its 16-bit copy and 18 more for the 16-bit and the 32-bit gradient,
 * the 32-bit copy, momentum and variance. Stage 2 splits the 18 among the GPUs, stage 3 keeps 18 in
 * all, sharded, and gathers the largest layer (4 bytes per parameter of it). The page's own text
 * for stage 2 still has an older 4 + 16 / GPUs; for one GPU both are 20. Jobs of one GPU and DDP,
 * for which there is no function, split nothing; FSDP2 is taken for the ZeRO stage of its number.
 * Left out: activations, inputs, temporaries, workspaces, the allocator, context; optimizers other
 * than Adam and training in full 32 bits. */
#include "lab/estimators/rival.h"

enum { COPY = 2, STATES = 18, GATHERED = 4 }; /* bytes per parameter */

/* Parameters of the largest layer, all of the model where there are no layers. */
static int64_t largest_layer(const pl_profile *p) {
    int64_t largest = p->layer_count ? 0 : p->parameters;
    for (size_t i = 0; i < p->layer_count; i++)
        if (p->layers[i].parameters > largest) largest = p->layers[i].parameters;
    return largest;
}

static pl_status estimate(pl_report *report, const pl_subject *subject, const pl_weights *none,
                          pl_error *err) {
    (void)none;
    const pl_profile *p = subject->profile;
    const pl_job *job = subject->job;
    pl_status status = pl_rival_needs_training("zero", subject, err);
    if (status != PL_OK) return status;
    bool sharded = job->parallel == PL_FSDP2, gathers = sharded && job->stage >= 3;
    int64_t gpus = sharded && job->world > 1 ? job->world : 1;
    int64_t whole = 0, states = 0, all;
    bool ok = gathers ? pl_rival_add(&whole, largest_layer(p), GATHERED)
                      : pl_rival_add(&whole, p->parameters, COPY);
    ok = ok && pl_rival_add(&states, p->parameters, STATES) &&
         pl_add_i64(whole, states / gpus, &all); /* the division truncates, as theirs does */
    if (!ok) return pl_rival_overflow("zero", err);
    report->peak_bytes = all;
    pl_rival_states_alone(report);
    return PL_OK;
}

const pl_estimator pl_estimator_zero = {
    .info = {.name = "zero",
             .kind = PL_ANALYTICAL,
             .title = "DeepSpeed's model states: 20 bytes per parameter, less what ZeRO shards",
             .source = "DeepSpeed 0.19.6, estimate_zero2/zero3_model_states_mem_needs, 2026",
             .leaves_out = "activations, inputs, temporaries, workspaces, allocator, context; "
                           "optimizers other than Adam, training in 32 bits"},
    .prepare = pl_profile_prepare,
    .estimate = estimate};
