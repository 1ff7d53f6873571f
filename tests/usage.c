/* Step time and counters of whole jobs: what is learnt of measured ones, and what is not known.
 *
 *     test_usage JOBS TRACES     measured jobs that their records describe; folder with traces */
#include "estimate/usage.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "core/file.h"
#include "lab/train/learned.h"

static const char *jobs_path, *traces;

static pl_jobs *open_jobs(void) {
    pl_jobs_settings settings;
    pl_jobs_settings_default(&settings);
    settings.described = true;
    pl_jobs *jobs = NULL;
    pl_error err = {0};
    if (pl_jobs_open(&jobs, &jobs_path, 1, &settings, &err) != PL_OK)
        check_say(__FILE__, __LINE__, err.message);
    return jobs;
}

static pl_evaluation *evaluate(const pl_jobs *jobs, const char *estimator, const char *target,
                               const pl_weights *weights) {
    pl_evaluate_settings settings;
    pl_evaluate_settings_default(&settings);
    settings.estimator = estimator;
    settings.target = target;
    settings.weights = weights;
    pl_evaluation *evaluation = NULL;
    pl_error err = {0};
    if (pl_evaluate(&evaluation, jobs, &settings, &err) != PL_OK)
        check_say(__FILE__, __LINE__, err.message);
    return evaluation;
}

static double mae(const pl_jobs *jobs, const char *target, const pl_weights *weights) {
    pl_evaluation *evaluation = evaluate(jobs, "hybrid", target, weights);
    pl_scores scores = {.size = sizeof(scores), .mae = NAN};
    if (evaluation) CHECK(pl_evaluation_score(&scores, evaluation, 0, NULL, NULL));
    pl_evaluation_close(&evaluation);
    return scores.mae;
}

static pl_weights *learn(const pl_jobs *jobs) {
    pl_train_settings settings;
    pl_train_settings_default(&settings);
    settings.estimator = "hybrid";
    settings.target = "step_ms";
    pl_weights *weights = NULL;
    pl_error err = {0};
    if (pl_train(&weights, jobs, &settings, &err) != PL_OK)
        check_say(__FILE__, __LINE__, err.message);
    return weights;
}

/* Jobs whose counters were not measured train step time alone. */
static void unmeasured_counters_are_not_learnt(void) {
    pl_jobs *jobs = open_jobs();
    if (!jobs) return;
    pl_weights *weights = learn(jobs);
    double all = weights ? mae(jobs, "smact", weights) : NAN;
    pl_weights_close(&weights);
    for (size_t i = 0; i < jobs->count; i++)
        if (i % 2)
            for (int c = 0; c < PL_COUNTERS; c++) jobs->items[i].counters[c] = NAN;
    weights = learn(jobs);
    double half = weights ? mae(jobs, "smact", weights) : NAN;
    pl_weights_close(&weights);
    CHECK(all < 4 && half < 5);
    pl_jobs_close(&jobs);
}

/* The same jobs give the same answers, wherever their strings lie. */
static void the_same_twice(void) {
    pl_evaluation *twice[2];
    pl_jobs *jobs[2];
    for (int i = 0; i < 2; i++) {
        jobs[i] = open_jobs();
        twice[i] = jobs[i] ? evaluate(jobs[i], "sim", "step_ms", NULL) : NULL;
    }
    CHECK(twice[0] && twice[1] && twice[0]->count == twice[1]->count);
    size_t known = 0;
    for (size_t i = 0; twice[0] && twice[1] && i < twice[0]->count; i++) {
        double a = pl_evaluation_trial(twice[0], i)->predicted,
               b = pl_evaluation_trial(twice[1], i)->predicted;
        if (pl_evaluation_trial(twice[0], i)->status != PL_OK) continue;
        known++;
        CHECK(a == b && a > 0);
    }
    CHECK(known > 200);
    for (int i = 0; i < 2; i++) {
        pl_evaluation_close(&twice[i]);
        pl_jobs_close(&jobs[i]);
    }
}

static pl_report *estimate(const char *path, const char *estimator) {
    pl_model *model = NULL;
    pl_report *report = NULL;
    pl_error err = {0};
    pl_job job;
    pl_job_default(&job);
    job.estimator = estimator;
    if (pl_model_open(&model, path, NULL, &err) != PL_OK ||
        pl_estimate(&report, model, &job, &err) != PL_OK)
        check_say(__FILE__, __LINE__, err.message);
    pl_model_close(&model);
    return report;
}

/* A recorded step is walked like a graph's: the batch is copied, gradients arrive. */
static void traces_have_steps(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/mlp-0625-1.json", traces);
    pl_report *report = estimate(path, "hybrid");
    if (!report) return;
    CHECK(report->step_ms.value > 1 && report->step_ms.value < 10);
    CHECK(report->copy_ms > 0 && report->launches > 50);
    CHECK(report->step_ms.low <= report->step_ms.value &&
          report->step_ms.value <= report->step_ms.high);
    CHECK(report->flops_per_step > 0);
    CHECK(report->family == PL_FAMILY_MLP);
    pl_report_close(&report);
}

/* Estimators that see no step say nothing of it. */
static void others_do_not_know(void) {
    pl_report *report = estimate("examples/mlp.yaml", "horus");
    if (!report) return;
    CHECK(isnan(report->step_ms.value) && isnan(report->device_ms) && isnan(report->copy_ms));
    CHECK(isnan(report->flops_per_step) && isnan(report->moved_bytes));
    for (int i = 0; i < PL_COUNTERS; i++)
        CHECK(isnan(pl_report_counter(report, (pl_counter)(i)).value));
    CHECK(report->family == PL_FAMILY_UNKNOWN);
    pl_report_close(&report);
}

int main(int count, char **args) {
    if (count < 3) return 2;
    jobs_path = args[1];
    traces = args[2];
    RUN(unmeasured_counters_are_not_learnt);
    RUN(the_same_twice);
    RUN(traces_have_steps);
    RUN(others_do_not_know);
    return check_done();
}
