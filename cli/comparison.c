/* comparison: see comparison.h. The library runs the jobs (pl_evaluate) and scores them
 * (pl_evaluation_score); here estimators are ranked, groups of jobs are chosen, and what a reader
 * has to know before believing a figure is put into words. The error of a job is
 * (predicted - measured) / measured, of what nvidia-smi would have shown and, apart, of
 * peak_allocated. Percentiles are interpolated linearly between ranks, as numpy does. */
#include "comparison.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"

/* ---- trials ---- */

bool trial_counts(const pl_trial *t) {
    return t->status == PL_OK && isfinite(t->measured) && isfinite(t->predicted);
}

bool trial_is_real(const pl_trial *t) {
    return strcmp(t->source, "torchvision") == 0 || strcmp(t->source, "transformers") == 0;
}

double trial_error(const char *target, const pl_trial *t) {
    double off = t->predicted - t->measured;
    return target_is_counter(target) ? off / 100 : off / t->measured;
}

double trial_allocated_error(const pl_trial *t) {
    if (!trial_counts(t) || t->measured_allocated <= 0 || t->allocated_bytes < 0) return NAN;
    return ((double)t->allocated_bytes - (double)t->measured_allocated) /
           (double)t->measured_allocated;
}

size_t trials_without_graph(const pl_evaluation *e) {
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++) count += !pl_evaluation_trial(e, i)->has_graph;
    return count;
}

size_t trials_unmeasured(const pl_evaluation *e) {
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++)
        count += isfinite(pl_evaluation_trial(e, i)->measured) ? 0 : 1;
    return count;
}

size_t trials_cut_off(const pl_evaluation *e) {
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++) count += pl_evaluation_trial(e, i)->status == PL_LIMIT;
    return count;
}

/* ---- targets ---- */

static const struct target {
    const char *name, *unit, *title;
    target_kind kind;
} targets[] = {
    {"memory", "MB", "peak GPU memory", KIND_MEMORY},
    {"flops", "GFLOP", "compute of a step", KIND_RELATIVE},
    {"flop-rate", "GFLOP/s", "compute rate", KIND_RELATIVE},
    {"step_ms", "ms", "time of a step", KIND_RELATIVE},
    {"smact", "points", "activity of the multiprocessors (SMACT)", KIND_POINTS},
    {"smocc", "points", "occupancy of the multiprocessors (SMOCC)", KIND_POINTS},
    {"drama", "points", "activity of the memory (DRAMA)", KIND_POINTS},
    {"tensor", "points", "activity of the tensor cores", KIND_POINTS},
};

static const struct target *find_target(const char *name) {
    for (size_t i = 1; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, name) == 0) return &targets[i];
    return &targets[0];
}

target_kind target_kind_of(const char *target) {
    return find_target(target)->kind;
}

bool target_is_memory(const char *target) {
    return target_kind_of(target) == KIND_MEMORY;
}

bool target_is_counter(const char *target) {
    return target_kind_of(target) == KIND_POINTS;
}

const char *target_unit(const char *target) {
    return find_target(target)->unit;
}

const char *target_title(const char *target) {
    return find_target(target)->title;
}

