/* markdown: a comparison as a report in Markdown that stands for itself: what was run on what, with
 * which seed and folds, the tables, and the pictures, which are written beside it (NAME-bars.svg,
 * NAME-scatter.svg) and shown by name alone, so that the folder can be moved. Nothing in it gives
 * the date or the machine: the same run gives the same report but for the times. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"
#include "output.h"

/* "dir/name.md" and "-bars.svg" to "dir/name-bars.svg"; malloc'ed. */
static char *beside(const char *path, const char *ending) {
    size_t stem = strlen(path) - strlen(".md");
    char *text = need(stem + strlen(ending) + 1, 1);
    memcpy(text, path, stem);
    strcpy(text + stem, ending);
    return text;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A link's target: what a URL cannot hold is written as %XX. */
static void put_picture(FILE *out, const char *what, const char *path) {
    fprintf(out, "![%s](", what);
    for (const char *at = base_name(path); *at; at++) {
        if (strchr("-_.~", *at) || (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') ||
            (*at >= 'A' && *at <= 'Z'))
            putc(*at, out);
        else
            fprintf(out, "%%%02X", (unsigned)(unsigned char)*at);
    }
    fputs(")\n\n", out);
}

static void put_heading(FILE *out, const char *text) {
    fputs("## ", out);
    text_markdown(out, text);
    fputs("\n\n", out);
}

static void put_table(FILE *out, const char *title, table *t) {
    if (!t) return;
    put_heading(out, title);
    table_markdown(t, out);
    putc('\n', out);
}

/* Fenced code: indented by four, so that no word of it can end it. */
static void put_code(FILE *out, const char *text) {
    fputs("    ", out);
    for (; *text; text++) putc((unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text, out);
    fputs("\n\n", out);
}

static void put_how(FILE *out, const comparison *c) {
    const request *r = c->request;
    fprintf(out, "plimsoll %s, %zu jobs of ", pl_version(), c->jobs);
    for (size_t i = 0; i < r->files.count; i++) {
        if (i) fputs(", ", out);
        text_markdown(out, base_name(r->files.names[i]));
    }
    fputs("; the command:\n\n", out);
    put_code(out, c->command);
    int folds = 0;
    for (size_t i = 0; i < c->ran; i++)
        if (c->list[i].evaluation->folds > folds) folds = c->list[i].evaluation->folds;
    if (folds > 0)
        fprintf(out,
                "What learns was trained anew for each of %d folds and predicted what was left "
                "out; the folds are by %s, seed %" PRIu64 ". ",
                folds, split_name((size_t)r->split), r->seed);
    else
        fputs("Nothing was trained: what learns has the weights it came with. ", out);
    if (r->set) {
        fputs("Settings of training: ", out);
        text_markdown(out, r->set);
        fputs(". ", out);
    }
    fprintf(out, "Predicted is the %s. MSE, RMSE and MAE are in %s%s, MEDIAN and P90 are of %s; ",
            target_title(c->target), target_unit(c->target),
            target_is_memory(c->target) ? " (10^6 bytes)" : "",
            target_is_counter(c->target) ? "\\|predicted - measured\\|"
                                         : "\\|predicted - measured\\| / measured");
    if (target_is_memory(c->target))
        fprintf(out, "ACCURACY and F1 (weighted by class) are in bins of %" PRId64 " MiB; ",
                c->bin_bytes >> 20);
    if (target_is_counter(c->target))
        fputs("ACCURACY, RECALL OF HIGH and MACRO F1 are in paper 3's classes, by the jobs' "
              "families; ",
              out);
    fputs("US EACH is the median time of one estimate, graph and counts there already.\n\n", out);
}

static void put_groups(FILE *out, const comparison *c) {
    for (size_t g = 0; g < GROUPINGS; g++) {
        char title[64];
        bool one = c->ran == 1;
        snprintf(title, sizeof title, "%s by %s",
                 one                            ? "Errors"
                 : target_is_counter(c->target) ? "Mean error in points"
                                                : "Median error",
                 groupings[g].name);
        put_table(out, title,
                  one ? group_table(c->list[0].evaluation, &groupings[g])
                      : median_table(c, &groupings[g]));
    }
}

static void put_confusion(FILE *out, const comparison *c) {
    for (size_t i = 0; i < c->ran; i++) {
        const contender *of = &c->list[i];
        if (c->ran > 1 && c->request->bin == 0 && target_is_memory(c->target)) return;
        if (!shows_bins(c, of)) continue;
        char title[128];
        snprintf(title, sizeof title, "Confusion matrix of %s (rows: measured, columns: predicted)",
                 of->info->name);
        put_table(out, title, confusion_table(of->evaluation, c->bin_bytes));
    }
}

static void put_report(FILE *out, const comparison *c, const char *bars, const char *scatter) {
    fputs("# Estimators against measured jobs\n\n", out);
    put_how(out, c);
    for (int s = SCOPE_ALL; s <= SCOPE_COMMON; s++)
        if (scope_shown(c, (scope)s))
            put_table(out, scope_title(c, (scope)s), ranking_table(c, (scope)s));
    if (c->remark_count) put_heading(out, "remarks");
    for (size_t i = 0; i < c->remark_count; i++) {
        fputs("- ", out);
        text_markdown(out, c->remarks[i]);
        putc('\n', out);
    }
    if (c->remark_count) putc('\n', out);
    put_picture(out, "Relative errors by estimator", bars);
    put_picture(out, "Predicted against measured peaks", scatter);
    put_groups(out, c);
    if (c->bin_bytes > 0 && target_is_memory(c->target)) put_table(out, "In bins", bins_table(c));
    put_confusion(out, c);
    if (c->ran == 1) put_table(out, "The worst", worst_table(c->list[0].evaluation));
}

int comparison_markdown(const comparison *c, const char *path) {
    char *bars = beside(path, "-bars.svg"), *scatter = beside(path, "-scatter.svg");
    int code = bars_write(c, bars);
    if (code == 0) code = scatter_write(c, scatter);
    output file;
    FILE *out = code == 0 ? output_open(&file, path, &code) : NULL;
    if (out) {
        put_report(out, c, bars, scatter);
        code = output_close(&file);
    }
    free(bars);
    free(scatter);
    return code;
}
