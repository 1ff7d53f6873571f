/* evaluate: an estimator against measured jobs. The library runs the jobs (pl_evaluate); here they
 * are summed up. The error of a job is (predicted - measured) / measured, of what nvidia-smi would
 * have shown (peak_reserved + overhead) and, apart, of peak_allocated. Percentiles are interpolated
 * linearly between ranks, as numpy does. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "scatter.h"
#include "text.h"
#include "verbs.h"

enum { WORST = 20 };

typedef struct summary {
    size_t jobs;
    double median, mean, p90; /* of |error| */
    double too_low;           /* share of jobs more than 5 % too low */
    double above_high;        /* share whose truth lies above high */
    double width;             /* median of (high - low) / peak */
    double exact;             /* share without any error */
} summary;

static double error_of(const pl_trial *t) {
    return ((double)t->peak_bytes - (double)t->measured_bytes) / (double)t->measured_bytes;
}

static double allocated_error_of(const pl_trial *t) {
    return ((double)t->allocated_bytes - (double)t->measured_allocated) /
           (double)t->measured_allocated;
}

/* Jobs that have an estimate and a measurement to hold it against. */
static bool counts(const pl_trial *t) {
    return t->status == PL_OK && t->measured_bytes > 0 && t->measured_allocated > 0;
}

static int compare_doubles(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* Of sorted values. */
static double percentile(const double *sorted, size_t count, double share) {
    if (count == 0) return NAN;
    double rank = share * (double)(count - 1);
    size_t below = (size_t)rank;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (rank - (double)below) * (sorted[below + 1] - sorted[below]);
}

/* Of the jobs whose key is value; value NULL: of all. */
static summary summarise(const pl_evaluation *e, const char *(*key)(const pl_trial *),
                         const char *value, double (*error)(const pl_trial *)) {
    summary s = {0};
    double *errors = need(e->count, sizeof *errors), *widths = need(e->count, sizeof *widths);
    for (size_t i = 0; i < e->count; i++) {
        const pl_trial *t = &e->trials[i];
        if (!counts(t) || (value && strcmp(key(t), value) != 0)) continue;
        double off = error(t);
        errors[s.jobs] = fabs(off);
        widths[s.jobs] = (double)(t->high_bytes - t->low_bytes) / (double)t->peak_bytes;
        s.jobs++;
        s.mean += fabs(off);
        s.too_low += off < -0.05;
        s.above_high += t->measured_bytes > t->high_bytes;
        s.exact += off == 0;
    }
    qsort(errors, s.jobs, sizeof *errors, compare_doubles);
    qsort(widths, s.jobs, sizeof *widths, compare_doubles);
    double n = s.jobs ? (double)s.jobs : NAN;
    s.mean /= n;
    s.too_low /= n;
    s.above_high /= n;
    s.exact /= n;
    s.median = percentile(errors, s.jobs, 0.5);
    s.p90 = percentile(errors, s.jobs, 0.9);
    s.width = percentile(widths, s.jobs, 0.5);
    free(errors);
    free(widths);
    return s;
}

/* ---- groups ---- */

static const char *family_key(const pl_trial *t) {
    return t->family;
}
static const char *source_key(const pl_trial *t) {
    return t->source;
}
static const char *precision_key(const pl_trial *t) {
    return t->precision;
}
static const char *optimizer_key(const pl_trial *t) {
    return t->optimizer;
}

static const struct grouping {
    const char *name;
    const char *(*key)(const pl_trial *);
} groupings[] = {
    {"family", family_key},
    {"source", source_key},
    {"precision", precision_key},
    {"optimizer", optimizer_key},
};
enum { GROUPINGS = sizeof groupings / sizeof *groupings, MOST_GROUPS = 64 };

static int compare_strings(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The different values of a key, sorted; at most MOST_GROUPS. */
static size_t group_values(const pl_evaluation *e, const struct grouping *g, const char **values) {
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++) {
        if (!counts(&e->trials[i])) continue;
        const char *value = g->key(&e->trials[i]);
        size_t k = 0;
        while (k < count && strcmp(values[k], value) != 0) k++;
        if (k == count && count < MOST_GROUPS) values[count++] = value;
    }
    qsort(values, count, sizeof *values, compare_strings);
    return count;
}

static int compare_trials(const void *a, const void *b) {
    const pl_trial *left = *(const pl_trial *const *)a, *right = *(const pl_trial *const *)b;
    double worse = fabs(error_of(right)) - fabs(error_of(left));
    return worse < 0 ? -1 : worse > 0 ? 1 : strcmp(left->id, right->id);
}

/* The worst first. */
static size_t worst_trials(const pl_evaluation *e, const pl_trial **worst) {
    const pl_trial **all = need(e->count, sizeof *all);
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++)
        if (counts(&e->trials[i])) all[count++] = &e->trials[i];
    qsort(all, count, sizeof *all, compare_trials);
    size_t kept = count < WORST ? count : WORST;
    memcpy(worst, all, kept * sizeof *worst);
    free(all);
    return kept;
}

