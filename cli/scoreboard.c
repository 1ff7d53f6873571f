/* scoreboard: the tables of a comparison, as text and for the report, and what evaluate prints. One
 * estimator is shown in depth, several side by side. MSE to R2 are of megabytes (10^6 bytes), as
 * the papers print them, or of the target's unit; accuracy and F1 (weighted by class) are in bins
 * of memory. A star marks estimators that may have learnt from these very jobs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"

/* ---- scopes ---- */

const pl_scores *scores_in(const contender *of, scope s) {
    return s == SCOPE_REAL ? &of->real : s == SCOPE_COMMON ? &of->common : &of->all;
}

bool scope_shown(const comparison *c, scope s) {
    if (s == SCOPE_COMMON) return c->differ && c->common_jobs > 0;
    for (size_t i = 0; i < c->ran; i++)
        if (scores_in(&c->list[i], s)->jobs > 0) return true;
    return false;
}

const char *scope_title(const comparison *c, scope s) {
    if (s == SCOPE_COMMON) return "the jobs that all of these have an estimate of";
    if (s == SCOPE_ALL) return "all jobs";
    return c->split ? "unseen real models (torchvision, transformers)"
                    : "real models (torchvision, transformers)";
}

/* ---- tables ---- */

static small_text percent2(double share) {
    small_text t = {"-"};
    if (isfinite(share)) snprintf(t.text, sizeof t.text, "%.2f %%", 100 * share);
    return t;
}

static small_text starred(const contender *of) {
    small_text t;
    snprintf(t.text, sizeof t.text, "%.40s%s", of->info->name, of->evaluation->seen ? " *" : "");
    return t;
}

/* Contenders with figures in a scope, the least median first; how many they are. */
static size_t ranked(const comparison *c, scope s, const contender **order) {
    size_t count = 0;
    for (size_t i = 0; i < c->ran; i++) {
        const contender *of = &c->list[i];
        if (scores_in(of, s)->jobs == 0 || (s == SCOPE_COMMON && of->narrow)) continue;
        size_t at = count++;
        for (; at > 0 && scores_in(of, s)->median < scores_in(order[at - 1], s)->median; at--)
            order[at] = order[at - 1];
        order[at] = of;
    }
    return count;
}

table *ranking_table(const comparison *c, scope s) {
    table *t = table_new("lrrrrrrrrrrrrr");
    table_row(t, (const char *[]){"ESTIMATOR", "JOBS", "MSE", "RMSE", "MAE", "MAPE", "R2", "MEDIAN",
                                  "P90", "5 % TOO LOW", "ACCURACY", "F1", "US EACH", "TRAINED S"});
    const contender **order = need(c->ran, sizeof *order);
    size_t count = ranked(c, s, order);
    for (size_t i = 0; i < count; i++) {
        const contender *of = order[i];
        const pl_scores *n = scores_in(of, s);
        small_text name = starred(of), jobs = text_whole((int64_t)n->jobs),
                   mse = text_figure(n->mse), rmse = text_figure(n->rmse),
                   mae = text_figure(n->mae), mape = percent2(n->mape / 100),
                   r2 = text_fixed(n->r2, fabs(n->r2) < 10 ? 4 : 0), median = percent2(n->median),
                   p90 = percent2(n->p90), low = text_percent(n->too_low),
                   accuracy = text_fixed(n->accuracy, 3), f1 = text_fixed(n->f1, 3),
                   us = n->elapsed_us >= 100 ? text_fixed(n->elapsed_us, 0)
                                             : text_figure(n->elapsed_us),
                   trained =
                       text_fixed(of->evaluation->train_s, of->evaluation->train_s < 10 ? 2 : 0);
        table_row(t, (const char *[]){name.text, jobs.text, mse.text, rmse.text, mae.text,
                                      mape.text, r2.text, median.text, p90.text, low.text,
                                      accuracy.text, f1.text, us.text, trained.text});
    }
    free(order);
    return t;
}

