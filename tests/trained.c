/* Model files: what is refused before training and before predicting, scaling, the file's bytes,
 * and damaged files. */
#include "lab/learn/trained_train.h"
#include "lab/learn/learners.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "check.h"

enum { ROWS = 24, COLUMNS = 3 };
static const char *const names[] = {"batch", "parameters", "same"};
static const char *const channel_names[] = {"activations", "type"};

/* Regression, classes and sequences over the same rows. */
typedef struct data {
    float values[ROWS * COLUMNS], targets[ROWS], steps[ROWS * 3 * 2], weights[ROWS];
    size_t begin[ROWS + 1];
    int32_t classes[ROWS];
    pl_samples samples;
} data;

static void fill(data *d, bool classifier, bool sequences) {
    memset(d, 0, sizeof *d);
    for (size_t i = 0; i < ROWS; i++) {
        float x = (float)i, y = (float)(i * 7 % 11);
        d->values[i * COLUMNS] = x;
        d->values[i * COLUMNS + 1] = 1e6f * y;
        d->values[i * COLUMNS + 2] = 42;
        d->targets[i] = 3 * x + y + 100;
        d->classes[i] = (int32_t)(i % 3);
        d->weights[i] = 1;
        size_t length = i % 4 % 3; /* 0, 1, 2, 0 steps */
        d->begin[i + 1] = d->begin[i] + length;
        for (size_t t = d->begin[i]; t < d->begin[i + 1]; t++) {
            d->steps[t * 2] = (float)t;
            d->steps[t * 2 + 1] = (float)(t % 2);
        }
    }
    d->samples = (pl_samples){
        .count = ROWS,
        .columns = COLUMNS,
        .values = d->values,
        .names = names,
        .targets = classifier ? NULL : d->targets,
        .classes = classifier ? d->classes : NULL,
        .class_count = classifier ? 3 : 0,
    };
    if (sequences) {
        d->samples.channels = 2;
        d->samples.steps = d->steps;
        d->samples.begin = d->begin;
        d->samples.channel_names = channel_names;
    }
}

static const pl_trained_settings settings = {
    .estimator = "decision-tree",
    .target = "mib",
    .command = "plimsoll train decision-tree --jobs jobs.jsonl",
    .data = "jobs.jsonl: 24 rows",
    .learn = {.options = "depth=4", .seed = 17},
};

/* ---- a learner that says what it saw, and answers the sum of a sample's columns ---- */

typedef struct seen {
    double mean[COLUMNS], deviation[COLUMNS]; /* of the training columns */
    double step_mean, step_deviation;         /* of channel 0 */
    double target_mean, target_deviation;
    double valid_value, valid_target; /* the first */
} seen;
static seen saw;
static float answer; /* what is given instead of the sum; NAN: the sum */

static void spread(const float *values, size_t count, size_t stride, double *mean, double *dev) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) sum += values[i * stride];
    *mean = sum / (double)count;
    for (size_t i = 0; i < count; i++) squares += pow(values[i * stride] - *mean, 2);
    *dev = sqrt(squares / (double)count);
}

static void seer_close(pl_learned **learned) {
    free(*learned);
    *learned = NULL;
}

static const pl_learner seer;

static pl_status seer_train(pl_learned **out, const pl_samples *s, const pl_learn_settings *learn,
                            pl_error *err) {
    if (strcmp(learn->options, "fail") == 0) return pl_fail(err, PL_USAGE, "options", -1, "no");
    for (size_t c = 0; c < COLUMNS; c++)
        spread(s->values + c, s->count, COLUMNS, &saw.mean[c], &saw.deviation[c]);
    if (s->channels)
        spread(s->steps, s->begin[s->count], s->channels, &saw.step_mean, &saw.step_deviation);
    if (s->targets) spread(s->targets, s->count, 1, &saw.target_mean, &saw.target_deviation);
    if (learn->valid) {
        saw.valid_value = learn->valid->values[0];
        saw.valid_target = learn->valid->targets ? learn->valid->targets[0] : 0;
    }
    *out = calloc(1, sizeof **out);
    if (!*out) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    **out = (pl_learned){&seer, s->class_count ? s->class_count : 1};
    return PL_OK;
}

static pl_status seer_predict(const pl_learned *learned, const pl_samples *s, float *out,
                              pl_error *err) {
    (void)err;
    for (size_t i = 0; i < s->count; i++)
        for (size_t o = 0; o < learned->outputs; o++) {
            float sum = (float)o;
            for (size_t c = 0; c < s->columns; c++) sum += s->values[i * s->columns + c];
            out[i * learned->outputs + o] = isnan(answer) ? sum : answer;
        }
    return PL_OK;
}

