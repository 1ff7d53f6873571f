/* features: what the walk of a step (src/device/schedule.h) sees of measured jobs, one JSON object
 * per line: the terms of the host's time, kernels' time by kind, shares of the card. Fitting
 * scripts join it with what was measured, by id.
 *
 *   usage_features JOBS.jsonl[.xz] [GRAPHS ...]
 *
 * Models come from the records' own descriptions, else from a folder of graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/host.h"
#include "device/schedule.h"
#include "lab/train/learned.h"
#include "estimate/simulation.h"
#include "estimate/usage.h"

typedef struct seen {
    double host[PL_HOST_TERMS];
    const pl_tape *tape;
} seen;

static void print_job(const char *id, const pl_subject *subject, const pl_tape *tape,
                      const pl_walk *walk) {
    double host[PL_HOST_TERMS] = {0};
    for (size_t i = 0; i < tape->call_count; i++) pl_host_count(&tape->calls[i], host);
    pl_schedule s;
    pl_schedule_settings settings = {.tf32 = subject->job->precision == PL_TF32,
                                     .host_speed = subject->job->host_speed,
                                     .copy_gbps = subject->job->copy_gbps};
    if (!pl_schedule_of(&s, tape, subject->gpu, &settings)) return;
    printf(
        "{\"id\":\"%s\",\"optimizer\":\"%s\",\"precision\":%d,\"step_us\":%.3f,\"device_us\":%.3f,"
        "\"host_us\":%.3f,\"transfer_us\":%.3f,\"waits\":%.0f,\"launches\":%.0f,\"moved\":%.0f,"
        "\"counted\":%.0f,\"active\":%.5f,\"occupied\":%.5f,\"dram\":%.5f,\"tensor\":%.5f,"
        "\"host\":{",
        id, subject->job->optimizer, (int)subject->job->precision, s.step_us, s.device_us,
        s.host_us, s.transfer_us, s.waits, s.launches, s.moved, s.counted, s.active, s.occupied,
        s.dram, s.tensor);
    for (int i = 0; i < PL_HOST_TERMS; i++)
        printf("%s\"%s\":%.0f", i ? "," : "", pl_host_term_name((pl_host_term)i), host[i]);
    printf("},\"kinds_us\":{");
    for (int i = 0; i < PL_WORK_KINDS; i++)
        printf("%s\"%s\":%.3f", i ? "," : "", pl_work_kind_name((pl_work_kind)i), s.kinds_us[i]);
    double launches[PL_PHASES] = {0};
    for (size_t i = 0; i < tape->call_count; i++)
        launches[tape->calls[i].phase] += tape->calls[i].launches;
    printf("},\"launches_of\":[%.0f,%.0f,%.0f]", launches[PL_PHASE_FORWARD],
           launches[PL_PHASE_BACKWARD], launches[PL_PHASE_OPTIMIZER]);
    printf(",\"signals\":{");
    for (int i = 0; walk->known && i < PL_USAGE_SIGNALS; i++)
        printf("%s\"%s\":%g", i ? "," : "", pl_usage_signal_names[i], (double)walk->signals[i]);
    printf("}");
    if (getenv("CALLS")) {
        printf(",\"calls\":[");
        for (size_t i = 0; i < tape->call_count; i++) {
            const pl_work *c = &tape->calls[i];
            pl_cost cost = {0};
            if (c->launches && c->kind != PL_WORK_TRANSFER)
                pl_cost_of(&cost, c, subject->gpu, settings.tf32);
            printf("%s[\"%s\",\"%s\",%d,%d,%d,%d,%d,%.0f,%.0f,%.0f,%.2f]", i ? "," : "", c->what,
                   pl_work_kind_name((pl_work_kind)c->kind), c->pass, c->phase, c->launches,
                   c->dtype, c->strided, c->read, c->written, c->flops, cost.us);
        }
        printf("]");
    }
    printf("}\n");
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: usage_features JOBS.jsonl[.xz] [GRAPHS ...]\n");
        return 2;
    }
    pl_jobs_settings settings;
    pl_jobs_settings_default(&settings);
    settings.described = true;
    settings.graphs = argc > 2 ? argv[2] : NULL;
    settings.more_graphs = (const char *const *)&argv[argc > 3 ? 3 : argc];
    settings.more_graph_count = (size_t)(argc > 3 ? argc - 3 : 0);
    pl_jobs *jobs = NULL;
    pl_error err = {0};
    if (pl_jobs_open(&jobs, (const char *const *)&argv[1], 1, &settings, &err) != PL_OK) {
        fprintf(stderr, "%s: %s\n", err.where, err.message);
        return 3;
    }
    for (size_t i = 0; i < jobs->count; i++) {
        const pl_measured *item = &jobs->items[i];
        pl_question q;
        pl_status status = pl_question_open(&q, jobs, item, true, &jobs->limits, &err);
        if (status == PL_OK) {
            pl_simulated simulated;
            pl_walk walk;
            pl_tape_device device = pl_tape_device_of(q.subject.gpu);
            status =
                pl_simulated_open(&simulated, &q.subject, &device, pl_report_arena(q.report), &err);
            if (status == PL_OK && pl_simulated_report(q.report, &walk, &q.subject, &simulated))
                print_job(item->facts.id, &q.subject, simulated.tape, &walk);
            pl_simulated_close(&simulated);
        }
        if (status != PL_OK) fprintf(stderr, "%s: %s\n", item->facts.id, err.message);
        pl_question_close(&q);
    }
    pl_jobs_close(&jobs);
    return 0;
}
