/* learned: see learned.h.
 *
 * Regressions learn log2 of the figure's ratio to a crude guess (profile.c), so that an error is
 * relative and what is known need not be learnt: on unseen models this takes extra trees from a
 * median error of 7.7 % to 5.5 % (docs/estimators.md). Classifiers learn which bin of memory a job
 * falls into (paper 3). Jobs kept apart for early stopping also give the interval: the
 * quantiles of their errors that leave 2.5 % on each side. Learners that do not stop early are
 * trained once more on all jobs, and keep that interval. */
#include "lab/train/learned.h"
#include "lab/learn/trained_train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/learn/folds.h"
#include "lab/learn/metrics.h"

static const double coverage = 0.95;
enum { BIN = 0 }; /* extra[BIN]: bytes of a bin */

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

static void *array(size_t count, size_t size) {
    return calloc(count ? count : 1, size);
}

/* ---- targets ---- */

static double memory_of(const pl_measured *item) {
    return item->facts.measured_bytes > 0 ? (double)item->facts.measured_bytes : NAN;
}

static double flops_of(const pl_measured *item) {
    return item->flops_per_step > 0 ? item->flops_per_step / 1e9 : NAN;
}

static double flop_rate_of(const pl_measured *item) {
    return item->flops_per_step > 0 && item->step_ms > 0
               ? item->flops_per_step / 1e9 / (item->step_ms / 1e3)
               : NAN;
}

static double step_ms_of(const pl_measured *item) {
    return item->step_ms > 0 ? item->step_ms : NAN;
}
static double smact_of(const pl_measured *item) {
    return item->counters[PL_SMACT];
}
static double smocc_of(const pl_measured *item) {
    return item->counters[PL_SMOCC];
}
static double drama_of(const pl_measured *item) {
    return item->counters[PL_DRAMA];
}
static double tensor_of(const pl_measured *item) {
    return item->counters[PL_TENSOR];
}

static pl_figure memory_said(const pl_report *r) {
    return (pl_figure){r->peak_bytes >= 0 ? (double)r->peak_bytes : NAN,
                       r->low_bytes >= 0 ? (double)r->low_bytes : NAN,
                       r->high_bytes >= 0 ? (double)r->high_bytes : NAN};
}
static pl_figure flops_said(const pl_report *r) {
    return (pl_figure){r->flops_per_step / 1e9, NAN, NAN};
}
static pl_figure flop_rate_said(const pl_report *r) {
    return (pl_figure){pl_report_flop_rate(r) / 1e9, NAN, NAN};
}
static pl_figure step_ms_said(const pl_report *r) {
    return r->step_ms;
}
static pl_figure smact_said(const pl_report *r) {
    return pl_report_counter(r, PL_SMACT);
}
static pl_figure smocc_said(const pl_report *r) {
    return pl_report_counter(r, PL_SMOCC);
}
static pl_figure drama_said(const pl_report *r) {
    return pl_report_counter(r, PL_DRAMA);
}
static pl_figure tensor_said(const pl_report *r) {
    return pl_report_counter(r, PL_TENSOR);
}

static double guess_flops(const pl_profile *profile) {
    return pl_profile_guess_flops(profile) / 1e9;
}

static const pl_target targets[] = {
    {"memory", "bytes", memory_of, memory_said, pl_profile_guess_bytes, PL_COUNTERS},
    {"flops", "GFLOP", flops_of, flops_said, guess_flops, PL_COUNTERS},
    {"flop-rate", "GFLOP/s", flop_rate_of, flop_rate_said, guess_flops, PL_COUNTERS},
    {"step_ms", "ms", step_ms_of, step_ms_said, NULL, PL_COUNTERS},
    {"smact", "percent", smact_of, smact_said, NULL, PL_SMACT},
    {"smocc", "percent", smocc_of, smocc_said, NULL, PL_SMOCC},
    {"drama", "percent", drama_of, drama_said, NULL, PL_DRAMA},
    {"tensor", "percent", tensor_of, tensor_said, NULL, PL_TENSOR},
};
enum { TARGETS = sizeof targets / sizeof *targets };

const pl_target *pl_target_at(size_t index) {
    return index < TARGETS ? &targets[index] : NULL;
}

