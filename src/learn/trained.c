/* trained: training with the samples scaled, and predicting with the same numbers. Scaling is as
 * scikit-learn's StandardScaler (the deviation is that of the population). Channels are scaled over
 * all steps of all samples.
 *
 * What is refused here need not be looked at by any learner: empty data, values that are not
 * finite, other features than those learnt from. The file is trained_file.c's. Left out: missing
 * values, which no source of ours has. */
#include "learn/trained.h"
#include "core/checked.h"
#include "core/utf8.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static pl_status no_memory(pl_error *err) {
    return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
}

/* A copy, or NULL. */
static char *copy_text(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

static void *array(size_t count, size_t size) {
    size_t bytes;
    return pl_mul_size(count, size, &bytes) ? malloc(bytes ? bytes : 1) : NULL;
}

/* ---- what is refused ---- */

/* What the file could not hold. */
static pl_status check_text(const char *text, const char *what, size_t most, pl_error *err) {
    size_t size = strlen(text);
    if (size > most)
        return pl_fail(err, PL_USAGE, what, -1, "a text of %zu bytes, at most %zu are expected",
                       size, most);
    for (size_t i = 0; i < size;) {
        size_t step = pl_utf8_length((const unsigned char *)text + i, size - i);
        if (step == 0) return pl_fail(err, PL_USAGE, what, (int64_t)i, "UTF-8 is expected");
        i += step;
    }
    return PL_OK;
}

static pl_status check_values(const pl_samples *s, pl_error *err) {
    for (size_t i = 0; i < s->count; i++)
        for (size_t c = 0; c < s->columns; c++) {
            double value = s->values[i * s->columns + c];
            if (!isfinite(value))
                return pl_fail(
                    err, PL_INPUT, NULL, -1,
                    "column '%s' of sample %zu of %zu is %f, a finite number is expected",
                    s->names[c], i + 1, s->count, value);
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
                                   "channel '%s' of sample %zu of %zu, step %zu, is %f, a finite "
                                   "number is expected",
                                   s->channel_names[c], i + 1, s->count, t - s->begin[i] + 1,
                                   value);
            }
    }
    return PL_OK;
}

/* Classes and weights, or targets. */
static pl_status check_truths(const pl_samples *s, pl_error *err) {
    bool classifier = s->class_count > 0;
    if (classifier ? !s->classes : !s->targets)
        return pl_fail(err, PL_INPUT, NULL, -1, "there is nothing to learn: no %s",
                       classifier ? "classes" : "targets");
    for (size_t i = 0; i < s->count; i++) {
        if (classifier && (s->classes[i] < 0 || (size_t)s->classes[i] >= s->class_count))
            return pl_fail(err, PL_INPUT, NULL, -1,
                           "the class of sample %zu of %zu is %d, 0 to %zu are expected", i + 1,
                           s->count, (int)s->classes[i], s->class_count - 1);
        if (!classifier && !isfinite(s->targets[i]))
            return pl_fail(err, PL_INPUT, NULL, -1,
                           "the target of sample %zu of %zu is %f, a finite number is expected",
                           i + 1, s->count, (double)s->targets[i]);
        if (s->weights && !(isfinite(s->weights[i]) && s->weights[i] >= 0))
            return pl_fail(err, PL_INPUT, NULL, -1,
                           "the weight of sample %zu of %zu is %f, a finite number from 0 is "
                           "expected",
                           i + 1, s->count, (double)s->weights[i]);
    }
    return PL_OK;
}

/* Something of each class, more than one target, weights that are not all 0. */
static pl_status check_variety(const pl_samples *s, pl_error *err) {
    double weights = 0;
    for (size_t i = 0; s->weights && i < s->count; i++) weights += s->weights[i];
    if (s->weights && weights == 0)
        return pl_fail(err, PL_INPUT, NULL, -1, "the weights of all %zu samples are 0", s->count);
    if (s->class_count == 0) {
        for (size_t i = 1; i < s->count; i++)
            if (s->targets[i] != s->targets[0]) return PL_OK;
        return pl_fail(err, PL_INPUT, NULL, -1,
                       "the target of all %zu samples is %.9g, there is nothing to learn", s->count,
                       (double)s->targets[0]);
    }
    if (s->class_count < 2 || s->class_count > PL_TRAINED_CLASSES_MOST)
        return pl_fail(err, PL_INPUT, NULL, -1, "%zu classes, 2 to %d are expected", s->class_count,
                       PL_TRAINED_CLASSES_MOST);
    size_t *samples = calloc(s->class_count, sizeof *samples), empty = 0;
    if (!samples) return no_memory(err);
    for (size_t i = 0; i < s->count; i++) samples[s->classes[i]]++;
    while (empty < s->class_count && samples[empty]) empty++;
    free(samples);
    return empty == s->class_count
               ? PL_OK
               : pl_fail(err, PL_INPUT, NULL, -1, "class %zu of %zu (from 0) has no samples", empty,
                         s->class_count);
}

