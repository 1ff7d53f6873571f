/* export: a comparison as JSON and as CSV (docs/formats.md): everything that is known of every job,
 * numbers as numbers, unknown as null or as an empty field. The JSON of one estimator is one
 * object; that of several has such objects in "estimators", the best first. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"
#include "core/number.h"
#include "json.h"
#include "output.h"

/* ---- JSON ---- */

static void json_errors(json *j, const pl_scores *s) {
    json_int(j, "jobs", (int64_t)s->jobs);
    json_float(j, "median", s->median);
    json_float(j, "mean", s->mean);
    json_float(j, "p90", s->p90);
    json_float(j, "too_low", s->too_low);
    json_float(j, "exact", s->exact);
}

static void json_shares(json *j, const pl_scores *s) {
    json_float(j, "within_1", s->within_1);
    json_float(j, "within_5", s->within_5);
    json_float(j, "within_15", s->within_15);
    json_float(j, "inside", s->inside);
}

static void json_scores(json *j, const char *key, const char *name, const pl_scores *s, bool bins) {
    json_open(j, key, '{');
    if (name) json_string(j, "name", name);
    json_errors(j, s);
    json_shares(j, s);
    json_float(j, "above_high", s->above_high);
    json_float(j, "width", s->width);
    json_float(j, "mse", s->mse);
    json_float(j, "rmse", s->rmse);
    json_float(j, "mae", s->mae);
    json_float(j, "mape", s->mape);
    json_float(j, "r2", s->r2);
    json_float(j, "elapsed_us", s->elapsed_us);
    if (bins) {
        json_float(j, "accuracy", s->accuracy);
        json_float(j, "precision", s->precision);
        json_float(j, "recall", s->recall);
        json_float(j, "f1", s->f1);
        json_float(j, "macro_f1", s->macro_f1);
        json_float(j, "below_diagonal", s->below_diagonal);
        json_float(j, "high_recall", s->high_recall);
    }
    json_close(j, '}');
}

static void json_confusion(json *j, const pl_evaluation *e, int64_t bin_bytes) {
    enum { MOST_CLASSES = 4096 };
    size_t classes = 0;
    int64_t first = 0;
    bool has = target_is_counter(e->target) || (bin_bytes > 0 && target_is_memory(e->target));
    uint64_t *counts = has ? pl_evaluation_confusion(e, bin_bytes, &classes, &first) : NULL;
    if (!counts || classes > MOST_CLASSES) {
        free(counts);
        json_string(j, "confusion", NULL);
        return;
    }
    json_open(j, "confusion", '{');
    json_int(j, "first_bin", first);
    json_open(j, "counts", '['); /* a row a measured bin, a column a predicted one */
    for (size_t row = 0; row < classes; row++) {
        json_open(j, NULL, '[');
        for (size_t k = 0; k < classes; k++) json_int(j, NULL, (int64_t)counts[row * classes + k]);
        json_close(j, ']');
    }
    json_close(j, ']');
    json_close(j, '}');
    free(counts);
}

static void json_trial(json *j, const char *target, const pl_trial *t) {
    bool known = t->status == PL_OK;
    json_open(j, NULL, '{');
    json_string(j, "id", t->id);
    json_bool(j, "graph", t->has_graph);
    if (t->fold >= 0)
        json_int(j, "fold", t->fold);
    else
        json_string(j, "fold", NULL);
    json_float(j, "measured", t->measured);
    json_float(j, "predicted", known ? t->predicted : NAN);
    json_float(j, "predicted_low", known ? t->predicted_low : NAN);
    json_float(j, "predicted_high", known ? t->predicted_high : NAN);
    json_bytes(j, "measured_bytes", t->measured_bytes);
    json_bytes(j, "measured_allocated", t->measured_allocated);
    json_bytes(j, "peak_bytes", known ? t->peak_bytes : PL_UNKNOWN);
    json_bytes(j, "low_bytes", known ? t->low_bytes : PL_UNKNOWN);
    json_bytes(j, "high_bytes", known ? t->high_bytes : PL_UNKNOWN);
    json_bytes(j, "allocated_bytes", known ? t->allocated_bytes : PL_UNKNOWN);
    json_float(j, "error", trial_counts(t) ? trial_error(target, t) : NAN);
    json_float(j, "allocated_error", trial_allocated_error(t));
    json_float(j, "elapsed_us", known ? t->elapsed_us : NAN);
    json_string(j, "message", known ? NULL : t->message);
    json_close(j, '}');
}