const pl_target *pl_target_find(const char *name) {
    for (size_t i = 0; i < TARGETS; i++)
        if (strcmp(targets[i].name, name) == 0) return &targets[i];
    return NULL;
}

/* ---- asking ---- */

pl_status pl_question_open(pl_question *out, const pl_jobs *jobs, const pl_measured *item,
                           bool with_graph, const pl_limits *limits, pl_error *err) {
    const pl_job *job = &item->job;
    *out = (pl_question){.subject = {.job = job,
                                     .gpu = pl_gpu_find(job->gpu ? job->gpu : "h200"),
                                     .profile = &item->profile}};
    pl_budget budget;
    pl_budget_start(&budget, limits);
    if (!pl_budget_poll(&budget)) return pl_budget_fail(err, &budget, item->facts.id);
    pl_status status = with_graph ? pl_jobs_graph(&out->model, jobs, item, limits, err) : PL_OK;
    if (status != PL_OK) return status;
    /* What the model holds counts. */
    out->report = pl_report_new(limits, with_graph ? out->model->budget.bytes : 0);
    if (!out->report) return no_memory(err);
    out->subject.budget = pl_report_budget(out->report);
    if (!with_graph) return PL_OK;
    int64_t batch, seq;
    status = pl_model_graph(out->model, job, out->subject.budget, &out->graph, &out->owned, &batch,
                            &seq, err);
    out->subject.model = out->model;
    out->subject.graph = out->graph;
    return status;
}

void pl_question_close(pl_question *question) {
    if (question->owned) pl_graph_close(&question->graph);
    pl_report_close(&question->report); /* whose budget the graph was taken from */
    pl_model_close(&question->model);
}

/* ---- samples ---- */

void pl_dataset_close(pl_dataset *d) {
    free(d->values);
    free(d->steps);
    free(d->begin);
    free(d->targets);
    free(d->classes);
    free(d->shares);
    *d = (pl_dataset){0};
}

pl_status pl_dataset_open(pl_dataset *d, const pl_method *method, const pl_profile *const *profiles,
                          size_t count, pl_error *err) {
    *d = (pl_dataset){0};
    pl_samples *s = &d->samples;
    s->count = count;
    if (method->columns) {
        s->columns = pl_feature_count(method->view);
        s->names = pl_feature_names(method->view);
        s->values = d->values = array(count * s->columns, sizeof *d->values);
        if (!d->values) return no_memory(err);
        for (size_t i = 0; i < count; i++)
            pl_features_of(profiles[i], method->view, d->values + i * s->columns);
    }
    if (method->steps) {
        s->channels = pl_channel_count();
        s->channel_names = pl_channel_names();
        s->begin = d->begin = array(count + 1, sizeof *d->begin);
        size_t total = 0;
        for (size_t i = 0; d->begin && i < count; i++) {
            d->begin[i] = total;
            total += profiles[i]->layer_count;
        }
        s->steps = d->steps = array(total * s->channels, sizeof *d->steps);
        if (!d->begin || !d->steps) {
            pl_dataset_close(d);
            return no_memory(err);
        }
        d->begin[count] = total;
        for (size_t i = 0; i < count; i++)
            pl_steps_of(profiles[i], d->steps + d->begin[i] * s->channels);
    }
    return PL_OK;
}

/* ---- training ---- */

/* The lower edges of the bins that occur, ascending; NULL: out of memory. */
static float *bins_of(const double *truths, size_t count, double bin, size_t *bin_count) {
    float *edges = array(count, sizeof *edges);
    *bin_count = 0;
    for (size_t i = 0; edges && i < count; i++) {
        float edge = (float)(floor(truths[i] / bin) * bin);
        size_t at = 0;
        while (at < *bin_count && edges[at] < edge) at++;
        if (at < *bin_count && edges[at] == edge) continue;
        memmove(edges + at + 1, edges + at, (*bin_count - at) * sizeof *edges);
        edges[at] = edge;
        (*bin_count)++;
    }
    return edges;
}

/* Jobs of one target, split into those learnt from and those kept apart. */
typedef struct material {
    const pl_training_set *set;
    const pl_target *target;
    double *truths;              /* [count], the target's unit */
    const pl_profile **profiles; /* [count] */
    uint32_t *groups;            /* [count] */
    uint8_t *apart;              /* [count] */
    size_t count;
    double bin; /* bytes; 0: a regression */
    float *edges;
    size_t edge_count;
} material;

