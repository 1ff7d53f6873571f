/* usage_learn: how the corrections of usage.c are learnt.
 *
 * Every measured job with a step time is walked; what is learnt, by gradient boosting, is log2 of
 * truth over walk. Intervals come from jobs kept apart by kin: each fold is predicted by what was
 * learnt from the others, and the quantiles of what was missed are kept, for each kind of bound;
 * jobs count less the more there are of their kin, since what is asked about is of another.
 *
 * Left out: jobs that cannot be walked, those that are out of memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/learn/folds.h"
#include "lab/learn/metrics.h"
#include "lab/learn/trained_train.h"
#include "lab/train/missed.h"
#include "lab/train/learned.h"
#include "lend.h"

enum { FOLDS = 5, ALL = FOLDS /* no fold */, LEAST = 40 /* jobs to learn from */ };

static const char *const learner_options =
    "trees=150 rate=0.07 leaves=6 min_leaf=8 lambda=3 features=0.4 bagging=0.6 loss=l1";

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

typedef struct job_sample {
    const pl_measured *item;
    bool seen;
    bool cut_off; /* by a limit; why: which */
    pl_error why;
    float signals[PL_USAGE_SIGNALS];
    double walk[PL_USAGE_TARGETS];  /* step in ms, counters in percent */
    double truth[PL_USAGE_TARGETS]; /* the same, measured; NAN: not */
    double said[PL_USAGE_TARGETS];  /* log2 over walk, by a fold that has not seen it */
    pl_usage_bound bound;
    uint32_t fold;
} job_sample;

typedef struct job_samples {
    const pl_training_set *training_set;
    job_sample *samples;
    size_t count;
} job_samples;

/* ---- walks ---- */

static bool simulate(pl_report *report, pl_walk *walk, const pl_subject *subject) {
    pl_simulated simulated;
    pl_tape_device device = pl_tape_device_of(subject->gpu);
    bool done =
        pl_simulated_open(&simulated, subject, &device, pl_report_arena(report), NULL) == PL_OK &&
        pl_simulated_report(report, walk, subject, &simulated);
    pl_simulated_close(&simulated);
    return done;
}

static bool simulate_one(void *context, size_t index, const pl_turn *turn) {
    job_samples *s = context;
    job_sample *p = &s->samples[index];
    pl_question q;
    pl_walk walk;
    pl_status status =
        pl_question_open(&q, s->training_set->jobs, p->item, true, turn->limits, &p->why);
    const pl_report *report = q.report;
    p->seen = status == PL_OK && simulate(q.report, &walk, &q.subject) && walk.known &&
              report->step_ms.value > 0;
    p->cut_off = status == PL_LIMIT || (status == PL_OK && q.subject.budget->spent);
    if (p->cut_off && status == PL_OK) pl_budget_fail(&p->why, q.subject.budget, p->item->facts.id);
    if (p->seen) {
        memcpy(p->signals, walk.signals, sizeof p->signals);
        p->walk[PL_USAGE_STEP] = report->step_ms.value;
        p->truth[PL_USAGE_STEP] = p->item->step_ms;
        for (int i = 0; i < PL_COUNTERS; i++) {
            p->walk[PL_USAGE_COUNTERS + i] = pl_report_counter(report, (pl_counter)i).value;
            p->truth[PL_USAGE_COUNTERS + i] = p->item->counters[i];
        }
        p->bound = pl_usage_bound_of(report);
    }
    pl_question_close(&q);
    return !p->cut_off || turn->last;
}

/* log2 of truth over walk of one target; NAN: not measured. */
static double ratio(const job_sample *p, int target) {
    double step = log2(p->truth[PL_USAGE_STEP] / p->walk[PL_USAGE_STEP]);
    if (target == PL_USAGE_STEP) return step;
    return step + log2(pl_usage_share(p->truth[target]) / pl_usage_share(p->walk[target]));
}

static pl_status samples_open(job_samples *s, const pl_training_set *set, pl_error *err) {
    *s = (job_samples){.training_set = set, .samples = calloc(set->count + 1, sizeof *s->samples)};
    uint32_t *groups = calloc(set->count + 1, sizeof *groups),
             *folds = calloc(set->count + 1, sizeof *folds);
    pl_status status = s->samples && groups && folds ? PL_OK : no_memory(err);
    for (size_t i = 0; status == PL_OK && i < set->count; i++) {
        const pl_measured *item = &set->jobs->items[set->rows[i]];
        if (item->graph_status == PL_OK && item->step_ms > 0) s->samples[s->count++].item = item;
    }
    if (status == PL_OK) pl_jobs_each(set->jobs, s->count, set->jobs->threads, simulate_one, s);
    for (size_t i = 0; status == PL_OK && i < s->count; i++)
        if (s->samples[i].cut_off)
            status = pl_fail(err, PL_LIMIT, s->samples[i].item->facts.id, -1, "%s",
                             s->samples[i].why.message);
    size_t kept = 0;
    for (size_t i = 0; status == PL_OK && i < s->count; i++) {
        if (!s->samples[i].seen) continue;
        s->samples[kept] = s->samples[i];
        groups[kept++] = s->samples[i].item->kindred;
    }
    s->count = kept;
    if (status == PL_OK && kept < LEAST)
        status = pl_fail(err, PL_INPUT, NULL, -1,
                         "%zu measured jobs with step_ms and a model; %d or more are wanted", kept,
                         LEAST);
    if (status == PL_OK)
        status = pl_folds_deal(folds, kept, FOLDS, groups, NULL, set->settings->seed, err);
    for (size_t i = 0; status == PL_OK && i < kept; i++) s->samples[i].fold = folds[i];
    free(groups);
    free(folds);
    if (status != PL_OK) free(s->samples);
    return status;
}