static pl_status check_names(const char *const *names, size_t count, const char *what,
                             pl_error *err) {
    if (count > PL_TRAINED_COLUMNS_MOST)
        return pl_fail(err, PL_USAGE, what, -1, "%zu of them, at most %d are expected", count,
                       PL_TRAINED_COLUMNS_MOST);
    for (size_t i = 0; i < count; i++) {
        pl_status status = check_text(names[i], what, PL_TRAINED_NAME_MOST, err);
        if (status != PL_OK) return status;
    }
    return PL_OK;
}

static pl_status check_training(const pl_samples *s, const pl_trained_settings *settings,
                                const char *options, pl_error *err) {
    const struct {
        const char *text, *what;
        size_t most;
    } texts[] = {
        {settings->estimator, "estimator", PL_TRAINED_NAME_MOST},
        {settings->target, "target", PL_TRAINED_NAME_MOST},
        {options, "options", PL_TRAINED_TEXT_MOST},
        {settings->command, "command", PL_TRAINED_TEXT_MOST},
        {settings->data, "data", PL_TRAINED_TEXT_MOST},
    };
    pl_status status = PL_OK;
    for (size_t i = 0; status == PL_OK && i < sizeof texts / sizeof *texts; i++)
        if (texts[i].text) status = check_text(texts[i].text, texts[i].what, texts[i].most, err);
    if (status == PL_OK) status = check_names(s->names, s->columns, "columns", err);
    if (status == PL_OK) status = check_names(s->channel_names, s->channels, "channels", err);
    if (status != PL_OK) return status;
    if (s->count == 0) return pl_fail(err, PL_INPUT, NULL, -1, "there are no samples");
    if (s->columns + s->channels == 0)
        return pl_fail(err, PL_INPUT, NULL, -1, "the samples have no columns");
    status = check_values(s, err);
    if (status == PL_OK) status = check_truths(s, err);
    return status == PL_OK ? check_variety(s, err) : status;
}

/* Where the names are not those it was trained on: says the first that differs. */
static pl_status compare_names(const pl_scaled *wanted, size_t wanted_count,
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

/* Mean and 1 / deviation of values[0], values[stride], ...; scale 0 where they do not vary. */
static void measure(const float *values, size_t count, size_t stride, float *shift, float *scale) {
    *shift = 0;
    *scale = 0;
    if (count == 0) return;
    double sum = 0, squares = 0;
    float least = values[0], most = values[0];
    for (size_t i = 0; i < count; i++) {
        float value = values[i * stride];
        sum += value;
        if (value < least) least = value;
        if (value > most) most = value;
    }
    double mean = sum / (double)count;
    *shift = (float)mean;
    if (least == most) return;
    for (size_t i = 0; i < count; i++) {
        double away = values[i * stride] - mean;
        squares += away * away;
    }
    double inverse = 1 / sqrt(squares / (double)count);
    *scale = inverse < FLT_MAX ? (float)inverse : FLT_MAX;
}

/* rows: [count, width]. One entry a column, with a copy of its name; NULL: out of memory. */
static pl_scaled *scales_of(const float *rows, size_t count, const char *const *names, size_t width,
                            bool standard) {
    pl_scaled *scaled = calloc(width ? width : 1, sizeof *scaled);
    bool named = scaled;
    for (size_t c = 0; named && c < width; c++) {
        scaled[c].scale = 1;
        if (standard) measure(rows + c, count, width, &scaled[c].shift, &scaled[c].scale);
        scaled[c].name = copy_text(names[c]);
        named = scaled[c].name;
    }
    if (named) return scaled;
    for (size_t c = 0; scaled && c < width; c++) free(scaled[c].name);
    free(scaled);
    return NULL;
}

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

/* Samples as the learner sees them, and what they own. */
typedef struct view {
    pl_samples samples;
    float *values, *steps, *targets;
} view;

static void view_close(view *v) {
    free(v->values);
    free(v->steps);
    free(v->targets);
    *v = (view){0};
}

static pl_status view_open(view *v, const pl_trained *t, const pl_samples *s, bool truths,
                           pl_error *err) {
    *v = (view){.samples = *s};
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
        view_close(v);
        return status;
    }
    if (v->values) v->samples.values = v->values;
    if (v->steps) v->samples.steps = v->steps;
    if (v->targets) v->samples.targets = v->targets;
    return PL_OK;
}

/* ---- training and predicting ---- */