static void material_close(material *m) {
    free(m->truths);
    free(m->profiles);
    free(m->groups);
    free(m->apart);
    free(m->edges);
}

static double bin_bytes(const pl_training_set *set) {
    int64_t bytes = set->settings->bin_bytes > 0 ? set->settings->bin_bytes : set->jobs->bin_bytes;
    return (double)bytes;
}

static pl_status material_open(material *m, const pl_training_set *set, const pl_target *target,
                               pl_error *err) {
    *m = (material){.set = set, .target = target};
    m->truths = array(set->count, sizeof *m->truths);
    m->profiles = array(set->count, sizeof *m->profiles);
    m->groups = array(set->count, sizeof *m->groups);
    m->apart = array(set->count, sizeof *m->apart);
    if (!m->truths || !m->profiles || !m->groups || !m->apart) return no_memory(err);
    pl_split split = set->settings->split;
    for (size_t i = 0; i < set->count; i++) {
        const pl_measured *item = &set->jobs->items[set->rows[i]];
        double truth = target->measured(item);
        if (!isfinite(truth)) continue;
        m->truths[m->count] = truth;
        m->profiles[m->count] = &item->profile;
        m->groups[m->count++] = split == PL_SPLIT_FAMILY  ? item->family
                                : split == PL_SPLIT_KIN   ? item->kindred
                                : split == PL_SPLIT_MODEL ? item->model
                                                          : (uint32_t)i;
    }
    if (m->count == 0)
        return pl_fail(err, PL_INPUT, NULL, -1, "no job has a measured %s", target->name);
    size_t same = 1;
    while (same < m->count && m->truths[same] == m->truths[0]) same++;
    if (same == m->count && !pl_method_of(set->estimator)->classifies)
        return pl_fail(err, PL_INPUT, NULL, -1,
                       "the %s of all %zu jobs is the same: there is nothing to learn",
                       target->name, m->count);
    if (pl_method_of(set->estimator)->classifies) {
        m->bin = bin_bytes(set);
        m->edges = bins_of(m->truths, m->count, m->bin, &m->edge_count);
        if (!m->edges) return no_memory(err);
        if (m->edge_count < 2)
            return pl_fail(err, PL_INPUT, NULL, -1,
                           "all %zu jobs fall into one bin of %s MiB: nothing to tell apart; "
                           "choose smaller bins",
                           m->count, PL_REAL(".0f", m->bin / 1048576));
    }
    return PL_OK;
}

/* Shares of the bins, [edge_count], as if the truth were known to a deviation of soft bins only: a
 * job at a bin's edge belongs to both of its sides. */
static void soften(const material *m, double truth, double soft, float *shares) {
    double sum = 0, scale = 1 / (soft * m->bin * sqrt(2));
    for (size_t k = 0; k < m->edge_count; k++) {
        double below = erf(((double)m->edges[k] - truth) * scale),
               above = erf(((double)m->edges[k] + m->bin - truth) * scale);
        shares[k] = (float)((above - below) / 2);
        sum += (double)shares[k];
    }
    for (size_t k = 0; k < m->edge_count; k++) shares[k] = (float)((double)shares[k] / sum);
}

static int32_t class_of(const material *m, double truth) {
    float edge = (float)(floor(truth / m->bin) * m->bin);
    for (size_t k = 0; k < m->edge_count; k++)
        if (m->edges[k] == edge) return (int32_t)k;
    return 0;
}