small_text target_text(const char *target, double value) {
    if (target_is_memory(target)) return text_bytes(value >= 0 ? (int64_t)value : PL_UNKNOWN);
    small_text t = {"?"};
    if (isfinite(value) && target_is_counter(target))
        snprintf(t.text, sizeof t.text, "%s %%", PL_REAL(".1f", value));
    else if (isfinite(value))
        snprintf(t.text, sizeof t.text, "%s %s", PL_REAL(".4g", value), target_unit(target));
    return t;
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

const grouping groupings[GROUPINGS] = {
    {"family", family_key},
    {"source", source_key},
    {"precision", precision_key},
    {"optimizer", optimizer_key},
};

static int compare_strings(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

size_t group_values(const pl_evaluation *e, const grouping *g, const char **values) {
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++) {
        if (!trial_counts(pl_evaluation_trial(e, i))) continue;
        const char *value = g->key(pl_evaluation_trial(e, i));
        size_t k = 0;
        while (k < count && strcmp(values[k], value) != 0) k++;
        if (k == count && count < MOST_GROUPS) values[count++] = value;
    }
    if (count == 1 && values[0][0] == '\0') return 0;
    qsort(values, count, sizeof *values, compare_strings);
    return count;
}

/* ---- scores ---- */

/* keep and context: of pl_evaluation_score. */
static pl_scores score(const pl_evaluation *e, int64_t bin_bytes,
                       bool (*keep)(const pl_trial *, const void *), const void *context) {
    pl_scores scores = PL_SIZED(pl_scores);
    if (!pl_evaluation_score(&scores, e, bin_bytes, keep, context))
        exit(complain(PL_MISSING, "out of memory"));
    return scores;
}

pl_scores scores_of(const pl_evaluation *e, int64_t bin_bytes) {
    return score(e, bin_bytes, NULL, NULL);
}

typedef struct group {
    const grouping *by;
    const char *value;
} group;

static bool in_group(const pl_trial *t, const void *context) {
    const group *g = context;
    return strcmp(g->by->key(t), g->value) == 0;
}

pl_scores scores_of_group(const pl_evaluation *e, const grouping *g, const char *value) {
    group of = {g, value};
    return score(e, INT64_C(1) << 30, in_group, &of); /* bins are not shown by group */
}

static bool is_real(const pl_trial *t, const void *context) {
    (void)context;
    return trial_is_real(t);
}

/* context: a bool per trial */
static bool is_chosen(const pl_trial *t, const void *context) {
    return ((const bool *)context)[t->index];
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

pl_scores scores_of_allocated(const pl_evaluation *e) {
    pl_scores s = {.above_high = NAN, .width = NAN};
    double *errors = need(e->count, sizeof *errors);
    for (size_t i = 0; i < e->count; i++) {
        double off = trial_allocated_error(pl_evaluation_trial(e, i));
        if (isnan(off)) continue;
        errors[s.jobs++] = fabs(off);
        s.mean += fabs(off);
        s.too_low += off < -0.05;
        s.exact += off == 0;
    }
    qsort(errors, s.jobs, sizeof *errors, compare_doubles);
    double n = s.jobs ? (double)s.jobs : NAN;
    s.mean /= n;
    s.too_low /= n;
    s.exact /= n;
    s.median = percentile(errors, s.jobs, 0.5);
    s.p90 = percentile(errors, s.jobs, 0.9);
    free(errors);
    return s;
}

typedef struct wrong {
    const pl_trial *trial;
    double error; /* its size */
} wrong;

static int compare_wrong(const void *a, const void *b) {
    const wrong *left = a, *right = b;
    if (left->error != right->error) return left->error > right->error ? -1 : 1;
    return strcmp(left->trial->id, right->trial->id);
}

size_t worst_trials(const pl_evaluation *e, const pl_trial **worst) {
    wrong *all = need(e->count, sizeof *all);
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++)
        if (trial_counts(pl_evaluation_trial(e, i)))
            all[count++] = (wrong){pl_evaluation_trial(e, i),
                                   fabs(trial_error(e->target, pl_evaluation_trial(e, i)))};
    qsort(all, count, sizeof *all, compare_wrong);
    size_t kept = count < WORST ? count : WORST;
    for (size_t i = 0; i < kept; i++) worst[i] = all[i].trial;
    free(all);
    return kept;
}

/* ---- remarks ---- */

static void remark(comparison *c, const char *format, ...) CLI_PRINTF(2, 3);
static void remark(comparison *c, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (strlen(text) + strlen(hint_of(text)) < sizeof text) strcat(text, hint_of(text));
    c->remarks[c->remark_count++] = need_string(text);
}

/* "a, b and c", of the contenders that ask picks; how many they are. */
static size_t name_those(const comparison *c, bool (*ask)(const contender *), char *out,
                         size_t size) {
    size_t count = 0, named = 0, used = 0;
    for (size_t i = 0; i < c->ran; i++) count += ask(&c->list[i]);
    out[0] = '\0';
    for (size_t i = 0; i < c->ran && used < size; i++) {
        if (!ask(&c->list[i])) continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 named == 0           ? ""
                                 : named + 1 == count ? " and "
                                                      : ", ",
                                 c->list[i].info->name);
        named++;
    }
    return count;
}

static bool has_seen(const contender *of) {
    return of->evaluation->seen;
}

static bool goes_without(const contender *of) {
    if (!of->info->needs_graph) return false;
    for (size_t i = 0; i < of->evaluation->count; i++) {
        const pl_trial *t = pl_evaluation_trial(of->evaluation, i);
        if (t->status != PL_OK && isfinite(t->measured) && !t->has_graph) return true;
    }
    return false;
}

/* Failures that are not for want of a graph or of a measurement; *first: the first of them. */
static size_t failures(const contender *of, const pl_trial **first) {
    const pl_evaluation *e = of->evaluation;
    size_t count = 0;
    *first = NULL;
    for (size_t i = 0; i < e->count; i++) {
        const pl_trial *t = pl_evaluation_trial(e, i);
        if (t->status == PL_OK || !isfinite(t->measured)) continue;
        if (of->info->needs_graph && !t->has_graph) continue;
        if (count++ == 0) *first = t;
    }
    return count;
}

