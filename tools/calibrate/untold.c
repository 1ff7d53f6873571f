/* untold: how well step times' intervals hold on architectures kept apart with their kin, of a host that
 * is told, as each record has it, and of one that nobody told of.
 *
 *   usage_untold FOLDS GRAPHS GRAPHS JOBS.jsonl[.xz]...
 *
 * What is asked about a fold's jobs is learnt from the others, whose hosts are known: evaluate --split
 * cannot say it, since it would learn from jobs whose hosts are not known either. Prints by what the
 * step waits for: jobs, median and 90th percentile of the error, shares inside, above and below, the
 * median width. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/learn/folds.h"
#include "lab/learn/metrics.h"
#include "lab/train/learned.h"

enum { TOLD, UNTOLD, HOSTS, ALL = PL_BOUNDS, GROUPS };

typedef struct tally {
    double *errors, *widths;
    size_t count, above, below;
} tally;

static tally tallies[HOSTS][GROUPS];

static void note(tally *t, double truth, const pl_figure *said) {
    t->errors[t->count] = fabs(said->value - truth) / truth;
    t->widths[t->count++] = (said->high - said->low) / said->value;
    t->above += truth > said->high;
    t->below += truth < said->low;
}

static void ask(const pl_jobs *jobs, const pl_measured *item, int host, const pl_weights *weights) {
    pl_measured own = *item;
    pl_error err;
    pl_question q;
    pl_simulated simulated;
    pl_walk walk;
    if (host == UNTOLD) own.job.host_speed = own.job.copy_gbps = PL_UNKNOWN;
    if (pl_question_open(&q, jobs, &own, true, &jobs->limits, &err) == PL_OK) {
        pl_tape_device device = pl_tape_device_of(q.subject.gpu);
        bool known = pl_simulated_open(&simulated, &q.subject, &device, pl_report_arena(q.report),
                                       NULL) == PL_OK &&
                     pl_simulated_report(q.report, &walk, &q.subject, &simulated) && walk.known;
        pl_usage_bound bound = known ? pl_usage_bound_of(q.report) : PL_BOUNDS;
        if (known && pl_usage_correct(q.report, &walk, &q.subject, weights, &err) == PL_OK) {
            note(&tallies[host][bound], item->step_ms, &q.report->step_ms);
            note(&tallies[host][ALL], item->step_ms, &q.report->step_ms);
        }
        pl_simulated_close(&simulated);
    }
    pl_question_close(&q);
}

static bool run_fold(const pl_jobs *jobs, const uint32_t *fold, uint32_t kept, size_t *rows) {
    pl_train_settings settings;
    pl_budget budget;
    pl_error err = {0};
    pl_weights *weights = pl_weights_new();
    size_t count = 0;
    pl_train_settings_default(&settings);
    settings.estimator = "hybrid";
    pl_budget_start(&budget, &jobs->limits);
    for (size_t i = 0; i < jobs->count; i++)
        if (fold[i] != kept) rows[count++] = i;
    pl_training_set set = {.jobs = jobs,
                           .rows = rows,
                           .count = count,
                           .estimator = pl_estimator_named("hybrid"),
                           .settings = &settings,
                           .budget = &budget};
    bool ok = weights && pl_usage_learn(weights, &set, &err) == PL_OK;
    if (!ok) fprintf(stderr, "%s\n", err.message);
    for (size_t i = 0; ok && i < jobs->count; i++)
        for (int host = 0; host < HOSTS; host++)
            if (fold[i] == kept && jobs->items[i].step_ms > 0)
                ask(jobs, &jobs->items[i], host, weights);
    pl_weights_close(&weights);
    return ok;
}

static void print_tallies(void) {
    static const char *const hosts[] = {"told", "not told"}, *const groups[] = {"the host", "both",
                                                                                "the card",
                                                                                "recurrent", "all"};
    printf("host      waits for     jobs  median     p90  inside   above   below   width\n");
    for (int host = 0; host < HOSTS; host++)
        for (int group = 0; group < GROUPS; group++) {
            tally *t = &tallies[host][group];
            if (!t->count) continue;
            double n = (double)t->count, above = (double)t->above / n, below = (double)t->below / n;
            pl_sort(t->errors, t->count);
            pl_sort(t->widths, t->count);
            printf("%-9s %-12s %5zu %6.1f%% %6.1f%% %6.1f%% %6.1f%% %6.1f%% %6.0f%%\n", hosts[host],
                   groups[group], t->count, 100 * pl_quantile(t->errors, t->count, 0.5),
                   100 * pl_quantile(t->errors, t->count, 0.9), 100 * (1 - above - below),
                   100 * above, 100 * below, 100 * pl_quantile(t->widths, t->count, 0.5));
        }
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: usage_untold FOLDS GRAPHS GRAPHS JOBS.jsonl[.xz]...\n");
        return 2;
    }
    pl_jobs_settings settings;
    pl_jobs_settings_default(&settings);
    settings.graphs = argv[2];
    settings.more_graphs = (const char *const *)&argv[3];
    settings.more_graph_count = 1;
    settings.described = true;
    pl_jobs *jobs = NULL;
    pl_error err = {0};
    if (pl_jobs_open(&jobs, (const char *const *)&argv[4], (size_t)argc - 4, &settings, &err) !=
        PL_OK) {
        fprintf(stderr, "%s: %s\n", err.where, err.message);
        return 3;
    }
    uint32_t folds = (uint32_t)strtoul(argv[1], NULL, 10);
    uint32_t *groups = calloc(jobs->count + 1, sizeof *groups),
             *fold = calloc(jobs->count + 1, sizeof *fold);
    size_t *rows = calloc(jobs->count + 1, sizeof *rows);
    bool ok = groups && fold && rows && folds >= 2;
    for (int host = 0; ok && host < HOSTS; host++)
        for (int group = 0; ok && group < GROUPS; group++) {
            tally *t = &tallies[host][group];
            t->errors = calloc(jobs->count + 1, sizeof *t->errors);
            t->widths = calloc(jobs->count + 1, sizeof *t->widths);
            ok = t->errors && t->widths;
        }
    for (size_t i = 0; ok && i < jobs->count; i++) groups[i] = jobs->items[i].kindred;
    ok = ok && pl_folds_deal(fold, jobs->count, folds, groups, NULL, 1, &err) == PL_OK;
    for (uint32_t k = 0; ok && k < folds; k++) ok = run_fold(jobs, fold, k, rows);
    if (ok) print_tallies();
    free(groups);
    free(fold);
    free(rows);
    pl_jobs_close(&jobs);
    return ok ? 0 : 1;
}
