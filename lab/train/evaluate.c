/* evaluate: every measured job through an estimator, one thread per core.
 *
 * With a split, an estimator that learns is trained once per fold on the jobs outside of it and
 * asked about those inside: no job is predicted by weights that have seen it, nor (by model, by
 * family) its kin. Estimators that do not learn answer alike with and without. Left out: summing
 * up, which is scores.c's. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/learn/folds.h"
#include "lab/train/learned.h"
#include "lend.h"

typedef struct evaluation {
    pl_evaluation open; /* first, so that a pl_evaluation * is an evaluation * */
    pl_trial *trials;
    pl_error *errors; /* [count] */
    const pl_jobs *jobs;
    const pl_estimator *estimator;
    const pl_target *target;
    const pl_evaluate_settings *settings;
    const pl_weights *weights;  /* of the fold at hand */
    const size_t *rows;         /* the jobs at hand */
    pthread_mutex_t lock;       /* of progress and done */
    pl_budget budget;           /* of training */
    size_t done, total, before; /* before: done when the fold at hand began */
} evaluation;

void pl_evaluate_settings_default_sized(pl_evaluate_settings *settings, size_t size) {
    pl_job job;
    pl_job_default(&job);
    const pl_evaluate_settings usual = {
        .estimator = job.estimator, .target = "memory", .folds = 5, .options = "", .seed = 1};
    pl_sized_fill(settings, size, &usual, sizeof usual);
}

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

/* Training a fold counts as much as asking about FOLD jobs: by far the most of the time. */
enum { FOLD = 1000 };

static void move(evaluation *e, size_t done) {
    pthread_mutex_lock(&e->lock);
    e->done = done ? done : e->done + 1;
    if (e->settings->progress)
        e->settings->progress(e->done < e->total ? e->done : e->total, e->total,
                              e->settings->progress_context);
    pthread_mutex_unlock(&e->lock);
}

static void see_epoch(const pl_train_point *point, void *context) {
    evaluation *e = context;
    if (point->epochs < 1) return;
    size_t part = (size_t)((double)FOLD * point->epoch / point->epochs);
    size_t done = e->before + (part < FOLD ? part : FOLD);
    if (done > e->done) move(e, done);
}

/* ---- one job ---- */

static void take(evaluation *e, pl_trial *t, const pl_report *report) {
    t->peak_bytes = report->peak_bytes;
    t->low_bytes = report->low_bytes;
    t->high_bytes = report->high_bytes;
    t->allocated_bytes = report->allocated_bytes;
    t->reserved_bytes = report->reserved_bytes;
    t->overhead_bytes = report->overhead_bytes;
    t->coverage = report->coverage;
    t->chance = pl_report_chance(report, t->measured_bytes);
    t->interval = pl_report_tail_name(report);
    if (!t->interval) t->interval = "";
    t->step_ms = report->step_ms.value;
    t->device_ms = report->device_ms;
    t->host_ms = report->host_ms;
    t->launches = report->launches;
    t->smact = pl_report_counter(report, PL_SMACT).value;
    t->smocc = pl_report_counter(report, PL_SMOCC).value;
    t->drama = pl_report_counter(report, PL_DRAMA).value;
    t->tensor = pl_report_counter(report, PL_TENSOR).value;
    pl_figure said = e->target->said(report);
    t->predicted = said.value;
    t->predicted_low = said.low;
    t->predicted_high = said.high;
}

static pl_status ask(evaluation *e, const pl_measured *item, pl_trial *t, const pl_limits *limits,
                     pl_error *err) {
    pl_question q;
    pl_status status =
        pl_question_open(&q, e->jobs, item, e->estimator->info.needs_graph, limits, err);
    if (status == PL_OK) {
        int64_t begin = pl_now_ns();
        status = e->estimator->estimate(q.report, &q.subject, e->weights, err);
        t->elapsed_us = (double)(pl_now_ns() - begin) / 1e3;
    }
    if (status == PL_OK) take(e, t, q.report);
    if (status == PL_OK && !isfinite(t->predicted))
        status = pl_fail(err, PL_MISSING, NULL, -1, "%s says nothing of %s here",
                         e->estimator->info.name, e->target->name);
    pl_question_close(&q);
    return status;
}

