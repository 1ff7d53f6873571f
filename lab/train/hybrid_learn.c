/* hybrid_learn: see hybrid_learn.h.
 *
 * Jobs are split by kin into folds: architectures that share their blocks stay together, since of
 * one that a user asks about the kin may be missing too. Those of a fold are simulated with a forest
 * that saw neither their layers nor any near them, so that what is learnt of the interval is true of
 * new models. Two
 * quantiles of log2(truth / peak) are learnt by gradient boosting; how far they fall short on the
 * folds that they did not see gives one margin per kind of job (conformalised quantile regression:
 * Romano, Patterson, Candès 2019; with folds as in cross-conformal prediction, Vovk 2015), and one
 * of jobs whose operators have forms that no other fold's jobs have (estimate/forms.h).
 *
 * A training set that leaves jobs out (evaluate --split) is not to know them: what was measured of
 * layers that they have is not learnt from either.
 *
 * Left out: jobs that cannot be simulated, and amp-fp16 jobs whose optimizer never ran (the scaler
 * skipped every step that was measured): their peaks lack the optimizer's state, which no later
 * step of a real training does. */
#include "lab/train/hybrid_learn.h"
#include "lab/jobs/convs.h"
#include "lab/learn/trained_train.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/learn/folds.h"
#include "lab/learn/metrics.h"
#include "lab/train/missed.h"
#include "lab/train/workspace_forest_train.h"
#include "lend.h"

enum { FOLDS = 4, ALL = FOLDS /* no fold */, LEAST = 40 /* jobs to learn from */ };
static const double quantile_share = 0.03; /* on each side, before the margin */

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

/* ---- jobs ---- */

/* What a job's operators make in one form. */
typedef struct form {
    char *text; /* malloc'ed */
    double bytes;
} form;

typedef struct job_sample {
    const pl_measured *item;
    bool in_set;  /* it is learnt from; else only its layers are looked at */
    bool seen;    /* was simulated */
    bool skipped; /* amp-fp16 without a step of its optimizer */
    pl_observation observation;
    double truth; /* log2(truth / peak) */
    uint32_t fold;
    pl_conv_layer *layers;
    size_t layer_count;
    form *forms; /* [form_count], each once */
    size_t form_count, form_room;
    bool no_memory; /* for them */
} job_sample;

typedef struct job_samples {
    const pl_training_set *training_set;
    job_sample *samples; /* [count] */
    size_t count;
    const pl_weights *forest; /* NULL: the device's own trees */
    uint32_t fold;            /* whose samples are simulated; ALL: everyone */
    pl_status status;         /* the first failure, under the lock, and why */
    pl_error why;
    pthread_mutex_t lock;
} job_samples;

static void samples_close(job_samples *s) {
    for (size_t i = 0; s->samples && i < s->count; i++) {
        for (size_t k = 0; k < s->samples[i].form_count; k++) free(s->samples[i].forms[k].text);
        free(s->samples[i].forms);
        free(s->samples[i].layers);
    }
    free(s->samples);
}

static bool learnt_from(const job_sample *p) {
    return p->in_set && p->seen && !p->skipped && p->observation.kind != PL_EVIDENCE_NOT_COVERED;
}

/* The steps that were measured have no optimizer: at its peak, the allocated bytes lack most of
 * what the simulation has of its state. */
static bool lacks_optimizer(const pl_measured *item, const pl_report *report) {
    int64_t state = pl_report_bytes(report, PL_OPTIMIZER);
    int64_t less = report->allocated_bytes - item->facts.measured_allocated;
    return item->job.precision == PL_AMP_FP16 && item->facts.measured_allocated > 0 && state > 0 &&
           less > state / 4 && less > report->allocated_bytes / 100;
}

