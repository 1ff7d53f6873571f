/* fit: the largest batch or sequence that fits, the fewest ranks, the smallest card; by doubling and
 * then bisection on a symbolic graph, each step a simulation.
 *
 * Memory grows with batch and sequence, and falls with ranks, in all but odd cases (an allocator's
 * rounding, a workspace that a larger shape does without, another attention kernel), so the answer
 * and its neighbour are simulated, and what is reported is what was seen. */
#include "decide/search.h"

enum { MOST_RANKS = 1 << 14 };

typedef struct search {
    const pl_model *model;
    pl_job job;
    pl_limits limits;
    pl_fit *fit;
    int64_t *value; /* of the job: what is looked for; NULL: its ranks */
} search;

static pl_status try_value(search *s, int64_t value, bool *fits, int64_t *high, pl_error *err) {
    pl_report *report = NULL;
    if (s->value)
        *s->value = value;
    else
        s->job.world = (int)value;
    pl_status status = pl_estimate(&report, s->model, &s->job, err);
    if (status != PL_OK) return status;
    s->fit->tried++;
    *fits = report->fits;
    *high = report->upper_bytes;
    pl_report_close(&report);
    return PL_OK;
}

/* From a value that fits and one that does not, both
 * tried, to neighbours. */
static pl_status bisect(search *s, int64_t *good, int64_t *bad, pl_error *err) {
    while (*bad - *good > 1 || *good - *bad > 1) {
        int64_t middle = *good + (*bad - *good) / 2, high;
        bool fits;
        pl_status status = try_value(s, middle, &fits, &high, err);
        if (status != PL_OK) return status;
        if (fits)
            *good = middle, s->fit->high_at = high;
        else
            *bad = middle, s->fit->high_above = high;
    }
    return PL_OK;
}

/* The largest from least to most that fits. */
static pl_status find_largest(search *s, int64_t least, int64_t most, pl_error *err) {
    pl_fit *out = s->fit;
    bool fits;
    int64_t high, good = least, bad = most + 1;
    pl_status status = try_value(s, least, &fits, &high, err);
    if (status != PL_OK) return status;
    if (!fits) {
        out->high_above = high;
        return PL_OK;
    }
    out->high_at = high;
    while (good < most) { /* doubling finds one that does not fit */
        int64_t next = good > most / 2 ? most : good * 2;
        status = try_value(s, next, &fits, &high, err);
        if (status != PL_OK) return status;
        if (!fits) {
            bad = next;
            out->high_above = high;
            break;
        }
        good = next;
        out->high_at = high;
    }
    if (bad <= most) status = bisect(s, &good, &bad, err);
    if (status == PL_OK) out->found = good;
    return status;
}

/* The smallest from 1 to most that fits. */
static pl_status find_smallest(search *s, int64_t most, pl_error *err) {
    pl_fit *out = s->fit;
    bool fits = false;
    int64_t high = PL_UNKNOWN, good = 1, bad = 0;
    for (;; good = good > most / 2 ? most : good * 2) {
        pl_status status = try_value(s, good, &fits, &high, err);
        if (status != PL_OK) return status;
        if (fits) break;
        bad = good;
        out->high_above = high;
        if (good == most) return PL_OK;
    }
    out->high_at = high;
    pl_status status = bad ? bisect(s, &good, &bad, err) : PL_OK;
    if (status == PL_OK) out->found = good;
    return status;
}

