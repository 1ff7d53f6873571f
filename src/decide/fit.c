/* fit: the largest batch that fits, by doubling and then bisection on a symbolic graph, each step a
 * simulation.
 *
 * Memory grows with the batch in all but odd cases (an allocator's rounding, a workspace that a
 * larger shape does without), so the answer and the one above it are simulated, and what is
 * reported is what was seen. */
#include <string.h>

#include "core/budget.h"
#include "core/sized.h"
#include "estimate/job.h"
#include "estimate/model.h"

/* One search: its limits hold for all of it, so that simulations share one deadline. */
typedef struct search {
    const pl_model *model;
    pl_job job;
    pl_limits limits;
    pl_fit *fit;
} search;

static pl_status try_batch(search *s, int64_t batch, bool *fits, int64_t *high, pl_error *err) {
    pl_report *report = NULL;
    s->job.batch = batch;
    pl_status status = pl_estimate(&report, s->model, &s->job, err);
    if (status != PL_OK) return status;
    s->fit->tried++;
    *fits = report->fits;
    *high = report->upper_bytes;
    pl_report_close(&report);
    return PL_OK;
}

static pl_status fit_batch(pl_fit *out, const pl_model *model, const pl_job *given, int64_t most,
                           pl_error *err) {
    search s = {.model = model, .fit = out};
    pl_status status = pl_job_read(&s.job, given, err);
    if (status != PL_OK) return status;
    if (most < 1) return pl_fail(err, PL_USAGE, "most", -1, "%lld is no batch", (long long)most);
    const pl_model_info *info = pl_model_describe(model);
    const pl_symbol *batch = NULL;
    const pl_symbol *symbol;
    for (size_t i = 0; (symbol = pl_model_symbol(model, i)); i++)
        if (strcmp(symbol->role, "batch") == 0) batch = symbol;
    if (!batch)
        return pl_fail(err, PL_USAGE, info->name, -1,
                       "the graph has a fixed batch; export it with a dynamic one: "
                       "torch.export.export(model, args, dynamic_shapes={\"x\": {0: "
                       "torch.export.Dim(\"batch\")}})");
    s.job.want_alive = s.job.want_timeline = s.job.want_times = false;
    pl_limits_default(&s.limits);
    const pl_limits *asked = s.job.limits ? s.job.limits : &model->limits;
    pl_sized_read(&s.limits, sizeof s.limits, asked, asked->size);
    pl_budget all;
    pl_budget_start(&all, &s.limits);
    s.limits.deadline_ns = all.deadline_ns;
    s.limits.timeout_ms = 0;
    s.job.limits = &s.limits;
    int64_t least = batch->least > 1 ? batch->least : 1;
    if (batch->most < most) most = batch->most;
    if (most > PL_MOST_SIZE) most = PL_MOST_SIZE;
    bool fits;
    int64_t high, good = 0, bad = most + 1;
    status = try_batch(&s, least, &fits, &high, err);
    if (status != PL_OK) return status;
    if (!fits) {
        out->high_above = high;
        return PL_OK;
    }
    good = least;
    out->high_at = high;
    while (good < most) { /* doubling finds a batch that does not fit */
        int64_t next = good > most / 2 ? most : good * 2;
        status = try_batch(&s, next, &fits, &high, err);
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
        status = try_batch(&s, middle, &fits, &high, err);
        if (status != PL_OK) return status;
        if (fits)
            good = middle, out->high_at = high;
        else
            bad = middle, out->high_above = high;
    }
    out->batch = good;
    return PL_OK;
}

pl_status pl_fit_batch(pl_fit *out, const pl_model *model, const pl_job *given, int64_t most,
                       pl_error *err) {
    if (!PL_SIZED_OK(out, tried))
        return pl_fail(err, PL_USAGE, "out", -1, "a pl_fit whose size is not set");
    if (!model) return pl_fail(err, PL_USAGE, "model", -1, "expected a model");
    pl_fit own = {.high_at = PL_UNKNOWN, .high_above = PL_UNKNOWN};
    pl_status status = fit_batch(&own, model, given, most, err);
    pl_sized_fill(out, out->size, &own, sizeof own);
    return status;
}