/* The members of an estimator's object. */
static void json_contender(json *j, const comparison *c, const contender *of) {
    const pl_evaluation *e = of->evaluation;
    json_string(j, "estimator", e->estimator);
    json_int(j, "jobs", (int64_t)e->count);
    json_int(j, "without_graph", (int64_t)trials_without_graph(e));
    json_int(j, "unmeasured", (int64_t)trials_unmeasured(e));
    json_string(j, "split", split_name((size_t)e->split));
    json_int(j, "folds", e->folds);
    json_bool(j, "seen", e->seen);
    json_float(j, "train_s", e->train_s);
    static const char *const keys[] = {
        [KIND_MEMORY] = "peak", [KIND_RELATIVE] = "compute", [KIND_POINTS] = "utilization"};
    json_scores(j, keys[target_kind_of(c->target)], NULL, &of->all, true);
    pl_scores allocated = scores_of_allocated(e);
    json_open(j, "allocated", '{');
    json_errors(j, &allocated);
    json_close(j, '}');
    json_scores(j, "real", NULL, &of->real, true);
    json_scores(j, "common", NULL, &of->common, true);
    for (size_t g = 0; g < GROUPINGS; g++) {
        const char *values[MOST_GROUPS];
        size_t count = group_values(e, &groupings[g], values);
        char key[32];
        snprintf(key, sizeof key, "by_%s", groupings[g].name);
        json_open(j, key, '[');
        for (size_t i = 0; i < count; i++) {
            pl_scores s = scores_of_group(e, &groupings[g], values[i]);
            json_scores(j, NULL, values[i], &s, target_is_counter(c->target));
        }
        json_close(j, ']');
    }
    json_confusion(j, e, c->bin_bytes);
    const pl_trial *worst[WORST];
    size_t count = worst_trials(e, worst);
    json_open(j, "worst", '[');
    for (size_t i = 0; i < count; i++) json_string(j, NULL, worst[i]->id);
    json_close(j, ']');
    json_open(j, "trials", '[');
    for (size_t i = 0; i < e->count; i++) json_trial(j, e->target, &e->trials[i]);
    json_close(j, ']');
    json_int(j, "elapsed_us", e->elapsed_us);
}

void comparison_json(const comparison *c, FILE *out, bool whole) {
    json j = {.out = out};
    json_open(&j, NULL, '{');
    if (whole) json_int(&j, "schema", 1);
    char
        seed[32]; /* a seed may exceed what JSON readers take for a number: 2^53 and more as text */
    snprintf(seed, sizeof seed, "%" PRIu64, c->request->seed);
    if (c->request->seed < UINT64_C(1) << 53)
        json_raw(&j, "seed", seed);
    else
        json_string(&j, "seed", seed);
    json_string(&j, "target", c->target);
    json_string(&j, "unit", target_unit(c->target)); /* of mse to mae */
    json_bytes(&j, "bin_bytes", c->bin_bytes > 0 ? c->bin_bytes : PL_UNKNOWN);
    if (c->count == 1) {
        json_contender(&j, c, &c->list[0]);
    } else {
        json_int(&j, "jobs", (int64_t)c->jobs);
        json_int(&j, "common_jobs", (int64_t)c->common_jobs);
        json_open(&j, "estimators", '[');
        for (size_t i = 0; i < c->ran; i++) {
            json_open(&j, NULL, '{');
            json_contender(&j, c, &c->list[i]);
            json_close(&j, '}');
        }
        json_close(&j, ']');
        json_open(&j, "left_out", '[');
        for (size_t i = c->ran; i < c->count; i++) {
            json_open(&j, NULL, '{');
            json_string(&j, "estimator", c->list[i].info->name);
            json_string(&j, "reason", c->list[i].left_out);
            json_close(&j, '}');
        }
        json_close(&j, ']');
    }
    json_open(&j, "remarks", '[');
    for (size_t i = 0; i < c->remark_count; i++) json_string(&j, NULL, c->remarks[i]);
    json_close(&j, ']');
    json_close(&j, '}');
    if (whole) putc('\n', out);
}

