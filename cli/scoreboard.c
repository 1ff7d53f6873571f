/* scoreboard: the tables of a comparison, as text and for the report, and what evaluate prints. One
 * estimator is shown in depth, several side by side. MSE to R2 are of megabytes (10^6 bytes), as
 * the papers print them, or of the target's unit; accuracy and F1 (weighted by class) are in bins
 * of memory. Which figures are shown depends on what is predicted: tables of columns. A star marks
 * estimators that may have learnt from these very jobs. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"
#include "core/number.h"
#include "verbs.h"

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

static small_text percent2(double share) {
    small_text t = {"-"};
    if (isfinite(share)) snprintf(t.text, sizeof t.text, "%s %%", PL_REAL(".2f", 100 * share));
    return t;
}

static small_text starred(const contender *of) {
    small_text t;
    snprintf(t.text, sizeof t.text, "%.40s%s", of->info->name, of->evaluation->seen ? " *" : "");
    return t;
}

/* Contenders with figures in a scope, the best first; how many they are. */
static size_t ranked(const comparison *c, scope s, const contender **order) {
    size_t count = 0;
    for (size_t i = 0; i < c->ran; i++) {
        const contender *of = &c->list[i];
        if (scores_in(of, s)->jobs == 0 || (s == SCOPE_COMMON && of->narrow)) continue;
        size_t at = count++;
        double rank = rank_of(c->target, scores_in(of, s));
        for (; at > 0 && rank < rank_of(c->target, scores_in(order[at - 1], s)); at--)
            order[at] = order[at - 1];
        order[at] = of;
    }
    return count;
}

/* ---- columns ---- */

enum { MEMORY = 1 << KIND_MEMORY, RELATIVE = 1 << KIND_RELATIVE, POINTS = 1 << KIND_POINTS };

/* A share of 100 as points: 0.032 is 3.2. */
static small_text points(double share) {
    return text_fixed(100 * share, 1);
}

/* A figure of a summary; where it is shown depends on what is predicted. */
typedef struct column {
    unsigned kinds; /* 1 << target_kind */
    const char *head;
    size_t place; /* in pl_scores */
    small_text (*text)(double figure);
} column;

#define AT(member) offsetof(pl_scores, member)

static small_text percent_of(double figure) {
    return percent2(figure / 100);
}
static small_text ratio3(double figure) {
    return text_fixed(figure, 3);
}
static small_text ratio4(double figure) {
    return text_fixed(figure, fabs(figure) < 10 ? 4 : 0);
}
static small_text points_of(double figure) {
    return text_fixed(figure, 2);
}
static small_text micros(double figure) {
    return figure >= 100 ? text_fixed(figure, 0) : text_figure(figure);
}

/* Side by side: a row per estimator. */
static const column ranking_columns[] = {
    {MEMORY | RELATIVE | POINTS, "MSE", AT(mse), text_figure},
    {MEMORY | RELATIVE | POINTS, "RMSE", AT(rmse), text_figure},
    {MEMORY | RELATIVE | POINTS, "MAE", AT(mae), text_figure},
    {MEMORY | RELATIVE, "MAPE", AT(mape), percent_of},
    {MEMORY | RELATIVE | POINTS, "R2", AT(r2), ratio4},
    {MEMORY | RELATIVE, "MEDIAN", AT(median), percent2},
    {MEMORY | RELATIVE, "P90", AT(p90), percent2},
    {POINTS, "P90", AT(p90), points},
    {MEMORY, "5 % TOO LOW", AT(too_low), text_percent},
    {RELATIVE, "IN 1 %", AT(within_1), text_percent},
    {RELATIVE, "IN 5 %", AT(within_5), text_percent},
    {RELATIVE, "IN 15 %", AT(within_15), text_percent},
    {MEMORY | POINTS, "ACCURACY", AT(accuracy), ratio3},
    {MEMORY, "F1", AT(f1), ratio3},
    {POINTS, "RECALL OF HIGH", AT(high_recall), ratio3},
    {POINTS, "MACRO F1", AT(macro_f1), ratio3},
    {RELATIVE | POINTS, "INSIDE", AT(inside), text_percent},
    {MEMORY | RELATIVE | POINTS, "US EACH", AT(elapsed_us), micros},
};

