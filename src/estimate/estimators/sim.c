/* sim: what PyTorch would allocate, simulated operator by operator (src/tape, src/device). */
#include "estimate/simulation.h"

static pl_status estimate(pl_report *report, const pl_subject *subject, const pl_weights *weights,
                          pl_error *err) {
    (void)weights;
    pl_simulated simulated;
    pl_walk walk;
    pl_tape_device device = pl_tape_device_of(subject->gpu);
    pl_status status =
        pl_simulated_open(&simulated, subject, &device, pl_report_arena(report), err);
    if (status == PL_OK && !pl_simulated_report(report, &walk, subject, &simulated))
        status = pl_budget_fail(err, subject->budget, subject->graph->name);
    pl_simulated_close(&simulated);
    return status;
}

const pl_estimator pl_estimator_sim = {
    .info = {.name = "sim",
             .kind = PL_SIMULATION,
             .title = "simulation of every allocation of three training steps",
             .source =
                 "PyTorch 2.11's autograd, optimizers and caching allocator, read and measured",
             .leaves_out = "what runs inside torch.cond, map and scan; NCCL's buffers",
             .needs_graph = true},
    .estimate = estimate};
