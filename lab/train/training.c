/* training: pl_train, measured jobs in, weights out. */
#include <string.h>

#include "lab/train/learned.h"

#include <stdlib.h>

void pl_train_settings_default_sized(pl_train_settings *settings, size_t size) {
    const pl_train_settings usual = {
        .options = "", .seed = 1, .split = PL_SPLIT_MODEL, .hold_out = -1, .command = ""};
    pl_sized_fill(settings, size, &usual, sizeof usual);
}

pl_status pl_train(pl_weights **out, const pl_jobs *jobs, const pl_train_settings *given,
                   pl_error *err) {
    *out = NULL;
    pl_lab_register();
    if (!PL_SIZED_OK(given, progress_context))
        return pl_fail(err, PL_USAGE, "settings", -1, "settings whose size is not set");
    pl_train_settings own, *settings = &own;
    pl_train_settings_default(&own);
    pl_sized_read(&own, sizeof own, given, given->size);
    const pl_estimator *estimator = pl_estimator_named(settings->estimator);
    if (!estimator)
        return pl_fail(err, PL_USAGE, "estimator", -1, "no estimator \"%s\"",
                       settings->estimator ? settings->estimator : "");
    if (!pl_method_of(estimator))
        return pl_fail(err, PL_USAGE, settings->estimator, -1,
                       "does not learn: there is nothing to train");
    if (settings->hold_out >= 0.9)
        return pl_fail(err, PL_USAGE, "hold_out", -1, "%s leaves too few jobs to learn from",
                       PL_REAL("g", settings->hold_out));
    for (size_t i = 0; i < jobs->count; i++) /* what was cut off looks like a model of no layers */
        if (pl_measured_cut_off(&jobs->items[i]))
            return pl_fail(err, jobs->items[i].graph_status, jobs->items[i].facts.id, -1, "%s",
                           jobs->items[i].graph_error.message);
    pl_budget budget;
    pl_budget_start(&budget, &jobs->limits);
    size_t *rows = malloc((jobs->count + 1) * sizeof *rows);
    if (!rows) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    for (size_t i = 0; i < jobs->count; i++) rows[i] = i;
    pl_training_set set = {.estimator = estimator,
                           .jobs = jobs,
                           .rows = rows,
                           .count = jobs->count,
                           .settings = settings,
                           .target = settings->target,
                           .budget = &budget};
    pl_status status = pl_learn(out, &set, err);
    free(rows);
    return status;
}
