/* horus: the memory formula of a scheduler for shared GPUs, over three counts.
 *
 * Yeung et al., "Horus: Interference-Aware and Prediction-Based Scheduling in Deep Learning
 * Systems", IEEE TPDS 33(1), 2022, as GPUMemNet's authors apply it (arXiv 2602.17817, figures 1 and
 * 5; their repository, 2025): bytes = 4 (activations x batch + parameters + batch x gradients),
 * activations per sample, and as many gradients as there are parameters, multiplied by the batch.
 * The last term is why large models come out far too high. Left out: precision (always 4 bytes),
 * optimizer state, library workspaces, the allocator, context, checkpointing, sharding. */
#include "lab/estimators/rival.h"

enum { ELEMENT = 4 }; /* bytes */

static pl_status estimate(pl_report *report, const pl_subject *subject, const pl_weights *none,
                          pl_error *err) {
    (void)none;
    const pl_profile *p = subject->profile;
    pl_status status = pl_rival_needs_training("horus", subject, err);
    if (status != PL_OK) return status;
    if (p->job.batch < 1)
        return pl_fail(err, PL_USAGE, "batch", -1, "horus needs the batch, which is not known");
    int64_t activations = 0, weights = 0, gradients = 0, all = 0;
    bool ok = pl_rival_add(&activations, pl_profile_activations(p), p->job.batch) &&
              pl_mul_i64(activations, ELEMENT, &activations) &&
              pl_rival_add(&weights, p->parameters, ELEMENT) &&
              pl_rival_add(&gradients, weights, p->job.batch) &&
              pl_add_i64(activations, weights, &all) && pl_add_i64(all, gradients, &all);
    if (!ok) return pl_rival_overflow("horus", err);
    report->peak_bytes = all;
    pl_report_full(report)->breakdown[PL_WEIGHTS] = weights;
    pl_report_full(report)->breakdown[PL_GRADIENTS] = gradients;
    pl_report_full(report)->breakdown[PL_ACTIVATIONS] = activations;
    return PL_OK;
}

const pl_estimator pl_estimator_horus = {
    .info = {.name = "horus",
             .kind = PL_ANALYTICAL,
             .title = "4 (activations x batch + parameters + batch x parameters) bytes",
             .source =
                 "Yeung et al., Horus, IEEE TPDS 33(1), 2022; applied as arXiv 2602.17817 does",
             .leaves_out = "precision, optimizer state, workspaces, allocator, context, "
                           "checkpointing, sharding"},
    .prepare = pl_profile_prepare,
    .estimate = estimate};