static bool estimate(void *context, size_t index, const pl_turn *turn) {
    evaluation *e = context;
    size_t row = e->rows[index];
    pl_trial *t = &e->trials[row];
    pl_error *error = &e->errors[row];
    error->message[0] = '\0';
    t->message = error->message; /* "" as long as nothing failed */
    t->status = ask(e, &e->jobs->items[row], t, turn->limits, error);
    if (t->status == PL_LIMIT && !turn->last) return false;
    move(e, 0);
    return true;
}

/* ---- folds ---- */

/* Bins as strata, so that each fold has its share of each. */
static pl_status deal(const evaluation *e, uint32_t *fold, size_t count, const size_t *rows,
                      size_t folds, pl_error *err) {
    const pl_evaluate_settings *s = e->settings;
    double bin = (double)(s->bin_bytes > 0 ? s->bin_bytes : e->jobs->bin_bytes);
    uint32_t *keys = malloc((count + 1) * sizeof *keys);
    if (!keys) return no_memory(err);
    bool strata = s->split == PL_SPLIT_ROW && pl_method_of(e->estimator)->classifies;
    for (size_t i = 0; i < count; i++) {
        const pl_measured *item = &e->jobs->items[rows[i]];
        keys[i] = s->split == PL_SPLIT_FAMILY ? item->family
                  : s->split == PL_SPLIT_KIN  ? item->kindred
                  : s->split == PL_SPLIT_MODEL
                      ? item->model
                      : (uint32_t)fmin(UINT32_MAX, e->target->measured(item) / bin);
    }
    pl_status status = pl_folds_deal(fold, count, folds, s->split == PL_SPLIT_ROW ? NULL : keys,
                                     strata ? keys : NULL, s->seed, err);
    free(keys);
    return status;
}

static pl_status run_fold(evaluation *e, const uint32_t *fold, uint32_t number, const size_t *rows,
                          size_t count, size_t *scratch, pl_error *err) {
    pl_train_settings training;
    pl_train_settings_default(&training);
    training.options = e->settings->options;
    training.seed = e->settings->seed;
    training.split = e->settings->split == PL_SPLIT_FAMILY ? PL_SPLIT_MODEL : e->settings->split;
    training.bin_bytes = e->settings->bin_bytes;
    training.progress = see_epoch;
    training.progress_context = e;
    e->before = e->done;
    size_t learnt = 0, asked = 0;
    for (size_t i = 0; i < count; i++)
        if (fold[i] != number) scratch[learnt++] = rows[i];
    pl_training_set set = {.estimator = e->estimator,
                           .jobs = e->jobs,
                           .rows = scratch,
                           .count = learnt,
                           .settings = &training,
                           .target = e->target->name,
                           .budget = &e->budget};
    pl_weights *weights = NULL;
    int64_t begin = pl_now_us();
    pl_status status = pl_learn(&weights, &set, err);
    e->open.train_s += (double)(pl_now_us() - begin) / 1e6;
    if (status != PL_OK) return status;
    move(e, e->before + FOLD);
    for (size_t i = 0; i < count; i++) {
        if (fold[i] != number) continue;
        e->trials[rows[i]].fold = (int)number;
        scratch[asked++] = rows[i];
    }
    e->weights = weights;
    e->rows = scratch;
    pl_jobs_each(e->jobs, asked, e->settings->threads, estimate, e);
    pl_weights_close(&weights);
    return PL_OK;
}

/* One fold per family that is asked about. */
static pl_status count_families(size_t *out, const evaluation *e, const size_t *rows, size_t count,
                                pl_error *err) {
    uint8_t *seen = calloc(e->jobs->family_count + 1, 1);
    if (!seen) return no_memory(err);
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t family = e->jobs->items[rows[i]].family;
        *out += !seen[family];
        seen[family] = 1;
    }
    free(seen);
    if (*out > 1) return PL_OK;
    return pl_fail(err, PL_USAGE, "split", -1,
                   "all %zu jobs are of one family: there is none to learn from", count);
}

