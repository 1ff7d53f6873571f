/* estimate: a model and a job in, a report out, by the estimator that the job names. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/number.h"
#include "device/catalogue.h"
#include "estimate/estimator.h"
#include "estimate/job.h"
#include "estimate/weights.h"
#include "graph/data_sizes.h"
#include "graph/finetune.h"

/* ---- names ---- */

static const char *const kind_names[PL_KINDS] = {"weights",     "gradients",     "optimizer",
                                                 "activations", "inputs",        "workspace",
                                                 "temporary",   "fragmentation", "context"};
static const char *const phase_names[PL_PHASES] = {"load", "input", "forward", "backward",
                                                   "optimizer"};

const char *pl_kind_name(pl_kind kind) {
    return (unsigned)kind < PL_KINDS ? kind_names[kind] : NULL;
}

const char *pl_phase_name(pl_phase phase) {
    return (unsigned)phase < PL_PHASES ? phase_names[phase] : NULL;
}

/* ---- estimating ---- */

/* Whether the file has what the estimator looks at. */
static pl_status check_kind(const pl_model *model, const pl_estimator *estimator, pl_error *err) {
    bool simulates = estimator->info.kind == PL_SIMULATION;
    if (!estimator->info.needs_graph || (!model->summary && (!model->trace || simulates)))
        return PL_OK;
    return pl_fail(err, PL_USAGE, "estimator", -1,
                   model->summary
                       ? "%s needs operators, and of this file only counts of layers are "
                         "known; random-forest and other learned estimators need no more"
                       : "%s needs a model's graph, and this is a trace; sim and hybrid "
                         "replay it",
                   estimator->info.name);
}

/* What recording a trace had to assume, and an optimizer that is not the recorded one. */
static void warn_of_trace(pl_report *report, const pl_trace *t, const pl_job *job) {
    if (!t) return;
    pl_job standard;
    pl_job_default(&standard);
    char text[200];
    if (strcmp(job->optimizer, standard.optimizer) != 0 &&
        strcmp(job->optimizer, t->optimizer) != 0) {
        snprintf(text, sizeof text,
                 "recorded with %.40s: naming another optimizer cannot change that",
                 t->optimizer[0] ? t->optimizer : "another optimizer");
        pl_report_warn(report, text);
    }
    for (size_t i = 0; i < t->warning_count; i++) pl_report_warn(report, t->warnings[i]);
}

/* What reading the description left open. */
static void warn_of_recipe(pl_report *report, const pl_recipe *r, const pl_job *job) {
    if (!r) return;
    char text[200];
    bool batch = r->batch_assumed && job->batch == PL_UNKNOWN,
         seq = r->seq_assumed && r->seq != PL_UNKNOWN && job->seq == PL_UNKNOWN;
    if (batch && seq)
        snprintf(text, sizeof text,
                 "batch %lld and sequence %lld are assumed, since none was given",
                 (long long)r->batch, (long long)r->seq);
    else if (batch || seq)
        snprintf(text, sizeof text, "%s %lld is assumed, since no %s was given",
                 batch ? "batch" : "sequence", (long long)(batch ? r->batch : r->seq),
                 batch ? "batch" : "sequence");
    if (batch || seq) pl_report_warn(report, text);
    for (size_t i = 0; i < r->warning_count; i++) pl_report_warn(report, r->warnings[i]);
}

/* Elements of the parameters that train. */
static int64_t trainable(const pl_graph *g) {
    int64_t sum = 0;
    for (int32_t i = 0; i < g->tensor_count; i++) {
        const pl_tensor *t = &g->tensors[i];
        if (t->role == PL_ROLE_PARAMETER && t->requires_grad && t->tied < 0)
            sum += pl_tensor_elements(t);
    }
    return sum;
}