/* ---- text ---- */

static void summary_row(table *t, const char *name, summary s, bool interval) {
    small_text jobs = text_whole((int64_t)s.jobs), low = text_percent(s.too_low),
               above = text_percent(s.above_high), width = text_percent(s.width),
               exact = text_percent(s.exact);
    char median[32], mean[32], p90[32];
    snprintf(median, sizeof median, "%.2f %%", 100 * s.median);
    snprintf(mean, sizeof mean, "%.2f %%", 100 * s.mean);
    snprintf(p90, sizeof p90, "%.2f %%", 100 * s.p90);
    table_row(t, (const char *[]){name, jobs.text, median, mean, p90, low.text,
                                  interval ? above.text : "-", interval ? width.text : "-",
                                  exact.text});
}

static table *summary_table(const char *head) {
    table *t = table_new("lrrrrrrrr");
    table_row(t, (const char *[]){head, "JOBS", "MEDIAN", "MEAN", "P90", "5 % TOO LOW",
                                  "ABOVE HIGH", "WIDTH", "EXACT"});
    return t;
}

static void print_failures(const pl_evaluation *e) {
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

static void print_worst(const pl_evaluation *e) {
    const pl_trial *worst[WORST];
    size_t count = worst_trials(e, worst);
    printf("\n%sthe worst%s\n\n", text_style(BOLD), text_style(PLAIN));
    table *t = table_new("lrrrrrll");
    table_row(t, (const char *[]){"JOB", "MEASURED", "PREDICTED", "ERROR", "ALLOCATED", "OUTSIDE",
                                  "PRECISION", "OPTIMIZER"});
    for (size_t i = 0; i < count; i++) {
        const pl_trial *w = worst[i];
        char error[32], allocated[32];
        snprintf(error, sizeof error, "%+.1f %%", 100 * error_of(w));
        snprintf(allocated, sizeof allocated, "%+.1f %%", 100 * allocated_error_of(w));
        small_text measured = text_bytes(w->measured_bytes), predicted = text_bytes(w->peak_bytes),
                   outside = text_change(w->overhead_bytes - w->measured_overhead);
        table_row(t, (const char *[]){w->id, measured.text, predicted.text, error, allocated,
                                      outside.text, w->precision, w->optimizer});
    }
    table_print(t, stdout, 2);
}

static size_t without_graph(const pl_evaluation *e) {
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++) count += !e->trials[i].has_graph;
    return count;
}