static pl_status find(pl_fit *out, const pl_model *model, const pl_job *given, pl_fit_what what,
                      int64_t most, pl_error *err) {
    search s = {.model = model, .fit = out};
    pl_status status = pl_job_read(&s.job, given, err);
    if (status != PL_OK) return status;
    if (most < 1)
        return pl_fail(err, PL_USAGE, "most", -1, "%lld is no %s", (long long)most,
                       what == PL_FIT_BATCH ? "batch"
                       : what == PL_FIT_SEQ ? "sequence length"
                                            : "number of ranks");
    const char *name = pl_model_describe(model)->name;
    if (what == PL_FIT_WORLD) {
        if (s.job.parallel != PL_FSDP2)
            return pl_fail(err, PL_USAGE, "parallel", -1,
                           "more ranks take less memory each only where they share it: fsdp2");
        pl_search_begin(&s.job, &s.limits, model);
        return find_smallest(&s, most < MOST_RANKS ? most : MOST_RANKS, err);
    }
    const pl_symbol *symbol = pl_open_symbol(model, what == PL_FIT_BATCH ? "batch" : "seq");
    if (!symbol && what == PL_FIT_BATCH)
        return pl_fail(err, PL_USAGE, name, -1,
                       "the graph has a fixed batch; export it with a dynamic one: "
                       "torch.export.export(model, args, dynamic_shapes={\"x\": {0: "
                       "torch.export.Dim(\"batch\")}})");
    if (!symbol)
        return pl_fail(err, PL_USAGE, name, -1,
                       "the graph has no open sequence length; export it with a dynamic one: "
                       "torch.export.export(model, args, dynamic_shapes={\"x\": {1: "
                       "torch.export.Dim(\"seq\")}})");
    s.value = what == PL_FIT_BATCH ? &s.job.batch : &s.job.seq;
    pl_search_begin(&s.job, &s.limits, model);
    if (symbol->most < most) most = symbol->most;
    if (most > PL_MOST_SIZE) most = PL_MOST_SIZE;
    return find_largest(&s, symbol->least > 1 ? symbol->least : 1, most, err);
}

pl_status pl_fit_find(pl_fit *out, const pl_model *model, const pl_job *given, pl_fit_what what,
                      int64_t most, pl_error *err) {
    if (!PL_SIZED_OK(out, tried))
        return pl_fail(err, PL_USAGE, "out", -1, "a pl_fit whose size is not set");
    if (!model) return pl_fail(err, PL_USAGE, "model", -1, "expected a model");
    if ((unsigned)what > PL_FIT_WORLD)
        return pl_fail(err, PL_USAGE, "what", -1, "%d is none of pl_fit_what", (int)what);
    pl_fit own = {.high_at = PL_UNKNOWN, .high_above = PL_UNKNOWN};
    pl_status status = find(&own, model, given, what, most, err);
    if (what == PL_FIT_BATCH) own.batch = own.found;
    pl_sized_fill(out, out->size, &own, sizeof own);
    return status;
}

pl_status pl_fit_batch(pl_fit *out, const pl_model *model, const pl_job *given, int64_t most,
                       pl_error *err) {
    return pl_fit_find(out, model, given, PL_FIT_BATCH, most, err);
}

/* The card next in size: the least of those that come after `last`, by memory and then by place. */
static size_t next_card(const pl_job *job, size_t last, bool first) {
    size_t best = SIZE_MAX;
    const pl_gpu *before = first ? NULL : pl_card_at(job, last), *gpu;
    for (size_t i = 0; (gpu = pl_card_at(job, i)); i++) {
        bool after = !before || gpu->capacity_bytes > before->capacity_bytes ||
                     (gpu->capacity_bytes == before->capacity_bytes && i > last);
        if (after && !gpu->part_of &&
            (best == SIZE_MAX || gpu->capacity_bytes < pl_card_at(job, best)->capacity_bytes))
            best = i;
    }
    return best;
}

pl_status pl_fit_gpu(const pl_gpu **out, const pl_model *model, const pl_job *given,
                     pl_error *err) {
    *out = NULL;
    if (!model) return pl_fail(err, PL_USAGE, "model", -1, "expected a model");
    pl_job job;
    pl_limits limits;
    pl_status status = pl_job_read(&job, given, err);
    if (status != PL_OK) return status;
    pl_search_begin(&job, &limits, model);
    for (size_t card = next_card(&job, 0, true); card != SIZE_MAX;
         card = next_card(&job, card, false)) {
        pl_report *report = NULL;
        job.gpu = pl_card_at(&job, card)->name;
        status = pl_estimate(&report, model, &job, err);
        bool fits = status == PL_OK && report->fits;
        pl_report_close(&report);
        if (status != PL_OK) return status;
        if (!fits) continue;
        *out = pl_card_at(&job, card);
        return PL_OK;
    }
    return PL_OK;
}