/* One estimator: a row per group of jobs. */
static const column summary_columns[] = {
    {MEMORY | RELATIVE, "MEDIAN", AT(median), percent2},
    {MEMORY | RELATIVE, "MEAN", AT(mean), percent2},
    {POINTS, "MAE", AT(mae), points_of},
    {MEMORY | RELATIVE, "P90", AT(p90), percent2},
    {POINTS, "P90", AT(p90), points},
    {POINTS, "R2", AT(r2), ratio3},
    {MEMORY, "5 % TOO LOW", AT(too_low), text_percent},
    {RELATIVE, "IN 1 %", AT(within_1), text_percent},
    {RELATIVE, "IN 5 %", AT(within_5), text_percent},
    {RELATIVE, "IN 15 %", AT(within_15), text_percent},
    {POINTS, "ACCURACY", AT(accuracy), ratio3},
    {POINTS, "RECALL OF HIGH", AT(high_recall), ratio3},
    {POINTS, "MACRO F1", AT(macro_f1), ratio3},
    {MEMORY, "ABOVE HIGH", AT(above_high), text_percent},
    {RELATIVE | POINTS, "INSIDE", AT(inside), text_percent},
    {MEMORY | RELATIVE, "WIDTH", AT(width), text_percent},
    {POINTS, "WIDTH", AT(width), points},
    {MEMORY | RELATIVE, "EXACT", AT(exact), text_percent},
};

enum { MOST_COLUMNS = 24 };

typedef struct columns {
    const column *list;
    size_t count;
    target_kind kind;
    const char *last; /* head of a column behind them; NULL: none */
} columns;

static columns ranking_of(const char *target) {
    return (columns){ranking_columns, sizeof ranking_columns / sizeof *ranking_columns,
                     target_kind_of(target), "TRAINED S"};
}

static columns summary_of(const char *target) {
    return (columns){summary_columns, sizeof summary_columns / sizeof *summary_columns,
                     target_kind_of(target), NULL};
}

/* s NULL: the heads. */
static void columns_row(table *t, const columns *c, const char *name, const pl_scores *s,
                        const char *last) {
    small_text texts[MOST_COLUMNS];
    const char *cells[MOST_COLUMNS + 3];
    size_t count = 0;
    small_text jobs = s ? text_whole((int64_t)s->jobs) : (small_text){"JOBS"};
    cells[count++] = name;
    cells[count++] = jobs.text;
    for (size_t i = 0; i < c->count; i++) {
        const column *of = &c->list[i];
        if (!(of->kinds >> c->kind & 1)) continue;
        double figure = 0;
        if (s) memcpy(&figure, (const char *)s + of->place, sizeof figure);
        if (s) texts[i] = of->text(figure);
        cells[count++] = s ? texts[i].text : of->head;
    }
    if (c->last) cells[count++] = s ? last : c->last;
    table_row(t, cells);
}

static table *columns_table(const columns *c, const char *head) {
    static char letters[MOST_COLUMNS + 4]; /* the table points at it */
    size_t count = 2;
    for (size_t i = 0; i < c->count; i++) count += c->list[i].kinds >> c->kind & 1;
    count += c->last != NULL;
    memset(letters, 'r', count);
    letters[0] = 'l';
    letters[count] = '\0';
    table *t = table_new(letters);
    columns_row(t, c, head, NULL, NULL);
    return t;
}

/* ---- tables ---- */