static const pl_learner seer = {
    .name = "seer",
    .scaled = "standard",
    .train = seer_train,
    .predict = seer_predict,
    .close = seer_close,
};

static bool near(double a, double b) {
    return fabs(a - b) < 1e-5 * (1 + fabs(b));
}

static void scaled_to_the_learners_wish(void) {
    data d, v;
    fill(&d, false, true);
    fill(&v, false, true);
    v.samples.count = 1;
    v.values[0] = 30;
    v.targets[0] = 50;
    pl_trained_settings with = settings;
    with.learn.options = "";
    with.learn.valid = &v.samples;
    pl_trained *t = NULL;
    pl_error err = {0};
    answer = NAN;
    CHECK_INT(pl_trained_train(&t, &seer, &d.samples, &with, &err), PL_OK);
    if (!t) return;
    for (int c = 0; c < 2; c++) CHECK(fabs(saw.mean[c]) < 1e-6 && near(saw.deviation[c], 1));
    CHECK(saw.mean[2] == 0 && saw.deviation[2] == 0); /* constant: dropped to 0 */
    CHECK(t->columns[2].scale == 0 && t->columns[2].shift == 42);
    CHECK(fabs(saw.step_mean) < 1e-6 && near(saw.step_deviation, 1));
    CHECK(fabs(saw.target_mean) < 1e-6 && near(saw.target_deviation, 1));
    double mean, deviation;
    spread(d.targets, ROWS, 1, &mean, &deviation);
    CHECK(near(saw.valid_value, (30 - 11.5) / sqrt((ROWS * ROWS - 1) / 12.0)));
    CHECK(near(saw.valid_target, (50 - mean) / deviation));
    CHECK(near(t->target_shift, mean) && near(t->target_scale, 1 / deviation));
    CHECK(t->below == 0 && t->above == 0 && t->extra[0] == 0 && t->extra[7] == 0);
    CHECK_INT(t->rows, ROWS);
    CHECK_INT(t->seed, 17);
    CHECK_STR(t->options, "");
    CHECK_STR(t->command, settings.command);
    CHECK_STR(t->columns[1].name, "parameters");
    CHECK_STR(t->channels[1].name, "type");

    /* The answer 2 of the learner is two deviations above the mean of the targets. */
    float out[ROWS];
    answer = 2;
    CHECK_INT(pl_trained_predict(t, &d.samples, out, &err), PL_OK);
    CHECK(near(out[0], mean + 2 * deviation));
    answer = INFINITY;
    CHECK_INT(pl_trained_predict(t, &d.samples, out, &err), PL_INPUT);
    CHECK(strstr(err.message, "'decision-tree' answers sample 1 of 24 with what is no number"));
    answer = NAN;
    d.samples.count = 0;
    CHECK_INT(pl_trained_predict(t, &d.samples, out, &err), PL_OK);
    pl_trained_close(&t);
    CHECK(t == NULL);
    pl_trained_close(&t);
    pl_trained_close(NULL);
}

static void classes_have_probabilities(void) {
    data d;
    fill(&d, true, false);
    pl_trained_settings with = settings;
    with.learn.options = "";
    pl_trained *t = NULL;
    pl_error err = {0};
    answer = NAN;
    CHECK_INT(pl_trained_train(&t, &seer, &d.samples, &with, &err), PL_OK);
    if (!t) return;
    CHECK_INT(t->class_count, 3);
    CHECK(t->class_values[0] == 0 && t->class_values[2] == 2);
    CHECK(t->target_shift == 0 && t->target_scale == 1);
    float out[ROWS * 3];
    CHECK_INT(pl_trained_predict(t, &d.samples, out, &err), PL_OK);
    /* Logits x, x + 1, x + 2: the same shares whatever x. */
    double sum = 1 + exp(1) + exp(2);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < 3; c++) CHECK(near(out[i * 3 + c], exp(c) / sum));
    answer = 1e38f; /* no overflow */
    CHECK_INT(pl_trained_predict(t, &d.samples, out, &err), PL_OK);
    CHECK(near(out[0], 1 / 3.0));
    answer = NAN;
    pl_trained_close(&t);
}

/* ---- what is refused ---- */

