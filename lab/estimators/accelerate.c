/* accelerate: what `accelerate estimate-memory` prints as "Training using Adam".
 *
 * Hugging Face Accelerate 1.15 (2026), src/accelerate/commands/estimate.py and
 * docs/source/usage_guides/model_size_estimator.md. The tool adds up parameters and buffers in
 * float32 and takes the largest of four figures: for float32 training four times that size
 * (weights, gradients, two states of Adam), for 16-bit training, which it takes for mixed
 * precision, twice that size. A job that does not train is the model's size in its own type, the
 * tool's "Total Size". Left out: activations (it says so: a batch of one), inputs, temporaries,
 * workspaces, the allocator, context; optimizers other than Adam, frozen weights, sharding. */
#include "lab/estimators/rival.h"

enum { FULL = 4 }; /* bytes of a float32 */

static pl_status estimate(pl_report *report, const pl_subject *subject, const pl_weights *none,
                          pl_error *err) {
    (void)none;
    const pl_profile *p = subject->profile;
    int64_t size = 0, full = 0, peak = 0;
    bool ok = p->parameter_bytes >= 0 && pl_rival_add(&size, p->parameter_bytes, 1) &&
              pl_rival_add(&size, p->buffer_bytes > 0 ? p->buffer_bytes : 0, 1);
    int weight = pl_profile_weight_bytes(p);
    bool half = weight < FULL || pl_profile_compute_bytes(p) < FULL;
    /* Weights held in 16 bits count as in float32; with autocast they are held in it already. */
    ok = ok && pl_rival_add(&full, size, weight < FULL ? FULL / weight : 1);
    if (pl_rival_trains(subject))
        ok = ok && pl_rival_add(&peak, full, half ? 2 : 4);
    else
        peak = size;
    if (!ok) return pl_rival_overflow("accelerate", err);
    report->peak_bytes = peak;
    pl_rival_states_alone(report);
    return PL_OK;
}

const pl_estimator pl_estimator_accelerate = {
    .info = {.name = "accelerate",
             .kind = PL_ANALYTICAL,
             .title = "the model's size four times over (float32) or twice (16-bit), for Adam",
             .source = "Hugging Face Accelerate 1.15, `accelerate estimate-memory`, 2026",
             .leaves_out = "activations, inputs, temporaries, workspaces, allocator, context; "
                           "optimizers other than Adam, frozen weights, sharding"},
    .prepare = pl_profile_prepare,
    .estimate = estimate};
