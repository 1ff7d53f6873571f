/* dnnmem: tensors alive over the computation graph, rounded and reserved as the framework does.
 *
 * Gao et al., "Estimating GPU Memory Consumption of Deep Learning Models", ESEC/FSE 2020. Its
 * authors published no program; this follows the paper's categories, as its abstract and a reader's
 * summary of its tables give them. Weight tensors: parameters and their gradients, and here the
 * optimizer's state. In/out tensors: inputs, what operators return, and gradients of that.
 * Ephemeral tensors: cuDNN's workspaces and temporaries within an operator. Resident buffers: the
 * CUDA context, a constant of card and framework; internal fragmentation, a tensor's bytes rounded
 * up; the allocator's reservation. The graph is walked in the order it runs, backward too, and
 * tensors are freed after their last use.
 *
 * Rounding and reservation are PyTorch's constants: a tensor is rounded up to 512 bytes; up to 1
 * MiB from segments of 2 MiB; below 10 MiB from segments of 20 MiB; above, a segment of its own in
 * steps of 2 MiB. What was reserved is kept for the next tensor of its pool. Left out: where a
 * block lies in its segment (external fragmentation, splitting, the cache's give-backs), cuBLAS
 * workspaces and the optimizer's temporaries (neither is in the computation graph), kernels and
 * handles beside the bare context, more than one GPU. */
#include "lab/estimators/rival.h"

#define MIB (INT64_C(1) << 20)

enum { STEPS = 2 }; /* the second begins with the optimizer's state there */

enum { ROUND = 512 }; /* bytes */
static const int64_t small_most = MIB, small_segment = 2 * MIB;
static const int64_t medium_below = 10 * MIB, medium_segment = 20 * MIB, large_step = 2 * MIB;

typedef struct pools {
    int64_t small, medium, large; /* bytes alive */
    int64_t small_peak, rest_peak;
} pools;

static bool counts(const pl_tape_block *block) {
    if (block->kind == PL_TEMPORARY) return block->phase != PL_PHASE_OPTIMIZER;
    return block->kind != PL_WORKSPACE || !block->what || strncmp(block->what, "cublas", 6) != 0;
}

/* sign: 1 taken, -1 given back. Sums are parts of one that pl_rival_change checked, but for the
 * steps of large blocks: at most 2 MiB each. */
static bool change(pools *p, int64_t rounded, int sign) {
    if (rounded <= small_most) {
        p->small += sign * rounded;
        if (p->small > p->small_peak) p->small_peak = p->small;
        return true;
    }
    if (rounded < medium_below)
        p->medium += sign * rounded;
    else if (!pl_add_i64(p->large, sign * pl_round_up(rounded, large_step), &p->large))
        return false;
    int64_t rest;
    if (!pl_add_i64(pl_round_up(p->medium, medium_segment), p->large, &rest)) return false;
    if (rest > p->rest_peak) p->rest_peak = rest;
    return true;
}

static pl_status walk(pl_rival_alive *alive, pools *p, const pl_tape *tape, pl_error *err) {
    for (size_t i = 0; i < tape->event_count; i++) {
        int32_t event = tape->events[i];
        if (!event) continue;
        const pl_tape_block *block = &tape->blocks[event > 0 ? event : -event];
        if (!counts(block) || block->bytes <= 0) continue;
        int sign = event > 0 ? 1 : -1;
        int64_t rounded = pl_round_up(block->bytes, ROUND);
        if (!pl_rival_change(alive, block, sign * rounded) || !change(p, rounded, sign))
            return pl_rival_overflow("dnnmem", err);
    }
    return PL_OK;
}

static pl_status estimate(pl_report *report, const pl_subject *subject, const pl_weights *none,
                          pl_error *err) {
    (void)none;
    pl_status status = pl_rival_needs_one_gpu("dnnmem", subject, err);
    if (status != PL_OK) return status;
    pl_tape *tape = NULL;
    status = pl_rival_tape(&tape, subject, STEPS, err);
    if (status != PL_OK) return status;
    pl_rival_alive alive = {0};
    pools p = {0};
    status = walk(&alive, &p, tape, err);
    pl_tape_close(&tape);
    if (status != PL_OK) return status;
    int64_t reserved, peak;
    if (!pl_add_i64(pl_round_up(p.small_peak, small_segment), p.rest_peak, &reserved) ||
        !pl_add_i64(reserved, subject->gpu->context_bytes, &peak))
        return pl_rival_overflow("dnnmem", err);
    report->peak_bytes = peak;
    report->allocated_bytes = alive.peak;
    report->reserved_bytes = reserved;
    report->overhead_bytes = subject->gpu->context_bytes;
    report->peak_phase = alive.phase;
    report->peak_step = alive.step;
    for (int k = 0; k < PL_FRAGMENTATION; k++)
        pl_report_full(report)->breakdown[k] = alive.at_peak[k];
    pl_report_full(report)->breakdown[PL_FRAGMENTATION] = reserved - alive.peak;
    pl_report_full(report)->breakdown[PL_CONTEXT] = subject->gpu->context_bytes;
    return PL_OK;
}

const pl_estimator pl_estimator_dnnmem = {
    .info = {.name = "dnnmem",
             .kind = PL_ANALYTICAL,
             .title = "tensors alive over the graph, rounded and reserved by the allocator's rule",
             .source = "Gao et al., DNNMem, ESEC/FSE 2020; rebuilt, its program is not public",
             .leaves_out =
                 "external fragmentation, cuBLAS workspaces, the optimizer's temporaries, "
                 "kernels and handles, more than one GPU",
             .needs_graph = true},
    .prepare = pl_profile_prepare,
    .estimate = estimate};
