/* trained_train: training with the samples scaled. Scaling is as scikit-learn's StandardScaler (the
 * deviation is that of the population). Channels are scaled over all steps of all samples.
 *
 * Refused here: empty data, values that are not finite, nothing to learn. */
#include "lab/learn/trained_train.h"
#include "lab/learn/learners.h"
#include "lend.h"

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
                           "the target of sample %zu of %zu is %s, a finite number is expected",
                           i + 1, s->count, PL_REAL("f", (double)s->targets[i]));
        if (s->weights && !(isfinite(s->weights[i]) && s->weights[i] >= 0))
            return pl_fail(err, PL_INPUT, NULL, -1,
                           "the weight of sample %zu of %zu is %s, a finite number from 0 is "
                           "expected",
                           i + 1, s->count, PL_REAL("f", (double)s->weights[i]));
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
                       "the target of all %zu samples is %s, there is nothing to learn", s->count,
                       PL_REAL(".9g", (double)s->targets[0]));
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
    status = pl_trained_check_values(s, err);
    if (status == PL_OK) status = check_truths(s, err);
    return status == PL_OK ? check_variety(s, err) : status;
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

/* rows: [count, width]. One entry per column, with a copy of its name; NULL: out of memory. */
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
    for (size_t c = 0; scaled && c < width; c++) free((char *)scaled[c].name);
    free(scaled);
    return NULL;
}

/* ---- training ---- */

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
        float *values = array(s->class_count, sizeof *values);
        if (!values) return false;
        t->class_values = values;
        t->class_count = s->class_count;
        for (size_t c = 0; c < s->class_count; c++) values[c] = (float)c;
    }
    return t->estimator && t->target && t->options && t->command && t->data && t->columns &&
           t->channels;
}

static pl_status check_valid(const pl_trained *t, const pl_samples *valid, pl_error *err) {
    pl_status status = pl_trained_check_names(t->columns, t->column_count, valid->names,
                                              valid->columns, "column", err);
    if (status == PL_OK)
        status = pl_trained_check_names(t->channels, t->channel_count, valid->channel_names,
                                        valid->channels, "channel", err);
    if (status == PL_OK && valid->class_count != t->class_count)
        status = pl_fail(err, PL_INPUT, NULL, -1,
                         "the validation samples have %zu classes, %zu are expected",
                         valid->class_count, t->class_count);
    if (status == PL_OK) status = pl_trained_check_values(valid, err);
    return status == PL_OK ? check_truths(valid, err) : status;
}

pl_status pl_trained_train(pl_trained **out, const pl_learner *learner, const pl_samples *samples,
                           const pl_trained_settings *settings, pl_error *err) {
    *out = NULL;
    pl_learn_settings learn = settings->learn;
    if (!learn.options) learn.options = "";
    pl_status status = check_training(samples, settings, learn.options, err);
    if (status != PL_OK) return status;

    pl_trained_view scaled = {0}, valid = {0};
    pl_trained *t = calloc(1, sizeof *t);
    bool standard = strcmp(learner->scaled, "standard") == 0;
    if (!t || !describe(t, samples, settings, learn.options, standard)) status = no_memory(err);
    if (status == PL_OK) status = pl_trained_view_open(&scaled, t, samples, true, err);
    if (status == PL_OK && learn.valid && learn.valid->count == 0) learn.valid = NULL;
    if (status == PL_OK && learn.valid) {
        status = check_valid(t, learn.valid, err);
        if (status == PL_OK) status = pl_trained_view_open(&valid, t, learn.valid, true, err);
        learn.valid = &valid.samples;
    }
    pl_learned *learned = NULL;
    if (status == PL_OK) status = pl_learner_train(learner, &learned, &scaled.samples, &learn, err);
    if (t) {
        t->learner = learner;
        t->learned = learned;
    }
    pl_trained_view_close(&scaled);
    pl_trained_view_close(&valid);
    if (status == PL_OK)
        *out = t;
    else
        pl_trained_close(&t);
    return status;
}

void pl_trained_set_classes(pl_trained *t, const float *values) {
    memcpy((float *)t->class_values, values, t->class_count * sizeof *values);
}