static void note_form(void *context, const char *text, double bytes) {
    job_sample *p = context;
    size_t i = 0;
    while (i < p->form_count && strcmp(p->forms[i].text, text) != 0) i++;
    if (i == p->form_room) {
        size_t room = p->form_room ? 2 * p->form_room : 64;
        form *grown = realloc(p->forms, room * sizeof *grown);
        p->no_memory |= !grown;
        if (!grown) return;
        p->forms = grown;
        p->form_room = room;
    }
    if (i == p->form_count) {
        char *copy = strdup(text);
        p->no_memory |= !copy;
        if (!copy) return;
        p->forms[p->form_count++] = (form){.text = copy};
    }
    p->forms[i].bytes += bytes;
}

/* A job that cannot be simulated is not seen; what fails is memory, a limit, or the forest. */
static pl_status observe(job_sample *p, const pl_question *q, const pl_weights *forest, bool first,
                         pl_error *err) {
    pl_workspace_chooser *chooser = NULL;
    pl_report *report = q->report;
    pl_status status = pl_workspace_chooser_open(&chooser, forest, err);
    pl_status simulated = PL_INPUT;
    if (status == PL_OK)
        simulated = pl_evidence_observe(report, &p->observation, &q->subject, chooser, err);
    if (simulated == PL_MISSING || simulated == PL_LIMIT) status = simulated;
    if (status == PL_OK) status = pl_workspace_chooser_status(chooser, err);
    p->seen = status == PL_OK && simulated == PL_OK && report->peak_bytes > 0;
    if (p->seen) {
        p->truth = log2((double)p->item->facts.measured_bytes / (double)report->peak_bytes);
        p->skipped = lacks_optimizer(p->item, report);
    }
    if (p->seen && first) {
        p->layers = pl_workspace_chooser_layers(chooser, &p->layer_count);
        if (!q->subject.model->trace) pl_forms_each(q->subject.graph, note_form, p);
        if (!p->layers || p->no_memory) status = no_memory(err);
    }
    pl_workspace_chooser_close(&chooser);
    return status;
}

static bool simulate_one(void *context, size_t index, const pl_turn *turn) {
    job_samples *s = context;
    job_sample *p = &s->samples[index];
    bool first = s->fold == ALL;
    /* Without convolutions nothing is other than the first time. */
    if (!first && (!p->in_set || !p->seen || p->fold != s->fold || p->layer_count == 0))
        return true;
    pl_question q;
    pl_error why;
    pl_status opened =
        pl_question_open(&q, s->training_set->jobs, p->item, true, turn->limits, &why);
    pl_status status = opened == PL_MISSING || opened == PL_LIMIT ? opened : PL_OK;
    if (opened == PL_OK) status = observe(p, &q, s->forest, first, &why);
    pl_question_close(&q);
    if (status == PL_LIMIT && !turn->last) return false;
    pthread_mutex_lock(&s->lock);
    if (s->status == PL_OK && status != PL_OK) {
        s->status = status;
        s->why = why;
    }
    pthread_mutex_unlock(&s->lock);
    return true;
}

static pl_status simulate(job_samples *s, const pl_weights *forest, uint32_t fold, pl_error *err) {
    s->forest = forest;
    s->fold = fold;
    if (pthread_mutex_init(&s->lock, NULL) != 0) return no_memory(err);
    pl_jobs_each(s->training_set->jobs, s->count, s->training_set->jobs->threads, simulate_one, s);
    pthread_mutex_destroy(&s->lock);
    if (s->status != PL_OK && err) *err = s->why;
    return s->status;
}