/* The job's card: the library's row, or a copy in the report. NULL: out of memory. */
static const pl_gpu *card_of(pl_report *report, const pl_job *job) {
    const pl_gpu *gpu = job->catalogue ? NULL : pl_gpu_find(job->gpu);
    if (gpu) return gpu;
    pl_card *card = pl_arena_array(pl_report_arena(report), 1, sizeof *card);
    return card && pl_card_read(card, job->gpu, job->catalogue, NULL) == PL_OK ? &card->gpu : NULL;
}

/* Of adapters beside experts that are kept in one tensor: what is not done to those. */
static void warn_of_experts(pl_report *report, const pl_graph *g, const pl_job *job) {
    pl_finetune how;
    if (!job->train || !g || pl_finetune_parse(&how, job->train, NULL) != PL_OK) return;
    int64_t experts = pl_packed_experts(g), all = 0;
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_PARAMETER && g->tensors[i].tied < 0)
            all += pl_tensor_elements(&g->tensors[i]) * (pl_is_packed(&g->tensors[i]) ? 2 : 1);
    double share = all > 0 ? 100.0 * (double)experts / (double)all : 0;
    char text[400];
    if (experts && how.kind == PL_FINETUNE_QLORA)
        snprintf(
            text, sizeof text,
            "the experts, %s %% of the parameters, are not in 4 bits: transformers 5 keeps them "
            "packed in one tensor per layer, which bitsandbytes leaves as it is; with transformers "
            "4 they were linear layers, and in 4 bits",
            PL_REAL(".0f", share));
    else if (experts && how.kind == PL_FINETUNE_LORA)
        snprintf(
            text, sizeof text,
            "the experts, %s %% of the parameters, get no adapters: they are packed in one tensor "
            "per layer, which target_modules do not reach (PEFT's target_parameters would, and is "
            "not simulated)",
            PL_REAL(".0f", share));
    else
        return;
    pl_report_warn(report, text);
}

/* What a trace says that later steps may take more than those in it. */
static void allow_for_later_steps(pl_report *report, const pl_trace *trace) {
    int64_t beyond = trace ? trace->beyond : 0;
    if (report->high_bytes == PL_UNKNOWN) return;
    report->high_bytes =
        report->high_bytes > PL_MAX_BYTES - beyond ? PL_MAX_BYTES : report->high_bytes + beyond;
}

/* Sizes that depend on data were assumed: the interval reaches to what they come to at their worst. */
static pl_status allow_for_data(pl_report *report, const pl_subject *assumed,
                                const pl_estimator *estimator, const pl_weights *weights,
                                int64_t batch, int64_t seq, pl_error *err) {
    enum { SHARED = 1 << PL_DATA_PART | 1 << PL_DATA_COUNT };
    if (!assumed->graph || !(assumed->graph->data & SHARED)) return PL_OK;
    pl_job job = *assumed->job; /* for its figures alone */
    job.snapshot = NULL;
    job.want_timeline = job.want_alive = false;
    pl_graph *g = NULL;
    pl_error too_large;
    pl_status status = pl_model_worst(assumed->model, &job, assumed->budget, &g, &too_large);
    if (status == PL_USAGE) { /* its tensors are larger than any machine */
        report->high_bytes = PL_MAX_BYTES;
        pl_report_warn(report, "with the sizes that depend on data at their largest, tensors would "
                               "be larger than can be counted");
        return PL_OK;
    }
    if (status != PL_OK) {
        if (err) *err = too_large;
        return status;
    }
    const pl_limits *limits = job.limits ? job.limits : &assumed->model->limits;
    pl_report *worst = pl_report_new(limits, assumed->budget->bytes);
    pl_subject subject = *assumed;
    subject.job = &job;
    subject.graph = g;
    if (!worst) status = pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    if (status == PL_OK && estimator->prepare)
        status = estimator->prepare(&subject, weights, batch, seq, pl_report_arena(worst), err);
    if (status == PL_OK) status = estimator->estimate(worst, &subject, weights, err);
    if (status == PL_OK && pl_report_incomplete(worst))
        status = pl_budget_fail(err, pl_report_budget(worst), NULL);
    if (status == PL_OK && report->high_bytes != PL_UNKNOWN) {
        pl_report_warn(report,
                       "the interval's upper end holds sizes that depend on the data at their "
                       "worst: all of a total in as few parts as can be, all that may be counted");
        int64_t high = worst->high_bytes, low = worst->low_bytes;
        report->high_bytes = high > report->high_bytes ? high : report->high_bytes;
        report->low_bytes = low < report->low_bytes ? low : report->low_bytes;
    }
    pl_report_close(&worst);
    pl_graph_close(&g);
    return status;
}

