/* export: a comparison as JSON and as CSV (docs/formats.md): everything that is known of every job,
 * numbers as numbers, unknown as null or as an empty field. The JSON of one estimator is one
 * object; that of several has such objects in "estimators", the best first. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"
#include "core/json_writer.h"
#include "core/number.h"
#include "output.h"

/* ---- JSON ---- */

static void json_errors(pl_json_writer *j, const pl_scores *s) {
    pl_json_put_int(j, "jobs", (int64_t)s->jobs);
    pl_json_put_real(j, "median", s->median);
    pl_json_put_real(j, "mean", s->mean);
    pl_json_put_real(j, "p90", s->p90);
    pl_json_put_real(j, "too_low", s->too_low);
    pl_json_put_real(j, "exact", s->exact);
}

static void json_shares(pl_json_writer *j, const pl_scores *s) {
    pl_json_put_real(j, "within_1", s->within_1);
    pl_json_put_real(j, "within_5", s->within_5);
    pl_json_put_real(j, "within_15", s->within_15);
    pl_json_put_real(j, "inside", s->inside);
}

static void json_scores(pl_json_writer *j, const char *key, const char *name, const pl_scores *s,
                        bool bins) {
    pl_json_put_open(j, key, '{');
    if (name) pl_json_put_string(j, "name", name);
    json_errors(j, s);
    json_shares(j, s);
    pl_json_put_real(j, "above_high", s->above_high);
    pl_json_put_real(j, "width", s->width);
    pl_json_put_real(j, "mse", s->mse);
    pl_json_put_real(j, "rmse", s->rmse);
    pl_json_put_real(j, "mae", s->mae);
    pl_json_put_real(j, "mape", s->mape);
    pl_json_put_real(j, "r2", s->r2);
    pl_json_put_real(j, "elapsed_us", s->elapsed_us);
    if (bins) {
        pl_json_put_real(j, "accuracy", s->accuracy);
        pl_json_put_real(j, "precision", s->precision);
        pl_json_put_real(j, "recall", s->recall);
        pl_json_put_real(j, "f1", s->f1);
        pl_json_put_real(j, "macro_f1", s->macro_f1);
        pl_json_put_real(j, "below_diagonal", s->below_diagonal);
        pl_json_put_real(j, "high_recall", s->high_recall);
    }
    pl_json_put_close(j, '}');
}

static void json_confusion(pl_json_writer *j, const pl_evaluation *e, int64_t bin_bytes) {
    enum { MOST_CLASSES = 4096 };
    size_t classes = 0;
    int64_t first = 0;
    bool has = target_is_counter(e->target) || (bin_bytes > 0 && target_is_memory(e->target));
    uint64_t *counts = has ? pl_evaluation_confusion(e, bin_bytes, &classes, &first) : NULL;
    if (!counts || classes > MOST_CLASSES) {
        free(counts);
        pl_json_put_string(j, "confusion", NULL);
        return;
    }
    pl_json_put_open(j, "confusion", '{');
    pl_json_put_int(j, "first_bin", first);
    pl_json_put_open(j, "counts", '['); /* a row per measured bin, a column per predicted one */
    for (size_t row = 0; row < classes; row++) {
        pl_json_put_open(j, NULL, '[');
        for (size_t k = 0; k < classes; k++)
            pl_json_put_int(j, NULL, (int64_t)counts[row * classes + k]);
        pl_json_put_close(j, ']');
    }
    pl_json_put_close(j, ']');
    pl_json_put_close(j, '}');
    free(counts);
}

static void json_trial(pl_json_writer *j, const char *target, const pl_trial *t) {
    bool known = t->status == PL_OK;
    pl_json_put_open(j, NULL, '{');
    pl_json_put_string(j, "id", t->id);
    pl_json_put_bool(j, "graph", t->has_graph);
    if (t->fold >= 0)
        pl_json_put_int(j, "fold", t->fold);
    else
        pl_json_put_string(j, "fold", NULL);
    pl_json_put_real(j, "measured", t->measured);
    pl_json_put_real(j, "predicted", known ? t->predicted : NAN);
    pl_json_put_real(j, "predicted_low", known ? t->predicted_low : NAN);
    pl_json_put_real(j, "predicted_high", known ? t->predicted_high : NAN);
    pl_json_put_count(j, "measured_bytes", t->measured_bytes);
    pl_json_put_count(j, "measured_allocated", t->measured_allocated);
    pl_json_put_count(j, "peak_bytes", known ? t->peak_bytes : PL_UNKNOWN);
    pl_json_put_count(j, "low_bytes", known ? t->low_bytes : PL_UNKNOWN);
    pl_json_put_count(j, "high_bytes", known ? t->high_bytes : PL_UNKNOWN);
    pl_json_put_count(j, "allocated_bytes", known ? t->allocated_bytes : PL_UNKNOWN);
    pl_json_put_real(j, "error", trial_counts(t) ? trial_error(target, t) : NAN);
    pl_json_put_real(j, "allocated_error", trial_allocated_error(t));
    pl_json_put_real(j, "elapsed_us", known ? t->elapsed_us : NAN);
    pl_json_put_real(j, "chance", known ? t->chance : NAN);
    pl_json_put_string(j, "message", known ? NULL : t->message);
    pl_json_put_close(j, '}');
}