table *ranking_table(const comparison *c, scope s) {
    columns shown = ranking_of(c->target);
    table *t = columns_table(&shown, "ESTIMATOR");
    const contender **order = need(c->ran, sizeof *order);
    size_t count = ranked(c, s, order);
    for (size_t i = 0; i < count; i++) {
        double seconds = order[i]->evaluation->train_s;
        small_text name = starred(order[i]), trained = text_fixed(seconds, seconds < 10 ? 2 : 0);
        columns_row(t, &shown, name.text, scores_in(order[i], s), trained.text);
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
        for (size_t k = 0; k < count; k++) {
            pl_scores of = scores_of_group(c->list[i].evaluation, g, values[k]);
            texts[k + 1] = target_is_counter(c->target) ? points_of(of.mae) : percent2(of.median);
        }
        for (size_t k = 0; k <= count; k++) cells[k] = texts[k].text;
        table_row(t, cells);
    }
    return t;
}

static table *summary_table(const char *target, const char *head) {
    columns shown = summary_of(target);
    return columns_table(&shown, head);
}

static void summary_row(table *t, const char *target, const char *name, pl_scores s) {
    columns shown = summary_of(target);
    columns_row(t, &shown, name, &s, NULL);
}

table *group_table(const pl_evaluation *e, const grouping *g) {
    static const char *const heads[] = {
        [KIND_MEMORY] = "PEAK", [KIND_RELATIVE] = "COMPUTE", [KIND_POINTS] = "USE"};
    const char *values[MOST_GROUPS];
    size_t count = group_values(e, g, values);
    if (count == 0) return NULL;
    table *t = summary_table(e->target, heads[target_kind_of(e->target)]);
    for (size_t i = 0; i < count; i++)
        summary_row(t, e->target, values[i][0] ? values[i] : "-", scores_of_group(e, g, values[i]));
    return t;
}