/* Every job that has a graph; those of the training set dealt into folds. */
static pl_status samples_open(job_samples *s, const pl_training_set *set, pl_error *err) {
    const pl_jobs *jobs = set->jobs;
    *s = (job_samples){.training_set = set, .samples = calloc(jobs->count + 1, sizeof *s->samples)};
    uint8_t *in_set = calloc(jobs->count + 1, 1);
    uint32_t *groups = calloc(jobs->count + 1, sizeof *groups),
             *folds = calloc(jobs->count + 1, sizeof *folds);
    pl_status status = s->samples && in_set && groups && folds ? PL_OK : no_memory(err);
    size_t count = 0;
    for (size_t i = 0; status == PL_OK && i < set->count; i++) in_set[set->rows[i]] = 1;
    for (size_t i = 0; status == PL_OK && i < jobs->count; i++) {
        const pl_measured *item = &jobs->items[i];
        if (item->graph_status != PL_OK || item->facts.measured_bytes <= 0) continue;
        s->samples[s->count++] = (job_sample){.item = item, .in_set = in_set[i], .fold = ALL};
        if (in_set[i]) groups[count++] = item->kindred;
    }
    if (status == PL_OK && count < LEAST)
        status =
            pl_fail(err, PL_INPUT, NULL, -1,
                    "%zu measured jobs with graphs; hybrid learns from %d or more", count, LEAST);
    if (status == PL_OK)
        status = pl_folds_deal(folds, count, FOLDS, groups, NULL, set->settings->seed, err);
    for (size_t i = 0, k = 0; status == PL_OK && i < s->count; i++)
        if (s->samples[i].in_set) s->samples[i].fold = folds[k++];
    free(in_set);
    free(groups);
    free(folds);
    if (status != PL_OK) samples_close(s);
    return status;
}

/* ---- workspaces ---- */

/* The layers of the jobs that are not of the set, and of those in the fold; sorted. */
static pl_conv_layer *apart_of(const job_samples *s, uint32_t fold, size_t *count) {
    size_t room = 0;
    *count = 0;
    for (size_t i = 0; i < s->count; i++) room += s->samples[i].layer_count;
    pl_conv_layer *apart = calloc(room + 1, sizeof *apart);
    for (size_t i = 0; apart && i < s->count; i++) {
        const job_sample *p = &s->samples[i];
        if ((p->in_set && p->fold != fold) || p->layer_count == 0) continue;
        memcpy(apart + *count, p->layers, p->layer_count * sizeof *apart);
        *count += p->layer_count;
    }
    if (apart) *count = pl_conv_layers_sort(apart, *count);
    return apart;
}

static pl_trained_settings settings_of(const pl_training_set *set, const char *target,
                                       const char *options) {
    return (pl_trained_settings){
        .estimator = set->estimator->info.name,
        .target = target,
        .command = set->settings->command,
        .data = set->jobs->data,
        .learn = {.options = options, .seed = set->settings->seed, .budget = set->budget}};
}

/* A forest for new models, and for one fold: that has not seen its layers. ALL: has seen all. */
static pl_status train_forest(pl_weights *weights, const job_samples *s, uint32_t fold,
                              pl_error *err) {
    size_t count;
    pl_conv_layer *apart = apart_of(s, fold, &count);
    if (!apart) return no_memory(err);
    pl_trained_settings settings = settings_of(s->training_set, "", "");
    pl_status status = pl_workspace_forest_train(weights, &s->training_set->jobs->convs, apart,
                                                 count, &settings, err);
    free(apart);
    return status;
}

static pl_status simulate_apart(job_samples *s, uint32_t fold, pl_error *err) {
    pl_weights *forest = pl_weights_new();
    pl_status status = forest ? train_forest(forest, s, fold, err) : no_memory(err);
    if (status == PL_OK) status = simulate(s, forest, fold, err);
    pl_weights_close(&forest);
    return status;
}

/* ---- forms ---- */

/* Of the jobs of all folds but one; NULL: out of memory. */
static pl_forms *forms_of(const job_samples *s, uint32_t but) {
    pl_forms *forms = pl_forms_new();
    for (size_t i = 0; forms && i < s->count; i++) {
        const job_sample *p = &s->samples[i];
        if (!p->in_set || !p->seen || p->fold == but) continue;
        for (size_t k = 0; forms && k < p->form_count; k++)
            if (!pl_forms_add(forms, p->forms[k].text)) pl_forms_close(&forms);
    }
    return forms;
}