/* The members of an estimator's object. */
static void json_contender(pl_json_writer *j, const comparison *c, const contender *of) {
    const pl_evaluation *e = of->evaluation;
    pl_json_put_string(j, "estimator", e->estimator);
    pl_json_put_int(j, "jobs", (int64_t)e->count);
    pl_json_put_int(j, "without_graph", (int64_t)trials_without_graph(e));
    pl_json_put_int(j, "unmeasured", (int64_t)trials_unmeasured(e));
    pl_json_put_int(j, "cut_off", (int64_t)trials_cut_off(e));
    pl_json_put_string(j, "split", split_name((size_t)e->split));
    pl_json_put_int(j, "folds", e->folds);
    pl_json_put_bool(j, "seen", e->seen);
    pl_json_put_real(j, "train_s", e->train_s);
    static const char *const keys[] = {
        [KIND_MEMORY] = "peak", [KIND_RELATIVE] = "compute", [KIND_POINTS] = "utilization"};
    json_scores(j, keys[target_kind_of(c->target)], NULL, &of->all, true);
    pl_scores allocated = scores_of_allocated(e);
    pl_json_put_open(j, "allocated", '{');
    json_errors(j, &allocated);
    pl_json_put_close(j, '}');
    json_scores(j, "real", NULL, &of->real, true);
    json_scores(j, "common", NULL, &of->common, true);
    for (size_t g = 0; g < GROUPINGS; g++) {
        const char *values[MOST_GROUPS];
        size_t count = group_values(e, &groupings[g], values);
        char key[32];
        snprintf(key, sizeof key, "by_%s", groupings[g].name);
        pl_json_put_open(j, key, '[');
        for (size_t i = 0; i < count; i++) {
            pl_scores s = scores_of_group(e, &groupings[g], values[i]);
            json_scores(j, NULL, values[i], &s, target_is_counter(c->target));
        }
        pl_json_put_close(j, ']');
    }
    json_confusion(j, e, c->bin_bytes);
    const pl_trial *worst[WORST];
    size_t count = worst_trials(e, worst);
    pl_json_put_open(j, "worst", '[');
    for (size_t i = 0; i < count; i++) pl_json_put_string(j, NULL, worst[i]->id);
    pl_json_put_close(j, ']');
    pl_json_put_open(j, "trials", '[');
    for (size_t i = 0; i < e->count; i++) json_trial(j, e->target, pl_evaluation_trial(e, i));
    pl_json_put_close(j, ']');
    pl_json_put_int(j, "elapsed_us", e->elapsed_us);
}