/* Estimators that stumble over the same jobs for the same reason share a remark. */
static void remark_failures(comparison *c) {
    bool *said = need(c->ran, sizeof *said);
    for (size_t i = 0; i < c->ran; i++) {
        const pl_trial *first, *other;
        size_t failed = failures(&c->list[i], &first), alike = 0, used = 0;
        char names[512] = "";
        if (!failed || said[i]) continue;
        for (size_t k = i; k < c->ran; k++) {
            if (failures(&c->list[k], &other) != failed || strcmp(other->id, first->id) != 0 ||
                strcmp(other->message, first->message) != 0)
                continue;
            said[k] = true;
            if (used < sizeof names)
                used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                         alike ? ", " : "", c->list[k].info->name);
            alike++;
        }
        remark(c, "%s could not estimate %zu job%s; the first, %s: %s", names, failed,
               failed == 1 ? "" : "s", first->id, first->message);
    }
    free(said);
}

static void find_remarks(comparison *c) {
    char names[512];
    c->remarks = need(3 * c->count + 5, sizeof *c->remarks);
    size_t count = name_those(c, has_seen, names, sizeof names);
    if (count)
        remark(c,
               "* %s may have learnt from these very jobs: %s figures prove nothing; --split row, "
               "model or family trains anew and predicts what was left out",
               names, count == 1 ? "its" : "their");
    size_t unmeasured = c->ran ? trials_unmeasured(c->list[0].evaluation) : 0;
    if (unmeasured)
        remark(c, "%zu of the %zu jobs are left out: they have no measured %s", unmeasured, c->jobs,
               c->target);
    count = name_those(c, goes_without, names, sizeof names);
    for (size_t i = 0; count && i < c->ran; i++)
        if (goes_without(&c->list[i])) {
            remark(c, "%s need%s a graph: %zu of the %zu jobs have none", names,
                   count == 1 ? "s" : "", trials_without_graph(c->list[i].evaluation), c->jobs);
            break;
        }
    for (size_t i = 0; i < c->ran; i++) { /* each once */
        const char *text = c->list[i].evaluation->remark;
        for (size_t k = 0; text && k < i; k++)
            if (c->list[k].evaluation->remark == text) text = NULL;
        if (text) remark(c, "%s", text);
    }
    remark_failures(c);
    for (size_t i = c->ran; i < c->count; i++)
        remark(c, "%s is left out: %s", c->list[i].info->name, c->list[i].left_out);
}

/* ---- ranks ---- */

double rank_of(const char *target, const pl_scores *s) {
    return target_is_counter(target) ? s->mae : s->median;
}

static int compare_contenders(const void *a, const void *b) {
    const contender *left = a, *right = b;
    if (!left->evaluation != !right->evaluation) return left->evaluation ? -1 : 1;
    double l = left->evaluation ? rank_of(left->evaluation->target, &left->all) : 0,
           r = right->evaluation ? rank_of(right->evaluation->target, &right->all) : 0;
    if (isnan(l) != isnan(r)) return isnan(l) ? 1 : -1;
    if (l < r || l > r) return l < r ? -1 : 1;
    return strcmp(left->info->name, right->info->name);
}

static void score_common(comparison *c) {
    bool *chosen = need(c->jobs, sizeof *chosen);
    size_t most = 0, wide = 0;
    for (size_t i = 0; i < c->ran; i++)
        if (c->list[i].all.jobs > most) most = c->list[i].all.jobs;
    for (size_t i = 0; i < c->ran; i++) {
        c->list[i].narrow = c->list[i].all.jobs < most / 2;
        wide += !c->list[i].narrow;
    }
    c->common_jobs = 0;
    for (size_t k = 0; k < c->jobs; k++) {
        size_t with = 0;
        for (size_t i = 0; i < c->ran; i++)
            with +=
                !c->list[i].narrow && trial_counts(pl_evaluation_trial(c->list[i].evaluation, k));
        chosen[k] = with == wide;
        c->common_jobs += chosen[k];
        c->differ = c->differ || (with > 0 && with < wide);
    }
    for (size_t i = 0; i < c->ran; i++) {
        c->list[i].common = score(c->list[i].evaluation, c->bin_bytes, is_chosen, chosen);
    }
    free(chosen);
}

void comparison_rank(comparison *c) {
    c->ran = 0;
    for (size_t i = 0; i < c->count; i++) {
        contender *of = &c->list[i];
        if (!of->evaluation) continue;
        c->ran++;
        of->all = scores_of(of->evaluation, c->bin_bytes);
        of->real = score(of->evaluation, c->bin_bytes, is_real, NULL);
    }
    qsort(c->list, c->count, sizeof *c->list, compare_contenders);
    if (c->ran) score_common(c);
    find_remarks(c);
}

void comparison_free(comparison *c) {
    for (size_t i = 0; i < c->count; i++) {
        pl_evaluation_close(&c->list[i].evaluation);
        free(c->list[i].left_out);
    }
    for (size_t i = 0; i < c->remark_count; i++) free(c->remarks[i]);
    free(c->remarks);
    free(c->list);
    free(c->command);
    *c = (comparison){0};
}