/* ---- parts ---- */

static pl_status learn(pl_trained **out, const job_samples *s, int target, uint32_t but,
                       pl_error *err) {
    const pl_training_set *set = s->training_set;
    float *values = calloc(s->count + 1, PL_USAGE_SIGNALS * sizeof *values),
          *truths = calloc(s->count + 1, sizeof *truths);
    pl_status status = values && truths ? PL_OK : no_memory(err);
    size_t count = 0;
    for (size_t i = 0; status == PL_OK && i < s->count; i++) {
        const job_sample *p = &s->samples[i];
        double truth = ratio(p, target);
        if (p->fold == but || !isfinite(truth)) continue;
        memcpy(values + count * PL_USAGE_SIGNALS, p->signals, sizeof p->signals);
        truths[count++] = (float)fmin(fmax(truth, -3), 3);
    }
    const char *options = set->settings->options && set->settings->options[0]
                              ? set->settings->options
                              : learner_options;
    pl_samples samples = {.count = count,
                          .columns = PL_USAGE_SIGNALS,
                          .values = values,
                          .names = pl_usage_signal_names,
                          .targets = truths};
    pl_trained_settings settings = {
        .estimator = set->estimator->info.name,
        .target = pl_usage_target_names[target],
        .command = set->settings->command,
        .data = set->jobs->data,
        .learn = {.options = options, .seed = set->settings->seed, .budget = set->budget}};
    if (status == PL_OK)
        status =
            pl_trained_train(out, pl_method_of(set->estimator)->learner, &samples, &settings, err);
    free(values);
    free(truths);
    return status;
}

static pl_status predict(job_samples *s, int target, const pl_trained *part, uint32_t fold,
                         pl_error *err) {
    for (size_t i = 0; i < s->count; i++) {
        job_sample *p = &s->samples[i];
        if (p->fold != fold) continue;
        pl_samples sample = {.count = 1,
                             .columns = PL_USAGE_SIGNALS,
                             .values = p->signals,
                             .names = pl_usage_signal_names};
        float said;
        pl_status status = pl_trained_predict(part, &sample, &said, err);
        if (status != PL_OK) return status;
        p->said[target] = (double)said;
    }
    return PL_OK;
}

/* What a fold's prediction missed: step log2, counters points. */
static double missed(const job_sample *p, int target) {
    if (target == PL_USAGE_STEP) return ratio(p, target) - p->said[target];
    double said = pl_usage_share(p->walk[target]) * exp2(p->said[target] - p->said[PL_USAGE_STEP]);
    return p->truth[target] - fmin(said, 100);
}

/* Of jobs of a bound whose target is known, as many as a job's kin has. */
static size_t kin_of(const job_samples *s, const job_sample *p, int target) {
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        const job_sample *other = &s->samples[i];
        count += other->bound == p->bound && other->item->kindred == p->item->kindred &&
                 isfinite(missed(other, target));
    }
    return count;
}

static pl_status set_interval(pl_trained *part, const job_samples *s, int target, pl_error *err) {
    pl_missed *own = calloc(s->count + 1, sizeof *own);
    if (!own) return no_memory(err);
    const double outside = (1 - PL_USAGE_COVERAGE) / 2;
    for (int bound = 0; bound < PL_BOUNDS; bound++) {
        size_t count = 0;
        for (size_t i = 0; i < s->count; i++) {
            const job_sample *p = &s->samples[i];
            double miss = missed(p, target);
            if ((int)p->bound != bound || !isfinite(miss)) continue;
            own[count++] = (pl_missed){miss, 1 / sqrt((double)kin_of(s, p, target))};
        }
        double above = pl_missed_quantile(own, count, outside);
        for (size_t i = 0; i < count; i++) own[i].by = -own[i].by;
        double below = pl_missed_quantile(own, count, outside);
        part->extra[PL_USAGE_BELOW + bound] = count ? fmin(0, -below) : -1;
        part->extra[PL_USAGE_ABOVE + bound] = count ? fmax(0, above) : 1;
    }
    free(own);
    return PL_OK;
}

pl_status pl_usage_learn(pl_weights *weights, const pl_training_set *set, pl_error *err) {
    job_samples s;
    pl_status status = samples_open(&s, set, err);
    if (status != PL_OK) return status;
    pl_trained *parts[PL_USAGE_TARGETS] = {0};
    for (int target = 0; status == PL_OK && target < PL_USAGE_TARGETS; target++) {
        for (uint32_t fold = 0; status == PL_OK && fold < FOLDS; fold++) {
            pl_trained *part = NULL;
            status = learn(&part, &s, target, fold, err);
            if (status == PL_OK) status = predict(&s, target, part, fold, err);
            pl_trained_close(&part);
        }
        if (status == PL_OK) status = learn(&parts[target], &s, target, ALL, err);
        if (status == PL_OK) status = set_interval(parts[target], &s, target, err);
    }
    for (int target = 0; target < PL_USAGE_TARGETS; target++) {
        if (status == PL_OK && !pl_weights_add(weights, parts[target]))
            status = no_memory(err);
        else if (status != PL_OK)
            pl_trained_close(&parts[target]);
    }
    free(s.samples);
    return status;
}