table *bins_table(const comparison *c) {
    table *t = table_new("lrrrrrrr");
    table_row(t, (const char *[]){"ESTIMATOR", "JOBS", "ACCURACY", "PRECISION", "RECALL", "F1",
                                  "MACRO F1", "BELOW THE DIAGONAL"});
    for (size_t i = 0; i < c->ran; i++) {
        const pl_scores *n = &c->list[i].all;
        small_text name = starred(&c->list[i]), jobs = text_whole((int64_t)n->jobs),
                   accuracy = text_fixed(n->accuracy, 4), precision = text_fixed(n->precision, 4),
                   recall = text_fixed(n->recall, 4), f1 = text_fixed(n->f1, 4),
                   macro = text_fixed(n->macro_f1, 4), below = percent2(n->below_diagonal);
        table_row(t, (const char *[]){name.text, jobs.text, accuracy.text, precision.text,
                                      recall.text, f1.text, macro.text, below.text});
    }
    return t;
}

table *median_table(const comparison *c, const grouping *g) {
    static char columns[MOST_GROUPS + 2]; /* the table points at it */
    const char *values[MOST_GROUPS], *cells[MOST_GROUPS + 1];
    /* The estimator with the most jobs has all the groups there are. */
    const contender *widest = &c->list[0];
    for (size_t i = 1; i < c->ran; i++)
        if (c->list[i].all.jobs > widest->all.jobs) widest = &c->list[i];
    size_t count = c->ran ? group_values(widest->evaluation, g, values) : 0;
    if (count == 0) return NULL;
    memset(columns, 'r', count + 1);
    columns[0] = 'l';
    columns[count + 1] = '\0';
    table *t = table_new(columns);
    cells[0] = "ESTIMATOR";
    for (size_t k = 0; k < count; k++) cells[k + 1] = values[k][0] ? values[k] : "-";
    table_row(t, cells);
    for (size_t i = 0; i < c->ran; i++) {
        small_text texts[MOST_GROUPS + 1];
        texts[0] = starred(&c->list[i]);
        for (size_t k = 0; k < count; k++)
            texts[k + 1] = percent2(scores_of_group(c->list[i].evaluation, g, values[k]).median);
        for (size_t k = 0; k <= count; k++) cells[k] = texts[k].text;
        table_row(t, cells);
    }
    return t;
}

static void summary_row(table *t, const char *name, pl_scores s) {
    small_text jobs = text_whole((int64_t)s.jobs), low = text_percent(s.too_low),
               above = text_percent(s.above_high), width = text_percent(s.width),
               exact = text_percent(s.exact), median = percent2(s.median), mean = percent2(s.mean),
               p90 = percent2(s.p90);
    table_row(t, (const char *[]){name, jobs.text, median.text, mean.text, p90.text, low.text,
                                  above.text, width.text, exact.text});
}

static table *summary_table(const char *head) {
    table *t = table_new("lrrrrrrrr");
    table_row(t, (const char *[]){head, "JOBS", "MEDIAN", "MEAN", "P90", "5 % TOO LOW",
                                  "ABOVE HIGH", "WIDTH", "EXACT"});
    return t;
}

table *group_table(const pl_evaluation *e, const grouping *g) {
    const char *values[MOST_GROUPS];
    size_t count = group_values(e, g, values);
    if (count == 0) return NULL;
    table *t = summary_table(target_is_memory(e->target) ? "PEAK" : "COMPUTE");
    for (size_t i = 0; i < count; i++)
        summary_row(t, values[i][0] ? values[i] : "-", scores_of_group(e, g, values[i]));
    return t;
}