static void refused(const data *d, const pl_trained_settings *with, pl_status status,
                    const char *says) {
    pl_trained *t = NULL;
    pl_error err = {0};
    CHECK_INT(pl_trained_train(&t, &seer, &d->samples, with, &err), status);
    CHECK(t == NULL);
    if (!strstr(err.message, says)) CHECK_STR(err.message, says);
    pl_trained_close(&t);
}

static void training_refuses(void) {
    data d;
    pl_trained_settings with = settings;
    fill(&d, false, false);
    d.samples.count = 0;
    refused(&d, &with, PL_INPUT, "there are no samples");
    fill(&d, false, false);
    d.samples.columns = 0;
    refused(&d, &with, PL_INPUT, "no columns");
    fill(&d, false, false);
    d.values[4 * COLUMNS + 1] = NAN;
    refused(&d, &with, PL_INPUT, "column 'parameters' of sample 5 of 24 is ");
    fill(&d, false, false);
    d.values[23 * COLUMNS] = -INFINITY;
    refused(&d, &with, PL_INPUT, "column 'batch' of sample 24 of 24 is -inf, a finite number");
    fill(&d, false, true);
    d.steps[1 * 2 + 1] = INFINITY;
    refused(&d, &with, PL_INPUT, "channel 'type' of sample 3 of 24, step 1, is inf");
    fill(&d, false, true);
    d.begin[6] = 0;
    refused(&d, &with, PL_INPUT, "the steps of sample 6 end before they begin");
    fill(&d, false, false);
    d.targets[2] = NAN;
    refused(&d, &with, PL_INPUT, "the target of sample 3 of 24 is ");
    for (int i = 0; i < ROWS; i++) d.targets[i] = 7;
    refused(&d, &with, PL_INPUT, "the target of all 24 samples is 7, there is nothing to learn");
    d.samples.targets = NULL;
    refused(&d, &with, PL_INPUT, "no targets");
    fill(&d, false, false);
    d.samples.weights = d.weights;
    d.weights[3] = -1;
    refused(&d, &with, PL_INPUT, "the weight of sample 4 of 24 is -1");
    memset(d.weights, 0, sizeof d.weights);
    refused(&d, &with, PL_INPUT, "the weights of all 24 samples are 0");

    fill(&d, true, false);
    for (int i = 0; i < ROWS; i++) d.classes[i] = i % 2 * 2;
    refused(&d, &with, PL_INPUT, "class 1 of 3 (from 0) has no samples");
    d.classes[8] = 3;
    refused(&d, &with, PL_INPUT, "the class of sample 9 of 24 is 3, 0 to 2 are expected");
    d.classes[8] = -1;
    refused(&d, &with, PL_INPUT, "the class of sample 9 of 24 is -1");
    fill(&d, true, false);
    memset(d.classes, 0, sizeof d.classes);
    d.samples.class_count = 1;
    refused(&d, &with, PL_INPUT, "1 classes, 2 to");
    d.samples.classes = NULL;
    refused(&d, &with, PL_INPUT, "no classes");

    fill(&d, false, false);
    with.learn.options = "fail";
    refused(&d, &with, PL_USAGE, "no");
    with.learn.options = "";
    with.command = "\xff";
    refused(&d, &with, PL_USAGE, "UTF-8 is expected");
    with = settings;
    char longer[PL_TRAINED_NAME_MOST + 2];
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = 0;
    with.estimator = longer;
    refused(&d, &with, PL_USAGE, "at most 255 are expected");

    /* Validation samples are held to the same. */
    data v;
    fill(&v, false, false);
    with = settings;
    with.learn.valid = &v.samples;
    v.values[0] = NAN;
    refused(&d, &with, PL_INPUT, "column 'batch' of sample 1 of 24");
    fill(&v, true, false);
    refused(&d, &with, PL_INPUT, "the validation samples have 3 classes, 0 are expected");
    fill(&v, false, false);
    v.samples.columns = 2;
    refused(&d, &with, PL_INPUT, "column 'same' is missing");
}

