/* trained: predicting with what was learnt, the samples scaled by the numbers of the training.
 *
 * What is refused here need not be looked at by any learner: values that are not finite, other
 * features than those learnt from. Training is trained_train.c's, the file trained_file.c's. Left
 * out: missing values, which no source of ours has. */
#include "core/checked.h"
#include "learn/trained_view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

static void *array(size_t count, size_t size) {
    size_t bytes;
    return pl_mul_size(count, size, &bytes) ? malloc(bytes ? bytes : 1) : NULL;
}

/* ---- what is refused ---- */

pl_status pl_trained_check_values(const pl_samples *s, pl_error *err) {
    for (size_t i = 0; i < s->count; i++)
        for (size_t c = 0; c < s->columns; c++) {
            double value = s->values[i * s->columns + c];
            if (!isfinite(value))
                return pl_fail(
                    err, PL_INPUT, NULL, -1,
                    "column '%s' of sample %zu of %zu is %s, a finite number is expected",
                    s->names[c], i + 1, s->count, PL_REAL("f", value));
        }
    for (size_t i = 0; s->channels && i < s->count; i++) {
        if (s->begin[i] > s->begin[i + 1])
            return pl_fail(err, PL_INPUT, NULL, -1, "the steps of sample %zu end before they begin",
                           i + 1);
        for (size_t t = s->begin[i]; t < s->begin[i + 1]; t++)
            for (size_t c = 0; c < s->channels; c++) {
                double value = s->steps[t * s->channels + c];
                if (!isfinite(value))
                    return pl_fail(err, PL_INPUT, NULL, -1,
                                   "channel '%s' of sample %zu of %zu, step %zu, is %s, a finite "
                                   "number is expected",
                                   s->channel_names[c], i + 1, s->count, t - s->begin[i] + 1,
                                   PL_REAL("f", value));
            }
    }
    return PL_OK;
}

pl_status pl_trained_check_names(const pl_scaled *wanted, size_t wanted_count,
                                 const char *const *names, size_t count, const char *what,
                                 pl_error *err) {
    for (size_t i = 0; i < wanted_count && i < count; i++)
        if (strcmp(wanted[i].name, names[i]) != 0)
            return pl_fail(err, PL_INPUT, NULL, -1,
                           "%s %zu of %zu is '%s', the model was trained on '%s'", what, i + 1,
                           count, names[i], wanted[i].name);
    if (count < wanted_count)
        return pl_fail(err, PL_INPUT, NULL, -1,
                       "%s '%s' is missing: there are %zu, the model was trained on %zu", what,
                       wanted[count].name, count, wanted_count);
    if (count > wanted_count)
        return pl_fail(err, PL_INPUT, NULL, -1,
                       "%s '%s' is unknown: there are %zu, the model was trained on %zu", what,
                       names[wanted_count], count, wanted_count);
    return PL_OK;
}

/* ---- scaling ---- */

static bool as_it_is(const pl_scaled *scaled, size_t width) {
    for (size_t c = 0; c < width; c++)
        if (scaled[c].shift != 0 || scaled[c].scale != 1) return false;
    return true;
}

/* Deviations from the mean that a learner gets to see: what lies farther out is so unlike all it
 * has learnt from that a network's answer would be anything. */
static const double farthest = 5;

/* *out: the scaled rows [count, width], NULL where they are taken as they are. */
static pl_status scale_rows(float **out, const float *rows, size_t count, const pl_scaled *scaled,
                            size_t width, pl_error *err) {
    *out = NULL;
    size_t numbers;
    if (as_it_is(scaled, width)) return PL_OK;
    if (!pl_mul_size(count, width, &numbers)) return no_memory(err);
    float *copy = array(numbers, sizeof *copy);
    if (!copy) return no_memory(err);
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < width; c++) {
            double value = ((double)rows[i * width + c] - scaled[c].shift) * scaled[c].scale;
            copy[i * width + c] = (float)fmin(fmax(value, -farthest), farthest);
        }
    *out = copy;
    return PL_OK;
}