/* Those of m with apart == side (2: all), with their targets. */
static pl_status samples_of(pl_dataset *d, const material *m, int side, pl_error *err) {
    size_t count = 0;
    const pl_profile **profiles = array(m->count, sizeof *profiles);
    float *truths = array(m->count, sizeof *truths);
    int32_t *classes = array(m->count, sizeof *classes);
    double soft = pl_method_of(m->set->estimator)->soft;
    float *shares = array(m->count * m->edge_count, sizeof *shares);
    pl_status status = PL_OK;
    if (!profiles || !truths || !classes || !shares) status = no_memory(err);
    for (size_t i = 0; status == PL_OK && i < m->count; i++) {
        if (side != 2 && m->apart[i] != side) continue;
        profiles[count] = m->profiles[i];
        if (m->bin > 0) classes[count] = class_of(m, m->truths[i]);
        if (m->bin > 0 && soft > 0) soften(m, m->truths[i], soft, shares + count * m->edge_count);
        truths[count++] = (float)log2(m->truths[i] / m->target->guess(m->profiles[i]));
    }
    if (status == PL_OK)
        status = pl_dataset_open(d, pl_method_of(m->set->estimator), profiles, count, err);
    free(profiles);
    if (status != PL_OK) {
        free(truths);
        free(classes);
        free(shares);
        return status;
    }
    d->targets = truths;
    d->classes = classes;
    d->shares = shares;
    if (m->bin > 0) {
        d->samples.classes = classes;
        d->samples.class_count = m->edge_count;
        if (soft > 0) d->samples.shares = shares;
    } else {
        d->samples.targets = truths;
    }
    return PL_OK;
}

/* A class none of whose jobs is left to learn from cannot be learnt: they come back. */
static void keep_classes(material *m) {
    for (size_t k = 0; k < m->edge_count; k++) {
        size_t left = 0;
        for (size_t i = 0; i < m->count; i++)
            left += !m->apart[i] && class_of(m, m->truths[i]) == (int32_t)k;
        for (size_t i = 0; left == 0 && i < m->count; i++)
            if (class_of(m, m->truths[i]) == (int32_t)k) m->apart[i] = 0;
    }
}

/* A learner's epoch, as the public header has it. */
static void report_epoch(const pl_epoch *epoch, void *context) {
    const pl_train_settings *settings = context;
    pl_train_point point = {.epoch = epoch->epoch,
                            .epochs = epoch->epochs,
                            .train_loss = epoch->train_loss,
                            .valid_loss = epoch->valid_loss};
    settings->progress(&point, settings->progress_context);
}

static pl_status train_on(pl_trained **out, const material *m, const pl_dataset *samples,
                          const pl_dataset *valid, const char *options, pl_error *err) {
    const pl_training_set *set = m->set;
    pl_trained_settings settings = {
        .estimator = set->estimator->info.name,
        .target = m->target->name,
        .command = set->settings->command,
        .data = set->jobs->data,
        .learn = {.options = options,
                  .seed = set->settings->seed,
                  .valid = valid && valid->samples.count ? &valid->samples : NULL,
                  .progress = set->settings->progress ? report_epoch : NULL,
                  .progress_context = (void *)set->settings,
                  .budget = set->budget}};
    pl_status status = pl_trained_train(out, pl_method_of(set->estimator)->learner,
                                        &samples->samples, &settings, err);
    if (status != PL_OK || m->bin == 0) return status;
    (*out)->extra[BIN] = m->bin;
    pl_trained_set_classes(*out, m->edges);
    return PL_OK;
}

/* Where 95 % of the errors on jobs kept apart lie, in log2. */
static pl_status calibrate(pl_trained *trained, const pl_dataset *valid, pl_error *err) {
    size_t count = valid->samples.count;
    float *predicted = array(count, sizeof *predicted);
    double *errors = array(count, sizeof *errors);
    pl_status status = predicted && errors
                           ? pl_trained_predict(trained, &valid->samples, predicted, err)
                           : no_memory(err);
    if (status == PL_OK) {
        for (size_t i = 0; i < count; i++)
            errors[i] = (double)valid->targets[i] - (double)predicted[i];
        pl_sort(errors, count);
        trained->below = (float)fmin(0, pl_quantile(errors, count, (1 - coverage) / 2));
        trained->above = (float)fmax(0, pl_quantile(errors, count, (1 + coverage) / 2));
    }
    free(predicted);
    free(errors);
    return status;
}