static void predicting_refuses(void) {
    static const char *const swapped[] = {"parameters", "batch", "same"};
    static const char *const more[] = {"batch", "parameters", "same", "depth"};
    data d;
    fill(&d, false, true);
    pl_trained_settings with = settings;
    with.learn.options = "";
    pl_trained *t = NULL;
    pl_error err = {0};
    float out[ROWS];
    CHECK_INT(pl_trained_train(&t, &seer, &d.samples, &with, &err), PL_OK);
    if (!t) return;
    struct {
        pl_samples samples;
        const char *says;
    } cases[] = {
        {d.samples, "column 1 of 3 is 'parameters', the model was trained on 'batch'"},
        {d.samples, "column 'depth' is unknown: there are 4, the model was trained on 3"},
        {d.samples, "column 'parameters' is missing: there are 1, the model was trained on 3"},
        {d.samples, "channel 'activations' is missing: there are 0, the model was trained on 2"},
    };
    cases[0].samples.names = swapped;
    cases[1].samples.names = more;
    cases[1].samples.columns = 4;
    cases[2].samples.columns = 1;
    cases[3].samples.channels = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_INT(pl_trained_predict(t, &cases[i].samples, out, &err), PL_INPUT);
        CHECK_STR(err.message, cases[i].says);
    }
    d.values[COLUMNS] = NAN;
    CHECK_INT(pl_trained_predict(t, &d.samples, out, &err), PL_INPUT);
    CHECK(strstr(err.message, "column 'batch' of sample 2 of 24"));
    d.values[COLUMNS] = 3e38f; /* far out is seen as far out, not as infinite */
    t->columns[0].scale = 100;
    CHECK_INT(pl_trained_predict(t, &d.samples, out, &err), PL_OK);
    CHECK(isfinite(out[1]));
    pl_trained_close(&t);
}

/* ---- files ---- */

static pl_trained *train_tree(data *d, bool classifier) {
    pl_trained *t = NULL;
    pl_error err = {0};
    fill(d, classifier, false);
    CHECK_INT(pl_trained_train(&t, &pl_learner_tree, &d->samples, &settings, &err), PL_OK);
    if (!t) printf("    %s\n", err.message);
    return t;
}

static void *read_whole(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    void *bytes = malloc(1 << 20);
    *size = file && bytes ? fread(bytes, 1, 1 << 20, file) : 0;
    if (file) fclose(file);
    return bytes;
}

