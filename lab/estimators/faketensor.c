/* faketensor: the most bytes of tensors alive at once over forward and backward, and nothing else.
 *
 * PyTorch's FakeTensorMode (torch/_subclasses/fake_tensor.py) runs a model on tensors without data;
 * it counts nothing itself. GPUMemNet's authors (arXiv 2602.17817, section 3.1 and table 1; their
 * repository, 2025) put a dispatch mode around it that adds a storage's bytes when an operator
 * first returns it and takes them off when its last tensor dies, over model(input) and
 * sum().backward(). Here the same comes from the tape of one step up to the optimizer: bytes as
 * asked for, without the blocks that kernels take inside an operator. Two things differ. Their
 * models lay on the card before the mode began, so weights counted only where an operator made a
 * view of them (Linear); here every weight counts, as it does when a model is made under the mode.
 * They sum up the output; here the job's loss is taken. With both as here, the mode run under
 * PyTorch 2.11 (2026-11-15) gives the same bytes for VGG16, ResNet-50 and MobileNetV2, and 0.4 %
 * more for ResNet-18; run as theirs, it gives the figures they published. Left out: optimizer state
 * and step, workspaces, the allocator's rounding and cache, context, other ranks. */
#include "lab/estimators/rival.h"

static pl_status walk(pl_rival_alive *alive, const pl_tape *tape, pl_error *err) {
    size_t end = tape->event_count;
    for (size_t i = 0; i < tape->mark_count; i++)
        if (tape->marks[i].phase == PL_PHASE_OPTIMIZER) {
            end = tape->marks[i].event;
            break;
        }
    for (size_t i = 0; i < end; i++) {
        int32_t event = tape->events[i];
        if (!event) continue; /* the cache is emptied: there is none here */
        const pl_tape_block *block = &tape->blocks[event > 0 ? event : -event];
        if (block->kind == PL_WORKSPACE || block->kind == PL_OPTIMIZER) continue;
        if (!pl_rival_change(alive, block, event > 0 ? block->bytes : -block->bytes))
            return pl_rival_overflow("faketensor", err);
    }
    return PL_OK;
}

static pl_status estimate(pl_report *report, const pl_subject *subject, const pl_weights *none,
                          pl_error *err) {
    (void)none;
    pl_status status = pl_rival_needs_one_gpu("faketensor", subject, err);
    if (status != PL_OK) return status;
    pl_tape *tape = NULL;
    status = pl_rival_tape(&tape, subject, 1, err);
    if (status != PL_OK) return status;
    pl_rival_alive alive = {0};
    status = walk(&alive, tape, err);
    pl_tape_close(&tape);
    if (status != PL_OK) return status;
    report->peak_bytes = report->allocated_bytes = alive.peak;
    report->peak_phase = alive.phase;
    report->peak_step = alive.step;
    for (int k = 0; k < PL_FRAGMENTATION; k++)
        if (k != PL_WORKSPACE && k != PL_OPTIMIZER)
            pl_report_full(report)->breakdown[k] = alive.at_peak[k];
    return PL_OK;
}

const pl_estimator pl_estimator_faketensor = {
    .info = {.name = "faketensor",
             .kind = PL_ANALYTICAL,
             .title = "tensors alive at once over forward and backward, to the byte",
             .source = "PyTorch's FakeTensorMode, used as in arXiv 2602.17817, section 3.1",
             .leaves_out = "optimizer state and step, workspaces, the allocator's rounding and "
                           "cache, context, other ranks",
             .needs_graph = true},
    .prepare = pl_profile_prepare,
    .estimate = estimate};