static void print_text(const pl_evaluation *e) {
    printf("%zu jobs, %zu without a graph; estimator %s, %.1f s\n\n", e->count, without_graph(e),
           e->estimator, (double)e->elapsed_us / 1e6);
    table *t = summary_table("ALL");
    summary_row(t, "nvidia-smi's peak", summarise(e, NULL, NULL, error_of), true);
    summary_row(t, "peak allocated", summarise(e, NULL, NULL, allocated_error_of), false);
    table_print(t, stdout, 2);
    for (size_t g = 0; g < GROUPINGS; g++) {
        const char *values[MOST_GROUPS];
        size_t count = group_values(e, &groupings[g], values);
        printf("\n%sby %s%s\n\n", text_style(BOLD), groupings[g].name, text_style(PLAIN));
        t = summary_table("PEAK");
        for (size_t i = 0; i < count; i++)
            summary_row(t, values[i][0] ? values[i] : "-",
                        summarise(e, groupings[g].key, values[i], error_of), true);
        table_print(t, stdout, 2);
    }
    print_worst(e);
    print_failures(e);
}

/* ---- JSON and CSV ---- */

static void json_summary(json *j, const char *key, const char *name, summary s, bool interval) {
    json_open(j, key, '{');
    if (name) json_string(j, "name", name);
    json_int(j, "jobs", (int64_t)s.jobs);
    json_float(j, "median", s.median);
    json_float(j, "mean", s.mean);
    json_float(j, "p90", s.p90);
    json_float(j, "too_low", s.too_low);
    json_float(j, "exact", s.exact);
    if (interval) {
        json_float(j, "above_high", s.above_high);
        json_float(j, "width", s.width);
    }
    json_close(j, '}');
}

static void json_trial(json *j, const pl_trial *t) {
    bool known = t->status == PL_OK;
    json_open(j, NULL, '{');
    json_string(j, "id", t->id);
    json_bool(j, "graph", t->has_graph);
    json_bytes(j, "measured_bytes", t->measured_bytes);
    json_bytes(j, "measured_allocated", t->measured_allocated);
    json_bytes(j, "peak_bytes", known ? t->peak_bytes : PL_UNKNOWN);
    json_bytes(j, "low_bytes", known ? t->low_bytes : PL_UNKNOWN);
    json_bytes(j, "high_bytes", known ? t->high_bytes : PL_UNKNOWN);
    json_bytes(j, "allocated_bytes", known ? t->allocated_bytes : PL_UNKNOWN);
    json_float(j, "error", counts(t) ? error_of(t) : NAN);
    json_float(j, "allocated_error", counts(t) ? allocated_error_of(t) : NAN);
    json_string(j, "message", known ? NULL : t->message);
    json_close(j, '}');
}

static void print_json(const pl_evaluation *e) {
    json j = {.out = stdout};
    json_open(&j, NULL, '{');
    json_int(&j, "schema", 1);
    json_string(&j, "estimator", e->estimator);
    json_int(&j, "jobs", (int64_t)e->count);
    json_int(&j, "without_graph", (int64_t)without_graph(e));
    json_summary(&j, "peak", NULL, summarise(e, NULL, NULL, error_of), true);
    json_summary(&j, "allocated", NULL, summarise(e, NULL, NULL, allocated_error_of), false);
    for (size_t g = 0; g < GROUPINGS; g++) {
        const char *values[MOST_GROUPS];
        size_t count = group_values(e, &groupings[g], values);
        char key[32];
        snprintf(key, sizeof key, "by_%s", groupings[g].name);
        json_open(&j, key, '[');
        for (size_t i = 0; i < count; i++)
            json_summary(&j, NULL, values[i], summarise(e, groupings[g].key, values[i], error_of),
                         true);
        json_close(&j, ']');
    }
    const pl_trial *worst[WORST];
    size_t count = worst_trials(e, worst);
    json_open(&j, "worst", '[');
    for (size_t i = 0; i < count; i++) json_string(&j, NULL, worst[i]->id);
    json_close(&j, ']');
    json_open(&j, "trials", '[');
    for (size_t i = 0; i < e->count; i++) json_trial(&j, &e->trials[i]);
    json_close(&j, ']');
    json_int(&j, "elapsed_us", e->elapsed_us);
    json_close(&j, '}');
    putchar('\n');
}