static pl_status learn_target(pl_trained **out, material *m, pl_error *err) {
    const pl_method *method = pl_method_of(m->set->estimator);
    const pl_train_settings *settings = m->set->settings;
    double share = settings->hold_out >= 0 ? settings->hold_out : method->hold_out;
    const char *more = settings->options ? settings->options : "";
    size_t length = strlen(method->options) + strlen(more) + 2;
    char *options = array(length, 1);
    if (!options) return no_memory(err);
    snprintf(options, length, "%s%s%s", method->options, more[0] ? " " : "", more);
    pl_dataset samples = {0}, valid = {0};
    pl_status status = PL_OK;
    if (share > 0) {
        status = pl_folds_hold_out(m->apart, m->count, share,
                                   settings->split == PL_SPLIT_ROW ? NULL : m->groups,
                                   settings->seed, err);
        keep_classes(m);
        if (status == PL_OK) status = samples_of(&valid, m, 1, err);
    }
    if (status == PL_OK) status = samples_of(&samples, m, 0, err);
    if (status == PL_OK) status = train_on(out, m, &samples, &valid, options, err);
    if (status == PL_OK && share > 0 && m->bin == 0) status = calibrate(*out, &valid, err);
    if (status == PL_OK && share > 0 && method->refit) { /* the interval stays */
        float below = (*out)->below, above = (*out)->above;
        pl_trained_close(out);
        pl_dataset_close(&samples);
        status = samples_of(&samples, m, 2, err);
        if (status == PL_OK) status = train_on(out, m, &samples, NULL, options, err);
        if (status == PL_OK) {
            (*out)->below = below;
            (*out)->above = above;
        }
    }
    pl_dataset_close(&samples);
    pl_dataset_close(&valid);
    free(options);
    /* Of what the user gave, not of what stands before it. */
    int64_t own = (int64_t)strlen(method->options) + 1;
    if (status == PL_USAGE && err && strcmp(err->where, "options") == 0 && err->position >= own)
        err->position -= own;
    return status;
}

/* Whether enough jobs have it for a part of its own. */
static bool worth_learning(const pl_training_set *set, const pl_target *target) {
    enum { LEAST = 20 };
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++)
        if (isfinite(target->measured(&set->jobs->items[set->rows[i]]))) count++;
    return count >= LEAST;
}

pl_status pl_learn(pl_weights **out, const pl_training_set *set, pl_error *err) {
    *out = NULL;
    const pl_method *method = pl_method_of(set->estimator);
    if (method->learn) return method->learn(out, set, err);
    const pl_target *wanted = set->target ? pl_target_find(set->target) : NULL;
    if (set->target && !wanted)
        return pl_fail(err, PL_USAGE, "target", -1,
                       "no target \"%s\"; there are memory, flops and flop-rate", set->target);
    if (wanted && !wanted->guess && method->compute)
        return pl_fail(err, PL_USAGE, "target", -1, "%s learns memory, flops and flop-rate alone",
                       set->estimator->info.name);
    if (set->target && strcmp(set->target, "memory") != 0 && !method->compute)
        return pl_fail(err, PL_USAGE, "target", -1, "%s learns memory alone",
                       set->estimator->info.name);
    pl_weights *weights = pl_weights_new();
    pl_status status = weights ? PL_OK : no_memory(err);
    for (size_t t = 0; status == PL_OK && t < (method->compute ? TARGETS : 1); t++) {
        if (!targets[t].guess) continue;
        if (set->target ? strcmp(set->target, targets[t].name) != 0
                        : t > 0 && !worth_learning(set, &targets[t]))
            continue;
        material m;
        pl_trained *part = NULL;
        status = material_open(&m, set, &targets[t], err);
        if (status == PL_OK) status = learn_target(&part, &m, err);
        material_close(&m);
        if (status == PL_OK)
            pl_weights_add(weights, part);
        else
            pl_trained_close(&part);
    }
    if (status != PL_OK) pl_weights_close(&weights);
    *out = weights;
    return status;
}

/* ---- predicting ---- */

static void read_bins(pl_prediction *out, const pl_trained *t, const float *likely) {
    double bin = t->extra[BIN], sum = 0;
    size_t best = 0, low = 0, high = 0, last = t->class_count - 1;
    for (size_t k = 0; k <= last; k++) {
        if (likely[k] > likely[best]) best = k;
        sum += (double)likely[k];
        if (sum <= (1 - coverage) / 2 && k < last) low = k + 1;
        if (sum < (1 + coverage) / 2 && k < last) high = k + 1;
    }
    /* Of very many bins, the likeliest may be one of the outermost. */
    if (best < low) low = best;
    if (best > high) high = best;
    out->value = (double)t->class_values[best] + bin / 2;
    out->low = (double)t->class_values[low];
    out->high = (double)t->class_values[high] + bin;
}