/* ---- CSV ---- */

static void csv_text(FILE *out, const char *text) {
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"') putc('"', out);
        putc((unsigned char)*text < 0x20 ? '?' : *text, out);
    }
    fputs("\",", out);
}

static void csv_bytes(FILE *out, int64_t bytes) {
    if (bytes >= 0) fprintf(out, "%" PRId64, bytes);
    putc(',', out);
}

static void csv_figure(FILE *out, double figure) {
    if (isfinite(figure)) fputs(PL_REAL(".12g", figure), out);
    putc(',', out);
}

static void csv_share(FILE *out, double share) {
    if (isfinite(share)) fputs(PL_REAL(".6f", share), out);
    putc(',', out);
}

static void csv_trial(FILE *out, const char *estimator, const char *target, const pl_trial *t) {
    bool known = t->status == PL_OK;
    const char *const names[] = {estimator, t->id,        t->model,    t->family,
                                 t->source, t->precision, t->optimizer};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) csv_text(out, names[k]);
    fprintf(out, "%d,%d,", t->has_graph, (int)t->status);
    csv_bytes(out, t->fold);
    csv_figure(out, t->measured);
    csv_figure(out, known ? t->predicted : NAN);
    csv_figure(out, known ? t->predicted_low : NAN);
    csv_figure(out, known ? t->predicted_high : NAN);
    const int64_t bytes[] = {
        t->measured_bytes,
        t->measured_allocated,
        t->measured_reserved,
        t->measured_overhead,
        known ? t->peak_bytes : PL_UNKNOWN,
        known ? t->low_bytes : PL_UNKNOWN,
        known ? t->high_bytes : PL_UNKNOWN,
        known ? t->allocated_bytes : PL_UNKNOWN,
        known ? t->reserved_bytes : PL_UNKNOWN,
        known ? t->overhead_bytes : PL_UNKNOWN,
    };
    for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++) csv_bytes(out, bytes[k]);
    csv_share(out, trial_counts(t) ? trial_error(target, t) : NAN);
    csv_share(out, trial_allocated_error(t));
    if (known && isfinite(t->elapsed_us)) fputs(PL_REAL(".3f", t->elapsed_us), out);
    putc('\n', out);
}

int comparison_csv(const comparison *c, const char *path) {
    output file;
    int code = 0;
    FILE *out = output_open(&file, path, &code);
    if (!out) return code;
    fputs(
        "estimator,id,model,family,source,precision,optimizer,graph,status,fold,measured,predicted,"
        "predicted_low,predicted_high,"
        "measured_bytes,measured_allocated,measured_reserved,measured_overhead,peak_bytes,low_"
        "bytes,high_bytes,"
        "allocated_bytes,reserved_bytes,overhead_bytes,error,allocated_error,elapsed_us\n",
        out);
    for (size_t i = 0; i < c->ran; i++)
        for (size_t k = 0; k < c->list[i].evaluation->count; k++)
            csv_trial(out, c->list[i].info->name, c->target, &c->list[i].evaluation->trials[k]);
    return output_close(&file);
}