static void csv_field(FILE *out, const char *text) {
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"') putc('"', out);
        putc((unsigned char)*text < 0x20 ? '?' : *text, out);
    }
    putc('"', out);
}

static int write_csv(const char *path, const pl_evaluation *e) {
    FILE *out = fopen(path, "w");
    if (!out) return complain(PL_MISSING, "%s: could not be written: %s", path, strerror(errno));
    fputs("id,family,source,precision,optimizer,graph,status,measured_bytes,measured_allocated,"
          "measured_reserved,measured_overhead,peak_bytes,low_bytes,high_bytes,allocated_bytes,"
          "reserved_bytes,overhead_bytes,error,allocated_error,elapsed_us\n",
          out);
    for (size_t i = 0; i < e->count; i++) {
        const pl_trial *t = &e->trials[i];
        const char *const names[] = {t->id, t->family, t->source, t->precision, t->optimizer};
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            csv_field(out, names[k]);
            putc(',', out);
        }
        fprintf(out, "%d,%d,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",", t->has_graph,
                (int)t->status, t->measured_bytes, t->measured_allocated, t->measured_reserved,
                t->measured_overhead);
        if (t->status == PL_OK)
            fprintf(out,
                    "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                    ",%.6f,%.6f,%" PRId64 "\n",
                    t->peak_bytes, t->low_bytes, t->high_bytes, t->allocated_bytes,
                    t->reserved_bytes, t->overhead_bytes, error_of(t), allocated_error_of(t),
                    t->elapsed_us);
        else
            fputs(",,,,,,,,\n", out);
    }
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0) failed = true;
    return failed ? complain(PL_MISSING, "%s: could not be written: %s", path, strerror(errno)) : 0;
}

/* ---- the verb ---- */

static void show_progress(size_t done, size_t total, void *context) {
    (void)context;
    progress_total(total);
    progress_at(done);
}

int verb_evaluate(const request *r) {
    if (!r->graphs)
        return complain(PL_USAGE, "evaluate needs --graphs DIR, the folder of the jobs' graphs");
    if (r->scatter && !text_ends(r->scatter, ".svg"))
        return complain(PL_USAGE, "--scatter: %s does not end in .svg", r->scatter);
    pl_evaluate_settings settings;
    pl_evaluate_settings_default(&settings);
    settings.estimator = r->job.estimator;
    settings.gpu = r->job.gpu;
    settings.threads = (int)r->threads;
    settings.progress = show_progress;
    pl_evaluation *evaluation = NULL;
    pl_error err;
    progress_start("estimating", 0);
    pl_status status = pl_evaluate(&evaluation, r->file, r->graphs, &settings, &err);
    progress_stop();
    if (status != PL_OK) /* the folder is no part of the file of jobs */
        return complain_of(&err, strcmp(err.where, r->graphs) == 0 ? NULL : r->file);
    int code = 0;
    if (without_graph(evaluation) == evaluation->count)
        code = complain(PL_INPUT,
                        "%s: none of its %zu jobs has a graph in %s; the graph of job ID is looked "
                        "for as ID.pt2, ID.json, ID.pt2.xz or ID.json.xz",
                        r->file, evaluation->count, r->graphs);
    else if (summarise(evaluation, NULL, NULL, error_of).jobs == 0)
        code = complain(PL_INPUT, "%s: none of its %zu jobs could be estimated with a graph of %s",
                        r->file, evaluation->count, r->graphs);
    if (r->csv) {
        int failed = write_csv(r->csv, evaluation);
        if (code == 0) code = failed;
    }
    if (code == 0 && r->scatter)
        code = scatter_write(r->scatter, evaluation,
                             summarise(evaluation, NULL, NULL, error_of).median);
    if (code == 0 || code == PL_INPUT) {
        if (r->json)
            print_json(evaluation);
        else if (code == 0)
            print_text(evaluation);
        else
            print_failures(evaluation);
    }
    pl_evaluation_close(&evaluation);
    return code;
}
