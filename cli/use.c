/* use: what a step takes of the card: its time and what bounds it, compute, and how busy the
 * multiprocessors, the memory and the tensor cores are, with paper 3's classes. Not the memory,
 * which estimate.c has. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/counts.h"
#include "core/number.h"
#include "text.h"
#include "verbs.h"

/* The counters as tools show them. */
static const char *const counter_titles[PL_COUNTERS] = {"SMACT", "SMOCC", "DRAMA", "tensor"};
static const char counters_explained[] =
    "shares of the step: SMACT multiprocessors with work, SMOCC their places for warps that are "
    "taken, DRAMA memory interface in use, tensor tensor cores in use";

static void print_step(const pl_report *report) {
    const pl_figure *step = &report->step_ms;
    printf("\n%sstep %s%s", text_style(BOLD), text_ms(step->value).text, text_style(PLAIN));
    if (isfinite(step->low) && isfinite(step->high))
        printf(", between %s and %s", text_ms(step->low).text, text_ms(step->high).text);
    if (isfinite(step->low) && isfinite(report->time_coverage))
        printf(" (%s %% of jobs%s)", PL_REAL(".0f", 100 * report->time_coverage),
               report->host_assumed ? " and hosts" : "");
    if (!report->gpu->calibrated) fputs("; by the card's rates, it was not measured", stdout);
    putchar('\n');
    if (!isfinite(report->device_ms) || !isfinite(report->host_ms)) return;
    char kernels[64] = "the kernels";
    if (isfinite(report->launches))
        snprintf(kernels, sizeof kernels, "%s kernels", PL_REAL(".0f", report->launches));
    if (report->copy_ms > report->host_ms && report->copy_ms > report->device_ms) {
        printf("  bound by the batch's copy, which takes %s: %s of %s, which the host takes %s to "
               "launch\n",
               text_ms(report->copy_ms).text, kernels, text_ms(report->device_ms).text,
               text_ms(report->host_ms).text);
        return;
    }
    if (report->host_bound)
        printf("  bound by the host: it takes %s to launch %s of %s\n",
               text_ms(report->host_ms).text, kernels, text_ms(report->device_ms).text);
    else
        printf("  bound by the card: %s of %s, which the host takes %s to launch\n", kernels,
               text_ms(report->device_ms).text, text_ms(report->host_ms).text);
    if (report->copy_ms > 0.05 * step->value)
        printf("  waits %s for the batch to be copied\n", text_ms(report->copy_ms).text);
}

/* "3.4", "341", "27.9 k" */
static small_text rate_text(double rate) {
    return rate < 100 || rate > 9e18 ? text_fixed(rate, 1) : text_count((int64_t)rate);
}

/* Operations of a step: as FlopCounterMode counts them, unless it leaves out a good part (recurrent
 * layers). */
static double flops_of(const pl_report *report) {
    double sum = 0;
    for (int i = PL_PHASE_FORWARD; i < PL_PHASES; i++) sum += pl_report_flops(report, (pl_phase)i);
    return sum > 1.2 * report->flops_per_step ? sum : report->flops_per_step;
}

/* Samples and tokens per second, compute, bytes moved. */
static void print_rates(const pl_report *report, const pl_job *job) {
    double seconds = report->step_ms.value / 1e3;
    double samples = report->batch > 0 ? (double)report->batch * job->accumulate : NAN;
    double flops = flops_of(report), rate = flops / seconds;
    const char *between = "  ";
    if (isfinite(samples) && seconds > 0) {
        printf("%s%s samples/s", between, rate_text(samples / seconds).text);
        between = ", ";
        if (report->seq > 0)
            printf("%s%s tokens/s", between,
                   rate_text(samples * (double)report->seq / seconds).text);
    }
    if (isfinite(flops)) {
        printf("%s%s per step", between, text_scaled(flops, "FLOP").text);
        between = ", ";
    }
    if (isfinite(rate)) {
        printf("%s%s", between, text_scaled(rate, "FLOP/s").text);
        between = ", ";
    }
    if (report->moved_bytes >= 0 && report->moved_bytes < 9e18) {
        printf("%s%s moved", between, text_bytes((int64_t)report->moved_bytes).text);
        between = ", ";
    }
    if (between[0] == ',') putchar('\n');
}

static void print_counters(const pl_report *report) {
    enum { BAR = 32 };
    bool any = false;
    for (int c = 0; c < PL_COUNTERS; c++)
        any = any || isfinite(pl_report_counter(report, (pl_counter)c).value);
    if (!any) return;
    putchar('\n');
    for (int c = 0; c < PL_COUNTERS; c++) {
        pl_figure figure = pl_report_counter(report, (pl_counter)c), *f = &figure;
        if (!isfinite(f->value)) continue;
        char interval[64] = "";
        if (isfinite(f->low) && isfinite(f->high))
            snprintf(interval, sizeof interval, "%s to %s", PL_REAL(".1f", f->low),
                     PL_REAL(".1f", f->high));
        const char *level = pl_level_name(pl_level_predicted(report->family, (pl_counter)c, f));
        printf("  %-6s %6s %%  %-13s  %-6s  %s", counter_titles[c], PL_REAL(".1f", f->value),
               interval, level ? level : "", text_style(GREEN));
        text_bar(stdout, f->value / 100, BAR);
        printf("%s\n", text_style(PLAIN));
    }
    printf("  %s%s%s\n", text_style(DIM), counters_explained, text_style(PLAIN));
}

/* Estimators that learn compute alone: beside it what the operators come to, where they are known.
 */
static void print_compute(const pl_report *report, const pl_job *job, const pl_model *model) {
    bool step = isfinite(report->flops_per_step), rate = isfinite(report->flop_rate);
    if (!step && !rate) return;
    fputs("\ncompute, as learnt: ", stdout);
    if (step) printf("%s per step", text_scaled(report->flops_per_step, "FLOP").text);
    if (rate) printf("%s%s", step ? ", " : "", text_scaled(report->flop_rate, "FLOP/s").text);
    pl_job counted = *job;
    counted.estimator = "sim";
    counted.weights = NULL;
    counted.want_alive = counted.want_timeline = counted.want_times = false;
    pl_report *exact = NULL;
    if (pl_estimate(&exact, model, &counted, NULL) == PL_OK && isfinite(exact->flops_per_step)) {
        printf("; by the operators: %s per step", text_scaled(exact->flops_per_step, "FLOP").text);
        if (isfinite(exact->flop_rate))
            printf(", %s", text_scaled(exact->flop_rate, "FLOP/s").text);
    }
    pl_report_close(&exact);
    putchar('\n');
}

void print_use(const pl_report *report, const pl_job *job, const pl_model *model) {
    if (!isfinite(report->step_ms.value)) {
        print_compute(report, job, model);
        return;
    }
    print_step(report);
    print_rates(report, job);
    print_counters(report);
}