pl_status pl_predict(pl_prediction *out, const pl_trained *trained, const pl_method *method,
                     const pl_profile *profile, pl_error *err) {
    enum { FEW = 64 };
    *out = (pl_prediction){NAN, NAN, NAN};
    pl_dataset d;
    float few[FEW], *numbers = few;
    pl_status status = pl_dataset_open(&d, method, &profile, 1, err);
    if (status != PL_OK) return status;
    if (trained->class_count > FEW) numbers = array(trained->class_count, sizeof *numbers);
    status = numbers ? pl_trained_predict(trained, &d.samples, numbers, err) : no_memory(err);
    pl_dataset_close(&d);
    if (status == PL_OK && trained->class_count) {
        read_bins(out, trained, numbers);
    } else if (status == PL_OK) {
        const pl_target *target = pl_target_find(trained->target);
        double value =
            (double)numbers[0] + (target && target->guess ? log2(target->guess(profile)) : 0);
        out->value = exp2(value);
        if (trained->above > trained->below) {
            out->low = exp2(value + (double)trained->below);
            out->high = exp2(value + (double)trained->above);
        }
    }
    if (numbers != few) free(numbers);
    return status;
}

/* The most that a job learnt from can have taken: the last bin's end, or the largest card measured. */
static double most_learnt(const pl_trained *part) {
    if (part->class_count)
        return (double)part->class_values[part->class_count - 1] + part->extra[BIN];
    double most = 0;
    for (size_t i = 0; pl_gpu_at(i); i++)
        if (pl_gpu_at(i)->calibrated && (double)pl_gpu_at(i)->capacity_bytes > most)
            most = (double)pl_gpu_at(i)->capacity_bytes;
    return most;
}

/* A job that is far larger than all that was learnt from: a forest answers with its last leaf and a
 * classifier with its last bin, which says nothing. The crude sum is then the least that is said,
 * without an interval. */
static bool outside(pl_prediction *p, const pl_trained *part, const pl_profile *profile, char *text,
                    size_t room) {
    enum { FAR = 4 }; /* times */
    double guess = pl_profile_guess_bytes(profile), most = most_learnt(part);
    if (!(guess > FAR * most)) return false;
    *p = (pl_prediction){p->value > guess ? p->value : guess, NAN, NAN};
    snprintf(text, room,
             "outside what was learnt: batch %lld takes at least %lld bytes by a crude sum, and no "
             "job that was learnt from took more than %lld",
             (long long)profile->job.batch,
             guess < (double)PL_MAX_BYTES ? (long long)guess : (long long)PL_MAX_BYTES,
             (long long)most);
    return true;
}

static int64_t bytes_of(double value) {
    return value >= 0 && value < (double)PL_MAX_BYTES ? (int64_t)value : PL_UNKNOWN;
}

pl_status pl_estimate_learned(pl_report *report, const pl_subject *subject,
                              const pl_weights *weights, pl_error *err) {
    const pl_estimator *estimator = pl_estimator_named(weights->info.estimator);
    for (size_t i = 0; i < weights->part_count; i++) {
        const pl_trained *part = weights->parts[i];
        pl_prediction p;
        pl_status status = pl_predict(&p, part, pl_method_of(estimator), subject->profile, err);
        if (status != PL_OK) return status;
        if (strcmp(part->target, "flops") == 0) {
            report->flops_per_step = p.value * 1e9;
        } else if (strcmp(part->target, "flop-rate") == 0) {
            report->flop_rate = p.value * 1e9;
        } else {
            char warning[240];
            if (outside(&p, part, subject->profile, warning, sizeof warning))
                pl_report_warn(report, warning);
            report->peak_bytes = bytes_of(p.value);
            if (report->peak_bytes == PL_UNKNOWN)
                return pl_fail(err, PL_USAGE, "estimator", -1,
                               "%s: the job is so far outside what was learnt that its bytes are "
                               "no number below 2^56",
                               estimator->info.name);
            if (isfinite(p.low)) {
                report->low_bytes = bytes_of(p.low);
                report->high_bytes = bytes_of(p.high);
                report->coverage = coverage;
            }
        }
    }
    if (subject->profile->layer_count == 0)
        pl_report_warn(report, "no layer is known of this model: the features are all but empty");
    if (weights->built_in && !subject->gpu->calibrated)
        pl_report_warn(report, "learnt from jobs on an H200: other cards take other amounts");
    return PL_OK;
}