table *worst_table(const pl_evaluation *e) {
    const pl_trial *worst[WORST];
    size_t count = worst_trials(e, worst);
    bool memory = target_is_memory(e->target), counter = target_is_counter(e->target);
    table *t = table_new("lrrrrrll");
    table_row(t, (const char *[]){"JOB", "MEASURED", "PREDICTED", "ERROR",
                                  memory ? "ALLOCATED" : "FROM", memory ? "OUTSIDE" : "TO",
                                  "PRECISION", "OPTIMIZER"});
    for (size_t i = 0; i < count; i++) {
        const pl_trial *w = worst[i];
        char id[80], error[32];
        bool cut = strlen(w->id) >= 64; /* GPUMemNet's names of jobs say everything */
        snprintf(id, sizeof id, cut ? "%.60s..." : "%s", w->id);
        snprintf(error, sizeof error, counter ? "%s" : "%s %%",
                 PL_REAL("+.1f", 100 * trial_error(e->target, w)));
        double off = trial_allocated_error(w);
        small_text measured = target_text(e->target, w->measured),
                   predicted = target_text(e->target, w->predicted), from = {"-"}, to = {"-"};
        if (memory && isfinite(off))
            snprintf(from.text, sizeof from.text, "%s %%", PL_REAL("+.1f", 100 * off));
        if (memory && w->overhead_bytes >= 0 && w->measured_overhead >= 0)
            to = text_change(w->overhead_bytes - w->measured_overhead);
        if (!memory && isfinite(w->predicted_low) && isfinite(w->predicted_high)) {
            from = target_text(e->target, w->predicted_low);
            to = target_text(e->target, w->predicted_high);
        }
        table_row(t, (const char *[]){id, measured.text, predicted.text, error, from.text, to.text,
                                      w->precision, w->optimizer});
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

/* What a class is called: a level, or the lower edge of a bin. */
static small_text class_text(bool level, double mib, int64_t number) {
    if (!level) return text_fixed(mib * (double)number, 0);
    small_text t;
    snprintf(t.text, sizeof t.text, "%s", pl_level_name((pl_level)number));
    return t;
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
    bool levels = target_is_counter(e->target);
    for (size_t row = 0; row <= count; row++) {
        if (row == 0)
            texts[0] = (small_text){"FROM MIB"};
        else
            texts[0] = class_text(levels, mib, first + (int64_t)used[row - 1]);
        if (row == 0 && levels) texts[0] = (small_text){"CLASS"};
        for (size_t k = 0; k < count; k++) {
            uint64_t jobs = row ? counts[used[row - 1] * classes + used[k]] : 0;
            if (row == 0)
                texts[k + 1] = class_text(levels, mib, first + (int64_t)used[k]);
            else
                texts[k + 1] = jobs ? text_whole((int64_t)jobs) : (small_text){"."};
        }
        for (size_t k = 0; k <= count; k++) cells[k] = texts[k].text;
        table_row(t, cells);
    }
    free(counts);
    return t;
}

/* Publications of learned estimators give their accuracy in bins, and that of counters in classes.
 */
bool shows_bins(const comparison *c, const contender *of) {
    if (target_is_counter(c->target)) return isfinite(of->all.accuracy);
    return c->bin_bytes > 0 && target_is_memory(c->target) &&
           (c->request->bin > 0 || of->info->kind == PL_LEARNED);
}

/* ---- text ---- */

static void heading(const char *text) {
    printf("\n%s%s%s\n\n", text_style(BOLD), text, text_style(PLAIN));
}

/* Measured, with a graph, and no estimate all the same. */
static bool has_failed(const pl_trial *t) {
    return t->has_graph && t->status != PL_OK && isfinite(t->measured);
}

void print_failures(const pl_evaluation *e) {
    size_t shown = 0, failed = 0;
    for (size_t i = 0; i < e->count; i++) failed += has_failed(pl_evaluation_trial(e, i));
    if (!failed) return;
    printf("\n%zu could not be estimated\n\n", failed);
    for (size_t i = 0; i < e->count && shown < WORST; i++) {
        const pl_trial *t = pl_evaluation_trial(e, i);
        if (!has_failed(t)) continue;
        fputs("  ", stdout);
        text_clean(stdout, t->id);
        fputs(": ", stdout);
        char why[121];
        snprintf(why, sizeof why, "%s", t->message);
        text_clean(stdout, why);
        puts(strlen(t->message) < sizeof why ? "" : "...");
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
    bool counter = target_is_counter(c->target);
    snprintf(title, sizeof title, "in bins of %" PRId64 " MiB", c->bin_bytes >> 20);
    heading(counter ? "in paper 3's classes, by the jobs' families" : title);
    printf("  accuracy %s, precision %s, recall %s, F1 %s, macro F1 %s, below the "
           "diagonal %s %%\n",
           PL_REAL(".4f", n->accuracy), PL_REAL(".4f", n->precision), PL_REAL(".4f", n->recall),
           PL_REAL(".4f", n->f1), PL_REAL(".4f", n->macro_f1),
           PL_REAL(".2f", 100 * n->below_diagonal));
    if (counter && isfinite(n->high_recall))
        printf("  recall of high %s\n", PL_REAL(".4f", n->high_recall));
    table *t = confusion_table(of->evaluation, c->bin_bytes);
    if (t) {
        printf("\n  rows: what was measured; columns: what was predicted\n\n");
        table_print(t, stdout, 2);
    } else {
        printf("\n  the confusion matrix is too large to be shown here; --json has it\n");
    }
}

/* How many jobs took more than the line of a risk; a row per kind of interval, and all of them. */
static void print_risks(const pl_evaluation *e) {
    enum { RISKS = 6, MOST_ROWS = 8 };
    static const double risks[RISKS] = {0.2, 0.1, 0.05, 0.025, 0.01, 0.005};
    struct {
        const char *name;
        size_t jobs, above[RISKS];
    } rows[MOST_ROWS] = {{.name = "all"}};
    size_t count = 1;
    for (size_t i = 0; i < e->count; i++) {
        const pl_trial *t = pl_evaluation_trial(e, i);
        if (!trial_counts(t) || !isfinite(t->chance)) continue;
        size_t own = 1;
        while (own < count && strcmp(rows[own].name, t->interval) != 0) own++;
        if (own == MOST_ROWS) continue;
        if (own == count) rows[count++].name = t->interval;
        for (size_t row = 0; row <= own; row += own) {
            rows[row].jobs++;
            for (int k = 0; k < RISKS; k++) /* no chance is below the last of them */
                rows[row].above[k] += k + 1 < RISKS ? t->chance < risks[k] : t->chance <= risks[k];
        }
    }
    if (rows[0].jobs == 0) return;
    heading("above the line, by risk");
    table *table = table_new("lrrrrrrr");
    const char *cells[RISKS + 2] = {"INTERVAL", "JOBS"};
    small_text texts[RISKS + 2];
    for (int k = 0; k < RISKS; k++) {
        texts[k] = text_risk(risks[k]);
        cells[k + 2] = texts[k].text;
    }
    table_row(table, cells);
    for (size_t row = 0; row < count; row++) {
        cells[0] = rows[row].name;
        texts[RISKS] = text_whole((int64_t)rows[row].jobs);
        cells[1] = texts[RISKS].text;
        for (int k = 0; k < RISKS; k++)
            texts[k] = percent2((double)rows[row].above[k] / (double)rows[row].jobs);
        table_row(table, cells);
    }
    table_print(table, stdout, 2);
}

static void print_one(const comparison *c, const contender *of) {
    const pl_evaluation *e = of->evaluation;
    const pl_scores *n = &of->all;
    printf("%zu jobs", e->count);
    if (of->info->needs_graph) printf(", %zu without a graph", trials_without_graph(e));
    if (trials_unmeasured(e))
        printf(", %zu without a measured %s", trials_unmeasured(e), c->target);
    if (trials_cut_off(e)) printf(", %zu cut off by --max-memory or --max-time", trials_cut_off(e));
    printf("; estimator %s", e->estimator);
    print_split(c, e);
    printf(", %s s\n\n", PL_REAL(".1f", (double)e->elapsed_us / 1e6));
    table *t = summary_table(c->target, "ALL");
    bool memory = target_is_memory(c->target);
    summary_row(t, c->target, memory ? "nvidia-smi's peak" : target_title(c->target), *n);
    pl_scores allocated = scores_of_allocated(e);
    if (memory && allocated.jobs) summary_row(t, c->target, "peak allocated", allocated);
    table_print(t, stdout, 2);
    printf("\n  in %s: MSE %s, RMSE %s, MAE %s; ", target_unit(c->target), text_figure(n->mse).text,
           text_figure(n->rmse).text, text_figure(n->mae).text);
    if (isfinite(n->mape)) printf("MAPE %s, ", percent2(n->mape / 100).text);
    printf("R2 %s; %s us an estimate", ratio4(n->r2).text, text_figure(n->elapsed_us).text);
    if (isfinite(e->train_s)) printf(", %s s of training", PL_REAL(".1f", e->train_s));
    putchar('\n');
    for (size_t g = 0; g < GROUPINGS; g++) {
        t = group_table(e, &groupings[g]);
        if (!t) continue; /* no job has any */
        char title[32];
        snprintf(title, sizeof title, "by %s", groupings[g].name);
        heading(title);
        table_print(t, stdout, 2);
    }
    if (memory) print_risks(e);
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
    size_t cut_off = 0; /* of the estimator that most are cut off of */
    for (size_t i = 0; i < c->ran; i++) {
        size_t own = trials_cut_off(c->list[i].evaluation);
        if (own > cut_off) cut_off = own;
    }
    printf("%zu jobs", c->jobs);
    if (cut_off) printf(", up to %zu cut off by --max-memory or --max-time", cut_off);
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