/* The estimator's answer to a checked job, into a new report. */
static pl_status answer(pl_report *report, const pl_model *model, const pl_job *job,
                        const pl_estimator *estimator, const pl_gpu *gpu, const pl_weights *weights,
                        pl_error *err) {
    pl_budget *budget = pl_report_budget(report);
    pl_graph *g;
    bool owned;
    int64_t batch, seq;
    pl_status status = pl_model_graph(model, job, budget, &g, &owned, &batch, &seq, err);
    if (status != PL_OK) return status;
    pl_subject subject = {.job = job, .gpu = gpu, .model = model, .graph = g, .budget = budget};
    if (estimator->prepare)
        status = estimator->prepare(&subject, weights, batch, seq, pl_report_arena(report), err);
    if (status == PL_OK) status = estimator->estimate(report, &subject, weights, err);
    if (status == PL_OK) warn_of_experts(report, g, job);
    if (status == PL_OK && g && model->graph && !model->trace && !model->recipe)
        for (int32_t i = model->graph->note_count; i < g->note_count; i++)
            pl_report_warn(report, g->notes[i]);
    if (status == PL_OK)
        status = allow_for_data(report, &subject, estimator, weights, batch, seq, err);
    report->trainable = job->train ? trainable(g) : model->info.trainable;
    if (owned) pl_graph_close(&g);
    report->batch = batch;
    report->seq = seq;
    return status;
}

pl_status pl_estimate(pl_report **out, const pl_model *model, const pl_job *given, pl_error *err) {
    *out = NULL;
    int64_t begin = pl_now_us();
    pl_job own;
    const pl_job *job = &own;
    if (!model) return pl_fail(err, PL_USAGE, "model", -1, "expected a model");
    pl_status status = pl_job_read(&own, given, err);
    if (status != PL_OK) return status;
    const pl_estimator *estimator = pl_estimator_named(job->estimator);
    const pl_weights *weights = NULL;
    if (estimator->info.learns) status = pl_weights_for(&weights, estimator, job->weights, err);
    if (status == PL_OK) status = check_kind(model, estimator, err);
    if (status != PL_OK) return status;
    pl_report *report =
        pl_report_new(job->limits ? job->limits : &model->limits, model->budget.bytes);
    if (!report) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    const pl_gpu *gpu = card_of(report, job);
    status = gpu ? answer(report, model, job, estimator, gpu, weights, err)
                 : pl_budget_fail(err, pl_report_budget(report), NULL);
    if (status == PL_OK) {
        warn_of_recipe(report, model->recipe, job);
        for (int32_t i = 0; model->graph && i < model->graph->note_count; i++)
            pl_report_warn(report, model->graph->notes[i]);
        warn_of_trace(report, model->trace, job);
        report->gpu = gpu;
        report->estimator = estimator->info.name;
        allow_for_later_steps(report, model->trace);
        pl_report_judge(report, gpu, job->risk);
        if (pl_report_incomplete(report))
            status = pl_budget_fail(err, pl_report_budget(report), NULL);
    }
    if (status != PL_OK) {
        pl_report_close(&report);
        return status;
    }
    /* Its time was that of this call: what the report writes later is not held to it. */
    pl_budget *budget = pl_report_budget(report);
    budget->deadline_ns = 0;
    budget->cancelled = NULL;
    report->elapsed_us = pl_now_us() - begin;
    *out = report;
    return PL_OK;
}