static void saved_and_opened(void) {
    char folder[] = "/tmp/plimsoll-trained-XXXXXX", path[64], link[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/a.model", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    for (int classifier = 0; classifier < 2; classifier++) {
        data d;
        pl_trained *t = train_tree(&d, classifier), *again = NULL;
        pl_error err = {0};
        if (!t) return;
        t->below = -3.5f;
        t->above = 2;
        t->extra[7] = 1e-3;
        if (classifier) ((float *)t->class_values)[2] = 8000;
        CHECK_INT(pl_trained_save(&t, 1, path, &err), PL_OK);
        CHECK_INT(pl_trained_open(&again, path, &err), PL_OK);
        if (!again) {
            printf("    %s: %s\n", err.where, err.message);
            pl_trained_close(&t);
            continue;
        }
        float first[ROWS * 3], second[ROWS * 3];
        CHECK_INT(pl_trained_predict(t, &d.samples, first, &err), PL_OK);
        CHECK_INT(pl_trained_predict(again, &d.samples, second, &err), PL_OK);
        CHECK(memcmp(first, second, (classifier ? sizeof first : sizeof first / 3)) == 0);
        CHECK_STR(again->estimator, "decision-tree");
        CHECK_STR(again->target, "mib");
        CHECK_STR(again->options, "depth=4");
        CHECK_STR(again->command, settings.command);
        CHECK_STR(again->data, settings.data);
        CHECK_INT(again->seed, 17);
        CHECK_INT(again->rows, ROWS);
        CHECK_INT(again->column_count, COLUMNS);
        CHECK_INT(again->class_count, classifier ? 3 : 0);
        CHECK(again->below == -3.5f && again->above == 2 && again->extra[7] == 1e-3);
        if (classifier) CHECK(again->class_values[2] == 8000);

        /* Trained again, and saved again: byte for byte the same, also through a link. */
        size_t size, other_size;
        void *bytes = read_whole(path, &size);
        CHECK_INT(symlink("a.model", link), 0);
        CHECK_INT(pl_trained_save(&again, 1, link, &err), PL_OK);
        void *other = read_whole(path, &other_size);
        CHECK(size > 100 && size == other_size && memcmp(bytes, other, size) == 0);
        free(other);
        struct stat info;
        CHECK(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
        unlink(link);
        data e;
        pl_trained *twin = train_tree(&e, classifier);
        pl_writer w = {0};
        if (twin) {
            twin->below = -3.5f;
            twin->above = 2;
            twin->extra[7] = 1e-3;
            if (classifier) ((float *)twin->class_values)[2] = 8000;
            CHECK_INT(pl_trained_write(twin, &w, &err), PL_OK);
        }
        CHECK(w.size == size && memcmp(w.bytes, bytes, size) == 0);
        free(w.bytes);
        free(bytes);
        pl_trained_close(&twin);
        pl_trained_close(&again);
        pl_trained_close(&t);
    }
    unlink(path);
    CHECK_INT(rmdir(folder), 0); /* nothing temporary is left in it */
}

static void saving_refuses(void) {
    data d;
    pl_trained *t = train_tree(&d, true);
    pl_error err = {0};
    if (!t) return;
    CHECK_INT(pl_trained_save(&t, 1, "/nowhere/at/all.model", &err), PL_MISSING);
    CHECK_STR(err.where, "/nowhere/at/all.model");
    CHECK(strstr(err.message, "cannot write"));
    CHECK_INT(pl_trained_save(&t, 1, ".", &err), PL_USAGE);
    CHECK(strstr(err.message, "a plain file is expected"));
    ((float *)t->class_values)[1] = 5;
    CHECK_INT(pl_trained_save(&t, 1, "unwritten.model", &err), PL_INPUT);
    CHECK(strstr(err.message, "expected ascending edges of the classes"));
    ((float *)t->class_values)[1] = 1;
    t->extra[0] = NAN;
    CHECK_INT(pl_trained_save(&t, 1, "unwritten.model", &err), PL_INPUT);
    CHECK(strstr(err.message, "expected a finite number"));
    CHECK(access("unwritten.model", F_OK) != 0);
    pl_trained_close(&t);
    CHECK_INT(pl_trained_open(&t, "/nowhere/at/all.model", &err), PL_INPUT);
    CHECK(t == NULL);
}

/* Puts the right size and checksum in, so that what is behind them is read. */
static void fix_sum(unsigned char *bytes, size_t size) {
    if (size < 24) return;
    for (int i = 0; i < 8; i++) bytes[16 + i] = (unsigned char)((uint64_t)(size - 24) >> 8 * i);
    uint32_t sum = (uint32_t)crc32(0, bytes + 16, (uInt)(size - 16));
    for (int i = 0; i < 4; i++) bytes[12 + i] = (unsigned char)(sum >> 8 * i);
}

static void header_refused(void) {
    data d;
    pl_trained *t = train_tree(&d, false), *again = NULL;
    pl_writer w = {0};
    pl_error err = {0};
    if (!t || pl_trained_write(t, &w, &err) != PL_OK) return;
    static const struct {
        size_t at;
        const char *says;
    } cases[] = {
        {0, "expected a model file"},
        {4, "expected a model file"},
        {8, "expected version 2 of the model file, it says"},
        {12, "expected the checksum"},
        {16, "bytes behind this place, there are"},
        {40, "expected the checksum"},
    };
    static const int64_t positions[] = {0, 0, 8, 12, 16, 12};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        w.bytes[cases[i].at] ^= 0x20;
        CHECK_INT(pl_trained_read(&again, w.bytes, w.size, NULL, "x.model", &err), PL_INPUT);
        w.bytes[cases[i].at] ^= 0x20;
        CHECK_STR(err.where, "x.model");
        CHECK_INT(err.position, positions[i]);
        if (!strstr(err.message, cases[i].says)) CHECK_STR(err.message, cases[i].says);
    }
    w.bytes[8] = 1;
    CHECK_INT(pl_trained_read(&again, w.bytes, w.size, NULL, "x.model", &err), PL_INPUT);
    CHECK_STR(err.message, "expected version 2 of the model file, it says 1: made by an older "
                           "version of plimsoll, train it again");
    w.bytes[8] = 2;
    unsigned char *name = memchr(w.bytes + 176, 't', w.size - 176);
    while (memcmp(name, "tree", 5) != 0) name++;
    name[0] ^= 1; /* "tree" becomes "uree" */
    fix_sum(w.bytes, w.size);
    CHECK_INT(pl_trained_read(&again, w.bytes, w.size, NULL, "x.model", &err), PL_INPUT);
    CHECK_STR(err.message, "expected the name of a learner that this version has");
    CHECK_INT(err.position, 120);
    name[0] ^= 1;
    pl_write_u8(&w, 0);
    size_t size = w.size;
    fix_sum(w.bytes, size);
    CHECK_INT(pl_trained_read(&again, w.bytes, size, NULL, "x.model", &err), PL_INPUT);
    CHECK_STR(err.message, "expected a part of a multiple of 16 bytes");
    CHECK_INT(err.position, 16);
    CHECK_INT(pl_trained_read(&again, NULL, 0, NULL, "x.model", &err), PL_INPUT);
    CHECK_INT(err.position, 0);
    free(w.bytes);
    pl_trained_close(&t);
}