void pl_trained_view_close(pl_trained_view *v) {
    free(v->values);
    free(v->steps);
    free(v->targets);
    *v = (pl_trained_view){0};
}

pl_status pl_trained_view_open(pl_trained_view *v, const pl_trained *t, const pl_samples *s,
                               bool truths, pl_error *err) {
    *v = (pl_trained_view){.samples = *s};
    size_t steps = s->channels ? s->begin[s->count] : 0;
    pl_status status =
        scale_rows(&v->values, s->values, s->count, t->columns, t->column_count, err);
    if (status == PL_OK)
        status = scale_rows(&v->steps, s->steps, steps, t->channels, t->channel_count, err);
    bool scaled_target =
        truths && !t->class_count && (t->target_shift != 0 || t->target_scale != 1);
    if (status == PL_OK && scaled_target) {
        v->targets = array(s->count, sizeof *v->targets);
        if (!v->targets) status = no_memory(err);
        for (size_t i = 0; v->targets && i < s->count; i++)
            v->targets[i] =
                (float)(((double)s->targets[i] - t->target_shift) * (double)t->target_scale);
    }
    if (status != PL_OK) {
        pl_trained_view_close(v);
        return status;
    }
    if (v->values) v->samples.values = v->values;
    if (v->steps) v->samples.steps = v->steps;
    if (v->targets) v->samples.targets = v->targets;
    return PL_OK;
}

/* ---- predicting ---- */

/* Logits [classes] to probabilities, in place; false where they are no numbers. */
static bool softmax(float *logits, size_t classes) {
    float most = logits[0];
    double sum = 0;
    for (size_t c = 0; c < classes; c++) {
        if (!isfinite(logits[c])) return false;
        if (logits[c] > most) most = logits[c];
    }
    for (size_t c = 0; c < classes; c++) {
        logits[c] = expf(logits[c] - most);
        sum += logits[c];
    }
    for (size_t c = 0; c < classes; c++) logits[c] = (float)(logits[c] / sum);
    return true;
}

pl_status pl_trained_predict(const pl_trained *t, const pl_samples *samples, float *out,
                             pl_error *err) {
    pl_status status = pl_trained_check_names(t->columns, t->column_count, samples->names,
                                              samples->columns, "column", err);
    if (status == PL_OK)
        status = pl_trained_check_names(t->channels, t->channel_count, samples->channel_names,
                                        samples->channels, "channel", err);
    if (status == PL_OK) status = pl_trained_check_values(samples, err);
    if (status != PL_OK || samples->count == 0) return status;

    pl_trained_view scaled = {0};
    status = pl_trained_view_open(&scaled, t, samples, false, err);
    if (status == PL_OK) status = t->learner->predict(t->learned, &scaled.samples, out, err);
    pl_trained_view_close(&scaled);
    for (size_t i = 0; status == PL_OK && i < samples->count; i++) {
        bool sound;
        if (t->class_count) {
            sound = softmax(out + i * t->class_count, t->class_count);
        } else {
            out[i] = (float)((double)out[i] / t->target_scale + t->target_shift);
            sound = isfinite(out[i]);
        }
        if (!sound)
            status = pl_fail(err, PL_INPUT, NULL, -1,
                             "the model '%s' answers sample %zu of %zu with what is no number",
                             t->estimator, i + 1, samples->count);
    }
    return status;
}

static void close_names(const pl_scaled *scaled, size_t count) {
    for (size_t i = 0; scaled && i < count; i++) free((char *)scaled[i].name);
}

void pl_trained_close(pl_trained **trained) {
    if (!trained || !*trained) return;
    pl_trained *t = *trained;
    pl_learned *learned = t->learned;
    pl_learned_close(&learned);
    if (!t->borrowed) {
        close_names(t->columns, t->column_count);
        close_names(t->channels, t->channel_count);
        free((char *)t->estimator);
        free((char *)t->target);
        free((char *)t->options);
        free((char *)t->command);
        free((char *)t->data);
        free((float *)t->class_values);
    }
    free(t->columns);
    free(t->channels);
    free(t->classes_copied);
    free(t->bytes);
    free(t);
    *trained = NULL;
}