/* What is strange of a fold's jobs is what the other folds' jobs do not have. */
static pl_status find_strange(job_samples *s, uint32_t fold, pl_error *err) {
    pl_forms *forms = forms_of(s, fold);
    if (!forms) return no_memory(err);
    for (size_t i = 0; i < s->count; i++) {
        job_sample *p = &s->samples[i];
        double bytes = 0;
        if (!p->in_set || !p->seen || p->fold != fold) continue;
        for (size_t k = 0; k < p->form_count; k++)
            if (!pl_forms_have(forms, p->forms[k].text)) bytes += p->forms[k].bytes;
        p->observation.strange = bytes / exp2((double)p->observation.signals[0]);
    }
    pl_forms_close(&forms);
    return PL_OK;
}

static int compare_texts(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* All forms, in the order of the alphabet; each once, malloc'ed. NULL: out of memory. */
static const char **form_names(const job_samples *s, size_t *count) {
    size_t room = 0, kept = 0;
    *count = 0;
    for (size_t i = 0; i < s->count; i++) room += s->samples[i].form_count;
    const char **names = calloc(room + 1, sizeof *names);
    for (size_t i = 0; names && i < s->count; i++) {
        const job_sample *p = &s->samples[i];
        if (!p->in_set || !p->seen) continue;
        for (size_t k = 0; k < p->form_count; k++) names[(*count)++] = p->forms[k].text;
    }
    if (names) qsort(names, *count, sizeof *names, compare_texts);
    for (size_t i = 0; names && i < *count; i++)
        if (i == 0 || strcmp(names[i], names[kept - 1]) != 0) names[kept++] = names[i];
    *count = kept;
    return names;
}

/* A part whose columns they are: a job has a form or not. */
static pl_status learn_forms(pl_weights *weights, const job_samples *s, pl_error *err) {
    size_t columns, count = 0;
    const char **names = form_names(s, &columns);
    float *values = NULL, *truths = calloc(s->count + 1, sizeof *truths);
    if (names && columns) values = calloc(s->count + 1, columns * sizeof *values);
    pl_status status = names && truths && (values || !columns) ? PL_OK : no_memory(err);
    for (size_t i = 0; status == PL_OK && columns && i < s->count; i++) {
        const job_sample *p = &s->samples[i];
        if (!learnt_from(p)) continue;
        for (size_t k = 0; k < p->form_count; k++) {
            const char *text = p->forms[k].text, **at;
            at = bsearch(&text, names, columns, sizeof *names, compare_texts);
            values[count * columns + (size_t)(at - names)] = 1;
        }
        truths[count++] = (float)p->truth;
    }
    pl_samples samples = {
        .count = count, .columns = columns, .values = values, .names = names, .targets = truths};
    pl_trained_settings settings =
        settings_of(s->training_set, PL_HYBRID_FORMS, "trees=1 rate=0.01 leaves=2 min_leaf=20");
    pl_trained *part = NULL;
    if (status == PL_OK && columns)
        status = pl_trained_train(&part, pl_method_of(s->training_set->estimator)->learner,
                                  &samples, &settings, err);
    if (status == PL_OK && columns) pl_weights_add(weights, part);
    free(names);
    free(values);
    free(truths);
    return status;
}

/* ---- intervals ---- */

/* One side of the interval. */
typedef struct side {
    const char *target;
    double sign, outside; /* share of the truths */
} side;

static const side sides[] = {{"low", -1, PL_HYBRID_BELOW}, {"high", 1, PL_HYBRID_ABOVE}};

/* Learns a quantile from the samples of all folds but one. */
static pl_status learn_side(pl_trained **out, const job_samples *s, const side *side, uint32_t but,
                            pl_error *err) {
    const pl_training_set *set = s->training_set;
    float *values = calloc(s->count + 1, PL_EVIDENCE_SIGNALS * sizeof *values),
          *truths = calloc(s->count + 1, sizeof *truths);
    char options[512];
    const char *more = set->settings->options ? set->settings->options : "";
    double alpha = side->sign < 0 ? quantile_share : 1 - quantile_share;
    int length = snprintf(options, sizeof options, "%s loss=quantile alpha=%s%s%s",
                          pl_method_of(set->estimator)->options, PL_REAL("g", alpha),
                          more[0] ? " " : "", more);
    pl_status status = values && truths ? PL_OK : no_memory(err);
    if (status == PL_OK && (length < 0 || (size_t)length >= sizeof options))
        status = pl_fail(err, PL_USAGE, "options", -1, "too long");
    size_t count = 0;
    for (size_t i = 0; status == PL_OK && i < s->count; i++) {
        const job_sample *p = &s->samples[i];
        if (!learnt_from(p) || p->fold == but) continue;
        memcpy(values + count * PL_EVIDENCE_SIGNALS, p->observation.signals,
               sizeof p->observation.signals);
        truths[count++] = (float)p->truth;
    }
    pl_samples samples = {.count = count,
                          .columns = PL_EVIDENCE_SIGNALS,
                          .values = values,
                          .names = pl_evidence_names,
                          .targets = truths};
    pl_trained_settings settings = settings_of(set, side->target, options);
    if (status == PL_OK)
        status =
            pl_trained_train(out, pl_method_of(set->estimator)->learner, &samples, &settings, err);
    free(values);
    free(truths);
    return status;
}

/* How far a fold's truths lie beyond the bound, in the side's direction; into short_by[job_sample]. */
static pl_status measure_shortfall(double *short_by, const job_samples *s, const side *side,
                                   const pl_trained *learned, uint32_t fold, pl_error *err) {
    for (size_t i = 0; i < s->count; i++) {
        const job_sample *p = &s->samples[i];
        if (!learnt_from(p) || p->fold != fold) continue;
        pl_samples sample = {.count = 1,
                             .columns = PL_EVIDENCE_SIGNALS,
                             .values = p->observation.signals,
                             .names = pl_evidence_names};
        float quantile;
        pl_status status = pl_trained_predict(learned, &sample, &quantile, err);
        if (status != PL_OK) return status;
        short_by[i] = side->sign * p->truth - fmax(0, side->sign * (double)quantile);
    }
    return PL_OK;
}

/* Jobs of a kin count less the more of it there are: what is asked about is of a kin that is not
 * here, and one generator made 400 of the jobs. */
static double weight_of(const job_samples *s, const job_sample *p) {
    size_t kin = 0;
    for (size_t i = 0; i < s->count; i++)
        kin += learnt_from(&s->samples[i]) && s->samples[i].item->kindred == p->item->kindred;
    return 1 / sqrt((double)kin);
}

static bool is_strange(const job_sample *p) {
    return p->observation.strange > PL_HYBRID_STRANGE;
}

/* What jobs of a kind fell short by, those that are not strange, and those that are; the number. */
static size_t short_of(pl_missed *out, const job_samples *s, const double *short_by, int kind,
                       bool known, bool strange) {
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        const job_sample *p = &s->samples[i];
        bool wanted = is_strange(p) ? strange && !p->observation.recurrent : known;
        if (learnt_from(p) && (int)p->observation.kind == kind && wanted)
            out[count++] = (pl_missed){short_by[i] / p->observation.scale, weight_of(s, p)};
    }
    return count;
}