table *worst_table(const pl_evaluation *e) {
    const pl_trial *worst[WORST];
    size_t count = worst_trials(e, worst);
    table *t = table_new("lrrrrrll");
    table_row(t, (const char *[]){"JOB", "MEASURED", "PREDICTED", "ERROR", "ALLOCATED", "OUTSIDE",
                                  "PRECISION", "OPTIMIZER"});
    for (size_t i = 0; i < count; i++) {
        const pl_trial *w = worst[i];
        char id[80], error[32], allocated[32] = "-";
        bool cut = strlen(w->id) >= 64; /* GPUMemNet's names of jobs tell everything */
        snprintf(id, sizeof id, cut ? "%.60s..." : "%s", w->id);
        snprintf(error, sizeof error, "%+.1f %%", 100 * trial_error(w));
        double off = trial_allocated_error(w);
        if (isfinite(off)) snprintf(allocated, sizeof allocated, "%+.1f %%", 100 * off);
        small_text measured = target_text(e->target, w->measured),
                   predicted = target_text(e->target, w->predicted), outside = {"-"};
        if (target_is_memory(e->target) && w->overhead_bytes >= 0 && w->measured_overhead >= 0)
            outside = text_change(w->overhead_bytes - w->measured_overhead);
        table_row(t, (const char *[]){id, measured.text, predicted.text, error, allocated,
                                      outside.text, w->precision, w->optimizer});
    }
    return t;
}

/* Bins that occur, as truth or as prediction; at most `most` of them. 0: more, or none. */
static size_t used_bins(const uint64_t *counts, size_t classes, size_t *used, size_t most) {
    size_t count = 0;
    for (size_t k = 0; k < classes; k++) {
        bool occurs = false;
        for (size_t i = 0; i < classes && !occurs; i++)
            occurs = counts[k * classes + i] || counts[i * classes + k];
        if (occurs && count == most) return 0;
        if (occurs) used[count++] = k;
    }
    return count;
}

table *confusion_table(const pl_evaluation *e, int64_t bin_bytes) {
    enum { MOST_CLASSES = 24 };
    static char columns[MOST_CLASSES + 2]; /* the table points at it */
    size_t classes = 0, used[MOST_CLASSES];
    int64_t first = 0;
    uint64_t *counts = pl_evaluation_confusion(e, bin_bytes, &classes, &first);
    size_t count = counts ? used_bins(counts, classes, used, MOST_CLASSES) : 0;
    if (count == 0) {
        free(counts);
        return NULL;
    }
    small_text texts[MOST_CLASSES + 1];
    const char *cells[MOST_CLASSES + 1];
    memset(columns, 'r', count + 1);
    columns[count + 1] = '\0';
    table *t = table_new(columns);
    double mib = (double)bin_bytes / (1 << 20);
    for (size_t row = 0; row <= count; row++) {
        if (row == 0)
            texts[0] = (small_text){"FROM MIB"};
        else
            texts[0] = text_fixed(mib * (double)(first + (int64_t)used[row - 1]), 0);
        for (size_t k = 0; k < count; k++) {
            uint64_t jobs = row ? counts[used[row - 1] * classes + used[k]] : 0;
            if (row == 0)
                texts[k + 1] = text_fixed(mib * (double)(first + (int64_t)used[k]), 0);
            else
                texts[k + 1] = jobs ? text_whole((int64_t)jobs) : (small_text){"."};
        }
        for (size_t k = 0; k <= count; k++) cells[k] = texts[k].text;
        table_row(t, cells);
    }
    free(counts);
    return t;
}

/* Publications of learned estimators tell their accuracy in bins. */
bool shows_bins(const comparison *c, const contender *of) {
    return c->bin_bytes > 0 && target_is_memory(c->target) &&
           (c->request->bin > 0 || of->info->kind == PL_LEARNED);
}

/* ---- text ---- */

static void heading(const char *text) {
    printf("\n%s%s%s\n\n", text_style(BOLD), text, text_style(PLAIN));
}

void print_failures(const pl_evaluation *e) {
    size_t shown = 0, failed = 0;
    for (size_t i = 0; i < e->count; i++)
        failed += e->trials[i].has_graph && e->trials[i].status != PL_OK;
    if (!failed) return;
    printf("\n%zu could not be estimated\n\n", failed);
    for (size_t i = 0; i < e->count && shown < WORST; i++) {
        const pl_trial *t = &e->trials[i];
        if (!t->has_graph || t->status == PL_OK) continue;
        fputs("  ", stdout);
        text_clean(stdout, t->id);
        fputs(": ", stdout);
        text_clean(stdout, t->message);
        putchar('\n');
        shown++;
    }
    if (failed > shown) printf("  and %zu more\n", failed - shown);
}

