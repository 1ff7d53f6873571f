/* search: what the searches for a job that fits share. */
#ifndef PL_DECIDE_SEARCH_H
#define PL_DECIDE_SEARCH_H

#include <string.h>

#include "core/budget.h"
#include "core/sized.h"
#include "estimate/job.h"
#include "estimate/model.h"

/* The dimension of a model that is open for a role ("batch", "seq"), or NULL. */
static inline const pl_symbol *pl_open_symbol(const pl_model *model, const char *role) {
    const pl_symbol *symbol;
    for (size_t i = 0; (symbol = pl_model_symbol(model, i)); i++)
        if (strcmp(symbol->role, role) == 0) return symbol;
    return NULL;
}

/* The cards that a job may name: its own, then the library's; NULL past the end. */
static inline const pl_gpu *pl_card_at(const pl_job *job, size_t index) {
    size_t own = 0;
    while (job->catalogue && pl_catalogue_at(job->catalogue, own)) own++;
    return index < own ? pl_catalogue_at(job->catalogue, index) : pl_gpu_at(index - own);
}

/* One request of many simulations: its limits hold for all of it, so that they share one deadline,
 * which begins now. *limits outlives the job. Nothing but figures is asked for. */
static inline void pl_search_begin(pl_job *job, pl_limits *limits, const pl_model *model) {
    const pl_limits *asked = job->limits ? job->limits : &model->limits;
    pl_limits_default(limits);
    pl_sized_read(limits, sizeof *limits, asked, asked->size);
    pl_budget all;
    pl_budget_start(&all, limits);
    limits->deadline_ns = all.deadline_ns;
    limits->timeout_ms = 0;
    job->limits = limits;
    job->want_alive = job->want_timeline = job->want_times = false;
    job->snapshot = NULL;
}

#endif