static pl_status run_split(evaluation *e, const size_t *rows, size_t count, pl_error *err) {
    const pl_evaluate_settings *s = e->settings;
    size_t folds = (size_t)(s->folds > 0 ? s->folds : 5);
    if (s->split == PL_SPLIT_FAMILY) {
        pl_status counted = count_families(&folds, e, rows, count, err);
        if (counted != PL_OK) return counted;
    }
    uint32_t *fold = malloc((count + 1) * sizeof *fold);
    size_t *scratch = malloc((count + 1) * sizeof *scratch);
    pl_status status = fold && scratch ? deal(e, fold, count, rows, folds, err) : no_memory(err);
    e->open.folds = (int)folds;
    e->total += folds * FOLD;
    e->open.train_s = 0;
    for (uint32_t k = 0; status == PL_OK && k < folds; k++)
        status = run_fold(e, fold, k, rows, count, scratch, err);
    free(fold);
    free(scratch);
    return status;
}

/* Whether the estimator's weights have to do with the target: simulations count operations,
 * whatever else they have learnt. */
static bool learns(const evaluation *e) {
    const pl_method *method = pl_method_of(e->estimator);
    bool counted = e->target->guess && strcmp(e->target->name, "memory") != 0;
    return method && (method->compute || !counted);
}

static pl_status run(evaluation *e, pl_error *err) {
    const pl_evaluate_settings *s = e->settings;
    size_t count = 0;
    size_t *rows = malloc((e->jobs->count + 1) * sizeof *rows);
    if (!rows) return no_memory(err);
    for (size_t i = 0; i < e->jobs->count; i++) {
        const pl_measured *item = &e->jobs->items[i];
        e->trials[i] = item->facts;
        pl_trial *t = &e->trials[i];
        t->index = i;
        t->measured = e->target->measured(item);
        t->predicted = t->predicted_low = t->predicted_high = t->coverage = NAN;
        t->peak_bytes = t->low_bytes = t->high_bytes = PL_UNKNOWN;
        t->chance = NAN;
        t->interval = "";
        t->batch = item->profile.job.batch > 0 ? item->profile.job.batch : 0;
        t->step_ms = t->device_ms = t->host_ms = t->launches = NAN;
        t->smact = t->smocc = t->drama = t->tensor = NAN;
        t->allocated_bytes = t->reserved_bytes = t->overhead_bytes = PL_UNKNOWN;
        t->message = e->errors[i].message;
        bool asked = isfinite(t->measured);
        if (!asked)
            t->status =
                pl_fail(&e->errors[i], PL_MISSING, NULL, -1, "no measured %s", e->target->name);
        else if ((e->estimator->info.needs_graph && item->graph_status != PL_OK) ||
                 pl_measured_cut_off(item)) {
            e->errors[i] = item->graph_error;
            t->status = item->graph_status;
            asked = false;
        }
        if (asked) rows[count++] = i;
    }
    e->total = count;
    pl_status status = PL_OK;
    if (learns(e) && s->split != PL_SPLIT_NONE && !s->weights) {
        status = count ? run_split(e, rows, count, err)
                       : pl_fail(err, PL_INPUT, NULL, -1, "no job that %s can learn from",
                                 e->estimator->info.name);
    } else {
        if (pl_method_of(e->estimator))
            status = pl_weights_for(&e->weights, e->estimator, s->weights, err);
        if (status == PL_OK && pl_method_of(e->estimator) && !pl_method_of(e->estimator)->learn &&
            !pl_weights_part(e->weights, e->target->name))
            status = pl_fail(err, PL_USAGE, "target", -1, "these weights of %s learnt %s, not %s",
                             e->estimator->info.name, e->weights->info.target, e->target->name);
        e->open.seen = learns(e);
        e->open.split = PL_SPLIT_NONE;
        e->rows = rows;
        if (status == PL_OK) pl_jobs_each(e->jobs, count, s->threads, estimate, e);
    }
    free(rows);
    return status;
}

/* What is in sample where it does not look so. */
static const char *remark_on(const evaluation *e) {
    const char *name = e->estimator->info.name;
    bool memory = strcmp(e->target->name, "memory") == 0;
    if (memory && strcmp(name, "sim") == 0)
        return "sim does not learn here, but its tree of cuDNN's workspaces was fitted on layers "
               "of the "
               "ground truth and of data/h200: its figures for CNNs of these are better than for "
               "others";
    if (memory && strcmp(name, "hybrid") == 0 && e->open.folds && e->jobs->convs.count == 0)
        return "hybrid was given no measured convolutions (data/h200/convs*.jsonl.xz among the "
               "jobs): "
               "its workspaces are sim's";
    if (pl_method_of(e->estimator) && !e->estimator->info.needs_graph &&
        pl_jobs_without_layers(e->jobs))
        return "of some jobs no layer is known, neither by a graph nor by their record: what is "
               "learnt "
               "from counts is asked about all but nothing there; graphs would help";
    return NULL;
}