/* The margins of each kind, by its jobs that are not strange where these are enough; and of what is
 * strange and has no convolutions: with them, workspaces hide what operators are off by. */
static pl_status set_margins(pl_trained *part, const job_samples *s, const side *side,
                             const double *short_by, pl_error *err) {
    pl_missed *own = calloc(s->count + 1, sizeof *own);
    if (!own) return no_memory(err);
    for (int kind = 0; kind < PL_EVIDENCE_KINDS; kind++) {
        size_t count = short_of(own, s, short_by, kind, true, false);
        if (count < PL_HYBRID_LEAST_JOBS) count = short_of(own, s, short_by, kind, true, true);
        part->extra[PL_HYBRID_MARGIN + kind] = pl_missed_quantile(own, count, side->outside);
        part->extra[PL_HYBRID_JOBS + kind] = (double)count;
    }
    size_t count = short_of(own, s, short_by, PL_EVIDENCE_PLAIN, false, true);
    part->extra[PL_HYBRID_STRANGE_MARGIN] =
        pl_missed_quantile(own, count, PL_HYBRID_STRANGE_OUTSIDE);
    part->extra[PL_HYBRID_STRANGE_JOBS] = (double)count;
    free(own);
    return PL_OK;
}

static pl_status learn_interval(pl_weights *weights, const job_samples *s, pl_error *err) {
    double *short_by = calloc(s->count + 1, sizeof *short_by);
    pl_status status = short_by ? PL_OK : no_memory(err);
    for (size_t k = 0; status == PL_OK && k < sizeof sides / sizeof *sides; k++) {
        pl_trained *part = NULL;
        for (uint32_t fold = 0; status == PL_OK && fold < FOLDS; fold++) {
            status = learn_side(&part, s, &sides[k], fold, err);
            if (status == PL_OK)
                status = measure_shortfall(short_by, s, &sides[k], part, fold, err);
            pl_trained_close(&part);
        }
        if (status == PL_OK) status = learn_side(&part, s, &sides[k], ALL, err);
        if (status == PL_OK) status = set_margins(part, s, &sides[k], short_by, err);
        if (status == PL_OK)
            pl_weights_add(weights, part);
        else
            pl_trained_close(&part);
    }
    free(short_by);
    return status;
}