static void print_split(const comparison *c, const pl_evaluation *e) {
    if (e->folds > 0)
        printf(", split by %s into %d folds, seed %" PRIu64, split_name((size_t)e->split), e->folds,
               c->request->seed);
}

static void print_bins(const comparison *c, const contender *of) {
    const pl_scores *n = &of->all;
    char title[64];
    snprintf(title, sizeof title, "in bins of %" PRId64 " MiB", c->bin_bytes >> 20);
    heading(title);
    printf("  accuracy %.4f, precision %.4f, recall %.4f, F1 %.4f, macro F1 %.4f, below the "
           "diagonal %.2f %%\n",
           n->accuracy, n->precision, n->recall, n->f1, n->macro_f1, 100 * n->below_diagonal);
    table *t = confusion_table(of->evaluation, c->bin_bytes);
    if (t) {
        printf("\n  rows: what was measured; columns: what was predicted\n\n");
        table_print(t, stdout, 2);
    } else {
        printf("\n  the confusion matrix is too large to be shown here; --json has it\n");
    }
}

static void print_one(const comparison *c, const contender *of) {
    const pl_evaluation *e = of->evaluation;
    const pl_scores *n = &of->all;
    printf("%zu jobs", e->count);
    if (of->info->needs_graph) printf(", %zu without a graph", trials_without_graph(e));
    printf("; estimator %s", e->estimator);
    print_split(c, e);
    printf(", %.1f s\n\n", (double)e->elapsed_us / 1e6);
    table *t = summary_table("ALL");
    bool memory = target_is_memory(c->target);
    summary_row(t, memory ? "nvidia-smi's peak" : target_title(c->target), *n);
    pl_scores allocated = scores_of_allocated(e);
    if (memory && allocated.jobs) summary_row(t, "peak allocated", allocated);
    table_print(t, stdout, 2);
    printf("\n  in %s: MSE %s, RMSE %s, MAE %s; MAPE %s, R2 %s; %s us an estimate",
           target_unit(c->target), text_figure(n->mse).text, text_figure(n->rmse).text,
           text_figure(n->mae).text, percent2(n->mape / 100).text,
           text_fixed(n->r2, fabs(n->r2) < 10 ? 4 : 0).text, text_figure(n->elapsed_us).text);
    if (isfinite(e->train_s)) printf(", %.1f s of training", e->train_s);
    putchar('\n');
    for (size_t g = 0; g < GROUPINGS; g++) {
        t = group_table(e, &groupings[g]);
        if (!t) continue; /* no job has any */
        char title[32];
        snprintf(title, sizeof title, "by %s", groupings[g].name);
        heading(title);
        table_print(t, stdout, 2);
    }
    if (shows_bins(c, of)) print_bins(c, of);
    heading("the worst");
    table_print(worst_table(e), stdout, 2);
    print_failures(e);
    if (e->seen) {
        putchar('\n');
        text_clean(stdout, c->remarks[0]);
        putchar('\n');
    }
}

static void print_several(const comparison *c) {
    printf("%zu jobs", c->jobs);
    for (size_t i = 0; i < c->ran; i++)
        if (c->list[i].evaluation->folds > 0) {
            print_split(c, c->list[i].evaluation);
            break;
        }
    printf("; %s, MSE to MAE in %s", target_title(c->target), target_unit(c->target));
    if (target_is_memory(c->target)) printf("; bins of %" PRId64 " MiB", c->bin_bytes >> 20);
    putchar('\n');
    for (int s = SCOPE_ALL; s <= SCOPE_COMMON; s++) {
        if (!scope_shown(c, (scope)s)) continue;
        heading(scope_title(c, (scope)s));
        table_print(ranking_table(c, (scope)s), stdout, 2);
    }
    if (c->request->bin > 0 && target_is_memory(c->target)) {
        heading("in bins");
        table_print(bins_table(c), stdout, 2);
    }
    if (c->remark_count) putchar('\n');
    for (size_t i = 0; i < c->remark_count; i++) {
        text_clean(stdout, c->remarks[i]);
        putchar('\n');
    }
}

void print_comparison(const comparison *c) {
    if (c->count == 1)
        print_one(c, &c->list[0]);
    else
        print_several(c);
}