/* ---- opening and closing ---- */

static void name_targets(char *out, size_t size) {
    size_t used = 0;
    for (size_t i = 0; pl_target_at(i) && used < size; i++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", pl_target_at(i)->name);
}

static pl_status check(const pl_evaluate_settings *settings, const pl_estimator **estimator,
                       const pl_target **target, pl_error *err) {
    pl_job job;
    pl_job_default(&job);
    const char *name = settings->estimator ? settings->estimator : job.estimator;
    *estimator = pl_estimator_named(name);
    if (!*estimator) return pl_fail(err, PL_USAGE, "estimator", -1, "no estimator \"%s\"", name);
    *target = pl_target_find(settings->target ? settings->target : "memory");
    if (!*target) {
        char names[256];
        name_targets(names, sizeof names);
        return pl_fail(err, PL_USAGE, "target", -1, "no target \"%s\"; there are %s",
                       settings->target, names);
    }
    /* Simulations know the operators, and so all of it; what learns knows what it can learn. */
    bool compute =
        pl_method_of(*estimator) && pl_method_of(*estimator)->compute && (*target)->guess;
    if (strcmp((*target)->name, "memory") == 0 || compute ||
        (*estimator)->info.kind == PL_SIMULATION)
        return PL_OK;
    if (pl_method_of(*estimator) && pl_method_of(*estimator)->compute)
        return pl_fail(err, PL_USAGE, "target", -1,
                       "%s estimates memory and floating-point operations alone", name);
    return pl_fail(err, PL_USAGE, "target", -1, "%s estimates memory alone", name);
}

pl_status pl_evaluate(pl_evaluation **out, const pl_jobs *jobs, const pl_evaluate_settings *given,
                      pl_error *err) {
    *out = NULL;
    pl_lab_register();
    pl_evaluate_settings own, *settings = &own;
    pl_evaluate_settings_default(&own);
    if (given && !PL_SIZED_OK(given, progress_context))
        return pl_fail(err, PL_USAGE, "settings", -1, "settings whose size is not set");
    if (given) pl_sized_read(&own, sizeof own, given, given->size);
    int64_t start = pl_now_us();
    const pl_estimator *estimator = NULL;
    const pl_target *target = NULL;
    pl_status status = check(settings, &estimator, &target, err);
    if (status != PL_OK) return status;
    evaluation *e = calloc(1, sizeof *e);
    if (!e) return no_memory(err);
    e->jobs = jobs;
    e->estimator = estimator;
    e->target = target;
    e->settings = settings;
    pl_budget_start(&e->budget, &jobs->limits);
    e->open = (pl_evaluation){.estimator = estimator->info.name,
                              .target = target->name,
                              .count = jobs->count,
                              .split = pl_method_of(estimator) ? settings->split : PL_SPLIT_NONE,
                              .train_s = NAN};
    e->trials = calloc(jobs->count + 1, sizeof *e->trials);
    e->errors = calloc(jobs->count + 1, sizeof *e->errors);
    bool locked = pthread_mutex_init(&e->lock, NULL) == 0;
    status = locked && e->trials && e->errors ? run(e, err) : no_memory(err);
    if (locked) pthread_mutex_destroy(&e->lock);
    e->open.remark = remark_on(e);
    e->open.elapsed_us = pl_now_us() - start;
    *out = &e->open;
    if (status != PL_OK) pl_evaluation_close(out);
    return status;
}

void pl_evaluation_close(pl_evaluation **open) {
    if (!open || !*open) return;
    evaluation *e = (evaluation *)*open;
    free(e->trials);
    free(e->errors);
    free(e);
    *open = NULL;
}

const pl_trial *pl_evaluation_trial(const pl_evaluation *open, size_t index) {
    return index < open->count ? &((const evaluation *)open)->trials[index] : NULL;
}