void comparison_json(const comparison *c, FILE *out, bool whole) {
    pl_json_writer j = {.file = out};
    pl_json_put_open(&j, NULL, '{');
    if (whole) pl_json_put_int(&j, "schema", 1);
    char
        seed[32]; /* a seed may exceed what JSON readers take for a number: 2^53 and more as text */
    snprintf(seed, sizeof seed, "%" PRIu64, c->request->seed);
    if (c->request->seed < UINT64_C(1) << 53)
        pl_json_put_raw(&j, "seed", seed);
    else
        pl_json_put_string(&j, "seed", seed);
    pl_json_put_string(&j, "target", c->target);
    pl_json_put_string(&j, "unit", target_unit(c->target)); /* of mse to mae */
    pl_json_put_count(&j, "bin_bytes", c->bin_bytes > 0 ? c->bin_bytes : PL_UNKNOWN);
    if (c->count == 1) {
        json_contender(&j, c, &c->list[0]);
    } else {
        pl_json_put_int(&j, "jobs", (int64_t)c->jobs);
        pl_json_put_int(&j, "common_jobs", (int64_t)c->common_jobs);
        pl_json_put_open(&j, "estimators", '[');
        for (size_t i = 0; i < c->ran; i++) {
            pl_json_put_open(&j, NULL, '{');
            json_contender(&j, c, &c->list[i]);
            pl_json_put_close(&j, '}');
        }
        pl_json_put_close(&j, ']');
        pl_json_put_open(&j, "left_out", '[');
        for (size_t i = c->ran; i < c->count; i++) {
            pl_json_put_open(&j, NULL, '{');
            pl_json_put_string(&j, "estimator", c->list[i].info->name);
            pl_json_put_string(&j, "reason", c->list[i].left_out);
            pl_json_put_close(&j, '}');
        }
        pl_json_put_close(&j, ']');
    }
    pl_json_put_open(&j, "remarks", '[');
    for (size_t i = 0; i < c->remark_count; i++) pl_json_put_string(&j, NULL, c->remarks[i]);
    pl_json_put_close(&j, ']');
    pl_json_put_close(&j, '}');
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
    fprintf(out, "%s,", known ? t->interval : "");
    csv_share(out, known ? t->chance : NAN);
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
        "allocated_bytes,reserved_bytes,overhead_bytes,error,allocated_error,interval,chance,"
        "elapsed_us\n",
        out);
    for (size_t i = 0; i < c->ran; i++)
        for (size_t k = 0; k < c->list[i].evaluation->count; k++)
            csv_trial(out, c->list[i].info->name, c->target,
                      pl_evaluation_trial(c->list[i].evaluation, k));
    return output_close(&file);
}

/* ---- sizes ---- */

/* An estimator that says how long a step takes, of the trial of that number; NULL: none does. */
static const pl_trial *timed_trial(const comparison *c, size_t index) {
    for (size_t i = 0; i < c->ran; i++) {
        const pl_trial *t = pl_evaluation_trial(c->list[i].evaluation, index);
        if (t && t->status == PL_OK && t->step_ms > 0 && isfinite(t->device_ms)) return t;
    }
    return NULL;
}

static void put_size(pl_json_writer *j, const comparison *c, const pl_trial *of) {
    pl_json_put_open(j, NULL, '{');
    pl_json_put_string(j, "name", of->id);
    pl_json_put_count(j, "batch", of->batch > 0 ? of->batch : PL_UNKNOWN);
    pl_json_put_string(j, "gpu", c->request->job.gpu);
    pl_json_put_bool(j, "calibrated", c->request->card && c->request->card->calibrated);
    pl_json_put_count(j, "measured_bytes", of->measured_bytes);
    pl_json_put_open(j, "estimates", '{');
    for (size_t i = 0; i < c->ran; i++) {
        const pl_trial *t = pl_evaluation_trial(c->list[i].evaluation, of->index);
        if (!t || t->status != PL_OK || t->peak_bytes < 0) continue;
        pl_json_put_open(j, c->list[i].info->name, '{');
        pl_json_put_count(j, "peak_bytes", t->peak_bytes);
        pl_json_put_count(j, "low_bytes", t->low_bytes);
        pl_json_put_count(j, "high_bytes", t->high_bytes);
        pl_json_put_close(j, '}');
    }
    pl_json_put_close(j, '}');
    const pl_trial *t = timed_trial(c, of->index);
    j->real = ".6g";
    const struct {
        const char *key;
        double value;
    } times[] = {{"step_ms", t ? t->step_ms : NAN}, {"device_ms", t ? t->device_ms : NAN},
                 {"host_ms", t ? t->host_ms : NAN}, {"launches", t ? t->launches : NAN},
                 {"smact", t ? t->smact : NAN},     {"smocc", t ? t->smocc : NAN},
                 {"drama", t ? t->drama : NAN},     {"tensor", t ? t->tensor : NAN}};
    for (size_t k = 0; k < sizeof times / sizeof *times; k++)
        pl_json_put_real(j, times[k].key, times[k].value);
    pl_json_put_close(j, '}');
}

/* A job of which nobody has an estimate is of no use there. */
int comparison_sizes(const comparison *c, const char *path) {
    output file;
    int code = 0;
    FILE *out = output_open(&file, path, &code);
    if (!out) return code;
    const pl_trial *t;
    for (size_t k = 0; c->ran && (t = pl_evaluation_trial(c->list[0].evaluation, k)); k++) {
        bool any = false;
        for (size_t i = 0; i < c->ran; i++) {
            const pl_trial *one = pl_evaluation_trial(c->list[i].evaluation, k);
            any |= one->status == PL_OK && one->peak_bytes > 0;
        }
        if (!any) continue;
        pl_json_writer j = {.file = out};
        put_size(&j, c, t);
        putc('\n', out);
    }
    return output_close(&file);
}
