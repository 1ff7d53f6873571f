/* fit: the largest batch that fits, by doubling and then bisection on a symbolic graph, each step a
 * simulation.
 *
 * Memory grows with the batch in all but odd cases (an allocator's rounding, a workspace that a
 * larger shape does without), so the answer and the one above it are simulated, and what is told is
 * what was seen. */
#include <string.h>

#include "core/error.h"

static pl_status try_batch(const pl_model *model, pl_job *job, int64_t batch, pl_fit *fit,
                           bool *fits, int64_t *high, pl_error *err) {
    pl_report *report = NULL;
    job->batch = batch;
    pl_status status = pl_estimate(&report, model, job, err);
    if (status != PL_OK) return status;
    fit->tried++;
    *fits = report->fits;
    *high = report->high_bytes;
    pl_report_close(&report);
    return PL_OK;
}

pl_status pl_fit_batch(pl_fit *out, const pl_model *model, const pl_job *given, int64_t most,
                       pl_error *err) {
    *out = (pl_fit){.high_at = PL_UNKNOWN, .high_above = PL_UNKNOWN};
    const pl_model_info *info = pl_model_describe(model);
    const pl_symbol *batch = NULL;
    for (size_t i = 0; i < info->symbol_count; i++)
        if (strcmp(info->symbols[i].role, "batch") == 0) batch = &info->symbols[i];
    if (!batch)
        return pl_fail(err, PL_USAGE, info->name, -1,
                       "the graph has a fixed batch; export it with a dynamic one: "
                       "torch.export.export(model, args, dynamic_shapes={\"x\": {0: "
                       "torch.export.Dim(\"batch\")}})");
    pl_job job = *given;
    job.want_alive = job.want_timeline = false;
    int64_t least = batch->least > 1 ? batch->least : 1;
    if (batch->most < most) most = batch->most;
    bool fits;
    int64_t high, good = 0, bad = most + 1;
    pl_status status = try_batch(model, &job, least, out, &fits, &high, err);
    if (status != PL_OK) return status;
    if (!fits) {
        out->high_above = high;
        return PL_OK;
    }
    good = least;
    out->high_at = high;
    while (good < most) { /* doubling finds a batch that does not fit */
        int64_t next = good > most / 2 ? most : good * 2;
        status = try_batch(model, &job, next, out, &fits, &high, err);
        if (status != PL_OK) return status;
        if (!fits) {
            bad = next;
            out->high_above = high;
            break;
        }
        good = next;
        out->high_at = high;
    }
    while (bad - good > 1) {
        int64_t middle = good + (bad - good) / 2;
        status = try_batch(model, &job, middle, out, &fits, &high, err);
        if (status != PL_OK) return status;
        if (fits)
            good = middle, out->high_at = high;
        else
            bad = middle, out->high_above = high;
    }
    out->batch = good;
    return PL_OK;
}