static void every_truncation_is_refused(void) {
    for (int classifier = 0; classifier < 2; classifier++) {
        data d;
        pl_trained *t = train_tree(&d, classifier), *again = NULL;
        pl_writer w = {0};
        pl_error err = {0};
        if (!t || pl_trained_write(t, &w, &err) != PL_OK) return;
        for (size_t size = 0; size < w.size; size++) {
            unsigned char *cut = malloc(size ? size : 1); /* its own: reading past it is seen */
            if (!cut) break;
            memcpy(cut, w.bytes, size);
            for (int fixed = 0; fixed < 2; fixed++) {
                if (fixed) fix_sum(cut, size);
                err = (pl_error){0};
                bool right = pl_trained_read(&again, cut, size, NULL, "cut", &err) == PL_INPUT &&
                             !again && err.position >= 0 && err.position <= (int64_t)size &&
                             strncmp(err.message, "expected ", 9) == 0;
                CHECK(right);
                if (!right) printf("    %zu of %zu bytes: %s\n", size, w.size, err.message);
                pl_trained_close(&again);
            }
            free(cut);
        }
        free(w.bytes);
        pl_trained_close(&t);
    }
}

/* Each byte with each bit turned, and inverted: refused with a place, or what was loaded answers.
 */
static void every_flip_is_refused_or_safe(void) {
    int refusals = 0, loads = 0;
    for (int classifier = 0; classifier < 2; classifier++) {
        data d;
        pl_trained *t = train_tree(&d, classifier), *again = NULL;
        pl_writer w = {0};
        pl_error err = {0};
        float out[ROWS * 3];
        if (!t || pl_trained_write(t, &w, &err) != PL_OK) return;
        for (size_t at = 24; at < w.size; at++)
            for (int bit = 0; bit < 9; bit++) {
                unsigned char turned = (unsigned char)(bit == 8 ? 0xff : 1 << bit);
                w.bytes[at] ^= turned;
                if (bit == 0)
                    CHECK_INT(pl_trained_read(&again, w.bytes, w.size, NULL, "flip", &err),
                              PL_INPUT);
                fix_sum(w.bytes, w.size);
                err = (pl_error){0};
                pl_status status = pl_trained_read(&again, w.bytes, w.size, NULL, "flip", &err);
                if (status == PL_OK) {
                    status = pl_trained_predict(again, &d.samples, out, &err);
                    CHECK(status == PL_OK || status == PL_INPUT);
                    loads++;
                } else {
                    CHECK(status == PL_INPUT && err.position >= 16 && !again);
                    CHECK(strncmp(err.message, "expected ", 9) == 0);
                    refusals++;
                }
                pl_trained_close(&again);
                w.bytes[at] ^= turned;
                fix_sum(w.bytes, w.size);
            }
        free(w.bytes);
        pl_trained_close(&t);
    }
    CHECK(refusals > 500 && loads > 500); /* texts and numbers may change, sizes may not */
}

/* ---- the registry ---- */

static void learners_are_found(void) {
    size_t count = 0;
    for (const pl_learner *l; (l = pl_learner_at(count)) != NULL; count++) {
        CHECK(pl_learner_find(l->name) == l);
        CHECK(strcmp(l->scaled, "standard") == 0 || strcmp(l->scaled, "as-is") == 0);
        CHECK(l->predict && l->save && l->load && l->close);
    }
    CHECK_INT(count, 8);
    CHECK(pl_learner_find("oracle") == NULL);
    pl_learned *none = NULL;
    pl_learned_close(&none);
    pl_learned_close(NULL);
}

int main(void) {
    pl_lab_register();
    RUN(scaled_to_the_learners_wish);
    RUN(classes_have_probabilities);
    RUN(training_refuses);
    RUN(predicting_refuses);
    RUN(saved_and_opened);
    RUN(saving_refuses);
    RUN(header_refused);
    RUN(every_truncation_is_refused);
    RUN(every_flip_is_refused_or_safe);
    RUN(learners_are_found);
    return check_done();
}