/* ---- all of it ---- */

static void report_progress(const pl_training_set *set, int epoch, int epochs) {
    if (!set->settings->progress) return;
    pl_train_point point = {.epoch = epoch, .epochs = epochs, .train_loss = NAN, .valid_loss = NAN};
    set->settings->progress(&point, set->settings->progress_context);
}

/* Of time and use: all of its targets, whichever is asked for. */
static pl_status learn_usage(pl_weights **out, const pl_training_set *set, pl_error *err) {
    pl_weights *weights = pl_weights_new();
    pl_status status = weights ? pl_usage_learn(weights, set, err) : no_memory(err);
    if (status != PL_OK) pl_weights_close(&weights);
    *out = weights;
    return status;
}

pl_status pl_hybrid_learn(pl_weights **out, const pl_training_set *set, pl_error *err) {
    *out = NULL;
    for (int i = 0; set->target && i < PL_USAGE_TARGETS; i++)
        if (strcmp(set->target, pl_usage_target_names[i]) == 0) return learn_usage(out, set, err);
    if (set->target && strcmp(set->target, "memory") != 0)
        return pl_fail(err, PL_USAGE, "target", -1,
                       "hybrid learns memory, and step_ms with the counters; not %s", set->target);
    bool forest = set->jobs->convs.count > 0;
    int steps = forest ? FOLDS + 3 : 2, done = 0;
    job_samples s;
    pl_status status = samples_open(&s, set, err);
    if (status != PL_OK) return status;
    pl_weights *weights = pl_weights_new();
    status = weights ? simulate(&s, NULL, ALL, err) : no_memory(err);
    report_progress(set, ++done, steps);
    for (uint32_t fold = 0; forest && status == PL_OK && fold < FOLDS; fold++) {
        status = simulate_apart(&s, fold, err);
        report_progress(set, ++done, steps);
    }
    for (uint32_t fold = 0; status == PL_OK && fold < FOLDS; fold++)
        status = find_strange(&s, fold, err);
    if (status == PL_OK) status = learn_interval(weights, &s, err);
    if (status == PL_OK) status = learn_forms(weights, &s, err);
    report_progress(set, ++done, steps);
    if (status == PL_OK && forest) {
        status = train_forest(weights, &s, ALL, err);
        report_progress(set, ++done, steps);
    }
    samples_close(&s);
    if (status != PL_OK) pl_weights_close(&weights);
    *out = weights;
    return status;
}

const pl_method pl_hybrid_method = {
    .learner = &pl_learner_leafwise,
    .options = "trees=150 rate=0.05 leaves=8 min_leaf=20 lambda=1 features=0.6 bagging=0.8",
    .learn = pl_hybrid_learn};