static bool describe(pl_trained *t, const pl_samples *s, const pl_trained_settings *settings,
                     const char *options, bool standard) {
    t->estimator = copy_text(settings->estimator ? settings->estimator : "");
    t->target = copy_text(settings->target ? settings->target : "");
    t->options = copy_text(options);
    t->command = copy_text(settings->command ? settings->command : "");
    t->data = copy_text(settings->data ? settings->data : "");
    t->seed = settings->learn.seed;
    t->rows = s->count;
    t->columns = scales_of(s->values, s->count, s->names, s->columns, standard);
    if (t->columns) t->column_count = s->columns;
    size_t steps = s->channels ? s->begin[s->count] : 0;
    t->channels = scales_of(s->steps, steps, s->channel_names, s->channels, standard);
    if (t->channels) t->channel_count = s->channels;
    t->target_scale = 1;
    if (standard && !s->class_count)
        measure(s->targets, s->count, 1, &t->target_shift, &t->target_scale);
    if (s->class_count) {
        t->class_values = array(s->class_count, sizeof *t->class_values);
        if (!t->class_values) return false;
        t->class_count = s->class_count;
        for (size_t c = 0; c < s->class_count; c++) t->class_values[c] = (float)c;
    }
    return t->estimator && t->target && t->options && t->command && t->data && t->columns &&
           t->channels;
}

static pl_status check_valid(const pl_trained *t, const pl_samples *valid, pl_error *err) {
    pl_status status =
        compare_names(t->columns, t->column_count, valid->names, valid->columns, "column", err);
    if (status == PL_OK)
        status = compare_names(t->channels, t->channel_count, valid->channel_names, valid->channels,
                               "channel", err);
    if (status == PL_OK && valid->class_count != t->class_count)
        status = pl_fail(err, PL_INPUT, NULL, -1,
                         "the validation samples have %zu classes, %zu are expected",
                         valid->class_count, t->class_count);
    if (status == PL_OK) status = check_values(valid, err);
    return status == PL_OK ? check_truths(valid, err) : status;
}

pl_status pl_trained_train(pl_trained **out, const pl_learner *learner, const pl_samples *samples,
                           const pl_trained_settings *settings, pl_error *err) {
    *out = NULL;
    pl_learn_settings learn = settings->learn;
    if (!learn.options) learn.options = "";
    pl_status status = check_training(samples, settings, learn.options, err);
    if (status != PL_OK) return status;

    view scaled = {0}, valid = {0};
    pl_trained *t = calloc(1, sizeof *t);
    bool standard = strcmp(learner->scaled, "standard") == 0;
    if (!t || !describe(t, samples, settings, learn.options, standard)) status = no_memory(err);
    if (status == PL_OK) status = view_open(&scaled, t, samples, true, err);
    if (status == PL_OK && learn.valid && learn.valid->count == 0) learn.valid = NULL;
    if (status == PL_OK && learn.valid) {
        status = check_valid(t, learn.valid, err);
        if (status == PL_OK) status = view_open(&valid, t, learn.valid, true, err);
        learn.valid = &valid.samples;
    }
    pl_learned *learned = NULL;
    if (status == PL_OK) status = learner->train(&learned, &scaled.samples, &learn, err);
    if (t) {
        t->learner = learner;
        t->learned = learned;
    }
    view_close(&scaled);
    view_close(&valid);
    if (status == PL_OK)
        *out = t;
    else
        pl_trained_close(&t);
    return status;
}

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
    pl_status status =
        compare_names(t->columns, t->column_count, samples->names, samples->columns, "column", err);
    if (status == PL_OK)
        status = compare_names(t->channels, t->channel_count, samples->channel_names,
                               samples->channels, "channel", err);
    if (status == PL_OK) status = check_values(samples, err);
    if (status != PL_OK || samples->count == 0) return status;
    const pl_learned *learned = pl_trained_learned(t, err);
    if (!learned) return PL_INPUT;

    view scaled = {0};
    status = view_open(&scaled, t, samples, false, err);
    if (status == PL_OK) status = t->learner->predict(learned, &scaled.samples, out, err);
    view_close(&scaled);
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

static void close_scaled(pl_scaled *scaled, size_t count) {
    for (size_t i = 0; scaled && i < count; i++) free(scaled[i].name);
    free(scaled);
}

void pl_trained_close(pl_trained **trained) {
    if (!trained || !*trained) return;
    pl_trained *t = *trained;
    pl_learned *learned = t->learned;
    pl_learned_close(&learned);
    close_scaled(t->columns, t->column_count);
    close_scaled(t->channels, t->channel_count);
    free(t->estimator);
    free(t->target);
    free(t->options);
    free(t->command);
    free(t->data);
    free(t->class_values);
    free(t);
    *trained = NULL;
}
